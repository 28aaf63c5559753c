"""`check(f)`: what a student runs after each exercise.

It holds no answer. Each exercise ships as data (`checks/<name>.gz`): public inputs, what should come out, and what
each known misconception would give. The file is made by `python -m autograder assemble`.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import inspect
import io
import sys
from pathlib import Path

from attnlab import codec
from attnlab.judge import Report, judge, no_answer
from attnlab.observe import observe
from attnlab.report import as_html, as_text
from attnlab.show import kind_of

CHECKS = Path(__file__).parent / "checks"


def check(answer):
    """Check your function or class against the exercise of the same name, and print what holds and what does not.

    answer: the function or class itself, as in `check(softmax)`, not its name and not a call of it
    returns: the points on these public cases; hidden tests use other inputs of the same kinds
    Raises TypeError or ValueError, in words, when `answer` is not an exercise of the course.
    """
    return show(examine(answer, material_of(_exercise_name(answer))))


def examine(answer, material: dict, show_cases: bool = True) -> Report:
    """The report on a live object, run here in this process."""
    problem = signature_problem(answer, material)
    return no_answer(material, problem) if problem else judge(material, outcomes_of(answer, material), show_cases)


def outcomes_of(answer, material: dict) -> list[list[dict]]:
    """What a live object does on every case. What it prints is not shown: it would print once for each case."""
    with contextlib.redirect_stdout(_Nowhere()), contextlib.redirect_stderr(_Nowhere()):
        return [
            [observe(answer, prop["probe"], copy.deepcopy(case)) for case in prop["cases"]]
            for prop in material["properties"]
        ]


class _Nowhere(io.TextIOBase):
    """A stream that forgets what is written to it, so that a flood takes no memory."""

    def write(self, text) -> int:
        return len(text)


class Points:
    """Points earned on the public cases. In a notebook, nbgrader reads them as partial credit.

    No subclass of float: IPython prints those its own way, and what stands here must be what nbgrader reads.
    """

    def __init__(self, report: Report):
        self.report = report

    def __float__(self) -> float:
        return self.report.points

    def __repr__(self) -> str:
        return f"{self.report.points:g} of {self.report.max_points:g} points on these cases"

    def _repr_mimebundle_(self, **kwargs):
        # A stretch exercise has nothing to earn in its own cell; see `autograder.nbgrader_plugins.preprocessors`.
        points = 0.0 if self.report.bonus else self.report.points
        return {"text/plain": repr(points), "text/html": f"<small>{self!r}</small>"}

    def _ipython_display_(self):
        if not self.report.passed:  # full marks need no second line: the table has said it
            raise NotImplementedError


def show(report: Report) -> Points:
    """Prints the report, as HTML where a notebook can show it and as text elsewhere, and returns its points."""
    if _in_notebook():
        from IPython.display import display

        display({"text/html": as_html(report), "text/plain": as_text(report)}, raw=True)
    else:
        print(as_text(report))
    return Points(report)


def signature_problem(answer, material: dict) -> str | None:
    """What is wrong with the parameters of a live answer, or None."""
    try:
        parameters = inspect.signature(answer).parameters.values()
    except (TypeError, ValueError):
        return None
    return parameter_problem([(p.name, p.kind.name, p.default is not p.empty) for p in parameters], material)


def parameter_problem(parameters, material: dict) -> str | None:
    """What is wrong with parameters given as (name, kind, has a default), or None. Probes pass arguments by name."""
    wanted = material["parameters"]
    names = {name for name, kind, _ in parameters if not kind.startswith("VAR") and kind != "POSITIONAL_ONLY"}
    takes_any = any(kind == "VAR_KEYWORD" for _, kind, _ in parameters)
    missing = [name for name in wanted if name not in names and not takes_any]
    extra = [
        name
        for name, kind, optional in parameters
        if name not in wanted and not optional and not kind.startswith("VAR")
    ]
    if not missing and not extra:
        return None
    keep = f"Keep the parameters as they were: `{material['name']}{material['signature']}`."
    if missing and extra:
        what = f"has {_named(extra)} where {_named(missing)} should be"
    elif missing:
        what = f"has no parameter {_named(missing)}"
    else:
        what = f"also asks for {_named(extra)}"
    return f"Your {material['name']} {what}. {keep}"


def _named(names) -> str:
    return ", ".join(f"`{name[:60]}`" for name in names[:5])


def exercises() -> list[str]:
    """The names of all exercises this installation can check."""
    return sorted(path.stem for path in CHECKS.glob("*.gz"))


def material_of(name: str) -> dict:
    """The data of one exercise."""
    return filled_in(codec.unpack((CHECKS / f"{name}.gz").read_bytes()))


def filled_in(made: dict) -> dict:
    """Material as it was before it was stored: where a misconception gives the right result, a file holds None."""
    for m in made["misconceptions"]:
        m["outcomes"] = [
            [right if wrong is None else wrong for right, wrong in zip(p["expected"], row)]
            for p, row in zip(made["properties"], m["outcomes"])
        ]
    return made


class InWords:
    """An exception that a notebook shows as one line: no traceback says more than its words."""

    speaker = "check"

    def _render_traceback_(self):
        return [f"{self.speaker}: {self}"]


class WrongKind(InWords, TypeError):
    """What was given to `check` is no function or class."""


class NoSuchExercise(InWords, ValueError):
    """No exercise of the course has the name of what was given to `check`."""


def _exercise_name(answer) -> str:
    """The exercise that an argument of `check` stands for; raises with words a student can act on."""
    known = exercises()
    if not known:
        raise NoSuchExercise(
            "This installation has no exercises: attnlab/checks is empty. Install the attnlab that "
            "came with the notebooks, or run `python -m autograder assemble` in the course's folder."
        )
    some = "softmax" if "softmax" in known else known[0]
    if isinstance(answer, str):
        if answer in known:
            raise WrongKind(
                f"Leave out the quotes: check({answer}) hands over your function, check('{answer}') only its name."
            )
        raise WrongKind(f"check takes your function itself, as in check({some}), and not a string.")
    kind = type(answer).__name__
    if kind in known:
        raise WrongKind(f"check takes the class, not an object made from it: check({kind}).")
    if not callable(answer):
        raise WrongKind(
            f"check takes your function itself, as in check({some}), and not what a call of it returned; "
            f"{'None' if answer is None else kind_of(answer)} came."
        )
    name = getattr(answer, "__name__", kind)
    if name == "<lambda>":
        raise NoSuchExercise(
            "A lambda has no name, so check cannot tell which exercise it answers. "
            f"Write it with def, as in `def {some}(...):`."
        )
    library = str(getattr(answer, "__module__", None) or "").split(".")[0]
    if library in {"numpy", "scipy", "torch", "math"} or inspect.isbuiltin(answer):
        whose = {"numpy": "NumPy's", "scipy": "SciPy's", "torch": "PyTorch's"}.get(library, "Python's")
        raise WrongKind(f"This is {whose} own {name}. Check the one you wrote: run the cell with your `def` first.")
    if name not in known:
        near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.6)
        guess = next((other for other in known if near and other.lower() == near[0]), None)
        raise NoSuchExercise(
            f"No exercise is called {name}. "
            + (f"Did you mean {guess}?" if guess else f"The exercises are: {', '.join(known)}.")
        )
    return name


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
