"""The stepper: its numbers are PyTorch's, every control does what it says, and bad arrays are refused by name."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F

from attnlab.widgets.attention_stepper import AttentionStepper

STAGES = ["scores", "scaled", "exponentials", "weights", "output"]


def arrays(seed, n_q, n_k, d_k, d_v, size=1.0):
    rng = np.random.default_rng(seed)
    return [size * rng.normal(size=shape) for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v))]


SIZES = [(1, 3, 3, 2, 2), (2, 2, 5, 3, 4), (3, 6, 4, 6, 1, 3), (4, 1, 6, 1, 6), (5, 5, 2, 4, 3, 300), (6, 4, 1, 5, 2)]
FIXTURES = [dict(zip("QKV", map(np.ndarray.tolist, arrays(*sizes)))) for sizes in SIZES]
CELL, EVERY_STAGE = "[data-stage=%s] .st-cell", [dict(stage=stage) for stage in range(1, 5)]
OPENED = [CELL % stage for stage in STAGES]
EXAMPLES = [
    (AttentionStepper(tokens=["the", "cat", "sat"]), *EVERY_STAGE, *OPENED, dict(query=1), dict(guess=True, stage=2)),
    *((AttentionStepper(*arrays(8, *sizes)),) for sizes in [(2, 4, 3, 1), (5, 6, 6, 6)]),
]
ROOM = (-187, 15)
EXTREMES = [(AttentionStepper(*arrays(7, n, n, n, n, 10), tokens=["announced"] * n, stage=4), *OPENED) for n in (3, 6)]


SET = [dict(stage=3, query=1, K=[[5, 5], [0, 1], [1, 1]])]
MISTYPED = {"Q-0-0": ["one"]}


def make(*shapes, **options):
    return AttentionStepper(*map(np.ones, shapes), **options)


REFUSED = [
    ((2, 3), (4, 2), (4, 5), {}, "equally wide: Q is 2 x 3, K is 4 x 2"),
    ((2, 3), (4, 3), (5, 1), {}, "K has 4 rows, V has 5"),
    ((7, 3), (4, 3), (4, 1), {}, r"Q must have 1 to 6 rows and columns; its shape is \(7, 3\)"),
    ((2, 3), (4, 3), (4,), {}, r"V must have 2 dimensions .* \(4,\)"),
    ((2, 0), (4, 0), (4, 1), {}, r"Q must have 1 to 6"),
    (dict(Q=[[1.0, 2.0]], K=[[1, np.nan]], V=[[1.0]]), "finite"),
    (dict(Q=[[1.0, 2.0]], K=[[1], [1, 2]], V=[[1.0]]), "K must be a table"),
    (dict(Q=[[1.0, 2.0]], K="ab", V=[[1.0]]), "K must be"),
    (dict(Q=[[1]], K=[[1]]), "missing: V"),
    (dict(tokens=["the", "cat"]), "name the 3 keys; 2 were given"),
    (dict(query=3), "0 to 2"),
]
REFUSED_LATER = [("K", np.ones((4, 2)), r"\(3, 2\) and the new one \(4, 2\); to change sizes, use put")]


def reference(state):
    q, k, v = (torch.tensor(state[name], dtype=torch.float64) for name in "QKV")
    scores = torch.matmul(q, k.mT)
    scaled = scores / math.sqrt(q.shape[-1])
    exponentials = (scaled - scaled.max(dim=-1, keepdim=True).values).exp()
    return {
        "scores": scores,
        "scaled": scaled,
        "maxima": scaled.amax(-1),
        "exponentials": exponentials,
        "totals": exponentials.sum(-1),
        "weights": F.softmax(scaled, dim=-1),
        "output": F.scaled_dot_product_attention(q, k, v),
        "root": q.shape[-1] ** 0.5,
    }


def numbers(view, stage):
    return view.locator(f"[data-stage={stage}] .st-cell").all_text_contents()


def state_of(view, stage):
    return view.locator(f"[data-stage={stage}]").get_attribute("data-now")


# The numbers


def test_the_worked_example_ends_where_paper_ends_and_scores_of_a_thousand_give_weights(shown):
    view = shown(AttentionStepper(query=2, stage=4))
    assert numbers(view, "scores") == ["1", "1", "2"]
    assert numbers(view, "scaled") == ["0.707", "0.707", "1.414"]
    assert numbers(view, "exponentials") == ["0.493", "0.493", "1", "1.986"]
    assert numbers(view, "weights") == ["0.248", "0.248", "0.503"]
    assert numbers(view, "output") == ["1", "1.248"]
    view.set(query=0, Q=[[1000.0]], K=[[1.0], [0.999]], V=[[1.0], [2.0]])
    assert numbers(view, "weights") == ["0.731", "0.269"]


# Stepping


def test_next_shows_one_stage_more_and_back_one_less_and_a_tab_goes_there(shown):
    view = shown(AttentionStepper())
    for reached in range(5):
        assert [state_of(view, stage) for stage in STAGES] == ["shown"] * (reached + 1) + ["later"] * (4 - reached)
        assert view.get("stage") == reached
        view.press("Next")
    assert view.get("stage") == 4
    assert view.part("go", "next").get_attribute("aria-disabled") == "true"
    view.press("Back")
    assert numbers(view, "output") == ["", ""]
    assert view.saved("stage") == 3
    view.part("stage-tab", "exponentials").click()  # directly
    assert [state_of(view, stage) for stage in STAGES] == ["shown"] * 3 + ["later"] * 2
    assert view.locator("[aria-current=step]").get_attribute("data-stage-tab") == "exponentials"


def test_reset_brings_back_the_first_stage_the_first_query_and_the_first_numbers(shown):
    view = shown(AttentionStepper(stage=3))
    view.locator("[data-query='1']").click()
    view.field("K-0-0").fill("9")
    view.press("Reset")
    assert view.get("stage", "query", "K") == [0, 0, [[1, 0], [0, 1], [1, 1]]]
    assert view.field("K-0-0").input_value() == "1"
    assert numbers(view, "scores") == ["1", "0", "1"]


# Controls


def test_a_query_has_its_own_row_which_its_entries_move(shown):
    view = shown(AttentionStepper())
    view.locator("[data-query='1']").click()
    assert numbers(view, "scores") == ["0", "1", "1"]
    assert view.pressed("query") == ["1"]
    assert view.saved("query") == 1
    view.part("query", 0).click()
    view.field("Q-0-1").fill("3")
    assert numbers(view, "scores") == ["1", "3", "4"]
    view.locator("[data-query='1']").click()
    assert numbers(view, "scores") == ["0", "1", "1"]


def test_a_key_moves_its_score_and_every_weight_and_a_value_the_output_alone(shown):
    view = shown(AttentionStepper(stage=4, query=0))
    before = {stage: numbers(view, stage) for stage in STAGES}
    view.field("K-1-0").fill("2,5")
    after = {stage: numbers(view, stage) for stage in STAGES}
    assert [a == b for a, b in zip(before["scores"], after["scores"])] == [True, False, True]
    assert not any(a == b for a, b in zip(before["weights"], after["weights"]))
    assert view.saved("K") == [[1, 0], [2.5, 1], [1, 1]]
    weights, output = numbers(view, "weights"), numbers(view, "output")
    view.field("V-2-1").fill("7")
    assert numbers(view, "weights") == weights
    assert [a == b for a, b in zip(output, numbers(view, "output"))] == [True, False]


def test_arrays_of_another_size_are_drawn_anew(shown):
    view = shown(AttentionStepper(stage=3, query=1))
    view.set(query=0, Q=[[1, 2, 3]], K=[[1, 0, 0], [0, 1, 0]], V=[[1], [3]])
    assert numbers(view, "scores") == ["1", "2"]
    assert view.locator("[data-field]").count() == 3 + 6 + 2


# The sum behind a number


def test_a_number_opens_to_its_sum_and_closes_again(shown):
    view = shown(AttentionStepper(stage=4))
    for stage, cell, text in [
        ("scores", 2, "q1 · k3 = 1·1 + 0·1 = 1"),
        ("scaled", 0, "1 / √2 = 1 / 1.414 = 0.707"),
        ("exponentials", 1, "e0 − 0.707 = e−0.707 = 0.493"),
        ("exponentials", 3, "total: 1 + 0.493 + 1 = 2.493"),
        ("weights", 1, "0.493 / 2.493 = 0.198"),
        ("output", 1, "column 2 of V: 0.401·0 + 0.198·3 + 0.401·1 = 0.994"),
    ]:
        row = view.part("stage", stage)
        button, why = row.locator(f"[data-cell='{cell}']"), row.locator(".st-why")
        closed = why.text_content()
        button.click()
        assert (why.text_content(), button.get_attribute("aria-expanded")) == (text, "true")
        button.click()
        assert (why.text_content(), button.get_attribute("aria-expanded")) == (closed, "false")


def test_an_opened_sum_follows_the_numbers_and_its_ingredients_are_marked(shown):
    view = shown(AttentionStepper(stage=2))
    assert "maximum, 0.707, is subtracted" in view.locator("[data-stage=exponentials] .st-why").text_content()
    view.locator("[data-stage=scores] [data-cell='0']").click()
    view.field("K-0-1").fill("-4")
    view.locator("[data-query='2']").click()
    assert view.locator("[data-stage=scores] .st-why").text_content() == "q3 · k1 = 1·1 + 1·(−4) = −3"
    view.locator("[data-stage=scores] [data-cell='1']").click()
    marked = view.locator(".st-used").evaluate_all("all => all.map((field) => field.dataset.field)")
    assert marked == ["Q-2-0", "Q-2-1", "K-1-0", "K-1-1"]


# Guessing first


def test_while_guessing_a_new_stage_waits_to_be_shown(shown):
    view = shown(AttentionStepper())
    view.get_by_label("Let me guess first").check()
    view.press("Next")
    assert numbers(view, "scores") == ["1", "0", "1"]
    assert numbers(view, "scaled") == ["?", "?", "?"]
    assert "0.707" not in view.locator(".aw").inner_text()
    view.get_by_role("button", name="Show").click()
    assert numbers(view, "scaled") == ["0.707", "0", "0.707"]
    assert view.get_by_role("button", name="Show").count() == 0


def test_a_stage_once_shown_stays_shown_and_another_query_is_another_guess(shown):
    view = shown(AttentionStepper(guess=True))
    view.locator("[data-stage=scores] [data-cell='0']").click(force=True)  # covered, it does not open
    assert view.locator("[aria-expanded=true]").count() == 0
    view.get_by_role("button", name="Show").click()
    view.press("Next")
    view.press("Back")
    assert numbers(view, "scores") == ["1", "0", "1"]
    view.part("query", 2).click()
    assert numbers(view, "scores") == ["?", "?", "?"]


def test_no_longer_guessing_uncovers_everything(shown):
    view = shown(AttentionStepper(guess=True, stage=1))
    view.get_by_label("Let me guess first").uncheck()
    assert numbers(view, "scaled") == ["0.707", "0", "0.707"]


# For everyone


def test_the_keyboard_alone_does_it_all(shown):
    view = shown(AttentionStepper())
    view.get_by_role("button", name="Next", exact=True).focus()
    for _ in range(3):
        view.keyboard.press("Enter")
    assert state_of(view, "weights") == "shown"
    view.keyboard.press("Shift+Tab")
    view.keyboard.press("Space")  # Back
    assert state_of(view, "weights") == "later"
    view.locator("[data-stage-tab=scores]").focus()
    view.keyboard.press("ArrowDown")
    view.keyboard.press("ArrowDown")
    view.keyboard.press("Tab")
    view.keyboard.press("Enter")
    assert view.locator("[data-stage=exponentials] [data-cell='0']").get_attribute("aria-expanded") == "true"
    view.get_by_label("Let me guess first").focus()
    view.keyboard.press("Space")
    assert view.get("guess") is True
    view.field("Q-0-0").focus()
    view.keyboard.press("ArrowUp")
    assert view.get("Q")[0][0] == 1.5
    view.keyboard.type("5")
    assert (view.get("Q")[0][0] != 1.5, view.focused()) == (True, "Q-0-0")


def test_the_summary_tells_the_state_and_keeps_a_covered_stage_secret(shown):
    view = shown(AttentionStepper(tokens=["the", "cat", "sat"]))
    assert view.said() == "Stage 1 of 5, scores, for q1: k1 the 1, k2 cat 0, k3 sat 1."
    view.get_by_label("Let me guess first").check()
    view.press("Next")
    said = view.said()
    assert "guess" in said and "0.707" not in said


# Python


def test_lists_arrays_and_tensors_are_taken():
    Q, K, V = arrays(9, 2, 4, 3, 5)
    for kind in (lambda a: a, np.ndarray.tolist, torch.from_numpy):
        widget = AttentionStepper(kind(Q), kind(K), kind(V))
        assert (widget.Q, widget.K, widget.V) == (Q.tolist(), K.tolist(), V.tolist())


def test_one_array_can_be_given_new_numbers_and_all_three_another_size():
    widget = AttentionStepper(stage=3)
    widget.K = np.full((3, 2), 0.5)
    assert widget.K == [[0.5, 0.5]] * 3
    widget.put(np.ones((1, 4)), np.ones((2, 4)), np.ones((2, 3)), tokens=["a", "b"])
    assert (np.shape(widget.Q), np.shape(widget.V), widget.tokens, widget.stage) == ((1, 4), (2, 3), ["a", "b"], 3)
