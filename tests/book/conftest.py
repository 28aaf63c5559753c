"""The toy book, and the course's own, are built once for all tests that only look at them.

`BOOK_HTML=folder` names a book that has just been built from this checkout, so that it is not built another time.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from book import build_stamp
from course.folder import ROOT
from tests.book.pages import WIDTHS, begin, nothing_went_wrong
from tests.conftest import Quiet, new_page, start_server

sys.path.insert(0, str(Path(__file__).parent))

import toy  # noqa: E402


@pytest.fixture(scope="session")
def toy_book(shared):
    """The root of a toy course that has been built with warnings as errors."""

    return shared("toy", lambda folder: toy.build(toy.make(folder), *toy.STRICT))


@pytest.fixture(scope="session")
def toy_site(toy_book):
    """The folder of the built toy site."""
    return toy_book / "_build" / "html"


@pytest.fixture
def again(toy_book, tmp_path):
    """The built toy book once more, to change it."""
    return shutil.copytree(toy_book, tmp_path / "again")


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
        toy.build(ROOT, "--all", *toy.STRICT)
        build_stamp.path(html).write_text(build_stamp.made_from(), "ascii")
    done.touch()


@pytest.fixture(scope="session")
def addresses(site, serve):
    return {"http": serve(site), "file": site.as_uri()}


@pytest.fixture
def open_page(browser):
    """`open_page(address, **context)` opens a page for one test alone; nothing on it may go wrong.

    script: runs in the page before its own
    """
    opened = []

    def go(address, script="", **options):
        page = new_page(browser, **{"viewport": WIDTHS["laptop"], **options})
        page.add_init_script(script)
        opened.append(begin(page, address))
        return page

    yield go
    for seen in opened:
        seen.page.context.close()
        nothing_went_wrong(seen)


@pytest.fixture
def visit(addresses, open_page):
    """`visit(page, scheme="http")`: the same for a page of the book."""
    return lambda page, scheme="http": open_page(f"{addresses[scheme]}/{page}.html", reduced_motion="reduce")


@pytest.fixture
def toy_page(toy_site, open_page):
    """The chapter of the toy book, from the file system; nothing on it may go wrong."""
    return open_page(f"{toy_site.as_uri()}/chapters/toy.html")


class _Packing(Quiet):
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


@pytest.fixture
def serve_packed():
    """`serve_packed(folder)` gives the address of such a server, and the bytes that it sends, by path."""

    def start(folder: Path) -> tuple[str, dict[str, int]]:
        sent: dict[str, int] = {}
        return start_server(_Packing, folder, sent=sent), sent

    return start
