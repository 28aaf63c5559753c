"""Exercises of the chapter on efficient attention: what must hold, on which inputs, and what people get wrong.

The numbers that an answer holds and computes are counted by `attnlab.checking.meter`, and on large inputs measured by
the operating system, not timed: an answer that builds the whole matrix gives the right numbers, and fails all the same.
Sizes all differ, no block size divides its length, and scores are far enough from uniform that a forgotten rescaling
shows.
"""

import math

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import efficient_attention as solutions

SINGLE = dict(rtol=1e-5, atol=1e-5)
PURE = "stays in the precision and on the device it was given, and leaves its inputs alone"


# online_softmax ------------------------------------------------------------------------------------------------------

online_softmax = Exercise(solutions.online_softmax, section="A softmax over a stream", minutes=10, difficulty=2)


def _single(*numbers):
    return torch.tensor(numbers, dtype=torch.float32)


def _rising(rng, *sizes):
    """Blocks of those sizes; each goes clearly higher than those before it, by 0.4 to 1.5."""
    top, blocks = rng.normal() - 3, []
    for size in sizes:
        top += rng.uniform(0.4, 1.5)
        block = top - rng.uniform(0.1, 2.0, size=size)
        block[rng.integers(size)] = top
        blocks.append(torch.from_numpy(block))
    return blocks


@online_softmax.property(
    "rescales what it has when the maximum grows",
    points=2,
    **SINGLE,
    hint="When the maximum goes from m to m', everything added up so far is too large by exp(m' - m). Multiply it by "
    "exp(m - m') before you add the new terms exp(x - m').",
)
def growing(rng):
    yield dict(blocks=_rising(rng, 2, 1))
    yield dict(blocks=_rising(rng, 3, 2, 4))
    yield dict(blocks=_rising(rng, 1, 1, 1, 1))


@online_softmax.property(
    "keeps its maximum where it does not grow",
    points=2,
    **SINGLE,
    hint="The maximum is that of all blocks so far. A block without a larger score adds its terms, measured from the "
    "old maximum, and changes nothing else.",
)
def falling(rng):
    yield dict(blocks=_rising(rng, 3, 2)[::-1])
    low, middle, high = _rising(rng, 2, 3, 2)
    yield dict(blocks=[middle, high, low])
    yield dict(blocks=[normal(rng, 5) - 40])
    at_most_zero = -torch.arange(2.0, dtype=torch.float64)
    yield dict(blocks=[at_most_zero, at_most_zero - 1 - float(rng.uniform())])  # a maximum that Python takes for false


@online_softmax.property(
    "looks at each block once, and lets it go",
    points=2,
    probe=probes.streamed,
    **SINGLE,
    hint="Go through the blocks with one `for`. A generator can be read only once, and `list(blocks)` or `torch.cat` "
    "hold all of them at once. Only two numbers have to be kept.",
)
def once(rng):
    blocks = _rising(rng, *[8] * 30)
    large = dict(seed=int(rng.integers(10**6)), count=128, size=8_000, every=16)  # enough to be seen from outside
    yield dict(blocks=[blocks[i] for i in rng.permutation(30)], large=large)
    yield dict(blocks=list(normal(rng, 24, 9)))


@online_softmax.property(
    "survives scores of a thousand", points=1, **SINGLE, hint="Take exp only of differences from the running maximum."
)
def thousands(rng):
    yield dict(blocks=[_single(999.0, 1000.0), _single(1001.5 + float(rng.uniform()), 1000.5)])
    yield dict(blocks=[_single(-1001.0, -1000.0 + float(rng.uniform())), _single(-1002.5), _single(-1000.5, -1003.0)])
    yield dict(blocks=[_single(-99999.0, -99999.5), _single(-99998.0 + float(rng.integers(4)) / 4)])
    yield dict(blocks=[_single(-3e38, -2e38)])  # below what any number that a maximum might start from


@online_softmax.property(
    "takes hidden scores and empty blocks as they come",
    points=1,
    **SINGLE,
    hint="A hidden score is -inf, and -inf - (-inf) is nan: while nothing has been seen there is nothing to rescale. "
    "An empty block has no maximum; it changes nothing. With no score at all, the result is -inf and 0.",
)
def hidden(rng):
    first, second = _rising(rng, 3, 2)
    nothing, empty = torch.full((2,), -math.inf, dtype=torch.float64), first[:0]
    first[0] = -math.inf
    yield dict(blocks=[nothing, first, second])
    yield dict(blocks=[second, nothing, first])
    yield dict(blocks=[empty, first, empty, second])
    yield dict(blocks=[nothing, nothing])


@online_softmax.property(
    "adds up half precision in single precision, or wider",
    points=1,
    rtol=1e-4,
    atol=0.0,
    hint="Half-precision numbers hold three digits. Convert the block to a wider type before you subtract and add "
    "up, as in `block.float()`.",
)
def half_precision(rng):
    yield dict(blocks=[normal(rng, 40).half(), normal(rng, 60).half()])
    yield dict(blocks=[(normal(rng, n) + 3).half() for n in (30, 1, 50)])


