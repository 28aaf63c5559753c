"""Exercises of the chapter on the whole model: what must hold, on which inputs, and what people get wrong.

The models are small, seven words and eight numbers each, and their heads are four numbers wide: with two, RoPE has one
pair only, and one pair turns alike whatever the base.
"""

import math

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from course.kit.hunt import Hunt
from course.right_answers.language_model import RIGHT
from solutions import language_model as solutions

WHOLE = "The whole model, shape by shape"
CHOOSE = "Which token to take"
WRITE = "One token after another"
PATCH = "Which head carries the answer? ★"
HUNT = "Hunt bugs ★"
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
    "names embedding, blocks and norm, and nothing else: the head is the embedding's weight again, and the positions "
    "are in the blocks, in RoPE.",
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
    yield dict(**_model(rng, 2, 6), cuts=[1, 2, 5], beside=_ids(rng, 1, 7))  # no piece is empty


def _upstream(rng):
    case = _model(rng, 1, 3, n_layers=1)
    asked = ("embedding.weight", "blocks.0.norm_1.weight", "norm.weight")  # gradients of all would fill the file
    case["weights"] = {name: case["weights"][name] for name in asked}
    return dict(**case, upstream=[normal(rng, 1, 3, 7)])


def _single_precision(rng):
    yield _model(rng, 2, 4, n_layers=1, dtype=torch.float32)
    yield dict(probe="in_chunks", **_model(rng, 1, 3, dtype=torch.float32), cuts=[2])


def _ids_outside(rng):
    small = dict(init=SIZES | dict(n_layers=1, d_ff=2))
    yield dict(**small, ids=torch.tensor([[2, 7, 3]]))
    yield dict(**small, ids=torch.tensor([[0, 1], [4, -1]]))
    yield dict(**small, ids=torch.tensor([[4 + int(rng.integers(4, 90)), 1]]))
    yield _model(rng, 1, 2, n_layers=1)
    yield _model(rng, 2, 3, n_layers=1) | dict(ids=torch.tensor([[0, 6, 2]]))


LanguageModel.gradients(
    _upstream,
    title="has the right gradients, also those of the embedding in both of its places",
    rtol=1e-4,
    atol=1e-6,
    hint="The embedding's weight gets one gradient from the look-up and one from the head. A copy of the weight, "
    "`.detach()` or `.data` loses one of them.",
)
LanguageModel.any_device(
    _single_precision,
    title="works in single precision, on any device",
    rtol=1e-3,
    atol=1e-4,
    hint="Weights in float32 give logits in float32. Make no tensors of another type on the way, and none without "
    "`device=ids.device`.",
)
LanguageModel.refuses(
    _ids_outside,
    title="refuses ids that are not in the vocabulary",
    **ROPE,
    hint="ValueError when an id is below 0 or not below vocab_size. PyTorch's own answer is IndexError, and indexing "
    "reads -1 as the last row, without an error.",
)
LanguageModel.unchanged(
    lambda rng: _model(rng, 2, 3, n_layers=1),
    title="leaves the ids as they were, and keeps nothing",
    **ROPE,
    hint="An operation whose name ends in an underscore writes into its tensor. Use none on ids.",
)

BLOCK = "block(x, cache)"
LAST_NORM = "RMSNorm(d_model, eps)"
LOGITS = "self.norm(x) @ self.embedding.weight.T"
OUTSIDE = "ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size"

