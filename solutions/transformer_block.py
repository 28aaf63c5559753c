"""Reference answers of the chapter on blocks: norms, feed-forward networks, and the blocks themselves, in PyTorch.

Shapes follow the course: x (batch, n, d_model), exactly one batch dimension for modules. Inputs are never changed.
Sizes that do not fit raise ValueError. Sources: Vaswani et al., 2017; Xiong et al., 2020 (pre-norm); Zhang and
Sennrich, 2019 (RMSNorm); Shazeer, 2020 (SwiGLU); Touvron et al., 2023 (Llama).
"""

import math

import torch
from torch import nn

from solutions.cross_attention import CrossAttention
from solutions.kv_cache import GroupedQueryAttention, KVCache
from solutions.multi_head import MultiHeadAttention


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Mean 0 and biased variance 1 along the last axis, then scaled and shifted; narrow numbers in float32."""
    if not x.shape[-1:] == weight.shape == bias.shape:
        raise ValueError(f"x {tuple(x.shape)} does not fit weight {tuple(weight.shape)}, bias {tuple(bias.shape)}")
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # in float16 a square overflows from 256 on
    centered = wide - wide.mean(dim=-1, keepdim=True)
    spread = torch.sqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered / spread * weight + bias).to(x.dtype)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Root mean square 1 along the last axis, then scaled; narrow numbers in float32."""
    if x.shape[-1:] != weight.shape:
        raise ValueError(f"x {tuple(x.shape)} does not fit weight {tuple(weight.shape)}")
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return (wide * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)


class LayerNorm(nn.Module):
    """`layer_norm` with a weight and a bias to learn."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a weight to learn."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x times the share of a standard normal that is below x."""
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """The approximation with a hyperbolic tangent."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))


class FeedForward(nn.Module):
    """Two maps with GELU in between, token by token."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.W_2(gelu(self.W_1(x)))


class SwiGLU(nn.Module):
    """One map decides how much of the other passes, token by token."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.W_gate(x)
        opened = gate * torch.sigmoid(gate)
        return self.W_down(opened * self.W_up(x))


class EncoderBlock(nn.Module):
    """Pre-norm: attention over all tokens, then a feed-forward network; each adds to the residual stream."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm_2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        heard, _ = self.attention(self.norm_1(x), mask)
        x = x + heard
        return x + self.feed_forward(self.norm_2(x))


class DecoderBlock(nn.Module):
    """Pre-norm: causal self-attention, attention over the memory, then a feed-forward network."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.norm_2 = LayerNorm(d_model)
        self.cross_attention = CrossAttention(d_model, n_heads)
        self.norm_3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, memory_mask: torch.Tensor | None = None) -> torch.Tensor:
        if x.ndim != 3:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, d_model)")
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        heard, _ = self.self_attention(self.norm_1(x), earlier)
        x = x + heard
        read, _ = self.cross_attention(self.norm_2(x), memory, memory_mask)
        x = x + read
        return x + self.feed_forward(self.norm_3(x))


class LlamaBlock(nn.Module):
    """Pre-norm with RMSNorm: causal grouped-query attention with RoPE and a cache, then SwiGLU."""

    def __init__(
        self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int, base: float = 10000.0, eps: float = 1e-5
    ):
        super().__init__()
        self.norm_1 = RMSNorm(d_model, eps)
        self.attention = GroupedQueryAttention(d_model, n_heads, n_kv_heads, base)
        self.norm_2 = RMSNorm(d_model, eps)
        self.feed_forward = SwiGLU(d_model, d_ff)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), cache)
        return x + self.feed_forward(self.norm_2(x))