online_softmax.unchanged(
    # In single precision, in which an answer may compute: then `.float()` makes no copy.
    lambda rng: dict(blocks=[block.float() for block in _rising(rng, 2, 3, 2)]),
    title="leaves the blocks as they were",
    rtol=1e-5,
    atol=1e-6,
    hint="`block -= m` and `exp_()` write into the caller's tensor. Make new tensors.",
)
online_softmax.mistakes(
    edit("total * math.exp(maximum - top)", "total",
         "The old total is not rescaled when the maximum grows. Its terms were measured from the old maximum: multiply "
         "it by exp(old - new) before you add to it, with the old maximum still at hand."),
    edit("math.exp(maximum - top)", "(math.exp(min(700.0, top - maximum)) if maximum > -math.inf else 0.0)",
         "The old total is multiplied by exp(new - old), the wrong way round. When the maximum grows, old terms get "
         "smaller: exp(old - new)."),
    edit("(block - top)", "(block - max(block.tolist(), default=0.0)).nan_to_num(-math.inf)",
         "The new terms are measured from the maximum of their own block. All terms are measured from the running "
         "maximum of everything so far."),
    edit("(block - top)", "(block - (maximum if maximum > -math.inf else top))",
         "The new terms are measured from the old maximum and added after the total was rescaled. Use the new maximum "
         "for both."),
    edit("max(maximum, block.max().item())", "(maximum if maximum > -math.inf else block.max().item())",
         "The maximum of the first block is never updated. It has to grow when a block has a larger score."),
    edit("for given in blocks:", "blocks = list(blocks)\n    for given in [*blocks[:1], *blocks]:",
         "The first block is counted twice: once before the loop and once in it. Start from -inf and 0, and let the "
         "loop take every block."),
    edit("max(maximum, block.max().item())", "max(maximum or -math.inf, block.max().item())",
         "A maximum of exactly 0 counts as no maximum: `if maximum` and `maximum or ...` take 0 for false. Compare it "
         "with None or with -inf.",
         also={"total * math.exp(maximum - top) + ": "(total * math.exp(maximum - top) if maximum else 0.0) + "}),
    edit("max(maximum, block.max().item())", "block.max().item()",
         "The maximum is that of the latest block, even if it is lower. Keep the larger of the two."),
    edit("total * math.exp(maximum - top) + ", "",
         "Each block starts from 0, so only the last one counts. Keep the total of the blocks before it, and rescale "
         "it."),
    edit("(block - top).exp().sum().item()", "((block - top).exp().sum().item() if top > maximum else 0.0)",
         "A block that does not raise the maximum is skipped. Its terms belong to the total as well."),
    edit("-math.inf, 0.0", "0.0, 0.0",
         "The running maximum starts at 0. If all scores are negative it stays 0, and scores far below it underflow. "
         "Start from -inf."),
    edit("-math.inf, 0.0", "-math.inf, 1.0",
         "The total starts at 1. Nothing has been seen yet: start from 0.",
         also={"math.exp(maximum - top)": "(math.exp(maximum - top) if maximum > -math.inf else 1.0)"}),
    edit("total * math.exp(maximum - top) + (block - top)", "total + block",
         "The total is a sum of exp(x) itself. It overflows for large scores. Measure each term from the maximum."),
    edit("return maximum, total", "return maximum, maximum + math.log(total) if total else -math.inf",
         "This is the logarithm of the sum of all exponentials. Return the maximum and the total separately."),
    edit(".double()", "",
         "The terms are added up in the precision of the block. Half precision holds three digits, and the total loses "
         "the rest. Convert the block to a wider type before you subtract the maximum, as in `block.float()`."),
    edit("return maximum, total", "return maximum, maximum + math.log(total) if total else 0.0",
         "The second result is the logarithm of the sum, with the maximum added. Return the sum itself: the sum of "
         "exp(x - maximum)."),
    edit("max(maximum, block.max().item())", "max(maximum, block[block > -math.inf].abs().max().item())",
         "The largest absolute value is taken for the maximum. The signs count: -9 is below 1."),
    edit("return maximum, total", "return total, maximum",
         "The total comes first and the maximum second. Return (maximum, total)."),
    edit("-math.inf, 0.0",
         "max((block.double().max().item() for block in blocks if block.numel()), default=-math.inf), 0.0",
         "The blocks are read twice, once for the maximum and once for the total. A stream can be read only once: "
         "after the first pass nothing is left."),
    edit("in blocks", "in [torch.cat([block.double() for block in blocks])]",
         "All blocks are held at once, joined or in a list, which this function is meant to avoid. Keep a maximum and "
         "a total, and let each block go."),
    edit("top > -math.inf", "block.numel()",
         "If only hidden scores have been seen, -inf - (-inf) gives nan, and nan stays. Until there is a score above "
         "-inf there is nothing to rescale and nothing to add.",
         also={"return maximum, total": "return tuple(torch.tensor([maximum, total], dtype=torch.float64))"}),
    edit(" if block.numel() else maximum", "",
         "An empty block has no maximum, and PyTorch raises an error. Skip it: it changes nothing."),
    edit("-math.inf, 0.0", "-1e9, 0.0",
         "A finite number is used instead of -inf at the start. If all scores are hidden, it is returned as the "
         "maximum."),
    edit("in blocks", "in list(blocks)",
         "The maximum is subtracted from the caller's tensor, in place. Make a new one: `block - m`.",
         also={"maximum = top": "maximum = top\n            given -= given.max() if given.numel() else 0.0"}),
)  # fmt: skip


# tiled_attention -----------------------------------------------------------------------------------------------------

tiled_attention = Exercise(solutions.tiled_attention, section="Tile by tile", minutes=20, difficulty=3)


def _tokens(rng, n_q=5, n_k=7, d_k=4, d_v=3, batch=2, dtype=None, size=1.5):
    """Q, K and V with scores far from uniform."""
    return dict(
        Q=size * normal(rng, batch, n_q, d_k, dtype=dtype),
        K=size * normal(rng, batch, n_k, d_k, dtype=dtype),
        V=normal(rng, batch, n_k, d_v, dtype=dtype),
    )


def _growing(rng, widths, n, large, watched):
    """Q, K and V of these widths for `probes.growth`, of n tokens and of `large` tokens, or up to 7 more."""
    return dict(
        shapes={name: (1, 0, width) for name, width in zip("QKV", widths)},
        seed=int(rng.integers(10**6)),
        n=n + int(rng.integers(8)),
        large=dict(n=large + int(rng.integers(8))),
        entries=int(rng.integers(10**6)),
        watched=watched,
    )


def _aligned(scores):
    """Q, K and V, one query and width 1, that give these scores; V tells the keys apart."""
    K = torch.tensor(scores, dtype=torch.float64).reshape(1, -1, 1)
    n = K.shape[1]
    return dict(
        Q=torch.ones(1, 1, 1, dtype=torch.float64),
        K=K,
        V=torch.stack([torch.arange(1.0, n + 1), torch.arange(n, 0.0, -1) ** 2], dim=1).double()[None],
    )


