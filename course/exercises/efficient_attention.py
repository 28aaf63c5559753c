"""Exercises of the chapter on efficient attention: what must hold, on which inputs, and what people get wrong.

What is held and computed is counted by `attnlab.checking.meter`, and on large inputs seen by the operating system,
not timed: an
answer that builds the whole matrix gives the right numbers, and fails all the same. Sizes all differ, no block size
divides its length, and scores are far enough from uniform that a forgotten rescaling shows.
"""

import math

import torch
import torch.nn.functional as F

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import efficient_attention as solutions

ONLINE = "A softmax over a stream"
TILES = "Tile by tile"
WINDOW = "Only the neighbors"
LINEAR = "Sum first, ask later"
SINGLE = dict(rtol=1e-5, atol=1e-5)
INFINITE = -math.inf


# online_softmax ------------------------------------------------------------------------------------------------------

online_softmax = Exercise(solutions.online_softmax, section=ONLINE, minutes=10, difficulty=2)


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


@online_softmax.property(
    "takes hidden scores and empty blocks as they come",
    points=1,
    **SINGLE,
    hint="A hidden score is -inf, and -inf - (-inf) is nan: while nothing has been seen there is nothing to rescale. "
    "An empty block has no maximum; it changes nothing. With no score at all, the result is -inf and 0.",
)
def hidden(rng):
    first, second = _rising(rng, 3, 2)
    nothing, empty = torch.full((2,), INFINITE, dtype=torch.float64), first[:0]
    first[0] = INFINITE
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


@online_softmax.property(
    "leaves the blocks as they were",
    points=1,
    probe=probes.unchanged,
    hint="`block -= m` and `exp_()` write into the caller's tensor. Make new tensors.",
)
def online_is_pure(rng):
    yield dict(blocks=_rising(rng, 2, 3, 2))


def _online(
    blocks, *, top=None, shrink=None, powers=None, start=(INFINITE, 0.0), finish=None, widen=torch.Tensor.double
):
    """Right, with parts to replace.

    top(m, block): the new maximum; shrink(m, new): factor of the old total; powers(block, m, new): sum of the new terms
    """
    maximum, total = start
    for block in map(widen, blocks):
        if block.numel() == 0:
            continue
        new = max(maximum, block.max().item()) if top is None else top(maximum, block)
        if new > INFINITE:
            total *= math.exp(maximum - new) if shrink is None else shrink(maximum, new)
            total += (block - new).exp().sum().item() if powers is None else powers(block, maximum, new)
            maximum = new
    return (maximum, total) if finish is None else finish(maximum, total)


@online_softmax.misconception(
    "The old total is not rescaled when the maximum grows. Its terms were measured from the old maximum: multiply it "
    "by exp(old - new) before you add to it, with the old maximum still at hand."
)
def not_rescaled(blocks):
    return _online(blocks, shrink=lambda m, new: 1.0)


@online_softmax.misconception(
    "The old total is multiplied by exp(new - old), the wrong way round. When the maximum grows, old terms get "
    "smaller: exp(old - new)."
)
def rescaled_the_wrong_way(blocks):
    return _online(blocks, shrink=lambda m, new: math.exp(min(700.0, new - m)) if m > INFINITE else 0.0)


@online_softmax.misconception(
    "The new terms are measured from the maximum of their own block. All terms are measured from the running maximum "
    "of everything so far."
)
def from_the_blocks_own_maximum(blocks):
    return _online(
        blocks, powers=lambda block, m, new: (block - block.max()).exp().sum().item() if block.max() > INFINITE else 0.0
    )


@online_softmax.misconception(
    "The new terms are measured from the old maximum and added after the total was rescaled. Use the new maximum for "
    "both."
)
def from_the_old_maximum(blocks):
    return _online(blocks, powers=lambda block, m, new: (block - (m if m > INFINITE else new)).exp().sum().item())


@online_softmax.misconception(
    "The maximum of the first block is never updated. It has to grow when a block has a larger score."
)
def first_maximum(blocks):
    return _online(blocks, top=lambda m, block: m if m > INFINITE else block.max().item())


@online_softmax.misconception(
    "The maximum is that of the latest block, even if it is lower. Keep the larger of the two."
)
def latest_maximum(blocks):
    return _online(blocks, top=lambda m, block: block.max().item())


@online_softmax.misconception(
    "Each block starts from 0, so only the last one counts. Keep the total of the blocks before it, and rescale it."
)
def last_block_only(blocks):
    return _online(blocks, shrink=lambda m, new: 0.0)


@online_softmax.misconception(
    "A block that does not raise the maximum is skipped. Its terms belong to the total as well."
)
def only_where_it_grows(blocks):
    return _online(blocks, powers=lambda block, m, new: (block - new).exp().sum().item() if new > m else 0.0)


@online_softmax.misconception(
    "The running maximum starts at 0. If all scores are negative it stays 0, and scores far below it underflow. Start "
    "from -inf."
)
def starts_at_zero(blocks):
    return _online(blocks, start=(0.0, 0.0))


@online_softmax.misconception("The total starts at 1. Nothing has been seen yet: start from 0.")
def total_starts_at_one(blocks):
    return _online(blocks, start=(INFINITE, 1.0), shrink=lambda m, new: math.exp(m - new) if m > INFINITE else 1.0)


