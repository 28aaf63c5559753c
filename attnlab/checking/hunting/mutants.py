"""First-order mutants of a function or class: its source with one change, made by its syntax tree.

An operator is exchanged, a bound or a constant changed by one, an axis, a name or two arguments exchanged, an argument,
a call or a statement dropped, a mask inverted. `mutate_references.py` asks what the checks make of them.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A reference with one change. `before` and `after` are the lines that differ, as `ast.unparse` writes them."""

    kind: str
    before: str
    after: str
    source: str


@dataclass(frozen=True)
class Scope:
    """The names that a function can use, and which of them are easily confused.

    kinds: parameters, by annotation, and names bound together, as in `left, right = ...`; names of one kind are alike
    bound: every name, as often as it is bound
    attributes: those of the class's objects
    """

    kinds: dict[str, str] = field(default_factory=dict)
    bound: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of the source of one function or class, no two alike."""
    tree = ast.parse(textwrap.dedent(source))
    original = ast.unparse(tree)
    seen = {original}
    for holder, key, node, scope in _places(tree, Scope()):
        for kind, other in _changes(node, scope):
            holder[key] = other
            changed = ast.unparse(tree)
            holder[key] = node
            if changed not in seen and _compiles(changed):
                seen.add(changed)
                yield Mutant(kind, *_lines_that_differ(original, changed), changed)


def _places(node: ast.AST, scope: Scope) -> Iterator[tuple]:
    """Yield each node that may be changed: its parent, its key there, the node, and the names that can be used there.

    Left alone are docstrings, annotations, and the words of messages.
    """
    scope = _scope_inside(node, scope)
    for part, value in ast.iter_fields(node):
        if part in {"annotation", "returns", "decorator_list", "bases", "ops", "op", "ctx"}:
            continue
        for key, child in enumerate(value) if isinstance(value, list) else [(part, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_text(child):
                continue
            yield value if isinstance(value, list) else vars(node), key, child, scope
            if not isinstance(child, ast.Raise) and _number(child) is None and not _is_super(child):
                yield from _places(child, scope)


def _scope_inside(node, scope: Scope) -> Scope:
    if isinstance(node, ast.ClassDef):
        stored = [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
        return Scope(attributes=tuple(dict.fromkeys(stored)))
    if isinstance(node, ast.FunctionDef):
        kinds = {a.arg: ast.unparse(a.annotation or ast.Constant("")) for a in node.args.args if a.arg != "self"}
        bound = [*kinds, *(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))]
        for together in ast.walk(node):
            if isinstance(together, ast.Tuple) and isinstance(together.ctx, ast.Store):
                names = [item.id for item in together.elts if isinstance(item, ast.Name)]
                kinds |= {name: ast.unparse(together) for name in names if name not in kinds}
        return Scope(kinds, tuple(bound), scope.attributes)
    return scope


def _is_text(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_super(node) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("super().")


def _compiles(source: str) -> bool:
    try:
        compile(source, "<mutant>", "exec")
    except SyntaxError:  # a call instead of a target
        return False
    return True


def _lines_that_differ(before: str, after: str) -> tuple[str, str]:
    one, other = before.split("\n"), after.split("\n")
    start = next(i for i, (a, b) in enumerate(zip([*one, None], [*other, None])) if a != b)
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    texts = ["\n".join(line.strip() for line in lines[start : len(lines) - end]) for lines in (one, other)]
    return texts[0], texts[1]


# What a node may become. Each function yields the kind of a change and the node that takes the place.

OPERATORS = {
    ast.Add: [ast.Sub, ast.Mult],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.MatMult: [ast.Mult],
    ast.FloorDiv: [ast.Div, ast.Mod],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}
COMMUTE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)
NEIGHBORS = [
    group.split()
    for group in (
        "max min, amax amin, argmax argmin, maximum minimum, sin cos, exp exp2 expm1, log log2 log1p, sum mean, "
        "var std, sqrt rsqrt square, tril triu, any all, zeros ones, zeros_like ones_like, new_zeros new_ones, "
        "tanh sigmoid erf, cat stack, float32 float64 float16, float int bool, repeat_interleave repeat, randn rand, "
        "cumsum cumprod, standard_normal random, softmax log_softmax, LayerNorm RMSNorm, KVCache list"
    ).split(",")
]
MODULES = {"np", "math", "torch", "nn", "F"}
AXES = (0, 1, -1, -2, 2)
TAKE_AXES = {"transpose", "swapaxes", "squeeze", "unsqueeze", "flatten", "gather", "expand_dims", "moveaxis"}
NAME_AXES = {"axis", "dim", "start_dim", "end_dim"}


def _changes(node, scope: Scope) -> Iterator[tuple[str, ast.AST]]:
    number = _number(node)
    if number is not None:
        yield from (("constant", _literal(other)) for other in _other_numbers(number))
    elif isinstance(node, ast.stmt):
        yield from _other_statements(node, scope)
    else:
        yield from OF_EXPRESSIONS.get(type(node), lambda node, scope: ())(node, scope)


def _number(node) -> bool | int | float | None:
    """The number that a node stands for, with its sign, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


