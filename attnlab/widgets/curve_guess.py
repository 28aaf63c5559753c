"""Curves that a reader draws first, and then the true ones over them."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

KNOTS = 7  # points of a guess that can be moved
MOST_CURVES, MOST_POINTS = 6, 200


class CurveGuess(CourseWidget):
    """A guess for each of a few curves, drawn by the reader, and after that the curves themselves.

    truth: 1 to 6 names with the values of a curve, all of one length (2 to 200), between 0 and 1. The first value is
        that at `start`.
    x_label, y_label: what the axes show. mark: the place of a vertical line, and mark_text what is beyond it.
    level, level_text: the same for a horizontal line.
    guesses: for each curve seven numbers, evenly spaced from its first to its last point. Drawn straight between them.
    chosen: the curve that is drawn, from 0. shown: whether the truth is.
    Raises `TraitError` for anything else.
    """

    _esm = module("curve_guess", "pointer")
    _css = style("curve_guess")

    names = traitlets.List(traitlets.Unicode(), read_only=True, help="of the curves").tag(sync=True)
    truth = traitlets.List(read_only=True, help="values of each curve").tag(sync=True)
    start = traitlets.Int(0, read_only=True, help="place of the first value").tag(sync=True)
    x_label = traitlets.Unicode("", read_only=True).tag(sync=True)
    y_label = traitlets.Unicode("", read_only=True).tag(sync=True)
    mark = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)
    mark_text = traitlets.Unicode("", read_only=True).tag(sync=True)
    level = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)
    level_text = traitlets.Unicode("", read_only=True).tag(sync=True)
    guesses = traitlets.List(help="seven numbers for each curve").tag(sync=True)
    chosen = traitlets.Int(0, help="curve that is drawn, from 0").tag(sync=True)
    shown = traitlets.Bool(False, help="whether the truth is shown").tag(sync=True)

    def __init__(
        self,
        truth=None,
        *,
        start=0,
        x_label="",
        y_label="",
        mark=None,
        mark_text="",
        level=None,
        level_text="",
        guesses=None,
        chosen=0,
        shown=False,
        **kwargs,
    ):
        truth = {"square": np.linspace(0, 1, 9) ** 2} if truth is None else truth
        curves = [np.asarray(values, dtype=float).round(4).tolist() for values in truth.values()]
        if not 1 <= len(curves) <= MOST_CURVES or len({len(one) for one in curves}) > 1:
            raise traitlets.TraitError(f"truth must hold 1 to {MOST_CURVES} curves of one length")
        if not 2 <= len(curves[0]) <= MOST_POINTS or not all(0 <= y <= 1 for one in curves for y in one):
            raise traitlets.TraitError(f"a curve must hold 2 to {MOST_POINTS} numbers between 0 and 1")
        super().__init__(**kwargs)
        with self.hold_sync():
            fixed = dict(names=[str(name) for name in truth], truth=curves, start=start, x_label=x_label)
            fixed |= dict(y_label=y_label, mark=mark, mark_text=mark_text, level=level, level_text=level_text)
            for name, value in fixed.items():
                self.set_trait(name, value)
            self.guesses = [[0.5] * KNOTS for _ in curves] if guesses is None else guesses
            self.chosen, self.shown = chosen, shown
            self.min_height, self.narrow_extra = 339, 62

    @traitlets.validate("guesses", "chosen")
    def _fits(self, proposal):
        name, value, many = proposal["trait"].name, proposal["value"], len(self.truth)
        if name == "chosen" and many and not 0 <= value < many:
            raise traitlets.TraitError(f"chosen must be 0 to {many - 1}, got {value}")
        if name == "guesses" and many:
            whole = len(value) == many and all(len(one) == KNOTS and all(0 <= y <= 1 for y in one) for one in value)
            if not whole:
                raise traitlets.TraitError(f"guesses must hold {KNOTS} numbers between 0 and 1 for each curve")
        return value

    def picture(self):
        """Draw all curves, with nothing to guess."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 3.4), layout="constrained")
        ax = figure.subplots()
        for name, values, line in zip(self.names, self.truth, (":", "-.", "--", "-", ":", "-.")):
            ax.plot(self.start + np.arange(len(values)), values, line, label=name, color="#1f2328")
        if self.mark is not None:
            ax.axvline(self.mark, color="gray", lw=0.8)
        if self.level is not None:
            ax.axhline(self.level, color="gray", lw=0.8)
        ax.set(xlabel=self.x_label, ylabel=self.y_label, ylim=(0, 1.05))
        ax.legend()
        return figure
