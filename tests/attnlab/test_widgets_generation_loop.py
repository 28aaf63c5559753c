"""The loop of generation: which text and numbers belong to which step, and each of its controls in a browser."""

import numpy as np
import pytest

from attnlab import data
from attnlab.widgets import GenerationLoop
from tests.attnlab.widget_page import state_of

FIXTURES = [state_of(GenerationLoop(run=run, step=step)) for run, step in ((0, 0), (1, 7), (2, 56))]
STOPS = ["back", "next", "play", "0", "1", "2"]
PLAYS = [(GenerationLoop(step=52), dict(step=56), "back")]
EXAMPLES = [(GenerationLoop(), dict(step=3), dict(step=4), dict(step=56), dict(run=2, step=54))]
REFUSED = [(dict(step=57), "step must be from 0 to 56; got 57"), (dict(run=3), "run must be from 0 to 2")]


def reference(state):
    run, at = state["runs"][state["run"]], state["step"] // 4
    chosen = [row[i] for row, i in zip(run["ids"], run["taken"])]
    row = min(at, len(chosen) - 1)
    return {
        "ids": state["ids"] + chosen[:at],
        "phase": state["step"] % 4,
        "nextIds": run["ids"][row],
        "shares": run["shares"][row],
        "taken": run["taken"][row],
        "done": at == len(chosen),
        "written": at,
    }


def words(view):
    return [one.evaluate("(one) => one.firstChild.textContent") for one in view.locator(".gl-text .gl-token").all()]


def test_four_steps_write_one_token(shown):
    view = shown(GenerationLoop(step=0))
    run = data.writing().runs[0]
    start = words(view)
    seen = []
    for _ in range(4):
        seen.append((view.locator(".gl-empty").count(), view.texts(".gl-choice .gl-token > small")))
        view.press("next")
    assert seen == [(1, []), (1, []), (0, []), (0, [str(run.ids[0, run.taken[0]])])]
    assert words(view) == [*start, run.tokens[0][run.taken[0]].strip()] and view.get("step") == 4


def test_bars_are_scaled_to_the_largest_and_the_taken_one_is_marked(shown):
    view = shown(GenerationLoop(step=3, run=1))
    run = data.writing().runs[1]
    scales = view.each(".gl-bar > i > i", "new DOMMatrix(one.style.transform).a")
    np.testing.assert_allclose(scales, run.shares[0] / run.shares[0].max(), atol=1e-3)
    taken = view.each(".gl-bar", "one.classList.contains('gl-taken')")
    assert taken.index(True) == run.taken[0]


def test_at_the_end_it_says_so(shown):
    assert shown(GenerationLoop(step=56)).said() == "The text is written."


def test_another_choice_begins_its_own_text(shown):
    view = shown(GenerationLoop(step=20))
    view.part("run", 2).click()
    assert view.get("run", "step") == [2, 2] and view.pressed("run") == ["2"]


@pytest.mark.parametrize("wanted", ["no-preference", "reduce"])
def test_the_chosen_token_moves_to_the_text_unless_motion_is_unwanted(shown, wanted):
    view = shown(GenerationLoop(step=3), reduced_motion=wanted)
    places = view.evaluate(
        """async () => {
          model.set("step", 4);
          const seen = new Set();
          for (let i = 0; i < 60; i++) {
            await new Promise(requestAnimationFrame);
            seen.add(document.querySelector(".gl-new").style.transform);
          }
          return [...seen];
        }"""
    )
    assert places[-1] == "" and (len(places) > 3) == (wanted == "no-preference")
