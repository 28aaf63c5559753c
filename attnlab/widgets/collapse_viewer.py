"""Tokens on their way through layers of attention, with and without a residual stream."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

MOST_FLOORS, MOST_TOKENS = 48, 12


class CollapseViewer(CourseWidget):
    """Directions of n tokens in a plane, floor by floor, and how alike they are: with "+" and without.

    What you learn by moving what:

    - Play without "+": after a few floors all tokens are the same point. No later layer can tell them apart.
    - Press "+": they drift together, but slowly, and are still different tokens at the top.
    - Compare the two curves: the mean cosine of two different tokens, 1 for the same direction.

    without, added: (floors + 1, n, d) the tokens on each floor, floor 0 the input, which both begin with. A floor's
        output replaces the tokens in the first, and is added to them in the second. 2 to 12 tokens, 1 to 48 floors.
    The plane is the one in which the directions of the input differ most. floor: from 0. add: whether "+" is on.
    Raises ValueError, naming the sizes, when they do not fit.
    """

    _esm = module("collapse_viewer", "pointer", "player")
    _css = style("collapse_viewer")

    points = traitlets.List(help='[without "+", with it]: per floor and token its direction in the plane').tag(
        sync=True
    )
    alike = traitlets.List(help="the same two: per floor the mean cosine of two different tokens").tag(sync=True)
    floor = traitlets.Int(0, min=0, help="the floor shown, 0 is the input").tag(sync=True)
    add = traitlets.Bool(False, help='whether there is a "+"').tag(sync=True)
    min_height = traitlets.Int(384).tag(sync=True)
    narrow_extra = traitlets.Int(265).tag(sync=True)

    def __init__(self, without=None, added=None, *, floor=0, **kwargs):
        if without is None:
            without, added = _example()
        towers = [np.asarray(one, dtype=float) for one in (without, added)]
        floors, n = towers[0].shape[:2] if towers[0].ndim == 3 else (0, 0)
        if towers[0].shape != towers[1].shape or towers[0].ndim != 3:
            raise ValueError(
                "without and added must have the same shape (floors + 1, n, d); theirs are "
                f"{towers[0].shape} and {towers[1].shape}"
            )
        if not 2 <= n <= MOST_TOKENS or not 2 <= floors <= MOST_FLOORS + 1:
            raise ValueError(
                f"there must be 2 to {MOST_TOKENS} tokens on 1 to {MOST_FLOORS} floors; {n} on {floors - 1}"
            )
        units = [one / np.linalg.norm(one, axis=-1, keepdims=True) for one in towers]
        start = units[0][0]
        axes = np.linalg.svd(start - start.mean(0))[2][:2]
        # The sign of an axis is chance, and differs between machines.
        axes = axes * np.sign(axes[np.arange(2), abs(axes).argmax(1)])[:, None]
        super().__init__(
            points=[np.round(one @ axes.T, 4).tolist() for one in units],
            alike=[np.round(mean_cosine(one), 5).tolist() for one in units],
            floor=floor,
            **kwargs,
        )

    @traitlets.validate("floor")
    def _exists(self, proposal):
        if self.alike and proposal["value"] >= len(self.alike[0]):
            raise ValueError(f"floor must be 0 to {len(self.alike[0]) - 1}; it is {proposal['value']}")
        return proposal["value"]

    def picture(self):
        """The tokens of the last floor, with and without the sum, and both curves."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3), layout="constrained")
        *planes, curve = figure.subplots(1, 3)
        for plane, points, name in zip(planes, self.points, ["without +", "with +"]):
            plane.plot(*np.array(points[0]).T, "o", markerfacecolor="none", color="0.6", label="floor 0")
            plane.plot(*np.array(points[-1]).T, "o", color="0.2", label=f"floor {len(points) - 1}")
            plane.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=[], yticks=[], title=name)
            plane.legend(fontsize=7)
        for row, name in zip(self.alike, ["without +", "with +"]):
            curve.plot(row, label=name, color="0.2", linestyle="-" if name == "without +" else "--")
        curve.set(xlabel="floor", ylabel="mean cosine", ylim=(-0.3, 1.05))
        curve.legend(fontsize=7)
        return figure


def mean_cosine(units):
    """The mean cosine of two different tokens on each floor; units (floors, n, d) have length one."""
    n = units.shape[1]
    return ((units @ units.swapaxes(1, 2)).sum((1, 2)) - n) / n / (n - 1)


def _example(floors=6, n=4, d=8):
    """Random tokens, averaged with random weights."""
    rng = np.random.default_rng(0)
    without = [rng.normal(size=(n, d))]
    added = [without[0]]
    for _ in range(floors):
        weights = rng.dirichlet(np.ones(n), size=n)
        without.append(weights @ without[-1])
        added.append(added[-1] + weights @ added[-1] / 4)
    return without, added
