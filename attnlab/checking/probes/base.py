"""The base of all probes: a class `Probe`, the parts of its outcomes, and helpers to draw conclusions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnlab.checking.formatting import as_numpy
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError, parameters_phrase

if TYPE_CHECKING:
    from attnlab.checking.compare import Difference
    from attnlab.checking.schema import Case, Outcome, Parts, Used

PROBES: dict[str, Probe] = {}  # by name


class Part(NamedTuple):
    """A part of an outcome: the words for a student where it is wrong, and what follows from it.

    words: a sentence with {got} and {expected}, or a function of the `attnlab.checking.compare.Difference`
    discreet: the same without anything that comes from a student's process or from hidden inputs; the same sentence if
        it has no blanks
    returned: whether it is what the answer returned, not an observation about it
    numbers: whether error patterns are sought in its numbers, as in those of everything that is returned
    verdict: whether it says all there is where it is wrong, so that no error pattern is sought
    error: whether the name of an exception is a result like any other
    symptom: whether it distinguishes one mistake from another. If not, because a mistake leaves something arbitrary in
        it or rounding decides it, only whether it is right is kept of a known mistake
    vague: whether it says only that numbers are different
    common: whether several properties depend on it, so that the hint of one may be beside the point
    scattered: whether its numbers are from places of a result that mean nothing
    """

    words: str | Callable[[Any], str] = ""
    discreet: str | Callable[[Any], str] = ""
    returned: bool = False
    numbers: bool = False
    verdict: bool = False
    error: bool = False
    symptom: bool = True
    vague: bool = False
    common: bool = False
    scattered: bool = False

    def phrase(self, found) -> str:
        """The words on a difference in this part; empty where its numbers say all there is."""
        if callable(self.words):
            return self.words(found)
        return self.words.format(got=str(found.got)[:60], expected=str(found.expected)[:60])

    def discreet_phrase(self, found) -> str:
        if callable(self.discreet):
            return self.discreet(found)
        return self.discreet or (self.words if isinstance(self.words, str) else "")


CHANGED = Part("It altered its input: {got}", "It altered its input", verdict=True)
LARGE_SAMPLE = Part("It gave the wrong numbers on large arrays", returned=True, vague=True, common=True, scattered=True)
_OBSERVATION = Part()


class Probe:
    """How one kind of property is tested. It has no state: one object of each class is made.

    name: in exercises and in check data
    parts: name -> `Part`, for each part of its outcomes; "gradient" stands for all whose first word that is
    measured: whether the operating system measures memory and time of its calls. Small cases come before large ones,
        so that what PyTorch loads on first use does not count as an answer's own memory
    tolerates: kinds of `Difference` that the result may have although the property is about something else: another
        property asks for the numbers. This one is then earned if the answer computes anything, ...
    needs_right_result: ... and with this only if a result is right
    without_merit: the words where nothing is computed
    not_shown: parameters of the probe that do not help a student who reads the inputs of a case

    Keyword-only parameters of `call`, `ask` and `conclude` are the probe's own; all other inputs of a case are
    arguments of the answer.
    """

    name: str
    parts: dict[str, Part] = {}
    measured = False
    tolerates: frozenset[str] = frozenset()
    needs_right_result = False
    without_merit = "This counts only where numbers are computed from the input."
    not_shown: frozenset[str] = frozenset()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            PROBES[cls.name] = cls()

    # In the student's process ----------------------------------------------------------------------------------------

    def call(self, f, **inputs) -> Parts:
        """Call the answer `f`, and return raw results. Nothing is concluded here: `f` could alter it."""
        return {"result": f(**inputs)}

    # Outside the student's process -----------------------------------------------------------------------------------

    def ask(self, **inputs) -> list[Case]:
        """List the inputs of each call that a case takes."""
        return [inputs]

    def conclude(self, raw: list[Parts], used: list[Used], **case) -> Parts:
        """Compute the parts of the outcome of a case from the raw results of its calls.

        used: what each call used
        Raises ProbeError, in words, where the results are not of the kind asked for.
        """
        return raw[0]

    def hint_fits(self, found: Difference, case: Case) -> bool:
        """Whether the hint of the property is about such a failure, and not about numbers where there are none."""
        return found.kind != "error"

    def merit_words(self, case: Case) -> str:
        """The words for a case where nothing is computed; empty if what happened says more."""
        return self.without_merit

    def part(self, name: str, case: Case) -> Part:
        """Describe one part of the outcome of a case; `name` is empty where there is no outcome."""
        return self.parts.get(name) or _PARTS.get(name) or self.parts.get(name.partition(" ")[0], _OBSERVATION)

    def arguments(self, case: Case) -> Case:
        """Select the inputs of a case that are arguments of the answer."""
        return {name: value for name, value in case.items() if name not in self._own}

    def shown(self, case: Case) -> Case:
        """Select the inputs of a case that help a student. Weights are too many numbers."""
        hidden = {"init", "weights"} | self.not_shown | self._for_conclusion
        shown = {name: value for name, value in case.items() if name not in hidden}
        return {"made with": case["init"], **shown} if "init" in case else shown

    def calls(self, case: Case) -> list[Case]:
        """List the inputs of each call that a case takes, without those that the answer must not know."""
        return self.ask(**{name: value for name, value in case.items() if name not in self._for_conclusion})

    def verdict(self, case: Case, outcomes: list[Outcome]) -> Outcome:
        """Conclude the outcome of a case from those of its calls: the first that is not a result, or else from all."""
        raw: list[Parts] = []
        for outcome in outcomes:
            if "value" not in outcome:
                return outcome
            raw.append(outcome["value"])
        used = [outcome.get("used", {}) for outcome in outcomes]
        try:
            return {"value": self.conclude(raw, used, **case)}
        except ProbeError as error:
            return {"refused": str(error)}
        except Exception:  # any error that the results of a compromised process cause
            return {"refused": "the result is not of the kind asked for"}

    @property
    def is_about_results(self) -> bool:
        """Whether it fails because results are wrong, not because of what an answer does besides."""
        return not self.tolerates or self.needs_right_result

    @functools.cached_property
    def _own(self) -> frozenset[str]:
        """The inputs of a case that are the probe's own."""
        methods = (ClassAsFunction.__call__, self.call, self.ask, self.conclude)
        return frozenset().union(*map(own_parameters, methods))

    @functools.cached_property
    def _for_conclusion(self) -> frozenset[str]:
        """The inputs of a case that the answer must not know."""
        return own_parameters(self.conclude) - own_parameters(self.call) - own_parameters(self.ask)


_PARTS = {
    "": Part(common=True),
    "result": Part(returned=True, common=True),
    "parameters": Part(parameters_phrase, "Its parameters are not those that are asked for", verdict=True),
}


def own_parameters(function: Callable) -> frozenset[str]:
    """The names of its keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


def is_error(value) -> bool:
    """Whether a result is the name of an exception."""
    return isinstance(value, str) and value.endswith("Error")


def refusal(name) -> str:
    """The name of an exception. PyTorch's RuntimeError counts as ValueError: which it was is not known."""
    return "ValueError or RuntimeError" if name == "ValueError" else str(name)[:60]


def bitwise_equal(a, b) -> bool:
    """Whether two values are the same, bit for bit, type for type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(bitwise_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(bitwise_equal, a, b))
    if hasattr(a, "detach"):  # a tensor
        if a.dtype != b.dtype:
            return False
        a, b = as_numpy(a), as_numpy(b)
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def changed_inputs(before: Case, after: Case) -> str:
    """The names of inputs that have changed. A feature map is a name in the case, not an input."""
    return ", ".join(n for n in before if n != "feature_map" and not bitwise_equal(before[n], after[n]))


def shape_of(value) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
