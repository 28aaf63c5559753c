"""Exercises of the multi-head chapter: what must hold, on which inputs, and the mistakes that are common.

Every size differs from every other wherever it can, so that a swapped axis or a wrong scale shows. Where batch and
number of heads are equal, that is on purpose: a mask per batch entry can then be mistaken for one per head.
"""

import itertools

import torch

from attnlab.checking import probes
from course.kit.edits import edit
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
IN_PLACE = (
    "An operation in place, such as `resize_`, `transpose_` and all others whose names end in `_`, changes a tensor "
    "itself, and PyTorch refuses that where a gradient is wanted. Use `reshape` and `transpose`."
)
TENSORS_ONLY = "Use tensor operations only. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient."


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


split_heads.gradients(
    lambda rng: [
        dict(x=normal(rng, 2, 3, 8), n_heads=4, upstream=[normal(rng, 2, 4, 3, 2)]),
        dict(x=normal(rng, 3, 4, 6), n_heads=2, upstream=[normal(rng, 3, 2, 4, 3)]),
    ],
    hint=TENSORS_ONLY,
)
split_heads.refuses(
    lambda rng: [
        dict(x=normal(rng, 2, 5, 6), n_heads=4),
        dict(x=normal(rng, 2, 3, 7), n_heads=2),
        dict(x=normal(rng, 2, 3, 5), n_heads=4),
    ],
    title="refuses a width that does not divide",
    hint="Raise ValueError when d_model divided by n_heads leaves a remainder. Some operations, such as `chunk`, "
    "raise no error of their own.",
)

CUT = "(batch, n_tokens, n_heads, d_model // n_heads).transpose(1, 2)"

split_heads.mistakes(
    edit(CUT, "(batch, n_heads, n_tokens, d_model // n_heads)",
         "The shape is right, but the numbers are in the wrong positions. `reshape` to (batch, n_heads, n, d_head) "
         "cuts the list of tokens, not their width: a head gets whole tokens. Reshape to (batch, n, n_heads, d_head), "
         "then transpose."),
    edit(".transpose(1, 2)", "",
         "The transpose is missing: your result is (batch, n, n_heads, d_head). Heads come before tokens, so that the "
         "last two axes are one head's matrix."),
    edit(CUT, "(batch, n_tokens, d_model // n_heads, n_heads).permute(0, 3, 1, 2)",
         "Your last axis was cut as (d_head, n_heads), so head h collects every n_heads-th number. A head is a run of "
         "neighboring numbers: cut as (n_heads, d_head)."),
    edit(".transpose(1, 2)", ".transpose(1, 2).mT",
         "The last two axes are exchanged: your result is (batch, n_heads, d_head, n). Exchange tokens and heads "
         "instead."),
    edit("n_heads, d_model // n_heads)", "d_model // n_heads, n_heads)",
         "n_heads is used as the width of a head. It is how many heads there are; the width is d_model // n_heads."),
    edit(".transpose(1, 2)", ".transpose(1, 2).transpose(0, 1)",
         "The heads are in front of the batch: (n_heads, batch, n, d_head). By default `torch.stack` puts its new axis "
         "first; here it belongs second, `dim=1`."),
    edit(".transpose(1, 2)", ".transpose(1, 2).flatten(0, 1)",
         "Batch and heads were folded into one axis. Keep them apart: (batch, n_heads, n, d_head)."),
    edit("batch, n_tokens, d_model =", "x = x[..., : x.shape[-1] // n_heads * n_heads]\n    batch, n_tokens, d_model =",
         "A width that does not divide is cut down: the numbers left over are silently dropped. Raise ValueError."),
    edit(f"x.reshape{CUT}", "torch.stack(x.chunk(n_heads, dim=-1), dim=1)",
         "`chunk(n_heads)` makes at most n_heads pieces. Width 6 in 4 pieces gives three of 2, without an error. Check "
         "the remainder and raise ValueError.", also={" or d_model % n_heads != 0": ""}),
    edit("if n_heads < 1", "assert d_model % n_heads == 0\n    if n_heads < 1",
         "`assert` raises AssertionError, and with `python -O` it does nothing at all. For sizes that a caller may get "
         "wrong, use `raise ValueError(...)`."),
    edit(f"x.reshape{CUT}", "x.mT.reshape(batch, n_heads, n_tokens, d_model // n_heads)",
         "Tokens and width are exchanged first, and the reshape that follows mixes the tokens. Cut the last axis "
         "first, into (batch, n, n_heads, d_head), then exchange axes 1 and 2."),
    edit(f"x.reshape{CUT}", "x.reshape(n_tokens, batch, n_heads, d_model // n_heads).permute(1, 2, 0, 3)",
         "A reshape puts the tokens in front of the batch. It moves no numbers, so the tokens of several texts are "
         "mixed up. Leave the first two axes as they are: (batch, n, n_heads, d_head)."),
    *(edit(f"x.reshape{CUT}", wrong, IN_PLACE) for wrong in (
        "x.resize_(batch, n_tokens, n_heads, d_model // n_heads).transpose_(1, 2)",
        "x.transpose_(1, 2).reshape(batch, n_heads, -1, n_tokens).mT")),
    edit(".transpose(1, 2)", ".transpose(1, 2).detach()",
         "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors that no gradient "
         "flows through; reshape and transpose the tensor itself."),
)  # fmt: skip


