"""Tensors and arrays for the cases of an exercise, most of them drawn from a NumPy generator.

PyTorch's own random streams differ between versions and devices; NumPy's are fixed. Chapters without PyTorch also draw
here, so it is loaded only when a tensor is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def normal(rng: np.random.Generator, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Standard normal numbers in a tensor of that shape, float64 if no dtype is named."""
    import torch

    return torch.from_numpy(rng.normal(size=shape)).to(dtype or torch.float64)


def disagreeing(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of n normal numbers, n at least 2, with products of both signs that add up to less than zero.

    Their cosine is clearly negative and their lengths are moderate, so that a lost sign always shows, and a small
    number in a denominator shows either always or never.
    """
    while True:
        a, b = rng.normal(size=n), rng.normal(size=n)
        length_a, length_b = np.linalg.norm(a), np.linalg.norm(b)
        if min(length_a, length_b) > 0.5 and max(length_a, length_b) < 2.5 and (a * b).max() > 0.05:
            if -0.9 < a @ b / (length_a * length_b) < -0.2:
                return a, b


def both_signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers in an array of that shape; every row along the last axis has positive and negative numbers."""
    while True:
        x = rng.normal(size=shape)
        if (x.max(axis=-1) > 0.1).all() and (x.min(axis=-1) < -0.1).all():
            return x


def numbered(*shape: int) -> torch.Tensor:
    """0, 1, 2, ... in that shape, so that each entry shows where it came from."""
    import torch

    return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)


def projections(
    rng: np.random.Generator, d_model: int, names: str = "qkvo", dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """Weights of the projections W_q, W_k, W_v and W_o (or of those named), each (d_model, d_model).

    Entries have variance 1 / d_model, so that projections keep the size of their input.
    """
    return {f"W_{name}.weight": normal(rng, d_model, d_model, dtype=dtype) / d_model**0.5 for name in names}