LanguageModel.mistakes(
    edit("self.norm(x) @", "x @",
         "The last norm is missing. Rows leave the blocks with any length, and the head expects rows of root mean "
         "square 1."),
    edit(LAST_NORM, "nn.LayerNorm(d_model, eps)",
         "The last norm is a LayerNorm, which subtracts the mean and has a bias. A Llama has an RMSNorm there, as in "
         "its blocks."),
    edit("self.embedding(ids)", "self.norm(self.embedding(ids))",
         "The norm comes before the blocks. Each block already norms its own input; what is still to be normed is the "
         "output of the last block.", also={"self.norm(x) @": "x @"}),
    edit(BLOCK, "self.norm(block(x, cache))",
         "The norm is applied after every block. Between blocks the residual stream is left as it is; only the last "
         "output is normed.", also={"self.norm(x) @": "x @"}),
    edit(LAST_NORM, f"{LAST_NORM}\n        self.head = nn.Linear(d_model, vocab_size, bias=False)",
         "The head has its own weight. Here it is tied: the embedding's weight is used a second time, so the model has "
         "no other parameter for it.", also={LOGITS: "self.head(self.norm(x))"}),
    edit("self.embedding(ids)", "self.embedding(ids) * self.embedding.embedding_dim**0.5",
         "The embedding is multiplied by the square root of d_model. The Transformer paper of 2017 does that; a Llama "
         "does not."),
    edit("x = self.embedding(ids)",
         "x = self.embedding(ids)\n"
         "        pairs = torch.arange(0, x.shape[2], 2)\n"
         "        angles = torch.arange(x.shape[1])[:, None] / 10000.0 ** (pairs / x.shape[2])\n"
         "        x = x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)",
         "Sinusoids are added to the embedding. RoPE inside each block already provides the positions; nothing is "
         "added here."),
    edit(LOGITS, f"({LOGITS}).softmax(dim=-1)",
         "There is a softmax at the end. The model returns logits; sampling and the loss take their own softmax."),
    edit(LOGITS, f"({LOGITS}).log_softmax(dim=-1)",
         "There is a log-softmax at the end. The model returns the logits as they are."),
    edit("self.norm(x)", "self.norm(x[:, -1:])",
         "Only the last position is returned. Training needs the logits of all positions, (batch, n, vocab_size)."),
    edit(BLOCK, "block(self.embedding(ids), cache)",
         "Every block reads the embedding. Each block must read the output of the one before it, so that they build on "
         "one another."),
    edit(BLOCK, "x + block(x, cache)",
         "The output of each block is added to its input a second time. A block has its residual connections inside."),
    edit("LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers)",
         "[LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps)] * n_layers",
         "This is a single block, used n_layers times: `[block] * n_layers` repeats the same object. Make a new one "
         "each time."),
    edit("nn.ModuleList(", "list(",
         "The blocks are in a plain list, so their parameters do not count as the model's: an optimizer would never "
         "see them. Use nn.ModuleList."),
    edit(BLOCK, "block(x)",
         "The caches are not used, or they are emptied at each call. The blocks then see only the new piece, and count "
         "its positions from 0. A text begins when its caches are made, so leave that to the caller."),
    edit(BLOCK, "block(x, caches[0])",
         "All blocks share the first cache. Each block has its own keys and values, so block number l needs cache "
         "number l."),
    edit(BLOCK, "block(x, cache if block is self.blocks[0] else None)",
         "Only the first block gets its cache. The later ones forget everything between two pieces."),
    edit("d_ff, base, eps)", "d_ff, eps=eps)",
         "`base` is not passed on to the blocks, so they rotate with 10000 whatever the caller gave. SmolLM2 needs "
         "100000."),
    edit("d_ff, base, eps)", "d_ff, base)",
         "`eps` is not passed on to the blocks, so their norms use 1e-5 whatever the caller gave."),
    edit(LAST_NORM, "RMSNorm(d_model)",
         "`eps` is not passed on to the last norm, which uses 1e-5 whatever the caller gave."),
    edit(LAST_NORM, "RMSNorm(d_model)",
         "`eps` is passed on neither to the blocks nor to the last norm: all of them use 1e-5.",
         also={"d_ff, base, eps)": "d_ff, base)"}),
    edit("d_ff, base, eps)", "d_ff, eps, base)",
         "`base` and `eps` are swapped when they are passed on. Pass them by name, and the order cannot matter."),
    edit("self.embedding.weight.T", "self.embedding.weight.detach().T",
         "The head is detached: a copy of the embedding's weight is used. Its numbers are right, but no gradient from "
         "the head reaches the embedding."),
    edit(OUTSIDE, "False",
         "An id outside the vocabulary ends in IndexError, which nn.Embedding raises (on a GPU it ends the whole "
         "process). Check the smallest and the largest id first, and raise ValueError."),
    edit("0 <= int(ids.min()) <= ", "",
         "Negative ids are let through: only the upper end is tested. Indexing reads -1 as the last row, without an "
         "error, and nn.Embedding raises IndexError.", also={"self.embedding(ids)": "self.embedding.weight[ids]"}),
    edit("< vocab_size:", "<= vocab_size:",
         "The id vocab_size itself is let through. Ids run from 0 to vocab_size - 1."),
    edit("if ids.numel()", "ids = ids.clamp(0, vocab_size - 1)\n        if ids.numel()",
         "`clamp` moves ids outside the vocabulary to its ends. The model then reads a different text than it was "
         "given. Raise ValueError."),
)  # fmt: skip