def _literal(value) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


def _other_numbers(number) -> list:
    if isinstance(number, bool):
        return [not number]
    if isinstance(number, int):
        return [number + 1, number - 1, -number]
    return [-number, 2 * number, 0.0] if number else [1.0]


def _other_statements(node, scope):
    if isinstance(node, ast.Raise):
        yield "refusal", ast.parse(ast.unparse(node).replace("raise ValueError", "raise TypeError")).body[0]
    elif isinstance(node, ast.Assign):
        # A name that is bound nowhere else would only be missing afterwards.
        names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        if all(name == "self" or scope.bound.count(name) > 1 for name in names):
            yield "statement dropped", ast.Pass()
        first: Any = node.targets[0]
        value = node.value
        for i in range(len(first.elts) - 1 if isinstance(first, ast.Tuple) and not isinstance(value, ast.Tuple) else 0):
            yield "items exchanged", ast.Assign([ast.Tuple(_exchanged(first.elts, i), first.ctx)], value, lineno=1)
    elif not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Pass)) and not _is_super(node):
        yield "statement dropped", ast.Pass()
    if isinstance(node, (ast.If, ast.While)):
        yield "condition", type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _of_binary(node, scope):
    for other in OPERATORS.get(type(node.op), ()):
        yield "operator", ast.BinOp(node.left, other(), node.right)
    yield from (("operand dropped", node.left), ("operand dropped", node.right))
    if not isinstance(node.op, COMMUTE):
        yield "operands exchanged", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, ast.MatMult):
        for left, right in ((True, False), (False, True)):
            turned = ast.BinOp(_turned(node.left) if left else node.left, node.op, node.right)
            turned.right = _turned(node.right) if right else node.right
            yield "transpose", turned


def _turned(node):
    return ast.Attribute(node, "mT", ast.Load())


def _of_unary(node, scope):
    yield "sign or not dropped", node.operand


def _of_logic(node, scope):
    yield "operator", ast.BoolOp(OPERATORS[type(node.op)][0](), node.values)
    yield from (("condition dropped", ast.BoolOp(node.op, rest)) for rest in _without_one(node.values))


def _of_comparison(node, scope):
    for i, op in enumerate(node.ops):
        for other in OPERATORS.get(type(op), ()):
            yield "comparison", ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)


def _of_choice(node, scope):
    yield from (("branch", node.body), ("branch", node.orelse))


def _of_name(node, scope):
    if isinstance(node.ctx, ast.Load):
        yield from (("neighbor", ast.Name(other, node.ctx)) for other in _neighbors(node.id))
        kind = scope.kinds.get(node.id)
        others = [other for other, its in scope.kinds.items() if its == kind and other != node.id]
        yield from (("name", ast.Name(other, node.ctx)) for other in others)


