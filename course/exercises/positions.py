"""Exercises of the positions chapter: what must hold, on which inputs, and what people get wrong.

Lengths and widths differ wherever they can, and widths are at least 4, so that there is more than one frequency.
Square cases are there for mistakes that cannot run on anything else.
"""

import numpy as np
import torch
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import positions as solutions

CLOCKS = "Sines and cosines: a row of clock hands"
BY_HAND = "Positions 0 to 3 by hand"
ROTATION = "An offset is a rotation"
LEARNED = "Learned positions"
ALIBI = "ALiBi: a bias instead of a vector"


def _width(rng, low=3, high=8):
    """An even width from 6 on."""
    return 2 * int(rng.integers(low, high))


# sinusoidal_encoding -------------------------------------------------------------------------------------------------

sinusoidal_encoding = Exercise(solutions.sinusoidal_encoding, section=CLOCKS, minutes=10, difficulty=2)


@sinusoidal_encoding.property(
    "has sines in even and cosines in odd columns, one frequency per pair",
    points=3,
    hint="Columns 2i and 2i + 1 hold the sine and the cosine of one angle: the position divided by 10000 ** (2i / "
    "d_model).",
)
def closed_form(rng):
    yield dict(max_len=4, d_model=4)
    yield dict(max_len=2 * int(rng.integers(2, 6)) + 1, d_model=_width(rng))
    yield dict(max_len=3, d_model=12)


@sinusoidal_encoding.property(
    "begins at position 0, also when there is one position or none",
    points=1,
    hint="Row 0 is 0, 1, 0, 1, ...: the sines and cosines of zero. With max_len 0 there are no rows, but still "
    "d_model columns.",
)
def short(rng):
    yield dict(max_len=1, d_model=_width(rng))
    yield dict(max_len=0, d_model=6)
    yield dict(max_len=2, d_model=_width(rng))


@sinusoidal_encoding.property(
    "stays right far along",
    points=1,
    atol=1e-10,
    hint="Compute the angles in float64 from the position itself, without rounding or remainders.",
)
def far_along(rng):
    yield dict(max_len=int(rng.integers(50, 80)), d_model=4)  # ten turns; short, as every mistake is stored


@sinusoidal_encoding.property(
    "refuses an odd width",
    points=1,
    probe=probes.error_of,
    hint="An odd width leaves a sine without its cosine: raise ValueError.",
)
def refused_sizes(rng):
    yield dict(max_len=5, d_model=_width(rng) + 1)
    yield dict(max_len=int(rng.integers(3, 8)), d_model=_width(rng))
    yield dict(max_len=3, d_model=1)


def _encoding(max_len, d_model, speed=None, start=0, turn=1.0, number=np.float64):
    """The right encoding with one part replaced. `speed` takes the columns 0, 2, 4, ... and the width."""
    if d_model % 2:
        raise ValueError("sizes")
    columns = np.arange(0, d_model, 2)
    speeds = 10000.0 ** (-columns / d_model) if speed is None else speed(columns, d_model)
    places = np.arange(start, start + max_len)
    angles = (places[:, None].astype(number) * (turn * np.asarray(speeds)).astype(number)).astype(number)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_len, d_model).astype(np.float64)


@sinusoidal_encoding.misconception(
    "The exponent is twice what it should be. If i counts pairs it is 2i / d_model; if it already counts columns 0, "
    "2, 4, ... the 2 is in it. Dividing by d_model / 2 doubles it as well.",
    section=BY_HAND,
)
def exponent_doubled(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 10000.0 ** (-2 * c / d))


@sinusoidal_encoding.misconception(
    "The exponent is half of what it should be: 2i / d_model, where i counts pairs. Your frequencies fall only to "
    "about 1/100.",
    section=BY_HAND,
)
def exponent_halved(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 10000.0 ** (-c / 2 / d))


@sinusoidal_encoding.misconception(
    "The position is multiplied by the power of 10000. Divide: the first pair has the highest frequency, and each "
    "later pair a lower one."
)
def multiplied(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 10000.0 ** (c / d))


@sinusoidal_encoding.misconception(
    "All sines are in the left half and all cosines in the right. Here they alternate: sines in even columns, "
    "cosines in odd ones. Some libraries do it your way, which works as well, but a trained model needs the order it "
    "was trained with."
)
def halves(max_len, d_model):
    right = _encoding(max_len, d_model)
    return np.concatenate([right[:, 0::2], right[:, 1::2]], axis=1)


@sinusoidal_encoding.misconception(
    "Sines and cosines are exchanged: sines belong in the even columns. Row 0 must be 0, 1, 0, 1.",
    section=BY_HAND,
)
def cosine_first(max_len, d_model):
    right = _encoding(max_len, d_model)
    return np.stack([right[:, 1::2], right[:, 0::2]], axis=-1).reshape(max_len, d_model)


