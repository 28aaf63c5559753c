"""An exercise as plain data: inputs from a seed, what the reference gives, what each mistake gives."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.check import examine
from attnlab.checking import codec, probes
from attnlab.checking.compare import within_tolerance
from attnlab.checking.observe import outcome_of
from course.kit.exercise import PUBLIC_SEED, Exercise
from tests.course.toy_exercise import doubled, make


def cases(material: dict, p: int = 0) -> dict:
    return {str(i): case for i, case in enumerate(material["properties"][p]["cases"])}


def test_an_exercise_has_the_name_of_its_reference_and_the_sum_of_its_points():
    exercise = make()
    assert exercise.name == "doubled" and exercise.points == 4.0


def test_material_is_plain_data():
    material = make().material()
    assert within_tolerance(codec.unpack(codec.pack(material)), material)


def test_one_seed_gives_the_same_inputs_and_another_seed_others():
    exercise = make()
    assert within_tolerance(cases(exercise.material(5)), cases(exercise.material(5)))
    assert not within_tolerance(cases(exercise.material(5)), cases(exercise.material(6)))
    assert within_tolerance(cases(exercise.material()), cases(exercise.material(PUBLIC_SEED)))


def test_a_new_property_does_not_change_the_inputs_of_the_others():
    before, exercise = make().material(5), make()

    @exercise.property("something else", points=1)
    def more(rng):
        yield dict(x=rng.normal(size=7))

    exercise.properties.insert(0, exercise.properties.pop())
    assert within_tolerance(cases(before, 0), cases(exercise.material(5), 1))


def test_running_the_answers_leaves_the_inputs_as_they_were():
    """The mistake that works in place must not spoil the inputs of those after it."""
    exercise = make()
    drawn = cases(exercise.material(5, misconceptions=False), 1)
    assert within_tolerance(cases(exercise.material(5), 1), drawn)


def test_the_signature_is_told_without_annotations():
    def spread(x: np.ndarray, axis: int = -1) -> np.ndarray:
        return x

    exercise = Exercise(spread, section="S")
    exercise.property("any", points=1)(lambda rng: [dict(x=1.0)])
    material = exercise.material()
    assert material["signature"] == "(x, axis=-1)" and material["parameters"] == ["x", "axis"]


def test_a_property_may_have_a_reference_of_its_own():
    exercise = Exercise(doubled, section="S")
    exercise.property("theory", points=1, reference=lambda x: x * 0.0)(lambda rng: [dict(x=np.ones(2))])
    (expected,) = exercise.material()["properties"][0]["expected"]
    assert within_tolerance(expected["value"]["result"], np.zeros(2))


def test_a_reference_that_fails_is_an_error_that_names_the_property():
    exercise = Exercise(doubled, section="S")
    exercise.property("on a matrix", points=1)(lambda rng: [dict(x=np.ones((2, 2)))])
    with pytest.raises(Exception, match="doubled fails on .on a matrix."):
        exercise.material()


def test_misconceptions_are_run_only_when_asked_for():
    assert make().material(5, misconceptions=False)["misconceptions"] == []
    assert len(make().material(5)["misconceptions"]) == 4


def test_two_names_for_one_array_in_a_case_become_two_arrays():
    """An answer gets its inputs as bytes; a mistake that writes into them must be recorded on inputs of that kind."""

    def adds(a, b):
        return a + b

    exercise = Exercise(adds, section="Here")

    @exercise.property("adds", points=1)
    def of_one_array(rng):
        x = rng.normal(size=3)
        yield dict(a=x, b=x)

    (case,) = exercise.material(5)["properties"][0]["cases"]
    assert case["a"] is not case["b"]


def test_values_that_do_not_show_a_mistake_are_kept_only_as_right_or_wrong():
    mistakes = {m["text"]: m["outcomes"][1][0]["value"] for m in make().material(5)["misconceptions"]}
    (in_place,) = (value for text, value in mistakes.items() if "in place" in text)
    assert in_place["changed"] == "x" and in_place["after"] is None
    assert all("x" in value["after"] for value in mistakes.values() if value is not in_place)


def summed(x):
    return np.cumsum(x)


def test_a_mistake_is_known_whatever_its_last_bits_are():
    """They are others on another processor, so a wrong answer there is not bit for bit the one that was recorded."""
    exercise = Exercise(summed, section="S")

    @exercise.property("lets nothing later move what comes before", points=1, probe=probes.moved)
    def later(rng):
        x = rng.normal(size=8)
        yield dict(x=x, name="x", replacement=np.append(x[:5], [1.0, 2.0, 3.0]))

    def leaking(some):
        return lambda x: np.cumsum(x) + np.arange(8) % some * 1e-13 * x.sum()

    exercise.misconception("All is summed, and the rest taken away again.")(leaking(3))
    material = exercise.material()
    here, there = (
        {"outcome": outcome_of(leaking(n), "moved", material["properties"][0]["cases"][0])["value"]} for n in (3, 4)
    )
    assert not within_tolerance(here, there)
    assert not within_tolerance(here["outcome"]["moved"], material["properties"][0]["expected"][0]["value"]["moved"])
    for answer in (leaking(3), leaking(4)):
        (finding,) = examine(answer, material).findings
        assert not finding.passed and finding.misconception == "All is summed, and the rest taken away again."
    (finding,) = examine(lambda x: np.cumsum(x[::-1]), material).findings
    assert not finding.passed and finding.misconception is None
