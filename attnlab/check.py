"""`check(f)`: what a student runs after each exercise.

It contains no answers. Each exercise ships as data (`checks/<name>.gz`): public inputs, the expected results, and
what each known misconception would give. The file is made by `python -m autograder assemble`.
"""

from __future__ import annotations

import contextlib
import difflib
import html
import inspect
import io
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnlab.checking import codec, diagnosis, library_calls
from attnlab.checking.compare import difference
from attnlab.checking.formatting import kind_of
from attnlab.checking.hunting import examination
from attnlab.checking.judge import Report, error_words, judge, no_answer, smallest_first
from attnlab.checking.observe import describe_error, outcome_of, source_file
from attnlab.checking.probes.base import is_error
from attnlab.checking.report import WIDTH, as_html, as_text, code_in
from attnlab.checking.schema import Material, Outcome
from attnlab.checking.time_limit import CASE_SECONDS, CHECK_SECONDS, IN_A_PAGE, TimeLimit

CHECKS = Path(__file__).parent / "checks"


def check(answer):
    """Check your function or class against the exercise of the same name, and print what holds and what does not.

    answer: the function or class itself, as in `check(softmax)`, not its name and not a call of it
    returns: the points on these public cases; hidden tests use other inputs of the same kinds
    Raises TypeError or ValueError, in words, when `answer` is not an exercise of the course. While nbgrader validates
    the notebook, which counts a cell as failed only if it raises, an answer that does not pass raises NotPassed.
    """
    report, said = report_on(answer)
    optional = report.bonus and report.not_done
    if os.environ.get("NBGRADER_EXECUTION") == "validate" and not (report.passed or optional):
        raise NotPassed(in_words(report, said))
    return show(report, said)


def report_on(answer) -> tuple[Report, list[str]]:
    """The report on a live object, and sentences to be shown above it. Raises as `check` does."""
    material = material_of(_exercise_name(answer))
    shell = _shell()
    older = diagnosis.newest_did_not_run(answer, material["name"], shell) if shell else None
    try:
        report, notices = report_of(answer, material)
    except KeyboardInterrupt as error:
        raise Interrupted(answer, error) from None
    return report, [older, *notices] if older else notices


def report_of(answer, material: Material) -> tuple[Report, list[str]]:
    """The report on a live object as the answer to one exercise, and sentences to be shown above it."""
    if "hunt" in material:
        return examine(answer, material), []
    problem, notices = signature_problem(answer, material), []
    outcomes = None if problem else outcomes_of(answer, material)
    report = judge(material, outcomes) if outcomes else no_answer(material, problem)
    if outcomes and not report.passed and not report.not_done:
        named = any(found.misconception for found in report.findings)
        notices = list(filter(None, _diagnosis(answer, material, outcomes, named)))
    return library_calls.without_points(report, library_calls.uses_of(answer, material)), notices


def examine(answer, material: dict, show_cases: bool = True) -> Report:
    """The report on a live object, run here in this process."""
    problem = signature_problem(answer, material)
    if "hunt" in material and not problem:
        name = material["hunt"]["of"]
        with _silence():
            return examination.examine(answer, material, _own(answer, name), material_of(name))
    return no_answer(material, problem) if problem else judge(material, outcomes_of(answer, material), show_cases)


def _own(test, name: str):
    """The answer of that name in the notebook of a test, or None."""
    own = getattr(inspect.unwrap(test), "__globals__", {}).get(name)
    return own if callable(own) else None


def outcomes_of(answer, material: Material) -> list[list[Outcome]]:
    """Return the outcome of every case for a live object. Its own prints are hidden: they would appear once per case.

    A case that does not end is stopped. The larger cases of the same property are then skipped, and after a second
    such property all other cases.
    """
    rows, stopped, left = [], 0, CHECK_SECONDS
    with _silence(), TimeLimit() as limit:
        for prop in material["properties"]:
            row = [_not_run() for _ in prop["cases"]]
            for c in smallest_first(prop["cases"]) if stopped < 2 and left > 0 else []:
                row[c] = _observe(answer, prop, prop["cases"][c], limit)
                left -= limit.used
                if limit.told:
                    stopped += 1
                    break
            rows.append(row)
    return rows


def _observe(answer, prop: dict, case: dict, limit: TimeLimit) -> dict:
    outcome = {}
    with limit.of(CASE_SECONDS + 4 * case.get("seconds", 0.0)):  # an answer that must be fast has its own limit
        outcome = outcome_of(answer, prop["probe"], case)
    if not limit.told:
        return outcome
    where = {key: outcome.get("error", {}).get(key) for key in ("line", "code")}
    return {"error": {"type": "StillRunning", "message": f"still running after {limit.told:g} seconds", **where}}


def _not_run() -> dict:
    message = "not run: the time for this check was up"
    return {"error": {"type": "StillRunning", "message": message, "line": None, "code": None}}


