"""Offer each chapter's student notebook: plain links below its opening, and the files inside the site.

Beside the notebooks lie the wheel of `attnlab`, which a notebook's first cell installs, and the bundle of everything.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.util import logging

from book import draft, exercise_nodes
from course import cells, release
from course.errors import CourseError

FOLDER = cells.PUBLISHED_FOLDER


def add_link(app, doctree, docname) -> None:
    """Put the links below the page's opening. They are relative, so that they also work from a folder or a zip.

    Where a page is served, `book.js` writes the address of the wheel into the notebook that is downloaded.

    Links to the bundle, those that the first page writes itself too, say what it is and how large.
    """
    if app.builder.format != "html":
        return
    stem, bundle = exercise_nodes.chapter_of(docname), Path(app.outdir, FOLDER, f"{release.NAME}.zip")
    size = f" (zip, {bundle.stat().st_size / 1e6:.1f} MB)" if bundle.is_file() else ""  # else the build says why not
    for link in list(doctree.findall(nodes.raw)):
        if re.match(rf'<a href="[^"]*{release.NAME}\.zip"', link.astext()):
            end = link.parent.index(link) + 1
            while "</a>" not in link.parent[end - 1].astext():
                end += 1
            link.parent.insert(end, nodes.Text(size))
    if stem is not None:
        exercise_nodes.put_below_opening(
            doctree,
            f'<p class="chapter-download">{notebook_link(stem, "Do this chapter: download the notebook")}</p>'
            f'<p class="chapter-bundle"><a href="../{FOLDER}/{release.NAME}.zip" download>'
            f"All chapters in one folder</a>{size}</p>",
        )


def notebook_link(stem: str, text: str) -> str:
    """Return a link that downloads a chapter's notebook, with the wheel's address in it where the page is served."""
    address = f"../{FOLDER}/{stem}.ipynb"
    return f'<a href="{address}" download="{stem}.ipynb" data-wheel="../{FOLDER}/{cells.wheel_name()}">{text}</a>'


def write_notebooks(app, env) -> None:
    """Write the student notebooks into the site, the wheel that they install, and the bundle.

    This comes before the pages are written, because they say how large the bundle is.
    """
    if app.builder.format != "html":
        return
    try:
        write(Path(app.outdir, FOLDER), draft.chapters())
    except CourseError as error:
        logging.getLogger(__name__).error("%s", error)  # the build fails in the end, and tells of what else is wrong


def write(folder: Path, stems: Iterable[str]) -> None:
    """Write the notebooks of these chapters, the wheel and the bundle into a folder. Raises CourseError."""
    notebooks = {
        f"{stem}.ipynb": (nbformat.writes(release.student_notebook(stem)) + "\n").encode("utf-8") for stem in stems
    }
    bundle = release.packed(notebooks)
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        wheel = archive.read(f"{release.NAME}/{cells.wheel_name()}")
    folder.mkdir(exist_ok=True)
    for name, content in {**notebooks, cells.wheel_name(): wheel, f"{release.NAME}.zip": bundle}.items():
        (folder / name).write_bytes(content)
