"""Exercises of the rotary chapter: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, and a right answer may compute its frequencies in more than one way, so tolerances allow
for an angle that is off by about a millionth of itself. Every relative-position property holds for both pairings and
for both directions of rotation: only numbers decide, so nearly all cases are golden values.
"""

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from course.kit.hunt import Hunt
from course.right_answers.rope import RIGHT
from solutions import rope as solutions

SPEEDS = "All pairs, each at its own frequency"
ANGLES = "A table of angles"
TURN = "Rotate queries and keys"
DEVICE = "The device of a tensor"
PAIRS = "Two ways to pair"
CONVERT = "From one pairing to the other"
PRECISION = "Angles need float32"
HUNT = "Hunt bugs ★"
CAT_SAT = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
CLOSE = dict(rtol=1e-5, atol=1e-5)  # float32 angles of a few hundred radians at most
FAR = dict(rtol=1e-5, atol=2e-3)  # up to some thousand


def _width(rng, low=3, high=7):
    """An even width of at least 6."""
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
    "follows the base, in every call",
    points=1,
    probe=probes.again,
    rtol=1e-5,
    atol=1e-9,
    hint="10000 is only the default. Use the argument `base`.",
)
def other_bases(rng):
    yield dict(d_head=8, base=500000.0)
    yield dict(d_head=_width(rng), base=float(rng.integers(20, 3000)))
    yield dict(d_head=_width(rng), base=rng.uniform(1.6, 1.9))


@rope_frequencies.property(
    "works for a single pair, and for three",
    points=1,
    rtol=1e-5,
    atol=1e-9,
    hint="With d_head 2 there is one pair, and its frequency is 1, whatever the base. With d_head 6 and base 100 there "
    "are three: 1, 0.2154 and 0.0464.",
)
def one_pair(rng):
    yield dict(d_head=2)
    yield dict(d_head=2, base=float(rng.integers(20, 3000)))
    yield dict(d_head=6, base=100.0)


POWER = "base ** (-2.0 * pairs / d_head)"
DOUBLED = (
    "The exponent is twice what it should be. `torch.arange(0, d_head, 2)` is already 2 i: divide it by d_head, and "
    "neither double it again nor divide it by d_head / 2."
)
HALVED = (
    "The exponent is half of what it should be. With 2 i / d_head the frequencies fall almost to 1 / base; yours fall "
    "only to about the root of that."
)
ALL_ALIKE = (
    "All pairs have the frequency 1: their exponent is 0, perhaps because `//` rounds the fraction 2 i / d_head. Use "
    "`/`."
)
FIXED_BASE = "The base is fixed at 10000. It is an argument, since models with long contexts have other bases."

DEFAULT_BASE = (
    "The default of `base` is no longer 10000. Called without `base`, the frequencies are others: keep the first line "
    "of the exercise as it was."
)
OTHER_BASES = (100.0, 1000.0, 100000.0, 500000.0, 1000000.0)

