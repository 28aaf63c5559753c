"""The alignment viewer: shares and context are NumPy's, every weight can be moved, and no total of zero breaks it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import traitlets
from torch.nn import functional as F

from attnlab.widgets import AlignmentViewer
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets

SOURCE = ["le", "chat", "noir", "le"]
TARGET = ["the", "black", "cat"]
WEIGHTS = [[0.5, 0.125, 0.125, 0.25], [0, 0.25, 0.75, 0], [0.125, 0.75, 0.125, 0]]
VALUES = [[1, 0], [0, 2], [-2, 0.5], [3, -1]]


def softmaxed(seed, n_t, n_s, d_v):
    """Random weights and values; weights are the softmax of PyTorch, in float64."""
    generator = torch.Generator().manual_seed(seed)
    scores, values = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((n_t, n_s), (n_s, d_v))
    )
    return F.softmax(2 * scores, dim=-1).numpy(), values.numpy()


def viewer(**options):
    return AlignmentViewer(**{**dict(source=SOURCE, target=TARGET, weights=WEIGHTS, values=VALUES), **options})


def slider(page, j):
    return page.locator(f"[data-slider='slider-{j}']")


def pick(page, i):
    return page.locator(f"[data-target='target-{i}']")


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def shares(page):
    return page.locator(".al-share").all_inner_texts()


def vector(page, name):
    texts = page.locator(f"[data-value^='{name}-']").all_inner_texts()
    return [float(text.replace("−", "-")) for text in texts]


# The numbers


@pytest.mark.browser
@pytest.mark.parametrize("seed, n_t, n_s, d_v", [(1, 3, 5, 2), (2, 14, 13, 8), (3, 1, 2, 3), (4, 4, 1, 1)])
def test_compute_agrees_with_pytorch(watched, seed, n_t, n_s, d_v):
    weights, values = softmaxed(seed, n_t, n_s, d_v)
    settings = np.random.default_rng(seed).uniform(size=(n_t, n_s))
    settings[0] = weights[0]
    seen = load_widget(watched, viewer())
    for query in {0, n_t - 1}:
        got = evaluate_compute(
            seen, dict(weights=weights.tolist(), values=values.tolist(), settings=settings.tolist(), query=query)
        )
        expected = F.normalize(torch.tensor(settings), p=1, dim=-1).numpy()
        np.testing.assert_allclose(got["shares"], expected, rtol=1e-12)
        np.testing.assert_allclose(got["totals"], settings.sum(-1), rtol=1e-12)
        np.testing.assert_allclose(got["recorded"], weights[query] @ values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(got["context"], expected[query] @ values, rtol=1e-9, atol=1e-12)
        difference = (expected - weights)[query] @ values
        np.testing.assert_allclose(got["difference"], difference, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(got["distance"], np.linalg.norm(difference), rtol=1e-9, atol=1e-12)
        assert got["largest"] == np.argmax(settings[query])
        assert got["moved"] == [False] + [True] * (n_t - 1)


@pytest.mark.browser
def test_recorded_weights_change_nothing_at_all(watched):
    """Exactly zero, also where the recorded weights do not sum to one to the last bit."""
    weights, values = softmaxed(5, 6, 7, 3)
    weights = weights.astype(np.float32).tolist()
    seen = load_widget(watched, viewer())
    got = evaluate_compute(seen, dict(weights=weights, values=values.tolist(), settings=weights, query=4))
    assert got["difference"] == [0, 0, 0] and got["distance"] == 0


@pytest.mark.browser
@pytest.mark.parametrize("weights, largest", [(WEIGHTS[1], 2), ([0, 0, 0, 0], -1)])
def test_a_total_of_zero_gives_zeros(watched, weights, largest):
    seen = load_widget(watched, viewer())
    got = evaluate_compute(seen, dict(weights=[weights], values=VALUES, settings=[[0, 0, 0, 0]], query=0))
    assert got["shares"] == [[0, 0, 0, 0]] and got["context"] == [0, 0]
    assert got["largest"] == largest


@pytest.mark.browser
def test_pythons_shares_and_context_are_those_of_the_page(watched):
    widget = viewer(query=1)
    widget.settings = [[0.5, 0.5, 0.25, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    seen = load_widget(watched, widget)
    for query in range(3):
        got = evaluate_compute(
            seen, dict(weights=widget.weights, values=widget.values, settings=widget.settings, query=query)
        )
        np.testing.assert_allclose(widget.shares, got["shares"], rtol=1e-15)
        np.testing.assert_allclose(widget.context[query], got["context"], rtol=1e-12)


# The map


@pytest.mark.browser
def test_the_map_shows_the_shares(shown):
    page = shown(viewer())
    assert page.locator(".al-cell").all_inner_texts()[:8] == ["0.50", "0.13", "0.13", "0.25", "", "0.25", "0.75", ""]


@pytest.mark.browser
def test_a_target_token_is_picked_by_pointer_and_by_keyboard(shown):
    page = shown(viewer())
    pick(page, 1).click()
    assert page.evaluate("model.saved.query") == 1
    assert shares(page) == ["0", "0.25", "0.75", "0"]
    page.keyboard.press("ArrowDown")
    assert page.evaluate("model.saved.query") == 2
    assert page.locator(".al-chosen .al-target").inner_text() == "cat"
    page.locator("[data-cell='0-2']").click()
    assert page.evaluate("model.saved.query") == 0


@pytest.mark.browser
def test_pointing_at_a_cell_reads_it_out(shown):
    page = shown(viewer())
    page.locator("[data-cell='1-2']").hover()
    assert page.locator(".al-read").text_content() == "black looks at noir: 0.75"
    page.mouse.move(0, 0)
    assert page.locator(".al-read").text_content() == ""


# Weights to change


@pytest.mark.browser
def test_the_context_is_the_weighted_sum_of_the_values(shown):
    page = shown(viewer(query=2))
    expected = np.array(WEIGHTS[2]) @ VALUES
    np.testing.assert_allclose(vector(page, "context"), expected, atol=0.0051)
    np.testing.assert_allclose(vector(page, "recorded"), expected, atol=0.0051)
    assert page.locator("[data-value^='change-']").all_inner_texts() == ["0", "0"]


@pytest.mark.browser
def test_moving_one_slider_changes_all_shares(shown):
    page = shown(viewer())
    slider(page, 2).fill("1")
    row = np.array([0.5, 0.125, 1, 0.25])
    row /= row.sum()
    assert shares(page) == [f"{weight:.2f}" for weight in row]
    np.testing.assert_allclose(vector(page, "context"), row @ VALUES, atol=0.0051)
    np.testing.assert_allclose(vector(page, "recorded"), np.array(WEIGHTS[0]) @ VALUES, atol=0.0051)
    np.testing.assert_allclose(vector(page, "change"), (row - WEIGHTS[0]) @ VALUES, atol=0.0051)
    assert page.locator(".al-total").text_content() == "Sliders add up to 1.88; share = slider / 1.88."
    assert page.locator(".al-cell").all_inner_texts()[:4] == shares(page)


@pytest.mark.browser
def test_a_slider_moves_with_the_keyboard_and_says_its_share(shown):
    page = shown(viewer())
    slider(page, 3).press("ArrowRight")
    assert page.evaluate("model.saved.settings[0]") == [0.5, 0.125, 0.125, 0.26]
    assert slider(page, 3).get_attribute("aria-label") == "Weight on le₃"
    assert slider(page, 3).get_attribute("aria-valuetext") == "0.26, share 0.26"


@pytest.mark.browser
def test_hard_puts_everything_on_the_largest(shown):
    page = shown(viewer(query=1))
    press(page, "Hard")
    assert shares(page) == ["0", "0", "1.00", "0"]
    assert vector(page, "context") == [-2, 0.5]
    slider(page, 0).fill("0.5")
    press(page, "Hard")
    assert shares(page) == ["0", "0", "1.00", "0"]


@pytest.mark.browser
def test_even_gives_the_mean_of_the_values(shown):
    page = shown(viewer(query=1))
    press(page, "Even")
    assert shares(page) == ["0.25"] * 4
    np.testing.assert_allclose(vector(page, "context"), np.mean(VALUES, axis=0), atol=0.0051)


@pytest.mark.browser
def test_reset_brings_the_recorded_weights_back(shown):
    page = shown(viewer())
    slider(page, 1).fill("0.9")
    assert pick(page, 0).get_attribute("aria-label") == "the, changed"
    press(page, "Reset")
    assert page.evaluate("model.saved.settings") == WEIGHTS
    assert pick(page, 0).get_attribute("aria-label") == "the"
    assert page.locator("[data-value^='change-']").all_inner_texts() == ["0", "0"]


@pytest.mark.browser
def test_another_target_token_keeps_its_own_weights(shown):
    page = shown(viewer())
    press(page, "Hard")
    pick(page, 2).click()
    press(page, "Even")
    pick(page, 1).click()
    assert page.evaluate("model.saved.settings") == [[1, 0, 0, 0], WEIGHTS[1], [0.25] * 4]
    pick(page, 0).click()
    assert shares(page) == ["1.00", "0", "0", "0"]


@pytest.mark.browser
def test_with_all_sliders_at_zero_the_context_is_zero_and_it_says_so(shown):
    page = shown(viewer(query=1))
    slider(page, 1).fill("0")
    slider(page, 2).press("Home")
    assert shares(page) == ["0"] * 4
    assert vector(page, "context") == [0, 0]
    assert page.locator(".al-total").text_content() == "All sliders are at zero: nothing to share out."
    assert said(page) == (
        "Target “black”: no weight on any source token, so there is nothing to share out. Shares and context are all 0."
    )
    press(page, "Hard")  # the recorded weights say which was the largest
    assert shares(page) == ["0", "0", "1.00", "0"]


@pytest.mark.browser
def test_a_recorded_row_of_zeros_is_shown_and_can_be_filled(shown):
    page = shown(viewer(weights=[WEIGHTS[0], [0, 0, 0, 0], WEIGHTS[2]], query=1))
    press(page, "Hard")
    assert shares(page) == ["0"] * 4
    slider(page, 3).fill("0.01")
    assert shares(page) == ["0", "0", "0", "1.00"]
    assert vector(page, "context") == [3, -1]


@pytest.mark.browser
def test_solid_columns_add_up_to_the_context(shown):
    """In the list a column is share x value; all of an entry stacked are as high as the context's column below."""
    page = shown(viewer())
    heights = lambda kind: page.locator(kind).evaluate_all(  # noqa: E731
        "all => all.map((i) => (parseFloat(i.style.height) * (i.style.top === '50%' ? -1 : 1)))"
    )
    solid = np.reshape(heights(".al-lines .al-solid"), (4, 2))
    np.testing.assert_allclose(solid.sum(0), heights(".al-chart .al-now"), atol=0.05)
    np.testing.assert_allclose(solid, np.array(WEIGHTS[0])[:, None] * VALUES / 3 * 50, atol=0.01)


