"""Wrong answers to the chapter on scores that stay in hand that its list of mistakes does not hold in these words."""

import functools

import torch

from solutions import steady_attention as solutions
from tests.alternatives.steady_attention import FusedWithAMask, sink_by_a_sigmoid
from tests.unseen.parts import changed

KEYS = "self.norm_k(split_heads(self.W_k(x), self.n_kv_heads))"
NORMED_KEYS = f"apply_rope({KEYS}, positions, self.base)"

layer = functools.partial(changed, FusedWithAMask)


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
}