rope_frequencies.mistakes(
    edit("base: float = 10000.0", "base: float = {}", DEFAULT_BASE, each=OTHER_BASES),
    edit("-2.0", "-4.0", DOUBLED),
    edit("-2.0", "-1.0", HALVED),
    edit(POWER, "base ** -(2.0 * pairs // d_head)", ALL_ALIKE),
    edit(POWER, "base ** (-2.0 * pairs // d_head)",
         "All pairs but the first have the frequency 1 / base: `//` rounds the exponent down to -1. Use `/`."),
    edit("-2.0", "2.0",
         "The frequencies grow: the minus of the exponent is missing. Pair 0 has the highest frequency, 1, and every "
         "other pair a lower one."),
    edit(POWER, "2 * torch.pi * base ** (2.0 * pairs / d_head)",
         "These are wavelengths, in tokens. Return frequencies, in radians per token: 2 pi divided by the wavelength."),
    edit(POWER, f"{POWER} / (2 * torch.pi)",
         "These are rotations per token. Return radians per token: a full rotation has 2 pi of them."),
    edit("base **", "10000.0 **", FIXED_BASE),
    edit("* pairs", "* (pairs + 1)",
         "Pairs are counted from 1, so the fastest is missing. Pair 0 has frequency base ** 0 = 1."),
    edit(POWER, f"({POWER}).flip(0)",
         "The slowest pair comes first. Pair 0 is the fastest."),
    edit(POWER, "base ** -torch.linspace(0, 1, d_head // 2)",
         "The last frequency is exactly 1 / base. The exponents go in steps of 2 / d_head, so the last one is (d_head "
         "- 2) / d_head, just below 1; `linspace(0, 1, ...)` spaces them too far apart."),
    edit("base ** (", "torch.exp(",
         "The frequencies are powers of e, without the base. `base ** y` is `exp(y * log(base))`."),
    edit(POWER, "1 - 2.0 * pairs / d_head * (1 - 1 / base)",
         "The frequencies fall by equal steps. They should fall by equal ratios: each is the same fraction of the one "
         "before."),
    edit("d_head // 2, ", "d_head, ",
         "There is one number per column, d_head in all, each with its own exponent. Both members of a pair rotate "
         "together: one frequency per pair, d_head / 2 in all.", also={"-2.0": "-1.0"}),
    edit(POWER, f"({POWER}).repeat_interleave(2)",
         "Each frequency comes twice, for both columns of its pair. Return it once: d_head / 2 numbers."),
    edit(POWER, f"({POWER}).repeat(2)",
         "The row of frequencies comes twice, once for each half of the columns. Return it once: d_head / 2 numbers."),
    edit("float32", "float64",
         "The numbers are right, but they come as float64. Return float32, as PyTorch does unless told otherwise."),
)  # fmt: skip


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
    yield dict(positions=_whole(int(rng.integers(2, 30))), d_head=6)
    yield dict(positions=_whole(1, 2, int(rng.integers(3, 30))), d_head=2)


@rope_angles.property(
    "takes positions as they are (in any order, negative, repeated), and leaves them so",
    points=1,
    probe=probes.again,
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
    yield dict(positions=_places(rng, 4), d_head=_width(rng), base=rng.uniform(1.6, 1.9))


@rope_angles.property(
    "tells far positions apart, in float32",
    points=1,
    rtol=1e-5,
    atol=1e-7,
    hint="Multiply in float32 from whole numbers. bfloat16 has no 257 and float16 no 2049: they round to 256 and 2048.",
)
def far_positions(rng):
    yield dict(positions=_whole(256, 257, 300, 301), d_head=4)
    yield dict(positions=_whole(2048, 2049, int(rng.integers(1100, 2000)) * 2 + 1), d_head=4)
    yield dict(positions=_whole(32_767, 32_768, int(rng.integers(33_000, 65_000))), d_head=4)
    yield dict(positions=2 * torch.from_numpy(rng.choice(range(500, 4000), size=3, replace=False)) + 1, d_head=6)


rope_angles.any_device(
    lambda rng: dict(positions=_places(rng, 3), d_head=_width(rng), base=float(rng.integers(20, 3000))),
    title="makes the table on the device of the positions",
    rtol=1e-5,
    atol=1e-7,
    hint="Your frequencies were made on the CPU. Move them to the device of the positions: `.to(positions.device)`.",
)

OUTER = "torch.outer(where.to(torch.float32), theta.to(where.device))"
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
    "bits and float16 has 11: beyond 256 and 2048 they round neighbors to the same number. Compute the angles in "
    "float32, whatever the dtype of x."
)
DEGREES = "Frequencies are in radians per token. Do not convert from or to degrees."

