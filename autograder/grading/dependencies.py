"""Which of a handout's own cells must run for what is graded: those that make a name that somebody uses.

Most of a chapter's cells show something: they train, they time, they draw. No answer depends on them, and together they
take ten times as long as all answers. What a student wrote or changed always runs. In doubt a cell is needed.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterator

_WORD = re.compile(r"[^\W\d]\w*")
# By these a cell may use any name without writing it down.
ANY_NAME = frozenset(
    {
        "globals",
        "locals",
        "vars",
        "eval",
        "exec",
        "get_ipython",
        "__main__",
        "setattr",
        "run_cell",
        "modules",
        "_getframe",
        "currentframe",
        "user_ns",
        "get_objects",
    }
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
# Calls for an effect that no answer can build on: which random numbers come next (a cell that draws some seeds itself),
# how many threads there are, and the picture that is being drawn.
_HARMLESS = re.compile(r"torch\.(manual_seed|set_num_threads)|(np\.)?random\.seed|plt\.\w+")
_BUILTINS = frozenset(dir(builtins))  # `super().__init__()` alters nothing of that name
_NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # magics, for one


def needed(given: dict[int, str], others: list[str], names: set[str]) -> set[int]:
    """The places of the given cells that must run.

    given: sources of the handout's own cells, by place; others: sources of all other code; names: what is graded
    """
    used, any_name = set(names), False
    for source in others:
        used |= _used(source)
        any_name = any_name or _may_use_any(source)
    looks = {place: _look(source) for place, source in given.items()}
    found: set[int] = set()
    while more := {place for place in given.keys() - found if looks[place].made is None or looks[place].made & used}:
        found |= more
        used |= {name for place in more for name in looks[place].used}
        any_name = any_name or any(looks[place].any_name for place in more)
    return set(given) if any_name else found


class _Look:
    """What can be seen of a cell: names it uses, names it binds or alters (None where that cannot be told)."""

    def __init__(self, source: str):
        self.used, self.made, self.any_name = _used(source), _made(source), _may_use_any(source)


_look = functools.lru_cache(maxsize=2048)(_Look)  # of the handout, which all submissions share


def _may_use_any(source: str) -> bool:
    return not ANY_NAME.isdisjoint(_WORD.findall(source))


def _used(source: str) -> set[str]:
    """The names of the notebook that a cell may use; every word in it where that cannot be told."""
    try:
        found: set[str] = set()
        _follow(ast.parse(source).body, set(), found)
        return found
    except _NOT_PYTHON:
        return set(_WORD.findall(source))


def _follow(statements: list[ast.stmt], bound: set[str], found: set[str]) -> None:
    """Add to `found` the names that statements use and that are not bound for certain by those before them."""
    for statement in statements:
        if isinstance(statement, _COMPOUND):
            inside = bound | _targets(statement)
            for name, value in ast.iter_fields(statement):
                parts = value if isinstance(value, list) else [value]
                if name in ("body", "orelse", "finalbody"):
                    _follow(value, set(inside if name == "body" else bound), found)
                elif name in ("handlers", "cases"):
                    for part in parts:
                        caught = {part.name} if isinstance(part, ast.ExceptHandler) and part.name else set()
                        for piece in ast.iter_child_nodes(part):
                            if not isinstance(piece, ast.stmt):
                                _collect(piece, frozenset(), bound, found)
                        _follow(part.body, bound | caught, found)
                else:
                    for part in filter(None, parts):
                        if isinstance(part, ast.AST):
                            _collect(part, frozenset(), bound, found)
        else:
            _collect(statement, frozenset(), bound, found)
            bound |= _bound_in(statement) - {
                node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)
            }  # `a and (b := c)` may bind nothing


def _targets(statement: ast.stmt) -> set[str]:
    """What a loop or a `with` binds before its body runs."""
    places = (
        [statement.target]
        if isinstance(statement, (ast.For, ast.AsyncFor))
        else [item.optional_vars for item in getattr(statement, "items", []) if item.optional_vars]
    )
    return {name for place in places for name in _bound_in(place)}


def _collect(node: ast.AST, own: frozenset[str], bound: set[str], found: set[str]) -> None:
    """Add the names that are read here.

    own: names of the functions around; bound: names that have a value from this very cell, which a function may not
    rely on, as it runs later
    """
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in own and node.id not in bound:
            found.add(node.id)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        if node.target.id not in own and node.target.id not in bound:
            found.add(node.target.id)
        _collect(node.value, own, bound, found)
    elif isinstance(node, _FUNCTIONS):
        for outside in _outside(node):
            _collect(outside, own, bound, found)
        own = own | _own_names(node)
        for inside in _inside(node):
            _collect(inside, own, set(), found)
    elif isinstance(node, _COMPREHENSIONS):
        names = {name for part in node.generators for name in _bound_in(part.target)}
        for child in _children(node):
            _collect(child, own | names, bound, found)
    else:  # of a class, too: what its body binds is no name of the notebook
        for child in _children(node):
            _collect(child, own, bound, found)


def _children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, but for what has no names in it; most of the time goes here."""
    found = []
    for field in node._fields:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, (ast.expr_context, ast.operator, ast.Constant)):
            found.append(value)
    return found


