"""Exercises of the rotary chapter: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, and a right answer may compute its frequencies in more than one way, so tolerances allow
for an angle that is off by about a millionth of itself. Every relative-position property holds for both pairings and
for both directions of rotation: only numbers decide, so nearly all cases are golden values.
"""

import math

import torch

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import rope as solutions

SPEEDS = "All pairs, each at its own frequency"
ANGLES = "A table of angles"
TURN = "Rotate queries and keys"
DEVICE = "The device of a tensor"
PAIRS = "Two ways to pair"
CONVERT = "From one pairing to the other"
PRECISION = "Angles need float32"
CAT_SAT = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
CLOSE = dict(rtol=1e-5, atol=1e-5)  # float32 angles of a few hundred radians at most
FAR = dict(rtol=1e-5, atol=2e-3)  # up to some thousand


def _width(rng, low=3, high=7):
    """An even width from 6 on."""
    return 2 * int(rng.integers(low, high))


def _whole(*numbers):
    return torch.tensor(numbers, dtype=torch.int64)


def _places(rng, n, low=-40, high=60):
    """n whole numbers in no order, some of them negative and some not."""
    while True:
        places = rng.choice(range(low, high), size=n, replace=False)
        if places.min() < 0 <= places.max():
            return torch.from_numpy(places)


def _single(rng, *shape):
    return normal(rng, *shape, dtype=torch.float32)


# Right answers with parts to replace, for misconceptions that go wrong in one of them ---------------------------------


def _speeds(d_head, base=10000.0):
    return torch.exp(-math.log(base) * torch.arange(0, d_head, 2, dtype=torch.float64) / d_head).to(torch.float32)


def _angles(positions, d_head, base=10000.0):
    return positions.to(torch.float32)[:, None] * _speeds(d_head, base).to(positions.device)


