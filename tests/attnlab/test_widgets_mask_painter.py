"""The mask painter: its weights and leaks against PyTorch, and each way to paint in a browser."""

import math

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import MaskPainter
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, scrolls_sideways, small_targets

WORDS = "The CEO announced record earnings on Friday".split()
_rng = np.random.default_rng(41)
FILLS = {"-inf": -math.inf, "-1e9": -1e9, "-10": -10.0}
FIXTURES = [
    {
        "scores": _rng.normal(scale=scale, size=(n, n)).tolist(),
        "mask": (_rng.random((n, n)) < chance).tolist(),
        "fill": fill,
    }
    for n, scale, chance, fill in [
        (2, 1, 0.5, "-inf"),
        (3, 2, 0.3, "-inf"),
        (5, 4, 0.6, "-1e9"),
        (7, 1, 0.5, "-10"),
        (7, 9, 0.2, "-inf"),
        (10, 2, 0.7, "-10"),
    ]
]
FIXTURES += [
    {"scores": [[1.0, 2.0], [3.0, 4.0]], "mask": [[False, False], [False, False]], "fill": "-inf"},  # all rows empty
    {"scores": [[1.0, 2.0], [3.0, 4.0]], "mask": [[False, False], [False, True]], "fill": "-1e9"},
    {"scores": [[1000.0, -1000.0], [-1000.0, 1000.0]], "mask": [[True, True], [True, True]], "fill": "-inf"},
    {"scores": [[-20.0, -20.0], [0.0, 0.0]], "mask": [[True, False], [True, True]], "fill": "-10"},  # fill wins
]


def painter(n=7, **options):
    scores = np.random.default_rng(5).normal(size=(n, n)) * 1.5
    return MaskPainter((WORDS + ["and", "left", "."])[:n], scores, **options)


def softmax(scores, mask, fill):
    filled = torch.tensor(scores, dtype=torch.float64).masked_fill(~torch.tensor(mask), FILLS[fill])
    return filled.softmax(-1).nan_to_num(0.0).numpy()  # only a row of minus infinities is nan


def state(seen, name):
    return seen.page.evaluate("(name) => model.get(name)", name)


def saved(seen, name):
    return seen.page.evaluate("(name) => model.saved[name]", name)


def mask_of(seen):
    return np.array(state(seen, "mask"))


def value(seen, name):
    return seen.page.locator(f"[data-value={name}]").inner_text()


def cell(seen, i, j):
    return seen.page.locator(f"[data-cell='{i}-{j}']")


def middle(seen, i, j):
    box = cell(seen, i, j).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def go(seen, name):
    seen.page.locator(f"[data-go={name}]").click()


# Numbers


def test_weights_agree_with_pytorch_and_empty_rows_are_zero(watched):
    seen = load_widget(watched, painter())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        expected = softmax(**fixture)
        np.testing.assert_allclose(found["weights"], expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found["sums"], expected.sum(1), rtol=0, atol=1e-12)


def test_the_python_weights_agree_with_those_on_the_page():
    for fixture in FIXTURES:
        widget = MaskPainter([f"t{i}" for i in range(len(fixture["scores"]))], **fixture)
        np.testing.assert_allclose(widget.weights, softmax(**fixture), rtol=0, atol=1e-12)


def test_counts_and_empty_rows_agree_with_numpy(watched):
    seen = load_widget(watched, painter())
    for fixture in FIXTURES:
        found, mask = evaluate_compute(seen, fixture), np.array(fixture["mask"])
        assert found["count"] == mask.sum()
        assert found["empty"] == np.flatnonzero(~mask.any(1)).tolist()