rope_angles.mistakes(
    edit("base: float = 10000.0", "base: float = {}", DEFAULT_BASE, each=OTHER_BASES),
    edit("theta.to(where.device)", "theta",
         "The frequencies are on the CPU, wherever the positions are, and PyTorch does not combine two devices. Move "
         "them: `rope_frequencies(d_head, base).to(positions.device)`.", see=DEVICE),
    edit("where.to(torch", "(where + 1).to(torch", OFF_BY_ONE),
    edit("torch.as_tensor(positions)", "torch.arange(len(positions))", IGNORED),
    edit("where.to(torch", "(where - where[:1]).to(torch", FROM_THE_FIRST),
    edit("where.to(torch", "where.abs().to(torch",
         "Negative positions lose their sign. A token before position 0 is rotated backwards."),
    edit("(d_head, base)", "(d_head)", FIXED_BASE, see=SPEEDS),
    edit(OUTER, f"{OUTER}.T",
         "The table is transposed: rows are positions and columns are pairs, (n, d_head / 2)."),
    edit(OUTER, f"{OUTER}.repeat(1, 2)",
         "The table is d_head wide. Both members of a pair share one angle. Return it once: (n, d_head / 2)."),
    edit(OUTER, f"{OUTER}.repeat_interleave(2, dim=1)",
         "The table is d_head wide, with each angle twice in a row. Both members of a pair share one angle. Return it "
         "once: (n, d_head / 2)."),
    edit("theta.to(where.device)", "1 / theta",
         "The position is divided by the frequency. The angle is their product; slow pairs have small angles."),
    edit(OUTER, f"{OUTER}.rad2deg()", DEGREES),
    edit(OUTER, f"{OUTER}.deg2rad()", DEGREES),
    edit("-2.0", "-4.0", DOUBLED, see=SPEEDS),
    edit("-2.0", "-1.0", HALVED, see=SPEEDS),
    edit("-2.0 * pairs / d_head", "-(2.0 * pairs // d_head)", ALL_ALIKE, see=SPEEDS),
    edit(OUTER, f"{OUTER} % (2 * torch.pi)",
         "Full rotations are removed from the angles. Sines and cosines stay the same, but return the plain product."),
    edit(OUTER, f"{OUTER}.cos()",
         "These are the cosines already. Return the angles themselves; sine and cosine come later."),
    edit(OUTER, "torch.outer(where.double(), theta)",
         "The angles come as float64. Return float32, whatever the dtype of model and positions.",
         also={"dtype=torch.float32": "dtype=torch.float64"}),
    edit(OUTER, "torch.outer(where.bfloat16(), theta.bfloat16()).float()", HALF_PRECISION, see=PRECISION),
    edit(OUTER, f"{OUTER}.bfloat16().float()", HALF_PRECISION, see=PRECISION),
    edit(OUTER, "torch.outer(where.half(), theta.half()).float()", HALF_PRECISION, see=PRECISION),
    edit(OUTER, f"{OUTER}.half().float()", HALF_PRECISION, see=PRECISION),
    edit("where.to(torch", "where.bfloat16().to(torch", HALF_PRECISION, see=PRECISION),
    edit("where.to(torch", "where.half().to(torch", HALF_PRECISION, see=PRECISION),
)  # fmt: skip


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
@apply_rope_interleaved.property(
    "rotates number 2i together with number 2i + 1",
    points=3,
    **CLOSE,
    hint="Neighbors are a pair: every other column beginning with 0, and every other beginning with 1. Put the "
    "results back where they came from.",
)
def from_zero(rng):
    yield dict(x=CAT_SAT.clone(), positions=_whole(0, 1, 2))
    yield dict(x=_single(rng, 5, 8), positions=torch.arange(5))
    yield dict(x=_single(rng, 4, _width(rng)), positions=torch.arange(4))


def _any_positions(rng):
    yield dict(x=_single(rng, 1, 6), positions=_whole(0))
    yield dict(x=_single(rng, 2, 1, 6), positions=_whole(int(rng.integers(3, 30))))  # one new token, with a cache
    yield dict(x=_single(rng, 3, 6), positions=_whole(7, 8, 9))
    yield dict(x=_single(rng, 4, 8), positions=_places(rng, 4))
    yield dict(x=_single(rng, 3, _width(rng)), positions=_whole(-2, 0, -2))
    yield dict(x=_single(rng, 3, 2), positions=_whole(1, 2, int(rng.integers(3, 9))))


def _other_bases(rng):
    yield dict(x=_single(rng, 3, 6), positions=_whole(1, 2, 12), base=500000.0)
    yield dict(x=_single(rng, 4, 8), positions=_places(rng, 4), base=float(rng.integers(20, 3000)))
    yield dict(x=_single(rng, 4, 8), positions=_places(rng, 4), base=rng.uniform(1.6, 1.9))


def _leading_dimensions(rng):
    yield dict(x=_single(rng, 2, 4, 6), positions=_places(rng, 4))
    yield dict(x=_single(rng, 2, 3, 3, 6), positions=_whole(2, 3, 4))  # as many heads as tokens, on purpose
    yield dict(x=_single(rng, 2, 1, 2, 3, 4), positions=_places(rng, 3))


def _far_along(rng):
    yield dict(x=_single(rng, 4, 6), positions=_whole(300, 301, 1003, 4099))
    yield dict(x=_single(rng, 3, 8), positions=2 * torch.from_numpy(rng.integers(150, 2000, size=3)) + 1)


