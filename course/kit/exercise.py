"""The one mechanism behind the check, the hidden test and the mutation test.

An exercise is a reference, a list of properties (what must hold, on which inputs, for how many points) and a list of
misconceptions (wrong answers, each with a sentence that teaches). `material(rng)` turns these into plain data by
running the reference and the misconceptions on the inputs; `attnlab.checking.judge` does the rest.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnlab.checking import codec, probes, schema
from attnlab.checking.compare import within_tolerance
from attnlab.checking.observe import outcome_of, raw_outcomes_of
from attnlab.checking.probes import PROBES, Probe
from attnlab.checking.schema import Case, Outcome, Result
from course.kit import library_shortcuts
from course.kit.edits import Edit, wrong_answers

PUBLIC_SEED = 2017
DRAWS = 9  # a property of few possible cases may draw the public ones by chance, several times over


@dataclass(frozen=True)
class Property:
    """A requirement on answers. `cases(rng)` returns or yields the inputs; `reference` may replace the exercise's."""

    title: str
    points: float
    cases: Callable[[np.random.Generator], Case | Iterable[Case]]
    probe: Probe
    hint: str
    rtol: float
    atol: float
    reference: Callable | None


@dataclass(frozen=True)
class Misconception:
    """A wrong answer, and the sentence that explains the mistake to the student.

    make: returns the wrong answer; called once, when it is first needed
    """

    text: str
    make: Callable[[], Callable]
    section: str | None

    @functools.cached_property
    def wrong(self) -> Callable:
        return self.make()


@dataclass(frozen=True)
class Written:
    """A chapter's question that is graded by hand. The rubric is only for the instructor."""

    points: float
    rubric: str


