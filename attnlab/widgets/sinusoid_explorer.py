"""Sinusoidal position encoding: the whole table, one pair as a clock hand, and dot product against offset."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

BASE = 10000.0
LONGEST, WIDEST = 256, 128


class SinusoidExplorer(CourseWidget):
    """The sinusoidal encoding of positions: its table, one pair of columns as a clock hand, and dot products.

    What a reader learns by moving what:

    - the position, or time that runs: every pair of columns is a clock whose hand turns; the first pairs turn fast, the
      last by a small fraction of a turn;
    - the pair: its wavelength, the number of tokens for one full turn, grows by the same factor from pair to pair,
      from 2 pi almost up to 10000 * 2 pi;
    - the offset: the second hand belongs to position + offset, and the angle between the hands is offset * frequency;
    - then the position again: the angle between the hands stays, and so does the dot product of the two encodings.

    max_len: 8 to 256, rows of the table that is drawn.
    d_model: even, 2 to 128, columns of the table: sine in the even ones, cosine in the odd ones, base 10000.
    position: 0 to max_len - 1, counted from 0, in tokens.
    pair: 0 to d_model / 2 - 1; pair i is columns 2i and 2i + 1. Left out, 2 where there is one.
    offset: -max_len to max_len, in tokens. position + offset may be outside the table, even before its start: the
        formula holds for any whole number.
    Raises `TraitError` for anything else. A smaller `max_len` or `d_model` brings the others back into range.
    """

    _esm = module("sinusoid_explorer", "pointer", "weights", "fields", "positions")
    _css = style("sinusoid_explorer")

    max_len = traitlets.Int(64, help="rows of the table").tag(sync=True)
    d_model = traitlets.Int(32, help="columns of the table, even").tag(sync=True)
    position = traitlets.Int(5, help="row chosen, from 0").tag(sync=True)
    pair = traitlets.Int(2, help="pair of columns chosen, from 0").tag(sync=True)
    offset = traitlets.Int(0, help="tokens from the position to the second one").tag(sync=True)

    def __init__(self, max_len=64, d_model=32, position=5, pair=None, offset=0, **kwargs):
        if pair is None:
            pair = 0 if d_model in (2, 4) else 2
        numbers = dict(max_len=max_len, d_model=d_model, position=position, pair=pair, offset=offset)
        numbers = {name: int(n) if isinstance(n, np.integer) else n for name, n in numbers.items()}
        super().__init__(**numbers, **kwargs)
        self.observe(self._bring_back, ["max_len", "d_model"])
        self.min_height, self.narrow_extra = 530, 138

    @traitlets.validate("max_len", "d_model", "position", "pair", "offset")
    def _in_range(self, proposal):
        # The size of the table comes first: what is wrong with it is said, and not what follows from it.
        for name in ("max_len", "d_model"):
            self._check(name, getattr(self, name))
        self._check(proposal["trait"].name, proposal["value"])
        return proposal["value"]

    def _check(self, name, value):
        least, most = {
            "max_len": (8, LONGEST),
            "d_model": (2, WIDEST),
            "position": (0, self.max_len - 1),
            "pair": (0, self.d_model // 2 - 1),
            "offset": (-self.max_len, self.max_len),
        }[name]
        if not least <= value <= most:
            raise traitlets.TraitError(f"{name} must be between {least} and {most}, got {value}")
        if name == "d_model" and value % 2:
            raise traitlets.TraitError(f"d_model must be even, one sine and one cosine per pair; got {value}")

    def _bring_back(self, change):
        self.position = min(self.position, self.max_len - 1)
        self.pair = min(self.pair, self.d_model // 2 - 1)
        self.offset = max(-self.max_len, min(self.max_len, self.offset))

    def picture(self):
        """The table, the clock of the chosen pair, and the dot product against the offset."""
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle

        frequencies = BASE ** (-np.arange(0, self.d_model, 2) / self.d_model)  # radians per token, one for each pair
        angles = np.arange(self.max_len)[:, None] * frequencies
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(self.max_len, self.d_model)
        offsets = np.arange(-self.max_len, self.max_len + 1)
        figure = Figure(figsize=(8.2, 5.2), layout="constrained")
        strip, clock, curve = figure.subplot_mosaic("AAB;CCC", height_ratios=[3, 2]).values()
        purple_to_slate = LinearSegmentedColormap.from_list("encoding", ["#8a4fa3", "#f6f7f7", "#2b4450"])
        drawn = strip.imshow(table, cmap=purple_to_slate, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        strip.axhline(self.position, color="black", lw=1)
        strip.axvspan(2 * self.pair - 0.5, 2 * self.pair + 1.5, fill=False, edgecolor="black", lw=1.2)
        strip.set(xlabel="dimension", ylabel="position")
        figure.colorbar(drawn, ax=strip)
        clock.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#8a939c"))
        for position, color in [(self.position + self.offset, "#b35900"), (self.position, "#0a6ed1")]:
            angle = position * frequencies[self.pair]
            clock.plot([0, np.sin(angle)], [0, np.cos(angle)], color=color, lw=2)
            clock.text(1.2 * np.sin(angle), 1.2 * np.cos(angle), position, color=color, ha="center", va="center")
        clock.set(
            xlim=(-1.4, 1.4),
            ylim=(-1.4, 1.4),
            xticks=[-1, 0, 1],
            yticks=[-1, 0, 1],
            aspect="equal",
            title=f"pair {self.pair}: wavelength {math.tau / frequencies[self.pair]:.4g}",
        )
        clock.set_xlabel("sine across, cosine up")
        products = np.cos(offsets[:, None] * frequencies).sum(-1)
        curve.plot(offsets, products, color="#0a6ed1")
        chosen = products[self.offset + self.max_len]
        curve.plot(self.offset, chosen, "o", color="#b35900")
        curve.set(xlabel="offset", ylabel="dot product", title=f"offset {self.offset}: {chosen:.3f}, at any position")
        return figure