@sinusoidal_encoding.misconception(
    "Every column has its own frequency, because its number went into the exponent. A sine and the cosine beside it "
    "must share one angle, so use the number of the pair for both.",
    section=BY_HAND,
)
def speed_per_column(max_len, d_model):
    if d_model % 2:
        raise ValueError("sizes")
    angles = np.arange(max_len)[:, None] / 10000.0 ** (np.arange(d_model) / d_model)
    return np.where(np.arange(d_model) % 2, np.cos(angles), np.sin(angles))


@sinusoidal_encoding.misconception(
    "The columns of sines are right, but each cosine has the frequency of the next pair. It shares the angle of the "
    "sine on its left.",
    section=BY_HAND,
)
def cosine_exponent_one_too_far(max_len, d_model):
    if d_model % 2:
        raise ValueError("sizes")
    pairs = np.arange(d_model // 2)
    angles = np.arange(max_len)[:, None] / 10000.0 ** (2 * (pairs + 1) / d_model)
    return np.stack([_encoding(max_len, d_model)[:, 0::2], np.cos(angles)], axis=-1).reshape(max_len, d_model)


@sinusoidal_encoding.misconception(
    "The last frequency is exactly 1/10000. In the definition the exponent is 2i / d_model, which stops short of 1: "
    "divide by the number of pairs, not by one less.",
    section=BY_HAND,
)
def reaches_the_base(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 10000.0 ** (-(c // 2) / max(d // 2 - 1, 1)))


@sinusoidal_encoding.misconception("The base is 1000 here. It is 10000: one with four zeros.")
def base_thousand(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 1000.0 ** (-c / d))


@sinusoidal_encoding.misconception("The base is 100000 here. It is 10000: one with four zeros.")
def base_hundred_thousand(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 100000.0 ** (-c / d))


@sinusoidal_encoding.misconception(
    "The logarithm has the wrong base: `np.log10(10000)` is 4, and exp(-4 ...) is not a power of 10000. `np.exp` "
    "needs the natural logarithm, `np.log`."
)
def logarithm_to_base_ten(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: np.exp(-c * np.log10(10000.0) / d))


@sinusoidal_encoding.misconception(
    "Your positions begin at 1. They count from 0 in this course, so row 0 is 0, 1, 0, 1.", section=BY_HAND
)
def from_one(max_len, d_model):
    return _encoding(max_len, d_model, start=1)


@sinusoidal_encoding.misconception(
    "The angles were converted from degrees to radians first. One step is one radian for the first pair: take the "
    "sine of the angle as it is."
)
def degrees(max_len, d_model):
    return _encoding(max_len, d_model, turn=np.pi / 180)


@sinusoidal_encoding.misconception(
    "The angle is multiplied by 2π. It is the position divided by the power of 10000; 2π is needed only for the "
    "wavelength."
)
def full_turns(max_len, d_model):
    return _encoding(max_len, d_model, turn=2 * np.pi)


@sinusoidal_encoding.misconception(
    "Angles were computed in single precision. Their error grows with the position; let NumPy use float64, its default."
)
def single_precision(max_len, d_model):
    return _encoding(max_len, d_model, number=np.float32)


@sinusoidal_encoding.misconception(
    "Both columns of a pair hold the sine. A sine alone has the same value at two angles of a rotation; the odd "
    "columns are cosines."
)
def sines_only(max_len, d_model):
    return np.repeat(_encoding(max_len, d_model)[:, 0::2], 2, axis=1)


@sinusoidal_encoding.misconception(
    "All pairs have the same frequency. The exponent is 0 everywhere, perhaps from a division with `//`."
)
def one_speed(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: np.ones(len(c)))


@sinusoidal_encoding.misconception(
    "The lowest frequency comes first. Pair 0 has exponent 0 and so the highest frequency. From there they fall."
)
def slowest_first(max_len, d_model):
    return _encoding(max_len, d_model, lambda c, d: 10000.0 ** (-c[::-1] / d))


@sinusoidal_encoding.misconception(
    "Rows and columns are exchanged. There is one row per position and one column per dimension."
)
def turned(max_len, d_model):
    return _encoding(max_len, d_model).T


def _lone_sine(max_len, d_model):
    """The formula column by column, which does not ask whether the width is even."""
    columns = np.arange(d_model)
    angles = np.arange(max_len)[:, None] * 10000.0 ** (-(columns - columns % 2) / d_model)
    return np.where(columns % 2, np.cos(angles), np.sin(angles))


@sinusoidal_encoding.misconception(
    "An odd width passes. Its last sine has no cosine, and a sine alone cannot be shifted by a rotation: raise "
    "ValueError."
)
def odd_accepted(max_len, d_model):
    return _lone_sine(max_len, d_model)


@sinusoidal_encoding.misconception(
    "A width of 1 passes. NumPy refuses the other odd widths for you, as the cosines do not fit. For width 1 there is "
    "one frequency and no odd column, and NumPy broadcasts that without an error. Check the width yourself and raise "
    "ValueError."
)
def width_one_passes(max_len, d_model):
    if d_model % 2 and d_model > 1:
        raise ValueError("sizes")
    return _lone_sine(max_len, d_model)


@sinusoidal_encoding.misconception("A length of 0 fails. It is allowed: return no rows and d_model columns.")
def empty_refused(max_len, d_model):
    if max_len < 1:
        raise ValueError("no positions")
    return _encoding(max_len, d_model)


# shift_matrix --------------------------------------------------------------------------------------------------------

shift_matrix = Exercise(solutions.shift_matrix, section=ROTATION, minutes=10, difficulty=3)


@shift_matrix.property(
    "shifts any encoding by the offset",
    points=3,
    hint="Write sin(a + b) and cos(a + b) with the sines and cosines of a and of b. The factors of sin(a) and "
    "cos(a) form the 2 x 2 block of this pair.",
)
def moves_on(rng):
    yield dict(offset=1, d_model=4)
    yield dict(offset=int(rng.integers(2, 6)), d_model=_width(rng))
    yield dict(offset=int(rng.integers(4, 12)), d_model=10)


@shift_matrix.property(
    "shifts back for a negative offset, and not at all for 0",
    points=2,
    hint="The formula holds for any whole number. For -offset the cosine is the same and the sine changes its sign.",
)
def moves_back(rng):
    yield dict(offset=-1, d_model=4)
    yield dict(offset=0, d_model=_width(rng))
    yield dict(offset=-int(rng.integers(2, 9)), d_model=_width(rng))


@shift_matrix.property(
    "stays right for far offsets",
    points=1,
    rtol=1e-7,
    atol=1e-9,
    hint="Rotate by offset times the frequency of the pair, in one step and in float64.",
)
def moves_far(rng):
    yield dict(offset=int(rng.integers(900, 1100)), d_model=_width(rng))
    yield dict(offset=-int(rng.integers(900, 1100)), d_model=4)


def _speeds(d_model):
    return 10000.0 ** (-np.arange(0, d_model, 2) / d_model)


def _blocks(offset, d_model, speeds=None, block=None, number=np.float64):
    """The right matrix with speeds or the 2 x 2 block replaced."""
    angles = (offset * np.asarray((speeds or _speeds)(d_model)).astype(number)).astype(number)
    block = block or (lambda c, s: [[c, s], [-s, c]])
    shift = np.zeros((d_model, d_model))
    for pair, (c, s) in enumerate(zip(np.cos(angles), np.sin(angles))):
        shift[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = block(c, s)
    return shift


@shift_matrix.misconception(
    "This matrix rotates the other way: it is the transpose, and shifts back by the offset. The vector is a column on "
    "the right, shift @ encoding[p], with the sine above the cosine, so the minus belongs below the diagonal."
)
def turns_back(offset, d_model):
    return _blocks(-offset, d_model)


@shift_matrix.misconception(
    "Both sines have the same sign. That is not a rotation: cos(a + b) = cos a cos b - sin a sin b has a minus."
)
def no_minus(offset, d_model):
    return _blocks(offset, d_model, block=lambda c, s: [[c, s], [s, c]])


@shift_matrix.misconception(
    "Sine and cosine are exchanged in the blocks. For offset 0 nothing may change, so the cosine, which is then 1, "
    "belongs on the diagonal."
)
def sine_on_the_diagonal(offset, d_model):
    return _blocks(offset, d_model, block=lambda c, s: [[s, c], [-c, s]])


@shift_matrix.misconception(
    "Only the diagonal is filled, so each number is only scaled. The sine after a step needs the cosine before it: the "
    "two columns of a pair must mix."
)
def diagonal_only(offset, d_model):
    return _blocks(offset, d_model, block=lambda c, s: [[c, 0.0], [0.0, c]])


@shift_matrix.misconception(
    "Your rotation mixes columns i and i + d_model / 2. In this encoding a pair is side by side, in columns 2i "
    "and 2i + 1, so the blocks are along the diagonal."
)
def blocks_in_halves(offset, d_model):
    angles = offset * _speeds(d_model)
    c, s = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[c, s], [-s, c]])


@shift_matrix.misconception(
    "The offset is ignored: this is always the matrix for one step. Multiply each frequency by the offset."
)
def one_step(offset, d_model):
    return _blocks(1, d_model)


@shift_matrix.misconception(
    "The sign of the offset is lost, so a step back shifts forward. Keep the sign: the sine needs it."
)
def sign_lost(offset, d_model):
    return _blocks(abs(offset), d_model)


@shift_matrix.misconception(
    "A negative offset changes nothing, perhaps because `range(offset)` is empty. Rotate by offset times frequency "
    "instead of repeating a step."
)
def negative_ignored(offset, d_model):
    return _blocks(max(offset, 0), d_model)


@shift_matrix.misconception(
    "`**` raises each entry of the one-step matrix to a power. Repeating a step is a matrix product. It is easier to "
    "multiply the angle."
)
def power_of_entries(offset, d_model):
    return _blocks(1, d_model) ** float(offset)


@shift_matrix.misconception(
    "The one-step matrix is multiplied by the offset, which makes vectors longer. Multiply the angle instead."
)
def step_scaled(offset, d_model):
    return offset * _blocks(1, d_model)


@shift_matrix.misconception("This is the identity, whatever the offset, so nothing is shifted.")
def stays(offset, d_model):
    return np.eye(d_model)


@shift_matrix.misconception(
    "This matrix moves the entries of a vector to other columns. Only the position should change: each pair stays in "
    "its columns and rotates."
)
def entries_rolled(offset, d_model):
    return np.roll(np.eye(d_model), offset, axis=1)


@shift_matrix.misconception(
    "All pairs rotate by the same angle. Each has its own frequency, the one it has in the encoding."
)
def one_angle(offset, d_model):
    return _blocks(offset, d_model, speeds=lambda d: np.ones(d // 2))


@shift_matrix.misconception("Only the first pair rotates. Fill a block for every pair of columns.")
def first_pair_only(offset, d_model):
    return np.where(np.arange(d_model)[:, None] < 2, _blocks(offset, d_model), 0.0)


@shift_matrix.misconception(
    "The sine has been replaced by a cosine. A block holds cos, sin, -sin and cos of its angle."
)
def cosines_only(offset, d_model):
    return _blocks(offset, d_model, block=lambda c, s: [[c, c], [-c, c]])


@shift_matrix.misconception(
    "The offset is added to the frequency. An angle is the offset times the frequency of its pair."
)
def offset_added(offset, d_model):
    return _blocks(1, d_model, speeds=lambda d: _speeds(d) + offset)


@shift_matrix.misconception(
    "The angles use d_model where the offset belongs. An angle is the offset times the frequency."
)
def width_for_offset(offset, d_model):
    return _blocks(d_model, d_model)


@shift_matrix.misconception(
    "The exponent is twice what it should be: pair i rotates by offset / 10000 ** (2i / d_model), as in the encoding.",
    section=BY_HAND,
)
def shift_exponent_doubled(offset, d_model):
    return _blocks(offset, d_model, speeds=lambda d: _speeds(d) ** 2)


@shift_matrix.misconception(
    "The exponent is half of what it should be: pair i rotates by offset / 10000 ** (2i / d_model), as in the "
    "encoding.",
    section=BY_HAND,
)
def shift_exponent_halved(offset, d_model):
    return _blocks(offset, d_model, speeds=lambda d: _speeds(d) ** 0.5)


@shift_matrix.misconception(
    "The offset is multiplied by the power of 10000. Divide, as in the encoding: later pairs have lower frequencies."
)
def shift_multiplied(offset, d_model):
    return _blocks(offset, d_model, speeds=lambda d: 1 / _speeds(d))


@shift_matrix.misconception(
    "The angles were converted from degrees to radians first. Offset times frequency is in radians already, as in the "
    "encoding.",
    section=BY_HAND,
)
def shift_in_degrees(offset, d_model):
    return _blocks(offset, d_model, speeds=lambda d: _speeds(d) * np.pi / 180)


@shift_matrix.misconception("A negative offset is refused. It is a step back, which is a rotation as well.")
def negative_refused(offset, d_model):
    if offset < 0:
        raise ValueError("negative")
    return _blocks(offset, d_model)


@shift_matrix.misconception("Angles were computed in single precision. Use float64, NumPy's default.")
def shift_single_precision(offset, d_model):
    return _blocks(offset, d_model, number=np.float32)


# LearnedPositions ----------------------------------------------------------------------------------------------------

LearnedPositions = Exercise(solutions.LearnedPositions, section=LEARNED, minutes=10, difficulty=1)


def _table(rng, max_len, d_model, dtype=torch.float64):
    """A table of that size, and the sizes to build it with."""
    return dict(init=dict(max_len=max_len, d_model=d_model), weights={"*": normal(rng, max_len, d_model, dtype=dtype)})


@LearnedPositions.property(
    "adds row p of its table to the token at position p",
    points=2,
    hint="The table is one nn.Parameter of shape (max_len, d_model). A text of n tokens needs its first n rows; the "
    "sum broadcasts over the batch.",
)
def adds_rows(rng):
    yield dict(**_table(rng, 9, 6), x=normal(rng, 2, 5, 6))
    yield dict(**_table(rng, 7, 3), x=normal(rng, 4, 4, 3))
    yield dict(**_table(rng, 8, 5), x=normal(rng, 3, 2, 5))


@LearnedPositions.property(
    "works for one token, and for a text that fills the table",
    points=1,
    hint="The longest text has max_len tokens: the last one is at position max_len - 1.",
)
def borders(rng):
    yield dict(**_table(rng, 5, 4), x=normal(rng, 2, 1, 4))
    yield dict(**_table(rng, 5, 4), x=normal(rng, 3, 5, 4))
    yield dict(**_table(rng, 1, 6), x=normal(rng, 2, 1, 6))


@LearnedPositions.property(
    "sends gradients to the rows in use, summed over the batch, and to the tokens",
    points=2,
    probe=probes.gradients,
    hint="A plain sum is enough, as long as the table is an nn.Parameter and nothing is detached. Rows that no token "
    "used get 0.",
)
def trains(rng):
    yield dict(**_table(rng, 7, 6), x=normal(rng, 2, 4, 6), upstream=[normal(rng, 2, 4, 6)])
    yield dict(**_table(rng, 5, 3), x=normal(rng, 4, 5, 3), upstream=[normal(rng, 4, 5, 3)])


@LearnedPositions.property(
    "refuses texts that are too long or of another width",
    points=1,
    probe=probes.error_of,
    hint="Compare n with max_len yourself and raise ValueError, and the width with d_model. PyTorch does not "
    "refuse everything: tokens of width 1, and a table of one row, are broadcast without an error.",
)
def refusals(rng):
    yield dict(**_table(rng, 5, 4), x=normal(rng, 2, 6, 4))
    yield dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 4))
    yield dict(**_table(rng, 4, 6), x=normal(rng, 3, 11, 6))
    yield dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 1))
    yield dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 3))
    yield dict(**_table(rng, 1, 4), x=normal(rng, 2, 3, 4))


