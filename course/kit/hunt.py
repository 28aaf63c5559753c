"""Exercises in which the student writes a test: see `attnlab.checking.hunting.examination`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attnlab.checking import probes, schema
from attnlab.checking.hunting import examination
from course.kit.exercise import PUBLIC_SEED, Exercise, Property

# Each right implementation is tried that often, so that a test that decides by chance does not get through.
ROUNDS = 2
A_VERDICT = {"accepted": True, "error": None}


def without_hunts(exercises: Mapping[str, Exercise]) -> dict[str, Exercise]:
    """Those in which a student writes an implementation, and no test of one."""
    return {name: exercise for name, exercise in exercises.items() if not isinstance(exercise, Hunt)}


@dataclass
class Hunt(Exercise):
    """A test as an exercise. Its reference is a thorough test.

    of: the exercise whose implementations are tried; right: implementations of the contract, by how each differs
    worth: points, which are a bonus; methods: of objects, where implementations are classes
    random: whether an implementation may draw from PyTorch's global generator
    errors: whether the contract of the hunt has refusals
    """

    of: Exercise = field(kw_only=True)
    right: Mapping[str, Callable] = field(kw_only=True)
    worth: float = field(kw_only=True)
    methods: list[str] | None = None
    random: bool = False
    errors: bool = False

    def __post_init__(self):
        super().__post_init__()
        self.bonus = True
        for title, points in ((examination.ACCEPTS, 0.0), (examination.FINDS, self.worth)):
            self.properties.append(Property(title, points, lambda rng: [], probes.call, "", 0.0, 0.0, None))

    @property
    def contract(self) -> schema.Contract:
        return {"of": self.of.name, "methods": self.methods, "random": self.random, "errors": self.errors}

    def material(self, seed=PUBLIC_SEED, misconceptions: bool = True) -> schema.Material:
        """The data of the hunt. The hidden ones have a case for each verdict, the public ones none."""
        made = super().material(seed, misconceptions=False)
        made["hunt"] = self.contract
        if seed != PUBLIC_SEED:
            for prop, cases in zip(made["properties"], (self._right_cases() * ROUNDS, self._wrong_cases())):
                prop["cases"] = cases
                prop["expected"] = [{"value": A_VERDICT} for _ in cases]
                prop["replies"] = [[1] for _ in cases]
        return made

    def explain(self, material: schema.Material) -> schema.Material:
        return material

    def _right_cases(self) -> list[schema.Case]:
        """The right implementations, by how each differs from what a student would write."""
        return [{"words": f"is the course's own {self.of.name}"}, *({"words": words} for words in self.right)]

    def _wrong_cases(self) -> list[schema.Case]:
        """The exercise's mistakes that a test can find, by number. The words say what each fails to do first.

        Mistakes that one sentence explains are one mistake, such as small numbers of several sizes in a total.
        """
        theirs, found, explained = self.of.material(misconceptions=False), [], set()
        for number, mistake in enumerate(self.of.misconceptions):
            if mistake.text in explained:
                continue
            explained.add(mistake.text)
            kept = examination.kept_properties(mistake.make, theirs, self.contract)
            if lost := [theirs["properties"][p]["title"] for p, right in kept.items() if not right]:
                found.append({"mistake": number, "words": f"it fails to do this: “{lost[0]}”"})
        return found

    def implementation(self, case: schema.Case) -> Callable:
        """The implementation of a hidden case. A wrong one is made afresh: it may keep something between calls."""
        if "mistake" in case:
            return self.of.misconceptions[case["mistake"]].make()
        return self.right.get(case["words"], self.of.reference)