@tiled_attention.property(
    "gives the numbers of attention, whatever the block size",
    points=3,
    hint="For each block of queries keep three things: maximum, total and output. When a new tile raises the "
    "maximum, multiply total and output by exp(old - new). Then add the new terms, and divide once, at the end.",
)
def exact(rng):
    yield _tokens(rng, 1, 4, batch=1) | dict(block_size=2)
    yield _tokens(rng, 5, 6) | dict(block_size=3)
    yield _tokens(rng, 4, 6, d_v=5) | dict(block_size=1)
    yield _tokens(rng, 3, 5) | dict(block_size=8)


@tiled_attention.property(
    "keeps what is left over when the block size does not divide",
    points=1,
    hint="The last block is shorter. range(0, n, block_size) and a slice take care of it; n // block_size drops it.",
)
def ragged(rng):
    yield _tokens(rng, 4, 7, batch=1) | dict(block_size=2)
    yield _tokens(rng, 7, 8) | dict(block_size=3)


@tiled_attention.property(
    "never builds the whole matrix",
    points=3,
    probe=probes.growth,
    hint="Hold one tile of scores at a time. (All queries against block_size keys also pass: that grows with n as "
    "well.) A mask of (n_q, n_k) is a whole matrix too, so make it for the tile.",
)
def no_square(rng):
    case = _growing(rng, (4, 4, 3), n=44, large=2040, watched=["memory"])
    yield case | dict(large=case["large"] | dict(block_size=100), block_size=16, causal=True)


@tiled_attention.property(
    "hides later keys; the last query sees every key",
    points=2,
    hint="Query i is at position i + n_k - n_q, counted in the whole sequence rather than in the tile. It sees the "
    "keys up to and including that position.",
)
def causal(rng):
    yield _tokens(rng, 5, 5, batch=1) | dict(block_size=2, causal=True)
    yield _tokens(rng, 3, 8) | dict(block_size=3, causal=True)
    yield _tokens(rng, 6, 7) | dict(block_size=4, causal=True)


@tiled_attention.property(
    "gives zeros where a query may see nothing",
    points=1,
    hint="With more queries than keys, the first n_q - n_k queries see no key. Their maximum stays -inf and their "
    "total 0: take care of -inf - (-inf) and of 0 / 0.",
)
def nothing_to_see(rng):
    yield _tokens(rng, 5, 3) | dict(block_size=2, causal=True)
    # Tiles with queries that see nothing beside queries that see something.
    yield _tokens(rng, 4, 2, batch=1) | dict(block_size=3, causal=True)
    yield _tokens(rng, 5, 3) | dict(block_size=4, causal=True)
    yield _tokens(rng, 6, 5, batch=1) | dict(block_size=4, causal=True)
    n_k, empty = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    yield _tokens(rng, n_k + empty, n_k) | dict(block_size=empty + int(rng.integers(1, 3)), causal=True)


@tiled_attention.property(
    "survives scores of a thousand, also far below the others in a tile",
    points=1,
    **SINGLE,
    hint="Each query has its own running maximum, which starts at -inf.",
)
def far_apart(rng):
    yield _aligned([1000.0, 999.0, 1001.5, float(rng.uniform(1000, 1001))]) | dict(block_size=2)
    yield _aligned([-1000.0, -999.0, -998.5, float(rng.uniform(-1000, -999))]) | dict(block_size=3)
    one = _aligned([2.0, 3.0, 1.0 + float(rng.uniform())])
    yield one | dict(Q=torch.tensor([[[1000.0], [-1000.0], [1.0]]], dtype=torch.float64), block_size=3)
    yield _aligned([float(rng.uniform()), 1000.0]) | dict(block_size=1)
    yield _aligned([-3e38, -3e38, -2e38]) | dict(block_size=2)  # below what a maximum might start from
    # Queries that are far apart in a block, in blocks, and in a batch.
    two = {name: torch.cat([value, value.flip(1)]) for name, value in one.items()}
    yield two | dict(Q=torch.tensor([[[500.0], [1.0]], [[1.0], [500.0]]], dtype=torch.float64), block_size=1)


def _with_gradients(rng):
    yield _tokens(rng, 3, 5, batch=1) | dict(block_size=2, upstream=[normal(rng, 1, 3, 3)])
    yield _tokens(rng, 4, 5) | dict(block_size=2, causal=True, upstream=[normal(rng, 2, 4, 3)])
    for n_q, n_k, block_size in ((5, 3, 2), (4, 2, 3), (5, 3, 4), (6, 5, 4)):
        case = _tokens(rng, n_q, n_k, batch=1) | dict(block_size=block_size, causal=True)
        yield case | dict(upstream=[normal(rng, 1, n_q, 3)])


tiled_attention.gradients(
    _with_gradients,
    title="has the gradients of attention, also with empty rows",
    points=2,
    hint="Use tensor operations throughout; `.detach()`, `.data` and NumPy cut the gradient. A nan from -inf - "
    "(-inf) spoils the gradient even if it is replaced afterwards.",
)
tiled_attention.any_device(
    lambda rng: [
        dict(probe="unchanged") | _tokens(rng, 3, 4, dtype=torch.float32) | dict(block_size=2),
        dict(probe="unchanged") | _tokens(rng, 3, 5, batch=1) | dict(block_size=2, causal=True),
    ],
    title=PURE,
    **SINGLE,
    hint="Make accumulators with `Q.new_zeros(...)`, which copies dtype and device, masks with `device=Q.device`, "
    "and never write into Q, K or V.",
)


@tiled_attention.property(
    "adds up in float32 where its inputs are narrower",
    points=1,
    rtol=0.02,
    atol=0.02,
    hint="In bfloat16, 256 + 1 is still 256. Keep maximum, total and output in float32, and convert the result back: "
    "`.to(Q.dtype)`.",
)
def narrow(rng):
    # Equal scores, one key a tile: the total counts them. A count in bfloat16 stops at 256, and only then come values.
    V = torch.cat([torch.zeros(1, 256, 1), 1 + rng.uniform() * torch.ones(1, 128, 1)], dim=1)
    given = dict(Q=torch.ones(1, 1, 2), K=torch.ones(1, 384, 2), V=V)
    yield {name: value.to(torch.bfloat16) for name, value in given.items()} | dict(block_size=1)
    yield _tokens(rng, 3, 4, dtype=torch.float16) | dict(block_size=2, causal=True)