@LearnedPositions.property(
    "leaves the tokens as they were",
    points=1,
    probe=probes.unchanged,
    hint="`x += ...` writes into the caller's tensor. Return a new one.",
)
def tokens_kept(rng):
    yield dict(**_table(rng, 8, 6), x=normal(rng, 3, 5, 6))


@LearnedPositions.property(
    "gives single precision for single precision, on the device of its tokens",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-5,
    atol=1e-6,
    hint="A parameter made by torch.randn or torch.zeros is float32, and `.double()` and `.to(device)` of the module "
    "convert it. Do not convert anything yourself. What you make in `forward` needs `device=x.device`.",
)
def keeps_precision(rng):
    yield dict(**_table(rng, 8, 6, torch.float32), x=normal(rng, 3, 5, 6, dtype=torch.float32))
    yield dict(**_table(rng, 6, 4, torch.float32), x=normal(rng, 2, 3, 4, dtype=torch.float32))


class _Positions(solutions.LearnedPositions):
    """The reference, whose forward refuses what it must and then returns `place(x)`."""

    def forward(self, x):
        super().forward(x)
        return self.place(x)

    def rows(self, x):
        return self.table[: x.shape[1]]


@LearnedPositions.misconception(
    "Each text gets the row of its number in the batch, the same for all its tokens. Positions are along axis 1: the "
    "axes of x are batch, n, d_model.",
    section="What goes wrong",
)
class ByBatch(_Positions):
    def place(self, x):
        return x + self.table[: x.shape[0], None]


