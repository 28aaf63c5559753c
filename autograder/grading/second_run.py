"""A second run of a notebook, for answers that failed because of an earlier answer in the same notebook.

Each earlier answer that is short of points is replaced by its reference, after its own check; only the answers that
build on it are tested, and for each of them the better report counts. So a mistake is paid for once.

The notebook's code can read what it is lent, and keep it. That earns nothing: an answer is tested at its check,
before its own reference is defined; its points from the first run are kept in any case; what this run shows is dropped;
and a report on hidden tests contains no text from the notebook's process (see `attnlab.checking.judge`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from attnlab.checking import code_slice
from attnlab.checking.judge import Report
from attnlab.checking.schema import Material
from autograder.grading.execution import Cell, Evaluated, evaluate
from autograder.sandbox.limits import MAX_SEARCHED, Times
from course import prerequisites
from course.kit.exercise import Exercise


def regrade_with_references(
    first: Evaluated,
    cells: Sequence[Cell],
    exercises: dict[str, Exercise],
    material: Callable[[str], Material],
    begin: float,
    *,
    times: Times,
    **options,
) -> None:
    """Insert better reports for answers that failed because of an earlier one.

    first: of these cells, as `evaluate` gave it, and with what it was given
    begin: when the first run began, on the clock of time.monotonic; both runs together take the time of one
    """
    causes = _causes(first, cells)
    left = times.submission - (time.monotonic() - begin)
    if not causes:
        return
    if left <= 0:
        first.used_up = True
        return
    again = evaluate(
        _with_references(first, cells, causes),
        exercises,
        material,
        times=replace(times, submission=left),
        at_once=True,
        **options,
    )
    first.used_up = first.used_up or again.used_up
    for name, report in again.reports.items():
        report = _drop_unearned_points(report)
        if report.points > first.reports[name].points:
            lent = [e for e in causes[name] if e not in again.reports or _is_short(again.reports[e])]
            first.reports[name] = replace(report, through=lent)
            first.flags += [flag for flag in again.flags if flag.exercise == name and flag not in first.flags]


def _drop_unearned_points(report: Report) -> Report:
    """Only right results count here, since an earlier reference under another name is also a mistake."""
    findings = [
        replace(finding, points=0.0, follows=False) if finding.follows else finding for finding in report.findings
    ]
    return replace(report, findings=findings)


def _is_short(report: Report) -> bool:
    return report.points < report.max_points


def _causes(first: Evaluated, cells: Sequence[Cell]) -> dict[str, list[str]]:
    """For each answer that is short of points and needs earlier ones that are short too: those, in order.

    A notebook with far more code than a chapter's is not searched.
    """
    short = [cell.check for cell in cells if cell.check and _is_short(first.reports[cell.check])]
    done = [name for name in short if not first.reports[name].not_done]
    if len(short) < 2 or not done or sum(len(cell.source) for cell in cells) > MAX_SEARCHED:
        return {}
    causes, statements = {}, []
    for cell in cells:
        if cell.check in done:
            needs = set().union(*(statements[i].needs for i in code_slice.needed(statements, [cell.check])))
            earlier = [name for name in short[: short.index(cell.check)] if name in needs]
            if earlier:
                causes[cell.check] = earlier
        elif not cell.check:
            statements += code_slice.of_cell(cell.source)
    return causes


def _with_references(first: Evaluated, cells: Sequence[Cell], causes: dict[str, list[str]]) -> list[Cell]:
    """The cells up to the last answer that is tested, with each reference after the check of the answer it replaces."""
    lent = {name for earlier in causes.values() for name in earlier}
    last = max(cell.place for cell in cells if cell.check in causes)
    made = []
    for cell in cells:
        if cell.place > last or cell.place in first.left_out or first.is_slow(cell):
            continue
        if not cell.check or cell.check in causes:
            made.append(cell)
        if cell.check in lent:
            made.append(Cell(cell.place, prerequisites.reference(cell.check), lends=cell.check))
    return made
