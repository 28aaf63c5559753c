"""Attention for one query at a time: vectors as bars, scores bent into weights, values stacked into an output."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

LARGEST = 6  # rows or columns: more would not fit a phone, and are too many to check by hand

# Three tokens, two dimensions: small enough to work out by hand.
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


class AttentionStepper(CourseWidget):
    """Scaled dot-product attention for one query: scores, scaled, exponentials, weights, output.

    A query (blue) meets every key (orange); the bars of the products become a bar of weight, and the values (green),
    each times its weight, are stacked into the output.

    What you learn by moving what:

    - Step with *Next*: the same bars go from products to scores, exponentials and weights. Press a number for its sum.
    - Drag the query: the output moves, but it never leaves the shape that has the values for corners.
    - Drag a key: only that key's score moves, yet every weight moves with it.
    - Drag a value: no weight moves. Values are averaged; they do not affect the weights.
    - Drag the query far out: unless two scores tie, one weight goes to 1 and the output becomes a copy of its value.
    - Choose a different query: the same keys and values give a different average.

    Q: (n_q, d_k), K: (n_k, d_k), V: (n_k, d_v), 1 to 6 rows and columns, lists or NumPy arrays.
    If they are left out, all three are the worked example of three tokens with d_k = 2.
    tokens: n_k names for the keys; they name the queries too when n_q = n_k.
    query: index of the query shown, from 0. stage: 0 scores ... 4 output.
    Raises ValueError, naming the sizes, when they do not fit.

    Where d_k = 2, the query and the keys are also points of a plane; where d_v = 2, so are the values, with the output
    among them. Other widths have bars alone. Keys: on a vector, left and right choose an entry, and up and down change
    it by a tenth, with shift by one; the point of the query moves with the arrow keys.
    """

    _esm = module("attention_stepper", "pointer")
    _css = style("attention_stepper")

    Q = Matrix(THREE_TOKENS["Q"], help="queries (n_q, d_k), no unit").tag(sync=True)
    K = Matrix(THREE_TOKENS["K"], help="keys (n_k, d_k), no unit").tag(sync=True)
    V = Matrix(THREE_TOKENS["V"], help="values (n_k, d_v), no unit").tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode(), help="names of the keys, or empty").tag(sync=True)
    query = traitlets.Int(0, min=0, help="index of the query looked at, from 0").tag(sync=True)
    stage = traitlets.Int(0, min=0, max=4, help="0 scores, 1 scaled, 2 exponentials, 3 weights, 4 output")
    stage.tag(sync=True)
    start = traitlets.Dict(help="Q, K, V and query that Reset goes back to").tag(sync=True)

    def __init__(self, Q=None, K=None, V=None, tokens=None, *, query=0, stage=0, **kwargs):
        given = dict(Q=Q, K=K, V=V)
        missing = [name for name, array in given.items() if array is None]
        if 0 < len(missing) < 3:
            raise ValueError(f"give Q, K and V together, or none of them; missing: {', '.join(missing)}")
        super().__init__(stage=stage, **kwargs)
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
                wide, narrow = self._heights(n_k, d_k, d_v)
                self.min_height, self.narrow_extra = wide, narrow - wide
        finally:
            self._resizing = False

    @staticmethod
    def _heights(n_k, d_k, d_v):
        """CSS pixels on a page of the book, wide and on a phone; the drawing is that of `layout` in the script."""
        planes = (d_k == 2) + (d_v == 2)
        wide = max(152 + n_k * (72 if n_k < 4 else 52), planes * 208 - 8)
        narrow = 114 + n_k * (46 if n_k < 4 else 37) + (0, 208, 168)[planes]
        wide = round(wide * 1.008) + 161
        return wide, max(wide, round(narrow * 1.045) + 183)

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
        """The weights of the query shown, and the output: as a point among the values where they have two entries."""
        from matplotlib.figure import Figure

        q, k, v = (np.array(getattr(self, name)) for name in "QKV")
        scaled = k @ q[self.query] / math.sqrt(q.shape[1])
        weights = np.exp(scaled - scaled.max())
        weights /= weights.sum()
        output = weights @ v
        figure = Figure(figsize=(7, 1.2 + 0.45 * len(k)), layout="constrained")
        bars, place = figure.subplots(1, 2)
        rows = range(len(k))
        names = [f"k{j + 1} {name}".strip() for j, name in zip(rows, self.tokens or [""] * len(k))]
        drawn = bars.barh(rows, weights, color="#b35900")
        bars.bar_label(drawn, fmt="%.3f", padding=3)
        bars.set_yticks(rows, names)
        bars.invert_yaxis()
        bars.set(xlim=(0, 1.2), title=f"weights of q{self.query + 1}")
        place.set_title("output " + np.array2string(output, precision=3, separator=", "), color="#1a7f37")
        if v.shape[1] == 2:
            for j, value in enumerate(v):
                place.plot(*zip(value, output), color="#1a7f37", alpha=0.4, linewidth=10 * weights[j])
                place.annotate(f"v{j + 1}", value, (4, 4), textcoords="offset points", color="#1a7f37")
            place.plot(*v.T, "o", color="#1a7f37")
            place.plot(*output, "o", color="black", markersize=9)
            place.margins(0.15)
        else:
            place.bar(range(1, len(output) + 1), output, color="#1a7f37")
            place.set_xlabel("column of V")
        return figure