def _pair_up(x, interleaved):
    """The two members of each pair: (..., d/2) twice."""
    half = x.shape[-1] // 2
    return (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def _put_back(first, second, interleaved):
    return torch.stack([first, second], -1).flatten(-2) if interleaved else torch.cat([first, second], -1)


def _turn(x, positions, base, interleaved, angles=_angles, back=None, keep_dtype=True):
    """The right turn with one part replaced: angles(positions, d_head, base), or where the pairs are put back."""
    table = angles(positions, x.shape[-1], base)
    a, b = _pair_up(x, interleaved)
    out = _put_back(
        a * table.cos() - b * table.sin(), b * table.cos() + a * table.sin(), interleaved if back is None else back
    )
    return out.to(x.dtype) if keep_dtype else out


# rope_frequencies ----------------------------------------------------------------------------------------------------

rope_frequencies = Exercise(solutions.rope_frequencies, section=SPEEDS, minutes=5, difficulty=1)


@rope_frequencies.property(
    "falls from 1 in equal ratios, one frequency per pair",
    points=3,
    rtol=1e-5,
    atol=1e-9,
    hint="Pair i has the frequency base ** (-2 i / d_head), i from 0 to d_head / 2 - 1. For d_head 4: 1 and 0.01.",
)
def closed_form(rng):
    yield dict(d_head=4)
    yield dict(d_head=_width(rng))
    yield dict(d_head=_width(rng, 24, 40))


@rope_frequencies.property(
    "follows the base", points=1, rtol=1e-5, atol=1e-9, hint="10000 is only the default. Use the argument `base`."
)
def other_bases(rng):
    yield dict(d_head=8, base=500000.0)
    yield dict(d_head=_width(rng), base=float(rng.integers(20, 3000)))


@rope_frequencies.property(
    "works for a single pair",
    points=1,
    rtol=1e-5,
    atol=1e-9,
    hint="With d_head 2 there is one pair, and its frequency is 1.",
)
def one_pair(rng):
    yield dict(d_head=2)
    yield dict(d_head=2, base=float(rng.integers(20, 3000)))
    yield dict(d_head=6, base=100.0)


def _wrong_speeds(text):
    """Declares a misconception about the speeds: wrong(i, d_head, base) with i = 0, 1, ... in float64."""

    def declare(wrong):
        def speeds(d_head, base=10000.0):
            return wrong(torch.arange(d_head // 2, dtype=torch.float64), d_head, base).to(torch.float32)

        speeds.__name__ = wrong.__name__
        rope_frequencies.misconception(text)(speeds)
        return wrong

    return declare


DOUBLED = (
    "The exponent is twice what it should be. `torch.arange(0, d_head, 2)` is already 2 i: divide it by d_head, and "
    "neither double it again nor divide it by d_head / 2."
)
HALVED = (
    "The exponent is half of what it should be. With 2 i / d_head the frequencies fall almost to 1 / base; yours fall "
    "only to about the root of that."
)
FIXED_BASE = "The base is fixed at 10000. It is an argument, since models with long contexts have other bases."


@_wrong_speeds(DOUBLED)
def doubled_exponent(i, d, base):
    return base ** (-4 * i / d)


@_wrong_speeds(HALVED)
def halved_exponent(i, d, base):
    return base ** (-i / d)


@_wrong_speeds(
    "The frequencies grow: the minus of the exponent is missing. Pair 0 has the highest frequency, 1, and every "
    "other pair a lower one."
)
def rising(i, d, base):
    return base ** (2 * i / d)


@_wrong_speeds(
    "These are wavelengths, in tokens. Return frequencies, in radians per token: 2 pi divided by the wavelength."
)
def wavelengths(i, d, base):
    return 2 * math.pi * base ** (2 * i / d)


@_wrong_speeds("These are rotations per token. Return radians per token: a full rotation has 2 pi of them.")
def turns_per_token(i, d, base):
    return base ** (-2 * i / d) / (2 * math.pi)


@_wrong_speeds(FIXED_BASE)
def base_fixed(i, d, base):
    return 10000.0 ** (-2 * i / d)


@_wrong_speeds("Pairs are counted from 1, so the fastest is missing. Pair 0 has frequency base ** 0 = 1.")
def pairs_from_one(i, d, base):
    return base ** (-2 * (i + 1) / d)


@_wrong_speeds("The slowest pair comes first. Pair 0 is the fastest.")
def slowest_first(i, d, base):
    return (base ** (-2 * i / d)).flip(0)


@_wrong_speeds(
    "The last frequency is exactly 1 / base. The exponents go in steps of 2 / d_head, so the last one is "
    "(d_head - 2) / d_head, just below 1; `linspace(0, 1, ...)` spaces them too far apart."
)
def down_to_one_over_base(i, d, base):
    return base ** -torch.linspace(0, 1, d // 2, dtype=torch.float64)


@_wrong_speeds("The frequencies are powers of e, without the base. `base ** y` is `exp(y * log(base))`.")
def powers_of_e(i, d, base):
    return torch.exp(-2 * i / d)


@_wrong_speeds(
    "The frequencies fall by equal steps. They should fall by equal ratios: each is the same fraction of the one "
    "before."
)
def straight_line(i, d, base):
    return 1 - 2 * i / d * (1 - 1 / base)


@_wrong_speeds(
    "There is one number per column, d_head in all, each with its own exponent. Both members of a pair rotate "
    "together: one frequency per pair, d_head / 2 in all."
)
def one_per_column(i, d, base):
    return base ** (-torch.arange(d, dtype=torch.float64) / d)


@_wrong_speeds("Each frequency comes twice, for both columns of its pair. Return it once: d_head / 2 numbers.")
def each_twice(i, d, base):
    return (base ** (-2 * i / d)).repeat_interleave(2)


@_wrong_speeds(
    "The row of frequencies comes twice, once for each half of the columns. Return it once: d_head / 2 numbers."
)
def row_twice(i, d, base):
    return (base ** (-2 * i / d)).repeat(2)


@rope_frequencies.misconception(
    "The numbers are right, but they come as float64. Return float32, as PyTorch does unless told otherwise."
)
def speeds_in_double(d_head, base=10000.0):
    return base ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)


# rope_angles ---------------------------------------------------------------------------------------------------------

rope_angles = Exercise(solutions.rope_angles, section=ANGLES, minutes=5, difficulty=1)


@rope_angles.property(
    "multiplies every position by every frequency",
    points=2,
    rtol=1e-5,
    atol=1e-7,
    hint="Rows are positions, columns are pairs. A column of positions times a row of frequencies broadcasts to "
    "(n, d_head / 2).",
)
def products(rng):
    yield dict(positions=_whole(0, 1, 2), d_head=4)
    yield dict(positions=torch.arange(int(rng.integers(5, 8))), d_head=_width(rng))
    yield dict(positions=torch.arange(int(rng.integers(8, 14))), d_head=6)


@rope_angles.property(
    "takes positions as they are: in any order, negative, repeated",
    points=1,
    rtol=1e-5,
    atol=1e-7,
    hint="Positions need not be 0 to n - 1. Use the numbers in `positions`, not their count.",
)
def any_positions(rng):
    yield dict(positions=_whole(4, 5, 6, 7, 8), d_head=6)
    yield dict(positions=_places(rng, 5), d_head=8)
    yield dict(positions=_whole(-3, 2, 2, -3), d_head=_width(rng))
    yield dict(positions=torch.tensor([9, 4, 11], dtype=torch.int32), d_head=4)


@rope_angles.property("follows the base", points=1, rtol=1e-5, atol=1e-7, hint="Pass `base` on to rope_frequencies.")
def angles_of_other_bases(rng):
    yield dict(positions=_whole(0, 3, 20), d_head=8, base=500000.0)
    yield dict(positions=_places(rng, 4), d_head=_width(rng), base=float(rng.integers(20, 3000)))


@rope_angles.property(
    "tells far positions apart, in float32",
    points=1,
    rtol=1e-5,
    atol=1e-7,
    hint="Multiply in float32 from whole numbers. bfloat16 has no 257: it rounds to 256.",
)
def far_positions(rng):
    yield dict(positions=_whole(256, 257, 300, 301), d_head=4)
    yield dict(positions=2 * torch.from_numpy(rng.choice(range(500, 4000), size=3, replace=False)) + 1, d_head=6)


@rope_angles.property(
    "makes the table on the device of the positions",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-5,
    atol=1e-7,
    hint="Your frequencies were made on the CPU. Move them to the device of the positions: `.to(positions.device)`.",
)
def angles_elsewhere(rng):
    yield dict(positions=_places(rng, 3), d_head=_width(rng), base=float(rng.integers(20, 3000)))


def _wrong_angles(text, *, section=None):
    """Declares a misconception about the table: wrong(positions, d_head, base)."""

    def declare(wrong):
        def table(positions, d_head, base=10000.0):
            return wrong(positions, d_head, base)

        table.__name__ = wrong.__name__
        rope_angles.misconception(text, section=section)(table)
        return wrong

    return declare


IGNORED = (
    "The positions are ignored: only how many there are is used, as if they were 0 to n - 1. With a cache the "
    "first new token has a later position."
)
OFF_BY_ONE = "Every position is one too large. Positions count from 0, and position 0 is not rotated at all."
FROM_THE_FIRST = (
    "Positions are counted from the first one of them. Use them as they are: keys that were "
    "rotated earlier keep their angles, so all must be counted from the same 0."
)
HALF_PRECISION = (
    "Somewhere positions, frequencies or angles are rounded to half precision. bfloat16 has 8 significant "
    "bits: from 257 on it rounds neighbors to the same number. Compute the angles in float32, whatever the "
    "dtype of x."
)
DEGREES = "Frequencies are in radians per token. Do not convert from or to degrees."


@_wrong_angles(
    "The frequencies are on the CPU, wherever the positions are, and PyTorch does not combine two devices. Move them: "
    "`rope_frequencies(d_head, base).to(positions.device)`.",
    section=DEVICE,
)
def angle_on_the_cpu(positions, d_head, base):
    return positions.float()[:, None] * _speeds(d_head, base)


@_wrong_angles(OFF_BY_ONE)
def angle_off_by_one(positions, d_head, base):
    return _angles(positions + 1, d_head, base)


@_wrong_angles(IGNORED)
def angle_positions_ignored(positions, d_head, base):
    return _angles(torch.arange(len(positions)), d_head, base)


@_wrong_angles(FROM_THE_FIRST)
def angle_from_the_first(positions, d_head, base):
    return _angles(positions - positions[:1], d_head, base)


@_wrong_angles("Negative positions lose their sign. A token before position 0 is rotated backwards.")
def angle_unsigned(positions, d_head, base):
    return _angles(positions.abs(), d_head, base)


@_wrong_angles(FIXED_BASE, section=SPEEDS)
def angle_base_fixed(positions, d_head, base):
    return _angles(positions, d_head)


@_wrong_angles("The table is transposed: rows are positions and columns are pairs, (n, d_head / 2).")
def angle_transposed(positions, d_head, base):
    return _angles(positions, d_head, base).T


@_wrong_angles("The table is d_head wide. Both members of a pair share one angle. Return it once: (n, d_head / 2).")
def angle_twice(positions, d_head, base):
    return _angles(positions, d_head, base).repeat(1, 2)


@_wrong_angles(
    "The table is d_head wide, with each angle twice in a row. Both members of a pair share one angle. Return it "
    "once: (n, d_head / 2)."
)
def angle_beside_itself(positions, d_head, base):
    return _angles(positions, d_head, base).repeat_interleave(2, dim=1)


@_wrong_angles("The position is divided by the frequency. The angle is their product; slow pairs have small angles.")
def angle_divided(positions, d_head, base):
    return positions.float()[:, None] / _speeds(d_head, base)


@_wrong_angles(DEGREES)
def angle_in_degrees(positions, d_head, base):
    return _angles(positions, d_head, base).rad2deg()


@_wrong_angles(DEGREES)
def angle_from_degrees(positions, d_head, base):
    return _angles(positions, d_head, base).deg2rad()


@_wrong_angles(DOUBLED, section=SPEEDS)
def angle_doubled_exponent(positions, d_head, base):
    return _angles(positions, d_head, base * base)


@_wrong_angles(HALVED, section=SPEEDS)
def angle_halved_exponent(positions, d_head, base):
    return _angles(positions, d_head, math.sqrt(base))


@_wrong_angles(
    "Full rotations are removed from the angles. Sines and cosines stay the same, but return the plain product."
)
def angle_modulo(positions, d_head, base):
    return _angles(positions, d_head, base) % (2 * math.pi)


@_wrong_angles("These are the cosines already. Return the angles themselves; sine and cosine come later.")
def angle_cosines(positions, d_head, base):
    return _angles(positions, d_head, base).cos()


@_wrong_angles("The angles come as float64. Return float32, whatever the dtype of model and positions.")
def angle_in_double(positions, d_head, base):
    return positions.double()[:, None] * base ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)


for _rounded in (torch.bfloat16, torch.float16):

    @_wrong_angles(HALF_PRECISION, section=PRECISION)
    def angle_half(positions, d_head, base, dtype=_rounded):
        return (positions.to(dtype)[:, None] * _speeds(d_head, base).to(dtype)).float()

    @_wrong_angles(HALF_PRECISION, section=PRECISION)
    def angle_product_half(positions, d_head, base, dtype=_rounded):
        return _angles(positions, d_head, base).to(dtype).float()


@_wrong_angles(HALF_PRECISION, section=PRECISION)
def angle_positions_half(positions, d_head, base):
    return _angles(positions.bfloat16(), d_head, base)


# apply_rope and apply_rope_interleaved -------------------------------------------------------------------------------

apply_rope = Exercise(solutions.apply_rope, section=TURN, minutes=15, difficulty=3)
apply_rope_interleaved = Exercise(solutions.apply_rope_interleaved, section=PAIRS, minutes=10, difficulty=2)


@apply_rope.property(
    "rotates number i together with number i + d_head / 2",
    points=3,
    **CLOSE,
    hint="Cut each row into a left and a right half, a and b. The new halves are a cos - b sin and a sin + b cos, put "
    "side by side again.",
)
def half_split(rng):
    yield dict(x=CAT_SAT.clone(), positions=_whole(0, 1, 2))
    yield dict(x=_single(rng, 5, 8), positions=torch.arange(5))
    yield dict(x=_single(rng, 4, _width(rng)), positions=torch.arange(4))


@apply_rope_interleaved.property(
    "rotates number 2i together with number 2i + 1",
    points=3,
    **CLOSE,
    hint="Neighbors are a pair: every other column from 0 on, and every other from 1 on. Put the results back where "
    "they came from.",
)
def neighbors(rng):
    yield dict(x=CAT_SAT.clone(), positions=_whole(0, 1, 2))
    yield dict(x=_single(rng, 5, 8), positions=torch.arange(5))
    yield dict(x=_single(rng, 4, _width(rng)), positions=torch.arange(4))


@apply_rope.property(
    "leaves position 0 alone, and takes every other as it is",
    points=1,
    **CLOSE,
    hint="Positions need not be 0 to n - 1: use the numbers given. At 0 nothing is rotated; a negative position "
    "rotates backwards.",
)
@apply_rope_interleaved.property(
    "leaves position 0 alone, and takes every other as it is",
    points=1,
    **CLOSE,
    hint="Positions need not be 0 to n - 1: use the numbers given. At 0 nothing is rotated; a negative position "
    "rotates backwards.",
)
def places(rng):
    yield dict(x=_single(rng, 1, 6), positions=_whole(0))
    yield dict(x=_single(rng, 2, 1, 6), positions=_whole(int(rng.integers(3, 30))))  # one new token, with a cache
    yield dict(x=_single(rng, 3, 6), positions=_whole(7, 8, 9))
    yield dict(x=_single(rng, 4, 8), positions=_places(rng, 4))
    yield dict(x=_single(rng, 3, _width(rng)), positions=_whole(-2, 0, -2))


@apply_rope.property("follows the base", points=1, **CLOSE, hint="Pass `base` on to the angles.")
@apply_rope_interleaved.property("follows the base", points=1, **CLOSE, hint="Pass `base` on to the angles.")
def turned_by_other_bases(rng):
    yield dict(x=_single(rng, 3, 6), positions=_whole(1, 2, 12), base=500000.0)
    yield dict(x=_single(rng, 4, 8), positions=_places(rng, 4), base=float(rng.integers(20, 3000)))


@apply_rope.property(
    "takes any leading dimensions, and tokens on the last axis but one",
    points=1,
    **CLOSE,
    hint="(n, d_head / 2) broadcasts against (..., n, d_head / 2). Use negative numbers for axes.",
)
@apply_rope_interleaved.property(
    "takes any leading dimensions, and tokens on the last axis but one",
    points=1,
    **CLOSE,
    hint="(n, d_head / 2) broadcasts against (..., n, d_head / 2). Use negative numbers for axes.",
)
def leading(rng):
    yield dict(x=_single(rng, 2, 4, 6), positions=_places(rng, 4))
    yield dict(x=_single(rng, 2, 3, 3, 6), positions=_whole(2, 3, 4))  # as many heads as tokens, on purpose
    yield dict(x=_single(rng, 2, 1, 2, 3, 4), positions=_places(rng, 3))


@apply_rope.property(
    "stays right far along",
    points=1,
    **FAR,
    hint="Compute the angles in float32 from the whole numbers in `positions`.",
)
@apply_rope_interleaved.property(
    "stays right far along",
    points=1,
    **FAR,
    hint="Compute the angles in float32 from the whole numbers in `positions`.",
)
def far_along(rng):
    yield dict(x=_single(rng, 4, 6), positions=_whole(300, 301, 1003, 4099))
    yield dict(x=_single(rng, 3, 8), positions=2 * torch.from_numpy(rng.integers(150, 2000, size=3)) + 1)


@apply_rope.property(
    "keeps the dtype of x, and its angles in float32",
    points=2,
    rtol=0.02,
    atol=0.03,
    hint="Whatever the dtype of x, compute the angles in float32 and convert the result back with `.to(x.dtype)`.",
)
@apply_rope_interleaved.property(
    "keeps the dtype of x, and its angles in float32",
    points=1,
    rtol=0.02,
    atol=0.03,
    hint="Whatever the dtype of x, compute the angles in float32 and convert the result back with `.to(x.dtype)`.",
)
def half_precision(rng):
    yield dict(x=normal(rng, 4, 6, dtype=torch.bfloat16), positions=_whole(3, 300, 301, 1003))
    yield dict(
        x=normal(rng, 2, 3, 8, dtype=torch.bfloat16), positions=2 * torch.from_numpy(rng.integers(150, 900, size=3)) + 1
    )
    yield dict(x=normal(rng, 3, 6, dtype=torch.float16), positions=_whole(301, 1003, 4099))
    yield dict(x=normal(rng, 3, 6), positions=_whole(301, 1003, 4099))


@apply_rope.property(
    "leaves x and positions as they were",
    points=1,
    probe=probes.unchanged,
    **CLOSE,
    hint="A slice of x is a view: writing to it writes into x. Make new tensors and join them.",
)
@apply_rope_interleaved.property(
    "leaves x and positions as they were",
    points=1,
    probe=probes.unchanged,
    **CLOSE,
    hint="A slice of x is a view: writing to it writes into x. Make new tensors and put them together.",
)
def untouched(rng):
    yield dict(x=_single(rng, 2, 3, 6), positions=_whole(1, 2, 5))


@apply_rope.property(
    "lets gradients through",
    points=1,
    probe=probes.gradients,
    **CLOSE,
    hint="Stay with operations of tensors. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient.",
)
@apply_rope_interleaved.property(
    "lets gradients through",
    points=1,
    probe=probes.gradients,
    **CLOSE,
    hint="Stay with operations of tensors. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient.",
)
def turned_gradients(rng):
    yield dict(x=_single(rng, 2, 3, 6), positions=_whole(1, 4, 9), upstream=[_single(rng, 2, 3, 6)])


@apply_rope.property(
    "works on the device of x",
    points=1,
    probe=probes.elsewhere,
    **CLOSE,
    hint="PyTorch does not combine a table on the CPU with an x on a GPU. Say `device=x.device` where you make "
    "a tensor, or `.to(x.device)`.",
)
@apply_rope_interleaved.property(
    "works on the device of x",
    points=1,
    probe=probes.elsewhere,
    **CLOSE,
    hint="PyTorch does not combine a table on the CPU with an x on a GPU. Say `device=x.device` where you make "
    "a tensor, or `.to(x.device)`.",
)
def turned_elsewhere(rng):
    yield dict(x=_single(rng, 2, 3, 6), positions=_places(rng, 3), base=float(rng.integers(20, 3000)))


def _turned(text, *, section=None):
    """Declares one mistake for both pairings: wrong(x, positions, base, interleaved)."""

    def declare(wrong):
        for exercise, interleaved in ((apply_rope, False), (apply_rope_interleaved, True)):

            def turned(x, positions, base=10000.0, interleaved=interleaved):
                return wrong(x, positions, base, interleaved)

            turned.__name__ = wrong.__name__
            exercise.misconception(text, section=section)(turned)
        return wrong

    return declare


@apply_rope.misconception(
    "The pairing is the other one: neighbors (2i, 2i + 1) are rotated together. Here number i goes with number "
    "i + d_head / 2, as Llama's weights in the Hugging Face layout require.",
    section=PAIRS,
)
def neighbors_for_halves(x, positions, base=10000.0):
    return _turn(x, positions, base, interleaved=True)


@apply_rope_interleaved.misconception(
    "The pairing is the other one: number i is rotated with number i + d_head / 2. Here neighbors (2i, 2i + 1) go "
    "together."
)
def halves_for_neighbors(x, positions, base=10000.0):
    return _turn(x, positions, base, interleaved=False)


@apply_rope_interleaved.misconception(
    "The right numbers are rotated and then put back in the wrong order: all first members, then all second ones. "
    "`torch.stack` on a new last axis and `flatten(-2)` make neighbors of them again."
)
def left_in_halves(x, positions, base=10000.0):
    return _turn(x, positions, base, interleaved=True, back=False)


@apply_rope.misconception(
    "Halves are rotated together, and then put back as neighbors. Join them with `torch.cat`: all first members, then "
    "all second ones."
)
def halves_put_back_as_neighbors(x, positions, base=10000.0):
    return _turn(x, positions, base, interleaved=False, back=True)


def _table_of_the_other_pairing(x, positions, base, interleaved):
    """Full-width angles in the order of one pairing, the turn in the order of the other."""
    angles = _angles(positions, x.shape[-1], base)
    full = angles.repeat(1, 2) if interleaved else angles.repeat_interleave(2, dim=-1)
    a, b = _pair_up(x, interleaved)
    return (x * full.cos() + _put_back(-b, a, interleaved) * full.sin()).to(x.dtype)


def _exchange_of_the_other_pairing(x, positions, base, interleaved):
    """Full-width angles in the order of one pairing, members exchanged in the order of the other."""
    angles = _angles(positions, x.shape[-1], base)
    full = angles.repeat_interleave(2, dim=-1) if interleaved else angles.repeat(1, 2)
    a, b = _pair_up(x, not interleaved)
    return (x * full.cos() + _put_back(-b, a, not interleaved) * full.sin()).to(x.dtype)


@apply_rope.misconception(
    "Two pairings are mixed: the row of angles is repeated for halves, but neighbors are exchanged. Halves need the "
    "right half, negated, and then the left half.",
    section=PAIRS,
)
def neighbors_exchanged(x, positions, base=10000.0):
    return _exchange_of_the_other_pairing(x, positions, base, interleaved=False)


@apply_rope_interleaved.misconception(
    "Two pairings are mixed: each angle is repeated for neighbors, but the halves are exchanged. Here every number "
    "is exchanged with its neighbor: -x1, x0, -x3, x2, ..."
)
def halves_exchanged(x, positions, base=10000.0):
    return _exchange_of_the_other_pairing(x, positions, base, interleaved=True)


@apply_rope.misconception(
    "Two pairings are mixed: the halves are exchanged, but the angles are repeated for neighbors. Halves need the row "
    "of angles twice, `torch.cat([angles, angles], dim=-1)`.",
    section=PAIRS,
)
def neighbors_angles(x, positions, base=10000.0):
    return _table_of_the_other_pairing(x, positions, base, interleaved=False)


@apply_rope_interleaved.misconception(
    "Two pairings are mixed: neighbors are exchanged, but the row of angles is repeated as for halves. Neighbors "
    "need each angle twice in a row, `repeat_interleave(2, dim=-1)`."
)
def halves_angles(x, positions, base=10000.0):
    return _table_of_the_other_pairing(x, positions, base, interleaved=True)


@_turned(
    "It rotates the other way: the minus is at the wrong sine. The new first member is a cos - b sin, the second "
    "a sin + b cos. Scores still depend on the distance alone, since q and k both rotate backwards, but weights that "
    "were trained with the right direction will not work."
)
def other_way(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: -_angles(p, d, base))


@_turned(
    "There is no minus: a cos + b sin beside a sin + b cos is not a rotation, and it changes the length of a row. "
    "The first member gets a cos - b sin."
)
def no_minus(x, positions, base, interleaved):
    angles = _angles(positions, x.shape[-1], base)
    a, b = _pair_up(x, interleaved)
    return _put_back(a * angles.cos() + b * angles.sin(), a * angles.sin() + b * angles.cos(), interleaved).to(x.dtype)


@_turned(
    "There is one minus too many: a cos - b sin beside a sin - b cos is a reflection, and at position 0 it changes "
    "the sign of the second member. The second member gets a sin + b cos."
)
def reflected(x, positions, base, interleaved):
    angles = _angles(positions, x.shape[-1], base)
    a, b = _pair_up(x, interleaved)
    return _put_back(a * angles.cos() - b * angles.sin(), a * angles.sin() - b * angles.cos(), interleaved).to(x.dtype)


@_turned("Sine and cosine are exchanged. At position 0 the cosine is 1 and the sine 0, so nothing may change.")
def sine_for_cosine(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: math.pi / 2 - _angles(p, d, base))


@_turned(
    "The second member is computed from a first member that has been overwritten already. Compute both from the "
    "old numbers."
)
def overwritten(x, positions, base, interleaved):
    angles = _angles(positions, x.shape[-1], base)
    a, b = _pair_up(x, interleaved)
    a = a * angles.cos() - b * angles.sin()
    return _put_back(a, a * angles.sin() + b * angles.cos(), interleaved).to(x.dtype)


@_turned("The two members of each pair are returned exchanged. a cos - b sin is the first.")
def members_exchanged(x, positions, base, interleaved):
    turned = _turn(x, positions, base, interleaved)
    return _put_back(*_pair_up(turned, interleaved)[::-1], interleaved)


@_turned(OFF_BY_ONE)
def off_by_one(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p + 1, d, base))


@_turned(IGNORED)
def positions_ignored(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(torch.arange(len(p)), d, base))


@_turned(FROM_THE_FIRST)
def from_the_first(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p - p[0], d, base))