def _half_precision(rng):
    yield dict(x=normal(rng, 4, 6, dtype=torch.bfloat16), positions=_whole(3, 300, 301, 1003))
    x = normal(rng, 2, 3, 8, dtype=torch.bfloat16)
    yield dict(x=x, positions=2 * torch.from_numpy(rng.integers(150, 900, size=3)) + 1)
    yield dict(x=normal(rng, 3, 6, dtype=torch.float16), positions=_whole(301, 1003, 4099))
    yield dict(x=normal(rng, 3, 6), positions=_whole(301, 1003, 4099))


def _shared_properties(rope, dtype_points, ending):
    """Declare the properties that both pairings have; `ending` ends a hint."""
    rope.property(
        "leaves position 0 alone, and takes every other as it is",
        points=1,
        **CLOSE,
        hint="Positions need not be 0 to n - 1: use the numbers given. At 0 nothing is rotated; a negative position "
        "rotates backwards.",
    )(_any_positions)
    rope.property("follows the base", points=1, **CLOSE, hint="Pass `base` on to the angles.")(_other_bases)
    rope.property(
        "takes any leading dimensions, and tokens on the last axis but one",
        points=1,
        **CLOSE,
        hint="(n, d_head / 2) broadcasts against (..., n, d_head / 2). Use negative numbers for axes.",
    )(_leading_dimensions)
    rope.property(
        "stays right far along",
        points=1,
        **FAR,
        hint="Compute the angles in float32 from the whole numbers in `positions`.",
    )(_far_along)
    rope.property(
        "keeps the dtype of x, and its angles in float32",
        points=dtype_points,
        rtol=0.02,
        atol=0.03,
        hint="Whatever the dtype of x, compute the angles in float32 and convert the result back with `.to(x.dtype)`.",
    )(_half_precision)
    rope.unchanged(
        lambda rng: dict(x=_single(rng, 2, 3, 6), positions=_whole(1, 2, 5)),
        title="leaves x and positions as they were",
        **CLOSE,
        hint=f"A slice of x is a view: writing to it writes into x. Make new tensors and {ending}.",
    )
    rope.gradients(
        lambda rng: dict(x=_single(rng, 2, 3, 6), positions=_whole(1, 4, 9), upstream=[_single(rng, 2, 3, 6)]),
        **CLOSE,
        hint="Stay with operations of tensors. A detour over lists, NumPy, `.data` or `.detach()` cuts the gradient.",
    )
    rope.any_device(
        lambda rng: dict(x=_single(rng, 2, 3, 6), positions=_places(rng, 3), base=float(rng.integers(20, 3000))),
        title="works on the device of x",
        **CLOSE,
        hint="PyTorch does not combine a table on the CPU with an x on a GPU. Say `device=x.device` where you make "
        "a tensor, or `.to(x.device)`.",
    )


_shared_properties(apply_rope, dtype_points=2, ending="join them")
_shared_properties(apply_rope_interleaved, dtype_points=1, ending="put them together")

HALVES, HALVES_JOINED = "x.tensor_split(2, dim=-1)", "torch.cat(turned, dim=-1)"
NEIGHBORS, NEIGHBORS_JOINED = "x[..., 0::2], x[..., 1::2]", "torch.stack(turned, dim=-1).flatten(-2)"
TURNED = "[first * cosine - second * sine, first * sine + second * cosine]"
TO_DEVICE = ".to(x.device)"
OF_X = "x.dtype if x.dtype.itemsize == 2 else torch.float32"
WRITTEN_OVER = (
    "The numbers are right, but x itself was written over. A slice is a view of its tensor; make new "
    "tensors, or work on `x.clone()`."
)

INVERSE = (
    "It needs the inverse, `order.argsort()`. Only for d_head 4 is the order its own inverse (and for 2, where nothing "
    "is moved)."
)