SIZES = "n_q, n_k = Q.shape[-2], K.shape[-2]"
SAFE_LEVEL = "top.masked_fill(top == -math.inf, 0.0)"
DIVIDED = "gathered / total.masked_fill(total == 0, 1.0)"
JOINED = "torch.cat(finished, dim=-2)"
ALL_TILES = {"if causal and start > place[-1]": "if False"}
# Where gradients are asked for, PyTorch itself refuses to write into Q.
SCALED_IN_PLACE = "Q = Q / math.sqrt(Q.shape[-1]) if Q.requires_grad else Q.div_(math.sqrt(Q.shape[-1]))"
NAN = (
    "A query that may see nothing gets nan: its maximum stays -inf and -inf - (-inf) is nan, or its total stays 0 and "
    "0 / 0 is nan. Replace such a maximum by 0, and divide by 1 where the total is 0."
)
WHOLE = (
    "The numbers are right, but a whole (n_q, n_k) matrix exists at once: all scores, tiles that are kept and joined, "
    "or a mask. Hold one tile at a time, and make a mask for that tile only."
)

tiled_attention.mistakes(
    edit("gathered * shrink", "gathered",
         "The total is rescaled when the maximum grows, the output is not. The output so far was also measured from "
         "the old maximum: multiply both by exp(old - new)."),
    edit("total * shrink", "total",
         "The output is rescaled when the maximum grows, the total is not. Multiply both by exp(old - new)."),
    edit("total * shrink", "total",
         "Nothing is rescaled when the maximum grows. Total and output were measured from the old maximum: multiply "
         "both by exp(old - new) first.", also={"gathered * shrink": "gathered"}),
    edit("torch.exp(maximum - level)", "torch.exp(level - maximum).masked_fill(maximum == -math.inf, 0.0)",
         "Total and output are multiplied by exp(new - old), the wrong way round: old terms have to get smaller when "
         "the maximum grows."),
    edit("gathered * shrink + powers @", "gathered + powers / powers.sum(dim=-1, keepdim=True) @",
         "Each tile is divided by its own total, and the results are added up. A tile with small scores then counts as "
         "much as one with large ones. Divide once, by the total of all tiles.",
         also={DIVIDED: "gathered"} | ALL_TILES),
    edit("gathered * shrink + powers @", "gathered + powers / powers.sum(dim=-1, keepdim=True) @",
         "Each tile gets its own softmax, and the results are averaged. A tile with small scores then counts as much "
         "as one with large ones. Divide once, by the total of all tiles.",
         also={"total * shrink + powers.sum(dim=-1, keepdim=True)": "total + 1"} | ALL_TILES),
    edit(DIVIDED, "gathered",
         "The division at the end is missing: the weights do not add up to 1."),
    edit("(0, n_k, block_size)", "(0, n_k - n_k % block_size or n_k, block_size)",
         "The last keys are dropped when the block size does not divide their number. The last block is just shorter."),
    edit("(0, n_q, block_size)", "(0, n_q - n_q % block_size or n_q, block_size)",
         "The last queries are dropped when the block size does not divide their number. The last block is just "
         "shorter."),
    edit("[:, None] + n_k - n_q", "[:, None]",
         "The diagonal is aligned to the top left: query i sees keys 0 to i. The last query sees every key, so query i "
         "is at position i + n_k - n_q."),
    edit("first, first + ", "",
         "Positions are counted within the tile, so each tile gets the same triangle. Add where the block of queries "
         "and the block of keys begin.", also={"start, start + ": ""} | ALL_TILES),
    edit("first, first + ", "",
         "Where the block of queries begins is forgotten in the mask. Query i of a block that begins at `first` is "
         "query first + i.", also=ALL_TILES),
    edit("start, start + ", "",
         "Where the block of keys begins is forgotten in the mask. Key j of a block that begins at `start` is key "
         "start + j.", also=ALL_TILES),
    edit("keys > place", "keys >= place",
         "The causal border is off by one: a token does not see itself. Hide the keys after its position, but not the "
         "one at it."),
    edit("keys > place", "keys > place + 1",
         "The causal border is off by one: a token sees the next one.", also=ALL_TILES),
    edit("keys > place", "keys < place",
         "The mask hides the past and shows the future.", also=ALL_TILES),
    edit(SIZES, "causal, n_q, n_k = False, Q.shape[-2], K.shape[-2]",
         "`causal` is ignored: later keys are read as well."),
    edit("start > place[-1]", "start > 0 and start >= place[0]",
         "The tile on the diagonal is skipped together with those beyond it. Only a tile whose first key comes after "
         "the last query of the block may be skipped."),
    edit("torch.maximum(maximum, tile.detach().amax(dim=-1, keepdim=True))", "tile.detach().amax(dim=-1, keepdim=True)",
         "The maximum is that of the current tile alone. Keep the largest of all tiles so far: the larger of the old "
         "maximum and the tile's."),
    edit("keys > place, -math.inf", "keys > place, 0.0",
         "Later keys get a score of 0, which is an ordinary score and gets weight. Use minus infinity."),
    edit("keys > place, -math.inf", "keys > place, -1e9",
         "Hidden scores are set to a large finite number. A query that may see nothing then averages over keys it must "
         "not see. Use -inf.", also=ALL_TILES),
    edit(SAFE_LEVEL, "top", NAN, also={DIVIDED: "gathered / total"} | ALL_TILES),
    edit(DIVIDED, "gathered / total", NAN, also=ALL_TILES),
    edit(DIVIDED, "gathered / (total + 1e-6)",
         "A small number keeps the total away from 0, and every result is a little too small. Divide by 1 where the "
         "total is 0, and by the total everywhere else."),
    edit(SAFE_LEVEL, "top",
         "A nan is made and replaced afterwards. The output looks right, but in the gradient the nan reaches every "
         "query and key of the tile. Avoid computing -inf - (-inf).",
         also={DIVIDED: "(gathered / total).nan_to_num(0.0)"} | ALL_TILES),
    edit("torch.maximum(maximum, tile.detach().amax(dim=-1, keepdim=True))", "torch.zeros_like(maximum)",
         "No maximum is subtracted: scores of a thousand overflow."),
    edit("1), -math.inf", "1), 0.0",
         "The running maximum starts at 0. If all scores are far below 0, every exponential underflows to 0. Start "
         "from -inf."),
    edit("amax(dim=-1, ", "amax(dim=(-2, -1), ",
         "The tile has one maximum for all of its queries. A query whose scores are far below it gets only zeros. Each "
         "row needs its own maximum."),
    edit("amax(dim=-1, keepdim=True)", "amax(dim=-1, keepdim=True) * 0 + 1e4",
         "The maximum is that of the latest tile, even if an earlier one was higher. It may overflow. Keep the larger "
         "of the two.", also={SAFE_LEVEL: "top"} | ALL_TILES),
    edit(" / math.sqrt(Q.shape[-1])", "",
         "The scale is missing: the scores are divided by the square root of d_k."),
    edit("math.sqrt(Q.shape[-1])", "Q.shape[-1]",
         "The scores are divided by d_k. It is the square root of d_k."),
    edit("math.sqrt(Q.shape[-1])", "math.sqrt(V.shape[-1])",
         "The scale is made from the width of V. It is the square root of d_k, the width of queries and keys."),
    edit("V[..., start : start + block_size, :]", "V[..., : tile.shape[-1], :]",
         "Every tile reads the first block of values. Slice the values where you slice the keys."),
    edit("V[..., start", "V.detach()[..., start",
         "The values get no gradient. `.detach()`, `.data` and NumPy give numbers without a gradient."),
    edit("torch.promote_types(Q.dtype, torch.float32)", "Q.dtype",
         "Total and output are kept in the narrow dtype of the inputs: in bfloat16, 256 + 1 is still 256. Keep them in "
         "float32, and convert the result back to the dtype of Q."),
    edit(JOINED, f"{JOINED}.float()",
         "The result is float32, whatever the inputs are. Return the dtype of Q, with `.to(Q.dtype)` or accumulators "
         "of that dtype."),
    edit("rows.shape[-2], device=Q.device", "rows.shape[-2]",
         "The mask is on the CPU, wherever Q is, and PyTorch cannot combine the two. Write `device=Q.device` where you "
         "make it."),
    edit(SIZES, f"{SIZES}\n    block_size = max(n_q, n_k)", WHOLE),
    edit("keys > place", "hidden[first : first + block_size, start : start + block_size]",
         WHOLE, also={SIZES: f"{SIZES}\n    hidden = torch.ones(n_q, n_k, device=Q.device).triu(1 + n_k - n_q) > 0"}),
    edit("top = torch", "tiles.append(tile)\n            top = torch",
         WHOLE, also={SIZES: f"{SIZES}\n    tiles = []"} | ALL_TILES),
    edit(JOINED, f"{JOINED}.detach()",
         "The whole result is cut off from the gradient. `.detach()`, `.data`, NumPy and `torch.no_grad()` give "
         "numbers without a gradient."),
    edit(SIZES, f"{SIZES}\n    {SCALED_IN_PLACE}",
         "The scale is multiplied into the caller's Q, in place. Write the scaled queries into a new tensor.",
         also={".to(wide) / math.sqrt(Q.shape[-1])": ".to(wide)"}),
)  # fmt: skip


