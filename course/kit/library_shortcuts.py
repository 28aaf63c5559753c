"""Library functions that do all or much of an exercise's work.

An answer that calls one that does all of it earns nothing, and the check says so: see `attnlab.checking.library_calls`.
Those that do much of it cost nothing; the grader's note lists them.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable

from attnlab.checking.library_calls import words_used

_PRODUCTS = "@ dot vdot inner matmul multi_dot einsum tensordot sumprod mv mm bmm addmm"
_DERIVATIVES = "autograd backward grad jacobian jacrev jacfwd vjp"
_ATTENTION = "scaled_dot_product_attention flex_attention MultiheadAttention multi_head_attention_forward"
_HEADS = "MultiheadAttention multi_head_attention_forward"
_BLOCKS = "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer"
_ROTATIONS = "apply_rotary_emb apply_rotary_pos_emb"
_DELTA_RULES = (
    "torch_recurrent_gated_delta_rule torch_chunk_gated_delta_rule fused_recurrent_gated_delta_rule "
    "chunk_gated_delta_rule fused_recurrent_delta_rule chunk_delta_rule"
)
# What does all of an exercise's work.
FULL = {
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
    **dict.fromkeys(("delta_rule", "gated_delta_rule", "chunked_gated_delta_rule"), _DELTA_RULES),
}


def full(reference: Callable) -> list[str]:
    """The names that do the whole work of the exercise of this reference."""
    return sorted(FULL.get(reference.__name__, "").split())


# Names in PyTorch, SciPy and related libraries that do in one call what a chapter builds up.
PARTIAL = frozenset(
    """
    softmax log_softmax Softmax LogSoftmax logsumexp scaled_dot_product_attention MultiheadAttention
    multi_head_attention_forward Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer
    TransformerDecoderLayer layer_norm LayerNorm rms_norm RMSNorm cross_entropy CrossEntropyLoss nll_loss
    NLLLoss cosine_similarity CosineSimilarity cdist flex_attention apply_rotary_emb apply_rotary_pos_emb
    DynamicCache AutoModelForCausalLM
    """.split()
)
_NORMS = frozenset("layer_norm LayerNorm rms_norm RMSNorm".split())
_SHARES = frozenset("softmax log_softmax logsumexp".split())
# What is a part of these as the course builds them.
PARTS = {
    **dict.fromkeys(("EncoderBlock", "DecoderBlock", "LlamaBlock", "LanguageModel"), _NORMS),
    **dict.fromkeys(("GroupedQueryAttention", "sample", "tiled_attention"), _SHARES),
    "sliding_window_attention": _SHARES | {"scaled_dot_product_attention"},  # for a group and the slice it can reach
}


def partial(reference: Callable) -> frozenset[str]:
    """The names that do much of its work, and are neither called by the references of its chapter nor a part of it."""
    free = _called_in(inspect.getmodule(reference)) | PARTS.get(reference.__name__, frozenset())
    return PARTIAL - free


@functools.cache
def _called_in(solutions) -> frozenset[str]:
    """The shortcuts that the references of a chapter call themselves."""
    return frozenset(words_used(ast.parse(inspect.getsource(solutions)), PARTIAL))
