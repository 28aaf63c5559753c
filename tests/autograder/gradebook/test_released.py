"""Released notebooks: all cells in their order, and a fingerprint that tells when a grade depends on other things."""

import hashlib
import json
from dataclasses import asdict
from functools import partial

import nbformat
import pytest
from nbgrader.api import MissingEntry

from autograder.__main__ import main
from autograder.gradebook import released
from course import assemble, catalog, release
from course.cells import nbgrader_of
from course.errors import CourseError
from course.folder import course_seed
from course.nbgrader_each import _why
from tests.autograder import small_course
from tests.conftest import write_files

STEM = "dot_products"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    course = tmp_path_factory.mktemp("released") / "course"
    small_course.make(course, {STEM: small_course.thin(STEM), "own": small_course.own()}, ["ada"])
    return course


def plans(course, assignment=small_course.ASSIGNMENT):
    with small_course.book(course) as gradebook:
        return released.plans(gradebook, assignment, course / "release" / small_course.ASSIGNMENT)


def fingerprint(course):
    return released.fingerprint(plans(course), course)


def test_the_plan_has_all_cells_of_the_released_notebook_in_its_order(course):
    for name, plan in plans(course).items():
        cells = small_course.released(course, name).cells
        wanted = [(nbgrader_of(cell).get("grade_id"), cell.id, cell.source.strip()) for cell in cells]
        assert [(cell.name, cell.id, cell.text) for cell in plan] == wanted
    check = next(cell for cell in plans(course)[STEM] if cell.name == "check-dot")
    assert "check_for('dot')" in check.source and check.text == "check(dot)"
    assert (check.grade, check.locked, check.solution, check.points) == (True, True, False, 6.0)
    assert plans(course)["own"][0].source == "import numpy as np"
    assert [cell.name for cell in plans(course)["own"] if cell.task] == ["task"]


def test_newlines_do_not_change_a_release(course):
    before, path = plans(course), course / "release" / small_course.ASSIGNMENT / "own.ipynb"
    path.write_text(path.read_text("utf-8").replace("\\n", "\\r\\n"), "utf-8")
    assert plans(course) == before


def test_a_release_that_cannot_be_read_is_named_with_what_makes_it_again(course):
    (course / "release" / small_course.ASSIGNMENT / "own.ipynb").write_text("{", "utf-8")
    with pytest.raises(CourseError, match="own.ipynb cannot be read.*generate_assignment basics"):
        plans(course)
    with pytest.raises(MissingEntry, match="sofmax"):
        plans(course, "sofmax")


def _other_points_or_hidden_test(kind, course):
    with small_course.book(course) as gradebook:
        if kind == "points":
            gradebook.find_grade_cell("check-dot", STEM, small_course.ASSIGNMENT).max_score = 7
        else:
            gradebook.find_source_cell(
                "test-double", "own", small_course.ASSIGNMENT
            ).source += "\nassert double(0) == 0"
        gradebook.db.commit()


def _edit(kind, course):
    path = course / "release" / small_course.ASSIGNMENT / "own.ipynb"
    notebook = nbformat.read(path, as_version=4)
    if kind == "code":
        notebook.cells[0].source = "import numpy"
    notebook.cells.append(nbformat.v4.new_markdown_cell("A word more."))
    notebook.metadata["a"] = "b"
    nbformat.write(notebook, path)


