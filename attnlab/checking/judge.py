"""From outcomes to a report: which properties hold, and which misconception explains those that do not.

The data have the types of `attnlab.checking.schema`. The check in a student's notebook and the hidden test differ only
in their material.
"""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from attnlab.checking import error_patterns
from attnlab.checking.compare import Difference, as_array, difference, within_tolerance
from attnlab.checking.error_patterns import Relation
from attnlab.checking.formatting import is_tensor, table
from attnlab.checking.probes import PROBES, Part, Probe
from attnlab.checking.schema import Case, ErrorInfo, Material, Misconception, Outcome, Property, Result

# By property and case: outcomes of an answer, None where there was no answer; differences from what was expected.
Outcomes: TypeAlias = Sequence[Sequence[Outcome | None]]
Differences: TypeAlias = list[list[Difference | None]]


@dataclass
class Finding:
    """One property of a report. `points` were earned out of `max_points`; `detail` says what happened, in words.

    relation, fact: how the result is related to what was expected, by name and in words, see
        `attnlab.checking.error_patterns`
    place: the line of the answer that raised, where one did; two failures on one line are the same
    observed: whether the probe has words of its own for it, beyond different numbers
    follows: whether it failed because of a mistake that another property has paid for, and so keeps its points
    """

    title: str
    passed: bool
    points: float
    max_points: float
    hint: str = ""
    misconception: str | None = None
    section: str | None = None
    relation: str | None = None
    fact: str = ""
    kind: str | None = None
    detail: str = ""
    place: str = ""
    observed: bool = False
    follows: bool = False


@dataclass
class Report:
    """The findings on one student's answer to one exercise. `reason` is set where nothing could be judged.

    through: earlier exercises that are not right, and that the reference replaced when these points were earned
    """

    exercise: str
    max_points: float
    bonus: bool = False
    findings: list[Finding] = field(default_factory=list)
    reason: str | None = None
    not_done: bool = False
    through: list[str] = field(default_factory=list)

    @property
    def points(self) -> float:
        return float(sum(finding.points for finding in self.findings))

    @property
    def passed(self) -> bool:
        return self.reason is None and all(finding.passed for finding in self.findings)


def judge(material: Material, outcomes: Outcomes, show_cases: bool = True) -> Report:
    """Report on a student's outcomes.

    outcomes[p][c] is the outcome of case c of property p, or None if there was no answer.
    show_cases: whether the words may contain inputs and expected values (never for hidden tests).
    """
    if _not_done(outcomes):
        return replace(no_answer(material, f"{material['name']} is not done yet"), not_done=True)
    report, evidence = _empty(material), Evidence(material, outcomes, show_cases)
    report.findings = [_judged(evidence, p) for p in range(len(material["properties"]))]
    if not all(finding.passed for finding in report.findings):
        for rule in RULES_FOR_ALL:
            rule(report, evidence)
    return report


def _judged(evidence: Evidence, p: int) -> Finding:
    finding = _finding(evidence.properties[p])
    for rule in RULES:
        if rule(finding, evidence, p):
            break
    return finding


