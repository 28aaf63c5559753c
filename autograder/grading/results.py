"""The result of a submission, as plain data: the record of a report, and where records are kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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


def as_record(report: Report, file: str) -> dict:
    """Return a report as one JSON object.

    The hint of a failed property is its author's or, if the author gave no hint, what happened.
    """
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
