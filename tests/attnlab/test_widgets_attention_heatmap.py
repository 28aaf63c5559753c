"""The heatmap: the weights arrive unharmed, every cell can be reached and read, and bad arrays are refused by name."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab import data
from attnlab.widgets.attention_heatmap import AttentionHeatmap
from tests.attnlab.widget_page import load_widget

# Sent to the page as bytes, decoded there as the widget would find them.
COMPUTE = """({ bytes, ...state }) => window.compute({ ...state,
  data: new DataView(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer) })"""


def softmaxed(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return F.softmax(2 * torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1)


def names(letter, n):
    return [f"{letter}{i}" for i in range(n)]


def compute(seen, widget, **chosen):
    state = dict(dtype=widget.dtype, shape=widget.shape, layer=widget.layer, head=widget.head, query=widget.query)
    return seen.page.evaluate(COMPUTE, {**state, "bytes": base64.b64encode(widget.data).decode(), **chosen})


@pytest.fixture
def heatmap(watched):
    """`heatmap(...)` draws an AttentionHeatmap(...) and returns its page; no console error, no outside request."""
    opened = []

    def draw(*args, page=None, **kwargs):
        opened.append(load_widget(watched, AttentionHeatmap(*args, **kwargs), **(page or {})))
        return opened[-1].page

    yield draw
    for seen in opened:
        seen.assert_clean()


def cell(page, i, j):
    return page.locator(f"[data-cell='{i}-{j}']")


def bars(page):
    return [float(text.replace("<", "")) for text in page.locator(".hm-value").all_text_contents()]


THREE = [[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.31, 0.565]]
TOKENS = ["The", "CEO", "announced"]


# The numbers


@pytest.mark.browser
@pytest.mark.parametrize("seed, shape", [(1, (2, 3, 4, 5)), (2, (1, 1, 6, 2)), (3, (3, 1, 1, 7)), (4, (1, 4, 5, 1))])
def test_compute_gives_back_pytorchs_softmax(watched, seed, shape):
    weights = softmaxed(seed, *shape)
    widget = AttentionHeatmap(weights, names("q", shape[2]), key_tokens=names("k", shape[3]))
    seen = load_widget(watched, widget)
    for layer, head in np.ndindex(*shape[:2]):
        got = compute(seen, widget, layer=layer, head=head, query=shape[2] - 1)
        shown = weights[layer, head]
        np.testing.assert_allclose(got["weights"], shown, rtol=0, atol=1e-6)
        np.testing.assert_allclose(got["sums"], np.ones(shape[2]), rtol=0, atol=1e-6)
        assert got["ranking"] == torch.argsort(shown[-1], descending=True).tolist()
        assert got["row"] == got["weights"][-1]


@pytest.mark.browser
def test_half_precision_is_read_bit_for_bit(watched):
    # Every half between 0 and 1: subnormals, both borders, and each exponent in between.
    halves = np.arange(0x3C01, dtype="<u2").view("<f2")[:15360].astype(float).reshape(120, 128)
    widget = AttentionHeatmap(halves, names("q", 120), key_tokens=names("k", 128))
    assert widget.dtype == "float16"
    seen = load_widget(watched, AttentionHeatmap(THREE, TOKENS))
    assert np.array_equal(compute(seen, widget)["weights"], halves)


@pytest.mark.browser
def test_the_recorded_sentence_arrives_unharmed(watched):
    recording = data.seven_tokens()
    widget = AttentionHeatmap.from_recording(recording, layer=4, head=2)
    seen = load_widget(watched, widget)
    for layer, head in [(0, 0), (4, 2), (29, 8)]:
        got = compute(seen, widget, layer=layer, head=head)["weights"]
        np.testing.assert_allclose(got, recording.weights[layer, head], rtol=0, atol=1e-7)
    assert (widget.layer, widget.head, widget.tokens) == (4, 2, recording.tokens)


@pytest.mark.browser
def test_the_map_shows_the_weights(heatmap):
    page = heatmap(THREE, TOKENS)
    shown = page.locator(".hm-cell").all_text_contents()
    assert shown == ["1.00", "0", "0", "0.25", "0.75", "0", "0.13", "0.31", "0.56"]


@pytest.mark.browser
def test_a_tiny_weight_is_told_from_no_weight(heatmap):
    page = heatmap([[0.999, 0.001, 0]], ["a"], key_tokens=["a", "b", "c"])
    assert page.locator(".hm-cell").all_text_contents() == ["1.00", "<.01", "0"]
    assert cell(page, 0, 1).get_attribute("aria-label") == "a looks at b: less than 0.01"


# Choosing


@pytest.mark.browser
@pytest.mark.parametrize("control, saved", [("Layer", "layer"), ("Head", "head")])
def test_layer_and_head_change_the_map(heatmap, control, saved):
    weights = softmaxed(5, 2, 3, 4, 4)
    page = heatmap(weights, names("t", 4))
    page.get_by_label(control, exact=True).select_option("1")
    expected = weights[1, 0] if saved == "layer" else weights[0, 1]
    assert page.locator(".hm-cell").all_text_contents()[-4:] == [f"{w:.2f}" for w in expected[-1].tolist()]
    assert page.evaluate(f"model.saved.{saved}") == 1


@pytest.mark.browser
@pytest.mark.parametrize(
    "shape, visible",
    [((3, 3), []), ((2, 3, 3), ["head"]), ((2, 1, 3, 3), ["layer"]), ((2, 2, 3, 3), ["layer", "head"])],
)
def test_there_is_a_choice_only_where_there_are_several(heatmap, shape, visible):
    page = heatmap(softmaxed(6, *shape), TOKENS)
    assert page.locator("select:visible").evaluate_all("all => all.map((s) => s.dataset.go)") == visible


@pytest.mark.browser
def test_clicking_a_cell_shows_its_row_as_bars(heatmap):
    page = heatmap(THREE, TOKENS)
    cell(page, 1, 0).click()
    assert bars(page) == [0.25, 0.75, 0]
    assert page.evaluate("model.saved.query") == 1
    assert page.locator(".hm-read").text_content() == "CEO looks at The: 0.25"
    widths = page.locator(".hm-bar").evaluate_all("all => all.map((bar) => bar.style.width)")
    assert widths == ["25%", "75%", "0%"]


@pytest.mark.browser
def test_the_pointer_shows_a_row_and_leaves_the_selected_one(heatmap):
    page = heatmap(THREE, TOKENS, query=2)
    cell(page, 1, 1).hover()
    assert bars(page) == [0.25, 0.75, 0]
    assert page.locator(".hm-read").text_content() == "CEO looks at CEO: 0.75"
    assert page.evaluate("model.get('query')") == 2
    page.locator(".hm-title").hover()
    assert bars(page) == [0.125, 0.31, 0.565]


@pytest.mark.browser
def test_what_python_sets_is_drawn(heatmap):
    weights = softmaxed(7, 2, 2, 3, 3)
    page = heatmap(weights, TOKENS)
    page.evaluate("model.set('layer', 1); model.set('head', 1); model.set('query', 0)")
    np.testing.assert_allclose(bars(page), weights[1, 1, 0], atol=0.0006)
    assert page.get_by_label("Head", exact=True).input_value() == "1"


# For everyone


@pytest.mark.browser
def test_a_cell_says_who_looks_at_whom(heatmap):
    page = heatmap(THREE, TOKENS)
    assert cell(page, 2, 1).get_attribute("aria-label") == "announced looks at CEO: 0.31"
    assert page.get_by_role("gridcell", name="announced looks at CEO: 0.31").count() == 1


@pytest.mark.browser
@pytest.mark.parametrize(
    "keys, at",
    [
        (["ArrowUp"], "1-2"),
        (["ArrowLeft"], "2-1"),
        (["ArrowRight"], "2-2"),
        (["ArrowDown"], "2-2"),
        (["Home"], "2-0"),
        (["Home", "End"], "2-2"),
        (["Control+Home"], "0-0"),
        (["Control+Home", "Control+End"], "2-2"),
        (["PageUp"], "0-2"),
        (["ArrowUp", "ArrowUp", "ArrowUp", "ArrowLeft", "ArrowRight"], "0-2"),
    ],
)
def test_arrows_home_and_end_move_the_focus(heatmap, keys, at):
    page = heatmap(THREE, TOKENS)
    page.keyboard.press("Tab")  # one stop: the strongest cell of the selected, last, row
    assert page.evaluate("document.activeElement.dataset.cell") == "2-2"
    for key in keys:
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.cell") == at
    assert page.locator(".hm-cell[tabindex='0']").evaluate_all("all => all.map((c) => c.dataset.cell)") == [at]
    assert page.evaluate("model.get('query')") == int(at[0])


@pytest.mark.browser
def test_layer_and_head_can_be_changed_from_the_keyboard(heatmap):
    page = heatmap(softmaxed(8, 3, 4, 3, 3), TOKENS)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.evaluate("[model.get('layer'), model.get('head')]") == [1, 3]


@pytest.mark.browser
def test_the_summary_names_the_keys_looked_at_most(heatmap):
    page = heatmap([[THREE, THREE]], TOKENS, head=1)
    said = "Head 1: announced looks most at announced (0.56), then CEO (0.31), then The (0.13)."
    assert page.get_by_role("status").text_content() == said


@pytest.mark.browser
def test_a_row_that_does_not_sum_to_one_is_shown_with_its_sum(heatmap):
    page = heatmap([[0.5, 0.25]], ["a"], key_tokens=["a", "b"])
    assert page.locator(".hm-sum").text_content() == "sum 0.750"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_on_every_colour_can_be_read(heatmap, theme):
    weights = np.linspace(0, 1, 192).reshape(16, 12)
    page = heatmap(weights, names("q", 16), key_tokens=names("k", 12), page=dict(theme=theme))
    ratios = page.evaluate("""() => {
      const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const page = getComputedStyle(document.body).backgroundColor;
      const luminance = (colour) => {
        for (const c of [page, colour]) { pixel.fillStyle = c; pixel.fillRect(0, 0, 1, 1); }
        const [r, g, b] = [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255)
          .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return [...document.querySelectorAll(".hm-cell")].map((cell) => {
        const style = getComputedStyle(cell);
        const [a, b] = [luminance(style.color), luminance(style.backgroundColor)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      });
    }""")
    assert min(ratios) >= 4.5


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_are_ordered_in_lightness(heatmap, theme):
    page = heatmap(THREE, TOKENS, page=dict(theme=theme))
    lightness = page.locator(".aw-ramp i").evaluate_all(
        "all => all.map((i) => Number(getComputedStyle(i).backgroundColor.match(/oklch.([0-9.]+)/)[1]))"
    )
    steps = np.diff(lightness)
    assert np.all(steps < 0) if theme == "light" else np.all(steps > 0)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.01)


@pytest.mark.browser
@pytest.mark.parametrize("n", [7, 20])
def test_a_phone_shows_it_without_scrolling_sideways(heatmap, n):
    page = heatmap(softmaxed(9, 2, 2, n, n), ["announcements"] * n, page=dict(width=390, height=844))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = page.locator(".hm-cell, select").evaluate_all(
        "all => all.map((e) => e.getBoundingClientRect()).map((r) => Math.min(r.width, r.height))"
    )
    assert min(sizes) >= 24


@pytest.mark.browser
@pytest.mark.parametrize("shape", [(30, 9, 7, 7), (3, 3), (2, 4, 9)])
def test_the_reserved_height_is_the_height_it_takes(heatmap, shape):
    given = (softmaxed(10, *shape), names("q", shape[-2]), 0, 0, names("k", shape[-1]))
    page = heatmap(*given)
    assert abs(page.locator(".aw").bounding_box()["height"] - AttentionHeatmap(*given).min_height) <= 20


@pytest.mark.browser
def test_it_hears_nothing_after_it_is_gone(heatmap):
    page = heatmap(THREE, TOKENS)
    page.evaluate("dispose()")
    assert page.evaluate("model.listening()") == 0


# Python


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (2, 3, 4, 5)])
def test_missing_leading_axes_are_added(shape):
    weights = softmaxed(11, *shape)
    widget = AttentionHeatmap(weights.numpy(), names("q", 4), key_tokens=names("k", 5))
    assert widget.shape == [1] * (4 - len(shape)) + list(shape)
    np.testing.assert_allclose(widget.weights.reshape(shape), weights, rtol=0, atol=1e-7)


def test_bytes_are_as_few_as_keep_the_numbers():
    assert len(AttentionHeatmap(np.eye(5), names("t", 5)).data) == 2 * 25
    assert len(AttentionHeatmap.from_recording(data.seven_tokens()).data) == 4 * 30 * 9 * 7 * 7


@pytest.mark.parametrize(
    "weights, tokens, options, words",
    [
        (np.ones(3), ["a"], {}, r"their shape is \(3,\)"),
        (np.ones((1, 1, 1, 1, 1)), ["a"], {}, r"\(1, 1, 1, 1, 1\)"),
        (np.zeros((0, 2)), [], {}, r"\(0, 2\)"),
        (np.eye(3), ["a", "b"], {}, r"name the 3 queries \(rows\); 2 were given"),
        (
            np.full((2, 3), 0.1),
            ["a", "b"],
            {},
            r"key_tokens \(left out, so tokens\) must name the 3 keys \(columns\); 2",
        ),
        (np.full((2, 3), 0.1), ["a", "b"], dict(key_tokens=["x"]), r"key_tokens must name the 3 keys \(columns\); 1"),
        (np.array([[3.5]]), ["a"], {}, "go from 3.5 to 3.5. Are they scores"),
        (np.array([[-1.0]]), ["a"], {}, "between 0 and 1"),
        (np.array([[np.nan]]), ["a"], {}, "between 0 and 1"),
        ([[1.0], [0.5, 0.5]], ["a", "b"], {}, "array of numbers"),
        (np.eye(2), ["a", "b"], dict(layer=1), "layer must be 0 to 0; it is 1"),
        (np.eye(2)[None].repeat(3, 0), ["a", "b"], dict(head=3), "head must be 0 to 2; it is 3"),
        (np.eye(2), ["a", "b"], dict(query=-1), "query must be 0 to 1; it is -1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(weights, tokens, options, words):
    with pytest.raises(ValueError, match=words):
        AttentionHeatmap(weights, tokens, **options)


def test_a_map_that_is_not_there_cannot_be_chosen():
    widget = AttentionHeatmap(softmaxed(12, 2, 3, 4, 4), names("t", 4))
    with pytest.raises(ValueError, match="head must be 0 to 2; it is 3"):
        widget.head = 3


def test_the_weights_can_be_replaced_by_others_of_another_size():
    widget = AttentionHeatmap(softmaxed(13, 2, 3, 4, 4), names("t", 4), layer=1, head=2)
    widget.put(np.eye(3), TOKENS)
    assert (widget.shape, widget.tokens, widget.layer, widget.head) == ([1, 1, 3, 3], TOKENS, 0, 0)


def test_the_given_array_is_left_as_it_was():
    weights = softmaxed(14, 3, 3).numpy()
    before = weights.copy()
    AttentionHeatmap(weights, TOKENS)
    assert np.array_equal(weights, before)


def test_print_gets_a_picture():
    assert AttentionHeatmap(softmaxed(15, 2, 2, 3, 3), TOKENS).picture().axes[0].get_title() == "layer 0, head 0"
