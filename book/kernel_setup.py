"""Run inside a chapter's kernel while the book is built: errors and warnings without source lines, sharp figures.

A traceback through a reference would print the reference. An error therefore shows only its type and its message, and
the name of the exercise if a reference raised it.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings

BROKEN = "the reference of"


def install() -> None:
    """Change this kernel's shell: one line per error, no source line under warnings, whole outputs, figures as SVG."""
    shell = get_ipython()  # noqa: F821  (IPython puts it into builtins)
    show = shell._showtraceback

    def show_one_line(kind, error, lines):
        line = f"{kind.__name__}: {error}"
        exercise = exercise_at_fault(error)
        if exercise:
            line = f"{BROKEN} {exercise} failed: {line}"
        show(kind, error, [line])

    shell._showtraceback = show_one_line
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
    # What a cell prints is sent at its end, and not in pieces: MyST-NB puts each piece on a line of its own.
    for stream in (sys.stdout, sys.stderr):
        stream.flush_interval = 3600.0
    sharp_figures()


def exercise_at_fault(error: BaseException) -> str | None:
    """`name (solutions/stem.py)` of the first reference the error passed through, or None."""
    if isinstance(error, SyntaxError):
        inside = re.search(r"solutions[/\\](\w+\.py)$", error.filename or "")
        return f"the chapter (solutions/{inside[1]})" if inside else None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        inside = re.search(r"solutions[/\\](\w+\.py)$", frame.f_code.co_filename)
        if inside:
            return f"{frame.f_code.co_qualname} (solutions/{inside[1]})"
    return None


def sharp_figures() -> None:
    """Figures in the course's look, as SVG with a transparent background, the same bytes at every build."""
    try:
        import matplotlib
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # a chapter without figures
        return
    from attnlab import plots

    plots.style()  # for pages that do not ask for it
    clear = dict.fromkeys(["figure.facecolor", "axes.facecolor"], "none")
    matplotlib.rcParams.update({"svg.hashsalt": "attention", **clear})
    set_matplotlib_formats("svg", metadata={"Date": None})
