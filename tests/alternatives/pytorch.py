"""Correct answers to the primer on PyTorch, written in other ways. All must get full marks."""

import torch


def step_with_a_closure(model, loss_fn, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        return loss

    return float(optimizer.step(closure).detach())


def step_that_clears_just_before_backward(model, loss_fn, optimizer, x, y):
    model.train()
    prediction = model(x)
    loss = loss_fn(prediction, y)
    model.zero_grad(set_to_none=False)
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    return loss.tolist()


def step_that_clears_one_by_one(model, loss_fn, optimizer, x, y):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
    loss = loss_fn(model.forward(x), y)
    loss.backward()
    before = loss.detach().numpy().copy()
    optimizer.step()
    return before


def step_without_backward(model, loss_fn, optimizer, x, y):
    """The gradients are asked for, which adds nothing up, and are then handed over."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loss = loss_fn(model(x), y)
    for parameter, gradient in zip(trained, torch.autograd.grad(loss, trained)):
        parameter.grad = gradient
    optimizer.step()
    return loss.item()


ALTERNATIVES = {
    "training_step": [
        step_with_a_closure,
        step_that_clears_just_before_backward,
        step_that_clears_one_by_one,
        step_without_backward,
    ]
}
