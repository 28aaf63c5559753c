"""Exercises of the cross-attention chapter: what must hold, on which inputs, and the mistakes that are common.

Batch, heads, queries, source tokens and widths all differ wherever they can, so that a swapped sequence shows. Square
cases are there for mistakes that cannot run on anything else, such as keys made from the queries' own sequence; in one
case the batch is as large as the number of heads, since a mask that meets the heads cannot run otherwise.
"""

import itertools

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal, projections
from solutions import cross_attention as solutions

ROLES = "One asks, the other answers"
PADDING = "Who needs a mask here?"
CAT_SAT = torch.tensor([[[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]], dtype=torch.float64)
TWO_TOKENS = torch.tensor([[[2, 0, 2, 0], [0, 1, 0, 1]]], dtype=torch.float64)


def _mask(*rows: str) -> torch.Tensor:
    """A padding mask from words of 1 (real token) and 0 (padding)."""
    return torch.tensor([[letter == "1" for letter in row] for row in rows])


def _replaced(x: torch.Tensor, entry: int, token: int, by: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[entry, token] = by
    return x


# CrossAttention ------------------------------------------------------------------------------------------------------

CrossAttention = Exercise(solutions.CrossAttention, section=ROLES, minutes=35, difficulty=3)


def _layer(rng, d_model, n_heads, batch, n_q, n_kv, dtype=None):
    """A layer with weights, and both sequences."""
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads),
        weights=projections(rng, d_model, dtype=dtype),
        x_q=normal(rng, batch, n_q, d_model, dtype=dtype),
        x_kv=normal(rng, batch, n_kv, d_model, dtype=dtype),
    )


@CrossAttention.property(
    "asks with one sequence and reads from the other",
    points=3,
    hint="W_q projects x_q. W_k and W_v project x_kv. Each head attends with its own slice; the heads are put side "
    "by side and multiplied by W_o. Return the output, then the weights of every head.",
)
def asks_and_reads(rng):
    eye = {f"W_{name}.weight": torch.eye(4, dtype=torch.float64) for name in "qkvo"}
    yield dict(init=dict(d_model=4, n_heads=1), weights=eye, x_q=TWO_TOKENS, x_kv=CAT_SAT)
    yield _layer(rng, 6, 3, 2, 4, 5)
    yield _layer(rng, 4, 2, 2, 3, 3)


@CrossAttention.property(
    "gives padded source tokens no weight",
    points=2,
    hint="kv_mask has one entry for each source token, and those are the last axis of the scores: kv_mask[:, None, "
    "None, :] has the right axes for every head and every query. Where it is False, set the score to minus "
    "infinity, before the softmax.",
)
def padded_tokens(rng):
    yield dict(_layer(rng, 4, 2, 3, 4, 4), kv_mask=_mask("1110", "1111", "0110"))
    yield dict(_layer(rng, 6, 3, 3, 2, 5), kv_mask=_mask("10011", "11111", "11100"))
    yield dict(_layer(rng, 4, 2, 2, 3, 4), kv_mask=_mask("1111", "1111"))


@CrossAttention.property(
    "keeps padded tokens hidden, whatever the scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Minus infinity is below every score; a big finite number is not.",
)
def hidden_for_good(rng):
    # At scores of -4e12 even a right answer may round at 5e-4, hence the wide tolerance.
    ones = {f"W_{name}.weight": torch.ones(1, 1, dtype=torch.float64) for name in "qkv"}
    for source in ([-4e12, -4e12 - 1.0, 7.0], [2.0, 1.0, 5e3], [-1e140, -2e140, 7.0]):
        yield dict(
            init=dict(d_model=1, n_heads=1),
            weights={**ones, "W_o.weight": normal(rng, 1, 1) / 1e12},
            x_q=torch.ones(1, 1, 1, dtype=torch.float64),
            x_kv=torch.tensor(source, dtype=torch.float64).reshape(1, 3, 1),
            kv_mask=_mask("110"),
        )


