"""`check(f)`: what a student runs after each exercise.

It holds no answer. Each exercise ships as data (`checks/<name>.npz`): public inputs, what should come out, and what
each known misconception would give. The file is made by `python -m autograder assemble`.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import sys
from pathlib import Path

from attnlab import codec
from attnlab.judge import Report, judge, no_answer
from attnlab.observe import observe
from attnlab.report import as_html, as_text

CHECKS = Path(__file__).parent / "checks"


def check(answer):
    """Check your function or class against the exercise of the same name, and print what holds and what does not.

    answer: the function or class itself, as in `check(softmax)`, not its name and not a call of it
    returns: the points on these public cases; hidden tests use other inputs of the same kinds
    Raises TypeError or ValueError, in words, when `answer` is not an exercise of the course.
    """
    material = _material(_exercise_name(answer))
    report = examine(answer, material)
    return show(report)


def examine(answer, material: dict, show_cases: bool = True) -> Report:
    """The report on a live object, run here in this process."""
    problem = signature_problem(answer, material)
    if problem:
        return no_answer(material, problem)
    outcomes = [[observe(answer, prop["probe"], copy.deepcopy(case)) for case in prop["cases"]]
                for prop in material["properties"]]
    return judge(material, outcomes, show_cases)


class Points(float):
    """Points earned on the public cases. In a notebook, nbgrader reads them as partial credit."""

    def __new__(cls, report: Report):
        self = super().__new__(cls, report.points)
        self.report = report
        return self

    def _repr_mimebundle_(self, **kwargs):
        note = f"<small>{self:g} of {self.report.max_points:g} points on these cases</small>"
        return {"text/plain": repr(float(self)), "text/html": note}

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
    extra = [name for name, kind, optional in parameters
             if name not in wanted and not optional and not kind.startswith("VAR")]
    if not missing and not extra:
        return None
    named = ", ".join(f"`{name}`" for name in missing or extra)
    what = f"has no parameter {named}" if missing else f"also asks for {named}"
    return (f"Your {material['name']} {what}. Keep the parameters as they were: "
            f"`{material['name']}{material['signature']}`.")


def exercises() -> list[str]:
    """The names of all exercises this installation can check."""
    return sorted(path.stem for path in CHECKS.glob("*.npz"))


def _material(name: str) -> dict:
    return codec.unpack((CHECKS / f"{name}.npz").read_bytes())


def _exercise_name(answer) -> str:
    """The exercise that an argument of `check` stands for; raises with words a student can act on."""
    known = exercises()
    if isinstance(answer, str):
        hint = f"check({answer})" if answer in known else "check(softmax)"
        raise TypeError(f"check takes the function itself, without quotes: {hint}") from None
    if not callable(answer):
        raise TypeError(f"check takes the function itself, as in check(softmax), and not what it returns; "
                        f"a {type(answer).__name__} came.")
    name = getattr(answer, "__name__", type(answer).__name__)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean {near[0]}?" if near else f" The exercises are: {', '.join(known)}."
        raise ValueError(f"No exercise is called {name}.{guess}")
    return name


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
