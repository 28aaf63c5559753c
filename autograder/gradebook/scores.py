"""The one reader of the gradebook: what a class has for an assignment, in three queries however many students it has.

Points are counted as nbgrader counts them: a human's instead of the autograder's, with extra credit on top.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportOptionalOperand=false

import contextlib
import datetime
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import sqlalchemy
import sqlalchemy.exc
from nbgrader import api
from nbgrader.api import Gradebook

from course.errors import CourseError
from course.folder import course_folder, course_id, existing_gradebook


@dataclass(frozen=True)
class Cell:
    """A graded cell. kind: "code", "markdown" or "task"; max_score is 0 for a bonus."""

    notebook: str
    name: str
    kind: str
    max_score: float


class Grade(NamedTuple):
    """Points of one cell. to_grade: whether it waits for a human."""

    score: float
    auto: float | None
    manual: float | None
    extra: float | None
    to_grade: bool

    @property
    def pending(self) -> bool:
        """Whether a human still has to give its first points."""
        return self.to_grade and self.auto is None and self.manual is None


@dataclass
class Submission:
    """One student's grades by (notebook, cell), and penalties for lateness by notebook."""

    seconds_late: float = 0.0
    grades: dict[tuple[str, str], Grade] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)

    @property
    def penalty(self) -> float:
        return sum(self.penalties.values())

    @property
    def total(self) -> float:
        """The points that count. A penalty takes no more than there is, as in nbgrader's own export."""
        return max(0.0, sum(grade.score for grade in self.grades.values()) - self.penalty)

    @property
    def waiting(self) -> int:
        """How many cells wait for a human."""
        return sum(grade.to_grade for grade in self.grades.values())

    @property
    def to_grade(self) -> bool:
        return self.waiting > 0


@dataclass(frozen=True)
class Scores:
    """One assignment: its graded cells, and the submissions by student id."""

    assignment: str
    max_score: float
    cells: list[Cell]
    submissions: dict[str, Submission]


@contextlib.contextmanager
def opened(course: Path | None) -> Iterator[Gradebook]:
    """The gradebook of a course. Raises CourseError if there is none, or if it cannot be read."""
    url = existing_gradebook(course_folder(course))
    try:
        with Gradebook(url, course_id()) as gradebook:
            yield gradebook
    except sqlalchemy.exc.SQLAlchemyError as error:
        why = " ".join(str(getattr(error, "orig", error)).split())[:200]
        raise CourseError(
            f"the gradebook cannot be read ({why}); after an update of nbgrader, back it up and run "
            "`nbgrader db upgrade`"
        ) from None


def students(gradebook: Gradebook) -> list[sqlalchemy.Row]:
    """All students, by id: rows of id, last_name, first_name and email."""
    columns = (getattr(api.Student, name) for name in ("id", "last_name", "first_name", "email"))
    return gradebook.db.query(*columns).order_by(api.Student.id).all()


def deadlines(gradebook: Gradebook, assignment: str) -> tuple[datetime.datetime | None, dict[str, datetime.timedelta]]:
    """When an assignment is due, in UTC and without a zone, and who has which extension; nothing for an unknown one."""
    whole = api.SubmittedAssignment
    due = gradebook.db.query(api.Assignment.duedate).filter(api.Assignment.name == assignment).scalar()
    longer = (
        gradebook.db.query(whole.student_id, whole.extension)
        .join(api.Assignment, whole.assignment_id == api.Assignment.id)
        .filter(api.Assignment.name == assignment, whole.extension.is_not(None))
    )
    return due, {row.student_id: row.extension for row in longer}


def extended(gradebook: Gradebook) -> set[str]:
    """The students who have an extension for any assignment."""
    whole = api.SubmittedAssignment
    return {student for (student,) in gradebook.db.query(whole.student_id).filter(whole.extension.is_not(None))}


def due_dates(gradebook: Gradebook, students: Container[str] | None = None) -> dict[str, datetime.datetime]:
    """Return when each notebook can last be handed in: name -> time in UTC, without a time zone.

    This includes the longest extension of these students, by default of all, and is the latest time of all assignments
    with the notebook. Notebooks without a due date are left out.
    """
    found: dict[str, datetime.datetime] = {}
    for assignment in gradebook.assignments:
        due, longer = deadlines(gradebook, assignment.name)
        for notebook in assignment.notebooks if due else ():
            counting = (extra for student, extra in longer.items() if students is None or student in students)
            last = due + max(counting, default=datetime.timedelta())
            found[notebook.name] = max(last, found.get(notebook.name, last))
    return found


def find_assignment(gradebook: Gradebook, assignment: str) -> api.Assignment:
    """Find an assignment. Raises CourseError, with the known names, if the gradebook has none of that name."""
    try:
        return gradebook.find_assignment(assignment)
    except api.MissingEntry:
        known = ", ".join(sorted(other.name for other in gradebook.assignments)) or "none"
        raise CourseError(f"unknown assignment {assignment!r}; in the gradebook: {known}") from None


def read(gradebook: Gradebook, assignment: str) -> Scores:
    """Read one assignment. Raises CourseError if the gradebook has none of that name."""
    found = find_assignment(gradebook, assignment)
    cells = {
        cell.id: Cell(notebook.name, cell.name, kind or cell.cell_type, cell.max_score or 0.0)
        for notebook in sorted(found.notebooks, key=lambda notebook: notebook.name)
        for kind, those in (("", notebook.grade_cells), ("task", notebook.task_cells))
        for cell in those
    }
    return Scores(assignment, found.max_score or 0.0, [*cells.values()], _submissions(gradebook.db, found, cells))


def _submissions(db, assignment: api.Assignment, cells: dict[str, Cell]) -> dict[str, Submission]:
    """cells: by their ids, which a grade has instead of names"""
    whole, part, grade = api.SubmittedAssignment, api.SubmittedNotebook, api.Grade
    keys = {key: (cell.notebook, cell.name) for key, cell in cells.items()}
    due, found, only_extended = assignment.duedate, {}, set()
    submitted = db.query(whole.student_id, whole.timestamp, whole.extension).filter(
        whole.assignment_id == assignment.id
    )
    for student, timestamp, extension in submitted:
        late = datetime.timedelta()
        if timestamp is not None and due is not None:
            late = max(late, timestamp - due - (extension or late))
        found[student] = Submission(late.total_seconds())
        if extension is not None and timestamp is None:
            only_extended.add(student)  # unless there are grades
    penalties = (
        db.query(whole.student_id, api.Notebook.name, part.late_submission_penalty)
        .join(part, part.assignment_id == whole.id)
        .join(api.Notebook, part.notebook_id == api.Notebook.id)
        .filter(whole.assignment_id == assignment.id, part.late_submission_penalty != 0)
    )
    for student, notebook, penalty in penalties:
        found[student].penalties[notebook] = penalty
    columns = grade.score, grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade
    grades = (
        db.query(whole.student_id, grade.cell_id, *columns)
        .join(part, part.assignment_id == whole.id)
        .join(grade, grade.notebook_id == part.id)
        .filter(whole.assignment_id == assignment.id)
    )
    for student, cell, *points in grades:  # a grade of a deleted cell counts, as it does for nbgrader
        found[student].grades[keys.get(cell, ("", cell))] = Grade._make(points)
    return {student: one for student, one in found.items() if one.grades or student not in only_extended}
