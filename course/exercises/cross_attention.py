"""Exercises of the cross-attention chapter: what must hold, on which inputs, and the mistakes that are common.

Batch, heads, queries, source tokens and widths all differ wherever they can, so that a swapped sequence shows. Square
cases are there for mistakes that cannot run on anything else, such as keys made from the queries' own sequence; in one
case the batch is as large as the number of heads, since a mask that meets the heads cannot run otherwise.
"""

import numpy as np
import torch
from torch import nn

from attnlab.checking import probes
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


@CrossAttention.property(
    "asks with one sequence and reads from the other",
    points=3,
    hint="W_q projects x_q. W_k and W_v project x_kv. Each head attends with its own slice; the heads are put side "
    "by side and multiplied by W_o. Return the output, then the weights of every head.",
)
def asks_and_reads(rng):
    eye = {f"W_{name}.weight": torch.eye(4, dtype=torch.float64) for name in "qkvo"}
    yield dict(init=dict(d_model=4, n_heads=1), weights=eye, x_q=TWO_TOKENS, x_kv=CAT_SAT)
    yield dict(
        init=dict(d_model=6, n_heads=3),
        weights=projections(rng, 6),
        x_q=normal(rng, 2, 4, 6),
        x_kv=normal(rng, 2, 5, 6),
    )
    yield dict(
        init=dict(d_model=4, n_heads=2),
        weights=projections(rng, 4),
        x_q=normal(rng, 2, 3, 4),
        x_kv=normal(rng, 2, 3, 4),
    )


@CrossAttention.property(
    "gives padded source tokens no weight",
    points=2,
    hint="kv_mask has one entry for each source token, and those are the last axis of the scores: kv_mask[:, None, "
    "None, :] has the right axes for every head and every query. Where it is False, set the score to minus "
    "infinity, before the softmax.",
)
def padded_tokens(rng):
    yield dict(
        init=dict(d_model=4, n_heads=2),
        weights=projections(rng, 4),
        x_q=normal(rng, 3, 4, 4),
        x_kv=normal(rng, 3, 4, 4),
        kv_mask=_mask("1110", "1111", "0110"),
    )
    yield dict(
        init=dict(d_model=6, n_heads=3),
        weights=projections(rng, 6),
        x_q=normal(rng, 3, 2, 6),
        x_kv=normal(rng, 3, 5, 6),
        kv_mask=_mask("10011", "11111", "11100"),
    )


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
    yield dict(
        init=dict(d_model=4, n_heads=2),
        weights=projections(rng, 4),
        x_q=normal(rng, 2, 3, 4),
        x_kv=normal(rng, 2, 5, 4),
        kv_mask=_mask("00000", "11000"),
    )
    yield dict(
        init=dict(d_model=4, n_heads=2),
        weights=projections(rng, 4),
        x_q=normal(rng, 1, 3, 4),
        x_kv=normal(rng, 1, 3, 4),
        kv_mask=_mask("000"),
    )


@CrossAttention.property(
    "sends the right gradients to inputs and projections, also from an empty source",
    points=2,
    rtol=1e-8,
    atol=1e-11,
    probe=probes.gradients,
    hint="A nan that is replaced afterwards can still be in the gradient, so make sure that it never arises: give an "
    "empty row other scores before the softmax, and set its weights to 0 after it.",
)
def right_gradients(rng):
    for width, mask in ((2, None), (4, _mask("00000", "11011"))):
        yield dict(
            init=dict(d_model=width, n_heads=2),
            weights=projections(rng, width),
            x_q=normal(rng, 2, 3, width),
            x_kv=normal(rng, 2, 5, width),
            kv_mask=mask,
            upstream=[normal(rng, 2, 3, width), normal(rng, 2, 2, 3, 5)],
        )


