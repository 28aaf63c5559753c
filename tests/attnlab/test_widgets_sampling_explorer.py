"""The sampling explorer: numbers against PyTorch, the generator against Python, each control in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import SamplingExplorer

TOKENS = ["Lyon", "Paris", "the", "located", "a"]
LOGITS = [1.5, 4.0, 2.5, 0.5, 2.0]  # ranked: Paris, the, a, Lyon, located
RANKED = sorted(LOGITS, reverse=True)
MANY = np.random.default_rng(8).normal(scale=3, size=2000).astype(np.float32).astype(float).tolist()


def explorer(**settings):
    return SamplingExplorer(TOKENS, LOGITS, "The capital of France is", **settings)


def state_of(logits, **settings):
    ranked = np.sort(np.array(logits, dtype="<f4"))[::-1]
    return dict(data=ranked.tobytes(), vocab_size=len(ranked), **settings)


SETTINGS = [
    (LOGITS, dict(temperature=1.0, top_k=None, top_p=1.0)),
    (LOGITS, dict(temperature=0.0, top_k=3, top_p=0.5)),
    (LOGITS, dict(temperature=0.5, top_k=3, top_p=1.0)),
    (LOGITS, dict(temperature=2.0, top_k=None, top_p=0.6)),
    (LOGITS, dict(temperature=1.3, top_k=4, top_p=0.8)),
    (LOGITS, dict(temperature=1.0, top_k=4, top_p=0.93)),  # top-k first leaves 3 tokens, top-p first would leave 4
    (LOGITS, dict(temperature=0.01, top_k=900, top_p=0.001)),
    ([0.0, 0.0, 0.0, 0.0, -1.0], dict(temperature=1.0, top_k=2, top_p=0.3)),  # equal logits: the first ones
    (MANY, dict(temperature=5.0, top_k=1500, top_p=0.95)),
    (MANY, dict(temperature=0.7, top_k=None, top_p=0.9)),
]
FIXTURES = [state_of(logits, **settings) for logits, settings in SETTINGS]
STOPS = [name for name in ("temperature", "top_k", "top_p") for _ in range(2)]
STOPS += ["one", "hundred", "clear", "seed", "reset"]
SET = [dict(temperature=2, top_k=3, top_p=0.6, seed=8, drawn=40)]
AGAIN = explorer(temperature=0.7, top_k=3, top_p=0.8, seed=9)
MISTYPED = {
    "temperature": ["-1", "6", "hot"],
    "top_k": ["0", "6", "2.5", ""],
    "top_p": ["0", "1.1", "x"],
    "seed": ["-1", "1.5", "5000000000"],
}


def make(**options):
    return SamplingExplorer(**{"tokens": ["a", "b"], "logits": [1.0, 2.0], **options})


REFUSED = [
    (dict(logits=[1.0]), "2 to 200000 tokens, got 1"),
    (dict(logits=[[1.0, 2.0]]), "shape is \\(1, 2\\)"),
    (dict(logits=[1.0, math.inf]), "finite"),
    (dict(logits=["a", "b"]), "array of numbers"),
    (dict(logits=[1.0, 2.0, 3.0]), "name the 3 logits, got 2"),
    (dict(tokens="ab"), "one string, 'ab'"),
    (dict(temperature=-1), "temperature must be from 0 to 5; got -1"),
    (dict(temperature=math.nan), "got nan"),
    (dict(top_k=0), "top_k must be"),
    (dict(top_p=0), "top_p must be above 0 and at most 1; got 0"),
    (dict(top_p=1.5), "top_p must be"),
    (dict(seed=-1), "seed must be"),
    (dict(drawn=10001), "drawn must be"),
]
CHANGES = [
    dict(temperature=1, top_k=None, top_p=1, drawn=0),
    dict(temperature=0, top_k=2, top_p=0.5, drawn=100),
    dict(temperature=5, top_k=4, top_p=0.123, drawn=1),
    dict(temperature=1.7, top_k=5, top_p=0.99, drawn=9999),
    dict(temperature=1, top_k=4, top_p=0.8, drawn=30),
]
CITIES = [f"Constantinople{i}" for i in range(2000)]
LONG_WORDS = [f"antidisestablishmentarianism{i}" for i in range(2000)]
EXAMPLES = [(explorer(drawn=3), *CHANGES), (SamplingExplorer(CITIES, MANY, "The capital of France is"), *CHANGES)]
GLIDES = [(explorer(top_k=4), dict(top_k=1), {".sa-top-k": "style", "tr:nth-child(2) .sa-solid": "style"})]
EXTREMES = [(SamplingExplorer(LONG_WORDS, MANY, "word " * 12, 2, 1500, 0.95, seed=4294967295, drawn=9999),)]


def shares_of(logits, temperature, top_k, top_p):
    """(before, kept), largest logit first: temperature, the k largest, the smallest set of them that holds top_p."""
    ranked = torch.tensor(logits, dtype=torch.float64).sort(descending=True).values
    if temperature == 0:
        greedy = torch.nn.functional.one_hot(torch.tensor(0), len(ranked)).double()
        return greedy, greedy
    before = (ranked / temperature).softmax(0)
    k = len(ranked) if top_k is None else min(top_k, len(ranked))
    left = (ranked[:k] / temperature).softmax(0)
    sizes = [size for size in range(1, k + 1) if left[:size].sum() >= top_p - 1e-12]
    size = sizes[0] if top_p < 1 else k
    kept = torch.zeros_like(before)
    kept[:size] = (ranked[:size] / temperature).softmax(0)
    return before, kept


def reference(state):
    logits = np.frombuffer(state["data"], dtype="<f4").astype(float)
    before, kept = shares_of(logits, state["temperature"], state["top_k"], state["top_p"])
    count = int((kept > 0).sum())
    return {
        "before": before,
        "count": count,
        "kept": kept[:count],
        "mass": before[:count].sum(),
        "entropyBefore": torch.special.entr(before).sum(),
        "entropy": torch.special.entr(kept).sum(),
    }


def uniforms(seed, many):
    """Mulberry32, written with Python's long integers cut to 32 bits."""
    low, found = 0xFFFFFFFF, []
    for _ in range(many):
        seed = (seed + 0x6D2B79F5) & low
        t = (seed ^ seed >> 15) * (seed | 1) & low
        t ^= (t + ((t ^ t >> 7) * (t | 61) & low)) & low
        found.append((t ^ t >> 14) / 2**32)
    return found


