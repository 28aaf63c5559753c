"""The stepper: its numbers are PyTorch's, every control does what it says, and bad arrays are refused by name."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab.widgets.attention_stepper import AttentionStepper
from tests.attnlab.widget_page import evaluate_compute, load_widget

STAGES = ["scores", "scaled", "exponentials", "weights", "output"]


def arrays(seed, n_q, n_k, d_k, d_v, size=1.0):
    rng = np.random.default_rng(seed)
    return [size * rng.normal(size=shape) for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v))]


@pytest.fixture
def stepper(watched):
    """`stepper(...)` draws an AttentionStepper(...) and returns its page; no console error, no outside request."""
    opened = []

    def draw(*args, page=None, **kwargs):
        opened.append(load_widget(watched, AttentionStepper(*args, **kwargs), **(page or {})))
        return opened[-1].page

    yield draw
    for seen in opened:
        seen.assert_clean()


def press(page, name):
    # Forced, since Playwright waits for what is aria-disabled; such a button keeps the focus and does nothing.
    page.get_by_role("button", name=name, exact=True).click(force=True)


def numbers(page, stage):
    return page.locator(f"[data-stage={stage}] .st-cell").all_text_contents()


def state_of(page, stage):
    return page.locator(f"[data-stage={stage}]").get_attribute("data-now")


def field(page, which):
    return page.locator(f"[data-field={which}]")


# The numbers


@pytest.mark.browser
@pytest.mark.parametrize(
    "seed, n_q, n_k, d_k, d_v, size",
    [
        (1, 3, 3, 2, 2, 1),
        (2, 2, 5, 3, 4, 1),
        (3, 6, 4, 6, 1, 3),
        (4, 1, 6, 1, 6, 1),
        (5, 5, 2, 4, 3, 300),
        (6, 4, 1, 5, 2, 1),
    ],
)
def test_compute_gives_what_pytorch_gives(watched, seed, n_q, n_k, d_k, d_v, size):
    Q, K, V = arrays(seed, n_q, n_k, d_k, d_v, size)
    seen = load_widget(watched, AttentionStepper())
    got = evaluate_compute(seen, dict(Q=Q.tolist(), K=K.tolist(), V=V.tolist()))
    q, k, v = map(torch.from_numpy, (Q, K, V))
    scores = torch.matmul(q, k.mT)
    scaled = scores / math.sqrt(d_k)
    shifted = scaled - scaled.max(dim=-1, keepdim=True).values
    expected = dict(
        scores=scores,
        scaled=scaled,
        maxima=scaled.amax(-1),
        exponentials=shifted.exp(),
        totals=shifted.exp().sum(-1),
        weights=F.softmax(scaled, dim=-1),
        output=F.scaled_dot_product_attention(q, k, v),
        root=torch.tensor(d_k).double().sqrt(),
    )
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value.numpy(), rtol=1e-12, atol=1e-6, err_msg=name)


@pytest.mark.browser
def test_compute_leaves_its_input_as_it_was(watched):
    seen = load_widget(watched, AttentionStepper())
    assert seen.page.evaluate("""() => {
      const state = { Q: [[1, 2]], K: [[3, 4], [5, 6]], V: [[1], [2]] };
      const before = JSON.stringify(state);
      window.compute(state);
      return JSON.stringify(state) === before;
    }""")


@pytest.mark.browser
def test_the_worked_example_ends_where_paper_ends(stepper):
    page = stepper(query=2, stage=4)
    assert numbers(page, "scores") == ["1", "1", "2"]
    assert numbers(page, "scaled") == ["0.707", "0.707", "1.414"]
    assert numbers(page, "exponentials") == ["0.493", "0.493", "1", "1.986"]
    assert numbers(page, "weights") == ["0.248", "0.248", "0.503"]
    assert numbers(page, "output") == ["1", "1.248"]


@pytest.mark.browser
def test_scores_of_a_thousand_still_give_weights(stepper):
    page = stepper([[1000.0]], [[1.0], [0.999]], [[1.0], [2.0]], stage=4)
    assert numbers(page, "weights") == ["0.731", "0.269"]


# Stepping


@pytest.mark.browser
def test_next_shows_one_stage_more_and_keeps_the_earlier_ones(stepper):
    page = stepper()
    for reached in range(5):
        assert [state_of(page, stage) for stage in STAGES] == ["shown"] * (reached + 1) + ["later"] * (4 - reached)
        assert page.evaluate("model.get('stage')") == reached
        press(page, "Next")
    assert page.evaluate("model.get('stage')") == 4
    assert page.get_by_role("button", name="Next", exact=True).get_attribute("aria-disabled") == "true"


@pytest.mark.browser
def test_back_takes_one_stage_away(stepper):
    page = stepper(stage=2)
    press(page, "Back")
    assert numbers(page, "exponentials") == [""] * 4
    assert page.evaluate("model.saved.stage") == 1


@pytest.mark.browser
def test_a_stage_can_be_reached_directly(stepper):
    page = stepper()
    page.locator("[data-stage-tab=weights]").click()
    assert [state_of(page, stage) for stage in STAGES] == ["shown"] * 4 + ["later"]
    assert page.locator("[aria-current=step]").get_attribute("data-stage-tab") == "weights"


@pytest.mark.browser
def test_reset_brings_back_the_first_stage_the_first_query_and_the_first_numbers(stepper):
    page = stepper(stage=3)
    page.locator("[data-query='1']").click()
    field(page, "K-0-0").fill("9")
    press(page, "Reset")
    assert page.evaluate("['stage', 'query', 'K'].map((name) => model.get(name))") == [0, 0, [[1, 0], [0, 1], [1, 1]]]
    assert field(page, "K-0-0").input_value() == "1"
    assert numbers(page, "scores") == ["1", "0", "1"]


@pytest.mark.browser
def test_stepping_moves_nothing_below_the_widget(stepper):
    page = stepper()
    heights = set()
    for _ in range(5):
        heights.add(round(page.locator(".aw").bounding_box()["height"]))
        page.locator(".st-cell:not([aria-disabled=true])").last.click()
        heights.add(round(page.locator(".aw").bounding_box()["height"]))
        press(page, "Next")
    assert len(heights) == 1


# Controls


@pytest.mark.browser
def test_another_query_has_its_own_row(stepper):
    page = stepper()
    page.locator("[data-query='1']").click()
    assert numbers(page, "scores") == ["0", "1", "1"]
    pressed = page.locator("[data-query]").evaluate_all("all => all.map((b) => b.ariaPressed)")
    assert pressed == ["false", "true", "false"]
    assert page.evaluate("model.saved.query") == 1


@pytest.mark.browser
def test_changing_one_key_moves_its_score_alone_and_every_weight(stepper):
    page = stepper(stage=4, query=0)
    before = {stage: numbers(page, stage) for stage in STAGES}
    field(page, "K-1-0").fill("2,5")
    after = {stage: numbers(page, stage) for stage in STAGES}
    assert [a == b for a, b in zip(before["scores"], after["scores"])] == [True, False, True]
    assert not any(a == b for a, b in zip(before["weights"], after["weights"]))
    assert page.evaluate("model.saved.K") == [[1, 0], [2.5, 1], [1, 1]]


@pytest.mark.browser
def test_changing_a_value_moves_the_output_and_no_weight(stepper):
    page = stepper(stage=4)
    weights, output = numbers(page, "weights"), numbers(page, "output")
    field(page, "V-2-1").fill("7")
    assert numbers(page, "weights") == weights
    assert [a == b for a, b in zip(output, numbers(page, "output"))] == [True, False]


@pytest.mark.browser
def test_changing_a_query_entry_moves_its_own_row(stepper):
    page = stepper()
    field(page, "Q-0-1").fill("3")
    assert numbers(page, "scores") == ["1", "3", "4"]
    page.locator("[data-query='1']").click()
    assert numbers(page, "scores") == ["0", "1", "1"]


@pytest.mark.browser
def test_what_is_not_a_number_changes_nothing_and_goes_when_left(stepper):
    page = stepper()
    field(page, "Q-0-0").fill("one")
    assert field(page, "Q-0-0").get_attribute("aria-invalid") == "true"
    assert page.evaluate("model.get('Q')[0][0]") == 1
    page.keyboard.press("Tab")
    assert field(page, "Q-0-0").input_value() == "1"


@pytest.mark.browser
def test_the_state_set_from_python_is_drawn(stepper):
    page = stepper()
    page.evaluate("model.set('stage', 3); model.set('query', 1); model.set('K', [[5, 5], [0, 1], [1, 1]])")
    assert numbers(page, "scores") == ["5", "1", "1"]
    assert state_of(page, "weights") == "shown"
    assert field(page, "K-0-0").input_value() == "5"


@pytest.mark.browser
def test_arrays_of_another_size_are_drawn_anew(stepper):
    page = stepper()
    page.evaluate("model.set('Q', [[1, 2, 3]]); model.set('K', [[1, 0, 0], [0, 1, 0]]); model.set('V', [[1], [3]])")
    assert numbers(page, "scores") == ["1", "2"]
    assert page.locator("[data-field]").count() == 3 + 6 + 2


# The sum behind a number


@pytest.mark.browser
@pytest.mark.parametrize(
    "stage, cell, text",
    [
        ("scores", 2, "q1 · k3 = 1·1 + 0·1 = 1"),
        ("scaled", 0, "1 / √2 = 1 / 1.414 = 0.707"),
        ("exponentials", 1, "e0 − 0.707 = e−0.707 = 0.493"),
        ("exponentials", 3, "total: 1 + 0.493 + 1 = 2.493"),
        ("weights", 1, "0.493 / 2.493 = 0.198"),
        ("output", 1, "column 2 of V: 0.401·0 + 0.198·3 + 0.401·1 = 0.994"),
    ],
)
def test_a_number_opens_to_its_sum_and_closes_again(stepper, stage, cell, text):
    page = stepper(stage=4)
    row = page.locator(f"[data-stage={stage}]")
    button, why = row.locator(f"[data-cell='{cell}']"), row.locator(".st-why")
    closed = why.text_content()
    button.click()
    assert (why.text_content(), button.get_attribute("aria-expanded")) == (text, "true")
    button.click()
    assert (why.text_content(), button.get_attribute("aria-expanded")) == (closed, "false")


@pytest.mark.browser
def test_an_opened_sum_follows_the_numbers(stepper):
    page = stepper()
    page.locator("[data-stage=scores] [data-cell='0']").click()
    field(page, "K-0-1").fill("-4")
    page.locator("[data-query='2']").click()
    assert page.locator("[data-stage=scores] .st-why").text_content() == "q3 · k1 = 1·1 + 1·(−4) = −3"


@pytest.mark.browser
def test_the_ingredients_of_an_opened_score_are_marked(stepper):
    page = stepper()
    page.locator("[data-stage=scores] [data-cell='1']").click()
    marked = page.locator(".st-used").evaluate_all("all => all.map((field) => field.dataset.field)")
    assert marked == ["Q-0-0", "Q-0-1", "K-1-0", "K-1-1"]


@pytest.mark.browser
def test_the_exponentials_say_that_the_maximum_is_subtracted(stepper):
    page = stepper(stage=2)
    assert "maximum, 0.707, is subtracted" in page.locator("[data-stage=exponentials] .st-why").text_content()


# Guessing first


@pytest.mark.browser
def test_while_guessing_a_new_stage_waits_to_be_shown(stepper):
    page = stepper()
    page.get_by_label("Let me guess first").check()
    press(page, "Next")
    assert numbers(page, "scores") == ["1", "0", "1"]
    assert numbers(page, "scaled") == ["?", "?", "?"]
    assert "0.707" not in page.locator(".aw").inner_text()
    page.get_by_role("button", name="Show").click()
    assert numbers(page, "scaled") == ["0.707", "0", "0.707"]
    assert page.get_by_role("button", name="Show").count() == 0


@pytest.mark.browser
def test_a_stage_once_shown_stays_shown_when_come_back_to(stepper):
    page = stepper(guess=True)
    page.get_by_role("button", name="Show").click()
    press(page, "Next")
    press(page, "Back")
    assert numbers(page, "scores") == ["1", "0", "1"]


@pytest.mark.browser
def test_while_guessing_another_query_is_another_guess(stepper):
    page = stepper(guess=True)
    page.get_by_role("button", name="Show").click()
    page.locator("[data-query='2']").click()
    assert numbers(page, "scores") == ["?", "?", "?"]


@pytest.mark.browser
def test_no_longer_guessing_uncovers_everything(stepper):
    page = stepper(guess=True, stage=1)
    page.get_by_label("Let me guess first").uncheck()
    assert numbers(page, "scaled") == ["0.707", "0", "0.707"]


@pytest.mark.browser
def test_a_covered_number_does_not_open(stepper):
    page = stepper(guess=True)
    page.locator("[data-stage=scores] [data-cell='0']").click(force=True)
    assert page.locator("[aria-expanded=true]").count() == 0


# For everyone


@pytest.mark.browser
def test_the_keyboard_alone_does_it_all(stepper):
    page = stepper()
    page.get_by_role("button", name="Next", exact=True).focus()
    for _ in range(3):
        page.keyboard.press("Enter")
    assert state_of(page, "weights") == "shown"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")  # Back
    assert state_of(page, "weights") == "later"
    page.locator("[data-stage-tab=scores]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("[data-stage=exponentials] [data-cell='0']").get_attribute("aria-expanded") == "true"
    page.get_by_label("Let me guess first").focus()
    page.keyboard.press("Space")
    assert page.evaluate("model.get('guess')") is True
    field(page, "Q-0-0").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("model.get('Q')[0][0]") == 1.5


@pytest.mark.browser
def test_focus_stays_where_it_was_when_numbers_change(stepper):
    page = stepper()
    field(page, "Q-0-0").focus()
    page.keyboard.type("5")
    assert page.evaluate("document.activeElement.dataset.field") == "Q-0-0"
    page.locator("[data-query='1']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.query") == "1"


@pytest.mark.browser
def test_the_summary_tells_the_state_and_keeps_a_covered_stage_secret(stepper):
    page = stepper(tokens=["the", "cat", "sat"])
    summary = page.get_by_role("status")
    assert summary.text_content() == "Stage 1 of 5, scores, for q1: k1 the 1, k2 cat 0, k3 sat 1."
    page.get_by_label("Let me guess first").check()
    press(page, "Next")
    page.wait_for_function("document.querySelector('[role=status]').textContent.includes('guess')")
    assert "0.707" not in summary.text_content()


@pytest.mark.browser
@pytest.mark.parametrize("n", [3, 6])
def test_a_phone_shows_it_without_scrolling_sideways(stepper, n):
    page = stepper(*arrays(7, n, n, n, n, 10), tokens=["announced"] * n, stage=4, page=dict(width=390, height=844))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".aw").evaluate("(root) => root.scrollWidth - root.clientWidth") <= 0


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(stepper, theme):
    page = stepper(tokens=["the", "cat", "sat"], stage=3, page=dict(theme=theme))
    page.locator("[data-stage=scores] [data-cell='0']").click()
    ratios = page.evaluate("""() => {
      const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const luminance = (layers) => {
        for (const colour of layers) { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); }
        const [r, g, b] = [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255)
          .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (node) => (node ? [...behind(node.parentElement), getComputedStyle(node).backgroundColor] : []);
      const written = (node) => node.checkVisibility()
        && (node.tagName === "INPUT" || [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
      return [...document.querySelectorAll(".aw *")].filter(written).map((node) => {
        const layers = behind(node);
        const [a, b] = [luminance([...layers, getComputedStyle(node).color]), luminance(layers)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      });
    }""")
    assert len(ratios) > 50 and min(ratios) >= 4.5


@pytest.mark.browser
def test_targets_are_large_enough_for_a_finger(stepper):
    page = stepper(stage=4, page=dict(width=390, height=844))
    boxes = page.locator(".aw button:visible, .aw .aw-number, .st-guess").evaluate_all(
        "all => all.map((e) => e.getBoundingClientRect()).map((r) => Math.min(r.width, r.height))"
    )
    assert min(boxes) >= 24


@pytest.mark.browser
@pytest.mark.parametrize("n_q, n_k, d_k, d_v", [(3, 3, 2, 2), (2, 4, 3, 1), (5, 6, 6, 6)])
def test_the_reserved_height_is_the_height_it_takes(stepper, n_q, n_k, d_k, d_v):
    widget = AttentionStepper(*arrays(8, n_q, n_k, d_k, d_v))
    page = stepper(*arrays(8, n_q, n_k, d_k, d_v))
    assert abs(page.locator(".aw").bounding_box()["height"] - widget.min_height) <= 20


@pytest.mark.browser
def test_it_hears_nothing_after_it_is_gone(stepper):
    page = stepper()
    page.evaluate("dispose()")
    assert page.evaluate("model.listening()") == 0


# Python


def test_lists_arrays_and_tensors_are_taken():
    Q, K, V = arrays(9, 2, 4, 3, 5)
    for kind in (lambda a: a, np.ndarray.tolist, torch.from_numpy):
        widget = AttentionStepper(kind(Q), kind(K), kind(V))
        assert (widget.Q, widget.K, widget.V) == (Q.tolist(), K.tolist(), V.tolist())


@pytest.mark.parametrize(
    "shapes, words",
    [
        (((2, 3), (4, 2), (4, 5)), "equally wide: Q is 2 x 3, K is 4 x 2"),
        (((2, 3), (4, 3), (5, 1)), "K has 4 rows, V has 5"),
        (((7, 3), (4, 3), (4, 1)), r"Q must have 1 to 6 rows and columns; its shape is \(7, 3\)"),
        (((2, 3), (4, 3), (4,)), r"V must have 2 dimensions .* \(4,\)"),
        (((2, 0), (4, 0), (4, 1)), r"Q must have 1 to 6"),
    ],
)
def test_sizes_that_do_not_fit_are_named(shapes, words):
    with pytest.raises(ValueError, match=words):
        AttentionStepper(*map(np.ones, shapes))


@pytest.mark.parametrize(
    "bad, words", [([[1, np.nan]], "finite"), ([[1], [1, 2]], "K must be a table"), ("ab", "K must be")]
)
def test_what_is_no_table_of_numbers_is_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        AttentionStepper([[1.0, 2.0]], bad, [[1.0]])


def test_two_arrays_without_the_third_are_refused():
    with pytest.raises(ValueError, match="missing: V"):
        AttentionStepper(Q=[[1]], K=[[1]])


def test_tokens_must_name_every_key():
    with pytest.raises(ValueError, match="name the 3 keys; 2 were given"):
        AttentionStepper(tokens=["the", "cat"])


def test_a_query_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="0 to 2"):
        AttentionStepper(query=3)


def test_one_array_can_be_given_new_numbers_but_not_a_new_size():
    widget = AttentionStepper()
    widget.K = np.full((3, 2), 0.5)
    assert widget.K == [[0.5, 0.5]] * 3
    with pytest.raises(ValueError, match=r"\(3, 2\) and the new one \(4, 2\); to change sizes, use put"):
        widget.K = np.ones((4, 2))


def test_all_three_can_be_replaced_by_arrays_of_another_size():
    widget = AttentionStepper(stage=3)
    widget.put(np.ones((1, 4)), np.ones((2, 4)), np.ones((2, 3)), tokens=["a", "b"])
    assert (np.shape(widget.Q), np.shape(widget.V), widget.tokens, widget.stage) == ((1, 4), (2, 3), ["a", "b"], 3)


def test_its_state_is_plain_json():
    state = AttentionStepper(*arrays(10, 2, 3, 4, 1)).get_state()
    json.dumps({name: value for name, value in state.items() if name not in ("layout", "tooltip")})


def test_print_gets_a_picture():
    assert len(AttentionStepper(*arrays(11, 2, 3, 4, 1)).picture().axes) == 4