def _outside(function: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function that are evaluated where it is defined."""
    yield from getattr(function, "decorator_list", [])
    yield from (default for default in (*function.args.defaults, *function.args.kw_defaults) if default)
    if not isinstance(function, ast.Lambda):
        yield from (arg.annotation for arg in _arguments(function) if arg.annotation)
        yield from [function.returns] if function.returns else []


def _inside(function: ast.AST) -> list[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else function.body


def _arguments(function: ast.AST) -> list[ast.arg]:
    args = function.args
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]


def _own_names(function: ast.AST) -> set[str]:
    """A function's own names: its arguments and what it binds, less what it declares to be the notebook's."""
    shared: set[str] = set()
    bound = {name for part in _inside(function) for name in _bound_in(part, shared)}
    return {arg.arg for arg in _arguments(function)} | bound - shared


def _bound_in(node: ast.AST, shared: set[str] | None = None) -> set[str]:
    """The names that code may bind in the scope it stands in; those that it declares to be global go to `shared`."""
    found: set[str] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _COMPREHENSIONS):  # its own, but for what `:=` binds
            found |= {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
            continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        elif isinstance(node, ast.Global) and shared is not None:
            shared |= set(node.names)
        todo += _children(node)
    return found


def _made(source: str) -> frozenset[str] | None:
    """The names of the notebook that a cell may bind or alter, or None where that cannot be told."""
    try:
        tree = ast.parse(source)
        if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
            return None
        found = _bound_in(tree)
        _alter(tree, frozenset(), found)
        return frozenset(found)
    except _NOT_PYTHON:
        return None


def _alter(node: ast.AST, own: frozenset[str], found: set[str]) -> None:
    """Add the names whose values are altered: `a.b = 1`, `a[0] = 1`, and calls for their effect, as `a.append(1)`."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        own = own | _own_names(node)
    elif isinstance(node, ast.Global):
        found |= set(node.names)
    elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        found |= _roots(node) - own
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        if not _HARMLESS.fullmatch(ast.unparse(node.value.func)):
            found |= _roots(node.value.func) - own
    for child in ast.iter_child_nodes(node):
        _alter(child, own, found)


def _roots(node: ast.AST) -> set[str]:
    """What an alteration of `a.b[c].d` may reach: a. Of `get(a, b).c`, what is given to the function, too."""
    found: set[str] = set()
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            given = [*node.args, *(word.value for word in node.keywords)]
            found |= {part.id for value in given for part in ast.walk(value) if isinstance(part, ast.Name)}
        node = node.func if isinstance(node, ast.Call) else node.value
    return found | {node.id} - _BUILTINS if isinstance(node, ast.Name) else found
