"""Exercises of the multi-head chapter: what must hold, on which inputs, and the mistakes that are common.

Every size differs from every other wherever it can, so that a swapped axis or a wrong scale shows. Where batch and
number of heads are equal, that is on purpose: a mask per batch entry can then be mistaken for one per head.
"""

import math

import torch
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal, numbered, projections
from solutions import multi_head as solutions

CAT_SAT = torch.tensor([[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]], dtype=torch.float64)
# Lets a small number in a denominator pass, so that it costs one property and not all of them. Absolute too: where the
# heads nearly cancel, what is off by little is off by much of what is left.
NEARLY = dict(rtol=1e-4, atol=1e-4)
SPLIT = "Cut each row into heads"
MERGE = "And back: one row per token"
LAYER = "The whole layer, shape by shape"
COST = "What do more heads cost?"
MASKS = "A mask for every head"


# split_heads ---------------------------------------------------------------------------------------------------------

split_heads = Exercise(solutions.split_heads, section=SPLIT, minutes=10, difficulty=2)


@split_heads.property(
    "gives each head its own piece of every token",
    points=2,
    hint="Head h gets the numbers from h * d_head up to (h + 1) * d_head of every token: cut the last axis in two, "
    "(n_heads, d_head), then exchange the axes of tokens and heads.",
)
def pieces(rng):
    yield dict(x=CAT_SAT.clone(), n_heads=2)
    yield dict(x=numbered(1, 2, 6), n_heads=3)
    yield dict(x=normal(rng, 2, 5, 12), n_heads=3)
    yield dict(x=torch.from_numpy(rng.random(size=(2, 5, 12)) < 0.5), n_heads=3)  # the same shape, another dtype
    yield dict(x=normal(rng, 2, 1, 6, dtype=torch.float32), n_heads=2)


@split_heads.property(
    "splits into one head, and into as many heads as numbers",
    points=1,
    hint="One head is x with a new axis of size 1 in position 1. With d_head = 1 each head has one number per token.",
)
def extremes(rng):
    yield dict(x=normal(rng, 2, 3, 5), n_heads=1)
    yield dict(x=normal(rng, 2, 3, 5), n_heads=5)


@split_heads.property(
    "lets gradients through",
    points=1,
    probe=probes.gradients,
    hint="Use tensor operations only. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient.",
)
def split_gradients(rng):
    yield dict(x=normal(rng, 2, 3, 8), n_heads=4, upstream=[normal(rng, 2, 4, 3, 2)])
    yield dict(x=normal(rng, 3, 4, 6), n_heads=2, upstream=[normal(rng, 3, 2, 4, 3)])


@split_heads.property(
    "refuses a width that does not divide",
    points=1,
    probe=probes.error_of,
    hint="Raise ValueError when d_model divided by n_heads leaves a remainder. Some operations, such as `chunk`, "
    "raise no error of their own.",
)
def split_refuses(rng):
    yield dict(x=normal(rng, 2, 5, 6), n_heads=4)
    yield dict(x=normal(rng, 2, 3, 7), n_heads=2)
    yield dict(x=normal(rng, 2, 3, 5), n_heads=4)