def test_the_leak_is_what_lies_above_the_diagonal(watched):
    seen = load_widget(watched, painter())
    for fixture in FIXTURES:
        leak, mask, weights = evaluate_compute(seen, fixture)["leak"], np.array(fixture["mask"]), softmax(**fixture)
        n = len(mask)
        future = np.triu(weights, 1)
        assert (leak["cells"], leak["of"]) == (np.triu(mask, 1).sum(), n * (n - 1) // 2)
        assert leak["largest"] == pytest.approx(future.max(), abs=1e-12)
        if leak["largest"] > 0:
            assert future[leak["query"], leak["key"]] == pytest.approx(future.max(), abs=1e-12)
        answers = [i for i in range(n - 1) if mask[i, i + 1] or weights[i, i + 1] > 0]
        assert leak["answers"] == answers


# Presets


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"preset": "causal"}, np.tri(7)),
        ({"preset": "full"}, np.ones((7, 7))),
        ({"preset": "padding", "length": 4}, np.ones((7, 1)) * (np.arange(7) < 4)),
        ({"preset": "window", "window": 3}, np.tri(7) - np.tri(7, k=-3)),
        ({"preset": "window", "window": 1}, np.eye(7)),
    ],
)
def test_a_preset_gives_its_mask_in_python_and_on_the_page(watched, options, expected):
    assert np.array_equal(painter(**options).mask, expected.astype(bool))
    seen = load_widget(watched, painter(mask=np.triu(np.ones((7, 7), dtype=bool), 1)))
    if number := {name: size for name, size in options.items() if name != "preset"}:
        [(name, size)] = number.items()
        seen.page.evaluate("([name, size]) => model.set(name, size)", [name, size])
    go(seen, options["preset"])
    assert np.array_equal(mask_of(seen), expected.astype(bool))
    assert state(seen, "preset") == saved(seen, "preset") == options["preset"]
    assert seen.page.locator("button[aria-pressed=true]").get_attribute("data-go") == options["preset"]


def test_the_causal_mask_of_seven_tokens_allows_28_of_49_cells(watched):
    assert value(load_widget(watched, painter()), "count") == "28 of 49 cells allowed"


def test_a_slider_sets_its_number_and_its_preset(watched):
    seen = load_widget(watched, painter())
    seen.page.locator("[data-slider=length]").press("Home")
    assert (state(seen, "preset"), state(seen, "length"), mask_of(seen).sum()) == ("padding", 0, 0)
    seen.page.locator("[data-slider=length]").press("End")
    assert mask_of(seen).all()
    seen.page.locator("[data-slider=window]").press("ArrowRight")
    assert (state(seen, "preset"), saved(seen, "window")) == ("window", 3)
    assert (value(seen, "window"), value(seen, "title")) == ("3", "Sliding window, 3 tokens wide")


def test_a_mask_painted_like_a_preset_is_recognised(watched):
    seen = load_widget(watched, painter(3, preset="full"))
    cell(seen, 0, 1).click()
    assert state(seen, "preset") == "painted"
    cell(seen, 0, 2).click()
    cell(seen, 1, 2).click()
    assert (state(seen, "preset"), value(seen, "title")) == ("causal", "Causal mask")


# Painting


def test_a_click_turns_a_cell_over_and_its_row_is_shared_out_anew(watched):
    seen = load_widget(watched, painter(3))
    cell(seen, 1, 2).click()
    assert mask_of(seen)[1].tolist() == [True, True, True] == saved(seen, "mask")[1]
    expected = softmax(state(seen, "scores"), state(seen, "mask"), "-inf")
    texts = seen.page.locator(".mp-cell").all_inner_texts()
    assert [float(text or 0) for text in texts] == pytest.approx(expected.ravel(), abs=0.0051)
    cell(seen, 1, 2).click()
    assert np.array_equal(mask_of(seen), np.tri(3))
    seen.assert_clean()


def test_a_drag_paints_every_cell_it_meets_with_the_opposite_of_the_first(watched):
    seen = load_widget(watched, painter())
    seen.page.mouse.move(*middle(seen, 0, 1))
    seen.page.mouse.down()
    seen.page.mouse.move(*middle(seen, 0, 6), steps=2)  # quick: leaves no gaps
    seen.page.mouse.move(*middle(seen, 4, 6), steps=2)
    seen.page.mouse.up()
    mask = mask_of(seen)
    assert mask[0].all() and mask[:5, 6].all() and mask.sum() == 28 + 6 + 4
    seen.page.mouse.move(*middle(seen, 6, 0))  # the button is up: nothing is painted
    assert np.array_equal(mask_of(seen), mask)


