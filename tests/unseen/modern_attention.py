"""Wrong answers to the chapter on today's models that its list of misconceptions does not hold in these words."""

import math

import torch
import torch.nn.functional as F

from tests.alternatives.modern_attention import (
    Absorbed, FusedWithAMask, KeysJoined, SortedByExpert, TokenByToken, scaled_pair_by_pair, sink_by_a_sigmoid)


def capped(f):
    return lambda scores, cap: scores if cap is None else f(scores, cap)


def by_hand(scores, sink, mask=None, *, top=None, total=None):
    """exp over a sum, with what is subtracted and what is added to the total in question."""
    shown = scores if mask is None else torch.where(mask, scores, -torch.inf)
    at = sink[None, :, None, None]
    largest = top(shown, at)
    powers = torch.exp(shown - largest)
    return powers / (powers.sum(-1, keepdim=True) + total(at, largest))


def stretched(wrong):
    def frequencies(d_head, base, factor, low, high, original_length):
        plain = base ** (-torch.arange(0, d_head, 2) / d_head)
        return wrong(plain, factor, original_length * plain / (2 * math.pi), low, high)

    return frequencies


class Layer(FusedWithAMask):
    """A right layer in parts, for answers that get one of them wrong."""

    def forward(self, x, cache=None):
        first = len(cache) if cache is not None else 0
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = self.kept(cache, k, v)
        seen = self.seen(x.shape[1], k.shape[2], first, x.device)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True, scale=self.scale())
        return self.W_o(out.transpose(1, 2).flatten(2))

    def kept(self, cache, k, v):
        return cache.append(k, v)

    def scale(self):
        return self.width**-0.5

    def seen(self, n, total, first, device):
        seen = torch.ones(n, total, dtype=torch.bool, device=device).tril(first)
        return seen if self.window is None else seen.triu(first - self.window + 1)


def but(**parts):
    return type("QKNormAttention", (Layer,), parts)


def only_the_window_is_kept(self, cache, k, v):
    k, v = cache.append(k, v)
    return (k, v) if self.window is None else (k[:, :, -self.window:], v[:, :, -self.window:])


class LatentTwice(KeysJoined):
    """Appends the latent as keys and as values, and keeps the rotated keys to itself."""

    def read(self, x, cache):
        if cache is None:
            return super().read(x, None)
        plain, turned, latent, key, first = super().read(x, _Shifted(len(cache)))
        self.keys = key if first == 0 else torch.cat([self.keys, key], 2)
        return plain, turned, cache.append(latent, latent)[0], self.keys, first


class _Shifted:
    """Says how long it is and keeps nothing."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def append(self, k, v):
        return k, v


def routed(change):
    def wrong(logits, top_k):
        values, experts = logits.topk(top_k, dim=-1)
        return change(values, experts)

    return wrong


class Doubled(SortedByExpert):
    def forward(self, x):
        return 2 * super().forward(x)


class AllRowsToo(SortedByExpert):
    """Calls every expert once more for nothing."""

    def forward(self, x):
        for expert in self.experts:
            expert(x.flatten(0, 1))
        return super().forward(x)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "soft_cap": [
        (capped(lambda scores, cap: scores.clip(min=-cap).clip(max=cap)), "clipped"),
        (capped(lambda scores, cap: cap * torch.tanh(scores / cap) + 1e-3), None),
        (lambda scores, cap: scores, "Nothing is bent"),
        (lambda scores, cap: cap * torch.tanh(scores / cap), "`cap=None`"),
    ],
    "softmax_with_sink": [
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, -sink, mask), "opposite sign"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink.flip(0), mask), "another head"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink), "mask has no effect"),
        (lambda scores, sink, mask=None: by_hand(scores, sink, mask, top=lambda shown, at: at,
                                                 total=lambda at, largest: torch.ones_like(at)), None),
    ],
    "scaled_rope_frequencies": [
        (stretched(lambda plain, factor, turns, low, high: plain / factor), "Every frequency is divided"),
        (stretched(lambda plain, factor, turns, low, high: torch.where(turns > high, plain, plain / factor)),
         "the frequency is divided"),
        (stretched(lambda plain, factor, turns, low, high: plain / (1 + (factor - 1) * (turns < low))),
         "kept as it is"),
    ],
    "QKNormAttention": [
        (but(kept=only_the_window_is_kept), None),
        (but(scale=lambda self: 1.0), "not divided by the square root"),
        (but(scale=lambda self: 1 / self.width), "d_head itself"),
        (but(seen=lambda self, n, total, first, device: torch.ones(n, total, device=device).tril(first).bool()),
         "window is not used"),
        (but(seen=lambda self, n, total, first, device: Layer.seen(self, n, total, 0, device)),
         "begins at the first key"),
    ],
    "LatentAttention": [
        (LatentTwice, None),
    ],
    "route": [
        (routed(lambda values, experts: (values.softmax(-1), experts + 1)), None),
        (routed(lambda values, experts: (values.softmax(-1), experts.float())), "are floats"),
    ],
    "MixtureOfExperts": [
        (Doubled, None),
        (AllRowsToo, None),
    ],
}
