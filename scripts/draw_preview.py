"""Draw the picture that is shown beside a shared link to the book: book/images/preview.png, 1200 by 630 pixels.

    python scripts/draw_preview.py

It shows recorded weights of a trained model: those of the head with the largest weight from "announced" to "CEO".
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from attnlab import data

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).resolve().parent.parent / "book" / "images" / "preview.png"
INK, PAPER, ACCENT = "#1b2430", "#ffffff", "#0a5bb0"
WIDTH, HEIGHT, DPI = 1200, 630, 100


def draw(target: Path = TARGET) -> None:
    recording = data.seven_tokens()
    tokens = recording.tokens
    query, key = tokens.index("announced"), tokens.index("CEO")
    layer, head = np.unravel_index(recording.weights[:, :, query, key].argmax(), recording.weights.shape[:2])
    weights = recording.weights[layer, head]
    n = len(tokens)

    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK}):
        figure = plt.figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
        figure.text(0.06, 0.70, "Attention", fontsize=52, fontweight="bold", color=ACCENT)
        figure.text(
            0.06,
            0.43,
            "From the dot product\nto a running language model,\none function at a time.",
            fontsize=22,
            linespacing=1.5,
        )
        figure.text(
            0.06,
            0.08,
            f"Weights of layer {layer}, head {head} of SmolLM2-135M,\nrecorded and not touched up.",
            fontsize=12,
            color="#5b6672",
            linespacing=1.4,
        )
        axes = figure.add_axes((0.585, 0.06, 0.39, 0.39 * WIDTH / HEIGHT))
        colours = matplotlib.colors.LinearSegmentedColormap.from_list("accent", ["#eef4fb", ACCENT])
        for row in range(n):
            for column in range(row + 1):
                axes.add_patch(
                    plt.Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, color=colours(weights[row, column] ** 0.7))
                )
        axes.set(xlim=(0, n), ylim=(n, 0), xticks=[], yticks=np.arange(n) + 0.5)
        axes.set_yticklabels(tokens, fontsize=15)
        for column, token in enumerate(tokens):
            axes.text(column + 0.4, column - 0.12, token, fontsize=12, rotation=38, color="#5b6672")
        axes.tick_params(length=0)
        axes.set_frame_on(False)
        figure.savefig(target, dpi=DPI, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    draw()
    print(TARGET.relative_to(TARGET.parents[2]))