@CrossAttention.property(
    "gives zeros for a source without a real token",
    points=1,
    hint="If all the scores of a row are minus infinity, its softmax is nan. Give such a row other scores first, and "
    "set its weights to 0 after the softmax; the output is then 0 as well.",
)
def empty_source(rng):
    yield dict(_layer(rng, 4, 2, 2, 3, 5), kv_mask=_mask("00000", "11000"))
    yield dict(_layer(rng, 4, 2, 1, 3, 3), kv_mask=_mask("000"))


def _gradients(rng):
    for width, mask in ((2, None), (4, _mask("00000", "11011"))):
        case = dict(_layer(rng, width, 2, 2, 3, 5), kv_mask=mask)
        yield dict(case, upstream=[normal(rng, 2, 3, width), normal(rng, 2, 2, 3, 5)])


CrossAttention.gradients(
    _gradients,
    title="sends the right gradients to inputs and projections, also from an empty source",
    points=2,
    rtol=1e-8,
    atol=1e-11,
    hint="A nan that is replaced afterwards can still be in the gradient, so make sure that it never arises: give an "
    "empty row other scores before the softmax, and set its weights to 0 after it.",
)


@CrossAttention.property(
    "moves one row when one query changes, and none when padding does",
    points=1,
    probe=probes.moved,
    hint="A row of the output depends on its own query, on the real source tokens, and on nothing else.",
)
def perturbed(rng):
    case = dict(_layer(rng, 4, 2, 3, 4, 5), kv_mask=_mask("11110", "11011", "11100"))
    for name, entry, token in (("x_q", 1, 2), ("x_kv", 1, 2), ("x_kv", 1, 4), ("x_kv", 2, 1)):
        yield dict(case, name=name, replacement=_replaced(case[name], entry, token, normal(rng, 4)))


def _placed(rng):
    for mask, dtype in itertools.product((None, _mask("11111", "11010")), (torch.float32, torch.bfloat16)):
        yield dict(_layer(rng, 4, 2, 2, 3, 5, dtype), kv_mask=mask)


CrossAttention.any_device(
    _placed,
    title="works in the precision and on the device of its inputs",
    rtol=0.1,
    atol=0.1,
    hint="Make each new tensor like those you have: `x_q.new_zeros(...)`, `torch.zeros_like(...)`, or with "
    "`dtype=x_q.dtype, device=x_q.device`.",
)


@CrossAttention.property(
    "has the projections W_q, W_k, W_v, W_o and no bias",
    points=1,
    hint="Four layers nn.Linear(d_model, d_model, bias=False), under these names and no others.",
)
def structure(rng):
    for n_heads in (int(rng.integers(2, 6)), 1):
        yield dict(init=dict(d_model=n_heads * int(rng.integers(2, 12)), n_heads=n_heads))


def _sizes_that_do_not_fit(rng):
    made, weights = dict(d_model=2, n_heads=2), projections(rng, 2)
    for d_model, n_heads in ((10, 3), (7, 2)):
        yield dict(init=dict(d_model=d_model, n_heads=n_heads))
    # A batch of one broadcasts. The last pair fits.
    for size_q, size_kv in (
        ((2, 3, 2), (2, 4, 5)),
        ((2, 3, 5), (2, 4, 2)),
        ((1, 3, 2), (2, 4, 2)),
        ((2, 3, 2), (1, 4, 2)),
        ((1, 2, 2), (1, 3, 2)),
    ):
        yield dict(init=made, weights=weights, x_q=normal(rng, *size_q), x_kv=normal(rng, *size_kv))


CrossAttention.refuses(
    _sizes_that_do_not_fit,
    hint="Raise ValueError when n_heads does not divide d_model, when an input has another width, and when the batches "
    "differ. PyTorch would silently broadcast a batch of one.",
)


def _without_scores(rng):
    """A case with queries of 0, so that the point does not depend on the scores, and with an empty source.

    Whoever opens that source must not do so in the caller's mask.
    """
    case = dict(_layer(rng, 2, 1, 2, 2, 3), kv_mask=_mask("110", "000"))
    case["weights"]["W_q.weight"] = torch.zeros(2, 2, dtype=torch.float64)
    return case


