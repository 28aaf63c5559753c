"""Facts that the masks chapter states, and the words of its references' errors."""

import functools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.masks import (
    causal_attention,
    causal_mask,
    document_mask,
    masked_softmax,
    padding_mask,
    sliding_window_mask,
)
from tests.references import CAT_SAT
from tests.references import attention as torch_attention

SEED = 40_041
close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *((causal_mask, sizes, "negative") for sizes in ((-1,), (2, -1))),
        (padding_mask, ([0], -1), "length"),
        *((padding_mask, (lengths, 5), "length") for lengths in ([2, -1], [2, 6], [[2, 1]], 3)),
        (sliding_window_mask, (-1, 2), "negative"),
        (document_mask, (3,), "one number per token"),
        *((sliding_window_mask, (4, window), str(window)) for window in (0, -3)),
        (causal_attention, [np.ones(shape) for shape in ((3, 4), (5, 3), (5, 2))], "width 4.*width 3"),
        (causal_attention, [np.ones(shape) for shape in ((3, 4), (5, 4), (6, 2))], "5 keys.*6 values"),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# the chapter's facts


def test_only_a_square_causal_mask_is_pytorchs_is_causal(rng):
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


def test_half_precision_cannot_hold_minus_a_thousand_million():
    assert torch.tensor(-1e9).half() == -torch.inf
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(1).half().masked_fill(torch.tensor([True]), -1e9)


def test_a_window_reaches_one_window_less_one_further_with_each_layer():
    reach = np.linalg.matrix_power(sliding_window_mask(12, 4).astype(int), 3) > 0
    assert reach[-1].sum() == 1 + 3 * 3