@_turned(FIXED_BASE, section=SPEEDS)
def turned_base_fixed(x, positions, base, interleaved):
    return _turn(x, positions, 10000.0, interleaved)


@_turned(DOUBLED, section=SPEEDS)
def turned_doubled_exponent(x, positions, base, interleaved):
    return _turn(x, positions, base * base, interleaved)


@_turned(HALVED, section=SPEEDS)
def turned_halved_exponent(x, positions, base, interleaved):
    return _turn(x, positions, math.sqrt(base), interleaved)


@_turned("The slowest pair comes first. Pair 0 is the fastest, with one radian per token.", section=SPEEDS)
def turned_slowest_first(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p, d, base).flip(-1))


@_turned("All pairs have the frequency of the first. Each has its own column of the table of angles.", section=SPEEDS)
def one_speed_for_all(x, positions, base, interleaved):
    def first_column(p, d, base):
        return _angles(p, d, base)[:, :1].expand(-1, d // 2)

    return _turn(x, positions, base, interleaved, angles=first_column)


@_turned(DEGREES)
def turned_from_degrees(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p, d, base).deg2rad())


@_turned(DEGREES)
def turned_in_degrees(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p, d, base).rad2deg())


@_turned(
    "Heads are taken for tokens: the angles go along the last axis but two. Here x is (..., n, d_head), tokens "
    "on the last axis but one, heads before them."
)
def tokens_before_heads(x, positions, base, interleaved):
    if x.ndim < 3:
        return _turn(x, positions, base, interleaved)
    return _turn(x.transpose(-2, -3), positions, base, interleaved).transpose(-2, -3)


