"""Student notebooks, and the bundle a student installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import attnlab
from autograder import assemble, registry
from autograder.errors import CourseError

NAME = "attention-course"
REQUIREMENTS = """\
# What the notebooks need. The wheel of attnlab lies beside this file.
./attnlab-{version}-py3-none-any.whl
jupyterlab>=4.2,<5
torch>=2.6,<3
"""
ANSWER_HERE = "*Double-click here, and write your answer in place of this line.*"
START = Path(__file__).with_name("START.md")


def student_notebook(stem: str):
    """The student's notebook of one chapter, as `nbgrader generate_assignment` makes it, without a gradebook."""
    from nbgrader import preprocessors
    from traitlets.config import Config

    config = Config()
    config.ClearMarkScheme.enforce_metadata = False
    config.ClearSolutions.text_stub = ANSWER_HERE
    notebook, resources = assemble.source_notebook(stem), {"nbgrader": {"notebook": stem, "assignment": stem}}
    for step in ("LockCells", "ClearSolutions", "ClearOutput", "CheckCellMetadata", "ComputeChecksums",
                 "ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums", "CheckCellMetadata"):
        notebook, resources = getattr(preprocessors, step)(config=config).preprocess(notebook, resources)
    return notebook


def nbgrader(*arguments: str, course: Path | None = None, check: bool = True) -> subprocess.CompletedProcess:
    """Run a stock nbgrader command with this course's configuration."""
    folder = registry.ROOT / "autograder"
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], cwd=folder, text=True, capture_output=True,
        env={**os.environ, "COURSE_DIR": str(course or assemble.course_folder())})
    if check and done.returncode:
        raise CourseError(f"nbgrader {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return done


def generate(stems=(), course: Path | None = None) -> list[Path]:
    """Run `nbgrader generate_assignment` for each chapter; returns the student notebooks' paths."""
    course = course or assemble.course_folder()
    assemble.write_all(stems, course)
    made = []
    for stem in stems or registry.chapters():
        nbgrader("generate_assignment", stem, "--create", "--force", course=course)
        made.append(course / "release" / stem / f"{stem}.ipynb")
    return made


def bundle(dist: Path) -> Path:
    """Write `dist/attention-course.zip`: notebooks, the attnlab wheel, requirements and a page to start from."""
    notebooks = generate()
    dist.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _wheel(Path(scratch))
        path = dist / f"{NAME}.zip"
        partial = path.with_suffix(".part")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for notebook in notebooks:
                archive.write(notebook, f"{NAME}/{notebook.name}")
            archive.write(wheel, f"{NAME}/{wheel.name}")
            archive.writestr(f"{NAME}/requirements.txt", REQUIREMENTS.format(version=attnlab.__version__))
            archive.writestr(f"{NAME}/START.md", start_page())
        partial.replace(path)  # never half a bundle under the final name
    return path


def start_page() -> str:
    """The page a student starts from, with the notebooks in the order of the book."""
    names = [f"`{stem}.ipynb`" for stem in registry.chapters()]
    return START.read_text("utf-8").replace("{notebooks}", ", ".join(names))


def _wheel(folder: Path) -> Path:
    """Build the wheel from a clean copy of the package, so that no stale file of an earlier build gets in."""
    source = folder / "source"
    source.mkdir()
    shutil.copytree(registry.ROOT / "attnlab", source / "attnlab", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (registry.ROOT / name).exists():
            shutil.copy(registry.ROOT / name, source)
    done = subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."],
                          cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise CourseError(f"the attnlab wheel could not be built: {(done.stderr or done.stdout).strip()[-300:]}")
    return next(folder.glob("attnlab-*.whl"))