@LearnedPositions.misconception(
    "The rows are added along the batch axis instead of the positions. With a batch of n texts this runs and is wrong; "
    "otherwise it fails. (n, d_model) broadcasts as it is, without a new axis after n.",
    section="What goes wrong",
)
class AlongTheBatch(_Positions):
    def place(self, x):
        return x + self.rows(x)[:, None]


@LearnedPositions.misconception(
    "What `forward` makes is on the CPU, wherever the tokens are, and PyTorch does not add tensors of two devices. Say "
    "`device=x.device`, as in `torch.arange(n, device=x.device)`."
)
class OnTheCPU(_Positions):
    def place(self, x):
        return x + nn.functional.embedding(torch.arange(x.shape[1]), self.table)


@LearnedPositions.misconception("Only the vectors of the positions are returned. Add them to the tokens.")
class PositionsAlone(_Positions):
    def place(self, x):
        return self.rows(x)


@LearnedPositions.misconception(
    "Only the vectors of the positions are returned, repeated for the batch. Add them to the tokens."
)
class PositionsAloneRepeated(_Positions):
    def place(self, x):
        return self.rows(x).expand(len(x), -1, -1)


@LearnedPositions.misconception(
    "The vectors are put beside the tokens, which doubles the width. Here they are added, number by number."
)
class Concatenated(_Positions):
    def place(self, x):
        return torch.cat([x, self.rows(x).expand(len(x), -1, -1)], dim=-1)