@pytest.mark.browser
@pytest.mark.parametrize(
    "scale, texts",
    [
        (1, ["1.00", "0.06"]),
        (1e-3, ["0.00100", "0.00006"]),
        (100, ["100", "6"]),
        (1e5, ["1.0e5", "6.3e3"]),
        (1e-8, ["1.0e−8", "6.2e−10"]),
    ],
)
def test_numbers_are_written_as_their_size_needs(shown, scale, texts):
    page = shown(viewer(values=np.array(VALUES) * scale))
    assert page.locator("[data-value^='context-']").all_inner_texts() == texts


@pytest.mark.browser
def test_what_python_sets_is_drawn(shown):
    page = shown(viewer())
    page.evaluate("model.set('query', 1); model.set('settings', [[0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]])")
    assert shares(page) == ["0.50", "0.50", "0", "0"]
    assert pick(page, 1).is_checked()


# For everyone


@pytest.mark.browser
@pytest.mark.parametrize(
    "query, words",
    [
        (
            0,
            "Target “the”: 0.50 on “le₀”, 0.25 on “le₃”, 0.13 on “chat”, 0.13 on one other. "
            "Context (1.00, 0.06), as recorded.",
        ),
        (1, "Target “black”: 0.75 on “noir”, 0.25 on “chat”. Context (−1.50, 0.88), as recorded."),
    ],
)
def test_the_summary_says_what_is_taken(shown, query, words):
    assert said(shown(viewer(query=query))) == words


