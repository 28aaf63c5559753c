"""PyTorch's own operations as stand-ins for answers, for a student who skips a chapter: see `attnlab.mine.stand_in`.

Each is one call of a public operation that the exercise asks students to build from parts, with the names of the
course. So it does not show how the work is done, and as an answer it would get no points. If PyTorch has no operation
(rotated pairs, a cache, the blocks), there is no stand-in.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn


def rms_norm(x, weight, eps=1e-5):
    """x (..., d), weight (d,)."""
    return F.rms_norm(x, weight.shape, weight, eps)


class _Attention(nn.Module):
    """PyTorch's multi-head attention. As there, a token that may read nothing gets nan."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.count = n_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=False))

    def attend(self, x_q, x_kv, **masks):
        """x_q (batch, n_q, d), x_kv (batch, n_kv, d) -> output, and weights (batch, heads, n_q, n_kv)."""
        x_q, x_kv = x_q.transpose(0, 1), x_kv.transpose(0, 1)
        output, weights = F.multi_head_attention_forward(
            query=x_q,
            key=x_kv,
            value=x_kv,
            embed_dim_to_check=x_q.shape[-1],
            num_heads=self.count,
            in_proj_weight=None,
            in_proj_bias=None,
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=0.0,
            out_proj_weight=self.W_o.weight,
            out_proj_bias=None,
            use_separate_proj_weight=True,
            q_proj_weight=self.W_q.weight,
            k_proj_weight=self.W_k.weight,
            v_proj_weight=self.W_v.weight,
            average_attn_weights=False,
            **masks,
        )
        return output.transpose(0, 1), weights


class MultiHeadAttention(_Attention):
    """forward(x, mask=None): x (batch, n, d), mask True where a token may read."""

    def forward(self, x, mask=None):
        return self.attend(x, x, attn_mask=None if mask is None else self._hidden(mask, *x.shape[:2]))

    def _hidden(self, mask, batch, n):
        """The mask in PyTorch's shape, where True means hidden."""
        mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
        return ~mask.expand(batch, self.count, n, n).reshape(-1, n, n)


class CrossAttention(_Attention):
    """forward(x_q, x_kv, kv_mask=None): kv_mask (batch, n_kv), True for a real token."""

    def forward(self, x_q, x_kv, kv_mask=None):
        return self.attend(x_q, x_kv, key_padding_mask=None if kv_mask is None else ~kv_mask)


ALL = {item.__name__: item for item in (rms_norm, MultiHeadAttention, CrossAttention)}
