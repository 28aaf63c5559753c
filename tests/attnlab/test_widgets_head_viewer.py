"""The head viewer: weights arrive unharmed, lines and map say the same, and every token and head can be reached."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab import data
from attnlab.widgets import HeadViewer
from tests.attnlab.widget_page import faint_texts, load_widget, said, scrolls_sideways, small_targets

# Sent to the page as bytes, decoded there as the widget would find them.
COMPUTE = """({ bytes, ...state }) => window.compute({ ...state,
  data: new DataView(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer) })"""

TOKENS = ["the", "record", "of", "the", "bank"]
NAMES = ["11.6", "3.2", "looks at itself"]
NOTES = ["On average 0.8 on the token before.", "It parks on the first token.", "The diagonal."]


def causal(seed, heads, n):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(heads, n, n, generator=generator, dtype=torch.float64)
    return F.softmax(scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf), dim=-1).numpy()


def three():
    """Three heads by hand: the token before, the first token, itself."""
    weights = np.zeros((3, 5, 5))
    for i in range(5):
        weights[0, i, max(i - 1, 0)] += 0.75
        weights[0, i, i] += 0.25
        weights[1, i, 0] += 0.875
        weights[1, i, i] += 0.125
        weights[2, i, i] = 1
    return weights


def viewer(**options):
    return HeadViewer(**{**dict(tokens=TOKENS, weights=three(), names=NAMES, notes=NOTES), **options})


def query(page, i):
    return page.locator(f"[data-query='query-{i}']")


def head(page, m):
    return page.locator(f"[data-head='head-{m}']")


def strong_lines(page):
    return sorted(page.locator(".hv-mine").evaluate_all("all => all.map((line) => line.dataset.line)"))


def numbers(page):
    return page.locator(".hv-number").all_inner_texts()


# The numbers


@pytest.mark.browser
@pytest.mark.parametrize("seed, heads, n, threshold", [(1, 3, 5, 0.05), (2, 1, 7, 0.2), (3, 12, 20, 0), (4, 2, 2, 1)])
def test_compute_agrees_with_numpy(watched, seed, heads, n, threshold):
    weights = causal(seed, heads, n)
    widget = HeadViewer([f"t{i}" for i in range(n)], weights)
    seen = load_widget(watched, widget)
    sent = widget.weights.astype(float)
    np.testing.assert_allclose(sent, weights, rtol=0, atol=1e-7)
    for m in {0, heads - 1}:
        got = seen.page.evaluate(
            COMPUTE,
            dict(
                bytes=base64.b64encode(widget.data).decode(),
                dtype=widget.dtype,
                shape=widget.shape,
                head=m,
                query=n - 1,
                threshold=threshold,
            ),
        )
        assert np.array_equal(got["weights"], sent[m])
        np.testing.assert_allclose(got["sums"], np.ones(n), rtol=0, atol=1e-6)
        assert np.array_equal(got["row"], sent[m, -1])
        assert got["ranking"] == np.argsort(-sent[m, -1], kind="stable").tolist()
        wanted = {(i, j) for i, j in zip(*np.nonzero(sent[m])) if sent[m, i, j] >= threshold}
        assert {(i, j) for i, j, _ in got["lines"]} == wanted
        assert [weight for *_, weight in got["lines"]] == sorted(sent[m, i, j] for i, j in wanted)
        later = np.arange(1, n)
        expected = dict(first=sent[m, later, 0], previous=sent[m, later, later - 1], self=sent[m, later, later])
        for name, values in expected.items():
            np.testing.assert_allclose(got["habits"][name], values.mean(), rtol=1e-12)


@pytest.mark.browser
def test_half_precision_is_taken_where_it_loses_nothing(watched):
    widget = viewer()
    assert (widget.dtype, len(widget.data)) == ("float16", 2 * 3 * 5 * 5)
    seen = load_widget(watched, widget)
    got = seen.page.evaluate(
        COMPUTE, dict(bytes=base64.b64encode(widget.data).decode(), dtype="float16", shape=widget.shape, head=1)
    )
    assert np.array_equal(got["weights"], three()[1])
    assert got["row"] == []


@pytest.mark.browser
def test_one_token_alone_has_no_habits(shown):
    page = shown(HeadViewer(["the"], [[[1.0]]], query=-1))
    assert said(page) == "Head 0: one token, which can only look at itself."
    assert strong_lines(page) == ["0-0"]


# Lines and map


@pytest.mark.browser
def test_the_pinned_token_has_strong_lines_and_numbers(shown):
    page = shown(viewer(query=4))
    assert strong_lines(page) == ["4-3", "4-4"]
    assert numbers(page) == ["", "", "", "0.75", "0.25"]


@pytest.mark.browser
def test_lines_of_the_other_tokens_stay_and_lie_below(shown):
    page = shown(viewer(query=4))
    kinds = page.locator(".hv-line").evaluate_all("all => all.map((line) => line.matches('.hv-mine'))")
    assert kinds == [False] * 7 + [True] * 2


@pytest.mark.browser
def test_a_larger_weight_has_a_wider_line(shown):
    page = shown(viewer(query=4))
    wide, narrow = (
        page.locator(f"[data-line='4-{j}']").evaluate(
            "line => [getComputedStyle(line).strokeWidth, line.getAttribute('stroke-opacity')].map(parseFloat)"
        )
        for j in (3, 4)
    )
    assert wide > narrow and wide[1] > narrow[1]


@pytest.mark.browser
def test_weights_below_the_threshold_have_a_number_and_no_line(shown):
    page = shown(HeadViewer(["a", "b", "c"], [[[1, 0, 0], [0.5, 0.5, 0], [0.03, 0.002, 0.968]]]))
    assert strong_lines(page) == ["2-2"]
    assert numbers(page) == ["0.03", "<.01", "0.97"]


@pytest.mark.browser
def test_the_threshold_can_be_moved_from_python(shown):
    page = shown(viewer(query=4, threshold=0.5))
    assert strong_lines(page) == ["4-3"]
    page.evaluate("model.set('threshold', 0)")
    assert strong_lines(page) == ["4-3", "4-4"]
    assert "no line below 0." in page.locator(".hv-legend").text_content()


@pytest.mark.browser
def test_a_line_starts_at_its_query_and_ends_at_its_key(shown):
    page = shown(viewer(query=4))
    start, end = page.locator("[data-line='4-3']").evaluate("""(line) => [0, line.getTotalLength()]
        .map((at) => line.getPointAtLength(at).matrixTransform(line.getScreenCTM())).map(({ x, y }) => [x, y])""")
    key, button = page.locator(".hv-key").nth(3).bounding_box(), query(page, 4).bounding_box()
    np.testing.assert_allclose(start, [button["x"], button["y"] + button["height"] / 2], rtol=0, atol=1)
    np.testing.assert_allclose(end, [key["x"] + key["width"], key["y"] + key["height"] / 2], rtol=0, atol=1)


@pytest.mark.browser
def test_on_a_wide_screen_a_row_of_the_map_stands_beside_its_query(shown):
    page = shown(viewer(), width=1280)
    for i in range(5):
        row = page.locator(f"[data-cell='{i}-0']").bounding_box()
        button = query(page, i).bounding_box()
        assert abs(row["y"] + row["height"] / 2 - button["y"] - button["height"] / 2) <= 1
        assert row["x"] >= button["x"] + button["width"]


@pytest.mark.browser
def test_the_map_has_the_numbers_of_a_short_sentence(shown):
    page = shown(viewer(head=1))
    texts = page.locator(".hv-cell").all_inner_texts()
    assert texts[:10] == ["1.00", "", "", "", "", "0.88", "0.13", "", "", ""]
    assert page.locator(".aw-zero").count() == 5 * 5 - 9


# Choosing


@pytest.mark.browser
def test_pressing_a_token_pins_it_and_pressing_again_lets_go(shown):
    page = shown(viewer())
    query(page, 2).click()
    assert page.evaluate("model.saved.query") == 2
    assert query(page, 2).get_attribute("aria-pressed") == "true"
    query(page, 2).click()
    assert page.evaluate("model.saved.query") == -1
    page.mouse.move(0, 0)
    assert len(strong_lines(page)) == 9
    assert numbers(page) == [""] * 5


@pytest.mark.browser
def test_the_pointer_shows_a_token_and_leaves_the_pinned_one(shown):
    page = shown(viewer(query=4))
    query(page, 1).hover()
    assert strong_lines(page) == ["1-0", "1-1"]
    assert page.evaluate("model.get('query')") == 4
    page.mouse.move(0, 0)
    assert strong_lines(page) == ["4-3", "4-4"]


@pytest.mark.browser
def test_pointing_at_a_cell_reads_it_out_and_pressing_it_pins_its_row(shown):
    page = shown(viewer())
    page.locator("[data-cell='3-2']").hover()
    assert page.locator(".hv-read").text_content() == "the₃ looks at of: 0.75"
    assert strong_lines(page) == ["3-2", "3-3"]
    page.locator("[data-cell='3-2']").click()
    assert page.evaluate("model.saved.query") == 3


@pytest.mark.browser
def test_the_keyboard_shows_the_token_it_stands_on(shown):
    page = shown(viewer(query=4))
    page.keyboard.press("Tab")  # the heads
    page.keyboard.press("Tab")  # all tokens
    page.keyboard.press("Tab")  # the queries, one stop
    assert page.evaluate("document.activeElement.dataset.query") == "query-4"
    page.keyboard.press("ArrowUp")
    assert strong_lines(page) == ["3-2", "3-3"]
    assert page.evaluate("model.get('query')") == 4
    page.keyboard.press("Home")
    assert strong_lines(page) == ["0-0"]
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.evaluate("model.saved.query") == 3
    page.keyboard.press("Tab")
    assert strong_lines(page) == ["3-2", "3-3"]


@pytest.mark.browser
def test_all_tokens_are_shown_at_once_and_the_last_one_comes_back(shown):
    page = shown(viewer(query=2))
    everything = page.get_by_role("button", name="All tokens")
    everything.click()
    assert page.evaluate("model.saved.query") == -1
    assert everything.get_attribute("aria-pressed") == "true"
    assert len(strong_lines(page)) == 9
    everything.click()
    assert page.evaluate("model.saved.query") == 2


@pytest.mark.browser
def test_a_head_is_picked_by_its_picture_and_the_token_stays(shown):
    page = shown(viewer(query=4))
    head(page, 1).click()
    assert page.evaluate("[model.saved.head, model.saved.query]") == [1, 4]
    assert numbers(page) == ["0.88", "", "", "", "0.13"]
    assert page.locator(".hv-note").inner_text() == "Head 3.2 It parks on the first token."


@pytest.mark.browser
def test_heads_are_gone_through_with_the_arrow_keys(shown):
    page = shown(viewer())
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("model.saved.head") == 2
    assert head(page, 2).is_checked()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.saved.head") == 0


@pytest.mark.browser
def test_each_head_has_a_picture_of_its_map(shown):
    page = shown(viewer())
    areas = page.locator(".hv-picture").evaluate_all(
        "all => all.map((one) => [...one.querySelectorAll('path')].reduce((n, p) => n + p.getAttribute('d')"
        ".split('M').length - 1, 0))"
    )
    assert areas == [9, 9, 5]


@pytest.mark.browser
def test_a_single_head_offers_no_choice(shown):
    page = shown(viewer(weights=three()[:1], names=NAMES[:1], notes=NOTES[:1]))
    assert page.locator("input").count() == 0


@pytest.mark.browser
def test_what_python_puts_is_drawn(shown):
    page = shown(viewer(query=4))
    page.evaluate("model.set('head', 2); model.set('query', 1)")
    assert numbers(page) == ["", "1.00", "", "", ""]
    assert head(page, 2).is_checked()


# For everyone


@pytest.mark.browser
def test_repeated_tokens_are_told_apart_by_their_position(shown):
    page = shown(viewer())
    assert [text.replace("\n", "") for text in page.locator(".hv-query").all_inner_texts()] == [
        "the0",
        "record",
        "of",
        "the3",
        "bank",
    ]
    assert page.locator(".hv-query sub").all_inner_texts() == ["0", "3"]
    assert query(page, 3).get_attribute("aria-label") == "the₃, position 3"


@pytest.mark.browser
def test_white_space_and_a_line_break_can_be_seen(shown):
    page = shown(HeadViewer([" ", "\n", "a"], np.eye(3)[None]))
    assert page.locator(".hv-query").all_inner_texts() == ["␣", "⏎", "a"]


@pytest.mark.browser
@pytest.mark.parametrize(
    "options, words",
    [
        (dict(query=4), "Head 11.6, query “bank”: 0.75 on “the₃”, 0.25 on “bank”."),
        (dict(query=3, head=1), "Head 3.2, query “the₃”: 0.88 on “the₀”, 0.13 on “the₃”."),
        (
            dict(query=-1),
            "Head 11.6, all tokens after the first: on average 0.19 on the first token, "
            "0.75 on the token before, 0.25 on itself.",
        ),
        (dict(query=0, head=2), "looks at itself, query “the₀”: 1.00 on “the₀”."),
    ],
)
def test_the_summary_says_what_is_looked_at(shown, options, words):
    assert said(shown(viewer(**options))) == words


@pytest.mark.browser
def test_the_summary_adds_up_what_is_left(shown):
    row = [0.4, 0.3, 0.1, 0.1, 0.06, 0.04]
    page = shown(HeadViewer(list("abcdef"), [np.tile(row, (6, 1))]))
    assert said(page) == "Head 0, query “f”: 0.40 on “a”, 0.30 on “b”, 0.10 on “c”, 0.20 on 3 others."


@pytest.mark.browser
def test_a_row_without_weight_is_told(shown):
    page = shown(HeadViewer(["a", "b"], [[[0, 0], [0.5, 0.5]]], query=0))
    assert said(page) == "Head 0, query “a”: no weight on any key."


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_faint_small_or_too_wide(watched, theme, width):
    widget = HeadViewer(
        ["announcements"] * 20,
        causal(7, 12, 20),
        [f"{m}.previous token" for m in range(12)],
        ["A sentence on what was measured about this head, on these and other texts."] * 12,
    )
    seen = load_widget(watched, widget, theme=theme, width=width)
    assert faint_texts(seen) == [] == small_targets(seen)
    assert not scrolls_sideways(seen)
    seen.assert_clean()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("heads, n, note", [(9, 15, 140), (1, 20, 0), (6, 7, 60), (12, 3, 30)])
def test_the_reserved_height_is_the_height_it_takes(shown, width, heads, n, note):
    widget = HeadViewer(
        [f"token{i}" for i in range(n)], causal(8, heads, n), notes=["note " * (note // 5)] * heads if note else None
    )
    page = shown(widget, width=width)
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    page.evaluate("document.querySelector('.aw').style.minHeight = 0")
    assert abs(page.locator(".aw").bounding_box()["height"] - reserved) <= 25


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_while_heads_and_tokens_change(shown, width):
    weights = causal(9, 4, 12)
    page = shown(
        HeadViewer(
            ["announced", "of", "record", "a"] * 3,
            weights,
            names=["1.1", "2.2", "3.3", "4.4"],
            notes=["Short.", "A longer sentence on this head, for two lines or three. " * 2, "", "x"],
        ),
        width=width,
    )
    boxes = []
    for m in range(4):
        for i in (0, 5, 11, -1):
            page.evaluate(f"model.set('head', {m}); model.set('query', {i})")
            boxes.append([page.locator(where).bounding_box() for where in (".aw", ".hv-svg", ".hv-rows", ".hv-foot")])
    for box in boxes:
        for now, before in zip(box, boxes[0]):
            np.testing.assert_allclose(list(now.values()), list(before.values()), rtol=0, atol=1)


@pytest.mark.browser
def test_two_viewers_on_a_page_do_not_share_their_choice(shown):
    page = shown(viewer())
    first = head(page, 0).get_attribute("name")
    assert first != head(shown(viewer()), 0).get_attribute("name")


@pytest.mark.browser
def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(viewer())
    page.evaluate("dispose()")
    assert page.evaluate("model.listening()") == 0


# Python


def test_heads_of_the_recorded_sentence_can_be_shown():
    recording = data.seven_tokens()
    widget = HeadViewer(recording.tokens, recording.weights[4, :6], [f"4.{h}" for h in range(6)])
    np.testing.assert_allclose(widget.weights, recording.weights[4, :6], rtol=0, atol=1e-7)
    assert (widget.query, widget.head, widget.notes) == (6, 0, [])


def test_heads_without_names_are_numbered():
    assert HeadViewer(["a"], np.ones((3, 1, 1))).names == ["0", "1", "2"]


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(weights=np.eye(5)), r"\(heads, n, n\).*\(5, 5\)"),
        (dict(weights=np.ones((3, 5, 4)) / 4), r"\(3, 5, 4\)"),
        (dict(weights=np.zeros((0, 5, 5))), "0 heads on 5 tokens"),
        (dict(weights=np.zeros((13, 5, 5))), "13 heads on 5 tokens"),
        (dict(weights=np.zeros((1, 21, 21))), "1 heads on 21 tokens"),
        (dict(weights=3.5 * three()), "go from 0 to 3.5. Are they scores"),
        (dict(weights=three() - 0.5), "between 0 and 1"),
        (dict(weights=three() * np.nan), "between 0 and 1"),
        (dict(weights=[[[1.0], [0.5, 0.5]]]), "array of numbers"),
        (dict(tokens=TOKENS[:4]), "tokens must name the 5 rows and columns; 4 were given"),
        (dict(tokens="words"), "one string, 'words'"),
        (dict(names=NAMES[:2]), "names must name the 3 heads; 2 were given"),
        (dict(notes=NOTES + ["x"]), "notes must say something on each of the 3 heads; 4 were given"),
        (dict(head=3), "head must be 0 to 2; it is 3"),
        (dict(head=-1), "head must be 0 to 2; it is -1"),
        (dict(query=5), "query must be 0 to 4, or -1 for none; it is 5"),
        (dict(query=-2), "query must be 0 to 4, or -1 for none; it is -2"),
        (dict(threshold=2), "threshold"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options, words):
    with pytest.raises(ValueError if "threshold" not in options else Exception, match=words):
        viewer(**options)


@pytest.mark.parametrize("name, value", [("head", 3), ("query", 5)])
def test_what_is_not_there_cannot_be_chosen(name, value):
    widget = viewer()
    with pytest.raises(ValueError, match=f"{name} must be 0 to {value - 1}; it is {value}"):
        setattr(widget, name, value)


def test_everything_can_be_replaced_by_other_sizes():
    widget = viewer(head=2, query=4)
    widget.put(["a", "b"], np.eye(2)[None], ["0.0"])
    assert (widget.shape, widget.tokens, widget.notes, widget.head, widget.query) == ([1, 2, 2], ["a", "b"], [], 0, 1)
    widget.put(TOKENS, three(), NAMES, head=2, query=4)
    assert (widget.shape, widget.head, widget.query) == ([3, 5, 5], 2, 4)


def test_the_given_array_is_left_as_it_was():
    weights = three()
    viewer(weights=weights)
    assert np.array_equal(weights, three())


@pytest.mark.parametrize("chosen", [-1, 3])
def test_print_gets_lines_and_map_with_the_note(chosen):
    figure = viewer(query=chosen).picture()
    lines, grid = figure.axes[:2]
    assert len(lines.lines) == 9
    assert [label.get_text() for label in grid.get_xticklabels()] == ["the₀", "record", "of", "the₃", "bank"]
    assert figure.get_suptitle() == "Head 11.6: On average 0.8 on the token before."