CHANGES = {
    "nothing": (lambda course: None, False),
    "text and metadata": (partial(_edit, "markdown"), False),
    "a plain cell of code": (partial(_edit, "code"), True),
    "points": (partial(_other_points_or_hidden_test, "points"), True),
    "a hidden test": (partial(_other_points_or_hidden_test, "test"), True),
    "the seed of hidden inputs": (lambda course: (course / "secret_seed").write_text("12345"), True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_fingerprint_is_another_one_where_grades_may_be(course, what):
    change, differs = CHANGES[what]
    before = fingerprint(course)
    change(course)
    assert (fingerprint(course) != before) == differs


def test_a_hidden_test_made_of_other_code_is_another_release(course, monkeypatch):
    before = fingerprint(course)
    others = {}
    monkeypatch.setattr("course.check_data.graded_as", lambda stem, name: others.get(name, "same"))
    same = fingerprint(course)
    others["matmul"] = "other code"
    assert fingerprint(course) == same != before, "matmul was not released"
    others["dot"] = "other code"
    assert fingerprint(course) != same


def test_a_course_released_when_chapters_had_one_stamp_keeps_its_fingerprint(course, monkeypatch):
    """Grades recorded before exercises had stamps of their own stay current."""
    monkeypatch.setattr("course.check_data.graded_as", lambda stem, name: "of the chapter")
    seed = course_seed(course)
    stamp = hashlib.sha256(f"{seed} of the chapter".encode()).hexdigest()[:20]
    cells = {
        name: [asdict(cell) for cell in plan if cell.cell_type == "code" or cell.name is not None]
        for name, plan in plans(course).items()
    }
    recorded = json.dumps([{STEM: stamp}, cells], sort_keys=True).encode("ascii")
    assert fingerprint(course) == hashlib.sha256(recorded).hexdigest()


# An exercise that this checkout no longer has


@pytest.fixture
def without_dot(monkeypatch):
    left = {name: exercise for name, exercise in catalog.exercises_of(STEM).items() if name != "dot"}
    monkeypatch.setattr(catalog, "exercises_of", lambda stem: left if stem == STEM else {})


def test_it_cannot_be_graded_and_is_named(course, without_dot):
    with pytest.raises(CourseError, match="basics.*dot, which .* no longer has in the chapter dot_products"):
        plans(course)


def test_the_command_grade_names_it_and_changes_no_score(needs_jail, course, without_dot, capsys, monkeypatch):
    small_course.folder(course, "ada")
    monkeypatch.setenv("COURSE_DIR", str(course))
    with small_course.book(course) as gradebook:
        gradebook.add_submission(small_course.ASSIGNMENT, "ada")
        gradebook.find_submission(small_course.ASSIGNMENT, "ada").notebooks[0].grades[0].auto_score = 4.0
        gradebook.db.commit()
    before = small_course.grades(course)
    assert main(["grade", small_course.ASSIGNMENT, "--course", str(course), "--workers", "1"]) != 0
    assert "dot, which this checkout no longer has in the chapter dot_products" in capsys.readouterr().err
    assert small_course.grades(course) == before and not (course / "autograded" / "ada").exists()


def test_a_release_that_adds_or_removes_cells_is_refused_after_the_first_submission(course):
    cells = small_course.thin(STEM).cells
    fewer = [cell for cell in cells if nbgrader_of(cell).get("grade_id") not in ("dot", "check-dot")]
    more = [*cells, *small_course.thin(STEM, ("matmul",)).cells]

    def ensure(cells, notebook=STEM):
        with small_course.book(course) as gradebook:
            released.ensure_same_cells(gradebook, small_course.ASSIGNMENT, notebook, cells)

    for changed in (fewer, more):
        ensure(changed)  # there is no submission yet
    with small_course.book(course) as gradebook:
        gradebook.add_submission(small_course.ASSIGNMENT, "ada")
    ensure(cells)
    ensure(fewer, "not_released")
    with pytest.raises(CourseError, match="basics: .* removes dot, and submissions"):
        ensure(fewer)
    with pytest.raises(CourseError, match="basics: .* adds matmul, and submissions"):
        ensure(more)


def test_the_command_release_stops_before_anything_is_written(tmp_path, monkeypatch, capsys):
    course = write_files(tmp_path / "course", {f"release/{STEM}/{STEM}.ipynb": "the old one"})
    with small_course.book(course) as gradebook:
        gradebook.add_assignment(STEM)
        gradebook.add_notebook(STEM, STEM)
        for cell in assemble.source_notebook(STEM).cells:
            if name := nbgrader_of(cell).get("grade_id"):
                gradebook.add_source_cell(name, STEM, STEM, cell_type=cell.cell_type, source="", checksum="")
        gradebook.add_source_cell("check-gone", STEM, STEM, cell_type="code", source="", checksum="")
        gradebook.add_student("ada")
        gradebook.add_submission(STEM, "ada")
    monkeypatch.setenv("COURSE_DIR", str(course))
    monkeypatch.setattr(release, "bundle", lambda dist: pytest.fail("it went on"))
    assert main(["release", "--dist", str(tmp_path / "dist")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{STEM}: this version of the course removes gone" in line
    assert (course / "release" / STEM / f"{STEM}.ipynb").read_text() == "the old one"


def test_what_nbgrader_fails_at_is_said_with_its_cause():
    log = "[ERROR] There was an error\nTraceback (most recent call last):\nRuntimeError: Cannot add or remove cells\n"
    error = "Traceback\nnbgrader.converters.base.NbGraderException: Please see the the above traceback"
    assert _why({"log": log, "error": error}) == "RuntimeError: Cannot add or remove cells"
    assert _why({"log": "all is lost"}) == "all is lost"
    assert _why({}) == "it failed"
