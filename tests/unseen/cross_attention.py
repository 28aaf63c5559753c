"""Wrong answers to the cross-attention chapter that its list of misconceptions does not hold in these words."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """A right answer in parts; what derives from it changes one."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError("n_heads")
        self.h = n_heads
        for name in "qkvo":
            self.add_module(f"W_{name}", nn.Linear(d_model, d_model, bias=False))

    def refuse(self, x_q, x_kv):
        if x_q.dim() != 3 or x_kv.dim() != 3 or x_q.size(0) != x_kv.size(0):
            raise ValueError("sizes")

    def forward(self, x_q, x_kv, kv_mask=None):
        self.refuse(x_q, x_kv)
        q, k, v = (W(x).unflatten(-1, (self.h, -1)).transpose(-3, -2)
                   for W, x in ((self.W_q, x_q), (self.W_k, x_kv), (self.W_v, x_kv)))
        weights = self.share(torch.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.size(-1)), kv_mask)
        return self.W_o((weights @ v).transpose(1, 2).flatten(-2)), weights

    def share(self, scores, kv_mask):
        if kv_mask is None:
            return F.softmax(scores, -1)
        real = kv_mask[:, None, None]
        scores = torch.where(real | ~real.any(-1, keepdim=True), scores, -math.inf)
        return F.softmax(scores, -1) * real


class FilledWithMinusHundred(Layer):
    def share(self, scores, kv_mask):
        return F.softmax(scores if kv_mask is None else scores.masked_fill(~kv_mask[:, None, None], -100.0), -1)


class MinusBillionAdded(Layer):
    def share(self, scores, kv_mask):
        return F.softmax(scores if kv_mask is None else scores - 1e9 * (~kv_mask[:, None, None]), -1)


class LastMaskForAll(Layer):
    def share(self, scores, kv_mask):
        return super().share(scores, kv_mask if kv_mask is None else kv_mask[-1:].expand_as(kv_mask))


class ScaledTwice(Layer):
    def share(self, scores, kv_mask):
        return super().share(scores * (self.W_q.in_features // self.h) ** -0.5, kv_mask)


class EmptyOutputAlone(Layer):
    """An empty source gives an output of 0, but its weights are shared out evenly."""

    def forward(self, x_q, x_kv, kv_mask=None):
        if kv_mask is None:
            return super().forward(x_q, x_kv)
        some = kv_mask.any(1)[:, None]
        output, weights = super().forward(x_q, x_kv, kv_mask)
        return output * some[..., None], torch.where(some[..., None, None], weights, 1 / x_kv.shape[1])


class SourceDetached(Layer):
    def forward(self, x_q, x_kv, kv_mask=None):
        return super().forward(x_q, x_kv.detach(), kv_mask)


class PaddingOverwritten(Layer):
    def forward(self, x_q, x_kv, kv_mask=None):
        if kv_mask is not None:
            with torch.no_grad():
                x_kv[~kv_mask] = 0
        return super().forward(x_q, x_kv, kv_mask)


class SizesAsserted(Layer):
    def __init__(self, d_model, n_heads):
        assert n_heads > 0 and d_model % n_heads == 0
        super().__init__(d_model, n_heads)


def squares_averaged(weights):
    batch, n_heads, n_q, n_kv = weights.shape
    return weights.square().mean(1).argmax(-1)


def middle_head(weights):
    batch, n_heads, n_q, n_kv = weights.shape
    return weights.median(1).values.argmax(-1)


def axes_of_one_dropped(weights):
    batch, n_heads, n_q, n_kv = weights.shape
    return weights.mean(1).argmax(-1).squeeze()


def divided_in_place(weights):
    batch, n_heads, n_q, n_kv = weights.shape
    weights /= n_heads
    return weights.sum(1).argmax(-1)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "CrossAttention": [
        (FilledWithMinusHundred, "big finite number"),
        (MinusBillionAdded, "big finite number"),
        (LastMaskForAll, "used for the whole batch"),
        (ScaledTwice, "width of a head itself"),
        (EmptyOutputAlone, None),
        (SourceDetached, None),
        (PaddingOverwritten, None),
        (SizesAsserted, None),
    ],
    "hard_alignment": [
        (squares_averaged, None),
        (middle_head, None),
        (axes_of_one_dropped, None),
        (divided_in_place, None),
    ],
    "attention_multiply_adds": [
        (lambda n_q, n_kv, d_model: n_q * n_kv * (2 * d_model - 1) + n_q * d_model * (2 * n_kv - 1), None),
        (lambda n_q, n_kv, d_model: n_q * (n_kv + n_q) * d_model, None),
        (lambda n_q, n_kv, d_model: n_q * n_kv * d_model / 0.5, "it is a float"),
    ],
}