@pytest.mark.browser
def test_the_summary_says_how_far_the_context_went(shown):
    page = shown(viewer(query=1))
    press(page, "Hard")
    assert np.linalg.norm([-2, 0.5] - np.array(WEIGHTS[1]) @ VALUES) == 0.625
    assert said(page) == "Target “black”: 1.00 on “noir”. Context (−2.00, 0.50), 0.63 away from the recorded one."


@pytest.mark.browser
def test_values_can_be_heard(shown):
    page = shown(viewer())
    assert page.get_by_role("img", name="value (−2.00, 0.50)").count() == 1


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("n_t, n_s, d_v", [(14, 13, 8), (3, 2, 4)])
def test_nothing_is_faint_small_or_too_wide(watched, theme, width, n_t, n_s, d_v):
    widget = AlignmentViewer(["announcements"] * n_s, ["Bekanntmachungen"] * n_t, *softmaxed(6, n_t, n_s, d_v))
    seen = load_widget(watched, widget, theme=theme, width=width)
    press(seen.page, "Even")
    assert faint_texts(seen) == [] == small_targets(seen)
    assert not scrolls_sideways(seen)
    seen.assert_clean()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("n_t, n_s, d_v", [(9, 9, 4), (14, 4, 8), (3, 14, 2), (1, 1, 1), (13, 7, 6)])
