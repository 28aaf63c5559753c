"""A class report for a terminal."""

import re
import textwrap
from collections.abc import Iterable, Iterator

from wcwidth import clip, ljust, rjust, wcswidth

from autograder.reports.model import ClassReport, printable
from autograder.reports.summary import names, outcome, score_table, shorten, summary, waiting

WIDTH = 110  # columns of a sentence
CELL = 30  # columns of a cell, at most


def as_text(report: ClassReport) -> str:
    return "\n".join(_lines(report))


def _lines(report: ClassReport) -> Iterator[str]:
    yield printable(report.assignment)
    yield from summary(report)
    yield from _section("Scores", _table(*score_table(report)))
    for exercise in report.exercises:
        counts = report.properties(exercise)
        yield from _section(
            f"{exercise.name}: {outcome(report, exercise)}",
            (f"{had:>4} of {asked:<4} {title}" for title, (had, asked) in counts.items()),
        )
    yield from _section("Misconceptions, the most frequent first", _misconceptions(report))
    yield from _section("For review", _by_student(report, "review"))
    yield from _section("Could not be graded", _by_student(report, "problems"))
    missing = report.not_handed_in()
    yield from _section(f"Not handed in: {len(missing)}", [names(missing)] if missing else [])
    for title, lines in waiting(report):
        yield from _section(title, lines)


def _section(title: str, lines: Iterable[str]) -> list[str]:
    lines = [f"  {line}" for line in lines]
    return ["", title, *lines] if lines else []


def _misconceptions(report: ClassReport) -> Iterator[str]:
    for exercise, text, students in report.misconceptions():
        yield from textwrap.wrap(f"{len(students):>4}  {exercise.name}: {text}", WIDTH, subsequent_indent=" " * 6)
        yield f"      ({names(students)})"


def _by_student(report: ClassReport, what: str) -> Iterator[str]:
    for student in report.students:
        if getattr(student, what):
            yield student.name
            yield from (f"  - {text}" for text in shorten(getattr(student, what)))


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Long names of exercises are broken into several lines, so that more of them fit next to each other."""
    broken = [re.findall(r"[^_ -]+[_ -]?|.", text) for text in head]
    depth = max(map(len, broken))
    lines = [*zip(*([""] * (depth - len(parts)) + parts for parts in broken)), *rows]
    widths = [min(CELL, max(map(wcswidth, column))) for column in zip(*lines)]
    for line in lines:
        first, *others = (_cut(text, width) for text, width in zip(line, widths))
        cells = [ljust(first, widths[0]), *(rjust(text, width) for text, width in zip(others, widths[1:]))]
        yield "  ".join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    return text if wcswidth(text) <= width else clip(text, 0, width - 1) + "…"
