"""Wrong answers to the chapter on scores that stay in hand that its list of mistakes does not hold in these words."""

import functools

import torch

from solutions import steady_attention as solutions
from tests.alternatives.steady_attention import FusedWithAGate, FusedWithAMask, TurnedByAMatrix, sink_by_a_sigmoid
from tests.unseen.parts import changed

KEYS = "self.norm_k(split_heads(self.W_k(x), self.n_kv_heads))"
NORMED_KEYS = f"apply_rope({KEYS}, positions, self.base)"

layer = functools.partial(changed, FusedWithAMask)
gated = functools.partial(changed, FusedWithAGate)


def cap_by_exponentials(scores, cap):
    if cap is None:
        return scores
    e = torch.exp(2 * scores / cap)
    return cap * (e - 1) / (e + 1)


class CutToTheWindow(FusedWithAMask):
    """All queries of a chunk get the last `window` keys."""

    def forward(self, x, cache=None):
        if self.window is None:
            return super().forward(x, cache)
        first = 0 if cache is None else len(cache)
        q, k, v = self.heads_of(x, first)
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (kept[:, :, -self.window:].repeat_interleave(self.n_heads // self.n_kv_heads, 1) for kept in (k, v))
        at = torch.arange(first + x.shape[1])
        distance = at[first:, None] - at[-k.shape[2]:]
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill((distance < 0) | (distance >= self.window), -torch.inf)
        return self.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "soft_cap": [
        (lambda scores, cap: scores if cap is None else scores.clip(min=-cap).clip(max=cap), "clipped"),
        (lambda scores, cap: scores, "Nothing is bent"),
        (cap_by_exponentials, "made from exponentials"),
        (lambda scores, cap: scores if cap is None else torch.where(
            scores.abs() > cap, cap * torch.tanh(scores / cap), scores), "within it come back"),
        (lambda scores, cap: scores if cap is None else cap * torch.tanh(scores / torch.tensor([float(cap)])), None),
        (lambda scores, cap: cap * torch.tanh(scores / cap), "`cap=None`"),
        (lambda scores, cap: (cap or 50) * torch.tanh(scores / (cap or 50)), "`cap=None`"),
    ],
    "softmax_with_sink": [
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, -sink, mask), "opposite sign"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink.flip(0), mask), "another head"),
        (lambda scores, sink, mask=None: sink_by_a_sigmoid(scores, sink), "mask has no effect"),
    ],
    "QKNormAttention": [
        (layer("enable_gqa=True", "enable_gqa=True, scale=1.0"), "not divided by the square root"),
        (layer("enable_gqa=True", "enable_gqa=True, scale=1 / q.shape[-1]"), "d_head itself"),
        (layer("if self.window is not None", "if False"), "window is not used"),
        (CutToTheWindow, "cut to the last `window`"),
        (layer("tril(first)", "tril()", "triu(first -", "triu(0 -"), "begins at the first key"),
        (layer("= cache.append(k, v)", "= (t if self.window is None else t[:, :, -self.window:] "
               "for t in cache.append(k, v))"), None),
        (changed(solutions.QKNormAttention, NORMED_KEYS, KEYS, "distance = ",
                 "k = apply_rope(k, torch.arange(k.shape[2], device=x.device), self.base)\n        distance = "), None),
    ],
    "GatedAttention": [
        (gated("out * gate.sigmoid()", "out"), "gate is not used"),
        (gated("gate.sigmoid()", "gate"), "no sigmoid"),
        (gated("gate.sigmoid()", "F.silu(gate)"), "SiLU"),
        (gated("enable_gqa=True", "enable_gqa=True, scale=1.0"), "not divided by the square root"),
        (gated("tril(first)", "tril()"), "begins at the first key"),
        (gated("gate.sigmoid()", "gate.sigmoid().mean(1, keepdim=True)"), None),
        (gated("self.W_g(x)", "self.W_g(x.roll(1, dims=1))"), None),
        (changed(TurnedByAMatrix, "range(half,", "range(1, half + 1,"), None),
        (gated("q, k, v = self.heads_of(x, first)", "q, k, v = self.heads_of(x, first)\n        "
               "v = v if cache is None else v.detach().clone().mul_(self.W_g(x).sigmoid().mean())"), None),
    ],
}
