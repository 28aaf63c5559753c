"""Correct answers to the chapter on blocks, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from solutions.cross_attention import CrossAttention
from solutions.kv_cache import GroupedQueryAttention
from solutions.multi_head import MultiHeadAttention
from solutions.transformer_block import FeedForward, LayerNorm, RMSNorm, SwiGLU


# layer_norm

def layer_norm_by_pytorch(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def layer_norm_by_var(x, weight, bias, eps=1e-5):
    if x.size(-1) != weight.numel() or weight.numel() != bias.numel() or weight.ndim != 1:
        raise ValueError("widths differ")
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) / (variance + eps) ** 0.5, weight)


def layer_norm_token_by_token(x, weight, bias, eps=1e-5):
    """A loop over tokens; the squared length of what is left over the width is the variance."""
    if weight.shape != (x.shape[-1],) or bias.shape != weight.shape:
        raise ValueError("widths differ")
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        left = row - row.sum() / len(row)
        rows.append(left * torch.rsqrt(left.dot(left) / len(row) + eps) * weight + bias)
    return torch.stack(rows).reshape(x.shape)


def layer_norm_in_double(x, weight, bias, eps=1e-5):
    """Everything in float64, brought back at the end."""
    if weight.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError("widths differ")
    wide = x.double()
    wide = wide - wide.mean(-1, keepdim=True)
    return (wide / (wide.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight + bias).to(x.dtype)


# rms_norm

def rms_norm_by_pytorch(x, weight, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def rms_norm_by_division(x, weight, eps=1e-5):
    if weight.dim() != 1 or weight.size(0) != x.size(-1):
        raise ValueError("widths differ")
    return weight * (x / (torch.mean(x ** 2, -1, keepdim=True) + eps).sqrt())


def rms_norm_by_einsum(x, weight, eps=1e-5):
    if list(weight.shape) != [x.shape[-1]]:
        raise ValueError("widths differ")
    squares = torch.einsum("...i,...i->...", x, x)[..., None]
    return x * weight / torch.sqrt(squares / x.shape[-1] + eps)


# gelu, gelu_tanh

def gelu_by_pytorch(x):
    return F.gelu(x)


def gelu_by_the_normal(x):
    return x * torch.special.ndtr(x)


def gelu_by_the_complement(x):
    """erfc keeps digits far below 0, where 1 + erf loses them."""
    return 0.5 * x * torch.special.erfc(-x * math.sqrt(0.5))


def gelu_tanh_by_pytorch(x):
    return F.gelu(x, approximate="tanh")


def gelu_tanh_by_a_sigmoid(x):
    """(1 + tanh u) / 2 is the sigmoid of 2u."""
    return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x.pow(3)))


def gelu_tanh_by_steps(x):
    cube = x * x * x
    return 0.5 * (x + x * torch.tanh(0.7978845608028654 * (0.044715 * cube + x)))


# FeedForward, SwiGLU

class FeedForwardByModules(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.switch = nn.GELU()
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.W_2(self.switch(self.W_1(x)))


class FeedForwardByProducts(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_1, self.W_2 = nn.Linear(d_model, d_ff, bias=True), nn.Linear(d_ff, d_model, bias=True)

    def forward(self, x):
        middle = x @ self.W_1.weight.T + self.W_1.bias
        middle = gelu_by_the_normal(middle)
        return middle @ self.W_2.weight.T + self.W_2.bias


class FeedForwardTokenByToken(FeedForwardByModules):
    def forward(self, x):
        return torch.stack([super(FeedForwardTokenByToken, self).forward(x[:, i]) for i in range(x.shape[1])], dim=1)


class SwigluByPytorch(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


class SwigluPacked(SwigluByPytorch):
    """Both maps in one product."""

    def forward(self, x):
        both = F.linear(x, torch.cat([self.W_up.weight, self.W_gate.weight]))
        up, gate = both.chunk(2, dim=-1)
        return F.linear(up * gate / (1 + torch.exp(-gate)), self.W_down.weight)


class SwigluAsASum(SwigluByPytorch):
    """Each of the d_ff places adds its own column."""

    def forward(self, x):
        opened = F.silu(self.W_gate(x)).mul(self.W_up(x))
        return sum(opened[..., j, None] * self.W_down.weight[:, j] for j in range(opened.shape[-1]))


# EncoderBlock

class EncoderWithPytorchsNorms(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForwardByModules(d_model, d_ff)

    def forward(self, x, mask=None):
        residual = x
        output, _ = self.attention(self.norm_1(x), mask=mask)
        x = residual + output
        residual = x
        return residual + self.feed_forward(self.norm_2(x))


class EncoderInOneExpression(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)

    def forward(self, x, mask=None):
        return self.add(self.add(x, self.norm_1, lambda y: self.attention(y, mask)[0]), self.norm_2, self.feed_forward)

    @staticmethod
    def add(x, norm, part):
        return torch.add(x, part(norm(x)))


class EncoderByPytorchsLayer(EncoderWithPytorchsNorms):
    """PyTorch's own norm-first layer with these weights; its attention has biases, which are set to 0."""

    def forward(self, x, mask=None):
        width, heads = x.shape[-1], self.attention.n_heads
        state = {"self_attn.in_proj_weight": torch.cat([getattr(self.attention, f"W_{name}").weight for name in "qkv"]),
                 "self_attn.in_proj_bias": x.new_zeros(3 * width),
                 "self_attn.out_proj.weight": self.attention.W_o.weight, "self_attn.out_proj.bias": x.new_zeros(width)}
        for ours, theirs in {"norm_1": "norm1", "norm_2": "norm2", "feed_forward.W_1": "linear1",
                             "feed_forward.W_2": "linear2"}.items():
            for part in ("weight", "bias"):
                state[f"{theirs}.{part}"] = self.get_parameter(f"{ours}.{part}")
        twin = nn.TransformerEncoderLayer(width, heads, self.feed_forward.W_1.out_features, dropout=0.0,
                                          activation="gelu", batch_first=True, norm_first=True, dtype=x.dtype)
        if mask is not None:
            full = (mask[:, None] if mask.ndim == 3 else mask).expand(x.shape[0], heads, x.shape[1], x.shape[1])
            mask = ~full.reshape(-1, x.shape[1], x.shape[1])
        return torch.func.functional_call(twin, state, (x, mask))