@LearnedPositions.misconception(
    "Your positions begin at 1, so row 0 is never used and a full text runs out of rows. They count from 0."
)
class FromOne(_Positions):
    def place(self, x):
        return x + self.table[1 : x.shape[1] + 1]


@LearnedPositions.misconception(
    "The last n rows are used. A text begins at position 0, however long it is: take the first n."
)
class LastRows(_Positions):
    def place(self, x):
        return x + self.table[len(self.table) - x.shape[1] :]


@LearnedPositions.misconception("The rows are added in reverse. The token at position p gets row p.")
class Backwards(_Positions):
    def place(self, x):
        return x + self.rows(x).flip(0)


@LearnedPositions.misconception(
    "Every token gets row 0, so all positions look the same. The token at position p gets row p."
)
class RowZero(_Positions):
    def place(self, x):
        return x + self.table[0]


@LearnedPositions.misconception(
    "Every token gets the row of the last position, or `self.table[n]` was meant as a slice: use `[:n]`."
)
class LastPlaceForAll(_Positions):
    def place(self, x):
        return x + self.table[x.shape[1] - 1]


@LearnedPositions.misconception("Tokens are multiplied by the vectors of their positions. Add them instead.")
class Multiplied(_Positions):
    def place(self, x):
        return x * self.rows(x)