def _split(x, n_heads):
    """A correct split, for misconceptions that go wrong elsewhere."""
    if x.shape[-1] % n_heads:
        raise ValueError("widths do not divide")
    batch, n, width = x.shape
    return x.reshape(batch, n, n_heads, width // n_heads).permute(0, 2, 1, 3)


@split_heads.misconception(
    "The shape is right, but the numbers are in the wrong positions. `reshape` to (batch, n_heads, n, d_head) cuts "
    "the list of tokens, not their width: a head gets whole tokens. Reshape to (batch, n, n_heads, d_head), then "
    "transpose."
)
def split_without_transpose(x, n_heads):
    return x.reshape(_split(x, n_heads).shape)


@split_heads.misconception(
    "The transpose is missing: your result is (batch, n, n_heads, d_head). Heads come before tokens, so that the last "
    "two axes are one head's matrix."
)
def heads_after_tokens(x, n_heads):
    return _split(x, n_heads).transpose(1, 2)


@split_heads.misconception(
    "Your last axis was cut as (d_head, n_heads), so head h collects every n_heads-th number. A head is a run of "
    "neighboring numbers: cut as (n_heads, d_head)."
)
def every_hth_number(x, n_heads):
    batch, heads, n, width = _split(x, n_heads).shape
    return x.reshape(batch, n, width, heads).permute(0, 3, 1, 2)


@split_heads.misconception(
    "The last two axes are exchanged: your result is (batch, n_heads, d_head, n). Exchange tokens and heads instead."
)
def split_turned(x, n_heads):
    return _split(x, n_heads).transpose(-1, -2)


@split_heads.misconception(
    "n_heads is used as the width of a head. It is how many heads there are; the width is d_model // n_heads."
)
def number_as_width(x, n_heads):
    batch, heads, n, width = _split(x, n_heads).shape
    return x.reshape(batch, n, width, heads).transpose(1, 2)


@split_heads.misconception(
    "The heads are in front of the batch: (n_heads, batch, n, d_head). By default `torch.stack` puts its new axis "
    "first; here it belongs second, `dim=1`."
)
def heads_first(x, n_heads):
    return _split(x, n_heads).transpose(0, 1)


@split_heads.misconception("Batch and heads were folded into one axis. Keep them apart: (batch, n_heads, n, d_head).")
def batch_and_heads_folded(x, n_heads):
    return _split(x, n_heads).flatten(0, 1)


@split_heads.misconception(
    "A width that does not divide is cut down: the numbers left over are silently dropped. Raise ValueError."
)
def leftover_dropped(x, n_heads):
    return _split(x[..., : x.shape[-1] // n_heads * n_heads], n_heads)


@split_heads.misconception(
    "`chunk(n_heads)` makes at most n_heads pieces. Width 6 in 4 pieces gives three of 2, without an error. Check "
    "the remainder and raise ValueError."
)
def fewer_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@split_heads.misconception(
    "`assert` raises AssertionError, and with `python -O` it does nothing at all. For sizes that a caller may get "
    "wrong, use `raise ValueError(...)`."
)
def asserted(x, n_heads):
    assert x.shape[-1] % n_heads == 0
    return _split(x, n_heads)


@split_heads.misconception(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors that no gradient "
    "flows through; reshape and transpose the tensor itself."
)
def split_detached(x, n_heads):
    return _split(x, n_heads).detach()


# merge_heads ---------------------------------------------------------------------------------------------------------

merge_heads = Exercise(solutions.merge_heads, section=MERGE, minutes=10, difficulty=1)


@merge_heads.property(
    "puts the pieces of each token side by side, head after head",
    points=3,
    hint="Undo the split in reverse: exchange heads and tokens first, then join the last two axes.",
)
def joins(rng):
    yield dict(x=numbered(1, 2, 3, 2))
    yield dict(x=normal(rng, 2, 3, 5, 4))
    yield dict(x=normal(rng, 3, 2, 4, 5))
    yield dict(x=torch.from_numpy(rng.random(size=(3, 2, 4, 5)) < 0.5))  # the same shape, another dtype
    yield dict(x=normal(rng, 2, 3, 1, 4, dtype=torch.float32))


@merge_heads.property(
    "merges one head, and heads of one number",
    points=1,
    hint="One head comes back as it was, without its axis of size 1.",
)
def merge_extremes(rng):
    yield dict(x=normal(rng, 2, 1, 5, 3))
    yield dict(x=normal(rng, 2, 4, 5, 1))


@merge_heads.property(
    "lets gradients through to each head",
    points=1,
    probe=probes.gradients,
    hint="Use tensor operations only. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient.",
)
def merge_gradients(rng):
    yield dict(x=normal(rng, 2, 3, 4, 5), upstream=[normal(rng, 2, 4, 15)])


def _merge(x):
    batch, heads, n, width = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, n, heads * width)


@merge_heads.misconception(
    "The shape is right, but the numbers are in the wrong positions. Reshaping (batch, n_heads, n, d_head) "
    "directly joins the tokens of one head. Exchange heads and tokens first."
)
def merge_without_transpose(x):
    return x.reshape(_merge(x).shape)


@merge_heads.misconception(
    "The numbers of a token are in the order (d_head, n_heads): the heads alternate. Each head's piece stays in one "
    "run, head after head."
)
def heads_alternate(x):
    return _merge(x).unflatten(-1, (x.shape[1], x.shape[3])).transpose(-1, -2).flatten(-2)


@merge_heads.misconception(
    "The heads are averaged. They contain different things: put them side by side and let W_o combine them."
)
def heads_averaged(x):
    return _merge(x).unflatten(-1, (x.shape[1], x.shape[3])).mean(dim=2)


@merge_heads.misconception(
    "The heads are added up, which mixes their numbers. Put them side by side: n_heads * d_head numbers per token."
)
def heads_added(x):
    return _merge(x).unflatten(-1, (x.shape[1], x.shape[3])).sum(dim=2)


@merge_heads.misconception("The heads are one below the other, as if they were more tokens. Join them along the width.")
def heads_as_tokens(x):
    return x.flatten(1, 2)


@merge_heads.misconception(
    "Tokens and width were exchanged instead of tokens and heads. The axes to exchange are 1 and 2."
)
def last_axes_exchanged(x):
    return x.transpose(-1, -2).reshape(_merge(x).shape)


@merge_heads.misconception(
    "`view` never moves numbers in memory, and after a transpose they are no longer in the order it needs. Use "
    "`reshape` or `flatten`, or `.contiguous()` before `view`."
)
def view_after_transpose(x):
    merged = _merge(x)
    return x.transpose(1, 2).view(merged.shape)


@merge_heads.misconception(
    "The axis of heads is still there: your result is (batch, n, n_heads, d_head). Join the last two axes."
)
def not_joined(x):
    return _merge(x).unflatten(-1, (x.shape[1], x.shape[3]))


@merge_heads.misconception("Batch and tokens were joined as well. The result is (batch, n, n_heads * d_head).")
def batch_joined(x):
    return _merge(x).flatten(0, 1)


@merge_heads.misconception(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors that no gradient "
    "flows through; transpose and reshape the tensor itself."
)
def merge_detached(x):
    return _merge(x).detach()


# MultiHeadAttention --------------------------------------------------------------------------------------------------

MultiHeadAttention = Exercise(solutions.MultiHeadAttention, section=LAYER, minutes=45, difficulty=3)


def _lower(n):
    return torch.tril(torch.ones(n, n, dtype=torch.bool))


def _some(rng, *shape):
    """A random mask in which every query sees the first key at least, and not all see all. The first query of all sees
    the key behind it, if there are three, so the mask is not causal. Entries of the batch are not all alike then."""
    while True:
        mask = torch.from_numpy(rng.random(size=shape) < 0.6)
        mask[..., 0], mask[..., 0, -1] = True, False
        mask.view(-1, shape[-1])[0, 1:-1] = True
        if shape[0] == 1 or shape[-1] < 3 or (mask != mask[0]).any():
            return mask


def _layer(rng, d_model, n_heads, batch, n, names="qkvo", dtype=torch.float64):
    """A case; maps that are not among `names` get the fixed numbers of `probes.Built`, and need no room in a file."""
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads),
        weights=projections(rng, d_model, names, dtype=dtype),
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


@MultiHeadAttention.property(
    "has four square maps, W_q, W_k, W_v and W_o, and no bias",
    points=1,
    hint="Four times nn.Linear(d_model, d_model, bias=False), as attributes of these names. They are shared by all "
    "heads.",
)
def structure(rng):
    for n_heads in (int(rng.integers(2, 6)), 1):
        yield dict(init=dict(d_model=n_heads * int(rng.integers(2, 12)), n_heads=n_heads))


@MultiHeadAttention.property(
    "gives the output, then the weights of every head",
    points=3,
    rtol=1e-10,
    atol=1e-12,
    hint="Project, split, scores over the square root of d_head, softmax along the keys, times the values, merge, "
    "W_o. The weights are (batch, n_heads, n, n), not averaged.",
)
def forward(rng):
    yield dict(
        init=dict(d_model=4, n_heads=2),
        x=CAT_SAT.clone(),
        weights={f"W_{name}.weight": torch.eye(4, dtype=torch.float64) for name in "qkvo"},
    )
    yield _layer(rng, d_model=12, n_heads=2, batch=2, n=4)


@MultiHeadAttention.property(
    "takes a mask for all heads, and one for each head",
    points=1,
    **NEARLY,
    hint="(n_q, n_k) and (batch, n_heads or 1, n_q or 1, n_k) broadcast against the scores as they are.",
)
def masks(rng):
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=1, n=3), mask=_lower(3))
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=3, n=3), mask=_some(rng, 3, 1, 1, 3))
    yield dict(**_layer(rng, d_model=6, n_heads=3, batch=2, n=3), mask=_some(rng, 2, 3, 1, 3))


