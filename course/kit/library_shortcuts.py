"""Library functions that do all of an exercise's work, by exercise. An answer that calls one earns nothing, and the
check says so: see `attnlab.checking.library_calls`.
"""

from __future__ import annotations

from collections.abc import Callable

_PRODUCTS = "@ dot vdot inner matmul multi_dot einsum tensordot sumprod mv mm bmm addmm"
_DERIVATIVES = "autograd backward grad jacobian jacrev jacfwd vjp"
_ATTENTION = "scaled_dot_product_attention flex_attention MultiheadAttention multi_head_attention_forward"
_HEADS = "MultiheadAttention multi_head_attention_forward"
_BLOCKS = "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer"
_ROTATIONS = "apply_rotary_emb apply_rotary_pos_emb"
# What does all of an exercise's work.
INSTEAD = {
    "dot": _PRODUCTS,
    "matmul": _PRODUCTS,
    "cosine_similarity": "cosine pairwise_distances cosine_similarity CosineSimilarity",
    "softmax": "softmax Softmax",
    "log_softmax": "log_softmax LogSoftmax",
    "softmax_jacobian": _DERIVATIVES,
    "attention_backward": _DERIVATIVES,
    **dict.fromkeys(("soft_lookup", "scaled_dot_product_attention", "self_attention", "causal_attention"), _ATTENTION),
    "tiled_attention": _ATTENTION,
    **dict.fromkeys(("MultiHeadAttention", "CrossAttention"), _HEADS),
    "GroupedQueryAttention": _ATTENTION,
    **dict.fromkeys(("apply_rope", "apply_rope_interleaved"), _ROTATIONS),
    "KVCache": "DynamicCache",
    "layer_norm": "layer_norm LayerNorm",
    "rms_norm": "rms_norm RMSNorm",
    **dict.fromkeys(("gelu", "gelu_tanh"), "gelu GELU"),
    **dict.fromkeys(("EncoderBlock", "DecoderBlock"), _BLOCKS),
    "LanguageModel": "AutoModelForCausalLM",
}


def instead(reference: Callable) -> list[str]:
    """The names that do the whole work of the exercise of this reference."""
    return sorted(INSTEAD.get(reference.__name__, "").split())
