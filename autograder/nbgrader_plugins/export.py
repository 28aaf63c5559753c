"""Grades for other programs: `python -m autograder export by-exercise | canvas | moodle [ASSIGNMENT ...] --to FILE`.

A score is what counts: by hand where a human gave one, with extra credit, less the penalty for lateness, and never
below zero, as in nbgrader's own export. A student who handed nothing in has an empty field, not a zero: what that is
worth is for the instructor to say. These are export plugins, which nbgrader's configuration may name as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from traitlets import Unicode
from traitlets.config import Config

from autograder.course.cells import exercise_of
from autograder.errors import CourseError
from autograder.gradebook import scores
from autograder.gradebook.scores import Scores
from autograder.reports import csv_table


class _Table(ExportPlugin):
    """Writes the rows that a subclass makes."""

    default = "grades.csv"

    def export(self, gradebook: Gradebook) -> None:
        wanted, chosen = set(map(str, self.assignment)), set(map(str, self.student))
        names = [assignment.name for assignment in gradebook.assignments]
        if unknown := wanted.difference(names):
            raise CourseError(f"the gradebook has no assignment called {', '.join(sorted(unknown))}")
        found = [scores.read(gradebook, name) for name in names if not wanted or name in wanted]
        students = [student for student in scores.students(gradebook) if not chosen or student.id in chosen]
        waiting = sum(
            one.submissions[student.id].to_grade
            for one in found
            for student in students
            if student.id in one.submissions
        )
        if waiting:
            self.log.warning("%d submissions wait for a human: their scores are not final", waiting)
        place = self.to or self.default
        csv_table.write(place, self.rows(students, found))
        self.log.info("%d students in %s", len(students), place)

    def rows(self, students: list, found: list[Scores]) -> Iterator[list]:
        """The table, its head first. students: as `scores.students` gives them"""
        raise NotImplementedError


class ByExercise(_Table):
    """One row per student. Of each assignment: a column for every graded cell, the penalty, and what counts."""

    default = "grades_by_exercise.csv"

    def rows(self, students, found):
        head = ["student_id", "last_name", "first_name", "email"]
        for one in found:
            names = {cell: exercise_of(cell.name) or cell.name for cell in one.cells}
            head += [f"{one.assignment}: {name} ({cell.max_score:g})" for cell, name in names.items()]
            head += [f"{one.assignment}: late penalty", f"{one.assignment}: total ({one.max_score:g})"]
        yield head
        for student in students:
            row = list(student)
            for one in found:
                submission = one.submissions.get(student.id)
                grades = submission.grades if submission else {}
                for cell in one.cells:
                    grade = grades.get((cell.notebook, cell.name))
                    row.append(grade and _number(grade.score))
                row += [_number(submission.penalty), _number(submission.total)] if submission else ["", ""]
            yield row


class Canvas(_Table):
    """Canvas's import of grades (Gradebook, Import).

    The columns are those that Canvas reads: Student, ID, SIS User ID, SIS Login ID, Section, then assignments; a second
    row has the points possible. Source: `lib/gradebook_importer.rb` of instructure/canvas-lms. The login is nbgrader's
    id of a student; Canvas finds students by it where ID is empty. It finds an assignment by its title, or makes it.
    """

    default = "canvas.csv"
    section = Unicode("", help="The section that students are in; may be empty.").tag(config=True)

    def rows(self, students, found):
        yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(one.assignment for one in found)]
        yield ["    Points Possible", "", "", "", "", *(_number(one.max_score) for one in found)]
        for student in students:
            name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
            yield [name, "", "", student.id, self.section, *_totals(student, found)]


class Moodle(_Table):
    """Moodle's import of grades (Grades, Import, CSV file).

    The columns are named as in Moodle's own export: First name, Last name, ID number, Email address, then grade items;
    Moodle asks which column says who a student is, and which item a column belongs to. Source:
    https://docs.moodle.org/en/Grade_import. nbgrader's id of a student stands under ID number.
    """

    default = "moodle.csv"

    def rows(self, students, found):
        items = [f"Assignment: {one.assignment} (Real)" for one in found]
        yield ["First name", "Last name", "ID number", "Email address", *items]
        for student in students:
            yield [student.first_name, student.last_name, student.id, student.email, *_totals(student, found)]


def _totals(student, found: list[Scores]) -> list[float | None]:
    submissions = (one.submissions.get(student.id) for one in found)
    return [submission and _number(submission.total) for submission in submissions]


def _number(value: float) -> float:
    """Two places, as learning platforms keep them, and none where there is nothing behind the point."""
    value = round(value, 2)
    return int(value) if value == int(value) else value


FORMATS = {"by-exercise": ByExercise, "canvas": Canvas, "moodle": Moodle}


def write(kind: str, assignments: list[str], course: Path | None, to: Path) -> None:
    """Write the table of that kind. Raises CourseError with a line that says why there is none."""
    exporter = FORMATS[kind](to=str(to), config=Config({"ExportPlugin": {"assignment": assignments}}))
    exporter.log = logging.getLogger(__name__)
    logging.basicConfig(format="autograder: %(message)s")
    with scores.opened(course) as gradebook:
        exporter.export(gradebook)
    print(to)