# sliding_window_attention --------------------------------------------------------------------------------------------

sliding_window_attention = Exercise(
    solutions.sliding_window_attention, section="Only the neighbors", minutes=10, difficulty=3
)


def _text(rng, n=7, d_k=4, d_v=3, batch=2, dtype=None):
    return _tokens(rng, n, n, d_k, d_v, batch, dtype)


@sliding_window_attention.property(
    "reads itself and the window - 1 tokens before it",
    points=3,
    hint="Token i reads the keys from max(0, i - window + 1) to i. The first tokens have fewer keys; missing ones "
    "get no weight.",
)
def neighbors(rng):
    yield _text(rng, 5, batch=1) | dict(window=2)
    yield _text(rng, 7) | dict(window=3)
    yield _text(rng, 9, d_v=5) | dict(window=4)


@sliding_window_attention.property(
    "is right for the narrowest window and for one wider than the text",
    points=2,
    hint="With window 1 a token reads itself: the output is V. With a window of n or more it is plain causal "
    "attention.",
)
def extreme_windows(rng):
    yield _text(rng, 4) | dict(window=1)
    yield _text(rng, 5, batch=1) | dict(window=5)
    yield _text(rng, 6) | dict(window=11)
    yield _text(rng, 40, batch=1) | dict(window=int(rng.integers(20, 36)))
    case = _text(rng, 5, batch=1)  # a score with itself far below any finite number that stands for "hidden"
    yield case | dict(Q=1e6 * case["Q"], K=-1e6 * case["Q"], window=1)


@sliding_window_attention.property(
    "needs memory and work that grow with n, not with its square",
    points=3,
    probe=probes.growth,
    hint="A mask over n x n scores throws most of the work away and saves none of it. Take groups of queries, each "
    "with the slice of keys they can reach, or one query at a time.",
)
def narrow_band(rng):
    # Long enough for groups of 512 queries, and no longer: one query at a time is right, too.
    yield _growing(rng, (2, 2, 2), n=512, large=1020, watched=["memory", "work"]) | dict(window=5)


sliding_window_attention.gradients(
    lambda rng: [
        _text(rng, 6, batch=1) | dict(window=3, upstream=[normal(rng, 1, 6, 3)]),
        _text(rng, 5) | dict(window=2, upstream=[normal(rng, 2, 5, 3)]),
    ],
    title="has the gradients of masked attention",
    hint="Use tensor operations throughout; `.detach()`, `.data` and NumPy cut the gradient.",
)
sliding_window_attention.any_device(
    lambda rng: [
        dict(probe="unchanged") | _text(rng, 5, dtype=torch.float32) | dict(window=2),
        dict(probe="unchanged") | _text(rng, 6, batch=1) | dict(window=3),
    ],
    title=PURE,
    **SINGLE,
    hint="Make new tensors with `Q.new_zeros(...)` or `device=Q.device`, and never write into Q, K or V.",
)