BOTH_PAIRINGS = (
    edit("= rope_angles(", "= -rope_angles(",
         "It rotates the other way: the minus is at the wrong sine. The new first member is a cos - b sin, the second "
         "a sin + b cos. Scores still depend on the distance alone, since q and k both rotate backwards, but weights "
         "that were trained with the right direction will not work."),
    edit(" * cosine - ", " * cosine + ",
         "There is no minus: a cos + b sin beside a sin + b cos is not a rotation, and it changes the length of a row. "
         "The first member gets a cos - b sin."),
    edit(" * sine + ", " * sine - ",
         "There is one minus too many: a cos - b sin beside a sin - b cos is a reflection, and at position 0 it "
         "changes the sign of the second member. The second member gets a sin + b cos."),
    edit("= rope_angles(", "= torch.pi / 2 - rope_angles(",
         "Sine and cosine are exchanged. At position 0 the cosine is 1 and the sine 0, so nothing may change."),
    edit("turned = [", "turned = [first := ",
         "The second member is computed from a first member that has been overwritten already. Compute both from the "
         "old numbers."),
    edit("(turned,", "(turned[::-1],",
         "The two members of each pair are returned exchanged. a cos - b sin is the first."),
    edit("rope_angles(positions,", "rope_angles(positions + 1,", OFF_BY_ONE),
    edit("rope_angles(positions,", "rope_angles(torch.arange(len(positions)),", IGNORED, also={TO_DEVICE: ""}),
    edit("rope_angles(positions,", "rope_angles(positions - positions[0],", FROM_THE_FIRST),
    edit("x.shape[-1], base", "x.shape[-1]", FIXED_BASE, see=SPEEDS),
    edit("-2.0", "-4.0", DOUBLED, see=SPEEDS),
    edit("-2.0", "-1.0", HALVED, see=SPEEDS),
    edit(TO_DEVICE, f"{TO_DEVICE}.flip(-1)",
         "The slowest pair comes first. Pair 0 is the fastest, with one radian per token.", see=SPEEDS),
    edit(TO_DEVICE, f"{TO_DEVICE}[:, :1]",
         "All pairs have the frequency of the first. Each has its own column of the table of angles (and its own "
         "exponent, which `//` would round to 0).", see=SPEEDS),
    edit(TO_DEVICE, f"{TO_DEVICE}.deg2rad()", DEGREES),
    edit(TO_DEVICE, f"{TO_DEVICE}.rad2deg()", DEGREES),
    edit("cosine, sine =", "x = x.transpose(-2, -3) if x.ndim > 2 else x\n    cosine, sine =",
         "Heads are taken for tokens: the angles go along the last axis but two. Here x is (..., n, d_head), tokens on "
         "the last axis but one, heads before them.",
         also={".to(x.dtype)": ".to(x.dtype).transpose(-2, -3 if x.ndim > 2 else -2)"}),
    edit("rope_angles(positions, x.shape[-1], base)",
         f"torch.outer(positions.to({OF_X}), rope_frequencies(x.shape[-1], base).to({OF_X}))",
         HALF_PRECISION, see=PRECISION),
    edit(TO_DEVICE, f"{TO_DEVICE}.to({OF_X}).float()", HALF_PRECISION, see=PRECISION),
    edit("rope_angles(positions,", f"rope_angles(positions.to({OF_X}),", HALF_PRECISION, see=PRECISION),
    edit("rope_angles(positions,", "rope_angles(positions.half(),", HALF_PRECISION, see=PRECISION),
    edit(TO_DEVICE, f"{TO_DEVICE}.bfloat16().float()", HALF_PRECISION, see=PRECISION),
    edit(TO_DEVICE, f"{TO_DEVICE}.half().float()", HALF_PRECISION, see=PRECISION),
    edit(".to(x.dtype)", "",
         "The result is in float32 where x is in half precision. Cosines in float32 make the product float32; convert "
         "the result back with `.to(x.dtype)`.", see=PRECISION),
    edit(".to(x.dtype)", ".to(x.dtype).float()",
         "The result is float32 whatever x is. Angles are float32, the result has the dtype of x.", see=PRECISION),
    edit("return torch", "return x.copy_(torch", WRITTEN_OVER, also={".to(x.dtype)": ")"}),
    edit("return torch", "first[...], second[...] = turned\n    return torch", WRITTEN_OVER),
    edit(".to(x.dtype)", ".to(x.dtype).detach()",
         "The gradient is cut. `torch.no_grad()`, `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give "
         "numbers without a history; rotate the tensor itself."),
    edit("rope_angles(positions,", "rope_angles(torch.tensor(positions.tolist()),",
         "The table is on the CPU, wherever x is, and PyTorch does not combine two devices. Say `device=x.device` "
         "where you make a tensor, or move the table: `.to(x.device)`.", see=DEVICE, also={TO_DEVICE: ""}),
)  # fmt: skip
apply_rope.mistakes(
    edit(HALVES, NEIGHBORS,
         "The pairing is the other one: neighbors (2i, 2i + 1) are rotated together. Here number i goes with number i "
         "+ d_head / 2, as Llama's weights in the Hugging Face layout require.", see=PAIRS,
         also={HALVES_JOINED: NEIGHBORS_JOINED}),
    edit(HALVES_JOINED, NEIGHBORS_JOINED,
         "Halves are rotated together, and then put back as neighbors. Join them with `torch.cat`: all first members, "
         "then all second ones."),
    edit(HALVES_JOINED, f"torch.stack({NEIGHBORS_JOINED}.tensor_split(2, dim=-1), dim=-1).flatten(-2)",
         f"The order that brings halves together as neighbors is used a second time for the way back. {INVERSE}"),
    edit(TURNED, "x * cosine + torch.stack([-second, first], dim=-1).flatten(-2) * sine",
         "Two pairings are mixed: the row of angles is repeated for halves, but neighbors are exchanged. Halves need "
         "the right half, negated, and then the left half.", see=PAIRS,
         also={HALVES: NEIGHBORS, TO_DEVICE: f"{TO_DEVICE}.repeat(1, 2)", HALVES_JOINED: "turned"}),
    edit(TURNED, "x * cosine + torch.cat([-second, first], dim=-1) * sine",
         "Two pairings are mixed: the halves are exchanged, but the angles are repeated for neighbors. Halves need the "
         "row of angles twice, `torch.cat([angles, angles], dim=-1)`.", see=PAIRS,
         also={TO_DEVICE: f"{TO_DEVICE}.repeat_interleave(2, dim=-1)", HALVES_JOINED: "turned"}),
)  # fmt: skip
apply_rope_interleaved.mistakes(
    edit(NEIGHBORS, HALVES,
         "The pairing is the other one: number i is rotated with number i + d_head / 2. Here neighbors (2i, 2i + 1) go "
         "together.", also={NEIGHBORS_JOINED: HALVES_JOINED}),
    edit(NEIGHBORS_JOINED, HALVES_JOINED,
         "The right numbers are rotated and then put back in the wrong order: all first members, then all second ones. "
         "`torch.stack` on a new last axis and `flatten(-2)` make neighbors of them again."),
    edit(NEIGHBORS_JOINED,
         f"torch.cat([(halves := {HALVES_JOINED})[..., 0::2], halves[..., 1::2]], dim=-1)",
         f"The order that sorts neighbors into halves is used a second time for the way back. {INVERSE}"),
    edit(TURNED, "x * cosine + torch.cat([-second, first], dim=-1) * sine",
         "Two pairings are mixed: each angle is repeated for neighbors, but the halves are exchanged. Here every "
         "number is exchanged with its neighbor: -x1, x0, -x3, x2, ...",
         also={NEIGHBORS: HALVES, TO_DEVICE: f"{TO_DEVICE}.repeat_interleave(2, dim=-1)", NEIGHBORS_JOINED: "turned"}),
    edit(TURNED, "x * cosine + torch.stack([-second, first], dim=-1).flatten(-2) * sine",
         "Two pairings are mixed: neighbors are exchanged, but the row of angles is repeated as for halves. Neighbors "
         "need each angle twice in a row, `repeat_interleave(2, dim=-1)`.",
         also={TO_DEVICE: f"{TO_DEVICE}.repeat(1, 2)", NEIGHBORS_JOINED: "turned"}),
)  # fmt: skip
DEFAULT = edit("base: float = 10000.0", "base: float = {}", DEFAULT_BASE, each=OTHER_BASES)
apply_rope.mistakes(*BOTH_PAIRINGS, DEFAULT)
apply_rope_interleaved.mistakes(*BOTH_PAIRINGS, DEFAULT)


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
    yield dict(w=_rows(rng, 3, 2, 4), n_heads=3)


