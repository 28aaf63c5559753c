"""Cases drawn from a secret seed, on which a mistake costs as much as on the public ones."""

from __future__ import annotations

import pytest

from attnlab.checking import codec
from attnlab.checking.judge import judge
from course import catalog
from course.kit.exercise import PUBLIC_SEED, Exercise
from course.kit.hunt import without_hunts
from tests.conftest import HIDDEN_SEED

EXERCISES = without_hunts(catalog.all_exercises())


@pytest.mark.parametrize("seed", (HIDDEN_SEED, 271828))
@pytest.mark.parametrize("name", EXERCISES)
def test_no_property_is_earned_by_a_table_of_the_public_cases(name, seed):
    """Bit for bit: a property whose hidden cases are all public ones is passed by who has looked up their answers."""
    exercise = EXERCISES[name]
    learned = [
        prop.title
        for prop in exercise.properties
        if _frames(exercise.inputs(prop, seed)) <= _frames(exercise.inputs(prop, PUBLIC_SEED))
    ]
    assert learned == []


def test_a_seed_that_draws_the_public_cases_draws_again():
    exercise = Exercise(lambda x: x, section="Why")
    exercise.property("one of two", points=1)(lambda rng: [dict(x=float(rng.integers(2)))])
    prop = exercise.properties[0]
    public = exercise.inputs(prop, PUBLIC_SEED)
    assert all(exercise.inputs(prop, seed) != public for seed in range(20))
    assert exercise.inputs(prop, 3) == exercise.inputs(prop, 3)


@pytest.mark.parametrize("name", EXERCISES)
def test_no_text_that_is_read_in_chunks_has_an_empty_one(name):
    """A right answer may look for the smallest id of a chunk, and an empty one has none."""
    short = []
    for prop in EXERCISES[name].properties:
        for case in EXERCISES[name].inputs(prop, PUBLIC_SEED):
            if case.get("cuts"):
                read = [value for key, value in case.items() if key in ("x", "ids", "beside")]
                short += [prop.title for text in read if text.shape[1] <= max(case["cuts"])]
    assert short == []


def _frames(cases) -> set[bytes]:
    return set(map(codec.frame, cases))


@pytest.mark.long
@pytest.mark.parametrize("name", ("dot", "cosine_similarity", "self_attention"))
def test_a_mistake_loses_the_same_properties_whatever_the_seed(name):
    """Those that lost a sign, or dropped a mask, once got away with it where no case held the thing that shows it."""
    lost = {}
    for seed in (PUBLIC_SEED, 1, 6, 7):
        material = EXERCISES[name].material(seed)
        for mistake, made in zip(EXERCISES[name].misconceptions, material["misconceptions"]):
            findings = judge(material, made["outcomes"], show_cases=False).findings
            failed = tuple(finding.title for finding in findings if not finding.passed)
            lost.setdefault((mistake.text, mistake.wrong), set()).add(failed)
    assert [(mistake, kinds) for (mistake, _), kinds in lost.items() if len(kinds) > 1] == []
