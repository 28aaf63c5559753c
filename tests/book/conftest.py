"""The toy book is built once for all tests that only look at it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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