def test_the_reserved_height_is_the_height_it_takes(shown, width, n_t, n_s, d_v):
    widget = AlignmentViewer(
        [f"source{j}" for j in range(n_s)], [f"t{i}" for i in range(n_t)], *softmaxed(7, n_t, n_s, d_v)
    )
    page = shown(widget, width=width)
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    page.evaluate("document.querySelector('.aw').style.minHeight = 0")
    assert abs(page.locator(".aw").bounding_box()["height"] - reserved) <= 25


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_while_weights_change(shown, width):
    weights, values = softmaxed(8, 5, 6, 3)
    page = shown(
        AlignmentViewer(
            ["announced", "a", "an", "the", "of", "it"], ["Bekanntmachung", "er", "a", "b", "c"], weights, values
        ),
        width=width,
    )

    def places():
        return [page.locator(where).first.bounding_box() for where in (".aw", ".al-lines", ".al-result", ".aw-summary")]

    before = places()
    for i in range(5):
        pick(page, i).click()
        for name in ("Hard", "Even", "Reset"):
            press(page, name)
            for now, then in zip(places(), before):
                np.testing.assert_allclose(
                    [now[key] for key in ("x", "y", "width")],
                    [then[key] for key in ("x", "y", "width")],
                    rtol=0,
                    atol=1,
                )
        for j in range(6):
            slider(page, j).press("Home")
        assert abs(places()[2]["y"] - before[2]["y"]) <= 1


@pytest.mark.browser
def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(viewer())
    page.evaluate("dispose()")
    assert page.evaluate("model.listening()") == 0


