"""Read the gradebook and the files next to each autograded notebook into a class report."""

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from autograder.gradebook import released, scores
from autograder.grading.results import MAX_RESULTS, RESULTS, Flag, as_graded
from autograder.grading.submission import Refused, notebook_files, read_bytes, read_folder
from autograder.reports.model import GRADED, NOT_GRADED, ClassReport, Exercise, Record, Student, points, printable
from course.cells import exercise_of
from course.errors import CourseError
from course.folder import course_folder


def gather(assignment: str, course: Path | None = None, chosen: set[str] | None = None) -> ClassReport:
    """Read gradebook and results. Raises CourseError with one line that says what is missing.

    course: the course's folder; `course_folder()` if none is named; chosen: ids of students, if not all
    """
    course = course_folder(course)
    with scores.opened(course) as gradebook:
        found, known = scores.read(gradebook, assignment), scores.students(gradebook)
        fingerprint, why = _fingerprint(gradebook, assignment, course)
    students = {s.id: Student(s.id, printable(s.first_name or ""), printable(s.last_name or "")) for s in known}
    handed_in = _handed_in(course, assignment)
    for name in handed_in:
        students.setdefault(name, Student(name))  # the gradebook need not know everyone who handed in
    names = sorted(students if chosen is None else students.keys() & chosen)
    report = ClassReport(
        assignment, found.max_score, _exercises(found, course), [students[name] for name in names], why
    )
    for student in report.students:
        _add_submission(student, found, student.name in handed_in, course)
    if not report.graded():
        count = len(report.students) - len(report.not_handed_in())
        raise CourseError(
            f"nothing of {printable(assignment)} is graded yet ({count} handed in): run `nbgrader autograde` first"
        )
    for student in report.graded():
        _add_results(report, student, course, student.name in handed_in, fingerprint)
    for student in report.students:
        for words in (student.problems, student.review):
            words[:] = dict.fromkeys(map(printable, words))
        student.name = printable(student.name)
    return report


def _fingerprint(gradebook, assignment: str, course: Path) -> tuple[str | None, str | None]:
    """The fingerprint of the present release, or why it cannot be graded."""
    folder = _inside(course / "release", assignment)
    try:
        return released.fingerprint(released.plans(gradebook, assignment, folder or course), course), None
    except CourseError as error:
        return None, printable(error)


def _handed_in(course: Path, assignment: str) -> set[str]:
    """The students who have a folder for the assignment, in whatever state it is."""
    try:
        entries = [*os.scandir(course / "submitted")]
    except OSError:
        return set()
    return {entry.name for entry in entries if os.path.lexists(Path(entry.path) / assignment)}


def _exercises(found: scores.Scores, course: Path) -> list[Exercise]:
    """The graded cells, by notebook, in the order of the instructor's; by name where that cannot be read."""
    places, exercises = {}, []
    for notebook in {cell.notebook for cell in found.cells}:
        path = _inside(course / "source", found.assignment, f"{notebook}.ipynb")
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            for number, cell in enumerate(json.loads(path.read_bytes() if path else "")["cells"]):
                places[notebook, cell["metadata"].get("nbgrader", {}).get("grade_id")] = number
    for cell in found.cells:
        kind = "written" if cell.kind == "markdown" else cell.kind
        if kind == "code" and cell.max_score == 0 and exercise_of(cell.name):
            kind = "bonus"
        name = printable(exercise_of(cell.name) or cell.name)
        exercises.append(Exercise(cell.notebook, cell.name, name, kind, cell.max_score))
    return sorted(exercises, key=lambda e: (e.notebook, places.get((e.notebook, e.cell), math.inf), e.name))


def _inside(folder: Path, *names: str) -> Path | None:
    """A path of these names below a folder, or None where one is not a name: an id in a gradebook can be any text."""
    bad = any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names)
    return None if bad else folder.joinpath(*names)


def _add_submission(student: Student, found: scores.Scores, handed_in: bool, course: Path) -> None:
    """Compare the gradebook with the folders: was anything handed in, and was it this that was graded?"""
    entered = found.submissions.get(student.name)
    submitted, autograded = (
        _inside(course / name, student.name, found.assignment) for name in ("submitted", "autograded")
    )
    has_result = autograded is not None and autograded.is_dir()
    student.submission = entered or student.submission
    # A submission without points was admitted to the gradebook, and then something went wrong, or nothing gives points.
    if entered and (has_result or any((g.auto, g.manual) != (None, None) for g in entered.grades.values())):
        student.status = GRADED
    elif entered or handed_in:
        student.status = NOT_GRADED
        student.problems.append(_why_no_result(submitted))


