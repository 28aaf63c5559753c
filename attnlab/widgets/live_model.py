"""A model that reads the reader's own sentence: SmolLM2 in the page, and a recorded sentence before it is there."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab import data
from attnlab.widgets._base import CourseWidget, module, style
from attnlab.widgets.head_wall import HeadWall

N_WORDS = 6
SIZE = 97  # MB that the model takes to fetch; `make live` says it


class LiveModel(CourseWidget):
    """Type a sentence, and SmolLM2-135M reads it: all 270 heads, what it would say after each layer, and the next word.

    What you learn by moving what:

    - Press a token: its row of the map is what that token reads, in the head that the ring is around.
    - Move the ring over the wall: few heads look alike, and most rest on the first token.
    - Switch a head off, or put its mean in its place: most change nothing, a few change the next word.
    - Break the model in one of the four ways that keep every shape: it still writes fluently, but worse.
    - Let it write on, hotter or colder: a mark on each bar shows how likely the word is to be drawn.

    Before the model is fetched the widget shows a recorded sentence. On a page of the built book a button fetches it,
    if the site was built with the model and the page comes from a web address; else the widget says why not.
    In a notebook the widget runs your own model, if you give it one with your `generate`; without, only the recording
    is there.

    model: a LanguageModel with the weights of SmolLM2-135M, from `smollm2.load`, or None
    generate: your function of that name
    head: "layer.head", or the index layer * 9 + head. query: index of the token that reads, -1 for the last.
    off: whether the head is out. The recording: see `data.stream()` and `data.heads()`.
    Raises ValueError for a head or a token that does not exist.
    """

    _esm = module("live_model", "pointer", "weights", "fields")
    _css = style("live_model")

    maps = traitlets.Bytes(help="per head the lower triangle of its map, weight * 255").tag(sync=True)
    effects = traitlets.Bytes(help="per head the words' probabilities without it, float16").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="[layers, heads]").tag(sync=True)
    tokens = traitlets.List(help="the recorded sentence").tag(sync=True)
    words = traitlets.List(help="the next words, likeliest first").tag(sync=True)
    whole = traitlets.List(help="their probabilities").tag(sync=True)
    lens = traitlets.List(help="from before the first layer on: the likeliest word and its probability").tag(sync=True)
    size = traitlets.Int(SIZE, help="MB that are fetched").tag(sync=True)
    head = traitlets.Int(0, help="the head shown, layer * heads + head").tag(sync=True)
    query = traitlets.Int(-1, help="the token that reads, from 0; -1: the last").tag(sync=True)
    live_predictions = traitlets.List(traitlets.Unicode(), help="questions that need the model itself").tag(sync=True)
    own = traitlets.Bool(False, help="whether a model of the kernel answers").tag(sync=True)
    off = traitlets.Bool(False, help="whether the head is taken out").tag(sync=True)
    min_height = traitlets.Int(636).tag(sync=True)
    narrow_extra = traitlets.Int(112).tag(sync=True)

    def __init__(self, head="18.6", *, model=None, generate=None, query=-1, **kwargs):
        stream, ablation = data.stream(), data.heads().ablation
        p, n = ablation.prompts.index(stream.prompts[0]), len(stream.first_tokens)
        layers, width = stream.first_weights.shape[:2]
        lower = stream.first_weights.reshape(-1, n, n)[:, *np.tril_indices(n)]
        super().__init__(
            maps=np.round(255 * lower).astype(np.uint8).tobytes(),
            effects=ablation.probabilities[p, ..., :N_WORDS].astype("<f2").tobytes(),
            shape=[layers, width],
            tokens=list(stream.first_tokens),
            words=ablation.tokens[p][:N_WORDS],
            whole=ablation.baseline[p, :N_WORDS].round(5).tolist(),
            lens=[
                [words[0], round(float(shares[0]), 4)]
                for words, shares in zip(stream.words[0], stream.probabilities[0], strict=True)
            ],
            head=HeadWall._index(head, layers, width),
            query=query,
            own=model is not None,
            **kwargs,
        )
        if model is not None:
            from attnlab import smollm2
            from attnlab.model_trace import Reader

            def tell(message, arrays):
                self.send(message, [array.tobytes() for array in arrays])

            reader = Reader(model, generate, smollm2.tokenizer(), tell)
            self.on_msg(lambda _, question, buffers: reader.ask(question))

    @traitlets.validate("head", "query")
    def _exists(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if not self.shape or not self.tokens:
            return value  # while it is being made
        low, size = (-1, len(self.tokens)) if name == "query" else (0, int(np.prod(self.shape)))
        if not low <= value < size:
            raise ValueError(f"{name} must be {low} to {size - 1}; it is {value}")
        return value

    def picture(self):
        """The map of the head shown, the next words with and without it, and what each layer would say."""
        from matplotlib.figure import Figure

        n, (_, width) = len(self.tokens), self.shape
        name = f"{self.head // width}.{self.head % width}"
        weights = np.zeros((n, n))
        triangle = n * (n + 1) // 2
        weights[np.tril_indices(n)] = (
            np.frombuffer(self.maps, np.uint8, triangle, self.head * triangle).astype(float) / 255
        )
        without = np.frombuffer(self.effects, "<f2").reshape(-1, N_WORDS)[self.head].astype(float)
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        grid, bars = figure.subplots(1, 2)
        grid.imshow(np.ma.masked_equal(weights, 0), cmap="YlGnBu", vmin=0, vmax=1)
        grid.set_xticks(range(n), self.tokens)
        grid.set_yticks(range(n), self.tokens)
        grid.set_title(f"head {name}", fontsize=9)
        y = np.arange(N_WORDS)
        bars.barh(y - 0.2, self.whole, 0.4, label="whole model", color="0.7")
        bars.barh(y + 0.2, without, 0.4, label=f"without {name}", color="#0a6ed1")
        bars.set_yticks(y, self.words)
        bars.invert_yaxis()
        bars.set_xlabel("probability of the next word")
        bars.legend(fontsize=8)
        return figure
