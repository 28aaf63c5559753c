"""The reference answers on efficient attention against PyTorch's own operations, and the facts of the chapter."""

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
from solutions.masks import causal_mask, sliding_window_mask
from tests.references import close, with_gradients

SEED = 120_121


def elu_plus_one(x):
    return F.elu(x) + 1


def weights_written_out(Q, K, V, feature_map, mask=True):
    weights = feature_map(Q) @ feature_map(K).mT * mask
    return weights / weights.sum(-1, keepdim=True) @ V


def fused(Q, K, V, mask=None):
    """PyTorch's own, with zeros where a query may see nothing."""
    if mask is None:
        return F.scaled_dot_product_attention(Q, K, V)
    mask = torch.as_tensor(mask)
    opened = mask | ~mask.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=opened) * mask.any(-1, keepdim=True)


def agree_forward_and_backward(ours, theirs, upstream, *inputs):
    close(with_gradients(ours, upstream, inputs), with_gradients(theirs, upstream, inputs))


# online_softmax


@pytest.mark.parametrize("sizes", [(10,), (1,) * 10, (3, 0, 4, 3), (7, 3)])
def test_the_logarithm_of_the_stream_is_pytorchs_logsumexp(draw, sizes):
    x = 5 * draw(10)
    maximum, total = online_softmax(iter(x.split(list(sizes))))
    assert maximum == x.max()
    assert maximum + math.log(total) == pytest.approx(x.logsumexp(0).item(), rel=1e-14)


@pytest.mark.parametrize("blocks", [[], [[]], [[-math.inf, -math.inf]], [[], [-math.inf]]])
def test_a_stream_without_a_score_has_no_maximum_and_no_total(blocks):
    assert online_softmax([torch.tensor(block) for block in blocks]) == (-math.inf, 0.0)


def test_numpy_rows_and_lists_are_blocks_too():
    assert online_softmax([[0, 1], np.array([1.0])]) == pytest.approx((1.0, 2 + math.exp(-1)))


def test_a_block_that_is_no_row_is_named(draw):
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        online_softmax([draw(2, 3)])


# tiled_attention


@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("n_q, n_k, causal", [(5, 7, False), (7, 7, True), (3, 8, True), (6, 4, True), (1, 5, True)])
def test_tiles_agree_with_fused_attention_forward_and_backward(draw, block_size, n_q, n_k, causal):
    Q, K, V, upstream = 2 * draw(2, n_q, 4), 2 * draw(2, n_k, 4), draw(2, n_k, 3), draw(2, n_q, 3)
    mask = causal_mask(n_q, n_k) if causal else None
    agree_forward_and_backward(
        lambda *x: tiled_attention(*x, block_size, causal), lambda *x: fused(*x, mask), upstream, Q, K, V
    )


@pytest.mark.parametrize("leading", [((), (), ()), ((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), (1,))])
def test_leading_dimensions_broadcast(draw, leading):
    Q, K, V = (draw(*lead, n, d) for lead, n, d in zip(leading, (5, 7, 7), (4, 4, 3)))
    shape = torch.broadcast_shapes(*leading)
    expected = fused(*(x.expand(*shape, *x.shape[-2:]) for x in (Q, K, V)))
    close(tiled_attention(Q, K, V, 2), expected)
    near = torch.as_tensor(sliding_window_mask(5, 2))
    expected = fused(*(x[..., :5, :].expand(*shape, 5, x.shape[-1]) for x in (Q, K, V)), near)
    close(sliding_window_attention(Q, K[..., :5, :], V[..., :5, :], 2), expected)
    close(linear_attention(Q, K, V, elu_plus_one), weights_written_out(Q, K, V, elu_plus_one))


def test_no_key_at_all_brings_home_zeros(draw):
    close(tiled_attention(draw(1, 2, 4), draw(1, 0, 4), draw(1, 0, 3), 2), torch.zeros(1, 2, 3).double())


def test_tiles_beyond_the_diagonal_are_never_made(draw):
    Q, K, V = draw(1, 64, 4), draw(1, 64, 4), draw(1, 64, 3)
    with Meter() as all_tiles:
        tiled_attention(Q, K, V, 8)
    with Meter() as half:
        tiled_attention(Q, K, V, 8, causal=True)
    assert half.work < 0.75 * all_tiles.work


# sliding_window_attention


@pytest.mark.parametrize("n, window", [(1, 1), (7, 1), (7, 3), (40, 5), (40, 17), (40, 39), (40, 100)])
def test_a_window_agrees_with_the_mask_forward_and_backward(draw, n, window):
    Q, K, V, upstream = 2 * draw(2, n, 4), 2 * draw(2, n, 4), draw(2, n, 3), draw(2, n, 3)
    mask = sliding_window_mask(n, window)
    agree_forward_and_backward(
        lambda *x: sliding_window_attention(*x, window), lambda *x: fused(*x, mask), upstream, Q, K, V
    )


# linear_attention


