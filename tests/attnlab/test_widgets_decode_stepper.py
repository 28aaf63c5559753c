"""The decode stepper: its counts against loops that do the work one by one, and each of its controls in a browser."""

import numpy as np
import pytest

from attnlab.widgets import DecodeStepper
from tests.attnlab.widget_page import state_of

SCHEMES = ["mha", "gqa", "mqa", "mla"]
SMALL = dict(n_layers=3, n_heads=4, n_kv_heads=2, d_head=2, prompt=["a", "b"], continuation=["c", "d", "e"])
LONG = dict(n_layers=1, n_heads=1, n_kv_heads=1, d_head=4, prompt=["p"] * 5, continuation=["q"] * 4)
OPTIONS = [
    {**SMALL, "scheme": "gqa", "step": 1},
    {**SMALL, "scheme": "mha", "step": 2},
    {**SMALL, "scheme": "mqa", "step": 0},
    dict(n_layers=2, n_heads=6, n_kv_heads=3, d_head=1, prompt=["x"], continuation=["y"], scheme="gqa", step=0),
    {**LONG, "scheme": "mha", "step": 3, "bytes_per_element": 4},
]
MLA = {**SMALL, "scheme": "mla", "step": 2, "latent": 5, "rope": 3}
FIXTURES = [state_of(DecodeStepper(**options)) for options in [*OPTIONS, MLA]]
SET = [dict(step=1, continuation=["x", "y"])]
AGAIN = DecodeStepper(step=1, scheme="mqa")
REFUSED = [
    (dict(n_kv_heads=2), "2 does not divide 9"),
    (dict(d_model=512), "n_heads . d_head = 576, got 512"),
    (dict(n_layers=0), "n_layers must be a whole number from 1"),
    (dict(d_head=1.5), "d_head must be a whole number"),
    (dict(prompt=[]), "prompt must be a list of 1 to 8 tokens"),
    (dict(continuation=["a"] * 9), "continuation must be"),
    (dict(prompt="the cat"), "prompt must be a list"),
    (dict(latent=0), "latent must be"),
    (dict(step=5), "step must be 0 to 4"),
    (dict(step=-1), "step must be 0 to 4"),
    (dict(scheme="flash"), "scheme"),
]
REFUSED_LATER = [("n_heads", 4, "n_heads")]  # sizes stay what they were made with
STOPS = ["back", "next", "reset", *SCHEMES]
WORDY = dict(prompt=["announced"] * 8, continuation=["understanding"] * 8)
EXAMPLES = [
    (
        DecodeStepper(),
        dict(scheme="mha", step=0),
        dict(scheme="gqa", step=1),
        dict(scheme="mqa", step=2),
        dict(scheme="mla", step=4),
        dict(scheme="mha"),
    ),
    (DecodeStepper(**SMALL), dict(step=1)),
    (DecodeStepper(**OPTIONS[3]),),
]
GLIDES = [(DecodeStepper(), "[data-go=next]", {"[data-side=full] .ds-more": "style"})]
EXTREMES = [
    (DecodeStepper(**MLA),),
    (DecodeStepper(n_layers=96, n_heads=96, n_kv_heads=96, d_head=128, step=7, **WORDY),),
]


