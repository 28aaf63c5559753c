"""Names in libraries that do much of an exercise's work. The grader's note lists them; they cost nothing.

Functions that do all of it are in `course.kit.library_shortcuts`.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable

from attnlab.checking.library_calls import words_used

# Names in PyTorch, SciPy and related libraries that do in one call what a chapter builds up.
MUCH = frozenset(
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


def words(reference: Callable) -> frozenset[str]:
    """The names that do much of its work, and are neither called by the references of its chapter nor a part of it."""
    free = _called_in(inspect.getmodule(reference)) | PARTS.get(reference.__name__, frozenset())
    return MUCH - free


@functools.cache
def _called_in(solutions) -> frozenset[str]:
    """What the references of a chapter call themselves."""
    return frozenset(words_used(ast.parse(inspect.getsource(solutions)), MUCH))
