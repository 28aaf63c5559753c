"""Correct answers to the multi-head chapter, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F
from torch import nn


# split_heads

def split_by_unflatten(x, n_heads):
    if x.dim() != 3 or n_heads <= 0:
        raise ValueError("sizes do not fit")
    return x.unflatten(2, (n_heads, -1)).permute(0, 2, 1, 3).contiguous()


def split_on_its_side(x, n_heads):
    """With the width in front of the tokens one cut suffices; then every head is turned back."""
    batch, n, width = x.shape
    if n_heads < 1 or width % n_heads:
        raise ValueError("widths do not divide")
    return x.mT.reshape(batch, n_heads, -1, n).mT


# merge_heads

def merge_by_named_axes(x):
    return torch.einsum("bhnd->bnhd", x).flatten(-2)


def merge_by_contiguous_view(x):
    batch, n_heads, n, d_head = x.size()
    return x.transpose(1, 2).contiguous().view(batch, n, n_heads * d_head)


# MultiHeadAttention

class FourMaps(nn.Module):
    """The maps that the contract names, and nothing else."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if n_heads <= 0 or d_model % n_heads:
            raise ValueError("widths do not divide")
        self.heads, self.width = n_heads, d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)


class ByEinsum(FourMaps):
    """No transposes: einsum names the axes. Empty rows are repaired after the softmax, hidden weights set to 0."""

    def forward(self, x, mask=None):
        batch, n, _ = x.shape
        q, k, v = (W(x).view(batch, n, self.heads, self.width) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.width ** -0.5
        if mask is not None:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
            scores = scores.masked_fill(mask.logical_not(), float("-inf"))
        # Where a whole row was filled, the gradient of `masked_fill` is 0 whatever comes back to it.
        weights = F.softmax(scores, dim=-1).nan_to_num(0.0)
        return self.W_o(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(x.shape)), weights


class HeadByHead(FourMaps):
    """A loop over heads, each with its own rows of the maps; the output is a sum of what each head adds."""

    def forward(self, x, mask=None):
        batch, n, width = x.shape
        if width != self.heads * self.width:
            raise ValueError("wrong width")
        if mask is not None:
            mask = mask[:, None] if mask.ndim == 3 else mask
            mask = mask.broadcast_to(batch, self.heads, n, n)
        output, maps = torch.zeros_like(x), []
        for h in range(self.heads):
            rows = slice(h * self.width, (h + 1) * self.width)
            q, k, v = (F.linear(x, W.weight[rows]) for W in (self.W_q, self.W_k, self.W_v))
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.width)
            if mask is not None:
                hidden = ~mask[:, h]
                scores = scores.masked_fill(hidden, -math.inf).masked_fill(hidden.all(-1, keepdim=True), 1.0)
            weights = torch.softmax(scores, dim=-1)
            if mask is not None:
                weights = torch.where(hidden, 0.0, weights)
            output = output + (weights @ v) @ self.W_o.weight[:, rows].T
            maps.append(weights)
        return output, torch.stack(maps, dim=1)


class PackedProjections(FourMaps):
    """One matmul with the three maps one below the other, as nn.MultiheadAttention stores them."""

    def forward(self, x, mask=None):
        batch, n, _ = x.shape
        packed = torch.cat([self.W_q.weight, self.W_k.weight, self.W_v.weight])
        q, k, v = (x @ packed.T).view(batch, n, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        scores = (q / math.sqrt(self.width)) @ k.mT
        scores = scores.to(torch.promote_types(x.dtype, torch.float32))  # a softmax by hand needs the digits
        if mask is None:
            allowed = torch.ones_like(scores, dtype=torch.bool)
        else:
            allowed = (mask.view(mask.shape[0], 1, *mask.shape[1:]) if mask.ndim == 3 else mask).expand_as(scores)
        # The largest allowed score of each row; an empty row has none and takes 0.
        top = scores.masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True).detach()
        top = torch.where(top.isfinite(), top, torch.zeros_like(top))
        powers = torch.exp((scores - top).masked_fill(~allowed, -torch.inf))
        total = powers.sum(dim=-1, keepdim=True)
        weights = (powers / torch.where(total == 0, torch.ones_like(total), total)).to(x.dtype)
        return self.W_o((weights @ v).transpose(1, 2).reshape(batch, n, -1)), weights


