"""Grade submissions one after another, in this process: what `nbgrader autograde` and formgrader's button do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autograder.grading import grade_submission
from autograder.sandbox import bubblewrap

Job = tuple[tuple[str, str], bytes, bytes]  # its names, what is common to the assignment, the submission
MANY = 6  # submissions, for which a process to fork others from is worth its start


class InThisProcess:
    """One after another, here."""

    workers = 1

    def __init__(self):
        self._graded = 0

    def graded(self, jobs: Iterable[Job], count: int) -> Iterator[tuple[tuple[str, str], bytes | Exception]]:
        """count: how many jobs there are, or may be"""
        for names, common, submission in jobs:
            many = count >= MANY or self._graded >= MANY
            try:
                result = grade_submission.grade(common, submission, many)
            except bubblewrap.NoJail:
                raise
            except Exception as error:
                result = error
            self._graded += 1
            yield names, result
