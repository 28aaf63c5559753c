"""`python -m autograder extend ASSIGNMENT FILE`: who has which extension, from a CSV file.

Columns: `id`, and `until` (a time) or any of `days` and `hours`; 0 removes an extension. They are entered like
nbgrader's own extensions, and count wherever lateness is counted.
"""

import csv
import datetime
import math
from pathlib import Path
from typing import Any

from autograder.gradebook import scores
from autograder.gradebook.writer import Writer
from autograder.platforms import collect, times
from course.errors import CourseError
from course.folder import course_folder, course_id, existing_gradebook


def run(assignment: str, file: Path, course: Path | None, zone: datetime.tzinfo) -> None:
    """Enter the extensions of a file, all or none, and print them. Raises CourseError with the line that is wrong."""
    with scores.opened(course) as gradebook:
        scores.find_assignment(gradebook, assignment)
        due, _ = scores.deadlines(gradebook, assignment)
        known = {student.id for student in scores.students(gradebook)}
    longer = read(file, due, known, zone)
    with Writer(existing_gradebook(course_folder(course)), course_id()) as writer:
        for student, extension in longer.items():
            writer.extend(assignment, student, extension or None)
    for student, extension in longer.items():
        until = f", until {times.shown(due + extension, zone)}" if due else ""
        asked = f": {collect.LATE_OR_NOT}" if extension and collect.marked_late(course, student, assignment) else ""
        print(f"{student}: {extension}{until}{asked}")


def read(
    file: Path, due: datetime.datetime | None, known: set[str], zone: datetime.tzinfo
) -> dict[str, datetime.timedelta]:
    """How much longer each student has. due: when the assignment is due, in UTC; zone: for times without one"""
    longer: dict[str, datetime.timedelta] = {}
    try:
        with open(file, newline="", encoding="utf-8-sig") as stream:
            rows = csv.DictReader(stream, restval="")
            if "id" not in (rows.fieldnames or []) or not {"until", "days", "hours"} & set(rows.fieldnames or []):
                raise CourseError(f"{file}: its first line must have the column id, and until, days or hours")
            for row in rows:
                where, student = f"{file}, line {rows.line_num}", row["id"].strip()
                if student not in known:
                    raise CourseError(f"{where}: the gradebook has no student {student!r}")
                if student in longer:
                    raise CourseError(f"{where}: {student} appears twice")
                longer[student] = _longer(row, due, zone, where)
    except OSError as error:
        raise CourseError(f"{file} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise CourseError(f"{file} is not a CSV file in UTF-8") from None
    return longer


def _longer(
    row: dict[str, Any], due: datetime.datetime | None, zone: datetime.tzinfo, where: str
) -> datetime.timedelta:
    if until := row.get("until", "").strip():
        if due is None:
            raise CourseError(f"{where}: until needs a due date: `nbgrader db assignment add ... --duedate ...`")
        try:
            time = times.parse_time(until, zone)
        except ValueError as error:
            raise CourseError(f"{where}: {error}") from None
        if time < due:
            raise CourseError(f"{where}: {until!r} is not a time after the due date, {times.shown(due, zone)}")
        return time - due
    try:
        days, hours = (float(row.get(name, "").strip() or 0) for name in ("days", "hours"))
    except ValueError:
        days = hours = math.nan
    if not 0 <= days + hours / 24 <= 3650:
        raise CourseError(f"{where}: days and hours must be numbers that are not negative")
    return _calendar_days(int(days), due, zone) + datetime.timedelta(days=days % 1, hours=hours)


def _calendar_days(days: int, due: datetime.datetime | None, zone: datetime.tzinfo) -> datetime.timedelta:
    """How long days are after the due date, at the same time of the day, also where the clocks change between."""
    if due is None:
        return datetime.timedelta(days=days)
    there = due.replace(tzinfo=datetime.UTC).astimezone(zone)
    later = (there + datetime.timedelta(days=days)).astimezone(datetime.UTC)
    return later.replace(tzinfo=None) - due