@CrossAttention.property(
    "moves one row when one query changes, and none when padding does",
    points=1,
    probe=probes.moved,
    hint="A row of the output depends on its own query, on the real source tokens, and on nothing else.",
)
def perturbed(rng):
    case = dict(
        init=dict(d_model=4, n_heads=2),
        weights=projections(rng, 4),
        x_q=normal(rng, 3, 4, 4),
        x_kv=normal(rng, 3, 5, 4),
        kv_mask=_mask("11110", "11011", "11100"),
    )
    yield dict(case, name="x_q", replacement=_replaced(case["x_q"], 1, 2, normal(rng, 4)))
    yield dict(case, name="x_kv", replacement=_replaced(case["x_kv"], 1, 2, normal(rng, 4)))
    yield dict(case, name="x_kv", replacement=_replaced(case["x_kv"], 1, 4, normal(rng, 4)))
    yield dict(case, name="x_kv", replacement=_replaced(case["x_kv"], 2, 1, normal(rng, 4)))


@CrossAttention.property(
    "works in the precision and on the device of its inputs",
    points=1,
    probe=probes.elsewhere,
    rtol=0.1,
    atol=0.1,
    hint="Make each new tensor like those you have: `x_q.new_zeros(...)`, `torch.zeros_like(...)`, or with "
    "`dtype=x_q.dtype, device=x_q.device`.",
)
def placed(rng):
    for mask, dtype in ((None, torch.float32), (_mask("11111", "11010"), torch.float32), (None, torch.bfloat16)):
        yield dict(
            init=dict(d_model=4, n_heads=2),
            weights=projections(rng, 4, dtype=dtype),
            x_q=normal(rng, 2, 3, 4, dtype=dtype),
            x_kv=normal(rng, 2, 5, 4, dtype=dtype),
            kv_mask=mask,
        )


@CrossAttention.property(
    "has the projections W_q, W_k, W_v, W_o and no bias",
    points=1,
    hint="Four layers nn.Linear(d_model, d_model, bias=False), under these names and no others.",
)
def structure(rng):
    for n_heads in (int(rng.integers(2, 6)), 1):
        yield dict(init=dict(d_model=n_heads * int(rng.integers(2, 12)), n_heads=n_heads))


@CrossAttention.property(
    "refuses sizes that do not fit",
    points=1,
    probe=probes.error_of,
    hint="Raise ValueError when n_heads does not divide d_model, when an input has another width, and when the batches "
    "differ. PyTorch would silently broadcast a batch of one.",
)
def refuses(rng):
    made, weights = dict(d_model=2, n_heads=2), projections(rng, 2)
    for d_model, n_heads in ((10, 3), (7, 2)):
        yield dict(init=dict(d_model=d_model, n_heads=n_heads))
    # A batch of one broadcasts.
    for size_q, size_kv in (
        ((2, 3, 2), (2, 4, 5)),
        ((2, 3, 5), (2, 4, 2)),
        ((1, 3, 2), (2, 4, 2)),
        ((2, 3, 2), (1, 4, 2)),
        ((1, 2, 2), (1, 3, 2)),
    ):
        yield dict(init=made, weights=weights, x_q=normal(rng, *size_q), x_kv=normal(rng, *size_kv))


@CrossAttention.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    hint="`masked_fill_`, `/=` and other operations in place write into the caller's tensor. Make a new one.",
)
def inputs_stay(rng):
    # Queries of 0, so that this point does not depend on the scores.
    weights = projections(rng, 2)
    weights["W_q.weight"] = torch.zeros(2, 2, dtype=torch.float64)
    yield dict(
        init=dict(d_model=2, n_heads=1),
        weights=weights,
        x_q=normal(rng, 1, 2, 2),
        x_kv=normal(rng, 1, 3, 2),
        kv_mask=_mask("110"),
    )


