"""The secret seed of a course: hidden inputs are drawn from it, and it never leaves this checkout."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile

from autograder.errors import CourseError
from autograder.registry import ROOT

PATH = ROOT / "autograder" / "secret_seed"
GIVEN = "AUTOGRADER_SEED"


def seed() -> int:
    """The course's seed, made on first use. It is readable by its owner alone and ignored by git.

    AUTOGRADER_SEED, a whole number, stands in for it where gradings of different checkouts are compared.
    """
    if os.environ.get(GIVEN, "").isdecimal():
        return int(os.environ[GIVEN])
    if not PATH.exists():
        _make()
    text = PATH.read_text("ascii", errors="replace").strip()
    if not text.isdecimal():
        raise CourseError(f"{PATH.name} does not hold a whole number; delete it and a new one is made")
    return int(text)


def _make() -> None:
    """Write a new seed in one step: whoever comes at the same time finds none or a whole one, and all the same."""
    descriptor, draft = tempfile.mkstemp(dir=PATH.parent, prefix=PATH.name)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(str(secrets.randbits(64)))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, PATH)
    finally:
        os.unlink(draft)
