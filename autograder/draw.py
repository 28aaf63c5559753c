"""Tensors for the cases of an exercise, most of them drawn from a NumPy generator.

PyTorch's own random streams differ between versions and devices; NumPy's are fixed.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def normal(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Standard normal numbers in a tensor of that shape."""
    return torch.from_numpy(rng.normal(size=shape)).to(dtype)


def numbered(*shape: int) -> torch.Tensor:
    """0, 1, 2, ... in that shape: where an entry went can be read off."""
    return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)


def projections(rng: np.random.Generator, d_model: int, names: str = "qkvo",
                dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    """Weights of the projections W_q, W_k, W_v and W_o (or of those named), each (d_model, d_model).

    Entries have variance 1 / d_model, so that what is projected keeps its size.
    """
    return {f"W_{name}.weight": normal(rng, d_model, d_model, dtype=dtype) / d_model ** 0.5 for name in names}
