"""A small class to grade, from release to feedback and CSV: `make grade`.

The samples in `autograder/samples/` are Python files. Each says in `ABOUT` what it shows; defines wrong or differently
written answers under the exercises' names; takes the reference for the exercises in REFERENCES ("all", or a list);
and may give LATE_HOURS, WRITTEN answers by chapter, the CHAPTERS handed in, and CELLS to paste as they are.
Everything else is left as it was released. The samples hold answers: they are for instructors.
"""

from __future__ import annotations

import ast
import csv
import datetime
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from autograder.course import assemble, catalog, release
from autograder.course.cells import check_id
from autograder.course.folder import ROOT, course_folder
from autograder.errors import CourseError

SAMPLES = Path(__file__).with_name("samples")
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
    """What a sample student hands in for one chapter: the released notebook with the exercise cells filled in."""
    notebook, solved = nbformat.from_dict(released), assemble.source_notebook(stem)
    answers = {
        cell.metadata.nbgrader.grade_id: re.sub(
            r"^ *### (BEGIN|END) SOLUTION\n", "", cell.source + "\n", flags=re.MULTILINE
        ).rstrip("\n")
        for cell in solved.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in sample.cells:
            cell.source = sample.cells[grade_id]
        elif grade_id in sample.definitions:
            cell.source = sample.definitions[grade_id]
        elif grade_id in answers and (sample.references == "all" or grade_id in sample.references):
            if cell.cell_type == "code":
                cell.source = answers[grade_id]
        if grade_id == f"written-{stem}" and stem in sample.written:
            cell.source = sample.written[stem]
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
    from nbgrader.api import Gradebook

    course = (course or course_folder().with_name("sample_class")).resolve()
    marker = course / ".sample_class"
    if course.exists() and any(course.iterdir()) and not marker.exists():
        raise CourseError(
            f"{course} holds something else than an earlier sample class, which would be lost; name an empty folder"
        )
    # A fresh gradebook each time: this is a demonstration, and nothing of a real course lies here.
    for name in ("source", "release", "submitted", "autograded", "feedback"):
        shutil.rmtree(course / name, ignore_errors=True)
    (course / "gradebook.db").unlink(missing_ok=True)
    course.mkdir(parents=True, exist_ok=True)
    marker.touch()
    stems, class_ = stems or catalog.chapters(), samples()
    say("releasing")
    release.generate(stems, course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for stem in stems:
            gradebook.update_or_create_assignment(stem, duedate=DUE.replace(tzinfo=None))
        # Two gradings at a time would both want to create a student they have not met.
        for sample in class_:
            gradebook.update_or_create_student(sample.student)
    hand_in(course, class_, stems)
    say("grading")
    # One submission that cannot be graded makes the command fail after it has graded all others.
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "grade", *stems, "--course", str(course)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    (course / "grade.log").write_text(done.stderr, "utf-8")
    say("writing feedback")
    release.nbgrader_python(_FEEDBACK, *stems, course=course)
    rows = results(course, class_, stems)
    table = course / "grades.csv"
    write_csv(rows, table)
    release.nbgrader("export", "--to", str(course / "nbgrader_export.csv"), course=course)
    print(as_table(rows, class_, stems))
    print(
        f"\nfeedback pages: {course / 'feedback'}\ngrades by exercise: {table}\n"
        f"nbgrader's export: {course / 'nbgrader_export.csv'}"
    )
    return 0


# One process for all: to start nbgrader takes longer than most pages.
_FEEDBACK = """
import sys
from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import PyFileConfigLoader
api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path=".").load_config())
for assignment in sys.argv[1:]:
    api.generate_feedback(assignment, force=True)
"""


def results(course: Path, class_: list[Sample], stems: Sequence[str]) -> list[dict]:
    """One row per student, chapter and graded cell, out of the gradebook."""
    from nbgrader.api import Gradebook, MissingEntry

    rows = []
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for sample in class_:
            for stem in stems:
                handed_in = (course / "submitted" / sample.student / stem).is_dir()
                graded = (course / "autograded" / sample.student / stem / f"{stem}.ipynb").exists()
                late = ""
                grades = {}
                if graded:
                    try:
                        submitted = gradebook.find_submission(stem, sample.student)
                        late = round(submitted.total_seconds_late / 3600, 1) or ""
                        grades = {g.name: g for n in submitted.notebooks for g in n.grades}
                    except MissingEntry:
                        graded = False
                status = "graded" if graded else "could not be graded: 0" if handed_in else "not handed in"
                for name, exercise in catalog.exercises_of(stem).items():
                    grade = grades.get(check_id(name))
                    points = (grade.auto_score or 0.0) + (grade.extra_credit or 0.0) if grade else 0.0
                    rows.append(
                        {
                            "student": sample.student,
                            "chapter": stem,
                            "exercise": name,
                            "points": points,
                            "max_points": exercise.points,
                            "bonus": exercise.bonus,
                            "hours_late": late,
                            "status": status,
                        }
                    )
                written = grades.get(f"written-{stem}")
                by_hand = (
                    "" if written is None or written.score is None or written.needs_manual_grade else written.score
                )
                rows.append(
                    {
                        "student": sample.student,
                        "chapter": stem,
                        "exercise": "written question",
                        "points": by_hand,
                        "max_points": catalog.written_of(stem).points,
                        "bonus": False,
                        "hours_late": late,
                        "status": status if status != "graded" or by_hand != "" else "to be graded by hand",
                    }
                )
    return rows


def write_csv(rows: list[dict], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def as_table(rows: list[dict], class_: list[Sample], stems: Sequence[str]) -> str:
    """Scores of the autograded exercises, a line a student, bonus points behind a plus."""
    width = max(len(s.student) for s in class_) + 2
    head = f"{'student':<{width}}" + "".join(f"{stem:>20}" for stem in stems) + "  "
    lines = [head + "what this sample shows"]
    for sample in class_:
        cells = []
        for stem in stems:
            mine = [
                r
                for r in rows
                if r["student"] == sample.student and r["chapter"] == stem and r["exercise"] != "written question"
            ]
            if mine[0]["status"] != "graded":
                cells.append({"not handed in": "-"}.get(mine[0]["status"], "failed: 0"))
                continue
            points = sum(r["points"] for r in mine if not r["bonus"])
            maximum = sum(r["max_points"] for r in mine if not r["bonus"])
            bonus = sum(r["points"] for r in mine if r["bonus"])
            late = " late" if mine[0]["hours_late"] else ""
            cells.append(f"{points:g}/{maximum:g}" + (f" +{bonus:g}" if bonus else "") + late)
        lines.append(f"{sample.student:<{width}}" + "".join(f"{cell:>20}" for cell in cells) + f"  {sample.about}")
    return "\n".join(lines)


def say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)
