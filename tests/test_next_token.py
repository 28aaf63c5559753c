"""Facts that the chapter on the loss of a language model states, and the words of its references' errors."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from solutions.next_token import masked_next_token_loss, next_token_loss

SEED = 40_041


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *((next_token_loss, (np.ones((1, len(ids), 5)), np.array([ids], int)), "two") for ids in ([2], [])),
        (next_token_loss, (np.ones((0, 3, 5)), np.zeros((0, 3), int)), "two"),
        *((next_token_loss, (np.ones((1, 3, 5)), [ids]), "between 0 and 4") for ids in ([0, 5, 1], [0, 1, -1])),
        *((next_token_loss, (np.ones(shape), [[0, 1, 2]]), "do not fit") for shape in ((1, 4, 5), (2, 3, 5), (3, 5))),
        *(
            (masked_next_token_loss, (np.ones((2, 3, 5)), np.zeros(ids, int), np.ones(counted, bool)), "do not fit")
            for ids, counted in (((2, 4), (2, 4)), ((2, 3), (2, 2)), ((1, 3), (2, 3)))
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# the chapter's facts


def test_the_loss_of_the_cat_sat_by_hand():
    logits = np.log([[[1.0, 2.0, 1.0], [1.0, 1.0, 6.0], [5.0, 1.0, 2.0]]])
    assert next_token_loss(logits, np.array([[0, 1, 2]])) == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_the_masked_loss_is_pytorchs_with_an_index_to_ignore(rng):
    logits, tokens, counted = rng.normal(size=(3, 5, 7)), rng.integers(0, 7, (3, 5)), rng.random((3, 5)) < 0.5
    targets = torch.from_numpy(np.where(counted, tokens, -100))[:, 1:]
    expected = F.cross_entropy(torch.from_numpy(logits)[:, :-1].flatten(0, 1), targets.flatten())
    assert masked_next_token_loss(logits, tokens, counted) == pytest.approx(expected.item(), rel=1e-12)
    everything = masked_next_token_loss(logits, tokens, np.ones((3, 5), bool))
    assert everything == pytest.approx(next_token_loss(logits, tokens))


def empty_row_gradients(weights_of):
    """Names of Q, K and V whose gradient holds nan, when the second of three rows is empty and not used."""
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, False]])
    q, k, v = (
        part.clone().requires_grad_() for part in torch.from_numpy(np.random.default_rng(SEED).normal(size=(3, 3, 2)))
    )
    output = weights_of(q @ k.T, mask) @ v
    output[[0, 2]].sum().backward()
    return "".join(name for name, part in zip("QKV", (q, k, v)) if part.grad.isnan().any())


def test_gradients_are_finite_only_where_the_empty_row_is_opened_before_the_softmax():
    def repaired(scores, mask):
        return (scores + torch.zeros(3, 3).masked_fill(~mask, -torch.inf)).softmax(-1).nan_to_num(0.0)

    def opened(scores, mask):
        hidden = scores.masked_fill(~mask, -torch.inf)
        return hidden.masked_fill(~mask.any(-1, keepdim=True), 0.0).softmax(-1).masked_fill(~mask, 0.0)

    assert (empty_row_gradients(repaired), empty_row_gradients(opened)) == ("QK", "")
