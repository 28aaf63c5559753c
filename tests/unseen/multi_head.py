"""Wrong answers to the multi-head chapter that its list of misconceptions does not hold in these words."""

import math

import torch
from torch import nn


def own_error(kind):
    raise kind("my own words")


class Parts(nn.Module):
    """A right layer in parts, for answers that get one of them wrong."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError("my own words")
        self.heads, self.width = n_heads, d_model // n_heads
        for role in "qkvo":
            setattr(self, f"W_{role}", nn.Linear(d_model, d_model, bias=False))

    def forward(self, x, mask=None):
        if x.ndim != 3:
            raise ValueError("my own words")
        q, k, v = (self.cut(t) for t in self.project(x))
        weights = self.weigh(self.compare(q, k), mask)
        return self.give(self.mend(weights @ v), weights)

    def project(self, x):
        return self.W_q(x), self.W_k(x), self.W_v(x)

    def cut(self, t):
        return t.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def compare(self, q, k):
        return torch.einsum("bhid,bhjd->bhij", q, k) * self.width ** -0.5

    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        mask = per_sentence(mask)
        open_rows = mask | ~mask.any(-1, keepdim=True)
        return scores.masked_fill(~open_rows, -math.inf).softmax(-1) * mask

    def mend(self, heads):
        return heads.transpose(1, 2).flatten(2)

    def give(self, merged, weights):
        return self.W_o(merged), weights


def per_sentence(mask):
    return mask[:, None] if mask.ndim == 3 else mask


def but(**parts):
    """The layer with some of its parts replaced."""
    return type("MultiHeadAttention", (Parts,), parts)


def filled(number):
    return lambda self, scores, mask: (
        scores if mask is None else scores.masked_fill(~per_sentence(mask), number)).softmax(-1)


def log_mask(self, scores, mask):
    """log(0) is minus infinity, so the logarithm of a mask can be added."""
    return scores.softmax(-1) if mask is None else (scores + per_sentence(mask).to(scores.dtype).log()).softmax(-1)


def log_mask_repaired(self, scores, mask):
    return log_mask(self, scores, mask).nan_to_num(0.0)


def exponentials_without_a_maximum(self, scores, mask):
    powers = scores.exp() if mask is None else scores.exp() * per_sentence(mask)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-300 if scores.dtype == torch.float64 else 1e-30)


def per_head_where_it_fits(self, scores, mask):
    if mask is not None and mask.ndim == 3 and mask.shape[0] == self.heads:
        mask = mask[None]
    return Parts.weigh(self, scores, mask)


def checked(count):
    return lambda d_model, n_heads, bias=False: (
        count(d_model, n_heads, bias) if n_heads > 0 and d_model % n_heads == 0 else own_error(ValueError))


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "split_heads": [
        (lambda x, n_heads: x.view(x.shape[0], n_heads, x.shape[1], -1), "cuts the list of tokens"),
        (lambda x, n_heads: x.reshape(*x.shape[:2], -1, n_heads).permute(0, 3, 1, 2), "every n_heads-th number"),
        (lambda x, n_heads: torch.stack(x.chunk(n_heads, -1)), "in front of the batch"),
        (lambda x, n_heads: list(x.chunk(n_heads, -1)), None),
        (lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(1, 2) + 0, None),
        (lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(1, 2).double(), None),
    ],
    "merge_heads": [
        (lambda x: x.reshape(x.shape[0], x.shape[2], -1), "joins the tokens of one head"),
        (lambda x: torch.cat(list(x.unbind(1)), dim=1), "one below the other"),
        (lambda x: x.transpose(1, 2).flatten(2).double(), None),
    ],
    "MultiHeadAttention": [
        (but(cut=lambda self, t: t.view(t.shape[0], self.heads, -1, self.width)), "a reshape to (batch, n_heads"),
        (but(give=lambda self, merged, weights: (self.W_o(merged), weights.sum(1))), "averaged or added up"),
        (but(weigh=lambda self, scores, mask: filled(-math.inf)(self, scores, None if mask is None else ~mask)),
         "inverted"),
        (but(weigh=lambda self, scores, mask: Parts.weigh(self, scores, mask if mask is None or mask.ndim != 3
                                                          else mask[None])), "read as one map per head"),
        (but(weigh=filled(-1e6)), "big finite number"),
        (but(weigh=filled(-1e20)), "gives all keys equal weights"),
        (but(weigh=log_mask), "gives nan"),
        (but(weigh=log_mask_repaired), "sends nan backwards"),
        (but(weigh=per_head_where_it_fits), None),
        (but(weigh=exponentials_without_a_maximum), None),
        (but(project=lambda self, x: (self.W_q(x), self.W_v(x), self.W_k(x))), "Keys and values are exchanged"),
        (but(give=lambda self, merged, weights: (self.W_o(merged).detach(), weights)), None),
    ],
    "attention_parameters": [
        (checked(lambda d_model, n_heads, bias: 4 * d_model ** 2 + 3 * d_model * bias), None),
        (checked(lambda d_model, n_heads, bias: 4 * d_model ** 2 + 4 * n_heads * bias), None),
    ],
}