def _in_dtype_of(x, where):
    """Angles that are rounded to the dtype of x, if that is a half precision, in one of three places."""

    def rounded(positions, d_head, base):
        dtype = x.dtype if x.dtype.itemsize == 2 else torch.float32
        if where == "positions":
            return _angles(positions.to(dtype), d_head, base)
        if where == "angles":
            return _angles(positions, d_head, base).to(dtype).float()
        return positions.to(dtype)[:, None] * _speeds(d_head, base).to(dtype)

    return rounded


for _where in ("everything", "angles", "positions"):

    @_turned(HALF_PRECISION, section=PRECISION)
    def rounded_angles(x, positions, base, interleaved, where=_where):
        return _turn(x, positions, base, interleaved, angles=_in_dtype_of(x, where))


@_turned(HALF_PRECISION, section=PRECISION)
def always_bfloat16(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, angles=lambda p, d, base: _angles(p, d, base).bfloat16().float())


@_turned(
    "The result is in float32 where x is in half precision. Cosines in float32 make the product float32; convert the "
    "result back with `.to(x.dtype)`.",
    section=PRECISION,
)
def not_cast_back(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved, keep_dtype=False)


@_turned("The result is float32 whatever x is. Angles are float32, the result has the dtype of x.", section=PRECISION)
def always_single(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved).float()


