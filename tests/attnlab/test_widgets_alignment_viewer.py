"""The alignment viewer: shares and context are NumPy's, every weight can be moved, and no total of zero breaks it."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab.widgets import AlignmentViewer
from tests.attnlab.widget_page import sets, state_of

SOURCE = ["le", "chat", "noir", "le"]
TARGET = ["the", "black", "cat"]
WEIGHTS = [[0.5, 0.125, 0.125, 0.25], [0, 0.25, 0.75, 0], [0.125, 0.75, 0.125, 0]]
VALUES = [[1, 0], [0, 2], [-2, 0.5], [3, -1]]


def softmaxed(seed, n_t, n_s, d_v):
    """Random weights and values; weights are the softmax of PyTorch, in float64."""
    generator = torch.Generator().manual_seed(seed)
    scores, values = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((n_t, n_s), (n_s, d_v))
    )
    return F.softmax(2 * scores, dim=-1).numpy(), values.numpy()


def make(**options):
    return AlignmentViewer(**{**dict(source=SOURCE, target=TARGET, weights=WEIGHTS, values=VALUES), **options})


def sized(n_t, n_s, d_v, source="source", target="t"):
    """A viewer of this size, and changes: every target as recorded, hard, even, and with nothing to share out."""
    widget = AlignmentViewer([source] * n_s, [target] * n_t, *softmaxed(7, n_t, n_s, d_v))
    settings = [np.eye(n_s)[[0] * n_t].tolist(), np.full((n_t, n_s), 1 / n_s).tolist(), np.zeros((n_t, n_s)).tolist()]
    return widget, dict(query=n_t - 1), *(dict(settings=one) for one in settings)


EXAMPLES = [
    (make(), dict(query=1), dict(settings=[[0.5, 0.5, 0.25, 0]] * 3), dict(query=2, settings=[[0, 0, 0, 0]] * 3)),
    sized(5, 6, 3),
    *(sized(*sizes)[:1] for sizes in [(9, 9, 4), (14, 4, 8), (3, 14, 2), (1, 1, 1), (13, 7, 6)]),
]
EXTREMES = [sized(*sizes, "announcements", "Bekanntmachungen") for sizes in [(14, 13, 8), (3, 2, 4)]]
STILL = [".al-lines", ".al-result"]
ROOM = (-5, 22)
REFUSED = [
    (dict(weights=[0.5, 0.5]), r"weights must have 2 dimensions; its shape is \(2,\)"),
    (dict(values=[1, 2, 3, 4]), r"values must have 2 dimensions; its shape is \(4,\)"),
    (dict(weights=[["a", "b"]]), "weights must be an array of numbers"),
    (dict(source=SOURCE[:3]), "source must name the 4 columns of weights; 3 were given"),
    (dict(target=TARGET + ["sat"]), "target must name the 3 rows of weights; 4 were given"),
    (dict(target="cat"), "list of tokens; it is one string, 'cat'"),
    (dict(values=VALUES[:3]), "weights is 3 x 4, values has 3 rows"),
    (dict(values=np.ones((4, 9))), "1 to 8 wide; they are 9 wide"),
    (dict(values=np.full((4, 2), np.nan)), "finite numbers"),
    (dict(values=np.full((4, 2), 1e7)), "size at most 1e6"),
    (dict(weights=np.multiply(WEIGHTS, 8)), "range from 0 to 6. Are they scores"),
    (dict(weights=np.subtract(WEIGHTS, 0.5)), "between 0 and 1"),
    (dict(weights=np.multiply(WEIGHTS, np.nan)), "between 0 and 1"),
    (dict(weights=np.multiply(WEIGHTS, [[1], [0.5], [1]])), "row 1 sums to 0.5"),
    (dict(query=3), "query must be 0 to 2; it is 3"),
    (dict(query=-1), "query must be 0 to 2; it is -1"),
    (dict(source=["s"] * 15, weights=np.full((3, 15), 1 / 15), values=np.ones((15, 2))), "1 to 14 tokens; it has 15"),
]
REFUSED_LATER = [
    ("settings", [[0.5] * 4] * 2, r"settings must be 3 x 4, like the weights; their shape is \(2, 4\)"),
    ("settings", [[0.5, 0.5, 0, 1.5]] * 3, "between 0 and 1"),
    ("settings", [[0.5, 0.5, 0, -0.5]] * 3, "between 0 and 1"),
    ("query", 3, "query must be 0 to 2; it is 3"),
    ("query", -1, "query"),
    ("values", [[1.0]], "to change values, use put"),
]


def fixture(seed, n_t, n_s, d_v, query):
    weights, values = softmaxed(seed, n_t, n_s, d_v)
    settings = np.random.default_rng(seed).uniform(size=(n_t, n_s))
    settings[0] = weights[0]
    return dict(weights=weights.tolist(), values=values.tolist(), settings=settings.tolist(), query=query)


SIZES = [(1, 3, 5, 2, 0), (1, 3, 5, 2, 2), (2, 14, 13, 8, 0), (2, 14, 13, 8, 13), (3, 1, 2, 3, 0), (4, 4, 1, 1, 3)]
FIXTURES = [fixture(*sizes) for sizes in SIZES]
# Recorded weights change nothing at all, though they may not sum to one to the last bit. A total of zero gives zeros.
SINGLE = softmaxed(5, 6, 7, 3)[0].astype(np.float32).tolist()
KNOWN = [
    (
        dict(weights=SINGLE, values=softmaxed(5, 6, 7, 3)[1].tolist(), settings=SINGLE, query=4),
        dict(difference=[0, 0, 0], distance=0),
    ),
    *(
        (
            dict(weights=[weights], values=VALUES, settings=[[0, 0, 0, 0]], query=0),
            dict(shares=[[0, 0, 0, 0]], context=[0, 0], largest=largest),
        )
        for weights, largest in [(WEIGHTS[1], 2), ([0, 0, 0, 0], -1)]
    ),
]


def reference(state):
    weights, values, settings = (
        torch.tensor(state[name], dtype=torch.float64) for name in ("weights", "values", "settings")
    )
    query, shares = state["query"], F.normalize(settings, p=1, dim=-1)
    recorded = F.normalize(weights, p=1, dim=-1)
    difference = (shares - recorded)[query] @ values
    return {
        "shares": shares,
        "totals": settings.sum(-1),
        "recorded": recorded[query] @ values,
        "context": shares[query] @ values,
        "difference": difference,
        "distance": difference.norm(),
        "largest": settings[query].argmax(),
        "moved": (settings != weights).any(-1),
    }


SHARES, CELLS = ".al-share", ".al-cell"


def written(name, vector):
    """Seen: this vector, in two decimals."""
    numbers = f"[data-value^='{name}-'] => Number(one.textContent.replace('−', '-'))"
    return {numbers: pytest.approx([*vector], abs=0.0051)}


MIXED = np.array([0.5, 0.125, 1, 0.25]) / 1.875
SUMS = np.array(WEIGHTS) @ VALUES
SPREAD = "Target “the”: 0.50 on “le₀”, 0.25 on “le₃”, 0.13 on “chat”, 0.13 on one other."
BELOW = ["", "0.25", "0.75", "", "0.13", "0.75", "0.13", ""]  # the cells of the other targets
CONTROLS = {
    "the map shows the shares and reads out the cell pointed at": (
        make(),
        {CELLS: ["0.50", "0.13", "0.13", "0.25", *BELOW]},
        {"[role=img][aria-label='value (−2.00, 0.50)']": 1},
        ("hover cell=1-2", {".al-read": "black looks at noir: 0.75"}),
        ("leave", {".al-read": ""}),
    ),
    "a target token is picked by pointer and by keyboard and keeps its own weights": (
        make(),
        ("target=target-1", {"query": 1, SHARES: ["0", "0.25", "0.75", "0"]}),
        ("keys: ArrowDown", {"query": 2, ".al-chosen .al-target": "cat"}),
        ("cell=0-2", dict(query=0)),
        "Hard | target=target-2 | Even | target=target-1",
        dict(settings=[[1, 0, 0, 0], WEIGHTS[1], [0.25] * 4]),
        ("target=target-0", {SHARES: ["1.00", "0", "0", "0"]}),
    ),
    "a slider says its share and reset brings the recorded weights back": (
        make(),
        ("slider=slider-3: ArrowRight", {"settings": [[0.5, 0.125, 0.125, 0.26], *WEIGHTS[1:]]}),
        {"slider=slider-3@aria-label": "Weight on le₃", "slider=slider-3@aria-valuetext": "0.26, share 0.26"},
        ("slider=slider-1 := 0.9", {"target=target-0@aria-label": "the, changed"}),
        ("Reset", {"settings": WEIGHTS, "target=target-0@aria-label": "the", "[data-value^='change-']": ["0", "0"]}),
    ),
    "the context is the weighted sum of the values, and one slider changes all shares": (
        make(query=2),
        {**written("context", SUMS[2]), **written("recorded", SUMS[2]), "[data-value^='change-']": ["0", "0"]},
        ("target=target-0 | slider=slider-2 := 1", {SHARES: [f"{weight:.2f}" for weight in MIXED]}),
        {**written("context", MIXED @ VALUES), **written("recorded", SUMS[0])},
        {**written("change", MIXED @ VALUES - SUMS[0]), CELLS: [*(f"{weight:.2f}" for weight in MIXED), *BELOW]},
        {".al-total": "Sliders add up to 1.88; share = slider / 1.88."},
    ),
    "even gives the mean of the values and hard puts everything on the largest": (
        make(query=1),
        ("Even", {SHARES: ["0.25"] * 4, **written("context", (0.5, 0.375))}),
        ("Reset | Hard", {SHARES: ["0", "0", "1.00", "0"], **written("context", VALUES[2])}),
        ("slider=slider-0 := 0.5 | Hard", {SHARES: ["0", "0", "1.00", "0"]}),
    ),
    "with all sliders at zero the context is zero and it says so": (
        make(query=1),
        "slider=slider-1 := 0 | slider=slider-2: Home",
        {SHARES: ["0"] * 4, **written("context", [0, 0]), ".al-total": "All sliders are at zero, so all shares are 0."},
        {"said": "Target “black”: no weight on any source token. All shares are 0, and so is the context."},
        ("Hard", {SHARES: ["0", "0", "1.00", "0"]}),  # the recorded weights say which was the largest
    ),
    "a recorded row of zeros is shown and can be filled": (
        make(weights=[WEIGHTS[0], [0, 0, 0, 0], WEIGHTS[2]], query=1),
        ("Hard", {SHARES: ["0"] * 4}),
        ("slider=slider-3 := 0.01", {SHARES: ["0", "0", "0", "1.00"], **written("context", VALUES[3])}),
    ),
    "numbers are written as their size needs": (
        make(),
        *(
            (sets(values=(np.array(VALUES) * scale).tolist()), {"[data-value^='context-']": texts})
            for scale, texts in [
                (1, ["1.00", "0.06"]),
                (1e-3, ["0.00100", "0.00006"]),
                (100, ["100", "6"]),
                (1e5, ["1.0e5", "6.3e3"]),
                (1e-8, ["1.0e−8", "6.2e−10"]),
            ]
        ),
    ),
    "the summary says what is taken and how far the context went": (
        make(),
        {"said": f"{SPREAD} Context (1.00, 0.06), as recorded."},
        sets(query=1),
        {"said": "Target “black”: 0.75 on “noir”, 0.25 on “chat”. Context (−1.50, 0.88), as recorded."},
        "Hard",  # from (-1.5, 0.875)
        {"said": "Target “black”: 1.00 on “noir”. Context (−2.00, 0.50), 0.63 away from the recorded one."},
    ),
}


def test_solid_columns_add_up_to_the_context(shown):
    """In the list a column is share x value; all of an entry stacked are as high as the context's column below."""
    view = shown(make())
    height = "parseFloat(one.style.height) * (one.style.top === '50%' ? -1 : 1)"
    solid = np.reshape(view.each(".al-lines .al-solid", height), (4, 2))
    np.testing.assert_allclose(solid.sum(0), view.each(".al-chart .al-now", height), atol=0.05)
    np.testing.assert_allclose(solid, np.array(WEIGHTS[0])[:, None] * VALUES / 3 * 50, atol=0.01)