CrossAttention.unchanged(
    _without_scores,
    hint="`masked_fill_`, `/=`, `|=` and other operations in place write into the caller's tensor. Make a new one.",
)

Q, K, V = "self.W_q(x_q)", "self.W_k(x_kv)", "self.W_v(x_kv)"
RESULTS = "self.W_o(heads), weights"
MERGED = ".reshape(batch, n_q, d_model)"
REAL = "kv_mask[:, None, None, :]"
HIDDEN = 'scores.masked_fill(~real, float("-inf"))'
RESCUED = "scores.masked_fill(~real.any(dim=-1, keepdim=True), 0.0)"
SOFTMAX = "scores.softmax(dim=-1)"
ZEROED = f"{SOFTMAX}.masked_fill(~real, 0.0)"
EXPONENTIALS = "(scores.exp() / scores.exp().sum(dim=-1, keepdim=True))"
UNMASKED = f"if kv_mask is None:\n            weights = {SOFTMAX}"
EXPANDED = {REAL: f"{REAL}.expand(scores.shape)"}  # a mask that does not fit fails here
NOT_RESCUED = {RESCUED: "scores", ZEROED: SOFTMAX}

CrossAttention.mistakes(
    edit(f"{K}.view(batch, n_kv", "self.W_k(x_q).view(batch, n_q",
         "The keys are made from x_q, so the target is compared with itself and the scores never use the source. Keys "
         "and values both come from x_kv.", also=EXPANDED),
    edit(f"{V}.view(batch, n_kv", "self.W_v(x_q).view(batch, n_q",
         "The values are made from x_q, so the target is compared with the source but its own tokens are mixed. "
         "Values belong to the keys, and both come from x_kv."),
    edit(Q, "self.W_q(x_kv)",
         "The queries are made from x_kv. The queries come from x_q; only keys and values come from the source.",
         also={'"x_q": x_q, ': "", "= x_q.shape": "= len(x_q), *x_kv.shape[1:]"}),
    edit(f"q = {Q}", f"x_kv, n_kv = x_q, n_q\n        q = {Q}",
         "Queries, keys and values all come from x_q: that is self-attention, and the source is never read. Keys and "
         "values come from x_kv.", also={', "x_kv": x_kv': "", **EXPANDED}),
    edit(f"q = {Q}", f"x_q, x_kv, n_q, n_kv = x_kv, x_q, n_kv, n_q\n        q = {Q}",
         "The roles are swapped: your queries come from the source, your keys and values from x_q. The output needs "
         "one row per token of x_q, so x_q makes the queries and x_kv the keys and values.", also=EXPANDED),
    edit(V, K, "The keys are used as values, and W_v never is. Keys decide the weights; what is mixed is W_v of the "
         "source."),
    edit(V, "x_kv", "The values are the source tokens themselves. Values are projected as well: W_v of x_kv."),
    edit(K, "self.W_q(x_kv)",
         "W_q is applied to both sequences. The keys of the source have their own projection, W_k."),
    edit(K, V, "W_k and W_v are exchanged: scores need W_k of the source, the blend needs W_v.", also={V: K}),
    edit(Q, "self.W_k(x_q)", "Queries are made by W_k. They come from W_q."),
    edit(Q, "self.W_v(x_q)", "Queries are made by W_v. They come from W_q."),
    edit(Q, "self.W_o(x_q)", "Queries are made by W_o. They come from W_q."),
    edit(Q, "x_q", "Queries are not projected. They come from W_q."),
    edit(K, V, "Keys are made by W_v. They come from W_k."),
    edit(K, "self.W_o(x_kv)", "Keys are made by W_o. They come from W_k."),
    edit(K, "x_kv", "Keys are not projected. They come from W_k."),
    edit(V, "self.W_q(x_kv)", "Values are made by W_q. They come from W_v."),
    edit(V, "self.W_o(x_kv)", "Values are made by W_o. They come from W_v."),
    edit("d_head**0.5", "d_model**0.5",
         "The scores are divided by the square root of d_model. A dot product here sums over one head, so the width "
         "that counts is d_model / n_heads."),
    edit(" / d_head**0.5", "",
         "The scores are not scaled. Divide them by the square root of the width of one head, before the softmax."),
    edit("d_head**0.5", "n_q**0.5",
         "The scale uses the number of queries. A dot product here sums over one head, so the width that counts is "
         "d_model / n_heads: the last axis after the split."),
    edit("scores.softmax(dim=-1)\n        else", f"{EXPONENTIALS}\n        else",
         "No maximum is subtracted, so exponentials of large scores overflow, and infinity divided by infinity is nan. "
         "Use torch.softmax.", also={ZEROED: ZEROED.replace("scores.softmax(dim=-1)", EXPONENTIALS)}),
    edit("d_head**0.5", "d_head",
         "The scores are divided by the width of a head itself. Scores grow with its square root; divide by that."),
    edit(ZEROED, "scores.softmax(dim=-2)",
         "The softmax runs over the queries: your columns sum to one. Each query divides a weight of one among the "
         "source tokens, which are the last axis.",
         also={UNMASKED: UNMASKED.replace("-1", "-2"), RESCUED: "scores"}),
    edit("if kv_mask is None:",
         "earlier = torch.ones(n_q, n_kv, dtype=torch.bool, device=x_q.device).tril()\n"
         '        if kv_mask is None:\n            scores = scores.masked_fill(~earlier, float("-inf"))',
         "A causal mask is applied. The source is complete before the first target word is written, so it has no "
         "future to hide; only padding is hidden here.", see=PADDING, also={REAL: f"{REAL} & earlier"}),
    edit("scores = q",
         "kv_mask = kv_mask if n_q != n_kv or kv_mask is not None else torch.ones(batch, n_kv, dtype=torch.bool)\n"
         "        scores = q",
         "A causal mask is applied where both sequences are equally long. The source has no future to hide, however "
         "long it is; only padding is hidden here.", see=PADDING,
         also={REAL: f"{REAL} & (torch.ones(n_q, n_kv, dtype=torch.bool).tril() if n_q == n_kv else True)"}),
    edit("heads = (", "weights = weights.detach()\n        heads = (",
         "The weights are detached, so no gradient reaches queries and keys, and W_q and W_k are never trained."),
    edit("self.n_heads = d_model, n_heads", "self.n_heads = d_model, 1",
         "There is one head, whatever n_heads says. Cut queries, keys and values into n_heads slices, each with "
         "scores and weights of its own."),
    edit("scores = q",
         "q, k, v = (x.transpose(1, 2).reshape(batch, self.n_heads, -1, d_head) for x in (q, k, v))\n"
         "        scores = q",
         "Heads are cut without a transpose: `view(batch, n_heads, n, d_head)` assigns whole tokens to heads. Cut the "
         "last axis into (n_heads, d_head) first, then swap tokens and heads."),
    edit(f".transpose(1, 2){MERGED}", MERGED,
         "Heads are put together without a transpose: the axis of heads is still before that of tokens when the "
         "reshape merges them. Swap heads and tokens back, then merge the last two axes."),
    edit("scores = q",
         "q, k, v = (x.transpose(1, 2).flatten(2).unflatten(2, (-1, self.n_heads)).permute(0, 3, 1, 2) "
         "for x in (q, k, v))\n        scores = q",
         "Every n_heads-th number goes to the same head. Head h should get the h-th run of d_head neighboring "
         "numbers: cut into (n_heads, d_head), in this order."),
    edit(RESULTS, "heads, weights", "W_o is missing: the heads are side by side, but never mixed. Apply W_o to them."),
    edit(RESULTS, f"{RESULTS}.mean(1)",
         "The maps of all heads are combined into one. Return the map of each head, (batch, n_heads, n_q, n_kv); the "
         "caller can still average them."),
    edit(RESULTS, "weights, self.W_o(heads)",
         "Both results are right, but in the wrong order: return the output first, then the weights."),
    edit(RESULTS, "self.W_o(heads)",
         "Only the output is returned. Return the weights as well: output first, then weights."),
    edit(RESULTS, "self.W_o(heads) + x_q, weights",
         "x_q is added to the output. Return the layer's output alone; the block around the layer adds x_q."),
)  # fmt: skip
CrossAttention.mistakes(
    edit("if kv_mask is None:", "if True:", "kv_mask is accepted and never used."),
    edit(REAL, f"~{REAL}",
         "The mask is inverted: you hide the real tokens and read the padding. Here True means a real token; "
         "`nn.MultiheadAttention` wants the opposite."),
    edit(REAL, f"~{REAL}",
         "The mask is inverted, and a source that it hides completely gives nan. True means a real token; where a "
         "source has no real token at all, the context must be zeros.", also=NOT_RESCUED),
    edit(REAL, "kv_mask[:, None, :, None].expand(scores.shape)",
         "The mask is applied to the queries. kv_mask is about source tokens, the last axis of the scores: kv_mask[:, "
         "None, None, :]."),
    edit(REAL, "kv_mask[:, None, :].expand(scores.shape)",
         "The mask meets the heads: with one new axis, kv_mask[:, None] or kv_mask[None], its batch axis meets the "
         "axis of heads. It needs two new axes: kv_mask[:, None, None, :]."),
    edit(REAL, "kv_mask[:1, None, None, :]",
         "The mask of one sequence is used for the whole batch. Each source has its own length and its own row of "
         "kv_mask."),
    edit(HIDDEN, "scores",
         "The mask is applied after the softmax, so the share of the padding is lost and rows sum to less than one. "
         "Hide the scores, then take the softmax.", also={RESCUED: "scores"}),
    edit(ZEROED, f"{SOFTMAX} * real\n            weights = weights / weights.sum(dim=-1, keepdim=True)",
         "The weights are masked after the softmax and divided by their new sum. In algebra that is the same, but a "
         "padded token with a large score leaves nothing for the others, and an empty source is 0/0.",
         also={HIDDEN: "scores", RESCUED: "scores"}),
    edit(HIDDEN, "scores * real",
         "Hidden scores are multiplied by 0. A score of 0 is an ordinary score and gets weight; hidden means minus "
         "infinity.", also=NOT_RESCUED),
    edit(HIDDEN, "scores.masked_fill(~real, -1e9)",
         "A hidden score becomes a big finite number. A real score can be lower still, and a source without a real "
         "token then gets equal weights. Use minus infinity.", also=NOT_RESCUED),
    edit(HIDDEN, "scores.masked_fill(~real, -1e9)",
         "A hidden score becomes a big finite number, and its weight is set to 0 afterwards. Where a real score is "
         "lower still, the padding takes all the weight in the softmax. Use minus infinity.",
         also={RESCUED: "scores"}),
    edit(HIDDEN, "scores.masked_fill(~real, torch.finfo(scores.dtype).min)",
         "A source without a real token gets equal weights, since all its scores are equal: either they are the "
         "lowest finite number, or they were replaced to avoid nan. Its weights must be 0: set them after the softmax.",
         also=NOT_RESCUED),
    edit(RESCUED, "scores",
         "A source without a real token gives nan, because all its scores are minus infinity. Its weights and output "
         "must be 0.", also={ZEROED: SOFTMAX}),
    edit(HIDDEN, 'scores + torch.zeros_like(scores).masked_fill(~real, float("-inf"))',
         "Minus infinity is added to the scores, and the nan of an empty source is replaced by 0 afterwards. The "
         "output looks right, but the gradient passes through the nan and becomes nan in every parameter. Give the "
         "empty row other scores before the softmax.", also={RESCUED: "scores", ZEROED: f"{SOFTMAX}.nan_to_num(0.0)"}),
    edit(REAL, f"{REAL}.clone()\n            kv_mask |= ~kv_mask.any(dim=-1, keepdim=True)",
         "The caller's mask is changed. `|=`, `kv_mask[...] =` and methods whose names end in `_` write into their "
         "tensor: open a source without a real token in a new one."),
    edit(MERGED, f"{MERGED}.nan_to_num(0.0)",
         "The output of an empty source is repaired, but its weights are still nan. Repair the weights; the output "
         "follows.", also=NOT_RESCUED),
    edit("heads = (",
         "total = (scores - scores.amax(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)\n"
         "        weights = weights * total / (total + {})\n        heads = (",
         "A small number is added to every total, to avoid 0/0 in the empty row. But then no other row sums to "
         "exactly one. Change only the row that is empty.", each=(1e-6, 1e-8)),
    see=PADDING,
)  # fmt: skip
CrossAttention.mistakes(
    edit("W_q = nn.Linear(d_model, d_model, bias=False)", "W_q = nn.Linear(d_model, d_model)",
         "The layers have biases. Pass bias=False to all four: a projection in this course is a matrix and nothing "
         "else.", also={f"W_{name} = nn.Linear(d_model, d_model, bias=False)": f"W_{name} = nn.Linear(d_model, d_model)"
                        for name in "kvo"}),
    edit("W_o = nn.Linear(d_model, d_model, bias=False)", "W_o = nn.Linear(d_model, d_model)",
         "W_o has a bias. Pass bias=False there too: a query that reads nothing must give zeros, and a bias would be "
         "added to them."),
    edit("if x_kv.shape[0] != batch:",
         "batch = max(batch, len(x_kv))\n        x_q, x_kv = x_q.expand(batch, -1, -1), x_kv.expand(batch, -1, -1)\n"
         "        if x_kv.shape[0] != batch:",
         "Batches of different sizes are accepted. PyTorch silently broadcasts a batch of one, and every sentence is "
         "then translated from the same source. Compare the sizes and raise ValueError."),
    edit("scores = q",
         "if kv_mask is None:\n            kv_mask = torch.ones(batch, n_kv, dtype=torch.bool)\n        scores = q",
         "A tensor is made on the CPU in float32, whatever the inputs are, and is combined with scores of another "
         "dtype or on another device. Take both from an input: `dtype=x_q.dtype, device=x_q.device`, or "
         "`x_q.new_zeros(...)`.", see=PADDING),
    edit(" or d_model % n_heads", "",
         "The number of heads is not checked when the layer is made. Raise ValueError there if n_heads does not "
         "divide d_model, and not only when the layer is used."),
)  # fmt: skip