class _Parts(solutions.CrossAttention):
    """The correct answer in parts, so that each mistake changes one part."""

    def forward(self, x_q, x_kv, kv_mask=None):
        self.refuse(x_q, x_kv)
        q, k, v = map(self.split, self.sources(x_q, x_kv))
        weights = self.weigh(q @ k.mT / self.scale(q, k), kv_mask)
        return self.results(self.merge(weights @ v), weights)

    def refuse(self, x_q, x_kv):
        if len(x_q) != len(x_kv):
            raise ValueError("sizes do not fit")

    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_kv), self.W_v(x_kv)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def scale(self, q, k):
        return q.shape[-1] ** 0.5

    def weigh(self, scores, kv_mask):
        if kv_mask is None:
            return scores.softmax(-1)
        return _zero_where_hidden(scores, kv_mask[:, None, None, :])

    def merge(self, heads):
        return heads.transpose(1, 2).flatten(-2)

    def results(self, merged, weights):
        return self.W_o(merged), weights


def _zero_where_hidden(scores, visible):
    """The right masked softmax; `visible` broadcasts to the scores."""
    visible = visible.expand(scores.shape)
    scores = scores.masked_fill(~visible, -torch.inf).masked_fill(~visible.any(-1, keepdim=True), 0.0)
    return scores.softmax(-1).masked_fill(~visible, 0.0)


@CrossAttention.misconception(
    "The keys are made from x_q, so the target is compared with itself and the scores never use the source. Keys and "
    "values both come from x_kv."
)
class KeysFromTheDecoder(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_q), self.W_v(x_kv)


@CrossAttention.misconception(
    "The values are made from x_q, so the target is compared with the source but its own tokens are mixed. Values "
    "belong to the keys, and both come from x_kv."
)
class ValuesFromTheDecoder(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_kv), self.W_v(x_q)


@CrossAttention.misconception(
    "The queries are made from x_kv. The queries come from x_q; only keys and values come from the source."
)
class QueriesFromTheSource(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_kv), self.W_k(x_kv), self.W_v(x_kv)


@CrossAttention.misconception(
    "Queries, keys and values all come from x_q: that is self-attention, and the source is never read. Keys and values "
    "come from x_kv."
)
class SourceNeverRead(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_q), self.W_v(x_q)

    def weigh(self, scores, kv_mask):
        return scores.softmax(-1) if kv_mask is None else super().weigh(scores, kv_mask)


@CrossAttention.misconception(
    "The roles are swapped: your queries come from the source, your keys and values from x_q. The output needs one "
    "row per token of x_q, so x_q makes the queries and x_kv the keys and values."
)
class RolesSwapped(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_kv), self.W_k(x_q), self.W_v(x_q)


@CrossAttention.misconception(
    "The keys are used as values, and W_v never is. Keys decide the weights; what is mixed is W_v of the source."
)
class KeysAsValues(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_kv), self.W_k(x_kv)


