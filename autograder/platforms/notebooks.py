"""Which notebook of the course a file is, by its content rather than its name.

The bytes are searched for marks and never parsed: this takes time in proportion to the file, and also works on a
truncated file.
"""

import contextlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from autograder.grading import submission
from course.errors import CourseError

# What nbgrader calls a cell, the cell's id, and what a cell defines. The first that a file has decides: tools that
# strip metadata leave the second, and some leave only the third.
_MARKS = [
    re.compile(rb'"grade_id"\s*:\s*"([^"\\]{1,200})"'),
    re.compile(rb'"id"\s*:\s*"([a-zA-Z0-9_-]{1,64})"'),
    re.compile(rb'(?:"|\\n)(?:def|class) +([^\W\d]\w{0,100})'),
]
_DEFINITIONS = 2
MAX_MARKS = 100_000  # that are looked at
# What browsers, file managers and people add to a name.
_COPY = r"(?:copy of )?{}(?:[ _-]*(?:\(\d+\)|\d+|copy\d*|final|v\d+))*"


@dataclass(frozen=True)
class Released:
    """One released notebook: its assignment and name, its marks of each kind, and the sources of its cells by name."""

    assignment: str
    name: str
    marks: tuple[frozenset[bytes], ...]
    sources: dict[str, str]


def released(course: Path) -> list[Released]:
    """All released notebooks of a course; those in `source` if an assignment has not been released."""
    found = {}
    for folder in ("source", "release"):
        for path in sorted((course / folder).glob("*/*.ipynb")):
            with contextlib.suppress(submission.Refused):
                data = submission.read_bytes(path)
                sources = {cell.name: cell.source for cell in submission.submitted_cells(data) if cell.name}
                key = path.parent.name, path.stem
                found[key] = Released(*key, tuple(_found(mark, data) for mark in _MARKS), sources)
    return [*found.values()]


def _found(mark: re.Pattern[bytes], data: bytes) -> frozenset[bytes]:
    """Marks of one kind; a file of nothing else does not fill the memory."""
    return frozenset(match[1] for match in itertools.islice(mark.finditer(data), MAX_MARKS))


def of_assignment(assignment: str, course: Path) -> tuple[list[Released], list[Released]]:
    """The notebooks of an assignment, and those of the others. Raises CourseError where it has none."""
    known = released(course)
    mine = [one for one in known if one.assignment == assignment]
    if not mine:
        names = ", ".join(sorted({one.assignment for one in known})) or "none"
        raise CourseError(f"{assignment!r} is not released in {course}; released: {names}")
    return mine, [one for one in known if one.assignment != assignment]


def recognized(data: bytes, file_name: str, known: list[Released]) -> Released | None:
    """The released notebook that a file is a copy of, or None.

    A file that has no marks at all, such as an empty one, is identified by its name: grading will say what is wrong
    with it.
    """
    marked = False
    for kind, mark in enumerate(_MARKS):
        marks = _found(mark, data)
        best = max(known, key=lambda one: len(marks & one.marks[kind]))
        shared, whole = len(marks & best.marks[kind]), len(best.marks[kind])
        # A definition alone proves little: others write functions of the same names.
        if 2 * shared > whole or shared and kind != _DEFINITIONS and 2 * shared >= min(len(marks), whole):
            return best
        marked |= bool(marks)
    if marked:
        return None
    stem = re.sub(r"\.ipynb$", "", file_name.rpartition("/")[2], flags=re.IGNORECASE)
    return next((one for one in known if re.fullmatch(_COPY.format(re.escape(one.name)), stem, re.IGNORECASE)), None)


def answered(data: bytes, one: Released) -> int:
    """How many of the released cells hold something else than was handed out."""
    try:
        cells = submission.submitted_cells(data)
    except submission.Refused:
        return 0
    return sum(cell.source.strip() != one.sources[cell.name].strip() for cell in cells if cell.name in one.sources)
