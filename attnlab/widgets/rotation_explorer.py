"""Rotary positions: query and key as hands of one clock per pair, and their score against the offset."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

LEAST_BASE, MOST_BASE = 2.0, 1e7
WIDEST = 128
SHORTEST, LONGEST = 8, 128
CLOCKS = 4  # pairs that are drawn at most


class RotationExplorer(CourseWidget):
    """A query and a key that rotary position embedding (RoPE) rotates: four clocks, one per pair, and the score.

    Before rotation, query and key are the same vector: every pair of numbers is (1, 0), a hand of length 1 that
    points to the right. Pair i is half-split, numbers i and i + d_head / 2. A position rotates it counterclockwise by
    position * base ** (-2 i / d_head) radians. The score is the dot product of the two rotated vectors, so the sum over
    the pairs of the cosine of the angle between the hands.

    What a reader learns by moving what:

    - the query or the key: both hands of every pair start from the same angle, and each position rotates its own; the
      first pair rotates by one radian per token, the last least;
    - both together: all hands rotate, the angles between them stay, and so does the score;
    - the base: a larger one lowers all frequencies but the first, so that fewer pairs complete a rotation within the
      trained length;
    - past the trained length: a score at an offset that training had is a known one, wherever the two are. A larger
      offset gives slow pairs an angle between query and key that training never had.

    d_head: even, 2 to 128, the width of query and key.
    base: between 2 and 1e7.
    query, key: positions from 0 to 2 * trained - 1, counted from 0, in tokens. The key may come after the query.
    pair: 0 to d_head / 2 - 1; of more than four pairs, it is one of the four that are drawn.
    trained: 8 to 128, the length in tokens that the model is taken to have been trained on: positions 0 to trained - 1.
    Raises `TraitError` for anything else. A smaller `d_head` or `trained` brings the others back into range.
    """

    _esm = module("rotation_explorer", "pointer", "fields", "positions")
    _css = style("rotation_explorer")

    d_head = traitlets.Int(8, help="width of query and key, even").tag(sync=True)
    base = traitlets.CFloat(10000.0, help="pair i rotates by base ** (-2 i / d_head) radians per token").tag(sync=True)
    query = traitlets.Int(5, help="position of the query, from 0").tag(sync=True)
    key = traitlets.Int(2, help="position of the key, from 0").tag(sync=True)
    pair = traitlets.Int(0, help="pair of numbers chosen, from 0").tag(sync=True)
    trained = traitlets.Int(32, help="tokens of the longest text in training").tag(sync=True)

    def __init__(self, d_head=8, base=10000.0, query=5, key=2, pair=0, trained=32, **kwargs):
        numbers = dict(d_head=d_head, trained=trained, base=base, query=query, key=key, pair=pair)
        numbers = {name: int(n) if isinstance(n, np.integer) else n for name, n in numbers.items()}
        super().__init__(**numbers, **kwargs)
        self.observe(self._bring_back, ["d_head", "trained"])
        self._reserve()

    @traitlets.validate("d_head", "trained", "base", "query", "key", "pair")
    def _in_range(self, proposal):
        # The sizes come first: what is wrong with them is said, and not what follows from it.
        for name in ("d_head", "trained"):
            self._check(name, getattr(self, name))
        self._check(proposal["trait"].name, proposal["value"])
        return proposal["value"]

    def _check(self, name, value):
        last = 2 * self.trained - 1
        least, most = {
            "d_head": (2, WIDEST),
            "trained": (SHORTEST, LONGEST),
            "base": (LEAST_BASE, MOST_BASE),
            "query": (0, last),
            "key": (0, last),
            "pair": (0, self.d_head // 2 - 1),
        }[name]
        if not least <= value <= most:
            beyond = ", twice the trained length less one" if name in ("query", "key") else ""
            raise traitlets.TraitError(f"{name} must be between {least:g} and {most:g}{beyond}; got {value}")
        if name == "d_head" and value % 2:
            raise traitlets.TraitError(f"d_head must be even, two numbers per pair; got {value}")

    def _bring_back(self, change):
        last = 2 * self.trained - 1
        self.query, self.key = min(self.query, last), min(self.key, last)
        self.pair = min(self.pair, self.d_head // 2 - 1)
        self._reserve()

    def _reserve(self):
        """The heights of the style sheet: with more pairs than clocks, there is a slider that chooses one of them."""
        more = 26 if self.d_head // 2 > CLOCKS else 0
        wide, narrow = 592 + more, 566 + more
        self.min_height, self.narrow_extra = wide, narrow - wide

    def picture(self):
        """Draw the clock of the chosen pair next to the score by offset."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle

        frequencies = self.base ** (-np.arange(0, self.d_head, 2) / self.d_head)  # radians per token, one for each pair
        offsets = np.arange(1 - 2 * self.trained, 2 * self.trained)
        scores = np.cos(offsets[:, None] * frequencies).sum(-1)
        figure = Figure(figsize=(8.2, 3.0), layout="constrained")
        clock, curve = figure.subplots(1, 2, width_ratios=[1, 2])
        clock.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#8a939c"))
        for name, color in [("key", "#b35900"), ("query", "#0a6ed1")]:
            angle = getattr(self, name) * frequencies[self.pair]
            clock.plot([0, np.cos(angle)], [0, np.sin(angle)], color=color, lw=2)
            clock.text(1.2 * np.cos(angle), 1.2 * np.sin(angle), name, color=color, ha="center", va="center")
        clock.set(
            xlim=(-1.5, 1.5),
            ylim=(-1.5, 1.5),
            xticks=[-1, 0, 1],
            yticks=[-1, 0, 1],
            aspect="equal",
            xlabel=f"number {self.pair}",
            ylabel=f"number {self.pair + self.d_head // 2}",
            title=f"pair {self.pair}: wavelength {math.tau / frequencies[self.pair]:.4g}",
        )
        for left, right in [(offsets[0], -self.trained), (self.trained, offsets[-1])]:
            curve.axvspan(left, right, color="#8a939c", alpha=0.25, lw=0)
        curve.plot(offsets, scores, color="#0a6ed1")
        offset = self.query - self.key
        chosen = scores[offset - offsets[0]]
        curve.plot(offset, chosen, "o", color="#b35900")
        curve.set(
            xlabel="offset, query minus key (gray: longer than training)",
            ylabel="score",
            title=f"query {self.query}, key {self.key}: {chosen:.3f}",
        )
        return figure
