"""The sampling explorer: numbers against PyTorch, the generator against Python, each control in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import SamplingExplorer
from tests.attnlab.widget_page import sets

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


def test_python_shares_them_out_the_same_way():
    for logits, settings in SETTINGS:
        shares = SamplingExplorer(range(len(logits)), logits, **settings).shares()
        np.testing.assert_allclose(shares, shares_of(logits, **settings), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
def test_draws_follow_the_seeded_generator(shown, seed):
    """Each number of Mulberry32 picks the token in whose part of the unit interval it falls."""
    view = shown(explorer())
    ends = np.cumsum(shares_of(LOGITS, 1.5, 4, 1.0)[1].numpy())
    expected = [int(np.searchsorted(ends[:4], u, side="right")) for u in uniforms(seed, 200)]
    for drawn in (0, 1, 2, 200):
        found = view.compute(state_of(LOGITS, temperature=1.5, top_k=4, seed=seed, drawn=drawn))
        assert found["tally"] == np.bincount(expected[:drawn], minlength=4).tolist()
        assert found["last"] == (expected[drawn - 1] if drawn else None)
    found = view.compute(state_of(LOGITS, temperature=2.0, seed=seed, drawn=10000))
    np.testing.assert_allclose(np.array(found["tally"]) / 10000, found["kept"], rtol=0, atol=0.015)


# top-p is taken of what top-k left, up to the token that crosses it. Here the first would not do of all tokens.
ALL = shares_of(LOGITS, 1.0, None, 1.0)[0]
TOP_2 = ALL[:2].sum()
HALVES = np.log([0.5, 0.25, 0.125, 0.125])
KNOWN = [
    (state_of(HALVES, top_p=top_p), dict(count=count))
    for top_p, count in [(0.49, 1), (0.51, 2), (0.76, 3), (0.9, 4), (1, 4), (0.001, 1)]
] + [(state_of(LOGITS, top_k=2, top_p=0.8), {"count": 1, "reached": ALL[0] / TOP_2, "massOfTopK": TOP_2})]
assert ALL[0] < 0.8

LONG_STEPS = [*range(1, 21), 25, 30, 40, 50, 75, 100, 200, 500, 1000, None]
SLIDERS = [
    (explorer(), "temperature", [tenth / 10 for tenth in range(51)], 0.65),
    (explorer(), "top_k", [1, 2, 3, 4, None], 3),
    (explorer(), "top_p", [percent / 100 for percent in range(1, 101)], 0.875),
    (SamplingExplorer(range(2000), MANY), "top_k", LONG_STEPS),
]
BEFORE, KEPT = shares_of(LOGITS, 1.0, 4, 0.9)
_, MANY_KEPT = shares_of(MANY, 3, 100, 1.0)
_, TWO_KEPT = shares_of(LOGITS, 1.0, 2, 1.0)
NAMES, NUMBERS = ".sa-table tbody th", ".sa-table tbody td.aw-numbers"
LENGTH = "new DOMMatrix(one.style.transform).a"
DRAWN = f"=> [...document.querySelectorAll('{NUMBERS}')].reduce((sum, one, i) => sum + (i % 2) * one.textContent, 0)"


def cuts(**rows):
    """Seen: above each line there are so many rows, or it is hidden."""
    visible = "getComputedStyle(one).visibility === 'visible'"
    place = f"{visible} ? new DOMMatrix(one.style.transform).f / 24 : null"
    return {f".sa-{name.replace('_', '-')} => {place}": [many] for name, many in rows.items()}


def in_cells(kept):
    """Texts of the rows' cells before any draw: what is kept, and the number of draws."""
    return [text for share in kept for text in (f"{share:.3f}" if share else "", "")]