@pytest.mark.parametrize("feature_map", [elu_plus_one, torch.exp, lambda x: torch.cat([x.exp(), (-x).exp()], -1)])
def test_a_sum_agrees_with_the_weights_written_out_forward_and_backward(draw, feature_map):
    Q, K, V, upstream = draw(2, 5, 4), draw(2, 7, 4), draw(2, 7, 3), draw(2, 5, 3)
    agree_forward_and_backward(
        lambda *x: linear_attention(*x, feature_map),
        lambda *x: weights_written_out(*x, feature_map),
        upstream,
        Q,
        K,
        V,
    )


def test_enough_features_make_it_ordinary_attention():
    """exp(q . k) of whole numbers from a short list is a product of features: one for each number on the list."""
    listed = torch.arange(-3.0, 4.0).double()
    Q = torch.tensor([[[1.0], [2.0]]]).double()
    K = torch.tensor([[[-1.0], [3.0], [0.0]]]).double()
    V = torch.eye(3).double()[None]

    def features(x):  # of a query exp(x * each number on the list), of a key which number it is
        return torch.exp(x * listed) if x.shape == Q.shape else (x == listed).double()

    close(linear_attention(Q, K, V, features), fused(Q, K, V))


def test_a_query_whose_weights_are_all_zero_brings_home_zeros_and_finite_gradients(draw):
    Q, K, V = torch.tensor([[[-1.0, -2.0], [1.0, 2.0]]]).double(), draw(1, 3, 2).abs(), draw(1, 3, 4)
    output = linear_attention(Q, K, V, F.relu)
    assert (output[0, 0] == 0).all() and (output[0, 1] != 0).all()
    found = with_gradients(lambda *x: linear_attention(*x, F.relu), output, [Q, K, V])
    assert all(part.isfinite().all() for part in found)


# sizes


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
    ],
)
def test_what_does_not_fit_is_named(attend, Q, K, V, how, words):
    with pytest.raises(ValueError, match=words):
        attend(torch.ones(Q), torch.ones(K), torch.ones(V), how)


# What is held and computed


def grown(f, draw):
    """Memory and work for 512 tokens over those for 256."""
    meters = []
    for n in (256, 512):
        Q, K, V = draw(1, n, 4), draw(1, n, 4), draw(1, n, 3)
        with Meter() as meter:
            f(Q, K, V)
        meters.append(meter)
    return meters[1].numbers / meters[0].numbers, meters[1].work / meters[0].work


@pytest.mark.parametrize(
    "f, memory, work",
    [
        (gpu.naive, 4, 4),
        (lambda *x: tiled_attention(*x, 16), 2, 4),
        (lambda *x: sliding_window_attention(*x, 5), 2, 2),
        (lambda *x: linear_attention(*x, elu_plus_one), 2, 2),
    ],
    ids=["naive", "tiles", "window", "sum"],
)
def test_memory_and_work_grow_as_they_should(draw, f, memory, work):
    assert grown(f, draw) == pytest.approx((memory, work), rel=0.3)


@pytest.mark.parametrize("window", [32, 64])
def test_the_work_of_a_window_is_that_of_n_times_window(draw, window):
    Q, K, V = draw(1, 512, 16), draw(1, 512, 16), draw(1, 512, 16)
    with Meter() as meter:
        sliding_window_attention(Q, K, V, window)
    assert 2 * 512 * window * 16 * 0.9 < meter.work < 3 * 2 * 512 * window * 16


# The chapter's facts


def test_in_tiles_the_stepper_and_the_reference_agree():
    scores, values = (torch.tensor(x, dtype=torch.float64) for x in (TileStepper.SCORES, TileStepper.VALUES))
    # With keys that are the identity, the scaled scores are what stands in the queries.
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
        exact = fused(Q, K, V, past)
        outputs = (
            fused(Q, K, V, near),
            fused(Q, K, V, near | (place == 0)),
            weights_written_out(Q, K, V, elu_plus_one, past),
            past.double() / past.sum(-1, keepdim=True) @ V,
        )
        found[name] = [((out - exact)[64:].norm() / exact[64:].norm()).item() for out in outputs]
    return found


def test_a_window_serves_heads_that_look_near_and_the_first_token_those_that_rest_on_it(errors):
    assert errors["previous"][0] < 0.2 and errors["self"][0] < 0.2
    assert errors["first"][0] > 5 and errors["first"][1] < 0.01
    assert errors["induction"][0] > 1 and errors["induction"][1] > 0.5


def test_on_heads_trained_with_a_softmax_the_sum_is_no_better_than_an_average(errors):
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


def test_where_there_was_not_enough_memory_the_row_says_so(small_run):
    first, last = small_run["attention"]
    found = small_run | {"attention": [first, last | dict(naive_ms=None, naive_bytes=None)]}
    assert gpu.say_attention(found).endswith("naive does not fit")
    assert len(gpu.draw(found).axes[0].lines[0].get_xdata()) == 1
