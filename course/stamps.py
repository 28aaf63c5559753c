"""Hashes of the parsed code that an exercise's check data and its grades depend on.

A stamp covers statements, not bytes: docstrings, comments, the layout, the place of a file and the version of Python
change none. It covers only what the exercise needs: its own declarations, its reference, the probes that it
names, but for their words, and what these need in turn (see `attnlab.checking.code_slice`), across the modules of the
checkout; and besides them

  MAKES_MATERIAL   modules that turn every exercise into data
  DECIDES_POINTS   modules that turn an answer's results into points

Modules that only measure, format or declare types are in neither list, and are not followed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.checking import code_slice
from course.folder import ROOT
from course.kit import library_shortcuts

MAKES_MATERIAL = (
    "course.kit.edits",
    "course.kit.exercise",
    "attnlab.checking.codec",
    "attnlab.checking.compare",
    "attnlab.checking.probes.base",
    "attnlab.checking.probes.class_as_function",
    "attnlab.checking.observe",
)
DECIDES_POINTS = (
    "attnlab.checking.code_slice",
    "attnlab.checking.judge",
    "attnlab.checking.library_calls",
    "attnlab.checking.error_patterns",
    "autograder.grading.questions",
    "autograder.grading.second_run",
)
# They measure, format or declare types, and decide nothing.
NOT_FOLLOWED = ("attnlab.checking.meter", "attnlab.checking.formatting", "attnlab.checking.schema")
HUNTING = "autograder.grading.hunting"  # decides the points of hunts
EXERCISES = "course.exercises"
KIT = "course.kit.exercise"
PROBES = "attnlab.checking.probes"


def data_stamp(stem: str, name: str) -> str:
    """A hash of the code that makes the data of one exercise of a chapter."""
    digest = hashlib.sha256(" ".join(library_shortcuts.FULL.get(name, "").split()).encode())
    for text in (*_slice(f"{EXERCISES}.{stem}", name), *map(_whole, MAKES_MATERIAL)):
        digest.update(text.encode())
    return digest.hexdigest()[:20]


def grade_stamp(stem: str, name: str) -> str:
    """A hash of the code that the points of one exercise depend on."""
    parts = [data_stamp(stem, name), *map(_whole, DECIDES_POINTS)]
    if _hunts(f"{EXERCISES}.{stem}", name):
        parts.append(_whole(HUNTING))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:20]


@dataclass
class _Module:
    """A module of the checkout: its statements, and where its names come from.

    modules: name -> a module that it stands for; members: name -> the module and the name that it is imported from
    """

    statements: list[code_slice.Statement]
    modules: dict[str, str]
    members: dict[str, tuple[str, str]]


def _slice(module: str, name: str) -> Iterator[str]:
    """The statements about a name and all that they need, as text: module by module, each in its sequence."""
    for place, indices in _needed(module, name).items():
        yield from (_text(_module(place).statements[index].node) for index in sorted(indices))


def _needed(module: str, name: str) -> dict[str, set[int]]:
    """The statements about a name and all that they need, by module."""
    chosen: dict[str, set[int]] = defaultdict(set)
    waiting = [(module, index) for each in (name, *_hunts(module, name)) for index in _about(module, each)]
    while waiting:
        place, index = waiting.pop()
        if index not in chosen[place]:
            chosen[place].add(index)
            waiting += _needed_by(place, index)
    return chosen


def _hunts(module: str, name: str) -> list[str]:
    """The exercise whose implementations an exercise hunts in, if it is a hunt."""
    return [of for statement in _module(module).statements if name in statement.binds and (of := _hunted(statement))]


def _hunted(statement: code_slice.Statement) -> str | None:
    """The exercise that a statement declares a hunt for, or None."""
    call = statement.node.value if isinstance(statement.node, ast.Assign) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "Hunt":
        return None
    return next(ast.unparse(word.value) for word in call.keywords if word.arg == "of")


def _about(module: str, name: str) -> list[int]:
    """The statements of a module that bind a name, or that use it at their top level, as decorators and calls do.

    The declaration of a hunt is not about the exercise that it hunts in.
    """
    return [
        index
        for index, statement in enumerate(_module(module).statements)
        if name in statement.binds
        or _hunted(statement) != name
        and any(isinstance(n, ast.Name) and n.id == name for n in _outside_bodies(statement))
    ]


def _outside_bodies(statement: code_slice.Statement) -> Iterator[ast.AST]:
    """The nodes of a statement but for the bodies of functions and classes."""
    waiting: list[ast.AST] = [statement.node]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += [*node.decorator_list, *(getattr(node, "bases", ()))]
        else:
            waiting += ast.iter_child_nodes(node)


def _needed_by(place: str, index: int) -> Iterator[tuple[str, int]]:
    """The statements that one statement needs, here or in a module that it imports from."""
    module = _module(place)
    statement = module.statements[index]
    for probe in sorted(_probes_named(statement.node, place)):
        yield from _binding(PROBES, probe)
    for name in sorted((statement.needs | _named_in_edits(statement.node, module)) - statement.binds):
        if name in module.members:
            yield from _binding(*module.members[name])
        elif name in module.modules:
            yield from _attributes(statement.node, name, module.modules[name])
        else:
            yield from _binding(place, name)


def _named_in_edits(node: ast.stmt, module: _Module) -> set[str]:
    """Return the names in the texts of edits (see `course.kit.edits`), which are code of the wrong answers.

    A variable there may have the name of a decorated function of the module, such as a property's, which no wrong
    answer calls.
    """
    found = set()
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "edit":
            for part in (*call.args[:2], *(each.value for each in call.keywords if each.arg in {"also", "each"})):
                texts = [inner.value for inner in ast.walk(part) if isinstance(inner, ast.Constant)]
                found |= {word for text in texts if isinstance(text, str) for word in re.findall(r"[^\W\d]\w*", text)}
    if not found:
        return found
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = (each.node for each in module.statements)
    return found - {node.name for node in nodes if isinstance(node, definitions) and node.decorator_list}


def _probes_named(node: ast.stmt, place: str) -> set[str]:
    """Return the probes that a statement names.

    It names them as text, such as `probe="steps"` in a case or in the signature of a probe, or calls a method of the
    kit that declares a property with them.
    """
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.keyword) and part.arg == "probe"]
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in part.keys]
            values += [value for key, value in zip(keys, part.values) if key == "probe"]
        elif isinstance(part, ast.arguments):
            values += [value for arg, value in zip(part.kwonlyargs, part.kw_defaults) if value and arg.arg == "probe"]
    constants = (each.value for value in values for each in ast.walk(value) if isinstance(each, ast.Constant))
    found = {each for each in constants if isinstance(each, str)}
    if place.startswith(f"{EXERCISES}."):
        for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
            if isinstance(call.func, ast.Attribute) and not any(word.arg == "probe" for word in call.keywords):
                found |= _probes_of_the_kit().get(call.func.attr, set())
    return found


@functools.cache
def _probes_of_the_kit() -> dict[str, set[str]]:
    """Method of `Exercise` -> the probes that it names."""
    defined = (each.node for each in _module(KIT).statements if isinstance(each.node, ast.ClassDef))
    methods = (each for node in defined for each in node.body if isinstance(each, ast.FunctionDef))
    return {method.name: _attributes_of(method, "probes") for method in methods}


def _attributes_of(node: ast.stmt, name: str) -> set[str]:
    """The attributes that a statement takes from a name."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == name
    }