WRITTEN_OVER = (
    "The numbers are right, but x itself was written over. A slice is a view of its tensor; make new "
    "tensors, or work on `x.clone()`."
)


@_turned(WRITTEN_OVER)
def in_place(x, positions, base, interleaved):
    turned = _turn(x, positions, base, interleaved)
    return x.copy_(turned)


@_turned(WRITTEN_OVER)
def in_place_through_slices(x, positions, base, interleaved):
    turned = _pair_up(_turn(x, positions, base, interleaved), interleaved)
    half = x.shape[-1] // 2
    columns = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    for where, member in zip(columns, turned):
        x[..., where] = member
    return x


@_turned(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give numbers without a "
    "history; rotate the tensor itself."
)
def turned_detached(x, positions, base, interleaved):
    return _turn(x, positions, base, interleaved).detach()


@_turned(
    "The table is on the CPU, wherever x is, and PyTorch does not combine two devices. Say `device=x.device` where you "
    "make a tensor, or move the table: `.to(x.device)`.",
    section=DEVICE,
)
def table_on_the_cpu(x, positions, base, interleaved):
    table = _angles(torch.tensor(positions.tolist()), x.shape[-1], base)
    return _turn(x, positions, base, interleaved, angles=lambda *sizes: table)


# interleaved_to_half -------------------------------------------------------------------------------------------------

