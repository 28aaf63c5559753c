"""Each chapter offers its student notebook: a plain link below the title, and the file inside the site."""

from __future__ import annotations

from pathlib import Path

import nbformat

from autograder.course import release
from autograder.errors import CourseError
from book import check_cells, draft
from book.errors import ChapterError

FOLDER = "notebooks"


def add_link(app, doctree, docname) -> None:
    """Put the link below the page's title. It is relative, so that it also works from a folder or a zip."""
    stem = check_cells.chapter_of(docname)
    if app.builder.format == "html" and stem is not None:
        check_cells.put_below_title(
            doctree,
            f'<p class="chapter-download"><a href="../{FOLDER}/{stem}.ipynb" download="{stem}.ipynb">'
            f"Do this chapter: download the notebook</a></p>",
        )


def write_notebooks(app, exception) -> None:
    """Write the student notebooks into the site."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    for stem in draft.chapters():
        try:
            notebook = release.student_notebook(stem)
        except CourseError as error:
            raise ChapterError(str(error)) from None
        (folder / f"{stem}.ipynb").write_text(nbformat.writes(notebook) + "\n", "utf-8")


def setup(app) -> None:
    app.connect("doctree-resolved", add_link)
    app.connect("build-finished", write_notebooks, priority=400)  # before the leak scan