@MultiHeadAttention.property(
    "takes a mask for each entry of the batch",
    points=1,
    **NEARLY,
    hint="A mask of three dimensions is (batch, n_q or 1, n_k). Left as it is, its batch meets the heads: insert an "
    "axis of size 1 at position 1.",
)
def batch_masks(rng):
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=2, n=3), mask=_some(rng, 2, 3, 3))
    yield dict(**_layer(rng, d_model=6, n_heads=3, batch=2, n=2), mask=_some(rng, 2, 1, 2))


@MultiHeadAttention.property(
    "keeps the future out under a causal mask, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="If one token is replaced, no earlier row of the output may change at all, and every row from there on must "
    "change.",
)
def future(rng):
    for d_model, n_heads, n in ((6, 3, 4), (4, 2, 5)):
        case = _layer(rng, d_model=d_model, n_heads=n_heads, batch=2, n=n)
        changed = case["x"].clone()
        changed[:, n - 3] = normal(rng, 2, d_model)
        yield dict(**case, mask=_lower(n), name="x", replacement=changed)


@MultiHeadAttention.property(
    "gives a token that may read nothing zeros, in weights and output",
    points=1,
    **NEARLY,
    hint="A row that is all minus infinity becomes nan in the softmax. Find such rows and make sure that their "
    "weights become 0.",
)
def empty_rows(rng):
    nothing_seen = _lower(3)
    nothing_seen[1] = False
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=1, n=3), mask=nothing_seen)
    in_some_heads = _some(rng, 2, 2, 3, 3)
    in_some_heads[0, 1, 2] = in_some_heads[1, 0, 0] = False
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=2, n=3), mask=in_some_heads)


@MultiHeadAttention.property(
    "keeps hidden keys hidden, whatever the scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="A score can be lower than any number you choose for hidden ones: use minus infinity, before the softmax.",
)
def whatever(rng):
    one = torch.ones(1, 1, dtype=torch.float64)
    for tokens, keys in (([1.0, 1.0, 2.0], -4e12), ([1.0, 1.0, 50.0], 1e4), ([1.0, 2.0, 3.0], -1e140)):
        weights = {
            "W_q.weight": one,
            "W_k.weight": keys * one,
            "W_v.weight": normal(rng, 1, 1) + 3.0,
            "W_o.weight": one,
        }
        yield dict(
            init=dict(d_model=1, n_heads=1),
            weights=weights,
            x=torch.tensor(tokens, dtype=torch.float64).reshape(1, 3, 1),
            mask=torch.tensor([[True, True, False]]).repeat(3, 1),
        )


@MultiHeadAttention.property(
    "has the right gradients, of output and weights",
    points=1,
    probe=probes.gradients,
    **NEARLY,
    hint="Use tensor operations only, and return the weights as they are, not detached.",
)
def right_gradients(rng):
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, batch=1, n=3), upstream=[normal(rng, 1, 3, 4), normal(rng, 1, 2, 3, 3)]
    )
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, batch=1, n=3, names="k"),
        mask=_lower(3),
        upstream=[normal(rng, 1, 3, 4), normal(rng, 1, 2, 3, 3)],
    )


@MultiHeadAttention.property(
    "has finite gradients where a token may read nothing",
    points=1,
    probe=probes.gradients,
    **NEARLY,
    hint="A weight of nan that is replaced by 0 afterwards can still send nan backwards. Give the empty row finite "
    "scores before the softmax, and set its weights to 0 after it.",
)
def empty_gradients(rng):
    nothing_seen = _lower(3)
    nothing_seen[1] = False
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, batch=1, n=3, names="q"),
        mask=nothing_seen,
        upstream=[normal(rng, 1, 3, 4), normal(rng, 1, 2, 3, 3)],
    )


