"""The toy book, and the course's own, are built once for all tests that only look at them.

`BOOK_HTML=folder` names a book that has just been built from this checkout, so that it is not built another time.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import registry
from tests.book.pages import WIDTHS, begin, nothing_went_wrong
from tests.conftest import new_page

sys.path.insert(0, str(Path(__file__).parent))

import toy  # noqa: E402


@pytest.fixture(scope="session")
def toy_book(tmp_path_factory):
    """The root of a toy course that has been built with warnings as errors."""
    root = toy.make(tmp_path_factory.mktemp("toy"))
    done = toy.build(root, "-W", "-n", "--keep-going")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return root


@pytest.fixture(scope="session")
def toy_site(toy_book):
    """The folder of the built toy site."""
    return toy_book / "_build" / "html"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built book. Warnings are errors."""
    if "BOOK_HTML" in os.environ:
        folder = Path(os.environ["BOOK_HTML"]).resolve()
        assert (folder / "index.html").is_file(), f"BOOK_HTML names no built book: {folder}"
        return folder
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # one book for all processes
    with open(shared / "book.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "book.built").exists():
            command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "-W", "-n", "--keep-going"]
            done = subprocess.run([*command, "--path-output", str(shared / "book")], cwd=registry.ROOT, text=True,
                                  capture_output=True, timeout=900)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            (shared / "book.built").touch()
    return shared / "book" / "_build" / "html"


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
