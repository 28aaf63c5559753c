"""The sinusoid explorer: its numbers against NumPy, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import traitlets

from attnlab.widgets import SinusoidExplorer
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, scrolls_sideways, small_targets

FIXTURES = [
    {"max_len": 64, "d_model": 32, "position": 5, "pair": 2, "offset": 0},
    {"max_len": 8, "d_model": 2, "position": 7, "pair": 0, "offset": -8},
    {"max_len": 10, "d_model": 6, "position": 0, "pair": 2, "offset": 10},  # beyond the end
    {"max_len": 50, "d_model": 20, "position": 3, "pair": 9, "offset": -41},  # before the start
    {"max_len": 256, "d_model": 128, "position": 255, "pair": 63, "offset": 256},
]


def pe(positions, d_model):
    """The encoding entry by entry, as the paper defines it; any whole numbers are positions."""
    table = np.zeros((len(positions), d_model))
    for row, p in enumerate(positions):
        for column in range(d_model):
            angle = p / 10000 ** ((column - column % 2) / d_model)
            table[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def value(seen, name):
    return seen.page.locator(f"[data-value={name}]").inner_text()


def number(text):
    return float(text.replace("−", "-"))


def state(seen, name):
    return seen.page.evaluate("(name) => model.get(name)", name)


def saved(seen, name):
    return seen.page.evaluate("(name) => model.saved[name]", name)


def field(seen, name):
    return seen.page.locator(f"[data-field={name}]")


def slider(seen, name):
    return seen.page.locator(f"[data-slider={name}]")


# Numbers


def test_the_table_agrees_with_numpy(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for fixture in FIXTURES:
        expected = pe(range(fixture["max_len"]), fixture["d_model"])
        np.testing.assert_allclose(evaluate_compute(seen, fixture)["encoding"], expected, rtol=0, atol=1e-11)


def test_the_hands_stand_where_the_table_says_inside_it_and_outside(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        for name, p in [("hand", fixture["position"]), ("other", fixture["position"] + fixture["offset"])]:
            sine, cosine = pe([p], fixture["d_model"])[0, 2 * fixture["pair"] :][:2]
            assert (found[name]["sine"], found[name]["cosine"]) == pytest.approx((sine, cosine), abs=1e-11)
            assert found[name]["position"] == p


def test_frequencies_and_wavelengths_agree_with_numpy(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for fixture in FIXTURES:
        found, d_model = evaluate_compute(seen, fixture), fixture["d_model"]
        frequencies = 1 / 10000 ** (np.arange(0, d_model, 2) / d_model)
        np.testing.assert_allclose(found["frequencies"], frequencies, rtol=1e-12)
        assert found["wavelength"] == pytest.approx(2 * math.pi / frequencies[fixture["pair"]], rel=1e-12)
        assert found["between"] == pytest.approx(fixture["offset"] * frequencies[fixture["pair"]], rel=1e-12)


def test_the_dot_product_is_that_of_the_two_rows(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        here, there = pe([fixture["position"], fixture["position"] + fixture["offset"]], fixture["d_model"])
        assert found["dot"] == pytest.approx(here @ there, abs=1e-10)
        own = slice(2 * fixture["pair"], 2 * fixture["pair"] + 2)
        assert found["share"] == pytest.approx(here[own] @ there[own], abs=1e-10)


def test_the_curve_holds_at_every_position(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for fixture in FIXTURES[:4]:
        found, n = evaluate_compute(seen, fixture), fixture["max_len"]
        assert found["offsets"] == list(range(-n, n + 1))
        for p in (0, fixture["position"], 1000):
            here, *others = pe([p, *(p + k for k in found["offsets"])], fixture["d_model"])
            np.testing.assert_allclose(found["curve"], np.array(others) @ here, rtol=0, atol=1e-9)


# What is shown


def test_the_shown_numbers_are_those_of_the_pair(watched):
    seen = load_widget(watched, SinusoidExplorer(position=5, pair=2, offset=3))
    frequency = 10000 ** (-4 / 32)
    assert [number(value(seen, f"hand-{name}")) for name in ("angle", "sine", "cosine")] == pytest.approx(
        [5 * frequency, math.sin(5 * frequency), math.cos(5 * frequency)], abs=0.0051
    )
    assert value(seen, "wavelength") == f"{math.tau / frequency:.2f} tokens a turn"
    assert value(seen, "columns") == "4 (sine) and 5 (cosine)"
    here, there = pe([5, 8], 32)
    assert value(seen, "dot") == f"PE[5] · PE[8] = {here @ there:.3f}"


def test_the_hands_point_like_those_of_a_clock(watched):
    """Straight up at angle 0, then clockwise: across is the sine, up is the cosine."""
    seen = load_widget(watched, SinusoidExplorer(position=0, pair=0))
    hand = seen.page.locator(".se-clock .se-hand:not(.se-other)")
    end = lambda: [float(hand.get_attribute(name)) for name in ("x2", "y2")]  # noqa: E731
    x, y = end()
    assert x == pytest.approx(0) and y < 0
    seen.page.evaluate("() => model.set('position', 1)")
    length = -y
    assert end() == pytest.approx([length * math.sin(1), -length * math.cos(1)])


def test_the_canvas_holds_one_pixel_for_each_entry(watched):
    seen = load_widget(watched, SinusoidExplorer(max_len=10, d_model=6))
    pixels = seen.page.evaluate("""() => {
      const canvas = document.querySelector("canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return [canvas.width, canvas.height, [...data]];
    }""")
    assert pixels[:2] == [6, 10]
    warmth = np.array(pixels[2]).reshape(10, 6, 4)[..., :3] @ [1, 0, -1]  # red over blue: orange is below 0
    table = pe(range(10), 6)
    clear = np.abs(table) > 0.1
    assert np.array_equal(warmth[clear] < 0, table[clear] > 0)


def test_the_colours_follow_the_theme(watched):
    seen = load_widget(watched, SinusoidExplorer(max_len=8, d_model=2, position=3))
    pixel = "() => [...document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data]"
    light = seen.page.evaluate(pixel)  # the sine of 0
    seen.page.evaluate("() => (document.documentElement.dataset.theme = 'dark')")
    seen.page.wait_for_timeout(50)
    assert sum(light[:3]) > 700 and sum(seen.page.evaluate(pixel)[:3]) < 150


def test_moving_the_position_changes_no_dot_product(watched):
    seen = load_widget(watched, SinusoidExplorer(offset=7))
    found, curves = set(), set()
    for p in (0, 17, 63):
        field(seen, "position").fill(str(p))
        head, _, dot = value(seen, "dot").rpartition(" = ")
        assert head == f"PE[{p}] · PE[{p + 7}]"
        found.add(dot)
        curves.add(seen.page.locator(".se-curve").get_attribute("points"))
    assert len(found) == len(curves) == 1


def test_the_summary_is_announced_politely_and_says_what_stays(watched):
    summary = load_widget(watched, SinusoidExplorer(offset=-9)).page.locator(".aw-summary")
    assert summary.get_attribute("aria-live") == "polite"
    text = summary.inner_text()
    assert "position −4, outside the table," in text and "19.9 tokens a turn" in text
    assert text.endswith("Only the offset −9 decides it: move the position, and it stays.")


# Controls


@pytest.mark.parametrize("name, last", [("position", 63), ("pair", 15), ("offset", 64)])
def test_a_field_and_its_slider_move_together(watched, name, last):
    seen = load_widget(watched, SinusoidExplorer())
    slider(seen, name).press("End")
    assert state(seen, name) == last == saved(seen, name)
    assert field(seen, name).input_value() == str(last)
    field(seen, name).fill("3")
    assert (state(seen, name), slider(seen, name).input_value()) == (3, "3")
    field(seen, name).press("ArrowUp")
    assert (state(seen, name), field(seen, name).input_value()) == (4, "4")
    field(seen, name).press("Shift+ArrowDown")
    assert state(seen, name) == (-6 if name == "offset" else 0)
    seen.assert_clean()


@pytest.mark.parametrize("typed", ["", "many", "2.5", "-1", "64"])
def test_what_is_no_position_is_marked_and_changes_nothing(watched, typed):
    seen = load_widget(watched, SinusoidExplorer())
    position = field(seen, "position")
    position.fill(typed)
    assert (position.get_attribute("aria-invalid"), state(seen, "position")) == ("true", 5)
    position.blur()
    assert (position.get_attribute("aria-invalid"), position.input_value()) == ("false", "5")


def test_another_width_keeps_the_pair_within_it(watched):
    seen = load_widget(watched, SinusoidExplorer(d_model=12, pair=5))
    width = seen.page.locator("[data-go=d_model]")
    assert width.locator("option").all_inner_texts() == ["4", "8", "12", "16", "32", "64", "128"]
    width.select_option("8")
    assert (state(seen, "d_model"), state(seen, "pair")) == (8, 3) == (saved(seen, "d_model"), saved(seen, "pair"))
    assert slider(seen, "pair").get_attribute("max") == "3"
    assert "d_model / 2 = 4" in value(seen, "note")


def test_a_press_on_the_table_chooses_position_and_pair(watched):
    seen = load_widget(watched, SinusoidExplorer(max_len=16, d_model=8))
    box = seen.page.locator("canvas").bounding_box()

    def at(row, pair):
        return box["x"] + box["width"] * (pair + 0.5) / 4, box["y"] + box["height"] * (row + 0.5) / 16

    seen.page.mouse.click(*at(11, 3))
    assert (state(seen, "position"), state(seen, "pair")) == (11, 3)
    seen.page.mouse.down()
    seen.page.mouse.move(*at(2, 1))
    seen.page.mouse.up()
    seen.page.mouse.move(*at(9, 0))
    assert (saved(seen, "position"), saved(seen, "pair")) == (2, 1)


def test_a_press_on_the_curve_chooses_the_offset(watched):
    seen = load_widget(watched, SinusoidExplorer(offset=30))
    plot, dot = seen.page.locator(".se-plot"), seen.page.locator(".se-plot circle")
    for k in (-40, 0, 12):
        seen.page.evaluate("(k) => model.set('offset', k)", k)
        place = dot.bounding_box()
        seen.page.evaluate("() => model.set('offset', 30)")
        seen.page.mouse.click(place["x"] + place["width"] / 2, plot.bounding_box()["y"] + 100)
        assert state(seen, "offset") == k == saved(seen, "offset")


def test_time_runs_and_stops(watched):
    seen = load_widget(watched, SinusoidExplorer(max_len=8, d_model=4, pair=0, position=6))
    run = seen.page.locator("[data-go=run]")
    run.press("Enter")
    seen.page.wait_for_function("() => model.get('position') === 7")
    seen.page.wait_for_function("() => model.get('position') === 1")  # from the end back to the start
    run.press("Enter")
    stopped = state(seen, "position")
    seen.page.wait_for_timeout(800)
    assert state(seen, "position") == stopped == saved(seen, "position")
    assert run.inner_text() == "Let time run"
    assert f"at position {stopped}:" in seen.page.locator(".aw-summary").inner_text()


def test_nothing_runs_where_motion_is_unwanted(watched):
    seen = load_widget(watched, SinusoidExplorer(), reduced_motion="reduce")
    assert seen.page.locator("[data-go=run]").count() == 0


def test_start_again_brings_everything_back(watched):
    seen = load_widget(watched, SinusoidExplorer(d_model=16, position=9, pair=7, offset=-2))
    seen.page.locator("[data-go=d_model]").select_option("4")
    for name in ("position", "pair", "offset"):
        slider(seen, name).press("Home")
    seen.page.locator("[data-go=reset]").click()
    assert [state(seen, name) for name in ("d_model", "position", "pair", "offset")] == [16, 9, 7, -2]


def test_every_control_is_reached_with_the_tab_key(watched):
    seen = load_widget(watched, SinusoidExplorer())
    reached = []
    for _ in range(9):
        seen.page.keyboard.press("Tab")
        reached.append(seen.page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == ["position", "position", "pair", "pair", "d_model", "run", "reset", "offset", "offset"]


# Model


def test_traits_set_from_python_are_drawn(watched):
    seen = load_widget(watched, SinusoidExplorer())
    for name, new in [("max_len", 20), ("d_model", 10), ("pair", 4), ("position", 19), ("offset", -20)]:
        seen.page.evaluate("([name, value]) => model.set(name, value)", [name, new])
    here, there = pe([19, -1], 10)
    assert value(seen, "dot") == f"PE[19] · PE[−1] = {here @ there:.3f}".replace("= -", "= −")
    assert seen.page.locator("[data-go=d_model]").input_value() == "10"


def test_leaving_takes_drawing_listeners_and_time_away(watched):
    seen = load_widget(watched, SinusoidExplorer())
    seen.page.locator("[data-go=run]").click()
    left = seen.page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])")
    assert left == [0, 0]
    seen.page.wait_for_timeout(500)
    assert state(seen, "position") == 5
    seen.assert_clean()


def test_smaller_tables_bring_the_rest_back_into_range():
    explorer = SinusoidExplorer(position=np.int64(60), pair=15, offset=-64)
    explorer.max_len = 20
    explorer.d_model = 6
    assert (explorer.position, explorer.pair, explorer.offset) == (19, 2, -20)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"d_model": 7}, "d_model must be even"),
        ({"d_model": 0}, "d_model must lie between 2 and 128"),
        ({"max_len": 1000}, "max_len must lie between 8 and 256"),
        ({"position": 64}, "position must lie between 0 and 63"),
        ({"position": -1}, "position must lie"),
        ({"pair": 16}, "pair must lie between 0 and 15"),
        ({"offset": 65}, "offset must lie between -64 and 64"),
        ({"position": 1.5}, "position"),
        ({"pair": "a"}, "pair"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(wrong, said):
    with pytest.raises(traitlets.TraitError, match=said):
        SinusoidExplorer(**wrong)


def test_the_picture_for_print_is_a_png():
    for options in ({}, {"max_len": 8, "d_model": 2, "pair": 0, "offset": -8}):
        assert SinusoidExplorer(**options)._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, SinusoidExplorer(offset=12), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    for options in ({"offset": 12}, {"max_len": 256, "d_model": 128, "position": 255, "pair": 63, "offset": -256}):
        seen = load_widget(watched, SinusoidExplorer(**options), width=390)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []


def test_its_height_is_the_one_reserved_and_stays_while_numbers_change(watched):
    for width in (390, 1280):
        widget = SinusoidExplorer()
        seen = load_widget(watched, widget, width=width)
        reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
        for d_model, position, pair, offset in [(32, 5, 2, 0), (128, 63, 63, -64), (4, 0, 0, 64), (64, 50, 31, 33)]:
            values = dict(d_model=d_model, position=position, pair=pair, offset=offset)
            seen.page.evaluate("(values) => Object.entries(values).forEach(([k, v]) => model.set(k, v))", values)
            seen.page.wait_for_timeout(150)  # the summary follows a little later
            assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=2)
