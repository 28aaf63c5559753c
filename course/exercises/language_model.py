"""Exercises of the chapter on the whole model: what must hold, on which inputs, and what people get wrong.

The models are small, seven words and eight numbers each, and their heads are four numbers wide: with two, RoPE has one
pair only, and one pair turns alike whatever the base.
"""

import math

import numpy as np
import torch
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import language_model as solutions
from solutions.kv_cache import KVCache
from solutions.transformer_block import LayerNorm, LlamaBlock, RMSNorm

WHOLE = "The whole model, shape by shape"
CHOOSE = "Which token to take"
WRITE = "One token after another"
PATCH = "Which head carries the answer? ★"
ROPE = dict(rtol=1e-5, atol=1e-6)  # angles of RoPE are float32, also in a model of float64
OFTEN = dict(rtol=0.0, atol=0.02)  # shares among 20,000 draws: one part in 20,000 ** 0.5 is 0.007


# LanguageModel -------------------------------------------------------------------------------------------------------

LanguageModel = Exercise(solutions.LanguageModel, section=WHOLE, minutes=15, difficulty=3)

SIZES = dict(vocab_size=7, d_model=8, n_layers=2, n_heads=2, n_kv_heads=1, d_ff=5)


def _ids(rng, *shape, vocab_size=7):
    return torch.from_numpy(rng.integers(0, vocab_size, size=shape))


def _weights(rng, init, dtype=torch.float64):
    """Weights for a model of those sizes: norms around 1, maps of variance 1 / inputs, an embedding of variance 1."""
    width, hidden = init["d_model"], init["d_ff"]
    shared = width // init["n_heads"] * init["n_kv_heads"]
    maps = {
        "attention.W_q": (width, width),
        "attention.W_k": (shared, width),
        "attention.W_v": (shared, width),
        "attention.W_o": (width, width),
        "feed_forward.W_gate": (hidden, width),
        "feed_forward.W_up": (hidden, width),
        "feed_forward.W_down": (width, hidden),
    }
    weights = {"embedding.weight": normal(rng, init["vocab_size"], width, dtype=dtype)}
    for layer in range(init["n_layers"]):
        for norm in ("norm_1", "norm_2"):
            weights[f"blocks.{layer}.{norm}.weight"] = 1 + 0.3 * normal(rng, width, dtype=dtype)
        for name, size in maps.items():
            weights[f"blocks.{layer}.{name}.weight"] = normal(rng, *size, dtype=dtype) * 1.5 / size[1] ** 0.5
    return weights | {"norm.weight": 1 + 0.3 * normal(rng, width, dtype=dtype)}


def _model(rng, *shape, dtype=torch.float64, **sizes):
    """A case: a model and ids of that shape."""
    init = SIZES | sizes
    return dict(init=init, weights=_weights(rng, init, dtype), ids=_ids(rng, *shape, vocab_size=init["vocab_size"]))


@LanguageModel.property(
    "has an embedding, blocks and a norm, and no separate head",
    points=1,
    hint="nn.Embedding(vocab_size, d_model), an nn.ModuleList of n_layers LlamaBlocks, and an RMSNorm, under the "
    "names embedding, blocks and norm. The head is the embedding's weight again.",
)
def structure(rng):
    vocab_size, d_ff = (int(size) for size in rng.choice([5, 6, 7, 9, 10, 11], size=2, replace=False))
    yield dict(init=SIZES | dict(vocab_size=vocab_size, d_ff=d_ff))
    yield dict(init=dict(vocab_size=d_ff, d_model=12, n_layers=3, n_heads=3, n_kv_heads=3, d_ff=4))


@LanguageModel.property(
    "turns ids into logits",
    points=3,
    **ROPE,
    hint="Look the ids up, pass the result through one block after the other, norm it, then take a dot product with "
    "every row of the embedding: norm(x) @ embedding.weight.T.",
)
def forward(rng):
    yield _model(rng, 1, 4)
    yield _model(rng, 2, 5)
    yield _model(rng, 2, 3, vocab_size=6, d_model=12, n_layers=1, n_heads=3, n_kv_heads=3, d_ff=4)


@LanguageModel.property(
    "hands base and eps on",
    points=1,
    **ROPE,
    hint="Each block takes base and eps, and the last norm takes eps. Left out, they fall back to 10000 and 1e-5.",
)
def settings(rng):
    yield dict(**_model(rng, 1, 5, base=7.0, n_layers=1))
    yield dict(**_model(rng, 1, 4, eps=0.3, n_layers=1))
    faint = _model(rng, 1, 3, n_layers=1)  # eps counts here, too, and is the one by default
    faint["weights"]["embedding.weight"] *= 0.003
    yield faint


@LanguageModel.property(
    "keeps the future out, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="Replace one id: no earlier row of logits may move, not by a single bit, and every row from there on must.",
)
def future(rng):
    for n in (4, 5):
        case = _model(rng, 2, n, n_layers=1)
        changed = case["ids"].clone()
        changed[:, n - 3] = (changed[:, n - 3] + 1) % 7
        yield dict(**case, name="ids", replacement=changed)


@LanguageModel.property(
    "reads in pieces, with one cache for each block, what it reads at once",
    points=2,
    probe=probes.in_chunks,
    **ROPE,
    hint="Give block number l the cache number l. The caches keep track of positions: do not count them here.",
)
def chunks(rng):
    yield dict(**_model(rng, 1, 5), cuts=[3, 4])
    yield dict(**_model(rng, 2, 6), cuts=[1, 2, 5], beside=_ids(rng, 1, 4))


@LanguageModel.property(
    "has the right gradients, also those of the embedding in both of its places",
    points=1,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-6,
    hint="The embedding's weight gets one gradient from the look-up and one from the head. A copy of the weight, "
    "`.detach()` or `.data` loses one of them.",
)
def right_gradients(rng):
    case = _model(rng, 1, 3, n_layers=1)
    asked = ("embedding.weight", "blocks.0.norm_1.weight", "norm.weight")  # gradients of all would fill the file
    case["weights"] = {name: case["weights"][name] for name in asked}
    yield dict(**case, upstream=[normal(rng, 1, 3, 7)])


@LanguageModel.property(
    "works in single precision, on any device",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-3,
    atol=1e-4,
    hint="Weights in float32 give logits in float32. Make no tensors of another type on the way, and none without "
    "`device=ids.device`.",
)
def single_precision(rng):
    yield _model(rng, 2, 4, n_layers=1, dtype=torch.float32)
    yield dict(probe="in_chunks", **_model(rng, 1, 3, dtype=torch.float32), cuts=[2])


@LanguageModel.property(
    "refuses ids that are not in the vocabulary",
    points=1,
    probe=probes.error_of,
    **ROPE,
    hint="ValueError when an id is below 0 or not below vocab_size. PyTorch's own answer is IndexError, and indexing "
    "reads -1 as the last row, without an error.",
)
def refuses(rng):
    small = dict(init=SIZES | dict(n_layers=1, d_ff=2))
    yield dict(**small, ids=torch.tensor([[2, 7, 3]]))
    yield dict(**small, ids=torch.tensor([[0, 1], [4, -1]]))
    yield dict(**small, ids=torch.tensor([[4 + int(rng.integers(4, 90)), 1]]))
    yield _model(rng, 1, 2, n_layers=1)
    yield _model(rng, 2, 3, n_layers=1) | dict(ids=torch.tensor([[0, 6, 2]]))