CONTROLS = {
    "rows are sorted by probability, with scaled bars and lines where limits cut": (
        explorer(top_k=4, top_p=0.9),
        {NAMES: ["Paris", "the", "a", "Lyon", "located"], NUMBERS: in_cells(KEPT)},
        {f".sa-table .sa-solid => {LENGTH}": pytest.approx((KEPT / KEPT[0]).numpy(), abs=1e-3)},
        {f".sa-table .sa-bar:not(.sa-solid) => {LENGTH}": pytest.approx((BEFORE / KEPT[0]).numpy(), abs=1e-3)},
        {"=left~": f"3 of 5 tokens left, {BEFORE[:3].sum():.3f} of the probability, as unsure as "},
        {"=line-top-k": "top-k 4", **cuts(top_k=4, top_p=3)},
        {"=line-top-p": f"top-p 0.9: with “a” the sum is {BEFORE[:3].sum() / BEFORE[:4].sum():.3f}"},
    ),
    "what cuts nothing has no line": (
        explorer(),
        {"slider=top_k@aria-valuetext": "all 5", "field=top_k@value": "5"},
        ("field=top_k := 3", {"slider=top_k@value": "2"}),
        ("field=top_k := 5", cuts(top_k=None, top_p=None)),
        "field=top_p := 0.5",
        cuts(top_k=None, top_p=1),
        "field=temperature := 0",
        {**cuts(top_k=None, top_p=None), NUMBERS: in_cells([1, 0, 0, 0, 0])},
    ),
    "the first tokens of many have rows and the rest share one": (
        SamplingExplorer([f" word{i}" for i in range(2000)], MANY, temperature=3, top_k=100),
        {NAMES: [*(f"word{i}" for i in np.argsort(MANY)[::-1][:12]), "1,988 more"]},
        {NUMBERS: in_cells([*MANY_KEPT[:12], MANY_KEPT[12:].sum()])},
        "hundred",
        {DRAWN: 100, f"tr:last-child > {NUMBERS.split()[-1]}:last-child => one.textContent > 0": [True]},
        "field=top_k := 12",
        {"tr:nth-child(13) td.aw-numbers": ["", ""], **cuts(top_k=12)},
        "field=top_k := 1234",
        {"=left~": "1,234 of 2,000 tokens left, "},
    ),
    **{
        f"a drawn token follows the prompt with the space it brings: {tokens}": (
            SamplingExplorer(tokens, [0, 1], "It is", temperature=0, drawn=1),
            {"[data-value=text-0] => one.textContent": [text]},
        )
        for tokens, text in [(["a", "b"], "It is b"), ([" a", " b"], "It is b"), ([" a", "b"], "It isb")]
    },
    "tokens that look alike carry their rank": (
        SamplingExplorer(["the", " the", "\n", "cat"], [1, 2, 3, 0]),
        {f"{NAMES} => one.textContent": ["⏎", "the1", "the2", "cat"]},
    ),
    **{
        f"draws are counted and another {name} starts again": (
            explorer(temperature=2),
            *("one | hundred", {"drawn": 101, DRAWN: 101}, f"field={name} := {value}", dict(drawn=0)),
            *("one | clear", {"drawn": 0, "[data-go=clear]:disabled": 1}),
        )
        for name, value in [("temperature", 1.5), ("top_k", 4), ("top_p", 0.9), ("seed", 5)]
    },
    "draws end at ten thousand": (
        explorer(drawn=9950),
        "hundred",
        {"drawn": 10000, "[data-go=one]:disabled, [data-go=hundred]:disabled": 2},
    ),
    "the summary gives the numbers": (
        explorer(top_k=2),
        {
            "said": f"2 tokens of 5 left, with {TOP_2:.3f} of the probability. “Paris” has {TWO_KEPT[0]:.3f}, before "
            f"the cuts {ALL[0]:.3f}. Entropy {torch.special.entr(TWO_KEPT).sum():.2f} nats, as much as "
            f"{torch.special.entr(TWO_KEPT).sum().exp():.1f} equal choices. No draw yet."
        },
        "field=top_k := 5",
        {"said~": "All 5 tokens are left. “Paris” has "},
    ),
}


def test_the_summary_gives_the_last_draw(shown):
    view = shown(explorer(top_k=2))
    view.press("hundred")
    paris, the = (int(view.texts(NUMBERS)[i]) for i in (1, 3))
    assert paris + the == 100
    assert view.said().split(" choices. ")[1] in (
        f"Draw 100: “Paris”, drawn {paris} of 100 times.",
        f"Draw 100: “the”, drawn {the} of 100 times.",
    )


def test_draws_write_sentences_where_it_is_known_how_they_go_on(shown):
    follow = {" cat": " sat on the mat.", " dog": " barked."}
    widget = SamplingExplorer([" dog", " cat", " owl"], [1, 2, 0], "The", continuations=follow, temperature=5)
    assert widget.continuations == [" sat on the mat.", " barked.", ""]
    view = shown(widget)
    assert view.part("go", "one").inner_text() == "Write a sentence"
    texts = "[data-value^=text-]"
    assert view.each(texts, "one.textContent")[0] == "The …"
    written = []
    for _ in range(6):
        view.press("one")
        first, second = view.each(texts, "one.textContent")[:2]
        written.insert(0, first)
        assert [text for text in (first, second) if text] == written[:2]
    assert set(written) <= {"The cat sat on the mat.", "The dog barked.", "The owl"} and len(set(written)) > 1


def test_the_same_seed_draws_the_same_tokens_and_another_does_not(shown):
    view = shown(explorer(temperature=3))
    found = {}
    for seed in ("0", "1", "0", "4294967295"):
        view.field("seed").fill(seed)
        texts = [view.press("one") or view.text("text-0") for _ in range(12)]
        assert found.setdefault(seed, texts) == texts
    assert len({tuple(texts) for texts in found.values()}) == 3


RANKED_TRAITS = dict(logits=RANKED, tokens=["Paris", "the", "a", "Lyon", "located"], top_k=2, top_p=1, vocab_size=5)
TRAITS = {
    **{
        f"a {kind.__name__} is taken and ranked": (
            dict(tokens=TOKENS, logits=kind(LOGITS), top_k=np.int64(2)),
            RANKED_TRAITS,
        )
        for kind in (list, np.array, torch.tensor)
    },
    "of equal logits the first comes first and only a thousand names travel": (
        dict(tokens=[f"t{i}" for i in range(3000)], logits=np.zeros(3000)),
        dict(tokens=[f"t{i}" for i in range(1000)], data=np.zeros(3000, "<f4").tobytes(), vocab_size=3000),
    ),
    "another prompt and another setting clear the tally": (
        dict(tokens=TOKENS, logits=LOGITS, drawn=50),
        *(dict(drawn=50), sets(top_k=2), dict(drawn=0), sets(drawn=7)),
        lambda widget: widget.put(["a", "b"], [1, 2], "Next"),
        dict(drawn=0, tokens=["b", "a"], prompt="Next"),
    ),
}
