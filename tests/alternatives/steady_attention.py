"""Right answers to the chapter on scores that stay in hand, each found in another way than the reference."""

import math

import torch
import torch.nn.functional as F

from solutions import steady_attention as solutions
from solutions.rope import apply_rope

# soft_cap

def cap_by_a_sigmoid(scores, cap):
    """A tanh is a sigmoid that was stretched."""
    if cap is None:
        return scores
    return 2 * cap * torch.sigmoid(2 * scores / cap) - cap


def cap_in_place_on_a_copy(scores, cap):
    bent = scores.clone()
    if cap is not None:
        bent = bent.div(cap).tanh_().mul(cap)
    return bent


# softmax_with_sink

def sink_by_a_sigmoid(scores, sink, mask=None):
    """An ordinary softmax, times the share that the sink leaves: a sigmoid of how far the sink is below the total."""
    hidden = scores if mask is None else torch.where(mask, scores, -torch.inf)
    empty = torch.isneginf(hidden).all(-1, keepdim=True)
    total = hidden.masked_fill(empty, 0.0).logsumexp(-1, keepdim=True)
    left = torch.sigmoid(total - sink.to(scores.dtype).view(-1, 1, 1))
    return ((hidden - total).exp() * left).masked_fill(empty, 0.0)


def sink_head_by_head(scores, sink, mask=None):
    """By the definition, with the largest of all numbers subtracted, one head after the other."""
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    heads = []
    for h in range(scores.shape[1]):
        own = torch.where(seen[:, h], scores[:, h].double(), -math.inf)
        top = torch.maximum(own.amax(-1, keepdim=True), sink[h].double())
        powers = torch.exp(own - top)
        heads.append(powers / (powers.sum(-1, keepdim=True) + torch.exp(sink[h].double() - top)))
    return torch.stack(heads, dim=1).to(scores.dtype)


# QKNormAttention

class _NormedMaps(solutions.QKNormAttention):
    """The reference's maps and norms."""

    def heads_of(self, x, first):
        """Queries and keys normed and turned, and values."""
        width = len(self.norm_q.weight)
        q, k, v = (W(x).unflatten(-1, (-1, width)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        where = torch.arange(first, first + x.shape[1], device=x.device)
        return apply_rope(self.norm_q(q), where, self.base), apply_rope(self.norm_k(k), where, self.base), v


class FusedWithAMask(_NormedMaps):
    """PyTorch's fused attention, which shares heads by itself."""

    def forward(self, x, cache=None):
        first = len(cache) if cache is not None else 0
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        seen = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool, device=x.device).tril(first)
        if self.window is not None:
            seen = seen.triu(first - self.window + 1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.W_o(out.transpose(1, 2).flatten(2))


class SlicePerQuery(_NormedMaps):
    """A loop over new tokens: each takes the slice of keys that it may see, so no mask is needed."""

    def forward(self, x, cache=None):
        first = 0
        if cache is not None:
            first = len(cache)
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        rows = []
        for i in range(x.shape[1]):
            end = first + i + 1
            start = 0 if self.window is None else max(0, end - self.window)
            scores = (q[:, :, i, None] * k[:, :, start:end]).sum(-1) * q.shape[-1] ** -0.5
            mixed = (torch.softmax(scores, dim=-1)[..., None] * v[:, :, start:end]).sum(2)
            rows.append(self.W_o(mixed.flatten(1)))
        return torch.stack(rows, dim=1)


# GatedAttention

class _GatedMaps(solutions.GatedAttention):
    """The reference's maps and norms."""

    def heads_of(self, x, first):
        """Queries and keys normed and partly turned, and values."""
        width = len(self.norm_q.weight)
        q, k, v = (W(x).unflatten(-1, (-1, width)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        where = torch.arange(first, first + x.shape[1], device=x.device)
        return self.turn(self.norm_q(q), where), self.turn(self.norm_k(k), where), v

    def turn(self, x, where):
        turned, rest = x.split([self.d_rotary, x.shape[-1] - self.d_rotary], dim=-1)
        return torch.cat([apply_rope(turned, where, self.base), rest], -1)


class FusedWithAGate(_GatedMaps):
    """PyTorch's fused attention; the gate opens each head before the heads are merged."""

    def forward(self, x, cache=None):
        first = 0 if cache is None else len(cache)
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        seen = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool, device=x.device).tril(first)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        gate = self.W_g(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return self.W_o((out * gate.sigmoid()).transpose(1, 2).flatten(2))


class TurnedByAMatrix(_GatedMaps):
    """Cosines and sines written out, 1 and 0 for numbers that pass. The gate is an exponential."""

    def turn(self, x, where):
        half = self.d_rotary // 2
        speeds = self.base ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angles = where[:, None] * speeds
        cos, sin = torch.ones(2, len(where), x.shape[-1], device=x.device).unbind()
        sin = sin - 1
        cos = torch.cat([angles.cos(), angles.cos(), cos[:, self.d_rotary:]], -1).to(x.dtype)
        sin = torch.cat([-angles.sin(), angles.sin(), sin[:, self.d_rotary:]], -1).to(x.dtype)
        order = torch.arange(x.shape[-1], device=x.device)
        swapped = torch.cat([order[half : self.d_rotary], order[:half], order[self.d_rotary:]])
        return x * cos + x[..., swapped] * sin

    def forward(self, x, cache=None):
        first = 0 if cache is None else len(cache)
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        groups = self.n_heads // self.n_kv_heads
        q = q.unflatten(1, (-1, groups))
        scores = torch.einsum("bgrid,bgjd->bgrij", q, k) / math.sqrt(q.shape[-1])
        places = torch.arange(k.shape[2], device=x.device)
        scores = scores.where(places <= places[first:, None], -torch.inf)
        mixed = torch.einsum("bgrij,bgjd->bigrd", scores.softmax(-1), v).flatten(2)
        return self.W_o(mixed / (1 + torch.exp(-self.W_g(x))))


class GateInsideTheMap(_GatedMaps):
    """A loop over new tokens: each takes the slice of keys that it may see; the gate scales the columns of W_o."""

    def forward(self, x, cache=None):
        first = 0
        if cache is not None:
            first = len(cache)
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        rows = []
        for i in range(x.shape[1]):
            end = first + i + 1
            scores = (q[:, :, i, None] * k[:, :, :end]).sum(-1) * q.shape[-1] ** -0.5
            mixed = (torch.softmax(scores, dim=-1)[..., None] * v[:, :, :end]).sum(2).flatten(1)
            columns = self.W_o.weight * torch.sigmoid(self.W_g(x[:, i]))[:, None]
            rows.append((columns @ mixed[..., None])[..., 0])
        return torch.stack(rows, dim=1)


ALTERNATIVES = {
    "soft_cap": [cap_by_a_sigmoid, cap_in_place_on_a_copy],
    "softmax_with_sink": [sink_by_a_sigmoid, sink_head_by_head],
    "QKNormAttention": [FusedWithAMask, SlicePerQuery],
    "GatedAttention": [FusedWithAGate, TurnedByAMatrix, GateInsideTheMap],
}