@LanguageModel.property(
    "leaves the ids as they were",
    points=1,
    probe=probes.unchanged,
    **ROPE,
    hint="An operation whose name ends in an underscore writes into its tensor. Use none on ids.",
)
def ids_stay(rng):
    yield _model(rng, 2, 3, n_layers=1)


class _Steps(nn.Module):
    """Right, in steps that a misconception can replace one by one."""

    def __init__(self, vocab_size, d_model, n_layers, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = self.stack([self.block(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers)])
        self.norm = self.last_norm(d_model, eps)

    def stack(self, blocks):
        return nn.ModuleList(blocks)

    def block(self, *sizes):
        return LlamaBlock(*sizes)

    def last_norm(self, d_model, eps):
        return RMSNorm(d_model, eps)

    def forward(self, ids, caches=None):
        self.inspect(ids)
        return self.read_out(self.norm(self.run(self.look_up(ids), caches)))

    def inspect(self, ids):
        if bool(((ids < 0) | (ids >= self.vocab_size)).any()):
            raise ValueError("ids do not fit")

    def look_up(self, ids):
        return self.embedding.weight[ids]

    def run(self, x, caches):
        for number, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[number])
        return x

    def read_out(self, x):
        return nn.functional.linear(x, self.embedding.weight)


@LanguageModel.misconception(
    "The last norm is missing. Rows leave the blocks with any length, and the head expects rows of root mean square 1."
)
class NoLastNorm(_Steps):
    def forward(self, ids, caches=None):
        self.inspect(ids)
        return self.read_out(self.run(self.look_up(ids), caches))


@LanguageModel.misconception(
    "The last norm is a LayerNorm, which subtracts the mean and has a bias. A Llama has an RMSNorm there, as in its "
    "blocks."
)
class LastLayerNorm(_Steps):
    def last_norm(self, d_model, eps):
        return LayerNorm(d_model, eps)


@LanguageModel.misconception(
    "The norm comes before the blocks. Each block already norms its own input; what is still to be normed is the "
    "output of the last block."
)
class NormFirst(_Steps):
    def forward(self, ids, caches=None):
        self.inspect(ids)
        return self.read_out(self.run(self.norm(self.look_up(ids)), caches))


@LanguageModel.misconception(
    "The norm is applied after every block. Between blocks the residual stream is left as it is; only the last output "
    "is normed."
)
class NormEverywhere(_Steps):
    def run(self, x, caches):
        for number, block in enumerate(self.blocks):
            x = block(x if number == 0 else self.norm(x), None if caches is None else caches[number])
        return x


@LanguageModel.misconception(
    "The head has its own weight. Here it is tied: the embedding's weight is used a second time, so the model "
    "has no other parameter for it."
)
class UntiedHead(_Steps):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.head = nn.Linear(self.norm.weight.shape[0], self.vocab_size, bias=False)

    def read_out(self, x):
        return self.head(x)


@LanguageModel.misconception(
    "The embedding is multiplied by the square root of d_model. The Transformer paper of 2017 does that; a Llama does "
    "not."
)
class ScaledEmbedding(_Steps):
    def look_up(self, ids):
        return super().look_up(ids) * self.norm.weight.shape[0] ** 0.5


@LanguageModel.misconception(
    "Sinusoids are added to the embedding. RoPE inside each block already provides the positions; nothing is added "
    "here."
)
class SinusoidsAdded(_Steps):
    def look_up(self, ids):
        x = super().look_up(ids)
        place, pair = torch.arange(x.shape[1])[:, None], torch.arange(0, x.shape[2], 2)
        angle = place / 10000.0 ** (pair / x.shape[2])
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(x.dtype)


@LanguageModel.misconception(
    "There is a softmax at the end. The model returns logits; sampling and the loss take their own softmax."
)
class SoftmaxAtTheEnd(_Steps):
    def read_out(self, x):
        return super().read_out(x).softmax(dim=-1)


@LanguageModel.misconception("There is a log-softmax at the end. The model returns the logits as they are.")
class LogSoftmaxAtTheEnd(_Steps):
    def read_out(self, x):
        return super().read_out(x).log_softmax(dim=-1)


@LanguageModel.misconception(
    "Only the last position is returned. Training needs the logits of all positions, (batch, n, vocab_size)."
)
class LastPositionOnly(_Steps):
    def read_out(self, x):
        return super().read_out(x[:, -1:])


@LanguageModel.misconception(
    "Every block reads the embedding. Each block must read the output of the one before it, so that they build on one "
    "another."
)
class NotStacked(_Steps):
    def run(self, x, caches):
        out = x
        for number, block in enumerate(self.blocks):
            out = block(x, None if caches is None else caches[number])
        return out


@LanguageModel.misconception(
    "The output of each block is added to its input a second time. A block has its residual connections inside."
)
class ResidualTwice(_Steps):
    def run(self, x, caches):
        for number, block in enumerate(self.blocks):
            x = x + block(x, None if caches is None else caches[number])
        return x


@LanguageModel.misconception(
    "This is a single block, used n_layers times: `[block] * n_layers` repeats the same object. Make a new one each "
    "time."
)
class OneBlockRepeated(_Steps):
    def stack(self, blocks):
        return nn.ModuleList(blocks[:1] * len(blocks))


@LanguageModel.misconception(
    "The blocks are in a plain list, so their parameters do not count as the model's: an optimizer would never see "
    "them. Use nn.ModuleList."
)
class PlainList(_Steps):
    def stack(self, blocks):
        return blocks


@LanguageModel.misconception(
    "The caches are not used, or they are emptied at each call. The blocks then see only the new piece, and count its "
    "positions from 0. A text begins when its caches are made, so leave that to the caller."
)
class CachesIgnored(_Steps):
    def run(self, x, caches):
        return super().run(x, None)


@LanguageModel.misconception(
    "All blocks share the first cache. Each block has its own keys and values, so block number l needs cache number l."
)
class OneCacheForAll(_Steps):
    def run(self, x, caches):
        return super().run(x, None if caches is None else [caches[0]] * len(self.blocks))


@LanguageModel.misconception(
    "Only the first block gets its cache. The later ones forget everything between two pieces."
)
class FirstBlockOnly(_Steps):
    def run(self, x, caches):
        return super().run(x, None if caches is None else [caches[0]] + [None] * (len(self.blocks) - 1))


@LanguageModel.misconception(
    "`base` is not passed on to the blocks, so they rotate with 10000 whatever the caller gave. SmolLM2 needs 100000."
)
class BaseForgotten(_Steps):
    def block(self, d_model, n_heads, n_kv_heads, d_ff, base, eps):
        return LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, eps=eps)


@LanguageModel.misconception("`eps` is not passed on to the blocks, so their norms use 1e-5 whatever the caller gave.")
class EpsForgottenInBlocks(_Steps):
    def block(self, d_model, n_heads, n_kv_heads, d_ff, base, eps):
        return LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base)


