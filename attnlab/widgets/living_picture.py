"""The course in one picture: "the cat sat" as bars of four numbers, in motion, one stage per chapter."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

STAGES = (
    "dot_products",
    "softmax",
    "attention",
    "masks",
    "pytorch",
    "next_token",
    "multi_head",
    "cross_attention",
    "positions",
    "rope",
    "kv_cache",
    "transformer_block",
    "language_model",
    "efficient_attention",
    "steady_attention",
    "long_context",
    "mixture_of_experts",
    "delta_rule",
)
THE_CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
LE_CHAT = np.array([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 2.0]])
ON_THE_MAT = np.array([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
ROUTER = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 2.0], [1.0, 2.0, 0.0, 0.0]])
QUERY, KEY, VALUE, TOKEN = "#0a6ed1", "#b35900", "#1a7f37", "#48566b"


class LivingPicture(CourseWidget):
    """Three tokens as bars of four numbers, their map, and their outputs: what a chapter is about, in motion.

    Queries (blue) are left of the map, keys (orange) above it, values (green) below it, outputs right of it, in every
    chapter. The picture moves once when it comes into view; *Replay* shows it again. Where motion is unwanted, *Step*
    goes from moment to moment.

    stage: the chapter's stem, as in "softmax".
    tour: whether to go through all chapters, in about a minute, with a button for each.
    links: chapter's stem -> address, for the names of the chapters in a tour.
    at: a moment from 0 to 1 to stay at, or None.
    Anything else raises `TraitError`.
    """

    _esm = module("living_picture", "weights")
    _css = style("living_picture")

    stage = traitlets.Enum(STAGES, STAGES[0], help="the chapter's stem").tag(sync=True)
    tour = traitlets.Bool(False, read_only=True, help="whether it goes through all chapters").tag(sync=True)
    links = traitlets.Dict(key_trait=traitlets.Enum(STAGES), value_trait=traitlets.Unicode()).tag(sync=True)
    at = traitlets.Float(None, min=0, max=1, allow_none=True, help="a moment to stay at").tag(sync=True)

    def __init__(self, stage="dot_products", *, tour=False, links=None, at=None, **kwargs):
        super().__init__(stage=stage, links=links or {}, at=at, **kwargs)
        self.set_trait("tour", tour)
        self.min_height, self.narrow_extra = (292, 45) if tour else (280, 12)

    def picture(self):
        """The last moment of the stage, or of the first one in a tour."""
        from matplotlib.figure import Figure

        shown = last_moment(self.stage)
        maps, heads = shown["maps"], len(shown["maps"])
        figure = Figure(figsize=(5.6 + 1.7 * (heads - 1), 3.1), layout="constrained")
        grid = figure.add_gridspec(3, 2 + heads, width_ratios=[1, *[2] * heads, 1], height_ratios=[1, 3, 1])
        rows, limit = shown["rows"], max(np.abs(shown[side]).max() for side in ("left", "top", "right")) * 1.1

        def bars(axes, table, color, names=None):
            """One small row of bars per row of `table`."""
            for ax, numbers, name in zip(axes, table, names or [""] * len(table)):
                ax.bar(range(len(numbers)), numbers, color=color, width=0.75)
                ax.set(ylim=(min(0, shown["lowest"]) * 1.1, limit), xlim=(-0.7, 3.7), xticks=[], yticks=[])
                ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
                for side in ("top", "left", "right"):
                    ax.spines[side].set_visible(False)

        def stack(place):
            return place.subgridspec(len(rows), 1).subplots()

        bars(stack(grid[1, 0]), shown["left"], shown.get("color", QUERY), rows)
        bars(stack(grid[1, -1]), shown["right"], VALUE)
        for at, weights in enumerate(maps):
            ax = figure.add_subplot(grid[1, 1 + at])
            ax.imshow(weights, cmap="Blues", vmin=0, vmax=1.6 * max(1.0, np.nanmax(weights)), aspect="auto")
            for (i, j), weight in np.ndenumerate(weights):
                if not np.isnan(weight):
                    ax.text(j, i, f"{weight:.3g}" if weight % 1 == 0 else f"{weight:.2f}", ha="center", va="center")
            ax.set(xticks=[], yticks=[])
            width = len(shown["top"][0]) // heads
            for line, side, color in ((0, "top", KEY), (2, "bottom", VALUE)):
                if shown.get(side) is not None:
                    part = [row[width * at : width * (at + 1)] for row in shown[side]]
                    places = grid[line, 1 + at].subgridspec(1, weights.shape[1]).subplots()
                    bars(places, part, color)
                    for ax in places[len(part) :]:  # a column without a key
                        ax.set_axis_off()
        figure.suptitle(shown["title"], fontsize=10)
        return figure


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def nudged(keys):
    """The keys after a step against the gradient of -log of the weight that sat gives to cat."""
    weight = softmax(THE_CAT_SAT @ keys.T / 2)[2, 1]
    return keys + 0.5 * (1 - weight) * np.outer([0, 1, 0], THE_CAT_SAT[2])


def last_moment(stage):
    """Return the end of a stage: rows of bars at the left, top, bottom and right, and one map or two."""
    x = THE_CAT_SAT
    raw, later = x @ x.T, np.array([[False, True, True], [False, False, True], [False, False, False]])
    scores, none = raw / 2, np.zeros((3, 4))
    weights, causal = softmax(scores), softmax(scores - 1e9 * later)
    shown = dict(rows=["the", "cat", "sat"], left=x, top=x, bottom=x)
    if stage == "dot_products":
        shown |= dict(maps=[raw], right=none, bottom=None, title="scores: each query times each key")
    elif stage == "softmax":
        shown |= dict(maps=[softmax(raw)], right=none, bottom=None, title="weights: each row sums to 1")
    elif stage == "pytorch":
        keys = nudged(nudged(x))
        shown |= dict(maps=[softmax(x @ keys.T / 2)], top=keys, right=none, bottom=None)
        shown |= dict(title="two steps against the gradient: sat reads more of cat")
    elif stage in ("masks", "kv_cache"):
        cut = np.where(later, np.nan, causal)
        title = "masked: nothing reads the future"
        if stage == "kv_cache":
            cut[:2], title = np.nan, "keys and values are kept, one row is new"
        shown |= dict(maps=[cut], right=causal @ x, title=title)
    elif stage == "multi_head":
        halves = [x[:, :2], x[:, 2:]]
        maps = [softmax(half @ half.T / np.sqrt(2)) for half in halves]
        outputs = np.hstack([map_ @ half for map_, half in zip(maps, halves)])
        shown |= dict(maps=maps, right=outputs, title="two heads, each with two of the four numbers")
    elif stage == "cross_attention":
        cross = softmax(LE_CHAT @ x.T / 2)
        shown |= dict(rows=["le", "chat"], left=LE_CHAT, maps=[cross], right=cross @ x)
        shown |= dict(title="queries from one text, keys and values from another")
    elif stage == "positions":
        p = np.array([1, 2, 0])
        moved = x + np.stack([np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)], axis=1)
        shuffled = moved[[2, 0, 1]]
        mixed = softmax(shuffled @ shuffled.T / 2)
        shown |= dict(rows=["sat", "the", "cat"], left=shuffled, top=shuffled, bottom=None)
        shown |= dict(maps=[mixed], right=mixed @ shuffled, title="with positions, the order counts")
    elif stage == "rope":
        turned = x.copy()
        for i, row in enumerate(x):
            for pair, angle in ((0, i), (2, i / 100)):
                (a, b), cos, sin = row[pair : pair + 2], np.cos(angle), np.sin(angle)
                turned[i, pair : pair + 2] = a * cos - b * sin, a * sin + b * cos
        mixed = softmax(turned @ turned.T / 2)
        shown |= dict(left=turned, top=turned, maps=[mixed], right=mixed @ x, bottom=None)
        shown |= dict(title="queries and keys, turned by their positions")
    elif stage == "transformer_block":
        between = x + weights @ x
        shown |= dict(maps=[weights], right=between + np.maximum(0, between - 1), color=TOKEN)
        shown |= dict(title="the stream, plus attention, plus the feed-forward network")
    elif stage == "language_model":
        y = ON_THE_MAT
        written = softmax(y @ y.T / 2 - 1e9 * later)
        shown |= dict(rows=["on", "the", "mat"], left=y, top=y, bottom=None, color=TOKEN, right=none)
        shown |= dict(maps=[np.where(later, np.nan, written)], title="the cat sat: on the mat")
    elif stage == "steady_attention":
        left = np.exp(scores).sum(axis=1, keepdims=True)
        left = left / (left + np.exp(1.0))
        shown |= dict(maps=[np.hstack([weights * left, 1 - left])], right=weights * left @ x)
        shown |= dict(title="a sink takes a share of each row, and has no value")
    elif stage == "next_token":
        guesses = softmax(causal @ x @ x.T)
        shown |= dict(maps=[guesses], right=causal @ x, bottom=None, title="probabilities of the next token")
    elif stage == "long_context":
        made = np.tile((x[:, :2] + x[:, 2:]) / 2, 2)
        kept = softmax(x @ made.T / 2)
        shown |= dict(top=made, bottom=made, maps=[kept], right=kept @ made)
        shown |= dict(title="keys and values, made from two numbers per token")
    elif stage == "mixture_of_experts":
        logits = x @ ROUTER.T
        shares = softmax(np.where(logits == logits.min(axis=1, keepdims=True), -np.inf, logits))
        made = np.stack([x, x[:, ::-1], 2 * x])
        shown |= dict(top=ROUTER / 2, bottom=None, maps=[np.where(shares == 0, np.nan, shares)])
        shown |= dict(right=np.einsum("ne,enc->nc", shares, made), title="each token goes to two of three experts")
    elif stage == "delta_rule":
        keys = x / np.linalg.norm(x, axis=1, keepdims=True)
        overlaps = np.tril(keys @ keys.T, -1)
        written = np.linalg.solve(np.eye(3) + overlaps, x)
        shown |= dict(left=keys, top=keys, maps=[np.where(later.T, overlaps, np.nan)], right=written)
        shown |= dict(title="each token writes what is missing from what its key recalls")
    else:
        title = {"attention": "outputs: values, times weights, added up"}
        shown |= dict(maps=[weights], right=weights @ x)
        shown |= dict(title=title.get(stage, "made tile by tile: the same outputs"))
    shown["lowest"] = min(np.min(shown[side]) for side in ("left", "top", "right"))
    return shown
