"""Which grade a page of feedback shows: a stamp in the page, to be compared with that of the grade that counts.

The stamp is a hash of all that the page shows of the gradebook, and of the graded notebook.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false

import hashlib
import json
import re
from collections import defaultdict
from pathlib import Path

from nbgrader import api
from nbgrader.api import Gradebook

_TAG = '<meta name="grade" content="{}"/>'
_IN_PAGE = re.compile(_TAG.format("([0-9a-f]{64})").encode())
_HEAD = 5000  # bytes of a page in which the tag is


def of_grades(
    gradebook: Gradebook, assignment: str, autograded: Path, student: str | None = None
) -> dict[tuple[str, str], str]:
    """The stamps of the grades that count, by student and notebook.

    autograded: nbgrader's folder of graded notebooks; student: all students if None
    """
    whole, part, grade, comment = api.SubmittedAssignment, api.SubmittedNotebook, api.Grade, api.Comment
    submitted = (
        gradebook.db.query(part.id, whole.student_id, api.Notebook.name, part.late_submission_penalty)
        .join(whole, part.assignment_id == whole.id)
        .join(api.Notebook, part.notebook_id == api.Notebook.id)
        .join(api.Assignment, whole.assignment_id == api.Assignment.id)
        .filter(api.Assignment.name == assignment)
    )
    if student is not None:
        submitted = submitted.filter(whole.student_id == student)
    shown: dict[str, list[list]] = defaultdict(list)
    scores = grade.auto_score, grade.manual_score, grade.extra_credit
    for one, columns in ((grade, scores), (comment, (comment.auto_comment, comment.manual_comment))):
        rows = gradebook.db.query(one.notebook_id, one.cell_id, *columns)
        for notebook, *values in rows.filter(one.notebook_id.in_(submitted.with_entities(part.id))):
            shown[notebook].append(values)
    return {
        (owner, notebook): _stamp([penalty, sorted(shown[key], key=str)], autograded / owner / assignment / notebook)
        for key, owner, notebook, penalty in submitted
    }


def tag(stamp: str) -> str:
    """The tag that carries a stamp in the head of a page."""
    return _TAG.format(stamp)


def of_page(page: Path) -> str | None:
    """The stamp that a page carries, or None."""
    with page.open("rb") as file:
        found = _IN_PAGE.search(file.read(_HEAD))
    return found and found[1].decode("ascii")


def _stamp(values: list, notebook: Path) -> str:
    graded = notebook.with_name(f"{notebook.name}.ipynb")
    content = graded.read_bytes() if graded.is_file() else b""
    return hashlib.sha256(json.dumps(values).encode("ascii") + content).hexdigest()