class Evidence:
    """Facts that the outcomes of an answer show, each computed when a rule first needs it.

    differences[p][c]: the first difference from the expected outcome of case c of property p, or None
    """

    def __init__(self, material: Material, outcomes: Outcomes, show_cases: bool = True):
        self.material, self.outcomes, self.show_cases = material, outcomes, show_cases
        self.properties = material["properties"]
        self.differences = [
            [_differs(p, case, expected, got) for case, expected, got in zip(p["cases"], p["expected"], row)]
            for p, row in zip(self.properties, outcomes)
        ]

    def probe(self, p: int) -> Probe:
        return PROBES[self.properties[p]["probe"]]

    def failures(self, p: int) -> list[Difference | None]:
        """List the differences of one property. A result that is right by chance counts as wrong."""
        row = self.differences[p]
        if any(row) or not any(map(any, self.differences)) or not (why := self.ignores_input):
            return row
        return [Difference("idle", why, None, None)] * len(row)

    def failure(self, p: int) -> tuple[Case, Difference]:
        """The smallest case of a property that fails, and its difference."""
        cases, row = self.properties[p]["cases"], self.failures(p)
        return next((cases[c], found) for c in smallest_first(cases) if (found := row[c]))

    def part(self, p: int) -> Part:
        """Describe the part of the outcome that fails."""
        case, found = self.failure(p)
        return self.probe(p).part(found.part, case)

    def right_but_for_dtype(self, p: int) -> bool:
        """Whether a property fails, and only because its results are of another dtype."""
        prop, row = self.properties[p], self.differences[p]
        return any(row) and all(
            found is None or found.kind == "dtype" and _right_but_for_dtype(prop, expected, got)
            for found, expected, got in zip(row, prop["expected"], self.outcomes[p])
        )

    def computes_in(self, p: int) -> bool:
        """Whether some result of one property was computed from its input."""
        return _computes_anything(self.properties[p], self.outcomes[p])

    def is_tolerated(self, p: int) -> bool:
        """Whether all that is wrong is a result that this property does not ask for."""
        tolerates = self.probe(p).tolerates
        return bool(tolerates) and all(
            found is None or found.kind in tolerates and _part(self.properties[p], case, found).returned
            for case, found in zip(self.properties[p]["cases"], self.failures(p))
        )

    @functools.cached_property
    def computes(self) -> bool:
        """Whether some result was computed from the input, and not all results are right by chance."""
        return self._computes_somewhere and not self.ignores_input

    @functools.cached_property
    def _computes_somewhere(self) -> bool:
        return any(map(self.computes_in, range(len(self.properties))))

    @functools.cached_property
    def anything_right(self) -> bool:
        return any(
            found is None and not _is_refusal(expected)
            for prop, row in zip(self.properties, self.differences)
            for expected, found in zip(prop["expected"], row)
        )

    @functools.cached_property
    def numbers_are_charged(self) -> bool:
        """Whether a property fails that asks for the results themselves."""
        return any(any(row) and not self.probe(p).tolerates for p, row in enumerate(self.differences))

    @functools.cached_property
    def ignores_input(self) -> str | None:
        """Why an answer earns nothing even where it is right, or None.

        An answer that refuses everything, or always gives the same result, is right by chance.
        """
        if not self._computes_somewhere and not self.anything_right:
            return (
                "refusing is right here, but your code gave no right answer anywhere else, and refusing everything "
                "earns nothing"
            )
        results = [
            outcome["value"]["result"]
            for row in self.outcomes
            for outcome in row
            if outcome and "value" in outcome and isinstance(outcome["value"], dict) and "result" in outcome["value"]
        ]
        results = [result for result in results if result is not None]
        if len(results) >= 3 and all(within_tolerance(results[0], result) for result in results[1:]):
            return "this is right, but your code gives the same result whatever it is given"
        return None

    @functools.cached_property
    def basic(self) -> int:
        """The basic property: the first about results, which may come after one about what a module is made of."""
        about_results = (
            p
            for p, prop in enumerate(self.properties)
            if any(_arrays(expected["value"].get("result")) for expected in prop["expected"])
        )
        return next(about_results, 0)

    @functools.cached_property
    def suspects(self) -> list[_Suspect]:
        return _suspects(self.material, self.outcomes, self.differences, self.basic)

    @functools.cached_property
    def patterns(self) -> list[Relation | None]:
        return _relations(self.properties, self.outcomes, self.differences)


# The rules for the finding on one property, in turn. Each changes the finding, and returns whether it is complete.


def pass_if_right(finding: Finding, evidence: Evidence, p: int) -> bool:
    """A property passes if each of its cases is right."""
    if any(evidence.failures(p)):
        return False
    finding.passed, finding.points = True, finding.max_points
    return True


def pass_if_numbers_are_charged_elsewhere(finding: Finding, evidence: Evidence, p: int) -> bool:
    """A property passes if all that is wrong is a result that another property asks for, and something is computed."""
    finding.passed = (
        evidence.is_tolerated(p)
        and evidence.computes
        and evidence.computes_in(p)
        and evidence.numbers_are_charged
        and (evidence.anything_right or not evidence.probe(p).needs_right_result)
    )
    finding.points = finding.max_points if finding.passed else 0.0
    return finding.passed


def classify_failure(finding: Finding, evidence: Evidence, p: int) -> bool:
    """A failure has the kind of its smallest case, and is related to what was expected as far as that shows it."""
    _, found = evidence.failure(p)
    finding.kind = found.kind
    part = evidence.part(p)
    finding.relation = _EVIDENT.get(finding.kind) or _observed(part, found)
    finding.observed = bool(part.words)
    return False