# merge_heads ---------------------------------------------------------------------------------------------------------

merge_heads = Exercise(solutions.merge_heads, section=MERGE, minutes=5, difficulty=1)


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


merge_heads.gradients(
    lambda rng: dict(x=normal(rng, 2, 3, 4, 5), upstream=[normal(rng, 2, 4, 15)]),
    title="lets gradients through to each head",
    hint=TENSORS_ONLY,
)

JOINED = "x.transpose(1, 2).flatten(start_dim=2)"

merge_heads.mistakes(
    edit(JOINED, "x.reshape(x.shape[0], x.shape[2], -1)",
         "The shape is right, but the numbers are in the wrong positions. Reshaping (batch, n_heads, n, d_head) "
         "directly joins the tokens of one head. Exchange heads and tokens first."),
    edit(".transpose(1, 2)", ".permute(0, 2, 3, 1)",
         "The numbers of a token are in the order (d_head, n_heads): the heads alternate. Each head's piece stays in "
         "one run, head after head."),
    edit(".flatten(start_dim=2)", ".mean(dim=2)",
         "The heads are averaged. They contain different things: put them side by side and let W_o combine them."),
    edit(".flatten(start_dim=2)", ".sum(dim=2)",
         "The heads are added up, which mixes their numbers. Put them side by side: n_heads * d_head numbers per "
         "token."),
    edit(JOINED, "x.flatten(1, 2)",
         "The heads are one below the other, as if they were more tokens. Join them along the width."),
    edit(JOINED, "x.transpose(-1, -2).reshape(x.shape[0], x.shape[2], -1)",
         "Tokens and width were exchanged instead of tokens and heads. The axes to exchange are 1 and 2."),
    edit(".flatten(start_dim=2)", ".view(x.shape[0], x.shape[2], -1)",
         "`view` never moves numbers in memory, and after a transpose they are no longer in the order it needs. Use "
         "`reshape` or `flatten`, or `.contiguous()` before `view`."),
    edit(".flatten(start_dim=2)", "",
         "The axis of heads is still there: your result is (batch, n, n_heads, d_head). Join the last two axes."),
    edit(".flatten(start_dim=2)", ".flatten(start_dim=2).flatten(0, 1)",
         "Batch and tokens were joined as well. The result is (batch, n, n_heads * d_head)."),
    *(edit(JOINED, wrong, IN_PLACE) for wrong in (
        "x.transpose_(1, 2).flatten(start_dim=2)",
        "x.transpose(1, 2).contiguous().resize_(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])")),
    edit(".flatten(start_dim=2)", ".flatten(start_dim=2).detach()",
         "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors that no gradient "
         "flows through; transpose and reshape the tensor itself."),
)  # fmt: skip


