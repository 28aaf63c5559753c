"""Student notebooks, and the bundle a student installs."""

from __future__ import annotations

import calendar
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from course import assemble, catalog, effort, plain_markdown
from course.errors import CourseError
from course.files import EPOCH, add_to_zip, write_whole
from course.folder import COURSE_DIR, ROOT, course_folder

NAME = "attention-course"
REQUIREMENTS = """\
# What the notebooks need. attnlab is in the same folder as this file.
{attnlab}
jupyterlab>=4.2,<5
torch>=2.6,<3
"""
ANSWER_HERE = "*Double-click here, and write your answer in place of this line.*"
START = ROOT / "guides" / "students.md"
ASSISTANTS = ROOT / "guides" / "assistants.md"


def student_notebook(stem: str):
    """The student's notebook of one chapter, as `nbgrader generate_assignment` makes it, without a gradebook."""
    from nbgrader import preprocessors
    from traitlets.config import Config

    config = Config()
    config.ClearMarkScheme.enforce_metadata = False
    config.ClearSolutions.text_stub = ANSWER_HERE
    notebook, resources = assemble.source_notebook(stem), {"nbgrader": {"notebook": stem, "assignment": stem}}
    steps = ["LockCells", "ClearSolutions", "ClearOutput", "CheckCellMetadata", "ComputeChecksums"]
    steps += ["ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums", "CheckCellMetadata"]
    for step in steps:
        notebook, resources = getattr(preprocessors, step)(config=config).preprocess(notebook, resources)
    return notebook


def nbgrader(*arguments: str, course: Path | None = None, check: bool = True) -> subprocess.CompletedProcess:
    """Run a stock nbgrader command with this course's configuration."""
    return in_course("nbgrader", *arguments, course=course, check=check)


def in_course(
    module: str, *arguments: str, course: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess:
    """Run a module as `python -m` does, for a course. Raises CourseError if it fails, unless it is allowed to fail.

    course: the course's folder; `course_folder()` if none is named
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env={**os.environ, COURSE_DIR: str(course_folder(course))},
    )
    if check and done.returncode:
        raise CourseError(f"{module} {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return done


def generate(stems=(), course: Path | None = None) -> list[Path]:
    """Run `nbgrader generate_assignment` for each chapter; returns the student notebooks' paths."""
    course, stems = course_folder(course), stems or catalog.chapters()
    course.mkdir(0o700, parents=True, exist_ok=True)  # it holds answers and, later, grades
    assemble.write_all(stems, course)
    in_course("course.nbgrader_each", "generate_assignment", *stems, course=course)
    return [course / "release" / stem / f"{stem}.ipynb" for stem in stems]


def bundle(dist: Path) -> Path:
    """Write `dist/attention-course.zip`: notebooks, the attnlab wheel, requirements, START.md and AGENTS.md."""
    notebooks = {path.name: path.read_bytes() for path in generate()}
    dist.mkdir(parents=True, exist_ok=True)
    path = dist / f"{NAME}.zip"
    write_whole(path, packed(notebooks))
    return path


def packed(notebooks: dict[str, bytes]) -> bytes:
    """The bundle with these notebooks, as a zip file. The same contents give the same bytes."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(buffer, "w") as archive:
        wheel = _wheel(Path(scratch))
        members = {
            **notebooks,
            wheel.name: wheel.read_bytes(),
            "START.md": start_page().encode("utf-8"),
            "AGENTS.md": assistants_page("START.md").encode("utf-8"),
            "requirements.txt": REQUIREMENTS.format(attnlab=f"./{wheel.name}").encode("utf-8"),
        }
        for name, content in members.items():
            add_to_zip(archive, f"{NAME}/{name}", content)
    return buffer.getvalue()


def start_page() -> str:
    """The students' start page: the students' guide, and the notebooks in the order of the book."""
    guide = re.sub(r"^% .*\n", "", START.read_text("utf-8"), flags=re.MULTILINE)  # words for its test
    names = [
        f"{number}. `{stem}.ipynb`, {effort.of_chapter(stem)}" for number, stem in enumerate(catalog.chapters(), 1)
    ]
    return "\n".join(
        [plain_markdown.markdown(guide, "guides/students.md"), "", "## The notebooks, in their order", "", *names, ""]
    )


def assistants_page(start: str, notebooks: str = "") -> str:
    """AGENTS.md, for a program that helps a student: how to tutor here, and how to ask the check.

    start: the name of the students' start page; notebooks: the folder of the notebooks, with a slash, if it is another
    """
    text = ASSISTANTS.read_text("utf-8")
    places = {"start": start, "notebooks": f"`{notebooks}`" if notebooks else "this folder"}
    for name, value in {**places, "notebook": f"{notebooks}softmax.ipynb"}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _wheel(folder: Path) -> Path:
    """Build the wheel from a clean copy of the package, so that no stale file of an earlier build gets in."""
    source = folder / "source"
    source.mkdir()
    shutil.copytree(ROOT / "attnlab", source / "attnlab", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."],
        cwd=source,
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(calendar.timegm(EPOCH))},
    )
    if done.returncode:
        raise CourseError(f"the attnlab wheel could not be built: {(done.stderr or done.stdout).strip()[-300:]}")
    return next(folder.glob("attnlab-*.whl"))