TRAITS = {
    "weights and values change together": (
        dict(query=2),
        lambda widget: widget.put(["a"], ["b"], [[1]], [[2, 3, 4]]),
        dict(query=0, settings=[[1]], context=[[2, 3, 4]]),
    ),
    "what is given is left as it was": (
        dict(weights=softmaxed(9, 3, 4, 2)[0], values=softmaxed(9, 3, 4, 2)[1]),
        (sets(settings=np.zeros((3, 4))), dict(weights=softmaxed(9, 3, 4, 2)[0].tolist())),
    ),
    "the context and the shares follow the sliders": (
        dict(),
        dict(context=SUMS.tolist()),
        sets(settings=[[0, 0, 0, 0.25], [0, 0, 0, 0], WEIGHTS[2]]),
        dict(context=[[3, -1], [0, 0], SUMS[2].tolist()], shares=[[0, 0, 0, 1], [0, 0, 0, 0], WEIGHTS[2]]),
    ),
}


def test_print_gets_the_map_and_the_context():
    grid, bars = make(query=1).picture().axes[:2]
    assert [text.get_text() for text in grid.texts][:4] == ["0.50", "0.12", "0.12", "0.25"]
    assert [label.get_text() for label in grid.get_xticklabels()] == ["le₀", "chat", "noir", "le₃"]
    np.testing.assert_allclose([patch.get_width() for patch in bars.patches], SUMS[1])


