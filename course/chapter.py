"""Read a chapter: the text notebook in `chapters/`, its exercises, their checks and the written question.

Everything a chapter must be is checked here, so that assembling, releasing, grading and the book all report the same
mistake with the same line.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from dataclasses import dataclass
from itertools import pairwise

import nbformat

from attnlab.checking import code_slice
from course import catalog
from course.errors import CourseError

NOT_EXERCISES = {"parts", "NotThere"}  # names of `attnlab.mine` itself


@dataclass(frozen=True)
class ExerciseCells:
    """The cells of an exercise, by their index in the chapter's notebook: the stub and its check."""

    name: str
    stub: int
    check: int


@dataclass(frozen=True)
class Chapter:
    """A chapter: its notebook, its exercises in order, and the earlier exercises it imports from `attnlab.mine`."""

    notebook: nbformat.NotebookNode
    exercises: list[ExerciseCells]
    prerequisites: tuple[str, ...]


def read(stem: str) -> Chapter:
    """The chapter of that name. `notebook.metadata.source_map` holds the first line of each cell.

    Raises CourseError if something that a chapter must have is missing.
    """
    where, path = f"chapters/{stem}.md", catalog.chapter_path(stem)
    if not path.is_file():
        raise CourseError(f"{where} is missing, though _toc.yml names it")
    notebook = parse(path.read_text("utf-8"), where)
    exercises = find_exercises(notebook, where)
    names, declared = [cells.name for cells in exercises], catalog.exercises_of(stem)
    module = f"course/exercises/{stem}.py"
    if undeclared := [name for name in names if name not in declared]:
        raise CourseError(f"{where} has the exercise {undeclared[0]}, but {module} declares none of that name")
    if absent := [name for name in declared if name not in names]:
        raise CourseError(f"{module} declares {absent[0]}, but {where} has no exercise cell for it")
    if sum(map(is_written, notebook.cells)) != 1:
        raise CourseError(f"{where} must have exactly one cell tagged `written`")
    return Chapter(notebook, exercises, find_prerequisites(notebook, stem))


def parse(text: str, where: str) -> nbformat.NotebookNode:
    """A MyST text notebook as a notebook; `where` names it in errors."""
    return copy.deepcopy(_parsed(text, where))


@functools.cache
def _parsed(text: str, where: str) -> nbformat.NotebookNode:
    """Callers must not change it: a chapter is needed more than once and takes a second to read."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    if not re.match(r"---\n(.*?)\n---\n", text, re.DOTALL):
        raise CourseError(f"{where} has no front matter (a block between two lines of ---)")
    config = MdParserConfig(enable_extensions={"colon_fence", "dollarmath"})
    try:
        notebook = read_myst_markdown_notebook(text, config, add_source_map=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise CourseError(f"{where}: cannot be read as a text notebook: {reason}") from None
    if "name" not in (notebook.metadata.get("kernelspec") or {}):
        raise CourseError(f"{where}: the front matter must name a kernelspec")
    return notebook


def find_exercises(notebook: nbformat.NotebookNode, where: str) -> list[ExerciseCells]:
    """The exercises of a notebook, in order. Raises CourseError for a stub without check or a check without stub."""
    found, cells = {}, notebook.cells
    code = [index for index, cell in enumerate(cells) if cell.cell_type == "code"]
    for stub, check in pairwise([*code, None]):
        if not is_exercise(cells[stub]):
            continue
        name = definition_in(cells[stub].source, where).name
        if stub is None or check is None or cells[check].source.strip() != f"check({name})":
            raise CourseError(f"{where}: the next code cell after the exercise {name} must be `check({name})`")
        if name in found:
            raise CourseError(f"{where}: the exercise {name} appears twice")
        found[name] = ExerciseCells(name, stub, check)
    return list(found.values())


def find_prerequisites(notebook: nbformat.NotebookNode, stem: str) -> tuple[str, ...]:
    """The exercises that a notebook imports from `attnlab.mine`, in order.

    Raises CourseError for one that is not from an earlier chapter than `stem`.
    """
    where, order, found = f"chapters/{stem}.md", catalog.chapters(), {}
    for cell in notebook.cells:
        for name in imported(cell.source, where) if cell.cell_type == "code" else []:
            found[name] = source = catalog.chapter_of(name)
            if order.index(source) >= order.index(stem):
                raise CourseError(f"{where} takes {name} from attnlab.mine, but {source} is not an earlier chapter")
    return tuple(found)


def imported(source: str, where: str) -> list[str]:
    """The exercises that a cell imports from `attnlab.mine`."""
    try:
        tree = ast.parse(code_slice.without_magics(source))
    except SyntaxError as error:
        raise CourseError(f"{where}: a code cell has a syntax error: {error.msg}") from None
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "attnlab.mine"]
    return [alias.name for node in imports for alias in node.names if alias.name not in NOT_EXERCISES]


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
        begin = source.strip().partition("\n")[0] or "nothing"
        raise CourseError(
            f"{where}: an exercise cell must hold one function or class and nothing else; one begins with {begin!r}"
        )
    return body[0]
