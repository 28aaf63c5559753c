"""Right results to compare answers with, from PyTorch's own operations and nothing from `solutions`."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

CAT_SAT = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]  # the embeddings of "the cat sat"


def attention(Q, K, V, mask=None, **options):
    """The fused operation on NumPy arrays."""
    mask = None if mask is None else torch.from_numpy(mask)
    return F.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, V)), attn_mask=mask, **options).numpy()


def close(actual, expected, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def rotated(x, positions, base: float) -> torch.Tensor:
    """RoPE in float64 by complex numbers: entry i of a row is a real part, entry i + d / 2 the imaginary part."""
    speeds = torch.logspace(0, -1, x.shape[-1] // 2 + 1, base=base, dtype=torch.float64)[:-1]
    turned = torch.complex(*x.double().chunk(2, dim=-1)) * torch.exp(1j * torch.outer(positions.double(), speeds))
    return torch.cat([turned.real, turned.imag], dim=-1)


def grouped_attention(x, weight: Callable, n_heads: int, n_kv_heads: int, base: float, first: int = 0) -> torch.Tensor:
    """Causal grouped-query attention with RoPE, the tokens at positions first, first + 1, ...

    weight: the matrix of that name, "W_q" to "W_o"
    """
    positions = torch.arange(first, first + x.shape[1])
    q, k, v = (
        F.linear(x, weight(name)).unflatten(-1, (heads, -1)).transpose(1, 2)
        for name, heads in (("W_q", n_heads), ("W_k", n_kv_heads), ("W_v", n_kv_heads))
    )
    q, k = rotated(q, positions, base), rotated(k, positions, base)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), weight("W_o"))


def llama_block(x, weight: Callable, n_heads: int, n_kv_heads: int, base: float, eps: float) -> torch.Tensor:
    """A block of a Llama. weight: the parameter of that name, such as "norm_1" or "attention.W_q"."""
    y = F.rms_norm(x, x.shape[-1:], weight("norm_1"), eps)
    x = x + grouped_attention(y, lambda name: weight(f"attention.{name}"), n_heads, n_kv_heads, base)
    y = F.rms_norm(x, x.shape[-1:], weight("norm_2"), eps)
    gate = F.silu(F.linear(y, weight("feed_forward.W_gate")))
    return x + F.linear(gate * F.linear(y, weight("feed_forward.W_up")), weight("feed_forward.W_down"))
