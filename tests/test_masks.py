"""Facts that the masks chapter states, and the words of its references' errors."""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.masks import (
    causal_attention,
    causal_mask,
    masked_softmax,
    next_token_loss,
    padding_mask,
    sliding_window_mask,
)
from tests.references import CAT_SAT
from tests.references import attention as torch_attention

SEED = 40_041
close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


# sizes


@pytest.mark.parametrize(
    "mask, arguments",
    [(causal_mask, (-1,)), (causal_mask, (2, -1)), (padding_mask, ([0], -1)), (sliding_window_mask, (-1, 2))],
)
def test_negative_sizes_raise_value_error(mask, arguments):
    with pytest.raises(ValueError):
        mask(*arguments)


def test_masks_and_weights_without_tokens_are_empty():
    assert [causal_mask(*sizes).shape for sizes in ((3, 0), (0, 3), (0, 0))] == [(3, 0), (0, 3), (0, 0)]
    assert sliding_window_mask(0, 3).shape == (0, 0)
    assert masked_softmax(np.zeros((3, 0)), np.zeros((3, 0), dtype=bool)).shape == (3, 0)


@pytest.mark.parametrize("lengths", [[2, -1], [2, 6], [[2, 1]], 3])
def test_impossible_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="length"):
        padding_mask(lengths, 5)


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_below_one_is_refused(window):
    with pytest.raises(ValueError, match=str(window)):
        sliding_window_mask(4, window)


@pytest.mark.parametrize("k, v, words", [((5, 3), (5, 2), "width 4.*width 3"), ((5, 4), (6, 2), "5 keys.*6 values")])
def test_sizes_that_do_not_fit_are_named(rng, k, v, words):
    with pytest.raises(ValueError, match=words):
        causal_attention(rng.normal(size=(3, 4)), rng.normal(size=k), rng.normal(size=v))


def test_a_single_sentence_without_a_batch_and_lists_are_accepted(rng):
    logits, tokens = rng.normal(size=(4, 5)), [0, 3, 1, 2]
    assert next_token_loss(logits, tokens) == next_token_loss(logits[None], [tokens])


@pytest.mark.parametrize(
    "shape, tokens, words",
    [
        ((1, 1, 5), [[2]], "two"),
        ((1, 0, 5), np.zeros((1, 0), int), "two"),
        ((0, 3, 5), np.zeros((0, 3), int), "two"),
        ((1, 3, 5), [[0, 5, 1]], "between 0 and 4"),
        ((1, 3, 5), [[0, 1, -1]], "between 0 and 4"),
        ((1, 3, 5), [[7, 1, 1]], "between 0 and 4"),
        ((1, 4, 5), [[0, 1, 2]], "do not fit"),
        ((2, 3, 5), [[0, 1, 2]], "do not fit"),
        ((3, 5), [[0, 1, 2]], "do not fit"),
    ],
)
def test_tokens_that_leave_no_prediction_or_do_not_fit_are_refused(rng, shape, tokens, words):
    with pytest.raises(ValueError, match=words):
        next_token_loss(rng.normal(size=shape), np.asarray(tokens))


# the chapter's facts


def test_padding_makes_a_batch_agree_with_its_sentences_alone(rng):
    x, lengths = rng.normal(size=(3, 6, 4)), [6, 2, 3]
    weights = masked_softmax(x @ np.swapaxes(x, 1, 2), padding_mask(lengths, 6))
    for sentence, row, length in zip(x, weights, lengths):
        alone = sentence[:length]
        close((row @ sentence)[:length], torch.softmax(torch.from_numpy(alone @ alone.T), -1).numpy() @ alone)


@pytest.mark.filterwarnings("error")
def test_hidden_scores_have_no_effect_however_large_and_visible_ones_may_be_very_low():
    weights = masked_softmax(np.array([[-1e150, -1e150, 1e150], [1e150, 0.0, -1e150]]), np.array([True, True, False]))
    assert np.array_equal(weights, [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])


def test_a_square_causal_mask_is_pytorchs_is_causal_and_a_wide_one_is_aligned_to_the_other_corner(rng):
    Q, K, V = rng.normal(size=(3, 1, 2, 7, 4))
    close(torch_attention(Q, K, V, causal_mask(7)), torch_attention(Q, K, V, is_causal=True))
    Q = Q[:, :, :2]
    close(torch_attention(Q, K, V, is_causal=True), torch_attention(Q, K, V, np.tri(2, 7, dtype=bool)))
    assert np.abs(torch_attention(Q, K, V, is_causal=True) - torch_attention(Q, K, V, causal_mask(2, 7))).max() > 0.1