GROUP, REACH = "max(window, 16)", "max(0, first - window + 1)"
BAND_WEIGHTS = "band.masked_fill(hidden, -math.inf).softmax(dim=-1)"
READS_ON = {
    "start:last, :].mT": "start : last + window, :].mT",
    "start, last, device": "start, min(last + window, n), device",
    "V[..., start:last, :]": "V[..., start : last + window, :]",
}

sliding_window_attention.mistakes(
    edit("back >= window", "back > window",
         "The window is one too wide: a token reads `window` tokens before it and itself. The token itself is one of "
         "the `window`.", also={"first - window + 1": "first - window"}),
    edit("back < 0", "back < -1",
         "The window looks both ways. A token reads itself and what came before it, never what comes after.",
         also={"start:last, :].mT": "start : last + 1, :].mT",
               "start, last, device": "start, min(last + 1, n), device",
               "V[..., start:last, :]": "V[..., start : last + 1, :]"}),
    edit("back < 0", "back <= -window",
         "The window reaches as far forward as back, so a token reads tokens after it. It reads itself and the "
         "window - 1 tokens before it, and none after.", also=READS_ON),
    *(edit("(back < 0) | (back >= window)", f"(back < -(window // 2)) | (back > {reach})",
           "The window is centered on the token, so it reads tokens after it. The window ends with the token itself.",
           also=READS_ON) for reach in ("window // 2", "(window - 1) // 2")),
    edit("(back < 0) | (back >= window)", "(back > 0) | (back <= -window)",
         "The window begins with the token and reaches forward. It ends with the token: what comes after is not read.",
         also=READS_ON),
    edit("n = Q.shape[-2]",
         "window = min(window, Q.shape[-2])\n"
         "    Q, K, V = (torch.nn.functional.pad(x, (0, 0, window - 1, 0)) for x in (Q, K, V))\n    n = Q.shape[-2]",
         "Keys before the first token are filled with zeros, and these take part in the softmax: a score of 0 is an "
         "ordinary score. Hide them with -inf, or leave them out.", also={JOINED: f"{JOINED}[..., window - 1 :, :]"}),
    edit(" / math.sqrt(Q.shape[-1])", "",
         "The scale is missing: the scores are divided by the square root of d_k."),
    edit("math.sqrt(Q.shape[-1])", "Q.shape[-1]",
         "The scores are divided by d_k. It is the square root of d_k."),
    edit("math.sqrt(Q.shape[-1])", "math.sqrt(V.shape[-1])",
         "The scale is made from the width of V. It is the square root of d_k."),
    edit(BAND_WEIGHTS, "band.masked_fill(hidden, 0.0)",
         "The softmax is missing: the scores themselves are used as weights."),
    edit(BAND_WEIGHTS, "(~hidden).to(band.dtype) / (~hidden).sum(dim=-1, keepdim=True)",
         "All tokens of the window get the same weight: this is a moving average. The weights come from the scores."),
    edit("softmax(dim=-1)", "exp()",
         "The exponentials are not divided by their total."),
    edit(f"finished.append({BAND_WEIGHTS}",
         "powers = band.masked_fill(hidden, -math.inf).exp()\n"
         "        finished.append(powers / powers.sum(dim=-1, keepdim=True)",
         "No maximum is subtracted. The exponentials of large scores overflow, and those of very low ones are all 0, "
         "which gives nan. Use softmax, or subtract the largest score of each query first."),
    edit(BAND_WEIGHTS, "band.softmax(dim=0).masked_fill(hidden, 0.0)",
         "The softmax runs over the batch (dim=0). Each query divides a weight of one among its keys, which are the "
         "last axis: dim=-1."),
    edit(BAND_WEIGHTS, "(~hidden).to(band.dtype)",
         "Each key of the window gets the weight 1, so the values are added up. That happens, for one, if a softmax "
         "runs over an axis of a single query. It should run over the keys: dim=-1."),
    edit(JOINED, f"{JOINED}.detach()",
         "The result is cut off from the gradient. `.detach()`, `.data` and NumPy give numbers without a gradient."),
    edit(JOINED, f"{JOINED}.float()",
         "The result is float32, whatever the inputs are. `Q.new_zeros(...)` has the dtype of Q."),
    edit("back >= window", "back > torch.arange(first, last, device=Q.device)[:, None] % window",
         "The text is cut into pieces of `window` tokens, and each token reads only its own piece. The window moves "
         "along with the token: the first token of a piece also reads the end of the piece before."),
    edit("group = max", "window = max(1, window - 1)\n    group = max",
         "The window is one too narrow: a token reads the window - 1 tokens that end with itself. It reads itself and "
         "window - 1 others."),
    edit(REACH, "first - window + 1",
         "The slice begins at i - window + 1, which is negative for the first tokens, and Python counts a negative "
         "index from the end. Begin at max(0, i - window + 1).",
         also={GROUP: "1", ".masked_fill(hidden, -math.inf)": ""}),
    edit(JOINED, f"{JOINED}.masked_fill(torch.arange(n, device=Q.device)[:, None] < window - 1, 0.0)",
         "The first tokens get no output, because only full windows are used. A token near the beginning reads the "
         "keys there are."),
    edit(GROUP, "n",
         "The numbers are right, but memory and work grow with n * n, as they do where all scores are computed and a "
         "mask hides most of them. Compute only those inside the window."),
    edit(REACH, "0",
         "The memory is that of a window, but the work grows much faster than n: queries are compared with many keys "
         "outside their window, and most scores are thrown away. Slice the keys before you multiply."),
    edit(" | (back >= window)", "",
         "The window is ignored: every token reads all tokens before it.", also={GROUP: "n"}),
    edit("n = Q.shape[-2]", f"n = Q.shape[-2]\n    {SCALED_IN_PLACE}",
         "The scale is multiplied into the caller's Q, in place. Write the scaled queries into a new tensor.",
         also={" / math.sqrt(Q.shape[-1])": ""}),
)  # fmt: skip


