"""The parts of the chapter on today's models once more, from PyTorch's own operations, with a switch for each mistake.

`parts()` is what a right answer is compared with. `parts("norm after the rotation")` has that one mistake.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests import references

# What can be wrong in a part, and a small model whose logits show it.
MISTAKES = {
    "frequencies not stretched": "llama3",
    "every frequency stretched": "llama3",
    "no mix between the bands": "llama3",
    "shares of the mix exchanged": "llama3",
    "queries and keys not normed": "qwen3",
    "norm after the rotation": "qwen3",
    "values normed too": "qwen3",
    "scale of the model's width per head": "qwen3",
    "positions begin again with a cache": "qwen3",
    "window one token longer": "gemma3",
    "window one token shorter": "gemma3",
    "no window": "gemma3",
    "window counted from the chunk": "gemma3",
    "base ignored": "gemma3",
    "no cap": "gemma3",
    "cap without its factor": "gemma3",
    "no sink": "gpt_oss",
    "sink counted as a key": "gpt_oss",
    "one sink for all heads": "gpt_oss",
    "weights of the router before the choice": "gpt_oss",
    "weights of the router in another order": "gpt_oss",
    "weights of the router left out": "gpt_oss",
    "only the first expert": "gpt_oss",
    "latent not normed": "deepseek_v3",
    "shared key not rotated": "deepseek_v3",
    "query not rotated": "deepseek_v3",
    "rotated part of a query first": "deepseek_v3",
    "scale of the plain width alone": "deepseek_v3",
    "keys and values exchanged": "deepseek_v3",
}


def rotated(x, positions, base):
    return references.rotated(x, positions, base).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class GatedNetwork(nn.Module):
    """The SwiGLU of a mixture's experts."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_gate, self.W_up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.W_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


