"""Exercises of the positions chapter: what must hold, on which inputs, and what people get wrong.

Lengths and widths differ wherever they can, and widths are at least 4, so that there is more than one frequency.
Square cases are there for mistakes that cannot run on anything else.
"""

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import positions as solutions

CLOCKS = "Sines and cosines: a row of clock hands"
BY_HAND = "Positions 0 to 3 by hand"
ROTATION = "An offset is a rotation"
LEARNED = "Learned positions"
ALIBI = "ALiBi: a bias instead of a vector"


def _width(rng, low=3, high=8):
    """An even width of at least 6."""
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
    "works for two positions, for one and for none",
    points=1,
    hint="Row 0 is 0, 1, 0, 1, ...: the sines and cosines of zero. With max_len 0 there are no rows, but still "
    "d_model columns.",
)
def short(rng):
    yield dict(max_len=1, d_model=_width(rng))
    yield dict(max_len=0, d_model=6)
    yield dict(max_len=2, d_model=_width(rng))


@sinusoidal_encoding.property(
    "stays right far along, and in every call",
    points=1,
    probe=probes.again,
    atol=1e-10,
    hint="Compute the angles in float64 from the position itself, without rounding or remainders.",
)
def far_along(rng):
    yield dict(max_len=int(rng.integers(50, 80)), d_model=4)  # ten turns; short, as every mistake is stored


sinusoidal_encoding.refuses(
    lambda rng: [
        dict(max_len=5, d_model=_width(rng) + 1),
        dict(max_len=int(rng.integers(3, 8)), d_model=_width(rng)),
        dict(max_len=3, d_model=1),
    ],
    title="refuses an odd width",
    hint="An odd width leaves a sine without its cosine: raise ValueError.",
)

SPEEDS, ANGLES = "10000.0 ** (-np.arange(0, d_model, 2) / d_model)", "np.outer(np.arange(max_len), speeds)"
EVEN, ODD = "encoding[:, 0::2]", "encoding[:, 1::2]"