@MultiHeadAttention.property(
    "works in the precision and on the device of its input",
    points=1,
    probe=probes.elsewhere,
    rtol=0.1,
    atol=0.1,
    hint="Make each new tensor like those you have: `x.new_zeros(...)`, `torch.zeros_like(...)`, or with "
    "`dtype=x.dtype, device=x.device`.",
)
def placed(rng):
    for mask, dtype in ((None, torch.float32), (_lower(3), torch.float32), (None, torch.bfloat16)):
        yield dict(**_layer(rng, d_model=6, n_heads=2, batch=1, n=3, dtype=dtype), mask=mask)


@MultiHeadAttention.property(
    "refuses sizes that do not fit",
    points=1,
    probe=probes.error_of,
    **NEARLY,
    hint="ValueError when d_model divided by n_heads leaves a remainder (in __init__), and when the width of x is "
    "not d_model. nn.Linear does the second for you.",
)
def sizes(rng):
    yield dict(init=dict(d_model=10, n_heads=4))
    yield dict(init=dict(d_model=7, n_heads=2))
    for shape in ((2, 5, 2), (2, 5, 6)):
        yield dict(init=dict(d_model=4, n_heads=2), weights=projections(rng, 4), x=normal(rng, *shape))
    yield _layer(rng, d_model=4, n_heads=2, batch=1, n=2)


@MultiHeadAttention.property(
    "leaves tokens and mask as they were",
    points=1,
    probe=probes.unchanged,
    **NEARLY,
    hint="Operations whose name ends in an underscore write into their tensor. Never use them on an argument of the "
    "function.",
)
def layer_is_new(rng):
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=1, n=3, names="q"), mask=_some(rng, 1, 3, 3))


class _Steps(solutions.MultiHeadAttention):
    """Right, in steps that a misconception can replace one by one."""

    def forward(self, x, mask=None):
        q, k, v = map(self.split, self.project(x))
        weights = self.share(self.score(q, k), None if mask is None else self.fit(mask))
        return self.finish(self.merge(self.mix(weights, v)), x), weights

    def project(self, x):
        return self.W_q(x), self.W_k(x), self.W_v(x)

    def split(self, x):
        return _split(x, self.n_heads)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def fit(self, mask):
        return mask[:, None] if mask.ndim == 3 else mask

    def share(self, scores, mask):
        if mask is None:
            return torch.softmax(scores, dim=-1)
        scores = torch.where(mask, scores, -torch.inf)
        scores = torch.where(mask.any(dim=-1, keepdim=True), scores, 0.0)
        return torch.softmax(scores, dim=-1) * mask

    def mix(self, weights, v):
        return weights @ v

    def merge(self, heads):
        return _merge(heads)

    def finish(self, merged, x):
        return self.W_o(merged)


def _filled(scores, mask, number):
    return scores if mask is None else torch.where(mask, scores, number)


@MultiHeadAttention.misconception(
    "The heads are split by a reshape to (batch, n_heads, n, d_head) with no transpose. The shape is right, but a "
    "head then contains some whole tokens instead of a piece of every token.",
    section=SPLIT,
)
class SplitWithoutTranspose(_Steps):
    def split(self, x):
        return split_without_transpose(x, self.n_heads)


@MultiHeadAttention.misconception(
    "The heads are merged by a reshape with no transpose. The shape is right, but the pieces of different tokens end "
    "up in one row.",
    section=MERGE,
)
class MergeWithoutTranspose(_Steps):
    def merge(self, heads):
        return merge_without_transpose(heads)


@MultiHeadAttention.misconception(
    "Neither split nor merge exchanges tokens and heads. The two mistakes cancel in the shape but not in the "
    "numbers: each head attends over pieces of different tokens.",
    section=SPLIT,
)
class NoTransposeAtAll(SplitWithoutTranspose, MergeWithoutTranspose):
    pass


@MultiHeadAttention.misconception(
    "The heads stay behind the tokens, (batch, n, n_heads, d_head), so within each token the heads attend to one "
    "another. Exchange the two axes: tokens must meet tokens.",
    section=SPLIT,
)
class HeadsMeetHeads(_Steps):
    def split(self, x):
        return heads_after_tokens(x, self.n_heads)

    def merge(self, heads):
        return heads.flatten(2)


@MultiHeadAttention.misconception(
    "The width is cut as (d_head, n_heads): head h takes every n_heads-th number. Such a layer could be trained, but "
    "existing weights do not fit it. A head is a run of neighboring numbers.",
    section=SPLIT,
)
class EveryHthNumber(_Steps):
    def split(self, x):
        return every_hth_number(x, self.n_heads)

    def merge(self, heads):
        return heads_alternate(heads)


@MultiHeadAttention.misconception(
    "The split is right, but the merge puts the numbers of a token in the order (d_head, n_heads). W_o then gets "
    "them in the wrong positions.",
    section=MERGE,
)
class HeadsAlternate(_Steps):
    def merge(self, heads):
        return heads_alternate(heads)


@MultiHeadAttention.misconception(
    "n_heads is used as the width of a head: there are d_model // n_heads heads of n_heads numbers. It is the other "
    "way around.",
    section=SPLIT,
)
class NumberAsWidth(_Steps):
    def split(self, x):
        return number_as_width(x, self.n_heads)