def parts(mistake: str | None = None) -> dict:
    """The seven answers by name, all right or with one mistake of MISTAKES."""
    assert mistake is None or mistake in MISTAKES, mistake

    def soft_cap(scores, cap):
        if cap is None or mistake == "no cap":
            return scores
        return torch.tanh(scores / cap) * (1 if mistake == "cap without its factor" else cap)

    def softmax_with_sink(scores, sink, mask=None):
        sink = sink[:1].expand_as(sink) if mistake == "one sink for all heads" else sink
        if mask is not None:
            scores = torch.where(mask, scores, -math.inf)
        column = sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        if mistake == "no sink":
            column = torch.full_like(column, -math.inf)
        weights = torch.cat([scores, column], dim=-1).softmax(-1)
        if mistake == "sink counted as a key":  # the keys stand one place too far to the right
            return torch.cat([weights[..., -1:], weights[..., :-2]], dim=-1)
        return weights[..., :-1]

    def scaled_rope_frequencies(d_head, base, factor, low, high, original_length):
        plain = base ** (-torch.arange(0, d_head, 2) / d_head)
        if mistake == "frequencies not stretched":
            return plain
        share = ((original_length * plain / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        if mistake == "every frequency stretched":
            share = torch.zeros_like(share)
        if mistake == "no mix between the bands":
            share = share.ceil()
        if mistake == "shares of the mix exchanged":
            share = torch.where((share > 0) & (share < 1), 1 - share, share)
        return share * plain + (1 - share) * plain / factor

    class QKNormAttention(nn.Module):
        def __init__(self, d_model, n_heads, n_kv_heads, d_head, base=10000.0, window=None, eps=1e-6):
            super().__init__()
            self.n_heads, self.n_kv_heads, self.window = n_heads, n_kv_heads, window
            self.base = 10000.0 if mistake == "base ignored" else base
            self.scale = d_head**-0.5
            if mistake == "scale of the model's width per head":
                self.scale = (d_model / n_heads) ** -0.5
            self.W_q = nn.Linear(d_model, n_heads * d_head, bias=False)
            self.W_k, self.W_v = (nn.Linear(d_model, n_kv_heads * d_head, bias=False) for _ in range(2))
            self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)
            self.norm_q, self.norm_k = Norm(d_head, eps), Norm(d_head, eps)

        def forward(self, x, cache=None):
            past = len(cache) if cache is not None else 0
            n = x.shape[1]
            at = torch.arange(n) + (0 if mistake == "positions begin again with a cache" else past)
            q, k, v = (
                linear(x).unflatten(-1, (heads, -1)).transpose(1, 2)
                for linear, heads in (
                    (self.W_q, self.n_heads),
                    (self.W_k, self.n_kv_heads),
                    (self.W_v, self.n_kv_heads),
                )
            )
            if mistake == "values normed too":
                v = self.norm_k(v)
            if mistake == "queries and keys not normed":
                q, k = rotated(q, at, self.base), rotated(k, at, self.base)
            elif mistake == "norm after the rotation":
                q, k = self.norm_q(rotated(q, at, self.base)), self.norm_k(rotated(k, at, self.base))
            else:
                q, k = rotated(self.norm_q(q), at, self.base), rotated(self.norm_k(k), at, self.base)
            if cache is not None:
                k, v = cache.append(k, v)
            back = torch.arange(past, past + n)[:, None] - torch.arange(past + n)
            seen = back >= 0
            if self.window is not None and mistake != "no window":
                longer = {"window one token longer": 1, "window one token shorter": -1}.get(mistake, 0)
                if mistake == "window counted from the chunk":  # its first token is every query's own
                    back = back.new_tensor(past) - torch.arange(past + n).expand_as(back)
                seen = seen & (back < self.window + longer)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale, enable_gqa=True)
            return self.W_o(mixed.transpose(1, 2).flatten(2))

    class LatentAttention(nn.Module):
        def __init__(self, d_model, n_heads, d_head, d_rope, d_latent, base=10000.0, eps=1e-6):
            super().__init__()
            self.n_heads, self.d_head, self.d_rope, self.base = n_heads, d_head, d_rope, base
            self.W_q = nn.Linear(d_model, n_heads * (d_head + d_rope), bias=False)
            self.W_down = nn.Linear(d_model, d_latent, bias=False)
            self.norm = Norm(d_latent, eps)
            self.W_k_rope = nn.Linear(d_model, d_rope, bias=False)
            self.W_up_k, self.W_up_v = (nn.Linear(d_latent, n_heads * d_head, bias=False) for _ in range(2))
            self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)

        def forward(self, x, cache=None):
            past = len(cache) if cache is not None else 0
            at = torch.arange(past, past + x.shape[1])
            q = self.W_q(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            plain, turned = q.split([self.d_head, self.d_rope], dim=-1)
            if mistake == "rotated part of a query first":
                turned, plain = q.split([self.d_rope, self.d_head], dim=-1)
            if mistake != "query not rotated":
                turned = rotated(turned, at, self.base)
            latent = self.W_down(x)[:, None]
            if mistake != "latent not normed":
                latent = self.norm(latent)
            shared = self.W_k_rope(x)[:, None]
            if mistake != "shared key not rotated":
                shared = rotated(shared, at, self.base)
            if cache is not None:
                latent, shared = cache.append(latent, shared)
            keys, values = (
                up(latent[:, 0]).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for up in (self.W_up_k, self.W_up_v)
            )
            if mistake == "keys and values exchanged":
                keys, values = values, keys
            width = self.d_head if mistake == "scale of the plain width alone" else self.d_head + self.d_rope
            scores = (plain @ keys.mT + turned @ shared.mT) / width**0.5
            later = torch.arange(keys.shape[2]) > at[:, None]
            mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ values
            return self.W_o(mixed.transpose(1, 2).flatten(2))

    def route(logits, top_k):
        order = logits.argsort(dim=-1, descending=True)[:, :top_k]
        weights = logits.gather(-1, order).softmax(-1)
        if mistake == "weights of the router before the choice":
            weights = logits.softmax(-1).gather(-1, order)
        if mistake == "weights of the router in another order":
            weights = weights.flip(-1)
        if mistake == "weights of the router left out":
            weights = torch.ones_like(weights)
        if mistake == "only the first expert":
            weights = torch.cat([torch.ones_like(weights[:, :1]), torch.zeros_like(weights[:, 1:])], dim=-1)
        return weights, order

    class MixtureOfExperts(nn.Module):
        def __init__(self, d_model, d_ff, n_experts, top_k):
            super().__init__()
            self.top_k = top_k
            self.router = nn.Linear(d_model, n_experts, bias=False)
            self.experts = nn.ModuleList(GatedNetwork(d_model, d_ff) for _ in range(n_experts))

        def forward(self, x):
            rows = x.flatten(0, 1)
            weights, order = route(self.router(rows), self.top_k)
            out = torch.zeros_like(rows)
            for e, expert in enumerate(self.experts):
                token, place = (order == e).nonzero(as_tuple=True)
                out = out.index_add(0, token, weights[token, place, None] * expert(rows[token]))
            return out.view_as(x)

    found = (soft_cap, softmax_with_sink, scaled_rope_frequencies, QKNormAttention, LatentAttention, route)
    return {part.__name__: part for part in (*found, MixtureOfExperts)}
