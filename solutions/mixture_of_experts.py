"""Reference answers of the chapter on experts, in PyTorch.

Shapes follow the course: x (batch, n, d_model). Inputs are never changed. Sizes that do not fit raise ValueError.
Sources: Shazeer et al., 2017, Jiang et al., 2024, and Fedus et al., 2022 (the loss that evens the load).
"""

import torch
from torch import nn

from solutions.transformer_block import SwiGLU


def route(logits: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logits of each row, as weights that sum to 1, and whose they are."""
    if logits.ndim != 2 or not 1 <= top_k <= logits.shape[1]:
        raise ValueError(f"{top_k} of {tuple(logits.shape)}: (n_tokens, n_experts) and 1 to n_experts are needed")
    chosen, experts = logits.topk(top_k, dim=-1)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return chosen.softmax(dim=-1, dtype=wide).to(logits.dtype), experts


class MixtureOfExperts(nn.Module):
    """Many feed-forward networks, of which each token uses a few."""

    def __init__(self, d_model: int, d_ff: int, n_experts: int, top_k: int):
        super().__init__()
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"{top_k} of {n_experts} experts cannot be chosen")
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n_experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.router.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.router.in_features})")
        rows = x.flatten(0, 1)
        weights, experts = route(self.router(rows), self.top_k)
        mixed = torch.zeros_like(rows)
        for e, expert in enumerate(self.experts):
            token, choice = torch.where(experts == e)
            if len(token):
                mixed = mixed.index_add(0, token, weights[token, choice, None] * expert(rows[token]))
        return mixed.view_as(x)


def load_balance_loss(probabilities: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    """How much the busy experts are also the probable ones: 1 when all is even, n_experts when one has it all."""
    if probabilities.ndim != 2 or experts.ndim != 2 or len(probabilities) != len(experts):
        sizes = f"{tuple(probabilities.shape)} and experts {tuple(experts.shape)}"
        raise ValueError(f"probabilities {sizes}: (n_tokens, n_experts) and (n_tokens, top_k) are needed")
    wide = probabilities.to(torch.promote_types(probabilities.dtype, torch.float32))
    n_experts = wide.shape[1]
    counts = torch.bincount(experts.flatten(), minlength=n_experts)
    shares = counts.to(wide) / experts.numel()
    return (n_experts * (shares * wide.mean(dim=0)).sum()).to(probabilities.dtype)
