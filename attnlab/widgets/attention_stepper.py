"""Attention for one query at a time, in five stages, each number with the sum behind it."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

LARGEST = 6  # rows or columns: more would not fit a phone, and are too many to check by hand

# Three tokens, two dimensions: small enough to work out on paper.
THREE_TOKENS = dict(
    Q=[[1, 0], [0, 1], [1, 1]],
    K=[[1, 0], [0, 1], [1, 1]],
    V=[[2, 0], [0, 3], [1, 1]],
)


class Matrix(traitlets.TraitType):
    """A small table of finite numbers, kept as rows of plain floats. Takes lists and NumPy arrays."""

    info_text = "a table of numbers: a 2-D array or a list of equally long rows"

    def validate(self, widget, value):
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise traitlets.TraitError(f"{self.name} must be {self.info_text} ({problem})") from None
        if array.ndim != 2:
            raise traitlets.TraitError(f"{self.name} must have 2 dimensions (rows, width); its shape is {array.shape}")
        if not 1 <= min(array.shape) <= max(array.shape) <= LARGEST:
            raise traitlets.TraitError(
                f"{self.name} must have 1 to {LARGEST} rows and columns; its shape is {array.shape}"
            )
        if not (abs(array) <= 1e6).all():
            raise traitlets.TraitError(f"{self.name} must hold finite numbers of size at most 1e6")
        return array.tolist()


def tables_height(shapes, room, field, gap):
    """CSS pixels that tables of these (rows, columns) take, side by side as far as they fit into `room`.

    field: width of a number field with the space around it; gap: space between two tables
    """
    lines, used = [], 0
    for rows, columns in shapes:
        width = max(32 + field * columns, 100)
        if lines and used + width <= room:
            lines[-1] = max(lines[-1], rows)
        else:
            lines.append(rows)
            used = 0
        used += width + gap
    return sum(29 + 35 * rows for rows in lines) + 12 * (len(lines) - 1)


class AttentionStepper(CourseWidget):
    """Scaled dot-product attention for one query: scores, scaled, exponentials, weights, output.

    What you learn by moving what:

    - Step with *Next*: each stage appears under the one it is made from. Press a number to see its sum.
    - Change one entry of a key: only that key's score moves, yet every weight moves with it.
    - Change a value: no weight moves. Values are averaged; they do not affect the weights.
    - Multiply a query by ten: unless two scores tie, one weight goes to 1 and the output becomes a copy of its value.
    - Choose a different query: the same keys and values give a different average.
    - Tick *Let me guess first*: a new stage stays covered until you have made up your mind.

    Q: (n_q, d_k), K: (n_k, d_k), V: (n_k, d_v), 1 to 6 rows and columns, lists or NumPy arrays.
    If they are left out, all three are the worked example of three tokens with d_k = 2.
    tokens: n_k names for the keys; they name the queries too when n_q = n_k.
    query: index of the query shown, from 0. stage: 0 scores ... 4 output. guess: cover new stages.
    Raises ValueError, naming the sizes, when they do not fit.
    """

    _esm = module("attention_stepper")
    _css = style("attention_stepper")

    Q = Matrix(THREE_TOKENS["Q"], help="queries (n_q, d_k), no unit").tag(sync=True)
    K = Matrix(THREE_TOKENS["K"], help="keys (n_k, d_k), no unit").tag(sync=True)
    V = Matrix(THREE_TOKENS["V"], help="values (n_k, d_v), no unit").tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode(), help="names of the keys, or empty").tag(sync=True)
    query = traitlets.Int(0, min=0, help="index of the query looked at, from 0").tag(sync=True)
    stage = traitlets.Int(0, min=0, max=4, help="0 scores, 1 scaled, 2 exponentials, 3 weights, 4 output")
    stage.tag(sync=True)
    guess = traitlets.Bool(False, help="cover the numbers of a new stage until asked").tag(sync=True)
    seen = traitlets.Int(0, min=0, max=5, help="stages uncovered so far, while guessing").tag(sync=True)
    start = traitlets.Dict(help="Q, K, V and query that Reset goes back to").tag(sync=True)

    def __init__(self, Q=None, K=None, V=None, tokens=None, *, query=0, stage=0, guess=False, **kwargs):
        given = dict(Q=Q, K=K, V=V)
        missing = [name for name, array in given.items() if array is None]
        if 0 < len(missing) < 3:
            raise ValueError(f"give Q, K and V together, or none of them; missing: {', '.join(missing)}")
        super().__init__(stage=stage, guess=guess, seen=0 if guess else stage + 1, **kwargs)
        self.put(**(THREE_TOKENS if missing else given), tokens=tokens, query=query)

    def put(self, Q, K, V, tokens=None, query=0):
        """Replace all three arrays at once; their sizes may change. Raises ValueError when they do not fit."""
        try:
            fits = {name: self.traits()[name].validate(self, array) for name, array in dict(Q=Q, K=K, V=V).items()}
        except traitlets.TraitError as problem:
            raise ValueError(str(problem)) from None
        (n_q, d_q), (n_k, d_k), (n_v, d_v) = (np.shape(fits[name]) for name in "QKV")
        if d_q != d_k:
            raise ValueError(f"queries and keys must be equally wide: Q is {n_q} x {d_q}, K is {n_k} x {d_k}")
        if n_k != n_v:
            raise ValueError(f"each key needs one value: K has {n_k} rows, V has {n_v}")
        tokens = [str(token) for token in tokens] if tokens is not None else []
        if tokens and len(tokens) != n_k:
            raise ValueError(f"tokens must name the {n_k} keys; {len(tokens)} were given")
        if not 0 <= query < n_q:
            raise ValueError(f"query must be 0 to {n_q - 1} for {n_q} queries; it is {query}")
        self._resizing = True
        try:
            with self.hold_sync():
                self.start = {**fits, "query": query}
                for name, value in {**fits, "tokens": tokens, "query": query}.items():
                    setattr(self, name, value)
                wide, narrow = self._heights(n_q, n_k, d_k, d_v)
                self.min_height, self.narrow_extra = wide + (16 if tokens else 0), narrow - wide
        finally:
            self._resizing = False

    @staticmethod
    def _heights(n_q, n_k, d_k, d_v):
        """CSS pixels on a page of the book, on a wide screen and on a phone: tables, buttons, five stages, summary.

        The numbers are those of the style sheet. Sums of many terms take several lines, which are kept free.
        """
        letters = 14 * max(d_k, n_k) + 20  # of the longest sum, as the script estimates it
        shapes = [(n_q, d_k), (n_k, d_k), (n_k, d_v)]
        many = max(n_k, d_v) > 4
        wide = 164 + tables_height(shapes, room=660, field=60, gap=32) + 5 * (56 + 20 * math.ceil(letters / 70))
        wide += (32 if n_q < 6 else 72) + (39 if many else 0)
        narrow = 209 + tables_height(shapes, room=330, field=38 if max(d_k, d_v) < 3 else 47, gap=8)
        narrow += 5 * (86 + 20 * max(2, math.ceil(letters / 38))) + (72 if n_q < 2 else 112 if n_q < 6 else 150)
        narrow += 30 + 156 * (-(-n_k // 3) - 1) + 39 * (-(-d_v // 3) - 1) if many else 50
        return wide, narrow

    @traitlets.validate("Q", "K", "V")
    def _same_size(self, proposal):
        """A single array may change its numbers, not its size: the other two would no longer fit."""
        name, new = proposal["trait"].name, proposal["value"]
        old = getattr(self, name)
        if not getattr(self, "_resizing", True) and np.shape(new) != np.shape(old):
            raise ValueError(
                f"{name} is {np.shape(old)} and the new one {np.shape(new)}; to change sizes, use put(Q, K, V)"
            )
        return new

    @traitlets.validate("query")
    def _query_exists(self, proposal):
        if not getattr(self, "_resizing", True) and proposal["value"] >= len(self.Q):
            raise ValueError(f"query must be 0 to {len(self.Q) - 1}; it is {proposal['value']}")
        return proposal["value"]

    def picture(self):
        """Q, K, V and the first stage, the scores, as tables."""
        from matplotlib.figure import Figure

        q, k, v = (np.array(getattr(self, name)) for name in "QKV")
        tables = {
            "Q, queries": ("q", "", q),
            "K, keys": ("k", "", k),
            "V, values": ("v", "", v),
            "scores: each query with each key": ("q", "k", np.inner(q, k)),
        }
        widths = [table.shape[1] + 0.7 for _, _, table in tables.values()]
        figure = Figure(figsize=(0.75 * sum(widths), 0.32 * max(len(q) + 1, len(k)) + 0.5))
        axes = figure.subplots(1, 4, width_ratios=widths)
        for ax, (title, (row, column, table)) in zip(axes, tables.items()):
            ax.axis("off")
            ax.set_title(title, fontsize=9)
            labels = [f"{column}{j + 1}" for j in range(table.shape[1])] if column else None
            drawn = ax.table(
                [[f"{x:.4g}" for x in line] for line in table],
                loc="upper center",
                rowLabels=[f"{row}{i + 1}" for i in range(len(table))],
                colLabels=labels,
            )
            drawn.auto_set_font_size(False)
            drawn.set_fontsize(9)
            drawn.scale(1, 1.4)
        return figure
