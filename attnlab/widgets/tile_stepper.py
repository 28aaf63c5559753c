"""Attention tile by tile: the running maximum, the running total, and the output that is rescaled.

Sources: online softmax, Milakov and Gimelshein, 2018, arXiv:1805.02867; tiles, Dao et al., 2022, arXiv:2205.14135.
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

ROWS = 2  # queries per block: more would not fit a phone
LARGEST = 40.0  # of a score, in powers of two


class TileStepper(CourseWidget):
    """Attention of a few queries, worked out tile by tile.

    What to try, and what it shows:

    - *Next* through a block with a new maximum: total and output so far are both multiplied by 2^(old - new).
    - *Next* through a block without one: the factor is 1, and only new terms are added.
    - the last step of a row of tiles: one division, by the total of all.
    - the map of scores: only one tile is held at a time. The earlier ones have been thrown away.
    - *Causal*: tiles beyond the diagonal are never made, and the tile on it is masked.
    - the block size: different steps, the same output in the end.

    scores: (n_q, n_k), 1 to 6 rows in an even number and 2 to 6 columns, counted in powers of two: a score s is worth
        2^s, as q . k / sqrt(d_k) * log2(e) is. Whole numbers can be followed by hand. Default: 4 x 6 of them.
    values: (n_k, 2). Default: two small whole numbers for each key.
    block_size: keys per tile; a tile has two queries. causal: the last query sees every key. step: from 0.
    Raises ValueError, naming what does not fit.
    """

    _esm = module("tile_stepper", "player")
    _css = style("tile_stepper")

    scores = traitlets.List(read_only=True, help="(n_q, n_k), in powers of two").tag(sync=True)
    values = traitlets.List(read_only=True, help="(n_k, 2)").tag(sync=True)
    block_size = traitlets.Int(2, min=1, max=6, help="keys per tile").tag(sync=True)
    causal = traitlets.Bool(False, help="whether later keys are hidden").tag(sync=True)
    step = traitlets.Int(0, min=0, help="the step shown, from 0").tag(sync=True)

    SCORES = [[1, 2, 4, 2, 3, 1], [3, 1, 2, 3, 0, 2], [0, 2, 1, 1, 2, 4], [2, 0, 3, 1, 1, 2]]
    VALUES = [[8, 0], [4, 4], [0, 8], [8, 8], [4, 0], [0, 4]]

    def __init__(self, scores=None, values=None, block_size=2, *, causal=False, step=0, **kwargs):
        scores = np.asarray(self.SCORES if scores is None else scores, dtype=float)
        if scores.ndim != 2 or scores.shape[0] not in (2, 4, 6) or not 2 <= scores.shape[1] <= 6:
            raise ValueError(f"scores must be 2, 4 or 6 rows of 2 to 6 numbers, got shape {scores.shape}")
        if not np.all(np.abs(scores) <= LARGEST):
            raise ValueError(f"scores must be finite and at most {LARGEST:g} in size")
        values = np.asarray(self.VALUES[: scores.shape[1]] if values is None else values, dtype=float)
        if values.shape != (scores.shape[1], 2) or not np.all(np.abs(values) <= 1000):
            raise ValueError(f"values must be {scores.shape[1]} pairs of numbers up to 1000, got shape {values.shape}")
        super().__init__(**kwargs)
        with self.hold_sync():
            self.set_trait("scores", scores.tolist())
            self.set_trait("values", values.tolist())
            self.block_size, self.causal = block_size, causal
            self.step = step
            self.min_height, self.narrow_extra = 367, 322

    @property
    def last(self) -> int:
        """The number of the last step."""
        n_q, n_k = len(self.scores), len(self.scores[0])
        steps = 0
        for first in range(0, n_q, ROWS):
            seen = min(n_k, first + ROWS + n_k - n_q) if self.causal else n_k
            steps += -(-max(seen, 0) // self.block_size) + 1
        return steps - 1

    @traitlets.validate("step")
    def _step_exists(self, proposal):
        if self.scores and proposal["value"] > self.last:
            raise ValueError(f"step must be 0 to {self.last}, got {proposal['value']}")
        return proposal["value"]

    @traitlets.observe("block_size", "causal")
    def _begin_again(self, change):
        if self.scores and self.step > self.last:
            self.step = 0

    def picture(self):
        """The scores cut into tiles, and the running maximum and total of each query after each tile."""
        from matplotlib.figure import Figure

        scores = np.array(self.scores)
        n_q, n_k = scores.shape
        hidden = np.arange(n_k) > np.arange(n_q)[:, None] + n_k - n_q if self.causal else np.zeros(scores.shape, bool)
        seen = np.where(hidden, -np.inf, scores)
        figure = Figure(figsize=(8.2, 0.42 * n_q + 1.5), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        left.imshow(
            np.where(hidden, np.nan, scores),
            cmap="Blues",
            vmin=scores.min(),
            vmax=scores.max() * 1.6 + 1,
            aspect="auto",
        )
        for i, j in np.argwhere(~hidden):
            left.text(j, i, f"{scores[i, j]:g}", ha="center", va="center")
        for start in range(self.block_size, n_k, self.block_size):
            left.axvline(start - 0.5, color="black", lw=1.2)
        for first in range(ROWS, n_q, ROWS):
            left.axhline(first - 0.5, color="black", lw=1.2)
        left.set_xticks(range(n_k), [f"k{j}" for j in range(n_k)])
        left.set_yticks(range(n_q), [f"q{i}" for i in range(n_q)])
        left.set_title("scores, cut into tiles", fontsize=10)
        ends = [*range(self.block_size, n_k, self.block_size), n_k]
        cells = []
        for i in range(n_q):
            row = []
            for end in ends:
                top = seen[i, :end].max()
                row.append(f"{top:g}, {np.exp2(seen[i, :end] - top).sum():.4g}" if top > -np.inf else "-inf, 0")
            cells.append(row)
        right.axis("off")
        right.set_title("running maximum, total", fontsize=10)
        right.table(
            cells,
            rowLabels=[f"q{i}" for i in range(n_q)],
            colLabels=[f"to k{end - 1}" for end in ends],
            loc="center",
            cellLoc="center",
        ).scale(1, 1.5)
        return figure
