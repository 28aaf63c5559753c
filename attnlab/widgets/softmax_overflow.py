"""Scores that leave the range of float16, and the maximum that keeps them in it."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, Numbers, module, style

FEWEST, MOST = 2, 5
LARGEST = 1000.0


class SoftmaxOverflow(CourseWidget):
    """The same scores in float16 and float64, with a number to add to all of them.

    What you learn by moving what:

    - add to every score: in float64 no weight changes. In float16 the exponentials run over 65504 and become infinite,
      and with very negative scores they all become 0;
    - subtract the maximum, as the lower track does: nothing moves, whatever is added.

    scores: 2 to 5 finite numbers without a unit, of size at most 1000; a list, a tuple or a NumPy array.
    labels: one string per score, or None for "score 1", "score 2", ...
    shift: a number of size at most 1000, added to every score.
    Anything else raises `TraitError`.

    It computes as NumPy would step by step: s = score + shift is rounded to float16; exp(s) is taken in double
    precision and rounded to float16 (above 65504 it becomes infinite); the exponentials are added from left to right,
    each partial sum rounded; each quotient is rounded. The lower track does the same with s - max(s), also rounded.
    Rounding is to nearest, ties to even.
    """

    _esm = module("softmax_overflow", "fields")
    _css = style("softmax_overflow")
    scores = Numbers([3.0, 1.0], shortest=FEWEST, longest=MOST, largest=LARGEST).tag(sync=True)
    labels = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True)
    shift = traitlets.CFloat(0.0).tag(sync=True)

    def __init__(self, scores=(3.0, 1.0), labels=None, shift=0.0, **kwargs):
        super().__init__(scores=scores, shift=shift, **kwargs)
        if labels is not None:
            self.labels = [str(label) for label in labels]
            if len(self.labels) != len(self.scores):
                raise traitlets.TraitError(
                    f"labels must name each of the {len(self.scores)} scores, got {len(self.labels)} names"
                )
        n = len(self.scores)
        self.min_height, self.narrow_extra = 215 + 36 * n, 159 + round(32.5 * n)

    @traitlets.validate("shift")
    def _check_shift(self, proposal):
        if not abs(proposal.value) <= LARGEST:
            raise traitlets.TraitError(f"shift must be between {-LARGEST:g} and {LARGEST:g}, got {proposal.value:g}")
        return proposal.value

    def picture(self):
        """Draw the exponents on the range of float16, unchanged and with the maximum subtracted."""
        from matplotlib.figure import Figure

        moved = np.array(self.scores) + self.shift
        figure = Figure(figsize=(6.4, 2.2), layout="constrained")
        axes = figure.add_subplot()
        lowest, highest = -25 * math.log(2), math.log(65520)
        axes.axvspan(lowest, highest, color="0.9")
        for row, places in enumerate([moved, moved - moved.max()]):
            lost = (places > highest) | (places < lowest)
            axes.scatter(np.clip(places, -22, 16), np.full(len(places), row), c=np.where(lost, "#c2182b", "black"))
        axes.set(
            xlim=(-23, 17), ylim=(1.6, -0.6), xlabel="exponent", title="exponents that float16 can hold: the gray part"
        )
        axes.set_yticks([0, 1], ["exp(s)", "exp(s − max)"])
        return figure
