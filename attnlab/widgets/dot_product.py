"""Two arrows in the plane and the one number that compares them."""

from __future__ import annotations

import cmath

import traitlets

from attnlab.widgets._base import CourseWidget, Numbers, module, style

LARGEST = 1e6


class DotProductExplorer(CourseWidget):
    """Two arrows to drag or turn, their dot product, and the trace that it leaves against the angle.

    What you learn by moving what:

    - turn `b` around `a`, or let a button do it: the trace is a cosine. The dot product is positive while the angle is
      below 90 degrees, zero at a right angle, and negative beyond it;
    - stretch `b` without turning it ("b twice as long"): the dot product doubles, and the angle and cosine stay;
    - move the tip of `b` at right angles to `a`: the shadow of `b` on `a` stays, and so does the dot product;
    - watch the two bars: one product may cancel the other.

    a, b: the two components of each arrow, in units of the grid, at most a million in size: a list, a tuple or a
        NumPy array of two finite numbers. Anything else raises `TraitError`. Read them back after dragging, or
        assign new ones to move the arrows: `explorer.b = np.array([0.5, -1.0])`.

    Keys: the arrow keys move the tip in focus by a tenth, with shift by one; in a number field, up and down do.
    An arrow of length zero has no angle; its cosine counts as 0, as in the chapter.
    """

    _esm = module("dot_product", "pointer", "fields")
    _css = style("dot_product")
    a = Numbers([2.0, 1.0], shortest=2, longest=2, largest=LARGEST).tag(sync=True)
    b = Numbers([0.5, 2.0], shortest=2, longest=2, largest=LARGEST).tag(sync=True)
    min_height = traitlets.Int(442).tag(sync=True)
    narrow_extra = traitlets.Int(304).tag(sync=True)

    def __init__(self, a=(2.0, 1.0), b=(0.5, 2.0), **kwargs):
        super().__init__(a=a, b=b, **kwargs)

    def picture(self):
        from matplotlib.figure import Figure

        # Complex numbers: the real part of conj(a) * b is the dot product, its phase the angle from a to b.
        a, b = complex(*self.a), complex(*self.b)
        turned = a.conjugate() * b
        title = f"a·b = {turned.real:.2f}"
        figure = Figure(figsize=(4.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        if a and b:
            foot = turned.real / abs(a) ** 2 * a
            axes.plot([0, foot.real], [0, foot.imag], color="0.5", alpha=0.35, linewidth=7, label="shadow of b on a")
            axes.plot([b.real, foot.real], [b.imag, foot.imag], color="0.4", linestyle="--")
            title += f"   angle {abs(cmath.phase(turned)) * 180 / cmath.pi:.1f}°"
        for name, arrow, color in [("a", a, "#0a6ed1"), ("b", b, "#b35900")]:
            axes.annotate(
                "",
                (arrow.real, arrow.imag),
                (0, 0),
                arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2, "shrinkA": 0, "shrinkB": 0},
            )
            axes.plot([], [], color=color, label=f"{name} = ({arrow.real:g}, {arrow.imag:g})")
        reach = 1.15 * max(1.0, abs(a), abs(b))
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=title)
        axes.axhline(0, color="0.7", linewidth=0.8)
        axes.axvline(0, color="0.7", linewidth=0.8)
        axes.legend(loc="lower right", fontsize=8)
        return figure
