"""Correct answers to the chapter on today's models, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F

from solutions import modern_attention as solutions
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


# scaled_rope_frequencies

def scaled_pair_by_pair(d_head, base, factor, low, high, original_length):
    """A loop over the pairs, in Python's own numbers."""
    found = []
    for i in range(d_head // 2):
        frequency = base ** (-2 * i / d_head)
        wavelength = 2 * math.pi / frequency
        if wavelength < original_length / high:
            found.append(frequency)
        elif wavelength > original_length / low:
            found.append(frequency / factor)
        else:
            kept = (original_length / wavelength - low) / (high - low)
            found.append((1 - kept) * frequency / factor + kept * frequency)
    return torch.tensor(found)


def scaled_by_where(d_head, base, factor, low, high, original_length):
    """As `transformers` does it."""
    plain = 1.0 / base ** (torch.arange(0, d_head, 2).float() / d_head)
    wavelength = 2 * math.pi / plain
    slow, fast = wavelength > original_length / low, wavelength < original_length / high
    scaled = torch.where(slow, plain / factor, plain)
    smooth = (original_length / wavelength - low) / (high - low)
    return torch.where(~slow & ~fast, (1 - smooth) * scaled / factor + smooth * scaled, scaled)


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


# LatentAttention

class _LatentMaps(solutions.LatentAttention):
    """The reference's maps and norm."""

    def read(self, x, cache):
        """Both parts of the queries, and the latents and rotated keys of all tokens so far."""
        first = 0 if cache is None else len(cache)
        where = torch.arange(first, first + x.shape[1], device=x.device)
        q = self.W_q(x).unflatten(-1, (self.n_heads, self.d_head + self.d_rope)).transpose(1, 2)
        plain, turned = q[..., :self.d_head], apply_rope(q[..., self.d_head:], where, self.base)
        latent, key = self.norm(self.W_down(x)), apply_rope(self.W_k_rope(x), where, self.base)
        latent, key = latent.unsqueeze(1), key.unsqueeze(1)
        return plain, turned, *((latent, key) if cache is None else cache.append(latent, key)), first


class KeysJoined(_LatentMaps):
    """Each head gets whole keys, the shared part joined to its own, for PyTorch's fused attention."""

    def forward(self, x, cache=None):
        plain, turned, latent, key, first = self.read(x, cache)
        k, v = (W(latent[:, 0]).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for W in (self.W_up_k, self.W_up_v))
        q, k = torch.cat([plain, turned], -1), torch.cat([k, key.expand(-1, self.n_heads, -1, -1)], -1)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(first)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=(self.d_head + self.d_rope) ** -0.5)
        return self.W_o(out.transpose(1, 2).flatten(2))


class Absorbed(_LatentMaps):
    """No key and no value is ever made: the matrices move over to the query and to the average of the latents."""

    def forward(self, x, cache=None):
        plain, turned, latent, key, first = self.read(x, cache)
        up_k, up_v = (W.weight.unflatten(0, (self.n_heads, self.d_head)) for W in (self.W_up_k, self.W_up_v))
        scores = torch.einsum("bhid,hdc,bjc->bhij", plain, up_k, latent[:, 0])
        scores = scores + torch.einsum("bhir,bjr->bhij", turned, key[:, 0])
        places = torch.arange(latent.shape[2], device=x.device)
        scores = scores.masked_fill(places > places[first:, None], -torch.inf) / math.sqrt(self.d_head + self.d_rope)
        mixed = torch.einsum("bhij,bjc->bhic", scores.softmax(-1), latent[:, 0])
        return self.W_o(torch.einsum("bhic,hdc->bihd", mixed, up_v).flatten(2))


# route

def route_by_sorting(logits, top_k):
    order = logits.sort(dim=-1, descending=True)
    return torch.softmax(order.values[:, :top_k], dim=-1), order.indices[:, :top_k]


def route_after_a_softmax(logits, top_k):
    """A softmax over all, divided by what the chosen ones have: the total over all cancels."""
    weights, experts = torch.softmax(logits, dim=-1).topk(top_k)
    return weights / weights.sum(-1, keepdim=True), experts


# MixtureOfExperts

class TokenByToken(solutions.MixtureOfExperts):
    """A loop over tokens: each expert is given one vector at a time."""

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        out = []
        for row, logits in zip(rows, self.router(rows)):
            best, which = logits.topk(self.top_k)
            out.append(sum(w * self.experts[e](row) for w, e in zip(best.softmax(0), which.tolist())))
        return torch.stack(out).reshape(x.shape)


class SortedByExpert(solutions.MixtureOfExperts):
    """All choices sorted by expert and cut into pieces, as fast programs do it."""

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, experts = route_by_sorting(self.router(rows), self.top_k)
        order = experts.flatten().argsort(stable=True)
        counts = torch.bincount(experts.flatten(), minlength=len(self.experts)).tolist()
        pieces = rows[order // self.top_k].split(counts)
        made = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces) if len(piece)])
        back = torch.empty_like(made)
        back = back.index_copy(0, order, made).unflatten(0, (-1, self.top_k))
        return (weights[..., None] * back).sum(1).view_as(x)


ALTERNATIVES = {
    "soft_cap": [cap_by_a_sigmoid, cap_in_place_on_a_copy],
    "softmax_with_sink": [sink_by_a_sigmoid, sink_head_by_head],
    "scaled_rope_frequencies": [scaled_pair_by_pair, scaled_by_where],
    "QKNormAttention": [FusedWithAMask, SlicePerQuery],
    "LatentAttention": [KeysJoined, Absorbed],
    "route": [route_by_sorting, route_after_a_softmax],
    "MixtureOfExperts": [TokenByToken, SortedByExpert],
}
