"""What a class did with one assignment: `python -m autograder report ASSIGNMENT`.

Scores are those of the gradebook, as they count: by hand where a human gave one, with extra credit, less the penalty
for lateness. What was found out about each answer is in the `results.json` beside each autograded notebook. Names and
notes there may be a student's words: they are made one line of printable text when they are read, and escaped where
they are written.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy
from nbgrader.api import Gradebook, MissingEntry

from autograder.course.cells import exercise_of
from autograder.course.folder import course_folder
from autograder.errors import CourseError
from autograder.grading.results import RESULTS, Flag
from autograder.grading.submission import Refused, read_bytes

GRADED, NOT_GRADED, NOT_HANDED_IN = "graded", "not graded", "not handed in"
MAX_RESULTS = 16 << 20  # bytes of one results.json
MAX_TEXT = 500  # characters of one note


@dataclass(frozen=True)
class Exercise:
    """One graded cell of the assignment. A bonus has 0 as its maximum."""

    notebook: str
    cell: str
    name: str
    kind: str
    max_score: float


@dataclass
class Record:
    """What `results.json` says of one answer; properties are (title, passed, misconception or None)."""

    points: float
    max_points: float
    properties: list[tuple[str, bool, str | None]]
    reason: str | None
    not_done: bool = False


@dataclass
class Score:
    """Points of one graded cell in the gradebook. `to_grade`: a human has still to look."""

    counts: float
    auto: float | None
    manual: float | None
    extra: float | None
    to_grade: bool


@dataclass
class Student:
    """One student: scores and records by (notebook, cell), seconds and penalties by notebook.

    problems: what could not be graded, and why; review: flags and notes for a human; total: points after the penalty
    """

    name: str
    first_name: str = ""
    last_name: str = ""
    status: str = NOT_HANDED_IN
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)
    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    hours_late: float = 0.0
    problems: list[str] = field(default_factory=list)
    review: list[str] = field(default_factory=list)

    def penalty(self) -> float:
        return sum(self.penalties.values())

    def unfinished(self) -> bool:
        """Whether the total may still change by a human's hand."""
        return any(score.to_grade for score in self.scores.values())


@dataclass
class ClassReport:
    """Everything known about one assignment; students in alphabetical order, exercises in the notebook's."""

    assignment: str
    max_score: float
    exercises: list[Exercise]
    students: list[Student]

    def graded(self) -> list[Student]:
        return [student for student in self.students if student.status == GRADED]

    def answers(self, exercise: Exercise) -> list[tuple[Student, Record]]:
        """The answers to one exercise that were judged, or that could have been."""
        key = exercise.notebook, exercise.cell
        return [(student, student.records[key]) for student in self.graded() if key in student.records]

    def properties(self, exercise: Exercise) -> dict[str, tuple[int, int]]:
        """How many answers have each property, and of how many, by its title."""
        counts: dict[str, tuple[int, int]] = {}
        for _, record in self.answers(exercise):
            for title, passed, _ in record.properties:
                had, asked = counts.get(title, (0, 0))
                counts[title] = had + passed, asked + 1
        return counts

    def misconceptions(self) -> list[tuple[Exercise, str, list[Student]]]:
        """Each misconception with the students who have it, the most frequent first."""
        found: dict[tuple[Exercise, str], list[Student]] = {}
        for exercise in self.exercises:
            for student, record in self.answers(exercise):
                for text in dict.fromkeys(text for _, _, text in record.properties if text):
                    found.setdefault((exercise, text), []).append(student)
        return [(*key, students) for key, students in sorted(found.items(), key=lambda item: -len(item[1]))]

    def times(self) -> list[tuple[float, Student]]:
        """Seconds it took to grade each submission, the slowest first."""
        return sorted(((sum(s.seconds.values()), s) for s in self.graded() if s.seconds), key=lambda pair: -pair[0])

    def to_grade(self, kinds: tuple[str, ...]) -> list[tuple[Exercise, list[Student]]]:
        """The exercises of these kinds that wait for a human, each with its students."""
        waiting = [
            (e, [s for s in self.graded() if (score := s.scores.get((e.notebook, e.cell))) and score.to_grade])
            for e in self.exercises
            if e.kind in kinds
        ]
        return [(exercise, students) for exercise, students in waiting if students]


def run(assignment: str, course: Path | None = None, table: Path | None = None, page: Path | None = None) -> int:
    """Print the report on one assignment; writes the CSV file and the HTML page where they are wanted.

    course: the course folder; the one of `registry.course_folder()` if none is named
    Raises CourseError where there is nothing to report on, or a file cannot be written.
    """
    from autograder.reports import text as class_text

    report = gather(assignment, (course or course_folder()).resolve())
    text = class_text.as_text(report)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding) + ("\n" if table or page else ""))
    try:
        if table is not None:
            class_text.write_csv(report, table)
            print(f"scores by student and exercise: {printable(str(table))}")
        if page is not None:
            from autograder.reports import html_page

            page.write_text(html_page.as_html(report), "utf-8")
            print(f"the report as a page: {printable(str(page))}")
    except OSError as error:
        raise CourseError(f"{printable(str(error.filename))} cannot be written: {error.strerror}") from None
    return 0