@contextlib.contextmanager
def _silence():
    with contextlib.redirect_stdout(_Nowhere()), contextlib.redirect_stderr(_Nowhere()):
        yield


def _diagnosis(answer, material: dict, outcomes, named: bool) -> Iterator[str | None]:
    """Sentences on why an answer fails, beyond what its results show.

    named: whether its mistake has a name, so that an argument without use explains nothing more
    """
    yield _fails_itself(answer, material)
    if not named:
        yield from diagnosis.unused_arguments(answer, material.get("needless", ()))
    yield _raised(answer, material, outcomes)
    if any("error" in got and got["error"]["type"] == "StillRunning" for row in outcomes for got in row):
        yield (
            "Your code was stopped: look for a loop that does not end. To stop a cell of your own, "
            + ("press Stop." if IN_A_PAGE else "choose Kernel > Interrupt.")
        )
    else:
        yield _remembers(answer, material, outcomes)


def _fails_itself(answer, material: dict) -> str | None:
    """A sentence on the first exercise of the same chapter that the answer calls and that fails its own check."""
    known = exercises()
    for other in diagnosis.called(answer):
        theirs = material_of(other.__name__) if other.__name__ in known else None
        if theirs and theirs["chapter"] == material["chapter"]:
            report = examine(other, theirs)
            if not report.passed:
                calls = f"{material['name']} calls your {other.__name__}, which"
                if report.not_done:
                    return f"{calls} is not done yet: write that one first."
                return f"{calls} does not pass its own check yet: correct that one first."
    return None


def _raised(answer, material: dict, outcomes) -> str | None:
    """Describe the exception that the first case raises, unless it is the expected one.

    The stored outcome of such a case has only the exception's type, so the case is run again for its message.
    """
    for prop, row in zip(material["properties"], outcomes):
        for c in smallest_first(prop["cases"]) if prop["probe"] == "steps" else []:
            if step := _step_that_raises(prop["expected"][c], row[c]):
                again = _once_more(answer, prop, c, telling=step)
                return (
                    f'In "{prop["title"]}", step {step}, {error_words(again["error"])}.' if "error" in again else None
                )
        for c in smallest_first(prop["cases"]) if prop["probe"] == "error_of" else []:
            came, wanted = (side.get("value", {}).get("raises", "nothing") for side in (row[c], prop["expected"][c]))
            if came != wanted and came == "nothing":
                break  # the report is about this case
            if came != wanted:
                with _silence(), TimeLimit() as limit:
                    again = _observe(answer, prop | {"probe": "call"}, prop["cases"][c], limit)
                words = error_words(again["error"]) if "error" in again else ""
                if wanted != "nothing" and "refuses an input" in words:
                    break  # it is right to refuse, by another exception
                return f'In "{prop["title"]}", {words}.' if words else None
    return None


def _step_that_raises(expected: dict, got: dict) -> int | None:
    """The number of the first step that raises, if it should not."""
    wanted, came = expected["value"], got.get("value", {})
    for number, (name, result) in enumerate(came.items(), start=1):
        if is_error(result) and not is_error(wanted.get(name)):
            return number
    return None


def _remembers(answer, material: dict, outcomes) -> str | None:
    """Return a sentence if the answer gives a different result when called again on the smallest input it fails on."""
    for prop, row in zip(material["properties"], outcomes):
        for c in smallest_first(prop["cases"]) if prop["probe"] == "call" else []:
            if not _within_tolerance(prop, prop["expected"][c], row[c]):
                if not _within_tolerance(prop, row[c], _once_more(answer, prop, c)):
                    return REMEMBERS
                return _right_when_emptied(answer, prop, c)
    return None


def _once_more(answer, prop: dict, c: int, **more) -> dict:
    """The outcome of another call on one case, with more inputs."""
    with _silence(), TimeLimit() as limit:
        return _observe(answer, prop, {**prop["cases"][c], **more}, limit)


def _right_when_emptied(answer, prop: dict, c: int) -> str | None:
    """Return a sentence if an answer is right on this case once a collection that it keeps in the notebook is empty."""
    for function in diagnosis.functions_of(answer):
        for name in sorted(diagnosis.globals_of(function) & function.__globals__.keys()):
            kept = function.__globals__[name]
            if type(kept) not in (dict, list, set) or not kept:
                continue
            function.__globals__[name] = type(kept)()
            try:
                alone = _once_more(answer, prop, c)
            finally:
                function.__globals__[name] = kept
            if _within_tolerance(prop, prop["expected"][c], alone):
                return f"It is right when it is called alone, and wrong after other calls: `{name}` keeps something."
    return None


REMEMBERS = (
    "Called again with the same input, it gives a different result: something is kept between calls (a global or a "
    "mutable default), drawn at random, or never filled in (np.empty; `where=` without `out=`)."
)


def _within_tolerance(prop: dict, one: dict, other: dict) -> bool:
    if one.keys() != other.keys() or "value" not in one:
        return one.keys() == other.keys()
    return difference(one["value"], other["value"], prop["rtol"], prop["atol"]) is None