interleaved_to_half = Exercise(solutions.interleaved_to_half, section=CONVERT, minutes=5, difficulty=2)


def _rows(rng, n_heads, d_head, d_model):
    return _single(rng, n_heads * d_head, d_model)


def _tagged(rows, columns=1):
    """Row r holds r, r + 0.1, ...: where it went can be read off."""
    return torch.arange(rows, dtype=torch.float32)[:, None] + torch.arange(columns) / 10


@interleaved_to_half.property(
    "puts the first members of all pairs before the second ones",
    points=2,
    hint="Row 2i of a head becomes row i, row 2i + 1 becomes row i + d_head / 2. For d_head 6 the new order is "
    "0, 2, 4, 1, 3, 5.",
)
def one_head(rng):
    yield dict(w=_tagged(6, 2), n_heads=1)
    yield dict(w=_tagged(8), n_heads=1)
    yield dict(w=_rows(rng, 1, 2 * _width(rng, 2, 5), 3), n_heads=1)


@interleaved_to_half.property(
    "reorders each head separately",
    points=2,
    hint="Head h owns rows h * d_head to (h + 1) * d_head - 1, and keeps them. Cut the rows into (n_heads, d_head / 2, "
    "2) first.",
)
def each_head(rng):
    yield dict(w=_tagged(12, 2), n_heads=2)
    yield dict(w=_rows(rng, 3, 6, 5), n_heads=3)
    yield dict(w=_rows(rng, 2, 8, 7), n_heads=2)
    yield dict(w=_rows(rng, 3, 2, 4).double(), n_heads=3)


