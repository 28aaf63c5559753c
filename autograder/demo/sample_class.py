"""A small class to grade, from release to feedback and CSV: `make grade`.

The samples in `samples/` are Python files. Each says in `ABOUT` what it shows; defines wrong or differently
written answers under the exercises' names; takes the reference for the exercises in REFERENCES ("all", or a list);
and may give LATE_HOURS, WRITTEN answers by chapter, the CHAPTERS handed in, and CELLS to paste as they are.
Everything else is left as it was released. The samples contain answers: they are for instructors.
"""

# Nbgrader and nbformat have no types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false, reportReturnType=false

import ast
import datetime
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from autograder.gradebook import scores
from autograder.reports import read
from autograder.reports.model import GRADED, NOT_HANDED_IN, ClassReport
from course import assemble, catalog, release
from course.cells import nbgrader_of
from course.errors import CourseError
from course.folder import GRADEBOOK_URL, course_folder

SAMPLES = Path(__file__).with_name("samples")
_MARKERS = re.compile(r"^ *### (BEGIN|END) SOLUTION\n", re.MULTILINE)
DUE = datetime.datetime(2026, 9, 30, 18, 0, tzinfo=datetime.UTC)


@dataclass
class Sample:
    """One student of the sample class."""

    student: str
    about: str
    definitions: dict[str, str] = field(default_factory=dict)
    references: list[str] | str = field(default_factory=list)
    late_hours: float = -24.0
    written: dict[str, str] = field(default_factory=dict)
    chapters: list[str] | None = None
    cells: dict[str, str] = field(default_factory=dict)


def samples() -> list[Sample]:
    """The shipped samples, by student name."""
    return [read_sample(path) for path in sorted(SAMPLES.glob("*.py"))]


def read_sample(path: Path) -> Sample:
    """Read one sample without running it."""
    source = path.read_text("utf-8")
    sample = Sample(path.stem, "")
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            sample.definitions[node.name] = ast.get_source_segment(source, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            key = node.targets[0].id.lower()
            if not hasattr(sample, key):
                raise CourseError(f"{path.name}: a sample has no {node.targets[0].id}")
            setattr(sample, key, ast.literal_eval(node.value))
    unknown = set(sample.definitions) - set(catalog.all_exercises())
    if unknown:
        raise CourseError(f"{path.name}: no exercise is called {', '.join(sorted(unknown))}")
    return sample


def submission(sample: Sample, stem: str, released: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Make a sample student's submission of one chapter: the released notebook with the exercise cells filled in."""
    answers = {}
    for cell in assemble.source_notebook(stem).cells:
        marks = nbgrader_of(cell)
        wanted = sample.references == "all" or marks.get("grade_id") in sample.references
        if cell.cell_type == "code" and marks.get("solution") and wanted:
            answers[marks.grade_id] = _MARKERS.sub("", cell.source + "\n").rstrip("\n")
    answers |= sample.definitions | sample.cells
    if stem in sample.written:
        answers[f"written-{stem}"] = sample.written[stem]
    notebook = nbformat.from_dict(released)
    for cell in notebook.cells:
        cell.source = answers.get(nbgrader_of(cell).get("grade_id"), cell.source)
    return notebook


def hand_in(course: Path, class_: list[Sample], stems: Sequence[str]) -> None:
    """Put every sample's notebooks where nbgrader looks for submissions, with a time stamp."""
    shutil.rmtree(course / "submitted", ignore_errors=True)
    for stem in stems:
        released = nbformat.read(course / "release" / stem / f"{stem}.ipynb", as_version=4)
        for sample in class_:
            if sample.chapters is not None and stem not in sample.chapters:
                continue
            folder = course / "submitted" / sample.student / stem
            folder.mkdir(parents=True)
            nbformat.write(submission(sample, stem, released), folder / f"{stem}.ipynb")
            when = DUE + datetime.timedelta(hours=sample.late_hours)
            (folder / "timestamp.txt").write_text(when.strftime("%Y-%m-%d %H:%M:%S UTC"), "ascii")


def run(course: Path | None = None, stems: Sequence[str] = ()) -> int:
    """Grade the sample class; prints where things are and a table.

    stems: the chapters to grade; all, if none is named
    """
    course = (course or course_folder().with_name("sample_class")).resolve()
    marker = course / ".sample_class"
    if course.exists() and any(course.iterdir()) and not marker.exists():
        raise CourseError(
            f"{course} contains something other than an earlier sample class, which would be lost; name an empty folder"
        )
    # The students are invented: they never enter the gradebook of a real course, whichever process opens it.
    os.environ.pop(GRADEBOOK_URL, None)
    for name in ("source", "release", "submitted", "autograded", "feedback"):
        shutil.rmtree(course / name, ignore_errors=True)
    (course / "gradebook.db").unlink(missing_ok=True)
    course.mkdir(parents=True, exist_ok=True)
    marker.touch()
    stems, class_ = stems or catalog.chapters(), samples()
    say("releasing")
    release.generate(stems, course)
    with scores.opened(course) as gradebook:
        for stem in stems:
            gradebook.update_or_create_assignment(stem, duedate=DUE.replace(tzinfo=None))
        # Two gradings at a time would both try to create a new student.
        for sample in class_:
            gradebook.update_or_create_student(sample.student)
    hand_in(course, class_, stems)
    say("grading; the first time, hidden tests are made as well, which takes longer")
    # One submission that cannot be graded makes the command fail after it has graded all others.
    done = release.in_course("autograder", "grade", *stems, course=course, check=False)
    (course / "grade.log").write_text(done.stderr, "utf-8")
    say("writing feedback")
    release.in_course("course.nbgrader_each", "generate_feedback", *stems, course=course)
    table, export = course / "grades.csv", course / "nbgrader_export.csv"
    # Status 1, since some samples cannot be graded.
    release.in_course("autograder", "export", "by-exercise", "--to", str(table), course=course, check=False)
    release.nbgrader("export", "--to", str(export), course=course)
    print(as_table([read.gather(stem, course) for stem in stems], class_))
    print(f"\nfeedback pages: {course / 'feedback'}\ngrades by exercise: {table}\nnbgrader's export: {export}")
    return 0


def as_table(reports: list[ClassReport], class_: list[Sample]) -> str:
    """A line per student: the scores of the autograded exercises by chapter, bonus points after a plus."""
    width = max(len(sample.student) for sample in class_) + 2
    head = "".join(f"{report.assignment:>20}" for report in reports)
    lines = [f"{'student':<{width}}{head}  what this sample shows"]
    for sample in class_:
        cells = "".join(f"{_points(report, sample.student):>20}" for report in reports)
        lines.append(f"{sample.student:<{width}}{cells}  {sample.about}")
    return "\n".join(lines)


def _points(report: ClassReport, name: str) -> str:
    student = next(student for student in report.students if student.name == name)
    if student.status != GRADED:
        return "-" if student.status == NOT_HANDED_IN else "failed: 0"
    got = {"code": 0.0, "bonus": 0.0}
    for exercise in report.exercises:
        if exercise.kind in got:
            got[exercise.kind] += student.submission.grades[exercise.notebook, exercise.cell].score
    most = sum(exercise.max_score for exercise in report.exercises if exercise.kind == "code")
    bonus, late = f" +{got['bonus']:g}" if got["bonus"] else "", " late" if student.hours_late else ""
    return f"{got['code']:g}/{most:g}{bonus}{late}"


def say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)
