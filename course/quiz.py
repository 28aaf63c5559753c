"""The choices of a quiz, as a chapter writes them: for the book's directive and for the plain notebook alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from course.errors import CourseError

_CHOICE = re.compile(r"^- \[([ xX])\] (.+?) :: (.+)$")


class Choice(NamedTuple):
    """A choice of a quiz, `- [ ] choice :: feedback`; both texts are still markdown."""

    right: bool
    text: str
    feedback: str


def quiz_choices(question: str, lines: Iterable[str]) -> list[Choice]:
    """Parse the choices of a question. Raises CourseError for any other line, and unless exactly one is right."""
    found = []
    for line in filter(str.strip, lines):
        match = _CHOICE.match(line.strip())
        if not match:
            raise CourseError(f"a line of the quiz {question!r} must read `- [ ] choice :: feedback`, not {line!r}")
        found.append(Choice(match[1] != " ", match[2], match[3]))
    if len(found) < 2 or sum(choice.right for choice in found) != 1:
        raise CourseError(f"the quiz {question!r} needs two choices or more, of which exactly one is marked [x]")
    return found