@MultiHeadAttention.misconception(
    "There is one head as wide as the model: the projections are never split. Split queries, keys and values after "
    "projecting.",
    section=SPLIT,
)
class OneWideHead(_Steps):
    def split(self, x):
        return x[:, None]

    def merge(self, heads):
        return heads[:, 0]


@MultiHeadAttention.misconception(
    "W_o is missing: the merged heads are returned as they are. Apply `self.W_o` to them as the last step; it mixes "
    "the heads.",
    section="What W_o is for",
)
class NoOutputMap(_Steps):
    def finish(self, merged, x):
        return merged


@MultiHeadAttention.misconception(
    "x is added to the output. Return the layer's output alone; the block around the layer, which has a "
    "chapter later, adds x."
)
class AddsItsInput(_Steps):
    def finish(self, merged, x):
        return self.W_o(merged) + x


@MultiHeadAttention.misconception(
    "One projection is used for queries, keys and values. Each role has its own: W_q, W_k, W_v."
)
class OneProjection(_Steps):
    def project(self, x):
        return (self.W_q(x),) * 3


@MultiHeadAttention.misconception("Queries and keys come from the same projection. Keys come from W_k.")
class KeysFromQueries(_Steps):
    def project(self, x):
        return self.W_q(x), self.W_q(x), self.W_v(x)


@MultiHeadAttention.misconception(
    "The values are not projected. They are W_v(x), split into heads like queries and keys."
)
class ValuesNotProjected(_Steps):
    def project(self, x):
        return self.W_q(x), self.W_k(x), x


def _made_by(place, name):
    """A layer in which one of queries, keys and values (place 0 to 2) comes from another map, or from none."""

    class MadeByAnother(_Steps):
        def project(self, x):
            made = [self.W_q(x), self.W_k(x), self.W_v(x)]
            made[place] = getattr(self, name)(x) if name else x
            return made

    return MadeByAnother


for _place, (_what, _own) in enumerate((("Queries", "W_q"), ("Keys", "W_k"), ("Values", "W_v"))):
    for _name in ("W_q", "W_k", "W_v", "W_o", None):
        if _name != _own and (_place, _name) not in {
            (1, "W_q"),
            (2, "W_k"),
            (2, None),
        }:  # named apart
            MultiHeadAttention.misconception(
                f"{_what} are made by {_name}. They come from {_own}."
                if _name
                else f"{_what} are not projected. They are {_own}(x), split into heads."
            )(_made_by(_place, _name))


@MultiHeadAttention.misconception("Keys and values are exchanged: scores need W_k of x, and the weights mix W_v of x.")
class KeysAndValuesExchanged(_Steps):
    def project(self, x):
        return self.W_q(x), self.W_v(x), self.W_k(x)


@MultiHeadAttention.misconception(
    "Queries and values are exchanged: the scores compare values with keys, and the weights mix queries.",
    section=LAYER,
)
class RolesExchanged(_Steps):
    def project(self, x):
        return self.W_v(x), self.W_k(x), self.W_q(x)


@MultiHeadAttention.misconception(
    "The weights mix keys. Keys decide where to look; what the weights mix is the values, W_v(x) split into heads.",
    section=LAYER,
)
class CollectsKeys(_Steps):
    def project(self, x):
        return self.W_q(x), self.W_k(x), self.W_k(x)


@MultiHeadAttention.misconception(
    "`x @ W.weight` multiplies by the wrong matrix. nn.Linear stores its weight as (out, in) and computes x times its "
    "transpose: call the module, `self.W_q(x)`."
)
class TransposedMaps(_Steps):
    def project(self, x):
        return x @ self.W_q.weight, x @ self.W_k.weight, x @ self.W_v.weight

    def finish(self, merged, x):
        return merged @ self.W_o.weight


@MultiHeadAttention.misconception(
    "Each head projects its own slice of x, with a matrix of d_head by d_head. A head reads the whole token: "
    "project with d_model by d_model first, then split.",
    section=SPLIT,
)
class SlicesOfTheInput(_Steps):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        d_head = d_model // n_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_head, d_head, bias=False) for _ in range(3))


@MultiHeadAttention.misconception(
    "The projections have biases. nn.Linear adds one unless you say bias=False.", section=LAYER
)
class BiasesLeftOn(_Steps):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))


@MultiHeadAttention.misconception("W_o has a bias. nn.Linear adds one unless you say bias=False.", section=LAYER)
class BiasOnTheOutput(_Steps):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.W_o = nn.Linear(d_model, d_model)


@MultiHeadAttention.misconception(
    "The scores are divided by the square root of d_model. A dot product sums over one head, so its width d_head "
    "decides: q.shape[-1] after the split.",
    section=LAYER,
)
class RootOfTheModel(_Steps):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.W_q.in_features)


@MultiHeadAttention.misconception(
    "The scale uses the number of heads. A dot product sums over the width of one head, d_head.", section=LAYER
)
class RootOfTheHeads(_Steps):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.n_heads)


@MultiHeadAttention.misconception(
    "The scale uses the number of tokens. A dot product sums over the width of one head, d_head: the last entry of "
    "the shape after the split, not the one before it.",
    section=LAYER,
)
class RootOfTheTokens(_Steps):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-2])


@MultiHeadAttention.misconception(
    "The scores are multiplied by the square root of d_head. They are too far apart already: divide.", section=LAYER
)
class TimesTheRoot(_Steps):
    def score(self, q, k):
        return q @ k.mT * math.sqrt(q.shape[-1])


