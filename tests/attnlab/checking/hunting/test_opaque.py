"""Values pass between a test and an implementation, and nothing else."""

import numpy as np
import pytest
import torch

from attnlab.checking.hunting import opaque
from attnlab.checking.hunting.opaque import Host, LimitReached, verdict

FUNCTION = {"of": "double", "methods": None, "random": False, "errors": False}
RANDOM = {**FUNCTION, "random": True}
CLASS = {"of": "Counter", "methods": ["add", "__len__"], "random": False, "errors": True}


def through(implementation, contract=FUNCTION):
    return opaque.opaque(contract, Host(implementation, contract).local)


class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, x):
        if x.ndim != 1:
            raise ValueError("one axis")
        self.count += len(x)
        return self.count

    def __len__(self):
        return self.count


def test_results_come_back_with_their_dtype_and_shape():
    double = through(lambda x, by=2: (x * by, [by]))
    for x in (np.arange(6.0).reshape(2, 3), np.arange(3), torch.ones(2, dtype=torch.bfloat16)):
        result, used = double(x, by=3)
        assert type(result) is type(x) and result.dtype == x.dtype and result.shape == x.shape and used == [3]


def test_a_class_becomes_a_class_whose_objects_are_apart():
    made = through(Counter, CLASS)
    one, other = made(), made(start=5)
    assert one.add(np.ones(3)) == 3 and len(one) == 3 and len(other) == 5
    with pytest.raises(ValueError):
        one.add(np.ones((2, 2)))
    assert len(one) == 3
    assert not hasattr(one, "count")


def test_a_changed_input_is_changed_for_the_caller_too():
    def spoils(x, y):
        x *= 0
        return y

    for x in (np.ones(3), torch.ones(3)):
        y = x + 1
        through(spoils)(x, y=y)
        assert not x.any() and bool((y == 2).all())


def test_a_generator_draws_here_as_it_would_there():
    def draws(n, generator=None):
        return torch.rand(n, generator=generator)

    source, twin = (torch.Generator().manual_seed(3) for _ in range(2))
    opaque_draws = through(draws, RANDOM)
    for _ in range(2):
        assert torch.equal(opaque_draws(4, generator=source), draws(4, generator=twin))
    torch.manual_seed(1)
    first = opaque_draws(4)
    torch.manual_seed(1)
    assert torch.equal(draws(4), first) and not torch.equal(opaque_draws(4), first)


def test_only_the_type_of_an_exception_comes_back():
    def raises(x):
        raise np.exceptions.AxisError("secret words")

    with pytest.raises(ValueError) as caught:
        through(raises)(1)
    assert "secret" not in str(caught.value)

    class Own(Exception):
        pass

    def raises_its_own(x):
        raise Own("secret words")

    with pytest.raises(Exception) as caught:
        through(raises_its_own)(1)
    assert "secret" not in str(caught.value) and type(caught.value) is not Own


def test_nothing_of_the_implementation_can_be_read_from_its_name():
    one, other = through(lambda x: x), through(np.sin)
    assert one.__name__ == other.__name__ == "double" and one.__qualname__ == other.__qualname__


@pytest.mark.parametrize(
    "x", [np.ones(5000), np.ones((50, 100)), np.ones((0, 5000)), [0.0] * 5000, torch.ones(5000), np.ones((5000, 0))]
)
def test_arguments_of_more_numbers_than_allowed_are_refused(x):
    with pytest.raises(LimitReached, match="4,096"):
        through(lambda x: 0)(x)


def test_a_test_that_calls_without_end_is_refused_and_so_are_calls_that_take_too_long(monkeypatch):
    double = through(lambda x: 2 * x)
    for _ in range(opaque.MOST_CALLS):
        double(1)
    with pytest.raises(LimitReached, match="1,000 calls"):
        double(1)
    monkeypatch.setattr(opaque, "MOST_SECONDS", -1.0)
    with pytest.raises(LimitReached, match="seconds"):
        through(lambda x: x)(1)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"object": -1, "method": "add", "given": {}, "generators": {}, "state": None},
        {"object": 0, "method": "__class__", "given": {}, "generators": {}, "state": None},
        {"object": 7, "method": "add", "given": {}, "generators": {}, "state": None},
        {"object": None, "method": "", "given": [], "generators": {}, "state": None},
        {"object": None, "method": "", "given": {"1": 3}, "generators": {}, "state": None},
        {"object": None, "method": "", "given": {}, "generators": {"0": np.ones(3)}, "state": None},
        {"object": "0", "method": "add", "given": {}, "generators": {}, "state": None},
    ],
)
def test_a_forged_message_is_answered_with_words(message):
    host = Host(Counter, CLASS)
    host.answer({"object": None, "method": "", "given": {}, "generators": {}, "state": None})
    assert host.answer(message)["refused"] == "that is not a call"


def test_a_forged_random_state_changes_nothing():
    host = Host(lambda: torch.rand(1), RANDOM)
    before = torch.get_rng_state()
    message = {"object": None, "method": "", "given": {}, "generators": {}, "state": torch.zeros(3)}
    assert "raised" in host.answer(message)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_verdict_is_whether_the_test_returned_and_seeds_are_the_same_for_each():
    drawn = []

    def test(implementation):
        drawn.append((np.random.rand(), torch.rand(1).item()))
        assert implementation(2) == 4

    assert verdict(test, through(lambda x: 2 * x), str)["accepted"]
    rejected = verdict(test, through(lambda x: x), str)
    assert not rejected["accepted"] and isinstance(rejected["error"], str)
    assert drawn[0] == drawn[1]
    assert verdict(lambda implementation: False, None, str)["accepted"]