@dataclass
class Exercise:
    """One exercise, known by the name of its reference.

    section: the heading of the chapter that explains it, verbatim
    bonus: a stretch exercise; its points are added on top
    minutes: an estimate of how long a student takes who has read the chapter
    needless: parameters that a right answer need not use, so that `check` does not remark on it
    difficulty: 1 (easy), 2 (medium) or 3 (hard), also an estimate
    """

    reference: Callable
    section: str
    bonus: bool = False
    minutes: int | None = None
    difficulty: int | None = None
    needless: tuple[str, ...] = ()
    properties: list[Property] = field(default_factory=list)
    misconceptions: list[Misconception] = field(default_factory=list)

    def __post_init__(self):
        if self.difficulty not in {None, 1, 2, 3}:
            raise ValueError(f"the difficulty of {self.name} is 1, 2 or 3, not {self.difficulty!r}")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"the minutes of {self.name} are a number above 0, not {self.minutes!r}")

    @property
    def name(self) -> str:
        return self.reference.__name__

    @property
    def points(self) -> float:
        return float(sum(p.points for p in self.properties))

    def property(
        self,
        title: str,
        *,
        points: float,
        hint: str = "",
        probe: Probe = probes.call,
        rtol: float = 1e-9,
        atol: float = 1e-12,
        reference: Callable | None = None,
    ):
        """Declares a property; decorates the function that yields its cases, or returns a single one."""

        def declare(cases):
            self.properties.append(Property(title, points, cases, probe, hint, rtol, atol, reference))
            return cases

        return declare

    def unchanged(self, cases, *, title="leaves its inputs as they were", hint="Work on new arrays.", **options):
        """Declare that inputs are not altered, and that a second call gives the same result."""
        self._usual(probes.unchanged, cases, title, hint, options)

    def gradients(
        self,
        cases,
        *,
        title="lets gradients through",
        hint="Use only tensor operations; detach nothing.",
        **options,
    ):
        """Declare that gradients of the results are right; each case has an `upstream` tensor for each result."""
        self._usual(probes.gradients, cases, title, hint, options)

    def any_device(
        self,
        cases,
        *,
        title="works on any device",
        hint="Create new tensors with `device=x.device`.",
        **options,
    ):
        """Declare that results are computed on the device of the inputs."""
        self._usual(probes.elsewhere, cases, title, hint, options)

    def refuses(
        self,
        cases,
        *,
        title="refuses sizes that do not fit",
        hint="Raise ValueError, and only where sizes do not fit.",
        **options,
    ):
        """Declare which inputs raise ValueError; cases that are right show that others do not."""
        self._usual(probes.error_of, cases, title, hint, options)

    def _usual(self, probe: Probe, cases, title: str, hint: str, options: dict[str, Any]) -> None:
        self.property(title, probe=probe, hint=hint, **{"points": 1, **options})(cases)

    def mistakes(self, *edits: Edit, see: str | None = None) -> None:
        """Declare misconceptions that are edits of the reference's text, in their order: see `course.kit.edits`.

        see: the heading to read for those that name none
        """
        for change in edits:
            for make in wrong_answers(self.reference, change):
                self.misconceptions.append(Misconception(change.sentence, make, change.section or see))

    def misconception(self, text: str, *, section: str | None = None):
        """Declare a misconception that no edit can say.

        Decorates the wrong answer, a function of the exercise's own parameters.
        """

        def declare(wrong):
            self.misconceptions.append(Misconception(text, lambda: wrong, section))
            return wrong

        return declare

    def material(self, seed=PUBLIC_SEED, misconceptions: bool = True) -> schema.Material:
        """The plain data an answer is judged by, on inputs drawn from `seed`.

        misconceptions: whether to also run the wrong answers; needed only to explain an answer that failed.
        """
        signature = inspect.signature(self.reference)
        bare = signature.replace(
            return_annotation=signature.empty,
            parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
        )
        made: schema.Material = {
            "name": self.name,
            "signature": str(bare),
            "parameters": list(signature.parameters),
            "chapter": self.reference.__module__.rpartition(".")[2],
            "section": self.section,
            "bonus": self.bonus,
            "by_hand": library_shortcuts.full(self.reference),
            "misconceptions": [],
            "properties": [self._property_material(p, seed) for p in self.properties],
        }
        if self.needless:
            made["needless"] = list(self.needless)
        if misconceptions:
            self.explain(made)
        return made

    def explain(self, material: schema.Material) -> schema.Material:
        """Adds to material what each misconception gives on its inputs."""
        material["misconceptions"] = [
            {"text": m.text, "section": m.section, "outcomes": _outcomes(m.wrong, material["properties"])}
            for m in self.misconceptions
        ]
        return material

    def inputs(self, prop: Property, seed) -> list[Case]:
        """The inputs of each case of one property of this exercise, drawn from `seed`.

        They are copied as `attnlab.checking.codec` does, since an answer gets them as bytes: two names for one array
        become two arrays. A secret seed that happens to draw nothing but public cases draws
        again.
        """
        drawn = self._drawn(prop, seed)
        if seed != PUBLIC_SEED:
            public = set(map(codec.frame, self._drawn(prop, PUBLIC_SEED)))
            for attempt in range(DRAWS):
                if not public.issuperset(map(codec.frame, drawn)):
                    break
                drawn = self._drawn(prop, seed, f"again {attempt}")
        return drawn

    def _drawn(self, prop: Property, seed, *again: str) -> list[Case]:
        drawn = prop.cases(_stream(seed, self.name, prop.title, *again))
        return [codec.copied(case) for case in ([drawn] if isinstance(drawn, dict) else drawn)]

    def _property_material(self, prop: Property, seed) -> schema.Property:
        cases = self.inputs(prop, seed)
        reference = prop.reference or self.reference
        raw = [raw_outcomes_of(reference, prop.probe.name, case) for case in cases]
        expected = [prop.probe.verdict(case, outcomes) for case, outcomes in zip(cases, raw)]
        results: list[Result] = []
        for outcome in expected:
            if "value" not in outcome or outcome["value"].get("in_time") is False:
                raise RuntimeError(f"the reference of {self.name} fails on “{prop.title}”: {outcome}")
            results.append(outcome)
        return {
            "title": prop.title,
            "points": prop.points,
            "probe": prop.probe.name,
            "hint": prop.hint,
            "rtol": prop.rtol,
            "atol": prop.atol,
            "cases": cases,
            "expected": results,
            "replies": [[-(-len(codec.frame(outcome)) // 1024) for outcome in row] for row in raw],
        }


def _outcomes(answer, properties: list[schema.Property]) -> list[list[Outcome]]:
    return [
        [_kept(outcome_of(answer, p["probe"], case), right, p, case) for case, right in zip(p["cases"], p["expected"])]
        for p in properties
    ]


def _kept(outcome: Outcome, right: Result, prop: schema.Property, case: Case) -> Outcome:
    """The part of a wrong answer's outcome that is stored: without its source, and only its symptoms."""
    if "error" in outcome:
        outcome["error"].update(line=None, code=None)
    found = outcome["value"] if "value" in outcome else {}
    for part, value in found.items():
        if not PROBES[prop["probe"]].part(part, case).symptom:
            expected = right["value"][part]
            is_right = within_tolerance(expected, value, prop["rtol"], prop["atol"])
            found[part] = expected if is_right else None
    return outcome


def compact(material: schema.Material) -> schema.Material:
    """Prepare material for storage: None replaces a misconception's result where it is right."""
    stored: Any = material["misconceptions"]
    for m in stored:
        m["outcomes"] = [
            [
                None
                if "value" in wrong and within_tolerance(right["value"], wrong["value"], p["rtol"], p["atol"])
                else wrong
                for right, wrong in zip(p["expected"], row)
            ]
            for p, row in zip(material["properties"], m["outcomes"])
        ]
    return material


def _stream(seed, *names: str) -> np.random.Generator:
    """A separate generator per property, so that adding one does not change the inputs of another."""
    words = [int.from_bytes(name.encode("utf-8"), "little") for name in names]
    return np.random.default_rng([int(seed), *words])
