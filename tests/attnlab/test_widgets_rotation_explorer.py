"""The rotation explorer: its numbers against PyTorch's complex numbers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import RotationExplorer
from tests.attnlab.widget_page import number

FIXTURES = [
    {"d_head": 8, "base": 10000.0, "query": 5, "key": 2, "pair": 0, "trained": 32},
    {"d_head": 2, "base": 50.0, "query": 0, "key": 15, "pair": 0, "trained": 8},  # one pair, the key comes later
    {"d_head": 6, "base": 2.0, "query": 63, "key": 0, "pair": 2, "trained": 32},  # every pair finishes a turn
    {"d_head": 20, "base": 500000.0, "query": 70, "key": 66, "pair": 9, "trained": 64},
    {"d_head": 128, "base": 1e7, "query": 255, "key": 254, "pair": 63, "trained": 128},
]
STOPS = ["query", "both", "key", "base", "base", "reset"]
SET = [dict(trained=16, d_head=10, pair=4, query=31, key=30, base=700)]
AGAIN = RotationExplorer(16, 500.0, query=9, key=4, pair=5)
MISTYPED = {"base": ["", "many", "1"]}
REFUSED = [
    (dict(d_head=7), "d_head must be even"),
    (dict(d_head=0), "d_head must be between 2 and 128"),
    (dict(base=1), "base must be between 2 and 1e\\+07"),
    (dict(base=math.nan), "base must be"),
    (dict(query=64), "query must be between 0 and 63, twice the trained length less one; got 64"),
    (dict(key=-1), "key must be"),
    (dict(pair=4), "pair must be between 0 and 3"),
    (dict(trained=4), "trained must be between 8 and 128"),
    (dict(query=1.5), "query"),
    (dict(pair="a"), "pair"),
]
PLACES = [
    dict(query=63, key=62, base=1e7),
    dict(query=0, key=63, base=2),
    dict(query=32, key=31, base=123.456),
    dict(query=40, key=5, base=10000),
]
EXAMPLES = [(RotationExplorer(), *PLACES), (RotationExplorer(64), *PLACES)]
GLIDES = [
    (RotationExplorer(), dict(query=30, base=100), {part: name})
    for part, name in [("line.ro-hand:not(.ro-second)", "x2"), (".ro-point", "cx"), (".ro-curve", "points")]
]
EXTREMES = [
    (RotationExplorer(d_head=128, base=1e7, query=255, key=0, pair=63, trained=128),),
    (RotationExplorer(d_head=2, query=0, key=15, trained=8),),
]


def turns(d_head, base):
    """Radians per token, one for each pair, in double precision."""
    return torch.pow(torch.tensor(base, dtype=torch.float64), -torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)


def turned(position, d_head, base):
    """The vector of ones and then zeros, its pairs taken as complex numbers, half-split, and turned."""
    pairs = torch.polar(torch.ones(d_head // 2, dtype=torch.float64), position * turns(d_head, base))
    return torch.cat([pairs.real, pairs.imag])


def score(query, key, d_head, base):
    return float(turned(query, d_head, base) @ turned(key, d_head, base))


def reference(state):
    d_head, base, query, key = (state[name] for name in ("d_head", "base", "query", "key"))
    q, k, frequencies = turned(query, d_head, base), turned(key, d_head, base), turns(d_head, base)
    offsets = np.arange(1 - 2 * state["trained"], 2 * state["trained"])
    return {
        "rotated.query": q,
        "rotated.key": k,
        "frequencies": frequencies,
        "wavelengths": 2 * math.pi / frequencies,
        "angles.query": query * frequencies,
        "angles.key": key * frequencies,
        "between": (query - key) * frequencies,
        "score": q @ k,
        "further.score": q @ k,  # both moved on
        "shares": (q * k).reshape(2, -1).sum(0),
        "offsets": offsets,
        "curve": [score(key + offset, key, d_head, base) for offset in offsets],
    }


def test_the_score_and_the_curve_stay_when_both_move_on(shown):
    view = shown(RotationExplorer())
    for fixture in FIXTURES:
        found = view.compute(fixture)
        for by in (1, 17, 1000):
            moved = view.compute({**fixture, "query": fixture["query"] + by, "key": fixture["key"] + by})
            assert moved["rotated"] != found["rotated"]
            assert moved["score"] == pytest.approx(found["score"], abs=1e-10)
            np.testing.assert_allclose(moved["curve"], found["curve"], rtol=0, atol=1e-9)


def test_what_training_held_is_counted_pair_by_pair(shown):
    """Against the angles themselves: those of every offset of training, between 0 and a full turn."""
    view = shown(RotationExplorer())
    for fixture in FIXTURES:
        found, frequencies = view.compute(fixture), turns(fixture["d_head"], fixture["base"]).numpy()
        last, apart = fixture["trained"] - 1, abs(fixture["query"] - fixture["key"])
        finished = [last * f >= math.tau for f in frequencies]
        assert found["fullTurns"] == sum(finished)
        held = [np.arange(last + 1) * f % math.tau for f in frequencies]
        new = [not done and apart * f % math.tau > seen.max() for f, seen, done in zip(frequencies, held, finished)]
        assert found["fresh"] == new
        assert found["reached"] == pytest.approx(list(last * frequencies), rel=1e-12)
        assert found["beyond"] == {
            "query": fixture["query"] > last,
            "key": fixture["key"] > last,
            "offset": apart > last,
        }


def test_below_each_clock_is_what_its_pair_adds_to_the_score_that_the_summary_says_stays(shown):
    view = shown(RotationExplorer(query=9, key=3))
    for i, frequency in enumerate(turns(8, 10000.0).tolist()):
        assert number(view.text(f"share-{i}").removeprefix("cos ")) == pytest.approx(
            math.cos(6 * frequency), abs=0.00051
        )
        assert number(view.text(f"wavelength-{i}").split()[0]) == pytest.approx(math.tau / frequency, rel=1e-3)
    expected = [math.degrees(6 * frequency) for frequency in turns(8, 10000.0).tolist()]
    assert [view.text(f"between-{i}") for i in range(4)] == [f"∠ {angle:.1f}°" for angle in expected]
    assert view.number("score") == pytest.approx(score(9, 3, 8, 10000.0), abs=0.00051)
    same = f"{score(9, 3, 8, 10000.0):.3f}"
    assert view.said() == (
        f"Query at 9, key at 3: score {same}. Move both on by 10, to 19 and 13: {same} again. "
        "Only the offset 6 counts. Both are within the 32 tokens of training."
    )


@pytest.mark.parametrize("pair", [0, 20, 31])
def test_of_many_pairs_four_are_drawn_from_first_to_last_with_the_chosen_one(shown, pair):
    view = shown(RotationExplorer(d_head=64))
    view.slider("pair").fill(str(pair))
    assert view.get("pair") == pair == view.saved("pair")
    drawn = [
        int(text) for text in view.locator("[data-clock]").evaluate_all("all => all.map(one => one.dataset.clock)")
    ]
    assert len(drawn) == 4 and drawn == sorted(set(drawn)) and {0, pair, 31} <= set(drawn)
    view.set(pair=0, d_head=8)
    assert not view.slider("pair").is_visible()


def end(view, pair, kind):
    return [float(view.locator(f"[data-clock='{pair}'] {kind}").get_attribute(at)) for at in ("x2", "y2")]


def test_the_hands_turn_counter_clockwise_and_the_clock_names_its_numbers(shown):
    view = shown(RotationExplorer(query=0, key=1))
    length, up = end(view, 0, "line:not(.ro-second):not(.ro-axis)")
    assert length > 0 and up == pytest.approx(0)
    assert end(view, 0, "line.ro-second") == pytest.approx([length * math.cos(1), -length * math.sin(1)])
    view.set(d_head=12, pair=4)
    assert "Pair 4, numbers 4 and 10:" in view.part("clock", "4").get_attribute("aria-label")


def test_moving_both_changes_no_score_and_no_curve(shown):
    view = shown(RotationExplorer(query=12, key=5))
    found, curves, hands = set(), set(), set()
    for key in ("Home", "ArrowRight", "PageUp", "End"):
        view.slider("both").press(key)
        assert view.saved("query") == view.saved("key") + 7
        found.add((view.text("score"), *(view.text(f"share-{i}") for i in range(4))))
        curves.add(view.locator(".ro-curve").get_attribute("points"))
        hands.add(tuple(end(view, 0, "line.ro-second")))
    assert len(found) == len(curves) == 1 and len(hands) == 4


@pytest.mark.parametrize(
    "query, key, words",
    [
        (40, 38, "Both positions are beyond training, but tokens 2 apart occurred in it, so this score is known."),
        (33, 30, "Position 33 is beyond training, but tokens 3 apart occurred in it"),
        (30, 33, "Position 33 is beyond training, but tokens 3 apart occurred in it"),
        (50, 0, "No two tokens were 50 apart in training: for 3 of 4 pairs, the angle between the hands is new."),
    ],
)
def test_positions_and_offsets_beyond_training_are_told_apart(shown, query, key, words):
    view = shown(RotationExplorer(query=query, key=key))
    assert words in view.said()
    for name, place in ("query", query), ("key", key):
        told = view.slider(name).get_attribute("aria-valuetext")
        assert told == (f"{place}, beyond training" if place > 31 else str(place))
    new = [view.text(f"between-{i}").endswith(" new") for i in range(4)]
    assert new == [False, *[abs(query - key) > 31] * 3]
    assert view.locator(".ro-new").count() == sum(new)


def test_a_larger_base_lets_fewer_pairs_finish_a_turn(shown):
    view = shown(RotationExplorer(d_head=16, trained=128))
    found = []
    for base in ("2", "100", "10000", "500000"):
        view.field("base").fill(base)
        found.append(int(view.locator(".ro-clocks").get_attribute("aria-label").split()[0]))
        wavelength = number(view.text("wavelength-7").split()[0])
        assert wavelength == pytest.approx(math.tau * float(base) ** (14 / 16), rel=1e-3)
    assert found == sorted(found, reverse=True) and found[0] == 8 and found[-1] < found[1]


def place(view, position, last=63):
    box = view.locator(".ro-places").bounding_box()
    return box["x"] + 38 + position / last * (box["width"] - 76)


@pytest.mark.parametrize("name", ["query", "key"])
def test_a_handle_is_dragged_along_the_line_and_moved_by_keys(shown, name):
    view = shown(RotationExplorer())
    view.mouse.move(*view.middle(view.slider(name)))
    view.mouse.down()
    for position in (20, 41):
        view.mouse.move(place(view, position), 400)
        assert view.get(name) == position == view.saved(name)
    view.mouse.move(1270, 400)
    assert view.get(name) == 63
    view.mouse.up()
    view.mouse.move(place(view, 9), 400)
    assert view.get(name) == 63
    for key, reached in [("Home", 0), ("ArrowRight", 1), ("Shift+ArrowUp", 11), ("ArrowDown", 10), ("PageDown", 0)]:
        view.slider(name).press(key)
        assert (view.get(name), view.slider(name).get_attribute("aria-valuenow")) == (reached, str(reached))


def test_a_finger_drags_the_offset_along(shown):
    view = shown(RotationExplorer(query=12, key=5), width=390, has_touch=True)
    x, y = view.middle(view.slider("both"))
    step = place(view, 1) - place(view, 0)
    view.touch((x, y), (x + 8 * step, y), (x + 20 * step, y))
    assert view.get("query", "key") == [32, 25] == view.saved("query", "key")


def test_moving_both_ends_where_the_later_one_does(shown):
    view = shown(RotationExplorer(query=2, key=11))
    for key, reached in [("End", [54, 63]), ("ArrowLeft", [53, 62]), ("ArrowUp", [54, 63]), ("Home", [0, 9])]:
        view.slider("both").press(key)
        assert view.get("query", "key") == reached == view.saved("query", "key")


def test_the_base_slider_is_logarithmic_and_the_field_exact(shown):
    view = shown(RotationExplorer())
    view.slider("base").press("ArrowRight")
    assert view.get("base") == 13000 == view.saved("base")
    view.slider("base").press("Home")
    assert view.get("base") == 2
    view.slider("base").press("End")
    assert (view.get("base"), view.slider("base").get_attribute("aria-valuetext")) == (1e7, "10000000")
    view.field("base").fill("500000")
    assert view.get("base") == 500000 == view.saved("base")
    view.set(base=2)
    found = [2.0]  # each press moves it on
    for _ in range(67):
        view.slider("base").press("ArrowRight")
        found.append(view.get("base"))
    assert found == sorted(set(found)) and found[-1] == 1e7 and 10000 in found


def test_a_press_on_the_curve_chooses_the_offset_and_keeps_the_key_if_it_can(shown):
    view = shown(RotationExplorer(query=5, key=2))
    plot, dot = view.locator(".ro-plot"), view.locator(".ro-point")
    for query, key, expected in [(32, 2, [32, 2]), (0, 1, [1, 2]), (0, 40, [0, 40]), (63, 0, [63, 0])]:
        view.set(query=query, key=key)
        x, _ = view.middle(dot)
        view.set(query=5, key=2)
        view.mouse.click(x, plot.bounding_box()["y"] + 60)
        assert view.get("query", "key") == expected == view.saved("query", "key")


def test_smaller_sizes_bring_the_rest_back_into_range():
    explorer = RotationExplorer(d_head=64, query=np.int64(60), key=40, pair=31)
    explorer.trained = 16
    explorer.d_head = 6
    assert (explorer.query, explorer.key, explorer.pair) == (31, 31, 2)
    assert explorer.min_height == RotationExplorer().min_height
