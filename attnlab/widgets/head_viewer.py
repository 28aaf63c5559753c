"""Heads of a real model on one sentence: lines from token to token, and the map of the same weights."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

MOST_TOKENS = 20  # more rows do not fit a phone at a height that a finger can hit
MOST_HEADS = 12
ROW = 24  # CSS pixels of one token, in the lists and the map


def told_apart(tokens):
    """The tokens as shown: a token that occurs twice carries its position, and white space is made visible."""
    shown = [token.replace("\n", "⏎").strip() or ("⏎" if "\n" in token else "␣") for token in tokens]
    small = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return [name + str(i).translate(small) if shown.count(name) > 1 else name for i, name in enumerate(shown)]


class HeadViewer(CourseWidget):
    """Several heads on the same sentence: for each, lines from each query to the keys it reads, and the map.

    What you learn by moving what:

    - Point at a token on the query side: its lines show which tokens this head reads, and with which weights.
    - Press the token to pin it, then go through the heads: the same token looks for something different in every head.
    - Press it again, or *All tokens*: the pattern of the whole head shows, a ladder for "the token before", a fan for
      "always the first token".
    - Compare lines and map: a line is a cell, a token's lines are one row, and the weights of a row sum to one.

    tokens: n strings, 1 to 20. A token that occurs more than once is shown with its position, from 0, as a subscript.
    weights: (m, n, n), shares between 0 and 1, no unit: row = query, column = key.
        1 to 12 heads. Lists or arrays.
    names: m strings, such as "11.6" for layer 11, head 6; "0", "1", ... if left out.
    notes: m strings, a sentence about each head, or nothing.
    head: which head to show, from 0. query: which token is pinned, from 0; -1 pins none and shows all. By default
        it is the last token, which can read all the others. threshold: weights below it have no line.
    Raises ValueError, naming the sizes, when they do not fit.

    The weights travel once, as bytes: little-endian, last axis fastest, in half precision (`dtype` "float16") where
    that loses nothing, and in single precision ("float32", wrong by less than 1e-7) otherwise.
    """

    _esm = module("head_viewer", "weights")
    _css = style("head_viewer")

    data = traitlets.Bytes(help="all weights, little-endian, C order").tag(sync=True)
    dtype = traitlets.Enum(["float16", "float32"], "float32", help="number format of data").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="[heads, n, n]").tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode(), help="n tokens, queries and keys alike").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), help="m names of heads").tag(sync=True)
    notes = traitlets.List(traitlets.Unicode(), help="m sentences, or empty").tag(sync=True)
    head = traitlets.Int(0, min=0, help="head shown, from 0").tag(sync=True)
    query = traitlets.Int(-1, min=-1, help="token pinned, from 0; -1: none, all are shown").tag(sync=True)
    threshold = traitlets.Float(0.05, min=0, max=1, help="weights below it have no line").tag(sync=True)

    def __init__(self, tokens, weights, names=None, notes=None, head=0, *, query=None, **kwargs):
        super().__init__(**kwargs)
        self.put(tokens, weights, names, notes, head=head, query=query)

    @property
    def weights(self):
        """The weights as sent, (heads, n, n)."""
        return np.frombuffer(self.data, dtype=f"<f{2 if self.dtype == 'float16' else 4}").reshape(self.shape)

    def put(self, tokens, weights, names=None, notes=None, head=0, query=None):
        """Replace everything shown; sizes may change. Raises ValueError when they do not fit."""
        try:
            weights = np.asarray(weights, dtype=float)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise ValueError(f"weights must be an array of numbers ({problem})") from None
        if weights.ndim != 3 or weights.shape[1] != weights.shape[2]:
            raise ValueError(
                f"weights must be (heads, n, n), one square map for each head; their shape is {weights.shape}"
            )
        heads, n, _ = weights.shape
        if not 1 <= heads <= MOST_HEADS or not 1 <= n <= MOST_TOKENS:
            raise ValueError(
                f"weights must be 1 to {MOST_HEADS} heads on 1 to {MOST_TOKENS} tokens; "
                f"these are {heads} heads on {n} tokens"
            )
        # Written so that nan fails too.
        if not (weights.min() >= -1e-6 and weights.max() <= 1 + 1e-6):
            raise ValueError(
                "weights must be between 0 and 1; these range from "
                f"{weights.min():.4g} to {weights.max():.4g}. Are they scores, before the softmax?"
            )
        tokens = self._strings("tokens", tokens, n, f"name the {n} rows and columns")
        names = self._strings("names", range(heads) if names is None else names, heads, f"name the {heads} heads")
        what = f"have a sentence for each of the {heads} heads"
        notes = [] if notes is None else self._strings("notes", notes, heads, what)
        query = n - 1 if query is None else query
        if not 0 <= head < heads:
            raise ValueError(f"head must be 0 to {heads - 1}; it is {head}")
        if not -1 <= query < n:
            raise ValueError(f"query must be 0 to {n - 1}, or -1 for none; it is {query}")
        half = weights.astype("<f2")
        lossless = np.array_equal(half.astype(float), weights)
        with self.hold_sync():
            self.shape = []  # nothing to compare a new head or query with yet
            self.dtype = "float16" if lossless else "float32"
            self.data = (half if lossless else weights.astype("<f4")).tobytes()
            self.head, self.query = int(head), int(query)
            self.tokens, self.names, self.notes, self.shape = tokens, names, notes, [heads, n, n]
            wide, narrow = self._heights()
            self.min_height, self.narrow_extra = wide, narrow - wide

    @staticmethod
    def _strings(name, given, size, what):
        if isinstance(given, str):
            raise ValueError(f"{name} must be a list of strings; it is one string, {given!r}")
        strings = [str(text) for text in given]
        if len(strings) != size:
            raise ValueError(f"{name} must {what}; {len(strings)} were given")
        return strings

    def _heights(self):
        """CSS pixels on a page of the book, on a wide screen and on a phone; the numbers are the style sheet's."""
        heads, n, _ = self.shape
        letters = max((len(note) for note in self.notes), default=0) + 12
        above = 20 + 6 * min(11, max(map(len, told_apart(self.tokens))))  # the names over the columns
        thumbnails = [5 + 58 * math.ceil(heads / columns) if heads > 1 else 0 for columns in (6, 3)]
        wide = 88 + thumbnails[0] + max(31, 21 * math.ceil(letters / 70)) + above + ROW * n
        narrow = 147 + thumbnails[1] + 21 * math.ceil(letters / 36) + ROW * n
        return wide, narrow

    @traitlets.validate("head", "query")
    def _exists(self, proposal):
        """Refuse a head or token that does not exist."""
        name, value = proposal["trait"].name, proposal["value"]
        size = self.shape[{"head": 0, "query": 1}[name]] if self.shape else value + 1
        if value >= size:
            raise ValueError(f"{name} must be 0 to {size - 1}; it is {value}")
        return value

    def picture(self):
        """Lines and map of the head shown; the pinned token's lines carry their weights."""
        from matplotlib.figure import Figure

        names, shown = told_apart(self.tokens), self.weights[self.head].astype(float)
        n = len(names)
        figure = Figure(figsize=(9, 1.6 + 0.3 * n), layout="constrained")
        lines, grid = figure.subplots(1, 2, width_ratios=[4, 5])
        for i, j in zip(*np.nonzero(shown >= max(self.threshold, 1e-9))):
            chosen = self.query in (-1, i)
            lines.plot(
                [1, 0],
                [i, j],
                color="#0a6ed1" if chosen else "0.75",
                linewidth=0.5 + 4 * shown[i, j],
                alpha=0.35 + 0.6 * min(shown[i, j], 1),
                zorder=2 if chosen else 1,
            )
        for i, name in enumerate(names):
            weight = shown[self.query, i] if self.query >= 0 else 0
            number = f"  {weight:.2f}" if weight >= max(self.threshold, 1e-9) else ""
            lines.text(-0.04, i, name + number, ha="right", va="center", fontsize=9, color="#b35900")
            lines.text(
                1.04,
                i,
                name,
                ha="left",
                va="center",
                fontsize=9,
                color="#0a6ed1",
                weight="bold" if i == self.query else "normal",
            )
        lines.set(xlim=(-0.7, 1.6), ylim=(n - 0.5, -0.5))
        lines.axis("off")
        lines.set_title("key: is read  |  query: reads", fontsize=9)
        drawn = grid.imshow(np.ma.masked_equal(shown, 0), cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
        grid.set_xticks(range(n), names, rotation=90, fontsize=8)
        grid.set_yticks(range(n), names, fontsize=8)
        grid.xaxis.tick_top()
        figure.colorbar(drawn, ax=grid, label="weight")
        note = f": {self.notes[self.head]}" if self.notes else ""
        figure.suptitle(f"{spoken_name(self.names[self.head])}{note}", fontsize=10, wrap=True)
        return figure


def spoken_name(name):
    """ "11.6" -> "Head 11.6"; a name in words stays unchanged."""
    return f"Head {name}" if name[:1].isdigit() else name
