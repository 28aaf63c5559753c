"""A map of attention weights: which token looks at which, head by head."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style


class AttentionHeatmap(CourseWidget):
    """Attention weights as a map: one row for each query, one column for each key.

    What you learn by moving what:

    - Go along a row (arrow keys, or the pointer): its cells share one unit of attention, so one strong cell leaves
      little for the others.
    - Go to another row: the bars show what this token takes from the others.
    - Change the head: on the same sentence each head looks at different tokens.
    - Change the layer: early heads often look at neighbors, later ones often put most weight on the first token.

    weights: (layers, heads, n_q, n_k), shares between 0 and 1; (heads, n_q, n_k) and (n_q, n_k) are accepted too.
        Lists or arrays. A row that does not sum to one is shown with its sum.
    tokens: n_q strings, the queries. key_tokens: n_k strings, the keys; `tokens` if left out.
    layer, head, query: which map and which row to show, counted from 0. If `query` is left out, the last row is shown.
    Raises ValueError, naming the sizes, when they do not fit.

    The weights are sent once, as bytes: little-endian, in the order of `shape`, last axis fastest. They are half
    precision (`dtype` "float16") where that loses nothing, and single precision ("float32", wrong by less than 1e-7)
    otherwise: 30 layers of 9 heads on 7 tokens take 53 kB.
    """

    _esm = module("attention_heatmap", "weights")
    _css = style("attention_heatmap")

    data = traitlets.Bytes(help="all weights, little-endian, C order").tag(sync=True)
    dtype = traitlets.Enum(["float16", "float32"], "float32", help="number format of data").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="[layers, heads, n_q, n_k]").tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode(), help="n_q names of the queries").tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode(), help="n_k names of the keys").tag(sync=True)
    layer = traitlets.Int(0, min=0, help="layer shown, from 0").tag(sync=True)
    head = traitlets.Int(0, min=0, help="head shown, from 0").tag(sync=True)
    query = traitlets.Int(0, min=0, help="row shown as bars, from 0").tag(sync=True)

    def __init__(self, weights, tokens, layer=0, head=0, key_tokens=None, *, query=None, **kwargs):
        super().__init__(**kwargs)
        self.put(weights, tokens, layer=layer, head=head, key_tokens=key_tokens, query=query)

    @classmethod
    def from_recording(cls, recording, layer=0, head=0, **options):
        """The map of a recorded run: anything with `.tokens` and `.weights`, such as `attnlab.data.seven_tokens()`."""
        return cls(recording.weights, recording.tokens, layer=layer, head=head, **options)

    @property
    def weights(self):
        """The weights as sent, (layers, heads, n_q, n_k)."""
        return np.frombuffer(self.data, dtype=f"<f{2 if self.dtype == 'float16' else 4}").reshape(self.shape)

    def put(self, weights, tokens, layer=0, head=0, key_tokens=None, query=None):
        """Replace the weights, and with them the tokens. Raises ValueError when the sizes do not fit."""
        try:
            weights = np.asarray(weights, dtype=float)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise ValueError(f"weights must be an array of numbers ({problem})") from None
        if not 2 <= weights.ndim <= 4 or 0 in weights.shape:
            raise ValueError(
                "weights must be (layers, heads, n_q, n_k), (heads, n_q, n_k) or (n_q, n_k); "
                f"their shape is {weights.shape}"
            )
        # Written so that nan fails too.
        if not (weights.min() >= -1e-6 and weights.max() <= 1 + 1e-6):
            raise ValueError(
                "weights must lie between 0 and 1; these go from "
                f"{weights.min():.4g} to {weights.max():.4g}. Are they scores, before the softmax?"
            )
        weights = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
        layers, heads, n_q, n_k = weights.shape
        tokens = [str(token) for token in tokens]
        keys = tokens if key_tokens is None else [str(token) for token in key_tokens]
        if len(tokens) != n_q:
            raise ValueError(f"tokens must name the {n_q} queries (rows); {len(tokens)} were given")
        if len(keys) != n_k:
            which = "key_tokens" if key_tokens is not None else "key_tokens (left out, so tokens)"
            raise ValueError(f"{which} must name the {n_k} keys (columns); {len(keys)} were given")
        query = n_q - 1 if query is None else query
        for name, index, size in (("layer", layer, layers), ("head", head, heads), ("query", query, n_q)):
            if not 0 <= index < size:
                raise ValueError(f"{name} must be 0 to {size - 1}; it is {index}")
        half = weights.astype("<f2")
        lossless = np.array_equal(half.astype(float), weights)
        with self.hold_sync():
            self.dtype = "float16" if lossless else "float32"
            self.data = (half if lossless else weights.astype("<f4")).tobytes()
            self.shape = list(weights.shape)
            self.tokens, self.key_tokens = tokens, keys
            self.layer, self.head, self.query = int(layer), int(head), int(query)
            # Padding and summary, choosers, then the taller of map and bars; on a phone they are stacked.
            choosers = 45 if layers * heads > 1 else 0
            self.min_height = 72 + choosers + max(125 + 41 * n_q, 100 + 29 * n_k)
            self.narrow_extra = 243 + choosers + 36 * n_q + 29 * n_k - self.min_height

    @traitlets.validate("layer", "head", "query")
    def _exists(self, proposal):
        """Refuse a map or row that does not exist."""
        axis = {"layer": 0, "head": 1, "query": 2}[proposal["trait"].name]
        if self.shape and proposal["value"] >= self.shape[axis]:
            raise ValueError(f"{proposal['trait'].name} must be 0 to {self.shape[axis] - 1}; it is {proposal['value']}")
        return proposal["value"]

    def picture(self):
        """The map shown, with its numbers."""
        from matplotlib.figure import Figure

        shown = self.weights[self.layer, self.head].astype(float)
        n_q, n_k = shown.shape
        figure = Figure(figsize=(1.8 + 0.55 * n_k, 1.4 + 0.45 * n_q))
        ax = figure.subplots()
        seen = np.ma.masked_equal(shown, 0)  # a masked key keeps the color of the page
        drawn = ax.imshow(seen, cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
        if max(n_q, n_k) <= 12:
            for (i, j), weight in np.ndenumerate(shown):
                ax.text(
                    j,
                    i,
                    f"{weight:.2f}" if weight else "0",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if weight > 0.55 else "black",
                )
        ax.set_xticks(range(n_k), self.key_tokens, rotation=45, ha="left")
        ax.set_yticks(range(n_q), self.tokens)
        ax.xaxis.tick_top()
        ax.set_ylabel("query: reads")
        ax.set_xlabel("key: is read")
        if self.shape[0] * self.shape[1] > 1:
            ax.set_title(f"layer {self.layer}, head {self.head}", fontsize=10)
        figure.colorbar(drawn, ax=ax, label="weight")
        return figure
