"""The rotation explorer: its numbers against PyTorch's complex numbers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import RotationExplorer
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets

FIXTURES = [
    {"d_head": 8, "base": 10000.0, "query": 5, "key": 2, "pair": 0, "trained": 32},
    {"d_head": 2, "base": 50.0, "query": 0, "key": 15, "pair": 0, "trained": 8},  # one pair, the key comes later
    {"d_head": 6, "base": 2.0, "query": 63, "key": 0, "pair": 2, "trained": 32},  # every pair finishes a turn
    {"d_head": 20, "base": 500000.0, "query": 70, "key": 66, "pair": 9, "trained": 64},
    {"d_head": 128, "base": 1e7, "query": 255, "key": 254, "pair": 63, "trained": 128},
]


def turns(d_head, base):
    """Radians a token, one for each pair, in double precision."""
    return torch.pow(torch.tensor(base, dtype=torch.float64), -torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)


def turned(position, d_head, base):
    """The vector of ones and then zeros, its pairs taken as complex numbers, half-split, and turned."""
    pairs = torch.polar(torch.ones(d_head // 2, dtype=torch.float64), position * turns(d_head, base))
    return torch.cat([pairs.real, pairs.imag])


def score(query, key, d_head, base):
    return float(turned(query, d_head, base) @ turned(key, d_head, base))


def value(seen, name):
    return seen.page.locator(f"[data-value={name}]").inner_text()


def number(text):
    return float(text.replace("−", "-"))


def state(seen, *names):
    found = [seen.page.evaluate("(name) => model.get(name)", name) for name in names]
    return found if len(found) > 1 else found[0]


def saved(seen, *names):
    found = [seen.page.evaluate("(name) => model.saved[name]", name) for name in names]
    return found if len(found) > 1 else found[0]


def field(seen, name):
    return seen.page.locator(f"[data-field={name}]")


def slider(seen, name):
    return seen.page.locator(f"[data-slider={name}]")


def shown_score(seen):
    return number(value(seen, "score").split()[2])


# Numbers


def test_query_and_key_are_turned_as_pytorch_turns_complex_numbers(watched):
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        for name in ("query", "key"):
            expected = turned(fixture[name], fixture["d_head"], fixture["base"])
            np.testing.assert_allclose(found["rotated"][name], expected, rtol=0, atol=1e-11)


def test_frequencies_wavelengths_and_angles_agree_with_pytorch(watched):
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES:
        found, frequencies = evaluate_compute(seen, fixture), turns(fixture["d_head"], fixture["base"]).numpy()
        np.testing.assert_allclose(found["frequencies"], frequencies, rtol=1e-12)
        np.testing.assert_allclose(found["wavelengths"], 2 * math.pi / frequencies, rtol=1e-12)
        for name in ("query", "key"):
            np.testing.assert_allclose(found["angles"][name], fixture[name] * frequencies, rtol=1e-12)
        apart = fixture["query"] - fixture["key"]
        np.testing.assert_allclose(found["between"], apart * frequencies, rtol=1e-12)


def test_the_score_is_the_dot_product_and_the_sum_of_what_each_pair_adds(watched):
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        q, k = (turned(fixture[name], fixture["d_head"], fixture["base"]) for name in ("query", "key"))
        assert found["score"] == pytest.approx(float(q @ k), abs=1e-10)
        np.testing.assert_allclose(found["shares"], (q * k).reshape(2, -1).sum(0), rtol=0, atol=1e-11)


def test_the_score_stays_when_both_move_on(watched):
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES:
        found = evaluate_compute(seen, fixture)
        assert found["further"]["score"] == pytest.approx(found["score"], abs=1e-10)
        for by in (1, 17, 300):
            moved = evaluate_compute(seen, {**fixture, "query": fixture["query"] + by, "key": fixture["key"] + by})
            assert moved["rotated"] != found["rotated"]
            assert moved["score"] == pytest.approx(found["score"], abs=1e-10)


def test_the_curve_holds_wherever_the_key_stands(watched):
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES[:4]:
        found, last = evaluate_compute(seen, fixture), 2 * fixture["trained"] - 1
        assert found["offsets"] == list(range(-last, last + 1))
        for key in (0, fixture["key"], 1000):
            expected = [score(key + k, key, fixture["d_head"], fixture["base"]) for k in found["offsets"]]
            np.testing.assert_allclose(found["curve"], expected, rtol=0, atol=1e-9)


def test_what_training_held_is_counted_pair_by_pair(watched):
    """Against the angles themselves: those of every offset of training, between 0 and a full turn."""
    seen = load_widget(watched, RotationExplorer())
    for fixture in FIXTURES:
        found, frequencies = evaluate_compute(seen, fixture), turns(fixture["d_head"], fixture["base"]).numpy()
        last, apart = fixture["trained"] - 1, abs(fixture["query"] - fixture["key"])
        finished = [last * f >= math.tau for f in frequencies]
        assert found["fullTurns"] == sum(finished)
        held = [np.arange(last + 1) * f % math.tau for f in frequencies]
        new = [not done and apart * f % math.tau > seen_.max() for f, seen_, done in zip(frequencies, held, finished)]
        assert found["fresh"] == sum(new)
        assert found["reached"] == pytest.approx(last * frequencies[fixture["pair"]], rel=1e-12)
        assert found["beyond"] == {
            "query": fixture["query"] > last,
            "key": fixture["key"] > last,
            "offset": apart > last,
        }


# What is shown


def test_the_table_has_one_row_for_each_pair_and_adds_up_to_the_score(watched):
    seen = load_widget(watched, RotationExplorer(query=9, key=3))
    for i, frequency in enumerate(turns(8, 10000.0).tolist()):
        found = [number(value(seen, f"{name}-{i}")) for name in ("query", "key", "between", "share")]
        expected = [9 * frequency, 3 * frequency, 6 * frequency, math.cos(6 * frequency)]
        assert found == pytest.approx(expected, abs=0.00051)
        assert number(value(seen, f"wavelength-{i}")) == pytest.approx(math.tau / frequency, rel=1e-3)
    assert number(value(seen, "sum")) == shown_score(seen) == pytest.approx(score(9, 3, 8, 10000.0), abs=0.00051)


@pytest.mark.parametrize("pair", [0, 20, 31])
def test_many_pairs_show_eight_rows_from_first_to_last_with_the_chosen_one(watched, pair):
    seen = load_widget(watched, RotationExplorer(d_head=64, pair=pair))
    rows = [int(text) for text in seen.page.locator(".ro-table tbody tr:not(.ro-sum) th").all_inner_texts()]
    assert len(rows) == 8 and rows == sorted(set(rows)) and {0, pair, 31} <= set(rows)
    assert seen.page.locator(".ro-table tr[aria-current=true] th").inner_text() == str(pair)
    assert "all 32 pairs" in seen.page.locator(".ro-sum").inner_text()


def test_the_hands_turn_counter_clockwise_from_the_right(watched):
    seen = load_widget(watched, RotationExplorer(query=0, key=1, pair=0))

    def end(name):
        return [float(seen.page.locator(f".ro-clock .ro-hand{name}").get_attribute(at)) for at in ("x2", "y2")]

    length, up = end(":not(.ro-second)")
    assert length > 0 and up == pytest.approx(0)
    assert end(".ro-second") == pytest.approx([length * math.cos(1), -length * math.sin(1)])


def test_the_clock_names_the_two_numbers_of_a_half_split_pair(watched):
    seen = load_widget(watched, RotationExplorer(d_head=12, pair=4))
    assert seen.page.locator(".ro-clock text").all_text_contents() == ["x[4]", "x[10]"]
    assert value(seen, "numbers") == "x[4] and x[10]"


def test_what_a_pair_turned_through_in_training_is_given_in_turns_or_degrees(watched):
    seen = load_widget(watched, RotationExplorer(pair=0))
    assert value(seen, "training") == f"0 to {31 / math.tau:.2f} turns"
    field(seen, "pair").fill("3")
    assert value(seen, "training") == f"0 to {math.degrees(31 * 10000 ** (-6 / 8)):.1f} degrees"


def test_moving_both_changes_no_score_and_no_curve(watched):
    seen = load_widget(watched, RotationExplorer(query=12, key=5))
    found, curves, hands = set(), set(), set()
    for earlier in (0, 20, 56):
        field(seen, "both").fill(str(earlier))
        assert state(seen, "query", "key") == [earlier + 7, earlier] == saved(seen, "query", "key")
        found.add((value(seen, "score"), value(seen, "sum"), *(value(seen, f"share-{i}") for i in range(4))))
        curves.add(seen.page.locator(".ro-curve").get_attribute("points"))
        hands.add(value(seen, "query-0"))
    assert len(found) == len(curves) == 1 and len(hands) == 3


def test_the_summary_is_announced_politely_and_says_with_numbers_that_the_score_stays(watched):
    seen = load_widget(watched, RotationExplorer(query=9, key=3))
    assert seen.page.locator(".aw-summary").get_attribute("aria-live") == "polite"
    same = f"{score(9, 3, 8, 10000.0):.3f}"
    assert said(seen.page) == (
        f"Query at 9, key at 3: score {same}. Move both on by 10, to 19 and 13: {same} again. "
        "Only the offset 6 counts. Both stand within the 32 tokens of training."
    )


@pytest.mark.parametrize(
    "query, key, words",
    [
        (40, 38, "Both positions are beyond training, but tokens 2 apart were seen in it: this score is a known one."),
        (33, 30, "Position 33 is beyond training, but tokens 3 apart were seen in it"),
        (30, 33, "Position 33 is beyond training, but tokens 3 apart were seen in it"),
        (50, 0, "No two tokens were 50 apart in training: for 3 of 4 pairs, the angle between the hands is new."),
    ],
)
def test_positions_and_offsets_beyond_training_are_told_apart(watched, query, key, words):
    seen = load_widget(watched, RotationExplorer(query=query, key=key))
    assert words in said(seen.page)
    label = seen.page.locator(".ro-places").get_attribute("aria-label")
    assert (f"Query at {query}, beyond training" in label) == (query > 31)
    assert (f"key at {key}, beyond training" in label) == (key > 31)


def test_a_larger_base_lets_fewer_pairs_finish_a_turn(watched):
    seen = load_widget(watched, RotationExplorer(d_head=16, trained=128))
    found = []
    for base in ("2", "100", "10000", "500000"):
        field(seen, "base").fill(base)
        found.append(int(value(seen, "turns").split()[0]))
        assert number(value(seen, "wavelength-7")) == pytest.approx(math.tau * float(base) ** (14 / 16), rel=1e-3)
    assert found == sorted(found, reverse=True) and found[0] == 8 and found[-1] < found[1]


# Controls


@pytest.mark.parametrize("name, last", [("query", 63), ("key", 63), ("pair", 3)])
def test_a_field_and_its_slider_move_together(watched, name, last):
    seen = load_widget(watched, RotationExplorer())
    slider(seen, name).press("End")
    assert state(seen, name) == last == saved(seen, name)
    assert field(seen, name).input_value() == str(last)
    field(seen, name).fill("1")
    assert (state(seen, name), slider(seen, name).input_value()) == (1, "1")
    field(seen, name).press("ArrowUp")
    assert (state(seen, name), field(seen, name).input_value()) == (2, "2")
    field(seen, name).press("Shift+ArrowDown")
    assert state(seen, name) == 0
    seen.assert_clean()


def test_moving_both_ends_where_the_later_one_does(watched):
    seen = load_widget(watched, RotationExplorer(query=2, key=11))
    slider(seen, "both").press("End")
    assert state(seen, "query", "key") == [54, 63] == saved(seen, "query", "key")
    slider(seen, "both").press("ArrowLeft")
    assert state(seen, "query", "key") == [53, 62]
    field(seen, "both").press("ArrowUp")
    assert state(seen, "query", "key") == [54, 63]
    slider(seen, "both").press("Home")
    assert state(seen, "query", "key") == [0, 9]
    field(seen, "both").fill("55")
    assert (field(seen, "both").get_attribute("aria-invalid"), state(seen, "query", "key")) == ("true", [0, 9])


@pytest.mark.parametrize("typed", ["", "many", "2.5", "-1", "64"])
def test_what_is_no_position_is_marked_and_changes_nothing(watched, typed):
    seen = load_widget(watched, RotationExplorer())
    query = field(seen, "query")
    query.fill(typed)
    assert (query.get_attribute("aria-invalid"), state(seen, "query")) == ("true", 5)
    query.blur()
    assert (query.get_attribute("aria-invalid"), query.input_value()) == ("false", "5")


def test_the_base_slider_is_logarithmic_and_the_field_exact(watched):
    seen = load_widget(watched, RotationExplorer())
    slider(seen, "base").press("ArrowRight")
    assert state(seen, "base") == 13000 == saved(seen, "base")
    slider(seen, "base").press("Home")
    assert state(seen, "base") == 2
    slider(seen, "base").press("End")
    assert (state(seen, "base"), slider(seen, "base").get_attribute("aria-valuetext")) == (1e7, "10000000")
    field(seen, "base").fill("500000")
    assert state(seen, "base") == 500000 == saved(seen, "base")
    field(seen, "base").fill("1")
    assert (field(seen, "base").get_attribute("aria-invalid"), state(seen, "base")) == ("true", 500000)


def test_each_key_press_moves_the_base_slider_on(watched):
    seen = load_widget(watched, RotationExplorer(base=2))
    found = [2.0]
    for _ in range(67):
        slider(seen, "base").press("ArrowRight")
        found.append(state(seen, "base"))
    assert found == sorted(set(found)) and found[-1] == 1e7 and 10000 in found


def test_a_press_on_a_row_chooses_its_pair(watched):
    seen = load_widget(watched, RotationExplorer())
    seen.page.locator("[data-value=share-2]").click()
    assert state(seen, "pair") == 2 == saved(seen, "pair")
    assert value(seen, "numbers") == "x[2] and x[6]"


def test_a_press_on_the_curve_chooses_the_offset_and_keeps_the_key_if_it_can(watched):
    seen = load_widget(watched, RotationExplorer(query=5, key=2))
    plot, dot = seen.page.locator(".ro-plot"), seen.page.locator(".ro-plot circle")
    for query, key, expected in [(32, 2, [32, 2]), (0, 1, [1, 2]), (0, 40, [0, 40]), (63, 0, [63, 0])]:
        seen.page.evaluate("([m, n]) => { model.set('query', m); model.set('key', n); }", [query, key])
        place = dot.bounding_box()
        seen.page.evaluate("() => { model.set('query', 5); model.set('key', 2); }")
        seen.page.mouse.click(place["x"] + place["width"] / 2, plot.bounding_box()["y"] + 60)
        assert state(seen, "query", "key") == expected == saved(seen, "query", "key")


def test_start_again_brings_everything_back(watched):
    seen = load_widget(watched, RotationExplorer(16, 500.0, query=9, key=4, pair=7))
    for name in ("query", "both", "pair", "base"):
        slider(seen, name).press("Home")
    seen.page.locator("[data-go=reset]").click()
    names = ("d_head", "base", "query", "key", "pair", "trained")
    assert state(seen, *names) == [16, 500, 9, 4, 7, 32] == saved(seen, *names)


def test_every_control_is_reached_with_the_tab_key(watched):
    seen = load_widget(watched, RotationExplorer())
    reached = []
    for _ in range(11):
        seen.page.keyboard.press("Tab")
        reached.append(seen.page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == [name for name in ("query", "key", "both", "pair", "base") for _ in range(2)] + ["reset"]


# Model


def test_traits_set_from_python_are_drawn(watched):
    seen = load_widget(watched, RotationExplorer())
    for name, new in [("trained", 16), ("d_head", 10), ("pair", 4), ("query", 31), ("key", 30), ("base", 700)]:
        seen.page.evaluate("([name, value]) => model.set(name, value)", [name, new])
    assert shown_score(seen) == pytest.approx(score(31, 30, 10, 700.0), abs=0.00051)
    assert slider(seen, "query").get_attribute("max") == "31"
    assert field(seen, "base").input_value() == "700"


def test_leaving_takes_drawing_and_listeners_away(watched):
    seen = load_widget(watched, RotationExplorer())
    left = seen.page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])")
    assert left == [0, 0]
    seen.assert_clean()


def test_smaller_sizes_bring_the_rest_back_into_range():
    explorer = RotationExplorer(d_head=64, query=np.int64(60), key=40, pair=31)
    explorer.trained = 16
    explorer.d_head = 6
    assert (explorer.query, explorer.key, explorer.pair) == (31, 31, 2)
    assert explorer.min_height + explorer.narrow_extra == 1398 + 27 * 3


@pytest.mark.parametrize(
    "wrong, said_",
    [
        ({"d_head": 7}, "d_head must be even"),
        ({"d_head": 0}, "d_head must lie between 2 and 128"),
        ({"base": 1}, "base must lie between 2 and 1e\\+07"),
        ({"base": math.nan}, "base must lie"),
        ({"query": 64}, "query must lie between 0 and 63, twice the trained length less one; got 64"),
        ({"key": -1}, "key must lie"),
        ({"pair": 4}, "pair must lie between 0 and 3"),
        ({"trained": 4}, "trained must lie between 8 and 128"),
        ({"query": 1.5}, "query"),
        ({"pair": "a"}, "pair"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_reason(wrong, said_):
    with pytest.raises(traitlets.TraitError, match=said_):
        RotationExplorer(**wrong)


def test_the_picture_for_print_is_a_png():
    for options in ({}, {"d_head": 2, "query": 0, "key": 15, "trained": 8}, {"d_head": 128, "pair": 63, "base": 1e7}):
        assert RotationExplorer(**options)._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, RotationExplorer(query=40, key=5), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    for options in ({}, {"d_head": 128, "base": 1e7, "query": 255, "key": 0, "pair": 63, "trained": 128}):
        seen = load_widget(watched, RotationExplorer(**options), width=390)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("d_head", [8, 64])
def test_its_height_is_the_one_reserved_and_stays_while_numbers_change(watched, width, d_head):
    widget = RotationExplorer(d_head)
    seen = load_widget(watched, widget, width=width)
    seen.page.evaluate("() => (document.querySelector('.aw').style.minHeight = 0)")
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    for query, key, base in [(5, 2, 10000), (63, 62, 1e7), (0, 63, 2), (32, 31, 123.456)]:
        values = dict(query=query, key=key, base=base)
        seen.page.evaluate("(values) => Object.entries(values).forEach(([k, v]) => model.set(k, v))", values)
        seen.page.wait_for_timeout(150)  # the summary follows a little later
        assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=4)
