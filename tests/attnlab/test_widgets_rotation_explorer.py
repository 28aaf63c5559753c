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
STOPS = [name for name in ("query", "key", "both", "pair", "base") for _ in range(2)] + ["reset"]
SET = [dict(trained=16, d_head=10, pair=4, query=31, key=30, base=700)]
AGAIN = RotationExplorer(16, 500.0, query=9, key=4, pair=5)
MISTYPED = {"query": ["", "many", "2.5", "-1", "64"], "both": ["60"], "base": ["1"]}
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


def shown_score(view):
    return number(view.text("score").split()[2])


# Numbers


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
        assert found["fresh"] == sum(new)
        assert found["reached"] == pytest.approx(last * frequencies[fixture["pair"]], rel=1e-12)
        assert found["beyond"] == {
            "query": fixture["query"] > last,
            "key": fixture["key"] > last,
            "offset": apart > last,
        }


# What is shown


def test_the_table_has_one_row_for_each_pair_and_adds_up_to_the_score_that_the_summary_says_stays(shown):
    view = shown(RotationExplorer(query=9, key=3))
    for i, frequency in enumerate(turns(8, 10000.0).tolist()):
        found = [view.number(f"{name}-{i}") for name in ("query", "key", "between", "share")]
        expected = [9 * frequency, 3 * frequency, 6 * frequency, math.cos(6 * frequency)]
        assert found == pytest.approx(expected, abs=0.00051)
        assert view.number(f"wavelength-{i}") == pytest.approx(math.tau / frequency, rel=1e-3)
    assert view.number("sum") == shown_score(view) == pytest.approx(score(9, 3, 8, 10000.0), abs=0.00051)
    same = f"{score(9, 3, 8, 10000.0):.3f}"
    assert view.said() == (
        f"Query at 9, key at 3: score {same}. Move both on by 10, to 19 and 13: {same} again. "
        "Only the offset 6 counts. Both are within the 32 tokens of training."
    )


@pytest.mark.parametrize("pair", [0, 20, 31])
def test_many_pairs_show_eight_rows_from_first_to_last_with_the_chosen_one(shown, pair):
    view = shown(RotationExplorer(d_head=64, pair=pair))
    rows = [int(text) for text in view.locator(".ro-table tbody tr:not(.ro-sum) th").all_inner_texts()]
    assert len(rows) == 8 and rows == sorted(set(rows)) and {0, pair, 31} <= set(rows)
    assert view.locator(".ro-table tr[aria-current=true] th").inner_text() == str(pair)
    assert "all 32 pairs" in view.locator(".ro-sum").inner_text()


def test_the_hands_turn_counter_clockwise_and_the_clock_names_its_numbers(shown):
    view = shown(RotationExplorer(query=0, key=1, pair=0))

    def end(name):
        return [float(view.locator(f".ro-clock .ro-hand{name}").get_attribute(at)) for at in ("x2", "y2")]

    length, up = end(":not(.ro-second)")
    assert length > 0 and up == pytest.approx(0)
    assert end(".ro-second") == pytest.approx([length * math.cos(1), -length * math.sin(1)])
    assert view.text("training") == f"0 to {31 / math.tau:.2f} turns"
    view.field("pair").fill("3")
    assert view.text("training") == f"0 to {math.degrees(31 * 10000 ** (-6 / 8)):.1f} degrees"
    view.set(d_head=12, pair=4)
    assert view.locator(".ro-clock text").all_text_contents() == ["x[4]", "x[10]"]
    assert view.text("numbers") == "x[4] and x[10]"


def test_moving_both_changes_no_score_and_no_curve(shown):
    view = shown(RotationExplorer(query=12, key=5))
    found, curves, hands = set(), set(), set()
    for earlier in (0, 20, 56):
        view.field("both").fill(str(earlier))
        assert view.get("query", "key") == [earlier + 7, earlier] == view.saved("query", "key")
        found.add((view.text("score"), view.text("sum"), *(view.text(f"share-{i}") for i in range(4))))
        curves.add(view.locator(".ro-curve").get_attribute("points"))
        hands.add(view.text("query-0"))
    assert len(found) == len(curves) == 1 and len(hands) == 3


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
    label = view.locator(".ro-places").get_attribute("aria-label")
    assert (f"Query at {query}, beyond training" in label) == (query > 31)
    assert (f"key at {key}, beyond training" in label) == (key > 31)


def test_a_larger_base_lets_fewer_pairs_finish_a_turn(shown):
    view = shown(RotationExplorer(d_head=16, trained=128))
    found = []
    for base in ("2", "100", "10000", "500000"):
        view.field("base").fill(base)
        found.append(int(view.text("turns").split()[0]))
        assert view.number("wavelength-7") == pytest.approx(math.tau * float(base) ** (14 / 16), rel=1e-3)
    assert found == sorted(found, reverse=True) and found[0] == 8 and found[-1] < found[1]


# Controls


@pytest.mark.parametrize("name, last", [("query", 63), ("key", 63), ("pair", 3)])
def test_a_field_and_its_slider_move_together(shown, name, last):
    view = shown(RotationExplorer())
    view.slides(name, last, "1")
    assert view.slider(name).input_value() == "1"
    view.field(name).press("ArrowUp")
    assert (view.get(name), view.field(name).input_value()) == (2, "2")
    view.field(name).press("Shift+ArrowDown")
    assert view.get(name) == 0


def test_moving_both_ends_where_the_later_one_does(shown):
    view = shown(RotationExplorer(query=2, key=11))
    view.slider("both").press("End")
    assert view.get("query", "key") == [54, 63] == view.saved("query", "key")
    view.slider("both").press("ArrowLeft")
    assert view.get("query", "key") == [53, 62]
    view.field("both").press("ArrowUp")
    assert view.get("query", "key") == [54, 63]
    view.slider("both").press("Home")
    assert view.get("query", "key") == [0, 9]


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


def test_a_press_on_a_row_chooses_its_pair(shown):
    view = shown(RotationExplorer())
    view.locator("[data-value=share-2]").click()
    assert view.get("pair") == 2 == view.saved("pair")
    assert view.text("numbers") == "x[2] and x[6]"


def test_a_press_on_the_curve_chooses_the_offset_and_keeps_the_key_if_it_can(shown):
    view = shown(RotationExplorer(query=5, key=2))
    plot, dot = view.locator(".ro-plot"), view.locator(".ro-plot circle")
    for query, key, expected in [(32, 2, [32, 2]), (0, 1, [1, 2]), (0, 40, [0, 40]), (63, 0, [63, 0])]:
        view.set(query=query, key=key)
        x, _ = view.middle(dot)
        view.set(query=5, key=2)
        view.mouse.click(x, plot.bounding_box()["y"] + 60)
        assert view.get("query", "key") == expected == view.saved("query", "key")


# Model


def test_smaller_sizes_bring_the_rest_back_into_range():
    explorer = RotationExplorer(d_head=64, query=np.int64(60), key=40, pair=31)
    explorer.trained = 16
    explorer.d_head = 6
    assert (explorer.query, explorer.key, explorer.pair) == (31, 31, 2)
    assert explorer.min_height + explorer.narrow_extra == 1398 + 27 * 3
