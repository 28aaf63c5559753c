"""Your own earlier answers, for chapters that build on them.

    from attnlab.mine import split_heads, MultiHeadAttention

takes both from your notebook `multi_head.ipynb` in the same folder as this one (or in a sibling folder `multi_head`),
as it was last saved. Only what the answer needs is run: imports, and your own functions that it calls. Its results must
be right; if they are not, one line says which function to correct. Other things that its check tests (what it refuses,
that it leaves its inputs alone) may be missing, and a line says so. `parts()` shows where everything came from.

If you skip a chapter, PyTorch's own operation can stand in for some answers, until the kernel restarts:

    from attnlab import mine
    mine.stand_in("MultiHeadAttention")
    from attnlab.mine import MultiHeadAttention

While the book is built, and while a chapter is graded, the course's own answers are used instead: the environment
variable ATTNLAB_MINE names a package that contains them and, after a colon, which of them are allowed, if not all.
"""

from __future__ import annotations

import ast
import difflib
import html
import importlib
import linecache
import os
import re
import types
from dataclasses import dataclass
from pathlib import Path

from attnlab import notebook_cells
from attnlab.check import CHECKS, OneLineError, examine, exercises, hunted_by, material_of
from attnlab.checking import code_slice
from attnlab.checking.judge import Finding, Report
from attnlab.checking.probes import PROBES

PROVIDED = "ATTNLAB_MINE"


class NotThere(OneLineError, ImportError):
    """An earlier answer is not available; the message says why, and what to do."""

    prefix = "mine"


@dataclass(frozen=True)
class Part:
    """One answer that was taken: its name, its chapter, and where it came from."""

    name: str
    chapter: str
    origin: str
    own: bool


class Parts(tuple):
    """Parts, shown as a table."""

    def __repr__(self) -> str:
        width = max((len(part.name) for part in self), default=0)
        return "\n".join(f"{part.name:<{width}}  {part.origin}" for part in self) or "nothing was taken yet"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{html.escape(part.name)}</code></td><td>{html.escape(part.chapter)}</td>"
            f"<td>{html.escape(part.origin)}</td></tr>"
            for part in self
        )
        return f"<table><thead><tr><th>part</th><th>chapter</th><th>comes from</th></tr></thead>{rows}</table>"


_taken: dict[str, Part] = {}
_notebooks: dict[Path, Notebook] = {}
_stand_ins: set[str] = set()


def __getattr__(name: str):
    """`from attnlab.mine import name`. Raises NotThere."""
    if name.startswith("_"):
        raise AttributeError(name)
    material = _material(name)
    package, _, listed = os.environ.get(PROVIDED, "").partition(":")
    if package:
        return _provided(name, material["chapter"], package, listed)
    if name in _stand_ins:
        return _standing_in(name, material["chapter"])
    return _own(name, material)


def stand_in(name: str) -> None:
    """From now on, use PyTorch's own operation instead of your answer of that name. Raises NotThere if it has none."""
    chapter = _material(name)["chapter"]
    if not _has_stand_in(name):
        raise NotThere(f"PyTorch has nothing that could stand in for {name}. {_way_out(name, chapter)}")
    _stand_ins.add(name)


def parts(*here) -> Parts:
    """Everything that was taken so far, in that order, and where it came from.

    here: functions and classes of the current notebook, to be listed with the rest
    """
    from_here = [Part(item.__name__, "this one", "this notebook", own=True) for item in here]
    return Parts([*_taken.values(), *from_here])


def _material(name: str) -> dict:
    if not (CHECKS / f"{name}.gz").is_file():
        near = difflib.get_close_matches(name, exercises(), n=1, cutoff=0.6)
        raise NotThere(f"no exercise is called {name}." + (f" Did you mean {near[0]}?" if near else ""))
    return material_of(name)