class Counting:
    """Attention of a model whose numbers do not matter: every multiply-add is one turn of a loop."""

    def __init__(self, n_layers, n_heads, kv_heads, d_head, d_model, bytes_per_element):
        self.sizes = n_layers, n_heads, kv_heads, d_head, d_model
        self.width = bytes_per_element
        self.kept = [[] for _ in range(n_layers)]  # for each layer the arrays of keys and values, one pair per token
        self.rows = 0  # tokens whose keys and values were computed

    def read(self, tokens, use_cache):
        """Multiply-adds of one pass over `tokens` new tokens, (projections, attention), summed over layers."""
        n_layers, n_heads, kv_heads, d_head, d_model = self.sizes
        projections = attention = 0
        self.rows += tokens
        for layer in range(n_layers):
            rows = [np.zeros((2, kv_heads, d_head), dtype=f"f{self.width}") for _ in range(tokens)]
            for _ in range(tokens):
                for heads in (n_heads, kv_heads, kv_heads):  # W_q, W_k, W_v: each number is a sum of d_model products
                    for _ in range(heads * d_head):
                        projections += d_model
                for _ in range(d_model):  # W_o
                    projections += n_heads * d_head
            keys = (self.kept[layer] if use_cache else []) + rows
            for _ in range(n_heads):
                for _ in range(tokens):
                    for _ in keys:
                        attention += d_head  # a score
                        attention += d_head  # a value, weighted and added
            if use_cache:
                self.kept[layer] = keys
        return projections, attention

    def nbytes(self):
        return sum(pair.nbytes for layer in self.kept for pair in layer)


def decode(state, use_cache):
    """Every pass: tokens, keys, multiply-adds and what is held, by writing the continuation token by token."""
    heads = dict(mha=state["n_heads"], gqa=state["n_kv_heads"], mqa=1)[state["scheme"]]
    sizes = state["n_layers"], state["n_heads"], heads, state["d_head"], state["d_model"]
    model = Counting(*sizes, state["bytes_per_element"])
    text, unread, passes, so_far = list(state["prompt"]), list(state["prompt"]), [], 0
    for word in state["continuation"]:
        fed = unread if use_cache else text
        projections, attention = model.read(len(fed), use_cache)
        so_far += projections + attention
        passes.append(
            dict(
                tokens=len(fed),
                keys=len(text),
                layer=(projections + attention) / state["n_layers"],
                projections=projections / state["n_layers"],
                attention=attention / state["n_layers"],
                total=projections + attention,
                so_far=so_far,
                rows_so_far=model.rows,
                bytes=model.nbytes(),
            )
        )
        text, unread = text + [word], [word]
    return passes


def reference(state):
    step = state["step"]
    if state["scheme"] == "mla":  # a row per token and layer, whatever the heads; no multiply-adds
        rows = state["n_layers"] * (len(state["prompt"]) + step) * (state["latent"] + state["rope"])
        return {"held_bytes.mla": rows * state["bytes_per_element"], "ratio": np.nan}
    sides = {"cached": decode(state, use_cache=True), "full": decode(state, use_cache=False)}
    cached, full = sides["cached"][step], sides["full"][step]
    return {
        **{
            f"passes.*.{side}.{name}": [one[name] for one in passes]
            for side, passes in sides.items()
            for name in passes[0]
            if name != "bytes"
        },
        "held": cached["keys"],
        f"held_bytes.{state['scheme']}": cached["bytes"],
        "ratio": full["total"] / cached["total"],
        "ratio_so_far": full["so_far"] / cached["so_far"],
    }


