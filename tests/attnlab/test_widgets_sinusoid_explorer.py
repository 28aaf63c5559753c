"""The sinusoid explorer: its numbers against NumPy, and each of its controls in a browser."""

import math

import numpy as np
import pytest

from attnlab.widgets import SinusoidExplorer
from tests.attnlab.widget_page import frame_clock, sets, sines

FIXTURES = [
    {"max_len": 64, "d_model": 32, "position": 5, "pair": 2, "offset": 0},
    {"max_len": 8, "d_model": 2, "position": 7, "pair": 0, "offset": -8},
    {"max_len": 10, "d_model": 6, "position": 0, "pair": 2, "offset": 10},  # beyond the end
    {"max_len": 50, "d_model": 20, "position": 3, "pair": 9, "offset": -41},  # before the start
    {"max_len": 256, "d_model": 128, "position": 255, "pair": 63, "offset": 256},
]
STOPS = ["position", "position", "reset", "pair", "pair", "offset", "offset"]  # no "run": motion is unwanted
SET = [dict(max_len=20, d_model=16, pair=4, position=19, offset=-20)]
AGAIN = SinusoidExplorer(d_model=16, position=9, pair=5, offset=-2)
MISTYPED = {"position": ["", "many", "2.5", "-1", "64"]}
REFUSED = [
    (dict(d_model=7), "d_model must be even"),
    (dict(d_model=0), "d_model must be between 2 and 128"),
    (dict(max_len=1000), "max_len must be between 8 and 256"),
    (dict(position=64), "position must be between 0 and 63"),
    (dict(position=-1), "position must be"),
    (dict(pair=16), "pair must be between 0 and 15"),
    (dict(offset=65), "offset must be between -64 and 64"),
    (dict(position=1.5), "position"),
    (dict(pair="a"), "pair"),
]
EXAMPLES = [
    (
        SinusoidExplorer(),
        dict(offset=12),
        dict(d_model=32, position=5, pair=2, offset=0),
        dict(d_model=128, position=63, pair=63, offset=-64),
        dict(d_model=4, position=0, pair=0, offset=64),
        dict(d_model=64, position=50, pair=31, offset=33),
    )
]
HANDS = {".se-hand.se-other": "x2", ".se-plot circle": "cx", "line.se-mini": "x2"}
GLIDES = [(SinusoidExplorer(offset=3), traits, HANDS) for traits in (dict(position=40), dict(offset=-9), dict(pair=11))]
EXTREMES = [
    (SinusoidExplorer(max_len=256, d_model=128, position=255, pair=63, offset=-256),),
    (SinusoidExplorer(max_len=8, d_model=2, pair=0, offset=-8),),
]


def reference(state):
    n, d_model, p, pair, k = (state[name] for name in ("max_len", "d_model", "position", "pair", "offset"))
    frequencies, offsets = 1 / 10000 ** (np.arange(0, d_model, 2) / d_model), np.arange(-n, n + 1)
    here, there = sines([p, p + k], d_model)
    own = slice(2 * pair, 2 * pair + 2)
    return {
        "encoding": sines(range(n), d_model),
        "frequencies": frequencies,
        "wavelength": 2 * math.pi / frequencies[pair],
        "between": k * frequencies[pair],
        "hand.position": p,
        "hand.sine": here[own][0],
        "hand.cosine": here[own][1],
        "other.position": p + k,
        "other.sine": there[own][0],
        "other.cosine": there[own][1],
        "dot": here @ there,
        "share": here[own] @ there[own],
        "offsets": offsets,
        # It holds at every position, here at some far away.
        "curve": sines(1000 + offsets, d_model) @ sines([1000], d_model)[0],
    }


def end(view, pointer):
    return [float(view.locator(pointer).get_attribute(name)) for name in ("x2", "y2")]


def test_the_hands_point_like_those_of_a_clock(shown):
    """Straight up at angle 0, then clockwise: across is the sine, up is the cosine."""
    view = shown(SinusoidExplorer(position=0, pair=0))
    hand = ".se-clock .se-hand:not(.se-other)"
    x, y = end(view, hand)
    assert x == pytest.approx(0) and y < 0
    view.set(position=1)
    assert end(view, hand) == pytest.approx([-y * math.sin(1), y * math.cos(1)])
    view.set(offset=2)
    assert end(view, ".se-clock .se-hand.se-other") == pytest.approx([-y * math.sin(3), y * math.cos(3)])


PIXELS = """() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [canvas.width, canvas.height, [...data]];
}"""


def test_the_canvas_holds_one_pixel_for_each_entry(shown):
    pixels = shown(SinusoidExplorer(max_len=10, d_model=6)).evaluate(PIXELS)
    assert pixels[:2] == [6, 10]
    purple = np.array(pixels[2]).reshape(10, 6, 4)[..., :3] @ [1, -1, 0]  # red over green: purple is below 0
    table = sines(range(10), 6)
    clear = np.abs(table) > 0.1
    assert np.array_equal(purple[clear] > 0, table[clear] < 0)


