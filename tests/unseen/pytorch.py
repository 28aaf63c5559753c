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


def first_row_alone(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, loss_fn, optimizer, x[:1], y[:1])


def row_by_row(model, loss_fn, optimizer, x, y):
    losses = [solutions.training_step(model, loss_fn, optimizer, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    return sum(losses) / len(losses)


def until_it_is_smaller(model, loss_fn, optimizer, x, y):
    before = solutions.training_step(model, loss_fn, optimizer, x, y)
    while loss_fn(model(x), y).item() > before / 2:
        solutions.training_step(model, loss_fn, optimizer, x, y)
        before *= 2
    return before


def root_of_the_loss(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, loss_fn, optimizer, x, y) ** 0.5


def printed_only(model, loss_fn, optimizer, x, y):
    print(solutions.training_step(model, loss_fn, optimizer, x, y))


def half_of_each_gradient(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    (loss / 2).backward()
    optimizer.step()
    return loss.item()


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
        (first_row_alone, None),
        (row_by_row, None),
        (until_it_is_smaller, None),
        (root_of_the_loss, None),
        (printed_only, None),
        (half_of_each_gradient, None),
        (same_rate_of_plain_sgd, "moved by hand"),
        (evaluated_and_switched_back, "evaluation mode"),
    ]
}
