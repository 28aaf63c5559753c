"""The loop of generation: which text and numbers belong to which step, and each of its controls in a browser."""

import pytest

from attnlab import data
from attnlab.widgets import GenerationLoop
from tests.attnlab.widget_page import WAY, frame_clock, state_of

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


RUN, OTHER = data.writing().runs[:2]
TEXT = ".gl-text .gl-token => one.firstChild.textContent"
LENGTH = ".gl-bar > i > i => new DOMMatrix(one.style.transform).a"
WALKS = [(GenerationLoop(step=0), "step", 56)]
CONTROLS = {
    "bars are scaled to the largest and the taken one is marked": (
        GenerationLoop(step=3, run=1),
        {LENGTH: pytest.approx(OTHER.shares[0] / OTHER.shares[0].max(), abs=1e-3)},
        {f".gl-bar:nth-child({OTHER.taken[0] + 1}).gl-taken": 1, ".gl-taken": 1},
    ),
    "at the end it says so": (GenerationLoop(step=56), {"said": "The text is written."}),
    "another choice begins its own text": (
        GenerationLoop(step=20),
        ("run=2", {"run": 2, "step": 2, "pressed run": ["2"]}),
    ),
}


def test_four_steps_write_one_token(shown):
    view = shown(GenerationLoop(step=0))
    start = view.look(TEXT, None)
    seen = []
    for _ in range(4):
        seen.append((view.locator(".gl-empty").count(), view.texts(".gl-choice .gl-token > small")))
        view.press("next")
    assert seen == [(1, []), (1, []), (0, []), (0, [str(RUN.ids[0, RUN.taken[0]])])]
    assert view.look(TEXT, None) == [*start, RUN.tokens[0][RUN.taken[0]].strip()] and view.get("step") == 4


@pytest.mark.parametrize("wanted", ["no-preference", "reduce"])
def test_the_chosen_token_moves_to_the_text_unless_motion_is_unwanted(shown, wanted):
    view = shown(GenerationLoop(step=3), before=frame_clock(), reduced_motion=wanted)
    places, _ = view.evaluate(WAY, [dict(step=4), {".gl-token.gl-new": "style"}, 60])
    assert "transform" not in places[-1] and (len(set(places[1:])) > 3) == (wanted == "no-preference")