@interleaved_to_half.property(
    "leaves w as it was",
    points=1,
    probe=probes.unchanged,
    hint="Make a new tensor. `reshape` may give a view of w, so do not write into it.",
)
def weight_untouched(rng):
    yield dict(w=_rows(rng, 2, 6, 3), n_heads=2)


@interleaved_to_half.property(
    "lets gradients through",
    points=1,
    probe=probes.gradients,
    hint="Stay with operations of tensors: indexing, reshape and transpose all pass gradients on.",
)
def weight_gradients(rng):
    yield dict(w=_rows(rng, 2, 6, 3), n_heads=2, upstream=[_single(rng, 12, 3)])


@interleaved_to_half.property(
    "works on the device of w",
    points=1,
    probe=probes.elsewhere,
    hint="Reorder w itself. If you make a tensor to write the rows into, make it there: `torch.empty_like(w)`.",
)
def weight_elsewhere(rng):
    yield dict(w=_rows(rng, 2, 6, 3), n_heads=2)


def _order(n_rows, n_heads):
    """Where each new row comes from."""
    d_head = n_rows // n_heads
    inside = [*range(0, d_head, 2), *range(1, d_head, 2)]
    return torch.tensor([h * d_head + row for h in range(n_heads) for row in inside])


def _wrong_order(text, *, section=None):
    """Declares a misconception: wrong(w, n_heads)."""

    def declare(wrong):
        def reordered(w, n_heads):
            return wrong(w, n_heads)

        reordered.__name__ = wrong.__name__
        interleaved_to_half.misconception(text, section=section)(reordered)
        return wrong

    return declare