interleaved_to_half.unchanged(
    lambda rng: dict(w=_rows(rng, 2, 6, 3), n_heads=2),
    title="leaves w as it was",
    hint="Make a new tensor. `reshape` may give a view of w, so do not write into it.",
)
interleaved_to_half.gradients(
    lambda rng: dict(w=_rows(rng, 2, 6, 3), n_heads=2, upstream=[_single(rng, 12, 3)]),
    hint="Stay with operations of tensors: indexing, reshape and transpose all pass gradients on.",
)
interleaved_to_half.any_device(
    lambda rng: [dict(w=_rows(rng, 2, 6, 3).to(kind), n_heads=2) for kind in (torch.float32, torch.float64)],
    title="keeps the dtype of w, and works on its device",
    hint="Reorder w itself. If you make a tensor to write the rows into, make it like w: `torch.empty_like(w)`.",
)

REORDERED = "by_pair.transpose(1, 2).reshape(w.shape)"
NUMBER_AS_WIDTH = (
    "n_heads is used as the width of a head. It is how many heads there are; a head has len(w) // n_heads rows."
)

LAST_HEAD = (
    "by_pair = by_pair.clone()\n    by_pair[-1] = w.reshape(n_heads, 2, -1, w.shape[1])[-1].transpose(0, 1)\n    "
)

