"""Read a chapter: the text notebook in `chapters/`, its exercises, their checks and the written question.

Everything a chapter must be is checked here, so that assembling, releasing, grading and the book all give the same
one-line answer to the same mistake.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from dataclasses import dataclass

import nbformat
import yaml

from autograder.course import catalog
from autograder.errors import CourseError

_CHECK = re.compile(r"^check\((\w+)\)$")


@dataclass(frozen=True)
class ExerciseCells:
    """Where an exercise stands in a chapter's notebook: the stub's cell and the check's cell."""

    name: str
    stub: int
    check: int


def read(stem: str) -> nbformat.NotebookNode:
    """A chapter as a notebook, with `metadata.source_map` (first line of each cell) and validated structure."""
    path = catalog.chapter_path(stem)
    if not path.is_file():
        raise CourseError(f"chapters/{stem}.md is missing, though _toc.yml names it")
    notebook = parse(path.read_text("utf-8"), f"chapters/{stem}.md")
    cells = find_exercises(notebook, f"chapters/{stem}.md")
    declared = catalog.exercises_of(stem)
    for name in [c.name for c in cells]:
        if name not in declared:
            raise CourseError(
                f"chapters/{stem}.md has the exercise {name}, "
                f"but autograder/exercises/{stem}.py declares none of that name"
            )
    for name in declared:
        if name not in [c.name for c in cells]:
            raise CourseError(
                f"autograder/exercises/{stem}.py declares {name}, but chapters/{stem}.md has no exercise cell for it"
            )
    if sum(is_written(cell) for cell in notebook.cells) != 1:
        raise CourseError(f"chapters/{stem}.md must have exactly one cell tagged `written`")
    return notebook


def parse(text: str, where: str) -> nbformat.NotebookNode:
    """A MyST text notebook as a notebook; `where` names it in errors."""
    return copy.deepcopy(_parsed(text, where))


@functools.cache
def _parsed(text: str, where: str) -> nbformat.NotebookNode:
    """One that must stay as it is: a chapter is asked for more than once, and takes a second to read."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if not front:
        raise CourseError(f"{where} has no front matter (a block between two lines of ---)")
    try:
        metadata = yaml.safe_load(front.group(1))
        if not isinstance(metadata, dict) or "name" not in (metadata.get("kernelspec") or {}):
            raise CourseError(f"{where}: the front matter must name a kernelspec")
        config = MdParserConfig(enable_extensions={"colon_fence", "dollarmath"})
        notebook = read_myst_markdown_notebook(text, config, add_source_map=True)
    except CourseError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise CourseError(f"{where}: cannot be read as a text notebook: {reason}") from None
    return notebook


def find_exercises(notebook: nbformat.NotebookNode, where: str) -> list[ExerciseCells]:
    """The exercises of a notebook, in order. Raises CourseError for a stub without check or a check without stub."""
    found: list[ExerciseCells] = []
    for i, cell in enumerate(notebook.cells):
        if not is_exercise(cell):
            continue
        name = definition_in(cell.source, where).name
        check = next((j for j in range(i + 1, len(notebook.cells)) if notebook.cells[j].cell_type == "code"), None)
        match = _CHECK.match(notebook.cells[check].source.strip()) if check is not None else None
        if not match or match.group(1) != name:
            raise CourseError(f"{where}: the next code cell after the exercise {name} must be `check({name})`")
        if name in [c.name for c in found]:
            raise CourseError(f"{where}: the exercise {name} stands there twice")
        found.append(ExerciseCells(name, i, check))
    return found


def is_exercise(cell) -> bool:
    return cell.cell_type == "code" and "exercise" in cell.metadata.get("tags", [])


def is_written(cell) -> bool:
    return cell.cell_type == "markdown" and "written" in cell.metadata.get("tags", [])


def definition_in(source: str, where: str) -> ast.FunctionDef | ast.ClassDef:
    """The one function or class that an exercise cell defines."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise CourseError(
            f"{where}: an exercise cell has a syntax error in its line {error.lineno}: {error.msg}"
        ) from None
    if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.ClassDef)):
        raise CourseError(
            f"{where}: an exercise cell must hold one function or class and nothing else; "
            f"one begins with {source.strip().splitlines()[0] if source.strip() else 'nothing'!r}"
        )
    return body[0]
