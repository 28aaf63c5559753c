"""Wrong answers to the cross-attention chapter that its list of misconceptions does not hold in these words."""

import functools

from tests.alternatives.cross_attention import ByFusedAttention, HeadByHead, alignment_by_sum
from tests.unseen.parts import changed

MASK = "kv_mask[:, None, None]"
CHECK = "_check(self, x_q, x_kv)"
layer = functools.partial(changed, ByFusedAttention)

# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "CrossAttention": [
        (changed(HeadByHead, "(hidden & ~empty, -math.inf), -1) * (~empty)", "(hidden, -100.0), -1)",
                 "torch.where(hidden, torch.zeros_like(weights), weights)", "weights"), "big finite number"),
        (layer(MASK, "-1e9 * (~kv_mask[:, None, None]).to(x_kv)"), "big finite number"),
        (layer(MASK, "kv_mask[-1:].expand_as(kv_mask)[:, None, None]"), "used for the whole batch"),
        (layer("attn_mask=mask", "attn_mask=mask, scale=self.h / x_q.size(2)"), "width of a head itself"),
        (layer("transpose(1, 2).flatten(2)), weights", "transpose(1, 2).flatten(2)), weights.sum(1)"), None),
        (layer("flatten(2)), weights", "flatten(2)), weights if kv_mask is None else weights.masked_fill("
               "~kv_mask.any(1)[:, None, None, None], 1 / x_kv.size(1))"), None),
        (layer(CHECK, f"{CHECK}\n        x_kv = x_kv.detach()"), None),
        (layer(CHECK, f"{CHECK}\n        if kv_mask is not None:\n            x_kv.data[~kv_mask] = 0"), None),
        (layer("ValueError", "AssertionError"), None),
        (changed(HeadByHead, CHECK, f"{CHECK}\n        given, kv_mask = kv_mask, None if kv_mask is None else kv_mask.clone()"
                 "\n        if given is not None:\n            given |= ~given.any(-1, keepdim=True)"), "mask is changed"),
    ],
    "hard_alignment": [
        (changed(alignment_by_sum, "dim=2)", "dim=2).squeeze()"), None),
        (changed(alignment_by_sum, "weights.sum(1)", "weights.div_(2).sum(1)"), None),
    ],
    "attention_multiply_adds": [
        (lambda n_q, n_kv, d_model: n_q * n_kv * d_model / 0.5, "it is a float"),
        (lambda n_q, n_kv, d_model: n_q * (n_kv + n_q) * d_model, None),
    ],
}
