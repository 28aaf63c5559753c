"""Behavior that all probes have in common."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.checking import probes
from attnlab.checking.probes import PROBES, Probe
from attnlab.checking.probes.base import bitwise_equal

X = np.array([1.0, 2.0])


def test_each_probe_is_an_attribute_of_the_package():
    assert all(getattr(probes, name) is probe and probe.name == name for name, probe in PROBES.items())


@pytest.mark.parametrize("probe", PROBES)
def test_words_on_hidden_inputs_hold_no_value(probe):
    for part in PROBES[probe].parts.values():
        assert part.discreet or "{" not in part.words
        assert callable(part.discreet) or "{" not in part.discreet


def test_keyword_only_parameters_are_not_arguments_of_the_answer():
    growth = dict(seed=1, n=4, shapes={}, large={}, entries=5, watched=[], window=3, init={}, weights={})
    assert PROBES["growth"].arguments(growth) == {"window": 3}
    assert PROBES["elsewhere"].arguments({"probe": "moved", "name": "x", "replacement": X, "x": X}).keys() == {"x"}


def test_inputs_for_the_conclusion_alone_are_neither_given_to_the_answer_nor_shown():
    case = dict(d=3, seed=1, regions={"d": [0.0, 1.0]})
    assert [call.keys() for call in PROBES["lands_in"].calls(case)] == [{"d", "seed"}] * 2
    assert PROBES["lands_in"].shown(case) == {"d": 3, "seed": 1}


def test_weights_are_not_shown_and_how_an_object_is_made_comes_first():
    assert list(PROBES["gradients"].shown(dict(x=1, init={"d": 2}, weights={}, upstream=[]))) == ["made with", "x"]


@pytest.mark.parametrize(
    "before, after",
    [
        (np.float32([1.0]), np.float64([1.0])),
        ([1], [1.0]),
        ((1,), [1]),
        (0.0, -0.0),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_bitwise_equality_is_strict(before, after):
    assert bitwise_equal(before, before) and not bitwise_equal(before, after)


def test_a_nan_is_bitwise_equal_to_itself():
    assert bitwise_equal(np.array([np.nan]), np.array([np.nan]))


CONCLUDING = sorted(name for name, probe in PROBES.items() if type(probe).conclude is not Probe.conclude)


@pytest.mark.parametrize("probe", [name for name in CONCLUDING if name != "elsewhere"])
@pytest.mark.parametrize("forged", [None, {}, {"result": True}, {"repeats": True, "in_time": True, "about": "d"}])
def test_a_conclusion_that_a_students_process_makes_itself_does_not_count(probe, forged):
    """A value that is not a raw result leads to nothing right, and never to an exception."""
    case = dict(x=X, seed=1, seconds=1.0, entries=1, regions={"d": [0.0, 1.0]}, ids=X, n_blocks=1, draws=2, logits=X)
    case |= dict(steps=[], layers=[], watched=["still"], large={"n": 2, "count": 1, "size": 1}, blocks=[])
    outcome = PROBES[probe].verdict(case, [{"value": forged}] * 4)
    right = {"changed": "", "in_time": True, "about": "d", "repeats": True}
    assert (
        not right.items()
        & {key: v for key, v in outcome.get("value", {}).items() if isinstance(v, (str, bool))}.items()
    )
