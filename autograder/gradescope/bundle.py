"""`python -m autograder gradescope ASSIGNMENT`: the zip that Gradescope makes its autograder from.

It contains the assignment as all graders get it, hidden tests included, the code of grader and solutions, and two
scripts that Gradescope runs: `setup.sh`, when it builds its image, and `run_autograder`, for each submission.
"""

import importlib.metadata
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import MissingEntry

from autograder.batch import run
from autograder.gradescope import ASSIGNMENT, OPTIONS
from autograder.grading import messages
from course.errors import CourseError
from course.files import add_to_zip, replacing
from course.folder import ROOT, course_folder, existing_gradebook

SCRIPTS = ("setup.sh", "run_autograder")
CODE = ("attnlab", "autograder", "course", "solutions", "chapters", "_toc.yml")
# What the grader imports, in the versions that it has here. Pip finds what these need in turn.
LIBRARIES = ("torch", "numpy", "matplotlib", "ipywidgets", "anywidget", "ipykernel", "nbgrader", "nbconvert")
LIBRARIES += ("nbformat", "myst-nb", "nh3", "jinja2", "pyyaml", "tqdm")
SPARE_SECONDS = 60  # of Gradescope's time, for everything except the student's code


def write(assignment: str, course: Path | None, to: Path, visibility: str, minutes: int) -> float:
    """Write the zip, and return the points of its tests, which must be entered in Gradescope.

    visibility: when students see the tests, as Gradescope names it; minutes: Gradescope's limit for one submission
    Raises CourseError if the assignment is unknown, NbGraderException if what it builds on must not be lent yet.
    """
    course = course_folder(course)
    existing_gradebook(course)
    grader = run.configured(assignment, course)
    try:
        packed = grader.packed(assignment, min(grader.submission_seconds, 60.0 * minutes - SPARE_SECONDS))
    except MissingEntry as error:
        raise CourseError(str(error)) from None
    options = {"assignment": assignment, "visibility": visibility}
    members = {name: Path(__file__).with_name(name).read_bytes() for name in SCRIPTS}
    members |= {ASSIGNMENT: packed, OPTIONS: json.dumps(options).encode(), "requirements.txt": requirements().encode()}
    members |= {f"course/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in _code()}
    to.parent.mkdir(parents=True, exist_ok=True)
    with replacing(to, 0o600) as file, zipfile.ZipFile(file, "w") as archive:  # it holds answers
        for name, content in members.items():
            add_to_zip(archive, name, content, 0o755 if name in SCRIPTS else 0o644)
    return points(packed)


def requirements() -> str:
    """The libraries in the versions of this environment, without the name of a local build, such as `+cpu`."""
    versions = {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}
    return "".join(f"{name}=={version}\n" for name, version in versions.items())


def points(packed: bytes) -> float:
    """The most points that the tests of a packed assignment give, without what a human grades."""
    record, _ = messages.unwrap(packed)
    cells = [cell for plan in record["notebooks"].values() for cell in plan]
    return float(sum(cell["points"] or 0 for cell in cells if cell["grade"] and not cell["solution"]))


def _code() -> Iterator[Path]:
    for name in CODE:
        place = ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and ".ipynb_checkpoints" not in path.parts:
                yield path