sinusoidal_encoding.mistakes(
    edit("-np.arange(0, d_model, 2)", "-2 * np.arange(0, d_model, 2)",
         "The exponent is twice what it should be. If i counts pairs it is 2i / d_model; if it already counts columns "
         "0, 2, 4, ... the 2 is in it. Dividing by d_model / 2 doubles it as well.", see=BY_HAND),
    edit("-np.arange(0, d_model, 2)", "-np.arange(0, d_model, 2) / 2",
         "The exponent is half of what it should be: 2i / d_model, where i counts pairs. Your frequencies fall only to "
         "about 1/100.", see=BY_HAND),
    edit("-np.arange(0, d_model, 2)", "np.arange(0, d_model, 2)",
         "The position is multiplied by the power of 10000. Divide: the first pair has the highest frequency, and each "
         "later pair a lower one."),
    edit(EVEN, "encoding[:, : d_model // 2]",
         "All sines are in the left half and all cosines in the right. Here they alternate: sines in even columns, "
         "cosines in odd ones. Some libraries do it your way, which works as well, but a trained model needs the order "
         "it was trained with.", also={ODD: "encoding[:, d_model // 2 :]"}),
)  # fmt: skip
sinusoidal_encoding.mistakes(
    edit(EVEN, ODD,
         "Sines and cosines are exchanged: sines belong in the even columns. Row 0 must be 0, 1, 0, 1.",
         also={ODD: EVEN}),
    edit("np.arange(0, d_model, 2)", "np.arange(d_model)",
         "Every column has its own frequency, because its number went into the exponent. A sine and the cosine beside "
         "it must share one angle, so use the number of the pair for both.",
         also={"np.sin(angles)": "np.sin(angles[:, 0::2])", "np.cos(angles)": "np.cos(angles[:, 1::2])"}),
    edit("np.cos(angles)", "np.cos(angles * 10000.0 ** (-2 / d_model))",
         "The columns of sines are right, but each cosine has the frequency of the next pair. It shares the angle of "
         "the sine on its left."),
    edit("np.arange(0, d_model, 2) / d_model", "np.arange(d_model // 2) / max(d_model // 2 - 1, 1)",
         "The last frequency is exactly 1/10000. In the definition the exponent is 2i / d_model, which stops short of "
         "1: divide by the number of pairs, not by one less."),
    see=BY_HAND,
)  # fmt: skip
sinusoidal_encoding.mistakes(
    edit("10000.0", "1000.0",
         "The base is 1000 here. It is 10000: one with four zeros."),
    edit("10000.0", "100000.0",
         "The base is 100000 here. It is 10000: one with four zeros."),
    edit("10000.0 ** (", "np.exp(np.log10(10000.0) * ",
         "The logarithm has the wrong base: `np.log10(10000)` is 4, and exp(-4 ...) is not a power of 10000. `np.exp` "
         "needs the natural logarithm, `np.log`."),
    edit("np.arange(max_len)", "np.arange(1, max_len + 1)",
         "Your positions begin at 1. They count from 0 in this course, so row 0 is 0, 1, 0, 1.", see=BY_HAND),
    edit(ANGLES, f"{ANGLES} * np.pi / 180",
         "The angles were converted from degrees to radians first. One step is one radian for the first pair: take the "
         "sine of the angle as it is."),
    edit(ANGLES, f"{ANGLES} * 2 * np.pi",
         "The angle is multiplied by 2π. It is the position divided by the power of 10000; 2π is needed only for the "
         "wavelength."),
    edit(ANGLES, "np.outer(np.arange(max_len, dtype=np.float32), speeds.astype(np.float32))",
         "Angles were computed in single precision. Their error grows with the position; let NumPy use float64, its "
         "default."),
    edit("np.cos(angles)", "np.sin(angles)",
         "Both columns of a pair hold the sine. A sine alone has the same value at two angles of a rotation; the odd "
         "columns are cosines."),
    edit(SPEEDS, "np.ones(d_model // 2)",
         "All pairs have the same frequency. The exponent is 0 everywhere, perhaps from a division with `//`."),
    edit(SPEEDS, f"({SPEEDS})[::-1]",
         "The lowest frequency comes first. Pair 0 has exponent 0 and so the highest frequency. From there they fall."),
    edit("np.empty((max_len, d_model))", "np.zeros((max_len, d_model), dtype=int)",
         "The array holds whole numbers (`dtype=int`), so each sine and cosine that is written into it is cut to 0, 1 "
         "or -1. Make it of floats: `np.zeros((max_len, d_model))`."),
    edit("return encoding", "return encoding.T",
         "Rows and columns are exchanged. There is one row per position and one column per dimension."),
    edit(" or d_model % 2", "",
         "An odd width passes. Its last sine has no cosine, and a sine alone cannot be shifted by a rotation: raise "
         "ValueError.", also={"np.cos(angles)": "np.cos(angles[:, : d_model // 2])"}),
    edit(" or d_model % 2", " or d_model > 1 and d_model % 2",
         "A width of 1 passes. NumPy refuses the other odd widths for you, as the cosines do not fit. For width 1 "
         "there is one frequency and no odd column, and NumPy broadcasts that without an error. Check the width "
         "yourself and raise ValueError."),
    edit("if max_len < 0", 'if max_len < 1:\n        raise ValueError("no positions")\n    if max_len < 0',
         "A length of 0 fails. It is allowed: return no rows and d_model columns."),
)  # fmt: skip


# shift_matrix --------------------------------------------------------------------------------------------------------

shift_matrix = Exercise(solutions.shift_matrix, section=ROTATION, minutes=10, difficulty=3)


@shift_matrix.property(
    "shifts any encoding by the offset",
    points=3,
    hint="Write sin(a + b) and cos(a + b) with the sines and cosines of a and of b. The factors of sin(a) and "
    "cos(a) form the 2 x 2 block of this pair. (A matrix that is fitted to rows of the encoding loses digits with each "
    "pair, and at width 10 it is plainly wrong: slow pairs hardly move within so few rows.)",
)
def moves_on(rng):
    yield dict(offset=1, d_model=4)
    yield dict(offset=int(rng.integers(4, 12)), d_model=10)
    yield dict(offset=int(rng.integers(2, 6)), d_model=_width(rng))


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
    "stays right for far offsets, and in every call",
    points=1,
    probe=probes.again,
    rtol=1e-7,
    atol=1e-9,
    hint="Rotate by offset times the frequency of the pair, in one step and in float64.",
)
def moves_far(rng):
    yield dict(offset=int(rng.integers(900, 1100)), d_model=_width(rng))
    yield dict(offset=-int(rng.integers(900, 1100)), d_model=4)