@CrossAttention.misconception("The values are the source tokens themselves. Values are projected as well: W_v of x_kv.")
class ValuesNotProjected(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_k(x_kv), x_kv


@CrossAttention.misconception(
    "W_q is applied to both sequences. The keys of the source have their own projection, W_k."
)
class OneProjectionForBoth(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_q(x_kv), self.W_v(x_kv)


@CrossAttention.misconception("W_k and W_v are exchanged: scores need W_k of the source, the blend needs W_v.")
class KeysAndValuesExchanged(_Parts):
    def sources(self, x_q, x_kv):
        return self.W_q(x_q), self.W_v(x_kv), self.W_k(x_kv)


def _made_by(place, name):
    """A layer in which one of queries, keys and values (place 0 to 2) comes from another map, or from none."""

    class MadeByAnother(_Parts):
        def sources(self, x_q, x_kv):
            made = [self.W_q(x_q), self.W_k(x_kv), self.W_v(x_kv)]
            given = (x_q, x_kv, x_kv)[place]
            made[place] = getattr(self, name)(given) if name else given
            return made

    return MadeByAnother


for _place, (_what, _own) in enumerate((("Queries", "W_q"), ("Keys", "W_k"), ("Values", "W_v"))):
    for _name in ("W_q", "W_k", "W_v", "W_o", None):
        if _name != _own and (_place, _name) not in {(1, "W_q"), (2, None), (2, "W_k")}:  # these are above
            CrossAttention.misconception(
                f"{_what} are made by {_name}. They come from {_own}."
                if _name
                else f"{_what} are not projected. They come from {_own}."
            )(_made_by(_place, _name))


@CrossAttention.misconception(
    "The scores are divided by the square root of d_model. A dot product here sums over one head, so the width that "
    "counts is d_model / n_heads."
)
class RootOfModelWidth(_Parts):
    def scale(self, q, k):
        return self.d_model**0.5


@CrossAttention.misconception(
    "The scores are not scaled. Divide them by the square root of the width of one head, before the softmax."
)
class Unscaled(_Parts):
    def scale(self, q, k):
        return 1.0


@CrossAttention.misconception(
    "The scores are divided by the width of a head itself. Scores grow with its square root; divide by that."
)
class DividedByWidth(_Parts):
    def scale(self, q, k):
        return q.shape[-1]


@CrossAttention.misconception(
    "The softmax runs over the queries: your columns sum to one. Each query divides a weight of one among the source "
    "tokens, which are the last axis."
)
class OverTheQueries(_Parts):
    def weigh(self, scores, kv_mask):
        if kv_mask is not None:
            visible = kv_mask[:, None, None, :]
            return scores.masked_fill(~visible, -torch.inf).softmax(-2)
        return scores.softmax(-2)


@CrossAttention.misconception(
    "A causal mask is applied. The source is complete before the first target word is written, so it has no future "
    "to hide; only padding is hidden here.",
    section=PADDING,
)
class Causal(_Parts):
    def weigh(self, scores, kv_mask):
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return _zero_where_hidden(scores, visible if kv_mask is None else visible & kv_mask[:, None, None, :])


@CrossAttention.misconception(
    "There is one head, whatever n_heads says. Cut queries, keys and values into n_heads slices, each with scores and "
    "weights of its own."
)
class OneHeadOnly(_Parts):
    def split(self, x):
        return x[:, None]


@CrossAttention.misconception(
    "Heads are cut without a transpose: `view(batch, n_heads, n, d_head)` assigns whole tokens to heads. Cut the "
    "last axis into (n_heads, d_head) first, then swap tokens and heads."
)
class SplitWithoutTranspose(_Parts):
    def split(self, x):
        return x.reshape(len(x), self.n_heads, x.shape[1], -1)


@CrossAttention.misconception(
    "Heads are put together without a transpose: the axis of heads is still before that of tokens when the reshape "
    "merges them. Swap heads and tokens back, then merge the last two axes."
)
class MergedWithoutTranspose(_Parts):
    def merge(self, heads):
        return heads.reshape(len(heads), heads.shape[2], -1)


@CrossAttention.misconception(
    "Every n_heads-th number goes to the same head. Head h should get the h-th run of d_head neighboring numbers: "
    "cut into (n_heads, d_head), in this order."
)
class HeadsInterleaved(_Parts):
    def split(self, x):
        return x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)


@CrossAttention.misconception("W_o is missing: the heads are side by side, but never mixed. Apply W_o to them.")
class NoOutputProjection(_Parts):
    def results(self, merged, weights):
        return merged, weights


@CrossAttention.misconception(
    "The maps of all heads are combined into one. Return the map of each head, (batch, n_heads, n_q, n_kv); the "
    "caller can still average them."
)
class WeightsAveraged(_Parts):
    def results(self, merged, weights):
        return self.W_o(merged), weights.mean(1)


@CrossAttention.misconception(
    "Both results are right, but in the wrong order: return the output first, then the weights."
)
class WeightsFirst(_Parts):
    def results(self, merged, weights):
        return weights, self.W_o(merged)


@CrossAttention.misconception("Only the output is returned. Return the weights as well: output first, then weights.")
class OutputOnly(_Parts):
    def results(self, merged, weights):
        return self.W_o(merged)


@CrossAttention.misconception(
    "x_q is added to the output. Return the layer's output alone; the block around the layer adds x_q."
)
class ResidualInside(_Parts):
    def forward(self, x_q, x_kv, kv_mask=None):
        output, weights = super().forward(x_q, x_kv, kv_mask)
        return output + x_q, weights


@CrossAttention.misconception("kv_mask is accepted and never used.", section=PADDING)
class MaskIgnored(_Parts):
    def weigh(self, scores, kv_mask):
        return scores.softmax(-1)


@CrossAttention.misconception(
    "The mask is inverted: you hide the real tokens and read the padding. Here True means a real token; "
    "`nn.MultiheadAttention` wants the opposite.",
    section=PADDING,
)
class Polarity(_Parts):
    def weigh(self, scores, kv_mask):
        return super().weigh(scores, None if kv_mask is None else ~kv_mask)


@CrossAttention.misconception(
    "The mask is inverted, and a source that it hides completely gives nan. True means a real token; where a source "
    "has no real token at all, the context must be zeros.",
    section=PADDING,
)
class PolarityAndNan(_Parts):
    def weigh(self, scores, kv_mask):
        return (scores if kv_mask is None else scores.masked_fill(kv_mask[:, None, None, :], -torch.inf)).softmax(-1)


@CrossAttention.misconception(
    "The mask is applied to the queries. kv_mask is about source tokens, the last axis of the scores: kv_mask[:, "
    "None, None, :].",
    section=PADDING,
)
class MaskOnTheQueries(_Parts):
    def weigh(self, scores, kv_mask):
        return scores.softmax(-1) if kv_mask is None else _zero_where_hidden(scores, kv_mask[:, None, :, None])


@CrossAttention.misconception(
    "The mask meets the heads: with one new axis, kv_mask[:, None] or kv_mask[None], its batch axis meets the "
    "axis of heads. It needs two new axes: kv_mask[:, None, None, :].",
    section=PADDING,
)
class MaskOnTheHeads(_Parts):
    def weigh(self, scores, kv_mask):
        return scores.softmax(-1) if kv_mask is None else _zero_where_hidden(scores, kv_mask[:, None, :])


@CrossAttention.misconception(
    "The mask of one sequence is used for the whole batch. Each source has its own length and its own row of kv_mask.",
    section=PADDING,
)
class FirstMaskForAll(_Parts):
    def weigh(self, scores, kv_mask):
        return super().weigh(scores, kv_mask if kv_mask is None else kv_mask[:1].expand_as(kv_mask))


@CrossAttention.misconception(
    "The mask is applied after the softmax, so the share of the padding is lost and rows sum to less than one. Hide "
    "the scores, then take the softmax.",
    section=PADDING,
)
class AfterTheSoftmax(_Parts):
    def weigh(self, scores, kv_mask):
        weights = scores.softmax(-1)
        return weights if kv_mask is None else weights * kv_mask[:, None, None, :]


@CrossAttention.misconception(
    "The weights are masked after the softmax and divided by their new sum. On paper that is the same, but a padded "
    "token with a large score leaves nothing for the others, and an empty source is 0/0.",
    section=PADDING,
)
class SharedOutAgain(_Parts):
    def weigh(self, scores, kv_mask):
        weights = scores.softmax(-1)
        if kv_mask is not None:
            weights = weights * kv_mask[:, None, None, :]
            weights = weights / weights.sum(-1, keepdim=True)
        return weights


@CrossAttention.misconception(
    "Hidden scores are multiplied by 0. A score of 0 is an ordinary score and gets weight; hidden means minus "
    "infinity.",
    section=PADDING,
)
class ZeroScore(_Parts):
    def weigh(self, scores, kv_mask):
        return (scores if kv_mask is None else scores * kv_mask[:, None, None, :]).softmax(-1)


@CrossAttention.misconception(
    "A hidden score becomes a big finite number. A real score can be lower still, and a source without a real token "
    "then gets equal weights. Use minus infinity.",
    section=PADDING,
)
class FiniteFill(_Parts):
    def weigh(self, scores, kv_mask):
        return (scores if kv_mask is None else scores.masked_fill(~kv_mask[:, None, None, :], -1e9)).softmax(-1)


@CrossAttention.misconception(
    "A hidden score becomes a big finite number, and its weight is set to 0 afterwards. Where a real score is lower "
    "still, the padding takes all the weight in the softmax. Use minus infinity.",
    section=PADDING,
)
class FiniteFillThenZero(_Parts):
    def weigh(self, scores, kv_mask):
        if kv_mask is None:
            return scores.softmax(-1)
        visible = kv_mask[:, None, None, :]
        return scores.masked_fill(~visible, -1e9).softmax(-1) * visible


@CrossAttention.misconception(
    "Hidden scores get the lowest finite number. A source without a real token then has equal scores and gets equal "
    "weights; they must be 0. Use minus infinity.",
    section=PADDING,
)
class LowestNumber(_Parts):
    def weigh(self, scores, kv_mask):
        lowest = torch.finfo(scores.dtype).min
        return (scores if kv_mask is None else scores.masked_fill(~kv_mask[:, None, None, :], lowest)).softmax(-1)


@CrossAttention.misconception(
    "A source without a real token gives nan, because all its scores are minus infinity. Its weights and output must "
    "be 0.",
    section=PADDING,
)
class NanOnEmptySource(_Parts):
    def weigh(self, scores, kv_mask):
        return (scores if kv_mask is None else scores.masked_fill(~kv_mask[:, None, None, :], -torch.inf)).softmax(-1)


@CrossAttention.misconception(
    "Minus infinity is added to the scores, and the nan of an empty source is replaced by 0 afterwards. The output "
    "looks right, but the gradient passes through the nan and becomes nan in every parameter. Give the empty row "
    "other scores before the softmax.",
    section=PADDING,
)
class NanReplacedAfterwards(_Parts):
    def weigh(self, scores, kv_mask):
        if kv_mask is None:
            return scores.softmax(-1)
        bias = torch.zeros_like(kv_mask, dtype=scores.dtype).masked_fill(~kv_mask, -torch.inf)
        return (scores + bias[:, None, None, :]).softmax(-1).nan_to_num(0.0)


@CrossAttention.misconception(
    "The output of an empty source is repaired, but its weights are still nan. Repair the weights; the output follows.",
    section=PADDING,
)
class NanLeftInWeights(NanOnEmptySource):
    def merge(self, heads):
        return super().merge(heads).nan_to_num(0.0)


def _with_epsilon(size):
    class WithEpsilon(_Parts):
        def weigh(self, scores, kv_mask):
            visible = torch.ones_like(scores, dtype=torch.bool) if kv_mask is None else kv_mask[:, None, None, :]
            scores = scores.masked_fill(~visible, -torch.inf)
            top = scores.amax(-1, keepdim=True)
            e = (scores - top.masked_fill(top.isinf(), 0.0)).exp()
            return e / (e.sum(-1, keepdim=True) + size)

    return WithEpsilon


for _size in (1e-6, 1e-8):
    CrossAttention.misconception(
        "A small number is added to every total, to avoid 0/0 in the empty row. But then no other row sums to "
        "exactly one. Change only the row that is empty.",
        section=PADDING,
    )(_with_epsilon(_size))


@CrossAttention.misconception(
    "The layers have biases. Pass bias=False to all four: a projection in this course is a matrix and nothing else."
)
class Biases(_Parts):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model))