@LanguageModel.misconception("`eps` is not passed on to the last norm, which uses 1e-5 whatever the caller gave.")
class EpsForgottenAtTheEnd(_Steps):
    def last_norm(self, d_model, eps):
        return RMSNorm(d_model)


@LanguageModel.misconception("`eps` is passed on neither to the blocks nor to the last norm: all of them use 1e-5.")
class EpsForgotten(EpsForgottenInBlocks, EpsForgottenAtTheEnd):
    pass


@LanguageModel.misconception(
    "`base` and `eps` are swapped when they are passed on. Pass them by name, and the order cannot matter."
)
class BaseAndEpsExchanged(_Steps):
    def block(self, d_model, n_heads, n_kv_heads, d_ff, base, eps):
        return LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, eps, base)


@LanguageModel.misconception(
    "The head is detached: a copy of the embedding's weight is used. Its numbers are right, but no gradient from the "
    "head reaches the embedding."
)
class DetachedHead(_Steps):
    def read_out(self, x):
        return x @ self.embedding.weight.detach().T


@LanguageModel.misconception(
    "An id outside the vocabulary ends in IndexError, which nn.Embedding raises (on a GPU it ends the whole process). "
    "Check the smallest and the largest id first, and raise ValueError."
)
class IndexErrorComes(_Steps):
    def inspect(self, ids):
        pass

    def look_up(self, ids):
        return self.embedding(ids)


@LanguageModel.misconception(
    "Negative ids are let through: only the upper end is tested. Indexing reads -1 as the last row, without an error, "
    "and nn.Embedding raises IndexError."
)
class NegativeIds(_Steps):
    def inspect(self, ids):
        if bool((ids >= self.vocab_size).any()):
            raise ValueError("ids do not fit")


@LanguageModel.misconception("The id vocab_size itself is let through. Ids run from 0 to vocab_size - 1.")
class OneIdTooMany(_Steps):
    def inspect(self, ids):
        if bool(((ids < 0) | (ids > self.vocab_size)).any()):
            raise ValueError("ids do not fit")


@LanguageModel.misconception(
    "`clamp` moves ids outside the vocabulary to its ends. The model then reads a different text than it was given. "
    "Raise ValueError."
)
class IdsClamped(_Steps):
    def inspect(self, ids):
        pass

    def look_up(self, ids):
        return super().look_up(ids.clamp(0, self.vocab_size - 1))


# sample --------------------------------------------------------------------------------------------------------------

sample = Exercise(solutions.sample, section=CHOOSE, minutes=15, difficulty=3)

DRAWS = 20_000
# Shares 0.40, 0.06, 0.24, 0.10, 0.20: out of order, and far enough apart to be told from one another by counting.
UNEQUAL = torch.tensor([0.40, 0.06, 0.24, 0.10, 0.20]).log()


def _shares(rng, *shares, behind=0):
    """Logits with these shares, the largest given first, in an order that is drawn, raised by a number that is drawn.
    The largest is none of the first `behind` tokens of the vocabulary."""
    order = rng.permutation(len(shares))
    while order.argmin() < behind:
        order = rng.permutation(len(shares))
    return torch.tensor(shares).log()[torch.from_numpy(order)] + float(rng.normal())


def _halves(rng):
    """Logits with shares 1/2, 1/4, 1/8 and 1/8 in an order that is drawn. They are multiples of log 2 by powers of two,
    in float64, so that the shares are exact whoever computes them, and however."""
    return -math.log(2) * torch.tensor([0.0, 1.0, 2.0, 2.0], dtype=torch.float64)[torch.from_numpy(rng.permutation(4))]


def _clear(rng, vocab_size, token, dtype=torch.float32):
    """Logits so far apart that this token, the most likely one, is as good as certain: no luck is in a draw."""
    others = rng.permutation(vocab_size - 1)
    return 50.0 * torch.from_numpy(np.insert(others, token, vocab_size - 1)).to(dtype)


def _two_tokens(rng, *tokens):
    """Two different ones of these, so that no answer that is right gives the same result everywhere."""
    return rng.choice(tokens, size=2, replace=False)


def _often(rng, logits, **inputs):
    return dict(seed=int(rng.integers(1, 10_000)), draws=DRAWS, logits=logits, **inputs)


@sample.property(
    "takes the most likely token at temperature 0, for each row of any leading axes",
    points=1,
    hint="argmax along the last axis; the result has the shape of logits without that axis. Do not divide by 0, nor "
    "by a small number: close logits would then be drawn at random.",
)
def greedy(rng):
    yield dict(logits=normal(rng, 6, dtype=torch.float32), temperature=0.0)
    yield dict(logits=1e-9 * normal(rng, 16, 6, dtype=torch.float32), temperature=0.0)  # no draw at all
    yield dict(logits=normal(rng, 3, 5, dtype=torch.float32), temperature=0.0)
    yield dict(logits=normal(rng, 2, 4, 5, dtype=torch.float32), temperature=0.0, top_k=3, top_p=0.5)


@sample.property(
    "draws each token as often as the softmax says, whatever the size of the logits",
    points=2,
    probe=probes.frequencies,
    **OFTEN,
    hint="softmax along the last axis, then torch.multinomial, which takes two axes at most: flatten the leading "
    "axes into one, and restore them afterwards.",
)
def draws(rng):
    yield _often(rng, UNEQUAL)
    yield _often(rng, _shares(rng, 0.45, 0.15, 0.25, 0.1, 0.05) + 900.0)
    yield _often(rng, torch.stack([_shares(rng, 0.5, 0.3, 0.2), _shares(rng, 0.7, 0.2, 0.1)]))


@sample.property(
    "divides the logits by the temperature",
    points=1,
    probe=probes.frequencies,
    **OFTEN,
    hint="Above 1 the probabilities come closer together, below 1 they move apart.",
)
def temperature(rng):
    yield _often(rng, _shares(rng, 0.6, 0.3, 0.1), temperature=2.0)
    yield _often(rng, _shares(rng, 0.4, 0.3, 0.2, 0.1), temperature=0.5)


@sample.property(
    "draws from the top_k most likely tokens",
    points=1,
    probe=probes.frequencies,
    **OFTEN,
    hint="All others get probability 0, and the rest are rescaled to add up to 1. top_k may be larger than the "
    "vocabulary: then all tokens stay.",
)
def top_k(rng):
    yield _often(rng, UNEQUAL, top_k=2)
    yield _often(rng, _shares(rng, 0.35, 0.25, 0.2, 0.12, 0.08), top_k=3)
    yield _often(rng, _shares(rng, 0.5, 0.3, 0.2), top_k=9)
    yield _often(rng, torch.stack([_shares(rng, 0.5, 0.3, 0.2), _shares(rng, 0.7, 0.2, 0.1)]), top_k=2)


