"""Find the cells of a handout that graded code depends on: those that define a name that some other code uses.

Most of a chapter's cells show something: they train, they time, they draw. No answer depends on them, and together they
take ten times as long as all answers. What a student wrote or changed always runs. If in doubt, a cell is needed, and
if there is more code than MAX_SEARCHED, all cells are: the analysis takes time quadratic in its length.
"""

import ast
import builtins
import functools
import re
import symtable

from attnlab.checking.code_slice import bound_in, with_own_variables
from autograder.sandbox.limits import MAX_SEARCHED

_WORD = re.compile(r"[^\W\d]\w*")
# With these, a cell may use any name without writing it.
ANY_NAME = frozenset(
    """
    globals locals vars eval exec get_ipython __main__ setattr run_cell modules _getframe currentframe user_ns
    get_objects
    """.split()
)
# Calls for an effect that no answer can build on: which random numbers come next (a cell that draws some seeds itself),
# how many threads there are, and the picture that is being drawn.
_HARMLESS = re.compile(r"torch\.(manual_seed|set_num_threads)|(np\.)?random\.seed|plt\.\w+")
_BUILTINS = frozenset(dir(builtins))  # `super().__init__()` alters nothing of that name
_NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # magics, for one
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def needed(given: dict[int, str], others: list[str], names: set[str]) -> set[int]:
    """The positions of the given cells that must run.

    given: sources of the handout's own cells, by place; others: sources of all other code; names: what is graded
    """
    if sum(map(len, others)) > MAX_SEARCHED:
        return set(given)
    used, any_name = set(names), False
    for source in others:
        used |= _used(source)
        any_name = any_name or _may_use_any(source)
    made = {place: _made(source) for place, source in given.items()}
    found: set[int] = set()
    while more := {place for place in given.keys() - found if (own := made[place]) is None or own & used}:
        found |= more
        used = used.union(*(_used(given[place]) for place in more))
        any_name = any_name or any(_may_use_any(given[place]) for place in more)
    return set(given) if any_name else found


# All submissions share the handout, and much of what is handed in is identical.
_remembered = functools.lru_cache(maxsize=2048)


@_remembered
def _may_use_any(source: str) -> bool:
    if ANY_NAME.isdisjoint(_WORD.findall(source)):
        return False
    try:
        tree = ast.parse(source)
    except _NOT_PYTHON:
        return True
    # `__name__ == "__main__"` uses no name but its own.
    harmless = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in (node.left, *node.comparators))
        for part in (node.left, *node.comparators)
    }
    return any(id(node) not in harmless and not ANY_NAME.isdisjoint(_words_in(node)) for node in ast.walk(tree))


def _words_in(node: ast.AST) -> list[str]:
    """The names that one node mentions, also inside short strings; a longer string is prose."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.Constant(str(text)):
            return [text]
        case ast.Import(names=found):
            return [word for alias in found for word in alias.name.split(".")]
        case ast.ImportFrom(module=module, names=found):
            return [*(module or "").split("."), *(alias.name for alias in found)]
    return []


@_remembered
def _used(source: str) -> set[str]:
    """The names of the notebook that a cell may use; every word in it if that is unknown."""
    try:
        return _follow(_AugmentedReads().visit(ast.parse(with_own_variables(source))).body, set())
    except _NOT_PYTHON:
        return set(_WORD.findall(source))


class _AugmentedReads(ast.NodeTransformer):
    """`a += b` as `a = a + b`: a symbol table does not say that it reads a."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _follow(statements: list[ast.stmt], bound: set[str]) -> set[str]:
    """Names read before they are certainly bound."""
    used: set[str] = set()
    for statement in statements:
        blocks = []
        if isinstance(statement, _COMPOUND):  # its blocks are taken out, and its head stays
            for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                for field in ("body", "orelse", "finalbody"):
                    if getattr(part, field, None):
                        blocks.append((part, field, getattr(part, field)))
                        setattr(part, field, [ast.Pass()])
        table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
        used |= _reads(table, bound)
        # `a and (b := c)` may bind nothing.
        binds = bound_in(table) - {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        for part, field, block in blocks:
            inside = set(bound)
            if field == "body" and isinstance(part, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)):
                inside |= binds
            elif isinstance(part, ast.ExceptHandler) and part.name:
                inside.add(part.name)
            used |= _follow(block, inside)
        if not blocks:
            bound |= binds
    return used


def _reads(table: symtable.SymbolTable, bound: set[str]) -> set[str]:
    """Return the notebook's names that a scope, and the scopes inside it, read.

    `bound` are the names that this cell itself has bound. A function may not rely on them, as it runs later.
    """
    if table.get_type() == "function" and table.get_name() != "genexpr":  # which runs in place, as a class's body does
        bound = set()
    read = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and _is_shared(table, symbol)}
    return (read - bound).union(*(_reads(child, bound) for child in table.get_children()))


def _is_shared(table: symtable.SymbolTable, symbol: symtable.Symbol) -> bool:
    """Whether a name may refer to a notebook global; a class body reads the global until it binds the name itself."""
    if symbol.get_name().startswith("."):  # Python's own, such as `.format` of annotations
        return False
    return symbol.is_global() or table.get_type() != "function" and not symbol.is_free()


@_remembered
def _made(source: str) -> frozenset[str] | None:
    """The names of the notebook that a cell may bind or alter, or None if that is unknown."""
    try:
        source = with_own_variables(source)
        tree = ast.parse(source)
        if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
            return None
        table = symtable.symtable(source, "<cell>", "exec")
        return frozenset(bound_in(table) | _altered(tree, table, frozenset()))
    except _NOT_PYTHON:
        return None


def _altered(node: ast.AST, table: symtable.SymbolTable, own: frozenset[str]) -> set[str]:
    """The names whose values are altered: `a.b = 1`, `a[0] = 1`, and calls for their effect, as `a.append(1)`."""
    altered: set[str] = set()
    for child in ast.iter_child_nodes(node):
        inner, names = table, own
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            place = child.name, child.lineno
            scopes = {(scope.get_name(), scope.get_lineno()): scope for scope in table.get_children()}
            inner = scopes.get(place)
            if inner and not isinstance(child, ast.ClassDef):
                names = own | {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_local()}
        elif isinstance(child, ast.Global):
            altered |= set(child.names)
        elif isinstance(child, (ast.Attribute, ast.Subscript)) and isinstance(child.ctx, (ast.Store, ast.Del)):
            altered |= _roots(child) - own
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            function = child.value.func
            if isinstance(function, ast.Attribute) and not _HARMLESS.fullmatch(ast.unparse(function)):
                altered |= _roots(function) - own
        altered |= _altered(child, inner or table, names)
    return altered


def _roots(node: ast.AST) -> set[str]:
    """The names that an alteration of `a.b[c].d` may reach: a. For `get(a, b).c`, also the function's arguments."""
    found: set[str] = set()
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            given = [*node.args, *(word.value for word in node.keywords)]
            found |= {part.id for value in given for part in ast.walk(value) if isinstance(part, ast.Name)}
        node = node.func if isinstance(node, ast.Call) else node.value
    return found | {node.id} - _BUILTINS if isinstance(node, ast.Name) else found
