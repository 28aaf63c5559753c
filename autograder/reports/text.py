"""A class report for a terminal, and as a CSV file for a spreadsheet."""

from __future__ import annotations

import csv
import re
import statistics
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from autograder.reports.model import (
    GRADED,
    NOT_GRADED,
    NOT_HANDED_IN,
    ClassReport,
    Exercise,
    Student,
    points,
    printable,
)

WIDTH = 110  # of sentences on a terminal
MAX_NOTES = 12  # of one student; a submission with a thousand odd cells says nothing more

# The columns of the CSV file: one row per student and exercise, in this order.
COLUMNS = {
    "student": "the student's id in the gradebook",
    "last_name": "",
    "first_name": "",
    "assignment": "",
    "notebook": "",
    "exercise": "the graded cell, without `check-`",
    "kind": "code, bonus (its points come on top), written or task (both graded by hand)",
    "status": f"{GRADED}; {NOT_GRADED} (handed in, but there is no result); or {NOT_HANDED_IN}",
    "score": "the points that count, before the penalty for lateness",
    "max_score": "what can be had; 0 for a bonus",
    "auto_score": "the autograder's points; empty where it gave none",
    "manual_score": "a human's points, which count instead",
    "extra_credit": "points on top",
    "to_grade": "yes where a human has still to grade or to confirm",
    "hours_late": "",
    "late_penalty": "points taken off the whole notebook, the same in each of its rows",
    "passed": "properties that hold",
    "properties": "properties asked for; empty where nothing was judged",
    "failed_properties": "their titles, with a bar between",
    "misconceptions": "the sentences, with a bar between",
    "reason": "why the answer could not be judged, or not in full",
    "seconds": "time to grade the notebook, the same in each of its rows",
    "review": "flags and notes for a human, of the whole submission, with a bar between",
}


def summary(report: ClassReport) -> list[str]:
    """The sentences that come first."""
    graded, count = report.graded(), len(report.students)
    handed_in = sum(student.status != NOT_HANDED_IN for student in report.students)
    totals = [student.total for student in graded]
    most = points(report.max_score)
    lines = [
        f"{handed_in} of {count} student{'s' if count != 1 else ''} handed in; {len(graded)} graded.",
        f"Totals of those graded, of {most} points: median {points(statistics.median(totals))}, "
        f"mean {points(statistics.mean(totals))}, from {points(min(totals))} to {points(max(totals))}.",
    ]
    unfinished = sum(student.unfinished() for student in graded)
    if unfinished:
        lines.append(f"{unfinished} of these totals may still change: something waits to be graded by hand.")
    times = report.times()
    if times:
        lines.append(
            f"Time to grade a submission: median {statistics.median(t for t, _ in times):.1f} s, "
            f"slowest {times[0][0]:.1f} s ({times[0][1].name})."
        )
    return lines


def shown(student: Student, exercise: Exercise) -> str:
    """One score in a table: `?` waits for a human, `-` there is none."""
    score = student.scores.get((exercise.notebook, exercise.cell))
    if student.status != GRADED or score is None:
        return "-"
    if score.to_grade and score.auto is None and score.manual is None:
        return "?"
    sign = "+" if exercise.kind == "bonus" and score.counts > 0 else ""
    return f"{sign}{points(score.counts)}" + ("?" if score.to_grade else "")


def heading(report: ClassReport, exercise: Exercise) -> str:
    """An exercise at the head of its column, with what can be had."""
    if exercise.kind == "bonus":
        most = max((record.max_points for _, record in report.answers(exercise)), default=0.0)
        return f"{exercise.name} (+{points(most)})" if most else f"{exercise.name} (bonus)"
    return f"{exercise.name} ({points(exercise.max_score)})"


def outcome(report: ClassReport, exercise: Exercise) -> str:
    """How an exercise went, in a few words."""
    answers = report.answers(exercise)
    right = sum(all(passed for _, passed, _ in record.properties) for _, record in answers)
    idle = sum(record.not_done for _, record in answers)
    return f"{right} of {len(answers)} have all of it" + (f", {idle} did not begin" if idle else "")


def some(words: list[str], limit: int = MAX_NOTES) -> list[str]:
    """The first of many."""
    return words if len(words) <= limit else [*words[:limit], f"and {len(words) - limit} more"]


def as_text(report: ClassReport) -> str:
    """The report for a terminal."""
    return "\n".join(_lines(report))


