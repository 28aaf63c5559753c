"""CSV files for a spreadsheet, in which no cell is read as a formula."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from autograder.reports.model import ClassReport
from autograder.reports.summary import shorten
from course.errors import CourseError

# Some programs treat semicolons and tabs as cell borders, so the text after these is also a beginning.
_FORMULA = re.compile(r"(^\s*|[;,\t\"]\s*)([=+\-@＝＋－＠﹢﹣﹦﹫])")


def write(path: Path, rows: Iterable[Iterable]) -> None:
    """Write a table, its header first. Raises CourseError if the file cannot be written."""
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([harmless(value) for value in row] for row in rows)
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}") from None


def harmless(value):
    """A text on one line, with a quotation mark before a sign that begins a formula; numbers and a dash as they are."""
    if not isinstance(value, str) or value == "-":
        return value
    if not value.isprintable():
        value = "".join(letter if letter.isprintable() else " " for letter in value)
    return _FORMULA.sub(r"\1'\2", value[:20_000])


def report_rows(report: ClassReport) -> Iterator[dict[str, Any]]:
    """One row per student and exercise."""
    for student in report.students:
        for exercise in report.exercises:
            grade, record = student.grade(exercise), student.records.get((exercise.notebook, exercise.cell))
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
                "score": grade.score if grade else 0.0,  # the points that count, before the penalty for lateness
                "max_score": exercise.max_score,
                "auto_score": grade and grade.auto,
                "manual_score": grade and grade.manual,
                "extra_credit": grade and grade.extra,
                "to_grade": "yes" if grade and grade.to_grade else "no",  # or to confirm
                "hours_late": round(student.hours_late, 2),
                "late_penalty": student.submission.penalties.get(exercise.notebook, 0.0),  # off the whole notebook
                "passed": sum(passed for _, passed, _ in properties) if record else None,
                "properties": len(properties) if record else None,
                "failed_properties": " | ".join(title for title, passed, _ in properties if not passed),
                "misconceptions": " | ".join(dict.fromkeys(text for _, _, text in properties if text)),
                "through": " | ".join(record.through) if record else None,  # graded with references in their place
                "reason": record and record.reason,  # why the answer could not be judged, or not in full
                "seconds": student.seconds.get(exercise.notebook),  # to grade the whole notebook
                "review": " | ".join(shorten([*student.problems, *student.review])),  # of the whole submission
            }


def write_report(report: ClassReport, path: Path) -> None:
    """Write the rows of a report, with their names as the header."""
    rows = [*report_rows(report)]
    write(path, [rows[0] if rows else [], *(row.values() for row in rows)])