# Reading


def printable(text, limit: int = MAX_TEXT) -> str:
    """One line that moves no cursor and turns no letters around, whoever wrote it."""
    line = " ".join(str(text)[: 4 * limit].split())
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def points(number: float | None) -> str:
    """12, 7.5, or nothing."""
    return "" if number is None else f"{round(number, 2):g}"


def gather(assignment: str, course: Path) -> ClassReport:
    """Read gradebook and results. Raises CourseError with one line that says what is missing."""
    path = course / "gradebook.db"
    if not path.is_file():  # to open one that is not there would make it
        raise CourseError(f"there is no gradebook at {path}; name the course folder with --course")
    try:
        with Gradebook(f"sqlite:///{path}") as gradebook:
            report = _read_gradebook(gradebook, assignment, course)
    except sqlalchemy.exc.SQLAlchemyError as error:
        why = printable(getattr(error, "orig", error), 200)
        raise CourseError(
            f"{path} cannot be read ({why}); after an update of nbgrader, back it up and run `nbgrader db upgrade`"
        ) from None
    _add_folders(report, course)
    if not report.graded():
        handed_in = sum(student.status != NOT_HANDED_IN for student in report.students)
        raise CourseError(
            f"nothing of {printable(assignment)} is graded yet ({handed_in} handed in): run `nbgrader autograde` first"
        )
    for student in report.graded():
        _add_results(report, student, course)
    for student in report.students:
        for words in (student.problems, student.review):
            words[:] = dict.fromkeys(map(printable, words))
        student.name = printable(student.name)
    return report


def _read_gradebook(gradebook: Gradebook, name: str, course: Path) -> ClassReport:
    try:
        assignment = gradebook.find_assignment(name)
    except MissingEntry:
        known = ", ".join(sorted(printable(a.name) for a in gradebook.assignments)) or "none"
        raise CourseError(f"unknown assignment {printable(name)!r}; in the gradebook: {known}") from None
    exercises = [
        exercise
        for notebook in sorted(assignment.notebooks, key=lambda notebook: notebook.name)
        for exercise in _exercises(notebook, _order(course, name, notebook.name))
    ]
    students = {
        s.id: Student(s.id, printable(s.first_name or ""), printable(s.last_name or "")) for s in gradebook.students
    }
    for submission in assignment.submissions:
        _add_scores(students[submission.student_id], submission)
    return ClassReport(name, assignment.max_score or 0.0, exercises, [students[key] for key in sorted(students)])


def _order(course: Path, assignment: str, notebook: str) -> dict[str, int]:
    """The places of graded cells in the instructor's notebook, by name; empty where it cannot be read."""
    place = _inside(course / "source", assignment, f"{notebook}.ipynb")
    try:
        cells = json.loads(place.read_bytes())["cells"] if place else []
        return {cell["metadata"].get("nbgrader", {}).get("grade_id"): number for number, cell in enumerate(cells)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _exercises(notebook, order: dict[str, int]) -> list[Exercise]:
    found = []
    for cell in [*notebook.grade_cells, *notebook.task_cells]:
        points = cell.max_score or 0.0
        kind = "code" if cell.cell_type == "code" else "written"
        if cell in notebook.task_cells:
            kind = "task"
        elif kind == "code" and points == 0 and exercise_of(cell.name):
            kind = "bonus"
        found.append(Exercise(notebook.name, cell.name, printable(exercise_of(cell.name) or cell.name), kind, points))
    return sorted(found, key=lambda exercise: (order.get(exercise.cell, len(order)), exercise.name))


def _add_scores(student: Student, submission) -> None:
    grades = [(notebook, grade) for notebook in submission.notebooks for grade in notebook.grades]
    if all(grade.auto_score is None and grade.manual_score is None for _, grade in grades):
        student.status = NOT_GRADED  # admitted, and then something went wrong; a folder may prove otherwise
    else:
        student.status = GRADED
    for notebook, grade in grades:
        student.scores[notebook.name, grade.name] = Score(
            grade.score, grade.auto_score, grade.manual_score, grade.extra_credit, bool(grade.needs_manual_grade)
        )
    student.penalties = {n.name: n.late_submission_penalty for n in submission.notebooks if n.late_submission_penalty}
    student.total = max(0.0, submission.score - submission.late_submission_penalty)  # as nbgrader exports it
    student.hours_late = submission.total_seconds_late / 3600


def _inside(folder: Path, *names: str) -> Path | None:
    """A path of these names below a folder, or None where one of them is none: an id in a gradebook can be any text."""
    bad = any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names)
    return None if bad else folder.joinpath(*names)