@sample.property(
    "draws from the fewest tokens that together reach top_p",
    points=3,
    probe=probes.frequencies,
    **OFTEN,
    hint="Sort by probability, largest first. A token stays if the tokens before it have not reached top_p: the one "
    "that crosses the line stays, and the first one always does. A sum equal to top_p has reached it.",
)
def top_p(rng):
    yield _often(rng, UNEQUAL, top_p=0.6)
    yield _often(rng, _shares(rng, 0.35, 0.25, 0.2, 0.12, 0.08), top_p=0.7)
    yield _often(rng, _shares(rng, 0.5, 0.3, 0.2), top_p=0.1)
    yield _often(rng, _shares(rng, 0.4, 0.35, 0.25), top_p=1.0)
    yield _often(rng, _halves(rng), top_p=0.5) | dict(draws=500)  # one token meets the line exactly: no luck is in it
    yield _often(rng, torch.stack([_shares(rng, 0.5, 0.3, 0.2), _shares(rng, 0.7, 0.2, 0.1)]), top_p=0.6)


@sample.property(
    "applies temperature, then top-k, then top-p over what is left",
    points=1,
    probe=probes.frequencies,
    **OFTEN,
    hint="top_p looks at probabilities after the temperature, and after those that top_k left are rescaled to add up "
    "to 1.",
)
def order(rng):
    yield _often(rng, _shares(rng, 0.40, 0.22, 0.16, 0.12, 0.10, behind=3), top_k=3, top_p=0.5)
    yield _often(rng, _shares(rng, 0.6, 0.25, 0.1, 0.05), temperature=2.0, top_p=0.75)
    yield _often(rng, _shares(rng, 0.36, 0.28, 0.2, 0.16), temperature=0.5, top_k=3, top_p=0.8)


@sample.property(
    "draws from `generator` alone",
    points=1,
    probe=probes.generator_seeded,
    hint="Pass `generator` on to torch.multinomial. Seeding anything yourself would repeat the same token forever.",
)
def own_generator(rng):
    yield dict(seed=int(rng.integers(1, 10_000)), logits=normal(rng, 40, 5, dtype=torch.float32), top_k=4)
    yield dict(seed=int(rng.integers(1, 10_000)), logits=normal(rng, 2, 30, 6, dtype=torch.float32), top_p=0.9)


@sample.property(
    "leaves the logits as they were, on any device",
    points=1,
    probe=probes.elsewhere,
    hint="Writing minus infinity into logits[...] or dividing with /= changes the caller's tensor. Make a new one, "
    "with `device=logits.device`.",
)
def logits_stay(rng):
    first, second = _two_tokens(rng, 2, 3, 4)  # neither is one of the first top_k of the vocabulary
    few = dict(temperature=0.5, top_k=2, top_p=0.5)
    yield dict(probe="unchanged", logits=_clear(rng, 5, first), **few)
    yield dict(probe="unchanged", logits=_clear(rng, 6, second, dtype=torch.float64), temperature=2.0, top_p=0.9)


class _Draw:
    """Right, in steps that a misconception can replace one by one: shares in the vocabulary's own order."""

    def __call__(self, logits, temperature=1.0, top_k=None, top_p=None, generator=None):
        if temperature == 0:
            return self.at_zero(logits)
        return self.draw(self.shares(logits, temperature, top_k, top_p), generator)

    def at_zero(self, logits):
        return logits.max(dim=-1).indices

    def shares(self, logits, temperature, top_k, top_p):
        shares = self.softmax(self.cool(logits, temperature))
        if top_k is not None:
            shares = self.share_out(self.few(shares, top_k))
        if top_p is not None:
            shares = self.nucleus(shares, top_p)
        return shares

    def cool(self, logits, temperature):
        return logits / temperature

    def softmax(self, logits):
        return logits.softmax(dim=-1)

    def few(self, shares, top_k):
        return shares * (self.rank(shares) < top_k)

    def rank(self, shares):
        """How many tokens are more likely."""
        return shares.argsort(dim=-1, descending=True).argsort(dim=-1)

    def share_out(self, shares):
        return shares / shares.sum(dim=-1, keepdim=True)

    def before(self, shares):
        """What the tokens that are more likely have together."""
        larger = shares[..., None, :] > shares[..., :, None]
        return (shares[..., None, :] * larger).sum(dim=-1)

    def nucleus(self, shares, top_p):
        return shares * (self.before(shares) < top_p)

    def draw(self, shares, generator):
        flat = shares.reshape(-1, shares.shape[-1])
        return torch.multinomial(flat, 1, generator=generator).reshape(shares.shape[:-1])