@pytest.mark.parametrize("n_q, n_k", [(3, 8), (2, 5)])
def test_the_causal_mask_is_pytorchs_causal_lower_right_bias(rng, n_q, n_k):
    from torch.nn.attention.bias import causal_lower_right  # two seconds, which no other test of this file needs

    Q, K = rng.normal(size=(1, 1, n_q, 4)), rng.normal(size=(1, 1, n_k, 4))
    theirs = F.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, K)), attn_mask=causal_lower_right(n_q, n_k))
    close(theirs.numpy(), torch_attention(Q, K, K, causal_mask(n_q, n_k)))


def test_the_cat_sat_under_a_causal_mask_agrees_with_the_paper_calculation():
    X = np.array(CAT_SAT)
    output, weights = causal_attention(X, X, X)
    assert np.round(weights, 3).tolist() == [[1.0, 0.0, 0.0], [0.269, 0.731, 0.0], [0.274, 0.274, 0.452]]
    assert np.round(output[1], 3).tolist() == [0.269, 0.731, 0.269, 0.731]
    close(output[2], torch_attention(X, X, X)[2])


def test_every_head_of_the_real_model_uses_28_of_49_entries():
    recording = data.seven_tokens()
    assert causal_mask(7).sum() == 28
    assert np.array_equal(recording.weights > 0, np.broadcast_to(causal_mask(7), recording.weights.shape))
    np.testing.assert_allclose(masked_softmax(recording.scores, causal_mask(7)), recording.weights, atol=1e-5)


def test_the_loss_of_the_cat_sat_by_hand():
    logits = np.log([[[1.0, 2.0, 1.0], [1.0, 1.0, 6.0], [5.0, 1.0, 2.0]]])
    assert next_token_loss(logits, np.array([[0, 1, 2]])) == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_one_pass_gives_the_predictions_of_all_beginnings(rng):
    x = rng.normal(size=(7, 4))
    one_pass = causal_attention(x, x, x)[0]
    for t in range(1, 8):
        close(one_pass[t - 1], causal_attention(x[:t], x[:t], x[:t])[0][-1])


def test_new_queries_against_kept_keys_continue_one_pass(rng):
    x = rng.normal(size=(7, 4))
    close(causal_attention(x[5:], x, x)[0], causal_attention(x, x, x)[0][5:])


def test_pytorchs_two_attentions_disagree_on_what_true_means(rng):
    x = torch.from_numpy(rng.normal(size=(1, 4, 6)))
    module = torch.nn.MultiheadAttention(6, 1, batch_first=True, bias=False).double()
    mask = torch.from_numpy(causal_mask(4))
    weights = module(x, x, x, attn_mask=~mask)[1][0].detach()
    assert torch.equal(weights > 0, mask)
    eye = torch.eye(4, dtype=torch.float64)[None]
    assert torch.equal(F.scaled_dot_product_attention(x, x, eye, attn_mask=mask)[0] > 0, mask)


def test_pytorchs_softmax_gives_nan_for_an_empty_row_and_its_attention_gives_zeros(rng):
    assert torch.softmax(torch.full((3,), -torch.inf), dim=-1).isnan().all()
    Q = rng.normal(size=(1, 2, 4))
    assert not torch_attention(Q, Q, Q, np.array([[False, False], [True, True]]))[0, 0].any()


def empty_row_gradients(weights_of):
    """Names of Q, K and V whose gradient holds nan, when the second of three rows is empty and not used."""
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, False]])
    q, k, v = (
        part.clone().requires_grad_() for part in torch.from_numpy(np.random.default_rng(SEED).normal(size=(3, 3, 2)))
    )
    output = weights_of(q @ k.T, mask) @ v
    output[[0, 2]].sum().backward()
    return "".join(name for name, part in zip("QKV", (q, k, v)) if part.grad.isnan().any())


def test_a_forward_repair_of_an_added_mask_still_gives_nan_gradients():
    def repaired(scores, mask):
        return (scores + torch.zeros(3, 3).masked_fill(~mask, -torch.inf)).softmax(-1).nan_to_num(0.0)

    assert empty_row_gradients(repaired) == "QK"


def test_opening_the_empty_row_before_the_softmax_gives_finite_gradients():
    def opened(scores, mask):
        hidden = scores.masked_fill(~mask, -torch.inf)
        return hidden.masked_fill(~mask.any(-1, keepdim=True), 0.0).softmax(-1).masked_fill(~mask, 0.0)

    assert empty_row_gradients(opened) == ""


def test_half_precision_cannot_hold_minus_a_thousand_million():
    assert torch.tensor(-1e9).half() == -torch.inf
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(1).half().masked_fill(torch.tensor([True]), -1e9)


def test_a_window_reaches_one_window_less_one_further_with_each_layer():
    reach = np.linalg.matrix_power(sliding_window_mask(12, 4).astype(int), 3) > 0
    assert reach[-1].sum() == 1 + 3 * 3
