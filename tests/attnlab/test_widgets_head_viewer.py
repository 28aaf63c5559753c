"""The head viewer: weights arrive unharmed, lines and map say the same, and every token and head can be reached."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab import data
from attnlab.widgets import HeadViewer
from tests.attnlab.widget_page import sets, state_of

TOKENS = ["the", "record", "of", "the", "bank"]
NAMES = ["11.6", "3.2", "looks at itself"]
NOTES = ["On average 0.8 on the token before.", "It parks on the first token.", "The diagonal."]


def causal(seed, heads, n):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(heads, n, n, generator=generator, dtype=torch.float64)
    return F.softmax(scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf), dim=-1).numpy()


def three():
    """Three heads by hand: the token before, the first token, itself."""
    weights = np.zeros((3, 5, 5))
    for i in range(5):
        weights[0, i, max(i - 1, 0)] += 0.75
        weights[0, i, i] += 0.25
        weights[1, i, 0] += 0.875
        weights[1, i, i] += 0.125
        weights[2, i, i] = 1
    return weights


def make(**options):
    return HeadViewer(**{**dict(tokens=TOKENS, weights=three(), names=NAMES, notes=NOTES), **options})


def sized(heads, n, note):
    """A viewer of this size, and changes: each head, a token at the border and none."""
    notes = ["note " * (note // 5)] * heads if note else None
    widget = HeadViewer([f"token{i}" for i in range(n)], causal(8, heads, n), notes=notes)
    return widget, dict(head=heads - 1), dict(query=0), dict(query=-1)


UNEVEN_NOTES = ["Short.", "A longer sentence on this head, for two lines or three. " * 2, "", "x"]
UNEVEN = HeadViewer(
    ["announced", "of", "record", "a"] * 3, causal(9, 4, 12), ["1.1", "2.2", "3.3", "4.4"], UNEVEN_NOTES
)
EXAMPLES = [
    (make(), dict(query=1), dict(head=1)),
    (UNEVEN, *(dict(head=m, query=i) for m in range(4) for i in (0, 5, 11, -1))),
    *(sized(*sizes) for sizes in [(9, 15, 140), (1, 20, 0), (6, 7, 60), (12, 3, 30)]),
]
ROOM = (-12, 5)
STILL = [".hv-svg", ".hv-rows", ".hv-foot"]
LONG_NOTES = ["A sentence on what was measured about this head, on these and other texts."] * 12
PREVIOUS = [f"{m}.previous token" for m in range(12)]
EXTREMES = [(HeadViewer(["announcements"] * 20, causal(7, 12, 20), PREVIOUS, LONG_NOTES),)]
REFUSED = [
    (dict(weights=np.eye(5)), r"\(heads, n, n\).*\(5, 5\)"),
    (dict(weights=np.ones((3, 5, 4)) / 4), r"\(3, 5, 4\)"),
    (dict(weights=np.zeros((0, 5, 5))), "0 heads on 5 tokens"),
    (dict(weights=np.zeros((13, 5, 5))), "13 heads on 5 tokens"),
    (dict(weights=np.zeros((1, 21, 21))), "1 heads on 21 tokens"),
    (dict(weights=3.5 * three()), "range from 0 to 3.5. Are they scores"),
    (dict(weights=three() - 0.5), "between 0 and 1"),
    (dict(weights=three() * np.nan), "between 0 and 1"),
    (dict(weights=[[[1.0], [0.5, 0.5]]]), "array of numbers"),
    (dict(tokens=TOKENS[:4]), "tokens must name the 5 rows and columns; 4 were given"),
    (dict(tokens="words"), "one string, 'words'"),
    (dict(names=NAMES[:2]), "names must name the 3 heads; 2 were given"),
    (dict(notes=NOTES + ["x"]), "notes must have a sentence for each of the 3 heads; 4 were given"),
    (dict(head=3), "head must be 0 to 2; it is 3"),
    (dict(head=-1), "head must be 0 to 2; it is -1"),
    (dict(query=5), "query must be 0 to 4, or -1 for none; it is 5"),
    (dict(query=-2), "query must be 0 to 4, or -1 for none; it is -2"),
    (dict(threshold=2), "threshold"),
]
REFUSED_LATER = [("head", 3, "head must be 0 to 2; it is 3"), ("query", 5, "query must be 0 to 4.*; it is 5")]
SET = [dict(head=2, query=1), dict(threshold=0)]
STOPS = ["head-0", "all", "query-4"]
SEEDS = [(1, 3, 5, 0.05), (2, 1, 7, 0.2), (3, 12, 20, 0), (4, 2, 2, 1)]
FIXTURES = [
    state_of(HeadViewer([f"t{i}" for i in range(n)], causal(seed, heads, n), head=m, threshold=threshold))
    for seed, heads, n, threshold in SEEDS
    for m in {0, heads - 1}
]
FIXTURES.append(state_of(make(query=-1)))


def reference(state):
    kind = {"float16": "<f2", "float32": "<f4"}[state["dtype"]]
    weights = np.frombuffer(state["data"], kind).reshape(state["shape"])[state["head"]].astype(float)
    n, query = len(weights), state["query"]
    row = weights[query] if query >= 0 else []
    lines = sorted((w, i, j) for (i, j), w in np.ndenumerate(weights) if w and w >= state["threshold"])
    expected = {"weights": weights, "sums": weights.sum(-1), "row": row, "lines.*.2": [weight for weight, *_ in lines]}
    if query >= 0:
        expected["ranking"] = np.argsort(-weights[query], kind="stable")
    if n > 1:
        later = np.arange(1, n)
        habits = dict(first=weights[later, 0], previous=weights[later, later - 1], self=weights[later, later])
        expected.update({f"habits.{name}": values.mean() for name, values in habits.items()})
    return expected


def strong(*lines):
    """Seen: these lines are strong, and no others."""
    return {".hv-mine": len(lines), **{f".hv-mine[data-line='{line}']": 1 for line in lines}}


NUMBERS = ".hv-number"
SIX = HeadViewer(list("abcdef"), [np.tile([0.4, 0.3, 0.1, 0.1, 0.06, 0.04], (6, 1))])
AREAS = (
    ".hv-picture => [...one.querySelectorAll('path')].map((path) => path.getAttribute('d')).join('').match(/M/g).length"
)
CONTROLS = {
    "one token alone has no habits": (
        HeadViewer(["the"], [[[1.0]]], query=-1),
        {"said": "Head 0: one token, which can only look at itself.", **strong("0-0")},
    ),
    "weights below the threshold have a number and no line": (
        HeadViewer(["a", "b", "c"], [[[1, 0, 0], [0.5, 0.5, 0], [0.03, 0.002, 0.968]]]),
        {NUMBERS: ["0.03", "<.01", "0.97"], **strong("2-2")},
    ),
    "the threshold can be moved from Python": (
        make(query=4, threshold=0.5),
        strong("4-3"),
        (sets(threshold=0), {".hv-legend~": "no line below 0.", **strong("4-3", "4-4")}),
    ),
    "heads have pictures, the map has numbers, and equal tokens differ": (
        make(head=1),
        {".hv-row:nth-child(-n + 2) .hv-cell": ["1.00", "", "", "", "", "0.88", "0.13", "", "", ""]},
        {".aw-zero": 5 * 5 - 9, AREAS: [9, 9, 5], ".hv-head": ["key: is read", "query: reads"]},
        {".hv-query => one.textContent": ["the0", "record", "of", "the3", "bank"], ".hv-query sub": ["0", "3"]},
        {"query=query-3@aria-label": "the3, position 3"},
    ),
    "tokens and rows are pinned by a press and let go by another": (
        make(),
        ("query=query-2", {"query": 2, "query=query-2@aria-pressed": "true"}),
        ("query=query-2", dict(query=-1)),
        ("leave", {".hv-mine": 9, NUMBERS: [""] * 5}),
        ("hover cell=3-2", {".hv-read": "the₃ looks at of: 0.75", **strong("3-2", "3-3")}),
        ("cell=3-2", dict(query=3)),
    ),
    "the pinned token has strong lines above the others until pointer or keyboard are on another one": (
        make(query=4),
        {NUMBERS: ["", "", "", "0.75", "0.25"], **strong("4-3", "4-4")},
        {".hv-line => one.matches('.hv-mine')": [False] * 7 + [True] * 2},
        ("hover query=query-1", {"query": 4, **strong("1-0", "1-1")}),
        ("leave", strong("4-3", "4-4")),
        ("keys: Tab Tab Tab", {"focus": "query-4"}),
        ("keys: ArrowUp", {"query": 4, **strong("3-2", "3-3")}),
        ("keys: Home", strong("0-0")),
        ("keys: End ArrowUp Enter", dict(query=3)),
        ("keys: Tab", strong("3-2", "3-3")),
    ),
    "a head is picked by its picture and by the arrow keys": (
        make(query=4),
        ("head=head-1", {"head": 1, "query": 4, NUMBERS: ["0.88", "", "", "", "0.13"]}),
        {".hv-note": "Head 3.2 It parks on the first token."},
        ("keys: ArrowDown", {"head": 2, "[data-head=head-2]:checked": 1}),
        ("keys: ArrowRight", dict(head=0)),
        ("keys: ArrowRight", dict(head=1)),
    ),
    "a single head offers no choice": (
        make(weights=three()[:1], names=NAMES[:1], notes=NOTES[:1]),
        {"input, select": 0},
    ),
    "white space and a line break can be seen": (
        HeadViewer([" ", "\n", "a"], np.eye(3)[None]),
        {".hv-query": ["␣", "⏎", "a"]},
    ),
    "the summary says what is read, and all tokens can be shown at once": (
        make(query=4),
        ("query=query-2 | All tokens", {"query": -1, "go=all@aria-pressed": "true", ".hv-mine": 9}),
        ("All tokens", dict(query=2)),
        sets(query=4),
        {"said": "Head 11.6, query “bank”: 0.75 on “the₃”, 0.25 on “bank”."},
        (sets(query=3, head=1), {"said": "Head 3.2, query “the₃”: 0.88 on “the₀”, 0.13 on “the₃”."}),
        (sets(query=0, head=2), {"said": "looks at itself, query “the₀”: 1.00 on “the₀”."}),
        sets(query=-1, head=0),
        {
            "said": "Head 11.6, all tokens after the first: on average 0.19 on the first token, "
            "0.75 on the token before, 0.25 on itself."
        },
    ),
    "the summary says how many others are read": (
        SIX,
        {"said": "Head 0, query “f”: 0.40 on “a”, 0.30 on “b”, 0.10 on “c”, 0.20 on 3 others."},
    ),
    "the summary says where nothing is read": (
        HeadViewer(["a", "b"], [[[0, 0], [0.5, 0.5]]], query=0),
        {"said": "Head 0, query “a”: no weight on any key."},
    ),
}


def test_the_bytes_are_the_weights_and_half_as_many_where_nothing_is_lost():
    for seed, heads, n, _ in SEEDS:
        weights = causal(seed, heads, n)
        np.testing.assert_allclose(HeadViewer(["t"] * n, weights).weights, weights, rtol=0, atol=1e-7)
    widget = make()
    assert (widget.dtype, len(widget.data)) == ("float16", 2 * 3 * 5 * 5)
    assert np.array_equal(widget.weights, three())


def test_every_line_goes_from_its_query_to_its_key(shown):
    view = shown(make())
    for state in FIXTURES:
        weights = reference(state)["weights"]
        wanted = {(i, j) for i, j in zip(*np.nonzero(weights)) if weights[i, j] >= state["threshold"]}
        assert {(i, j) for i, j, _ in view.compute(state)["lines"]} == wanted


def test_lines_are_as_wide_as_their_weights_and_go_to_rows_that_are_next_to_their_queries(shown):
    view = shown(make(query=4))
    look = "[getComputedStyle(one).strokeWidth, one.getAttribute('stroke-opacity')].map(parseFloat)"
    wide, narrow = (view.each(f"[data-line='4-{j}']", look)[0] for j in (3, 4))
    assert wide[0] > narrow[0] and wide[1] > narrow[1]
    ends = "[0, one.getTotalLength()].map((at) => one.getPointAtLength(at).matrixTransform(one.getScreenCTM()))"
    [(start, end)] = view.each("[data-line='4-3']", f"{ends}.map(({{ x, y }}) => [x, y])")
    assert start == pytest.approx(view.spot("query=query-4 at 0,0.5"), abs=1)
    assert end == pytest.approx(view.spot(".hv-key >> nth=3 at 1,0.5"), abs=1)
    for i in range(5):
        _, row = view.spot(f"cell={i}-0")
        (x, _), (_, button) = view.spot(f"query=query-{i} at 1,0.5"), view.spot(f"query=query-{i}")
        assert row == pytest.approx(button, abs=1) and view.spot(f"cell={i}-0 at 0,0")[0] >= x


RECORDING = data.seven_tokens()
CHOSEN = RECORDING.weights[4, :6]
TRAITS = {
    "heads of the recorded sentence can be shown": (
        dict(tokens=RECORDING.tokens, weights=CHOSEN, names=[f"4.{h}" for h in range(6)], notes=None),
        dict(query=6, head=0, notes=[], weights=CHOSEN.tolist()),
    ),
    "heads without names are numbered": (
        dict(tokens=["a"], weights=np.ones((3, 1, 1)), names=None, notes=None),
        dict(names=["0", "1", "2"]),
    ),
    "everything can be replaced by other sizes": (
        dict(head=2, query=4),
        lambda widget: widget.put(["a", "b"], np.eye(2)[None], ["0.0"]),
        dict(shape=[1, 2, 2], tokens=["a", "b"], notes=[], head=0, query=1),
        lambda widget: widget.put(TOKENS, three(), NAMES, head=2, query=4),
        dict(shape=[3, 5, 5], head=2, query=4),
    ),
    "what is given is left as it was": (dict(weights=three()), dict(weights=three().tolist())),
}


@pytest.mark.parametrize("chosen", [-1, 3])
def test_print_gets_lines_and_map_with_the_note(chosen):
    figure = make(query=chosen).picture()
    lines, grid = figure.axes[:2]
    assert len(lines.lines) == 9
    assert lines.get_title() == "key: is read  |  query: reads"
    assert [label.get_text() for label in grid.get_xticklabels()] == ["the₀", "record", "of", "the₃", "bank"]
    assert figure.get_suptitle() == "Head 11.6: On average 0.8 on the token before."
