"""Which of a handout's own cells must run for what is graded: those that define a name that somebody uses.

Most of a chapter's cells show something: they train, they time, they draw. No answer depends on them, and together they
take ten times as long as all answers. What a student wrote or changed always runs. In doubt a cell is needed: names are
taken wherever they stand, in comments and strings, too.
"""

from __future__ import annotations

import ast
import re

_NAME = re.compile(r"[^\W\d]\w*")
# By these a cell may use any name without writing it down.
ANY_NAME = frozenset({"globals", "locals", "vars", "eval", "exec", "get_ipython", "__main__", "setattr", "run_cell"})


def needed(given: dict[int, str], others: list[str], names: set[str]) -> set[int]:
    """The places of the given cells that must run.

    given: sources of the handout's own cells, by place; others: sources of all other code; names: what is graded
    """
    used = names | {name for source in others for name in _NAME.findall(source)}
    if used & ANY_NAME:
        return set(given)
    made = {place: _made(source) for place, source in given.items()}
    found: set[int] = set()
    while more := {place for place in given.keys() - found if made[place] is None or made[place] & used}:
        found |= more
        used |= {name for place in more for name in _NAME.findall(given[place])}
    return found


def _made(source: str) -> set[str] | None:
    """The names that a cell may bind or alter, or None where that cannot be told."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # magics, for one
        return None
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            if any(alias.name == "*" for alias in node.names):
                return None
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) \
                and isinstance(node.value.func, ast.Attribute):
            found.add(_root(node.value.func))  # a call for its effect: `random.seed(0)`, `things.append(x)`
    return found


def _root(node: ast.AST) -> str:
    """The name that `a` is in `a.b[c].d`, or nothing."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