@CrossAttention.misconception(
    "W_o has a bias. Pass bias=False there too: a query that reads nothing must give zeros, and a bias would be "
    "added to them."
)
class BiasInOutput(_Parts):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.W_o = nn.Linear(d_model, d_model)


@CrossAttention.misconception(
    "Batches of different sizes are accepted. PyTorch silently broadcasts a batch of one, and every sentence is then "
    "translated from the same source. Compare the sizes and raise ValueError."
)
class BatchesBroadcast(_Parts):
    def refuse(self, x_q, x_kv):
        pass


@CrossAttention.misconception(
    "A tensor is made on the CPU in float32, whatever the inputs are, and is combined with scores of another dtype "
    "or on another device. Take both from an input: `dtype=x_q.dtype, device=x_q.device`, or `x_q.new_zeros(...)`.",
    section=PADDING,
)
class MaskMadeElsewhere(_Parts):
    def weigh(self, scores, kv_mask):
        kv_mask = torch.ones(scores.shape[0], scores.shape[-1], dtype=torch.bool) if kv_mask is None else kv_mask
        return super().weigh(scores, kv_mask)


@CrossAttention.misconception(
    "The number of heads is not checked when the layer is made. Raise ValueError there if n_heads does not divide "
    "d_model, and not only when the layer is used."
)
class HeadsNotChecked(_Parts):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, 1)
        self.n_heads = n_heads


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