# MultiHeadAttention --------------------------------------------------------------------------------------------------

MultiHeadAttention = Exercise(solutions.MultiHeadAttention, section=LAYER, minutes=45, difficulty=3)


def _lower(n):
    return torch.tril(torch.ones(n, n, dtype=torch.bool))


NOTHING_SEEN = _lower(3)
NOTHING_SEEN[1] = False


def _some(rng, *shape):
    """Draw a mask in which every query sees at least the first key, and some query does not see every key.

    With three keys or more, the very first query sees the key behind it, so the mask is not causal, and the entries of
    a batch differ.
    """
    while True:
        mask = torch.from_numpy(rng.random(size=shape) < 0.6)
        mask[..., 0], mask[..., 0, -1] = True, False
        mask.view(-1, shape[-1])[0, 1:-1] = True
        if shape[0] == 1 or shape[-1] < 3 or (mask != mask[0]).any():
            return mask


def _layer(rng, d_model, n_heads, batch, n, names="qkvo", dtype=torch.float64):
    """A case; maps that are not among `names` get the fixed numbers of `ClassAsFunction`, and no room in a file."""
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
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=2, n=3), mask=_some(rng, 2, 2, 3, 3))
    yield dict(**_layer(rng, d_model=6, n_heads=3, batch=3, n=3), mask=_some(rng, 3, 3))  # as many texts as tokens


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
    yield dict(**_layer(rng, d_model=4, n_heads=2, batch=1, n=3), mask=NOTHING_SEEN)
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
    for tokens, keys in (
        ([1.0, 1.0, 2.0], -4e12),
        ([1.0, 1.0, 50.0], 1e4),
        ([1.0, 1.0, 50.0], 1e9),
        ([1.0, 2.0, 3.0], -1e140),
    ):
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


def _with_gradients(rng, names="qkvo", **mask):
    case = _layer(rng, d_model=4, n_heads=2, batch=1, n=3, names=names)
    return dict(**case, **mask, upstream=[normal(rng, 1, 3, 4), normal(rng, 1, 2, 3, 3)])


MultiHeadAttention.gradients(
    lambda rng: [_with_gradients(rng), _with_gradients(rng, "k", mask=_lower(3))],
    title="has the right gradients, of output and weights",
    **NEARLY,
    hint="Use tensor operations only, and return the weights as they are, not detached.",
)
MultiHeadAttention.gradients(
    lambda rng: _with_gradients(rng, "q", mask=NOTHING_SEEN),
    title="has finite gradients where a token may read nothing",
    **NEARLY,
    hint="A weight of nan that is replaced by 0 afterwards can still send nan backwards. Give the empty row finite "
    "scores before the softmax, and set its weights to 0 after it.",
)
MultiHeadAttention.any_device(
    lambda rng: [
        dict(**_layer(rng, d_model=6, n_heads=2, batch=1, n=3, dtype=dtype), mask=mask)
        for mask, dtype in itertools.product((None, _lower(3)), (torch.float32, torch.bfloat16))
    ],
    title="works in the precision and on the device of its input",
    rtol=0.1,
    atol=0.1,
    hint="Make each new tensor like those you have: `x.new_zeros(...)`, `torch.zeros_like(...)`, or with "
    "`dtype=x.dtype, device=x.device`.",
)
MultiHeadAttention.refuses(
    lambda rng: [
        dict(init=dict(d_model=10, n_heads=4)),
        dict(init=dict(d_model=7, n_heads=2)),
        dict(init=dict(d_model=4, n_heads=2), weights=projections(rng, 4), x=normal(rng, 2, 5, 2)),
        dict(init=dict(d_model=4, n_heads=2), weights=projections(rng, 4), x=normal(rng, 2, 5, 6)),
        _layer(rng, d_model=4, n_heads=2, batch=1, n=2),
    ],
    **NEARLY,
    hint="ValueError when d_model divided by n_heads leaves a remainder (in __init__), and when the width of x is "
    "not d_model. nn.Linear does the second for you.",
)