def touch(seen, *places):
    """A finger that comes down at the first place, goes through the others, and leaves."""
    session = seen.page.context.new_cdp_session(seen.page)
    points = [[{"x": x, "y": y}] for x, y in places]
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points[0]})
    for point in points[1:]:
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": point})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    seen.page.wait_for_timeout(100)


def test_a_finger_paints_by_tapping_and_by_dragging_sideways(watched):
    seen = load_widget(watched, painter(), width=390, height=600, has_touch=True, is_mobile=True)
    touch(seen, middle(seen, 2, 3))
    assert mask_of(seen)[2, 3] and mask_of(seen).sum() == 29
    (x0, y), (x1, _) = middle(seen, 0, 1), middle(seen, 0, 6)
    touch(seen, (x0, y), *[(x0 + (x1 - x0) * part / 5, y) for part in range(1, 6)])
    assert mask_of(seen)[0].all() and mask_of(seen).sum() == 29 + 6


def test_a_finger_that_scrolls_the_page_paints_nothing(watched):
    seen = load_widget(watched, painter(), width=390, height=600, has_touch=True, is_mobile=True)
    x, y = middle(seen, 6, 3)
    touch(seen, *[(x, y - 25 * step) for step in range(9)])
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("scrollY") > 50
    assert np.array_equal(mask_of(seen), np.tri(7))


def test_the_keyboard_moves_and_paints(watched):
    seen = load_widget(watched, painter(4))
    cell(seen, 0, 0).focus()
    for key in ("ArrowRight", "ArrowRight", "Space"):
        seen.page.keyboard.press(key)
    assert mask_of(seen)[0].tolist() == [True, False, True, False]
    seen.page.keyboard.press("Shift+ArrowDown")  # paints on with what the cell it leaves is
    assert mask_of(seen)[1].tolist() == [True, True, True, False]
    seen.page.keyboard.press("Control+End")
    seen.page.keyboard.press("Enter")
    assert not mask_of(seen)[3, 3] and np.array_equal(saved(seen, "mask"), mask_of(seen))
    seen.page.keyboard.press("ArrowDown")  # the border stops
    assert seen.page.evaluate("document.activeElement.dataset.cell") == "3-3"


def test_the_grid_is_one_stop_of_the_tab_key(watched):
    seen = load_widget(watched, painter(4))
    cell(seen, 2, 1).click()
    assert seen.page.locator(".mp-cell[tabindex='0']").get_attribute("data-cell") == "2-1"
    reached = []
    seen.page.locator("[data-go=causal]").focus()
    for _ in range(8):
        seen.page.keyboard.press("Tab")
        reached.append(seen.page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == ["full", "window", "window", "padding", "length", "2-1", "clear", "flip"]


def test_all_cells_are_masked_flipped_and_brought_back(watched):
    start = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], dtype=bool)
    seen = load_widget(watched, painter(3, mask=start, fill="-10"))
    go(seen, "flip")
    assert np.array_equal(mask_of(seen), ~start)
    go(seen, "clear")
    assert not mask_of(seen).any()
    seen.page.locator("[data-slider=length]").press("Home")
    seen.page.locator("[data-go=fill]").select_option("-inf")
    go(seen, "reset")
    found = [state(seen, name) for name in ("mask", "preset", "length", "window", "fill")]
    assert found == [start.tolist(), "painted", 2, 2, "-10"]


# Leaks


def test_the_meter_is_honest_about_a_causal_mask(watched):
    seen = load_widget(watched, painter())
    assert value(seen, "verdict") == "Honest: no token reads a later one."
    assert [value(seen, f"leak-{name}") for name in ("cells", "largest", "answers")] == ["0 of 21", "0", "0 of 6"]
    assert seen.page.locator(".mp-level").bounding_box()["width"] == 0


def test_the_meter_names_who_cheats(watched):
    seen = load_widget(watched, painter(), reduced_motion="reduce")
    cell(seen, 1, 2).click()
    weight = softmax(state(seen, "scores"), state(seen, "mask"), "-inf")[1, 2]
    assert value(seen, "verdict") == f"Cheating: “CEO” reads “announced”, which comes later, with weight {weight:.2f}."
    assert value(seen, "leak-answers") == "1 of 6: “CEO”"
    assert value(seen, "reading").endswith("That is the very token it has to predict.")
    track, level = (seen.page.locator(f".mp-{part}").bounding_box()["width"] for part in ("track", "level"))
    assert level / track == pytest.approx(weight, abs=0.01)
    cell(seen, 3, 5).click()
    assert value(seen, "leak-cells") == "2 of 21" and value(seen, "leak-answers") == "1 of 6: “CEO”"


