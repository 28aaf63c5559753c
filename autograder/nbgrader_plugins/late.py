"""The cost of lateness, from a table: `late.csv` in the course's folder.

Columns: `hours` and `percent`. A submission that is more than `hours` late loses `percent` of the notebook's score;
the last matching line counts. Without the file, nbgrader's own setting counts, `LateSubmissionPlugin.penalty_method`.

A penalty is a share of the score that counts. It is taken when a notebook is graded, and again before grades are shown
or sent: points may have been given by hand since, and a due date, an extension or the rule may have changed.
"""

import csv
import os
import sys
from pathlib import Path
from typing import Any

import sqlalchemy.exc
from nbgrader.api import Gradebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config.loader import Config, PyFileConfigLoader

from autograder.gradebook import penalties
from autograder.gradebook.penalties import Late
from course.errors import CourseError
from course.folder import COURSE_DIR, ROOT, course_folder, course_id, existing_gradebook

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


def rule(**configured) -> Late:
    """The rule of the plugin that nbgrader's configuration names. configured: `parent` or `config` of a plugin"""
    step = AssignLatePenalties(**configured)
    step.init_plugin()

    def penalty(student: str, notebook, seconds: float) -> float | None:
        plugin: Any = step.plugin_inst
        found = plugin.late_submission_penalty(student, notebook.score, seconds)
        return None if found is None else step._check_late_penalty(notebook, found)

    return penalty


def renew(assignments: list[str], db_url: str, **configured) -> None:
    """Take the penalties of these assignments again, or of all, and say which have changed. configured: see `rule`"""
    try:
        with Gradebook(db_url, course_id()) as gradebook:
            for one in penalties.renew(gradebook, assignments, rule(**configured)):
                print(
                    f"{one.assignment}: {one.student}'s penalty for lateness is now {round(one.now, 2):g} points; "
                    f"it was {round(one.before, 2):g}",
                    file=sys.stderr,
                )
    except sqlalchemy.exc.OperationalError as error:
        print(f"penalties for lateness are as they were when graded: {error.orig}", file=sys.stderr)


def course_config(course: Path) -> Config:
    """nbgrader's configuration, as its commands have it in this course."""
    os.environ[COURSE_DIR] = str(course)  # the configuration reads it
    return PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()


def renew_in(course: Path, assignments: list[str]) -> None:
    """As `renew`, for a command that is not one of nbgrader's. Raises CourseError if there is no gradebook."""
    renew(assignments, existing_gradebook(course), config=course_config(course))


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
