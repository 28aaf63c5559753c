"""Probes of what an answer returns, refuses and leaves alone, for a good and for a bad answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.checking import probes
from attnlab.checking.observe import observe
from tests.attnlab.checking.probes.helpers import seen, words

X = np.array([1.0, 2.0])


def test_unchanged_names_what_was_altered_and_shows_it():
    def spoil(x, rows, keep):
        x *= 2
        rows[0].append(1)
        return 0.0

    got = seen("unchanged", spoil, x=X.copy(), rows=[[], []], keep=X.copy())
    assert got["changed"] == "x, rows" and got["result"] == 0.0
    assert np.array_equal(got["after"]["x"], 2 * X) and np.array_equal(got["after"]["keep"], X)


def test_unchanged_calls_twice_with_the_same_input():
    def hoard(x, seen=[]):  # noqa: B006 (the mistake under test)
        seen.append(x.sum())
        x += 1
        return sum(seen)

    seen = probes.unchanged.call(hoard, x=X.copy())
    assert (seen["result"], seen["second call"]) == (3.0, 6.0)


def test_unchanged_writes_into_the_first_result_before_the_second_call():
    table = np.arange(3.0)
    assert seen("unchanged", lambda n: table[:n], n=3)["second call"].tolist() == [7, 7, 7]
    assert seen("unchanged", lambda n: np.arange(3.0)[:n], n=3)["second call"].tolist() == [0, 1, 2]


class Scaled(nn.Module):
    """Keeps nothing: x times a parameter, where a mask allows it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x, mask=None):
        return self.weight * x if mask is None else self.weight * x * mask


class KeepsAll(Scaled):
    def forward(self, x, mask=None):
        self.made = getattr(self, "made", None) if hasattr(self, "made") else super().forward(x, mask)
        return self.made


class KeepsTheMask(Scaled):
    last = None

    def forward(self, x, mask=None):
        self.last = mask if mask is not None else self.last
        return super().forward(x, self.last)


class KeepsAnOffset(Scaled):
    """Zeros of the first length do not fit another."""

    def forward(self, x, mask=None):
        self.zeros = getattr(self, "zeros", torch.zeros_like(x))
        return super().forward(x, mask) + self.zeros


class KeepsAWeight(Scaled):
    def forward(self, x, mask=None):
        self.copy = getattr(self, "copy", self.weight.detach().clone())
        return self.copy * x


class Drops(Scaled):
    def forward(self, x, mask=None):
        return super().forward(x + torch.rand_like(x), mask)


@pytest.mark.parametrize(
    "module, kept, told",
    [
        (Scaled, "", None),
        (KeepsAll, "on another input of the same shape", "It keeps something between calls: on another input"),
        (KeepsTheMask, "without what was given before", "Compute everything from the arguments"),
        (KeepsAnOffset, "on a shorter input", "on a shorter input, it does not give what a new module gives"),
        (KeepsAWeight, "after its parameters changed", "after its parameters changed"),
        (Drops, "called first", "something is drawn at random"),
    ],
)
def test_unchanged_says_when_a_module_gives_something_else_than_a_new_one(module, kept, told):
    case = dict(
        init={},
        weights={"weight": torch.ones(3)},
        x=torch.arange(12.0).reshape(2, 2, 3),
        mask=torch.tensor([1.0, 0.0]).reshape(1, 2, 1),
    )
    found = seen("unchanged", module, **case)
    assert found["kept"] == kept
    assert told is None or told in words("unchanged", {"kept": ""}, {"kept": kept}, **case)


@pytest.mark.parametrize(
    "result, kind",
    [
        (7, "a whole number"),
        (np.int32(7), "a whole number"),
        (np.array([7]), "a whole number"),
        (7.0, "a float"),
        (np.array([7.0]), "a float"),
        (True, "a truth value"),
        (10**30, "a whole number"),
        ((np.array([0.5]), np.array([7])), "a float and a whole number"),
        ((np.array([7], np.int8), np.array([7], np.int32)), "a whole number of one byte and a whole number"),
    ],
)
def test_whole_tells_the_kind_of_number(result, kind):
    assert seen("whole", lambda: result)["kind"] == kind


@pytest.mark.parametrize(
    "error, name",
    [
        (ValueError, "ValueError"),
        (RuntimeError, "ValueError"),
        (KeyError, "KeyError"),
        (np.linalg.LinAlgError, "ValueError"),
        (IndexError, "IndexError"),
    ],
)
def test_error_of_tells_the_type(error, name):
    def refuse():
        raise error("x")

    assert probes.error_of.call(refuse) == {"raises": name, "result": None}