@hard_alignment.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    hint="Make new tensors, and do not write into the weights.",
)
def weights_stay(rng):
    yield dict(weights=_weights(rng, 3, 4, 6, 5))


@hard_alignment.misconception(
    "Each head votes for its largest weight and the majority wins. A head that puts nearly all its weight on one "
    "token then counts no more than one that spreads it: average the weights first, then take the argmax."
)
def majority_vote(weights):
    return weights.argmax(-1).mode(dim=1).values


@hard_alignment.misconception(
    "The positions are averaged over the heads. The middle of tokens 0 and 6 is token 3, which no head read: "
    "average the weights, then take the argmax."
)
def mean_position(weights):
    return weights.argmax(-1).double().mean(1).round().long()


@hard_alignment.misconception(
    "You take the largest weight of any head. A single head then decides alone. Average over the heads first."
)
def loudest_head(weights):
    return weights.amax(1).argmax(-1)


@hard_alignment.misconception("Only the first head is used. Average over all heads first.")
def first_head(weights):
    return weights[:, 0].argmax(-1)


@hard_alignment.misconception("Only the last head is used. Average over all heads first.")
def last_head(weights):
    return weights[:, -1].argmax(-1)


@hard_alignment.misconception(
    "The argmax runs over the queries: for each source token you find the query that reads it most. Find what each "
    "query reads most: use the last axis."
)
def over_the_queries(weights):
    return weights.mean(1).argmax(-2)


