"""All heads of a recorded model as a wall of maps, one of them large, and a switch that takes it out."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab import data
from attnlab.widgets._base import CourseWidget, module, style
from attnlab.widgets.head_viewer import told_apart

PATTERNS = ["previous", "first", "self", "induction"]  # in the order of `scores`
LEAST = 0.5  # a head whose best score is below this follows no pattern: it is "mixed"
MATTERS = 0.1  # a head "matters" to a text if the answer's probability changes by this much or more
N_WORDS = 6
MOST_TOKENS = 14


class HeadWall(CourseWidget):
    """The 30 x 9 heads of SmolLM2, each as its map of one text, colored by the pattern that it was measured to follow.

    What you learn by moving what:

    - Move over the wall: most heads put their weight on the first token, whatever the text.
    - Press a pattern: only the heads that follow it stay lit. In which layers are they?
    - Press *Off* and move over the wall: the bars are what the model says next without that head. Most change nothing.
    - Press *matters*: the heads without which the answer is clearly less or more likely. In another text, others.

    head: "layer.head", or the index layer * 9 + head. text: index of the text, from 0. off: whether the head is out.
    show: "" for all heads, one of the patterns, "mixed", or "matters".
    All numbers are recorded ones; see `recorded_texts`. The texts are "The CEO announced record earnings on Friday.
    The CEO announced", "The capital of France is", the sentence said once, and "The animal did not cross the street
    because it was".
    Raises ValueError for a head, text or filter that does not exist.
    """

    _esm = module("head_wall", "pointer", "weights")
    _css = style("head_wall")

    maps = traitlets.Bytes(help="per text and head the lower triangle of its map, weight * 255").tag(sync=True)
    effects = traitlets.Bytes(help="per text and head the words' probabilities without it, float16").tag(sync=True)
    scores = traitlets.Bytes(help="per pattern and head its score, float32").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="[layers, heads]").tag(sync=True)
    texts = traitlets.List(help="per text its tokens, the next words, their probabilities, and the answer").tag(
        sync=True
    )
    head = traitlets.Int(0, help="the head shown, layer * heads + head").tag(sync=True)
    text = traitlets.Int(0, help="the text shown, from 0").tag(sync=True)
    query = traitlets.Int(-1, help="the token whose lines are shown, from 0; -1: all").tag(sync=True)
    off = traitlets.Bool(False, help="whether the head is taken out").tag(sync=True)
    show = traitlets.Enum(["", *PATTERNS, "mixed", "matters"], "", help="the heads that are lit").tag(sync=True)
    min_height = traitlets.Int(579).tag(sync=True)
    narrow_extra = traitlets.Int(177).tag(sync=True)

    def __init__(self, head=None, text=0, *, query=-1, **kwargs):
        heads, self._maps, texts, effects = data.heads(), [], [], []
        for tokens, weights, words, whole, without, answer in recorded_texts():
            texts.append(dict(tokens=tokens, words=words, whole=whole.round(5).tolist(), answer=answer))
            lower = weights.reshape(-1, len(tokens), len(tokens))[:, *np.tril_indices(len(tokens))]
            self._maps.append(np.round(255 * lower).astype(np.uint8))
            effects.append(without.astype("<f2").tobytes())
        self._scores = np.stack([heads.measures[name] for name in PATTERNS])
        best = heads.ranked("induction")[0]
        layers, width = self._scores.shape[1:]
        super().__init__(
            maps=b"".join(one.tobytes() for one in self._maps),
            effects=b"".join(effects),
            scores=self._scores.astype("<f4").tobytes(),
            shape=[layers, width],
            texts=texts,
            head=best[0] * width + best[1] if head is None else self._index(head, layers, width),
            text=text,
            query=query,
            **kwargs,
        )

    @staticmethod
    def _index(head, layers, width):
        """ "18.6" -> the index of head 6 of layer 18."""
        if not isinstance(head, str):
            return int(head)
        layer, _, number = head.partition(".")
        if not (layer.isdigit() and number.isdigit() and int(layer) < layers and int(number) < width):
            raise ValueError(f'head must be "layer.head", up to "{layers - 1}.{width - 1}"; it is {head!r}')
        return int(layer) * width + int(number)

    @traitlets.validate("head", "text", "query")
    def _exists(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if not self.shape or not self.texts:
            return value  # while it is being made
        low = -1 if name == "query" else 0
        size = {"head": np.prod(self.shape), "text": len(self.texts), "query": MOST_TOKENS}[name]
        if not low <= value < size:
            raise ValueError(f"{name} must be {low} to {size - 1}; it is {value}")
        return value

    @property
    def pattern(self):
        """The pattern that the head shown follows, or "mixed"."""
        return [*PATTERNS, "mixed"][kinds_of(self._scores)[self.head]]

    def picture(self):
        """The wall by pattern, the map of the head shown, and the next words with and without it."""
        from matplotlib.figure import Figure

        layers, width = self.shape
        kinds = kinds_of(self._scores).reshape(layers, width)
        figure = Figure(figsize=(9, 5), layout="constrained")
        wall, rest = figure.subfigures(2, 1, height_ratios=[1, 1.1])
        axes = wall.subplots()
        axes.imshow(kinds.T, cmap="Set2", vmin=0, vmax=7, aspect="auto")
        axes.plot(self.head // width, self.head % width, "s", markersize=14, markerfacecolor="none", color="black")
        axes.set(xlabel="layer", ylabel="head", title="heads by measured pattern")
        grid, bars = rest.subplots(1, 2)
        text, name = self.texts[self.text], f"{self.head // width}.{self.head % width}"
        n = len(text["tokens"])
        shown = np.zeros((n, n))
        shown[np.tril_indices(n)] = self._maps[self.text][self.head] / 255
        grid.imshow(np.ma.masked_equal(shown, 0), cmap="YlGnBu", vmin=0, vmax=1, aspect="auto")
        grid.set_xticks(range(n), told_apart(text["tokens"]), rotation=90, fontsize=7)
        grid.set_yticks(range(n), told_apart(text["tokens"]), fontsize=7)
        grid.set_title(f"head {name}, {self.pattern}", fontsize=9)
        each, start = self.shape[0] * self.shape[1] * N_WORDS, self.text * self.shape[0] * self.shape[1] * N_WORDS
        without = np.frombuffer(self.effects, "<f2", each, 2 * start).reshape(-1, N_WORDS)[self.head]
        y = np.arange(N_WORDS)
        bars.barh(y - 0.2, text["whole"], 0.4, label="whole model", color="0.7")
        bars.barh(y + 0.2, without.astype(float), 0.4, label=f"without {name}", color="#0a6ed1")
        bars.set_yticks(y, text["words"])
        bars.invert_yaxis()
        bars.set_xlabel("probability of the next word")
        bars.legend(fontsize=8)
        return figure


def recorded_texts():
    """Yield each recorded text.

    As a tuple: its n tokens, weights (layers, heads, n, n), the likeliest next words, their probabilities (words,), the
    same without each head (layers, heads, words), and the index of the word that the text is about.
    """
    heads, paris, pronoun = data.heads(), data.stream(), data.pronoun()
    ablation, (sentence, twice) = heads.ablation, heads.tokens
    for p, tokens, weights in (
        (2, twice, heads.weights[1]),
        (0, paris.first_tokens, paris.first_weights),
        (1, sentence, heads.weights[0]),
    ):
        n = _tokens_in(ablation.prompts[p], tokens)
        words = ablation.tokens[p][:N_WORDS]
        answer = words.index(ablation.answers[p])
        whole, without = ablation.baseline[p, :N_WORDS], ablation.probabilities[p, ..., :N_WORDS]
        yield list(tokens[:n]), weights[..., :n, :n], words, whole, without, answer
    yield pronoun.tokens, pronoun.weights, pronoun.words, pronoun.whole, pronoun.without, 0


def kinds_of(scores):
    """Per head the index of the pattern it follows, len(PATTERNS) for none; scores (patterns, layers, heads).

    An induction head rests on the first token of a text that repeats nothing, so that score counts first.
    """
    scores = scores.reshape(len(PATTERNS), -1)
    best = np.where(scores[3] >= LEAST, 3, scores.argmax(0))
    return np.where(scores.max(0) >= LEAST, best, len(PATTERNS))


def _tokens_in(prompt, tokens):
    """How many of these tokens make up the prompt."""
    wanted, length = prompt.replace(" ", ""), 0
    for n, token in enumerate(tokens, start=1):
        length += len(token)
        if length == len(wanted):
            return n
    raise ValueError(f"{prompt!r} does not begin the recorded text")