def _wrong_draw(text, section=None):
    """Declares a class of wrong steps as the misconception that its object is, under the class's name."""

    def declare(steps):
        made = steps()

        def wrong(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
            return made(logits, temperature, top_k, top_p, generator)

        wrong.__name__ = steps.__name__
        sample.misconception(text, section=section)(wrong)
        return steps

    return declare


@_wrong_draw(
    "The logits are multiplied by the temperature. Divide: a high temperature makes them smaller, and the "
    "probabilities more alike."
)
class _Multiplied(_Draw):
    def cool(self, logits, temperature):
        return logits * temperature


@_wrong_draw("The temperature is not used. Divide the logits by it before anything else.")
class _TemperatureIgnored(_Draw):
    def cool(self, logits, temperature):
        return logits


@_wrong_draw(
    "The probabilities are divided by the temperature instead of the logits. Rescaled to add up to 1, they are what "
    "they were before."
)
class _SharesDivided(_Draw):
    def cool(self, logits, temperature):
        return logits

    def softmax(self, logits):
        return super().softmax(logits) * 1.0

    def shares(self, logits, temperature, top_k, top_p):
        shares = self.softmax(logits) / temperature
        if top_k is not None:
            shares = self.few(shares, top_k)
        if top_p is not None:
            shares = self.nucleus(shares, top_p)
        return shares


@_wrong_draw("It always takes the most likely token. That is temperature 0; above it, draw.")
class _AlwaysGreedy(_Draw):
    def draw(self, shares, generator):
        return shares.argmax(dim=-1)


@_wrong_draw("At temperature 0 it divides by 0. Take the argmax there, before any division.")
class _DividedByZero(_Draw):
    def at_zero(self, logits):
        return self.draw((logits / 0.0).softmax(dim=-1), None)


@_wrong_draw(
    "At temperature 0 the least likely token is taken: an argmin, or the wrong end of a sorted list. Take the argmax."
)
class _LeastLikelyAtZero(_Draw):
    def at_zero(self, logits):
        return logits.argmin(dim=-1)


@_wrong_draw("top_k is not used. All but the top_k most likely tokens get probability 0.")
class _TopKIgnored(_Draw):
    def few(self, shares, top_k):
        return shares


@_wrong_draw("One token more than top_k stays. Compare the ranks, counted from 0, with `<`.")
class _OneMore(_Draw):
    def few(self, shares, top_k):
        return shares * (self.rank(shares) <= top_k)


@_wrong_draw("The top_k least likely tokens stay: the order is reversed.")
class _LeastLikely(_Draw):
    def few(self, shares, top_k):
        return shares * (self.rank(-shares) < top_k)


@_wrong_draw("The first top_k tokens of the vocabulary stay, whatever their probabilities. Sort, or use torch.topk.")
class _FirstOfTheVocabulary(_Draw):
    def few(self, shares, top_k):
        return shares * (torch.arange(shares.shape[-1], device=shares.device) < top_k)


@_wrong_draw(
    "A top_k larger than the vocabulary fails, because torch.topk cannot return more entries than there are. Take the "
    "smaller of the two numbers."
)
class _KTooLarge(_Draw):
    def few(self, shares, top_k):
        return shares * (shares >= shares.topk(top_k, dim=-1).values[..., -1:])


@_wrong_draw("The limit for top_k is taken from the whole batch. Each row has its own top_k tokens.")
class _OneLineForAll(_Draw):
    def few(self, shares, top_k):
        rows = shares.reshape(-1, shares.shape[-1])
        line = rows[0].topk(min(top_k, rows.shape[-1])).values[-1]
        return torch.where(shares >= line, shares, torch.zeros_like(shares)) + 1e-12


@_wrong_draw("top_p is not used. Only the fewest tokens that together reach it may be drawn.")
class _TopPIgnored(_Draw):
    def nucleus(self, shares, top_p):
        return shares


@_wrong_draw(
    "The token that crosses top_p is dropped. It belongs to the tokens that stay: without it they do not reach top_p. "
    "Look at the sum *before* a token, not up to it."
)
class _CrossingDropped(_Draw):
    def nucleus(self, shares, top_p):
        kept = shares * (self.before(shares) + shares <= top_p)
        return torch.where(self.before(shares) == 0, shares, kept)


@_wrong_draw(
    "The token that crosses top_p is dropped, and where it is the first one no token is left at all. It belongs to "
    "the tokens that stay."
)
class _CrossingDroppedToo(_Draw):
    def nucleus(self, shares, top_p):
        return shares * (self.before(shares) + shares <= top_p)


@_wrong_draw("One token too many stays under top_p: the one after that which crosses it.")
class _OneAfterCrossing(_Draw):
    def nucleus(self, shares, top_p):
        inside = self.before(shares) < top_p
        count = inside.sum(dim=-1, keepdim=True)
        return shares * (self.rank(shares) <= count)


@_wrong_draw("The probabilities are added up in the order of the vocabulary. Sort them first, largest first.")
class _NotSorted(_Draw):
    def before(self, shares):
        return shares.cumsum(dim=-1) - shares


@_wrong_draw(
    "The probabilities are sorted the wrong way: the least likely tokens stay until they reach top_p. Sort largest "
    "first."
)
class _SortedUpwards(_Draw):
    def before(self, shares):
        smaller = shares[..., None, :] < shares[..., :, None]
        return (shares[..., None, :] * smaller).sum(dim=-1)


@_wrong_draw(
    "top_p is used as a limit for single tokens: those with a lower probability are dropped. It is a limit for the "
    "sum of the most likely tokens."
)
class _LimitForEach(_Draw):
    def nucleus(self, shares, top_p):
        kept = shares * (shares >= top_p)
        return torch.where(self.before(shares) == 0, shares, kept)


@_wrong_draw(
    "top_p is applied to probabilities before top_k, or they were not rescaled after top_k. First top_k, then divide "
    "what is left by its sum, then top_p."
)
class _PFirst(_Draw):
    def shares(self, logits, temperature, top_k, top_p):
        shares = self.softmax(self.cool(logits, temperature))
        if top_p is not None:
            shares = self.nucleus(shares, top_p)
        return shares if top_k is None else self.few(shares, top_k)


@_wrong_draw("top_p is applied to probabilities without the temperature. Divide first, then decide which tokens stay.")
class _LimitsBeforeTemperature(_Draw):
    def shares(self, logits, temperature, top_k, top_p):
        plain = super().shares(logits, 1.0, top_k, top_p)
        return (logits / temperature).masked_fill(plain == 0, -torch.inf).softmax(dim=-1)


@_wrong_draw(
    "The probabilities that are kept do not add up to 1, so the last token gets what the dropped ones had. Divide by "
    "the sum of what is left."
)
class _RestToTheLast(_Draw):
    def draw(self, shares, generator):
        flat = shares.reshape(-1, shares.shape[-1]).double()
        u = torch.rand(len(flat), 1, generator=generator, dtype=torch.float64)
        return (flat.cumsum(-1) <= u).sum(-1).clamp(max=flat.shape[-1] - 1).reshape(shares.shape[:-1])

    def share_out(self, shares):
        return shares


@_wrong_draw(
    "The result is a place in the sorted order instead of a token. After sorting, place 0 is the most likely token, "
    "whichever that is. Look up which token it belongs to."
)
class _PlacesForTokens(_Draw):
    def draw(self, shares, generator):
        return super().draw(shares.sort(dim=-1, descending=True).values, generator)


@_wrong_draw("All tokens that stay are equally likely to be drawn. They should keep their proportions.")
class _AllAlike(_Draw):
    def draw(self, shares, generator):
        return super().draw((shares > 0).to(shares.dtype), generator)


@_wrong_draw(
    "The softmax runs along the first axis, which is the batch. Each row of logits is a separate distribution: dim=-1."
)
class _AlongTheBatch(_Draw):
    def softmax(self, logits):
        return logits.softmax(dim=0)


@_wrong_draw("The exponentials overflow: no maximum is subtracted. Use softmax.")
class _PlainExponentials(_Draw):
    def softmax(self, logits):
        return self.share_out(torch.exp(logits))


@_wrong_draw(
    "The result has an axis of size 1 at its end, as torch.multinomial returns it. Return the shape of logits without "
    "the last axis."
)
class _OneAxisMore(_Draw):
    def draw(self, shares, generator):
        return super().draw(shares, generator)[..., None]

    def at_zero(self, logits):
        return super().at_zero(logits)[..., None]


@_wrong_draw("`generator` is not passed on, so the token comes from PyTorch's global random state.")
class _GlobalState(_Draw):
    def draw(self, shares, generator):
        return super().draw(shares, None)


@_wrong_draw("The generator is seeded inside the function. Each call then repeats the same draw.")
class _SeededInside(_Draw):
    def draw(self, shares, generator):
        return super().draw(shares, torch.Generator().manual_seed(0))


@_wrong_draw("The caller's logits are changed: minus infinity or a quotient is written into them. Make a new tensor.")
class _InPlace(_Draw):
    def cool(self, logits, temperature):
        return logits.div_(temperature)


@_wrong_draw(
    "One token too many stays when a sum equals top_p exactly: the tokens before it have reached top_p, so it is not "
    "needed. Compare with `<`."
)
class _ExactlyMet(_Draw):
    def nucleus(self, shares, top_p):
        return shares * (self.before(shares) <= top_p)


@_wrong_draw(
    "At temperature 0 it divides by a small number and draws. Logits that are close together are then drawn by chance. "
    "Take the argmax."
)
class _SmallForZero(_Draw):
    def at_zero(self, logits):
        return self.draw((logits / 1e-6).softmax(dim=-1), torch.Generator().manual_seed(0))


@_wrong_draw(
    "A tensor that is made here is on the CPU, wherever the logits are, and PyTorch cannot combine the two. Write "
    "`device=logits.device`, as in `torch.arange(n, device=logits.device)`."
)
class _OnTheCPU(_Draw):
    def cool(self, logits, temperature):
        return super().cool(logits, temperature) + torch.zeros(logits.shape[-1])


# generate ------------------------------------------------------------------------------------------------------------

generate = Exercise(solutions.generate, section=WRITE, minutes=10, difficulty=2)


def _prompt(rng, batch, n, max_new_tokens, n_blocks=2, vocab_size=11, **inputs):
    return dict(
        vocab_size=vocab_size,
        n_blocks=n_blocks,
        ids=_ids(rng, batch, n, vocab_size=vocab_size),
        max_new_tokens=max_new_tokens,
        **inputs,
    )


@generate.property(
    "writes prompt and continuation, reading the whole text each time",
    points=2,
    probe=probes.written,
    hint="Call the model for logits, take those of the last position, sample, append, and repeat. Without a cache "
    "the model gets the whole text each time.",
)
def whole_text(rng):
    yield _prompt(rng, 1, 3, 4, use_cache=False)
    yield _prompt(rng, 3, 2, 5, use_cache=False)


@generate.property(
    "writes the same with caches, and feeds nothing twice",
    points=2,
    probe=probes.written,
    hint="First the prompt, then one token at a time, always with the same list of caches: one new KVCache for each "
    "of model.blocks, made when generate is called, and kept nowhere else. The last token is never read.",
)
def with_caches(rng):
    yield _prompt(rng, 1, 3, 4, use_cache=True)
    yield _prompt(rng, 2, 4, 6, n_blocks=3, use_cache=True)
    yield _prompt(rng, 1, 3, 3)  # a cache is used unless it is told otherwise


@generate.property(
    "writes as many tokens as asked for, also none",
    points=1,
    probe=probes.written,
    hint="The result is (batch, n + max_new_tokens). For 0 it is the prompt.",
)
def how_many(rng):
    yield _prompt(rng, 2, 3, 0, use_cache=False)
    yield _prompt(rng, 2, 3, 1, use_cache=False)
    yield _prompt(rng, 1, 1, 2, use_cache=False)
    yield _prompt(rng, 3, 2, 5, use_cache=False)  # long enough for no wrong text to be right by luck


@generate.property(
    "draws with `temperature` and `generator`, the same with caches and without",
    points=2,
    probe=probes.written,
    hint="Pass both on to sample. One draw per step from the same generator gives the same text with caches and "
    "without.",
)
def drawn(rng):
    for cached in (True, False):
        yield _prompt(rng, 2, 3, 8, use_cache=cached, temperature=1.0, seed=int(rng.integers(1, 10_000)))
    yield _prompt(rng, 1, 3, 6, use_cache=True, temperature=1e-5, seed=int(rng.integers(1, 10_000)))


class _Writer:
    """Right, in steps that a misconception can replace one by one."""

    def __call__(self, model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
        text, caches = ids, self.caches(model) if use_cache else None
        for number in range(self.count(max_new_tokens)):
            logits = self.ask(model, text, number, ids.shape[1], caches)
            token = self.choose(logits, temperature, generator)
            text = torch.cat([text, token[:, None]], dim=1)
        return self.give(text, ids.shape[1])

    def caches(self, model):
        return [KVCache() for _ in range(len(model.blocks))]

    def count(self, max_new_tokens):
        return max_new_tokens

    def ask(self, model, text, number, n, caches):
        """Logits (batch, vocab_size) for the next token; `number` counts those written, n is the prompt's length."""
        new = text if caches is None or number == 0 else text[:, -1:]
        return self.position(model(new, caches), n)

    def position(self, logits, n):
        return logits[:, -1, :]

    def choose(self, logits, temperature, generator):
        return solutions.sample(logits, temperature=temperature, generator=generator)

    def give(self, text, n):
        return text


def _wrong_writer(text):
    def declare(steps):
        def wrong(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
            return steps()(model, ids, max_new_tokens, temperature, generator, use_cache)

        wrong.__name__ = steps.__name__
        generate.misconception(text)(wrong)
        return steps

    return declare


@_wrong_writer(
    "With a cache the whole text is fed again at each step. The cache holds it already, so the model reads the text "
    "again after itself, and no time is saved. Feed only what is new."
)
class _WholeTextAgain(_Writer):
    def ask(self, model, text, number, n, caches):
        return self.position(model(text, caches), n)


@_wrong_writer(
    "`use_cache=True` changes nothing: the whole text is read at each step, without caches. The text is right, but "
    "each token costs more than the one before."
)
class _CacheNeverUsed(_Writer):
    def caches(self, model):
        return None


@_wrong_writer(
    "New caches are made at each step, so the model sees only the last token. Make them once, before the loop."
)
class _CachesEachStep(_Writer):
    def ask(self, model, text, number, n, caches):
        return super().ask(model, text, number, n, caches and self.caches(model))


@_wrong_writer("All blocks get the same cache: `[KVCache()] * n` repeats one object. Make one for each block.")
class _OneCache(_Writer):
    def caches(self, model):
        return [KVCache()] * len(model.blocks)


@_wrong_writer("The prompt is not read into the caches: only its last token is fed. Read the whole prompt first.")
class _LastOfThePrompt(_Writer):
    def ask(self, model, text, number, n, caches):
        return self.position(model(text if caches is None else text[:, -1:], caches), n)


@_wrong_writer(
    "The last token of the prompt is fed twice: once with the prompt and once as if it were new. What the model "
    "returns after the prompt is already the first new token."
)
class _LastPromptTokenTwice(_Writer):
    def ask(self, model, text, number, n, caches):
        if caches is not None and number == 0:
            model(text, caches)
            return self.position(model(text[:, -1:], caches), n)
        return super().ask(model, text, number, n, caches)


@_wrong_writer("The last token is fed as well, although no token follows it. Feed a token only to get the next one.")
class _LastTokenRead(_Writer):
    def __call__(self, model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
        text, caches = ids, self.caches(model) if use_cache else None
        logits = model(text, caches)
        for _ in range(max_new_tokens):
            token = self.choose(logits[:, -1], temperature, generator)[:, None]
            text = torch.cat([text, token], dim=1)
            logits = model(token if use_cache else text, caches)
        return text


@_wrong_writer(
    "The caches outlive the call, on the model, in a default argument or in a list outside, so the next call begins "
    "where this one ended. Make new caches in each call."
)
class _CachesThatStay(_Writer):
    def caches(self, model):
        if not hasattr(model, "own_caches"):
            model.own_caches = super().caches(model)
        return model.own_caches


@_wrong_writer(
    "Without a cache only the last token is fed, so the model forgets the text. Nothing was kept, so feed all of the "
    "text again."
)
class _ForgetsWithoutCache(_Writer):
    def ask(self, model, text, number, n, caches):
        new = text if number == 0 else text[:, -1:]
        return self.position(model(new, caches), n)


@_wrong_writer("The prompt is missing. The result is prompt and continuation, (batch, n + max_new_tokens).")
class _PromptMissing(_Writer):
    def give(self, text, n):
        return text[:, n:]


@_wrong_writer(
    "One token too many is written. max_new_tokens counts the new ones, and the first comes right after the prompt."
)
class _OneTooMany(_Writer):
    def count(self, max_new_tokens):
        return max_new_tokens + 1


@_wrong_writer("One token too few is written. max_new_tokens counts the new ones, all of them.")
class _OneTooFew(_Writer):
    def count(self, max_new_tokens):
        return max(0, max_new_tokens - 1)


@_wrong_writer("max_new_tokens is taken for the length of the whole text. It counts the new tokens only.")
class _WholeLength(_Writer):
    def __call__(self, model, ids, max_new_tokens, *rest):
        return super().__call__(model, ids, max(0, max_new_tokens - ids.shape[1]), *rest)


@_wrong_writer(
    "The logits of the first position are used: they predict what follows the first token. The next token of the text "
    "is predicted at the last position, [:, -1]."
)
class _FirstPosition(_Writer):
    def position(self, logits, n):
        return logits[:, 0]


@_wrong_writer(
    "The logits of the last but one position are used, so the model writes its own last token again. The next token "
    "is predicted at the last position, [:, -1]."
)
class _LastButOne(_Writer):
    def position(self, logits, n):
        return logits[:, -2] if logits.shape[1] > 1 else logits[:, -1]


@_wrong_writer(
    "The logits are those at the end of the prompt, position n - 1, however long the text has become. Take "
    "the last position."
)
class _EndOfThePrompt(_Writer):
    def position(self, logits, n):
        return logits[:, min(n, logits.shape[1]) - 1]


@_wrong_writer("All rows of the batch get the token of the first row. Draw one token for each row.")
class _FirstRowForAll(_Writer):
    def choose(self, logits, temperature, generator):
        return super().choose(logits, temperature, generator)[:1].expand(len(logits))


@_wrong_writer("It is always greedy: `temperature` is not passed on to sample.")
class _GreedyAlways(_Writer):
    def choose(self, logits, temperature, generator):
        return logits.argmax(dim=-1)


@_wrong_writer("`generator` is not passed on to sample, so equal seeds give different texts.")
class _GeneratorForgotten(_Writer):
    def choose(self, logits, temperature, generator):
        return super().choose(logits, temperature, None)


@_wrong_writer(
    "`temperature` is only compared with 0; above it, the token is drawn at temperature 1. Pass the number on."
)
class _TemperatureOne(_Writer):
    def choose(self, logits, temperature, generator):
        return super().choose(logits, float(temperature > 0), generator)


# patch_head ----------------------------------------------------------------------------------------------------------

patch_head = Exercise(solutions.patch_head, section=PATCH, bonus=True, minutes=20, difficulty=3)


def _heads(rng, d_model=6, n_blocks=2, vocab_size=7):
    """Weights of `attnlab.checking.fakes.Heads`."""
    weights = {"embedding.weight": normal(rng, vocab_size, d_model)}
    for i in range(n_blocks):
        for name in ("W_v", "W_o"):
            weights[f"blocks.{i}.attention.{name}.weight"] = normal(rng, d_model, d_model) * 1.5 / d_model**0.5
    return weights


def _swap(rng, *shape, layer, head, n_heads, **sizes):
    """A case: a model, two texts that differ at every position, and a head."""
    ids = _ids(rng, *shape)
    others = torch.from_numpy(rng.integers(1, 7, size=shape))
    return dict(
        model=_heads(rng, **sizes), ids=ids, donor_ids=(ids + others) % 7, layer=layer, head=head, n_heads=n_heads
    )


@patch_head.property(
    "puts the donor's head in at every position, and reads on from there",
    points=3,
    hint="What W_o is given is (batch, n, d_model), head by head, d_model / n_heads columns each. Keep the columns of "
    "the head while the model reads donor_ids, and put them in while it reads ids.",
)
def one_head(rng):
    yield _swap(rng, 1, 3, layer=0, head=1, n_heads=2)
    yield _swap(rng, 2, 4, layer=1, head=0, n_heads=3)
    yield _swap(rng, 3, 2, layer=1, head=1, n_heads=3, n_blocks=3)


@patch_head.property(
    "finds any head of any block",
    points=1,
    hint="Blocks and heads are counted from 0. Head h has the columns from h * d_head to (h + 1) * d_head, and d_head "
    "is d_model / n_heads.",
)
def any_head(rng):
    yield _swap(rng, 1, 3, layer=2, head=3, n_heads=4, d_model=8, n_blocks=3)
    yield _swap(rng, 2, 2, layer=0, head=0, n_heads=1, n_blocks=1)
    yield _swap(rng, 1, 4, layer=0, head=2, n_heads=6)


@patch_head.property(
    "leaves the model as it was",
    points=2,
    probe=probes.patched,
    hint="Remove each hook as soon as its reading is over: `handle = ...register_forward_pre_hook(...)`, then "
    "`handle.remove()`, best in a `finally`. Remove your own alone.",
)
def as_before(rng):
    yield _swap(rng, 1, 3, layer=1, head=0, n_heads=2)
    yield _swap(rng, 2, 3, layer=0, head=2, n_heads=3)


@patch_head.property(
    "refuses texts of two shapes, and heads and blocks that do not exist",
    points=1,
    probe=probes.error_of,
    hint="ValueError if ids and donor_ids differ in shape, if layer is not from 0 to len(model.blocks) - 1, or if head "
    "is not from 0 to n_heads - 1.",
)
def no_such_head(rng):
    right = _swap(rng, 2, 3, layer=1, head=1, n_heads=2)
    yield right
    yield right | dict(donor_ids=_ids(rng, 1, 3))
    yield right | dict(donor_ids=_ids(rng, 2, 4))
    for name, value in (("layer", 2), ("head", 2), ("layer", -1), ("head", -1)):
        yield right | {name: value}


class _Patcher:
    """Right, in steps that a misconception can replace one by one. Outputs of heads are (batch, n, heads, d_head)."""

    def __call__(self, model, ids, donor_ids, layer, head, n_heads):
        self.inspect(model, ids, donor_ids, layer, head, n_heads)
        mixing, seen = self.place(model, layer), []

        def split(x):
            return x.unflatten(-1, (n_heads, -1))

        def keep(_, inputs):
            seen.append(split(inputs[0]).clone())

        def replace(_, inputs):
            return self.put(split(inputs[0]).clone(), seen[0], head).flatten(-2)

        with torch.no_grad():
            self.read(model, mixing, self.donor(ids, donor_ids), keep)
            return self.read(model, mixing, self.text(ids, donor_ids), replace)

    def inspect(self, model, ids, donor_ids, layer, head, n_heads):
        if ids.shape != donor_ids.shape or not 0 <= layer < len(model.blocks) or not 0 <= head < n_heads:
            raise ValueError("texts or head do not fit")

    def place(self, model, layer):
        return model.blocks[layer].attention.W_o

    def text(self, ids, donor_ids):
        return ids

    def donor(self, ids, donor_ids):
        return donor_ids

    def put(self, found, donated, head):
        found[:, :, head] = donated[:, :, head]
        return found

    def read(self, model, mixing, text, hook):
        handle = mixing.register_forward_pre_hook(hook)
        try:
            return model(text)
        finally:
            handle.remove()


def _wrong_patch(text):
    def declare(steps):
        def wrong(model, ids, donor_ids, layer, head, n_heads):
            return steps()(model, ids, donor_ids, layer, head, n_heads)

        wrong.__name__ = steps.__name__
        patch_head.misconception(text, section=PATCH)(wrong)
        return steps

    return declare


@_wrong_patch("All heads of the block are exchanged. Put in the columns of one head, and leave the others.")
class _AllHeads(_Patcher):
    def put(self, found, donated, head):
        return donated


@_wrong_patch("The texts have changed places: the model should read `ids`, with the head of `donor_ids`.")
class _TextsExchanged(_Patcher):
    def text(self, ids, donor_ids):
        return donor_ids

    def donor(self, ids, donor_ids):
        return ids


@_wrong_patch(
    "Nothing is exchanged: these are the logits of `ids` alone. The hook must return what W_o is to read instead, and "
    "the head must come from `donor_ids`."
)
class _OwnHead(_Patcher):
    def donor(self, ids, donor_ids):
        return ids


@_wrong_patch("The head is exchanged at the last position alone. Do it at every position of the text.")
class _LastPosition(_Patcher):
    def put(self, found, donated, head):
        found[:, -1, head] = donated[:, -1, head]
        return found


@_wrong_patch("The head gives zeros: that switches it off. Here it gives what it gives for the donor's text.")
class _SwitchedOff(_Patcher):
    def put(self, found, donated, head):
        found[:, :, head] = 0
        return found


@_wrong_patch("The donor's output is added to the head's own. It should replace it.")
class _Added(_Patcher):
    def put(self, found, donated, head):
        found[:, :, head] += donated[:, :, head]
        return found


@_wrong_patch(
    "The columns are those of another layout: every n_heads-th one. A head's columns lie side by side, from "
    "head * d_head to (head + 1) * d_head."
)
class _EveryNthColumn(_Patcher):
    def put(self, found, donated, head):
        flat, other = found.flatten(-2), donated.flatten(-2)
        flat[:, :, head :: found.shape[2]] = other[:, :, head :: found.shape[2]]
        return flat.unflatten(-1, found.shape[2:])


@_wrong_patch("The next head is exchanged. Heads are counted from 0.")
class _NextHead(_Patcher):
    def put(self, found, donated, head):
        return super().put(found, donated, (head + 1) % found.shape[2])


@_wrong_patch("The head before is exchanged: heads are counted as if the first had number 1. They begin at 0.")
class _HeadBefore(_Patcher):
    def put(self, found, donated, head):
        return super().put(found, donated, head - 1)


@_wrong_patch("All heads but the one asked for are exchanged.")
class _OtherHeads(_Patcher):
    def put(self, found, donated, head):
        donated[:, :, head] = found[:, :, head]
        return donated


@_wrong_patch("Each text of the batch gets the head of the first donor. Exchange row by row.")
class _FirstOfTheBatch(_Patcher):
    def put(self, found, donated, head):
        return super().put(found, donated[:1], head)


@_wrong_patch("The block after the one asked for is patched. Blocks are counted from 0.")
class _NextBlock(_Patcher):
    def place(self, model, layer):
        return model.blocks[(layer + 1) % len(model.blocks)].attention.W_o


@_wrong_patch(
    "The columns of W_o's output are exchanged. There all heads are added up and mixed; a head can be told apart only "
    "in what W_o is given. Use a forward *pre* hook."
)
class _AfterTheMix(_Patcher):
    def __call__(self, model, ids, donor_ids, layer, head, n_heads):
        self.inspect(model, ids, donor_ids, layer, head, n_heads)
        mixing, seen = self.place(model, layer), []

        def keep(*call):
            seen.append(call[-1].unflatten(-1, (n_heads, -1)).clone())

        def replace(*call):
            return self.put(call[-1].unflatten(-1, (n_heads, -1)).clone(), seen[0], head).flatten(-2)

        with torch.no_grad():
            for text, hook in ((donor_ids, keep), (ids, replace)):
                handle = mixing.register_forward_hook(hook)
                logits = model(text)
                handle.remove()
        return logits


@_wrong_patch(
    "The head's values are exchanged before the attention, in W_v's output. Patch what the head has found: the columns "
    "that W_o is given."
)
class _Values(_Patcher):
    def __call__(self, model, ids, donor_ids, layer, head, n_heads):
        self.inspect(model, ids, donor_ids, layer, head, n_heads)
        values, seen = model.blocks[layer].attention.W_v, []

        def keep(*call):
            seen.append(call[-1].unflatten(-1, (n_heads, -1)).clone())

        def replace(*call):
            return self.put(call[-1].unflatten(-1, (n_heads, -1)).clone(), seen[0], head).flatten(-2)

        with torch.no_grad():
            for text, hook in ((donor_ids, keep), (ids, replace)):
                handle = values.register_forward_hook(hook)
                logits = model(text)
                handle.remove()
        return logits


@_wrong_patch("The hook stays on the model, so every later reading is patched as well. Remove it: `handle.remove()`.")
class _HookStays(_Patcher):
    def read(self, model, mixing, text, hook):
        handle = mixing.register_forward_pre_hook(hook)
        logits = model(text)
        if hook.__name__ == "keep":
            handle.remove()
        return logits


@_wrong_patch(
    "All hooks of the module are removed, also those that were there before the call. Remove your own alone, by its "
    "handle."
)
class _AllHooksRemoved(_Patcher):
    def read(self, model, mixing, text, hook):
        mixing._forward_pre_hooks.clear()
        mixing.register_forward_pre_hook(hook)
        logits = model(text)
        mixing._forward_pre_hooks.clear()
        return logits


@_wrong_patch("Only the logits of the last position are returned. Return those of every position.")
class _LastLogits(_Patcher):
    def __call__(self, *given):
        return super().__call__(*given)[:, -1:]


@_wrong_patch("What is returned is the change of the logits. Return the patched logits themselves.")
class _Change(_Patcher):
    def __call__(self, model, ids, donor_ids, layer, head, n_heads):
        patched = super().__call__(model, ids, donor_ids, layer, head, n_heads)
        with torch.no_grad():
            return patched - model(ids)


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **What text cannot show.** Greedy text is a list of argmaxes. An error that shifts logits without changing which
   is largest leaves the text as it is, often for many tokens: in the chapter, logits change by several units while the
   text stays the same. And a fluent text does not show that it is *this* model's text.
2. **A comparison that can.** The logits of both implementations on the same ids, with a tolerance that is stated
   and justified (the rounding of float32, some 1e-4 here), on texts long enough for late positions to matter, from
   several places and not from the last token alone; with a cache in pieces and in one pass. Half a point for "compare
   the logits" alone.
3. **Where to look.** A way to find the cause from the shape of the difference: none at position 0 but growing later
   points to positions or pairing; from position 0 on points to norms, head order or the head; only with a cache points
   to offset, mask or the caches. Or: compare block by block and find the first one that differs. The other
   implementation must be independent: sharing the code that loads the weights shares its errors.

Model answer. "Greedy text shows only which logit is largest. In the chapter a wrong offset changes logits by several
units while the words stay the same, so equal text is weak evidence. I would run both on the same 200 ids, several
texts, and compare all logits at all positions, once in one pass and once in pieces with caches, requiring a difference
below 1e-3: float32 rounding over 30 layers gives about 1e-4, and a real error gives several units. If they differ, I
look at position 0 first: RoPE rotates nothing there, so a difference there is in norms, heads or weights. If it starts
at position 1 it is RoPE. If only the pieces differ it is the cache. Then I compare the output of each block and take
the first that differs."
""",
)
