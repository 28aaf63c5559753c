"""The word shuffler: its outputs against NumPy, and each of its controls in a browser."""

import numpy as np

from attnlab.widgets import WordShuffler
from tests.attnlab.widget_page import number, state_of

SHUFFLERS = [
    WordShuffler(),
    WordShuffler(order=[2, 1, 0]),
    WordShuffler(order=[2, 0, 1], positions=True),
    WordShuffler(["to", "be", "or", "not", "maybe", "yes"], order=[5, 0, 3, 1, 4, 2], positions=True),
]
FIXTURES = [state_of(shuffler) for shuffler in SHUFFLERS]
STOPS = ["shuffle", "positions", "reset", "dog", "bites", "man"]
SET = [dict(order=[1, 0, 2], positions=True)]
AGAIN = WordShuffler(order=[1, 2, 0], positions=True)
REFUSED = [
    (["dog"], {}, "2 to 6 different words"),
    (["dog", "dog"], {}, "2 to 6 different words"),
    (dict(order=[0, 1]), "order must hold 0 to 2 once each"),
    (dict(order=[0, 1, 1]), "order must hold"),
]
EXAMPLES = [(WordShuffler(), dict(order=[2, 1, 0]), dict(positions=True), dict(order=[1, 2, 0]))]
GLIDES = [(WordShuffler(), dict(order=[2, 1, 0]), {".ws-column": "style"})]
EXTREMES = [(WordShuffler(["understanding", "announced", "record", "earnings", "on", "Friday"]),)]


def outputs(state, order):
    """Token by token, as the chapter does it."""
    width = len(state["vectors"][0])
    x = np.array(state["vectors"])[order]
    if state["positions"]:
        for p in range(len(x)):
            for pair in range(width // 2):
                angle = p / 10000 ** (2 * pair / width)
                x[p, 2 * pair : 2 * pair + 2] += np.sin(angle), np.cos(angle)
    found = np.zeros_like(x)
    for p, word in enumerate(order):
        weights = np.array([np.exp(x[p] @ key / width**0.5) for key in x])
        found[word] = (weights[:, None] * x).sum(0) / weights.sum()
    return found


def reference(state):
    now, first = outputs(state, state["order"]), outputs(state, list(range(len(state["words"]))))
    return {"outputs": now, "first": first, "changes": np.abs(now - first).max(1)}


def test_without_positions_no_order_changes_an_output_and_with_them_one_does(shown):
    view = shown(WordShuffler())
    for positions, changed in [(False, 0), (True, 3)]:
        view.set(positions=positions)
        view.set(order=[2, 1, 0])
        assert view.text("verdict") == f"{changed} of 3 outputs changed"
        told = view.text("told-dog")
        assert told == "same" if not changed else number(told.removeprefix("± ")) > 0.01
        assert f"{changed} of 3 outputs differ from those of “dog bites man”." in view.said()
        view.set(order=[0, 1, 2])
        assert view.text("verdict") == "0 of 3 outputs changed"


def test_the_picture_for_print_has_the_same_outputs():
    for shuffler, state in zip(SHUFFLERS, FIXTURES):
        np.testing.assert_allclose(shuffler.outputs(shuffler.order, shuffler.positions), outputs(state, state["order"]))


def left(view, word):
    return view.part("word", word).bounding_box()["x"]


def test_words_change_places_and_take_their_bars_along(shown):
    view = shown(WordShuffler())
    bars = ".ws-column:nth-child(1) .ws-out"
    before = view.each(bars, "one.style.height")
    view.part("word", "dog").click()
    assert view.get("order") == [1, 0, 2] == view.saved("order")
    assert left(view, "bites") < left(view, "dog") < left(view, "man")
    assert view.each(bars, "one.style.height") == before
    for _ in range(3):
        old = view.get("order")
        view.press("shuffle")
        assert view.get("order") != old and sorted(view.saved("order")) == [0, 1, 2]
    view.part("go", "positions").check()
    assert view.saved("positions") is True