class HeadsInTheBatch(FourMaps):
    """Heads folded into the batch, as older implementations do, and unfolded again at the end."""

    def fold(self, t):
        return torch.cat(t.split(self.width, dim=2), dim=0)

    def forward(self, x, mask=None):
        batch, n, _ = x.shape
        q, k, v = self.fold(self.W_q(x)), self.fold(self.W_k(x)), self.fold(self.W_v(x))
        scores = torch.baddbmm(x.new_zeros(1, 1, 1), q, k.transpose(1, 2), alpha=self.width ** -0.5)
        if mask is not None:
            mask = mask if mask.ndim != 3 else mask[:, None, :, :]
            mask = mask.expand(batch, self.heads, n, n).transpose(0, 1).reshape(-1, n, n)
            seen = mask.any(dim=2, keepdim=True)
            scores = torch.where(mask | ~seen, scores, float("-inf"))
        weights = scores.softmax(2)
        if mask is not None:
            weights = weights * seen.to(weights.dtype)
        output = torch.cat(torch.bmm(weights, v).chunk(self.heads, dim=0), dim=2)
        return self.W_o(output), weights.unflatten(0, (self.heads, batch)).transpose(0, 1)


class SentenceBySentence(FourMaps):
    """No batch at all: one sentence after the other, each with its own entry of the mask; a list in place of a tuple.

    An empty row is left open before the softmax, where all its scores are finite, and closed after it.
    """

    def forward(self, x, mask=None):
        if x.dim() != 3:
            raise ValueError("(batch, n, d_model), please")
        results = [self.read(one, mask if mask is None or mask.dim() == 2 else mask[b]) for b, one in enumerate(x)]
        return [torch.stack(parts) for parts in zip(*results)]

    def read(self, x, mask):
        q, k, v = (W(x).reshape(-1, self.heads, self.width).movedim(0, 1) for W in (self.W_q, self.W_k, self.W_v))
        scores = q.matmul(k.mT).div(self.width ** 0.5).to(torch.promote_types(x.dtype, torch.float32))
        if mask is not None:
            scores = scores.masked_fill(~mask & mask.any(dim=-1, keepdim=True), -math.inf)
        weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)).to(x.dtype)
        weights = weights if mask is None else weights * mask
        return self.W_o((weights @ v).movedim(0, 1).flatten(1)), weights


class ByPytorchsOwnLayer(FourMaps):
    """The function behind nn.MultiheadAttention, whose mask means the opposite; empty rows are opened for it, and their
    weights set to 0 afterward."""

    def forward(self, x, mask=None):
        batch, n, width = x.shape
        if width != self.W_q.in_features:
            raise ValueError("wrong width")
        seen = x.new_ones(n, n, dtype=torch.bool) if mask is None else mask[:, None] if mask.ndim == 3 else mask
        seen = seen.expand(batch, self.heads, n, n)
        some = seen.any(-1, keepdim=True)
        packed = torch.cat([self.W_q.weight, self.W_k.weight, self.W_v.weight])
        x = x.transpose(0, 1)
        output, weights = F.multi_head_attention_forward(
            x, x, x, width, self.heads, packed, None, None, None, False, 0.0, self.W_o.weight, None,
            attn_mask=~(seen | ~some).flatten(0, 1), average_attn_weights=False)
        if mask is None or some.all():
            return output.transpose(0, 1), weights
        v = self.W_v(x.transpose(0, 1)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        weights = weights * some
        return self.W_o((weights @ v).transpose(1, 2).flatten(2)), weights


# attention_parameters

def parameters_by_building(d_model, n_heads, bias=False):
    """Counts what PyTorch's own layer has, on a device that stores nothing; its projections have a bias or none."""
    layer = nn.MultiheadAttention(d_model, n_heads, bias=bias, device="meta")
    return sum(parameter.numel() for parameter in layer.parameters())


def parameters_head_by_head(d_model, n_heads, bias=False):
    d_head = d_model // n_heads
    total = 0
    for _ in range(n_heads):
        total += 3 * (d_model * d_head + (d_head if bias else 0))
    return total + n_heads * d_head * d_model + int(bias) * d_model


ALTERNATIVES = {
    "split_heads": [split_by_unflatten, split_on_its_side],
    "merge_heads": [merge_by_contiguous_view, merge_by_named_axes],
    "MultiHeadAttention": [ByEinsum, HeadByHead, PackedProjections, HeadsInTheBatch, SentenceBySentence],
    "attention_parameters": [parameters_by_building, parameters_head_by_head],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "MultiHeadAttention": [ByPytorchsOwnLayer],
}