def test_a_press_on_the_curve_chooses_the_offset(shown):
    view = shown(SinusoidExplorer(offset=30))
    plot, dot = view.locator(".se-plot"), view.locator(".se-plot circle")
    for k in (-40, 0, 12):
        view.set(offset=k)
        x, _ = view.middle(dot)
        view.set(offset=30)
        view.mouse.click(x, plot.bounding_box()["y"] + 100)
        assert view.get("offset") == k == view.saved("offset")


FREQUENCY = 10000 ** (-4 / 32)
HERE, THERE = sines([5, 8], 32)
DOT = sines([0], 32)[0] @ sines([7], 32)[0]
PIXEL = f"=> ({PIXELS})()[2].slice(0, 3).reduce((sum, one) => sum + one)"  # the sine of 0
CONTROLS = {
    "the shown numbers are those of the pair": (
        SinusoidExplorer(position=5, pair=2, offset=3),
        {"#frequency": pytest.approx(FREQUENCY, abs=0.00005), "=wavelength": f"{math.tau / FREQUENCY:.2f} tokens"},
        {"=between": f"{math.degrees(3 * FREQUENCY):.1f}°", "=dot": f"PE[5] · PE[8] = {HERE @ THERE:.3f}"},
        {"said~": f"sine {HERE[4]:.3f}, cosine {HERE[5]:.3f},".replace("-", "−")},
    ),
    "the colors follow the theme": (
        SinusoidExplorer(max_len=8, d_model=2, position=3),
        {"=> document.documentElement.dataset.theme": "light", f"{PIXEL} > 700": True},
        {"=> document.documentElement.dataset.theme = 'dark'": "dark"},
        {"said~": "position 3", f"{PIXEL} < 150": True},
    ),
    "moving the position changes no dot product": (
        SinusoidExplorer(offset=7),
        *(
            (f"field=position := {p}", {"=dot": f"PE[{p}] · PE[{p + 7}] = {DOT:.3f}", ".se-curve@points": ...})
            for p in (0, 17, 63)
        ),
    ),
    "the summary says what stays": (
        SinusoidExplorer(offset=-9),
        {"said~": ["position −4, outside the table,", "wavelength 19.9 tokens."]},
        {"said~": "It depends only on the offset −9: move the position, and it stays."},
    ),
    **{
        f"the keys change the {name} in its field by one and by ten": (
            SinusoidExplorer(),
            (f"field={name} := 3", f"field={name}: ArrowUp", {name: 4, f"field={name}@value": "4"}),
            (f"field={name}: Shift+ArrowDown", {name: down}),
        )
        for name, down in [("position", 0), ("pair", 0), ("offset", -6)]
    },
    "fewer dimensions keep the pair within them": (
        SinusoidExplorer(d_model=12, pair=5),
        (sets(pair=3, d_model=8), {"slider=pair@max": "3", "circle.se-mini": 4}),
        # Of so many, every second one is drawn.
        (sets(d_model=128, pair=4), {"circle.se-mini": 32, "circle.se-chosen": 1}),
    ),
    "a press on the table chooses position and pair": (
        SinusoidExplorer(max_len=16, d_model=8),
        (f"drag canvas at {3.5 / 4},{11.5 / 16}", dict(position=11, pair=3)),
        (f"drag canvas at {3.5 / 4},{11.5 / 16} -> canvas at {1.5 / 4},{2.5 / 16}", dict(position=2, pair=1)),
        ("leave", dict(position=2, pair=1)),
    ),
    "a press on a small clock chooses its pair": (
        SinusoidExplorer(d_model=8),
        ("drag circle.se-mini >> nth=3", dict(pair=3, position=5)),
    ),
}
SMALL = SinusoidExplorer(max_len=8, d_model=16, offset=1)
SLIDERS = [
    (SMALL, "position", range(8), 3),
    (SMALL, "pair", range(8), 3),
    (SMALL, "offset", range(-8, 9), 3),
]


def test_time_runs_without_steps_and_stops_also_when_it_is_taken_away(shown):
    widget = SinusoidExplorer(max_len=8, d_model=4, pair=0, position=6)
    view = shown(widget, before=frame_clock(), reduced_motion="no-preference")
    run = view.part("go", "run")
    assert view.tab(4)[2:] == ["run", "reset"]
    run.press("Enter")
    between = """() => {
      const { x1, y1, x2, y2 } = document.querySelector("line.se-mini");
      const angle = Math.atan2(x2.baseVal.value - x1.baseVal.value, y1.baseVal.value - y2.baseVal.value);
      return Math.abs(Math.sin((angle - model.get("position")) / 2)) > 0.1;
    }"""
    view.page.wait_for_function(between)  # the hand is on its way to the next position
    view.page.wait_for_function("() => model.get('position') === 1")  # from the end back to the start
    run.press("Enter")
    stopped = view.get("position")
    view.frames(30)
    assert view.get("position") == stopped == view.saved("position")
    assert run.inner_text() == "Play"
    assert f"at position {stopped}:" in view.said()
    view.press("run")
    view.evaluate("dispose()")
    stopped = view.get("position")
    view.frames(30)
    assert view.get("position") == stopped


TRAITS = {
    "smaller tables bring the rest back into range": (
        dict(position=np.int64(60), pair=15, offset=-64),
        (sets(max_len=20, d_model=6), dict(position=19, pair=2, offset=-20)),
    ),
}