# DecoderBlock

class DecoderWithPytorchsNorms(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model, eps=1e-5) for _ in range(3))
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = CrossAttention(d_model, n_heads)
        self.feed_forward = FeedForwardByModules(d_model, d_ff)

    def forward(self, x, memory, memory_mask=None):
        n = x.size(1)
        future = torch.triu(torch.ones(n, n), diagonal=1).bool()
        x = x + self.self_attention(self.norm_1(x), mask=~future)[0]
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]
        x = x + self.feed_forward(self.norm_3(x))
        return x


class DecoderAsASum(nn.Module):
    """What each part adds is kept in a list, and summed up when it is read."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = CrossAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, memory_mask=None):
        places = torch.arange(x.shape[1])
        causal = (places[:, None] >= places).expand(x.shape[0], 1, -1, -1)
        written = [x]
        written.append(self.self_attention(self.norm_1(sum(written)), causal)[0])
        written.append(self.cross_attention(self.norm_2(sum(written)), x_kv=memory, kv_mask=memory_mask)[0])
        written.append(self.feed_forward(self.norm_3(sum(written))))
        return sum(written)


class DecoderSentenceBySentence(DecoderWithPytorchsNorms):
    def forward(self, x, memory, memory_mask=None):
        read = super().forward
        return torch.cat([read(x[b:b + 1], memory[b:b + 1], None if memory_mask is None else memory_mask[b:b + 1])
                          for b in range(len(x))])


# LlamaBlock

class LlamaWithPytorchsNorms(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(d_model, eps=eps), nn.RMSNorm(d_model, eps=eps)
        self.attention = GroupedQueryAttention(d_model, n_heads, n_kv_heads, base=base)
        self.feed_forward = SwigluByPytorch(d_model, d_ff)

    def forward(self, x, cache=None):
        h = x + self.attention(self.norm_1(x), cache=cache)
        return h + self.feed_forward(self.norm_2(h))


class LlamaByCases(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.attention = GroupedQueryAttention(d_model, n_heads, n_kv_heads, base)
        self.feed_forward = SwiGLU(d_model, d_ff)
        self.norm_1 = RMSNorm(d_model, eps)
        self.norm_2 = RMSNorm(d_model, eps)

    def forward(self, x, cache=None):
        normed = self.norm_1(x)
        heard = self.attention(normed) if cache is None else self.attention(normed, cache)
        stream = heard + x
        return self.feed_forward(self.norm_2(stream)) + stream


class LlamaNormedByFunctions(LlamaByCases):
    """The norms only keep the weights; the functional form of PyTorch does the work."""

    def forward(self, x, cache=None):
        def normed(y, norm):
            return F.rms_norm(y, norm.weight.shape, norm.weight, norm.eps)

        x = x + self.attention(normed(x, self.norm_1), cache)
        return x + self.feed_forward(normed(x, self.norm_2))


ALTERNATIVES = {
    "layer_norm": [layer_norm_by_pytorch, layer_norm_by_var, layer_norm_token_by_token, layer_norm_in_double],
    "rms_norm": [rms_norm_by_pytorch, rms_norm_by_division, rms_norm_by_einsum],
    "gelu": [gelu_by_pytorch, gelu_by_the_normal, gelu_by_the_complement],
    "gelu_tanh": [gelu_tanh_by_pytorch, gelu_tanh_by_a_sigmoid, gelu_tanh_by_steps],
    "FeedForward": [FeedForwardByModules, FeedForwardByProducts, FeedForwardTokenByToken],
    "SwiGLU": [SwigluByPytorch, SwigluPacked, SwigluAsASum],
    "EncoderBlock": [EncoderWithPytorchsNorms, EncoderInOneExpression, EncoderByPytorchsLayer],
    "DecoderBlock": [DecoderWithPytorchsNorms, DecoderAsASum, DecoderSentenceBySentence],
    "LlamaBlock": [LlamaWithPytorchsNorms, LlamaByCases, LlamaNormedByFunctions],
}
