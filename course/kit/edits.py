"""Wrong answers written as edits of the reference's own text.

The text of a reference is its definition, and those of its module that it needs, without docstrings.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attnlab.checking import code_slice
from course.errors import CourseError
from course.folder import ROOT

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Edit:
    """A change of a reference's text that makes a mistake, and the sentence that explains the mistake.

    changes: text in the reference -> the text that replaces it
    each: values for `{}` in the new texts, a mistake for each; None for a single mistake without `{}`
    place: the file and the line of the declaration; names: the variables of its module, which new texts may use
    """

    changes: Mapping[str, str]
    sentence: str
    section: str | None
    each: tuple
    place: tuple[str, int]
    names: Mapping[str, object]


def edit(
    before: str,
    after: str,
    sentence: str,
    *,
    see: str | None = None,
    each: Iterable = (None,),
    also: Mapping[str, str] | None = None,
) -> Edit:
    """A mistake: the reference with `after` in place of `before`, which must occur in it exactly once.

    sentence: explains the mistake to the student; see: the heading of the chapter to read, if not the exercise's own
    each: one mistake for each value, which takes the place of `{}` in `after`: code if it is a string
    also: further edits that belong to the same mistake, text -> new text
    """
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    return Edit({before: after, **(also or {})}, sentence, see, tuple(each), place, caller.f_globals)


def wrong_answers(reference: Callable, change: Edit) -> list[Callable[[], Callable]]:
    """Return, for each mistake of an edit, a function that makes the wrong answer.

    Raises CourseError, with the file and the line of the edit, if the edit does not fit the reference.
    """
    texts, splices = _texts(reference), []
    for before, after in change.changes.items():
        which = _containing(before, texts, reference, change)
        start = texts[which].index(before)
        splices.append((which, start, start + len(before), after))
    splices.sort(reverse=True)
    for (which, start, *_), (other, _, end, _) in zip(splices, splices[1:]):
        if which == other and end > start:
            raise _misfit(change, f"two of its texts overlap in the reference of {reference.__name__}")
    return [functools.partial(_wrong, reference, change, splices, value) for value in change.each]


def _containing(before: str, texts: list[str], reference: Callable, change: Edit) -> int:
    """Which of a reference's texts contains `before`: its own definition, or else a definition that it needs."""
    counts = [text.count(before) if before else 0 for text in texts]
    own, total = counts[-1], sum(counts)
    if own == 1:
        return len(texts) - 1
    if own == 0 and total == 1:
        return counts.index(1)
    found = "is not in" if not total else f"occurs {own or total} times in"
    raise _misfit(change, f"`{before}` {found} the reference of {reference.__name__}")


def _misfit(change: Edit, words: str) -> CourseError:
    file, line = Path(change.place[0]), change.place[1]
    return CourseError(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name}, line {line}: {words}")


def _wrong(reference: Callable, change: Edit, splices: list[tuple], value) -> Callable:
    texts = _texts(reference)
    for which, start, end, after in splices:  # from the end, so that earlier positions stay valid
        filled = after if value is None else after.replace("{}", value if isinstance(value, str) else repr(value))
        texts[which] = texts[which][:start] + filled + texts[which][end:]
    source = "\n\n\n".join(texts) + "\n"
    filename = f"<{reference.__name__}, mistake {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    space = {**change.names, **vars(sys.modules[reference.__module__])}
    exec(compile(source, filename, "exec", dont_inherit=True), space)
    return space[reference.__name__]


@functools.cache
def _module_texts(path: str) -> tuple[list[code_slice.Statement], list[str]]:
    """The statements of a module, and the text of each without docstrings."""
    source = Path(path).read_text("utf-8")
    found = code_slice.statements(source, path)
    return found, [_without_docstrings(source, statement.node) for statement in found]


def _texts(reference: Callable) -> list[str]:
    """The definitions of its module that a reference needs, in order; its own comes last."""
    path = inspect.getsourcefile(reference)
    found, texts = _module_texts(path)
    name = reference.__name__
    kinds = (ast.FunctionDef, ast.ClassDef)
    needed = code_slice.needed(found, [name])
    own = next(i for i in needed if name in found[i].binds)
    return [texts[i] for i in needed if i != own and isinstance(found[i].node, kinds)] + [texts[own]]


def _without_docstrings(source: str, node: ast.stmt) -> str:
    lines = source.splitlines()
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    gone = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner, clean=False) is not None:
            text = inner.body[0]
            if len(inner.body) > 1:
                gone |= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return "\n".join(lines[n - 1] for n in range(first, (node.end_lineno or first) + 1) if n not in gone)