def test_a_finite_fill_leaks_through_a_causal_mask(watched):
    seen = load_widget(watched, painter())
    seen.page.locator("[data-go=fill]").select_option("-10")
    weights = np.triu(softmax(state(seen, "scores"), state(seen, "mask"), "-10"), 1)
    assert 0 < weights.max() < 0.01
    assert value(seen, "verdict").startswith("Leaking: with fill −10, ")
    assert float(value(seen, "leak-largest")) == pytest.approx(weights.max(), rel=0.06)
    assert value(seen, "leak-cells") == "0 of 21" and value(seen, "leak-answers").startswith("6 of 6")
    assert cell(seen, 0, 6).inner_text() == ">0"
    assert saved(seen, "fill") == "-10"


def test_an_empty_row_reads_nothing_and_with_a_finite_fill_everything_alike(watched):
    mask = np.tri(4).astype(bool)
    mask[2] = False
    seen = load_widget(watched, painter(4, mask=mask))
    assert seen.page.locator("[data-note]").all_inner_texts() == ["", "", "empty row: this token reads nothing", ""]
    assert seen.page.locator("[data-sum]").all_inner_texts() == ["1", "1", "0", "1"]
    assert "Empty row: “announced” reads nothing." in seen.page.locator(".aw-summary").inner_text()
    for fill in ("-1e9", "-10"):
        seen.page.locator("[data-go=fill]").select_option(fill)
        assert [cell(seen, 2, j).inner_text() for j in range(4)] == ["0.25"] * 4
        assert seen.page.locator("[data-note]").all_inner_texts() == [""] * 4
        assert seen.page.locator("[data-sum]").all_inner_texts() == ["1"] * 4
    cell(seen, 2, 0).hover()
    assert value(seen, "reading") == "Nothing is allowed for “announced”: all scores are −10, so each weight is 0.25."


def test_tokens_of_one_name_are_told_apart(watched):
    seen = load_widget(watched, MaskPainter(["the", "cat", "the"], np.zeros((3, 3)), preset="full"))
    assert "“the₀” reads “the₂”" in cell(seen, 0, 2).get_attribute("aria-label")


def test_the_summary_is_announced_politely(watched):
    seen = load_widget(watched, painter())
    summary = seen.page.locator(".aw-summary")
    assert summary.get_attribute("aria-live") == "polite"
    assert summary.inner_text() == "Causal mask: 28 of 49 cells allowed. Honest: no token reads a later one."
    go(seen, "clear")
    seen.page.wait_for_timeout(200)
    assert "Empty rows: “The”, “CEO”, “announced” and 4 more read nothing." in summary.inner_text()


# Model


def test_traits_set_from_python_are_drawn(watched):
    seen = load_widget(watched, painter(3))
    seen.page.evaluate("() => { model.set('scores', [[0, 0, 0], [0, 0, 0], [0, 0, 0]]); }")
    assert cell(seen, 2, 0).inner_text() == "0.33"
    seen.page.evaluate("() => { model.set('mask', [[true, true, true], [true, false, false], [false, true, true]]); }")
    assert value(seen, "count") == "6 of 9 cells allowed"


def test_leaving_takes_drawing_and_listeners_away(watched):
    seen = load_widget(watched, painter())
    left = seen.page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])")
    assert left == [0, 0]


def test_arrays_lists_and_tensors_are_taken():
    lists = [[True, False], [True, True]]
    for mask in (lists, np.array(lists), torch.tensor(lists), np.array(lists).astype(int)):
        widget = MaskPainter(["a", "b"], torch.zeros(2, 2), mask)
        assert (widget.mask, widget.preset, widget.scores) == (lists, "causal", [[0.0, 0.0], [0.0, 0.0]])
    padding = np.array([[True, True, False]])
    assert MaskPainter(["a", "b", "c"], np.zeros((3, 3)), padding).mask == [[True, True, False]] * 3
    assert MaskPainter(["a", "b"], np.zeros((2, 2)), fill=-math.inf, length=np.int64(1)).fill == "-inf"