SPEED = "10000.0 ** (-column / d_model)"
PLACE = "shift[column : column + 2, column : column + 2]"
BLOCK = "[[cosine, sine], [-sine, cosine]]"

shift_matrix.mistakes(
    edit("= offset *", "= -offset *",
         "This matrix rotates the other way: it is the transpose, and shifts back by the offset. The vector is a "
         "column on the right, shift @ encoding[p], with the sine above the cosine, so the minus belongs below the "
         "diagonal."),
    edit("-sine", "sine",
         "Both sines have the same sign. That is not a rotation: cos(a + b) = cos a cos b - sin a sin b has a minus."),
    edit(BLOCK, "[[sine, cosine], [-cosine, sine]]",
         "Sine and cosine are exchanged in the blocks. For offset 0 nothing may change, so the cosine, which is then "
         "1, belongs on the diagonal."),
    edit(BLOCK, "[[cosine, 0.0], [0.0, cosine]]",
         "Only the diagonal is filled, so each number is only scaled. The sine after a step needs the cosine before "
         "it: the two columns of a pair must mix."),
    edit(PLACE, "shift[column // 2 :: d_model // 2, column // 2 :: d_model // 2]",
         "Your rotation mixes columns i and i + d_model / 2. In this encoding a pair is side by side, in columns 2i "
         "and 2i + 1, so the blocks are along the diagonal."),
    edit(PLACE, "shift[column // 2 : column // 2 + 2, column // 2 : column // 2 + 2]",
         "The blocks overlap, because block i begins in row and column i. Pair i owns rows and columns 2i and 2i + 1, "
         "so block i begins at 2i."),
    edit("np.zeros((d_model, d_model))", "np.zeros((d_model, d_model), dtype=int)",
         "The matrix holds whole numbers (`dtype=int`, perhaps from `np.eye(..., dtype=int)`), so each cosine and sine "
         "that is written into it is cut to 0, 1 or -1. Make it of floats: `np.zeros((d_model, d_model))`."),
    edit("= offset *", "=",
         "The offset is ignored: this is always the matrix for one step. Multiply each frequency by the offset."),
    edit("= offset *", "= abs(offset) *",
         "The sign of the offset is lost, so a step back shifts forward. Keep the sign: the sine needs it."),
    edit("= offset *", "= {} *", "The offset is off by one: the matrix for 0 steps is the identity.",
         each=("(offset + 1)", "(offset - 1)")),
    edit("= offset *", "= max(offset, 0) *",
         "A negative offset changes nothing, perhaps because `range(offset)` is empty. Rotate by offset times "
         "frequency instead of repeating a step."),
    edit("= offset *", "=",
         "`**` raises each entry of the one-step matrix to a power. Repeating a step is a matrix product. It is easier "
         "to multiply the angle.", also={"return shift": "return shift ** float(offset)"}),
    edit("= offset *", "=",
         "The one-step matrix is multiplied by the offset, which makes vectors longer. Multiply the angle instead.",
         also={"return shift": "return offset * shift"}),
    edit("return shift", "return np.eye(d_model)",
         "This is the identity, whatever the offset, so nothing is shifted."),
    edit("return shift", "return np.roll(np.eye(d_model), offset, axis=1)",
         "This matrix moves the entries of a vector to other columns. Only the position should change: each pair stays "
         "in its columns and rotates."),
    edit(SPEED, "1.0",
         "All pairs rotate by the same angle. Each has its own frequency, the one it has in the encoding."),
    edit("range(0, d_model, 2)", "[0]",
         "Only the first pair rotates. Fill a block for every pair of columns."),
    edit(BLOCK, "[[cosine, cosine], [-cosine, cosine]]",
         "The sine has been replaced by a cosine. A block holds cos, sin, -sin and cos of its angle."),
    edit("= offset *", "= offset +",
         "The offset is added to the frequency. An angle is the offset times the frequency of its pair."),
    edit("= offset *", "= d_model *",
         "The angles use d_model where the offset belongs. An angle is the offset times the frequency."),
    edit("-column", "-2 * column",
         "The exponent is twice what it should be: pair i rotates by offset / 10000 ** (2i / d_model), as in the "
         "encoding.", see=BY_HAND),
    edit("-column", "-column / 2",
         "The exponent is half of what it should be: pair i rotates by offset / 10000 ** (2i / d_model), as in the "
         "encoding.", see=BY_HAND),
    edit("-column", "column",
         "The offset is multiplied by the power of 10000. Divide, as in the encoding: later pairs have lower "
         "frequencies."),
    edit(SPEED, f"{SPEED} * np.pi / 180",
         "The angles were converted from degrees to radians first. Offset times frequency is in radians already, as in "
         "the encoding.", see=BY_HAND),
    edit("if d_model < 0", 'if offset < 0:\n        raise ValueError("negative")\n    if d_model < 0',
         "A negative offset is refused. It is a step back, which is a rotation as well."),
    edit(f"offset * {SPEED}", f"np.float32(offset) * np.float32({SPEED})",
         "Angles were computed in single precision. Use float64, NumPy's default."),
)  # fmt: skip


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


