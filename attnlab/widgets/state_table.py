"""A memory of fixed size: pairs of a key and a value, written into one small table, and what each key recalls.

Sources: Schlag et al., 2021, arXiv:2102.11174; Yang, Kautz and Hatamizadeh, 2025, arXiv:2412.06464.
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

MOST = 6  # pairs: more rows would not fit a phone


class StateTable(CourseWidget):
    """A state of d_k by d_v numbers that is written and overwritten, one pair after another.

    What to try, and what it shows:

    - *Next* with the delta rule: the key recalls its own value exactly, and similar keys are disturbed.
    - *Next* to a name that comes again: the delta rule replaces its value, addition gives the sum of both.
    - beta: below 1, only a part of the difference is written; at 0, the table stays empty.
    - kept: below 1, everything that was stored shrinks before each pair is written.
    - the last pairs: there are more pairs than rows, so no table can hold all of them.

    keys: (pairs, d_k), 1 to 6 pairs of 2 to 4 numbers, each key of length at most 1. values: (pairs, d_v), 1 to 3
        numbers of size at most 99. names: one for each pair; a name that comes again replaces the earlier value.
    rule: "add" or "delta". beta: 0 to 1, the part of the difference (of the value, if added) that is written.
    kept: 0 to 1, what the state is multiplied by before a pair is written; the decay exp(g). step: pairs written.
    Raises ValueError, naming what does not fit.
    """

    _esm = module("state_table", "fields", "player")
    _css = style("state_table")

    key_rows = traitlets.List(read_only=True, help="(pairs, d_k)").tag(sync=True)
    value_rows = traitlets.List(read_only=True, help="(pairs, d_v)").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), read_only=True, help="a name for each pair").tag(sync=True)
    rule = traitlets.Enum(("add", "delta"), "delta", help="how a pair is written").tag(sync=True)
    beta = traitlets.Float(1.0, min=0, max=1, help="the part that is written").tag(sync=True)
    kept = traitlets.Float(1.0, min=0, max=1, help="what is kept of the state at each step, exp(g)").tag(sync=True)
    step = traitlets.Int(0, min=0, help="how many pairs have been written").tag(sync=True)

    KEYS = [[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1], [1, 0, 0], [0, 0.6, 0.8]]
    VALUES = [[5, 0], [8, 5], [4, 6], [2, 9], [7, 1]]
    NAMES = ["tea", "coffee", "milk", "tea", "rice"]

    def __init__(self, keys=None, values=None, names=None, *, rule="delta", beta=1.0, kept=1.0, step=0, **kwargs):
        keys = np.asarray(self.KEYS if keys is None else keys, dtype=float)
        if keys.ndim != 2 or not 1 <= keys.shape[0] <= MOST or not 2 <= keys.shape[1] <= 4:
            raise ValueError(f"keys must be 1 to {MOST} rows of 2 to 4 numbers, got shape {keys.shape}")
        if not np.all(np.linalg.norm(keys, axis=1) <= 1 + 1e-6):
            raise ValueError("each key must have a length of at most 1")
        values = np.asarray(self.VALUES[: len(keys)] if values is None else values, dtype=float)
        if values.ndim != 2 or len(values) != len(keys) or not 1 <= values.shape[1] <= 3:
            raise ValueError(f"values must be {len(keys)} rows of 1 to 3 numbers, got shape {values.shape}")
        if not np.all(np.abs(values) <= 99):
            raise ValueError("values must be finite and at most 99 in size")
        names = list(self.NAMES[: len(keys)] if names is None else names)
        if len(names) != len(keys):
            raise ValueError(f"names must be {len(keys)} words, got {len(names)}")
        super().__init__(**kwargs)
        with self.hold_sync():
            self.set_trait("key_rows", keys.tolist())
            self.set_trait("value_rows", values.tolist())
            self.set_trait("names", names)
            self.rule, self.beta, self.kept, self.step = rule, beta, kept, step
            self.min_height, self.narrow_extra = 389, 322

    @traitlets.validate("step")
    def _step_exists(self, proposal):
        if self.key_rows and proposal["value"] > len(self.key_rows):
            raise ValueError(f"step must be 0 to {len(self.key_rows)}, got {proposal['value']}")
        return proposal["value"]

    def table(self) -> np.ndarray:
        """The table after `step` pairs, (d_k, d_v)."""
        table = np.zeros((len(self.key_rows[0]), len(self.value_rows[0])))
        for key, value in zip(self.key_rows[: self.step], np.array(self.value_rows)):
            table = self.kept * table
            missing = value - np.array(key) @ table if self.rule == "delta" else value
            table = table + self.beta * np.outer(key, missing)
        return table

    def picture(self):
        """The state after `step` pairs, and for each pair its value beside the one that its key recalls."""
        from matplotlib.figure import Figure

        table, recalled = self.table(), np.array(self.key_rows) @ self.table()
        limit = max(1.0, float(np.abs(table).max()))
        figure = Figure(figsize=(7.4, 0.4 * len(self.key_rows) + 1.3), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 2))
        left.imshow(table, cmap="PiYG", vmin=-2 * limit, vmax=2 * limit, aspect="auto")
        for (i, j), entry in np.ndenumerate(table):
            left.text(j, i, f"{entry:.3g}", ha="center", va="center")
        left.set(xticks=[], yticks=[])
        written = "pair" if self.step == 1 else "pairs"
        left.set_title(f"state after {self.step} {written}", fontsize=10)
        cells = [
            [", ".join(f"{x:.3g}" for x in row) for row in (value, found)]
            for value, found in zip(self.value_rows, recalled)
        ]
        right.axis("off")
        right.set_title("delta rule" if self.rule == "delta" else "addition", fontsize=10)
        right.table(
            cells, rowLabels=self.names, colLabels=["stored", "recalled"], loc="center", cellLoc="center"
        ).scale(1, 1.5)
        return figure
