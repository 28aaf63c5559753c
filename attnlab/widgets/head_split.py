"""The numbers of a few tokens, cut into heads and put together again; and the reshape that mixes tokens up."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

STAGES = ["rows", "cut", "heads", "merged"]
MOST = dict(tokens=4, width=8)


class HeadSplit(CourseWidget):
    """Every number of n tokens on its way from (n, d) to (heads, n, d / heads) and back.

    What you learn by moving what:

    - Press the four shapes one after the other: cutting moves nothing in memory, the transpose puts heads in front.
    - Press *without transpose*: the shape is the same, and head 0 holds a whole token and half of the next.
    - Go on to *merged* then: the numbers come back unchanged, so a test of the way there and back finds nothing.

    tokens: 2 to 4 names. width: numbers of a token, at most 8; heads divide it. stage: 0 to 3. bug: whether the
    transpose is left out, so that one reshape makes the shape of the heads.
    Raises ValueError, naming the sizes, when they do not fit.
    """

    _esm = module("head_split")
    _css = style("head_split")

    tokens = traitlets.List(traitlets.Unicode(), ["the", "cat", "sat"], help="names of the tokens").tag(sync=True)
    width = traitlets.Int(4, help="numbers of a token").tag(sync=True)
    heads = traitlets.Int(2, help="heads, which divide the width").tag(sync=True)
    stage = traitlets.Int(0, min=0, max=3, help="rows, cut, heads, merged").tag(sync=True)
    bug = traitlets.Bool(False, help="whether the transpose is left out").tag(sync=True)
    min_height = traitlets.Int(380).tag(sync=True)
    narrow_extra = traitlets.Int(82).tag(sync=True)

    def __init__(self, tokens=("the", "cat", "sat"), width=4, heads=2, **kwargs):
        if isinstance(tokens, str) or not 2 <= len(tokens) <= MOST["tokens"]:
            raise ValueError(f"tokens must be a list of 2 to {MOST['tokens']} names; it is {tokens!r}")
        if not 1 <= width <= MOST["width"]:
            raise ValueError(f"width must be 1 to {MOST['width']}; it is {width}")
        if not 1 <= heads <= 4 or width % heads:
            raise ValueError(f"heads must be 1 to 4 and divide the width: {width} / {heads}")
        super().__init__(tokens=list(tokens), width=width, heads=heads, **kwargs)

    @property
    def rows(self):
        """Tokens as rows of numbers that say where they come from: 10 is number 0 of token 1."""
        return 10 * np.arange(len(self.tokens))[:, None] + np.arange(self.width)

    @property
    def in_heads(self):
        """(heads, n, width / heads): what the split makes of them, or the reshape alone."""
        n, each = len(self.tokens), self.width // self.heads
        if self.bug:
            return self.rows.reshape(self.heads, n, each)
        return self.rows.reshape(n, self.heads, each).swapaxes(0, 1)

    def picture(self):
        """Rows and heads, each number in the shade of its token."""
        from matplotlib.figure import Figure

        blocks = [self.rows, *self.in_heads]
        figure = Figure(figsize=(8, 2.2), layout="constrained")
        for axes, block, name in zip(
            figure.subplots(1, len(blocks)), blocks, ["tokens", *(f"head {i}" for i in range(self.heads))]
        ):
            axes.imshow(block // 10, cmap="Pastel1", vmin=0, vmax=8)
            for (i, j), number in np.ndenumerate(block):
                axes.text(j, i, str(number), ha="center", va="center")
            axes.set(xticks=[], yticks=[], title=name)
        return figure
