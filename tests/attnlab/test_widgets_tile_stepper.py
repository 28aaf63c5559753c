"""The tile stepper: every step against the reference answers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import TileStepper
from solutions.efficient_attention import online_softmax, tiled_attention
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets

NAMES = ("scores", "values", "block_size", "causal", "step")
LOG_2 = math.log(2)
# More queries than keys.
TALL = dict(scores=np.arange(12).reshape(6, 2) % 5 - 1.5, values=[[1, 2], [3, -4]], causal=True)
FIXTURES = [
    {},
    dict(block_size=4),
    dict(block_size=1, causal=True),
    dict(block_size=3, causal=True),
    dict(block_size=6),
    TALL,
    dict(scores=[[40, -40, 40], [-40, -39.5, -40]], values=[[1, 0], [0, 1], [5, 5]], block_size=2),
]


def state_of(options):
    widget = TileStepper(**options)
    return {name: getattr(widget, name) for name in NAMES}


@pytest.fixture
def computing(watched):
    """`computing(options)` is what the widget's module computes for TileStepper(**options)."""
    seen = load_widget(watched, TileStepper())
    return lambda options: evaluate_compute(seen, state_of(options))


@pytest.fixture
def shown(watched):
    """`shown(widget)` draws it on a page, on which nothing may go wrong."""
    pages = []

    def show(widget, **context):
        pages.append(load_widget(watched, widget, **context))
        return pages[-1].page

    yield show
    for seen in pages:
        seen.assert_clean()


def text(page, name):
    return page.locator(f"[data-value={name}]").inner_text()


def press(page, name):
    page.locator(f"[data-go={name}]").click(force=True)  # forced: Playwright waits for what is aria-disabled


# Numbers


def test_the_outputs_are_those_of_the_reference(computing):
    for options in FIXTURES:
        state = state_of(options)
        scores = torch.tensor(state["scores"], dtype=torch.float64)
        n_k = scores.shape[1]
        expected = tiled_attention(
            scores * LOG_2 * n_k**0.5,
            torch.eye(n_k).double(),
            torch.tensor(state["values"], dtype=torch.float64),
            2,
            state["causal"],
        )
        np.testing.assert_allclose(computing(options)["outputs"], expected, rtol=1e-12, atol=1e-12)


def test_maximum_and_total_of_every_step_are_those_of_the_stream_so_far(computing):
    for options in FIXTURES:
        state = state_of(options)
        n_q, n_k = np.shape(state["scores"])
        for step in computing(options)["steps"]:
            for row in step["rows"] if step["kind"] == "tile" else []:
                seen = [
                    score
                    for key, score in enumerate(state["scores"][row["query"]][: step["keys"][-1] + 1])
                    if not state["causal"] or key <= row["query"] + n_k - n_q
                ]
                maximum, total = online_softmax([torch.tensor(seen, dtype=torch.float64) * LOG_2])
                assert (row["maximum"], row["total"]) == pytest.approx((maximum / LOG_2, total))


def test_a_step_rescales_what_was_there_and_adds_what_is_new(computing):
    for options in FIXTURES:
        values = np.array(state_of(options)["values"])
        for step in computing(options)["steps"]:
            for row in step["rows"] if step["kind"] == "tile" else []:
                before, keys = row["before"], step["keys"]
                assert row["total"] == pytest.approx(before["total"] * row["factor"] + sum(row["powers"]))
                np.testing.assert_allclose(
                    row["output"],
                    np.array(before["output"]) * row["factor"] + np.array(row["powers"]) @ values[keys],
                    atol=1e-12,
                )


def test_tiles_beyond_the_diagonal_are_no_steps_and_python_counts_the_same(computing):
    for options in FIXTURES:
        found = computing(options)
        assert len(found["steps"]) == TileStepper(**options).last + 1
    tiles = {
        causal: sum(step["kind"] == "tile" for step in computing(dict(causal=causal))["steps"])
        for causal in (False, True)
    }
    assert tiles == {False: 6, True: 5}


# The page


def test_a_step_shows_the_numbers_on_paper(shown):
    page = shown(TileStepper(step=1))
    assert text(page, "title") == "Step 2 of 8. q0 and q1 meet k2 and k3."
    assert [text(page, f"{name}-0") for name in ("tile", "maximum", "factor", "powers", "total", "gathered")] == [
        "4  2",
        "2 → 4",
        "2^(2 − 4) = 0.25",
        "1  0.25",
        "1.5 × 0.25 + 1.25 = 1.625",
        "(8, 4) × 0.25 + new = (4, 11)",
    ]
    assert text(page, "maximum-1") == "3 stays" and text(page, "factor-1") == "2^(3 − 3) = 1"
    assert text(page, "memory") == "At most 4 scores are here at once, of 24 in all."


def test_only_the_tile_of_this_step_has_numbers(shown):
    page = shown(TileStepper(step=1))
    when = page.locator("[data-cell]").evaluate_all("all => all.map((cell) => [cell.dataset.when, cell.textContent])")
    assert [state for state, _ in when[:6]] == ["gone"] * 2 + ["here"] * 2 + ["later"] * 2
    assert [words for _, words in when[:6]] == ["·", "·", "4", "2", "", ""]
    assert {state for state, _ in when[12:]} == {"later"}


