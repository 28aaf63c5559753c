"""The sinusoid explorer: its numbers against NumPy, and each of its controls in a browser."""

import math

import numpy as np
import pytest

from attnlab.widgets import SinusoidExplorer

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


def pe(positions, d_model):
    """The encoding entry by entry, as the paper defines it; any whole numbers are positions."""
    table = np.zeros((len(positions), d_model))
    for row, p in enumerate(positions):
        for column in range(d_model):
            angle = p / 10000 ** ((column - column % 2) / d_model)
            table[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def reference(state):
    n, d_model, p, pair, k = (state[name] for name in ("max_len", "d_model", "position", "pair", "offset"))
    frequencies, offsets = 1 / 10000 ** (np.arange(0, d_model, 2) / d_model), np.arange(-n, n + 1)
    here, there = pe([p, p + k], d_model)
    own = slice(2 * pair, 2 * pair + 2)
    return {
        "encoding": pe(range(n), d_model),
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
        "curve": pe(1000 + offsets, d_model) @ pe([1000], d_model)[0],
    }


def test_the_shown_numbers_are_those_of_the_pair(shown):
    view = shown(SinusoidExplorer(position=5, pair=2, offset=3))
    frequency = 10000 ** (-4 / 32)
    assert view.number("frequency") == pytest.approx(frequency, abs=0.00005)
    assert view.text("wavelength") == f"{math.tau / frequency:.2f} tokens"
    assert view.text("between") == f"{math.degrees(3 * frequency):.1f}°"
    here, there = pe([5, 8], 32)
    assert view.text("dot") == f"PE[5] · PE[8] = {here @ there:.3f}"
    assert f"sine {here[4]:.3f}, cosine {here[5]:.3f},".replace("-", "−") in view.said()


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
    table = pe(range(10), 6)
    clear = np.abs(table) > 0.1
    assert np.array_equal(purple[clear] > 0, table[clear] < 0)


def test_the_colors_follow_the_theme(shown):
    view = shown(SinusoidExplorer(max_len=8, d_model=2, position=3))
    light = view.evaluate(PIXELS)[2][:3]  # the sine of 0
    view.evaluate("() => (document.documentElement.dataset.theme = 'dark')")
    view.page.wait_for_timeout(50)
    assert sum(light) > 700 and sum(view.evaluate(PIXELS)[2][:3]) < 150


def test_moving_the_position_changes_no_dot_product(shown):
    view = shown(SinusoidExplorer(offset=7))
    found, curves = set(), set()
    for p in (0, 17, 63):
        view.field("position").fill(str(p))
        head, _, dot = view.text("dot").rpartition(" = ")
        assert head == f"PE[{p}] · PE[{p + 7}]"
        found.add(dot)
        curves.add(view.locator(".se-curve").get_attribute("points"))
    assert len(found) == len(curves) == 1


def test_the_summary_says_what_stays(shown):
    said = shown(SinusoidExplorer(offset=-9)).said()
    assert "position −4, outside the table," in said and "wavelength 19.9 tokens." in said
    assert said.endswith("It depends only on the offset −9: move the position, and it stays.")


@pytest.mark.parametrize("name, last, down", [("position", 63, 0), ("pair", 15, 0), ("offset", 64, -6)])
def test_a_field_and_its_slider_move_together(shown, name, last, down):
    view = shown(SinusoidExplorer())
    view.slides(name, last, "3")
    assert view.get(name) == 3
    view.field(name).press("ArrowUp")
    assert (view.get(name), view.field(name).input_value()) == (4, "4")
    view.field(name).press("Shift+ArrowDown")
    assert view.get(name) == down


def test_fewer_dimensions_keep_the_pair_within_them(shown):
    view = shown(SinusoidExplorer(d_model=12, pair=5))
    view.set(pair=3, d_model=8)  # as Python may
    assert view.slider("pair").get_attribute("max") == "3"
    assert view.locator("circle.se-mini").count() == 4
    view.set(d_model=128, pair=4)  # of so many, every second one is drawn
    assert view.locator("circle.se-mini").count() == 32 and view.locator("circle.se-chosen").count() == 1


def test_a_press_on_the_table_chooses_position_and_pair(shown):
    view = shown(SinusoidExplorer(max_len=16, d_model=8))
    box = view.locator("canvas").bounding_box()

    def at(row, pair):
        return box["x"] + box["width"] * (pair + 0.5) / 4, box["y"] + box["height"] * (row + 0.5) / 16

    view.mouse.click(*at(11, 3))
    assert view.get("position", "pair") == [11, 3]
    view.mouse.down()
    view.mouse.move(*at(2, 1))
    view.mouse.up()
    view.mouse.move(*at(9, 0))
    assert view.saved("position", "pair") == [2, 1]


def test_a_press_on_the_curve_chooses_the_offset(shown):
    view = shown(SinusoidExplorer(offset=30))
    plot, dot = view.locator(".se-plot"), view.locator(".se-plot circle")
    for k in (-40, 0, 12):
        view.set(offset=k)
        x, _ = view.middle(dot)
        view.set(offset=30)
        view.mouse.click(x, plot.bounding_box()["y"] + 100)
        assert view.get("offset") == k == view.saved("offset")


def test_a_press_on_a_small_clock_chooses_its_pair(shown):
    view = shown(SinusoidExplorer(d_model=8))
    view.locator("circle.se-mini").nth(3).click(force=True)
    assert view.get("pair", "position") == [3, 5] == view.saved("pair", "position")


def test_time_runs_without_steps_and_stops_also_when_it_is_taken_away(shown):
    view = shown(SinusoidExplorer(max_len=8, d_model=4, pair=0, position=6), reduced_motion="no-preference")
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
    view.page.wait_for_timeout(300)
    assert view.get("position") == stopped == view.saved("position")
    assert run.inner_text() == "Play"
    assert f"at position {stopped}:" in view.said()
    view.press("run")
    view.evaluate("dispose()")
    stopped = view.get("position")
    view.page.wait_for_timeout(300)
    assert view.get("position") == stopped


def test_smaller_tables_bring_the_rest_back_into_range():
    explorer = SinusoidExplorer(position=np.int64(60), pair=15, offset=-64)
    explorer.max_len = 20
    explorer.d_model = 6
    assert (explorer.position, explorer.pair, explorer.offset) == (19, 2, -20)
