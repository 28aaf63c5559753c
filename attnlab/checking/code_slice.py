"""Find the statements of a notebook or a module without which a function or class would not run.

`attnlab.mine` runs an earlier answer without running the rest of its notebook; the grader lends a chapter only
the references that it builds on.
"""

from __future__ import annotations

import ast
import functools
import symtable
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement at the top level. `binds` are the names it gives a value to, `needs` the names it uses."""

    node: ast.stmt
    filename: str
    binds: frozenset[str] = field(repr=False)
    needs: frozenset[str] = field(repr=False)


def statements(source: str, filename: str) -> list[Statement]:
    """The top-level statements of Python source. Raises SyntaxError."""
    return [Statement(node, filename, *_names(node)) for node in ast.parse(source, filename).body]


@functools.lru_cache(maxsize=256)  # each cell of a notebook is needed for several of its exercises
def of_cell(source: str) -> tuple[Statement, ...]:
    """The top-level statements of a notebook's cell; nothing for a cell that is not Python or is nested too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as warnings about invalid escapes
            return tuple(statements(without_magics(source), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def without_magics(source: str) -> str:
    """A cell's source without IPython's own syntax (`%matplotlib inline`, `!ls`), line for line."""
    return "\n".join("pass" if line[:1] in {"%", "!"} else line for line in source.split("\n"))


class _Generators(ast.NodeTransformer):
    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def with_own_variables(source: str) -> str:
    """Rewrite comprehensions as generator expressions, for a symbol table.

    From Python 3.12 on, a table counts the variables of other comprehensions among those of the code around them, as if
    they had a value there.
    """
    tree = ast.parse(source)
    if any(isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)) for node in ast.walk(tree)):
        return ast.unparse(_Generators().visit(tree))
    return source


def needed(found: list[Statement], names: Iterable[str], only: dict[str, Collection[int]] | None = None) -> list[int]:
    """Indices, in order, of the statements that `names` need, and what those need in turn, and so on.

    only: name -> the indices that may bind it; where a name is not in it, every statement that binds it counts.
    A star import binds names that are not visible in the source, so it is always included. Names that nothing binds are
    left to Python's builtins.
    """
    only = only or {}
    chosen = {i for i, statement in enumerate(found) if "*" in statement.binds}
    binding: dict[str, list[int]] = {}
    for i, statement in enumerate(found):
        for name in statement.binds:
            binding.setdefault(name, []).append(i)
    wanted, seen = list(names), set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for i in binding.get(name, ()):
            if i not in chosen and i in only.get(name, (i,)):
                wanted += found[i].needs
                chosen.add(i)
    return sorted(chosen)


def excerpt(source: str, filename: str, names: Iterable[str]) -> str:
    """The part of a module's source that `names` need, as source. Comments are not kept."""
    found = statements(source, filename)
    return "\n\n".join(ast.unparse(found[i].node) for i in needed(found, names)) + "\n"


def _names(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a statement binds, and the global names that it uses, including inside functions and classes."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        return frozenset({"*"}), frozenset()
    table = symtable.symtable(with_own_variables(ast.unparse(node)), "<statement>", "exec")
    needs = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    inner = list(table.get_children())
    while inner:
        scope = inner.pop()
        needs |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()}
        inner += scope.get_children()
    return frozenset(bound_in(table)), frozenset(needs)


def bound_in(table: symtable.SymbolTable) -> set[str]:
    """The names that get a value in a scope."""
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