def _with_an_empty_row(rng):
    mask = _some(rng, 1, 3, 3)
    mask[0, int(rng.integers(1, 3))] = False  # whoever opens it must not do so in the caller's mask
    return dict(**_layer(rng, d_model=4, n_heads=2, batch=1, n=3, names="q"), mask=mask)


MultiHeadAttention.unchanged(
    _with_an_empty_row,
    title="leaves tokens and mask as they were, and keeps nothing",
    **NEARLY,
    hint="Operations whose name ends in an underscore write into their tensor. Never use them on an argument of the "
    "function.",
)

SUPER = "super().__init__()"
MADE = "for _ in range(4))"
MAPS = "(self.W_q, self.W_k, self.W_v)"
FILL_EMPTY, CLEAR = ".masked_fill(empty, 0.0)", ".masked_fill(hidden, 0.0)"
HIDE = f".masked_fill(hidden, -math.inf){FILL_EMPTY}"
SHARES = f"scores.softmax(dim=-1){CLEAR}"
OUTPUT = "self.W_o(merge_heads(shares @ v))"
CHANGED = (
    "The caller's mask is changed in place. `|=`, `mask[...] =` and methods whose names end in an underscore write "
    "into their tensor; `|`, `unsqueeze` and `~mask` make a new one."
)
UNCHECKED = {"hidden.ndim not in (2, 4) or not fits": "False"}