# hard_alignment ------------------------------------------------------------------------------------------------------

hard_alignment = Exercise(solutions.hard_alignment, section="From weights to an alignment", minutes=10, difficulty=1)


def _weights(rng, *shape) -> torch.Tensor:
    """Rows that sum to one, some of them pointed."""
    return (2 * normal(rng, *shape)).softmax(-1)


@hard_alignment.property(
    "averages the heads, then takes the largest",
    points=2,
    hint="First take the mean over dimension 1, the heads, which leaves (batch, n_q, n_kv). Then take the argmax "
    "along the last dimension.",
)
def averaged_first(rng):
    # Two heads lean to token 0, one is sure of token 2: votes and averages part.
    yield dict(weights=torch.tensor([[[[0.5, 0.1, 0.4]], [[0.5, 0.1, 0.4]], [[0.0, 0.1, 0.9]]]], dtype=torch.float64))
    yield dict(weights=_weights(rng, 2, 3, 5, 7))
    yield dict(weights=_weights(rng, 4, 4, 4, 4))
    yield dict(weights=torch.tensor([[[[0.49999, 0.50001]]]], dtype=torch.float64))


@hard_alignment.property(
    "gives one source position for each query, for one head or many",
    points=1,
    hint="The result has the shape (batch, n_q) and counts source tokens from 0.",
)
def one_for_each_query(rng):
    yield dict(weights=_weights(rng, 6, 1, 3, 5))
    yield dict(weights=_weights(rng, 3, 5, 8, 4).to(torch.float32))


