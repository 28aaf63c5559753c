"""The one writer: enters results into nbgrader's gradebook, one submission per transaction.

One connection serves a whole run. Rows are found by keys that have an index, so a gradebook of ten thousand students
is as fast as an empty one. Entering a result again changes nothing.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false

import contextlib
import datetime
from typing import Any, NamedTuple

import sqlalchemy
import sqlalchemy.exc
from nbgrader import api
from nbgrader.api import Gradebook, MissingEntry

from autograder.gradebook.penalties import Late
from autograder.grading.results import Entered, Entries

# nbgrader looks grades and comments up by their notebook, and its tables have no index for that: each lookup would
# read the whole table. An index changes no row, and also makes nbgrader's own pages faster.
INDEXES = [
    ("grade", "notebook_id"),
    ("comment", "notebook_id"),
    ("submitted_notebook", "assignment_id"),
    ("submitted_assignment", "student_id"),
]


Before = dict[str, dict[str, Entered]]


class _Notebook(NamedTuple):
    """The gradebook's ids of one notebook of an assignment, by the names of the cells."""

    id: str
    grades: dict[str, str]
    comments: dict[str, str]


class Writer:
    """Use as a context manager. late: the rule for penalties; without one there are none."""

    def __init__(self, db_url: str, course_id: str, late: Late | None = None):
        self._gradebook = Gradebook(db_url, course_id)
        self._db, self._late = self._gradebook.db, late
        self._assignments: dict[str, tuple[str, dict[str, _Notebook]]] = {}  # ids, and notebooks by name
        _make_indexes(self._gradebook.engine)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._gradebook.close()

    def admit(self, student: str, create: bool) -> None:
        """Make sure that the gradebook knows a student. Raises MissingEntry if it does not and must not create one.

        An id with markup is not created: formgrader loads none of that student's pages.
        """
        known = self._db.query(api.Student.id).filter(api.Student.id == student).one_or_none()
        self._end_transaction()
        if known is not None:
            return
        if not create:
            raise MissingEntry(f"No such student: {student}")
        if set(student) & set('<>&"%#?\\') or not student.isprintable():
            raise MissingEntry(f"{student!r} cannot be a student's id: rename the folder, without signs of markup")
        self._gradebook.add_student(student)
        self._end_transaction()

    def extend(self, assignment: str, student: str, extension: datetime.timedelta | None) -> None:
        """Give a student an extension, as nbgrader's `grant_extension` does, even before anything was handed in."""
        known, _ = self._known(assignment)
        try:
            row, _ = self._get_or_create(api.SubmittedAssignment, assignment_id=known, student_id=student)
            row.extension = extension
            self._db.commit()
        finally:
            self._end_transaction()

    def enter(
        self,
        assignment: str,
        student: str,
        timestamp: datetime.datetime | None,
        notebooks: dict[str, Entries],
        before: Before | None = None,
    ) -> None:
        """Enter all scores, comments and penalties of a submission. Raises MissingEntry for an unknown assignment.

        Scores and decisions of a human stay, and wait for another look only if something that they judged has changed.

        notebooks: by name, as `grade_submission.grade` gives them
        before: the last entries, by notebook and cell; a value in the gradebook that differs was typed by a human
        """
        known = self._known(assignment)
        try:
            self._enter_whole(*known, student, timestamp, notebooks, before or {})
        except sqlalchemy.exc.IntegrityError:  # another grader made the same rows in between, so now they exist
            self._enter_whole(*known, student, timestamp, notebooks, before or {})

    def _enter_whole(self, *submission) -> None:
        try:
            self._enter(*submission)
            self._db.commit()
        finally:
            self._end_transaction()  # what was not committed is not there

    def _enter(
        self,
        assignment: str,
        plans: dict[str, _Notebook],
        student: str,
        timestamp,
        notebooks: dict[str, Entries],
        before: Before,
    ) -> None:
        submission, _ = self._get_or_create(api.SubmittedAssignment, assignment_id=assignment, student_id=student)
        if timestamp is not None:
            submission.timestamp = timestamp
        self._db.flush()
        for name, plan in plans.items():
            result = notebooks[name]
            entry, is_new = self._get_or_create(api.SubmittedNotebook, notebook_id=plan.id, assignment_id=submission.id)
            self._db.flush()
            self._enter_grades(entry.id, is_new, plan.grades, result, before.get(name, {}))
            self._enter_comments(entry.id, is_new, plan.comments, result)
            entry.late_submission_penalty = None  # a new one is found below; a missing notebook has none
            if self._late is not None and not result["missing"] and submission.total_seconds_late > 0:
                self._db.flush()
                self._db.refresh(entry, ["score"])
                entry.late_submission_penalty = self._late(student, entry, submission.total_seconds_late)

    def _get_or_create(self, table, **ids: str) -> tuple:
        """The row with these ids, and whether it is a new one."""
        row = self._db.query(table).filter_by(**ids).one_or_none()
        if row is not None:
            return row, False
        self._db.add(row := table(**ids))
        return row, True

    def _enter_grades(
        self, notebook: str, is_new: bool, cells: dict[str, str], result: Entries, before: dict[str, Entered]
    ) -> None:
        have, rows = {} if is_new else self._have(api.Grade, notebook), []
        for name, cell in cells.items():
            now, grade = Entered(*result["grades"][name]), have.get(cell)
            look = not result["missing"] and (now.score is None or now.suspect)
            if grade is None:
                ids = {"cell_id": cell, "notebook_id": notebook}
                rows.append({**ids, "auto_score": now.score, "extra_credit": now.extra, "needs_manual_grade": look})
            else:
                _update(grade, now, before.get(name), look, result["missing"])
        self._insert(api.Grade, rows)

    def _enter_comments(self, notebook: str, is_new: bool, cells: dict[str, str], result: Entries) -> None:
        have, rows = {} if is_new else self._have(api.Comment, notebook), []
        for name, cell in cells.items():
            if cell in have:
                have[cell].auto_comment = result["comments"][name]
            else:
                rows.append({"cell_id": cell, "notebook_id": notebook, "auto_comment": result["comments"][name]})
        self._insert(api.Comment, rows)

    def _have(self, table, notebook: str) -> dict[str, Any]:
        return {row.cell_id: row for row in self._db.query(table).filter(table.notebook_id == notebook)}

    def _insert(self, table, rows: list[dict[str, Any]]) -> None:
        """Rows as plain data: making an object of each would take most of the time of entering."""
        if rows:
            self._db.execute(sqlalchemy.insert(table.__table__), rows)

    def _known(self, name: str) -> tuple[str, dict[str, _Notebook]]:
        if name not in self._assignments:
            found = self._gradebook.find_assignment(name)
            notebooks = {
                notebook.name: _Notebook(
                    notebook.id,
                    {cell.name: cell.id for cell in [*notebook.grade_cells, *notebook.task_cells]},
                    {cell.name: cell.id for cell in [*notebook.solution_cells, *notebook.task_cells]},
                )
                for notebook in found.notebooks
            }
            self._assignments[name] = found.id, notebooks
        return self._assignments[name]

    def _end_transaction(self) -> None:
        """End the transaction that reading began, and keep no object: ten thousand would slow every flush."""
        self._db.rollback()
        self._db.expunge_all()


def _update(grade, now: Entered, before: Entered | None, look: bool, missing: bool) -> None:
    """Update the points of a cell. Extra credit that differs from the last entry was typed by a human, and stays.

    look: whether a human should look at the points
    """
    typed = before is not None and (grade.extra_credit or 0.0) != (before.extra or 0.0)
    decided = before is not None and not grade.needs_manual_grade and before == now
    grade.auto_score = now.score
    if now.extra is not None and not typed:
        grade.extra_credit = now.extra
    grade.needs_manual_grade = not decided and not missing and (look or typed or grade.manual_score is not None)


def _make_indexes(engine) -> None:
    """Add the missing indexes; if the gradebook may not be altered, it works without them."""
    for table, column in INDEXES:
        index = f"CREATE INDEX IF NOT EXISTS attention_{table}_{column} ON {table} ({column})"
        with (
            contextlib.suppress(sqlalchemy.exc.OperationalError, sqlalchemy.exc.ProgrammingError),
            engine.begin() as connection,
        ):
            connection.execute(sqlalchemy.text(index))