def say_what_is_without_merit(finding: Finding, evidence: Evidence, p: int) -> bool:
    """A property that holds only because nothing is computed earns nothing, and says so."""
    if not evidence.is_tolerated(p) or evidence.computes_in(p):
        return False
    words = evidence.probe(p).merit_words(evidence.failure(p)[0])
    if words:
        finding.detail, finding.hint, finding.observed = words, "", True
    return bool(words)


def name_misconception(finding: Finding, evidence: Evidence, p: int) -> bool:
    """A failure that a misconception explains gets its sentence."""
    match = _explanation(evidence.suspects, p, evidence.differences, evidence.basic)
    if match is None:
        return False
    finding.misconception = match["text"]
    finding.section = match["section"] or evidence.material["section"]
    return True


def describe_difference(finding: Finding, evidence: Evidence, p: int) -> bool:
    """Describe any other failure in words."""
    case, found = evidence.failure(p)
    describe = _words if evidence.show_cases else _discreet
    finding.detail = describe(evidence.probe(p), case, found)
    return False


def state_pattern(finding: Finding, evidence: Evidence, p: int) -> bool:
    """State as a fact how the results are related to the expected ones."""
    found = evidence.patterns[p] if finding.kind != "idle" else None
    if found:
        finding.relation = found.name
        finding.fact = found.words if evidence.show_cases else found.discreet
    return False


def locate_error(finding: Finding, evidence: Evidence, p: int) -> bool:
    """An exception has the line of the answer that raised it."""
    _, found = evidence.failure(p)
    if finding.kind == "error" and found.got["error"]["code"]:
        finding.place = " ".join(map(str, (found.got["error"][key] for key in ("type", "line", "code"))))
    return True


RULES = (
    pass_if_right,
    pass_if_numbers_are_charged_elsewhere,
    classify_failure,
    say_what_is_without_merit,
    name_misconception,
    describe_difference,
    state_pattern,
    locate_error,
)


# The rules for all findings together.


def drop_hints_beside_the_point(report: Report, evidence: Evidence) -> None:
    """Drop hints that would mislead.

    That is so where nothing came or counts, where too much is refused, where the probe says that they are about another
    failure, where the right numbers came in another shape, and where the failure is not about what this property alone
    asks for, but is without an explanation in an earlier property too.
    """
    is_first = True
    for p, finding in enumerate(report.findings):
        if finding.passed or finding.misconception:
            continue
        case, found = evidence.failure(p)
        part = evidence.part(p)
        refuses_too_much = part.error and found.expected == "nothing"
        beside = found.kind in {"no answer", "idle"} or not evidence.probe(p).hint_fits(found, case)
        beside = beside or found.kind == "shape" and _right_but_for_shape(evidence.properties[p], found)
        if beside or refuses_too_much or part.common and not is_first:
            finding.hint = ""
        is_first = False


def charge_each_mistake_once(report: Report, evidence: Evidence) -> None:
    """Among properties that fail because of the same mistake, only the one with the most points is lost.

    The others keep their points if anything is computed. If a named mistake lets no result come, as parameters of
    another shape do, a quarter of them.
    """
    causes: dict[str, list[Finding]] = {}
    for p, finding in enumerate(report.findings):
        pattern = evidence.patterns[p] if finding.fact else None
        cause = finding.misconception or (pattern.words if pattern and pattern.exact else None)
        if evidence.right_but_for_dtype(p):
            cause = "dtype"
        if cause and (evidence.computes or finding.misconception and finding.kind == "refused"):
            causes.setdefault(cause, []).append(finding)
    for same in causes.values():
        dearest = max(same, key=lambda finding: finding.max_points)
        for finding in same:
            if finding is not dearest:
                finding.follows, finding.points = True, finding.max_points * (1 if evidence.computes else NO_RESULT)


def cap_at_half(report: Report, evidence: Evidence) -> None:
    """If no result is right at all, but for its dtype, at most half of the points remain."""
    if evidence.anything_right or any(map(evidence.right_but_for_dtype, range(len(report.findings)))):
        return
    room = report.max_points / 2 - sum(finding.points for finding in report.findings if not finding.follows)
    for finding in report.findings:
        if finding.follows:
            finding.points = max(0.0, min(finding.points, room))
            room -= finding.points