interleaved_to_half.mistakes(
    edit("return by_pair", f"{LAST_HEAD}return by_pair",
         "The last head stays as it was. `range(n_heads)` ends before n_heads by itself: do not subtract 1."),
    edit("n_heads, -1, 2", "1, -1, 2",
         "The rows of all heads are sorted together, so heads are mixed. Each head keeps its own rows and reorders "
         "only these."),
    edit("n_heads, -1, 2", "n_heads, 2, -1",
         "This is the way back, from halves to neighbors. For d_head 4 the two orders are the same; for 6 the rows "
         "must come as 0, 2, 4, 1, 3, 5."),
    edit(".transpose(1, 2)", ".flip(2).transpose(1, 2)",
         "The second members come first. Even rows are the first members, and they go to the first half."),
    edit(REORDERED, "torch.cat([w[:, 0::2], w[:, 1::2]], dim=1)",
         "The columns are reordered. Rows of a projection weight are outputs, and the outputs are rotated."),
    edit(".transpose(1, 2)", "",
         "w is returned as it was, and so nothing here counts. A `reshape` to pairs and back again moves nothing: "
         "exchange the two axes in between."),
    edit(REORDERED, "torch.cat([torch.cat([rows[0::2], rows[1::2]]) for rows in w.split(n_heads)])", NUMBER_AS_WIDTH),
    edit(REORDERED, "w.reshape(-1, n_heads, w.shape[1]).transpose(0, 1).reshape(w.shape)", NUMBER_AS_WIDTH),
    edit(".transpose(1, 2)", ".flip(2)",
         "The two members of each pair are exchanged. Instead, all first members come before all second ones."),
    edit("2).reshape(w.shape)", "2).flatten(1, 2)",
         "The rows are right, but still in heads: (n_heads, d_head, d_model). Join the first two axes again."),
    edit(REORDERED, f"w.copy_({REORDERED})",
         "The numbers are right, but w itself was written over. Return a new tensor."),
    edit(REORDERED, f"{REORDERED}.detach()",
         "The gradient is cut. `torch.no_grad()`, `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give "
         "numbers without a history; index or reshape the tensor itself."),
    edit(REORDERED, f"torch.empty(w.shape, dtype=torch.float32, device=w.device).copy_({REORDERED})",
         "The result is float32 whatever w is. A tensor that is made without a dtype is float32: make it like w, "
         "`torch.empty_like(w)`."),
    edit(REORDERED, f"torch.empty(w.shape, dtype=w.dtype).copy_({REORDERED})",
         "The rows are copied into a tensor on the CPU, wherever w is. Make it on the device of w: "
         "`torch.empty_like(w)`.", see=DEVICE),
)  # fmt: skip


# test_apply_rope ---------------------------------------------------------------------------------------------------

test_apply_rope = Hunt(
    solutions.test_apply_rope,
    section=HUNT,
    minutes=15,
    difficulty=2,
    of=apply_rope,
    right=RIGHT,
    worth=3,
)

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
after the first there are other distances, and more of them with every word. I would compare the scores of one head
of layer 0 with those of the library the weights came from, for ten tokens, to 1e-4; agreement at position 0 alone
proves nothing. To repair it, I would reorder the rows of W_q and W_k within each head so that the even ones come
first."
""",
)