MultiHeadAttention.mistakes(
    edit(CUT, "(batch, n_heads, n_tokens, d_model // n_heads)",
         "The heads are split by a reshape to (batch, n_heads, n, d_head) with no transpose. The shape is right, but a "
         "head then contains some whole tokens instead of a piece of every token.", see=SPLIT),
    edit(JOINED, "x.reshape(x.shape[0], x.shape[2], -1)",
         "The heads are merged by a reshape with no transpose. The shape is right, but the pieces of different tokens "
         "end up in one row.", see=MERGE),
    edit(CUT, "(batch, n_heads, n_tokens, d_model // n_heads)",
         "Neither split nor merge exchanges tokens and heads. The two mistakes cancel in the shape but not in the "
         "numbers: each head attends over pieces of different tokens.", see=SPLIT,
         also={JOINED: "x.reshape(x.shape[0], x.shape[2], -1)"}),
    edit(CUT, "(batch, n_tokens, n_heads, d_model // n_heads)",
         "The heads stay behind the tokens, (batch, n, n_heads, d_head), so within each token the heads attend to one "
         "another. Exchange the two axes: tokens must meet tokens.", see=SPLIT,
         also={JOINED: "x.flatten(start_dim=2)"} | UNCHECKED),
    edit(CUT, "(batch, n_tokens, d_model // n_heads, n_heads).permute(0, 3, 1, 2)",
         "The width is cut as (d_head, n_heads): head h takes every n_heads-th number. Such a layer could be trained, "
         "but existing weights do not fit it. A head is a run of neighboring numbers.", see=SPLIT,
         also={JOINED: "x.permute(0, 2, 3, 1).flatten(start_dim=2)"}),
    edit(JOINED, "x.permute(0, 2, 3, 1).flatten(start_dim=2)",
         "The split is right, but the merge puts the numbers of a token in the order (d_head, n_heads). W_o then gets "
         "them in the wrong positions.", see=MERGE),
    edit("n_heads, d_model // n_heads)", "d_model // n_heads, n_heads)",
         "n_heads is used as the width of a head: there are d_model // n_heads heads of n_heads numbers. It is the "
         "other way around.", see=SPLIT, also=UNCHECKED),
    edit(f"x.reshape{CUT}", "x[:, None]",
         "There is one head as wide as the model: the projections are never split. Split queries, keys and values "
         "after projecting.", see=SPLIT, also={JOINED: "x[:, 0]"} | UNCHECKED),
    edit(OUTPUT, "merge_heads(shares @ v)",
         "W_o is missing: the merged heads are returned as they are. Apply `self.W_o` to them as the last step; it "
         "mixes the heads.", see="What W_o is for"),
    edit(OUTPUT, f"{OUTPUT} + x",
         "x is added to the output. Return the layer's output alone; the block around the layer, which has a chapter "
         "later, adds x."),
    edit(MAPS, "(self.W_q, self.W_q, self.W_q)",
         "One projection is used for queries, keys and values. Each role has its own: W_q, W_k, W_v."),
    edit(MAPS, "(self.W_q, self.W_q, self.W_v)",
         "Queries and keys come from the same projection. Keys come from W_k."),
    edit(MAPS, "(self.W_q, self.W_k, nn.Identity())",
         "The values are not projected. They are W_v(x), split into heads like queries and keys."),
    edit(MAPS, "(self.W_k, self.W_k, self.W_v)",
         "Queries are made by W_k. They come from W_q."),
    edit(MAPS, "(self.W_v, self.W_k, self.W_v)",
         "Queries are made by W_v. They come from W_q."),
    edit(MAPS, "(self.W_o, self.W_k, self.W_v)",
         "Queries are made by W_o. They come from W_q."),
    edit(MAPS, "(nn.Identity(), self.W_k, self.W_v)",
         "Queries are not projected. They are W_q(x), split into heads."),
    edit(MAPS, "(self.W_q, self.W_v, self.W_v)",
         "Keys are made by W_v. They come from W_k."),
    edit(MAPS, "(self.W_q, self.W_o, self.W_v)",
         "Keys are made by W_o. They come from W_k."),
    edit(MAPS, "(self.W_q, nn.Identity(), self.W_v)",
         "Keys are not projected. They are W_k(x), split into heads."),
    edit(MAPS, "(self.W_q, self.W_k, self.W_q)",
         "Values are made by W_q. They come from W_v."),
    edit(MAPS, "(self.W_q, self.W_k, self.W_o)",
         "Values are made by W_o. They come from W_v."),
    edit(MAPS, "(self.W_q, self.W_v, self.W_k)",
         "Keys and values are exchanged: scores need W_k of x, and the weights mix W_v of x."),
    edit(MAPS, "(self.W_v, self.W_k, self.W_q)",
         "Queries and values are exchanged: the scores compare values with keys, and the weights mix queries.",
         see=LAYER),
    edit(MAPS, "(self.W_q, self.W_k, self.W_k)",
         "The weights mix keys. Keys decide where to look; what the weights mix is the values, W_v(x) split into "
         "heads.", see=LAYER),
    edit("project(x)", "x @ project.weight",
         "`x @ W.weight` multiplies by the wrong matrix. nn.Linear stores its weight as (out, in) and computes x times "
         "its transpose: call the module, `self.W_q(x)`.", also={OUTPUT: "merge_heads(shares @ v) @ self.W_o.weight"}),
    edit(MADE,
         f"{MADE}\n        d_model //= n_heads\n"
         "        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))",
         "Each head projects its own slice of x, with a matrix of d_head by d_head. A head reads the whole token: "
         "project with d_model by d_model first, then split.", see=SPLIT),
)  # fmt: skip
MultiHeadAttention.mistakes(
    edit(", bias=False", "",
         "The projections have biases. nn.Linear adds one unless you say bias=False."),
    edit(MADE, f"{MADE}\n        self.W_o = nn.Linear(d_model, d_model)",
         "W_o has a bias. nn.Linear adds one unless you say bias=False."),
    edit("math.sqrt(q.shape[-1])", "math.sqrt(x.shape[-1])",
         "The scores are divided by the square root of d_model. A dot product sums over one head, so its width d_head "
         "decides: q.shape[-1] after the split."),
    edit("math.sqrt(q.shape[-1])", "math.sqrt(self.n_heads)",
         "The scale uses the number of heads. A dot product sums over the width of one head, d_head."),
    edit("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-2])",
         "The scale uses the number of tokens. A dot product sums over the width of one head, d_head: the last entry "
         "of the shape after the split, not the one before it."),
    edit("/ math.sqrt(q.shape[-1])", "* math.sqrt(q.shape[-1])",
         "The scores are multiplied by the square root of d_head. They are too far apart already: divide."),
    edit(" / math.sqrt(q.shape[-1])", "",
         "The scores are not scaled. Divide them by the square root of d_head."),
    edit("math.sqrt(q.shape[-1])", "q.shape[-1]",
         "The scores are divided by d_head itself. Use its square root."),
    edit("q @ k", "k @ q",
         "Keys and queries are exchanged in the scores: row i must belong to query i."),
    edit(SHARES, "scores.softmax(dim=1)",
         "The softmax runs over the heads (dim=1). In each head, each query divides a weight of one among the keys, "
         "which are the last axis.", also={FILL_EMPTY: ""}),
    edit(SHARES, "scores.softmax(dim=-2)",
         "The softmax runs over the queries (dim=-2). Each query divides a weight of one among the keys, the last "
         "axis.", also={FILL_EMPTY: ""}),
    see=LAYER,
)  # fmt: skip
MultiHeadAttention.mistakes(
    edit("), shares", "), shares.mean(dim=1)",
         "One map of weights comes back for all heads, averaged or added up. Return the map of each head, (batch, "
         "n_heads, n, n); a single one hides what each head does.", see="The same layer in PyTorch"),
    edit(f"{OUTPUT}, shares", f"shares, {OUTPUT}",
         "The two results come in the wrong order: return the output first, then the weights."),
    edit("), shares", ")",
         "Only the output is returned. Return the weights as well: output first, then weights."),
    edit("~mask if", "mask if",
         "The mask is inverted. Here True means that the query may attend to the key; nn.MultiheadAttention means the "
         "opposite.", see="The same layer in PyTorch"),
    edit("~mask if", "mask if",
         "The mask is inverted, and a row that it empties becomes nan. True means that the query may attend to the "
         "key; and a query with no key allowed has weights of 0.", see="The same layer in PyTorch",
         also={FILL_EMPTY: "", CLEAR: ""}),
)  # fmt: skip
MultiHeadAttention.mistakes(
    edit(HIDE, "",
         "The mask has no effect. `masked_fill` returns a new tensor and leaves the old one as it was: use what it "
         "returns.", also={CLEAR: ""}),
    edit(HIDE, " + ~hidden",
         "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score "
         "must become minus infinity.", also={CLEAR: ""}),
    edit("hidden.ndim == 3", "False",
         "A mask of three dimensions is read as one map per head. Broadcasting lines up from the right, so the batch "
         "of the mask meets the heads; where the two sizes are equal, no error is raised. Insert an axis: (batch, 1, "
         "n_q, n_k).", also=UNCHECKED),
    edit("hidden.ndim == 3", "mask is not None",
         "Every mask is given an axis for the heads, `unsqueeze(1)`, even one that has it already or has no batch. Do "
         "this only for a mask of three dimensions.",
         also={"if x.ndim != 4": "batch, heads, n, d_head = x.shape\n    if x.ndim != 4"} | UNCHECKED),
    edit("~mask if", "~mask.mT if",
         "The mask is transposed. Its rows are queries and its columns are keys, as in the scores."),
    edit(HIDE, "",
         "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
         "scores, then take the softmax."),
    edit(HIDE, "",
         "The weights are masked after the softmax and divided by their new sum. A hidden key with a huge score leaves "
         "nothing for the others, and an empty row is 0/0.",
         also={CLEAR: " * ~hidden\n        shares = shares / shares.sum(dim=-1, keepdim=True)"}),
    edit(HIDE, ".masked_fill(hidden, -1e9)",
         "A hidden score becomes a big finite number. A visible score can be lower still, and a query with no key "
         "allowed gives all keys equal weights. Use minus infinity.", also={CLEAR: ""}),
    edit(HIDE, ".masked_fill(hidden, -1e9)",
         "A hidden score becomes a big finite number, and its weight is set to 0 afterwards. Where a visible score is "
         "lower still, the hidden key takes all the weight in the softmax. Use minus infinity."),
    edit(HIDE, ".masked_fill(hidden, torch.finfo(scores.dtype).min)",
         "A query with no key allowed gives all keys equal weights. That happens if all its scores become the same "
         "number, such as the lowest of their type, or if its nan becomes 1/n. Its weights must be 0.",
         also={CLEAR: ""}),
    edit(HIDE, ".masked_fill(hidden, 0.0)",
         "Hidden scores become 0. A score of 0 is an ordinary score and gets weight; hidden means minus infinity.",
         also={CLEAR: ""}),
    edit(HIDE, " + (0.0 if mask is None else hidden * -math.inf)",
         "The mask is multiplied by minus infinity and added. For visible keys that is 0 times infinity, which is nan. "
         "Choose with `masked_fill` or `torch.where`.", also={CLEAR: ""}),
    edit("hidden.ndim == 3", "hidden.ndim == 3 or hidden.ndim == 2 and len(hidden) == len(x)",
         "A mask of two axes is taken for one per text where there are as many texts as tokens. Go by the number of "
         "axes: two are (n_q, n_k), three have the batch in front.", also=UNCHECKED),
    edit(HIDE, " + hidden * -1e9",
         "A finite number is added to hidden scores, and their weight is set to 0 afterwards. A hidden score that is "
         "larger than that number takes all the weight in the softmax. Use minus infinity."),
    edit("hidden.all(dim=-1, keepdim=True)", "hidden.all(dim=-2, keepdim=True)",
         "Queries without a key are looked for along the wrong axis. The keys are the last axis: dim=-1."),
    edit("scores.softmax(dim=-1)", "(scores.exp() / scores.exp().sum(dim=-1, keepdim=True))",
         "No maximum is subtracted, so exponentials of large scores overflow, and infinity divided by infinity is nan. "
         "Use torch.softmax."),
    edit("scores.softmax(dim=-1)",
         "((scores - scores.max()).exp() / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)).nan_to_num()",
         "One maximum is subtracted for the whole tensor, so rows far below it vanish. Each row needs its own: use "
         "torch.softmax, or amax(dim=-1, keepdim=True)."),
    edit(FILL_EMPTY, "",
         "A query with no key allowed gives nan, because all its scores are minus infinity in the softmax. Its weights "
         "and its output must be 0.", also={CLEAR: ""}),
    edit(HIDE, " + scores.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)",
         "The results are right, but a query with no key allowed sends nan backwards. Adding minus infinity and "
         "repairing the weights afterwards removes the nan from the output only; the softmax still produces one, and "
         "the gradient passes through it. Give the empty row finite scores before it.",
         also={CLEAR: ".nan_to_num(0.0)"}),
    edit("shares = scores.softmax(dim=-1)",
         "scores = torch.exp(scores - scores.amax(dim=-1, keepdim=True))\n"
         "        shares = (scores / (scores.sum(dim=-1, keepdim=True) + {}))",
         "A small number is added to every total, to avoid 0/0 in the empty row. But then no other row sums to exactly "
         "one. Change only the total that is 0.", each=(1e-5, 1e-6, 1e-7, 1e-8, 1e-9)),
    edit("empty =", "hidden = hidden | torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)\n        empty =",
         "A causal mask is always applied. Only the argument `mask` says what is hidden; without one, each token sees "
         "every token."),
    see=MASKS,
)  # fmt: skip
MultiHeadAttention.mistakes(
    edit("), shares", "), shares.detach()",
         "The weights are returned detached, so a loss computed from them cannot train the layer. Return them as they "
         "are.", see=LAYER),
    edit("def forward", "@torch.no_grad()\n    def forward",
         "No gradient arrives anywhere: the layer works under `torch.no_grad()` or on detached tensors, and could "
         "never be trained.", see=LAYER),
    edit(SUPER, f"{SUPER}\n        d_model -= d_model % n_heads",
         "A width that is not a multiple of n_heads is accepted. Each head is then d_model // n_heads wide and the "
         "rest of the width is lost. Raise ValueError in __init__.", see=SPLIT),
    edit(SUPER, f"{SUPER}\n        assert d_model % n_heads == 0",
         "`assert` raises AssertionError, and with `python -O` it does nothing at all. Raise ValueError.", see=SPLIT),
    edit("scores.new_zeros(1, 1", "torch.zeros(1, 1",
         "A tensor is made on the CPU in float32, whatever the input is, and is combined with scores of another dtype "
         "or on another device. Take both from the input: `dtype=x.dtype, device=x.device`, or `x.new_zeros(...)`.",
         see=MASKS),
    edit("scores.softmax(dim=-1)",
         "scores.softmax(dim=-1, dtype=torch.float32 if scores.dtype == torch.bfloat16 else None)",
         "The weights are left in float32. For 16-bit scores it is right to compute the softmax in float32, but "
         "convert the weights back afterwards, `.to(scores.dtype)`.", see=MASKS,
         also={"shares @ v": "shares.to(v.dtype) @ v"}),
    edit("empty = hidden.all(dim=-1, keepdim=True)",
         "empty = hidden.all(dim=-1, keepdim=True)\n"
         "        if mask is not None:\n"
         "            mask |= ~mask.any(dim=-1, keepdim=True)",
         CHANGED, see=MASKS),
    edit("~mask if", "mask.logical_not_() if",
         CHANGED, see=MASKS),
)  # fmt: skip


