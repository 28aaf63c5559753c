"""The dot-product explorer: its numbers against PyTorch and NumPy, and each of its controls in a browser."""

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import DotProductExplorer
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, scrolls_sideways, small_targets

FIXTURES = [
    ([2.0, 1.0], [0.5, 2.0]),
    ([-3.0, 1.5], [3.2, 3.9]),
    ([1e-3, 2e-3], [4e5, -7e5]),
    ([1.0, 1.0], [1.0, 1.0000001]),
]
FIXTURES += [tuple(pair.tolist()) for pair in np.random.default_rng(20).normal(scale=3, size=(12, 2, 2))]


def value(seen, name):
    return seen.page.locator(f"[data-value={name}]").inner_text()


def state(seen):
    return seen.page.evaluate("() => [model.get('a'), model.get('b')]")


def saved(seen):
    return seen.page.evaluate("() => [model.saved.a, model.saved.b]")


def drag(seen, tip, dx, dy):
    box = seen.page.locator(f"[data-tip={tip}] .dp-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    seen.page.mouse.move(x, y)
    seen.page.mouse.down()
    seen.page.mouse.move(x + dx / 2, y + dy / 2)
    seen.page.mouse.move(x + dx, y + dy)
    seen.page.mouse.up()


def grid_unit(seen):
    """CSS pixels from 0 to 1 on the grid that reaches to 4."""
    return seen.page.locator(".dp-plane").bounding_box()["width"] * 172 / 400 / 4


# Numbers


def test_numbers_agree_with_pytorch(watched):
    seen = load_widget(watched, DotProductExplorer())
    for a, b in FIXTURES:
        found = evaluate_compute(seen, {"a": a, "b": b})
        ta, tb = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
        cosine = torch.nn.functional.cosine_similarity(ta, tb, dim=0).item()
        assert found["products"] == pytest.approx((ta * tb).tolist(), rel=1e-6)
        assert found["dot"] == pytest.approx(torch.dot(ta, tb).item(), rel=1e-6)
        assert found["lengthA"] == pytest.approx(torch.linalg.norm(ta).item(), rel=1e-6)
        assert found["lengthB"] == pytest.approx(torch.linalg.norm(tb).item(), rel=1e-6)
        assert found["cosine"] == pytest.approx(cosine, abs=1e-6)
        assert found["sign"] == np.sign(cosine)


def test_the_shadow_ends_where_the_least_squares_foot_is(watched):
    seen = load_widget(watched, DotProductExplorer())
    for a, b in FIXTURES:
        found = evaluate_compute(seen, {"a": a, "b": b})
        [factor], *_ = np.linalg.lstsq(np.array(a)[:, None], np.array(b), rcond=None)
        assert found["foot"] == pytest.approx((factor * np.array(a)).tolist(), rel=1e-6)
        assert found["shadow"] == pytest.approx(factor * np.linalg.norm(a), rel=1e-6)


def test_the_angle_is_accurate_even_where_arrows_nearly_coincide(watched):
    seen = load_widget(watched, DotProductExplorer())
    for angle in [1e-7, 0.3, 49.0, 90.0, 179.9999999]:
        turned = [3 * np.cos(np.radians(angle)), 3 * np.sin(np.radians(angle))]
        assert evaluate_compute(seen, {"a": [2.0, 0.0], "b": turned})["angle"] == pytest.approx(angle, rel=1e-6)


def test_what_a_cancellation_leaves_counts_as_across(watched):
    found = evaluate_compute(load_widget(watched, DotProductExplorer()), {"a": [0.1, 0.3], "b": [0.3, -0.1]})
    assert (found["dot"], found["sign"], found["angle"]) == (0, 0, 90)


def test_a_zero_arrow_has_cosine_zero_and_no_angle(watched):
    seen = load_widget(watched, DotProductExplorer([0, 0], [3, 1]))
    found = evaluate_compute(seen, {"a": [0, 0], "b": [3, 1]})
    assert (found["cosine"], found["angle"], found["shadow"], found["dot"]) == (0, None, None, 0)
    assert "no direction" in seen.page.locator(".aw-summary").inner_text()
    seen.assert_clean()


# What is shown


def test_the_sum_is_written_out_with_its_numbers(watched):
    seen = load_widget(watched, DotProductExplorer([-3, 1.5], [3.2, -4]))
    assert " ".join(value(seen, "way-sum").split()) == "−3 × 3.2 + 1.5 × (−4) = −9.6 + (−6) = −15.6"


@pytest.mark.parametrize("b, word", [([3, 1], "towards"), ([-1, 2], "across"), ([-3, 1], "away")])
def test_the_sign_is_named(watched, b, word):
    seen = load_widget(watched, DotProductExplorer([2, 1], b))
    assert word in seen.page.locator(".dp-sign[aria-current=true]").inner_text()
    summary = seen.page.locator(".aw-summary")
    assert word in summary.inner_text() and summary.get_attribute("aria-live") == "polite"


def test_the_grid_grows_with_the_arrows(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [13, -2]))
    assert seen.page.locator(".dp-tick").all_text_contents().count("20") == 2


# Controls