WORDS = ["(end)", "miru", "pipo", "un", "lo", "roka", "vesa", "segu"]


class Tail(torch.nn.Module):
    """The layers after the context in a decoder, as in the chapter's own translator."""

    def __init__(self, seed=3, width=6, inner=10):
        super().__init__()
        torch.manual_seed(seed)
        self.W_o = torch.nn.Linear(width, width, bias=False)
        self.norm = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(torch.nn.Linear(width, inner), torch.nn.ReLU(), torch.nn.Linear(inner, width))
        self.scores = torch.nn.Linear(width, len(WORDS))
        for one in self.parameters():
            torch.nn.init.normal_(one)
        self.values, self.own = torch.randn(4, width), torch.randn(3, width)

    def says(self, shares, query):
        """The probabilities of the words, (v,), in float64."""
        tail = self.double()
        y = self.own[query].double() + tail.W_o(torch.tensor(shares, dtype=torch.float64) @ self.values.double())
        return tail.scores(y + tail.feed(tail.norm(y))).softmax(-1).detach().numpy()

    def decoder(self):
        return dict(words=WORDS, values=self.values, own=self.own, parts=list(self.parameters()))


TAIL = Tail()
SPEAKING = make(decoder=TAIL.decoder())
EXAMPLES.append((SPEAKING, dict(query=1), dict(settings=[[0.5, 0.5, 0.25, 0]] * 3), dict(settings=[[0, 0, 0, 0]] * 3)))
GLIDES = [(SPEAKING, "[data-go=even]", {".al-share": ""})]
REFUSED += [
    (dict(decoder={**TAIL.decoder(), "parts": []}), "decoder must have 9 parts; it has 0"),
    (dict(decoder={**TAIL.decoder(), "own": TAIL.own[:2]}), r"own of the decoder must have shape \(3, 6\).*\(2, 6\)"),
]


