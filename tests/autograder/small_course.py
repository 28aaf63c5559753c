"""A small course to grade: chapters cut down to a few exercises, so that a submission takes a second and not five."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

from attnlab.checking import codec
from attnlab.checking.judge import Report
from autograder.demo import sample_class
from autograder.grading import messages, questions
from autograder.grading.execution import Cell, evaluate
from autograder.grading.reassembly import ReleasedCell
from course import assemble, catalog, cells, release
from course.kit.exercise import compact
from tests.conftest import write_files

ASSIGNMENT = "basics"
SEED = "20261122"  # any number; which points some wrong answers earn depends on it
KEPT = {"dot_products": ("dot", "cosine_similarity"), "attention": ("attention_weights", "attention_backward")}
HEAVY = ("matplotlib", "widgets", "plt.", "plot")  # lines of the import cell that the cut chapter does without


def thin(stem: str, kept=None) -> nbformat.NotebookNode:
    """The instructor's notebook of a chapter with these exercises alone, its imports and its written question."""
    notebook = assemble.source_notebook(stem)
    notebook.cells = [cell for cell in notebook.cells if cell["id"] != cells.SETUP_ID]
    names = kept or KEPT[stem]
    wanted = {*names, *(f"check-{name}" for name in names), f"question-{stem}", f"written-{stem}"}
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = "\n".join(line for line in first.source.splitlines() if not any(word in line for word in HEAVY))
    notebook.cells = [c for c in notebook.cells if c is first or cells.nbgrader_of(c).get("grade_id") in wanted]
    return notebook


def released_cell(cell: nbformat.NotebookNode) -> ReleasedCell:
    """A cell of an instructor's notebook as the grader gets it."""
    mark = cells.nbgrader_of(cell)
    kinds = (bool(mark.get(kind)) for kind in ("locked", "solution", "grade", "task"))
    return ReleasedCell(mark.get("grade_id"), cell.cell_type, cell.source, *kinds, mark.get("points"))


def packed(stem: str, notebook: nbformat.NotebookNode, seed: int, **settings) -> bytes:
    """An assignment of one chapter as the grader gets it, released as this notebook, with hidden tests of this seed."""
    plan = messages.Plan([released_cell(cell) for cell in notebook.cells])
    hidden = {
        name: codec.pack(compact(exercise.material(seed, misconceptions=False)))
        for name, exercise in catalog.exercises_of(stem).items()
    }
    return messages.pack_assignment({stem: plan}, messages.Settings(**settings), {}, hidden)


def lost(stem: str, found: dict[str, list]) -> dict[str, float]:
    """The exercises of a chapter that did not get full marks, and their points. found: the grades of one notebook"""
    points = {name: sum(found[f"check-{name}"][place] or 0 for place in (0, 1)) for name in catalog.exercises_of(stem)}
    return {name: got for name, got in points.items() if got != catalog.exercise(name).points}


def report_on(name: str, source: str, **options) -> Report:
    """Grade one answer in the jail, on inputs of any seed."""
    exercise = catalog.exercise(name)
    cells = [Cell(0, f"import numpy as np\n{source}", solution=True), Cell(1, "", check=name)]
    return evaluate(
        cells, {name: exercise}, lambda name: questions.material_of(exercise, 11), many=True, **options
    ).reports[name]


def own() -> nbformat.NotebookNode:
    """A notebook of the instructor's own: plain test cells, a code answer and a task that are graded by hand."""

    def cell(make, name, source, **marks):
        usual = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
        return make(source, metadata={"nbgrader": {"grade_id": name, **usual, **marks}})

    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    answer = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
    test = "assert double(2) == 4\n### BEGIN HIDDEN TESTS\nassert double(-3) == -6\n### END HIDDEN TESTS"
    by_hand = "### BEGIN SOLUTION\nprint(double(4))\n### END SOLUTION"
    return nbformat.v4.new_notebook(
        cells=[
            code("import numpy as np"),
            cell(code, "double", answer, solution=True),
            cell(code, "test-double", test, grade=True, locked=True, points=2),
            cell(code, "test-list", "assert double([1]) == [1, 1]", grade=True, locked=True, points=1),
            cell(code, "by-hand", by_hand, grade=True, solution=True, points=3),
            cell(text, "task", "Draw a picture of `double`.", task=True, locked=True, points=2),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


def make(
    course: Path,
    notebooks: dict[str, nbformat.NotebookNode],
    students=(),
    assignment: str = ASSIGNMENT,
    beside: dict[str, str] | None = None,
) -> None:
    """Release an assignment of these notebooks in an empty course folder, for these students.

    beside: files of the instructor's, which code may read in the jail
    """
    source = course / "source" / assignment
    source.mkdir(parents=True)
    for name, notebook in notebooks.items():
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"{name.replace('_', '-')}-{number}"
        nbformat.write(notebook, source / f"{name}.ipynb")
    write_files(source, beside or {"words.txt": "the cat sat\n"})
    release.nbgrader("generate_assignment", assignment, course=course)
    with book(course) as gradebook:
        gradebook.update_or_create_assignment(assignment, duedate=sample_class.DUE.replace(tzinfo=None))
        for student in students:
            gradebook.update_or_create_student(student)


def book(course: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{course / 'gradebook.db'}")


def released(course: Path, name: str, assignment: str = ASSIGNMENT) -> nbformat.NotebookNode:
    return nbformat.read(course / "release" / assignment / f"{name}.ipynb", as_version=4)


def folder(course: Path, student: str, hours_late: float = -24.0, assignment: str = ASSIGNMENT) -> Path:
    """A student's folder among the submissions, with its time stamp."""
    place = course / "submitted" / student / assignment
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    when = sample_class.DUE + datetime.timedelta(hours=hours_late)
    (place / "timestamp.txt").write_text(when.strftime("%Y-%m-%d %H:%M:%S UTC"), "ascii")
    return place


def answered(notebook: nbformat.NotebookNode, answers: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook with these texts in the cells named."""
    left = dict(answers)
    for cell in notebook.cells:
        name = cells.nbgrader_of(cell).get("grade_id")
        if name in left:
            cell.source = left.pop(name)
    assert not left, f"no such cell: {', '.join(left)}"
    return notebook


def reference(stem: str, name: str) -> str:
    """The source of an exercise's solution, as a student would write it into the cell."""
    found = assemble.source_notebook(stem).cells
    cell = next(cell for cell in found if cells.nbgrader_of(cell).get("grade_id") == name)
    return "\n".join(line for line in cell.source.splitlines() if "### " not in line)


def grades(course: Path, assignment: str = ASSIGNMENT) -> dict[str, dict]:
    """Everything that a grader enters, by student, out of the gradebook."""
    found = {}
    with book(course) as gradebook:
        for submission in gradebook.find_assignment(assignment).submissions:
            student = submission.student_id
            found[student] = {
                "score": submission.score,
                "late_penalty": submission.late_submission_penalty,
                "needs_manual_grade": submission.needs_manual_grade,
                "autograded": (course / "autograded" / student / assignment).is_dir(),
                "grades": {
                    f"{n.name}/{grade.name}": [grade.auto_score, grade.extra_credit, grade.needs_manual_grade]
                    for n in submission.notebooks
                    for grade in n.grades
                },
                "comments": {
                    f"{n.name}/{comment.name}": comment.auto_comment
                    for n in submission.notebooks
                    for comment in n.comments
                    if comment.auto_comment is not None
                },
            }
    return json.loads(json.dumps(found, sort_keys=True))
