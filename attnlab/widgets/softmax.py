"""Scores that slide on the curve of the exponential, and the weights that softmax makes of them."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, Numbers, module, style

FEWEST, MOST = 2, 8
COLDEST, HOTTEST = 0.05, 20.0
LARGEST = 1000.0


class SoftmaxExplorer(CourseWidget):
    """Scores, a temperature and a shift to change, with the weights and their entropy.

    The scores are points on the curve e^s, where they can be dragged; a weight is a height's share of all heights.

    What you learn by moving what:

    - a score: its weight grows and all others shrink, since they share one total;
    - the temperature: below 1 the largest score gets more of the weight, above 1 the weights come closer together,
      and the entropy grows from 0 toward its maximum, the logarithm of the number of scores;
    - the shift: adding the same number to every score moves all points along the curve, and changes no weight.

    scores: 2 to 8 finite numbers without a unit, of size at most 1000; a list, a tuple or a NumPy array.
    labels: one string per score, or None for "score 1", "score 2", ...
    temperature: between 0.05 and 20; the scores are divided by it.
    shift: a number of size at most 1000, added to every score.
    Anything else raises `TraitError`. Assigning to a trait moves the widget: `explorer.scores = q @ K.T`. If there are
    then more scores than labels, the rest are numbered.
    """

    _esm = module("softmax", "pointer", "fields")
    _css = style("softmax")
    scores = Numbers([2.0, 1.0, 0.1], shortest=FEWEST, longest=MOST, largest=LARGEST).tag(sync=True)
    labels = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True)
    temperature = traitlets.CFloat(1.0).tag(sync=True)
    shift = traitlets.CFloat(0.0).tag(sync=True)

    def __init__(self, scores=(2.0, 1.0, 0.1), labels=None, temperature=1.0, **kwargs):
        super().__init__(scores=scores, temperature=temperature, **kwargs)
        if labels is not None:
            self.labels = [str(label) for label in labels]
            if len(self.labels) != len(self.scores):
                raise traitlets.TraitError(
                    f"labels must name each of the {len(self.scores)} scores, got {len(self.labels)} names"
                )
        n = len(self.scores)
        wide = max(363, 218 + round(35.3 * n))
        self.min_height, self.narrow_extra = wide, 492 + round(35.3 * n) - wide

    @traitlets.validate("temperature")
    def _check_temperature(self, proposal):
        if not COLDEST <= proposal.value <= HOTTEST:
            raise traitlets.TraitError(
                f"temperature must be between {COLDEST:g} and {HOTTEST:g}, got {proposal.value:g}"
            )
        return proposal.value

    @traitlets.validate("shift")
    def _check_shift(self, proposal):
        if not abs(proposal.value) <= LARGEST:
            raise traitlets.TraitError(f"shift must be between {-LARGEST:g} and {LARGEST:g}, got {proposal.value:g}")
        return proposal.value

    def picture(self):
        from matplotlib.figure import Figure

        names = [*(self.labels or [])[: len(self.scores)]]
        names += [f"score {i + 1}" for i in range(len(names), len(self.scores))]
        heights = [score / self.temperature for score in self.scores]
        level = np.logaddexp.reduce(heights)  # the height at which a single score would carry the whole weight
        figure = Figure(figsize=(5.2, 0.7 + 0.4 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(names))  # and not the names themselves: two tokens may have the same name
        bars = axes.barh(places, [math.exp(height - level) for height in heights], color="#0a6ed1")
        axes.set_yticks(places, [f"{name}: {score:g}" for name, score in zip(names, self.scores)])
        axes.bar_label(bars, fmt="%.3f", padding=3)
        axes.set(xlim=(0, 1.15), xlabel="weight", title=f"temperature {self.temperature:g}")
        axes.invert_yaxis()
        return figure
