"""Exercises are to be written from their parts: calls that would do the whole work are found and told of.

One list is for the whole course; of it, what the references of a chapter call is allowed there. Another one names, for
some exercises, what they say to write by hand. A hit never costs a point: a human decides.
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


_PRODUCTS = frozenset("@ * dot vdot inner matmul multi_dot einsum tensordot sumprod mv mm bmm addmm".split())
_DERIVATIVES = frozenset("autograd backward grad jacobian jacrev jacfwd vjp".split())
BY_HAND = {
    "dot": _PRODUCTS,
    "matmul": _PRODUCTS,
    "cosine_similarity": frozenset({"cosine", "pairwise_distances"}),
    "softmax_jacobian": _DERIVATIVES,
    "attention_backward": _DERIVATIVES,
    "gelu": frozenset({"gelu", "GELU"}),
    "gelu_tanh": frozenset({"gelu", "GELU"}),
}
_NORMS = frozenset("layer_norm LayerNorm rms_norm RMSNorm".split())
_SHARES = frozenset("softmax log_softmax logsumexp".split())
# What is a part of these, and by no means the whole.
PARTS = {
    **dict.fromkeys(("EncoderBlock", "DecoderBlock", "LlamaBlock", "LanguageModel"), _NORMS),
    **dict.fromkeys(("GroupedQueryAttention", "sample", "tiled_attention"), _SHARES),
    "sliding_window_attention": _SHARES | {"scaled_dot_product_attention"},  # for a group and the slice it can reach
}
# Behind these a call cannot be read.
HIDING = frozenset({"eval", "exec", "compile", "__import__"})
# Parts of the check itself: no answer has a use for them.
OF_THE_CHECK = frozenset({"stand_ins", "probes", "conclude", "observe", "codec", "judge"})


def forbidden_calls(source: str, exercise: Exercise) -> list[str]:
    """What of the lists an answer calls, as sentences. Source that is not Python has none."""
    allowed = _allowed(inspect.getmodule(exercise.reference)) | PARTS.get(exercise.name, frozenset())
    whole = WHOLE - allowed | BY_HAND.get(exercise.name, frozenset())
    try:
        tree = ast.parse(excerpt.without_magics(source))
        used = _used(tree, whole | HIDING)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    of_the_check = [
        f"{exercise.name} uses attnlab.{name} in line {line}, which is a part of the check"
        for name, line in sorted(_of_the_check(tree).items())
    ]
    return of_the_check + [
        f"{exercise.name} uses {name} in line {line}, "
        + ("behind which a call cannot be read" if name in HIDING else "which does the whole work")
        for name, line in sorted(used.items())
    ]


@functools.cache
def _allowed(solutions) -> frozenset[str]:
    """What the references of a chapter call themselves."""
    return frozenset(_used(ast.parse(inspect.getsource(solutions)), WHOLE))


def _used(tree: ast.AST, words: frozenset[str]) -> dict[str, int]:
    """Words that are taken from a module or an object, or imported from a library, with their lines.

    Of the words, `@` is the operator and `*` an import of everything.
    """
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        names, listed = [], words - HIDING
        match node:
            case ast.Attribute(attr=name):
                names = [name]
            case ast.ImportFrom(module=module) if (module or "").split(".")[0] != "attnlab":
                names = [alias.name for alias in node.names]
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), *_]):
                names = [name]
            case ast.Call(func=ast.Name(name)) if name in HIDING:
                names, listed = [name], words
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                names = ["@"]
        for name in listed.intersection(names):
            found.setdefault(name, node.lineno)
    return found


def _of_the_check(tree: ast.AST) -> dict[str, int]:
    """Modules of `attnlab` that belong to the check, with the first line that names each."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        for name in names:
            package, _, module = name.partition(".")
            if package == "attnlab" and module.partition(".")[0] in OF_THE_CHECK:
                found.setdefault(module.partition(".")[0], node.lineno)
    return found
