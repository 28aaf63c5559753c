"""The shipped class, graded with stock nbgrader commands from release to feedback and CSV."""

import csv
import os
import re
import subprocess
import sys

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.demo import sample_class
from autograder.reports import csv_table, read
from course import catalog, release
from course.errors import CourseError
from course.folder import GRADEBOOK_URL, ROOT
from tests.conftest import write_files

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Plain Python, NumPy, a stretch exercise, classes, and a chapter that builds on earlier ones.
STEMS = ("dot_products", "softmax", "attention", "kv_cache")


@pytest.fixture(scope="session")
def real_gradebook(tmp_path_factory):
    """A real course's gradebook, in which one of the names is a student's; and its bytes before."""
    path = tmp_path_factory.mktemp("real") / "gradebook.db"
    with Gradebook(f"sqlite:///{path}", "attention") as gradebook:
        gradebook.add_assignment("softmax")
        gradebook.add_notebook("softmax", "softmax")
        gradebook.add_grade_cell("check-softmax", "softmax", "softmax", max_score=8, cell_type="code")
        gradebook.add_student("ada")
        gradebook.add_submission("softmax", "ada")
        gradebook.find_grade("check-softmax", "softmax", "softmax", "ada").auto_score = 0.25
        gradebook.db.commit()
    return path, path.read_bytes()


@pytest.fixture(scope="session")
def graded(tmp_path_factory, real_gradebook):
    """The course folder after `make grade`, and what the command printed.

    GRADEBOOK_URL names a real gradebook, as it may where a course is under way.
    """
    course = tmp_path_factory.mktemp("course")
    environment = {**os.environ, GRADEBOOK_URL: f"sqlite:///{real_gradebook[0]}"}
    command = [sys.executable, "-m", "autograder", "sample", *STEMS, "--course", str(course)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, env=environment)
    assert done.returncode == 0, done.stderr
    return course, done.stdout


@pytest.fixture(scope="session")
def rows(graded):
    """By student and exercise: what grades.csv has as its points, and all else that the report says."""
    with (graded[0] / "grades.csv").open(newline="") as file:
        table = {row["student_id"]: row for row in csv.DictReader(file)}
    found = {}
    for stem in STEMS:
        for row in csv_table.report_rows(read.gather(stem, graded[0])):
            (column,) = [name for name in table["ada"] if name.startswith(f"{stem}: {row['exercise']} (")]
            found[row["student"], row["exercise"]] = {**row, "points": table[row["student"]][column]}
    return found


def test_a_real_gradebook_is_not_touched(graded, real_gradebook):
    path, before = real_gradebook
    assert path.read_bytes() == before


def points(rows, student, exercise):
    return float(rows[student, exercise]["points"])


CHAPTERS = {
    sample.student: tuple(stem for stem in STEMS if stem in (sample.chapters or STEMS))
    for sample in sample_class.samples()
}


def handed_in(student):
    """The exercises in the notebooks that a student handed in."""
    return [name for stem in CHAPTERS[student] for name in catalog.exercises_of(stem)]


# What a student loses of what was handed in: all points of these exercises, or some.
UNDONE = {
    "boris": set(handed_in("boris")) - set(sample_class.read_sample(sample_class.SAMPLES / "boris.py").references),
    "chiara": set(handed_in("chiara")),
    "farid": {"cosine_similarity", "log_softmax"},  # cells that raise leave the others unharmed
    "grace": {"softmax"},  # a cell that ends the process costs its own points alone
}
WRONG = {"esra": {"dot", "softmax", "softmax_temperature", "attention_weights", "repeat_kv"}}


@pytest.mark.parametrize("student", CHAPTERS)
def test_an_exercise_gets_full_marks_unless_it_is_wrong_or_undone(rows, student):
    for name in handed_in(student):
        got, full = points(rows, student, name), catalog.exercise(name).points
        if name in WRONG.get(student, ()):
            assert 0 <= got < full, name
        else:
            assert got == (0 if name in UNDONE.get(student, ()) else full), name