# attention_parameters ------------------------------------------------------------------------------------------------

attention_parameters = Exercise(
    solutions.attention_parameters, section=COST, minutes=5, difficulty=1, needless=("n_heads",)
)


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


attention_parameters.mistakes(
    edit("4 * inputs * d_model", "4 * (d_model ^ 2) + 4 * d_model * bias",
         "`^` is not a power in Python but XOR, an operation on bits. Write d_model**2."),
    edit("4 *", "3 *",
         "W_o is not counted. There are four matrices: for queries, keys, values, and the mix of the heads."),
    edit("4 *", "4 * n_heads *",
         "The number of heads is multiplied in. Each head has d_model by d_head weights, and with more heads d_head is "
         "smaller: together they are d_model by d_model."),
    edit("4 *", "(3 * n_heads + 1) *",
         "Only queries, keys and values are multiplied by the number of heads, but a head's matrices are only d_model "
         "by d_head."),
    edit("inputs * d_model", "inputs * (d_model // n_heads)",
         "This is the count for one head. Multiply the queries, keys and values of a head by n_heads."),
    edit("4 * inputs * d_model", "3 * n_heads * (d_model // n_heads) ** 2 + d_model**2 + 4 * d_model * bias",
         "The three projections come out n_heads times too small. Each head reads the whole token, so its matrices are "
         "d_model by d_head, and there are n_heads of them."),
    edit("4 * inputs * d_model", "3 * d_model**2 + d_model * (d_model // n_heads) + 4 * d_model * bias",
         "W_o is counted as d_head by d_model. It reads all heads side by side, d_model numbers."),
    edit(" if bias else d_model", "",
         "Biases are counted although bias is False. Count them only if bias is True."),
    edit("d_model + 1 if bias else d_model", "d_model",
         "`bias` is ignored. With bias=True each of the four matrices has d_model more numbers."),
    edit("4 * inputs * d_model", "4 * d_model * d_model + d_model * bias",
         "One bias is counted for the whole layer. Each of the four matrices has its own."),
    edit("4 * inputs * d_model", "4 * d_model * d_model + 4 * bias",
         "A matrix's bias is counted as one number. It is one number per output, d_model of them."),
    edit("4 * inputs * d_model", "4 * n_heads * (d_model / n_heads) * inputs",
         "The count is right, but it is a float. `/` makes one even where nothing is left over: use `//`, or no "
         "division."),
)  # fmt: skip


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
