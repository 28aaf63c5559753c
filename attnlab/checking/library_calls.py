"""Find library functions in an answer that do the work of its exercise.

Exercises must be written from their parts: an answer that calls a library's own function for the whole work earns
nothing, and the check already says so.

The names come with the exercise's data (`by_hand`). Only what the answer itself needs counts: a comparison with the
library in the same cell is welcome, and what another exercise calls does not count here.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from attnlab.checking import code_slice
from attnlab.checking.judge import Report
from attnlab.checking.observe import source_file
from attnlab.checking.schema import Material

# These can hide a call.
HIDING = frozenset({"eval", "exec", "compile", "__import__"})
# The package of `attnlab` that is the check itself, which no answer needs.
OF_THE_CHECK = "checking"
# Attributes of these are the student's own.
_OWN = frozenset({"self", "cls", "mine"})


@dataclass(frozen=True)
class Use:
    """A name that an answer uses, and its line in the cell.

    kind: "whole" for what does the whole work, "much" for what does much of it, "hiding" for what can hide a call,
    "check" for a part of the check
    """

    word: str
    line: int
    kind: str

    def __str__(self) -> str:
        word, why = {
            "whole": (self.word, "which does the whole work"),
            "much": (self.word, "which does much of the work"),
            "hiding": (self.word, "which can hide a call"),
            "check": (f"attnlab.{self.word}", "which is part of the check"),
        }[self.kind]
        return f"uses {word} in line {self.line}, {why}"


def uses(
    name: str,
    source: str,
    whole: Collection[str],
    much: Collection[str] = (),
    around: Iterable[str] = (),
    others: Iterable[str] = (),
) -> list[Use]:
    """List the library functions that an answer uses, directly or through helpers.

    Listed are also calls in its cell that can hide others, or that use a part of the check.

    source: the cell of the answer; around: other cells, which may define helpers. What is not Python has no uses.
    whole, much: names that do the whole of its work, or much of it
    others: exercises, whose own calls do not count here
    """
    own = code_slice.of_cell(source)
    found = [*own, *(statement for cell in around for statement in code_slice.of_cell(cell))]
    needed = code_slice.needed(found, [name], only={other: () for other in others if other != name})
    listed: dict[tuple[str, str], Use] = {}
    for kind, lines in (
        *(("whole", words_used(found[i].node, frozenset(whole))) for i in needed),
        *(("much", words_used(found[i].node, frozenset(much).difference(whole))) for i in needed),
        *(("hiding", _hiding(statement.node)) for statement in own),
        *(("check", _of_the_check(statement.node)) for statement in own),
    ):
        for word, line in lines.items():
            listed.setdefault((kind, word), Use(word, line, kind))
    return sorted(listed.values(), key=lambda use: (use.line, use.word))


def uses_of(answer, material: Material) -> list[Use]:
    """List what a live answer uses, by the source of its cell or file; empty if the source is not available."""
    source = "".join(linecache.getlines(source_file(answer) or ""))
    return uses(material["name"], source, material["by_hand"])


def without_points(report: Report, found: Iterable[Use]) -> Report:
    """The report, with no points and the reason if the answer calls a function that does its whole work."""
    called = [use for use in found if use.kind == "whole"]
    if not called or report.not_done:
        return report
    listed = " and ".join(f"`{use.word}` (line {use.line})" for use in called[:3])
    reason = (
        f"your code calls a library's {listed}, which does the whole work. This exercise must be written from its "
        "parts, so as it is it earns no points"
    )
    findings = [replace(finding, points=0.0) for finding in report.findings]
    return replace(report, findings=findings, reason=report.reason or reason)


def words_used(tree: ast.AST, words: frozenset[str]) -> dict[str, int]:
    """Words that are taken from a module or an object, or imported from a library, with their lines.

    Of the words, `@` is the operator.
    """
    found: dict[str, int] = {}
    for node in _with_line(tree):
        names: list[str] = []
        match node:
            case ast.Attribute(value=ast.Name(owner)) if owner in _OWN:
                pass
            case ast.Attribute(attr=name):
                names = [name]
            case ast.ImportFrom(module=module) if (module or "").split(".")[0] != "attnlab":
                names = [alias.name for alias in node.names]
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), *_]):
                names = [name]
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                names = ["@"]
        for name in words.intersection(names):
            found.setdefault(name, node.lineno)
    return found


def _with_line(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Walk the statements and expressions of a tree."""
    return (node for node in ast.walk(tree) if isinstance(node, (ast.expr, ast.stmt)))


def _hiding(tree: ast.AST) -> dict[str, int]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return {name.id: name.lineno for name in calls if name.id in HIDING}


def _of_the_check(tree: ast.AST) -> dict[str, int]:
    """Modules of `attnlab` that belong to the check, with the first line that names each."""
    found: dict[str, int] = {}
    for node in _with_line(tree):
        for name in _dotted(node):
            package, *parts = name.split(".")
            if package == "attnlab" and parts[:1] == [OF_THE_CHECK]:
                found.setdefault(".".join(parts[:2]), node.lineno)
    return found


def _dotted(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield f"{node.value.id}.{node.attr}"