@LearnedPositions.misconception(
    "Tokens are multiplied by the square root of the width first. The original transformer does that, but to its "
    "embeddings, outside this module."
)
class RootOfWidth(_Positions):
    def place(self, x):
        return x * x.shape[-1] ** 0.5 + self.rows(x)


@LearnedPositions.misconception("`x += ...` writes into the caller's tensor. Return a new tensor, x plus the rows.")
class InPlace(_Positions):
    def place(self, x):
        x += self.rows(x)
        return x


@LearnedPositions.misconception(
    "The table is cut off from training: `.detach()`, `.data` or `torch.no_grad()` leave its gradient at 0. Use the "
    "parameter itself."
)
class Detached(_Positions):
    def place(self, x):
        return x + self.rows(x).detach()


@LearnedPositions.misconception(
    "The result is cut off from training: under `torch.no_grad()`, or after `.detach()`, neither the table nor the "
    "tokens get a gradient. Add without it."
)
class ResultDetached(_Positions):
    def place(self, x):
        return (x + self.rows(x)).detach()


@LearnedPositions.misconception(
    "A text longer than the table gets the last row again and again, so its end has no order. Raise ValueError.",
    section="Past the last row",
)
class Clamped(solutions.LearnedPositions):
    def forward(self, x):
        super().forward(x[:, : len(self.table)])
        return x + self.table[torch.arange(x.shape[1]).clamp(max=len(self.table) - 1)]


@LearnedPositions.misconception(
    "A text longer than the table begins again at row 0, so two distant positions look alike. Raise ValueError.",
    section="Past the last row",
)
class Wrapped(solutions.LearnedPositions):
    def forward(self, x):
        super().forward(x[:, : len(self.table)])
        return x + self.table[torch.arange(x.shape[1]) % len(self.table)]


@LearnedPositions.misconception(
    "A text longer than the table is cut short without an error. Raise ValueError.", section="Past the last row"
)
class CutShort(solutions.LearnedPositions):
    def forward(self, x):
        return super().forward(x[:, : len(self.table)])


@LearnedPositions.misconception(
    "A text longer than the table raises IndexError. Compare n with max_len first, and raise ValueError.",
    section="Past the last row",
)
class IndexErrorRaised(solutions.LearnedPositions):
    def forward(self, x):
        if x.shape[1] > len(self.table):
            raise IndexError("index out of range in self")
        return super().forward(x)


@LearnedPositions.misconception(
    "A full text is refused: with max_len tokens the last one is at position max_len - 1, which the table has.",
    section="Past the last row",
)
class FullRefused(_Positions):
    def place(self, x):
        if x.shape[1] >= len(self.table):
            raise ValueError("too long")
        return x + self.rows(x)


@LearnedPositions.misconception(
    "Tokens of width 1 are broadcast to the width of the table without an error. Compare the widths and raise "
    "ValueError."
)
class WidthOnePasses(solutions.LearnedPositions):
    def forward(self, x):
        return super().forward(x.expand(-1, -1, self.table.shape[1]) if x.shape[2] == 1 else x)


@LearnedPositions.misconception(
    "A table of one row is broadcast to a text of any length without an error. Compare n with max_len and raise "
    "ValueError.",
    section="Past the last row",
)
class OneRowPasses(solutions.LearnedPositions):
    def forward(self, x):
        if len(self.table) == 1:
            super().forward(x[:, :1])
            return x + self.table
        return super().forward(x)


@LearnedPositions.misconception(
    "Nothing is checked here. PyTorch refuses most sizes that do not fit, but tokens of width 1 and a table of one row "
    "are broadcast without an error. Compare both sizes and raise ValueError."
)
class Unchecked(solutions.LearnedPositions):
    def forward(self, x):
        return x + self.table[: x.shape[1]]


@LearnedPositions.misconception(
    "Nothing is checked here. Past its end a table raises IndexError when it is looked up, and tokens of width 1 are "
    "broadcast without an error. Compare both sizes and raise ValueError."
)
class UncheckedLookup(solutions.LearnedPositions):
    def forward(self, x):
        return x + nn.functional.embedding(torch.arange(x.shape[1]), self.table)


@LearnedPositions.misconception("There is a second parameter. The only one is the table, (max_len, d_model).")
class TwoParameters(solutions.LearnedPositions):
    def __init__(self, max_len, d_model):
        super().__init__(max_len, d_model)
        self.scale = nn.Parameter(torch.ones(1))


@LearnedPositions.misconception(
    "The module has no parameter, so there is nothing to train. A plain tensor or a buffer does not count: wrap the "
    "table in nn.Parameter."
)
class NoParameter(solutions.LearnedPositions):
    def __init__(self, max_len, d_model):
        super().__init__(max_len, d_model)
        table = self.table.detach()
        del self.table
        self.register_buffer("table", table)


