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


def test_apply_rope(apply_rope) -> None:
    """Accept an implementation of apply_rope by returning, reject it by raising."""

    def expected(x, positions, base):
        """Number by number, in float64."""
        half = x.shape[-1] // 2
        by_number = x.double().clone()
        for i, position in enumerate(positions.tolist()):
            for pair in range(half):
                angle = torch.tensor(position * base ** (-pair / half), dtype=torch.float64)
                first, second = x[..., i, pair].double(), x[..., i, pair + half].double()
                by_number[..., i, pair] = first * angle.cos() - second * angle.sin()
                by_number[..., i, pair + half] = first * angle.sin() + second * angle.cos()
        return by_number

    source = torch.Generator().manual_seed(0)

    def compare(shape, positions, base=None, dtype=torch.float32, tolerance=2e-5):
        x = torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)
        positions = torch.tensor(positions)
        before = x.clone(), positions.clone()
        by_number = apply_rope(x, positions) if base is None else apply_rope(x, positions, base)
        assert by_number.dtype == dtype, "the dtype of x is asked for"
        assert by_number.shape == x.shape
        wanted = expected(x, positions, 10000.0 if base is None else base)
        torch.testing.assert_close(by_number.double(), wanted, rtol=tolerance, atol=tolerance)
        assert torch.equal(x, before[0]) and torch.equal(positions, before[1]), "an input was changed"
        return by_number

    compare((1, 2), [0])
    compare((1, 2), [3])
    compare((3, 4), [0, 1, 2])
    compare((3, 6), [5, 0, 7])
    compare((2, 3, 8), [0, 1, 2])
    compare((2, 2, 4, 6), [4, 5, 6, 7])
    compare((4, 4), [1, 2, 3, 4], base=100.0)
    compare((3, 6), [1, 2, 3], base=2.5)
    compare((2, 8), [100, 1000], tolerance=2e-4)
    compare((2, 4), [10, 11], dtype=torch.float64, tolerance=1e-4)
    compare((3, 8), [1, 2, 3], dtype=torch.bfloat16, tolerance=3e-2)
    compare((3, 8), [1, 2, 3], dtype=torch.float16, tolerance=4e-3)
    # Angles are float32 whatever the dtype of x is: position 257 does not exist in bfloat16.
    compare((2, 8), [257, 513], dtype=torch.bfloat16, tolerance=5e-2)
    compare((2, 8), [2049, 5001], dtype=torch.float16, tolerance=2e-2)
    x = torch.ones(2, 4)
    torch.testing.assert_close(apply_rope(x, torch.tensor([0, 0])), x)
    first = apply_rope(x, torch.tensor([1, 2]))
    assert not torch.allclose(apply_rope(x, torch.tensor([3, 5])), first), "something is kept between calls"
    torch.testing.assert_close(apply_rope(x, torch.tensor([1, 2])), first)
    torch.testing.assert_close(apply_rope(x, torch.tensor([1, 2]), base=10000.0), first)
