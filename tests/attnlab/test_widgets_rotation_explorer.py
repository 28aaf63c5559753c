"""The rotation explorer: its numbers against PyTorch's complex numbers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import RotationExplorer
from tests.attnlab.widget_page import number, sets
from tests.references import rotated

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
    """The vector of ones and then zeros, turned."""
    vector = torch.tensor([[1.0, 0.0]]).repeat_interleave(d_head // 2, dim=1)
    return rotated(vector, torch.tensor([position]), base)[0]


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


def test_a_larger_base_lets_fewer_pairs_finish_a_turn(shown):
    view = shown(RotationExplorer(d_head=16, trained=128))
    found = []
    for base in ("2", "100", "10000", "500000"):
        view.field("base").fill(base)
        found.append(int(view.locator(".ro-clocks").get_attribute("aria-label").split()[0]))
        wavelength = number(view.text("wavelength-7").split()[0])
        assert wavelength == pytest.approx(math.tau * float(base) ** (14 / 16), rel=1e-3)
    assert found == sorted(found, reverse=True) and found[0] == 8 and found[-1] < found[1]


def test_a_press_on_the_curve_chooses_the_offset_and_keeps_the_key_if_it_can(shown):
    view = shown(RotationExplorer(query=5, key=2))
    plot, dot = view.locator(".ro-plot"), view.locator(".ro-point")
    for query, key, expected in [(32, 2, [32, 2]), (0, 1, [1, 2]), (0, 40, [0, 40]), (63, 0, [63, 0])]:
        view.set(query=query, key=key)
        x, _ = view.middle(dot)
        view.set(query=5, key=2)
        view.mouse.click(x, plot.bounding_box()["y"] + 60)
        assert view.get("query", "key") == expected == view.saved("query", "key")


FREQUENCIES = turns(8, 10000.0).numpy()
SCORE = f"{score(9, 3, 8, 10000.0):.3f}"
MOVES = [("Home", 0), ("ArrowRight", 1), ("Shift+ArrowUp", 11), ("ArrowDown", 10), ("PageDown", 0)]
BASES = [float(f"{10 ** (tenth / 10):.2g}") for tenth in range(3, 71)]
SLIDERS = [(RotationExplorer(), "base", BASES, 500000), (RotationExplorer(64), "pair", range(32))]
CONTROLS = {
    "below each clock is what its pair adds to the score, which the summary says stays": (
        RotationExplorer(query=9, key=3),
        {"=score": SCORE, "[data-value^=share-]": [f"cos {math.cos(6 * frequency):.3f}" for frequency in FREQUENCIES]},
        {"[data-value^=between-]": [f"∠ {math.degrees(6 * frequency):.1f}°" for frequency in FREQUENCIES]},
        {
            "[data-value^=wavelength-] => parseFloat(one.textContent.replaceAll(',', ''))": pytest.approx(
                math.tau / FREQUENCIES, rel=1e-3
            )
        },
        {
            "said": f"Query at 9, key at 3: score {SCORE}. Move both on by 10, to 19 and 13: {SCORE} again. "
            "Only the offset 6 counts. Both are within the 32 tokens of training."
        },
    ),
    **{
        f"of many pairs four are drawn from first to last, with the chosen one: {pair}": (
            RotationExplorer(64),
            (f"slider=pair := {pair}", {"pair": pair, "[data-clock] => Number(one.dataset.clock)": drawn}),
            (sets(pair=0, d_head=8), {"slider=pair": False}),
        )
        for pair, drawn in [(0, [0, 10, 21, 31]), (20, [0, 10, 20, 31]), (31, [0, 10, 21, 31])]
    },
    "a clock names its numbers": (
        RotationExplorer(d_head=12, pair=4),
        {"clock=4@aria-label~": "Pair 4, numbers 4 and 10:"},
    ),
    **{
        f"positions and offsets beyond training are told apart: {query}, {key}": (
            RotationExplorer(query=query, key=key),
            {"said~": words, ".ro-new": 3 * (abs(query - key) > 31)},
            {"[data-value^=between-] => one.textContent.endsWith(' new')": [False, *[abs(query - key) > 31] * 3]},
            {
                f"slider={name}@aria-valuetext": f"{place}, beyond training" if place > 31 else str(place)
                for name, place in [("query", query), ("key", key)]
            },
        )
        for query, key, words in [
            (40, 38, "Both positions are beyond training, but tokens 2 apart occurred in it, so this score is known."),
            (33, 30, "Position 33 is beyond training, but tokens 3 apart occurred in it"),
            (30, 33, "Position 33 is beyond training, but tokens 3 apart occurred in it"),
            (50, 0, "No two tokens were 50 apart in training: for 3 of 4 pairs, the angle between the hands is new."),
        ]
    },
    **{
        f"the handle of the {name} is dragged along the line and moved by keys": (
            RotationExplorer(**{name: 5, other: 41}),
            (f"hold slider={name} -> slider={other}", {name: 41, other: 41}, "drop"),
            (f"drag slider={name} -> .ro-places at 0.7,3 -> .ro-places at 2,3", {name: 63, other: 41}),
            ("leave", {name: 63}),
            *((f"slider={name}: {key}", {name: at, f"slider={name}@aria-valuenow": str(at)}) for key, at in MOVES),
        )
        for name, other in [("query", "key"), ("key", "query")]
    },
    "a finger drags both along, with their offset": (
        RotationExplorer(query=12, key=5),
        ("touch slider=both -> .ro-places at 0.4,0.5 -> .ro-places at 1,0.5", dict(query=63, key=56)),
    ),
    "moving both ends where the later one does": (
        RotationExplorer(query=2, key=11),
        ("slider=both: End", dict(query=54, key=63)),
        ("slider=both: ArrowLeft", dict(query=53, key=62)),
        ("slider=both: ArrowUp", dict(query=54, key=63)),
        ("slider=both: Home", dict(query=0, key=9)),
    ),
}
TRAITS = {
    "smaller sizes bring the rest back into range": (
        dict(d_head=64, query=np.int64(60), key=40, pair=31),
        sets(trained=16, d_head=6),
        dict(query=31, key=31, pair=2, min_height=RotationExplorer().min_height),
    ),
}
