"""Exercises are to be written from their parts: calls that would do the whole work are found and told of.

The list is one for the course; what an exercise's own reference calls is allowed there. A hit never costs a point: a
human decides.
"""

from __future__ import annotations

import ast
import functools
import inspect

from attnlab import excerpt
from autograder.exercise import Exercise

# Names in PyTorch, SciPy and the libraries around them that do at once what a chapter builds up.
WHOLE = frozenset(
    """
    softmax log_softmax Softmax LogSoftmax logsumexp scaled_dot_product_attention MultiheadAttention
    multi_head_attention_forward Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer
    TransformerDecoderLayer layer_norm LayerNorm rms_norm RMSNorm cross_entropy CrossEntropyLoss nll_loss
    NLLLoss cosine_similarity CosineSimilarity cdist flex_attention apply_rotary_emb apply_rotary_pos_emb
    DynamicCache AutoModelForCausalLM
    """.split()
)


def forbidden_calls(source: str, exercise: Exercise) -> list[str]:
    """What of the list an answer calls, as sentences. Source that is no Python has none."""
    try:
        used = _used(ast.parse(excerpt.without_magics(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        f"{exercise.name} uses {name} in line {line}, which does the whole work"
        for name, line in sorted(used.items())
        if name not in _allowed(inspect.getmodule(exercise.reference))
    ]


@functools.cache
def _allowed(solutions) -> frozenset[str]:
    """What the references of a chapter call themselves."""
    return frozenset(_used(ast.parse(inspect.getsource(solutions))))


def _used(tree: ast.AST) -> dict[str, int]:
    """Names of the list that are taken from a module or an object, or imported from a library, with their lines."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in WHOLE:
            found.setdefault(node.attr, node.lineno)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "attnlab":
            for alias in node.names:
                if alias.name in WHOLE:
                    found.setdefault(alias.name, node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            for argument in node.args[1:2]:
                if isinstance(argument, ast.Constant) and argument.value in WHOLE:
                    found.setdefault(argument.value, node.lineno)
    return found
