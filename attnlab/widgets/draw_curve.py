"""A curve to draw before the true one is laid over it."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, Numbers, module, style

COLUMNS = 21


class DrawCurve(CourseWidget):
    """Empty axes on which the reader draws a curve, and the true curve to lay over it.

    x: 2 to 200 increasing numbers, positive if log is set; y: as many heights of the true curve.
    xlabel, ylabel: what the axes show. log: whether x is on a logarithmic axis. low, high: ends of the axis of y, which
    are those of the true curve if left out. Raises ValueError where these do not fit together.

    `guess` holds the heights drawn, at 21 columns from left to right, None where nothing is drawn. Keys: left and right
    go from column to column and draw on, up and down move the curve there.
    """

    _esm = module("draw_curve", "pointer")
    _css = style("draw_curve")
    x = Numbers([0, 1], shortest=2, longest=200, largest=1e9).tag(sync=True)
    y = Numbers([0, 1], shortest=2, longest=200, largest=1e9).tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
    low = traitlets.CFloat(0.0).tag(sync=True)
    high = traitlets.CFloat(1.0).tag(sync=True)
    xlabel = traitlets.Unicode("x").tag(sync=True)
    ylabel = traitlets.Unicode("y").tag(sync=True)
    guess = traitlets.List(traitlets.Float(allow_none=True), default_value=[None] * COLUMNS).tag(sync=True)
    shown = traitlets.Bool(False).tag(sync=True)
    min_height = traitlets.Int(292).tag(sync=True)
    narrow_extra = traitlets.Int(0).tag(sync=True)

    def __init__(self, x=(0, 1), y=(0, 1), *, xlabel="x", ylabel="y", log=False, low=None, high=None, **kwargs):
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        if x.shape != y.shape:
            raise ValueError(f"x and y must have the same length; their shapes are {x.shape} and {y.shape}")
        if x.ndim != 1 or not np.all(np.diff(x) > 0):
            raise ValueError("x must increase")
        if log and x[0] <= 0:
            raise ValueError("x must be positive on a logarithmic axis")
        low, high = (end if end is not None else float(of(y)) for end, of in ((low, np.min), (high, np.max)))
        if not low < high:
            raise ValueError(f"low must be below high; they are {low:g} and {high:g}")
        super().__init__(x=x, y=y, xlabel=xlabel, ylabel=ylabel, log=log, low=low, high=high, **kwargs)

    def picture(self):
        """The true curve."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.x, self.y, color="black")
        axes.set(
            xlabel=self.xlabel, ylabel=self.ylabel, ylim=(self.low, self.high), xscale="log" if self.log else "linear"
        )
        return figure
