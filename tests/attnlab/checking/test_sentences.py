"""Answers that were once told something false: what a check says of them now, and what it must not say again."""

from __future__ import annotations

import pytest
import torch

from attnlab.check import check, examine, material_of
from attnlab.checking.report import notes
from solutions import (
    attention,
    cross_attention,
    kv_cache,
    long_context,
    masks,
    mixture_of_experts,
    multi_head,
    next_token,
    positions,
    pytorch,
    steady_attention,
    transformer_block,
)
from tests.unseen.parts import changed

INIT, MIX, KEEPDIM = "Leave `__init__` as it is", "mix tokens", "keepdim"
ENCODER, DECODER, LLAMA = transformer_block.EncoderBlock, transformer_block.DecoderBlock, transformer_block.LlamaBlock
FEED_FORWARD, SWIGLU = transformer_block.FeedForward, transformer_block.SwiGLU
NETWORK = "self.W_2(gelu(self.W_1(x)))"
THOUGHT = "x + self.feed_forward(self.norm_2(x))"
BENT = "cap * torch.tanh(scores / cap)"
SHARES = "chosen.softmax(dim=-1, dtype=wide).to(logits.dtype)"
KEPT_BY_SHAPE = (
    "if not hasattr(FeedForward, 'kept'): FeedForward.kept = {}\n"
    f"        return FeedForward.kept.setdefault(x.shape, {NETWORK})"
)
PARALLEL = ("x = x + heard", "start, x = x, x + heard", "self.norm_2(x)", "self.norm_2(start)", "self.norm_3(x)",
            "self.norm_3(start)")  # fmt: skip
OWN_CACHE = ("super().__init__()", "super().__init__(); self.kept = KVCache()", "self.norm_1(x), cache",
             "self.norm_1(x), self.kept if cache is None else cache")  # fmt: skip

BY_SHAPE = "Q, K, V = globals().setdefault('kept', {}).setdefault(x.shape, project_qkv(x, W_q, W_k, W_v))\n    kept"
IN_THE_CLASS = (
    "    held = []\n    kept = property(lambda self: self.held[-1] if self.held else None,\n"
    "                    lambda self, new: self.held.append(new))\n"
)

