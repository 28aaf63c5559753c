"""Correct answers to the chapter on blocks, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from solutions.cross_attention import CrossAttention
from solutions.kv_cache import GroupedQueryAttention
from solutions.multi_head import MultiHeadAttention
from solutions.transformer_block import SwiGLU


# layer_norm

def layer_norm_by_var(x, weight, bias, eps=1e-5):
    if x.dtype in (torch.float16, torch.bfloat16):
        return layer_norm_by_var(*(given.float() for given in (x, weight, bias)), eps).type_as(x)
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) / (variance + eps) ** 0.5, weight)


def layer_norm_in_double(x, weight, bias, eps=1e-5):
    """Everything in float64, brought back at the end."""
    wide = x.double()
    wide = wide - wide.mean(-1, keepdim=True)
    return (wide / (wide.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight + bias).to(x.dtype)


def layer_norm_in_single(x, weight, bias, eps=1e-5):
    """Everything in float32, whatever comes."""
    single = x.float()
    single = single - single.mean(-1, keepdim=True)
    root = torch.sqrt(single.square().mean(-1, keepdim=True) + eps)
    return (single / root * weight.float() + bias.float()).to(x.dtype)


def layer_norm_by_pytorch(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


# rms_norm

def rms_norm_as_llama_does(x, weight, eps=1e-5):
    """In float32, whatever comes; only the weight multiplies in the dtype of x."""
    single = x.float()
    return (single * torch.rsqrt(single.pow(2).mean(-1, keepdim=True) + eps)).type_as(x) * weight


def rms_norm_by_einsum(x, weight, eps=1e-5):
    wide = x.double()
    squares = torch.einsum("...i,...i->...", wide, wide)[..., None]
    return (wide * weight / torch.sqrt(squares / x.shape[-1] + eps)).to(x.dtype)


def rms_norm_by_pytorch(x, weight, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


# gelu, gelu_tanh

def gelu_by_the_normal(x):
    return x * torch.special.ndtr(x)


def gelu_by_the_complement(x):
    """erfc keeps digits far below 0, where 1 + erf loses them."""
    return 0.5 * x * torch.special.erfc(-x * math.sqrt(0.5))


def gelu_with_a_root_in_single(x):
    """The root is a float32 number, as torch.tensor makes it."""
    return 0.5 * x * (1 + torch.erf(x / torch.sqrt(torch.tensor(2.0))))


def gelu_tanh_with_a_root_in_single(x):
    return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * (x + 0.044715 * torch.pow(x, 3))))


def gelu_tanh_by_a_sigmoid(x):
    """(1 + tanh u) / 2 is the sigmoid of 2u."""
    return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x.pow(3)))


def gelu_by_pytorch(x):
    return F.gelu(x)


def gelu_tanh_by_pytorch(x):
    return F.gelu(x, approximate="tanh")


# FeedForward, SwiGLU

class FeedForwardByModules(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.switch = nn.GELU()
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.W_2(self.switch(self.W_1(x)))


class FeedForwardByProducts(FeedForwardByModules):
    def forward(self, x):
        middle = x @ self.W_1.weight.T + self.W_1.bias
        middle = gelu_by_the_normal(middle)
        return middle @ self.W_2.weight.T + self.W_2.bias


class FeedForwardTokenByToken(FeedForwardByModules):
    def forward(self, x):
        return torch.stack([super(FeedForwardTokenByToken, self).forward(x[:, i]) for i in range(x.shape[1])], dim=1)


class FeedForwardUnderTwoNames(nn.Module):
    """The maps are in a sequence, and go by the names that are asked for as well."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.W_1, _, self.W_2 = self.layers

    def forward(self, x):
        return self.layers(x)


class SwigluByPytorch(SwiGLU):
    def forward(self, x):
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


class SwigluPacked(SwigluByPytorch):
    """Both maps in one product."""

    def forward(self, x):
        both = F.linear(x, torch.cat([self.W_up.weight, self.W_gate.weight]))
        up, gate = both.chunk(2, dim=-1)
        return F.linear(up * gate / (1 + torch.exp(-gate)), self.W_down.weight)


