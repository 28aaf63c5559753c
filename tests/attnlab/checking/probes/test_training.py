"""Probes of gradients and of functions that train a model for a step, and the model that these get."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking.compare import difference
from attnlab.checking.fakes import TrackedMLP, fakes_allowed
from attnlab.checking.observe import outcome_of
from tests.attnlab.checking.probes.helpers import seen as seen_by

LAYERS = [[torch.tensor([[1.0]]), torch.tensor([0.5])], [torch.tensor([[2.0], [-1.0]]), torch.zeros(2)]]
BATCH = {"x": torch.tensor([[1.0], [-2.0], [3.0]]), "y": torch.ones(3, 2)}
PARAMETERS = [f"{kind} of layer {number}" for number in (1, 2) for kind in ("weight", "bias")]
ALL = ["result", "returned", "still", "layers", "forward passes", "mode"]


def seen(answer, many=1, **other):
    """The probe's value for an answer on so many batches, or the whole outcome if it has no value."""
    case = dict(layers=LAYERS, loss="mse_loss", optimizer=dict(kind="SGD", lr=0.1), batches=[BATCH] * many)
    return seen_by("trained", answer, **{**case, "watched": ALL, **other})


def right(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def in_order(*calls, give=float):
    """An answer that makes these calls one after the other."""

    def answer(model, loss_fn, optimizer, x, y):
        loss = loss_fn(model(x), y)
        for call in calls:
            {"clear": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[call]()
        return give(loss.detach()) if give is float else give(loss)

    return answer


def weights(outcome):
    return torch.cat([outcome[part].flatten() for part in PARAMETERS])


def test_a_right_answer_has_its_loss_its_kind_and_its_step():
    got = seen(right)
    assert got["result"] == pytest.approx(
        (torch.tanh(BATCH["x"] + 0.5) @ torch.tensor([[2.0, -1.0]]) - 1).square().mean().item()
    )
    said = {part: got[part] for part in ("returned", "still", "forward passes", "mode")}
    assert said == {"returned": "a number", "still": "moved", "forward passes": 1, "mode": "training"}
    assert list(got)[-4:] == PARAMETERS


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
    [
        (lambda loss: loss, "a tensor that holds its graph"),
        (lambda loss: loss.detach(), "a tensor"),
        (lambda loss: loss.detach().numpy(), "a number"),
        (lambda loss: None, "None"),
        (lambda loss: True, "a truth value"),
    ],
)
def test_the_kind_of_loss_is_said(give, kind):
    assert seen(in_order("clear", "backward", "step", give=give))["returned"] == kind


def test_gradients_are_cleared_between_the_calls_unless_something_is_left_in_them():
    forgets = in_order("backward", "step")
    assert difference(seen(right, many=3), seen(forgets, many=3)) is None
    left = [[torch.zeros_like(part) for part in layer] for layer in LAYERS]
    assert not torch.allclose(weights(seen(right, many=3, left=left)), weights(seen(forgets, many=3, left=left)))


def test_what_is_left_in_the_gradients_shows_in_the_first_step():
    left = [[torch.ones_like(part) for part in layer] for layer in LAYERS]
    forgets = in_order("backward", "step")
    torch.testing.assert_close(weights(seen(forgets, left=left)), weights(seen(right)) - 0.1)


def test_the_optimizer_keeps_its_state_from_batch_to_batch():
    plain, momentum = (
        weights(seen(right, many=2, optimizer=dict(kind="SGD", lr=0.1, **more))) for more in ({}, {"momentum": 0.9})
    )
    assert not torch.allclose(plain, momentum)


def test_a_frozen_layer_has_no_gradient_and_stays():
    got = seen(right, frozen=1)
    assert got["weight of layer 1"].item() == 1 and (got["weight of layer 2"] != LAYERS[1][0]).all()


@pytest.mark.parametrize("last", [False, True])
def test_another_mode_shows_during_the_step_and_after_it(last):
    def answer(model, loss_fn, optimizer, x, y):
        model.train(last)
        result = right(model, loss_fn, optimizer, x, y)
        model.train(not last)
        return result

    assert seen(answer)["mode"] == "evaluation"


def test_each_forward_pass_counts():
    assert seen(right, many=3)["forward passes"] == 3


def test_gradients_that_an_answer_switches_off_are_on_again_at_the_next_batch():
    def answer(*given):
        result = right(*given)
        torch.set_grad_enabled(False)
        return result

    assert seen(answer, many=2)["still"] == "moved" and torch.is_grad_enabled()


def test_the_case_is_left_as_it_was():
    before = [part.clone() for layer in LAYERS for part in layer]
    seen(right)
    assert all(torch.equal(part, old) for part, old in zip(sum(LAYERS, []), before))


def test_the_model_to_be_trained_has_linear_layers_with_a_tanh_between():
    with fakes_allowed():
        got = TrackedMLP(LAYERS)(BATCH["x"])
    (w1, b1), (w2, b2) = LAYERS
    torch.testing.assert_close(got, torch.tanh(BATCH["x"] @ w1.T + b1) @ w2.T + b2)


def test_the_model_to_be_trained_is_made_by_probes_alone():
    with pytest.raises(TypeError, match="write your own"):
        TrackedMLP(LAYERS)


def test_a_result_of_a_shape_that_cannot_be_differentiated_is_said_to_have_it():
    case = dict(x=torch.ones(2, 3), upstream=[torch.ones(2, 3)])
    outcome = outcome_of(lambda x: torch.cat([x, x]), "gradients", case)
    assert outcome["refused"] == "the result has shape (4, 3) where (2, 3) was expected"