def test_mask_and_preset_follow_each_other_in_python():
    widget = painter(5)
    widget.mask = np.eye(5, dtype=bool)
    assert (widget.preset, widget.window) == ("window", 1)
    widget.mask = np.eye(5, dtype=bool)[::-1]
    assert widget.preset == "painted"
    widget.preset = "padding"
    assert np.array(widget.mask).sum() == 5 * 4
    widget.length = 2
    assert np.array(widget.mask).sum() == 5 * 2
    widget.set_state({"preset": "painted", "mask": [[False] * 5] * 5})  # as the page sends it
    assert (widget.preset, np.array(widget.mask).sum()) == ("painted", 0)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"scores": np.zeros((3, 2))}, r"\(n, n\).*\(3, 2\)"),
        ({"scores": np.zeros(3)}, r"\(n, n\)"),
        ({"scores": np.zeros((2, 2))}, r"\(3, 3\) for 3 tokens; the shape is \(2, 2\)|name the 2 rows"),
        ({"scores": np.full((3, 3), -np.inf)}, "finite"),
        ({"scores": [["a"] * 3] * 3}, "array of numbers"),
        ({"mask": np.ones((2, 2), dtype=bool)}, r"mask must be \(3, 3\)"),
        ({"mask": np.zeros((3, 3))}, "must be boolean"),
        ({"mask": [[True]]}, r"mask must be \(3, 3\)"),
        ({"mask": np.ones((1, 3, 3), dtype=bool)}, "mask must be"),
        ({"preset": "casual"}, "preset must be one of causal"),
        ({"length": 4}, "length must lie between 0 and 3"),
        ({"window": 0}, "window must lie between 1 and 3"),
        ({"window": 1.5}, "window"),
        ({"fill": "-5"}, "fill"),
        ({"tokens": "abc"}, "one string"),
        ({"tokens": list("abcdefghijk"), "scores": np.zeros((11, 11))}, "2 to 10 tokens"),
        ({"tokens": ["a"], "scores": [[0]]}, "2 to 10 tokens"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(wrong, said):
    with pytest.raises(traitlets.TraitError, match=said):
        MaskPainter(**{"tokens": ["a", "b", "c"], "scores": np.zeros((3, 3)), **wrong})


def test_the_picture_for_print_is_a_png():
    mask = np.zeros((4, 4), dtype=bool)
    mask[1, 2] = True
    for widget in (painter(), painter(4, mask=mask), painter(4, mask=mask, fill="-10")):
        assert widget._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("options", [dict(preset="full"), dict(preset="padding", length=0), dict(fill="-10")])
def test_every_text_can_be_read(watched, theme, options):
    assert faint_texts(load_widget(watched, painter(**options), theme=theme)) == []


def test_a_phone_shows_ten_tokens_without_scrolling_sideways_and_fingers_hit_the_cells(watched):
    for width in (360, 390):
        names = [f"announcement {i}" for i in range(10)]
        seen = load_widget(watched, MaskPainter(names, np.zeros((10, 10)), preset="full"), width=width)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []
        assert min(cell(seen, 9, 9).bounding_box()[side] for side in ("width", "height")) >= 24


def test_its_height_is_the_one_reserved_and_stays_while_masks_change(watched):
    for width, n in [(390, 3), (390, 7), (390, 10), (1280, 3), (1280, 7), (1280, 10)]:
        widget = painter(n)
        seen = load_widget(watched, widget, width=width)
        reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
        for name in ("full", "clear", "causal", "flip", "padding"):
            go(seen, name)
            for fill in FILLS:
                seen.page.locator("[data-go=fill]").select_option(fill)
                seen.page.wait_for_timeout(130)  # the summary follows a little later
                assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=12)


def test_the_bar_does_not_glide_where_motion_is_unwanted(watched):
    seen = load_widget(watched, painter(), reduced_motion="reduce")
    assert seen.page.locator(".mp-level").evaluate("(bar) => getComputedStyle(bar).transitionDuration") == "0s"
