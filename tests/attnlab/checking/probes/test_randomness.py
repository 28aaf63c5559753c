"""Probes of what an answer draws: from its own generator, with the right probabilities, again or not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.checking import probes
from tests.attnlab.checking.probes.helpers import draw, seen


def test_seeded_tells_own_draws_from_global_ones():
    good = seen("seeded", lambda rng: rng.normal(), seed=1)
    assert good == {"repeats": True, "varies": True, "global_untouched": True}
    state = np.random.get_state()[1].copy()
    bad = seen("seeded", lambda rng: np.random.normal(), seed=1)
    assert bad == {"repeats": False, "varies": False, "global_untouched": False} or not bad["global_untouched"]
    assert np.array_equal(np.random.get_state()[1], state)
    assert seen("seeded", lambda rng: 0.0, seed=1) == {"repeats": True, "varies": False, "global_untouched": True}


def test_a_number_from_theory_is_not_a_sample():
    case = dict(seed=1, regions={"near three": [2.0, 4.0]})
    assert seen("lands_in", lambda rng: 3.0 + 0.1 * rng.random(), **case) == {"about": "near three"}
    assert seen("lands_in", lambda rng: 3.0, **case) == {"about": "the same number with every rng"}
    assert seen("lands_in", lambda rng: 9.0 + rng.random(), **case)["about"] > 9


def test_a_formula_with_noise_does_not_spread_as_a_sample_does():
    case = dict(seed=1, spread={"much": [0.5, 2.0]})
    assert seen("lands_in", lambda rng: 3.0 + rng.normal(), **case) == {"spread": "much"}
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


def draws(f, **inputs):
    return seen("frequencies", f, **{"seed": 5, "draws": 20_000, "logits": LOGITS, **inputs})


def test_frequencies_come_near_the_probabilities():
    torch.testing.assert_close(draws(draw)["frequencies"], LOGITS.softmax(-1), rtol=0, atol=0.02)


def test_what_else_the_function_takes_is_passed_on():
    torch.testing.assert_close(draws(draw, warmth=0.5)["frequencies"], (2 * LOGITS).softmax(-1), rtol=0, atol=0.02)


def test_tokens_that_can_not_be_drawn_are_told_apart():
    assert torch.equal(draws(draw)["possible"], LOGITS > -math.inf)


def test_frequencies_of_one_row_have_one_dimension():
    assert draws(draw, logits=LOGITS[0])["frequencies"].shape == (4,)


def test_frequencies_repeat():
    assert torch.equal(draws(draw)["frequencies"], draws(draw)["frequencies"])


def test_a_function_that_always_takes_the_largest_shows():
    got = draws(lambda logits, generator: logits.argmax(-1))
    assert got["possible"].sum(-1).tolist() == [1, 1]


def test_logits_of_the_case_stay_when_the_function_alters_its_own():
    logits = LOGITS.clone()

    def spoil(logits, generator):
        ids = draw(logits, generator)
        logits.zero_()
        return ids

    draws(spoil, logits=logits)
    assert torch.equal(logits, LOGITS)


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
    refused = draws(lambda logits, generator: wrong(draw(logits, generator)))["refused"]
    assert words in refused


def seeded(f):
    return seen("generator_seeded", f, seed=7, logits=LOGITS.repeat(20, 1))


def seeds_the_global_state(logits, generator):
    torch.manual_seed(0)
    return draw(logits, generator)


@pytest.mark.parametrize(
    "f, repeats, varies, untouched",
    [
        (draw, True, True, True),
        (lambda logits, generator: draw(logits, None), False, True, False),
        (lambda logits, generator: draw(logits, torch.Generator().manual_seed(0)), True, False, True),
        (seeds_the_global_state, True, True, False),
    ],
    ids=["its generator alone", "the global state", "a seed of its own", "seeds the global state"],
)
def test_where_a_function_draws_from_shows(f, repeats, varies, untouched):
    expected = {"generator_repeats": repeats, "generator_varies": varies, "torch_untouched": untouched, "changed": ""}
    assert seeded(f) == expected


def test_altered_logits_are_named():
    def spoil(logits, generator):
        logits[logits < 0.7] = -math.inf
        return draw(logits, generator)

    assert seeded(spoil)["changed"] == "logits"


@pytest.mark.parametrize("f", [draw, lambda logits, generator: draw(logits, None)])
def test_the_global_state_is_as_it_was_after_the_probe(f):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    seeded(f)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_state_is_as_it_was_after_an_error():
    def fails(logits, generator):
        torch.rand(1)
        raise ValueError("no")

    before = torch.get_rng_state()
    assert seeded(fails)["error"]["type"] == "ValueError"
    assert torch.equal(torch.get_rng_state(), before)


WIDTH = 3
WEIGHT = {"W.weight": torch.tensor([[1.0, 2, 0], [0, 1, -1], [2, 0, 1]], dtype=torch.float64)}
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Drops(nn.Module):
    """A map, and a dropout that is written in one of several ways."""

    def __init__(self, width, how):
        super().__init__()
        self.W, self.how, self.calls = nn.Linear(width, width, bias=False), how, 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        y = scale * self.W(x)
        if self.how == "counts":
            return y * self.calls
        if self.how == "in place":
            x.zero_()
        return nn.functional.dropout(y, 0.5, self.how == "always" or self.how == "in training" and self.training)


def again(how, **inputs):
    torch.manual_seed(4)
    return seen("repeated", Drops, init={"width": WIDTH, "how": how}, weights=WEIGHT, x=X, **inputs)


@pytest.mark.parametrize(
    "how, steady",
    [
        ("never", [True] * 6),
        ("in training", [True] * 3 + [False] * 3),
        ("always", [False] * 6),
        ("counts", [False] * 6),
    ],
)
def test_dropout_shows_in_training_or_wherever_it_is_on(how, steady):
    assert again(how)["steady"].tolist() == steady


@pytest.mark.parametrize("how", ["never", "in training", "in place"])
def test_the_result_of_a_repeated_call_is_that_of_evaluation(how):
    torch.testing.assert_close(again(how)["result"], X @ WEIGHT["W.weight"].T)


def test_other_inputs_of_a_repeated_call_are_passed_on():
    torch.testing.assert_close(again("never", scale=2.0)["result"], 2 * X @ WEIGHT["W.weight"].T)


def test_a_repeated_call_on_a_module_that_lacks_a_parameter_is_told():
    got = seen("repeated", Drops, init={"width": WIDTH, "how": "never"}, weights={"V.weight": X}, x=X)
    assert "has no parameter `V.weight`" in got["refused"]