@hard_alignment.property(
    "gives positions as whole numbers",
    points=1,
    probe=probes.whole,
    hint="`argmax` gives whole numbers already. A position must be usable as an index.",
)
def whole_positions(rng):
    yield dict(weights=_weights(rng, 2, 3, 4, 6))


hard_alignment.unchanged(
    lambda rng: dict(weights=_weights(rng, 3, 4, 6, 5)),
    title="leaves its input as it was",
    hint="Make new tensors, and do not write into the weights.",
)

AVERAGE = "weights.mean(dim=1)"
BEST = f"{AVERAGE}.argmax(dim=-1)"

hard_alignment.mistakes(
    edit(BEST, "weights.argmax(dim=-1).mode(dim=1).values",
         "Each head votes for its largest weight and the majority wins. A head that puts nearly all its weight on one "
         "token then counts no more than one that spreads it: average the weights first, then take the argmax."),
    edit(BEST, "weights.argmax(dim=-1).double().mean(dim=1).round().long()",
         "The positions are averaged over the heads. The middle of tokens 0 and 6 is token 3, which no head read: "
         "average the weights, then take the argmax."),
    edit(AVERAGE, "weights.amax(dim=1)",
         "You take the largest weight of any head. A single head then decides alone. Average over the heads first."),
    edit(AVERAGE, "weights[:, 0]", "Only the first head is used. Average over all heads first."),
    edit(AVERAGE, "weights[:, -1]", "Only the last head is used. Average over all heads first."),
    edit("argmax(dim=-1)", "argmax(dim=-2)",
         "The argmax runs over the queries: for each source token you find the query that reads it most. Find what "
         "each query reads most: use the last axis."),
    edit(AVERAGE, "weights.mean(dim=0)", "The average runs over the batch, dimension 0. The heads are dimension 1."),
    edit(AVERAGE, "weights.mean(dim=2)", "The average runs over the queries, dimension 2. The heads are dimension 1."),
    edit(AVERAGE, "weights",
         "There is one alignment for each head. Average the weights over the heads before the argmax."),
    edit("argmax", "amax",
         "These are the largest weights, not their positions. `argmax` gives the position, `max` the value."),
    edit(AVERAGE, f"{AVERAGE}.half()",
         "The weights are rounded to a narrower dtype, in which those that differ by little become equal. Keep "
         "the dtype that they have."),
    edit(BEST, f"{BEST} + 1", "The positions are counted from 1. In this course, as in Python, they start at 0."),
    edit("argmax", "argmin",
         "You return the smallest weight's position. The alignment is the position of the largest weight: argmax."),
    edit(AVERAGE, "weights.log().sum(dim=1)",
         "The heads are multiplied. A single head with no weight on a token then rules it out. Take the average "
         "instead."),
    edit(BEST, f"torch.nn.functional.one_hot({BEST}, weights.shape[-1])",
         "The result is a table of 0 and 1. Return the positions themselves, one whole number for each query."),
    edit(BEST, f"{BEST}.to(weights.dtype)",
         "The positions are right, but they are floats. A position is used as an index: keep what `argmax` gives."),
)  # fmt: skip


