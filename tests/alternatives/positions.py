"""Correct answers to the positions chapter, written in other ways. All must get full marks."""

import math

import numpy as np
import torch
from torch import nn


# sinusoidal_encoding

def encoding_by_complex_exponentials(max_len, d_model):
    """Each pair is one complex number on the unit circle."""
    if max_len < 0 or d_model % 2 != 0:
        raise ValueError("sizes")
    hands = np.exp(1j * np.arange(max_len)[:, None] * np.logspace(0, -4, d_model // 2, endpoint=False))
    return np.stack([hands.imag, hands.real], axis=-1).reshape(max_len, d_model)


def encoding_by_logarithms(max_len, d_model):
    """The rates as exponentials of logarithms, as in many tutorials."""
    assert isinstance(max_len, int)
    if d_model % 2 == 1:
        raise ValueError("odd width")
    encoding = np.zeros((max_len, d_model))
    rates = np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    encoding[:, ::2] = np.sin(np.arange(max_len)[:, np.newaxis] * rates)
    encoding[:, 1::2] = np.cos(np.arange(max_len)[:, np.newaxis] * rates)
    return encoding


def encoding_turned_step_by_step(max_len, d_model):
    """Each row is the one before, turned by one step."""
    if d_model % 2:
        raise ValueError("odd width")
    hand = np.tile([0.0, 1.0], d_model // 2)
    encoding = np.zeros((max_len, d_model))
    for p in range(max_len):
        encoding[p] = hand
        hand = shift_by_three_diagonals(1, d_model) @ hand
    return encoding


def encoding_in_torch(max_len, d_model):
    if max_len < 0 or d_model % 2:
        raise ValueError("sizes")
    rates = torch.pow(10000.0, -torch.arange(0, d_model, 2, dtype=torch.float64) / max(d_model, 1))
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), rates)
    hands = torch.polar(torch.ones_like(angles), angles)
    return torch.stack([hands.imag, hands.real], dim=-1).flatten(1).numpy()


# shift_matrix

def shift_by_three_diagonals(offset, d_model):
    if d_model % 2:
        raise ValueError("odd width")
    turns = offset * np.power(10000.0, -np.arange(0, d_model, 2) / d_model)
    beside = np.ravel(np.column_stack([np.sin(turns), np.zeros_like(turns)]))[:-1]
    return np.diag(np.repeat(np.cos(turns), 2)) + np.diag(beside, 1) - np.diag(beside, -1)


def shift_by_one_step_repeated(offset, d_model):
    """One step, to the power of the offset; a step back is the transpose."""
    if d_model % 2:
        raise ValueError("odd width")
    step = shift_by_three_diagonals(1, d_model)
    return np.linalg.matrix_power(step if offset >= 0 else step.T, abs(offset))


def shift_pair_by_pair(offset, d_model):
    """Asks nothing of the width: pairs come from a floor division."""
    shift = np.eye(d_model)
    for pair in range(d_model // 2):
        a, i = offset / 10000 ** (2 * pair / d_model), 2 * pair
        shift[i:i + 2, i:i + 2] = [[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]
    return shift


# LearnedPositions

class PositionsByEmbedding(nn.Module):
    """A lookup of the positions in nn.Embedding, whose own check of the index is too late to count on."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(max_len, d_model)

    def forward(self, x):
        if x.size(1) > self.max_len or x.size(-1) != self.embedding.embedding_dim:
            raise ValueError("does not fit")
        return x + self.embedding(torch.arange(x.size(1), device=x.device))


class PositionsTokenByToken(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.longest = max_len
        self.places = nn.Linear(max_len, d_model, bias=False)
        self.places.weight = nn.Parameter(torch.zeros(max_len, d_model))

    def forward(self, x):
        if not x.shape[1] <= self.longest or x.shape[2:] != self.places.weight.shape[1:]:
            raise ValueError("does not fit")
        return torch.stack([x[:, p] + self.places.weight[p] for p in range(x.shape[1])], dim=1)


# alibi_bias

def alibi_by_a_mask_added(n_heads, n):
    """Distances everywhere, then minus infinity on top of the upper triangle; no size is asked for."""
    slopes = np.exp2(-8 / n_heads) ** np.arange(1, n_heads + 1)
    i, j = np.mgrid[:n, :n]
    future = np.zeros((n, n))
    future[np.triu_indices(n, k=1)] = -np.inf
    return np.multiply.outer(slopes, j - i) + future


def alibi_in_torch(n_heads, n):
    if min(n_heads - 1, n) < 0:
        raise ValueError("sizes")
    slopes = torch.logspace(-8 / n_heads, -8, n_heads, base=2, dtype=torch.float64)
    places = torch.arange(n, dtype=torch.float64)
    bias = -(places[:, None] - places) * slopes.reshape(-1, 1, 1)
    return bias.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf).numpy()


ALTERNATIVES = {
    "sinusoidal_encoding": [encoding_in_torch, encoding_by_complex_exponentials, encoding_by_logarithms,
                            encoding_turned_step_by_step],
    "shift_matrix": [shift_by_three_diagonals, shift_by_one_step_repeated, shift_pair_by_pair],
    "LearnedPositions": [PositionsByEmbedding, PositionsTokenByToken],
    "alibi_bias": [alibi_by_a_mask_added, alibi_in_torch],
}
