"""References that a chapter is lent while it is graded: the earlier answers that it builds on, and no others.

A chapter says so itself, in its import cells: `from attnlab.mine import apply_rope, split_heads`. A student's own
earlier answers play no part in the grade of a later chapter.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
from collections.abc import Iterator

from attnlab import excerpt
from attnlab.mine import PROVIDED
from autograder.course import catalog, chapter
from autograder.course.folder import ROOT
from autograder.errors import CourseError


@functools.cache
def names(stem: str) -> tuple[str, ...]:
    """The earlier exercises that a chapter takes from `attnlab.mine`, in order. Raises CourseError for any other."""
    where, order = f"chapters/{stem}.md", catalog.chapters()
    wanted = dict.fromkeys(
        name for cell in chapter.read(stem).cells if cell.cell_type == "code" for name in taken_in(cell.source, where)
    )
    for name in wanted:
        source = catalog.chapter_of(name)
        if order.index(source) >= order.index(stem):
            raise CourseError(f"{where} takes {name} from attnlab.mine, but {source} is no earlier chapter")
    return tuple(wanted)


def taken_in(source: str, where: str) -> list[str]:
    """The names that a cell imports from `attnlab.mine`."""
    try:
        tree = ast.parse(excerpt.without_magics(source))
    except SyntaxError as error:
        raise CourseError(f"{where}: a code cell has a syntax error: {error.msg}") from None
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "attnlab.mine"]
    return [alias.name for node in imports for alias in node.names if alias.name not in PUBLIC]


PUBLIC = {"parts", "NotThere"}  # what attnlab.mine has of its own


@functools.cache
def sources(stem: str) -> dict[str, str]:
    """What must be there to run the lent references: module of `solutions` -> the part of its source they need."""
    wanted: dict[str, set[str]] = {}
    waiting = [(catalog.chapter_of(name), name) for name in names(stem)]
    while waiting:
        module, name = waiting.pop()
        if name in wanted.setdefault(module, set()):
            continue
        wanted[module].add(name)
        for node in ast.walk(ast.parse(_excerpt(module, [name]))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("solutions."):
                waiting += [(node.module.removeprefix("solutions."), alias.name) for alias in node.names]
    return {module: _excerpt(module, sorted(chosen)) for module, chosen in wanted.items()}


def _excerpt(module: str, chosen: list[str]) -> str:
    path = ROOT / "solutions" / f"{module}.py"
    return excerpt.excerpt(path.read_text("utf-8"), path.name, chosen)


def setting(stem: str) -> str:
    """The value of ATTNLAB_MINE while this chapter is graded."""
    return f"solutions:{','.join(names(stem)) or '-'}"


def loans(stem: str) -> dict[str, str | dict[str, str]] | None:
    """All of it, as a student's process is told; None for what stands in no chapter."""
    return {"setting": setting(stem), "sources": sources(stem)} if stem in catalog.chapters() else None


@contextlib.contextmanager
def to(stem: str) -> Iterator[None]:
    """Kernels that start inside get the references of this chapter from `attnlab.mine`."""
    before = os.environ.get(PROVIDED)
    os.environ[PROVIDED] = setting(stem)
    try:
        yield
    finally:
        os.environ.pop(PROVIDED)
        if before is not None:
            os.environ[PROVIDED] = before