# sample --------------------------------------------------------------------------------------------------------------

sample = Exercise(solutions.sample, section=CHOOSE, minutes=15, difficulty=3)

DRAWS = 20_000
# Shares 0.40, 0.06, 0.24, 0.10, 0.20: out of order, and far enough apart to be told from one another by counting.
UNEQUAL = torch.tensor([0.40, 0.06, 0.24, 0.10, 0.20]).log()


def _shares(rng, *shares, behind=0):
    """Draw logits with these shares, the largest given first, in a random order and raised by a random number.

    The largest is behind the first `behind` tokens of the vocabulary.
    """
    order = rng.permutation(len(shares))
    while order.argmin() < behind:
        order = rng.permutation(len(shares))
    return torch.tensor(shares).log()[torch.from_numpy(order)] + float(rng.normal())


def _halves(rng):
    """Draw logits with shares 1/2, 1/4, 1/8 and 1/8 in a random order.

    They are multiples of log 2 by powers of two, in float64, so that every way to compute the shares is exact.
    """
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
    yield _often(rng, _shares(rng, 0.6, 0.3, 0.1)[None])


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
    rows = [_shares(rng, 0.5, 0.3, 0.2), _shares(rng, 0.7, 0.2, 0.1) + 20]
    yield _often(rng, torch.stack(rows), top_k=2)  # neither row's limit is that of the other


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
    hint="Pass `generator` on to torch.multinomial, also if it is None: then PyTorch's own generator draws. Seeding "
    "anything yourself would repeat the same token forever.",
)
def own_generator(rng):
    yield dict(seed=int(rng.integers(1, 10_000)), logits=normal(rng, 40, 5, dtype=torch.float32), top_k=4)
    yield dict(seed=int(rng.integers(1, 10_000)), logits=normal(rng, 2, 30, 6, dtype=torch.float32), top_p=0.9)


def _two_calls(rng):
    first, second = _two_tokens(rng, 2, 3, 4)  # neither is one of the first top_k of the vocabulary
    few = dict(temperature=0.5, top_k=2, top_p=0.5)
    yield dict(probe="unchanged", logits=_clear(rng, 5, first), **few)
    yield dict(probe="unchanged", logits=_clear(rng, 6, second, dtype=torch.float64), temperature=2.0, top_p=0.9)
    both = torch.stack([_clear(rng, 5, first), _clear(rng, 5, second)])
    yield dict(probe="unchanged", logits=both, temperature=0.0)


sample.any_device(
    _two_calls,
    title="leaves the logits as they were, on any device",
    hint="Writing minus infinity into logits[...] or dividing with /= changes the caller's tensor. Make a new one, "
    "with `device=logits.device`.",
)