def test_dragging_a_tip_moves_it_in_tenths_and_saves_it(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    unit = grid_unit(seen)
    drag(seen, "b", -2.5 * unit, 1.3 * unit)
    assert state(seen) == [[2, 1], [-2, 0.7]] == saved(seen)
    assert value(seen, "dot") == "−3.30"
    drag(seen, "a", -0.5 * unit, -1 * unit)
    assert state(seen)[0] == [1.5, 2]
    seen.assert_clean()


def test_a_drag_stops_at_the_edge_of_the_grid(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    drag(seen, "b", 600, -400)
    assert state(seen)[1] == [4, 4]


def test_a_finger_drags_a_tip(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]), width=390, height=800, has_touch=True)
    unit = grid_unit(seen)
    box = seen.page.locator("[data-tip=a] .dp-dot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = seen.page.context.new_cdp_session(seen.page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for part in (0.5, 1.0):
        point = {"x": x - part * 3 * unit, "y": y + part * 2 * unit}
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert state(seen)[0] == [-1, -1]


def test_the_arrow_keys_move_the_tip_in_focus(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    seen.page.keyboard.press("Tab")
    for key in ["ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowLeft", "Shift+ArrowUp"]:
        seen.page.keyboard.press(key)
    assert state(seen) == [[1.2, 1.9], [0.5, 2]] == saved(seen)
    seen.page.keyboard.press("Tab")
    seen.page.keyboard.press("ArrowLeft")
    assert state(seen)[1] == [0.4, 2]
    assert "0.4, 2" in seen.page.locator("[data-tip=b]").get_attribute("aria-label")


def test_each_number_field_sets_its_component(watched):
    seen = load_widget(watched, DotProductExplorer())
    for name, typed in [("a1", "-1.5"), ("a2", "2,5"), ("b1", "−4"), ("b2", "0.25")]:
        seen.page.locator(f"[data-field={name}]").fill(typed)
    assert state(seen) == [[-1.5, 2.5], [-4, 0.25]] == saved(seen)
    assert value(seen, "headline") == "a·b = 6.63"


def test_up_and_down_step_a_number_field(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    seen.page.locator("[data-field=a1]").press("ArrowUp")
    seen.page.locator("[data-field=b2]").press("Shift+ArrowDown")
    assert state(seen) == [[2.1, 1], [0.5, 1]]


@pytest.mark.parametrize("typed", ["two", "", "1e7"])
def test_what_is_no_usable_number_is_marked_and_changes_nothing(watched, typed):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    field = seen.page.locator("[data-field=a1]")
    field.fill(typed)
    assert field.get_attribute("aria-invalid") == "true"
    assert state(seen)[0] == [2, 1]
    field.blur()
    assert (field.input_value(), field.get_attribute("aria-invalid")) == ("2", "false")


@pytest.mark.parametrize(
    "label, b",
    [("Same direction", [1, 0.5]), ("Perpendicular", [-1, 2]), ("Opposite", [-2, -1]), ("b twice as long", [1, 4])],
)
def test_a_preset_moves_b(watched, label, b):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    seen.page.get_by_role("button", name=label).press("Enter")
    assert state(seen) == [[2, 1], b] == saved(seen)


def test_twice_as_long_doubles_the_dot_product_and_keeps_the_cosine(watched):
    seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]))
    cosine = value(seen, "cosine")
    seen.page.get_by_role("button", name="b twice as long").click()
    assert (value(seen, "dot"), value(seen, "cosine")) == ("6.00", cosine)


def test_start_again_brings_the_first_arrows_back(watched):
    seen = load_widget(watched, DotProductExplorer([1, 3], [2, -0.5]))
    seen.page.get_by_role("button", name="Opposite").click()
    seen.page.get_by_role("button", name="Start again").click()
    assert state(seen) == [[1, 3], [2, -0.5]]


# Model


def test_arrows_set_from_python_are_drawn(watched):
    seen = load_widget(watched, DotProductExplorer())
    seen.page.evaluate("() => { model.set('a', [3, 0]); model.set('b', [1, 1]); }")
    assert value(seen, "dot") == "3.00"
    assert seen.page.locator("[data-field=a1]").input_value() == "3"


def test_leaving_takes_drawing_and_listeners_away(watched):
    seen = load_widget(watched, DotProductExplorer())
    left = seen.page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])")
    assert left == [0, 0]


def test_arrays_lists_and_tuples_are_taken():
    explorer = DotProductExplorer(np.array([1, 2]), (3.5, -1))
    assert (explorer.a, explorer.b) == ([1.0, 2.0], [3.5, -1.0])
    explorer.b = np.array([0.25, 4.0], dtype=np.float32)
    assert explorer.b == [0.25, 4.0]


@pytest.mark.parametrize(
    "wrong, said",
    [
        ([1, 2, 3], "must hold 2 numbers, got 3"),
        ([1, np.nan], "finite"),
        ([1, 2e6], "at most 1e"),
        ("up", "list of 2 numbers"),
        ([[1, 2]], r"shape \(1, 2\)"),
        (["x", 1], "list of 2 numbers"),
    ],
)
def test_what_is_no_arrow_is_refused_with_the_reason(wrong, said):
    with pytest.raises(traitlets.TraitError, match=said):
        DotProductExplorer(a=wrong)


def test_the_picture_for_print_is_a_png():
    assert DotProductExplorer([0, 0], [1, 2])._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    for b in ([3, 1], [-1, 2], [-3, 1]):
        assert faint_texts(load_widget(watched, DotProductExplorer([2, 1], b), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    seen = load_widget(watched, DotProductExplorer([-123.25, 4000], [999999, -0.125]), width=390)
    assert not scrolls_sideways(seen)
    assert small_targets(seen) == []


def test_its_height_stays_while_numbers_change(watched):
    for width in (390, 1280):
        seen = load_widget(watched, DotProductExplorer([2, 1], [0.5, 2]), width=width)
        height = seen.page.locator(".aw").bounding_box()["height"]
        for a, b in [([-3.7, 1.5], [3.2, -3.9]), ([0, 0], [1, 1]), ([-13.5, 18.25], [-12.5, -19.75])]:
            seen.page.evaluate("([a, b]) => { model.set('a', a); model.set('b', b); }", [a, b])
            seen.page.wait_for_timeout(150)  # the summary follows a little later
            assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(height, abs=0.5)