def _provided(name: str, chapter: str, package: str, listed: str):
    if listed and name not in listed.split(","):
        raise NotThere(f"{name} is not among the earlier answers that this chapter builds on")
    value = getattr(importlib.import_module(f"{package}.{chapter}"), name)
    _taken[name] = Part(name, chapter, "the course's reference", own=False)
    return value


def _standing_in(name: str, chapter: str):
    from attnlab import pytorch_answers

    _taken[name] = Part(name, chapter, "a stand-in made from PyTorch's own, not yours", own=False)
    return pytorch_answers.ALL[name]


def _has_stand_in(name: str) -> bool:
    from attnlab import pytorch_answers  # only here: it loads PyTorch

    return name in pytorch_answers.ALL


def _way_out(name: str, chapter: str) -> str:
    """Say what a student who skipped a chapter can do."""
    if _has_stand_in(name):
        return (
            f'To continue without it for now, run `from attnlab import mine; mine.stand_in("{name}")` before this line'
        )
    return f"From {chapter}.ipynb you need only {name} and what it calls; the rest of that chapter can wait"


def _own(name: str, material: dict):
    chapter = material["chapter"]
    path = _find(name, chapter)
    notebook = _notebooks.get(path)
    if notebook is None or notebook.stamp != path.stat().st_mtime_ns:
        notebook = _notebooks[path] = Notebook(path)
    value = notebook.take(name, material)
    for needed in notebook.answers_behind(name):
        _taken[needed] = Part(needed, chapter, f"your {path.name}", own=True)
    return value


# Chapters that were part of another one until November 2026. Its notebook may have been released, and begun, before. An
# entry goes when no course that was released with it is graded any more.
FORMER = {"next_token": "masks"} | dict.fromkeys(
    ("steady_attention", "long_context", "mixture_of_experts", "todays_models"), "modern_attention"
)


def _find(name: str, chapter: str) -> Path:
    """The notebook of a chapter: in this folder, or in its own folder, as nbgrader releases assignments.

    An exercise that has moved may be in the notebook of the chapter that it was in before.
    """
    here = Path.cwd()
    for stem in dict.fromkeys((chapter, FORMER.get(chapter, chapter))):
        for path in (here / f"{stem}.ipynb", here.parent / stem / f"{stem}.ipynb"):
            if path.is_file() and (stem == chapter or re.search(rf"\b(def|class) {name}\b", path.read_text("utf-8"))):
                return path
    raise NotThere(
        f"{name} is an exercise of {chapter}.ipynb, and that notebook is not in the folder of this one (this one "
        f"runs in {here}). Put it there, with your answers in it. {_way_out(name, chapter)}"
    )