class _Nowhere(io.TextIOBase):
    """A stream that discards all text, so that a flood of output takes no memory."""

    def write(self, text) -> int:
        return len(text)


class Points:
    """Points earned on the public cases, as "4 of 6 points", in a notebook too.

    As a cell's result they are the number that nbgrader reads; only a grade may be such a result,
    see `autograder.nbgrader_plugins.stock`. It is not a subclass of float, because IPython prints those its own way.
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
        if not self.report.passed:  # full marks need no second line: the table already says so
            _display(f"<small>{self!r}</small>", repr(self))


def show(report: Report, notices: Sequence[str] = ()) -> Points:
    """Prints the report, as HTML where a notebook can show it and as text elsewhere, and returns its points.

    notices: sentences shown above it
    """
    text = in_words(report, notices)
    if has_kernel():
        _display(in_html(report, notices), text)
    else:
        print(text)
    return Points(report)


def in_html(report: Report, notices: Sequence[str]) -> str:
    above = "".join(f"<p>{code_in(html.escape(notice))}</p>" for notice in notices)
    return (f'<div class="attn-check" role="alert">{above}</div>' if above else "") + as_html(report)


def in_words(report: Report, notices: Sequence[str]) -> str:
    return "\n".join([*(textwrap.fill(notice, WIDTH) for notice in notices), as_text(report)])


def _display(page: str, text: str) -> None:
    from IPython.display import display

    display({"text/html": page, "text/plain": text}, raw=True)


def signature_problem(answer, material: Material) -> str | None:
    """Say what is wrong with the parameters of a live answer, or return None."""
    try:
        parameters = inspect.signature(answer).parameters.values()
    except (TypeError, ValueError, NameError):  # Python 3.14 evaluates annotations here
        return None
    return parameter_problem([(p.name, p.kind.name, p.default is not p.empty) for p in parameters], material)


def parameter_problem(parameters, material: Material) -> str | None:
    """Say what is wrong with parameters (name, kind, has a default), or return None. Probes pass arguments by name."""
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
        what = f"also requires {_named(extra)}"
    return f"Your {material['name']} {what}. {keep}"


def _named(names) -> str:
    return ", ".join(f"`{name[:60]}`" for name in names[:5])


def exercises() -> list[str]:
    """Return the names of all exercises that this installation can check."""
    return sorted(path.stem for path in CHECKS.glob("*.gz"))


def material_of(name: str) -> dict:
    """Load the data of one exercise."""
    return filled_in(codec.unpack((CHECKS / f"{name}.gz").read_bytes()))


def hunted_by(name: str) -> list[str]:
    """The exercise whose implementations a test is tried on, if an exercise is a test."""
    hunt = material_of(name).get("hunt") if name in exercises() else None
    return [hunt["of"]] if hunt else []


def filled_in(made: Material) -> Material:
    """Undo the saving of space in stored material: where a misconception gives the right result, a file holds None."""
    for m in made["misconceptions"]:
        m["outcomes"] = [
            [right if wrong is None else wrong for right, wrong in zip(p["expected"], row)]
            for p, row in zip(made["properties"], m["outcomes"])
        ]
    return made


class OneLineError:
    """An exception that a notebook shows as one line, because a traceback would add nothing."""

    prefix = "check"

    def _render_traceback_(self):
        return [f"{self.prefix}: {self}"]


class NotPassed(AssertionError):
    """An answer does not pass its check while nbgrader validates its notebook."""

    def _render_traceback_(self):
        return [str(self)]


class WrongKind(OneLineError, TypeError):
    """The argument of `check` is neither a function nor a class."""


class Interrupted(OneLineError, KeyboardInterrupt):
    """The student interrupted a check."""

    def __init__(self, answer, error: KeyboardInterrupt):
        found = describe_error(error, source_file(answer))
        where = f" in line {found['line']}: `{found['code']}`" if found["line"] else ""
        super().__init__(f"interrupted while {answer.__name__} was running{where}. Nothing was judged.")


class NoSuchExercise(OneLineError, ValueError):
    """No exercise of the course has the name of the argument of `check`."""


def _exercise_name(answer) -> str:
    """Return the exercise that an argument of `check` belongs to; raise an error that a student can act on."""
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
                f"Leave out the quotes: check({answer}) passes your function, check('{answer}') only its name."
            )
        raise WrongKind(f"check takes your function itself, as in check({some}), not a string.")
    kind = type(answer).__name__
    if kind in known:
        raise WrongKind(f"check takes the class, not an object made from it: check({kind}).")
    if not callable(answer):
        raise WrongKind(
            f"check takes your function itself, as in check({some}), not the result of a call; it got "
            f"{'None' if answer is None else kind_of(answer)}."
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


def has_kernel() -> bool:
    """Whether this process is a notebook's."""
    return hasattr(_shell(), "kernel")


def _shell():
    """Return the IPython shell that this runs in, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None
