"""Grades for other programs: `python -m autograder export by-exercise | canvas | moodle [ASSIGNMENT ...] --to FILE`.

A score is what counts: by hand if a human gave one, with extra credit, less the penalty for lateness, and never
below zero, as in nbgrader's own export. A student who handed nothing in has an empty field, not a zero, since the
instructor decides what that is worth. A total that waits for a human is also left empty in a platform's table, where it
would look final. These are export plugins, which nbgrader's configuration may name as well.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false, reportOptionalOperand=false, reportOperatorIssue=false

import contextlib
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin
from traitlets import Bool, Unicode
from traitlets.config import Config

from autograder.gradebook import scores
from autograder.gradebook.scores import Scores
from autograder.nbgrader_plugins import late
from autograder.platforms import canvas, collect, moodle, roster
from autograder.reports import csv_table, read
from autograder.reports.summary import shorten
from course import catalog
from course.cells import exercise_of
from course.errors import CourseError
from course.folder import course_folder


class _Table(ExportPlugin):
    """Writes the rows that a subclass makes."""

    default = "grades.csv"
    course = Unicode("", help="The course's folder; as everywhere by default.").tag(config=True)
    class_list = Unicode("", help="A class list of the platform, whose ids the table should use.").tag(config=True)
    pending = Bool(False, help="Also write totals that wait for a human, as they are so far.").tag(config=True)
    left_out: tuple[str, ...] = ()  # students whose grades are not in the table, since the class list lacks them

    def export(self, gradebook: Gradebook) -> None:
        _renew_penalties(self)
        wanted, chosen = set(map(str, self.assignment)), set(map(str, self.student))
        names = [assignment.name for assignment in gradebook.assignments]
        if unknown := wanted.difference(names):
            raise CourseError(f"the gradebook has no assignment called {', '.join(sorted(unknown))}")
        found = [scores.read(gradebook, name) for name in names if not wanted or name in wanted]
        students = [student for student in scores.students(gradebook) if not chosen or student.id in chosen]
        waiting = [
            student.id
            for student in students
            if any(student.id in one.submissions and one.submissions[student.id].to_grade for one in found)
        ]
        if waiting:
            self.log.warning("totals that wait for a human are %s: %s", self.what_waits(), ", ".join(shorten(waiting)))
        place = self.to or self.default
        csv_table.write(place, self.rows(students, found))
        if self.left_out:
            count = f"{len(self.left_out)} student{'s' if len(self.left_out) != 1 else ''} with a submission"
            self.log.error("%s not in %s, so not in the table: %s", count, self.class_list, ", ".join(self.left_out))
        self.log.info("%d students in %s", len(students), place)

    def rows(self, students: list, found: list[Scores]) -> Iterator[list]:
        """The table, its head first. students: as `scores.students` gives them"""
        raise NotImplementedError

    def what_waits(self) -> str:
        """How totals that wait for a human are exported."""
        return "not final" if self.pending else "left empty (--pending writes them)"

    def listed(self, students: list, kind: str) -> roster.Roster | None:
        """The class list, if one is given; it must be the platform's, or the instructor's own."""
        if not self.class_list:
            return None
        found = roster.read(Path(self.class_list), students)
        if found.kind not in (kind, roster.OWN):
            raise CourseError(f"{self.class_list} is a class list of {found.kind}, and this is a table for {kind}")
        return found

    def ids(self, listed: roster.Roster, numbers: dict[str, str], students: list, found: list[Scores]) -> list[str]:
        """Return nbgrader's ids of the students in a platform's list, and tell who is missing on either side.

        They are found by the number under which they were collected, by id, and by id in other letters' case.
        numbers: the platform's, by nbgrader's id
        """
        known = {student.id for student in students}
        by_number = {number: student for student, number in numbers.items() if student in known}
        by_case = {student.casefold(): student for student in known}
        ids = []
        for row in listed.students:
            same = row.id if row.id in known else by_case.get(row.id.casefold(), row.id)
            ids.append(by_number.get(row.numbers.get(listed.kind, ""), same))
        if unknown := [row.name or row.id for row, student in zip(listed.students, ids) if student not in known]:
            names = ", ".join(shorten(unknown))
            self.log.warning("in %s, and not in the gradebook: %s", self.class_list, names)
        graded = {student for one in found for student in one.submissions}
        self.left_out = tuple(sorted(graded & known - set(ids)))
        return ids

    def totals(self, student: str, found: list[Scores]) -> list[float | None]:
        submissions = [one.submissions.get(student) for one in found]
        return [_number(one.total) if one and (self.pending or not one.to_grade) else None for one in submissions]


class ByExercise(_Table):
    """One row per student. Of each assignment: a column for every graded cell, the penalty, and what counts."""

    default = "grades_by_exercise.csv"

    def rows(self, students, found):
        head = ["student_id", "last_name", "first_name", "email"]
        for one in found:
            head += [f"{one.assignment}: {_headed(cell)}" for cell in one.cells]
            head += [f"{one.assignment}: late penalty", f"{one.assignment}: total ({one.max_score:g})"]
            head.append(f"{one.assignment}: pending")
        yield head
        for student in students:
            row = list(student)
            for one in found:
                submission = one.submissions.get(student.id)
                grades = submission.grades if submission else {}
                row += [_shown(grades.get((cell.notebook, cell.name))) for cell in one.cells]
                if submission is None:
                    row += ["", "", ""]
                    continue
                row += [_number(submission.penalty), _number(submission.total), submission.waiting]
            yield row

    def what_waits(self) -> str:
        return "not final"


class Canvas(_Table):
    """Canvas's import of grades (Gradebook, Import).

    The columns are those that Canvas reads, then assignments; a second row has the points possible. The login is
    nbgrader's id of a student; Canvas finds students by it where ID is empty. It finds an assignment by its title, or
    makes it.
    """

    default = "canvas.csv"
    section = Unicode("", help="The section that students are in; may be empty.").tag(config=True)

    def rows(self, students, found):
        yield [*canvas.COLUMNS, *(one.assignment for one in found)]
        yield ["    Points Possible", "", "", "", "", *(_number(one.max_score) for one in found)]
        for student, who in self.named(students, found):
            yield [*who, *self.totals(student, found)]

    def named(self, students, found) -> Iterator[tuple[str, list[str]]]:
        """Ids of students, and how Canvas names them: by its own list, or by what was collected from it."""
        course = course_folder(Path(self.course) if self.course else None)
        listed, numbers = self.listed(students, canvas.NAME), collect.numbers(canvas.NAME, course)
        if listed and listed.kind == canvas.NAME:
            for student, row in zip(self.ids(listed, numbers, students, found), listed.students):
                yield student, [row.row.get(name, "") for name in canvas.COLUMNS]
            return
        for student in listed.students if listed else []:
            if student.numbers[canvas.NAME]:
                numbers[student.id] = student.numbers[canvas.NAME]
        for student in students:
            name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
            yield student.id, [name, numbers.get(student.id, ""), "", student.id, self.section]


class Moodle(_Table):
    """Moodle's import of grades (Grades, Import, CSV file), or the grading worksheet of an assignment.

    Without a class list the columns are named as in Moodle's own export: First name, Last name, ID number, Email
    address, then grade items; Moodle then lets you choose the column that identifies students, and the item of each
    column.
    Source: https://docs.moodle.org/en/Grade_import. nbgrader's id of a student is under ID number.

    With a grading worksheet that was downloaded from the assignment, it is that worksheet with its Grade filled in.
    Moodle knows the participant by Identifier, and takes it back where Quick grading and worksheets are switched on.
    Source: `mod/assign/feedback/offline/importgradeslib.php` of moodle/moodle.
    """

    default = "moodle.csv"

    def rows(self, students, found):
        listed = self.listed(students, moodle.NAME)
        if listed and listed.kind == moodle.NAME:
            yield from self.worksheet(listed, students, found)
            return
        items = [f"Assignment: {one.assignment} (Real)" for one in found]
        yield [*moodle.COLUMNS, *items]
        for student in students:
            yield [student.first_name, student.last_name, student.id, student.email, *self.totals(student.id, found)]

    def worksheet(self, listed: roster.Roster, students: list, found: list[Scores]) -> Iterator[list]:
        """The worksheet as it was, with grades. One of another scale would be filled with wrong ones."""
        if len(found) != 1:
            raise CourseError("a grading worksheet belongs to one assignment: name it")
        course = course_folder(Path(self.course) if self.course else None)
        numbers = collect.numbers(moodle.NAME, course, found[0].assignment)
        yield listed.head
        for student, key in zip(listed.students, self.ids(listed, numbers, students, found)):
            most = student.row.get("Maximum Grade", "")
            if most and most.replace(",", ".") != f"{found[0].max_score:.2f}":
                raise CourseError(
                    f"the worksheet has a maximum grade of {most}, and {found[0].assignment} of "
                    f"{found[0].max_score:.2f}: set it in the assignment, and download the worksheet again"
                )
            (total,) = self.totals(key, found)
            row = student.row if total is None else {**student.row, "Grade": total}
            yield [row.get(name, "") for name in listed.head]


class Stock(ExportPlugin):
    """The table of `nbgrader export`, in which no name is a formula or breaks a line."""

    columns = (
        "assignment duedate timestamp student_id last_name first_name email raw_score late_submission_penalty score "
        "max_score"
    ).split()

    def export(self, gradebook: Gradebook) -> None:
        _renew_penalties(self)
        wanted, chosen, rows = set(map(str, self.assignment)), set(map(str, self.student)), [self.columns]
        for assignment, student in itertools.product(gradebook.assignments, gradebook.students):
            if wanted and assignment.name not in wanted or chosen and student.id not in chosen:
                continue
            timestamp, score, penalty = None, 0.0, 0.0  # of students who handed nothing in
            with contextlib.suppress(MissingEntry):
                submission = gradebook.find_submission(assignment.name, student.id)
                timestamp, score, penalty = submission.timestamp, submission.score, submission.late_submission_penalty
            who = [student.id, student.last_name, student.first_name, student.email]
            points = [score, penalty, max(0.0, score - penalty), assignment.max_score]
            row = [assignment.name, assignment.duedate, timestamp, *who, *points]
            # As nbgrader writes it; a score stays a number.
            rows.append([value if isinstance(value, float) else "" if value is None else str(value) for value in row])
        place = self.to or "grades.csv"
        csv_table.write(place, rows)
        self.log.info("Exported grades to %s", place)


def _renew_penalties(plugin: ExportPlugin) -> None:
    """Under nbgrader's own command; `write` does it for that of this course."""
    if plugin.parent:
        late.renew([*map(str, plugin.assignment)], plugin.parent.coursedir.db_url, parent=plugin)