SCALED = "(ordered - ordered[..., :1]) / temperature"
TOP_K = "ordered[..., top_k:] = -torch.inf"
SHARES = "ordered.softmax(dim=-1)"
BEFORE = "shares.cumsum(dim=-1) - shares"
DROPPED = "before >= top_p"

ONE_LIMIT = (
    "The limit for top_k is that of one row, or of the whole batch. Each row has its own: keep the last axis, as in "
    "`values[..., -1:]`."
)

sample.mistakes(
    edit("/ temperature", "* temperature",
         "The logits are multiplied by the temperature. Divide: a high temperature makes them smaller, and the "
         "probabilities more alike."),
    edit(" / temperature", "",
         "The temperature is not used. Divide the logits by it before anything else."),
    edit(SHARES, "ordered.exp() / temperature",
         "The probabilities are divided by the temperature instead of the logits. Rescaled to add up to 1, they are "
         "what they were before.", also={SCALED: "ordered.log_softmax(dim=-1)"}),
    edit("temperature == 0", "temperature >= 0",
         "It always takes the most likely token. That is temperature 0; above it, draw."),
    edit("temperature == 0", "False",
         "At temperature 0 it divides by 0. Take the argmax there, before any division."),
    edit("logits.argmax", "logits.argmin",
         "At temperature 0 the least likely token is taken: an argmin, or the wrong end of a sorted list. Take the "
         "argmax."),
    edit(TOP_K, "pass",
         "top_k is not used. All but the top_k most likely tokens get probability 0."),
    edit("top_k:]", "top_k + 1 :]",
         "One token more than top_k stays. Compare the ranks, counted from 0, with `<`."),
    edit(TOP_K,
         "ordered = ordered.softmax(dim=-1)\n"
         "        ordered[..., :-top_k] = 0.0\n"
         "        ordered = ordered.log()",
         "The top_k least likely tokens stay: the order is reversed."),
    edit(TOP_K, "ordered = ordered.masked_fill(tokens >= top_k, -torch.inf)",
         "The first top_k tokens of the vocabulary stay, whatever their probabilities. Sort, or use torch.topk."),
    edit(TOP_K, f"logits.topk(top_k)\n        {TOP_K}",
         "A top_k larger than the vocabulary fails, because torch.topk cannot return more entries than there are. Take "
         "the smaller of the two numbers."),
    edit(TOP_K,
         "ordered = ordered.log_softmax(dim=-1)\n"
         "        line = ordered.reshape(-1, ordered.shape[-1])[0, :top_k][-1]\n"
         "        ordered = ordered.masked_fill(ordered < line, -torch.inf)",
         ONE_LIMIT),
    edit(TOP_K,
         "line = (logits / temperature).topk(top_k).values[..., -1].min() if top_k < logits.shape[-1] else -torch.inf\n"
         "        kept = (logits / temperature).gather(-1, tokens) >= line\n"
         "        ordered = ordered.masked_fill(~kept, -torch.inf)",
         ONE_LIMIT),
    edit("if top_p is not None:", "if False:",
         "top_p is not used. Only the fewest tokens that together reach it may be drawn."),
    edit(DROPPED, "(before + shares > top_p) & (before > 0)",
         "The token that crosses top_p is dropped. It belongs to the tokens that stay: without it they do not reach "
         "top_p. Look at the sum *before* a token, not up to it."),
    edit(DROPPED, "before + shares > top_p",
         "The token that crosses top_p is dropped, and where it is the first one no token is left at all. It belongs "
         "to the tokens that stay."),
    edit(BEFORE, f"{BEFORE} - shares.roll(1, dims=-1)",
         "One token too many stays under top_p: the one after that which crosses it."),
    edit(f"before = {BEFORE}",
         "plain = shares.scatter(-1, tokens, shares)\n"
         "        before = (plain.cumsum(dim=-1) - plain).gather(-1, tokens)",
         "The probabilities are added up in the order of the vocabulary. Sort them first, largest first."),
    edit(BEFORE, "shares.flip(-1).cumsum(dim=-1).flip(-1) - shares",
         "The probabilities are sorted the wrong way: the least likely tokens stay until they reach top_p. Sort "
         "largest first."),
    edit(DROPPED, "(shares < top_p) & (before > 0)",
         "top_p is used as a limit for single tokens: those with a lower probability are dropped. It is a limit for "
         "the sum of the most likely tokens."),
    edit(SHARES, "ordered.exp()",
         "top_p is applied to probabilities before top_k, or they were not rescaled after top_k. First top_k, then "
         "divide what is left by its sum, then top_p.", also={SCALED: "(ordered / temperature).log_softmax(dim=-1)"}),
    edit(" / temperature", "",
         "top_p is applied to probabilities without the temperature. Divide first, then decide which tokens stay.",
         also={"drawn = ": "shares = (ordered / temperature).masked_fill(shares == 0, -torch.inf).softmax(dim=-1)\n"
                           "    drawn = "}),
    edit("drawn = ",
         "totals = shares.scatter(-1, tokens, shares).double().cumsum(dim=-1)\n"
         "    u = torch.rand(*logits.shape[:-1], 1, generator=generator, dtype=torch.float64)\n"
         "    return (totals <= u).sum(dim=-1).clamp(max=logits.shape[-1] - 1)\n"
         "    drawn = ",
         "The probabilities that are kept do not add up to 1, so the last token gets what the dropped ones had. Divide "
         "by the sum of what is left.",
         also={SCALED: "(ordered / temperature).log_softmax(dim=-1)", SHARES: "ordered.exp()"}),
    edit("tokens.gather(-1, drawn.reshape(*logits.shape[:-1], 1))", "drawn.reshape(*logits.shape[:-1], 1)",
         "The result is a place in the sorted order instead of a token. After sorting, place 0 is the most likely "
         "token, whichever that is. Look up which token it belongs to."),
    edit("multinomial(shares", "multinomial((shares > 0).float()",
         "All tokens that stay are equally likely to be drawn. They should keep their proportions."),
    edit("logits.sort(", "(logits / temperature).softmax(dim=0).sort(",
         "The softmax runs along the first axis, which is the batch. Each row of logits is a separate distribution: "
         "dim=-1.",
         also={SCALED: "ordered",
               TOP_K: "ordered[..., top_k:] = 0.0\n        ordered = ordered / ordered.sum(dim=-1, keepdim=True)",
               SHARES: "ordered"}),
    edit(SHARES, "(ordered.exp() / ordered.exp().sum(dim=-1, keepdim=True))",
         "The exponentials overflow: no maximum is subtracted. Use softmax.", also={SCALED: "ordered / temperature"}),
    edit(".squeeze(-1)", "",
         "The result has an axis of size 1 at its end, as torch.multinomial returns it. Return the shape of logits "
         "without the last axis.", also={"argmax(dim=-1)": "argmax(dim=-1, keepdim=True)"}),
    edit("generator=generator", "generator=None",
         "`generator` is not passed on, so the token comes from PyTorch's global random state."),
    edit("generator=generator", "generator=torch.Generator().manual_seed(0)",
         "The generator is seeded inside the function. Each call then repeats the same draw."),
    edit("generator=generator", "generator=generator or torch.Generator().manual_seed(0)",
         "If `generator` is None, the random numbers are seeded inside the function, so each call repeats the same "
         "draw. Pass None on as well: PyTorch's own generator then draws."),
    edit("torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)",
         "((shares / shares.sum(dim=-1, keepdim=True)).double().cumsum(dim=-1)\n"
         "             <= torch.rand(1, generator=generator, dtype=torch.float64, device=logits.device)).sum(dim=-1)",
         "One random number decides for all rows, so rows with the same logits get the same token. Draw for each row "
         "on its own, as torch.multinomial does."),
    edit("logits.sort(", "logits.div_(temperature).sort(",
         "The caller's logits are changed: minus infinity or a quotient is written into them. Make a new tensor.",
         also={" / temperature": ""}),
    edit(DROPPED, "before > top_p",
         "One token too many stays when a sum equals top_p exactly: the tokens before it have reached top_p, so it is "
         "not needed. Compare with `<`."),
    edit("logits.argmax(dim=-1)", "sample(logits, 1e-6, generator=torch.Generator().manual_seed(0))",
         "At temperature 0 it divides by a small number and draws. Logits that are close together are then drawn by "
         "chance. Take the argmax."),
    edit("logits.sort(", "(logits + torch.zeros(logits.shape[-1])).sort(",
         "A tensor that is made here is on the CPU, wherever the logits are, and PyTorch cannot combine the two. Write "
         "`device=logits.device`, as in `torch.arange(n, device=logits.device)`."),
)  # fmt: skip


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


