"""The softmax explorer: its numbers against PyTorch and NumPy's float16, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import SoftmaxExplorer
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, scrolls_sideways, small_targets

_rng = np.random.default_rng(21)
FIXTURES = [
    {"scores": [2.0, 1.0, 0.1], "temperature": 1.0, "shift": 0.0},
    {"scores": [8.5, 42.0, 3.2, 42.0], "temperature": 1.0, "shift": 0.0},  # saturated
    {"scores": [11.0, 11.0], "temperature": 1.0, "shift": 0.0},  # each exponential fits float16, the sum does not
    {"scores": [1000.0, 999.0, -1000.0], "temperature": 0.05, "shift": 1000.0},
    {"scores": [-30.0, -31.0, -40.0], "temperature": 1.0, "shift": 0.0},  # every exponential is 0 in float16
    {"scores": [-9.0, -9.5, -16.0, -17.3], "temperature": 1.0, "shift": 0.0},  # subnormal float16 numbers
] + [
    {"scores": _rng.normal(scale=scale, size=n).tolist(), "temperature": temperature, "shift": shift}
    for n, scale, temperature, shift in [
        (2, 1, 1.0, 3.5),
        (3, 4, 0.3, -2.0),
        (5, 2, 5.0, 11.0),
        (7, 6, 1.7, 0.25),
        (8, 0.1, 20.0, -20.0),
    ]
]


def value(seen, name):
    return seen.page.locator(f"[data-value={name}]").inner_text()


def weights(seen):
    count = seen.page.locator(".sm-rows .sm-row").count()
    return [float(value(seen, f"weight-{i}").replace("−", "-")) for i in range(count)]


def state(seen, name):
    return seen.page.evaluate("(name) => model.get(name)", name)


def saved(seen, name):
    return seen.page.evaluate("(name) => model.saved[name]", name)


def half_cells(seen, kind):
    """The numbers of a float16 table, row by row: z, exponential, weight; last the sum."""
    rows = seen.page.locator(f"[data-half={kind}] tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


# Numbers


def test_weights_agree_with_pytorch(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    for fixture in FIXTURES:
        scaled = torch.tensor(fixture["scores"], dtype=torch.float64) / fixture["temperature"]
        assert evaluate_compute(seen, fixture)["weights"] == pytest.approx(scaled.softmax(-1).tolist(), abs=1e-6)


def test_entropy_agrees_with_pytorch_in_nats_and_bits(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        logits = torch.tensor(fixture["scores"], dtype=torch.float64) / fixture["temperature"]
        nats = torch.distributions.Categorical(logits=logits).entropy().item()
        n = len(fixture["scores"])
        assert found["entropyNats"] == pytest.approx(nats, abs=1e-6)
        assert found["entropyBits"] == pytest.approx(nats / math.log(2), abs=1e-6)
        assert found["choices"] == pytest.approx(math.exp(nats), abs=1e-6)
        assert (found["maximumNats"], found["maximumBits"]) == pytest.approx((math.log(n), math.log2(n)), abs=1e-12)


def test_a_shift_changes_no_weight_beyond_rounding(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    for fixture in FIXTURES:
        assert evaluate_compute(seen, fixture)["largestChange"] < 1e-12


def in_float16(z):
    """Softmax without precaution, one float16 operation after the other."""
    exponentials = np.exp(z.astype(np.float64)).astype(np.float16)
    total = exponentials[0]
    for exponential in exponentials[1:]:
        total = np.float16(total + exponential)
    return exponentials, total, exponentials / total


@np.errstate(all="ignore")
def test_float16_agrees_with_numpy_step_by_step(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)["half"]
        z = ((np.array(fixture["scores"]) + fixture["shift"]) / fixture["temperature"]).astype(np.float16)
        for kind, start in [("plain", z), ("subtracted", z - z.max())]:
            assert start.dtype == np.float16
            exponentials, total, shares = in_float16(start)
            assert found[kind]["scores"] == start.tolist()
            assert found[kind]["exponentials"] == exponentials.tolist()
            assert found[kind]["total"] == float(total)
            np.testing.assert_array_equal(np.array(found[kind]["weights"], dtype=float), shares.astype(float))


def test_rounding_to_float16_agrees_with_numpy_at_its_edges(watched):
    edges = [
        65504.0,
        65519.99,
        65520.0,
        -65520.0,
        2049.0,
        2051.0,
        -2051.0,
        1.00048828125,
        1.0014648437,
        6.1e-5,
        6e-8,
        2.0**-25,
        2.99e-8,
        0.0,
    ]
    seen = load_widget(watched, SoftmaxExplorer())
    for a, b in zip(edges, edges[1:]):
        found = evaluate_compute(seen, {"scores": [a, b], "temperature": 1, "shift": 0})["half"]["plain"]["scores"]
        with np.errstate(over="ignore"):
            assert found == np.array([a, b]).astype(np.float16).tolist()


# What is shown


def test_bars_are_as_long_as_their_weights(watched):
    seen = load_widget(watched, SoftmaxExplorer([3, 1]), reduced_motion="reduce")
    lane, bar = (seen.page.locator(f".sm-row .sm-{part}").first.bounding_box()["width"] for part in ("lane", "bar"))
    assert bar / lane == pytest.approx(torch.tensor([3.0, 1.0]).softmax(0)[0].item(), abs=0.01)
    assert weights(seen) == [0.881, 0.119]


def test_overflow_is_shown_as_numpy_prints_it(watched):
    seen = load_widget(watched, SoftmaxExplorer([12, 11, 3]))
    rows = [["12", "inf", "nan"], ["11", "59870", "0"], ["3", "20.08", "0"], ["", "inf", ""]]
    assert half_cells(seen, "plain") == rows
    assert "inf / inf is nan" in value(seen, "plain-verdict")
    assert "nan" not in " ".join(sum(half_cells(seen, "subtracted"), []))
    assert "gives nan" in seen.page.locator(".aw-summary").inner_text()


@pytest.mark.parametrize(
    "scores, verdict", [([11, 11], "divided by inf"), ([-30, -31], "0 / 0 is nan"), ([1, 2], "Everything fits")]
)
def test_the_verdict_names_what_happens_in_float16(watched, scores, verdict):
    assert verdict in value(load_widget(watched, SoftmaxExplorer(scores)), "plain-verdict")


def test_names_are_shown_and_missing_ones_counted(watched):
    seen = load_widget(watched, SoftmaxExplorer([1, 3], labels=["the", "cat"]))
    assert seen.page.locator(".sm-rows .sm-name").all_inner_texts() == ["the", "cat"]
    assert "“cat”" in seen.page.locator(".aw-summary").inner_text()
    seen.page.evaluate("() => model.set('scores', [1, 3, 2])")
    assert seen.page.locator(".sm-rows .sm-name").all_inner_texts() == ["the", "cat", "score 3"]


def test_the_summary_is_announced_politely(watched):
    summary = load_widget(watched, SoftmaxExplorer([2, 1, 0.1])).page.locator(".aw-summary")
    assert summary.get_attribute("aria-live") == "polite"
    assert "0.659" in summary.inner_text() and "0.85 of at most 1.10 nats" in summary.inner_text()


# Controls


def test_a_score_field_sets_its_score(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 0]))
    seen.page.get_by_label("Score of score 2", exact=True).fill("-3.5")
    assert state(seen, "scores") == [2, -3.5, 0] == saved(seen, "scores")
    assert weights(seen)[1] == pytest.approx(torch.tensor([2, -3.5, 0]).softmax(0)[1].item(), abs=5e-4)
    seen.assert_clean()


def test_up_and_down_step_a_score_field(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1]))
    seen.page.locator("[data-field=score-0]").press("ArrowUp")
    seen.page.locator("[data-field=score-1]").press("Shift+ArrowDown")
    assert state(seen, "scores") == [2.1, 0]


def test_a_score_slider_moves_by_keyboard_and_by_pointer(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1]))
    slider = seen.page.locator("[data-slider=score-1]")
    slider.press("ArrowRight")
    assert state(seen, "scores") == [2, 1.1] == saved(seen, "scores")
    box = slider.bounding_box()
    seen.page.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert state(seen, "scores")[1] == 10


@pytest.mark.parametrize("typed", ["many", "", "1001", "nan"])
def test_what_is_no_usable_score_is_marked_and_changes_nothing(watched, typed):
    seen = load_widget(watched, SoftmaxExplorer([2, 1]))
    field = seen.page.locator("[data-field=score-0]")
    field.fill(typed)
    assert field.get_attribute("aria-invalid") == "true"
    assert state(seen, "scores") == [2, 1]
    field.blur()
    assert (field.input_value(), field.get_attribute("aria-invalid")) == ("2", "false")


def test_scores_are_added_up_to_eight_and_the_focus_goes_to_the_new_one(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 0.5, 0.25, 3, 1], labels=list("abcdef")))
    add = seen.page.get_by_role("button", name="Add a score")
    add.press("Enter")
    assert seen.page.evaluate("() => document.activeElement.dataset.field") == "score-6"
    add.press("Enter")
    assert state(seen, "scores") == [2, 1, 0.5, 0.25, 3, 1, 0, 0] == saved(seen, "scores")
    assert state(seen, "labels") == [*"abcdef", "score 7", "score 8"]
    assert add.is_disabled()
    assert sum(weights(seen)) == pytest.approx(1, abs=0.004)


def test_scores_are_removed_down_to_two_with_their_names(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 0, 4], labels=["the", "cat", "sat", "down"]))
    seen.page.get_by_role("button", name="Remove cat").press("Enter")
    assert seen.page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Remove sat"
    seen.page.keyboard.press("Enter")
    assert (state(seen, "scores"), state(seen, "labels")) == ([2, 4], ["the", "down"])
    assert saved(seen, "scores") == [2, 4]
    assert seen.page.locator(".sm-remove:disabled").count() == 2


def test_the_temperature_slider_is_logarithmic(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    slider = seen.page.locator("[data-slider=temperature]")
    slider.press("Home")
    assert state(seen, "temperature") == 0.05 == saved(seen, "temperature")
    assert weights(seen)[0] == 1
    box = slider.bounding_box()
    seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert state(seen, "temperature") == pytest.approx(1, abs=0.1)  # the middle of 1/20 and 20
    slider.press("End")
    assert state(seen, "temperature") == pytest.approx(20, rel=0.02)
    assert max(weights(seen)) - min(weights(seen)) < 0.05


def test_each_key_press_moves_the_temperature_slider_on(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    seen.page.locator("[data-slider=temperature]").focus()
    found = [1.0]
    for _ in range(12):
        seen.page.keyboard.press("ArrowRight")
        found.append(state(seen, "temperature"))
    assert found == sorted(set(found))
    assert seen.page.locator("[data-slider=temperature]").get_attribute("aria-valuetext") == f"{found[-1]:g}"


def test_the_temperature_field_sets_it_and_refuses_zero(watched):
    seen = load_widget(watched, SoftmaxExplorer([3, 1]))
    field = seen.page.get_by_label("Temperature", exact=True)
    field.fill("0.5")
    assert weights(seen) == [0.982, 0.018]
    field.fill("0")
    assert (field.get_attribute("aria-invalid"), state(seen, "temperature")) == ("true", 0.5)


def test_the_shift_moves_float16_and_no_weight(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 0.1]))
    before = weights(seen)
    seen.page.locator("[data-slider=shift]").press("End")
    assert state(seen, "shift") == 20 == saved(seen, "shift")
    assert weights(seen) == before
    assert half_cells(seen, "plain")[0] == ["22", "inf", "nan"]
    assert half_cells(seen, "subtracted")[0][0] == "0"
    seen.page.get_by_label("Add to every score", exact=True).fill("-7.5")
    assert state(seen, "shift") == -7.5


def test_start_again_brings_everything_back(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 4], labels=["x", "y", "z"], temperature=2))
    seen.page.locator("[data-slider=shift]").press("End")
    seen.page.locator("[data-slider=temperature]").press("Home")
    seen.page.get_by_role("button", name="Remove y").click()
    seen.page.get_by_role("button", name="Start again").click()
    found = [state(seen, name) for name in ("scores", "labels", "temperature", "shift")]
    assert found == [[2, 1, 4], ["x", "y", "z"], 2, 0]


def test_every_control_is_reached_with_the_tab_key(watched):
    seen = load_widget(watched, SoftmaxExplorer([2, 1, 4]))
    controls = seen.page.locator(".aw :is(input, button):enabled").count()
    reached = set()
    for _ in range(controls):
        seen.page.keyboard.press("Tab")
        label = "() => document.activeElement.ariaLabel ?? document.activeElement.textContent"
        reached.add(seen.page.evaluate(label))
    assert len(reached) == controls == 3 * 3 + 2 + 4


# Model


def test_traits_set_from_python_are_drawn(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    for name, new in [("scores", [1, 1, 1, 1]), ("temperature", 3), ("shift", 2)]:
        seen.page.evaluate("([name, value]) => model.set(name, value)", [name, new])
    assert weights(seen) == [0.25] * 4
    assert (value(seen, "nats"), value(seen, "bits")) == ("1.386", "2.000")
    assert seen.page.get_by_label("Temperature", exact=True).input_value() == "3"


def test_leaving_takes_drawing_and_listeners_away(watched):
    seen = load_widget(watched, SoftmaxExplorer())
    left = seen.page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])")
    assert left == [0, 0]


def test_arrays_lists_and_tuples_are_taken():
    explorer = SoftmaxExplorer(np.array([1, 2, 3]), labels=("a", "b", "c"), temperature=2)
    assert (explorer.scores, explorer.labels, explorer.temperature) == ([1.0, 2.0, 3.0], ["a", "b", "c"], 2.0)
    explorer.scores = np.array([0.5, 0.25], dtype=np.float32)
    assert explorer.scores == [0.5, 0.25]


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"scores": [1]}, "2 to 8 numbers, got 1"),
        ({"scores": range(9)}, "2 to 8 numbers, got 9"),
        ({"scores": [1, math.inf]}, "finite"),
        ({"scores": [1, "b"]}, "list of 2 to 8 numbers"),
        ({"scores": [1, 2], "labels": ["a"]}, "each of the 2 scores, got 1"),
        ({"temperature": 0}, "between 0.05 and 20, got 0"),
        ({"temperature": math.nan}, "got nan"),
        ({"shift": 1e4}, "shift must lie"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(wrong, said):
    with pytest.raises(traitlets.TraitError, match=said):
        SoftmaxExplorer(**wrong)


def test_the_picture_for_print_is_a_png():
    explorer = SoftmaxExplorer([1000, -1000, 0], labels=["a", "b", "c"], temperature=0.05)
    assert explorer._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, SoftmaxExplorer([12, 1, -4]), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    names = ["announcement of the record", "cat", "sat"]
    seen = load_widget(watched, SoftmaxExplorer([-1000, 999.125, 12.3456], labels=names, shift=-123.456), width=390)
    assert not scrolls_sideways(seen)
    assert small_targets(seen) == []


def test_its_height_stays_while_numbers_change(watched):
    for width in (390, 1280):
        seen = load_widget(watched, SoftmaxExplorer(), width=width)
        height = seen.page.locator(".aw").bounding_box()["height"]
        for scores, shift in [([12, 11, 3], 0), ([-700, 11.5, 900.25], 100), ([11, 11, 11], 0), ([1, 2, 3], -40)]:
            seen.page.evaluate("([x, c]) => { model.set('scores', x); model.set('shift', c); }", [scores, shift])
            seen.page.wait_for_timeout(150)  # the summary follows a little later
            assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(height, abs=0.5)


def test_bars_do_not_glide_where_motion_is_unwanted(watched):
    seen = load_widget(watched, SoftmaxExplorer(), reduced_motion="reduce")
    assert seen.page.locator(".sm-bar").first.evaluate("(bar) => getComputedStyle(bar).transitionDuration") == "0s"
