"""Grade the honest submissions of the parity test with stock nbgrader, and keep what it enters.

    python -m tests.autograder.record_stock_grades   # writes tests/autograder/stock_grades.json; takes some minutes

Stock nbgrader runs student code with your rights. The code is this repository's own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import nbgrader

from course import release
from course.folder import GIVEN_SEED, ROOT
from tests.autograder import honest, small_course


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    os.environ["AUTOGRADER_STOCK"] = "1"
    os.environ[GIVEN_SEED] = small_course.SEED
    students = list(honest.submissions())
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder) / "course"
        small_course.make(course, honest.notebooks(), students)
        # What may stop a batch is graded alone, after the others.
        alone = [student for student in students if student.startswith("different-")]
        honest.hand_in(course, set(students) - set(alone))
        grade(course)
        for student in alone:
            honest.hand_in(course, {student})
            grade(course, f"--student={student}")
        grades = small_course.grades(course)
        head = json.dumps({"nbgrader": nbgrader.__version__, "submissions": honest.fingerprint(course)})
    # One line per submission, so that a diff shows whose grade has changed.
    lines = ",\n".join(json.dumps({student: entered})[1:-1] for student, entered in sorted(grades.items()))
    honest.RECORD.write_text(f'{head[:-1]}, "grades": {{\n{lines}\n}}}}\n', "utf-8")
    print(f"{len(grades)} submissions: {honest.RECORD.relative_to(ROOT)}")


def grade(course: Path, *more: str) -> None:
    done = release.nbgrader("autograde", small_course.ASSIGNMENT, honest.PENALTY, *more, course=course, check=False)
    print(f"{' '.join(more) or 'all'}: exit code {done.returncode}", flush=True)
    if done.returncode and not more:
        sys.exit(done.stderr[-2000:])


if __name__ == "__main__":
    main()