LearnedPositions.gradients(
    lambda rng: [
        dict(**_table(rng, 7, 6), x=normal(rng, 2, 4, 6), upstream=[normal(rng, 2, 4, 6)]),
        dict(**_table(rng, 5, 3), x=normal(rng, 4, 5, 3), upstream=[normal(rng, 4, 5, 3)]),
    ],
    title="sends gradients to the rows in use, summed over the batch, and to the tokens",
    points=2,
    hint="A plain sum is enough, as long as the table is an nn.Parameter and nothing is detached. Rows that no token "
    "used get 0.",
)
LearnedPositions.refuses(
    lambda rng: [
        dict(**_table(rng, 5, 4), x=normal(rng, 2, 6, 4)),
        dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 4)),
        dict(**_table(rng, 4, 6), x=normal(rng, 3, 11, 6)),
        dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 1)),
        dict(**_table(rng, 5, 4), x=normal(rng, 2, 3, 3)),
        dict(**_table(rng, 1, 4), x=normal(rng, 2, 3, 4)),
    ],
    title="refuses texts that are too long or of another width",
    hint="Compare n with max_len yourself and raise ValueError, and the width with d_model. PyTorch does not "
    "refuse everything: tokens of width 1, and a table of one row, are broadcast without an error.",
)
LearnedPositions.unchanged(
    # The table is long, so that rows after those of one call are there for the next.
    lambda rng: [
        dict(**_table(rng, 8, 6), x=normal(rng, 3, 5, 6)),
        dict(**_table(rng, 20, 2), x=normal(rng, 2, 3, 2)),
    ],
    title="leaves the tokens as they were, and keeps nothing",
    hint="`x += ...` writes into the caller's tensor. Return a new one.",
)
LearnedPositions.any_device(
    lambda rng: [
        dict(**_table(rng, 8, 6, torch.float32), x=normal(rng, 3, 5, 6, dtype=torch.float32)),
        dict(**_table(rng, 6, 4, torch.float32), x=normal(rng, 2, 3, 4, dtype=torch.float32)),
    ],
    title="gives single precision for single precision, on the device of its tokens",
    rtol=1e-5,
    atol=1e-6,
    hint="A parameter made by torch.randn or torch.zeros is float32, and `.double()` and `.to(device)` of the module "
    "convert it. Do not convert anything yourself. What you make in `forward` needs `device=x.device`.",
)

ROWS = "self.table[: x.shape[1]]"
SUM = f"x + {ROWS}"
FITS, TOO_LONG = "if x.ndim != 3 or x.shape[2] != d_model", "if x.shape[1] > max_len"
TABLE = "self.table = nn.Parameter(0.02 * torch.randn(max_len, d_model))"

