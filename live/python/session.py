"""Run and check a reader's cell, inside Python in a page (Pyodide).

The page's notebook is a file, with the reader's answers in their cells, and so are those of other chapters. What a cell
needs from the cells above is run before it, as `attnlab.mine` does for an earlier notebook.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import os
import sys
import traceback
import warnings
from pathlib import Path

from attnlab import notebook_cells
from attnlab.check import NoSuchExercise, WrongKind, hunted_by, in_html, report_on
from attnlab.checking import code_slice

FOLDER = Path("/home/pyodide/notebooks")
MOST = 20_000  # characters of output that are shown
NAME = "<your answer>"
NOT_HERE = (
    "{0} is not available on this page, where there is NumPy and Python's own library. The exercises on this page need "
    "nothing else; the notebook has the rest."
)


class Output(io.TextIOBase):
    """The output of a cell, up to a limit; the rest is counted."""

    def __init__(self, send=None):
        self.kept, self.lost, self.send = [], 0, send
        self.size = 0

    def write(self, text) -> int:
        text = str(text)
        room = max(0, MOST - self.size)
        if room:
            self.kept.append(text[:room])
            self.size += len(text[:room])
        self.lost += len(text) - len(text[:room])
        return len(text)

    def text(self) -> str:
        end = f"\n... and {self.lost:,} more characters" if self.lost else ""
        return "".join(self.kept) + end


def put(stem: str, notebook: str) -> None:
    """Put a chapter's notebook, which holds the reader's answers, into the folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.chdir(FOLDER)
    path, content = FOLDER / f"{stem}.ipynb", notebook.encode("utf-8")
    if not path.is_file() or path.read_bytes() != content:
        before = path.stat().st_mtime_ns if path.is_file() else 0
        path.write_bytes(content)
        if path.stat().st_mtime_ns <= before:  # a file's time here has milliseconds
            os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def run(stem: str, name: str, source: str) -> dict:
    """Run a cell: what it prints and shows, or in words why it ended. No exception leaves this function."""
    return _run(stem, name, source)[0]


def check(stem: str, name: str, source: str) -> dict:
    """Run a cell and check the answer in it: `html`, whether it `passed`, `points` out of `max_points`."""
    result, names = _run(stem, name, source)
    if result["error"]:
        return result
    if name not in names:
        return result | {"error": f"This cell defines no {name}. Keep the line that begins with def or class."}
    try:
        report, notices = report_on(names[name])
    except (NoSuchExercise, WrongKind) as error:
        return result | {"error": str(error)}
    except BaseException as error:
        return result | {"error": in_words(error)}
    return result | {
        "html": in_html(report, notices),
        "passed": report.passed,
        "notDone": report.not_done,
        "points": report.points,
        "maxPoints": report.max_points,
    }


def _run(stem: str, name: str, source: str) -> tuple[dict, dict]:
    printed = Output()
    names: dict = {"__name__": "__main__"}
    linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
    former = sys.stdout, sys.stderr, builtins.input
    sys.stdout = sys.stderr = printed
    builtins.input = no_input
    error, shown = "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            source = code_slice.without_magics(source)
            tree = ast.parse(source, NAME)
            prepare(names, stem, name, source)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, NAME, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), NAME, "eval"), names)
                shown = "" if value is None else repr(value)[:MOST]
    except BaseException as raised:
        error = in_words(raised)
    finally:
        sys.stdout, sys.stderr, builtins.input = former
    return {"printed": printed.text(), "shown": shown, "error": error}, names


def prepare(names: dict, stem: str, name: str, source: str) -> None:
    """Run the statements of the cells above an answer that its cell needs."""
    above = Above()
    for cell in cells_of(stem):
        if cell.solution and cell.name == name:
            break
        above.add(cell)
    above.run(names, "\n".join([source, *hunted_by(name)]))


def cells_of(stem: str) -> list[notebook_cells.Cell]:
    """The code cells of a chapter's notebook, as it is in the folder."""
    cells = map(notebook_cells.as_cell, notebook_cells.read((FOLDER / f"{stem}.ipynb").read_bytes()))
    return [cell for cell in cells if cell.kind == "code"]


class Above:
    """The statements of the cells above a cell, of which only those are run that it needs."""

    def __init__(self):
        self.statements: list[code_slice.Statement] = []
        self.answers: dict[str, list[int]] = {}

    def add(self, cell: notebook_cells.Cell) -> None:
        found = code_slice.of_cell(cell.source)
        if cell.solution and cell.name:
            self.answers[cell.name] = list(range(len(self.statements), len(self.statements) + len(found)))
        self.statements += found

    def needed_by(self, source: str) -> list[int]:
        wanted = {one for statement in code_slice.of_cell(source) for one in statement.needs}
        return code_slice.needed(self.statements, wanted, only=self.answers)

    def run(self, names: dict, source: str) -> None:
        """Run what a cell needs. Nothing that it prints is kept, and a statement that fails leaves its names out."""
        former, sys.stdout = sys.stdout, Output()
        for i in self.needed_by(source):
            for node in one_by_one(self.statements[i].node):
                with contextlib.suppress(Exception):
                    exec(compile(ast.Module([node], type_ignores=[]), "<a cell above>", "exec"), names)
        sys.stdout = former


def one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as several imports, since some of them may not be here."""
    if not isinstance(node, ast.ImportFrom):
        return [node]
    return [ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names]


def rerun(stem: str, name: str) -> list[dict]:
    """Run the cells below an answer that depend on it: each one's source, and what it prints or None if it cannot run.

    A cell cannot run here if something that it needs is not in the page, such as Matplotlib.
    """
    above, below, made = Above(), False, []
    for cell in cells_of(stem):
        own = {i for i in above.answers.get(name, ()) if name in above.statements[i].binds}
        if below and not cell.name and own & set(above.needed_by(cell.source)):
            made.append({"source": cell.source, "printed": _printed_by(cell.source, above)})
        below = below or cell.solution and cell.name == name
        above.add(cell)
    return made


def _printed_by(source: str, above: Above) -> str | None:
    printed, names, former = Output(), {"__name__": "__main__"}, (sys.stdout, sys.stderr)
    above.run(names, source)
    sys.stdout, sys.stderr = printed, Output()
    try:
        exec(compile(code_slice.without_magics(source), "<a cell below>", "exec"), names)
    except Exception:
        return None
    finally:
        sys.stdout, sys.stderr = former
    return printed.text()


def no_input(prompt="") -> str:
    raise RuntimeError("nobody can be asked on this page: write the value into your code")


def in_words(error: BaseException) -> str:
    """The reason why a cell ended, with the line of the reader's code."""
    if isinstance(error, SyntaxError):
        line = f"Line {error.lineno}: {(error.text or '').strip()}\n" if error.lineno else ""
        outside = "outside function" in error.msg  # Python's words for a line of a function that is not indented
        advice = ". The lines of a function begin with four spaces more than its def." if outside else ""
        return f"{line}{type(error).__name__}: {error.msg}{advice}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    line = f"Line {own[-1].lineno}: {(own[-1].line or '').strip()}\n" if own else ""
    if isinstance(error, ModuleNotFoundError):
        said = NOT_HERE.format((error.name or "that module").partition(".")[0])
    elif isinstance(error, SystemExit):
        said = "The cell called exit. Nothing more of it was run."
    elif isinstance(error, RecursionError):
        said = f"RecursionError: {error}. A function calls itself without an end."
    elif isinstance(error, MemoryError):
        said = f"MemoryError: {error or 'an array is larger than the memory that a page may use'}"
    else:
        said = f"{type(error).__name__}: {error}"
    return (line + said)[:2000]
