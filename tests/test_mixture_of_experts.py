"""Facts that the chapter on experts states, and the words of its references' errors."""

import pytest
import torch

from solutions.mixture_of_experts import MixtureOfExperts, load_balance_loss, route
from tests.references import close

SEED = 19_191


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: route(torch.ones(2, 3, 4), 2), "2 of"),
        (lambda: route(torch.ones(3, 4), 0), "0 of"),
        (lambda: route(torch.ones(3, 4), 5), "5 of"),
        (lambda: MixtureOfExperts(6, 8, 4, 5), "5 of 4"),
        (lambda: MixtureOfExperts(6, 8, 4, 0), "0 of 4"),
        (
            lambda: load_balance_loss(torch.ones(3, 4), torch.ones(4, 2, dtype=torch.int64)),
            r"\(3, 4\) and experts \(4, 2",
        ),
        (lambda: load_balance_loss(torch.ones(3, 4), torch.ones(3, dtype=torch.int64)), r"\(n_tokens, top_k\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# against `transformers`, which divides its counts by tokens and not by choices


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_the_loss_is_that_of_qwen_and_mixtral_divided_by_top_k(draw, top_k):
    pytest.importorskip("transformers")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func as mixtrals
    from transformers.models.qwen3_next.modeling_qwen3_next import load_balancing_loss_func as qwens

    logits = draw(40, 5).float()
    ours = load_balance_loss(logits.softmax(-1), route(logits, top_k)[1])
    for theirs in (mixtrals, qwens):
        close(top_k * ours, theirs((logits,), 5, top_k), 1e-5)


# the chapter's facts


def test_the_loss_is_1_when_all_is_even_and_n_experts_when_one_has_it_all():
    even = torch.full((8, 4), 0.25)
    close(load_balance_loss(even, torch.arange(8)[:, None] % 4), torch.tensor(1.0))
    close(load_balance_loss(even, torch.zeros(8, 1, dtype=torch.int64)), torch.tensor(1.0))
    lonely = torch.eye(4)[[2] * 8]
    close(load_balance_loss(lonely, torch.full((8, 1), 2)), torch.tensor(4.0))


def test_a_step_down_the_loss_makes_busy_experts_less_probable(draw):
    logits = (draw(50, 4) + torch.tensor([2.0, 0.0, 0.0, -1.0])).requires_grad_()
    experts = route(logits, 1)[1]
    load_balance_loss(logits.softmax(-1), experts).backward()
    moved = (logits - 20 * logits.grad).detach()
    busiest = torch.bincount(experts.flatten(), minlength=4).argmax()
    assert moved.softmax(-1).mean(0)[busiest] < logits.softmax(-1).mean(0)[busiest]
