"""The secret seed of a course: hidden inputs are drawn from it, and it never leaves this checkout."""

from __future__ import annotations

import os
import secrets

from autograder.registry import ROOT

PATH = ROOT / "autograder" / "secret_seed"


def seed() -> int:
    """The course's seed, made on first use. It is readable by its owner alone and ignored by git."""
    try:
        return int(PATH.read_text("ascii"))
    except FileNotFoundError:
        pass
    made = secrets.randbits(64)
    try:
        descriptor = os.open(PATH, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another process was first
        return int(PATH.read_text("ascii"))
    with os.fdopen(descriptor, "w") as file:
        file.write(str(made))
    return made