LearnedPositions.mistakes(
    edit(ROWS, "self.table[: x.shape[0], None]",
         "Each text gets the row of its number in the batch, the same for all its tokens. Positions are along axis 1: "
         "the axes of x are batch, n, d_model.", see="What goes wrong"),
    edit(ROWS, f"{ROWS}[:, None]",
         "The rows are added along the batch axis instead of the positions. With a batch of n texts this runs and is "
         "wrong; otherwise it fails. (n, d_model) broadcasts as it is, without a new axis after n.",
         see="What goes wrong"),
    edit(ROWS, "nn.functional.embedding(torch.arange(x.shape[1]), self.table)",
         "What `forward` makes is on the CPU, wherever the tokens are, and PyTorch does not add tensors of two "
         "devices. Say `device=x.device`, as in `torch.arange(n, device=x.device)`."),
    edit("x + self", "self",
         "Only the vectors of the positions are returned. Add them to the tokens."),
    edit(SUM, f"{ROWS}.expand(len(x), -1, -1)",
         "Only the vectors of the positions are returned, repeated for the batch. Add them to the tokens."),
    edit(SUM, f"torch.cat([x, {ROWS}.expand(len(x), -1, -1)], dim=-1)",
         "The vectors are put beside the tokens, which doubles the width. Here they are added, number by number."),
    edit(ROWS, "self.table[1 : x.shape[1] + 1]",
         "Your positions begin at 1, so row 0 is never used and a full text runs out of rows. They count from 0."),
    edit(ROWS, "self.table[max_len - x.shape[1] :]",
         "The last n rows are used. A text begins at position 0, however long it is: take the first n."),
    edit(ROWS, f"{ROWS}.flip(0)",
         "The rows are added in reverse. The token at position p gets row p."),
    edit(ROWS, "self.table[0]",
         "Every token gets row 0, so all positions look the same. The token at position p gets row p."),
    edit(ROWS, "self.table[x.shape[1] - 1]",
         "Every token gets the row of the last position, or `self.table[n]` was meant as a slice: use `[:n]`."),
    edit(SUM, f"nn.functional.layer_norm({SUM}, x.shape[-1:])",
         "The sum is normalized. This module only adds; a norm belongs to the block that reads the sum."),
    edit("x + self", "x * self",
         "Tokens are multiplied by the vectors of their positions. Add them instead."),
    edit("x + self", "x * x.shape[-1] ** 0.5 + self",
         "Tokens are multiplied by the square root of the width first. The original transformer does that, but to its "
         "embeddings, outside this module."),
    edit(SUM, f"x.add_({ROWS})",
         "`x += ...` writes into the caller's tensor. Return a new tensor, x plus the rows."),
    edit(ROWS, f"{ROWS}.detach()",
         "The table is cut off from training: `.detach()`, `.data`, `torch.no_grad()` and `requires_grad=False` leave "
         "its gradient at 0. Use the parameter itself."),
    edit(SUM, f"({SUM}).detach()",
         "The result is cut off from training: under `torch.no_grad()`, or after `.detach()`, neither the table nor "
         "the tokens get a gradient. Add without it."),
)  # fmt: skip
LearnedPositions.mistakes(
    edit(TOO_LONG, "if False",
         "A text longer than the table gets the last row again and again, so its end has no order. Raise ValueError.",
         also={ROWS: "self.table[torch.arange(x.shape[1]).clamp(max=max_len - 1)]"}),
    edit(TOO_LONG, "if False",
         "A text longer than the table begins again at row 0, so two distant positions look alike. Raise ValueError.",
         also={ROWS: "self.table[torch.arange(x.shape[1]) % max_len]"}),
    edit("max_len, d_model = self", "x = x[:, : len(self.table)]\n        max_len, d_model = self",
         "A text longer than the table is cut short without an error. Raise ValueError."),
    edit('ValueError(f"{x.shape[1]} tokens', 'IndexError(f"{x.shape[1]} tokens',
         "A text longer than the table raises IndexError. Compare n with max_len first, and raise ValueError."),
    edit(TOO_LONG, f'if x.shape[1] == max_len:\n            raise ValueError("too long")\n        {TOO_LONG}',
         "A full text is refused: with max_len tokens the last one is at position max_len - 1, which the table has."),
    see="Past the last row",
)  # fmt: skip
LearnedPositions.mistakes(
    edit("x.shape[2] != d_model", "x.shape[2] not in (1, d_model)",
         "Tokens of width 1 are broadcast to the width of the table without an error. Compare the widths and raise "
         "ValueError."),
    edit("> max_len", "> max_len > 1",
         "A table of one row is broadcast to a text of any length without an error. Compare n with max_len and raise "
         "ValueError.", see="Past the last row"),
    edit(FITS, "if False",
         "Nothing is checked here. PyTorch refuses most sizes that do not fit, but tokens of width 1 and a table of "
         "one row are broadcast without an error. Compare both sizes and raise ValueError.",
         also={TOO_LONG: "if False"}),
    edit(FITS, "if False",
         "Nothing is checked here. Past its end a table raises IndexError when it is looked up, and tokens of width 1 "
         "are broadcast without an error. Compare both sizes and raise ValueError.",
         also={TOO_LONG: "if False", ROWS: "nn.functional.embedding(torch.arange(x.shape[1]), self.table)"}),
    edit(TABLE, f"{TABLE}\n        self.scale = nn.Parameter(torch.ones(1))",
         "There is a second parameter. The only one is the table, (max_len, d_model)."),
    edit(TABLE, 'self.register_buffer("table", 0.02 * torch.randn(max_len, d_model))',
         "The module has no parameter, so there is nothing to train. A plain tensor or a buffer does not count: wrap "
         "the table in nn.Parameter."),
    edit("randn(max_len, d_model)", "randn(1, max_len, d_model)",
         "The table has a batch axis in front. One row per position is enough, (max_len, d_model), since the sum "
         "broadcasts over the batch."),
    edit("randn(max_len, d_model)", "randn(d_model, max_len)",
         "The table is transposed: rows are positions and columns are dimensions, (max_len, d_model)."),
)  # fmt: skip


