"""Two editions of the book. The student's, which is the default, holds no answer. `EDITION=self-study` folds each
exercise's reference below its check, for readers who learn alone, and says so on every page.

Solutions are added when a page is written, after the notebooks ran and their outputs were cached, so that both editions
share one cache. The self-study edition has a folder of its own, and each edition refuses the other's folder.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

from docutils import nodes

from autograder.course import assemble
from autograder.course.folder import ROOT
from book import check_cells
from book.errors import ConfigurationError

STUDENT, SELF_STUDY = EDITIONS = ("student", "self-study")
MARK = "Self-study edition: a solution is folded below each check."


def current() -> str:
    """The edition that the environment variable EDITION names; the student's if it names none."""
    name = os.environ.get("EDITION") or STUDENT
    if name not in EDITIONS:
        raise ConfigurationError(f"EDITION is {name!r}; there are: {', '.join(EDITIONS)}")
    return name


def configure(app, config) -> None:
    edition = current()
    if (SELF_STUDY in Path(app.outdir).parts) != (edition == SELF_STUDY):
        raise ConfigurationError(
            f"EDITION is {edition!r}, but the book would be written to {app.outdir}: "
            f"`make book EDITION={SELF_STUDY}` gives that edition a folder of its own"
        )
    if edition == SELF_STUDY:
        config.html_theme_options["announcement"] = MARK
        config.nb_execution_cache_path = str(ROOT / "_build" / ".jupyter_cache")


def add_solutions(app, doctree, docname) -> None:
    stem = check_cells.chapter_of(docname)
    if stem is None or app.builder.format != "html" or current() != SELF_STUDY:
        return
    for name, cell in check_cells.in_document(doctree):
        source = without_docstrings(assemble.solution_source(stem, name))
        summary = f"<summary>Solution of <code>{name}</code></summary>"
        check_cells.put_after(
            cell,
            check_cells.raw(f'<details class="solution" id="solution-{name}">{summary}'),
            nodes.literal_block(source, source, language="python"),
            check_cells.raw("</details>"),
        )


def without_docstrings(source: str) -> str:
    """The definition without its docstrings, which the stub above shows already."""
    lines = source.rstrip().split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) and len(node.body) > 1:
            text = node.body[0]
            for number in range(text.lineno - 1, text.end_lineno):
                lines[number] = None
            if lines[text.end_lineno] == "":  # the empty line below it
                lines[text.end_lineno] = None
    return "\n".join(line for line in lines if line is not None)


def setup(app) -> None:
    app.connect("config-inited", configure)
    app.connect("doctree-resolved", add_solutions, priority=400)


if __name__ == "__main__":
    print(f"The {current()} edition")  # or one line on what is wrong, before anything is built
