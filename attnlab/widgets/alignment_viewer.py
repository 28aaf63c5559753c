"""The alignment of two sentences, and the context vector that each target token reads."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style
from attnlab.widgets.head_viewer import told_apart

MOST_TOKENS = 14  # rows or columns: more do not fit a phone
MOST_WIDE = 8  # width of a value
ROW, LINE = 28, 30  # CSS pixels of one token in the map, and among the sliders


class Table(traitlets.TraitType):
    """Rows of finite numbers, as many in each: lists or a 2-D NumPy array, kept as rows of floats.

    Assign a new table to change it, since an entry set in place is not seen.
    """

    def default(self, obj=None):
        return [[0.0]]

    def validate(self, obj, value):
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise traitlets.TraitError(f"{self.name} must be an array of numbers ({problem})") from None
        if array.ndim != 2 or 0 in array.shape:
            raise traitlets.TraitError(f"{self.name} must have 2 dimensions; its shape is {array.shape}")
        return array.tolist()


class AlignmentViewer(CourseWidget):
    """Attention from a target sentence to a source sentence, with weights to change and the context they give.

    What you learn by moving what:

    - Pick a target token: its row of the map says which source tokens it reads, and with which weights.
    - Raise one slider: all shares change, since they are divided by their total, and the context vector moves towards
      the value of that token.
    - Press *Hard*: all the weight goes to the largest, and the context becomes a copy of one value. Compare it with
      the recorded one: what did the small weights add?
    - Press *Even*: the context becomes the mean of all values, whatever the query.
    - Set all sliders to zero: all shares are zero, and so is the context.

    source: n_s strings, the tokens that are read. target: n_t strings, the tokens that read. 1 to 14 each.
    weights: (n_t, n_s) shares, no unit, row = target token; each row sums to one (within 1e-3), or is all zero.
    values: (n_s, d_v) one value per source token, numbers of size at most 1e6, d_v 1 to 8.
    query: index of the target token looked at, from 0.
    decoder: what comes after the context in the decoder that the weights are from, so that the viewer can say the next
        word: a dict of `words`, the v words it chooses from; `values`, (n_s, d) the values in full; `own`, (n_t, d)
        what is added to the output of W_o; and `parts`, its parameters in order: W_o (d, d), weight and bias of a
        LayerNorm (d,), weight and bias of a ReLU network's two maps (f, d), (f,), (d, f), (d,), and of the readout
        (v, d), (v,).
    `settings` are the sliders, (n_t, n_s) numbers from 0 to 1, at first the weights; a row's shares are its settings
    divided by their sum, and zeros where that is zero.
    Raises ValueError, naming the sizes, when they do not fit.
    """

    _esm = module("alignment_viewer", "weights")
    _css = style("alignment_viewer")

    source = traitlets.List(traitlets.Unicode(), help="n_s tokens that are read").tag(sync=True)
    target = traitlets.List(traitlets.Unicode(), help="n_t tokens that look").tag(sync=True)
    weights = Table(help="recorded weights, n_t rows of n_s shares").tag(sync=True)
    values = Table(help="n_s rows of d_v numbers").tag(sync=True)
    settings = Table(help="the sliders, n_t rows of n_s numbers from 0 to 1").tag(sync=True)
    query = traitlets.Int(0, min=0, help="target token looked at, from 0").tag(sync=True)
    words = traitlets.List(traitlets.Unicode(), help="v words the decoder chooses from; or empty").tag(sync=True)
    decoder = traitlets.Bytes(help="its numbers after the context, float32, in order").tag(sync=True)
    widths = traitlets.List(traitlets.Int(), [0, 0], help="[d, f] of that decoder").tag(sync=True)

    def __init__(self, source, target, weights, values, *, query=0, decoder=None, **kwargs):
        self._putting = True
        super().__init__(**kwargs)
        self.put(source, target, weights, values, query=query, decoder=decoder)

    def put(self, source, target, weights, values, query=0, decoder=None):
        """Replace everything shown; sizes may change. Raises ValueError when they do not fit."""
        try:
            weights, values = (
                np.array(self.traits()[name].validate(self, table))
                for name, table in (("weights", weights), ("values", values))
            )
        except traitlets.TraitError as problem:
            raise ValueError(str(problem)) from None
        (n_t, n_s), (rows, width) = weights.shape, values.shape
        source, target = self._strings("source", source), self._strings("target", target)
        for name, tokens, size, what in (("source", source, n_s, "columns"), ("target", target, n_t, "rows")):
            if len(tokens) != size:
                raise ValueError(f"{name} must name the {size} {what} of weights; {len(tokens)} were given")
            if not 1 <= size <= MOST_TOKENS:
                raise ValueError(f"{name} must have 1 to {MOST_TOKENS} tokens; it has {size}")
        if rows != n_s:
            raise ValueError(f"each source token needs one value: weights is {n_t} x {n_s}, values has {rows} rows")
        if not 1 <= width <= MOST_WIDE:
            raise ValueError(f"values must be 1 to {MOST_WIDE} wide; they are {width} wide")
        if not (abs(values) <= 1e6).all():
            raise ValueError("values must be finite numbers of size at most 1e6")
        # Written so that nan fails too.
        if not (weights.min() >= -1e-6 and weights.max() <= 1 + 1e-3):
            raise ValueError(
                "weights must be between 0 and 1; these range from "
                f"{weights.min():.4g} to {weights.max():.4g}. Are they scores, before the softmax?"
            )
        weights = weights.clip(0, 1)
        sums = weights.sum(-1)
        wrong = np.flatnonzero((abs(sums - 1) > 1e-3) & (sums > 0))
        if len(wrong):
            raise ValueError(
                f"each row of weights must sum to one, or be all zero; row {wrong[0]} sums to {sums[wrong[0]]:.4g}"
            )
        if not 0 <= query < n_t:
            raise ValueError(f"query must be 0 to {n_t - 1}; it is {query}")
        words, numbers, widths = self._tail(decoder, n_t, n_s)
        self._putting = True
        try:
            with self.hold_sync():
                self.words, self.decoder, self.widths = words, numbers, widths
                self.source, self.target, self.query = source, target, int(query)
                self.weights, self.values, self.settings = weights.tolist(), values.tolist(), weights.tolist()
                wide, narrow = self._heights()
                self.min_height, self.narrow_extra = wide, narrow - wide
        finally:
            self._putting = False

    @staticmethod
    def _tail(decoder, n_t, n_s):
        """The decoder's words, its numbers as bytes, and its widths."""
        if decoder is None:
            return [], b"", [0, 0]
        words = [str(word) for word in decoder["words"]]
        arrays = [_array(one) for one in (decoder["values"], decoder["own"], *decoder["parts"])]
        width, inner, v = arrays[0].shape[-1], arrays[5].shape[0] if len(arrays) > 5 else 0, len(words)
        names = ["values", "own", "W_o", "norm", "norm", "W_1", "b_1", "W_2", "b_2", "readout", "readout"]
        shapes = [(n_s, width), (n_t, width), (width, width), (width,), (width,), (inner, width), (inner,)]
        shapes += [(width, inner), (width,), (v, width), (v,)]
        if len(arrays) != len(shapes):
            raise ValueError(f"decoder must have {len(shapes) - 2} parts; it has {len(arrays) - 2}")
        for name, array, shape in zip(names, arrays, shapes):
            if array.shape != shape:
                raise ValueError(f"{name} of the decoder must have shape {shape}; its shape is {array.shape}")
        return words, b"".join(array.astype("<f4").tobytes() for array in arrays), [width, inner]

    @staticmethod
    def _strings(name, given):
        if isinstance(given, str):
            raise ValueError(f"{name} must be a list of tokens; it is one string, {given!r}")
        return [str(token) for token in given]

    def _heights(self):
        """CSS pixels on a page of the book, on a wide screen and on a phone; the numbers are the style sheet's."""
        n_t, n_s = np.shape(self.weights)
        above = max(90, 20 + 6 * min(11, max(map(len, told_apart(self.source)))))  # the names over the columns
        grid, sliders = above + 48 + ROW * n_t, 100 + LINE * n_s
        if self.words:
            in_two = 73 + LINE * -(-n_s // 2)  # columns, on a phone
            return 191 + max(grid, sliders), 145 + grid + in_two
        second = 201 if np.shape(self.values)[1] > 5 else 0  # a phone shows many entries in two tables
        return 306 + max(grid, sliders), 370 + grid + sliders + second

    @traitlets.validate("query")
    def _exists(self, proposal):
        if not self._putting and proposal["value"] >= len(self.target):
            raise ValueError(f"query must be 0 to {len(self.target) - 1}; it is {proposal['value']}")
        return proposal["value"]

    @traitlets.validate("weights", "values", "settings")
    def _same_size(self, proposal):
        """Sliders take numbers from 0 to 1 in their own shape; weights and values change together, by `put`."""
        name = proposal["trait"].name
        if self._putting:
            return proposal["value"]
        if name != "settings":
            raise ValueError(f"to change {name}, use put(source, target, weights, values)")
        new, shape = np.array(proposal["value"]), np.shape(self.weights)
        if new.shape != shape:
            raise ValueError(f"settings must be {shape[0]} x {shape[1]}, like the weights; their shape is {new.shape}")
        if not (new.min() >= 0 and new.max() <= 1):
            raise ValueError(f"settings must be between 0 and 1; these range from {new.min():.4g} to {new.max():.4g}")
        return proposal["value"]

    @property
    def shares(self):
        """The settings of each row divided by their sum, (n_t, n_s); zeros where that is zero."""
        settings = np.array(self.settings)
        totals = settings.sum(-1, keepdims=True)
        return np.divide(settings, totals, out=np.zeros_like(settings), where=totals > 0)

    @property
    def context(self):
        """shares @ values for every target token, (n_t, d_v)."""
        return self.shares @ np.array(self.values)

    def picture(self):
        """The map with its numbers, and the context vector of the target token looked at."""
        from matplotlib.figure import Figure

        shares = self.shares
        n_t, n_s = shares.shape
        figure = Figure(figsize=(3.6 + 0.5 * n_s, max(3, 1.4 + 0.36 * n_t)), layout="constrained")
        grid, bars = figure.subplots(1, 2, width_ratios=[0.55 * n_s + 1, 2.6])
        drawn = grid.imshow(np.ma.masked_equal(shares, 0), cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
        for (i, j), weight in np.ndenumerate(shares):
            if weight >= 0.005:
                grid.text(
                    j,
                    i,
                    f"{weight:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if weight > 0.55 else "black",
                )
        grid.set_xticks(range(n_s), told_apart(self.source), rotation=90, fontsize=8)
        grid.set_yticks(range(n_t), told_apart(self.target), fontsize=8)
        grid.xaxis.tick_top()
        grid.set_xlabel("source: is read")
        grid.set_ylabel("target: reads")
        figure.colorbar(drawn, ax=grid, label="weight")
        context = self.context[self.query]
        bars.barh(range(len(context)), context, color="#1a7f37")
        bars.axvline(0, color="0.3", linewidth=0.8)
        bars.set_yticks(range(len(context)), [str(c + 1) for c in range(len(context))])
        bars.invert_yaxis()
        bars.set_title(f"context of {told_apart(self.target)[self.query]}", fontsize=9)
        return figure


def _array(given):
    """A NumPy array of an array or of a tensor, with or without a gradient."""
    return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
