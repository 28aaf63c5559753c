"""The prerequisites of a chapter: the only reference solutions that it may import while it is graded.

A chapter names them in its import cells: `from attnlab.mine import apply_rope, split_heads`. A student's own earlier
answers do not affect the grade of a later chapter.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import functools
import marshal
import os
from collections.abc import Iterator

import numpy as np

from attnlab.checking import code_slice
from attnlab.checking.schema import References, ReferenceSources
from attnlab.mine import PROVIDED
from course import catalog, chapter
from course.folder import ROOT


@functools.cache
def names(stem: str) -> tuple[str, ...]:
    """The earlier exercises that a chapter imports from `attnlab.mine`, in order.

    stem: the name of a released notebook, which may be that of a chapter that was divided
    """
    found = dict.fromkeys(name for one in catalog.chapters_in(stem) for name in chapter.read(one).prerequisites)
    return tuple(name for name in found if name not in catalog.exercises_in(stem))


@functools.cache
def sources(stem: str) -> dict[str, str]:
    """The code that a chapter's prerequisites need: module of `solutions` -> the part of its source that must run."""
    wanted: dict[str, set[str]] = {}
    waiting = [(catalog.chapter_of(name), name) for name in names(stem)]
    while waiting:
        module, name = waiting.pop()
        if name in wanted.setdefault(module, set()):
            continue
        wanted[module].add(name)
        for node in ast.walk(ast.parse(_excerpt(module, [name]))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("solutions."):
                waiting += [(node.module.removeprefix("solutions."), alias.name) for alias in node.names]
    return {module: _excerpt(module, sorted(chosen)) for module, chosen in wanted.items()}


def not_due(stem: str, due: dict[str, datetime.datetime], now: datetime.datetime) -> dict[str, datetime.datetime]:
    """The chapters that can still be handed in although their references are lent to this one, and until when.

    due: by chapter, those that have a due date; both this and `now` in UTC, without a time zone, as nbgrader keeps them
    """
    return {
        earlier: when
        for earlier, when in due.items()
        if earlier != stem and when > now and set(catalog.chapters_in(earlier)) & set(sources(stem))
    }


@functools.cache
def reference(name: str) -> str:
    """Return the code of one exercise's reference, with the part of its module that it needs.

    Imports from earlier chapters are among the module's own `sources`.
    """
    return _excerpt(catalog.chapter_of(name), [name])


def _excerpt(module: str, chosen: list[str]) -> str:
    path = ROOT / "solutions" / f"{module}.py"
    return code_slice.excerpt(path.read_text("utf-8"), path.name, chosen)


def references(stem: str) -> ReferenceSources | None:
    """The setting and sources for a student's process: the value of ATTNLAB_MINE, and the modules that it imports from.

    None for the name of anything but a chapter.
    """
    return {"setting": _setting(stem), "sources": sources(stem)} if catalog.chapters_in(stem) else None


def _setting(stem: str) -> str:
    return f"solutions:{','.join(names(stem)) or '-'}"


@contextlib.contextmanager
def importable(stem: str) -> Iterator[None]:
    """Kernels that start inside get this chapter's prerequisites from `attnlab.mine`."""
    before = os.environ.get(PROVIDED)
    os.environ[PROVIDED] = _setting(stem)
    try:
        yield
    finally:
        os.environ.pop(PROVIDED)
        if before is not None:
            os.environ[PROVIDED] = before


# References as a student's process gets them: compiled, and without their text. A notebook can inspect any code that it
# can call. So what is lent contains only what running it needs: no source, comments or docstrings, and line 1 as the
# position of everything. Names, constants and the steps of the code remain.

FILENAME = "<reference>"


@functools.lru_cache(maxsize=256)
def bytecode(source: str) -> np.ndarray:
    """Source as a code object in bytes (uint8), for `marshal.loads` in a process of the same Python."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            vars(node).update(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    return np.frombuffer(marshal.dumps(compile(tree, FILENAME, "exec", dont_inherit=True)), np.uint8)


def with_bytecode(references: ReferenceSources | None) -> References | None:
    """References as `references` has them, for the process of a notebook."""
    if references is None:
        return None
    modules = {name: bytecode(source) for name, source in references["sources"].items()}
    return {"setting": references["setting"], "modules": modules}
