"""The cost of lateness, from a table: `late.csv` in the course's folder.

Columns: `hours` and `percent`. A submission that is more than `hours` late loses `percent` of the notebook's score;
the last matching line counts. Without the file, nbgrader's own setting counts, `LateSubmissionPlugin.penalty_method`.
"""

import csv
from pathlib import Path

from nbgrader.plugins import LateSubmissionPlugin

from course.errors import CourseError
from course.folder import course_folder

FILE = "late.csv"


class LateRules(LateSubmissionPlugin):
    """nbgrader's plugin, with a table of steps. Raises CourseError if the table is wrong, before grading."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._steps = read(self._course() / FILE)

    def _course(self) -> Path:
        above = self.parent
        while above is not None and not hasattr(above, "coursedir"):
            above = above.parent
        return Path(above.coursedir.root) if above else course_folder()

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points to take off, or None."""
        if self._steps is None:
            return super().late_submission_penalty(student_id, score, total_seconds_late)
        percent = [percent for hours, percent in self._steps if total_seconds_late > hours * 3600]
        return score * percent[-1] / 100 if percent else None


def read(path: Path) -> list[tuple[float, float]] | None:
    """Steps of hours and percent, in ascending order, or None if there is no table."""
    if not path.exists():
        return None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            steps = sorted((float(row["hours"]), float(row["percent"])) for row in csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        steps = []
    if not steps or not all(hours >= 0 and 0 <= percent <= 100 for hours, percent in steps):
        raise CourseError(f"{path} must have the columns hours and percent, with numbers from 0 (percent: to 100)")
    return steps