NO_RESULT = 0.25  # what remains of the points where a named mistake lets no result come
RULES_FOR_ALL = (drop_hints_beside_the_point, charge_each_mistake_once, cap_at_half)


# Kinds of difference that explain themselves -> name of the relation.
_EVIDENT = {"error": "exception", "none": "no return", "type": "type", "dtype": "dtype", "refused": "no result"}


def _part(prop: Property, case: Case, found: Difference) -> Part:
    return PROBES[prop["probe"]].part(found.part, case)


def _observed(part: Part, found: Difference) -> str | None:
    """Name the observation of a probe, other than numbers, that shows the mistake, if there is one."""
    if part.error and isinstance(found.expected, str) and found.expected != "nothing":
        return "refusal"
    if part.error and isinstance(found.got, str):
        return "exception"
    return found.part if part.words and not part.vague else None


def no_answer(material: Material, reason: str) -> Report:
    """The report on an answer that could not be judged at all: nothing earned, and why."""
    return replace(_empty(material), findings=[_finding(p) for p in material["properties"]], reason=reason)


def _empty(material: Material) -> Report:
    return Report(material["name"], float(sum(p["points"] for p in material["properties"])), material["bonus"])


def _finding(prop: Property) -> Finding:
    return Finding(prop["title"], False, 0.0, float(prop["points"]), prop["hint"])


def _not_done(outcomes: Outcomes) -> bool:
    """Whether every case met the stub's `raise NotImplementedError`: its own, not that of an exercise it calls."""
    came = [outcome for row in outcomes for outcome in row if outcome is not None]
    return bool(came) and all("error" in outcome and is_stubs_own(outcome["error"]) for outcome in came)


def is_stubs_own(error: ErrorInfo) -> bool:
    """Whether an error is a stub's own `raise NotImplementedError`."""
    return error["type"] == "NotImplementedError" and "raise" in (error["code"] or "raise")


def _differs(prop: Property, case: Case, expected: Result, got: Outcome | None) -> Difference | None:
    if got is None:
        return Difference("no answer", "there was no answer", expected, None)
    if "error" in got:
        return Difference("error", error_words(got["error"]), expected, got)
    if "refused" in got:
        return Difference("refused", got["refused"], expected, got)
    found = difference(expected["value"], got.get("value"), prop["rtol"], prop["atol"])
    return found and _in_words_of_the_probe(_part(prop, case, found), found)


def _right_but_for_dtype(prop: Property, expected: Result, got: Outcome | None) -> bool:
    if got is None or "value" not in got:
        return False
    return within_tolerance(expected["value"], _cast(got["value"], expected["value"]), prop["rtol"], prop["atol"])


def _right_but_for_shape(prop: Property, found: Difference) -> bool:
    """Whether an array differs in its shape, and perhaps its precision: the same numbers, in the same order."""
    wanted, came = as_array(found.expected), as_array(found.got)
    if wanted is None or came is None or not wanted.size or wanted.size != came.size or came.dtype.kind == "b":
        return False
    rtol, atol = max(prop["rtol"], 1e-5), max(prop["atol"], 1e-6)
    return bool(np.allclose(came.ravel(), wanted.ravel(), rtol=rtol, atol=atol, equal_nan=True))


def _cast(value: Any, like: Any) -> Any:
    """A result with each array of another dtype, of the same shape, brought to that of the expected one."""
    if isinstance(like, dict) and isinstance(value, dict):
        return {name: _cast(part, like.get(name)) for name, part in value.items()}
    if isinstance(like, tuple) and isinstance(value, tuple) and len(like) == len(value):
        return tuple(map(_cast, value, like))
    return _cast_array(value, like)


def _cast_array(value: Any, like: Any) -> Any:
    kinds = [type(each) if is_tensor(each) or isinstance(each, np.ndarray) else None for each in (value, like)]
    if kinds[0] is not kinds[1] or kinds[0] is None or value.shape != like.shape:
        return value
    if is_tensor(value):
        return value.to(like.dtype)
    return value.astype(like.dtype) if value.dtype.kind in "fiu" else value


