"""Wrong answers to the chapter on the whole model that its list of misconceptions does not hold in these words."""

import torch
import torch.nn.functional as F
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
        if ids.ndim != 2 or ids.numel() and not (ids.min() >= 0 and ids.max() < self.embedding.num_embeddings):
            raise ValueError("my own words")
        x = self.enter(self.embedding(ids))
        for i, block in enumerate(self.order()):
            x = block(x, self.cache(caches, i))
        return self.leave(x)

    def enter(self, x):
        return x

    def order(self):
        return self.blocks

    def cache(self, caches, i):
        return caches[i] if caches else None

    def leave(self, x):
        return self.norm(x) @ self.embedding.weight.T


def but(**parts):
    """The model with some of its parts replaced."""
    return type("LanguageModel", (Parts,), parts)


def drawing(change=lambda logits, t: logits / t, keep=lambda shares, k, p: shares, pick=None):
    """A sampler with some of its parts replaced; without `keep` it knows no limits."""
    def answer(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
        if temperature < 0 or top_k is not None and top_k < 1 or top_p is not None and not 0 < top_p <= 1:
            raise ValueError("my own words")
        if temperature == 0:
            return logits.argmax(-1)
        shares = keep(change(logits, temperature).softmax(-1), top_k, top_p)
        if pick is not None:
            return pick(shares, generator)
        flat = shares.reshape(-1, shares.shape[-1])
        return flat.multinomial(1, generator=generator)[:, 0].reshape(logits.shape[:-1])
    return answer


def limits(crossing=True, k_first=True, shift=0):
    """A right `keep`, but for what the arguments say."""
    def few(shares, k):
        order = shares.argsort(-1, descending=True)
        mask = torch.zeros_like(shares).scatter(-1, order[..., :k + shift], 1.0)
        return shares * mask / (shares * mask).sum(-1, keepdim=True)

    def nucleus(shares, p):
        ordered, order = shares.sort(-1, descending=True)
        upto = ordered.cumsum(-1)
        stays = upto - ordered < p if crossing else upto <= p
        stays[..., 0] = True
        return shares * torch.zeros_like(shares).scatter(-1, order, stays.to(shares.dtype))

    def keep(shares, k, p):
        steps = [(few, k), (nucleus, p)] if k_first else [(nucleus, p), (few, k)]
        for step, limit in steps:
            shares = step(shares, limit) if limit is not None else shares
        return shares
    return keep


right = limits()


def writing(begin=lambda ids: ids, feed=None, end=lambda text, n: text, take=-1, extra=0):
    """A generator with some of its parts replaced."""
    def answer(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
        caches = [KVCache() for _ in model.blocks] if use_cache else None
        text = begin(ids)
        for step in range(max_new_tokens + extra):
            piece = text if caches is None or step == 0 else text[:, -1:]
            piece = piece if feed is None else feed(text, step, caches)
            logits = model(piece, caches)[:, take]
            text = torch.cat([text, solutions.sample(logits, temperature, generator=generator)[:, None]], 1)
        return end(text, ids.shape[1])
    return answer


def written_backwards(text, n):
    return torch.cat([text[:, :n], text[:, n:].flip(1)], dim=1)


_left_over = []


def with_a_list_that_stays(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    """What a default value `caches=[]` does: it is made once."""
    if len(_left_over) != len(model.blocks):
        _left_over[:] = [KVCache() for _ in model.blocks]
    text, piece = ids, ids
    for _ in range(max_new_tokens):
        logits = model(piece if use_cache else text, _left_over if use_cache else None)[:, -1]
        piece = solutions.sample(logits, temperature, generator=generator)[:, None]
        text = torch.cat([text, piece], dim=1)
    return text


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "LanguageModel": [
        (but(leave=lambda self, x: F.linear(x, self.embedding.weight)), "last norm is missing"),
        (but(leave=lambda self, x: Parts.leave(self, x)[:, -1]), "Only the last position"),
        (but(leave=lambda self, x: F.softmax(Parts.leave(self, x), -1)), "A softmax stands at the end"),
        (but(enter=lambda self, x: x * x.shape[-1] ** 0.5), "square root of d_model"),
        (but(cache=lambda self, caches, i: None), "caches are not used"),
        (but(cache=lambda self, caches, i: caches[0] if caches else None), "share the first cache"),
        (but(cache=lambda self, caches, i: caches[i] if caches and i else None), None),
        (but(order=lambda self: reversed(self.blocks)), None),
        (but(make=lambda self, d, h, kv, ff, base, eps: LlamaBlock(d, h, kv, ff, base=base)),
         "not handed on to the blocks"),
        (but(make=lambda self, d, h, kv, ff, base, eps: LlamaBlock(d, h, h, ff, base, eps)), None),
        (but(leave=lambda self, x: self.norm(x) @ self.embedding.weight.data.T), "The head is detached"),
        (but(forward=lambda self, ids, caches=None: Parts.forward(self, ids % self.embedding.num_embeddings, caches)),
         None),
    ],
    "sample": [
        (drawing(change=lambda logits, t: logits * t, keep=right), "multiplied by the temperature"),
        (drawing(keep=limits(crossing=False)), "crosses top_p is dropped"),
        (drawing(keep=limits(k_first=False)), "First top_k"),
        (drawing(keep=limits(shift=1)), "One token more than top_k"),
        (drawing(keep=lambda shares, k, p: right(shares, k, None)), "top_p is not used"),
        (drawing(keep=lambda shares, k, p: right(shares, None, p)), "top_k is not used"),
        (drawing(), "is not used"),
        (drawing(keep=right, pick=lambda shares, generator: shares.argmax(-1)), "always takes the most likely"),
        (drawing(keep=lambda shares, k, p: right(shares, k, None if p is None else p / 2)), None),
        (drawing(change=lambda logits, t: logits / t ** 2, keep=right), None),
        (lambda logits, temperature=1.0, top_k=None, top_p=None, generator=None: solutions.sample(
            logits, temperature, top_k, top_p), "global random state"),
        (lambda logits, temperature=1.0, top_k=None, top_p=None, generator=None: solutions.sample(
            logits, temperature or 0.05, top_k, top_p, generator), None),
    ],
    "generate": [
        (writing(feed=lambda text, step, caches: text), "whole text is fed again"),
        (writing(feed=lambda text, step, caches: text[:, -1:]), "only its last token is fed"),
        (writing(end=lambda text, n: text[:, n:]), "prompt is missing"),
        (writing(extra=1), "One token too many"),
        (writing(take=0), "logits of the first position"),
        (writing(end=written_backwards), None),
        (writing(begin=lambda ids: ids.flip(1)), None),
        (with_a_list_that_stays, None),
        (lambda model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True: solutions.generate(
            model, ids, max_new_tokens, temperature, generator, use_cache=False), "`use_cache=True` changes nothing"),
    ],
}