# attention_multiply_adds ---------------------------------------------------------------------------------------------

COST = "What it costs"
attention_multiply_adds = Exercise(solutions.attention_multiply_adds, section=COST, minutes=5, difficulty=1)


def _sizes(rng, low=2, high=40):
    """Three sizes that all differ."""
    n_q, n_kv, d_model = (int(size) for size in rng.choice(np.arange(low, high), size=3, replace=False))
    return dict(n_q=n_q, n_kv=n_kv, d_model=d_model)


@attention_multiply_adds.property(
    "counts the scores and the weighted sum",
    points=2,
    hint="There are n_q times n_kv scores, and each sums d_model products (over all heads together). The weighted "
    "sum takes the same number again.",
)
def counts(rng):
    yield dict(n_q=13, n_kv=7, d_model=64)
    yield dict(n_q=1, n_kv=3, d_model=5)
    yield _sizes(rng)
    yield _sizes(rng, 1000, 9000)
    yield dict(n_q=0, n_kv=5, d_model=8)


@attention_multiply_adds.property(
    "gives a whole number",
    points=1,
    probe=probes.whole,
    hint="A product of whole numbers is a whole number, as long as no factor is a float such as 2.0.",
)
def whole_number(rng):
    yield _sizes(rng)
    yield _sizes(rng)


