"""Reference answers of the rotary chapter: positions as rotations of pairs of numbers, in PyTorch.

Shapes follow the course: x (..., n, d_head), positions (n,). Angles are float32 whatever the dtype of x. Inputs are
never changed. Sizes that do not fit raise ValueError. Source: Su et al., 2021, "RoFormer".
"""

import torch


def rope_frequencies(d_head: int, base: float = 10000.0) -> torch.Tensor:
    """The frequency of each pair in radians per token, from 1 down towards 1 / base."""
    if d_head < 2 or d_head % 2:
        raise ValueError(f"width {d_head} cannot be cut into pairs")
    pairs = torch.arange(d_head // 2, dtype=torch.float32)
    return base ** (-2.0 * pairs / d_head)


def rope_angles(positions: torch.Tensor, d_head: int, base: float = 10000.0) -> torch.Tensor:
    """One row per position, one column per pair."""
    where = torch.as_tensor(positions)
    if where.ndim != 1:
        raise ValueError(f"positions have {where.ndim} dimensions, not one")
    theta = rope_frequencies(d_head, base)
    return torch.outer(where.to(torch.float32), theta.to(where.device))


def apply_rope(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotate the pairs (i, i + d_head / 2)."""
    if x.ndim < 2 or x.shape[-2] != len(positions):
        raise ValueError(f"x {tuple(x.shape)} does not have one row for each of {len(positions)} positions")
    angles = rope_angles(positions, x.shape[-1], base).to(x.device)
    cosine, sine = angles.cos(), angles.sin()
    first, second = x.tensor_split(2, dim=-1)
    turned = [first * cosine - second * sine, first * sine + second * cosine]
    return torch.cat(turned, dim=-1).to(x.dtype)


def apply_rope_interleaved(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotate the neighbors (2i, 2i + 1)."""
    if x.ndim < 2 or x.shape[-2] != len(positions):
        raise ValueError(f"x {tuple(x.shape)} does not have one row for each of {len(positions)} positions")
    angles = rope_angles(positions, x.shape[-1], base).to(x.device)
    cosine, sine = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    turned = [first * cosine - second * sine, first * sine + second * cosine]
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


def interleaved_to_half(w: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Within each head the even rows come first, then the odd ones."""
    if w.ndim != 2 or n_heads < 1 or w.shape[0] % (2 * n_heads):
        raise ValueError(f"rows of {tuple(w.shape)} cannot be cut into pairs for {n_heads} heads")
    by_pair = w.reshape(n_heads, -1, 2, w.shape[1])
    return by_pair.transpose(1, 2).reshape(w.shape)