def _headed(cell: scores.Cell) -> str:
    """A cell's exercise or name, and its points; those of a bonus are not among the points of the gradebook."""
    name = exercise_of(cell.name)
    if name and not cell.max_score:
        if exercise := catalog.exercises_in(cell.notebook).get(name):
            return f"{name} (+{exercise.points:g})"
    return f"{name or cell.name} ({cell.max_score:g})"


def _shown(grade: scores.Grade | None) -> float | str | None:
    """One score, or a word if a human still has to give it."""
    if grade is None:
        return None
    return "pending" if grade.pending else _number(grade.score)


def _number(value: float) -> float:
    """Two decimals, as learning platforms keep them, and none for whole numbers."""
    value = round(value, 2)
    return int(value) if value == int(value) else value


FORMATS = {"by-exercise": ByExercise, "canvas": Canvas, "moodle": Moodle}


def write(
    format: str,
    assignment: list[str],
    course: Path | None,
    to: Path,
    class_list: Path | None,
    pending: bool,
    students: set[str] | None = None,
) -> int:
    """Write a table in that format; 1 if it lacks a grade or has one that is not a judgement of what was handed in.

    students: ids of those to export, if not all. Raises CourseError with a line if there is none.
    """
    config = Config({"ExportPlugin": {"assignment": assignment, "student": sorted(students or ())}})
    exporter = FORMATS[format](
        to=str(to), course=str(course or ""), class_list=str(class_list or ""), pending=pending, config=config
    )
    exporter.log = logging.getLogger(__name__)
    logging.basicConfig(format="autograder: %(message)s")
    late.renew_in(course_folder(course), assignment)
    with scores.opened(course) as gradebook:
        exporter.export(gradebook)
        names = assignment or [one.name for one in gradebook.assignments]
    doubtful = [line for name in names for line in _doubtful(name, course, students)]
    for line in doubtful:
        exporter.log.error("%s", line)
    print(to)
    return 1 if exporter.left_out or doubtful else 0


def _doubtful(assignment: str, course: Path | None, students: set[str] | None) -> list[str]:
    """Whose points are not a judgement of what was handed in, and why."""
    try:
        report = read.gather(assignment, course, students)
    except CourseError:  # nothing of it is graded yet
        return []
    return [
        f"{report.assignment}: {student.name}: {'; '.join(shorten(student.problems))}"
        for student in report.students
        if student.problems
    ]