# linear_attention ----------------------------------------------------------------------------------------------------

linear_attention = Exercise(solutions.linear_attention, section="Sum first, ask later", minutes=10, difficulty=2)

ELU, EXP, SQUARES, RELU = "elu(x) + 1", "exp(x)", "x * x + 0.1", "relu(x)"
WIDER = "softplus of x and -x, side by side"


@linear_attention.property(
    "averages values with weights phi(q) . phi(k), which add up to 1",
    points=3,
    hint="Sum over the keys first: a matrix phi(K)^T V, and a vector, the sum of phi(K). A query's output is phi(q) "
    "times the matrix, divided by phi(q) times the vector.",
)
def averages(rng):
    yield _tokens(rng, 1, 3, batch=1) | dict(feature_map=ELU)
    yield _tokens(rng, 5, 7) | dict(feature_map=SQUARES)
    yield _tokens(rng, 4, 6, d_v=5) | dict(feature_map=ELU)
    small = _tokens(rng, 3, 2, batch=1)  # weights that add up to less than 1
    yield small | dict(Q=small["Q"] - 3, K=small["K"] - 3, feature_map=ELU)
    yield small | dict(Q=small["Q"] - 12, K=small["K"] - 12, feature_map=EXP)  # up to about 1e-8


@linear_attention.property(
    "takes any feature map, also one that changes the width",
    points=1,
    hint="Call `feature_map` on Q and on K, and take the width from what comes back.",
)
def any_features(rng):
    yield _tokens(rng, 3, 5, batch=1) | dict(feature_map=WIDER)
    yield _tokens(rng, 4, 6) | dict(feature_map=EXP)


@linear_attention.property(
    "needs memory and work that grow with n, not with its square",
    points=3,
    probe=probes.growth,
    hint="(phi(Q) phi(K)^T) V and phi(Q) (phi(K)^T V) give the same numbers. Which of them makes an n x n matrix?",
)
def no_pairs(rng):
    yield _growing(rng, (4, 4, 3), n=120, large=2040, watched=["memory", "work"]) | dict(feature_map=ELU)


linear_attention.gradients(
    lambda rng: [
        _tokens(rng, 3, 5, batch=1) | dict(feature_map=ELU, upstream=[normal(rng, 1, 3, 3)]),
        _tokens(rng, 4, 3) | dict(feature_map=SQUARES, upstream=[normal(rng, 2, 4, 3)]),
    ],
    title="has gradients of queries, keys and values",
    hint="Use tensor operations throughout. The total depends on queries and keys too: do not detach it.",
)
linear_attention.any_device(
    lambda rng: [
        dict(probe="unchanged") | _tokens(rng, 3, 4, dtype=torch.float32) | dict(feature_map=ELU),
        dict(probe="unchanged") | _tokens(rng, 3, 5, batch=1) | dict(feature_map=SQUARES),
    ],
    title=PURE,
    **SINGLE,
    hint="Never write into Q, K or V, and make new tensors with `Q.new_zeros(...)`.",
)


@linear_attention.property(
    "gives zeros for a query that shares no feature with a key",
    points=1,
    probe=probes.gradients,
    hint="The features of such a query may all be 0, and so is its total: 0 / 0 is nan. Where the total is 0, divide "
    "by 1.",
)
def without_features(rng):
    for n_q, n_k in ((3, 4), (4, 2)):
        case = _tokens(rng, n_q, n_k, batch=1) | dict(feature_map=RELU, upstream=[normal(rng, 1, n_q, 3)])
        case["Q"][:, 1] = -case["Q"][:, 1].abs()
        yield case


FEATURES = "feature_map(Q), feature_map(K)"
TOTAL = "asking @ answering.sum(dim=-2).unsqueeze(-1)"
SAFE_TOTAL = "total.masked_fill(total == 0, 1.0)"
RESULT = f"asking @ summary / {SAFE_TOTAL}"

