"""The head viewer: weights arrive unharmed, lines and map say the same, and every token and head can be reached."""

from __future__ import annotations

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


def strong_lines(view):
    return sorted(view.each(".hv-mine", "one.dataset.line"))


def strong(*lines):
    """Seen: these lines are strong, and no others."""
    return {".hv-mine": len(lines), **{f".hv-mine[data-line='{line}']": 1 for line in lines}}


NUMBERS = ".hv-number"
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
        sets(threshold=0),
        {".hv-legend~": "no line below 0.", **strong("4-3", "4-4")},
    ),
    "the map has the numbers of a short sentence": (
        make(head=1),
        {".hv-row:nth-child(-n + 2) .hv-cell": ["1.00", "", "", "", "", "0.88", "0.13", "", "", ""]},
        {".aw-zero": 5 * 5 - 9},
    ),
    "tokens and rows are pinned by a press and let go by another": (
        make(),
        "query=query-2",
        {"query": 2, "query=query-2@aria-pressed": "true"},
        "query=query-2",
        dict(query=-1),
        "leave",
        {".hv-mine": 9, NUMBERS: [""] * 5},
        "hover cell=3-2",
        {".hv-read": "the₃ looks at of: 0.75", **strong("3-2", "3-3")},
        "cell=3-2",
        dict(query=3),
    ),
    "the keyboard shows the token it is on": (
        make(query=4),
        "keys: Tab Tab Tab",
        {"focus": "query-4"},
        "keys: ArrowUp",
        {"query": 4, **strong("3-2", "3-3")},
        "keys: Home",
        strong("0-0"),
        "keys: End ArrowUp Enter",
        dict(query=3),
        "keys: Tab",
        strong("3-2", "3-3"),
    ),
    "all tokens are shown at once and the last one comes back": (
        make(query=2),
        "All tokens",
        {"query": -1, "go=all@aria-pressed": "true", ".hv-mine": 9},
        "All tokens",
        dict(query=2),
    ),
    "a head is picked by its picture": (
        make(query=4),
        "head=head-1",
        {"head": 1, "query": 4, NUMBERS: ["0.88", "", "", "", "0.13"]},
        {".hv-note": "Head 3.2 It parks on the first token."},
    ),
    "heads are gone through with the arrow keys": (
        make(),
        "keys: Tab ArrowRight ArrowDown",
        {"head": 2, "[data-head=head-2]:checked": 1},
        "keys: ArrowRight",
        dict(head=0),
    ),
    "a single head offers no choice": (
        make(weights=three()[:1], names=NAMES[:1], notes=NOTES[:1]),
        {"input, select": 0},
    ),
    "white space and a line break can be seen": (
        HeadViewer([" ", "\n", "a"], np.eye(3)[None]),
        {".hv-query": ["␣", "⏎", "a"]},
    ),
    **{
        f"the summary says: {words}": (widget, dict(said=words))
        for widget, words in [
            (make(query=4), "Head 11.6, query “bank”: 0.75 on “the₃”, 0.25 on “bank”."),
            (make(query=3, head=1), "Head 3.2, query “the₃”: 0.88 on “the₀”, 0.13 on “the₃”."),
            (
                make(query=-1),
                "Head 11.6, all tokens after the first: on average 0.19 on the first token, "
                "0.75 on the token before, 0.25 on itself.",
            ),
            (make(query=0, head=2), "looks at itself, query “the₀”: 1.00 on “the₀”."),
            (
                HeadViewer(list("abcdef"), [np.tile([0.4, 0.3, 0.1, 0.1, 0.06, 0.04], (6, 1))]),
                "Head 0, query “f”: 0.40 on “a”, 0.30 on “b”, 0.10 on “c”, 0.20 on 3 others.",
            ),
            (HeadViewer(["a", "b"], [[[0, 0], [0.5, 0.5]]], query=0), "Head 0, query “a”: no weight on any key."),
        ]
    },
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