@online_softmax.misconception(
    "The total is a sum of exp(x) itself. It overflows for large scores. Measure each term from the maximum."
)
def no_maximum(blocks):
    return _online(blocks, shrink=lambda m, new: 1.0, powers=lambda block, m, new: block.exp().sum().item())


@online_softmax.misconception(
    "This is the logarithm of the sum of all exponentials. Return the maximum and the total separately."
)
def log_sum(blocks):
    return _online(blocks, finish=lambda m, total: (m, m + math.log(total) if total else INFINITE))


@online_softmax.misconception(
    "The terms are added up in the precision of the block. Half precision holds three digits, and the total loses the "
    "rest. Convert the block to a wider type before you subtract the maximum, as in `block.float()`."
)
def in_the_precision_of_the_block(blocks):
    return _online(blocks, widen=lambda block: block)


@online_softmax.misconception("The total comes first and the maximum second. Return (maximum, total).")
def other_order(blocks):
    return _online(blocks, finish=lambda m, total: (total, m))


@online_softmax.misconception(
    "The blocks are read twice, once for the maximum and once for the total. A stream can be read only once: after "
    "the first pass nothing is left."
)
def two_passes(blocks):
    maximum = max((block.double().max().item() for block in blocks if block.numel()), default=INFINITE)
    if maximum == INFINITE:
        return maximum, 0.0
    return maximum, sum((block.double() - maximum).exp().sum().item() for block in blocks)


@online_softmax.misconception(
    "All blocks are held at once, joined or in a list, which this function is meant to avoid. Keep a maximum and a "
    "total, and let each block go."
)
def joined(blocks):
    row = torch.cat([block.double() for block in blocks])
    maximum = row.max().item()
    return maximum, (row - maximum).exp().sum().item() if maximum > INFINITE else 0.0