class Notebook:
    """A student's notebook, of which only what an answer needs is run.

    Raises NotThere if the file is not a notebook.
    """

    def __init__(self, path: Path):
        self.path, self.stamp = path, path.stat().st_mtime_ns
        self.module = types.ModuleType(f"mine.{path.stem}")
        self.module.__file__ = str(path)
        self.statements: list[code_slice.Statement] = []
        self.answers: dict[str, list[int]] = {}  # exercise -> the statements of its cell
        self.broken: dict[str, str] = {}  # exercise -> why its cell cannot be read
        self._run: set[int] = set()
        self._passed: set[str] = set()
        for number, cell in enumerate(self._cells(), start=1):
            self._read(cell, number)

    def _cells(self) -> list[notebook_cells.Cell]:
        try:
            cells = map(notebook_cells.as_cell, notebook_cells.read(self.path.read_bytes()))
            return [cell for cell in cells if cell.kind == "code"]
        except (OSError, ValueError) as error:
            raise NotThere(f"{self.path.name} cannot be read as a notebook ({error})") from None

    def _read(self, cell: notebook_cells.Cell, number: int) -> None:
        source = code_slice.without_magics(cell.source)
        answer = cell.name if cell.solution else None
        filename = f"{self.path.name}, code cell {number}"
        try:
            found = code_slice.statements(source, filename)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if answer:
                line = f"line {error.lineno} of " if isinstance(error, SyntaxError) else ""
                self.broken[answer] = f"{line}its cell is not valid Python: {getattr(error, 'msg', error)}"
            return
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)  # for tracebacks
        if answer:
            self.answers[answer] = list(range(len(self.statements), len(self.statements) + len(found)))
        self.statements += found

    def take(self, name: str, material: dict):
        """The function or class of that name, once its results are right. Raises NotThere."""
        value = self.value(name)
        if name not in self._passed:
            self._examine(name, value, material)
            self._passed.add(name)
        return value

    def value(self, name: str):
        """Return the function or class of that name, unchecked. Raises NotThere if it is not available."""
        indices = code_slice.needed(self.statements, [name, *hunted_by(name)], only=self.answers)
        asked = {name}.union(*(self.statements[i].needs for i in indices))
        for broken in [other for other in self.broken if other in asked]:
            raise NotThere(f"{_chain(name, broken)}{broken} in {self.path.name}: {self.broken[broken]}")
        if not any(name in self.statements[i].binds for i in indices):
            raise NotThere(f"{self.path.name} does not define {name}. Is its cell still there?")
        for i in indices:
            if i not in self._run:
                self._execute(name, self.statements[i])
                self._run.add(i)
        return vars(self.module)[name]

    def _execute(self, name: str, statement: code_slice.Statement) -> None:
        code = compile(ast.Module([statement.node], type_ignores=[]), statement.filename, "exec")
        try:
            exec(code, vars(self.module))
        except NotThere:
            raise
        except (Exception, SystemExit) as error:
            raise NotThere(
                f"{name} needs a line that fails ({statement.filename}, line {statement.node.lineno}): "
                f"{type(error).__name__}: {error}"
            ) from None

    def _examine(self, name: str, value, material: dict) -> None:
        report = examine(value, material)
        missing = [finding.title for finding in report.findings if not finding.passed]
        if _wrong(report, material):
            raise NotThere(f"{self._blame(name, report, material)}. {_way_out(name, material['chapter'])}")
        if missing:
            lacks = "; ".join(f'"{title}"' for title in missing)
            print(
                f"mine: {name} gives right results and is used here. In {self.path.name} it does not pass yet: {lacks}."
            )

    def _blame(self, name: str, report: Report, material: dict) -> str:
        """Say what to correct: the first wrong answer among those that this one uses."""
        first = name
        for other in self.answers_behind(name)[:-1]:
            theirs = material_of(other)
            found = examine(vars(self.module)[other], theirs)
            if _wrong(found, theirs):
                first, report, material = other, found, theirs
                break
        again = f"in {self.path.name}, save, and run this cell again"
        if report.not_done:
            return f"{_chain(name, first)}{first} is not done yet. Write it {again}"
        wrong, done = _wrong(report, material)[0], sum(finding.passed for finding in report.findings)
        why = report.reason or (wrong.misconception or wrong.fact or wrong.detail).split("\n")[0]
        return (
            f"{_chain(name, first)}{first} passes {done} of {len(report.findings)} parts of its check; the first that "
            f"fails: {wrong.title}. {why.rstrip('.')}. Correct it {again}"
        )

    def answers_behind(self, name: str) -> list[str]:
        """The exercises of this notebook that an answer uses, ending with itself."""
        indices = code_slice.needed(self.statements, [name, *hunted_by(name)], only=self.answers)
        nodes = [self.statements[i].node for i in indices]
        defined = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        known = set(exercises()) - {name}
        return [*dict.fromkeys(other for other in defined if other in known), name]


def _wrong(report: Report, material: dict) -> list[Finding]:
    """The findings that say that an answer's results are not right."""
    pairs = zip(material["properties"], report.findings)
    return [
        found for prop, found in pairs if not found.passed and (report.reason or PROBES[prop["probe"]].is_about_results)
    ]


def _chain(name: str, first: str) -> str:
    return "" if first == name else f"{name} calls {first}: "