def test_the_pinned_token_has_strong_lines_above_the_others_as_wide_as_its_weights(shown):
    view = shown(make(query=4))
    assert strong_lines(view) == ["4-3", "4-4"]
    assert view.texts(NUMBERS) == ["", "", "", "0.75", "0.25"]
    kinds = view.each(".hv-line", "one.matches('.hv-mine')")
    assert kinds == [False] * 7 + [True] * 2
    wide, narrow = (
        view.locator(f"[data-line='4-{j}']").evaluate(
            "line => [getComputedStyle(line).strokeWidth, line.getAttribute('stroke-opacity')].map(parseFloat)"
        )
        for j in (3, 4)
    )
    assert wide > narrow and wide[1] > narrow[1]
    start, end = view.locator("[data-line='4-3']").evaluate("""(line) => [0, line.getTotalLength()]
        .map((at) => line.getPointAtLength(at).matrixTransform(line.getScreenCTM())).map(({ x, y }) => [x, y])""")
    key, button = view.locator(".hv-key").nth(3).bounding_box(), view.part("query", "query-4").bounding_box()
    np.testing.assert_allclose(start, [button["x"], button["y"] + button["height"] / 2], rtol=0, atol=1)
    np.testing.assert_allclose(end, [key["x"] + key["width"], key["y"] + key["height"] / 2], rtol=0, atol=1)
    view.part("query", "query-1").hover()
    assert strong_lines(view) == ["1-0", "1-1"]
    assert view.get("query") == 4
    view.mouse.move(0, 0)
    assert strong_lines(view) == ["4-3", "4-4"]


def test_rows_are_next_to_their_queries_heads_have_pictures_and_equal_tokens_differ(shown):
    view = shown(make(), width=1280)
    for i in range(5):
        row = view.locator(f"[data-cell='{i}-0']").bounding_box()
        button = view.part("query", f"query-{i}").bounding_box()
        assert abs(row["y"] + row["height"] / 2 - button["y"] - button["height"] / 2) <= 1
        assert row["x"] >= button["x"] + button["width"]
    areas = view.locator(".hv-picture").evaluate_all(
        "all => all.map((one) => [...one.querySelectorAll('path')].reduce((n, p) => n + p.getAttribute('d')"
        ".split('M').length - 1, 0))"
    )
    assert areas == [9, 9, 5]
    assert [text.replace("\n", "") for text in view.texts(".hv-query")] == ["the0", "record", "of", "the3", "bank"]
    assert view.texts(".hv-query sub") == ["0", "3"]
    assert view.texts(".hv-head") == ["key: is read", "query: reads"]
    assert view.part("query", "query-3").get_attribute("aria-label") == "the3, position 3"


def test_heads_of_the_recorded_sentence_can_be_shown():
    recording = data.seven_tokens()
    widget = HeadViewer(recording.tokens, recording.weights[4, :6], [f"4.{h}" for h in range(6)])
    np.testing.assert_allclose(widget.weights, recording.weights[4, :6], rtol=0, atol=1e-7)
    assert (widget.query, widget.head, widget.notes) == (6, 0, [])


def test_heads_without_names_are_numbered():
    assert HeadViewer(["a"], np.ones((3, 1, 1))).names == ["0", "1", "2"]


def test_everything_can_be_replaced_by_other_sizes():
    widget = make(head=2, query=4)
    widget.put(["a", "b"], np.eye(2)[None], ["0.0"])
    assert (widget.shape, widget.tokens, widget.notes, widget.head, widget.query) == ([1, 2, 2], ["a", "b"], [], 0, 1)
    widget.put(TOKENS, three(), NAMES, head=2, query=4)
    assert (widget.shape, widget.head, widget.query) == ([3, 5, 5], 2, 4)


def test_the_given_array_is_left_as_it_was():
    weights = three()
    make(weights=weights)
    assert np.array_equal(weights, three())


@pytest.mark.parametrize("chosen", [-1, 3])
def test_print_gets_lines_and_map_with_the_note(chosen):
    figure = make(query=chosen).picture()
    lines, grid = figure.axes[:2]
    assert len(lines.lines) == 9
    assert lines.get_title() == "key: is read  |  query: reads"
    assert [label.get_text() for label in grid.get_xticklabels()] == ["the₀", "record", "of", "the₃", "bank"]
    assert figure.get_suptitle() == "Head 11.6: On average 0.8 on the token before."
