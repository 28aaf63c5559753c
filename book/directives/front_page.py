"""Draw the first page's picture: a sentence, and what each word reads in any of the 270 heads of SmolLM2-135M.

    :::{front-page-heads}
    :::

`assets/hero.js` draws it. The first sentence's weights are in the page, and those of three more in a script beside it
that is loaded on request, so that all four work from the file system and no other host is asked for anything. Where the
site has the model, a reader's own sentence can be read too. Without scripts there is a still picture.
"""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attnlab import data
from attnlab.widgets.head_wall import recorded_texts
from attnlab.widgets.live_model import SIZE

FULL = 65535  # weights are sent as whole numbers of 16 bits: this one is a weight of 1
# The recorded texts that are offered, in this order, by their places on the wall of heads, to which the picture links;
# and the word that reads when a text is chosen.
OFFERED = [(2, "Friday"), (3, "it"), (1, "is"), (0, "announced")]
MORE = "_static/hero-sentences.js"
STILL = "book/images/preview.png"  # drawn by scripts/draw_preview.py
STILL_IN_WORDS = (
    "Seven words with curved lines from one of them to the words that it reads, and a wall of 270 small squares, one "
    "for each head of SmolLM2-135M"
)


class front_page_heads(nodes.General, nodes.Element):  # noqa: N801  (docutils names nodes in lower case)
    pass


class FrontPageHeads(SphinxDirective):
    """Show the picture, and a still one in browsers without scripts."""

    def run(self):
        still = nodes.image(uri=STILL, alt=STILL_IN_WORDS)
        parts = [nodes.raw("", "<noscript>", format="html"), still, nodes.raw("", "</noscript>", format="html")]
        return [front_page_heads("", *parts)]


def packed(weights: np.ndarray) -> str:
    """Pack the weights on and below the diagonal as base64 of little-endian uint16, row by row and head by head.

    weights: (layers, heads, n, n), from 0 to 1
    """
    rows, columns = np.tril_indices(weights.shape[-1])
    return base64.b64encode(np.rint(weights[:, :, rows, columns] * FULL).astype("<u2").tobytes()).decode("ascii")


def tour(weights: np.ndarray) -> list[list[int]]:
    """Choose what the picture shows by itself, as [layer, head, query]: the clearest head of each kind.

    The three heads with the largest weight on a word that is neither the first, nor the one before, nor the word
    itself; between them the head that puts most on each of these, and the one that is nearest to an even spread.
    """
    layers, heads, n, _ = weights.shape
    later = np.arange(2, n)  # for these queries the three are different words
    first, before, itself = (weights[:, :, later, later * 0 + key].mean(-1) for key in (0, later - 1, later))
    even = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    spread = -abs(weights - even)[:, :, later].sum((-1, -2))
    others = weights.copy()
    others[..., 0] = 0
    others[..., later, later - 1] = others[..., later, later] = 0
    others[:, :, :2] = 0
    pairs, taken = [], set()
    for place in np.argsort(-others, axis=None, kind="stable"):
        layer, head, query, _ = (int(i) for i in np.unravel_index(place, others.shape))
        if query not in taken:
            taken.add(query)
            pairs.append([layer, head, query])
        if len(pairs) == 3:
            break

    def best(measure, query):
        layer, head = np.unravel_index(measure.argmax(), (layers, heads))
        return [int(layer), int(head), query]

    return [
        pairs[0],
        best(before, n - 1),
        best(first, n - 2),
        pairs[1],
        best(itself, n - 3),
        best(spread, n - 1),
        pairs[2],
    ]


def sentences() -> list[dict]:
    """Return the offered sentences: words, packed weights, the index of the word that reads, the place on the wall."""
    texts = list(recorded_texts())
    found = []
    for place, reader in OFFERED:
        words, weights = texts[place][:2]
        last = len(words) - 1 - words[::-1].index(reader)
        found.append({"words": words, "weights": packed(weights), "query": last, "place": place})
    return found


def visit(self, node) -> None:
    recording = data.seven_tokens()
    layers, heads = recording.weights.shape[:2]
    first, *others = sentences()
    content = {"layers": layers, "heads": heads, "full": FULL, "size": SIZE, "first": first}
    content["tour"] = tour(recording.weights)
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    offered = "".join(
        f'<button type="button" class="hero-sentence" aria-pressed="{str(not i).lower()}">'
        f"{escape(' '.join(one['words']).replace(' .', '.'))}</button>"
        for i, one in enumerate([first, *others])
    )
    words = "".join(
        f'<button type="button" class="hero-word"><span>{escape(word)}</span><small></small></button>'
        for word in first["words"]
    )  # replaced by the script, and here so that the page does not jump
    self.body.append(
        '<div class="hero pst-js-only" role="group" aria-label="What a word reads, in each of 270 heads">'
        '<div class="hero-picture"><svg class="hero-lines" aria-hidden="true"></svg>'
        '<div class="hero-words" role="radiogroup" aria-label="The word that reads">'
        f"{words}</div></div>"
        '<p class="hero-caption"></p><p class="visually-hidden" role="status"></p>'
        '<div class="hero-tower"><div class="hero-wall" role="grid" tabindex="0" '
        f'aria-label="The {layers * heads} heads: {layers} layers of {heads}"></div></div>'
        f'<div class="hero-ask"><div class="hero-offered" role="group" aria-label="The sentence">{offered}</div>'
        '<form class="hero-own" hidden><input type="text" maxlength="120" aria-label="Your sentence" '
        'placeholder="Type a sentence of your own"><button>Read my sentence</button></form>'
        '<p class="hero-next"><a class="hero-off" href="play/head_off.html"></a>'
        '<button type="button" class="hero-off" hidden></button><span class="hero-note" role="status"></span></p></div>'
        '<p class="hero-legend"><span class="hero-how">Point at a word or a square.</span> '
        "A square is a head of SmolLM2-135M (11.0: layer 11, head 0), colored by where most weight goes: "
        '<span class="hero-key" data-kind="first">the first word</span> '
        '<span class="hero-key" data-kind="before">the word before</span> '
        '<span class="hero-key" data-kind="itself">the word itself</span> '
        '<span class="hero-key" data-kind="other">other words</span></p>'
        f'<script type="application/json" class="hero-data">{text}</script></div>\n'
    )


def depart(self, node) -> None:
    pass


def add_files(app, pagename, templatename, context, doctree) -> None:
    """Load the picture's script and style on the page that has it, and write the sentences that come on request.

    These are a script, since a page from the file system can load no other data.
    """
    if doctree is not None and next(doctree.findall(front_page_heads), None) is not None:
        app.add_js_file("hero.js", defer="defer")
        app.add_css_file("hero.css")
        more = Path(app.outdir, MORE)
        more.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(sentences()[1:], separators=(",", ":"))
        more.write_text(f"window.heroSentences = {text};\n", "utf-8")


def setup(app) -> None:
    app.add_node(front_page_heads, html=(visit, depart))
    app.add_directive("front-page-heads", FrontPageHeads)