def computed(view, logits, **settings):
    return view.compute(state_of(logits, **settings))


def rows(view):
    """[token, kept, drawn] of each row."""
    return [
        [row.locator("th").inner_text(), *row.locator("td.aw-numbers").all_inner_texts()]
        for row in view.locator(".sa-table tbody tr").all()
    ]


def scales(view, kind):
    """How long the bars of one kind are, as parts of their lane."""
    bars = view.locator(f".sa-table .{kind}")
    return bars.evaluate_all("all => all.map((one) => new DOMMatrix(one.style.transform).a)")


def cut(view, name):
    """Return the number of rows above a line, or None if the line is hidden."""
    line = view.locator(f".sa-{name}")
    if line.evaluate("(one) => getComputedStyle(one).visibility") == "hidden":
        return None
    return line.evaluate("(one) => new DOMMatrix(one.style.transform).f") / 24


def test_top_p_is_taken_of_what_top_k_left_up_to_the_token_that_crosses(shown):
    view = shown(explorer())
    halves = [math.log(x) for x in (0.5, 0.25, 0.125, 0.125)]
    for top_p, count in [(0.49, 1), (0.51, 2), (0.76, 3), (0.9, 4), (1, 4), (0.001, 1)]:
        assert computed(view, halves, top_p=top_p)["count"] == count
    shares = np.exp(RANKED) / np.exp(RANKED).sum()
    found = computed(view, LOGITS, top_k=2, top_p=0.8)
    assert shares[0] < 0.8 < shares[0] / shares[:2].sum()  # of all tokens the first would not do, of two it does
    assert (found["count"], found["reached"]) == (1, pytest.approx(shares[0] / shares[:2].sum()))
    assert found["massOfTopK"] == pytest.approx(shares[:2].sum())
    found = computed(view, LOGITS, temperature=2.0, seed=3, drawn=10000)
    np.testing.assert_allclose(np.array(found["tally"]) / 10000, found["kept"], rtol=0, atol=0.015)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
def test_draws_follow_the_seeded_generator(shown, seed):
    """Each number of Mulberry32 picks the token in whose part of the unit interval it falls."""
    view = shown(explorer())
    ends = np.cumsum(shares_of(LOGITS, 1.5, 4, 1.0)[1].numpy())
    expected = [int(np.searchsorted(ends[:4], u, side="right")) for u in uniforms(seed, 200)]
    for drawn in (0, 1, 2, 200):
        found = computed(view, LOGITS, temperature=1.5, top_k=4, seed=seed, drawn=drawn)
        assert found["tally"] == np.bincount(expected[:drawn], minlength=4).tolist()
        assert found["last"] == (expected[drawn - 1] if drawn else None)