def test_the_words_have_the_probabilities_of_the_pytorch_module(shown):
    view = shown(SPEAKING)
    rng = np.random.default_rng(5)
    for query in range(3):
        settings = rng.uniform(size=(3, 4))
        found = view.compute({**state_of(SPEAKING), "settings": settings.tolist(), "query": query})["said"]
        expected = TAIL.says(settings[query] / settings[query].sum(), query)
        np.testing.assert_allclose(found["says"], expected, rtol=1e-9, atol=1e-12)
        assert found["best"] == expected.argmax()
        assert found["recorded"] == TAIL.says(WEIGHTS[query], query).argmax()
        alone = {int(TAIL.says(np.eye(4)[j], query).argmax()) for j in range(4)}
        assert alone <= set(found["shown"]) and len(found["shown"]) == len(set(found["shown"]))


def test_a_slider_changes_the_word_that_is_said(shown):
    view = shown(SPEAKING)
    said = set()
    for query in range(3):
        view.part("target", f"target-{query}").click()
        for alone in np.eye(4):
            for k, weight in enumerate(alone):
                view.slider(f"slider-{k}").fill(f"{weight:.0f}")
            expected = WORDS[TAIL.says(alone, query).argmax()]
            view.shows({".al-said": expected, ".al-best .al-word": expected, "said~": f"Says “{expected}”"})
            said.add(expected)
    assert len(said) > 1
