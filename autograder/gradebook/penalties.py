"""Penalties for lateness in nbgrader's database: each a share of the score that counts now."""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOptionalOperand=false

from collections.abc import Callable
from typing import Any, NamedTuple

from nbgrader import api
from nbgrader.api import Gradebook

# The penalty of a late notebook, or None: from the student, the notebook with its score, and how many seconds late.
Late = Callable[[str, Any, float], float | None]


class Renewed(NamedTuple):
    """A penalty that a score, a date or a rule has changed since it was taken."""

    assignment: str
    student: str
    notebook: str
    before: float
    now: float


def renew(gradebook: Gradebook, assignments: list[str], late: Late) -> list[Renewed]:
    """Take each penalty again, and return those that have changed.

    Scores by hand, extensions, due dates and the rule may be newer than the grading. assignments: if empty, all
    """
    whole, part = api.SubmittedAssignment, api.SubmittedNotebook
    rows = (
        gradebook.db.query(whole, part, api.Assignment.name, api.Notebook.name)
        .join(part, part.assignment_id == whole.id)
        .join(api.Notebook, part.notebook_id == api.Notebook.id)
        .join(api.Assignment, whole.assignment_id == api.Assignment.id)
        .filter((part.late_submission_penalty != 0) | (whole.timestamp > api.Assignment.duedate))
    )
    if assignments:
        rows = rows.filter(api.Assignment.name.in_(assignments))
    changed = []
    for submission, notebook, assignment, name in rows:
        seconds, before = submission.total_seconds_late, notebook.late_submission_penalty or 0.0
        now = (late(submission.student_id, notebook, seconds) if seconds > 0 else None) or 0.0
        if abs(now - before) > 1e-9:
            notebook.late_submission_penalty = now
            changed.append(Renewed(assignment, submission.student_id, name, before, now))
    if changed:
        gradebook.db.commit()
    return changed