class SwigluUnderTwoNames(nn.Module):
    """The gate is a sequence with its SiLU, and its map goes by the name that is asked for as well."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(d_model, d_ff, bias=False), nn.SiLU())
        self.W_gate = self.gate[0]
        self.W_up, self.W_down = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.W_down(self.gate(x) * self.W_up(x))


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


def _as_pytorch_names_them(block, names):
    """The block's parameters by the names of PyTorch's layer, which stacks three maps and has biases, here 0."""
    state = {}
    for ours, theirs in names.items():
        part = block.get_submodule(ours)
        if hasattr(part, "W_q"):
            stacked = torch.cat([part.W_q.weight, part.W_k.weight, part.W_v.weight])
            state |= {f"{theirs}.in_proj_weight": stacked, f"{theirs}.out_proj.weight": part.W_o.weight,
                      f"{theirs}.in_proj_bias": stacked.new_zeros(len(stacked)),
                      f"{theirs}.out_proj.bias": stacked.new_zeros(len(part.W_o.weight))}
        else:
            state |= {f"{theirs}.{name}": parameter for name, parameter in part.named_parameters()}
    return state


def _pytorchs(layer, block, heads, dtype):
    sizes = block.feed_forward.W_1.in_features, heads, block.feed_forward.W_1.out_features
    return layer(*sizes, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=dtype)


class EncoderByPytorchsLayer(EncoderWithPytorchsNorms):
    """PyTorch's own norm-first layer with these weights."""

    NAMES = {"attention": "self_attn", "norm_1": "norm1", "norm_2": "norm2", "feed_forward.W_1": "linear1",
             "feed_forward.W_2": "linear2"}

    def forward(self, x, mask=None):
        heads = self.attention.n_heads
        if mask is not None:
            full = (mask[:, None] if mask.ndim == 3 else mask).expand(x.shape[0], heads, x.shape[1], x.shape[1])
            mask = ~full.reshape(-1, x.shape[1], x.shape[1])
        twin = _pytorchs(nn.TransformerEncoderLayer, self, heads, x.dtype)
        return torch.func.functional_call(twin, _as_pytorch_names_them(self, self.NAMES), (x, mask))


class EncoderOverALoop(nn.Module):
    """Norms in a list under second names; a dropout of 0; the mask by its name."""

    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.norm_1, self.norm_2 = self.norms
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForwardUnderTwoNames(d_model, d_ff)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        def attend(y):
            return self.attention(x=y, mask=mask)[0]

        for norm, part in zip(self.norms, (attend, self.feed_forward)):
            x = x + self.dropout(part(norm(x)))
        return x


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
        future = torch.triu(torch.ones(n, n, device=x.device), diagonal=1).bool()
        x = x + self.self_attention(self.norm_1(x), mask=~future)[0]
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]
        x = x + self.feed_forward(self.norm_3(x))
        return x


class DecoderWithAStoredMask(DecoderWithPytorchsNorms):
    """The mask is a buffer of ones and zeros, larger than any text here; norms in single precision."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, 128, 128)))

    def forward(self, x, memory, memory_mask=None):
        def normed(y, norm):
            return layer_norm_in_single(y, norm.weight, norm.bias)

        n = x.shape[1]
        if memory_mask is None:
            memory_mask = torch.ones(memory.shape[:2], dtype=torch.bool, device=x.device)
        x = x + self.self_attention(normed(x, self.norm_1), self.mask[..., :n, :n] == 1)[0]
        x = x + self.cross_attention(x_q=normed(x, self.norm_2), x_kv=memory, kv_mask=memory_mask)[0]
        return x + self.feed_forward(normed(x, self.norm_3))


class DecoderSentenceBySentence(DecoderWithPytorchsNorms):
    def forward(self, x, memory, memory_mask=None):
        read = super().forward
        return torch.cat([read(x[b:b + 1], memory[b:b + 1], None if memory_mask is None else memory_mask[b:b + 1])
                          for b in range(len(x))])


class DecoderByPytorchsLayer(DecoderWithPytorchsNorms):
    """PyTorch's own norm-first layer with these weights; its masks have the opposite meaning."""

    NAMES = {"self_attention": "self_attn", "cross_attention": "multihead_attn", "norm_1": "norm1", "norm_2": "norm2",
             "norm_3": "norm3", "feed_forward.W_1": "linear1", "feed_forward.W_2": "linear2"}

    def forward(self, x, memory, memory_mask=None):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        padding = None if memory_mask is None else ~memory_mask
        twin = _pytorchs(nn.TransformerDecoderLayer, self, self.self_attention.n_heads, x.dtype)
        return torch.func.functional_call(twin, _as_pytorch_names_them(self, self.NAMES), (x, memory),
                                          dict(tgt_mask=future, memory_key_padding_mask=padding))


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


