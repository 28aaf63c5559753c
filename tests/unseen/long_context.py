"""Wrong answers on longer texts and smaller caches that the list of mistakes does not hold in these words."""

import math

import torch

from solutions import long_context as solutions
from tests.alternatives.kv_cache import JustJoined
from tests.alternatives.long_context import (
    KeysJoined,
    index_by_einsum,
    index_head_by_head,
    scaled_by_where,
    scaled_pair_by_pair,
    top_k_by_gathering,
    top_k_query_by_query,
)
from tests.unseen.parts import changed


def stretched(wrong):
    def frequencies(d_head, base, factor, low, high, original_length):
        plain = base ** (-torch.arange(0, d_head, 2) / d_head)
        return wrong(plain, factor, original_length * plain / (2 * math.pi), low, high)

    return frequencies


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


def exponent_without_two(d_head, base, factor, low, high, original_length):
    theta = base ** (-torch.arange(d_head // 2) / d_head)
    share = ((original_length * theta / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return share * theta + (1 - share) * theta / factor


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
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
        (stretched(lambda plain, factor, turns, low, high: plain / (
            (share := ((turns - low) / (high - low)).clamp(0, 1)) + (1 - share) * factor)), "Wavelengths are mixed"),
        (exponent_without_two, "half of what it should be"),
    ],
    "LatentAttention": [
        (LatentTwice, None),
        (changed(solutions.LatentAttention, "k, v = (", "old = getattr(self, 'old', latent)\n        latent = self.old = "
                 "old if cache is None and old.shape == latent.shape else latent\n        k, v = ("), None),
        (changed(solutions.LatentAttention, "split_heads(up(latent[:, 0]), self.n_heads)",
                 "up(latent).view(len(x), self.n_heads, -1, self.d_head)"), "W_up_k and W_up_v return"),
        (changed(solutions.LatentAttention, "self.W_k_rope(x), positions", "self.W_k_rope(x), torch.arange(x.shape[1])"),
         "begin at position 0"),
        (changed(KeysJoined, "torch.cat([plain, turned], -1)", "torch.cat([plain, turned.flip(-1)], -1)"), None),
    ],
    "index_scores": [
        (changed(index_by_einsum, ".clamp(min=0)", ""), "ReLU is missing"),
        (changed(index_by_einsum, ".clamp(min=0), weights)", ", weights).clamp(min=0)"), "after the sum"),
        (changed(index_by_einsum, "bhij,bih->bij", "bhij,bjh->bij"), None),
        (changed(index_head_by_head, "F.relu", "F.leaky_relu"), None),
        (changed(index_head_by_head, "weights[:, :, h, None]", "weights[:, :, 0, None]"), None),
        (changed(index_head_by_head, "return total", "return total * q.shape[-1] ** -0.5"), "square root"),
    ],
    "top_k_attention": [
        (changed(top_k_by_gathering, "best = scores.detach().masked_fill(~readable, -torch.inf)", "best = scores.detach()"),
         "among all"),
        (changed(top_k_by_gathering, "own = ", "own = scores.gather(-1, best)[:, None] + 0 * "), "softmax of `scores`"),
        (changed(top_k_by_gathering, "where(total > 0, total, 1)", "where(total > 0, total, 0)"), "gets nan"),
        (changed(top_k_query_by_query, "descending=True", "descending=False"), "smallest"),
        (changed(top_k_query_by_query, "end = i + 1 + n_k - n_q", "end = i + 1"), "begins at the first key"),
        (changed(top_k_query_by_query, "[:, :top_k]", "[:, :1]"), None),
        (changed(top_k_query_by_query, "torch.softmax(own, -1)", "torch.softmax(own, -1) * min(1, top_k / end)"), None),
        (lambda Q, K, V, scores, top_k: solutions.top_k_attention(Q, K, V, scores.cumsum(-1), top_k), None),
    ],
}