@MultiHeadAttention.misconception("The scores are not scaled. Divide them by the square root of d_head.", section=LAYER)
class Unscaled(_Steps):
    def score(self, q, k):
        return q @ k.mT


@MultiHeadAttention.misconception("The scores are divided by d_head itself. Use its square root.", section=LAYER)
class DividedByWidth(_Steps):
    def score(self, q, k):
        return q @ k.mT / q.shape[-1]


@MultiHeadAttention.misconception(
    "Keys and queries are exchanged in the scores: row i must belong to query i.", section=LAYER
)
class Swapped(_Steps):
    def score(self, q, k):
        return k @ q.mT / math.sqrt(q.shape[-1])


@MultiHeadAttention.misconception(
    "The softmax runs over the heads (dim=1). In each head, each query divides a weight of one among the keys, "
    "which are the last axis.",
    section=LAYER,
)
class OverHeads(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, -torch.inf), dim=1)


@MultiHeadAttention.misconception(
    "The softmax runs over the queries (dim=-2). Each query divides a weight of one among the keys, the last axis.",
    section=LAYER,
)
class OverQueries(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, -torch.inf), dim=-2)


@MultiHeadAttention.misconception(
    "One map of weights comes back for all heads, averaged or added up. Return the map of each head, (batch, "
    "n_heads, n, n); a single one hides what each head does.",
    section="The same layer in PyTorch",
)
class AveragedWeights(_Steps):
    def forward(self, x, mask=None):
        output, weights = super().forward(x, mask)
        return output, weights.mean(dim=1)


@MultiHeadAttention.misconception("The two results come in the wrong order: return the output first, then the weights.")
class WeightsFirst(_Steps):
    def forward(self, x, mask=None):
        return super().forward(x, mask)[::-1]


@MultiHeadAttention.misconception(
    "Only the output is returned. Return the weights as well: output first, then weights."
)
class OutputOnly(_Steps):
    def forward(self, x, mask=None):
        return super().forward(x, mask)[0]


@MultiHeadAttention.misconception(
    "The mask is inverted. Here True means that the query may attend to the key; nn.MultiheadAttention means the "
    "opposite.",
    section="The same layer in PyTorch",
)
class Polarity(_Steps):
    def fit(self, mask):
        return super().fit(~mask)


@MultiHeadAttention.misconception(
    "The mask is inverted, and a row that it empties becomes nan. True means that the query may attend to the key; "
    "and a query with no key allowed has weights of 0.",
    section="The same layer in PyTorch",
)
class PolarityAndNan(Polarity):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, -torch.inf), dim=-1)


@MultiHeadAttention.misconception(
    "The mask has no effect. `masked_fill` returns a new tensor and leaves the old one as it was: use what it returns.",
    section=MASKS,
)
class MaskDropped(_Steps):
    def share(self, scores, mask):
        return torch.softmax(scores, dim=-1)


@MultiHeadAttention.misconception(
    "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score must "
    "become minus infinity.",
    section=MASKS,
)
class MaskAdded(_Steps):
    def share(self, scores, mask):
        return torch.softmax(scores if mask is None else scores + mask, dim=-1)


@MultiHeadAttention.misconception(
    "A mask of three dimensions is read as one map per head. Broadcasting lines up from the right, so the batch of "
    "the mask meets the heads; where the two sizes are equal, no error is raised. Insert an axis: (batch, 1, n_q, "
    "n_k).",
    section=MASKS,
)
class MaskPerHead(_Steps):
    def fit(self, mask):
        return mask


@MultiHeadAttention.misconception(
    "Every mask is given an axis for the heads, `unsqueeze(1)`, even one that has it already or has no batch. Do "
    "this only for a mask of three dimensions.",
    section=MASKS,
)
class AlwaysOneMoreAxis(_Steps):
    def fit(self, mask):
        return mask.unsqueeze(1)


@MultiHeadAttention.misconception(
    "The mask is transposed. Its rows are queries and its columns are keys, as in the scores.", section=MASKS
)
class MaskTransposed(_Steps):
    def fit(self, mask):
        return super().fit(mask).mT


@MultiHeadAttention.misconception(
    "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
    "scores, then take the softmax.",
    section=MASKS,
)
class MaskAfterSoftmax(_Steps):
    def share(self, scores, mask):
        weights = torch.softmax(scores, dim=-1)
        return weights if mask is None else weights * mask


@MultiHeadAttention.misconception(
    "The weights are masked after the softmax and divided by their new sum. A hidden key with a huge score leaves "
    "nothing for the others, and an empty row is 0/0.",
    section=MASKS,
)
class Renormalized(_Steps):
    def share(self, scores, mask):
        weights = torch.softmax(scores, dim=-1)
        return weights if mask is None else weights * mask / (weights * mask).sum(dim=-1, keepdim=True)


@MultiHeadAttention.misconception(
    "A hidden score becomes a big finite number. A visible score can be lower still, and a query with no key allowed "
    "gives all keys equal weights. Use minus infinity.",
    section=MASKS,
)
class FiniteFill(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, -1e9), dim=-1)


@MultiHeadAttention.misconception(
    "A hidden score becomes a big finite number, and its weight is set to 0 afterwards. Where a visible score is lower "
    "still, the hidden key takes all the weight in the softmax. Use minus infinity.",
    section=MASKS,
)
class FiniteFillThenZero(_Steps):
    def share(self, scores, mask):
        weights = torch.softmax(_filled(scores, mask, -1e9), dim=-1)
        return weights if mask is None else weights * mask


