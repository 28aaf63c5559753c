"""Grades for other programs: `python -m autograder export by-exercise | canvas | moodle [ASSIGNMENT ...] --to FILE`.

A score is what counts: by hand where a human gave one, with extra credit, less the penalty for lateness, and never
below zero, as in nbgrader's own export. Who handed nothing in has an empty field and no zero: what that is worth is not
ours to say. They are export plugins of nbgrader, which its configuration may name, too.
"""

from __future__ import annotations

import csv
import logging
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy
from nbgrader.api import (
    Assignment,
    BaseCell,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.plugins import ExportPlugin
from traitlets import Unicode
from traitlets.config import Config

from autograder.course.cells import exercise_of
from autograder.course.folder import course_folder, existing_gradebook
from autograder.errors import CourseError
from autograder.reports.text import harmless


@dataclass
class _Scores:
    """What one assignment has: by student, and by student and (notebook, cell)."""

    name: str
    maximum: float
    cells: dict[tuple[str, str], float] = field(default_factory=dict)  # to the most it can give
    totals: dict[str, tuple[float, float, bool]] = field(default_factory=dict)  # score, penalty, whether all is graded
    points: dict[tuple[str, str, str], float] = field(default_factory=dict)


class _Table(ExportPlugin):
    """Writes the rows that a subclass makes."""

    default = "grades.csv"

    def export(self, gradebook: Gradebook) -> None:
        wanted, chosen = set(map(str, self.assignment)), set(map(str, self.student))
        scores = [
            _scores(gradebook, assignment)
            for assignment in gradebook.assignments
            if not wanted or assignment.name in wanted
        ]
        unknown = wanted - {found.name for found in scores}
        if unknown:
            raise CourseError(f"the gradebook has no assignment called {', '.join(sorted(unknown))}")
        students = [
            student
            for student in gradebook.db.query(Student).order_by(Student.id)
            if not chosen or student.id in chosen
        ]
        open_ = sum(
            not done
            for found in scores
            for student, (_, _, done) in found.totals.items()
            if not chosen or student in chosen
        )
        if open_:
            self.log.warning("%d submissions wait for a human: their scores are not final", open_)
        place = self.to or self.default
        with open(place, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(self.rows(students, scores))
        self.log.info("%d students in %s", len(students), place)

    def rows(self, students: list[Student], scores: list[_Scores]):
        raise NotImplementedError


class ByExercise(_Table):
    """One row a student. Of each assignment: a column for every graded cell, the penalty, and what counts."""

    default = "grades_by_exercise.csv"

    def rows(self, students, scores):
        yield [
            "student_id",
            "last_name",
            "first_name",
            "email",
            *(
                title
                for found in scores
                for title in (
                    *(
                        f"{found.name}: {exercise_of(cell) or cell} ({most:g})"
                        for (_, cell), most in found.cells.items()
                    ),
                    f"{found.name}: late penalty",
                    f"{found.name}: total ({found.maximum:g})",
                )
            ),
        ]
        for student in students:
            row = [*map(harmless, (student.id, student.last_name, student.first_name, student.email))]
            for found in scores:
                total = found.totals.get(student.id)
                row += [_number(found.points.get((student.id, *cell))) for cell in found.cells]
                row += ["", ""] if total is None else [_number(total[1]), _number(_counts(total))]
            yield row


class Canvas(_Table):
    """Canvas's import of grades (Gradebook, Import).

    The columns are those that Canvas reads: Student, ID, SIS User ID, SIS Login ID, Section, then assignments; a second
    row has the points possible. Source: `lib/gradebook_importer.rb` of instructure/canvas-lms. nbgrader's id of a
    student is the login; Canvas finds students by it where ID is empty. An assignment is found by its title or
    created.
    """

    default = "canvas.csv"
    section = Unicode("", help="The section that students are in; may be empty.").tag(config=True)

    def rows(self, students, scores):
        yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(found.name for found in scores)]
        yield ["    Points Possible", "", "", "", "", *(_number(found.maximum) for found in scores)]
        for student in students:
            name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
            yield [
                harmless(name),
                "",
                "",
                harmless(student.id),
                self.section,
                *(_number(_counts(found.totals.get(student.id))) for found in scores),
            ]


class Moodle(_Table):
    """Moodle's import of grades (Grades, Import, CSV file).

    The columns are named as in Moodle's own export: First name, Last name, ID number, Email address, then grade items;
    Moodle asks which column says who a student is, and which item a column belongs to. Source:
    https://docs.moodle.org/en/Grade_import. nbgrader's id of a student stands under ID number.
    """

    default = "moodle.csv"

    def rows(self, students, scores):
        yield [
            "First name",
            "Last name",
            "ID number",
            "Email address",
            *(f"Assignment: {found.name} (Real)" for found in scores),
        ]
        for student in students:
            yield [
                *map(harmless, (student.first_name, student.last_name, student.id, student.email)),
                *(_number(_counts(found.totals.get(student.id))) for found in scores),
            ]


def _counts(total: tuple[float, float, bool] | None) -> float | None:
    return None if total is None else max(0.0, total[0] - total[1])


def _number(value: float | None) -> str:
    """Two places, as learning platforms keep them."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def _scores(gradebook: Gradebook, assignment: Assignment) -> _Scores:
    """Three questions to the database, however many students there are."""
    found, db = _Scores(assignment.name, assignment.max_score), gradebook.db
    for notebook in assignment.notebooks:
        for cell in [*notebook.grade_cells, *notebook.task_cells]:
            found.cells[notebook.name, cell.name] = cell.max_score
    for student, score, penalty, waits in db.query(
        SubmittedAssignment.student_id,
        SubmittedAssignment.score,
        SubmittedAssignment.late_submission_penalty,
        SubmittedAssignment.needs_manual_grade,
    ).filter(SubmittedAssignment.assignment_id == assignment.id):
        found.totals[student] = score, penalty, not waits
    for student, notebook, cell, score in (
        db.query(SubmittedAssignment.student_id, Notebook.name, BaseCell.name, Grade.score)
        .select_from(Grade)
        .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Notebook, SubmittedNotebook.notebook_id == Notebook.id)
        .join(BaseCell, Grade.cell_id == BaseCell.id)
        .filter(SubmittedAssignment.assignment_id == assignment.id)
    ):
        found.points[student, notebook, cell] = score
    return found


FORMATS = {"by-exercise": ByExercise, "canvas": Canvas, "moodle": Moodle}


def run(kind: str, assignments: list[str], course: Path | None, to: Path) -> int:
    """Write the table of that kind. Raises CourseError with a line that says why there is none."""
    db_url = existing_gradebook((course or course_folder()).resolve())
    exporter = FORMATS[kind](to=str(to), config=Config({"ExportPlugin": {"assignment": assignments}}))
    exporter.log = logging.getLogger("autograder.nbgrader_plugins.export")
    logging.basicConfig(format="autograder: %(message)s")
    try:
        with Gradebook(db_url, "attention") as gradebook:
            exporter.export(gradebook)
    except (OSError, sqlalchemy.exc.SQLAlchemyError) as error:
        raise CourseError(f"{to}: {getattr(error, 'strerror', None) or error}") from None
    print(to)
    return 0