def _why_no_result(folder: Path | None) -> str:
    with contextlib.suppress(OSError):
        if folder and not notebook_files(folder):
            return "handed in without a notebook"
    return "handed in, but there is no result: run `nbgrader autograde` for this student to see why"


def _add_results(report: ClassReport, student: Student, course: Path, handed_in: bool, fingerprint: str | None) -> None:
    """Add what `results.json` says. Where it is damaged or missing, that is said, and the scores stand.

    handed_in: whether there is a submission; fingerprint: of what is released now
    """
    folder = _inside(course / "autograded", student.name, report.assignment)
    if folder is None or not os.path.lexists(folder / RESULTS):
        student.review.append(f"there is no {RESULTS}: no properties, no times")
        return
    try:
        found = json.loads(read_bytes(folder / RESULTS, MAX_RESULTS))
        notes, notebooks = _texts(found["notes"]), {n: _notebook(w) for n, w in found["notebooks"].items()}
        graded = as_graded(found)
    except Refused as error:
        student.problems.append(str(error))
        return
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        student.problems.append(f"{RESULTS} is damaged: no properties, no times; grade this submission again")
        return
    if handed_in and graded.submission != read_folder(course / "submitted" / student.name / report.assignment).digest:
        student.stale = True
        student.problems.append("handed in again since it was graded: the scores are those of the earlier submission")
    elif fingerprint and graded.release != fingerprint:
        student.stale = True
        student.problems.append("graded under an older release: the scores are those of its cells, points and tests")
    student.review += notes
    several = len({exercise.notebook for exercise in report.exercises}) > 1
    for name, (work, records) in notebooks.items():
        prefix = f"{name}: " if several else ""
        if work["missing"]:
            student.problems.append(f"the notebook {name} was not handed in")
            continue
        if work["refused"]:
            student.problems.append(prefix + work["refused"])
            continue
        student.seconds[name] = work["seconds"]
        student.review += [prefix + text for text in (*work["flags"], *work["notes"])]
        for exercise in report.exercises:
            record = records.get(exercise_of(exercise.cell) or "")
            if exercise.notebook == name and record:
                student.records[name, exercise.cell] = record
                flagged = any(flag.startswith(f"{exercise.name}: ") for flag in work["flags"])
                _compare(student, exercise, record, flagged)


def _compare(student: Student, exercise: Exercise, record: Record, flagged: bool) -> None:
    """Say what a record tells that its points do not: why there are none, and points that the gradebook has not.

    flagged: whether the reason has been given to the grader in other words
    """
    if record.reason and not record.not_done:
        if not any(passed for _, passed, _ in record.properties):
            student.problems.append(f"{exercise.name}: {record.reason}")
        elif not flagged:
            student.review.append(f"{exercise.name}: {record.reason}")
    grade = student.grade(exercise)
    if exercise.kind == "code" and grade and grade.auto is not None and abs(grade.auto - record.points) > 1e-6:
        student.review.append(
            f"{exercise.name}: {RESULTS} says {points(record.points)} points, the gradebook "
            f"{points(grade.auto)}; grade this submission again"
        )


def _notebook(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Record]]:
    """One notebook of results.json, checked. Raises one of many errors where it is not as it should be."""
    work = {
        "missing": found["missing"] is True,
        "refused": _text_or_none(found["refused"]),
        "seconds": _number(found["seconds"]),
        "notes": _texts(found["notes"]),
        # Older records have words.
        "flags": _texts([flag if isinstance(flag, str) else str(Flag(**flag)) for flag in found["flags"]]),
    }
    return work, {_text(e["exercise"]): _record(e) for e in found["exercises"]}


def _record(found: dict[str, Any]) -> Record:
    properties = [
        (_text(p["title"]), p["passed"] is True, _text_or_none(p["misconception"])) for p in found["properties"]
    ]
    not_done = found.get("not_done") is True  # older records do not say it: there it is a reason like any other
    reason = _text_or_none(found["reason"])
    through = _texts(found.get("through", []))  # nor this
    return Record(_number(found["points"]), _number(found["max_points"]), properties, reason, not_done, through)


def _text(value) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return printable(value)


def _text_or_none(value) -> str | None:
    return None if value is None else _text(value)


def _texts(values) -> list[str]:
    if not isinstance(values, list):
        raise TypeError("not a list")
    return [_text(value) for value in values]


def _number(value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError("not a number")
    return float(value)
