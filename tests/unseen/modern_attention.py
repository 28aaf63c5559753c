"""Wrong answers to the chapter on today's models that its list of misconceptions does not hold in these words."""

import functools
import math

import torch

from solutions import modern_attention as solutions
from tests.alternatives.kv_cache import JustJoined
from tests.alternatives.modern_attention import (
    FusedWithAMask, KeysJoined, SortedByExpert, route_by_sorting, scaled_by_where, scaled_pair_by_pair,
    sink_by_a_sigmoid)
from tests.unseen.parts import changed

KEYS = "self.norm_k(split_heads(self.W_k(x), self.n_kv_heads))"
NORMED_KEYS = f"apply_rope({KEYS}, positions, self.base)"
CHOSEN = "route(self.router(rows), self.top_k)"
CHOICE = f"weights, experts = {CHOSEN}"
SIGMOIDS = "order.values[:, :top_k].sigmoid()"
VALUES = "torch.softmax(order.values[:, :top_k], dim=-1)"


def stretched(wrong):
    def frequencies(d_head, base, factor, low, high, original_length):
        plain = base ** (-torch.arange(0, d_head, 2) / d_head)
        return wrong(plain, factor, original_length * plain / (2 * math.pi), low, high)

    return frequencies

layer = functools.partial(changed, FusedWithAMask)


class LatentTwice(KeysJoined):
    """Appends the latent as keys and as values, and keeps the rotated keys to itself."""

    def read(self, x, cache):
        if cache is None:
            return super().read(x, None)
        if not len(cache):
            self.own = JustJoined()
        plain, turned, latent, key, first = super().read(x, self.own)
        cache.append(latent[:, :, first:], latent[:, :, first:])
        return plain, turned, latent, key, first


class AllRowsToo(SortedByExpert):
    """Calls every expert once more for nothing."""

    def forward(self, x):
        for expert in self.experts:
            expert(x.flatten(0, 1))
        return super().forward(x)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "soft_cap": [
        (lambda scores, cap: scores if cap is None else scores.clip(min=-cap).clip(max=cap), "clipped"),
        (lambda scores, cap: scores, "Nothing is bent"),
        (lambda scores, cap: cap * torch.tanh(scores / cap), "`cap=None`"),
        (lambda scores, cap: (cap or 50) * torch.tanh(scores / (cap or 50)), "`cap=None`"),
    ],
    "softmax_with_sink": [
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, -sink, mask), "opposite sign"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink.flip(0), mask), "another head"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink), "mask has no effect"),
    ],
    "scaled_rope_frequencies": [
        (stretched(lambda plain, factor, turns, low, high: plain / factor), "Every frequency is divided"),
        (stretched(lambda plain, factor, turns, low, high: torch.where(turns > high, plain, plain / factor)),
         "the frequency is divided"),
        (stretched(lambda plain, factor, turns, low, high: plain / (1 + (factor - 1) * (turns < low))),
         "kept as it is"),
        (changed(scaled_pair_by_pair, "original_length / low", "original_length"), None),
        (stretched(lambda plain, factor, turns, low, high: plain / factor + (plain - plain / factor) * (
            (2 * math.pi / plain - low) / (high - low)).clamp(0, 1)), "Wavelengths are compared"),
        (lambda *sizes, **named: scaled_by_where(*sizes, **named).round(decimals=6), None),
    ],
    "QKNormAttention": [
        (layer("enable_gqa=True", "enable_gqa=True, scale=1.0"), "not divided by the square root"),
        (layer("enable_gqa=True", "enable_gqa=True, scale=1 / q.shape[-1]"), "d_head itself"),
        (layer("if self.window is not None", "if False"), "window is not used"),
        (layer("tril(first)", "tril()", "triu(first -", "triu(0 -"), "begins at the first key"),
        (layer("= cache.append(k, v)", "= (t if self.window is None else t[:, :, -self.window:] "
               "for t in cache.append(k, v))"), None),
        (changed(solutions.QKNormAttention, NORMED_KEYS, KEYS, "distance = ",
                 "k = apply_rope(k, torch.arange(k.shape[2], device=x.device), self.base)\n        distance = "), None),
    ],
    "LatentAttention": [
        (LatentTwice, None),
        (changed(solutions.LatentAttention, "k, v = (", "old = getattr(self, 'old', latent)\n        latent = self.old = "
                 "old if cache is None and old.shape == latent.shape else latent\n        k, v = ("), None),
        (changed(KeysJoined, "torch.cat([plain, turned], -1)", "torch.cat([plain, turned.flip(-1)], -1)"), None),
    ],
    "route": [
        (changed(route_by_sorting, "order.indices[:, :top_k]", "order.indices[:, :top_k].float()"), "are floats"),
        (changed(route_by_sorting, VALUES, f"{VALUES}.log()"), None),
        (changed(route_by_sorting, VALUES, f"torch.nn.functional.normalize({SIGMOIDS}, p=1, dim=-1)"), "are sigmoids"),
    ],
    "MixtureOfExperts": [
        (AllRowsToo, None),
        (changed(solutions.MixtureOfExperts, CHOICE, f"self.kept = getattr(self, 'kept', None) or {CHOSEN}\n        "
                 "weights, experts = self.kept"), None),
    ],
}
