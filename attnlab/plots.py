"""One look for the course's figures, in the book and in notebooks.

from attnlab import plots
plots.style()                                  # once, before the first figure
panel.imshow(weights, cmap="attention")        # the widgets' scale: light is 0, dark is 1
panel.plot(scores, color=plots.QUERY)          # and KEY and VALUE; these three colors mean nothing else
"""

from __future__ import annotations

import importlib.metadata

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import ListedColormap

QUERY, KEY, VALUE = "#0a6ed1", "#b35900", "#1a7f37"  # as in the widgets
SERIES = ("#3b4656", "#c2255c", "#7048e8", "#0c8599", "#868e96")  # of other curves than these three
INK, FAINT = "#3b4656", "#8b949e"

# Weight 0 and weight 1 in OKLCH: lightness, chroma and hue, as widgets.css has them.
LOW, HIGH = (0.97, 0.03, 115), (0.33, 0.13, 275)

LOOK = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": matplotlib.cycler(color=SERIES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11.5,
    "grid.color": "#d8dee4",
    "grid.linewidth": 0.6,
    "image.cmap": "attention",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.major.size": 3,
}

FACE, FACE_FILES = (
    "Source Sans Pro",
    ("SourceSansPro-Regular.ttf", "SourceSansPro-It.ttf", "SourceSansPro-Bold.ttf"),
)


def style() -> None:
    """Give all figures that are drawn from now on the course's look."""
    matplotlib.rcParams.update(LOOK | face())


def face() -> dict:
    """Settings for the face in which the book is set, where its package is installed, and else for Matplotlib's own."""
    try:
        files = importlib.metadata.files("font-source-sans-pro") or []
    except importlib.metadata.PackageNotFoundError:
        return {"font.size": 10}
    for file in files:
        if file.name in FACE_FILES:
            font_manager.fontManager.addfont(file.locate())
    return {
        "font.family": [FACE, "DejaVu Sans"],  # the second for what the first lacks
        "font.size": 11.5,  # its letters are smaller at the same size
        "mathtext.fontset": "stixsans",
    }


def scale(steps: int = 256) -> np.ndarray:
    """The colors of the weights from 0 to 1, in equal steps of lightness: (steps, 3), red, green and blue."""
    lightness, chroma, hue = (np.linspace(low, high, steps) for low, high in zip(LOW, HIGH))
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    cones = (
        np.stack(
            [
                lightness + 0.3963377774 * a + 0.2158037573 * b,
                lightness - 0.1055613458 * a - 0.0638541728 * b,
                lightness - 0.0894841775 * a - 1.2914855480 * b,
            ]
        )
        ** 3
    )
    linear = (
        np.array(
            [
                [4.0767416621, -3.3077115913, 0.2309699292],
                [-1.2684380046, 2.6097574011, -0.3413193965],
                [-0.0041960863, -0.7034186147, 1.7076147010],
            ]
        )
        @ cones
    )
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055).T


matplotlib.colormaps.register(ListedColormap(scale(), "attention"), force=True)
matplotlib.colormaps.register(ListedColormap(scale()[::-1], "attention_r"), force=True)
