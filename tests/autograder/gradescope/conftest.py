"""The zip for Gradescope, made once, and unpacked in a container as Gradescope does it."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from autograder.__main__ import main
from tests.autograder import small_course

KEPT = ("attention_weights", "attention_backward")


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """A small course: one exercise, one bonus, a written question."""
    course = tmp_path_factory.mktemp("gradescope") / "course"
    small_course.make(course, {"attention": small_course.thin("attention", KEPT)}, assignment="attention")
    return course


@pytest.fixture(scope="session")
def bundle(course, tmp_path_factory):
    path = tmp_path_factory.mktemp("dist") / "made" / "gradescope.zip"
    assert main(["gradescope", "attention", "--course", str(course), "--to", str(path), "--minutes", "5"]) == 0
    return path


@pytest.fixture(scope="session")
def unpacked(bundle, tmp_path_factory):
    """The content of /autograder in Gradescope's image, except that the running environment replaces the image's."""
    root = tmp_path_factory.mktemp("image") / "autograder"
    with zipfile.ZipFile(bundle) as archive:
        for member in archive.infolist():
            path = Path(archive.extract(member, root / "source"))
            path.chmod(member.external_attr >> 16)
    shutil.copy(root / "source" / "run_autograder", root)
    (root / "venv").symlink_to(sys.prefix)
    return root


@pytest.fixture
def image(unpacked, tmp_path):
    """A fresh copy, as each submission gets it."""
    root = shutil.copytree(unpacked, tmp_path / "autograder", symlinks=True)
    (root / "submission").mkdir()
    (root / "results").mkdir()
    os.chmod(root, 0o755)
    return root