CACHES = "[KVCache() for _ in model.blocks]"
READ = "unread if use_cache else text"

generate.mistakes(
    edit(READ, "text",
         "With a cache the whole text is fed again at each step. The cache holds it already, so the model reads the "
         "text again after itself, and no time is saved. Feed only what is new."),
    edit("caches = ", "use_cache = False\n    caches = ",
         "`use_cache=True` changes nothing: the whole text is read at each step, without caches. The text is right, "
         "but each token costs more than the one before."),
    edit("caches)[:, -1]", f"{CACHES} if use_cache else None)[:, -1]",
         "New caches are made at each step, so the model sees only the last token. Make them once, before the loop."),
    edit(CACHES, "[KVCache()] * len(model.blocks)",
         "All blocks get the same cache: `[KVCache()] * n` repeats one object. Make one for each block."),
    edit("text, unread = ids, ids", "text, unread = ids, ids[:, -1:]",
         "The prompt is not read into the caches: only its last token is fed. Read the whole prompt first."),
    edit("text, unread = ids, ids", "text, unread = ids, ids[:, -1:]\n    if use_cache:\n        model(ids, caches)",
         "The last token of the prompt is fed twice: once with the prompt and once as if it were new. What the model "
         "returns after the prompt is already the first new token."),
    edit("return text", f"model({READ}, caches)\n    return text",
         "The last token is fed as well, although no token follows it. Feed a token only to get the next one."),
    edit(CACHES, f"model.__dict__.setdefault('own_caches', {CACHES})",
         "The caches outlive the call, on the model, in a default argument or in a list outside, so the next call "
         "begins where this one ended. Make new caches in each call."),
    edit(READ, "unread",
         "Without a cache only the last token is fed, so the model forgets the text. Nothing was kept, so feed all of "
         "the text again."),
    edit("return text", "return text[:, ids.shape[1] :]",
         "The prompt is missing. The result is prompt and continuation, (batch, n + max_new_tokens)."),
    edit("range(max_new_tokens)", "range(max_new_tokens + 1)",
         "One token too many is written. max_new_tokens counts the new ones, and the first comes right after the "
         "prompt."),
    edit("range(max_new_tokens)", "range(max_new_tokens - 1)",
         "One token too few is written. max_new_tokens counts the new ones, all of them."),
    edit("range(max_new_tokens)", "range(max_new_tokens - ids.shape[1])",
         "max_new_tokens is taken for the length of the whole text. It counts the new tokens only."),
    edit("[:, -1]", "[:, 0]",
         "The logits of the first position are used: they predict what follows the first token. The next token of the "
         "text is predicted at the last position, [:, -1]."),
    edit("[:, -1]", "[:, -2:][:, 0]",
         "The logits of the last but one position are used, so the model writes its own last token again. The next "
         "token is predicted at the last position, [:, -1]."),
    edit("[:, -1]", "[:, : ids.shape[1]][:, -1]",
         "The logits are those at the end of the prompt, position n - 1, however long the text has become. Take the "
         "last position."),
    edit("[:, None]", "[:1, None].expand(len(ids), 1)",
         "All rows of the batch get the token of the first row. Draw one token for each row."),
    edit("sample(logits, temperature, generator=generator)", "logits.argmax(dim=-1)",
         "It is always greedy: `temperature` is not passed on to sample."),
    edit("generator=generator", "generator=None",
         "`generator` is not passed on to sample, so equal seeds give different texts."),
    edit("range(max_new_tokens):",
         "range(max_new_tokens):\n"
         "            generator = generator and generator.manual_seed(generator.initial_seed())",
         "`generator` is set back at each step, so each token is drawn with the same random numbers. Only draw from "
         "it: it moves on by itself."),
    edit("sample(logits, temperature", "sample(logits, float(temperature > 0)",
         "`temperature` is only compared with 0; above it, the token is drawn at temperature 1. Pass the number on."),
)  # fmt: skip