@_wrong_order(
    "The rows of all heads are sorted together, so heads are mixed. Each head keeps its own rows and "
    "reorders only these."
)
def heads_mixed(w, n_heads):
    return w[_order(len(w), 1)]


@_wrong_order(
    "This is the way back, from halves to neighbors. For d_head 4 the two orders are the same; for 6 the "
    "rows must come as 0, 2, 4, 1, 3, 5."
)
def way_back(w, n_heads):
    return w[_order(len(w), n_heads).argsort()]


@_wrong_order("The second members come first. Even rows are the first members, and they go to the first half.")
def odd_first(w, n_heads):
    return torch.cat([torch.cat([head[1::2], head[::2]]) for head in w.chunk(n_heads)])


@_wrong_order("The columns are reordered. Rows of a projection weight are outputs, and the outputs are rotated.")
def columns_reordered(w, n_heads):
    return w[:, _order(w.shape[1], 1)]


@_wrong_order(
    "w is returned as it was. A `reshape` to pairs and back again moves nothing: exchange the two axes in between."
)
def nothing_moved(w, n_heads):
    return w.clone()


NUMBER_AS_WIDTH = (
    "n_heads is used as the width of a head. It is how many heads there are; a head has len(w) // n_heads rows."
)


@_wrong_order(NUMBER_AS_WIDTH)
def split_by_number(w, n_heads):
    return torch.cat([torch.cat([rows[::2], rows[1::2]]) for rows in w.split(n_heads)])


@_wrong_order(NUMBER_AS_WIDTH)
def number_as_width(w, n_heads):
    return w.reshape(-1, n_heads, 1, w.shape[1]).transpose(0, 1).reshape(w.shape)


@_wrong_order("The two members of each pair are exchanged. Instead, all first members come before all second ones.")
def members_swapped(w, n_heads):
    return w.reshape(-1, 2, w.shape[1]).flip(1).reshape(w.shape)


@_wrong_order("The rows are right, but still in heads: (n_heads, d_head, d_model). Join the first two axes again.")
def left_in_heads(w, n_heads):
    return w[_order(len(w), n_heads)].unflatten(0, (n_heads, -1))


@_wrong_order("The numbers are right, but w itself was written over. Return a new tensor.")
def weight_in_place(w, n_heads):
    return w.copy_(w[_order(len(w), n_heads)])


@_wrong_order(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give numbers without a "
    "history; index or reshape the tensor itself."
)
def weight_detached(w, n_heads):
    return w[_order(len(w), n_heads)].detach()


@_wrong_order(
    "The rows are copied into a tensor on the CPU, wherever w is. Make it on the device of w: `torch.empty_like(w)`.",
    section=DEVICE,
)
def rows_on_the_cpu(w, n_heads):
    out = torch.empty(w.shape, dtype=w.dtype)
    for new, old in enumerate(_order(len(w), n_heads).tolist()):
        out[new] = w[old]
    return out


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **Why the tests pass.** In both pairings and for both directions a query and a key are rotated alike, so with weights
   that are random (or trained with that very code) scores depend on the distance alone, lengths are kept and position 0
   is unchanged. All those tests ask for relative position, which a wrong pairing has too.
2. **Why the loaded model fails, and how far.** Trained weights depend on which rows are a pair. With the other pairing,
   numbers that never belonged together are rotated together, at frequencies they were not trained with. Scores at
   distance 0 are right, and so is a text of one token (it reads only itself anyway); with more tokens there are
   distances, and the scores are wrong there. Half a point for "the weights expect the other pairing" without a word on
   why the first word is right.
3. **A test and a repair.** A test with numbers: a row rotated by hand, or scores or logits of a known implementation on
   the same weights, at positions other than 0 (several, far ones too). A repair: use the pairing of the file, or
   reorder the rows of W_q and W_k (not W_v, not W_o) head by head. One of the two gives half a point.

Model answer. "The tests ask for things that hold for any consistent pairing: rotate q and k by the same rule and only
the distance is left. The weights in the file, however, were trained with neighbors as pairs. If the code rotates i with
i + 32 instead, each pair gets one number that it was not trained with, and the angles between q and k are not those
that the model learned to use. At distance 0 query and key are rotated alike, so a text of one token comes out right;
from the second on there are other distances, and more of them with every word. I would compare the scores of one head
of layer 0 with those of the library the weights came from, for ten tokens, to 1e-4; agreement at position 0 alone
proves nothing. To repair it, I would reorder the rows of W_q and W_k within each head so that the even ones come
first."
""",
)
