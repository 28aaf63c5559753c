"""Diagnose the code of a live answer: the cell it comes from, the functions it calls, the arguments it never uses.

Only facts that are certain are reported.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import re
import types
import warnings
from collections.abc import Iterator, Sequence


def functions_of(answer) -> list[types.FunctionType]:
    """The function itself, or the functions that a class defines."""
    found = vars(answer).values() if inspect.isclass(answer) else [answer]
    return [inspect.unwrap(item) for item in found if inspect.isfunction(item)]


def called(answer, seen: set[int] | None = None) -> Iterator:
    """The functions and classes of the same notebook that an answer uses, each after the ones that it uses."""
    seen = {id(answer)} if seen is None else seen
    for function in functions_of(answer):
        for name in sorted(globals_of(function)):
            value = function.__globals__.get(name)
            same_notebook = any(other.__globals__ is function.__globals__ for other in functions_of(value))
            if same_notebook and id(value) not in seen:
                seen.add(id(value))
                yield from called(value, seen)
                yield value


def unused_arguments(answer, needless: Sequence[str] = ()) -> list[str]:
    """A sentence for each argument that the answer's code never uses.

    needless: those that no answer needs
    """
    methods = ("__init__", "forward") if inspect.isclass(answer) else (answer.__name__,)
    functions = (f for f in functions_of(answer) if f.__name__ in methods)
    return [sentence for f in functions for sentence in _unused(f, answer.__name__, needless)]


def _unused(function, whose: str, needless: Sequence[str]) -> Iterator[str]:
    names = globals_of(function)
    if names & {"locals", "vars", "eval", "exec", "NotImplementedError"}:
        return  # it may still use them, or is not written yet
    used = set(function.__code__.co_cellvars)  # a function inside uses them
    for step in dis.get_instructions(function.__code__):
        if "LOAD_FAST" in step.opname:
            used |= set(step.argval) if isinstance(step.argval, tuple) else {step.argval}
    who = f"Your {whose}" if function.__name__ == whose else f"{function.__name__} of your {whose}"
    for argument in inspect.getfullargspec(function).args + inspect.getfullargspec(function).kwonlyargs:
        if argument not in used and argument not in ("self", *needless):
            others = sorted(n for n in names if n.lower() == argument.lower() and n in function.__globals__)
            instead = f" It reads the notebook's {others[0]} instead." if others else ""
            yield f"{who} never uses its argument {argument}.{instead}"


def globals_of(function) -> set[str]:
    """The global names that a function reads, including functions and comprehensions inside it."""
    steps = (step for code in _codes(function.__code__) for step in dis.get_instructions(code))
    return {step.argval for step in steps if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions and comprehensions within."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def newest_did_not_run(answer, name: str, shell) -> str | None:
    """A sentence if a later cell than the one `answer` comes from defines `name`, and that definition did not run.

    shell: IPython's, which remembers the text of all cells that were run
    """
    cells = [cell.splitlines() for cell in shell.history_manager.input_hist_parsed]
    own = _cell_of(answer, name)
    if shell.user_ns.get(name) is not answer or own is None or own not in cells:
        return None
    ran = max(number for number, cell in enumerate(cells) if cell == own)
    for number in range(len(cells) - 1, ran, -1):
        text = "\n".join(cells[number])
        try:
            newest = _definition(text, name)
            if newest is None:
                continue
        except SyntaxError as error:
            if not _mentions(text, name):
                continue
            why = f"SyntaxError in line {error.lineno}: {error.msg}"
        else:
            if newest == _definition("\n".join(own), name):
                return None
            if number == len(cells) - 1 and re.search(rf"\bcheck\(\s*{name}\b", text):
                why = "it is below this check"
            elif number in getattr(shell.history_manager, "exceptions", {number}):
                why = "an error above it ended its cell"
            else:
                return None  # it ran, and the older one was brought back
        return f"Your newest {name} did not run ({why}); this check judges the older one. Correct it and run its cell."
    return None


def _cell_of(answer, name: str) -> list[str] | None:
    """The lines of the cell that defines a function or class; the lines of the file if it comes from one."""
    inside = f"{name}." if inspect.isclass(answer) else name
    for function in functions_of(answer):
        if function.__qualname__ == name or inspect.isclass(answer) and function.__qualname__.startswith(inside):
            return [line.rstrip("\n") for line in linecache.getlines(function.__code__.co_filename)]
    return None


def _definition(text: str, name: str) -> str | None:
    """Dump a cell's last top-level definition of that name, to compare it with others. Raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except ValueError as error:  # a null byte
            raise SyntaxError(str(error)) from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.parse(text).body if isinstance(node, kinds) and node.name == name]
    return ast.dump(found[-1]) if found else None


def _mentions(text: str, name: str) -> bool:
    """Whether a cell that is not valid Python seems to define the name at its top level."""
    text = re.sub(r"(\"\"\"|''').*?\1", "", text, flags=re.DOTALL)
    return re.search(rf"^(async\s+def|def|class)\s+{name}\b", text, flags=re.MULTILINE) is not None