@pytest.mark.parametrize("stem", STEMS)
def test_no_cell_of_a_complete_notebook_raises_or_warns(graded, stem):
    notebook = nbformat.read(graded[0] / "autograded" / "ada" / stem / f"{stem}.ipynb", as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []


def test_every_chapter_has_a_complete_submission_and_one_with_mistakes():
    assert CHAPTERS["ada"] == CHAPTERS["esra"] == STEMS


def test_the_report_says_what_is_missing_late_or_graded_through_another(rows):
    assert points(rows, "esra", "dot") > 0  # right on equal lengths: only the refusal is lost
    assert rows["grace", "softmax"]["status"] == "graded"
    assert rows["grace", "softmax_temperature"]["through"] == "softmax"
    assert rows["ivo", "softmax"]["status"] == "not handed in" and rows["ivo", "softmax"]["points"] == ""
    assert rows["dmitri", "softmax"]["hours_late"] == 48 and rows["ada", "softmax"]["hours_late"] == 0


def test_written_answers_wait_for_a_human_and_no_answer_is_zero(rows):
    waiting, empty = rows["ada", "written-softmax"], rows["chiara", "written-softmax"]
    assert waiting["to_grade"] == "yes" and waiting["auto_score"] is waiting["manual_score"] is None
    assert empty["to_grade"] == "no" and points(rows, "chiara", "written-softmax") == empty["auto_score"] == 0


def test_a_real_course_is_never_taken_for_the_sample_class(tmp_path):
    work = "submitted/someone/softmax/softmax.ipynb"
    with pytest.raises(CourseError, match="would be lost"):
        sample_class.run(write_files(tmp_path, {work: "{}"}))
    assert (tmp_path / work).read_text() == "{}"


def test_the_summary_shows_every_student_and_what_the_sample_is_for(graded):
    for sample in sample_class.samples():
        line = next(line for line in graded[1].splitlines() if line.startswith(sample.student))
        assert sample.about in line
    assert "late" in next(line for line in graded[1].splitlines() if line.startswith("dmitri"))


def test_nbgraders_own_export_agrees_with_the_csv_and_has_stretch_points_on_top(graded, rows):
    with (graded[0] / "nbgrader_export.csv").open(newline="") as file:
        exported = {(row["student_id"], row["assignment"]): row for row in csv.DictReader(file)}
    for student in ("ada", "boris", "esra", "farid"):
        for stem in CHAPTERS[student]:
            mine = sum(points(rows, student, name) for name in catalog.exercises_of(stem))
            assert float(exported[student, stem]["score"]) == pytest.approx(mine)
    row = exported["ada", "attention"]
    regular = sum(e.points for e in catalog.exercises_of("attention").values() if not e.bonus)
    assert float(row["max_score"]) == regular + catalog.written_of("attention").points
    assert float(row["score"]) == regular + catalog.exercise("attention_backward").points


def feedback(course, student, stem):
    return (course / "feedback" / student / stem / f"{stem}.html").read_text("utf-8")


def test_feedback_names_the_mistake_in_words(graded):
    page = feedback(graded[0], "esra", "softmax")
    naive = "No maximum is subtracted."
    assert any(m.text.startswith(naive) for m in catalog.exercise("softmax").misconceptions)
    assert naive in re.sub(r"\s+", " ", page)


@pytest.mark.parametrize("student", ["ada", "chiara", "esra", "farid"])
def test_feedback_shows_no_hidden_test_no_rubric_and_no_reference(graded, student):
    for stem in CHAPTERS[student]:
        page = feedback(graded[0], student, stem)
        for word in ("autograder", "HIDDEN TESTS", "MARK SCHEME", "secret", "solutions"):
            assert word not in page, (stem, word)
        first = catalog.written_of(stem).rubric.strip().splitlines()[0].strip()
        assert first not in page


def test_the_rubric_is_there_for_the_instructor(graded):
    text = (graded[0] / "autograded" / "ada" / "softmax" / "softmax.ipynb").read_text("utf-8")
    assert "BEGIN MARK SCHEME" in text


def test_validate_tells_a_student_what_is_not_done_and_passes_finished_work(graded):
    course = graded[0]
    undone = validate(course / "release" / "softmax" / "softmax.ipynb")
    assert "VALIDATION FAILED" in undone
    finished = validate(course / "submitted" / "ada" / "softmax" / "softmax.ipynb")
    assert "Success!" in finished


def validate(path):
    command = [sys.executable, "-m", "nbgrader", "validate", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_generate_assignment_makes_exactly_the_notebook_that_the_book_offers(graded):
    for stem in STEMS:
        made = nbformat.read(graded[0] / "release" / stem / f"{stem}.ipynb", as_version=4)
        offered = release.student_notebook(stem)
        assert [(c.cell_type, c.source) for c in made.cells] == [(c.cell_type, c.source) for c in offered.cells]
        assert [c.metadata.get("nbgrader") for c in made.cells] == [c.metadata.get("nbgrader") for c in offered.cells]
