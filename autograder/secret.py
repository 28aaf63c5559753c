"""The secret seed of a course: hidden inputs are drawn from it, and it never leaves the course's folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from autograder.errors import CourseError
from autograder.registry import course_folder

NAME = "secret_seed"
GIVEN = "AUTOGRADER_SEED"


def path(course: Path | None = None) -> Path:
    """Where the seed of a course lies: in its folder, beside the gradebook. `course_folder()` if none is named."""
    return (course or course_folder()) / NAME


def seed(course: Path | None = None) -> int:
    """The course's seed, made on first use. It is readable by its owner alone.

    AUTOGRADER_SEED, a whole number, stands in for it where gradings of different courses are compared.
    """
    if os.environ.get(GIVEN, "").isdecimal():
        return int(os.environ[GIVEN])
    place = path(course)
    if not place.exists():
        _make(place)
    text = place.read_text("ascii", errors="replace").strip()
    if not text.isdecimal():
        raise CourseError(f"{place} does not hold a whole number; delete it and a new one is made")
    return int(text)


def _make(place: Path) -> None:
    """Write a new seed in one step: whoever comes at the same time finds none or a whole one, and all the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=place.parent, prefix=place.name)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(str(secrets.randbits(64)))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, place)
    finally:
        os.unlink(draft)