class AttentionWithTables(nn.Module):
    """Grouped attention of another make: tables of cosines and sines in float32, and PyTorch's own attention."""

    def __init__(self, d_model, n_heads, n_kv_heads, base=10000.0):
        super().__init__()
        d_head = d_model // n_heads
        self.W_q, self.W_o = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.W_k, self.W_v = (nn.Linear(d_model, n_kv_heads * d_head, bias=False) for _ in range(2))
        turns = torch.outer(torch.arange(256.0), 1.0 / base ** (torch.arange(0, d_head, 2).float() / d_head))
        self.d_head = d_head
        self.register_buffer("cos", turns.cos().repeat(1, 2))
        self.register_buffer("sin", turns.sin().repeat(1, 2))

    def forward(self, x, cache=None):
        start, n = 0 if cache is None else len(cache), x.shape[1]
        q, k, v = (W(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        q, k = (t * self.cos[start:start + n]
                + torch.cat([-t[..., self.d_head // 2:], t[..., :self.d_head // 2]], -1) * self.sin[start:start + n]
                for t in (q, k))
        if cache is not None:
            k, v = cache.append(k, v)
        seen = torch.ones(n, k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - n)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.W_o(heads.transpose(1, 2).flatten(2))


class RMSNormAsLlamaDoes(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        return rms_norm_as_llama_does(x, self.weight, self.variance_epsilon)


class LlamaOfOtherParts(nn.Module):
    """Every part of another make than the course's."""

    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.norm_1, self.norm_2 = RMSNormAsLlamaDoes(d_model, eps), RMSNormAsLlamaDoes(d_model, eps)
        self.attention = AttentionWithTables(d_model, n_heads, n_kv_heads, base)
        self.feed_forward = SwigluUnderTwoNames(d_model, d_ff)

    def forward(self, x, cache=None):
        x = x + self.attention(self.norm_1(x), cache)
        return x + self.feed_forward(self.norm_2(x))


ALTERNATIVES = {
    "layer_norm": [layer_norm_by_var, layer_norm_in_double, layer_norm_in_single],
    "rms_norm": [rms_norm_by_einsum, rms_norm_as_llama_does],
    "gelu": [gelu_by_the_normal, gelu_by_the_complement, gelu_with_a_root_in_single],
    "gelu_tanh": [gelu_tanh_by_a_sigmoid, gelu_tanh_with_a_root_in_single],
    "FeedForward": [FeedForwardByModules, FeedForwardByProducts, FeedForwardTokenByToken, FeedForwardUnderTwoNames],
    "SwiGLU": [SwigluByPytorch, SwigluPacked, SwigluUnderTwoNames],
    "EncoderBlock": [EncoderWithPytorchsNorms, EncoderOverALoop],
    "DecoderBlock": [DecoderWithPytorchsNorms, DecoderSentenceBySentence, DecoderWithAStoredMask],
    "LlamaBlock": [LlamaWithPytorchsNorms, LlamaOfOtherParts],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "layer_norm": [layer_norm_by_pytorch],
    "rms_norm": [rms_norm_by_pytorch],
    "gelu": [gelu_by_pytorch],
    "gelu_tanh": [gelu_tanh_by_pytorch],
    "EncoderBlock": [EncoderByPytorchsLayer],
    "DecoderBlock": [DecoderByPytorchsLayer],
}