# patch_head ----------------------------------------------------------------------------------------------------------

patch_head = Exercise(solutions.patch_head, section=PATCH, bonus=True, minutes=20, difficulty=3)


def _heads(rng, d_model=6, n_blocks=2, vocab_size=7):
    """Weights of `attnlab.checking.fakes.TinyModel`."""
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
    hint="Remove each hook as soon as its reading is over, also if the model raises an error: "
    "`with ...register_forward_pre_hook(...):` around the reading, or `handle.remove()` in a `finally`. Remove your "
    "own alone.",
)
def as_before(rng):
    yield _swap(rng, 1, 3, layer=1, head=0, n_heads=2)
    yield _swap(rng, 2, 3, layer=0, head=2, n_heads=3)
    for text in ("donor_ids", "ids"):
        yield _swap(rng, 1, 3, layer=0, head=1, n_heads=2) | dict(unknown_id_in=text)


def _no_such_head(rng):
    right = _swap(rng, 2, 3, layer=1, head=1, n_heads=2)
    yield right
    yield right | dict(donor_ids=_ids(rng, 1, 3))
    yield right | dict(donor_ids=_ids(rng, 2, 4))
    for name, value in (("layer", 2), ("head", 2), ("layer", -1), ("head", -1)):
        yield right | {name: value}