@hard_alignment.misconception("The average runs over the batch, dimension 0. The heads are dimension 1.")
def batch_averaged(weights):
    return weights.mean(0).argmax(-1)


@hard_alignment.misconception("The average runs over the queries, dimension 2. The heads are dimension 1.")
def queries_averaged(weights):
    return weights.mean(2).argmax(-1)


@hard_alignment.misconception(
    "There is one alignment for each head. Average the weights over the heads before the argmax."
)
def each_head(weights):
    return weights.argmax(-1)


@hard_alignment.misconception(
    "These are the largest weights, not their positions. `argmax` gives the position, `max` the value."
)
def values_not_positions(weights):
    return weights.mean(1).amax(-1)


@hard_alignment.misconception("The positions are counted from 1. In this course, as in Python, they start at 0.")
def counted_from_one(weights):
    return weights.mean(1).argmax(-1) + 1


@hard_alignment.misconception(
    "You return the smallest weight's position. The alignment is the position of the largest weight: argmax."
)
def smallest(weights):
    return weights.mean(1).argmin(-1)


@hard_alignment.misconception(
    "The heads are multiplied. A single head with no weight on a token then rules it out. Take the average instead."
)
def heads_multiplied(weights):
    return weights.log().sum(1).argmax(-1)


@hard_alignment.misconception(
    "The result is a table of 0 and 1. Return the positions themselves, one whole number for each query."
)
def table_of_ones(weights):
    best = weights.mean(1).argmax(-1)
    return nn.functional.one_hot(best, weights.shape[-1])


