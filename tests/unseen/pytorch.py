"""Wrong answers to the primer on PyTorch that its list of misconceptions does not hold in these words."""

import copy

import torch

from solutions.pytorch import training_step
from tests.alternatives.pytorch import step_that_clears_one_by_one
from tests.unseen.parts import changed

LOSS = "loss_fn(model.forward(x), y)"


def learns_elsewhere(model, loss_fn, optimizer, x, y):
    return training_step(copy.deepcopy(model), loss_fn, optimizer, x, y)


def same_rate_of_plain_sgd(model, loss_fn, optimizer, x, y):
    own = torch.optim.SGD(model.parameters(), lr=optimizer.param_groups[0]["lr"])
    return training_step(model, loss_fn, own, x, y)


def and_then(change):
    """The right step, with its loss changed."""
    def training_step_and_more(model, loss_fn, optimizer, x, y):
        return change(training_step(model, loss_fn, optimizer, x, y))
    return training_step_and_more


def row_by_row(model, loss_fn, optimizer, x, y):
    losses = [training_step(model, loss_fn, optimizer, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    return sum(losses) / len(losses)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "training_step": [
        (learns_elsewhere, "No gradient reaches"),
        (changed(step_that_clears_one_by_one, LOSS, f"torch.tensor({LOSS}.item(), requires_grad=True)"),
         "No gradient reaches"),
        (changed(step_that_clears_one_by_one, "forward(x)", "forward(x).data"), "cut off from the parameters"),
        (same_rate_of_plain_sgd, "plain SGD"),
        (changed(step_that_clears_one_by_one, "loss = ", "model.eval()\n    loss = ", "return",
         "model.train()\n    return"),
         "evaluation mode"),
        (row_by_row, "Each row of the batch"),
        (changed(step_that_clears_one_by_one, "optimizer.step()", "optimizer.step"), "or its parentheses are"),
        (changed(step_that_clears_one_by_one, "parameter.grad = None", "optimizer.zero_grad"), "gradients are not cleared"),
        (and_then(lambda loss: loss ** 0.5), None),
        (and_then(print), None),
    ]
}