def test_the_first_step_multiplies_nothing_by_nothing(shown):
    page = shown(TileStepper())
    assert text(page, "maximum-0") == "−∞ → 2" and text(page, "total-0") == "0 × 0 + 1.5 = 1.5"


def test_hidden_keys_are_minus_infinity_in_the_tile_and_never_elsewhere(shown):
    page = shown(TileStepper(causal=True, step=1))
    assert text(page, "tile-0") == "4  −∞" and text(page, "powers-0") == "1  0"
    assert page.locator("[data-cell='0-4']").get_attribute("data-when") == "never"


def test_a_query_that_sees_nothing_brings_home_zeros(shown):
    page = shown(TileStepper(**TALL))
    assert text(page, "result-0") == "nothing was seen: (0, 0)" and text(page, "output-1") == "(0, 0)"


def test_the_summary_is_announced_politely(shown):
    page = shown(TileStepper(step=3))
    assert page.get_by_role("status").get_attribute("aria-live") == "polite"
    assert said(page) == ("Step 4 of 8. The division at the end. q0: output (2.667, 5.111). q1: output (5.185, 4.444).")


# Controls


def test_next_goes_to_the_last_step_and_back_to_the_first(shown):
    page = shown(TileStepper(block_size=6))
    for reached in (0, 1, 2, 3, 3):
        assert page.evaluate("model.get('step')") == reached
        press(page, "next")
    for reached in (3, 2, 1, 0, 0):
        assert page.evaluate("model.saved.step ?? 0") == reached
        press(page, "back")


def test_another_tile_begins_at_the_beginning(shown):
    page = shown(TileStepper(step=5))
    page.locator("[data-size='3']").click()
    assert page.evaluate("[model.saved.block_size, model.saved.step]") == [3, 0]
    press(page, "next")
    page.locator("[data-causal]").click()
    assert page.evaluate("[model.saved.causal, model.saved.step]") == [True, 0]
    pressed = page.locator("[aria-pressed=true]").evaluate_all("all => all.map((b) => b.textContent)")
    assert pressed == ["3", "Causal"]
    press(page, "reset")
    assert page.evaluate("[model.saved.block_size, model.saved.causal, model.saved.step]") == [2, False, 5]


def test_play_goes_on_by_itself_and_stops_when_asked_or_at_the_end(shown):
    page = shown(TileStepper(block_size=6, step=2))
    press(page, "play")
    assert page.locator("[data-go=play]").inner_text() == "Pause"
    page.wait_for_function("model.get('step') === 3")
    assert page.locator("[data-go=play]").inner_text() == "Play"
    press(page, "play")  # from the end it begins again
    assert page.evaluate("model.get('step')") == 0
    press(page, "next")
    assert page.locator("[data-go=play]").inner_text() == "Play"


def test_the_keyboard_alone_does_it_all(shown):
    page = shown(TileStepper())
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == ["back", "next", "play", "reset", "1", "2", "3", "4", "6", "causal"]
    page.keyboard.press("Space")
    page.locator("[data-go=next]").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("[model.get('causal'), model.get('step'), document.activeElement.dataset.go]") == [
        True,
        1,
        "next",
    ]


# Model


def test_the_state_set_from_python_is_drawn(shown):
    page = shown(TileStepper())
    page.evaluate("model.set('block_size', 3); model.set('step', 1)")
    assert text(page, "title") == "Step 2 of 6. q0 and q1 meet k3, k4 and k5."


def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(TileStepper())
    press(page, "play")
    assert page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])") == [0, 0]


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (dict(scores=[[1, 2]]), "2, 4 or 6 rows"),
        (dict(scores=[[1], [2]]), "2 to 6 numbers"),
        (dict(scores=[[1, math.inf], [0, 0]]), "finite"),
        (dict(values=[[1, 2]]), "6 pairs"),
        (dict(step=8), "step must be 0 to 7, got 8"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        TileStepper(**wrong)


def test_a_step_that_is_no_longer_there_begins_again():
    widget = TileStepper(step=7)
    widget.block_size = 6
    assert widget.step == 0
    with pytest.raises(traitlets.TraitError, match="block_size"):
        widget.block_size = 0


def test_the_picture_for_print_is_a_png():
    for options in FIXTURES:
        assert TileStepper(**options)._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, TileStepper(step=1, causal=True), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    for options in ({"step": 3}, {"block_size": 6, "step": 0}):
        seen = load_widget(watched, TileStepper(**options), width=390)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_its_height_is_the_one_reserved_and_stays_while_stepping(watched, width):
    widget = TileStepper()
    seen = load_widget(watched, widget, width=width)
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    for step, size in ((0, 2), (1, 2), (3, 2), (0, 6), (1, 6)):
        seen.page.evaluate("([a, b]) => { model.set('step', a); model.set('block_size', b); }", [step, size])
        seen.page.wait_for_timeout(150)  # the summary follows a little later
        assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=12)