def test_mla_keeps_one_row_whatever_the_heads_and_counts_no_multiply_adds(shown):
    view = shown(DecodeStepper())
    for n_heads in (2, 4, 16):
        found = view.compute(state_of(DecodeStepper(**{**MLA, "n_heads": n_heads})))
        assert found["numbers"]["mla"] == 5 + 3
        # 3 layers, 4 tokens read after pass 2, 2 bytes each
        assert found["held_bytes"]["mla"] == sum(2 for _ in range(3) for _ in range(4) for _ in range(5 + 3))
        assert found["passes"][2]["cached"]["total"] is found["passes"][2]["full"]["so_far"] is None
        assert found["ratio"] is None and found["passes"][2]["full"]["rows_so_far"] == 2 + 3 + 4
    # Table 1 of arXiv:2405.04434, for the sizes of DeepSeek-V2: MHA 2 n_h d_h, GQA 2 n_g d_h, MQA 2 d_h, MLA 9/2 d_h.
    found = view.compute(state_of(DecodeStepper(n_layers=60, n_heads=128, n_kv_heads=8, d_head=128)))
    assert found["numbers"] == dict(mha=2 * 128 * 128, gqa=2 * 8 * 128, mqa=2 * 128, mla=9 * 128 // 2)


def test_a_row_is_read_exactly_where_a_cache_had_it(shown):
    view = shown(DecodeStepper())
    for step, cached, full in [
        (0, "now now written later later", "now now written later later"),
        (1, "read read now written later", "again again now written later"),
        (2, "read read read now written", "again again again now written"),
    ]:
        found = view.compute(state_of(DecodeStepper(**SMALL, step=step)))
        assert found["rows"] == dict(cached=cached.split(), full=full.split())


def cells(view, side, tokens, passes):
    """Rows of first letters, a row for each token, a letter for each pass."""
    states = [[view.part("cell", f"{side}-{place}-{index}") for index in range(passes)] for place in range(tokens)]
    return "/".join("".join(cell.get_attribute("data-state")[0] for cell in row) for row in states)


def test_the_counts_and_the_bars_tell_one_story(shown):
    view = shown(DecodeStepper(step=2))
    # One layer of SmolLM2-135M: 576 wide, 3 key/value heads of 64; the first pass reads 3 tokens, as on both sides.
    maps, layers = 576 * (2 * 576 + 2 * 192), 30
    cached = sum(layers * (new * maps + 2 * new * n * 576) for new, n in [(3, 3), (1, 4), (1, 5)])
    full = sum(layers * (n * maps + 2 * n * n * 576) for n in (3, 4, 5))
    assert view.text("title") == "Pass 3 of 5 reads “the₄” (decode), writes “mat”"
    assert view.text("so_far-cached") == f"5 tokens processed, {cached / 1e6:.1f} million multiply-adds"
    assert view.text("so_far-full") == f"12 tokens processed, {full / 1e6:.1f} million multiply-adds"
    assert view.text("ratio") == "2.4 × the work without a cache"
    assert view.text("held-gqa") == "115,200"
    room = view.locator(".ds-work").first.bounding_box()["width"]
    bars = [
        view.locator(f"[data-side={side}] .ds-{part}").bounding_box()["width"] / room
        for side in ("cached", "full")
        for part in ("first", "more")
    ]
    # Of the 3 + 4 + 5 + 6 + 7 tokens that it takes without a cache: what was computed first, and again.
    assert bars == pytest.approx([5 / 25, 0, 5 / 25, 7 / 25], abs=0.01)
    assert view.locator("[data-side=full] .ds-written").count() == 5
    assert view.locator("[data-side=full] .ds-there").count() == 3


@pytest.mark.parametrize(
    "step, cached, full",
    [
        (1, "nrl/nrl/wnl/lwl/lll", "nal/nal/wnl/lwl/lll"),  # passes to come are not drawn
        (2, "nrr/nrr/wnr/lwn/llw", "naa/naa/wna/lwn/llw"),
    ],
)
def test_the_rows_of_the_passes_are_a_line_with_a_cache_and_a_triangle_without(shown, step, cached, full):
    view = shown(DecodeStepper(**SMALL, step=step))
    assert (cells(view, "cached", 5, 3), cells(view, "full", 5, 3)) == (cached, full)


def test_mla_shows_bytes_and_no_multiply_adds(shown):
    view = shown(DecodeStepper(scheme="mla", step=1))
    assert view.text("so_far-full") == "7 tokens processed"
    assert view.text("held-mla") == f"{4 * 30 * (256 + 32) * 2:,}"
    assert "The multiply-adds of MLA are not counted" in view.said()


def test_schemes_may_be_left_out_of_sight(shown):
    short = DecodeStepper(choose_scheme=False)
    view = shown(short)
    assert view.evaluate("document.querySelectorAll('.aw button').length") == 7
    assert [view.part("scheme", name).is_visible() for name in SCHEMES] == [False] * 4
    assert short.min_height < DecodeStepper().min_height


def test_the_summary_gives_the_counts(shown):
    assert shown(DecodeStepper(step=1)).said() == (
        "Pass 2 of 5, writes “the₄”. With a cache it computes 1 row of K and V and reads 3; without one it computes 4, "
        "3 of them again. So far there are 1.75 times as many multiply-adds without a cache. GQA holds 92,160 bytes "
        "for 4 tokens."
    )


def test_next_goes_to_the_last_pass_and_back_to_the_prompt(shown):
    view = shown(DecodeStepper(**SMALL))
    for reached in (0, 1, 2, 2):
        assert view.get("step") == reached
        assert view.part("go", "next").get_attribute("aria-disabled") == str(reached == 2).lower()
        view.press("next")
    assert view.saved("step") == 2
    for _ in range(3):
        view.press("back")
    assert view.saved("step") == 0
    assert view.text("title") == "Pass 1 of 3 reads the prompt (prefill), writes “c”"


def test_a_scheme_is_chosen_and_marked_and_its_bar_is_as_long_as_its_bytes(shown):
    view = shown(DecodeStepper(step=4))
    kept = dict(mha=2 * 9 * 64, gqa=2 * 3 * 64, mqa=2 * 64, mla=288)
    for scheme, numbers in kept.items():
        view.part("scheme", scheme).click()
        assert view.saved("scheme") == scheme and view.pressed("scheme") == [scheme]
        assert view.text(f"held-{scheme}") == f"{30 * 7 * numbers * 2:,}"
    longest, *rest = [view.locator(".ds-bar i").nth(i).bounding_box()["width"] for i in range(4)]
    assert [part / longest for part in rest] == pytest.approx([1 / 3, 1 / 9, 288 / 1152], abs=0.02)


WIDTHS = """async (start) => {
  const bars = [...document.querySelectorAll(".ds-work")].map((one) => [...one.children]);
  const nodes = [...document.querySelectorAll(".ds-panels *")], seen = [];
  const look = () => seen.push(bars.map((parts) => parts.reduce((sum, one) => sum + parseFloat(one.style.width), 0)));
  look();
  document.querySelector(start).click();
  for (let still = 0; still < 5;) {
    look();
    await new Promise(requestAnimationFrame);
    still = String(seen.at(-1)) === String(seen.at(-2)) ? still + 1 : 0;
  }
  return [seen, nodes.every((one) => one.isConnected)];
}"""


def test_in_the_race_both_process_as_many_tokens_until_one_has_written_the_text(shown):
    view = shown(DecodeStepper(**SMALL), reduced_motion="no-preference")
    steps, _ = view.evaluate(WIDTHS, "[data-go=race]")
    cached, full = np.array([one for one in steps if one[1] < 99]).T[:, 1:]
    goal = 100 * 4 / 9  # of the 2 + 3 + 4 tokens without a cache, it takes 2 + 1 + 1
    np.testing.assert_allclose(cached, np.minimum(full, goal), atol=0.01)
    assert len({*full}) > 10 and steps[-1] == pytest.approx([goal, 100])
    assert view.get("step") == 2 == view.saved("step")
    assert view.text("title") == "Pass 3 of 3 reads “d” (decode), writes “e”"
    view.press("race")
    view.press("next")  # ends it
    assert view.text("title").startswith("Pass 3 of 3")
    assert shown(DecodeStepper()).part("go", "race").count() == 0


def test_what_is_left_out_follows_from_the_rest():
    stepper = DecodeStepper(n_layers=np.int64(2), n_heads=4, n_kv_heads=2, d_head=16)
    assert (stepper.d_model, stepper.latent, stepper.rope, stepper.n_layers) == (64, 64, 8, 2)
    assert stepper.numbers_held() == dict(mha=128, gqa=64, mqa=32, mla=72)