# name: reference, texts in it and what replaces them, what must be said, what must not be said
TABLE = {
    "decoder, mask inverted": (DECODER, ("(x), earlier", "(x), ~earlier"), "causal mask is turned around", [INIT]),
    "decoder, parts in parallel": (DECODER, PARALLEL, "All parts read the same x", [INIT]),
    "encoder, dropout": (
        ENCODER, (THOUGHT, f"nn.functional.dropout({THOUGHT}, 0.5)"), "drawn at random", [INIT]),
    "encoder, network first": (
        ENCODER, ("heard, _ = ", f"x = {THOUGHT}\n        heard, _ = ", f"return {THOUGHT}", "return x"),
        "The network comes before the attention", [INIT]),
    "encoder, weights added": (ENCODER, ("heard, _ = ", "_, heard = "), "second result of the attention",
                               [INIT, KEEPDIM]),
    "network, kept by shape": (FEED_FORWARD, (f"return {NETWORK}", KEPT_BY_SHAPE), "no entry of the result changes",
                               [INIT, MIX]),
    "network, dropout": (FEED_FORWARD, (NETWORK, f"nn.functional.dropout({NETWORK}, 0.5)"), "drawn at random", [INIT]),
    "network, no biases": (
        FEED_FORWARD, (NETWORK, "gelu(x @ self.W_1.weight.T) @ self.W_2.weight.T"), "A bias is left out", [INIT]),
    "network, normed": (FEED_FORWARD, ("self.W_1(x)", "self.W_1(nn.functional.layer_norm(x, x.shape[-1:]))"),
                        "W_2(gelu(W_1(x)))", [INIT]),
    "positions, not learned": (
        positions.LearnedPositions, ("d_model))", "d_model), requires_grad=False)"), "`requires_grad=False`", []),
    "llama, default cache": (
        LLAMA, ("cache: KVCache | None = None", "cache: KVCache | None = KVCache()"), "Your code raised", [INIT]),
    "llama, no residual": (LLAMA, ("x = x + ", "x = ", "return x + ", "return "), "Neither part's result", [INIT]),
    "llama, cache of its own": (LLAMA, OWN_CACHE, "keeps something between calls", ["No dropout", "x += ..."]),
    "qk norm, eps": (steady_attention.QKNormAttention, ("RMSNorm(d_head, eps)", "RMSNorm(d_head, 1e-6)"),
                     "eps is fixed", ["1e-5"]),
    "gate, no down": (SWIGLU, ("self.W_down(opened * self.W_up(x))", "opened * self.W_up(x)"), "has shape", [INIT]),
    "gate, 1.702": (SWIGLU, ("sigmoid(gate)", "sigmoid(1.702 * gate)"), "each of the three maps is used once", [INIT]),
    "causal, number of keys": (masks.causal_attention, ("Q.shape[-1])\n    weights", "K.shape[-2])\n    weights"),
                               "the number of keys", ["digits"]),
    "heads, one module for two": (
        multi_head.MultiHeadAttention, ("range(4))", "range(4)); self.W_k = self.W_q"),
        "is the same parameter as", ["has no parameter"]),
    "heads, mask reshaped": (
        multi_head.MultiHeadAttention, ("~mask if", "~mask.unsqueeze_(0)[0] if"), "changed in place", ["inverted"]),
    "alignment, weights": (
        cross_attention.hard_alignment, ("argmax(dim=-1)", "max(dim=-1).values"),
        "gives positions as whole numbers (the same mistake", ["ok gives positions"]),
    "parameters, xor": (
        multi_head.attention_parameters, ("4 * inputs * d_model", "4 * (d_model ^ 2) + 4 * d_model * bias"), "XOR",
        ["never uses"]),
    "attention, kept by shape": (
        attention.self_attention, ("Q, K, V = project_qkv(x, W_q, W_k, W_v)", BY_SHAPE), "`kept` keeps something", []),
    "attention, mask opened": (
        attention.scaled_dot_product_attention,
        ("scores = np.where(mask", "mask[~np.broadcast_to(mask, scores.shape).any(-1)[..., :]] = True\n        "
         "scores = np.where(mask"), "It altered its input: mask", []),
    "cache, of the class": (
        kv_cache.KVCache, ("    def __init__(self):\n        self.kept = None\n", IN_THE_CLASS), "does not begin empty",
        []),
    "bytes, empty": (
        kv_cache.kv_cache_bytes, ("seq_len * batch", "(seq_len or 1) * batch"), "Before the first token it is empty",
        ["makes a float"]),
    "gelu, rounded": (transformer_block.gelu, ("math.sqrt(2.0)", "1.4142"), "sqrt(2) is rounded",
                      ["Write nothing"]),
    "gelu_tanh, rounded": (transformer_block.gelu_tanh, ("math.sqrt(2.0 / math.pi)", "0.7979"),
                           "sqrt(2 / pi) is rounded", ["Write nothing"]),
    "loss, shapes": (
        next_token.next_token_loss, ("logits.shape[:-1] != tokens.shape", "False"), "Shapes are not compared",
        [KEEPDIM, "IndexError"]),
    "route, sigmoids": (
        mixture_of_experts.route,
        ("chosen.softmax(dim=-1, dtype=wide).to(logits.dtype)", "chosen.sigmoid() / chosen.sigmoid().sum(-1, True)"),
        "sigmoids, divided by their sum", ["should sum to one"]),
    "route, stacked": (
        mixture_of_experts.route, (f"{SHARES}, experts", f"torch.stack([{SHARES}, experts])"),
        "should be 2 values, returned together", ["can be differentiated", "It is a float"]),
    "route, squeezed": (
        mixture_of_experts.route, (f"{SHARES}, experts", f"{SHARES}.squeeze(), experts.squeeze()"),
        "has shape (4,) where (4, 1) was expected", ["Hint"]),
    "cap, of shape (1,)": (
        steady_attention.soft_cap, (BENT, "cap * torch.tanh(scores / torch.tensor([cap]))"),
        "shape (1,) where a single number", ["divide before the tanh", "other numbers"]),
    "cap, only beyond it": (
        steady_attention.soft_cap, (BENT, f"torch.where(scores.abs() > 0.9 * cap, {BENT}, scores)"),
        "ok leaves its input as it was", []),
    "latent, values by a view": (
        long_context.LatentAttention,
        ("k, v = (split_heads(up(latent[:, 0]), self.n_heads) for up in (self.W_up_k, self.W_up_v))",
         "k, v = split_heads(self.W_up_k(latent[:, 0]), self.n_heads), "
         "self.W_up_v(latent).view(len(x), self.n_heads, -1, self.d_head)"),
        "ok keeps the normed latent and the rotated key", []),
    "latent, keys kept twice as large": (
        long_context.LatentAttention, ("cache.append(latent, key)", "cache.append(latent, 2 * key)"),
        "second of the two tensors that the cache keeps", []),
    "experts, numbers": (
        mixture_of_experts.MixtureOfExperts, ("* expert(rows[token])", "* expert(rows[token]).relu()"),
        "ok calls an expert with the rows routed to it", []),
    "positions, the last row": (
        positions.LearnedPositions, ("> max_len", ">= max_len"), "Paid for in a line below: no point lost here.",
        ["another line"]),
    "frequencies, wavelengths": (
        long_context.scaled_rope_frequencies, ("original_length * theta / (2 * math.pi)", "2 * math.pi / theta"),
        "limits for rotations", ["No frequency is changed"]),
    "cap, clipped": (steady_attention.soft_cap, (BENT, "scores.clamp(-cap, cap)"), "Scores are clipped",
                     ["leaves scores as they are without a cap"]),
    "cap, none is 50": (
        steady_attention.soft_cap, ("return scores if cap is None else", "cap = cap or 50.0\n    return"),
        "`cap=None` is treated as a cap", ["keep their lengths"]),
    "cap, softsign": (steady_attention.soft_cap, ("torch.tanh", "nn.functional.softsign"), "This bends by s / (1",
                      ["leaves scores as they are without a cap"]),
    "training, a new optimizer": (
        pytorch.training_step, (
            "optimizer.zero_grad()",
            'optimizer = torch.optim.SGD(model.parameters(), lr=optimizer.param_groups[0]["lr"])\n'
            "    optimizer.zero_grad()"), "by a new optimizer", ["moved by hand"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_what_a_check_says_is_true(case, capsys):
    reference, edits, must_say, must_not_say = TABLE[case]
    torch.manual_seed(0)
    check(changed(reference, *edits))
    said = " ".join(capsys.readouterr().out.split())
    assert must_say in said
    assert [words for words in [*must_not_say, "of the stub", "(no point lost here)"] if words in said] == []


@pytest.mark.parametrize("case", ["network, normed", "llama, default cache", "gate, no down", "gate, 1.702"])
def test_what_no_name_explains_takes_few_lines(case):
    reference, edits, *_ = TABLE[case]
    report = examine(changed(reference, *edits), material_of(reference.__name__))
    assert max(len(why) + len(lines) for _, _, why, lines in notes(report)) <= 15
