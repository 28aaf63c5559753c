"""Wrong answers to the primer on PyTorch that its list of misconceptions does not hold in these words."""

import copy

import torch

from solutions import pytorch as solutions


def learns_elsewhere(model, loss_fn, optimizer, x, y):
    twin = copy.deepcopy(model)
    return solutions.training_step(twin, loss_fn, optimizer, x, y)


def through_a_new_tensor(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.tensor(loss_fn(model(x), y).item(), requires_grad=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def through_data(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x).data, y)
    loss.backward()
    optimizer.step()
    return loss.item()


def root_of_the_loss(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, loss_fn, optimizer, x, y) ** 0.5


def printed_only(model, loss_fn, optimizer, x, y):
    print(solutions.training_step(model, loss_fn, optimizer, x, y))


def same_rate_of_plain_sgd(model, loss_fn, optimizer, x, y):
    own = torch.optim.SGD(model.parameters(), lr=optimizer.param_groups[0]["lr"])
    return solutions.training_step(model, loss_fn, own, x, y)


def evaluated_and_switched_back(model, loss_fn, optimizer, x, y):
    model.eval()
    loss = solutions.training_step(model, loss_fn, optimizer, x, y)
    model.train()
    return loss


UNSEEN = {
    "training_step": [
        (learns_elsewhere, "No gradient reaches"),
        (through_a_new_tensor, "No gradient reaches"),
        (through_data, "cut off from the parameters"),
        (root_of_the_loss, None),
        (printed_only, None),
        (same_rate_of_plain_sgd, "moved by hand"),
        (evaluated_and_switched_back, "evaluation mode"),
    ],
}