def _lines(report: ClassReport) -> Iterator[str]:
    yield printable(report.assignment)
    yield from summary(report)
    yield from _section("Scores", _table(report))
    for exercise in report.exercises:
        counts = report.properties(exercise)
        if counts:
            yield from _section(
                f"{exercise.name}: {outcome(report, exercise)}",
                (f"{had:>4} of {asked:<4} {title}" for title, (had, asked) in counts.items()),
            )
    yield from _section(
        "Misconceptions, the most frequent first",
        (
            line
            for exercise, text, students in report.misconceptions()
            for line in (
                *textwrap.wrap(f"{len(students):>4}  {exercise.name}: {text}", WIDTH, subsequent_indent=" " * 6),
                f"      ({_names(students)})",
            )
        ),
    )
    yield from _section("For review", _by_student(report, "review"))
    yield from _section("Could not be graded", _by_student(report, "problems"))
    missing = [student for student in report.students if student.status == NOT_HANDED_IN]
    yield from _section(f"Not handed in: {len(missing)}", [_names(missing)] if missing else [])
    for title, kinds in (("Written answers to grade", ("written", "task")), ("Scores to confirm", ("code", "bonus"))):
        yield from _section(
            title,
            (f"{exercise.name}, {len(students)}: {_names(students)}" for exercise, students in report.to_grade(kinds)),
        )


def _section(title: str, lines) -> Iterator[str]:
    lines = list(lines)
    if lines:
        yield from ("", title, *(f"  {line}" for line in lines))


def _names(students: list[Student]) -> str:
    return ", ".join(student.name for student in students)


def _by_student(report: ClassReport, what: str) -> Iterator[str]:
    for student in report.students:
        if getattr(student, what):
            yield student.name
            yield from (f"  - {text}" for text in some(getattr(student, what)))


def _table(report: ClassReport) -> Iterator[str]:
    """The scores. Long names of exercises stand on several lines, so that more of them fit beside each other."""
    head = [
        "student",
        f"total ({points(report.max_score)})",
        *(heading(report, e) for e in report.exercises),
        "late",
        "penalty",
    ]
    rows = [
        [
            student.name,
            total(student),
            *(shown(student, exercise) for exercise in report.exercises),
            lateness(student),
            f"-{points(student.penalty())}" if student.penalty() else "",
        ]
        for student in report.students
    ]
    broken = [re.findall(r"[^_ -]+[_ -]?|.", text) for text in head]
    depth = max(map(len, broken))
    heads = [list(line) for line in zip(*([""] * (depth - len(text)) + text for text in broken))]
    widths = [min(30, max(_width(row[i]) for row in [*heads, *rows])) for i in range(len(head))]
    for row in [*heads, *rows]:
        first, *others = (_fit(text, width, i == 0) for i, (text, width) in enumerate(zip(row, widths)))
        yield "  ".join([first, *others]).rstrip()


def lateness(student: Student) -> str:
    return f"{student.hours_late:.1f} h" if student.hours_late else ""


def total(student: Student) -> str:
    """The points that count, or why there are none."""
    return points(student.total) + ("?" if student.unfinished() else "") if student.status == GRADED else student.status


def _width(text: str) -> int:
    """Columns of a terminal: letters of East Asia take two, marks above others none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _fit(text: str, width: int, left: bool) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    space = " " * (width - _width(text))
    return text + space if left else space + text


def rows(report: ClassReport) -> Iterator[dict]:
    """The rows of the CSV file; see COLUMNS."""
    for student in report.students:
        review = " | ".join(some([*student.problems, *student.review]))
        for exercise in report.exercises:
            key = exercise.notebook, exercise.cell
            score = student.scores.get(key) if student.status == GRADED else None
            record = student.records.get(key)
            properties = record.properties if record else []
            yield {
                "student": student.name,
                "last_name": student.last_name,
                "first_name": student.first_name,
                "assignment": report.assignment,
                "notebook": exercise.notebook,
                "exercise": exercise.name,
                "kind": exercise.kind,
                "status": student.status,
                "score": score.counts if score else 0.0,
                "max_score": exercise.max_score,
                "auto_score": score and score.auto,
                "manual_score": score and score.manual,
                "extra_credit": score and score.extra,
                "to_grade": "yes" if score and score.to_grade else "no",
                "hours_late": round(student.hours_late, 2),
                "late_penalty": student.penalties.get(exercise.notebook, 0.0),
                "passed": sum(passed for _, passed, _ in properties) if record else None,
                "properties": len(properties) if record else None,
                "failed_properties": " | ".join(title for title, passed, _ in properties if not passed),
                "misconceptions": " | ".join(dict.fromkeys(text for _, _, text in properties if text)),
                "reason": record.reason if record else None,
                "seconds": student.seconds.get(exercise.notebook),
                "review": review,
            }


def write_csv(report: ClassReport, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows(report):
            writer.writerow([harmless(row[column]) for column in COLUMNS])


def harmless(value):
    """A text that no spreadsheet takes for a formula: a quotation mark goes before a sign that begins one. Some take
    semicolons and tabs for borders of cells, so what stands behind these is a beginning too."""
    return _FORMULA.sub(r"\1'\2", printable(value, 20_000)) if isinstance(value, str) else value


_FORMULA = re.compile(r"(^\s*|[;,\t\"]\s*)([=+\-@＝＋－＠﹢﹣﹦﹫])")