# Python


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(weights=[0.5, 0.5]), r"weights must have 2 dimensions; its shape is \(2,\)"),
        (dict(values=[1, 2, 3, 4]), r"values must have 2 dimensions; its shape is \(4,\)"),
        (dict(weights=[["a", "b"]]), "weights must be an array of numbers"),
        (dict(source=SOURCE[:3]), "source must name the 4 columns of weights; 3 were given"),
        (dict(target=TARGET + ["sat"]), "target must name the 3 rows of weights; 4 were given"),
        (dict(target="cat"), "list of tokens; it is one string, 'cat'"),
        (dict(values=VALUES[:3]), "weights is 3 x 4, values has 3 rows"),
        (dict(values=np.ones((4, 9))), "1 to 8 wide; they are 9 wide"),
        (dict(values=np.full((4, 2), np.nan)), "finite numbers"),
        (dict(values=np.full((4, 2), 1e7)), "size at most 1e6"),
        (dict(weights=np.multiply(WEIGHTS, 8)), "go from 0 to 6. Are they scores"),
        (dict(weights=np.subtract(WEIGHTS, 0.5)), "between 0 and 1"),
        (dict(weights=np.multiply(WEIGHTS, np.nan)), "between 0 and 1"),
        (dict(weights=np.multiply(WEIGHTS, [[1], [0.5], [1]])), "row 1 sums to 0.5"),
        (dict(query=3), "query must be 0 to 2; it is 3"),
        (dict(query=-1), "query must be 0 to 2; it is -1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options, words):
    with pytest.raises(ValueError, match=words):
        viewer(**options)


def test_more_than_fourteen_tokens_are_refused():
    with pytest.raises(ValueError, match="source must hold 1 to 14 tokens; it holds 15"):
        AlignmentViewer(["s"] * 15, ["t"], np.full((1, 15), 1 / 15), np.ones((15, 2)))


@pytest.mark.parametrize(
    "settings, words",
    [
        ([[0.5] * 4] * 2, r"settings must be 3 x 4, as the weights; their shape is \(2, 4\)"),
        ([[0.5, 0.5, 0, 1.5]] * 3, "between 0 and 1"),
        ([[0.5, 0.5, 0, -0.5]] * 3, "between 0 and 1"),
    ],
)
def test_sliders_take_numbers_from_zero_to_one(settings, words):
    with pytest.raises(ValueError, match=words):
        viewer().settings = settings


def test_a_target_that_is_not_there_cannot_be_chosen():
    widget = viewer()
    with pytest.raises(ValueError, match="query must be 0 to 2; it is 3"):
        widget.query = 3
    with pytest.raises(traitlets.TraitError):
        widget.query = -1


def test_weights_and_values_change_together():
    widget = viewer(query=2)
    with pytest.raises(ValueError, match="to change values, use put"):
        widget.values = [[1.0]]
    widget.put(["a"], ["b"], [[1]], [[2, 3, 4]])
    assert (widget.query, widget.settings, widget.context.tolist()) == (0, [[1]], [[2, 3, 4]])


def test_what_python_gives_is_left_as_it_was():
    weights, values = softmaxed(9, 3, 4, 2)
    kept = weights.copy(), values.copy()
    widget = viewer(weights=weights, values=values)
    widget.settings = np.zeros((3, 4))
    assert np.array_equal(weights, kept[0]) and np.array_equal(values, kept[1])
    assert widget.weights == kept[0].tolist()


def test_the_context_in_python_follows_the_sliders():
    widget = viewer()
    np.testing.assert_allclose(widget.context, np.array(WEIGHTS) @ VALUES)
    widget.settings = [[0, 0, 0, 0.25], [0, 0, 0, 0], WEIGHTS[2]]
    np.testing.assert_allclose(widget.context, [[3, -1], [0, 0], np.array(WEIGHTS[2]) @ VALUES])


def test_print_gets_the_map_and_the_context():
    grid, bars = viewer(query=1).picture().axes[:2]
    assert [text.get_text() for text in grid.texts][:4] == ["0.50", "0.12", "0.12", "0.25"]
    assert [label.get_text() for label in grid.get_xticklabels()] == ["le₀", "chat", "noir", "le₃"]
    np.testing.assert_allclose([patch.get_width() for patch in bars.patches], np.array(WEIGHTS[1]) @ VALUES)
