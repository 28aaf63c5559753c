"""Reference answers of the positions chapter: sinusoids, their rotation, learned positions and linear biases.

Positions count from 0. Column pairs (2i, 2i + 1) of the sinusoidal encoding share one angle. Sources: Vaswani et al.,
2017, section 3.5 (sinusoids, learned positions); Press et al., 2022 (linear biases).
"""

import numpy as np
import torch
from torch import nn


def sinusoidal_encoding(max_len: int, d_model: int) -> np.ndarray:
    """Positions 0 to max_len - 1 as sines (even columns) and cosines (odd columns), (max_len, d_model).

    Pair i has the frequency 10000 ** (-2 i / d_model), in radians per token. ValueError if a size is
    negative or d_model is odd.
    """
    if max_len < 0 or d_model < 0 or d_model % 2:
        raise ValueError(f"needs max_len >= 0 and an even d_model >= 0, got {max_len} and {d_model}")
    speeds = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.outer(np.arange(max_len), speeds)
    encoding = np.empty((max_len, d_model))
    encoding[:, 0::2] = np.sin(angles)
    encoding[:, 1::2] = np.cos(angles)
    return encoding


def shift_matrix(offset: int, d_model: int) -> np.ndarray:
    """The (d_model, d_model) matrix that takes the encoding of any position p, a column, to that of p + offset.

    One 2 x 2 rotation per pair of columns. ValueError for a negative or odd width.
    """
    if d_model < 0 or d_model % 2:
        raise ValueError(f"needs an even d_model >= 0, got {d_model}")
    shift = np.zeros((d_model, d_model))
    for column in range(0, d_model, 2):
        angle = offset * 10000.0 ** (-column / d_model)
        cosine, sine = np.cos(angle), np.sin(angle)
        shift[column : column + 2, column : column + 2] = [[cosine, sine], [-sine, cosine]]
    return shift


class LearnedPositions(nn.Module):
    """A table with one trained row per position, max_len of them, added to the tokens."""

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_len, d_model))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, n, d_model) -> the same shape. ValueError for n above max_len or another width."""
        max_len, d_model = self.table.shape
        if x.ndim != 3 or x.shape[2] != d_model:
            raise ValueError(f"x has shape {tuple(x.shape)}, but the table needs (batch, n, {d_model})")
        if x.shape[1] > max_len:
            raise ValueError(f"{x.shape[1]} tokens, but the table ends after {max_len} positions")
        return x + self.table[: x.shape[1]]


def alibi_bias(n_heads: int, n: int) -> np.ndarray:
    """Return the bias for the scores of each head, (n_heads, n, n): -slope * distance, minus infinity for later keys.

    Head h = 1, ..., n_heads has slope 2 ** (-8 h / n_heads). ValueError for n_heads < 1 or a negative n.
    """
    if n_heads < 1 or n < 0:
        raise ValueError(f"needs n_heads >= 1 and n >= 0, got {n_heads} and {n}")
    slopes = 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)
    ahead = np.arange(n)[None, :] - np.arange(n)[:, None]  # of the query: minus the distance
    return np.where(ahead <= 0, slopes[:, None, None] * ahead, -np.inf)