COUNT = "2 * n_q * n_kv * d_model"

attention_multiply_adds.mistakes(
    edit(COUNT, "int(torch.tensor([2.0, n_q, n_kv, d_model]).prod())",
         "The product is taken in floats of single precision, which keep about seven digits. Multiply Python's whole "
         "numbers; they are exact, however large."),
    edit(COUNT, "n_q * n_kv * (d_model - 1) + n_q * d_model * (n_kv - 1)",
         "Only the additions are counted, one fewer than products in each sum. Every product is one multiply-add, the "
         "first of a sum too: d_model for a score, n_kv for a number of the output."),
    edit("2 * ", "",
         "Only one of the two products is counted. There are the scores, and there is the weighted sum of the values: "
         "equally many multiply-adds each."),
    edit("2 * ", "4 * ",
         "A multiply-add is counted as two operations. That would be the count in FLOPs; here one multiplication with "
         "its addition counts as one."),
    edit(COUNT, "2 * n_q * n_q * d_model",
         "You count n_q times n_q pairs, as in self-attention. Here each of the n_q queries meets each of the n_kv "
         "source tokens."),
    edit(COUNT, "2 * n_kv * n_kv * d_model",
         "You count n_kv times n_kv pairs. Source tokens do not meet each other here: each of the n_q queries meets "
         "each of the n_kv source tokens."),
    edit(COUNT, "2 * (n_q + n_kv) ** 2 * d_model",
         "You count all pairs in one long sequence made of both. That is concatenation; in cross-attention only pairs "
         "of a query with a source token are compared."),
    edit(COUNT, f"{COUNT} + 2 * (n_q + n_kv) * d_model**2",
         "The projections are counted as well. Count only the scores and the weighted sum."),
    edit(COUNT, f"{COUNT} + n_q * n_kv",
         "The softmax is counted as well. Count only the scores and the weighted sum."),
    edit(" * d_model", "",
         "You count the entries of the map, not the work for each. Every score sums d_model products, over all heads "
         "together."),
    edit("* d_model", "* d_model**2",
         "d_model is squared. That is the cost of a projection; a score sums d_model products, once."),
    edit("n_q * n_kv", "(n_q + n_kv)",
         "Both tokens of a pair are counted, (n_q + n_kv) instead of n_q times n_kv. Every query meets every source "
         "token."),
    edit("2 * ", "2.0 * ",
         "The count is right, but it is a float. Leave factors such as 2.0 and the division `/` out: the product of "
         "whole numbers is whole."),
    edit("< 0", "<= 0",
         "Zero is refused. A size of 0 is allowed; there is then nothing to compute, so the count is 0.",
         also={'f"a size is negative: n_q={n_q}, n_kv={n_kv}, d_model={d_model}"': '"a size is not positive"'}),
)  # fmt: skip


# the written question ------------------------------------------------------------------------------------------------

written = Written(
    points=4,
    rubric="""
1 point: in nearly every row of the map, the largest weight is on the neighbor of the right word; this is what was
measured, and it says where values were read, not what the model knows or needs.
1 point: an encoder with self-attention moves information between source positions, so the vector at the neighbor may
carry the word that is needed (or: the right word may also come from the decoder's own context, or from elimination).
1 point: a row of weights belongs to the word that is predicted, not to the word that is fed in; comparing it with the
wrong one shifts every alignment by one. (Accept any other concrete source of a shift, such as a start token.)
1 point: a feasible experiment with what would follow from each outcome: change or replace the source word at the right
position, and at the neighbor, and see which change alters the translation; or train with an encoder that cannot mix
positions; or block the position and look at the output. "Look at more sentences" alone gets half.
""",
)
