"""A course that was released and graded when the course's content was in the package `autograder` (commit ae609a4).

`data/course_of_the_former_layout.tar.xz` is its folder: the chapter softmax, and submissions of the sample class.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
import pytest

from autograder.__main__ import main
from autograder.gradebook import released
from course.folder import ROOT
from tests.autograder import small_course

FOLDER = Path(__file__).with_name("data") / "course_of_the_former_layout.tar.xz"
STEM = "softmax"


@pytest.fixture
def course(tmp_path, monkeypatch):
    with tarfile.open(FOLDER) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("COURSE_DIR", str(tmp_path / "course"))
    return tmp_path / "course"


def grades(course):
    """Every score of the gradebook, by student and cell."""
    with small_course.book(course) as gradebook:
        return {
            (submission.student_id, grade.name): (grade.auto_score, grade.manual_score, grade.extra_credit)
            for submission in gradebook.assignment_submissions(STEM)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def of_the_present_release(course) -> set[bool]:
    """Whether each grade is of the cells, the seed and the code that decides points now."""
    with small_course.book(course) as gradebook:
        plans = released.plans(gradebook, STEM, course / "release" / STEM)
    now = released.fingerprint(plans, course)
    return {
        json.loads(path.read_text())["graded"]["release"] == now for path in course.glob("autograded/*/*/results.json")
    }


def test_it_is_graded_again_once_since_its_checks_have_changed_and_all_grades_stay(needs_jail, course, capfd):
    before = grades(course)
    assert len(before) >= 12 and of_the_present_release(course) == {False}
    for said in ("graded under an older release; grading again", "nothing new"):
        assert main(["grade", STEM, "--course", str(course), "--workers", "1"]) == 0
        assert said in capfd.readouterr().err
        assert grades(course) == before and of_the_present_release(course) == {True}


def test_the_modules_that_its_notebooks_and_a_configuration_name_are_there(course):
    cells = nbformat.read(course / "source" / STEM / f"{STEM}.ipynb", as_version=4).cells
    named = {module for cell in cells for module in re.findall(r"^from (autograder[\w.]*) import", cell.source, re.M)}
    assert named == {"autograder.hidden"}
    assert importlib.import_module("autograder.hidden").check_for
    plugins = ("autograde", "export", "feedback", "late", "preprocessors", "stock", "zipcollect")
    assert all(importlib.import_module(f"autograder.nbgrader_plugins.{name}") for name in plugins)


def test_a_configuration_that_loads_the_graders_own_finds_it(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text(
        f"load_subconfig({str(ROOT / 'autograder' / 'nbgrader_config.py')!r})\n"
    )
    load = (
        "from traitlets.config import PyFileConfigLoader as Loader; print(Loader('nbgrader_config.py').load_config())"
    )
    environment = {**os.environ, "COURSE_DIR": str(tmp_path / "course")}
    done = subprocess.run([sys.executable, "-c", load], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "course") in done.stdout and "autograder.nbgrader_plugins.late.LateRules" in done.stdout
