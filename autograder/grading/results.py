"""The result of a submission, as plain data: the record of a report, and where records are kept."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

from attnlab.checking.judge import Report
from autograder.grading.submission import Refused, read_bytes

RESULTS = "results.json"  # beside the autograded notebooks: what gradebook and notebook do not hold, for graders alone
MIMETYPE = "application/vnd.attnlab.result+json"


MAX_RESULTS = 16 << 20  # bytes of one


class Graded(NamedTuple):
    """The submission and the release that a grade belongs to: a digest and a fingerprint; None if unknown."""

    submission: str | None = None
    release: str | None = None


def graded_in(folder: Path) -> Graded:
    """Read which submission and release the grade in this folder belongs to."""
    try:
        return as_graded(json.loads(read_bytes(folder / RESULTS, MAX_RESULTS)))
    except (Refused, ValueError, RecursionError):
        return Graded()


def as_graded(record) -> Graded:
    """Read which submission and release a record of a grade names."""
    found = record.get("graded") if isinstance(record, dict) else None
    if not isinstance(found, dict):
        return Graded()
    return Graded(*(value if isinstance(value := found.get(name), str) else None for name in Graded._fields))


def entered_in(folder: Path) -> dict[str, dict[str, "Entered"]]:
    """Read the entries of the grade in this folder, by notebook and graded cell. Older records have none."""
    try:
        found = json.loads(read_bytes(folder / RESULTS, MAX_RESULTS))["notebooks"]
        return {
            notebook: {cell: Entered(*values) for cell, values in record.get("entered", {}).items()}
            for notebook, record in found.items()
        }
    except (Refused, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True)
class Flag:
    """Something that a human should see.

    kind: "left out" (a cell), "made up" (answers), "extra argument" (accepted), "not graded" (the notebook),
        "library" (an answer that calls what does its whole work)
    exercise: the one that it is about, or None
    """

    kind: str
    text: str
    exercise: str | None = None

    def __str__(self) -> str:
        return f"{self.exercise}: {self.text}" if self.exercise else self.text

    @property
    def doubts_score(self) -> bool:
        """Whether points should not count before a human has looked."""
        return self.kind in {"made up", "library"}


class PropertyRecord(TypedDict):
    """One property of an answer in `results.json`. hint: the author's or, if there is none, what happened"""

    title: str
    passed: bool
    points: float
    max_points: float
    hint: str | None
    misconception: str | None
    relation: str | None
    follows: bool
    detail: str | None


class Record(TypedDict):
    """One answer in `results.json`. Older records lack `not_done` and `through`."""

    file: str
    exercise: str
    points: float
    max_points: float
    properties: list[PropertyRecord]
    reason: str | None
    not_done: bool
    through: list[str]


class Entered(NamedTuple):
    """The points of a graded cell, and a hash of what they judge: the question, the answer and what is between.

    A human's decision holds as long as these are the same.
    """

    score: float | None
    extra: float | None
    suspect: bool
    judged: str | None


class NotebookRecord(TypedDict):
    """One notebook in `results.json`. Older records have words for flags, and lack `entered`."""

    missing: bool
    refused: str | None
    seconds: float
    notes: list[str]
    flags: list[dict[str, str | None]]
    exercises: list[Record]
    entered: dict[str, Entered]


class Entries(TypedDict):
    """One notebook's entries for the gradebook.

    grades: by graded cell; comments: by answer
    """

    missing: bool
    grades: dict[str, Entered]
    comments: dict[str, str | None]


def as_record(report: Report, file: str) -> Record:
    return {
        "file": file,
        "exercise": report.exercise,
        "points": report.points,
        "max_points": report.max_points,
        "properties": [
            {
                "title": f.title,
                "passed": f.passed,
                "points": f.points,
                "max_points": f.max_points,
                "hint": None if f.passed else f.hint or f.fact or f.detail or None,
                "misconception": f.misconception,
                "relation": f.relation,
                "follows": f.follows,
                "detail": " ".join(filter(None, [f.fact, f.detail])) or None,
            }
            for f in report.findings
        ],
        "reason": report.reason,
        "not_done": report.not_done,
        "through": report.through,
    }
