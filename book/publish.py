"""Write the students' half of the course as a folder that may become a public repository: `make publish-tree`.

    python -m book.publish FOLDER

writes the chapters as text, the notebooks, `attnlab` as an installable package, the bundle, and what Binder needs. Only
what is listed here is copied; then the folder is searched for answers, and nothing is written if one is found. The same
course gives the same bytes.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat

from book import leaks
from book.chapter_pages.downloads import FOLDER as NOTEBOOKS
from course import catalog, release
from course.errors import CourseError
from course.folder import ROOT

README = Path(__file__).with_name("PUBLIC.md")
# What attnlab consists of; other files in its folder are private.
PACKAGE = {".py", ".js", ".css", ".gz", ".npz", ".json"}
PROJECT = ("build-system", "project", "tool.setuptools")  # tables of pyproject.toml that are about installing
# Binder takes conda's PyTorch without CUDA: pip's would be too large. postBuild installs the rest.
ENVIRONMENT = """\
channels: [conda-forge]
dependencies:
  - python=3.12
  - pip
  - pytorch-cpu>=2.6,<3
"""
POST_BUILD = "#!/bin/sh\npython -m pip install --no-cache-dir -r requirements.txt\n"
IGNORED = ".venv/\n.ipynb_checkpoints/\n__pycache__/\nbuild/\n*.egg-info/\n"


def write(folder: Path) -> int:
    """Write the tree into a new or empty folder, or over an earlier tree; returns the number of its files.

    Raises CourseError where the folder holds something else, and where an answer would be published.
    """
    if folder.is_symlink() or folder.exists() and not _is_tree(folder):
        raise CourseError(f"{folder} holds something else than an earlier tree, which would be lost; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        draft, count = Path(scratch) / folder.name, 0
        for name, content in files():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if name == ".binder/postBuild" else 0o644)
            count += 1
        findings = [line.replace(f"{draft}/", "") for line in leaks.scan([draft], leaks.answers())]
        if findings:
            raise CourseError("an answer would be published, so nothing is:\n" + "\n".join(findings))
        if folder.exists():
            folder.rename(Path(scratch) / "before")
        draft.rename(folder)
    return count


def files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of the tree."""
    notebooks = {
        f"{stem}.ipynb": (nbformat.writes(release.student_notebook(stem)) + "\n").encode("utf-8")
        for stem in catalog.chapters()
    }
    for name, content in notebooks.items():
        yield f"{NOTEBOOKS}/{name}", content
    for stem in catalog.chapters():
        yield f"chapters/{stem}.md", catalog.chapter_path(stem).read_bytes()
    for path in sorted((ROOT / "attnlab").rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix in PACKAGE:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()
    yield f"{release.NAME}.zip", release.packed(notebooks)
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()
    for name, text in {
        "README.md": README.read_text("utf-8").replace("{start}", _start()),
        "AGENTS.md": release.assistants_page("README.md", f"{NOTEBOOKS}/"),
        "pyproject.toml": _project(),
        "requirements.txt": release.REQUIREMENTS.format(attnlab="."),
        ".gitignore": IGNORED,
        ".binder/environment.yml": ENVIRONMENT,
        ".binder/postBuild": POST_BUILD,
    }.items():
        yield name, text.encode("utf-8")


def _is_tree(folder: Path) -> bool:
    """Tell whether replacing the folder loses nothing: it is empty or a tree as written here, not a clone of one."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    return names <= {
        "README.md",
        "AGENTS.md",
        "LICENSE",
        "pyproject.toml",
        "requirements.txt",
        ".gitignore",
        ".binder",
        "attnlab",
        "chapters",
        NOTEBOOKS,
        f"{release.NAME}.zip",
    }


def _start() -> str:
    """Return the page that students start from, with its headings one level lower."""
    return re.sub(r"^(?=#+ )", "#", release.start_page(), flags=re.MULTILINE).strip()


def _project() -> str:
    """Return pyproject.toml without the settings of the course's own tests."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    tables = ["", *text.split("\n[")[1:]] if not text.startswith("[") else text[1:].split("\n[")
    kept = [table for table in tables if table and table.partition("]")[0].startswith(PROJECT)]
    made = "".join(f"[{table.rstrip()}\n\n" for table in kept).rstrip() + "\n"
    tomllib.loads(made)
    return made


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m book.publish FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).absolute()
    try:
        count = write(folder)
    except CourseError as error:
        print(f"publish: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {count} files, no answer among them")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
