"""A class report as one HTML page; the template in this folder defines its content.

The plots are inline SVG; each has its numbers in a table or a sentence next to it.
"""

import math
import re
import statistics
import textwrap
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.reports.model import ClassReport, printable
from autograder.reports.summary import names, outcome, score_table, shorten, summary, waiting

LETTERS = 52  # of a label, on one line of a plot
LINE, BAR = 16, 24  # heights in a plot, in pixels: of a line of a label, and of a bar with the space around it
MOST = 10  # misconceptions in the plot; the table has all


def as_html(report: ClassReport) -> str:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    templates.filters.update(code=_code, shorten=shorten)
    templates.globals.update(LINE=LINE, BAR=BAR)
    times = report.times()
    return templates.get_template("class_report.html.j2").render(
        report=report,
        title=f"{printable(report.assignment)}: class report",
        summary=summary(report),
        totals=_totals(report),
        scores=score_table(report),
        exercises=_exercises(report),
        misconceptions=_misconceptions(report),
        median=statistics.median(seconds for seconds, _ in times) if times else None,
        times=[(student.name, f"{seconds:.1f}") for seconds, student in times],
        missing=names(report.not_handed_in()),
        waiting=waiting(report),
    )


def _code(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _totals(report: ClassReport) -> list[dict[str, Any]]:
    """The bars of a histogram: at most ten, each with its edges, and how many totals are between them."""
    totals = [student.total for student in report.graded()]
    top = max(report.max_score, *totals, 1.0)
    step = next(step for k in range(99) for step in (10**k, 2 * 10**k, 5 * 10**k) if top / step <= 10)
    lows = range(0, math.ceil(top / step) * step, step)
    bars = [{"low": low, "high": min(low + step, math.ceil(top)), "count": 0} for low in lows]
    for total in totals:
        bars[min(len(bars) - 1, int(total / step))]["count"] += 1  # the last one has its upper end
    return bars


def _exercises(report: ClassReport) -> list[dict[str, Any]]:
    found = []
    for exercise in report.exercises:
        rows = [(title, had, asked) for title, (had, asked) in report.properties(exercise).items()]
        if rows:
            bars = _bars([(title, had / asked, f"{had} of {asked}") for title, had, asked in rows])
            found.append({"name": exercise.name, "outcome": outcome(report, exercise), "rows": rows, "bars": bars})
    return found


def _misconceptions(report: ClassReport) -> dict[str, Any] | None:
    found = report.misconceptions()
    if not found:
        return None
    most = len(found[0][2])
    bars = [(f"{exercise.name}: {text}", len(who) / most, len(who)) for exercise, text, who in found[:MOST]]
    rows = [(exercise.name, text, len(who), names(who)) for exercise, text, who in found]
    return {"rows": rows, "bars": _bars(bars)}


def _bars(bars: list[tuple]) -> list[dict[str, Any]]:
    """Bars of a plot, each with the lines of its label and its place from the top.

    bars: (label, share from 0 to 1, a few words after the bar)
    """
    placed, top = [], 0
    for label, share, words in bars:
        text = textwrap.shorten(label.replace("`", ""), 3 * LETTERS - 10, placeholder=" …")
        lines = textwrap.wrap(text, LETTERS)
        placed.append({"lines": lines, "top": top, "share": share, "words": words})
        top += len(lines) * LINE + BAR
    return placed