@LearnedPositions.misconception(
    "The table has a batch axis in front. One row per position is enough, (max_len, d_model), since the sum "
    "broadcasts over the batch."
)
class BatchAxis(solutions.LearnedPositions):
    def __init__(self, max_len, d_model):
        super().__init__(max_len, d_model)
        self.table = nn.Parameter(self.table.detach()[None])


@LearnedPositions.misconception(
    "The table is transposed: rows are positions and columns are dimensions, (max_len, d_model)."
)
class OnItsSide(solutions.LearnedPositions):
    def __init__(self, max_len, d_model):
        super().__init__(d_model, max_len)


# alibi_bias ----------------------------------------------------------------------------------------------------------

alibi_bias = Exercise(solutions.alibi_bias, section=ALIBI, minutes=10, difficulty=2)


@alibi_bias.property(
    "falls by the slope per step, and hides the future",
    points=3,
    hint="Entry (h, i, j) is minus the slope of the head times i - j. Where j is larger than i it is minus infinity.",
)
def falls(rng):
    yield dict(n_heads=4, n=4)
    yield dict(n_heads=2, n=int(rng.integers(5, 12)))
    yield dict(n_heads=8, n=int(rng.integers(3, 6)))


@alibi_bias.property(
    "has slopes for any number of heads",
    points=2,
    hint="2 ** (-8 h / n_heads) with h = 1, ..., n_heads, also when n_heads is not a power of two.",
)
def any_heads(rng):
    yield dict(n_heads=1, n=int(rng.integers(4, 8)))
    yield dict(n_heads=3, n=int(rng.integers(3, 6)))
    yield dict(n_heads=int(rng.choice([5, 6, 7, 9, 10, 11])), n=2)


@alibi_bias.property(
    "works for short texts, down to one token and to none",
    points=1,
    hint="One token: (n_heads, 1, 1), all 0. No token: (n_heads, 0, 0).",
)
def short_text(rng):
    yield dict(n_heads=int(rng.integers(3, 7)), n=1)
    yield dict(n_heads=int(rng.integers(2, 20)), n=0)
    yield dict(n_heads=2, n=3)


def _bias(n_heads, n, slopes=None, distance=None, future=-np.inf):
    """The right bias with slopes, distances or the future replaced."""
    h = np.arange(1, n_heads + 1)
    slopes = 2.0 ** (-8.0 * h / n_heads) if slopes is None else slopes(h, n_heads)
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    bias = -np.asarray(slopes)[:, None, None] * (distance or (lambda i, j: i - j))(i, j)
    return bias if future is None else np.where(j <= i, bias, future)


@alibi_bias.misconception(
    "Heads are counted from 0, so the first has slope 1 and the last never gets down to 1/256. Here h runs from 1 to "
    "n_heads."
)
def heads_from_zero(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0 ** (-8.0 * (h - 1) / m))


@alibi_bias.misconception(
    "The slopes are 2 ** -h. That fits eight heads only. In general the exponent is -8 h / n_heads, so that the last "
    "slope is always 1/256."
)
def fit_for_eight(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0**-h)


@alibi_bias.misconception(
    "The slopes are 2 ** (-8 / h). The number of the head belongs in the numerator: -8 h / n_heads."
)
def head_below_the_line(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0 ** (-8.0 / h))


@alibi_bias.misconception(
    "Every head has the slope 2 ** (-8 / n_heads). That is the first one; head h has its h-th power."
)
def first_slope_for_all(n_heads, n):
    return _bias(n_heads, n, lambda h, m: np.full(m, 2.0 ** (-8.0 / m)))


@alibi_bias.misconception("The exponent of the slopes lacks its minus, so they are above 1: 2 ** (-8 h / n_heads).")
def steep(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0 ** (8.0 * h / m))


@alibi_bias.misconception("The slopes are powers of e. They are powers of two.")
def powers_of_e(n_heads, n):
    return _bias(n_heads, n, lambda h, m: np.exp(-8.0 * h / m))


@alibi_bias.misconception(
    "The slopes fall in equal steps. They form a geometric series: each is the same fraction of the one before."
)
def straight_slopes(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 1 - h / m + 2.0**-8)