@online_softmax.misconception(
    "If only hidden scores have been seen, -inf - (-inf) gives nan, and nan stays. Until there is a score above -inf "
    "there is nothing to rescale and nothing to add."
)
def nan_from_infinities(blocks):
    maximum, total = torch.tensor(INFINITE, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    for block in blocks:
        block = block.double()
        if block.numel():
            new = torch.maximum(maximum, block.max())
            total = total * (maximum - new).exp() + (block - new).exp().sum()
            maximum = new
    return maximum, total


@online_softmax.misconception(
    "An empty block has no maximum, and PyTorch raises an error. Skip it: it changes nothing."
)
def empty_not_skipped(blocks):
    maximum, total = INFINITE, 0.0
    for block in blocks:
        block = block.double()
        new = max(maximum, block.max().item())
        if new > INFINITE:
            total = total * math.exp(maximum - new) + (block - new).exp().sum().item()
            maximum = new
    return maximum, total


@online_softmax.misconception(
    "A finite number is used instead of -inf at the start. If all scores are hidden, it is returned as the maximum."
)
def finite_start(blocks):
    return _online(blocks, start=(-1e9, 0.0))


@online_softmax.misconception(
    "The maximum is subtracted from the caller's tensor, in place. Make a new one: `block - m`."
)
def online_in_place(blocks):
    blocks = list(blocks)
    result = _online([block.clone() for block in blocks])
    for block in blocks:
        if block.numel() and block.max() > INFINITE:
            block -= block.max()
    return result


# tiled_attention -----------------------------------------------------------------------------------------------------

tiled_attention = Exercise(solutions.tiled_attention, section=TILES, minutes=20, difficulty=3)


def _tokens(rng, n_q=5, n_k=7, d_k=4, d_v=3, batch=2, dtype=None, size=1.5):
    """Q, K and V with scores far from uniform."""
    return dict(
        Q=size * normal(rng, batch, n_q, d_k, dtype=dtype),
        K=size * normal(rng, batch, n_k, d_k, dtype=dtype),
        V=normal(rng, batch, n_k, d_v, dtype=dtype),
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
    yield dict(
        shapes=dict(Q=(1, 0, 4), K=(1, 0, 4), V=(1, 0, 3)),
        seed=int(rng.integers(10**6)),
        n=44 + int(rng.integers(8)),
        large=dict(n=2040 + int(rng.integers(8)), block_size=100),
        entries=int(rng.integers(10**6)),
        watched=["memory"],
        block_size=16,
        causal=True,
    )


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
    # Queries that are far apart in a block, in blocks, and in a batch.
    two = {name: torch.cat([value, value.flip(1)]) for name, value in one.items()}
    yield two | dict(Q=torch.tensor([[[500.0], [1.0]], [[1.0], [500.0]]], dtype=torch.float64), block_size=1)


@tiled_attention.property(
    "has the gradients of attention, also with empty rows",
    points=2,
    probe=probes.gradients,
    hint="Use tensor operations throughout; `.detach()`, `.data` and NumPy cut the gradient. A nan from -inf - "
    "(-inf) spoils the gradient even if it is replaced afterwards.",
)
def tiled_gradients(rng):
    yield _tokens(rng, 3, 5, batch=1) | dict(block_size=2, upstream=[normal(rng, 1, 3, 3)])
    yield _tokens(rng, 4, 5) | dict(block_size=2, causal=True, upstream=[normal(rng, 2, 4, 3)])
    for n_q, n_k, block_size in ((5, 3, 2), (4, 2, 3), (5, 3, 4), (6, 5, 4)):
        case = _tokens(rng, n_q, n_k, batch=1) | dict(block_size=block_size, causal=True)
        yield case | dict(upstream=[normal(rng, 1, n_q, 3)])


@tiled_attention.property(
    "stays in the precision and on the device it was given, and leaves its inputs alone",
    points=1,
    probe=probes.elsewhere,
    **SINGLE,
    hint="Make accumulators with `Q.new_zeros(...)`, which copies dtype and device, masks with `device=Q.device`, "
    "and never write into Q, K or V.",
)
def tiled_is_pure(rng):
    yield dict(probe="unchanged") | _tokens(rng, 3, 4, dtype=torch.float32) | dict(block_size=2)
    yield dict(probe="unchanged") | _tokens(rng, 3, 5, batch=1) | dict(block_size=2, causal=True)


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


def _later(n_q, n_k, rows, keys, shift=0, device=None):
    """True where a key of the tile comes after the query, and `shift` more; rows and keys are ranges."""
    place = torch.arange(rows.start, rows.stop, device=device)[:, None] + n_k - n_q
    return torch.arange(keys.start, keys.stop, device=device) > place + shift


def _maximum(tile):
    return tile.detach().amax(-1, keepdim=True)


def _safe_level(new):
    return new.masked_fill(new == INFINITE, 0.0)


def _divide(gathered, total):
    return gathered / total.masked_fill(total == 0, 1.0)


def _tiles(
    Q,
    K,
    V,
    block_size,
    causal=False,
    *,
    later=_later,
    total_shrink=True,
    output_shrink=True,
    wrong_way=False,
    start=INFINITE,
    top=_maximum,
    level=_safe_level,
    fill=INFINITE,
    scale=None,
    divide=_divide,
    values=None,
    skip=None,
    drop_keys=False,
    drop_queries=False,
    each=False,
    wide=torch.float32,
):
    """Right, with parts to replace; the misconceptions say which."""
    narrow = Q.dtype
    if wide is not None:
        Q, K, V = (x.to(torch.promote_types(x.dtype, wide)) for x in (Q, K, V))
    n_q, n_k = Q.shape[-2], K.shape[-2]
    rows_of, keys_of = list(range(0, n_q, block_size)), list(range(0, n_k, block_size))
    if drop_queries and n_q // block_size:
        rows_of = rows_of[: n_q // block_size]
    if drop_keys and n_k // block_size:
        keys_of = keys_of[: n_k // block_size]
    scale = Q.shape[-1] ** -0.5 if scale is None else scale(Q, K, V)
    outputs = []
    for first in rows_of:
        rows = range(first, min(first + block_size, n_q))
        q = Q[:, rows.start : rows.stop] * scale
        maximum = q.new_full((len(Q), len(rows), 1), start)
        total = q.new_zeros(len(Q), len(rows), 1)
        gathered = q.new_zeros(len(Q), len(rows), V.shape[-1])
        for begin in keys_of:
            keys = range(begin, min(begin + block_size, n_k))
            if causal and skip and skip(rows, keys, n_k - n_q):
                break
            tile = q @ K[:, keys.start : keys.stop].mT
            if causal and later:
                tile = tile.masked_fill(later(n_q, n_k, rows, keys).to(Q.device), fill)
            new = torch.maximum(maximum, top(tile))
            base = level(new)
            powers, shrink = (tile - base).exp(), (maximum - base).exp()
            if wrong_way:
                shrink = torch.where(maximum == INFINITE, 0.0, (base - maximum).exp())
            read = V[:, keys.start : keys.stop] if values is None else values(V, keys)
            if each:
                gathered, total = gathered + powers @ read / powers.sum(-1, keepdim=True), total + 1
            else:
                total = total * (shrink if total_shrink else 1) + powers.sum(-1, keepdim=True)
                gathered = gathered * (shrink if output_shrink else 1) + powers @ read
            maximum = new
        outputs.append(divide(gathered, total))
    return torch.cat(outputs, dim=1).to(narrow)


def _tiled_wrong(text, **parts):
    def wrong(Q, K, V, block_size, causal=False):
        return _tiles(Q, K, V, block_size, causal, **parts)

    tiled_attention.misconception(text)(wrong)
    wrong.__name__ = "_".join(parts)
    return wrong


_tiled_wrong(
    "The total is rescaled when the maximum grows, the output is not. The output so far was also measured from the "
    "old maximum: multiply both by exp(old - new).",
    output_shrink=False,
)
_tiled_wrong(
    "The output is rescaled when the maximum grows, the total is not. Multiply both by exp(old - new).",
    total_shrink=False,
)
_tiled_wrong(
    "Nothing is rescaled when the maximum grows. Total and output were measured from the old maximum: "
    "multiply both by exp(old - new) first.",
    total_shrink=False,
    output_shrink=False,
)
_tiled_wrong(
    "Total and output are multiplied by exp(new - old), the wrong way round: old terms have to get smaller "
    "when the maximum grows.",
    wrong_way=True,
)
_tiled_wrong(
    "Each tile is divided by its own total, and the results are added up. A tile with small scores then "
    "counts as much as one with large ones. Divide once, by the total of all tiles.",
    each=True,
    divide=lambda gathered, total: gathered,
)
_tiled_wrong(
    "Each tile gets its own softmax, and the results are averaged. A tile with small scores then counts "
    "as much as one with large ones. Divide once, by the total of all tiles.",
    each=True,
)
_tiled_wrong(
    "The division at the end is missing: the weights do not add up to 1.", divide=lambda gathered, total: gathered
)
_tiled_wrong(
    "The last keys are dropped when the block size does not divide their number. The last block is just shorter.",
    drop_keys=True,
)
_tiled_wrong(
    "The last queries are dropped when the block size does not divide their number. The last block is just shorter.",
    drop_queries=True,
)
_tiled_wrong(
    "The diagonal is aligned to the top left: query i sees keys 0 to i. The last query sees every key, so query i is "
    "at position i + n_k - n_q.",
    later=lambda n_q, n_k, rows, keys: _later(n_q, n_q, rows, keys),
)
_tiled_wrong(
    "Positions are counted within the tile, so each tile gets the same triangle. Add where the block of "
    "queries and the block of keys begin.",
    later=lambda n_q, n_k, rows, keys: _later(n_q, n_k, range(len(rows)), range(len(keys))),
)
_tiled_wrong(
    "Where the block of queries begins is forgotten in the mask. Query i of a block that begins at `first` is "
    "query first + i.",
    later=lambda n_q, n_k, rows, keys: _later(n_q, n_k, range(len(rows)), keys),
)
_tiled_wrong(
    "Where the block of keys begins is forgotten in the mask. Key j of a block that begins at `start` is key "
    "start + j.",
    later=lambda n_q, n_k, rows, keys: _later(n_q, n_k, rows, range(len(keys))),
)
_tiled_wrong(
    "The causal border is off by one: a token does not see itself. Hide the keys after its position, but not the one "
    "at it.",
    later=lambda *tile: _later(*tile, shift=-1),
)
_tiled_wrong("The causal border is off by one: a token sees the next one.", later=lambda *tile: _later(*tile, shift=1))
_tiled_wrong(
    "The mask hides the past and shows the future.",
    later=lambda *tile: ~_later(*tile) & ~(_later(*tile, shift=-1) & ~_later(*tile)),
)
_tiled_wrong("`causal` is ignored: later keys are read as well.", later=None)
_tiled_wrong(
    "The tile on the diagonal is skipped together with those beyond it. Only a tile whose first key comes after the "
    "last query of the block may be skipped.",
    skip=lambda rows, keys, offset: keys.start >= rows.start + offset and keys.start > 0,
)
_tiled_wrong(
    "Hidden scores are set to a large finite number. A query that may see nothing then averages over keys it must "
    "not see. Use -inf.",
    fill=-1e9,
)
_NAN = (
    "A query that may see nothing gets nan: its maximum stays -inf and -inf - (-inf) is nan, or its total stays 0 and "
    "0 / 0 is nan. Replace such a maximum by 0, and divide by 1 where the total is 0."
)
_tiled_wrong(_NAN, level=lambda new: new, divide=lambda gathered, total: gathered / total)
_tiled_wrong(_NAN, divide=lambda gathered, total: gathered / total)
_tiled_wrong(
    "A small number keeps the total away from 0, and every result is a little too small. Divide by 1 where "
    "the total is 0, and by the total everywhere else.",
    divide=lambda gathered, total: gathered / (total + 1e-6),
)
_tiled_wrong(
    "A nan is made and replaced afterwards. The output looks right, but in the gradient the nan reaches every query "
    "and key of the tile. Avoid computing -inf - (-inf).",
    level=lambda new: new,
    divide=lambda gathered, total: (gathered / total).nan_to_num(0.0),
)
_tiled_wrong(
    "No maximum is subtracted: scores of a thousand overflow.",
    start=0.0,
    top=lambda tile: torch.zeros_like(tile[..., :1]),
)
_tiled_wrong(
    "The running maximum starts at 0. If all scores are far below 0, every exponential underflows to 0. Start from "
    "-inf.",
    start=0.0,
)
_tiled_wrong(
    "The tile has one maximum for all of its queries. A query whose scores are far below it gets only zeros. Each "
    "row needs its own maximum.",
    top=lambda tile: tile.detach().amax((-2, -1), keepdim=True).expand(*tile.shape[:-1], 1),
)
_tiled_wrong(
    "The maximum is that of the latest tile, even if an earlier one was higher. It may overflow. Keep the larger of "
    "the two.",
    level=lambda new: new,
    top=lambda tile: tile.detach().amax(-1, keepdim=True) * 0 + 1e4,
)
_tiled_wrong("The scale is missing: the scores are divided by the square root of d_k.", scale=lambda Q, K, V: 1.0)
_tiled_wrong("The scores are divided by d_k. It is the square root of d_k.", scale=lambda Q, K, V: 1 / Q.shape[-1])
_tiled_wrong(
    "The scale is made from the width of V. It is the square root of d_k, the width of queries and keys.",
    scale=lambda Q, K, V: V.shape[-1] ** -0.5,
)
_tiled_wrong(
    "Every tile reads the first block of values. Slice the values where you slice the keys.",
    values=lambda V, keys: V[:, : len(keys)],
)
_tiled_wrong(
    "The values get no gradient. `.detach()`, `.data` and NumPy give numbers without a gradient.",
    values=lambda V, keys: V.detach()[:, keys.start : keys.stop],
)
_tiled_wrong(
    "Total and output are kept in the narrow dtype of the inputs: in bfloat16, 256 + 1 is still 256. Keep them in "
    "float32, and convert the result back to the dtype of Q.",
    wide=None,
)


@tiled_attention.misconception(
    "The result is float32, whatever the inputs are. Return the dtype of Q, with `.to(Q.dtype)` or accumulators of "
    "that dtype."
)
def tiled_in_single(Q, K, V, block_size, causal=False):
    return _tiles(Q, K, V, block_size, causal).float()


@tiled_attention.misconception(
    "The mask is on the CPU, wherever Q is, and PyTorch cannot combine the two. Write `device=Q.device` where you "
    "make it."
)
def tiled_mask_on_the_cpu(Q, K, V, block_size, causal=False):
    if causal:
        Q.masked_fill(torch.zeros(Q.shape[-2], 1, dtype=torch.bool), 0.0)
    return _tiles(Q, K, V, block_size, causal)


def _whole(Q, K, V, hidden=None):
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden & ~hidden.all(-1, keepdim=True), INFINITE)
        weights = scores.softmax(-1).masked_fill(hidden, 0.0)
        return weights @ V
    return scores.softmax(-1) @ V


_WHOLE = (
    "The numbers are right, but a whole (n_q, n_k) matrix exists at once: all scores, tiles that are kept and joined, "
    "or a mask. Hold one tile at a time, and make a mask for that tile only."
)


@tiled_attention.misconception(_WHOLE)
def whole_matrix(Q, K, V, block_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    return _whole(Q, K, V, _later(n_q, n_k, range(n_q), range(n_k), device=Q.device) if causal else None)


@tiled_attention.misconception(_WHOLE)
def whole_mask(Q, K, V, block_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    mask = _later(n_q, n_k, range(n_q), range(n_k))
    return _tiles(
        Q,
        K,
        V,
        block_size,
        causal,
        later=lambda n_q, n_k, rows, keys: mask[rows.start : rows.stop, keys.start : keys.stop],
    )


@tiled_attention.misconception(_WHOLE)
def tiles_joined(Q, K, V, block_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    rows = [torch.cat([q @ k.mT for k in K.split(block_size, 1)], -1) for q in Q.split(block_size, 1)]
    scores = torch.cat(rows, 1) * Q.shape[-1] ** -0.5
    hidden = _later(n_q, n_k, range(n_q), range(n_k), device=Q.device) & torch.tensor(causal)
    opened = hidden & ~hidden.all(-1, keepdim=True)
    return scores.masked_fill(opened, INFINITE).softmax(-1).masked_fill(hidden, 0.0) @ V


@tiled_attention.misconception(
    "The whole result is cut off from the gradient. `.detach()`, `.data`, NumPy and `torch.no_grad()` give numbers "
    "without a gradient."
)
def tiled_detached(Q, K, V, block_size, causal=False):
    return _tiles(Q, K, V, block_size, causal).detach()


@tiled_attention.misconception(
    "The scale is multiplied into the caller's Q, in place. Write the scaled queries into a new tensor."
)
def tiled_in_place(Q, K, V, block_size, causal=False):
    if Q.requires_grad:
        return _tiles(Q, K, V, block_size, causal)
    Q *= Q.shape[-1] ** -0.5
    return _tiles(Q, K, V, block_size, causal, scale=lambda Q, K, V: 1.0)


# sliding_window_attention --------------------------------------------------------------------------------------------

sliding_window_attention = Exercise(solutions.sliding_window_attention, section=WINDOW, minutes=10, difficulty=3)


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
    yield dict(
        shapes=dict(Q=(1, 0, 2), K=(1, 0, 2), V=(1, 0, 2)),
        seed=int(rng.integers(10**6)),
        n=512 + int(rng.integers(8)),
        large=dict(n=1020 + int(rng.integers(8))),
        entries=int(rng.integers(10**6)),
        watched=["memory", "work"],
        window=5,
    )


@sliding_window_attention.property(
    "has the gradients of masked attention",
    points=1,
    probe=probes.gradients,
    hint="Use tensor operations throughout; `.detach()`, `.data` and NumPy cut the gradient.",
)
def window_gradients(rng):
    yield _text(rng, 6, batch=1) | dict(window=3, upstream=[normal(rng, 1, 6, 3)])
    yield _text(rng, 5) | dict(window=2, upstream=[normal(rng, 2, 5, 3)])


@sliding_window_attention.property(
    "stays in the precision and on the device it was given, and leaves its inputs alone",
    points=1,
    probe=probes.elsewhere,
    **SINGLE,
    hint="Make new tensors with `Q.new_zeros(...)` or `device=Q.device`, and never write into Q, K or V.",
)
def window_is_pure(rng):
    yield dict(probe="unchanged") | _text(rng, 5, dtype=torch.float32) | dict(window=2)
    yield dict(probe="unchanged") | _text(rng, 6, batch=1) | dict(window=3)


def _windows(
    Q,
    K,
    V,
    window,
    *,
    ahead=0,
    back=0,
    scale=None,
    weigh=None,
    padded=False,
    first=None,
    detached=False,
    dtype=None,
):
    """Right, all windows at once, with parts to replace: keys from i - window + 1 - back to i + ahead."""
    n = Q.shape[1]
    scale = Q.shape[-1] ** -0.5 if scale is None else scale(Q, V)
    rows = torch.arange(n, device=Q.device)[:, None]
    place = rows + torch.arange(1 - min(window, n) - back, 1 + ahead, device=Q.device)
    there = (place >= 0) & (place < n) & (place >= (0 if first is None else first(rows)))
    scores = (Q[:, :, None] * K[:, place.clamp(0, n - 1)]).sum(-1) * scale
    if padded:
        weights = scores.masked_fill(~there, 0.0).softmax(-1)
    else:
        weights = scores.masked_fill(~there, INFINITE).softmax(-1) if weigh is None else weigh(scores, there)
    out = (weights.masked_fill(~there, 0.0)[..., None] * V[:, place.clamp(0, n - 1)]).sum(2)
    return out.detach() if detached else out if dtype is None else out.to(dtype)


def _window_wrong(text, **parts):
    def wrong(Q, K, V, window):
        return _windows(Q, K, V, window, **parts)

    sliding_window_attention.misconception(text)(wrong)
    wrong.__name__ = "_".join(parts)


_window_wrong(
    "The window is one too wide: a token reads `window` tokens before it and itself. The token itself is one of the "
    "`window`.",
    back=1,
)
_window_wrong(
    "The window looks both ways. A token reads itself and what came before it, never what comes after.", ahead=1
)
_window_wrong(
    "Keys before the first token are filled with zeros, and these take part in the softmax: a score of 0 is an "
    "ordinary score. Hide them with -inf, or leave them out.",
    padded=True,
)
_window_wrong("The scale is missing: the scores are divided by the square root of d_k.", scale=lambda Q, V: 1.0)
_window_wrong("The scores are divided by d_k. It is the square root of d_k.", scale=lambda Q, V: 1 / Q.shape[-1])
_window_wrong(
    "The scale is made from the width of V. It is the square root of d_k.", scale=lambda Q, V: V.shape[-1] ** -0.5
)
_window_wrong("The softmax is missing: the scores themselves are used as weights.", weigh=lambda scores, there: scores)
_window_wrong(
    "All tokens of the window get the same weight: this is a moving average. The weights come from the scores.",
    weigh=lambda scores, there: there / there.sum(-1, keepdim=True, dtype=scores.dtype),
)
_window_wrong(
    "The exponentials are not divided by their total.",
    weigh=lambda scores, there: scores.exp(),
)
_window_wrong(
    "The result is cut off from the gradient. `.detach()`, `.data` and NumPy give numbers without a gradient.",
    detached=True,
)
_window_wrong(
    "The result is float32, whatever the inputs are. `Q.new_zeros(...)` has the dtype of Q.", dtype=torch.float32
)


@sliding_window_attention.misconception(
    "The text is cut into pieces of `window` tokens, and each token reads only its own piece. The window moves along "
    "with the token: the first token of a piece also reads the end of the piece before."
)
def own_piece(Q, K, V, window):
    return _windows(Q, K, V, window, first=lambda i: i // max(1, window) * window)


@sliding_window_attention.misconception(
    "The window is one too narrow: a token reads the window - 1 tokens that end with itself. It reads itself and "
    "window - 1 others."
)
def one_too_narrow(Q, K, V, window):
    return _windows(Q, K, V, max(1, window - 1))


@sliding_window_attention.misconception(
    "The slice begins at i - window + 1, which is negative for the first tokens, and Python counts a negative index "
    "from the end. Begin at max(0, i - window + 1)."
)
def negative_index(Q, K, V, window):
    rows = []
    for i in range(Q.shape[1]):
        keys, values = (x[:, i - window + 1 : i + 1] for x in (K, V))
        rows.append((Q[:, i : i + 1] @ keys.mT * Q.shape[-1] ** -0.5).softmax(-1) @ values)
    return torch.cat(rows, dim=1)


@sliding_window_attention.misconception(
    "The first tokens get no output, because only full windows are used. A token near the beginning reads the keys "
    "there are."
)
def only_full_windows(Q, K, V, window):
    out = _windows(Q, K, V, window)
    return torch.cat([torch.zeros_like(out[:, : window - 1]), out[:, window - 1 :]], dim=1)


@sliding_window_attention.misconception(
    "The numbers are right, but memory and work grow with n * n, as they do where all scores are computed and a mask "
    "hides most of them. Compute only those inside the window."
)
def masked_square(Q, K, V, window):
    n = Q.shape[1]
    place = torch.arange(n, device=Q.device)
    back = place[:, None] - place
    return _whole(Q, K, V, (back < 0) | (back >= window))


@sliding_window_attention.misconception(
    "The memory is that of a window, but the work grows much faster than n: queries are compared with many keys "
    "outside their window, and most scores are thrown away. Slice the keys before you multiply."
)
def all_keys_group_by_group(Q, K, V, window):
    rows, j = [], torch.arange(K.shape[1], device=Q.device)
    for i, q in zip(j.split(32), Q.split(32, dim=1)):
        hidden = (j > i[:, None]) | (j <= i[:, None] - window)
        scores = q @ K.mT * Q.shape[-1] ** -0.5
        rows.append(scores.masked_fill(hidden, INFINITE).softmax(-1) @ V)
    return torch.cat(rows, dim=1)


@sliding_window_attention.misconception("The window is ignored: every token reads all tokens before it.")
def plain_causal(Q, K, V, window):
    return _whole(Q, K, V, torch.ones(Q.shape[1], Q.shape[1], dtype=torch.bool, device=Q.device).triu(1))


@sliding_window_attention.misconception(
    "The scale is multiplied into the caller's Q, in place. Write the scaled queries into a new tensor."
)
def window_in_place(Q, K, V, window):
    if Q.requires_grad:
        return _windows(Q, K, V, window)
    Q *= Q.shape[-1] ** -0.5
    return _windows(Q, K, V, window, scale=lambda Q, V: 1.0)


# linear_attention ----------------------------------------------------------------------------------------------------

linear_attention = Exercise(solutions.linear_attention, section=LINEAR, minutes=10, difficulty=2)

ELU, EXP, SQUARES, WIDER, RELU = (
    "elu(x) + 1",
    "exp(x)",
    "x * x + 0.1",
    "softplus of x and -x, side by side",
    "relu(x)",
)


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
    yield dict(
        shapes=dict(Q=(1, 0, 4), K=(1, 0, 4), V=(1, 0, 3)),
        seed=int(rng.integers(10**6)),
        n=120 + int(rng.integers(8)),
        large=dict(n=2040 + int(rng.integers(8))),
        entries=int(rng.integers(10**6)),
        watched=["memory", "work"],
        feature_map=ELU,
    )


@linear_attention.property(
    "has gradients of queries, keys and values",
    points=1,
    probe=probes.gradients,
    hint="Use tensor operations throughout. The total depends on queries and keys too: do not detach it.",
)
def linear_gradients(rng):
    yield _tokens(rng, 3, 5, batch=1) | dict(feature_map=ELU, upstream=[normal(rng, 1, 3, 3)])
    yield _tokens(rng, 4, 3) | dict(feature_map=SQUARES, upstream=[normal(rng, 2, 4, 3)])


@linear_attention.property(
    "stays in the precision and on the device it was given, and leaves its inputs alone",
    points=1,
    probe=probes.elsewhere,
    **SINGLE,
    hint="Never write into Q, K or V, and make new tensors with `Q.new_zeros(...)`.",
)
def linear_is_pure(rng):
    yield dict(probe="unchanged") | _tokens(rng, 3, 4, dtype=torch.float32) | dict(feature_map=ELU)
    yield dict(probe="unchanged") | _tokens(rng, 3, 5, batch=1) | dict(feature_map=SQUARES)


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


def _elu(x):
    return F.elu(x) + 1


def _same(x):
    return x


def _sums(Q, K, V, feature_map, *, of_q=None, of_k=None, of_v=_same, total=None, total_of=None):
    """Right, with parts to replace: what is done to Q, K and V, and what is divided by."""
    q, k = (of_q or feature_map)(Q), (of_k or feature_map)(K)
    gathered = q @ (k.mT @ of_v(V))
    total = total(q, k) if total else q @ (k if total_of is None else total_of(K)).sum(1)[..., None]
    return gathered / (total.masked_fill(total == 0, 1.0) if isinstance(total, torch.Tensor) else total)


def _linear_wrong(text, make):
    def wrong(Q, K, V, feature_map):
        return _sums(Q, K, V, feature_map, **make(feature_map))

    linear_attention.misconception(text)(wrong)


_linear_wrong(
    "The division is missing: the weights phi(q) . phi(k) do not add up to 1. Divide by phi(q) times the sum "
    "of phi(K).",
    lambda phi: dict(total=lambda q, k: 1.0),
)
_linear_wrong(
    "The sum is divided by the number of keys. Divide by the sum of this query's weights: phi(q) times the "
    "sum of phi(K).",
    lambda phi: dict(total=lambda q, k: k.shape[1]),
)
_linear_wrong(
    "The total is kept from being small, by a clamp or a maximum. Small features give a small total, which is "
    "right; only a total of exactly 0 has to be replaced.",
    lambda phi: dict(total=lambda q, k: (q @ k.sum(dim=-2).unsqueeze(-1)).clamp(min=1.0)),
)
_linear_wrong(
    "The total is the sum of phi(q). It is phi(q) times the sum of all phi(k).",
    lambda phi: dict(total=lambda q, k: q.sum(-1, keepdim=True)),
)
_linear_wrong(
    "The total is the sum of everything in phi(K), the same for all queries. Each query has its own: phi(q) "
    "times the sum of phi(K) over the keys.",
    lambda phi: dict(total=lambda q, k: k.sum((1, 2), keepdim=True)),
)
_linear_wrong(
    "The feature map is not applied to the keys in the total. Numerator and total need the same phi(K).",
    lambda phi: dict(total_of=lambda K: torch.cat([K] * (phi(K).shape[-1] // K.shape[-1]), -1)),
)
_linear_wrong(
    "The feature map is applied to the values as well. It is only for queries and keys.",
    lambda phi: dict(of_v=lambda V: phi(V)[..., : V.shape[-1]]),
)
_linear_wrong(
    "The feature map is not applied to the queries. Weights may then be negative, and their sum near 0.",
    lambda phi: dict(of_q=lambda Q: torch.cat([Q] * (phi(Q).shape[-1] // Q.shape[-1]), -1)),
)
_linear_wrong(
    "The feature map is not applied to the keys. Weights may then be negative, and their sum near 0.",
    lambda phi: dict(of_k=lambda K: torch.cat([K] * (phi(K).shape[-1] // K.shape[-1]), -1)),
)
_linear_wrong(
    "The feature map is not used at all: weights q . k may be negative, and their sum near 0.",
    lambda phi: dict(of_q=_same, of_k=_same),
)
_linear_wrong(
    "elu(x) + 1 is written into the function. The feature map is the caller's choice: call `feature_map`.",
    lambda phi: dict(of_q=_elu, of_k=_elu),
)
_linear_wrong(
    "Queries are divided by the square root of d_k before the feature map. There is no softmax here to "
    "protect: give Q to `feature_map` as it is.",
    lambda phi: dict(of_q=lambda Q: phi(Q / Q.shape[-1] ** 0.5)),
)
_linear_wrong(
    "Queries and keys are each divided by the fourth root of d_k before the feature map. There is no softmax "
    "here to protect: give them to `feature_map` as they are.",
    lambda phi: dict(of_q=lambda Q: phi(Q / Q.shape[-1] ** 0.25), of_k=lambda K: phi(K / K.shape[-1] ** 0.25)),
)
_linear_wrong(
    "Features are normalized over their width, as in a softmax. Use them as `feature_map` returns them.",
    lambda phi: dict(of_k=lambda K: phi(K) / phi(K).sum(-1, keepdim=True)),
)
_linear_wrong(
    "Features of the keys are normalized over the keys. Keep each key's size; what has to be 1 is the sum of a "
    "query's weights.",
    lambda phi: dict(
        of_k=lambda K: phi(K) / phi(K).sum(1, keepdim=True), total=lambda q, k: q.sum(-1, keepdim=True) * 2
    ),
)
_linear_wrong(
    "A small number is added to the total, and every result is a little too small, or much too small where the total "
    "is small itself. Divide by 1 where the total is exactly 0, and by the total everywhere else.",
    lambda phi: dict(total=lambda q, k: q @ k.sum(1)[..., None] + 1e-6),
)
_linear_wrong(
    "The total runs over the batch as well: texts in a batch must not mix. Sum over the keys alone, dim=-2.",
    lambda phi: dict(total=lambda q, k: q @ k.sum((0, 1))[..., None]),
)
_linear_wrong(
    "The total gets no gradient. It depends on queries and keys too.",
    lambda phi: dict(total=lambda q, k: (q @ k.sum(1)[..., None]).detach()),
)


@linear_attention.misconception(
    "A query that shares no feature with a key gets nan, because its total and its sum are both 0. Divide by 1 there: "
    "`total.masked_fill(total == 0, 1.0)`."
)
def zero_by_zero(Q, K, V, feature_map):
    q, k = feature_map(Q), feature_map(K)
    return q @ (k.mT @ V) / (q @ k.sum(1)[..., None])


@linear_attention.misconception(
    "The numbers are right, but phi(Q) phi(K)^T is multiplied first, and that is an n x n matrix. Multiply phi(K)^T "
    "and V first."
)
def queries_and_keys_first(Q, K, V, feature_map):
    weights = feature_map(Q) @ feature_map(K).mT
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0) @ V


@linear_attention.misconception(
    "A softmax is taken of the products of features. Then keys and values cannot be summed first, and the cost is n * "
    "n again. The weights are phi(q) . phi(k), divided by their sum."
)
def softmax_of_features(Q, K, V, feature_map):
    return (feature_map(Q) @ feature_map(K).mT).softmax(-1) @ V


@linear_attention.misconception("This is ordinary attention: a softmax, no feature map, and an n x n matrix.")
def ordinary(Q, K, V, feature_map):
    return _whole(Q, K, V)


@linear_attention.misconception(
    "Running sums make it causal: query i sees the keys up to i only. Here every query sees every key."
)
def causal_sums(Q, K, V, feature_map):
    q, k = feature_map(Q), feature_map(K)
    place = torch.arange(q.shape[1], device=Q.device).clamp(max=k.shape[1] - 1)
    states = (k[..., None] * V[:, :, None]).cumsum(1)[:, place]
    totals = (q * k.cumsum(1)[:, place]).sum(-1, keepdim=True)
    return (q[:, :, None] @ states)[:, :, 0] / totals


@linear_attention.misconception(
    "The result is cut off from the gradient. `.detach()`, `.data` and NumPy give numbers without a gradient."
)
def linear_detached(Q, K, V, feature_map):
    return _sums(Q, K, V, feature_map).detach()


@linear_attention.misconception("The features overwrite the caller's Q, in place. Keep them in a new tensor.")
def linear_in_place(Q, K, V, feature_map):
    result = _sums(Q, K, V, feature_map)
    if not Q.requires_grad:
        Q.copy_(feature_map(Q)[..., : Q.shape[-1]])
    return result


@linear_attention.misconception("The result is float32, whatever the inputs are. Keep the dtype of Q.")
def linear_in_single(Q, K, V, feature_map):
    return _sums(Q, K, V, feature_map).float()


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
