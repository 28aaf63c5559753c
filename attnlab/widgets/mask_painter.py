"""A mask to paint, the attention weights under it, and a meter for what leaks from the future."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

FEWEST, MOST = 2, 10
LARGEST = 1000.0
PRESETS = ("causal", "padding", "window", "full")
FILLS = {"-inf": -np.inf, "-1e9": -1e9, "-10": -10.0}


class Scores(traitlets.TraitType):
    """A trait that holds a square of finite numbers; takes nested lists, NumPy arrays and tensors."""

    def validate(self, obj, value):
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError, RuntimeError):
            raise traitlets.TraitError(f"{self.name} must be an (n, n) array of numbers, got {value!r}") from None
        if array.ndim != 2 or array.shape[0] != array.shape[1]:
            raise traitlets.TraitError(
                f"{self.name} must be (n, n), one row per query and one column per key; the shape is {array.shape}"
            )
        if not FEWEST <= len(array) <= MOST:
            raise traitlets.TraitError(f"{self.name} must be for {FEWEST} to {MOST} tokens, got {len(array)}")
        if not np.all(np.abs(array) <= LARGEST):
            raise traitlets.TraitError(
                f"{self.name} must hold finite numbers of size at most {LARGEST:g}; masking is the work of `mask`"
            )
        return array.tolist()


class Mask(traitlets.TraitType):
    """A trait that holds a square of booleans; takes nested lists, NumPy arrays and tensors, also of 0 and 1."""

    def validate(self, obj, value):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            raise traitlets.TraitError(f"{self.name} must be an (n, n) array of booleans, got {value!r}") from None
        if array.ndim != 2:
            raise traitlets.TraitError(
                f"{self.name} must be (n, n), one row per query and one column per key; the shape is {array.shape}"
            )
        if array.dtype != bool and not (array.dtype.kind in "iu" and np.isin(array, (0, 1)).all()):
            raise traitlets.TraitError(
                f"{self.name} must be boolean, True where a query may read a key; its numbers "
                f"are {array.dtype}. A mask of 0 and -inf, to be added, is a different convention"
            )
        return array.astype(bool).tolist()


def plain_integer(number):
    """Return a NumPy integer as a Python int; return anything else unchanged, for the trait to judge."""
    return int(number) if isinstance(number, np.integer) else number


def allowed_by(preset, n, length, window):
    """The (n, n) boolean mask of a preset; True = this query may read this key."""
    query, key = np.indices((n, n))
    back = query - key  # how many tokens ago the key was; negative for the future
    return {"causal": back >= 0, "padding": key < length, "window": (back >= 0) & (back < window), "full": key >= 0}[
        preset
    ]


class MaskPainter(CourseWidget):
    """A mask to paint on a grid of queries and keys, with the weights that result and a meter for cheating.

    What you learn by moving what:

    - paint a cell (click, drag, or arrow keys and the space bar): all weights of its row change, since the softmax
      runs over the allowed keys only;
    - the presets: causal lets a token read itself and the past, padding cuts off columns, a sliding window keeps the
      last few tokens, full hides nothing;
    - let a token read a later one: the meter shows how much weight goes to the future, and which tokens see the
      very token that they must predict;
    - mask a whole row (padding with no real token does it to all): the row becomes 0 and reads nothing;
    - change a token: the outputs that move are those of the tokens that read it, and its own;
    - the fill: with -10 instead of minus infinity, a little weight leaks through the mask, and with any finite fill
      an empty row becomes uniform.

    tokens: 2 to 10 strings, one for each query and key.
    scores: (n, n) finite numbers of size at most 1000, row = query, column = key, before softmax; lists or arrays.
    mask: (n, n) booleans, True = this query may read this key; the padding mask of one text, (1, n), is accepted too.
        If it is left out, the mask of `preset` is used; otherwise `preset` becomes the one that gives it, or "painted".
    preset: "causal", "padding", "window" or "full".
    length: number of real tokens that the padding preset leaves, 0 to n; n - 1 if left out.
    window: width of the sliding window, the token itself included, 1 to n; 2 if left out.
    fill: what a masked score is replaced by, "-inf", "-1e9" or "-10", or the number itself.
    changed: index of the token whose change is followed to the outputs, from 0, or None.
    Raises `TraitError` for anything else. `painter.mask` is the current mask, `painter.weights` the weights under it.
    """

    _esm = module("mask_painter", "weights")
    _css = style("mask_painter")

    tokens = traitlets.List(traitlets.Unicode(), help="n names").tag(sync=True)
    scores = Scores([[0.0, 0.0], [0.0, 0.0]], help="(n, n) scores before softmax").tag(sync=True)
    mask = Mask([[True, False], [True, True]], help="(n, n) booleans, True = may read").tag(sync=True)
    preset = traitlets.Enum([*PRESETS, "painted"], "causal", help="where the mask comes from").tag(sync=True)
    length = traitlets.Int(1, help="real tokens of the padding preset, 0 to n").tag(sync=True)
    window = traitlets.Int(2, help="width of the sliding window, 1 to n").tag(sync=True)
    fill = traitlets.Enum([*FILLS], "-inf", help="what a masked score is replaced by").tag(sync=True)
    changed = traitlets.Int(None, allow_none=True, help="index of the token that is changed, or None").tag(sync=True)

    def __init__(self, tokens, scores, mask=None, preset="causal", *, length=None, window=None, fill="-inf", **kwargs):
        if isinstance(tokens, str):
            raise traitlets.TraitError(f"tokens must be a list of strings, got the one string {tokens!r}")
        tokens = [str(token) for token in tokens]
        n = len(tokens)
        if preset not in PRESETS:
            raise traitlets.TraitError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}")
        length = n - 1 if length is None else plain_integer(length)
        window = min(2, n) if window is None else plain_integer(window)
        fill = next((name for name, value in FILLS.items() if fill == value), fill)
        super().__init__(
            tokens=tokens,
            scores=scores,
            length=length,
            window=window,
            fill=fill,
            preset=preset,
            mask=np.ones((n, n), dtype=bool),
            **kwargs,
        )
        if mask is None:
            self._follow_preset()
        else:
            self.mask = np.repeat(np.asarray(mask), n, axis=0) if np.shape(mask) == (1, n) else mask
            self._follow_mask()
        self.observe(self._follow_preset, ["preset", "length", "window"])
        self.observe(self._follow_mask, "mask")
        self.min_height = max(439, 222 + 40 * n if n < 9 else 225 + 35 * n)
        self.narrow_extra = 522 + 33 * n + 10 * (n > 9) - self.min_height

    @traitlets.validate("tokens", "mask", "scores", "length", "window", "changed")
    def _fits(self, proposal):
        """Refuse what does not fit the number of tokens."""
        name, value, n = proposal["trait"].name, proposal["value"], len(self.tokens)
        if name == "tokens":
            if len(value) != len(self.scores):
                raise traitlets.TraitError(
                    f"tokens must name the {len(self.scores)} rows of the scores; {len(value)} were given"
                )
        elif name in ("mask", "scores"):
            if [len(row) for row in value] != [n] * n:
                raise traitlets.TraitError(f"{name} must be ({n}, {n}) for {n} tokens; the shape is {np.shape(value)}")
        elif name == "changed":
            if value is not None and not 0 <= value < n:
                raise traitlets.TraitError(f"changed must be 0 to {n - 1} for {n} tokens, or None; got {value}")
        elif not (least := 0 if name == "length" else 1) <= value <= n:
            raise traitlets.TraitError(f"{name} must lie between {least} and {n}, the number of tokens; got {value}")
        return value

    def _follow_preset(self, change=None):
        """After a new preset, or a new number for it: its mask."""
        if self.preset != "painted":
            self.mask = allowed_by(self.preset, len(self.tokens), self.length, self.window)

    def _follow_mask(self, change=None):
        """After a new mask: the preset that gives it, with its number, or "painted"."""
        n = len(self.tokens)
        if self.preset != "painted" and self.mask == allowed_by(self.preset, n, self.length, self.window).tolist():
            return
        candidates = [
            ("causal", {}),
            ("full", {}),
            *(("padding", {"length": i}) for i in range(1, n)),
            *(("window", {"window": i}) for i in range(1, n)),
        ]
        for preset, number in candidates:
            number = {"length": self.length, "window": self.window, **number}
            if self.mask == allowed_by(preset, n, **number).tolist():
                with self.hold_trait_notifications():
                    self.preset, self.length, self.window = preset, number["length"], number["window"]
                return
        self.preset = "painted"

    @property
    def weights(self):
        """The weights shown, (n, n): softmax along each row; a row with nothing allowed is 0 if the fill is -inf."""
        scores, mask = np.array(self.scores), np.array(self.mask)
        weights = np.zeros_like(scores)
        for row, may, score in zip(weights, mask, scores):
            seen = np.where(may, score, FILLS[self.fill])
            top = seen.max()
            if np.isfinite(top):
                powers = np.exp(seen - top)
                row[:] = powers / powers.sum()
        return weights

    def picture(self):
        """The grid with its weights; masked cells are hatched, what comes from the future is framed in red."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        mask, weights = np.array(self.mask), self.weights
        n = len(self.tokens)
        figure = Figure(figsize=(1.8 + 0.55 * n, 1.4 + 0.45 * n))
        ax = figure.subplots()
        drawn = ax.imshow(np.ma.masked_where(~mask, weights), cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
        for (i, j), weight in np.ndenumerate(weights):
            if not mask[i, j]:
                ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="////", edgecolor="#c4c9ce", lw=0))
            if mask[i, j] or weight:
                ax.text(
                    j,
                    i,
                    f"{weight:.2g}" if weight < 0.005 else f"{weight:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if weight > 0.55 else "black",
                )
            if mask[i, j] and j > i:
                ax.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False, edgecolor="#c2182b", lw=1.8))
        for i in np.flatnonzero(weights.sum(1) == 0):
            ax.text(
                (n - 1) / 2,
                i,
                "empty row: this token reads nothing",
                ha="center",
                va="center",
                fontsize=8,
                bbox=dict(facecolor="white", edgecolor="none", pad=1.5),
            )
        ax.set_xticks(range(n), self.tokens, rotation=45, ha="left")
        ax.set_yticks(range(n), self.tokens)
        ax.xaxis.tick_top()
        ax.set_ylabel("query: reads")
        ax.set_xlabel(f"key: is read ({mask.sum()} of {mask.size} allowed)")
        figure.colorbar(drawn, ax=ax, label="weight")
        return figure