patch_head.refuses(
    _no_such_head,
    title="refuses texts of two shapes, and heads and blocks that do not exist",
    hint="ValueError if ids and donor_ids differ in shape, if layer is not from 0 to len(model.blocks) - 1, or if head "
    "is not from 0 to n_heads - 1.",
)

PUT = "found[:, :, head] = kept[0]"
HOOKED = "with mixing.register_forward_pre_hook(hook):\n                patched = model(text)"

patch_head.mistakes(
    edit("[:, :, head])", ")",
         "All heads of the block are exchanged. Put in the columns of one head, and leave the others.",
         also={PUT: "found = kept[0]"}),
    edit("((donor_ids, keep), (ids, replace))", "((ids, keep), (donor_ids, replace))",
         "The texts have changed places: the model should read `ids`, with the head of `donor_ids`."),
    edit("(donor_ids, keep)", "(ids, keep)",
         "Nothing is exchanged: these are the logits of `ids` alone. The hook must return what W_o is to read instead, "
         "and the head must come from `donor_ids`."),
    edit(PUT, "found[:, -1, head] = kept[0][:, -1]",
         "The head is exchanged at the last position alone. Do it at every position of the text."),
    edit(PUT, "found[:, :, head] = 0",
         "The head gives zeros: that switches it off. Here it gives what it gives for the donor's text."),
    edit("head] = kept[0]", "head] += kept[0]",
         "The donor's output is added to the head's own. It should replace it."),
    edit("(n_heads, -1))[:, :, head]", "(-1, n_heads))[..., head]",
         "The columns are those of another layout: every n_heads-th one. A head's columns lie side by side, from "
         "head * d_head to (head + 1) * d_head.",
         also={"(n_heads, -1)).clone()": "(-1, n_heads)).clone()", PUT: "found[..., head] = kept[0]"}),
    edit("mixing, kept =", "head = (head + 1) % n_heads\n    mixing, kept =",
         "The next head is exchanged. Heads are counted from 0."),
    edit("mixing, kept =", "head = head - 1\n    mixing, kept =",
         "The head before is exchanged: heads are counted as if the first had number 1. They begin at 0."),
    edit("[:, :, head])", ")",
         "All heads but the one asked for are exchanged.",
         also={PUT: "kept[0][:, :, head] = found[:, :, head]\n        found = kept[0]"}),
    edit("kept[0]", "kept[0][:1]",
         "Each text of the batch gets the head of the first donor. Exchange row by row."),
    edit("blocks[layer]", "blocks[(layer + 1) % len(model.blocks)]",
         "The block after the one asked for is patched. Blocks are counted from 0."),
    edit("register_forward_pre_hook", "register_forward_hook",
         "The columns of W_o's output are exchanged. There all heads are added up and mixed; a head can be told apart "
         "only in what W_o is given. Use a forward *pre* hook.",
         also={"keep(_, inputs)": "keep(_, __, *inputs)", "replace(_, inputs)": "replace(_, __, *inputs)"}),
    edit("register_forward_pre_hook", "register_forward_hook",
         "The head's values are exchanged before the attention, in W_v's output. Patch what the head has found: the "
         "columns that W_o is given.",
         also={"attention.W_o": "attention.W_v", "keep(_, inputs)": "keep(_, __, *inputs)",
               "replace(_, inputs)": "replace(_, __, *inputs)"}),
    edit(HOOKED,
         "handle = mixing.register_forward_pre_hook(hook)\n"
         "            patched = model(text)\n"
         "            if hook is keep:\n"
         "                handle.remove()",
         "The hook stays on the model, so every later reading is patched as well. Remove it: `handle.remove()`."),
    edit(HOOKED,
         "handle = mixing.register_forward_pre_hook(hook)\n"
         "            patched = model(text)\n"
         "            handle.remove()",
         "If the model raises an error, such as on an id outside the vocabulary, `handle.remove()` is never reached "
         "and the hook stays. Put the reading into a `try` and the removal into its `finally`, or use `with`."),
    edit(HOOKED,
         "handle = mixing.register_forward_pre_hook(hook)\n"
         "            patched = model(text)\n"
         "            if hook is replace:\n"
         "                handle.remove()",
         "A hook stays on the model. Even if it changes nothing, it is called, and may keep what it is given, at every "
         "later reading. Remove each hook."),
    edit("with mixing", "mixing._forward_pre_hooks.clear()\n            with mixing",
         "All hooks of the module are removed, also those that were there before the call. Remove your own alone, by "
         "its handle."),
    edit("return patched", "model.requires_grad_(False)\n    return patched",
         "The model's parameters are frozen and stay so. To compute without gradients, use `with torch.no_grad()` and "
         "leave the model alone."),
    edit("return patched", "return patched[:, -1:]",
         "Only the logits of the last position are returned. Return those of every position."),
    edit("return patched", "return patched - model(ids).detach()",
         "What is returned is the change of the logits. Return the patched logits themselves."),
    see=PATCH,
)  # fmt: skip


# test_sample -------------------------------------------------------------------------------------------------------

test_sample = Hunt(
    solutions.test_sample,
    section=HUNT,
    minutes=15,
    difficulty=2,
    of=sample,
    right=RIGHT,
    worth=3,
    random=True,
)

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
   points to positions or pairing; beginning at position 0 points to norms, head order or the head; only with a cache
   points to offset, mask or the caches. Or: compare block by block and find the first one that differs. The other
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
