"""Correct answers to the caching chapter, written in other ways. All must get full marks."""

import math

import torch
import torch.nn.functional as F

from course.right_answers.kv_cache import (
    JustJoined,
    RoomThatDoubles,
    TokensInFront,
)
from solutions import kv_cache as solutions
from solutions.rope import apply_rope

# repeat_kv

def repeat_by_expand(x, n_rep):
    """As Llama's own code does: a new axis, stretched without copying, then joined with the heads."""
    batch, n_kv_heads, n, d = x.shape
    if n_rep < 1:
        raise ValueError("at least one copy")
    return x[:, :, None].expand(batch, n_kv_heads, n_rep, n, d).reshape(batch, n_kv_heads * n_rep, n, d)


def repeat_in_a_loop(x, n_rep):
    _, n_kv_heads, _, _ = x.shape
    if n_rep < 1:
        raise ValueError("at least one copy")
    return torch.cat([x[:, h:h + 1] for h in range(n_kv_heads) for _ in range(n_rep)], dim=1)


# KVCache

# GroupedQueryAttention

class _FourMaps(solutions.GroupedQueryAttention):
    """The reference's maps."""

    def heads_of(self, x):
        width = x.shape[-1] // self.n_heads
        return [W(x).unflatten(-1, (-1, width)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v)]


class RotatedOnReading(_FourMaps):
    """The cache holds unrotated keys; all of them are turned whenever they are read."""

    def forward(self, x, cache=None):
        q, k, v = self.heads_of(x)
        if cache is not None:
            k, v = cache.append(k, v)
        places = torch.arange(k.shape[2], device=x.device)
        q, k = apply_rope(q, places[-q.shape[2]:], self.base), apply_rope(k, places, self.base)
        n_q, n_k = q.shape[2], k.shape[2]
        mask = torch.ones(n_q, n_k, dtype=torch.bool, device=x.device).tril(n_k - n_q)
        group = self.n_heads // self.n_kv_heads
        scores = q @ k.repeat_interleave(group, 1).mT / math.sqrt(q.shape[-1])
        out = scores.where(mask, -torch.inf).softmax(-1) @ v.repeat_interleave(group, 1)
        return self.W_o(out.transpose(1, 2).flatten(2))


class GroupByGroup(_FourMaps):
    """Nothing is repeated: the query heads of a group have an axis of their own."""

    def forward(self, x, cache=None):
        batch, n, d_model = x.shape
        start = len(cache) if cache is not None else 0
        where = torch.arange(start, start + n, device=x.device)
        q, k, v = self.heads_of(x)
        q, k = apply_rope(q, where, self.base), apply_rope(k, where, self.base)
        if cache is not None:
            k, v = cache.append(k, v)
        q = q.unflatten(1, (self.n_kv_heads, -1))
        scores = torch.einsum("bgrid,bgjd->bgrij", q, k) * k.shape[-1] ** -0.5
        scores = scores + torch.full((n, k.shape[2]), -math.inf, dtype=x.dtype, device=x.device).triu(start + 1)
        out = torch.einsum("bgrij,bgjd->bigrd", scores.softmax(-1), v)
        return self.W_o(out.reshape(batch, n, d_model))


class OneTokenAtATime(_FourMaps):
    """Needs no mask: even a whole text is read token by token, with a list where no cache is given."""

    def forward(self, x, cache=None):
        held, rows = ([], []), []
        for i, token in enumerate(x.split(1, dim=1)):
            where = torch.tensor([i if cache is None else len(cache)], device=x.device)
            q, k, v = self.heads_of(token)
            q, k = apply_rope(q, where, self.base), apply_rope(k, where, self.base)
            if cache is None:
                for rows_so_far, new in zip(held, (k, v)):
                    rows_so_far.append(new)
                k, v = (torch.cat(rows_so_far, dim=2) for rows_so_far in held)
            else:
                k, v = cache.append(k, v)
            k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
            out = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
            rows.append(self.W_o(out.transpose(1, 2).flatten(2)))
        return torch.cat(rows, dim=1)


class ByFusedAttention(_FourMaps):
    """PyTorch's fused attention, which shares keys and values among heads."""

    def forward(self, x, cache=None):
        start, n = 0 if cache is None else len(cache), x.shape[1]
        where = torch.arange(start, start + n, device=x.device)
        q, k, v = self.heads_of(x)
        q, k = apply_rope(q, where, self.base), apply_rope(k, where, self.base)
        if cache is not None:
            k, v = cache.append(k, v)
        seen = torch.ones(n, k.shape[2], dtype=torch.bool, device=x.device).tril(start)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.W_o(out.transpose(1, 2).flatten(2))


# kv_cache_bytes

def bytes_by_counting_tensors(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
    """The memory of one layer's keys, on a device that stores nothing."""
    for size in (n_layers, n_kv_heads, d_head, bytes_per_element, batch):
        if size < 1:
            raise ValueError("too small")
    keys = torch.empty(batch, n_kv_heads, seq_len, d_head, device="meta")
    return 2 * n_layers * keys.numel() * bytes_per_element


def bytes_by_product(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
    factors = (2, n_layers, n_kv_heads, d_head, bytes_per_element, batch)
    if min(factors) < 1 or seq_len not in range(10 ** 12):
        raise ValueError("these sizes cannot be")
    return math.prod(factors) * seq_len


# quantize_cache

def quantize_with_inf_norm(x):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x.clone()
    scale = torch.linalg.vector_norm(wide, ord=math.inf, dim=-1, keepdim=True) / 127
    return torch.nan_to_num(wide / scale, 0.0).round().to(torch.int8), scale.to(x.dtype)


def quantize_with_the_scale_as_it_is_kept(x):
    """The scale is rounded to the dtype of x first, so that the codes are as near as they can be."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = (wide.abs().max(dim=-1, keepdim=True).values / 127).to(x.dtype)
    return torch.where(scale > 0, wide / scale.to(wide.dtype), 0.0).round().to(torch.int8), scale


def quantize_row_by_row(x):
    """Rows in a loop; halves are rounded by adding a half with the sign of the number."""
    codes, scales = [], []
    for row in x.reshape(-1, x.shape[-1]):
        wide = row.double()
        scale = max(wide.max(), -wide.min()) / 127
        scales.append(scale)
        codes.append((wide / scale + wide.sign() / 2).trunc() if scale > 0 else torch.zeros_like(wide))
    codes = torch.stack(codes).reshape(x.shape).to(torch.int8)
    return codes, torch.stack(scales).reshape(*x.shape[:-1], 1).to(x.dtype)


ALTERNATIVES = {
    "repeat_kv": [repeat_by_expand, repeat_in_a_loop],
    "KVCache": [RoomThatDoubles, TokensInFront, JustJoined],
    "GroupedQueryAttention": [RotatedOnReading, GroupByGroup, OneTokenAtATime],
    "kv_cache_bytes": [bytes_by_counting_tensors, bytes_by_product],
    "quantize_cache": [quantize_with_inf_norm, quantize_with_the_scale_as_it_is_kept, quantize_row_by_row],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "GroupedQueryAttention": [ByFusedAttention],
}
