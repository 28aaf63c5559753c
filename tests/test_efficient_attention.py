"""Facts that the chapter on efficient attention states, and the words of its references' errors."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data, gpu
from attnlab.checking.meter import Meter
from attnlab.widgets import TileStepper
from solutions.efficient_attention import linear_attention, online_softmax, sliding_window_attention, tiled_attention
from solutions.language_model import LanguageModel, generate
from tests.references import close

SEED = 120_121


def elu_plus_one(x):
    return F.elu(x) + 1


@pytest.mark.parametrize(
    "attend, how", [(tiled_attention, 2), (sliding_window_attention, 2), (linear_attention, elu_plus_one)]
)
def test_leading_dimensions_broadcast(draw, attend, how):
    Q, K, V = draw(2, 1, 5, 4), draw(3, 5, 4), draw(1, 5, 3)
    flat = [x.expand(2, 3, *x.shape[-2:]).flatten(0, 1) for x in (Q, K, V)]
    close(attend(Q, K, V, how).flatten(0, 1), attend(*flat, how))


@pytest.mark.parametrize(
    "attend, Q, K, V, how, words",
    [
        (tiled_attention, (2, 3, 4), (2, 5, 6), (2, 5, 3), 2, r"\(2, 5"),
        (tiled_attention, (2, 3, 4), (2, 5, 4), (2, 6, 3), 2, r"\(2, 5"),
        (tiled_attention, (2, 3, 4), (2, 5, 4), (2, 5, 3), 0, "at least 1, got 0"),
        (sliding_window_attention, (1, 5, 4), (1, 5, 4), (1, 5, 3), 0, "got 0"),
        (sliding_window_attention, (1, 4, 4), (1, 5, 4), (1, 5, 3), 2, "4 queries and 5 keys"),
        (sliding_window_attention, (1, 5, 4), (1, 5, 6), (1, 5, 3), 2, "do not fit"),
        (sliding_window_attention, (1, 5, 4), (1, 5, 4), (1, 6, 3), 2, "do not fit"),
        (linear_attention, (2, 3, 4), (2, 5, 6), (2, 5, 3), elu_plus_one, "do not fit"),
        (linear_attention, (2, 3, 4), (2, 5, 4), (2, 1, 3), elu_plus_one, "do not fit"),
        (lambda Q, *_: online_softmax([Q]), (2, 3), (), (), 0, r"\(2, 3\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(attend, Q, K, V, how, words):
    with pytest.raises(ValueError, match=words):
        attend(torch.ones(Q), torch.ones(K), torch.ones(V), how)


# the chapter's facts


def test_tiles_beyond_the_diagonal_are_never_made(draw):
    def work(causal):
        with Meter() as meter:
            tiled_attention(draw(1, 64, 4), draw(1, 64, 4), draw(1, 64, 3), 8, causal)
        return meter.work

    assert work(causal=True) < 0.75 * work(causal=False)


def test_enough_features_make_a_sum_ordinary_attention():
    """exp(q . k) of whole numbers from a short list is a product of features: one for each number on the list."""
    listed = torch.arange(-3.0, 4.0).double()
    Q, K = torch.tensor([[[1.0], [2.0]]]).double(), torch.tensor([[[-1.0], [3.0], [0.0]]]).double()
    V = torch.eye(3).double()[None]

    def features(x):  # of a query exp(x * each number on the list), of a key which number it is
        return torch.exp(x * listed) if x.shape == Q.shape else (x == listed).double()

    close(linear_attention(Q, K, V, features), F.scaled_dot_product_attention(Q, K, V))


def test_in_tiles_the_stepper_and_the_reference_agree():
    scores, values = (torch.tensor(x, dtype=torch.float64) for x in (TileStepper.SCORES, TileStepper.VALUES))
    # With keys that are the identity, the scaled scores are the queries' own numbers.
    Q = scores * math.log(2) * math.sqrt(scores.shape[1])
    close(tiled_attention(Q, torch.eye(6).double(), values, 2), torch.softmax(scores * math.log(2), -1) @ values)


@pytest.fixture(scope="module")
def errors():
    """Relative errors over the second half of the text.

    returns: head -> window of 16, the same with the first token, sum, average of the past
    """
    story, found = data.long_text(), {}
    place = torch.arange(128)
    past = place <= place[:, None]
    near = past & (place > place[:, None] - 16)
    for name in story.heads:
        Q, K, V = (torch.tensor(part[name]) for part in (story.queries, story.keys, story.values))
        exact, *outputs = (
            F.scaled_dot_product_attention(Q, K, V, attn_mask=mask) for mask in (past, near, near | (place == 0))
        )
        for shares in (elu_plus_one(Q) @ elu_plus_one(K).mT * past, past.double()):
            outputs.append(shares.to(V.dtype) / shares.sum(-1, keepdim=True) @ V)
        found[name] = [((out - exact)[64:].norm() / exact[64:].norm()).item() for out in outputs]
    return found


def test_a_window_serves_heads_that_look_near_and_the_first_token_those_that_rest_on_it(errors):
    assert errors["previous"][0] < 0.2 and errors["self"][0] < 0.2
    assert errors["first"][0] > 5 and errors["first"][1] < 0.01
    assert errors["induction"][0] > 1 and errors["induction"][1] > 0.5


def test_on_heads_trained_with_a_softmax_the_sum_is_as_far_off_as_an_average(errors):
    for _, _, summed, average in errors.values():
        assert summed == pytest.approx(average, rel=0.05)


def test_the_recorded_heads_and_distances_fit_together():
    story = data.long_text()
    place = torch.arange(128)
    for name, (layer, head) in story.heads.items():
        Q, K = (torch.tensor(part[name]) for part in (story.queries, story.keys))
        weights = (Q @ K.T / 8).masked_fill(place > place[:, None], -math.inf).softmax(-1)
        rows = torch.stack([weights[i, i - 63 : i + 1].flip(0) for i in range(64, 128)])
        assert np.abs(rows.mean(0).numpy() - story.by_distance[layer, head]).max() < 5e-3
        assert weights[64:, 0].mean().item() == pytest.approx(story.on_first[layer, head], abs=5e-3)
    assert (story.by_distance.sum(-1) + story.on_first < 1.01).all()


# What the cells for a GPU call, tried on the CPU


@pytest.fixture(scope="module")
def small_run():
    model = LanguageModel(vocab_size=200, d_model=8, n_layers=1, n_heads=2, n_kv_heads=1, d_ff=8).eval()
    return gpu.machine("cpu") | {
        "attention": gpu.attention_costs("cpu", lengths=(16, 32), heads=2, width=4, repeats=2),
        "decoding": gpu.decoding_costs(model, generate, "cpu", prompt=5, new=3, repeats=1),
    }


def test_a_run_names_the_device_and_its_numbers_can_be_shown(small_run):
    assert [row["n"] for row in small_run["attention"]] == [16, 32]
    measured = ("naive_ms", "naive_bytes", "fused_ms", "fused_bytes")
    assert all(row[name] > 0 for row in small_run["attention"] for name in measured)
    assert small_run["decoding"]["same_text"] is True
    assert f"measured here: CPU\n  torch {torch.__version__}" in gpu.say_attention(small_run)
    assert gpu.say_attention(small_run).count("\n") == 5 and "tokens a second" in gpu.say_decoding(small_run)
    assert len(gpu.draw(small_run).axes) == 2


def test_the_page_shows_a_recording_where_there_is_no_gpu():
    found = data.gpu()
    assert [row["n"] for row in found["attention"]] == list(gpu.LENGTHS) and found["decoding"]["same_text"] is True
    assert gpu.say_attention(found).startswith(f"recorded on: {found['device']}")
    assert all(row["fused_ms"] < row["naive_ms"] for row in found["attention"])
    assert len(gpu.draw(found).axes) == 2


def test_where_there_was_not_enough_memory_the_row_says_so(small_run):
    first, last = small_run["attention"]
    found = small_run | {"attention": [first, last | dict(naive_ms=None, naive_bytes=None)]}
    assert gpu.say_attention(found).endswith("naive does not fit")
    assert len(gpu.draw(found).axes[0].lines[0].get_xdata()) == 1
