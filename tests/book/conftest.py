"""The toy book, and the course's own, are built once for all tests that only look at them.

`BOOK_HTML=folder` names a book that has just been built from this checkout, so that it is not built another time.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from book import build_stamp
from course.folder import ROOT
from tests.book.pages import WIDTHS, begin, nothing_went_wrong
from tests.conftest import new_page

sys.path.insert(0, str(Path(__file__).parent))

import toy  # noqa: E402

STRICT = ("-W", "-n", "--keep-going")


@pytest.fixture(scope="session")
def toy_book(shared):
    """The root of a toy course that has been built with warnings as errors."""

    def make(folder):
        done = toy.build(toy.make(folder), *STRICT)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    return shared("toy", make)


@pytest.fixture(scope="session")
def toy_site(toy_book):
    """The folder of the built toy site."""
    return toy_book / "_build" / "html"


@pytest.fixture(scope="session")
def site(shared):
    """The folder of the built book: what BOOK_HTML names, or the checkout's own, built again if it is not current."""
    if "BOOK_HTML" in os.environ:
        folder = Path(os.environ["BOOK_HTML"]).resolve()
        assert (folder / "index.html").is_file(), f"BOOK_HTML names no built book: {folder}"
        return folder
    shared("book", build_book)
    return ROOT / "_build" / "html"


def build_book(done: Path) -> None:
    """Build the book where `make book` does, warnings as errors. No chapter runs that has run as it is.

    All pages: of those that have not changed a build would not tell the warnings once more.
    """
    html = ROOT / "_build" / "html"
    if not build_stamp.is_current(html):
        build_stamp.path(html).unlink(missing_ok=True)
        run = subprocess.run(
            [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "--all", *STRICT],
            cwd=ROOT,
            text=True,
            capture_output=True,
            timeout=1800,
            env={**os.environ, "EDITION": ""},
        )
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        build_stamp.path(html).write_text(build_stamp.made_from(), "ascii")
    done.touch()


@pytest.fixture(scope="session")
def addresses(site, serve):
    return {"http": serve(site), "file": site.as_uri()}


@pytest.fixture
def visit(addresses, browser):
    """`visit(page, scheme="http")` opens a page of the book for one test alone; nothing on it may go wrong."""
    opened = []

    def go(page, scheme="http"):
        page_of_its_own = new_page(browser, viewport=WIDTHS["laptop"], reduced_motion="reduce")
        opened.append(begin(page_of_its_own, f"{addresses[scheme]}/{page}.html"))
        return page_of_its_own

    yield go
    for seen in opened:
        seen.page.context.close()
        nothing_went_wrong(seen)


class _Packing(http.server.SimpleHTTPRequestHandler):
    """A server as a book is published on: text is packed with gzip, and an unknown address gives 404.html."""

    def __init__(self, *args, sent: dict[str, int], **kwargs):
        self.sent = sent
        super().__init__(*args, **kwargs)

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        path, status = (path / "index.html" if path.is_dir() else path), 200
        if not path.is_file():
            path, status = Path(self.directory, "404.html"), 404
        content = path.read_bytes()
        self.send_response(status)
        if path.suffix not in {".woff2", ".png"}:
            content = gzip.compress(content, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        name = urlsplit(self.path).path
        self.sent[name] = self.sent.get(name, 0) + len(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def serve_packed():
    """`serve_packed(folder)` gives the address of such a server, and the bytes that it sends, by path."""
    servers = []

    def start(folder: Path) -> tuple[str, dict[str, int]]:
        sent: dict[str, int] = {}
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(_Packing, directory=str(folder), sent=sent)
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", sent

    yield start
    for server in servers:
        server.shutdown()