def _in_words_of_the_probe(part: Part, found: Difference) -> Difference:
    """The difference with the probe's words on it, if it has some."""
    kind = "value" if part.error and isinstance(found.got, str) else found.kind  # so that the inputs are shown
    return replace(found, kind=kind, say=(lambda: part.phrase(found)) if part.words else found.say)


def _is_refusal(expected: Result) -> bool:
    return expected["value"].get("raises", "nothing") != "nothing"


def _computes_anything(prop: Property, row: Sequence[Outcome | None]) -> bool:
    return any(_depends_on_input(prop, case, got) for case, got in zip(prop["cases"], row))


def _depends_on_input(prop: Property, case: Case, got: Outcome | None) -> bool:
    """Whether a result was computed from the input.

    It is neither the same number everywhere nor an argument that is returned.
    """
    value = got.get("value") if got else None
    probe = PROBES[prop["probe"]]
    parts = [part for name, part in value.items() if probe.part(name, case).returned] if isinstance(value, dict) else []
    arrays = [array for part in parts for array in _arrays(part)]
    given = [array for part in case.values() for array in _arrays(part)]
    return any(
        (np.unique(array).size > 1 or array.size == 1 and np.any(array))
        and not any(_nearly_equal(array, other) for other in given)
        for array in arrays
    )


def _nearly_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.shape == other.shape
        and one.dtype.kind == other.dtype.kind
        and bool(np.allclose(one, other, equal_nan=True))
    )


def _arrays(value) -> list[np.ndarray]:
    """The arrays of numbers in a value."""
    if isinstance(value, dict):
        return [array for part in value.values() for array in _arrays(part)]
    if value is None or isinstance(value, str):
        return []
    if isinstance(value, tuple) or isinstance(value, list) and as_array(value) is None:
        return [array for part in value for array in _arrays(part)]
    array = as_array(value)
    return [] if array is None or not array.size else [array]


def _relations(properties: list[Property], outcomes: Outcomes, differences: Differences) -> list[Relation | None]:
    """Find how results are related to the expected ones, for each failed property.

    A relation holds on all of its cases, or on all failed cases of the whole answer.
    """
    failed: list[list] = []
    right, wrong, whole = [], [], True
    for prop, row, found in zip(properties, outcomes, differences):
        cases, probe = [], PROBES[prop["probe"]]
        for inputs, expected, got, differs in zip(prop["cases"], prop["expected"], row, found):
            given = probe.arguments(inputs)
            if "result" in expected["value"] and not _is_refusal(expected) and _arrays(given):
                (wrong if differs else right).append(given)
            if not differs:
                continue
            parts = {name: probe.part(name, inputs) for name in expected["value"]}
            asked = None if probe.part(differs.part, inputs).verdict else _numbers_of(parts, expected, got)
            scattered = any(part.scattered for part in parts.values())
            tolerance = prop["rtol"], prop["atol"]
            cases.append(asked and error_patterns.Case(inputs, *asked, *tolerance, scattered))
        if None in cases:
            whole = whole and bool(probe.tolerates)
            cases = []
        failed.append(cases)
    everything = [case for cases in failed for case in cases]
    of_all = error_patterns.find(everything) if whole and len(everything) > 1 else None
    apart = error_patterns.traits_of_failing_inputs(right, wrong)
    return [
        _prefer_exact(
            of_all if cases else None,
            error_patterns.find(cases) if len(cases) > 1 or cases and len(prop["cases"]) == 1 else None,
            apart if any(found) and not PROBES[prop["probe"]].tolerates else None,
        )
        for prop, cases, found in zip(properties, failed, differences)
    ]


def _prefer_exact(*relations: Relation | None) -> Relation | None:
    """The first relation that derives the result from what was expected, or else the first of all."""
    found = [each for each in relations if each]
    return next((each for each in found if each.exact), found[0] if found else None)


def _numbers_of(parts: dict[str, Part], expected: Result, got: Outcome | None) -> tuple[Any, Any] | None:
    """The expected and the actual numbers, without observations about them; None if there were no numbers."""
    if got is None or "value" not in got or not isinstance(got["value"], dict):
        return None
    value = expected["value"]
    names = [name for name, part in parts.items() if (part.returned or part.numbers) and _arrays(value[name])]
    if not names or not all(name in got["value"] for name in names):
        return None
    if names == ["result"]:
        return value["result"], got["value"]["result"]
    return {name: value[name] for name in names}, {name: got["value"][name] for name in names}