@alibi_bias.misconception(
    "The exponent is rounded, perhaps by `//`. With a number of heads that does not divide 8 it is a fraction."
)
def whole_exponents(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0 ** -(8 * h // m))


@alibi_bias.misconception("The slopes are in reverse: the first head has the steepest.")
def flattest_first(n_heads, n):
    return _bias(n_heads, n, lambda h, m: 2.0 ** (-8.0 * h[::-1] / m))


@alibi_bias.misconception(
    "The slopes are those of ALiBi's published code, which for a number of heads that is not a power of two borrows "
    "from the next lower and the next higher power. Here the formula holds for every number."
)
def as_published(n_heads, n):
    def slopes(h, m):
        lower = 2 ** int(np.log2(m))
        first = 2.0 ** (-8.0 * np.arange(1, lower + 1) / lower)
        more = 2.0 ** (-8.0 * np.arange(1, 2 * lower + 1) / (2 * lower))
        return np.concatenate([first, more[0::2][: m - lower]])

    return _bias(n_heads, n, slopes)


@alibi_bias.misconception(
    "Far tokens are rewarded, because the sign is reversed. The bias is -slope * (i - j), never above 0."
)
def rewarded(n_heads, n):
    return -_bias(n_heads, n, future=np.inf)


@alibi_bias.misconception(
    "The future is open, and even rewarded, since i - j is negative there. Where j > i the bias is minus infinity."
)
def future_rewarded(n_heads, n):
    return _bias(n_heads, n, future=None)


@alibi_bias.misconception(
    "Distance counts in both directions here, so the future is open. Where j > i the bias is minus infinity."
)
def both_directions(n_heads, n):
    return _bias(n_heads, n, distance=lambda i, j: abs(i - j), future=None)


@alibi_bias.misconception(
    "The bias of the future is 0, as after `np.tril`. No other bias is as large; it must be minus infinity."
)
def future_zero(n_heads, n):
    return _bias(n_heads, n, future=0.0)


for _number in (-1e9, -1e4, -1e6, -1e12, -1e30, np.finfo(np.float32).min, np.finfo(np.float64).min):

    @alibi_bias.misconception(
        "The future gets a large negative number, but some score may be lower still: use minus infinity."
    )
    def future_finite(n_heads, n, number=float(_number)):
        return _bias(n_heads, n, future=number)


@alibi_bias.misconception(
    "A mask of zeros and ones was multiplied by infinity, and 0 times infinity is nan. Choose the entries with "
    "`np.where`."
)
def zero_times_infinity(n_heads, n):
    return _bias(n_heads, n, future=None) + np.where(np.tri(n, dtype=bool), np.nan, -np.inf)


@alibi_bias.misconception(
    "Queries and keys are exchanged: your rows are keys, so the past is hidden. Row i is the query."
)
def rows_are_keys(n_heads, n):
    return np.swapaxes(_bias(n_heads, n), 1, 2)


@alibi_bias.misconception(
    "The diagonal is hidden as well. A token may read itself, at distance 0: only j > i is the future."
)
def self_hidden(n_heads, n):
    bias = _bias(n_heads, n)
    bias[:, np.arange(n), np.arange(n)] = -np.inf
    return bias


@alibi_bias.misconception(
    "Distances begin at 1, so a token has a penalty on itself. The distance of a token from itself is 0."
)
def distance_from_one(n_heads, n):
    return _bias(n_heads, n, distance=lambda i, j: i - j + 1)


@alibi_bias.misconception(
    "The bias depends on the position of the key alone: it is -slope * (-j) instead of -slope * (i - j). The softmax "
    "does not change, but the contract asks for the distance."
)
def place_of_the_key(n_heads, n):
    return _bias(n_heads, n, distance=lambda i, j: -j + 0 * i)


@alibi_bias.misconception("The distance is squared. Use it as it is: the bias is linear, as the Li in the name says.")
def squared(n_heads, n):
    return _bias(n_heads, n, distance=lambda i, j: (i - j) ** 2)


@alibi_bias.misconception(
    "The heads are the last axis. They come first: (n_heads, n, n), as in scores of (batch, n_heads, n, n)."
)
def heads_last(n_heads, n):
    return np.moveaxis(_bias(n_heads, n), 0, -1)


@alibi_bias.misconception("A text of no tokens is refused. It is allowed: its bias has the shape (n_heads, 0, 0).")
def no_token_refused(n_heads, n):
    if n < 1:
        raise ValueError("no token")
    return _bias(n_heads, n)


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **Learned table.** Rows 1024 to 3999 do not exist, so the model stops with an error; and adding rows does not help,
   since they are untrained: random rows are noise in the tokens. Half a point for "it fails" without the
   reason that training never touched those rows.
2. **Sinusoids and ALiBi.** Both are *defined* at every position, so the program runs. Sinusoids: combinations of angles
   (of low-frequency pairs in particular) that were never seen, and projections trained without them; the chapter's
   experiment shows failure. ALiBi: the bias is defined for every distance and far keys only get smaller weights, so
   little is new; but it does not make the model use what is far away. A full point needs the difference between "is
   defined" and "has been learned", in any words.
3. **A measurement.** A task or loss *by position*, at positions within and beyond 1024, on the same texts: for example
   the mean next-token loss at positions 900 to 1024 against 3000 to 4000, or a question whose answer is 3000 tokens
   back. An average over the whole text, or text that merely looks fluent, earns half a point.

Model answer. "The table model stops: it has no row 1024. If one adds rows they are untrained. The sinusoidal model
runs, but its slow pairs reach angles that they never had in training, and nothing trained its projections
for these; I would expect it to get worse. ALiBi adds nothing new except larger distances, which lower weights towards
zero; I would expect it to stay as good as it was but not to use the far text. I would plot the loss by position on long
texts, and ask for a name that was only in the first hundred tokens."
""",
)
