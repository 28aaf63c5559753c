"""Draw the picture that is shown next to a shared link, and on the first page where no script runs.

    python scripts/draw_preview.py

It is book/images/preview.png, 1200 by 630 pixels, a still of the first page's picture: what one word reads in one head,
and all 270 heads as squares. The weights are the recorded ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attnlab import data  # noqa: E402
from book.directives import front_page  # noqa: E402

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.collections import LineCollection  # noqa: E402
from matplotlib.patches import FancyBboxPatch, Rectangle  # noqa: E402

TARGET = ROOT / "book" / "images" / "preview.png"
INK, MUTED, PAPER, CHIP = "#1b2430", "#5b6672", "#ffffff", "#f3f4f5"
QUERY, KEY = "#0a6ed1", "#b35900"
KINDS = {"first": "#7148c4", "before": "#007f88", "itself": "#b62c77", "other": "#4a5560"}
WIDTH, HEIGHT, DPI = 1200, 630, 100


def mixed(color, share: float, ground: str = PAPER) -> np.ndarray:
    one, two = (np.array(matplotlib.colors.to_rgb(name)) for name in (color, ground))
    return one * share + two * (1 - share)


def shares(weights: np.ndarray) -> dict[str, float]:
    """How a head divides its weight, over the words from the third on."""
    later = np.arange(2, len(weights))
    given = {
        "first": weights[later, 0].mean(),
        "before": weights[later, later - 1].mean(),
        "itself": weights[later, later].mean(),
    }
    return given | {"other": 1 - sum(given.values())}


def draw(target: Path = TARGET) -> None:
    recording = data.seven_tokens()
    words, n = recording.tokens, len(recording.tokens)
    layer, head, query = front_page.tour(recording.weights)[0]
    weights = recording.weights[layer, head, query]

    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK}):
        figure = plt.figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.set_axis_off()
        axes.text(50, 92, "Attention", fontsize=40, fontweight="bold")
        axes.text(52, 138, "from the dot product to a running language model", fontsize=17, color=MUTED)

        # The words, as chips in a row.
        sizes = np.array([len(word) * 13.5 + 30 for word in words])
        left = 50 + np.concatenate([[0], np.cumsum(sizes[:-1] + (890 - sizes.sum()) / (n - 1))])
        places, top = left + sizes / 2, 470
        for key, word in enumerate(words):
            chip = FancyBboxPatch(
                (left[key] + 6, top + 6),
                sizes[key] - 12,
                58,
                boxstyle="round,pad=6,rounding_size=12",
                facecolor=mixed(KEY, 0.45 * weights[key], CHIP),
                edgecolor=QUERY if key == query else mixed(KEY, weights[key], "#d1d5da"),
                linewidth=3.5 if key == query else 2,
            )
            axes.add_patch(chip)
            bold = "bold" if key == query else "normal"
            axes.text(places[key], top + 33, word, fontsize=16, ha="center", fontweight=bold)
            if key <= query:
                axes.text(places[key], top + 59, f"{weights[key]:.2f}", fontsize=12, ha="center", color=MUTED)

        # The lines: from the word that reads to those that it reads.
        way = np.linspace(0, 1, 80)
        shades = [mixed(KEY, share, QUERY) for share in way[:-1]]
        for key in np.argsort(weights):
            if weights[key] < 0.002:
                continue
            away = abs(places[key] - places[query]) / (places[-1] - places[0])
            bow, apart = 400 * (0.28 + 0.72 * away), 14 if key == query else 0
            ends = np.array([[places[query] - apart, top], [places[key] + apart, top]], dtype=float)
            bends = ends + [[-2 * apart, -bow], [2 * apart, -bow]]
            points = (
                np.outer((1 - way) ** 3, ends[0])
                + np.outer(3 * way * (1 - way) ** 2, bends[0])
                + np.outer(3 * way**2 * (1 - way), bends[1])
                + np.outer(way**3, ends[1])
            )
            pieces = np.stack([points[:-2], points[1:-1], points[2:]], 1)  # each laps over the next: no seams
            faded = [mixed(shade, min(1, 0.25 + 2 * weights[key])) for shade in shades[:-1]]
            axes.add_collection(LineCollection(pieces, colors=faded, linewidths=16 * weights[key] + 1, capstyle="butt"))

        # The wall: all heads, the first layer at the bottom.
        cell, low = (19, 16), 560
        layers, heads = recording.weights.shape[:2]
        for one in range(layers):
            for other in range(heads):
                given = shares(recording.weights[one, other])
                kind = max(given, key=given.get)
                place = (980 + other * cell[0], low - (one + 1) * cell[1])
                axes.add_patch(
                    Rectangle(
                        (place[0] + 1, place[1] + 1),
                        cell[0] - 2,
                        cell[1] - 2,
                        facecolor=mixed(KINDS[kind], given[kind]),
                        edgecolor=INK if (one, other) == (layer, head) else "none",
                        linewidth=2.5,
                        zorder=3 if (one, other) == (layer, head) else 2,
                    )
                )
        axes.text(
            50,
            594,
            f"What “{words[query]}” reads in head {layer}.{head} of SmolLM2-135M, one of {layers * heads}. "
            "Recorded weights, not touched up.",
            fontsize=13,
            color=MUTED,
        )
        figure.savefig(target, dpi=DPI, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    draw()
    print(TARGET.relative_to(ROOT))
