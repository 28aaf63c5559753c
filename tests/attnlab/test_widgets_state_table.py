"""The state table: every state against the reference answers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import StateTable
from solutions.delta_rule import gated_delta_rule
from tests.attnlab.widget_page import state_of

SMALL = dict(keys=[[1, 0], [0, 1]], values=[[3], [-4]], names=["a", "b"])
LARGE = dict(
    keys=np.eye(6, 4) * [1, 0.5, 0.25, 1] + [0, 0, 0, 1e-9],
    values=-99 + np.arange(18.0).reshape(6, 3),
    names=["macchiato", "a", "b", "c", "macchiato", "d"],
)
OPTIONS = [dict(rule=rule, step=step) for rule in ("add", "delta") for step in (0, 2, 5)]
OPTIONS += [dict(beta=0.5, kept=0.8, step=4), dict(rule="add", beta=0.3, kept=0, step=5), SMALL | dict(step=2)]
OPTIONS += [LARGE | dict(step=6, kept=0.95)]
FIXTURES = [state_of(StateTable(**options)) for options in OPTIONS]
EXAMPLES = [
    (
        StateTable(),
        dict(step=1),
        dict(step=4),
        dict(step=5, rule="add"),
        dict(step=3, beta=0.35, kept=0.85),
        dict(kept=0),
    ),
]
EXTREMES = [(StateTable(**SMALL), dict(step=2)), (StateTable(**LARGE), dict(step=6), dict(rule="add"))]
SET = [dict(rule="add", step=2), dict(beta=0.25, kept=0.5, step=5)]
STOPS = ["back", "next", "play", "reset", "add", "delta", "beta", "beta", "kept", "kept"]
STILL = [".st-state", ".st-pairs"]
AGAIN = StateTable(step=2, beta=0.6, kept=0.9)
MISTYPED = {"beta": ["", "much", "1.01", "-0.1"], "kept": ["", "2", "-1"]}
WALKS = [(StateTable(), "step", 5)]
PLAYS = [(StateTable(step=3), dict(step=5), "next")]
GLIDES = [(StateTable(step=1), dict(step=2), {"[data-cell='0-0']": "", "[data-pair='1'] .st-lane i": "style"})]
SLIDERS = [(StateTable(step=2), trait, [round(0.05 * i, 2) for i in range(21)], 0.33) for trait in ("beta", "kept")]
REFUSED = [
    (dict(keys=[[1], [0]]), "2 to 4 numbers"),
    (dict(keys=np.zeros((7, 3))), "1 to 6 rows"),
    (dict(keys=[[1, 1, 0]]), "length of at most 1"),
    (dict(keys=[[math.nan, 0, 0]]), "length of at most 1"),
    (dict(values=[[1, 2]]), "values must be 5 rows"),
    (dict(values=np.full((5, 2), 100)), "at most 99"),
    (dict(names=["tea"]), "names must be 5 words, got 1"),
    (dict(step=6), "step must be 0 to 5, got 6"),
]
REFUSED_LATER = [("step", 6, "step must be 0 to 5, got 6"), ("beta", 1.5, "beta"), ("rule", "sum", "rule")]


def added(keys, values, beta, kept):
    """All states while pairs are added, the first of them empty."""
    states = [torch.zeros(keys.shape[1], values.shape[1]).double()]
    for key, value in zip(keys, values):
        states.append(kept * states[-1] + beta * torch.outer(key, value))
    return states


def reference(state):
    """States and what is recalled; the delta rule is the reference answer's, one pair after another."""
    keys, values = (torch.tensor(state[name], dtype=torch.float64) for name in ("key_rows", "value_rows"))
    states = added(keys, values, state["beta"], state["kept"])
    if state["rule"] == "delta":
        held = states[0][None, None]
        for i, (key, value) in enumerate(zip(keys, values)):
            key, value = key.view(1, 1, 1, -1), value.view(1, 1, 1, -1)
            g, beta = (
                torch.full((1, 1, 1), x, dtype=torch.float64)
                for x in (math.log(state["kept"] or 1e-300), state["beta"])
            )
            held = gated_delta_rule(key, key, value, g, beta, held)[1]
            states[i + 1] = held[0, 0]
    recalled = keys @ states[state["step"]]
    return {"states": torch.stack(states), "recalled": recalled, "errors": (recalled - values).norm(dim=1)}


@pytest.mark.parametrize("options", OPTIONS)
def test_python_and_the_page_have_the_same_state(options, shown):
    widget = StateTable(**options)
    states = shown(widget).compute(state_of(widget))["states"]
    np.testing.assert_allclose(widget.table(), states[widget.step], atol=1e-12)


def test_a_pair_is_out_of_date_once_its_name_has_been_written_again(shown):
    view = shown(StateTable())
    for step, replaced in (3, []), (4, [0]), (5, [0]):
        found = view.compute(state_of(StateTable(step=step)))["replaced"]
        assert [i for i, old in enumerate(found) if old] == replaced


CONTROLS = {
    "the delta rule has the numbers that the chapter works out by hand": (
        StateTable(),
        {"=key-0": "·", "=title~": "empty", "=found-0": ""},
        ("next", {"[data-cell]": ["5", "0", "0", "0", "0", "0"], "=error-0": "0.0"}),
        ("next", {"[data-cell]": ["8", "3", "4", "4", "0", "0"], "=key-0": "0.6"}),
        {"=recalled-0": "3", "=written-0": "5", "=found-1": "(8, 5)", "=found-0": "(8, 3)", "=found-2": ""},
    ),
    "addition sums the values of similar keys": (
        StateTable(step=2),
        ("rule=add", dict(rule="add"), {"=found-1": "(11, 5)", "pressed rule": ["add"]}),
        ("rule=delta", dict(rule="delta"), {"=found-1": "(8, 5)"}),
    ),
    "a name that comes again replaces its value with the delta rule alone": (
        StateTable(step=3),
        ("next", {"=found-3": "(2, 9)", "=note-0": " (old)", "pair=0@data-when": "replaced"}),
        ("rule=add", {"=found-3": "(11.8, 12)"}),
    ),
    "half of the difference is written and half of the state kept": (
        StateTable(step=1),
        ("field=beta := 0.5", dict(beta=0.5), {"=found-0": "(2.5, 0)"}),
        ("field=beta := 1 | field=kept := 0.5 | next", dict(beta=1, kept=0.5, step=2)),
        {"=recalled-0": "1.5", "=written-0": "6.5", "[data-cell]": ["6.4", "3", "5.2", "4", "0", "0"]},
        {"said~": "kept 0.5"},
    ),
}


def test_print_gets_the_state_and_what_is_recalled():
    left, right = StateTable(step=2).picture().axes
    assert [text.get_text() for text in left.texts] == ["8", "3", "4", "4", "0", "0"]
    assert right.tables[0][2, 1].get_text().get_text() == "8, 5"