# alibi_bias ----------------------------------------------------------------------------------------------------------

alibi_bias = Exercise(solutions.alibi_bias, section=ALIBI, minutes=10, difficulty=2)


@alibi_bias.property(
    "falls by the slope per step, and hides the future",
    points=3,
    hint="Entry (h, i, j) is minus the slope of the head times i - j. Where j is larger than i it is minus infinity. "
    "The slopes are 2 ** (-8 h / n_heads) for h = 1, ..., n_heads: with two heads 1/16 and 1/256.",
)
def falls(rng):
    yield dict(n_heads=4, n=4)
    yield dict(n_heads=2, n=int(rng.integers(5, 12)))
    yield dict(n_heads=8, n=int(rng.integers(3, 6)))


@alibi_bias.property(
    "has slopes for any number of heads, in every call",
    points=2,
    probe=probes.again,
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


def _published_slopes(n_heads):
    """The slopes in the published code: head counts that are not powers of two borrow from those next to them."""
    lower = 2 ** int(np.log2(n_heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, lower + 1) / lower)
    more = 2.0 ** (-8.0 * np.arange(1, 2 * lower + 1) / (2 * lower))
    return np.concatenate([slopes, more[0::2][: n_heads - lower]])


SLOPES = "2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)"
WHOLE_EXPONENT = (
    "The exponent is rounded, perhaps by `//`. With a number of heads that does not divide 8 it is a fraction: use `/`."
)
BIAS = "np.where(ahead <= 0, slopes[:, None, None] * ahead, -np.inf)"
FINITE = (-1e9, -1e4, -1e6, -1e12, -1e30, *(float(np.finfo(dtype).min) for dtype in (np.float32, np.float64)))

alibi_bias.mistakes(
    edit("np.arange(1, n_heads + 1)", "np.arange(n_heads)",
         "Heads are counted from 0, so the first has slope 1 and the last never gets down to 1/256. Here h runs from 1 "
         "to n_heads."),
    edit(" / n_heads)", " / 8)",
         "The slopes are 2 ** -h. That fits eight heads only. In general the exponent is -8 h / n_heads, so that the "
         "last slope is always 1/256."),
    edit("-8.0 * np.arange(1, n_heads + 1) / n_heads", "-8.0 / np.arange(1, n_heads + 1)",
         "The slopes are 2 ** (-8 / h). The number of the head belongs in the numerator: -8 h / n_heads."),
    edit("np.arange(1, n_heads + 1)", "np.ones(n_heads)",
         "Every head has the slope 2 ** (-8 / n_heads). That is the first one; head h has its h-th power."),
    edit("-8.0", "8.0",
         "The slopes are above 1: their exponent lacks its minus, or the distance is divided by the slope. They are "
         "2 ** (-8 h / n_heads), and multiply the distance."),
    edit("2.0 ** (", "np.exp(",
         "The slopes are powers of e. They are powers of two."),
    edit(SLOPES, "1 + 2.0**-8 - np.arange(1, n_heads + 1) / n_heads",
         "The slopes fall in equal steps. They form a geometric series: each is the same fraction of the one before."),
    edit("-8.0 * np.arange(1, n_heads + 1) / n_heads", "-(8.0 * np.arange(1, n_heads + 1) // n_heads)",
         WHOLE_EXPONENT),
    edit("-8.0 * np.arange(1, n_heads + 1) / n_heads", "-8.0 * np.arange(1, n_heads + 1) // n_heads", WHOLE_EXPONENT),
    edit(SLOPES, f"({SLOPES})[::-1]",
         "The slopes are in reverse: the first head has the steepest."),
    edit(SLOPES, "_published_slopes(n_heads)",
         "The slopes are those of ALiBi's published code, which for a number of heads that is not a power of two "
         "borrows from the next lower and the next higher power. Here the formula holds for every number."),
    edit("* ahead", "* -ahead",
         "Far tokens are rewarded, because the sign is reversed. The bias is -slope * (i - j), never above 0."),
    edit("ahead <= 0", "True",
         "The future is open, and even rewarded, since i - j is negative there. Where j > i the bias is minus "
         "infinity."),
    edit("ahead <= 0", "True",
         "Distance counts in both directions here, so the future is open. Where j > i the bias is minus infinity.",
         also={"* ahead": "* -abs(ahead)"}),
    edit("-np.inf", "0.0",
         "The bias of the future is 0, as after `np.tril`. No other bias is as large; it must be minus infinity."),
    edit("-np.inf", "{}",
         "The future gets a large negative number, but some score may be lower still: use minus infinity.",
         each=FINITE),
    edit(BIAS, "slopes[:, None, None] * ahead + (ahead > 0) * -np.inf",
         "A mask of zeros and ones was multiplied by infinity, and 0 times infinity is nan. Choose the entries with "
         "`np.where`."),
    edit("np.arange(n)[None, :] - np.arange(n)[:, None]", "np.arange(n)[:, None] - np.arange(n)[None, :]",
         "Queries and keys are exchanged: your rows are keys, so the past is hidden. Row i is the query."),
    edit("ahead <= 0", "ahead < 0",
         "The diagonal is hidden as well. A token may read itself, at distance 0: only j > i is the future."),
    edit("* ahead", "* (ahead - 1)",
         "Distances begin at 1, so a token has a penalty on itself. The distance of a token from itself is 0."),
    edit("* ahead", "* np.arange(n)",
         "The bias depends on the position of the key alone: it is -slope * (-j) instead of -slope * (i - j). The "
         "softmax does not change, but the contract asks for the distance."),
    edit("* ahead", "* -(ahead**2)",
         "The distance is squared. Use it as it is: the bias is linear, as the Li in the name says."),
    edit(BIAS, f"np.moveaxis({BIAS}, 0, -1)",
         "The heads are the last axis. They come first: (n_heads, n, n), as in scores of (batch, n_heads, n, n)."),
    edit("if n_heads < 1", 'if n < 1:\n        raise ValueError("no token")\n    if n_heads < 1',
         "A text of no tokens is refused. It is allowed: its bias has the shape (n_heads, 0, 0)."),
)  # fmt: skip


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