@dataclass
class _Suspect:
    """A misconception that the answer does not contradict.

    explains: the properties on which it gives exactly what the student gave, and is wrong
    telling: those among them where that is unlikely to be chance
    alike: whether it gives what the student gave on every case
    enough:   whether it does so on more than one case, if it is wrong on more than one, and on the basic property
              or on at least as many cases as those where it is wrong in another way than the student
    rank: the smaller it is, the more of the answer it explains
    """

    misconception: Misconception
    explains: set[int]
    telling: set[int]
    alike: bool
    enough: bool
    rank: tuple


def _suspects(material: Material, outcomes: Outcomes, differences: Differences, basic: int) -> list[_Suspect]:
    """Misconceptions that this answer does not contradict, best explanation first.

    A mistake is ruled out as soon as the answer is right on a case where that mistake is wrong.
    """
    found = []
    for m in material["misconceptions"]:
        if any(
            is_wrong and differs is None
            for wrong, row in zip(_wrong_where(material, m), differences)
            for is_wrong, differs in zip(wrong, row)
        ):
            continue
        agreeing = parting = missed = 0
        explains, telling = set(), set()
        for p, prop in enumerate(material["properties"]):
            fails, follows, tells = False, True, False
            for case, expected, wrong, is_wrong, got, differs in zip(
                prop["cases"],
                prop["expected"],
                m["outcomes"][p],
                _wrong_where(material, m)[p],
                outcomes[p],
                differences[p],
            ):
                same = _outcomes_within_tolerance(prop, case, wrong, got) if differs else not is_wrong
                agreeing += is_wrong and same
                parting += is_wrong and not same
                missed += not is_wrong and not same
                fails, follows = fails or is_wrong, follows and same
                tells = tells or is_wrong and same and _is_distinctive(prop, case, expected, wrong)
            if fails and follows:
                explains.add(p)
                if tells:
                    telling.add(p)
        if agreeing:
            alike = parting == missed == 0
            enough = (agreeing > 1 or parting == 0) and (agreeing >= parting or basic in explains)
            found.append(_Suspect(m, explains, telling, alike, enough, (not alike, -agreeing, parting)))
    return sorted(found, key=lambda suspect: suspect.rank)  # ties: the one declared first


def _wrong_where(material: Material, m: Misconception) -> list[list[bool]]:
    """Where a misconception gives a wrong result; computed once, and stored with its outcomes."""
    if "wrong" not in m:
        m["wrong"] = [
            [
                _differs(prop, case, expected, wrong) is not None
                for case, expected, wrong in zip(prop["cases"], prop["expected"], row)
            ]
            for prop, row in zip(material["properties"], m["outcomes"])
        ]
    return m["wrong"]


def _explanation(suspects: list[_Suspect], p: int, differences: Differences, basic: int) -> Misconception | None:
    """The misconception behind a failed property, or None where naming one would be a guess.

    A mistake that gives the student's answer on every case of the exercise is named without further evidence. One that
    does so only on this property is named only if chance is unlikely, no other fits as well, it fits more than one case
    where there are others, and the basic property does not fail without an explanation.
    """
    fitting = [suspect for suspect in suspects if p in suspect.explains]
    if not fitting:
        return None
    best = fitting[0]
    if best.alike:
        return best.misconception
    rivals = [s for s in fitting[1:] if s.rank == best.rank and s.misconception["text"] != best.misconception["text"]]
    explained = not any(differences[basic]) or any(basic in suspect.explains for suspect in suspects)
    return best.misconception if p in best.telling and best.enough and explained and not rivals else None


def _is_distinctive(prop: Property, case: Case, expected: Result, wrong: Outcome) -> bool:
    """Whether a wrong outcome is so particular that another mistake is unlikely to give it.

    Fractions are particular, and so is nan among right numbers. Only nan, an exception, a yes or no, a zero and a
    single whole number are not.
    """
    if "value" not in wrong or not isinstance(wrong["value"], dict):
        return False
    return any(
        _particular(expected["value"].get(part), value) for part, value in _symptoms(prop, case, wrong["value"]).items()
    )


