"""Show how the checks treat right and wrong answers, as `tests/course/exercises/record_checks.py` records it.

    :::{check-figures}
    :::

First the sums, then a closed table for each chapter.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from course import catalog

RECORD = Path(__file__).parent.parent / "checks.json"
COLUMNS = {
    "right answers": lambda row: row["right"],
    "named mistakes": lambda row: row["mistakes"],
    "mistakes on no list": lambda row: row["unseen"],
    "mutants": lambda row: wrong(row),
    "named": lambda row: row["mutants"]["named"],
    "told": lambda row: row["mutants"]["told"],
    "raise": lambda row: row["mutants"]["crash"] + row["mutants"]["partly"],
    "numbers": lambda row: row["mutants"]["neither"] + row["mutants"]["endless"],
    "not caught": lambda row: row["mutants"]["survive"],
}


def wrong(row: dict) -> int:
    """How many mutants of an exercise are wrong on inputs that the exercise allows."""
    return sum(count for verdict, count in row["mutants"].items() if verdict not in {"agree", "beyond"})


def sums(rows: Iterable[dict]) -> dict[str, int]:
    """The sum of each column."""
    rows = list(rows)
    return {title: sum(map(value, rows)) for title, value in COLUMNS.items()}


def text(record: dict[str, dict]) -> Iterator[str]:
    """The lines of the page, as MyST."""
    total, seconds = sums(record.values()), [row["seconds"] for row in record.values()]
    same, beyond = (sum(row["mutants"][kind] for row in record.values()) for kind in ("agree", "beyond"))

    def share(*titles: str) -> str:
        return f"{sum(total[title] for title in titles) / total['mutants']:.0%}".replace("%", " percent")

    yield f"""
- **{total["right answers"]:,} right answers**, written in different ways, to {len(record)} exercises: all are accepted.
- **{total["named mistakes"]:,} mistakes that have a name**: all are caught, and each is named by its own sentence.
- **{total["mistakes on no list"]:,} wrong answers that are on no list**: all are caught.
- **{total["mutants"]:,} mutants**, made by a program from the reference answers, by one change each. Of these,
  {share("named")} are named, and {share("told")} are told how their results are related to the right ones.
  {share("raise")} raise an exception, which is shown with its line. {share("numbers")} are shown their numbers beside
  the right ones. {total["not caught"]:,} are not caught.
- {same:,} further mutants give the right results on up to a thousand more inputs, so nothing is wrong with them, and
  {beyond:,} are wrong only on inputs for which their exercise promises nothing.
- A check of a right answer takes {statistics.median(seconds):.2f} seconds of processor time in the median and
  {max(seconds):.1f} at most.
"""
    for stem in catalog.chapters():
        rows = {name: row for name, row in record.items() if row["chapter"] == stem}
        if rows:
            yield f"\n:::{{dropdown}} {stem}, {len(rows)} exercises\n\n| exercise | {' | '.join(COLUMNS)} |"
            yield "|---|" + "---:|" * len(COLUMNS)
            for name, row in rows.items():
                yield f"| `{name}` | " + " | ".join(str(value(row)) for value in COLUMNS.values()) + " |"
            yield ":::"


class CheckFigures(SphinxDirective):
    """Show the figures of the record."""

    def run(self):
        self.env.note_dependency(str(RECORD))
        return self.parse_text_to_nodes("\n".join(text(json.loads(RECORD.read_text("utf-8")))))


def setup(app) -> None:
    app.add_directive("check-figures", CheckFigures)