linear_attention.mistakes(
    edit(f" / {SAFE_TOTAL}", "",
         "The division is missing: the weights phi(q) . phi(k) do not add up to 1. Divide by phi(q) times the sum of "
         "phi(K)."),
    edit(SAFE_TOTAL, "K.shape[-2]",
         "The sum is divided by the number of keys. Divide by the sum of this query's weights: phi(q) times the sum of "
         "phi(K)."),
    edit(SAFE_TOTAL, "total.clamp(min=1.0)",
         "The total is kept from being small, by a clamp or a maximum. Small features give a small total, which is "
         "right; only a total of exactly 0 has to be replaced."),
    edit(TOTAL, "asking.sum(dim=-1, keepdim=True)",
         "The total is the sum of phi(q). It is phi(q) times the sum of all phi(k)."),
    edit(TOTAL, "answering.sum(dim=(-2, -1), keepdim=True)",
         "The total is the sum of everything in phi(K), the same for all queries. Each query has its own: phi(q) times "
         "the sum of phi(K) over the keys."),
    edit("answering.sum", "K.repeat(1, 1, answering.shape[-1] // K.shape[-1]).sum",
         "The feature map is not applied to the keys in the total. Numerator and total need the same phi(K)."),
    edit("mT @ V", "mT @ feature_map(V)[..., : V.shape[-1]]",
         "The feature map is applied to the values as well. It is only for queries and keys."),
    edit("feature_map(Q)", "Q.repeat(1, 1, feature_map(Q).shape[-1] // Q.shape[-1])",
         "The feature map is not applied to the queries. Weights may then be negative, and their sum near 0."),
    edit("feature_map(K)", "K.repeat(1, 1, feature_map(K).shape[-1] // K.shape[-1])",
         "The feature map is not applied to the keys. Weights may then be negative, and their sum near 0."),
    edit(FEATURES, "Q, K",
         "The feature map is not used at all: weights q . k may be negative, and their sum near 0."),
    edit(FEATURES, "torch.nn.functional.elu(Q) + 1, torch.nn.functional.elu(K) + 1",
         "elu(x) + 1 is written into the function. The feature map is the caller's choice: call `feature_map`."),
    edit("feature_map(Q)", "feature_map(Q / Q.shape[-1] ** 0.5)",
         "Queries are divided by the square root of d_k before the feature map. There is no softmax here to protect: "
         "give Q to `feature_map` as it is."),
    edit(FEATURES, "feature_map(Q / Q.shape[-1] ** 0.25), feature_map(K / K.shape[-1] ** 0.25)",
         "Queries and keys are each divided by the fourth root of d_k before the feature map. There is no softmax here "
         "to protect: give them to `feature_map` as they are."),
    edit("feature_map(K)", "feature_map(K) / feature_map(K).sum(dim=-1, keepdim=True)",
         "Features are normalized over their width, as in a softmax. Use them as `feature_map` returns them."),
    edit("feature_map(K)", "feature_map(K) / feature_map(K).sum(dim=-2, keepdim=True)",
         "Features of the keys are normalized over the keys. Keep each key's size; what has to be 1 is the sum of a "
         "query's weights.", also={TOTAL: "asking.sum(dim=-1, keepdim=True) * 2"}),
    edit(SAFE_TOTAL, "(total + 1e-6)",
         "A small number is added to the total, and every result is a little too small, or much too small where the "
         "total is small itself. Divide by 1 where the total is exactly 0, and by the total everywhere else."),
    edit("answering.sum(dim=-2)", "answering.sum(dim=(0, 1))",
         "The total runs over the batch as well: texts in a batch must not mix. Sum over the keys alone, dim=-2."),
    edit(SAFE_TOTAL, f"{SAFE_TOTAL}.detach()",
         "The total gets no gradient. It depends on queries and keys too."),
    edit(SAFE_TOTAL, "total",
         "A query that shares no feature with a key gets nan, because its total and its sum are both 0. Divide by 1 "
         "there: `total.masked_fill(total == 0, 1.0)`."),
    edit("asking @ summary", "asking @ answering.mT @ V",
         "The numbers are right, but phi(Q) phi(K)^T is multiplied first, and that is an n x n matrix. Multiply "
         "phi(K)^T and V first."),
    edit("answering.mT @ V", "(answering.mT @ V).sum(dim=0, keepdim=True)",
         "The texts of the batch are added up in the matrix of keys and values. Each text has its own: keep the "
         "batch."),
    edit(FEATURES, "feature_map(Q).exp(), feature_map(K).exp()",
         "The features are exponentiated. They are what feature_map returns, as it is."),
    edit(RESULT, f"torch.where(total == 0, V.mean(dim=-2, keepdim=True), {RESULT})",
         "A query that shares no feature with a key gets the mean of the values. It gets zeros."),
    edit(RESULT, "(asking @ answering.mT).softmax(dim=-1) @ V",
         "A softmax is taken of the products of features. Then keys and values cannot be summed first, and the cost is "
         "n * n again. The weights are phi(q) . phi(k), divided by their sum."),
    edit(RESULT, "(Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(dim=-1) @ V",
         "This is ordinary attention: a softmax, no feature map, and an n x n matrix."),
)  # fmt: skip


@linear_attention.misconception(
    "Running sums make it causal: query i sees the keys up to i only. Here every query sees every key."
)
def causal_sums(Q, K, V, feature_map):
    q, k = feature_map(Q), feature_map(K)
    place = torch.arange(q.shape[1], device=Q.device).clamp(max=k.shape[1] - 1)
    states = (k[..., None] * V[:, :, None]).cumsum(1)[:, place]
    totals = (q * k.cumsum(1)[:, place]).sum(-1, keepdim=True)
    return (q[:, :, None] @ states)[:, :, 0] / totals


linear_attention.mistakes(
    edit(RESULT, f"({RESULT}).detach()",
         "The result is cut off from the gradient. `.detach()`, `.data` and NumPy give numbers without a gradient."),
    edit("summary =", "if not Q.requires_grad:\n        Q.copy_(asking[..., : Q.shape[-1]])\n    summary =",
         "The features overwrite the caller's Q, in place. Keep them in a new tensor."),
    edit(RESULT, f"({RESULT}).float()",
         "The result is float32, whatever the inputs are. Keep the dtype of Q."),
)  # fmt: skip


# The written question ------------------------------------------------------------------------------------------------

written = Written(
    points=4,
    rubric="""One point each.

1. Tiles change nothing in the result: they are exact, up to the order of additions. So quality stays, memory of the
   scores no longer grows with n * n, and time falls because less data is moved. The multiply-adds stay
   quadratic (causal: half).
2. The window changes the model: text further back than the window can be reached only through several layers, and
   a fact needed verbatim from far away is lost. Memory and work grow with n * window. Good where nearby text
   matters. The first tokens (attention sinks) drop out, which hurts a model that was trained to attend to them.
3. Linear attention changes the model most: flatter weights, and a state of fixed size in which all keys
   are summed up. Work grows with n, and decoding needs no growing cache. A model trained with softmax cannot simply be
   switched; it has to be trained that way. It is worst at
   recalling one of very many things.
4. A recommendation that follows from the task, and a test that could refute it: numbers (not texts) of the exact method
   must agree to rounding; for the other two a task with the needed fact at growing distances, compared with the
   exact model, and memory and time measured side by side at the lengths that are needed.

Model answer: "Tiles first: the numbers are the same, so there is nothing to argue about; I would check that outputs
differ from the old ones by rounding only. At 200,000 tokens the work is still quadratic, so if reading one contract
takes too long I would mix: windows in most layers and full attention in a few, and keep the first tokens. What decides
are questions about a clause defined 150 pages earlier: I would plant a definition at many distances and count right
answers. I would not put linear attention into a trained model; it would have to be trained that way, and exact quotes
from far back are what its sums are worst at."

Common half answers: "Flash attention is an approximation" (it is not: no point for 1); "linear attention is the same
with brackets moved" (true of the product without a softmax, but the softmax is what was taken away); "a window of w
sees w tokens only" (in one layer; through L layers about L * (w - 1) + 1).""",
)
