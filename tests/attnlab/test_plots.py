"""The look of the figures: one place, the widgets' colors."""

import importlib.metadata
import re

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager, pyplot

from attnlab import plots
from course.folder import ROOT

STYLES = (ROOT / "attnlab/widgets/widgets.css").read_text("utf-8")


@pytest.fixture(autouse=True)
def look_of_this_test_alone():
    with matplotlib.rc_context():
        yield


def test_queries_keys_values_and_the_ends_of_the_scale_have_the_colors_of_the_widgets():
    light = STYLES.partition("--aw-accent")[1] + STYLES.partition("--aw-accent")[2].partition("}")[0]
    for name, color in (("accent", plots.QUERY), ("second", plots.KEY), ("third", plots.VALUE)):
        assert f"--aw-{name}: {color};" in light
    for name, color in (("low", plots.LOW), ("high", plots.HIGH)):
        assert re.search(rf"--aw-{name}: oklch\(([\d. ]+)\)", light)[1].split() == [f"{x:g}" for x in color]


def test_a_curve_gets_none_of_the_three_colors_unless_it_is_asked_for():
    plots.style()
    given = set(matplotlib.rcParams["axes.prop_cycle"].by_key()["color"])
    assert len(given) == 5 and not given & {plots.QUERY, plots.KEY, plots.VALUE}


def test_more_weight_is_always_darker_and_the_ends_are_what_browsers_draw():
    colors = plots.scale()
    gray = colors @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(gray) < 0).all()
    # As Chromium draws widgets.css: both ends, and color-mix half way between them.
    assert np.round(255 * plots.scale(3)).tolist() == [[244, 248, 225], [76, 159, 158], [38, 41, 118]]
    assert np.allclose(matplotlib.colormaps["attention"](1.0)[:3], colors[-1])
    assert np.allclose(matplotlib.colormaps["attention_r"](0.0)[:3], colors[-1])


def test_figures_have_the_face_of_the_site_and_else_one_that_comes_with_matplotlib(monkeypatch, caplog):
    plots.style()
    words = font_manager.findfont(font_manager.FontProperties(family=matplotlib.rcParams["font.family"]))
    assert words.endswith("SourceSansPro-Regular.ttf")
    pyplot.figure().suptitle(r"$\sqrt{d_k}$ → ≤ θ")
    pyplot.gcf().text(0, 0, "GQA", weight="bold")
    pyplot.gcf().canvas.draw()
    assert caplog.text == ""  # else a page shows what was logged

    def not_there(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", not_there)
    matplotlib.rcdefaults()
    plots.style()
    assert matplotlib.rcParams["font.family"] == ["sans-serif"]
