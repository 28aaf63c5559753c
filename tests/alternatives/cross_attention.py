"""Correct answers to the cross-attention chapter, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.alternatives.multi_head import FourMaps


def _check(module, x_q, x_kv):
    if x_q.dim() != 3 or x_kv.dim() != 3:
        raise ValueError("three dimensions are needed")
    if x_q.size(0) != x_kv.size(0):
        raise ValueError("batches differ")


# CrossAttention

class ByFusedAttention(nn.Module):
    """PyTorch's own operation for the output; the weights from the same operation with one-hot values."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if n_heads <= 0 or d_model % n_heads != 0:
            raise ValueError("heads do not fit")
        self.h = n_heads
        self.W_o, self.W_v, self.W_k, self.W_q = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x_q, x_kv, kv_mask=None):
        _check(self, x_q, x_kv)
        q, k, v = (layer(x).unflatten(2, (self.h, -1)).transpose(1, 2)
                   for layer, x in ((self.W_q, x_q), (self.W_k, x_kv), (self.W_v, x_kv)))
        mask = None if kv_mask is None else kv_mask[:, None, None].expand(-1, self.h, x_q.size(1), -1)
        one_hot = torch.eye(x_kv.size(1), dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)
        weights = F.scaled_dot_product_attention(q, k, one_hot, attn_mask=mask)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(output.transpose(1, 2).flatten(2)), weights


class HeadByHead(FourMaps):
    """A loop over heads, each with its own rows of the projections; the output is a sum of each head's share."""

    def forward(self, x_q, x_kv, kv_mask=None):
        _check(self, x_q, x_kv)
        output, maps = 0, []
        for rows in torch.arange(self.W_q.in_features).split(self.width):
            q, k, v = (F.linear(x, layer.weight[rows])
                       for x, layer in ((x_q, self.W_q), (x_kv, self.W_k), (x_kv, self.W_v)))
            scores = torch.bmm(q / math.sqrt(self.width), k.transpose(1, 2))
            if kv_mask is None:
                weights = torch.softmax(scores, -1)
            else:
                hidden = ~kv_mask.unsqueeze(1)
                empty = hidden.all(-1, keepdim=True)
                weights = torch.softmax(scores.masked_fill(hidden & ~empty, -math.inf), -1) * (~empty)
                weights = torch.where(hidden, torch.zeros_like(weights), weights)
            maps.append(weights)
            output = output + F.linear(torch.bmm(weights, v), self.W_o.weight[:, rows])
        return output, torch.stack(maps, dim=1)


class ByEinsum(FourMaps):
    """Einstein sums, and exponentials set to exactly zero where a token is padding."""

    def forward(self, x_q, x_kv, kv_mask=None):
        _check(self, x_q, x_kv)
        queries, keys, values = (
            torch.einsum("bnd,hed->bhne", x, layer.weight.reshape(self.heads, -1, layer.in_features))
            for x, layer in ((x_q, self.W_q), (x_kv, self.W_k), (x_kv, self.W_v)))
        scores = torch.einsum("bhqe,bhke->bhqk", queries, keys) * keys.shape[-1] ** -0.5
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # a softmax by hand needs the digits
        real = x_kv.new_ones(x_kv.shape[:2], dtype=torch.bool) if kv_mask is None else kv_mask
        real = real[:, None, None].expand_as(scores)
        top = torch.where(real, scores, torch.finfo(scores.dtype).min).amax(-1, keepdim=True).detach()
        # A hidden score above the visible ones must not overflow, or its gradient would be 0 times infinity.
        e = torch.where(real, torch.where(real, scores - top, 0.0).exp(), 0.0)
        total = e.sum(-1, keepdim=True)
        weights = (e / torch.where(total == 0, 1.0, total)).to(values.dtype)
        mixed = torch.einsum("bhqk,bhke->bqhe", weights, values)
        return F.linear(mixed.reshape(x_q.shape), self.W_o.weight), weights


class ByPytorchsOwnLayer(ByEinsum):
    """The function behind nn.MultiheadAttention; an empty source is opened for it, and its results set to 0."""

    def forward(self, x_q, x_kv, kv_mask=None):
        _check(self, x_q, x_kv)
        width = self.W_q.in_features
        if x_q.size(2) != width or x_kv.size(2) != width:
            raise ValueError("widths differ")
        real = x_kv.new_ones(x_kv.shape[:2], dtype=torch.bool) if kv_mask is None else kv_mask
        empty = real.logical_not().all(1)
        output, weights = F.multi_head_attention_forward(
            x_q.transpose(0, 1), x_kv.transpose(0, 1), x_kv.transpose(0, 1), width, self.heads,
            in_proj_weight=None, in_proj_bias=None, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0,
            out_proj_weight=self.W_o.weight, out_proj_bias=None, average_attn_weights=False,
            key_padding_mask=~real & ~empty[:, None], use_separate_proj_weight=True,
            q_proj_weight=self.W_q.weight, k_proj_weight=self.W_k.weight, v_proj_weight=self.W_v.weight)
        return (output.transpose(0, 1).masked_fill(empty[:, None, None], 0.0),
                weights.masked_fill(empty[:, None, None, None], 0.0))


# hard_alignment

def alignment_by_sum(weights):
    """A sum has its maximum where the mean has it."""
    batch, _, _, _ = weights.shape
    return torch.argmax(weights.sum(1), dim=2)


def alignment_by_sorting(weights):
    return weights.sum(1).argsort(dim=-1)[..., -1].int()


# attention_multiply_adds


def multiply_adds_head_by_head(n_q, n_kv, d_model):
    """As if each feature were a head of its own."""
    return d_model * (n_q * n_kv * 1 + n_q * 1 * n_kv)


def multiply_adds_as_pytorch_counts_them(n_q, n_kv, d_model):
    q, k, v = (torch.empty(n, d_model, device="meta") for n in (n_q, n_kv, n_kv))
    with FlopCounterMode(display=False) as counter:
        (q @ k.T) @ v
    return counter.get_total_flops() // 2


ALTERNATIVES = {
    "CrossAttention": [ByFusedAttention, HeadByHead, ByEinsum],
    "hard_alignment": [alignment_by_sum, alignment_by_sorting],
    "attention_multiply_adds": [multiply_adds_as_pytorch_counts_them, multiply_adds_head_by_head],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "CrossAttention": [ByPytorchsOwnLayer],
}