@MultiHeadAttention.misconception(
    "A query with no key allowed gives all keys equal weights. That happens if all its scores become the same number, "
    "such as the lowest of their type, or if its nan becomes 1/n. Its weights must be 0.",
    section=MASKS,
)
class LowestNumber(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, torch.finfo(scores.dtype).min), dim=-1)


@MultiHeadAttention.misconception(
    "Hidden scores become 0. A score of 0 is an ordinary score and gets weight; hidden means minus infinity.",
    section=MASKS,
)
class ZeroScore(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, 0.0), dim=-1)


@MultiHeadAttention.misconception(
    "The mask is multiplied by minus infinity and added. For visible keys that is 0 times infinity, which is nan. "
    "Choose with `masked_fill` or `torch.where`.",
    section=MASKS,
)
class ZeroTimesInfinity(_Steps):
    def share(self, scores, mask):
        return torch.softmax(scores if mask is None else scores + (~mask) * -torch.inf, dim=-1)


@MultiHeadAttention.misconception(
    "A query with no key allowed gives nan, because all its scores are minus infinity in the softmax. Its weights "
    "and its output must be 0.",
    section=MASKS,
)
class NanRow(_Steps):
    def share(self, scores, mask):
        return torch.softmax(_filled(scores, mask, -torch.inf), dim=-1)


@MultiHeadAttention.misconception(
    "The results are right, but a query with no key allowed sends nan backwards. Adding minus infinity and repairing "
    "the weights afterwards removes the nan from the output only; the softmax still produces one, and the gradient "
    "passes through it. Give the empty row finite scores before it.",
    section=MASKS,
)
class NanGradient(_Steps):
    def share(self, scores, mask):
        if mask is None:
            return torch.softmax(scores, dim=-1)
        bias = scores.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)
        return torch.softmax(scores + bias, dim=-1).nan_to_num(0.0)


_TOTAL_EPSILON = (
    "A small number is added to every total, to avoid 0/0 in the empty row. But then no other row sums to exactly "
    "one. Change only the total that is 0."
)


def _with_epsilon(size):
    class WithEpsilon(_Steps):
        def share(self, scores, mask):
            scores = _filled(scores, mask, -torch.inf)
            e = torch.exp(scores - scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min))
            return e / (e.sum(dim=-1, keepdim=True) + size)

    return WithEpsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9):
    MultiHeadAttention.misconception(_TOTAL_EPSILON, section=MASKS)(_with_epsilon(_size))


@MultiHeadAttention.misconception(
    "A causal mask is always applied. Only the argument `mask` says what is hidden; without one, each token sees "
    "every token.",
    section=MASKS,
)
class AlwaysCausal(_Steps):
    def share(self, scores, mask):
        causal = _lower(scores.shape[-1]).to(scores.device)
        return super().share(scores, causal if mask is None else causal & mask)


@MultiHeadAttention.misconception(
    "The weights are returned detached, so a loss computed from them cannot train the layer. Return them as they are.",
    section=LAYER,
)
class DetachedWeights(_Steps):
    def forward(self, x, mask=None):
        output, weights = super().forward(x, mask)
        return output, weights.detach()


@MultiHeadAttention.misconception(
    "No gradient arrives anywhere: the layer works under `torch.no_grad()` or on detached tensors, and could never be "
    "trained.",
    section=LAYER,
)
class NoGradient(_Steps):
    def forward(self, x, mask=None):
        with torch.no_grad():
            return super().forward(x, mask)


@MultiHeadAttention.misconception(
    "A width that is not a multiple of n_heads is accepted. Each head is then d_model // n_heads wide and the rest "
    "of the width is lost. Raise ValueError in __init__.",
    section=SPLIT,
)
class RemainderLost(_Steps):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model - d_model % n_heads, n_heads)


@MultiHeadAttention.misconception(
    "`assert` raises AssertionError, and with `python -O` it does nothing at all. Raise ValueError.", section=SPLIT
)
class Asserted(_Steps):
    def __init__(self, d_model, n_heads):
        assert d_model % n_heads == 0
        super().__init__(d_model, n_heads)


_ELSEWHERE = (
    "A tensor is made on the CPU in float32, whatever the input is, and is combined with scores of another dtype or "
    "on another device. Take both from the input: `dtype=x.dtype, device=x.device`, or `x.new_zeros(...)`."
)


@MultiHeadAttention.misconception(_ELSEWHERE, section=MASKS)
class MaskMadeElsewhere(_Steps):
    def share(self, scores, mask):
        if mask is None:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool)
        return super().share(scores, mask)


@MultiHeadAttention.misconception(
    "The weights are left in float32. For 16-bit scores it is right to compute the softmax in float32, but convert "
    "the weights back afterwards, `.to(scores.dtype)`.",
    section=MASKS,
)
class WeightsLeftInSingle(_Steps):
    def share(self, scores, mask):
        return super().share(scores.float() if scores.dtype == torch.bfloat16 else scores, mask)

    def mix(self, weights, v):
        return weights.to(v.dtype) @ v


@MultiHeadAttention.misconception(
    "The caller's mask is inverted in place. A method whose name ends in an underscore writes into its tensor; "
    "`~mask` makes a new one.",
    section=MASKS,
)
class MaskInPlace(_Steps):
    def fit(self, mask):
        return ~super().fit(mask.logical_not_())


# attention_parameters ------------------------------------------------------------------------------------------------

attention_parameters = Exercise(solutions.attention_parameters, section=COST, minutes=10, difficulty=1)