@hard_alignment.misconception(
    "The positions are right, but they are floats. A position is used as an index: keep what `argmax` gives."
)
def positions_as_floats(weights):
    return weights.mean(1).argmax(-1).to(weights.dtype)


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


@attention_multiply_adds.misconception(
    "Only one of the two products is counted. There are the scores, and there is the weighted sum of the values: "
    "equally many multiply-adds each."
)
def half(n_q, n_kv, d_model):
    return n_q * n_kv * d_model


@attention_multiply_adds.misconception(
    "A multiply-add is counted as two operations. That would be the count in FLOPs; here one multiplication with its "
    "addition counts as one."
)
def flops(n_q, n_kv, d_model):
    return 4 * n_q * n_kv * d_model


@attention_multiply_adds.misconception(
    "You count n_q times n_q pairs, as in self-attention. Here each of the n_q queries meets each of the n_kv source "
    "tokens."
)
def square_of_queries(n_q, n_kv, d_model):
    return 2 * n_q * n_q * d_model


@attention_multiply_adds.misconception(
    "You count n_kv times n_kv pairs. Source tokens do not meet each other here: each of the n_q queries meets each of "
    "the n_kv source tokens."
)
def square_of_source(n_q, n_kv, d_model):
    return 2 * n_kv * n_kv * d_model


@attention_multiply_adds.misconception(
    "You count all pairs in one long sequence made of both. That is concatenation; in cross-attention only pairs of "
    "a query with a source token are compared."
)
def concatenated(n_q, n_kv, d_model):
    return 2 * (n_q + n_kv) ** 2 * d_model


@attention_multiply_adds.misconception(
    "The projections are counted as well. Count only the scores and the weighted sum."
)
def with_projections(n_q, n_kv, d_model):
    return 2 * n_q * n_kv * d_model + 2 * (n_q + n_kv) * d_model**2


@attention_multiply_adds.misconception("The softmax is counted as well. Count only the scores and the weighted sum.")
def with_softmax(n_q, n_kv, d_model):
    return 2 * n_q * n_kv * d_model + n_q * n_kv


@attention_multiply_adds.misconception(
    "You count the entries of the map, not the work for each. Every score sums d_model products, over all heads "
    "together."
)
def entries_only(n_q, n_kv, d_model):
    return 2 * n_q * n_kv


@attention_multiply_adds.misconception(
    "d_model is squared. That is the cost of a projection; a score sums d_model products, once."
)
def width_squared(n_q, n_kv, d_model):
    return 2 * n_q * n_kv * d_model**2


@attention_multiply_adds.misconception(
    "Both tokens of a pair are counted, (n_q + n_kv) instead of n_q times n_kv. Every query meets every source token."
)
def sum_of_lengths(n_q, n_kv, d_model):
    return 2 * (n_q + n_kv) * d_model


@attention_multiply_adds.misconception(
    "The count is right, but it is a float. Leave factors such as 2.0 and the division `/` out: the product of whole "
    "numbers is whole."
)
def counted_in_floats(n_q, n_kv, d_model):
    return 2.0 * n_q * n_kv * d_model


@attention_multiply_adds.misconception(
    "Zero is refused. A size of 0 is allowed; there is then nothing to compute, so the count is 0."
)
def zero_refused(n_q, n_kv, d_model):
    if min(n_q, n_kv, d_model) <= 0:
        raise ValueError("a size is not positive")
    return 2 * n_q * n_kv * d_model


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
