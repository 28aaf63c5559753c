"""Read a chapter for the book: the student's file, with each exercise's reference imported after its stub.

The injected cells import the reference and hold none of its source, and they are tagged `remove-cell`, so they run and
leave nothing on the page. All later outputs are therefore real, and no answer is shown.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
from docutils import nodes

from attnlab import gemma, smollm2
from attnlab.mine import PROVIDED
from book import draft, kernel_setup
from book.errors import ChapterError
from course import assemble, catalog, chapter, check_data
from course.errors import CourseError
from course.files import hash_of
from course.folder import ROOT

FIRST_CELL = "from book import kernel_setup\nkernel_setup.install()"
PAGES_WITH_FILES = ("appendices/languages",)  # the page's files are in the folder of its name
# What the cells of a chapter import: folders, and the suffixes or names of files in them.
IMPORTED = (
    ("solutions", {".py"}),
    ("attnlab", {".py", ".js", ".css", ".gz", ".npz", ".json"}),
    ("book", {"kernel_setup.py"}),
)


def read_chapter(text: str, stem: str) -> nbformat.NotebookNode:
    """Read a chapter's notebook as the book runs it.

    text: the chapter's file, as Sphinx read it
    stem: the chapter's name, which is also the name of its module in `solutions`
    """
    try:
        read = chapter.read(stem)
        for found in read.exercises:
            # Made and thrown away: where a stub and its reference do not fit together, this raises an error at once.
            stub = read.notebook.cells[found.stub].source
            assemble.splice(stub, assemble.solution_source(stem, found.name), f"chapters/{stem}.md")
        return with_references(read.notebook, stem, imports_hash(ROOT))
    except CourseError as error:
        raise ChapterError(str(error)) from None


def read_page(text: str, folder: str) -> nbformat.NotebookNode:
    """Read a page that is not a chapter and runs files of its own; it runs again when one of them changes.

    text: the page's file, as Sphinx read it
    folder: where the page's own files are, from the top of the checkout
    """
    try:
        notebook = chapter.parse(text, f"{folder}.md")
    except CourseError as error:
        raise ChapterError(str(error)) from None
    own_files = imports_hash(ROOT, ((folder, {".py", ".txt"}),))
    notebook.cells.insert(0, hidden_cell(FIRST_CELL, imports=own_files))
    notebook.metadata["source_map"].insert(0, 0)
    return notebook


def with_references(notebook: nbformat.NotebookNode, stem: str, imports: str) -> nbformat.NotebookNode:
    """Add a hidden first cell, an import after each stub, and marks for checks and the written question.

    `metadata.source_map` keeps one line number per cell. `imports` goes into the first cell's metadata: the execution
    cache compares cells, and would not see that an imported module has changed.
    """
    found = chapter.find_exercises(notebook, f"chapters/{stem}.md")
    stubs, checks = {exercise.stub: exercise.name for exercise in found}, {exercise.check for exercise in found}
    cells, lines = [hidden_cell(FIRST_CELL, imports=imports)], [0]
    for index, (cell, line) in enumerate(zip(notebook.cells, notebook.metadata["source_map"], strict=True)):
        if index in checks:
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "check"]
        if chapter.is_written(cell):
            cell.source = boxed(cell.source)
        cells.append(cell)
        lines.append(line)
        if index in stubs:
            cells.append(hidden_cell(f"from solutions.{stem} import {stubs[index]}"))
            lines.append(line)
    notebook.cells = cells
    notebook.metadata["source_map"] = lines
    return notebook


def hidden_cell(source: str, **metadata) -> nbformat.NotebookNode:
    """Return a code cell that runs and leaves nothing on the page."""
    return nbformat.v4.new_code_cell(source, metadata={"tags": ["remove-cell"], **metadata})


def boxed(source: str) -> str:
    """Put everything below the heading of a written question into a box."""
    head, body = re.fullmatch(r"((?:\s*(?:\([\w-]+\)=|#+ [^\n]*)\n)*)(.*)", source + "\n", re.DOTALL).groups()
    if re.search(r"^#+ ", body, re.MULTILINE):  # a box cannot hold headings
        return source
    return f"{head}\n:::::::{{div}} written\n{body.strip()}\n:::::::\n"


def imports_hash(root: Path, packages=IMPORTED) -> str:
    """Hash everything that the chapters' cells import from this checkout: code, scripts and data."""
    found = [
        path
        for folder, suffixes in packages
        for path in (root / folder).rglob("*")
        if suffixes & {path.suffix, path.name}
    ]
    return hash_of(root, found)


def configure(app, config) -> None:
    """Read each chapter by `read_chapter` and each page that runs files of its own by `read_page`.

    Their kernels find `solutions` and `book`.
    """
    try:
        for stem in draft.chapters():
            config.nb_custom_formats[f"chapters/{stem}.md"] = [f"{__name__}.read_chapter", {"stem": stem}, False]
            catalog.exercises_of(stem)  # a missing or broken reference is one clear line, before anything runs
        for page in PAGES_WITH_FILES:
            config.nb_custom_formats[f"{page}.md"] = [f"{__name__}.read_page", {"folder": page}, False]
        check_data.write_checks(draft.chapters())
    except CourseError as error:
        raise ChapterError(str(error)) from None
    except Exception as error:  # a reference that fails on its own cases: one line, none of its source
        raise ChapterError(f"{type(error).__name__}: {error}") from None
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ[PROVIDED] = "solutions"  # `attnlab.mine` gives the references
    for model in (smollm2, gemma):
        os.environ[model.SETTING] = ""  # the same book on every machine: what the real models say was recorded
    os.environ["IPYTHONDIR"] = own_profile(Path(app.doctreedir).resolve())


def own_profile(folder: Path) -> str:
    """Make an IPython folder for the book's kernels, so that the author's own start-up files do not change the book.

    It also keeps ipykernel's line about unencrypted loopback traffic out of the log.
    """
    profile = folder / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n", "utf-8")
    return str(folder / "ipython")


def outdated(app, env, added, changed, removed) -> list[str]:
    """Return all chapters, if something that they import has changed since they were read."""
    now = imports_hash(ROOT)
    before, env.course_imports = getattr(env, "course_imports", None), now
    return [] if now == before else [f"chapters/{stem}" for stem in draft.chapters()]


def stop_on_failure(app, env) -> None:
    """Stop the build if cells failed: name each of their chapters, and keep one line of the error as a report."""
    failures = []
    for docname, data in getattr(env, "nb_metadata", {}).items():
        result = data.get("exec_data")
        if result and not result["succeeded"]:
            reason = one_line(result["traceback"] or result["error"] or "")
            failures.append(f"{docname}.md: {reason}")
            result["traceback"] = reason
            report = Path(app.outdir, "reports", f"{docname}.err.log")
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(reason + "\n", "utf-8")
    if failures:
        raise ChapterError("\n".join(failures))


def plain_errors(app, doctree, docname) -> None:
    """Remove the name of a file from each error that a chapter means to show: that hint is for the author's log."""
    for block in doctree.findall(nodes.literal_block):
        if kernel_setup.BROKEN in block.astext():
            text = re.sub(rf"{kernel_setup.BROKEN} .+? \(solutions/\w+\.py\) failed: ", "", block.astext())
            block.children[:] = [nodes.Text(text)]
            block.rawsource = text


def one_line(traceback: str) -> str:
    """Return the error's own line from the report of a notebook's execution, without frames and source."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", traceback).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(kernel_setup.BROKEN)]
    return (named or lines or ["no reason was given"])[-1][:500]
