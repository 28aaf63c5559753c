"""A course that was released when masks and today's models were a chapter each (commit 5561f18).

`data/course_before_the_division.tar.xz` is its folder: both chapters, graded for a student who has everything right and
for one who has not. Its notebooks stay gradable, with the same scores, although some of their exercises have moved.
"""

from __future__ import annotations

import csv
import shutil
import tarfile
from pathlib import Path

import pytest

from autograder.__main__ import main
from autograder.gradebook import released
from course import assemble, catalog, prerequisites
from course.errors import CourseError
from tests.autograder import small_course
from tests.conftest import the_others_weekly

FOLDER = Path(__file__).with_name("data") / "course_before_the_division.tar.xz"
pytestmark = pytest.mark.usefixtures("needs_jail")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("divided")
    with tarfile.open(FOLDER) as archive:
        archive.extractall(folder, filter="data")
    return folder / "course"


def scores(course, stem):
    """Every score of a chapter's notebook, by student and cell; and what each student has in all."""
    with small_course.book(course) as gradebook:
        submissions = gradebook.assignment_submissions(stem)
        cells = {
            (submission.student_id, grade.name): (grade.auto_score, grade.extra_credit)
            for submission in submissions
            for notebook in submission.notebooks
            for grade in notebook.grades
        }
        return cells, {submission.student_id: submission.score for submission in submissions}


@pytest.mark.parametrize("stem", the_others_weekly(["masks", "modern_attention"], "masks"))
def test_its_notebooks_are_collected_and_graded_with_the_same_scores(course, tmp_path, capfd, stem):
    before = scores(course, stem)
    assert len(set(before[1].values())) == 2
    for student in ("ada", "boris"):  # both hand in again
        shutil.copy(course / "submitted" / student / stem / f"{stem}.ipynb", tmp_path / f"{student}_{stem}.ipynb")
    assert main(["collect", stem, str(tmp_path), "--course", str(course)]) == 0
    capfd.readouterr()
    assert main(["grade", stem, "--course", str(course), "--workers", "1"]) == 0
    assert "2/2" in capfd.readouterr().err
    assert scores(course, stem) == before


@pytest.mark.parametrize("stem", the_others_weekly(["masks", "modern_attention"], "masks"))
def test_they_are_reported_and_exported_as_any_other(course, tmp_path, capfd, stem):
    assert main(["report", stem, "--course", str(course)]) in (0, 1)  # written answers wait for a person
    moved = {"masks": "next_token_loss (7)", "modern_attention": "soft_cap (7)"}[stem]
    assert moved.split()[0] in capfd.readouterr().out
    assert main(["export", "by-exercise", "--to", str(tmp_path / "grades.csv"), "--course", str(course)]) in (0, 1)
    header, *rows = csv.reader((tmp_path / "grades.csv").open())
    assert len(rows) == 2 and any(moved in name for name in header), header


@pytest.mark.parametrize("stem", ["masks"])
def test_the_new_notebook_of_such_a_chapter_does_not_replace_the_old_one(course, stem):
    with small_course.book(course) as gradebook, pytest.raises(CourseError, match="removes next_token_loss"):
        released.ensure_same_cells(gradebook, stem, stem, assemble.source_notebook(stem).cells)


def test_nothing_of_such_a_notebook_is_lent_to_it():
    for notebook in catalog.DIVIDED:
        assert not set(prerequisites.names(notebook)) & set(catalog.exercises_in(notebook))
        assert {name for chapter in catalog.chapters_in(notebook) for name in catalog.exercises_of(chapter)} == set(
            catalog.exercises_in(notebook)
        )
