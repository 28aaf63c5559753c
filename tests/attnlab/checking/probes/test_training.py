"""The probe of `training_step`: the words for a model that did not move, and robustness."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking.fakes import TrackedMLP, fakes_allowed
from tests.attnlab.checking.probes import helpers

LAYERS = [[torch.tensor([[1.0]]), torch.tensor([0.5])], [torch.tensor([[2.0], [-1.0]]), torch.zeros(2)]]
BATCH = {"x": torch.tensor([[1.0], [-2.0], [3.0]]), "y": torch.ones(3, 2)}


def seen(answer, many=1):
    """The probe's value for an answer on so many batches."""
    case = dict(layers=LAYERS, loss="mse_loss", optimizer=dict(kind="SGD", lr=0.1), batches=[BATCH] * many)
    return helpers.seen("trained", answer, **case, watched=["still", "mode", "returned"])


def right(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def in_order(*calls, give=torch.Tensor.item):
    """An answer that makes these calls one after the other."""

    def answer(model, loss_fn, optimizer, x, y):
        loss = loss_fn(model(x), y)
        for call in calls:
            {"clear": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[call]()
        return give(loss)

    return answer


@pytest.mark.parametrize(
    "calls, why",
    [
        (["step"], "no gradient reached them"),
        (["backward"], "the optimizer made no step"),
        (["step", "backward"], "the step came before the gradients"),
        (["backward", "clear", "step"], "at the step there were no gradients left"),
        (["backward", "step"], "moved"),
    ],
)
def test_why_nothing_moved_is_said(calls, why):
    assert seen(in_order(*calls))["still"] == why


def test_a_step_that_is_taken_back_is_told_from_one_without_gradients():
    def answer(model, loss_fn, optimizer, x, y):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        result = right(model, loss_fn, optimizer, x, y)
        with torch.no_grad():
            for parameter, old in zip(model.parameters(), before):
                parameter.copy_(old)
        return result

    assert seen(answer)["still"] == "the step changed nothing"


@pytest.mark.parametrize(
    "give, kind",
    [(lambda loss: loss, "a tensor that holds its graph"), (torch.detach, "a tensor"), (torch.Tensor.item, "a number")],
)
def test_the_kind_of_loss_is_said(give, kind):
    assert seen(in_order("backward", "step", give=give))["returned"] == kind


@pytest.mark.parametrize("last", [False, True])
def test_another_mode_shows_during_the_step_and_after_it(last):
    def answer(model, loss_fn, optimizer, x, y):
        model.train(last)
        result = right(model, loss_fn, optimizer, x, y)
        model.train(not last)
        return result

    assert seen(answer)["mode"] == "evaluation"


def test_gradients_that_an_answer_switches_off_are_on_again_at_the_next_batch():
    def answer(*given):
        result = right(*given)
        torch.set_grad_enabled(False)
        return result

    assert seen(answer, many=2)["still"] == "moved" and torch.is_grad_enabled()


def test_the_model_to_be_trained_has_linear_layers_with_a_tanh_between():
    with fakes_allowed():
        got = TrackedMLP(LAYERS)(BATCH["x"])
    (w1, b1), (w2, b2) = LAYERS
    torch.testing.assert_close(got, torch.tanh(BATCH["x"] @ w1.T + b1) @ w2.T + b2)