def _add_folders(report: ClassReport, course: Path) -> None:
    """Compare the gradebook with what lies in the folders: who handed in, and was it this that was graded?"""
    known = {student.name: student for student in report.students}
    try:
        handed_in = sorted(
            entry.name
            for entry in os.scandir(course / "submitted")
            if os.path.lexists(Path(entry.path) / report.assignment)
        )
    except OSError:
        handed_in = []
    for name in handed_in:
        if name not in known:
            known[name] = Student(name)
            report.students.append(known[name])
    report.students.sort(key=lambda student: student.name)
    for name, student in known.items():
        autograded = _inside(course / "autograded", name, report.assignment)
        if student.status == NOT_GRADED and autograded and autograded.is_dir():
            student.status = GRADED
        if student.status != GRADED:
            if name in handed_in or student.status == NOT_GRADED:
                student.status = NOT_GRADED
                student.problems.append(_why_no_result(_inside(course / "submitted", name, report.assignment)))
        elif name in handed_in and autograded and autograded.is_dir():
            if _stamp(course / "submitted" / name / report.assignment) != _stamp(autograded):
                student.problems.append("handed in again since it was graded: the scores are those of what came before")


def _why_no_result(folder: Path | None) -> str:
    try:
        if folder and not any(entry.name.endswith(".ipynb") for entry in os.scandir(folder)):
            return "handed in without a notebook"
    except OSError:
        pass
    return "handed in, but there is no result: `nbgrader autograde` for this student alone says why"


def _stamp(folder: Path) -> bytes | None:
    try:
        return read_bytes(folder / "timestamp.txt", 1000).strip()
    except Refused:
        return None


def _add_results(report: ClassReport, student: Student, course: Path) -> None:
    """Add what `results.json` says. Where it is damaged or missing, that is said, and the scores stand."""
    folder = _inside(course / "autograded", student.name, report.assignment)
    if folder is None or not os.path.lexists(folder / RESULTS):
        student.problems.append(f"there is no {RESULTS}: no properties, no times")
        return
    try:
        found = json.loads(read_bytes(folder / RESULTS, MAX_RESULTS))
        notes, notebooks = _texts(found["notes"]), {n: _notebook(w) for n, w in found["notebooks"].items()}
    except Refused as error:
        student.problems.append(str(error))
        return
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        student.problems.append(f"{RESULTS} is damaged: no properties, no times; grade this submission again")
        return
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
            record = records.get(exercise_of(exercise.cell))
            if exercise.notebook == name and record:
                student.records[name, exercise.cell] = record
                _compare(student, exercise, record)


def _compare(student: Student, exercise: Exercise, record: Record) -> None:
    if record.reason and not record.not_done:
        nothing = not any(passed for _, passed, _ in record.properties)
        (student.problems if nothing else student.review).append(f"{exercise.name}: {record.reason}")
    score = student.scores.get((exercise.notebook, exercise.cell))
    if exercise.kind == "code" and score and score.auto is not None and abs(score.auto - record.points) > 1e-6:
        student.review.append(
            f"{exercise.name}: {RESULTS} says {points(record.points)} points, the gradebook "
            f"{points(score.auto)}; grade this submission again"
        )


def _notebook(found: dict) -> tuple[dict, dict[str, Record]]:
    """One notebook of results.json, checked. Raises one of many errors where it is not as it should be."""
    refused = None if found["refused"] is None else printable(_text(found["refused"]))
    work = {
        "missing": found["missing"] is True,
        "refused": refused,
        "seconds": _number(found["seconds"]),
        "notes": _texts(found["notes"]),
        "flags": [  # older records hold the words alone
            printable(flag if isinstance(flag, str) else str(Flag(**flag))) for flag in found["flags"]
        ],
    }
    return work, {_text(e["exercise"]): _record(e) for e in found["exercises"]}


def _record(found: dict) -> Record:
    properties = [
        (
            printable(_text(p["title"])),
            p["passed"] is True,
            None if p["misconception"] is None else printable(_text(p["misconception"])),
        )
        for p in found["properties"]
    ]
    reason = None if found["reason"] is None else printable(_text(found["reason"]))
    not_done = found.get("not_done") is True  # older records do not say it: there it is a reason like any other
    return Record(_number(found["points"]), _number(found["max_points"]), properties, reason, not_done)


def _text(value) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _texts(values) -> list[str]:
    if not isinstance(values, list):
        raise TypeError("no list")
    return [printable(_text(value)) for value in values]


def _number(value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError("no number")
    return float(value)
