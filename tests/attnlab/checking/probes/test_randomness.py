"""Probes of what an answer draws: from its own generator, again or not, and no forged state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.checking import probes
from tests.attnlab.checking.probes.helpers import draw, seen


def near_three(rng):
    return 3.0 + rng.normal()


@pytest.mark.parametrize(
    "answer, flags",
    [
        (near_three, [True, True, True]),
        (lambda rng: np.random.normal(), [False, True, False]),
        (lambda rng: 3.0, [True, False, True]),
    ],
    ids=["rng alone", "the global state", "a constant"],
)
def test_where_a_function_draws_numbers_from_shows_and_the_global_state_is_put_back(answer, flags):
    before = np.random.get_state()[1].copy()
    found = seen("seeded", answer, seed=1)
    assert [found[flag] for flag in ("repeats", "varies", "global_untouched")] == flags
    assert np.array_equal(np.random.get_state()[1], before)


def test_a_number_from_theory_or_with_a_little_noise_is_not_a_sample():
    case = dict(seed=1, regions={"near three": [-9.0, 9.0]})
    assert seen("lands_in", near_three, **case) == {"about": "near three"}
    assert seen("lands_in", lambda rng: 3.0, **case) == {"about": "the same number with every rng"}
    case = dict(seed=1, spread={"much": [0.5, 2.0]})
    assert seen("lands_in", near_three, **case) == {"spread": "much"}
    assert seen("lands_in", lambda rng: 3.0 + 0.01 * rng.normal(), **case)["spread"] < 0.02


@pytest.mark.parametrize("dtype, enough", [(np.float64, True), (np.float32, True), (None, False)])
def test_the_state_of_the_generator_says_how_many_numbers_were_drawn(dtype, enough):
    def draws(rng):
        return float(rng.standard_normal(200 if dtype else 3, dtype=dtype or np.float64).sum())

    assert seen("seeded", draws, seed=5, least=100)["drawn"] is enough


def test_a_generator_made_up_has_drawn_nothing():
    raw = [dict(result=0.5, rng=np.random.default_rng(9).bit_generator.state, **{"global": []}) for _ in range(3)]
    outcomes = [{"value": value} for value in raw]
    assert probes.seeded.verdict(dict(seed=5, least=1), outcomes)["value"]["drawn"] is False


def test_handing_back_the_generator_is_not_a_draw():
    assert "Generator" in seen("seeded", lambda rng: rng, seed=1)["refused"]


LOGITS = torch.tensor([[0.0, 1.0, -math.inf, 2.0], [3.0, -math.inf, 0.5, 3.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda ids: ids.double(), "torch.float64"),
        (lambda ids: ids[..., None], "(20000, 2, 1)"),
        (lambda ids: ids.tolist(), "list"),
        (lambda ids: ids + 1, "from 1 to 4"),
        (lambda ids: ids - 1, "from -1 to 2"),
    ],
    ids=["floats", "shape", "list", "too large", "negative"],
)
def test_a_result_without_tokens_is_refused_in_a_sentence(wrong, words):
    def draws(logits, generator):
        return wrong(draw(logits, generator))

    assert words in seen("frequencies", draws, seed=5, draws=20_000, logits=LOGITS)["refused"]


def seeds_the_global_state(logits, generator):
    torch.manual_seed(0)
    return draw(logits, generator)


def seeded_where_none_is_given(seed):
    return lambda logits, generator: draw(logits, generator or torch.Generator().manual_seed(seed()))


def resets(logits, generator):
    return draw(logits, generator and generator.manual_seed(generator.initial_seed()))


def spoils(logits, generator):
    logits[logits < 0.7] = -math.inf
    return draw(logits, generator)


def fails(logits, generator):
    torch.rand(1)
    raise ValueError("no")


@pytest.mark.parametrize(
    "f, expected",
    [
        (draw, [True, True, True, True, True, True, True, ""]),
        (lambda logits, generator: draw(logits, None), [False, True, True, False, True, True, True, ""]),
        (
            lambda logits, generator: draw(logits, torch.Generator().manual_seed(0)),
            [True, False, False, True, True, False, False, ""],
        ),
        (seeds_the_global_state, [True, True, True, False, True, False, False, ""]),
        (seeded_where_none_is_given(lambda: 0), [True, True, True, True, True, False, False, ""]),
        (seeded_where_none_is_given(torch.initial_seed), [True, True, True, True, True, True, False, ""]),
        (seeded_where_none_is_given(torch.seed), [True, True, True, True, False, True, True, ""]),
        (resets, [True, True, False, True, True, True, True, ""]),
        (spoils, [True, True, True, True, True, True, True, "logits"]),
        (fails, None),
    ],
    ids=[
        "its generator alone",
        "the global state",
        "a seed of its own",
        "seeds the global state",
        "a fixed seed without a generator",
        "the same seed without a generator",
        "a seed by chance without a generator",
        "resets its generator",
        "spoils",
        "fails",
    ],
)
def test_where_a_function_draws_tokens_from_shows_and_the_global_state_is_put_back(f, expected):
    before = torch.get_rng_state()
    found = seen("generator_seeded", f, seed=7, logits=LOGITS.repeat(20, 1))
    assert torch.equal(torch.get_rng_state(), before)
    if expected is None:
        assert found["error"]["type"] == "ValueError"
    else:
        flags = [
            *("generator_repeats", "generator_varies", "generator_goes_on", "torch_untouched"),
            *("global_repeats", "global_varies", "global_goes_on", "changed"),
        ]
        assert [found[flag] for flag in flags] == expected


class Drops(nn.Module):
    """A map, and a dropout that is written in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.W, self.how, self.calls = nn.Linear(3, 3, bias=False), how, 0

    def forward(self, x):
        self.calls += 1
        y = self.W(x)
        if self.how == "counts":
            return y * self.calls
        if self.how == "in place":
            x.zero_()
        return nn.functional.dropout(y, 0.5, self.how == "always" or self.how == "in training" and self.training)


@pytest.mark.parametrize(
    "how, steady",
    [
        ("in place", [True] * 6),
        ("in training", [True] * 3 + [False] * 3),
        ("always", [False] * 6),
        ("counts", [False] * 6),
    ],
)
def test_dropout_shows_in_training_or_wherever_it_is_on(how, steady):
    torch.manual_seed(4)
    assert seen("repeated", Drops, init={"how": how}, x=torch.randn(2, 7, 3))["steady"].tolist() == steady