def test_python_shares_them_out_the_same_way():
    for logits, settings in SETTINGS:
        before, kept = SamplingExplorer(range(len(logits)), logits, **settings).shares()
        expected = shares_of(logits, **settings)
        np.testing.assert_allclose(before, expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(kept, expected[1], rtol=0, atol=1e-12)


def test_rows_are_sorted_by_probability_with_scaled_bars_and_lines_where_limits_cut(shown):
    view = shown(explorer(top_k=4, top_p=0.9))
    before, kept = shares_of(LOGITS, 1.0, 4, 0.9)
    assert int((kept > 0).sum()) == 3
    number = "{:.3f}".format
    assert rows(view) == [
        ["Paris", number(kept[0]), ""],
        ["the", number(kept[1]), ""],
        ["a", number(kept[2]), ""],
        ["Lyon", "", ""],
        ["located", "", ""],
    ]
    assert view.text("left").startswith(
        f"3 of 5 tokens left, {number(before[:3].sum())} of the probability, as unsure as "
    )
    np.testing.assert_allclose(scales(view, "sa-solid"), kept / kept[0], atol=1e-3)
    np.testing.assert_allclose(scales(view, "sa-bar:not(.sa-solid)"), before / kept[0], atol=1e-3)
    assert (cut(view, "top-k"), cut(view, "top-p")) == (4, 3)
    assert view.text("line-top-k") == "top-k 4"
    reached = (before[:4] / before[:4].sum())[:3].sum()
    assert view.text("line-top-p") == f"top-p 0.9: with “a” the sum is {reached:.3f}"


def test_what_cuts_nothing_has_no_line(shown):
    view = shown(explorer())
    assert (cut(view, "top-k"), cut(view, "top-p")) == (None, None)
    view.field("top_p").fill("0.5")
    assert (cut(view, "top-k"), cut(view, "top-p")) == (None, 1)
    view.field("temperature").fill("0")
    assert (cut(view, "top-k"), cut(view, "top-p")) == (None, None)
    assert [row[1] for row in rows(view)] == ["1.000", "", "", "", ""]


def test_the_first_tokens_of_many_have_rows_and_the_rest_share_one(shown):
    names = [f" word{i}" for i in range(len(MANY))]
    view = shown(SamplingExplorer(names, MANY, temperature=3, top_k=100))
    found = rows(view)
    _, kept = shares_of(MANY, 3, 100, 1.0)
    assert [row[0] for row in found] == [*(f"word{i}" for i in np.argsort(MANY)[::-1][:12]), "1,988 more"]
    assert found[12][1] == f"{kept[12:].sum():.3f}"
    view.press("hundred")
    assert sum(int(row[2]) for row in rows(view)) == 100 and int(rows(view)[12][2]) > 0
    view.field("top_k").fill("12")
    assert rows(view)[12][1:] == ["", ""] and cut(view, "top-k") == 12


def test_a_drawn_token_follows_the_prompt_with_the_space_it_brings(shown):
    greedy = dict(temperature=0, drawn=1)
    for tokens, text in [(["a", "b"], "It is b"), ([" a", " b"], "It is b"), ([" a", "b"], "It isb")]:
        view = shown(SamplingExplorer(tokens, [0, 1], "It is", **greedy))
        assert view.locator("[data-value=text-0]").text_content() == text


def test_draws_write_sentences_where_it_is_known_how_they_go_on(shown):
    follow = {" cat": " sat on the mat.", " dog": " barked."}
    widget = SamplingExplorer([" dog", " cat", " owl"], [1, 2, 0], "The", continuations=follow, temperature=5)
    assert widget.continuations == [" sat on the mat.", " barked.", ""]
    view = shown(widget)
    assert view.part("go", "one").inner_text() == "Write a sentence"
    assert view.locator("[data-value=text-0]").text_content() == "The …"
    written = []
    for _ in range(6):
        view.press("one")
        written.insert(0, view.locator("[data-value=text-0]").text_content())
        shown_now = [view.locator(f"[data-value=text-{i}]").text_content() for i in range(2)]
        assert [text for text in shown_now if text] == written[:2]
    assert set(written) <= {"The cat sat on the mat.", "The dog barked.", "The owl"} and len(set(written)) > 1


def test_tokens_that_look_alike_carry_their_rank(shown):
    view = shown(SamplingExplorer(["the", " the", "\n", "cat"], [1, 2, 3, 0]))
    names = [one.text_content() for one in view.locator(".sa-table tbody th").all()]
    assert names == ["⏎", "the1", "the2", "cat"]


def test_the_summary_gives_the_numbers(shown):
    view = shown(explorer(top_k=2))
    before, kept = shares_of(LOGITS, 1.0, 2, 1.0)
    nats = torch.special.entr(kept).sum().item()
    start = (
        f"2 tokens of 5 left, with {before[:2].sum():.3f} of the probability. “Paris” has {kept[0]:.3f}, before the "
        f"cuts {before[0]:.3f}. Entropy {nats:.2f} nats, as much as {math.exp(nats):.1f} equal choices. "
    )
    assert view.said() == start + "No draw yet."
    assert shown(explorer()).said().startswith("All 5 tokens are left. “Paris” has ")
    view.press("hundred")
    times = int(rows(view)[0][2])
    assert view.said() in (
        start + f"Draw 100: “Paris”, drawn {times} of 100 times.",
        start + f"Draw 100: “the”, drawn {100 - times} of 100 times.",
    )


@pytest.mark.parametrize("name, low, high, typed", [("temperature", 0, 5, 0.65), ("top_p", 0.01, 1, 0.875)])
def test_a_field_and_its_slider_move_together(shown, name, low, high, typed):
    view = shown(explorer())
    view.slider(name).press("Home")
    assert (view.get(name), view.field(name).input_value()) == (low, str(low)) and view.saved(name) == low
    view.slides(name, high, str(typed))
    assert view.slider(name).get_attribute("aria-valuetext") == str(typed)


def test_the_top_k_slider_goes_from_one_token_to_all(shown):
    view = shown(explorer())
    top_k = view.slider("top_k")
    assert top_k.get_attribute("aria-valuetext") == "all 5" and view.field("top_k").input_value() == "5"
    found = []
    top_k.press("Home")
    for _ in range(5):
        found.append((view.get("top_k"), int(view.field("top_k").input_value())))
        top_k.press("ArrowRight")
    assert found == [(1, 1), (2, 2), (3, 3), (4, 4), (None, 5)] and view.saved("top_k") is None
    view.field("top_k").fill("3")
    assert (view.get("top_k"), top_k.input_value()) == (3, "2")
    view.field("top_k").press("ArrowUp")
    assert view.get("top_k") == 4


def test_the_top_k_slider_takes_longer_steps_through_a_large_vocabulary(shown):
    view = shown(SamplingExplorer(range(2000), MANY))
    found = []
    view.slider("top_k").press("Home")
    while view.get("top_k") is not None:
        found.append(view.get("top_k"))
        view.slider("top_k").press("ArrowRight")
    assert found == [*range(1, 21), 25, 30, 40, 50, 75, 100, 200, 500, 1000]
    view.field("top_k").fill("1234")
    assert view.text("left").startswith("1,234 of 2,000 tokens left, ")


def test_draws_are_counted_and_any_other_setting_starts_again(shown):
    view = shown(explorer(temperature=2))
    for name, change in [("temperature", "1.5"), ("top_k", "4"), ("top_p", "0.9"), ("seed", "5")]:
        view.press("one")
        view.press("hundred")
        assert view.get("drawn") == 101 == view.saved("drawn")
        assert sum(int(row[2] or 0) for row in rows(view)) == 101
        view.field(name).fill(change)
        assert view.get("drawn") == 0 == view.saved("drawn")
    view.press("one")
    view.press("clear")
    assert view.get("drawn") == 0 and view.part("go", "clear").is_disabled()


def test_the_same_seed_draws_the_same_tokens_and_another_does_not(shown):
    view = shown(explorer(temperature=3))
    found = {}
    for seed in ("0", "1", "0", "4294967295"):
        view.field("seed").fill(seed)
        texts = []
        for _ in range(12):
            view.press("one")
            texts.append(view.text("text-0"))
        assert found.setdefault(seed, texts) == texts
    assert len({tuple(texts) for texts in found.values()}) == 3


def test_draws_end_at_ten_thousand(shown):
    view = shown(explorer(drawn=9950))
    view.press("hundred")
    assert view.get("drawn") == 10000
    assert view.part("go", "one").is_disabled() and view.part("go", "hundred").is_disabled()


def test_lists_arrays_and_tensors_are_taken_and_ranked():
    for logits in (LOGITS, np.array(LOGITS), torch.tensor(LOGITS)):
        widget = SamplingExplorer(TOKENS, logits, top_k=np.int64(2))
        assert widget.logits.tolist() == RANKED and widget.tokens == ["Paris", "the", "a", "Lyon", "located"]
        assert (widget.top_k, widget.top_p, widget.vocab_size) == (2, 1.0, 5)


def test_of_equal_logits_the_first_comes_first_and_only_a_thousand_names_travel():
    widget = SamplingExplorer([f"t{i}" for i in range(3000)], np.zeros(3000))
    assert widget.tokens == [f"t{i}" for i in range(1000)]
    assert (len(widget.data), widget.vocab_size) == (4 * 3000, 3000)


def test_another_prompt_and_another_setting_clear_the_tally():
    widget = explorer(drawn=50)
    assert widget.drawn == 50
    widget.top_k = 2
    assert widget.drawn == 0
    widget.drawn = 7
    widget.put(["a", "b"], [1, 2], "Next")
    assert (widget.drawn, widget.tokens, widget.prompt) == (0, ["b", "a"], "Next")
