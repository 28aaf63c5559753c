"""Words that change places: what attention gives for each of them, with positions and without."""

from __future__ import annotations

import zlib

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

WIDTH = 4  # numbers of a word
FEWEST, MOST = 2, 6
BASE = 10000.0


def vector_of(word):
    """Numbers for a word, always the same ones for the same word."""
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=WIDTH).round(2).tolist()


class WordShuffler(CourseWidget):
    """A few words in some order, and the output of one attention head for each of them.

    Queries, keys and values are the vectors themselves, scores are divided by the square root of their width, and no
    token is hidden.

    What you learn by moving what:

    - the order: without positions each word takes its output along, number by number;
    - positions: with the sinusoidal encoding added to the words, another order gives other outputs.

    words: 2 to 6 different words. order: which of them is at each position, from 0, every word once.
    positions: whether the encoding of its position is added to each word.
    vectors: four numbers per word, made from the word.
    Raises `TraitError` for anything else.
    """

    _esm = module("word_shuffler")
    _css = style("word_shuffler")

    words = traitlets.List(traitlets.Unicode(), read_only=True, help="different words").tag(sync=True)
    vectors = traitlets.List(read_only=True, help="four numbers per word").tag(sync=True)
    order = traitlets.List(traitlets.Int(), help="which word is at each position").tag(sync=True)
    positions = traitlets.Bool(False, help="whether positions are added").tag(sync=True)

    def __init__(self, words=("dog", "bites", "man"), order=None, positions=False, **kwargs):
        words = [str(word) for word in words]
        if not FEWEST <= len(words) <= MOST or len(set(words)) < len(words):
            raise traitlets.TraitError(f"words must be {FEWEST} to {MOST} different words, got {words}")
        super().__init__(**kwargs)
        with self.hold_sync():
            self.set_trait("words", words)
            self.set_trait("vectors", [vector_of(word) for word in words])
            self.order = list(range(len(words))) if order is None else list(order)
            self.positions = positions
            self.min_height, self.narrow_extra = 331, 41

    @traitlets.validate("order")
    def _each_once(self, proposal):
        if self.words and sorted(proposal["value"]) != list(range(len(self.words))):
            raise traitlets.TraitError(f"order must hold 0 to {len(self.words) - 1} once each, got {proposal['value']}")
        return proposal["value"]

    def outputs(self, order, positions):
        """The output of each word, in the order of `words`."""
        n = len(order)
        x = np.array(self.vectors)[list(order)]
        if positions:
            angles = np.arange(n)[:, None] * BASE ** (-np.arange(0, WIDTH, 2) / WIDTH)
            x = x + np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, WIDTH)
        powers = np.exp(x @ x.T / np.sqrt(WIDTH))
        found = np.empty((n, WIDTH))
        found[list(order)] = powers / powers.sum(axis=1, keepdims=True) @ x
        return found

    def picture(self):
        """The outputs as bars, in the first order and in the present one."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.2, 3.0), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, order in zip(panels, [range(len(self.words)), self.order]):
            found = self.outputs(order, self.positions)
            for place, word in enumerate(order):
                panel.bar(place + np.arange(WIDTH) / 6 - 0.25, found[word], width=0.14, color="#1a7f37")
            panel.axhline(0, color="#8a939c", lw=0.8)
            panel.set_xticks(range(len(self.words)), [self.words[word] for word in order])
        panels[0].set(ylabel="output")
        figure.suptitle("with positions" if self.positions else "without positions")
        return figure
