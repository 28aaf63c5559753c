"""Wrong answers to the chapter on the whole model that its list of misconceptions does not hold in these words."""

import torch
from torch import nn

from solutions import language_model as solutions
from solutions.kv_cache import KVCache
from solutions.transformer_block import LlamaBlock, RMSNorm


class Parts(nn.Module):
    """A right model in parts, for answers that get one of them wrong."""

    def __init__(self, vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(self.make(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers))
        self.norm = RMSNorm(d_model, eps)

    def make(self, *sizes):
        return LlamaBlock(*sizes)

    def forward(self, ids, caches=None):
        if ids.numel() and not (ids.min() >= 0 and ids.max() < self.embedding.num_embeddings):
            raise ValueError("my own words")
        x = self.embedding(ids)
        for i, block in enumerate(self.order()):
            x = block(x, self.cache(caches, i))
        return self.leave(x)

    def order(self):
        return self.blocks

    def cache(self, caches, i):
        return caches[i] if caches else None

    def leave(self, x):
        return self.norm(x) @ self.embedding.weight.T


def but(**parts):
    """The model with some of its parts replaced."""
    return type("LanguageModel", (Parts,), parts)


def limits_ignored(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    return solutions.sample(logits, temperature, generator=generator)


def temperature_squared(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    return solutions.sample(logits, temperature ** 2, top_k, top_p, generator)


def prompt_never_read(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    """The last token alone is fed, from the first step on."""
    caches, text = [KVCache() for _ in model.blocks] if use_cache else None, ids
    for _ in range(max_new_tokens):
        token = solutions.sample(model(text[:, -1:], caches)[:, -1], temperature, generator=generator)
        text = torch.cat([text, token[:, None]], 1)
    return text


def with_caches_that_stay(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    """They lie with the blocks that fill them."""
    if not hasattr(model.blocks, "kept"):
        model.blocks.kept = [KVCache() for _ in model.blocks]
    text, piece = ids, ids
    for _ in range(max_new_tokens):
        logits = model(piece if use_cache else text, model.blocks.kept if use_cache else None)[:, -1]
        piece = solutions.sample(logits, temperature, generator=generator)[:, None]
        text = torch.cat([text, piece], dim=1)
    return text


def weights_zeroed(model, ids, donor_ids, layer, head, n_heads):
    """Right logits, and a head that is gone afterwards."""
    logits = solutions.patch_head(model, ids, donor_ids, layer, head, n_heads)
    model.blocks[layer].attention.W_o.weight.data[:, : 6 // n_heads] = 0
    return logits


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "LanguageModel": [
        (but(leave=lambda self, x: Parts.leave(self, x)[:, -1]), "Only the last position"),
        (but(cache=lambda self, caches, i: caches[i] if caches and i else None), None),
        (but(make=lambda self, d, h, kv, ff, base, eps: LlamaBlock(d, h, h, ff, base, eps)), None),
        (but(forward=lambda self, ids, caches=None: Parts.forward(self, ids % self.embedding.num_embeddings, caches)),
         None),
    ],
    "sample": [
        (limits_ignored, "is not used"),
        (temperature_squared, None),
        (lambda logits, temperature=1.0, top_k=None, top_p=None, generator=None: solutions.sample(
            logits, temperature, top_k, top_p), "global random state"),
        (lambda logits, temperature=1.0, top_k=None, top_p=None, generator=None: solutions.sample(
            logits, max(temperature, 1e-6), top_k, top_p, generator), None),
        (lambda logits, temperature=1.0, top_k=None, top_p=None, generator=None: solutions.sample(
            logits, temperature or 0.05, top_k, top_p, generator), None),
    ],
    "generate": [
        (prompt_never_read, None),
        (with_caches_that_stay, "outlive the call"),
    ],
    "patch_head": [
        (weights_zeroed, None),
        (lambda model, ids, donor_ids, layer, head, n_heads: solutions.patch_head(
            model, ids, donor_ids, layer, head, n_heads)[:, -1:], "last position"),
    ],
}
