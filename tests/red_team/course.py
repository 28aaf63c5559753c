"""A class of attackers in a course folder: released, handed in, graded with nbgrader's own command, and looked at."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
from pathlib import Path

import nbformat
import numpy as np
from nbgrader.api import MissingEntry

from autograder.demo import sample_class
from course import release
from tests.autograder import small_course
from tests.red_team import attacks
from tests.red_team.attacks import STEM, Attack, Kit

HONEST = ("aaa_honest", "zzz_honest")  # the first and the last to be graded
SHORT = ("--TrustedAutograde.cell_seconds=3", "--TrustedAutograde.case_seconds=2")


def make(released: Path, course: Path) -> None:
    """A copy of the released course, in which the chapter is due."""
    shutil.copytree(released, course)
    with small_course.book(course) as gradebook:
        gradebook.update_or_create_assignment(STEM, duedate=sample_class.DUE.replace(tzinfo=None))


def right_notebook(course: Path) -> dict:
    """The released notebook with right answers, and none of the cells that are not graded."""
    released = small_course.released(course, STEM, STEM)
    notebook = sample_class.submission(sample_class.Sample("", "", references="all"), STEM, released)
    notebook.cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import numpy as np\nfrom attnlab import check"))
    return json.loads(nbformat.writes(notebook))


def student(attack: Attack) -> str:
    return f"m_{attack.name}"


def hand_in(course: Path, name: str, alter, kit: Kit, hours: int = 0) -> None:
    folder = small_course.folder(course, name, hours - 24.0, STEM)
    attacks.hand_in(folder, alter(folder, kit))


def grade(course: Path, *options: str):
    return release.nbgrader("autograde", STEM, *SHORT, *options, course=course, check=False)


def points(course: Path, name: str) -> dict | None:
    """Exercise -> points, or None where the gradebook has none."""
    with small_course.book(course) as gradebook, contextlib.suppress(MissingEntry):
        found = {grade.name: grade.score for grade in gradebook.find_submission_notebook(STEM, STEM, name).grades}
        return {exercise: found[f"check-{exercise}"] for exercise in attacks.FULL}
    return None


@contextlib.contextmanager
def listener():
    """A socket that listens on a port of loopback."""
    with socket.create_server((attacks.HOST, 0)) as server:
        server.settimeout(0.1)
        yield server


def came(server) -> bool:
    with contextlib.suppress(TimeoutError):
        server.accept()[0].close()
        return True
    return False


LONG_NUMBER = r"(?a)(\d+[._]\d{7})\d{3,}"


def long_numbers(value):
    """The first digits of every number in a material, as a page would show it."""
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from long_numbers(item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield from re.findall(LONG_NUMBER, " ".join(map(repr, value.ravel().tolist())))
