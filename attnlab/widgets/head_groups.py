"""Query heads that share key/value heads: which uses which, and what is kept for a token.

Sources: MQA, Shazeer, 2019, arXiv:1911.02150; GQA, Ainslie et al., 2023, arXiv:2305.13245.
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

MOST_HEADS, WIDEST = 12, 1024


class HeadGroups(CourseWidget):
    """Query heads above, key/value heads below, and a line from each query head to the one that it uses.

    What you learn by moving what:

    - the number of key/value heads: neighboring query heads share one, and less is kept per token;
    - tile: the copies of the key/value heads in the wrong order. Shapes are the same, most lines are wrong.

    n_heads: 2 to 12 query heads. d_head: width of a head. Left out, those of SmolLM2-135M (arXiv:2502.02737), 9 and 64.
    n_kv_heads: divides n_heads. tile: whether the copies are in the order of `np.tile` instead of `np.repeat`.
    Raises `TraitError` for anything else.
    """

    _esm = module("head_groups")
    _css = style("head_groups")

    n_heads = traitlets.Int(9, read_only=True, help="query heads").tag(sync=True)
    d_head = traitlets.Int(64, read_only=True, help="width of a head").tag(sync=True)
    n_kv_heads = traitlets.Int(3, help="key/value heads, a divisor of n_heads").tag(sync=True)
    tile = traitlets.Bool(False, help="copies in the wrong order").tag(sync=True)

    def __init__(self, n_heads=9, n_kv_heads=3, d_head=64, *, tile=False, **kwargs):
        for name, value, most in [("n_heads", n_heads, MOST_HEADS), ("d_head", d_head, WIDEST)]:
            least = 2 if name == "n_heads" else 1
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
                raise traitlets.TraitError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
        super().__init__(**kwargs)
        with self.hold_sync():
            self.set_trait("n_heads", int(n_heads))
            self.set_trait("d_head", int(d_head))
            self.n_kv_heads, self.tile = int(n_kv_heads), tile
            self.min_height, self.narrow_extra = 278, 91

    @traitlets.validate("n_kv_heads")
    def _divides(self, proposal):
        if proposal["value"] < 1 or self.n_heads % proposal["value"]:
            raise traitlets.TraitError(f"n_kv_heads must divide {self.n_heads}, got {proposal['value']}")
        return proposal["value"]

    def uses(self):
        """For each query head, the key/value head whose copy it meets."""
        copies = self.n_heads // self.n_kv_heads
        order = np.arange(self.n_kv_heads)
        return np.tile(order, copies) if self.tile else np.repeat(order, copies)

    def picture(self):
        """The heads in two rows and the lines between them."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.2, 2.6), layout="constrained")
        ax = figure.subplots()
        queries = (np.arange(self.n_heads) + 0.5) / self.n_heads
        keys = (np.arange(self.n_kv_heads) + 0.5) / self.n_kv_heads
        for x, head in zip(queries, self.uses()):
            ax.plot([x, keys[head]], [1, 0], color="#8a939c", zorder=0)
        ax.scatter(queries, np.ones_like(queries), s=200, color="#0a6ed1")
        ax.scatter(keys - 0.012, np.zeros_like(keys), s=200, marker="s", color="#b35900")
        ax.scatter(keys + 0.012, np.zeros_like(keys), s=200, marker="s", color="#1a7f37")
        ax.set(xlim=(0, 1), ylim=(-0.3, 1.3), xticks=[])
        ax.set_yticks([0, 1], ["keys, values", "queries"])
        return figure