def _symptoms(prop: Property, case: Case, value):
    """The parts of an outcome that distinguish one mistake from another."""
    probe = PROBES[prop["probe"]]
    if not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if probe.part(name, case).symptom}


def _particular(expected, wrong) -> bool:
    if isinstance(wrong, (list, tuple)) and as_array(wrong) is None or isinstance(wrong, tuple):
        pairs = zip(expected, wrong) if isinstance(expected, (list, tuple)) else ((None, item) for item in wrong)
        return any(_particular(one, other) for one, other in pairs)
    right = None if isinstance(expected, (str, dict, type(None))) else as_array(expected)
    entries = None if isinstance(wrong, (str, dict, type(None))) else as_array(wrong)
    if entries is None:
        return False
    rounding = 1e-6 if right is not None and np.float32 in (entries.dtype, right.dtype) else 1e-13
    if entries.dtype.kind == "b":  # a pattern of at least six, not all alike, and not the right one
        return bool(
            entries.size >= 6
            and 0 < np.count_nonzero(entries) < entries.size
            and (right is None or not np.array_equal(entries, right))
        )
    if right is not None and right.shape == entries.shape:
        lost = np.isnan(entries)
        if 0 < np.count_nonzero(lost) < entries.size and np.allclose(
            entries[~lost], right[~lost], rtol=max(rounding, 1e-9), atol=0
        ):
            return True  # nan in certain places, and all others right
        with np.errstate(all="ignore"):
            entries = entries[~np.isclose(entries, right, rtol=rounding, atol=0, equal_nan=True)]
    entries = np.unique(entries[np.isfinite(entries)])
    return bool(np.any(entries != np.round(entries))) or entries.size >= 3


def _outcomes_within_tolerance(prop: Property, case: Case, a: Outcome, b: Outcome | None) -> bool:
    """Whether two outcomes are the same mistake.

    It is no looser than the property itself: an answer that is off by rounding must not pass for one that is off by an
    epsilon.
    """
    if b is None or a.keys() != b.keys():
        return False
    if (
        "error" in a and "error" in b
    ):  # the same exception by its type and words; its line depends on the student's code
        own_words = "raise " in (b["error"]["code"] or "")  # and so are the words, if the student wrote them
        return all(a["error"][key] == b["error"][key] for key in (["type"] if own_words else ["type", "message"]))
    if "refused" in a and "refused" in b:
        return a["refused"] == b["refused"]
    one, other = (_symptoms(prop, case, outcome.get("value")) for outcome in (a, b))
    return within_tolerance(one, other, prop["rtol"], prop["atol"])


def smallest_first(cases: list[Case]) -> list[int]:
    """The places of cases, those with the fewest numbers first."""
    return sorted(range(len(cases)), key=lambda c: _size(cases[c]))


def _size(value) -> int:
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return int(np.size(value)) if isinstance(value, np.ndarray) else getattr(value, "numel", lambda: 1)()


# Words of a library's error -> what to do.
_ONE_TRUTH = (
    "With arrays, write `&` for `and`, `|` for `or`, `~` for `not`, with parentheses around each comparison; to test "
    "for None, write `is None`"
)
_SHAPES = "Shapes are compared from the right, and their lengths must be equal or 1"
_KEEP = "A sum or a maximum takes its axis away, unless `{}=True` keeps it"
_REDUCTION = re.compile(r"[.](?:sum|mean|max|min|amax|amin|norm|var|std|prod|logsumexp)\(")
_WHOLE = "`/` gives a float even if the division is exact: use `//` for a size"
_ADVICE = {
    "truth value of an array": _ONE_TRUTH,
    "Boolean value of Tensor": _ONE_TRUTH,
    "could not be broadcast together": _SHAPES,
    "must match the size of tensor": _SHAPES,
    "'float' object cannot be interpreted as an integer": _WHOLE,
    "but got float": _WHOLE,
    "modified by an inplace operation": (
        "A number that a gradient needs was written over. Give results a new name, without `+=`, `[...] =` or "
        "functions that end in `_`"
    ),
    "only length-1 arrays can be converted": "Functions of `math` take one number; those of NumPy take arrays",
    "as a data type": "The shape is one argument, a tuple, as in `np.ones((rows, columns))`",
    "Expected target size": "`F.cross_entropy` looks for the classes on axis 1: flatten batch and time into one axis",
}


