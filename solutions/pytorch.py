"""Reference answer of the primer on PyTorch: one step of training on one batch."""

import torch
from torch import nn


def training_step(
    model: nn.Module,
    loss_fn,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
) -> float:
    """One step of the optimizer against the gradient of `loss_fn(model(x), y)`; returns this loss, from before."""
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
