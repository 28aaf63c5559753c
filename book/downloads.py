"""Each chapter offers its student notebook: plain links below the title, and the files inside the site.

Beside the notebooks lie the wheel of `attnlab`, which a notebook's first cell installs, and the bundle of everything.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

import nbformat

from autograder.course import release, setup_cell
from autograder.errors import CourseError
from book import check_cells, draft
from book.errors import ChapterError

FOLDER = setup_cell.FOLDER


def add_link(app, doctree, docname) -> None:
    """Put the link below the page's title. It is relative, so that it also works from a folder or a zip."""
    stem = check_cells.chapter_of(docname)
    if app.builder.format == "html" and stem is not None:
        check_cells.put_below_title(
            doctree,
            f'<p class="chapter-download"><a href="../{FOLDER}/{stem}.ipynb" download="{stem}.ipynb">'
            f"Do this chapter: download the notebook</a></p>"
            f'<p class="chapter-bundle"><a href="../{FOLDER}/{release.NAME}.zip" download>'
            "All chapters in one folder</a></p>",
        )


def write_notebooks(app, exception) -> None:
    """Write the student notebooks into the site, the wheel that they install, and the bundle."""
    if exception or app.builder.format != "html":
        return
    try:
        write(Path(app.outdir, FOLDER), draft.chapters())
    except CourseError as error:
        raise ChapterError(str(error)) from None


def write(folder: Path, stems: Iterable[str]) -> None:
    """Write the notebooks of these chapters, the wheel and the bundle into a folder. Raises CourseError."""
    notebooks = {
        f"{stem}.ipynb": (nbformat.writes(release.student_notebook(stem)) + "\n").encode("utf-8") for stem in stems
    }
    bundle = release.packed(notebooks)
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        wheel = archive.read(f"{release.NAME}/{setup_cell.wheel_name()}")
    folder.mkdir(exist_ok=True)
    for name, content in {**notebooks, setup_cell.wheel_name(): wheel, f"{release.NAME}.zip": bundle}.items():
        (folder / name).write_bytes(content)


def setup(app) -> None:
    app.connect("doctree-resolved", add_link)
    app.connect("build-finished", write_notebooks, priority=400)  # before the leak scan