def test_endless_recursion_and_a_stub_are_not_refusals():
    def endless():
        return endless()

    def stub():
        raise NotImplementedError

    for f, name in ((endless, "RecursionError"), (stub, "NotImplementedError")):
        assert observe(f, "error_of", {})["error"]["type"] == name


def test_what_rounding_moves_is_not_moved_clearly():
    got = seen("moved", lambda x: 3 * x, name="x", replacement=X + [1e-12, 1e-3], x=X)
    assert got["moved"].tolist() == [True, True] and got["moved clearly"].tolist() == [False, True]
    whole = seen("moved", lambda x: x, name="x", replacement=np.array([1, 3]), x=np.array([1, 2]))
    assert whole["moved clearly"].tolist() == [False, True]


def test_nan_before_and_after_has_not_moved():
    got = seen(
        "moved", lambda x: np.where(x < 3, np.nan, x), x=np.arange(5.0), name="x", replacement=np.arange(5.0) + 1
    )
    assert got["moved"].tolist() == got["moved clearly"].tolist() == [False, False, True, True, True]


def test_again_tells_what_was_altered_and_handed_out_twice():
    import functools

    def doubled(x):
        x *= 2
        return x.copy()

    assert seen("again", doubled, x=X.copy()) == {"result": pytest.approx([2, 4]), "changed": "x", "second call": True}
    got = seen("again", functools.cache(np.arange), start=0, stop=3)
    assert got["result"].tolist() == [0, 1, 2] and not got["second call"] and not got["changed"]


@pytest.mark.parametrize(
    ("experts", "twice", "chosen"),
    [([[2, 0]], False, [[3, 3]]), ([[0, 2]], False, [[3, 3]]), ([[0, 0]], True, [[3, 3]]), ([[0, 1]], False, [[3, 1]])],
)
def test_chosen_leaves_open_which_of_two_equal_entries_comes_first(experts, twice, chosen):
    logits, weights = torch.tensor([[3.0, 1.0, 3.0]]), torch.tensor([[0.5, 0.5]])
    got = seen("chosen", lambda logits, top_k: (weights, torch.tensor(experts)), logits=logits, top_k=2)
    assert (got["twice"], got["result"][1].tolist()) == (twice, chosen)
    assert got["kind"] == "a float and a whole number"


def test_moved_looks_at_the_first_of_several_outputs_and_at_shapes():
    assert not seen("moved", lambda x: (x * 0, x), name="x", replacement=2 * X, x=X)["moved"].any()
    assert "shape (2,) became (1,)" in seen("moved", lambda x: x, name="x", replacement=X[:1], x=X)["moved"]


def test_nan_in_the_same_place_is_not_a_change():
    one, other = np.array([1.0, 2.0]), np.array([1.2, 9.0])
    got = seen("moved", lambda x: np.where(x > 1.5, np.nan, x), name="x", replacement=other, x=one)
    assert got["moved"].tolist() == got["moved clearly"].tolist() == [True, False]


def test_where_results_are_drawn_at_random_nothing_is_said_about_what_moves():
    rng = np.random.default_rng(1)
    got = seen("moved", lambda x: x + rng.normal(size=2), name="x", replacement=2 * X, x=X)
    assert "it gives another result" in got["moved"] and got["moved clearly"] == got["moved"]


def test_moved_gives_each_call_inputs_of_its_own():
    def spoil(x, y):
        y += 1
        return x + y

    assert not seen("moved", spoil, name="x", replacement=X.copy(), x=X, y=np.zeros(2))["moved"].any()


def test_moved_takes_tensors_with_gradients():
    torch = pytest.importorskip("torch")
    weight = torch.ones(2, requires_grad=True)
    x = torch.tensor([1.0, 2.0])
    got = seen("moved", lambda x: x * weight, name="x", replacement=torch.tensor([1.0, 3.0]), x=x)
    assert got["moved"].tolist() == [False, True]


@pytest.mark.parametrize(
    "expected, got, phrase",
    [
        ("ValueError", "nothing", "It raised nothing where it should raise ValueError"),
        ("nothing", "ValueError", "It raised ValueError or RuntimeError on input that it should accept"),
        ("ValueError", "KeyError", "It raised KeyError where it should raise ValueError"),
    ],
)
def test_a_refusal_that_is_missing_or_too_many_has_its_words(expected, got, phrase):
    assert words("error_of", {"raises": expected}, {"raises": got}) == phrase


def test_the_names_of_altered_inputs_are_in_the_words():
    assert words("unchanged", {"changed": ""}, {"changed": "x, mask"}) == "It altered its input: x, mask"