def _of_attribute(node, scope):
    if node.attr in {"T", "mT"}:
        yield "transpose", node.value
    if node.attr == "inf":
        yield "finite", _literal(1e9)
    yield from (("neighbor", ast.Attribute(node.value, other, node.ctx)) for other in _neighbors(node.attr))
    if isinstance(node.ctx, ast.Load) and node.attr in scope.attributes:  # such as W_q and W_k
        for other in scope.attributes:
            if other != node.attr and other.split("_")[0] == node.attr.split("_")[0]:
                yield "name", ast.Attribute(node.value, other, node.ctx)


def _neighbors(name: str) -> list[str]:
    return [other for group in NEIGHBORS if name in group for other in group if other != name]


def _of_constant(node, scope):
    if node.value == "-inf":
        yield from (("finite", ast.Constant("-1e9")), ("constant", ast.Constant("inf")))


def _of_subscript(node, scope):
    index = _number(node.slice)
    if index is not None:
        yield from (("axis", ast.Subscript(node.value, _literal(k), node.ctx)) for k in AXES if k != index)


def _of_slice(node, scope):
    bounds = [node.lower, node.upper, node.step]
    for i, bound in enumerate(bounds):
        if bound is not None:
            others = [None] if _number(bound) is not None else [None, *_shifted(bound)]
            for other in others:
                lower, upper, step = [*bounds[:i], other, *bounds[i + 1 :]]
                yield "slice bound", ast.Slice(lower, upper, step)


def _shifted(node):
    return [ast.BinOp(node, op(), ast.Constant(1)) for op in (ast.Add, ast.Sub)]


def _of_sequence(node, scope):
    for i in range(len(node.elts) - 1 if isinstance(node.ctx, ast.Load) else 0):
        yield "items exchanged", type(node)(_exchanged(node.elts, i), node.ctx)


def _of_call(node, scope):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_method = owner is not None and getattr(owner, "id", None) not in MODULES | {"self"}

    def call(args=node.args, keywords=node.keywords):
        return ast.Call(node.func, args, keywords)

    if is_method or node.args:
        yield "call dropped", owner if is_method else node.args[0]
    for i, keyword in enumerate(node.keywords):
        others = [k for k in AXES if k != _number(keyword.value)] if keyword.arg in NAME_AXES else []
        for other in others:
            changed = ast.keyword(keyword.arg, _literal(other))
            yield "axis", call(keywords=[*node.keywords[:i], changed, *node.keywords[i + 1 :]])
    for i, argument in enumerate(node.args):
        others = []
        if name in TAKE_AXES and _number(argument) is not None:
            others = [("axis", _literal(k)) for k in AXES if k != _number(argument)]
        elif name in {"range", "arange"} and _number(argument) is None:
            others = [("bound", shifted) for shifted in _shifted(argument)]
        elif name in {"masked_fill", "where"} and i == 0:
            others = [("mask inverted", ast.UnaryOp(ast.Invert(), argument))]
        for kind, other in others:
            yield kind, call([*node.args[:i], other, *node.args[i + 1 :]])
    yield from (("arguments exchanged", call(_exchanged(node.args, i))) for i in range(len(node.args) - 1))
    if len(node.args) > 1:  # without its only one a call raises TypeError, whatever it was
        yield from (("argument dropped", call(rest)) for rest in _without_one(node.args))
    yield from (("argument dropped", call(keywords=rest)) for rest in _without_one(node.keywords))


def _without_one(items: list) -> Iterator[list]:
    return (items[:i] + items[i + 1 :] for i in range(len(items)))


def _exchanged(items: list, i: int) -> list:
    return [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


OF_EXPRESSIONS = {
    ast.BinOp: _of_binary,
    ast.UnaryOp: _of_unary,
    ast.BoolOp: _of_logic,
    ast.Compare: _of_comparison,
    ast.IfExp: _of_choice,
    ast.Name: _of_name,
    ast.Attribute: _of_attribute,
    ast.Constant: _of_constant,
    ast.Subscript: _of_subscript,
    ast.Slice: _of_slice,
    ast.Tuple: _of_sequence,
    ast.List: _of_sequence,
    ast.Call: _of_call,
}