def error_words(error: ErrorInfo) -> str:
    code = error["code"] or ""
    where = f" in line {error['line']}" if error["line"] else ""
    shown = f": `{code}`" if code else ""
    # A stub raises it without a message; a library that lacks an operation gives one.
    if error["type"] == "NotImplementedError" and code and not error["message"]:
        if "raise" in code:
            return f"this part is not done yet{where}{shown}"
        return f"your code calls something that is not done yet{where}{shown}"
    if error["type"] == "StillRunning":  # see `attnlab.check.outcomes_of`
        return f"{error['message']}{where}{shown}"
    message = f" ({' '.join(error['message'].split())})" if error["message"] else ""
    refuses = code.startswith("raise ") or re.search(rf"\braise {re.escape(error['type'])}\b", code)
    if refuses and error["type"] != "NotImplementedError":
        return f"your code refuses an input that it should accept: it raised {error['type']}{message}{where}{shown}"
    said = f"your code raised {error['type']}{message}{where}{shown}"
    advice = next((advice for words, advice in _ADVICE.items() if words in error["message"]), None)
    if advice is _SHAPES and (lost := _lost_axis(code, error["message"])):
        advice += f". {lost}"
    return f"{said}. {advice}" if advice else said


def _lost_axis(code: str, message: str) -> str | None:
    """How to keep an axis, if a line of an answer, or two shapes, show that one was lost to a sum or a maximum."""
    option = "keepdims" if "broadcast" in message else "keepdim"
    shapes = sorted((text.split(",") for text in re.findall(r"\(([\d,]+)\)", message)), key=len)
    lost = len(shapes) == 2 and any(
        [*shapes[1][:axis], *shapes[1][axis + 1 :]] == [n for n in shapes[0] if n] for axis in range(len(shapes[1]))
    )
    return _KEEP.format(option) if lost or _REDUCTION.search(code) and option not in code else None


def _words(probe: Probe, case: Case, found: Difference) -> str:
    """Describe the failure on the smallest failing input, with that input, the expected result and the student's."""
    shown, words = {}, _sentence(found.words)
    if found.kind in {"value", "nan"} and (huge := _overflowing(case)):
        words += f" `{huge}` contains numbers whose squares are too large for a float: they overflow to infinity."
    if found.kind in {"value", "nan", "shape"}:
        shown = probe.shown(case)
        if not probe.part(found.part, case).verdict and not isinstance(
            found.expected, (dict, str, bool, np.bool_, type(None))
        ):
            shown |= {"expected": found.expected, "yours": found.got}
    elif found.kind == "error":
        shown = probe.shown(case)
    return "\n".join([words, *table(shown)])


def _overflowing(case: Case) -> str | None:
    """The name of an input with a number whose square overflows a float."""
    for name, value in case.items():
        for array in _arrays(value):
            if array.dtype == np.float64 and np.any(np.isfinite(array) & (abs(array) > 1.4e154)):
                return name
    return None


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + ("" if words.endswith(("?", ".")) else ".")


def _discreet(probe: Probe, case: Case, found: Difference) -> str:
    """Describe a failure without inputs, expected values, or anything that a student's process could carry them in."""
    if words := probe.part(found.part, case).discreet_phrase(found):
        return words + "."
    if found.kind == "error":
        # A name made up by the student could spell out the input it was raised on.
        known = getattr(builtins, found.got["error"]["type"], None)
        known = isinstance(known, type) and issubclass(known, BaseException)
        shapes = [f"`{name}` {value.shape}" for name, value in probe.shown(case).items() if hasattr(value, "shape")]
        given = f" on {', '.join(shapes)}".replace("torch.Size", "") if shapes else ""
        return f"Raised {found.got['error']['type'] if known else 'an exception'}{given}."
    return {
        "none": "Returned None.",
        "type": "Returned the wrong kind of value.",
        "refused": "The result is not of the kind asked for, or the class lacks what the exercise names.",
        "shape": "Returned the wrong shape.",
        "dtype": "Returned the wrong kind of number.",
        "nan": "Returned nan where a number was expected.",
        "value": "Returned the wrong numbers.",
        "no answer": "There was no answer.",
        "idle": _sentence(found.words),
    }[found.kind]