def _sizes(rng, *heads):
    """Widths drawn so that each number of heads divides."""
    for n_heads in heads:
        yield dict(d_model=n_heads * int(rng.integers(3, 40)), n_heads=n_heads)


@attention_parameters.property(
    "counts four square maps, whatever the number of heads",
    points=1,
    hint="W_q, W_k, W_v and W_o are d_model by d_model each. Splitting adds nothing.",
)
def counts(rng):
    yield dict(d_model=4, n_heads=2)
    yield dict(d_model=512, n_heads=8)
    yield dict(d_model=1536, n_heads=24)  # an answer may make the layer and count: not too large for that
    yield from _sizes(rng, 1, 5, 12)


@attention_parameters.property(
    "adds one bias per output when asked to", points=1, hint="A matrix with d_model outputs has d_model biases."
)
def counts_biases(rng):
    yield dict(d_model=4, n_heads=2, bias=True)
    yield dict(d_model=768, n_heads=12, bias=True)
    for case in _sizes(rng, 3, 7):
        yield dict(**case, bias=True)
        yield dict(**case, bias=False)


@attention_parameters.property(
    "gives a whole number",
    points=1,
    probe=probes.whole,
    hint="A product of whole numbers is a whole number. `/` gives a float even if nothing is left over; `//` does not.",
)
def counts_in_whole_numbers(rng):
    yield from _sizes(rng, 2, 6)
    for case in _sizes(rng, 4):
        yield dict(**case, bias=True)


def _parameters(count):
    return lambda d_model, n_heads, bias=False: count(d_model, n_heads, bias)


def _wrong_count(text):
    def declare(count):
        attention_parameters.misconception(text)(_parameters(count))
        return count

    return declare


@_wrong_count("W_o is not counted. There are four matrices: for queries, keys, values, and the mix of the heads.")
def three_maps(d_model, n_heads, bias):
    return 3 * d_model * (d_model + bias)


@_wrong_count(
    "The number of heads is multiplied in. Each head has d_model by d_head weights, and with more heads d_head is "
    "smaller: together they are d_model by d_model."
)
def times_heads(d_model, n_heads, bias):
    return 4 * n_heads * d_model * (d_model + bias)


@_wrong_count(
    "Only queries, keys and values are multiplied by the number of heads, but a head's matrices are only "
    "d_model by d_head."
)
def inputs_times_heads(d_model, n_heads, bias):
    return (3 * n_heads + 1) * d_model * (d_model + bias)


@_wrong_count("This is the count for one head. Multiply the queries, keys and values of a head by n_heads.")
def one_head_only(d_model, n_heads, bias):
    return 4 * d_model * (d_model // n_heads) + 4 * (d_model // n_heads) * bias


@_wrong_count(
    "The three projections come out n_heads times too small. Each head reads the whole token, so its matrices are "
    "d_model by d_head, and there are n_heads of them."
)
def heads_read_slices(d_model, n_heads, bias):
    return 3 * n_heads * (d_model // n_heads) ** 2 + d_model**2 + 4 * d_model * bias


@_wrong_count("W_o is counted as d_head by d_model. It reads all heads side by side, d_model numbers.")
def narrow_output(d_model, n_heads, bias):
    return 3 * d_model**2 + d_model * (d_model // n_heads) + 4 * d_model * bias


@_wrong_count("Biases are counted although bias is False. Count them only if bias is True.")
def always_bias(d_model, n_heads, bias):
    return 4 * d_model * (d_model + 1)


@_wrong_count("`bias` is ignored. With bias=True each of the four matrices has d_model more numbers.")
def never_bias(d_model, n_heads, bias):
    return 4 * d_model * d_model


@_wrong_count("One bias is counted for the whole layer. Each of the four matrices has its own.")
def one_bias(d_model, n_heads, bias):
    return 4 * d_model * d_model + d_model * bias


@_wrong_count("A matrix's bias is counted as one number. It is one number per output, d_model of them.")
def single_biases(d_model, n_heads, bias):
    return 4 * d_model * d_model + 4 * bias


@_wrong_count(
    "The count is right, but it is a float. `/` makes one even where nothing is left over: use `//`, or no division."
)
def divided(d_model, n_heads, bias):
    return 4 * n_heads * (d_model / n_heads) * (d_model + bias)


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **What the evidence is.** One sentence and one pair of words, in the head that was the best of 270. The largest of
   270 numbers is large by selection, and one sentence cannot tell "the subject" from "the second word", "two back" or
   "the first noun".
2. **A fair measurement.** A rule fixed beforehand, many sentences in which the subject is in different positions and
   at different distances, and something to compare with: a baseline (always the previous word, always two back, the
   first noun) or the other heads. New sentences for the judgment, not those on which the head was chosen.
3. **What it does, not where it looks.** An intervention: set the output of that head to zero and see whether the
   model gets worse at what subjects are needed for (for example the probabilities of `is` against `are`) more than
   when other heads are turned off; with the remark that other heads may do the same job, so that a missing effect
   proves nothing either. Half a point for an intervention without a comparison.

Model answer. "The head was chosen as the best of 270 on this very sentence, so a weight of 0.97 could be luck. And in
this sentence the subject is also the only noun before the verb. I would take 200 sentences with subjects at several
distances, some with another noun in between, choose the head on one half, and count on the other how often its
largest weight from the verb is on the subject, compared with the rule 'always the nearest noun'. Then I would zero
its output and compare how much the odds of `is` against `are` change, with the same for ten random heads. If they
change no more, nothing may depend on the head's looking at subjects, or other heads fill in."
""",
)
