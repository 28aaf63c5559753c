"""Correct answers to the chapter on the whole model, written in other ways. All must get full marks."""

import torch
import torch.nn.functional as F
from torch import nn

from course.right_answers.language_model import (
    sample_by_filling,
    sample_by_gumbel,
    sample_by_steps_on_a_line,
)
from solutions import language_model as solutions
from solutions.kv_cache import KVCache
from solutions.transformer_block import LlamaBlock, RMSNorm
from tests.alternatives.transformer_block import LlamaOfOtherParts

# LanguageModel

class HeadAsALayer(nn.Module):
    """The head is a module of its own that shares the embedding's weight, as Hugging Face has it."""

    def __init__(self, vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(LlamaBlock(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_ff=d_ff,
                                          base=base, eps=eps))
        self.norm = RMSNorm(d_model, eps)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids, caches=None):
        if (ids < 0).any() or (ids >= self.embedding.num_embeddings).any():
            raise ValueError("ids outside of the vocabulary")
        x = self.embedding(ids)
        for i, block in enumerate(self.blocks):
            x = block(x) if caches is None else block(x, caches[i])
        return self.head(self.norm(x))


class CheckedAtTheEnds(HeadAsALayer):
    """Only the smallest and the largest id are compared, which needs at least one id."""

    def forward(self, ids, caches=None):
        if ids.min() < 0 or ids.max() >= self.embedding.num_embeddings:
            raise ValueError("ids outside of the vocabulary")
        return super().forward(ids, caches)


class HandMade(nn.Module):
    """The look-up as a product with ones and zeros, PyTorch's own norm, einsum for the head; a buffer of its own."""

    def __init__(self, vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.Sequential(*[LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps)
                                      for _ in range(n_layers)])
        self.norm = nn.RMSNorm(d_model, eps=eps)
        self.register_buffer("vocabulary", torch.arange(vocab_size))

    def forward(self, ids, caches=None):
        batch, n = ids.shape
        known = (ids[..., None] == self.vocabulary).any(-1)
        if not known.all():
            raise ValueError("ids outside of the vocabulary")
        x = F.one_hot(ids, len(self.vocabulary)).to(self.embedding.weight.dtype) @ self.embedding.weight
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, cache)
        return torch.einsum("bnd,vd->bnv", self.norm(x), self.embedding.weight)


class OfPytorchsParts(HeadAsALayer):
    """Blocks with PyTorch's fused attention and SiLU, and PyTorch's norm."""

    def __init__(self, vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__(vocab_size, d_model, 0, n_heads, n_kv_heads, d_ff)
        for _ in range(n_layers):
            self.blocks.append(LlamaOfOtherParts(d_model, n_heads, n_kv_heads, d_ff, base, eps))
        self.norm = nn.RMSNorm(d_model, eps)


# sample

def sample_by_the_default_generator(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """PyTorch's own generator by its name where none is given."""
    return solutions.sample(logits, temperature, top_k, top_p, generator or torch.default_generator)


# generate

def generate_prompt_first(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    """The prompt on its own, then the rest; tokens in a list until the end."""
    if max_new_tokens == 0:
        return ids
    caches = [KVCache() for _ in range(len(model.blocks))] if use_cache else None
    with torch.inference_mode():
        pieces = [ids]
        logits = model(ids, caches) if use_cache else model(ids)
        while True:
            pieces.append(solutions.sample(logits[:, -1, :], temperature, generator=generator).unsqueeze(1))
            if len(pieces) == max_new_tokens + 1:
                return torch.cat(pieces, dim=1)
            logits = model(pieces[-1], caches) if use_cache else model(torch.cat(pieces, dim=1))


def generate_by_recursion(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    def go_on(text, caches, left):
        if left == 0:
            return text
        started = caches is not None and len(caches[0]) > 0
        logits = model(text[:, -1:] if started else text, caches)
        token = solutions.sample(logits[:, -1:], temperature=temperature, generator=generator)
        return go_on(torch.hstack([text, token]), caches, left - 1)

    return go_on(ids.clone(), [KVCache() for _ in model.blocks] if use_cache else None, max_new_tokens)


# patch_head

class _Spy(nn.Module):
    """In the place of W_o for one reading."""

    def __init__(self, mixing, columns, put=None):
        super().__init__()
        self.mixing, self.columns, self.put, self.kept = mixing, columns, put, None

    def forward(self, x):
        self.kept = x[..., self.columns]
        if self.put is not None:
            x = torch.cat([x[..., : self.columns.start], self.put, x[..., self.columns.stop :]], dim=-1)
        return self.mixing(x)


def _checked(model, ids, donor_ids, layer, head, n_heads):
    if ids.shape != donor_ids.shape:
        raise ValueError("two texts of one length")
    if layer not in range(len(model.blocks)) or head not in range(n_heads):
        raise ValueError("no such head")


def patch_by_another_module(model, ids, donor_ids, layer, head, n_heads):
    """W_o is exchanged for a module that listens, and later for W_o again."""
    _checked(model, ids, donor_ids, layer, head, n_heads)
    attention = model.blocks[layer].attention
    mixing, width = attention.W_o, attention.W_o.in_features // n_heads
    columns = slice(head * width, (head + 1) * width)
    try:
        attention.W_o = listening = _Spy(mixing, columns)
        model(donor_ids)
        attention.W_o = _Spy(mixing, columns, listening.kept)
        return model(ids).detach()
    finally:
        attention.W_o = mixing


def patch_behind_the_mix(model, ids, donor_ids, layer, head, n_heads):
    """W_o is linear: what the exchange changes in its output is the change of the head times its columns of W_o."""
    _checked(model, ids, donor_ids, layer, head, n_heads)
    mixing, inputs = model.blocks[layer].attention.W_o, []
    part = mixing.weight.detach().unflatten(1, (n_heads, -1))[:, head]

    def hook(_, given, output):
        inputs.append(given[0].detach().unflatten(-1, (n_heads, -1))[:, :, head])
        if len(inputs) == 2:
            return output + (inputs[0] - inputs[1]) @ part.T

    with mixing.register_forward_hook(hook), torch.inference_mode():
        model(donor_ids)
        logits = model(ids)
    return logits.clone()


def patch_and_remove_at_last(model, ids, donor_ids, layer, head, n_heads):
    """A handle for each hook, and `finally`."""
    _checked(model, ids, donor_ids, layer, head, n_heads)
    mixing, kept = model.blocks[layer].attention.W_o, []

    def exchange(_, given):
        width = given[0].shape[-1] // n_heads
        columns = slice(head * width, (head + 1) * width)
        kept.append(given[0][..., columns].clone())
        x = given[0].clone()
        x[..., columns] = kept[0]
        return (x,)

    with torch.no_grad():
        handle = mixing.register_forward_pre_hook(exchange)
        try:
            return [model(text) for text in (donor_ids, ids)][1]
        finally:
            handle.remove()


ALTERNATIVES = {
    "LanguageModel": [OfPytorchsParts, HeadAsALayer, CheckedAtTheEnds, HandMade],
    "sample": [sample_by_the_default_generator, sample_by_filling, sample_by_gumbel, sample_by_steps_on_a_line],
    "generate": [generate_prompt_first, generate_by_recursion],
    "patch_head": [patch_by_another_module, patch_and_remove_at_last, patch_behind_the_mix],
}