@functools.cache
def _probe_classes() -> dict[str, tuple[str, int]]:
    """Name of a probe -> the module and the statement that define it."""
    folder, found = ROOT / PROBES.replace(".", "/"), {}
    for module in sorted(f"{PROBES}.{path.stem}" for path in folder.glob("[!_]*.py")):
        for index, statement in enumerate(_module(module).statements):
            if isinstance(statement.node, ast.ClassDef):
                for line in statement.node.body:
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name":
                        found[ast.literal_eval(line.value)] = module, index
    return found


def _attributes(node: ast.stmt, alias: str, of: str) -> Iterator[tuple[str, int]]:
    """The statements behind `alias.x`, for each x that a statement takes from a module."""
    if of not in (*MAKES_MATERIAL, *DECIDES_POINTS, *NOT_FOLLOWED):
        for name in sorted(_attributes_of(node, alias)):
            yield from _binding(of, name)


def _binding(place: str, name: str) -> Iterator[tuple[str, int]]:
    if place == PROBES and name in _probe_classes():
        yield _probe_classes()[name]
    elif place not in (*MAKES_MATERIAL, *DECIDES_POINTS, *NOT_FOLLOWED):
        module = _module(place)
        if name in module.members:
            yield from _binding(*module.members[name])
        for index, statement in enumerate(module.statements):
            if name in statement.binds and not _imports_the_course(statement.node):
                yield place, index


@functools.cache
def _module(name: str) -> _Module:
    found = _Module([], {}, {})
    place = _path(name)
    assert place, name
    for statement in code_slice.statements(place.read_text("utf-8"), name):
        found.statements.append(statement)
        for node in ast.walk(statement.node):  # functions import too
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    if _path(inner):
                        found.modules[alias.asname or alias.name] = inner
                    elif _path(node.module):
                        found.members[alias.asname or alias.name] = node.module, alias.name
    return found


def _path(name: str) -> Path | None:
    """The file of a module of this checkout, or None."""
    place = ROOT / name.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _imports_the_course(node: ast.stmt) -> bool:
    """Whether a statement imports from this checkout: imported code is followed, and its place does not matter."""
    return isinstance(node, ast.ImportFrom) and bool(node.module) and _path(node.module) is not None


@functools.cache
def _whole(name: str) -> str:
    statements = _module(name).statements if _path(name) else []  # a book is built without the grader
    return "".join(_text(each.node) for each in statements if not _imports_the_course(each.node))


def _text(node: ast.AST) -> str:
    """A statement without docstrings, positions and empty fields, the same in every version of Python."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return ""  # of a module
    parts = []
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if ast.get_docstring(node, clean=False) is not None:
                value = value[1:]
        if field == "args" and _is_words(node):
            continue
        if isinstance(value, list):
            value = _texts(value)
        elif isinstance(value, ast.AST):
            value = _text(value)
        elif value is not None:
            value = repr(value)
        if value and field not in {"kind", "type_comment", "ctx"}:
            parts.append(f"{field}={value}")
    return f"{type(node).__name__}({', '.join(parts)})"


def _is_words(node: ast.AST) -> bool:
    """Whether this describes a part of a probe's outcome: its arguments without a name are words for students."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Part"


def _texts(values: Iterable) -> str:
    texts = [_text(value) if isinstance(value, ast.AST) else repr(value) for value in values if not _is_import(value)]
    return f"[{', '.join(texts)}]" if texts else ""


def _is_import(value) -> bool:
    return isinstance(value, ast.stmt) and _imports_the_course(value)
