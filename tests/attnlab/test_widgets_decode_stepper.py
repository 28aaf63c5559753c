"""The decode stepper: its counts against loops that do the work one by one, and each of its controls in a browser."""

import numpy as np
import pytest
import traitlets

from attnlab.widgets import DecodeStepper
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets

SCHEMES = ["mha", "gqa", "mqa", "mla"]
SMALL = dict(n_layers=3, n_heads=4, n_kv_heads=2, d_head=2, prompt=["a", "b"], continuation=["c", "d", "e"])
FIXTURES = [
    {**SMALL, "scheme": "gqa", "step": 1},
    {**SMALL, "scheme": "mha", "step": 2},
    {**SMALL, "scheme": "mqa", "step": 0},
    dict(n_layers=2, n_heads=6, n_kv_heads=3, d_head=1, prompt=["x"], continuation=["y"], scheme="gqa", step=0),
    dict(
        n_layers=1,
        n_heads=1,
        n_kv_heads=1,
        d_head=4,
        prompt=["p"] * 5,
        continuation=["q"] * 4,
        scheme="mha",
        step=3,
        bytes_per_element=4,
    ),
]
MLA = {**SMALL, "scheme": "mla", "step": 2, "latent": 5, "rope": 3}


def state_of(options):
    widget = DecodeStepper(**options)
    names = [
        "n_layers",
        "n_heads",
        "n_kv_heads",
        "d_head",
        "d_model",
        "latent",
        "rope",
        "bytes_per_element",
        "prompt",
        "continuation",
        "scheme",
        "step",
    ]
    return {name: getattr(widget, name) for name in names}


class Counting:
    """Attention of a model whose numbers do not matter: every multiply-add is one turn of a loop."""

    def __init__(self, n_layers, n_heads, kv_heads, d_head, d_model, bytes_per_element):
        self.sizes = n_layers, n_heads, kv_heads, d_head, d_model
        self.width = bytes_per_element
        self.kept = [[] for _ in range(n_layers)]  # for each layer the arrays of keys and values, one pair a token
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


def decode(options, use_cache):
    """Every pass: tokens, keys, multiply-adds and what is held, by writing the continuation token by token."""
    state = state_of(options)
    heads = dict(mha=state["n_heads"], gqa=state["n_kv_heads"], mqa=1)[state["scheme"]]
    model = Counting(
        state["n_layers"], state["n_heads"], heads, state["d_head"], state["d_model"], state["bytes_per_element"]
    )
    text, unread, passes, so_far = list(state["prompt"]), list(state["prompt"]), [], 0
    for word in state["continuation"]:
        fed = unread if use_cache else text
        projections, attention = model.read(len(fed), use_cache)
        so_far += projections + attention
        passes.append(
            dict(
                tokens=len(fed),
                keys=len(text),
                projections=projections,
                attention=attention,
                total=projections + attention,
                so_far=so_far,
                rows_so_far=model.rows,
                bytes=model.nbytes(),
            )
        )
        text, unread = text + [word], [word]
    return passes


@pytest.fixture
def computing(watched):
    """`computing(options)` is what the widget's module computes for DecodeStepper(**options)."""
    seen = load_widget(watched, DecodeStepper())
    return lambda options: evaluate_compute(seen, state_of(options))


def text(page, name):
    return page.locator(f"[data-value={name}]").inner_text()


def words(page, side):
    return page.locator(f"[data-side={side}] [data-word]").all_inner_texts()


def press(page, name):
    # Forced, since Playwright waits for what is aria-disabled; such a button keeps the focus and does nothing.
    page.locator(f"[data-go={name}]").click(force=True)


# Numbers


@pytest.mark.parametrize("side, use_cache", [("cached", True), ("full", False)])
def test_every_count_is_that_of_a_loop_that_counts(computing, side, use_cache):
    for options in FIXTURES:
        layers = options["n_layers"]
        for one, expected in zip(computing(options)["passes"], decode(options, use_cache), strict=True):
            got = one[side]
            assert got["layer"] * layers == got["total"]
            assert (got["projections"] * layers, got["attention"] * layers) == (
                expected["projections"],
                expected["attention"],
            )
            for name in ("tokens", "keys", "total", "so_far", "rows_so_far"):
                assert got[name] == expected[name]


def test_the_bytes_held_are_those_of_the_arrays_kept(computing):
    for options in FIXTURES:
        found, expected = computing(options), decode(options, use_cache=True)[options["step"]]
        assert (found["held"], found["held_bytes"][options["scheme"]]) == (expected["keys"], expected["bytes"])


def test_the_ratios_are_without_a_cache_over_with_one(computing):
    for options in FIXTURES:
        found = computing(options)
        a, b = (decode(options, use_cache)[options["step"]] for use_cache in (True, False))
        assert found["ratio"] == pytest.approx(b["total"] / a["total"], rel=1e-12)
        assert found["ratio_so_far"] == pytest.approx(b["so_far"] / a["so_far"], rel=1e-12)


def test_mla_keeps_one_row_whatever_the_heads_and_counts_no_multiply_adds(computing):
    for n_heads in (2, 4, 16):
        found = computing({**MLA, "n_heads": n_heads})
        assert found["numbers"]["mla"] == 5 + 3
        # 3 layers, 4 tokens read after pass 2, 2 bytes each
        assert found["held_bytes"]["mla"] == sum(2 for _ in range(3) for _ in range(4) for _ in range(5 + 3))
        assert found["passes"][2]["cached"]["total"] is found["passes"][2]["full"]["so_far"] is None
        assert found["ratio"] is None and found["passes"][2]["full"]["rows_so_far"] == 2 + 3 + 4


def test_the_four_schemes_of_deepseek_v2_keep_what_its_table_says(computing):
    """Table 1 of arXiv:2405.04434, for its own sizes: MHA 2 n_h d_h, GQA 2 n_g d_h, MQA 2 d_h, MLA 9/2 d_h."""
    found = computing(dict(n_layers=60, n_heads=128, n_kv_heads=8, d_head=128))
    assert found["numbers"] == dict(mha=2 * 128 * 128, gqa=2 * 8 * 128, mqa=2 * 128, mla=9 * 128 // 2)


def test_a_row_is_read_exactly_where_a_cache_had_it(computing):
    for step, cached, full in [
        (0, "now now written later later", "now now written later later"),
        (1, "read read now written later", "again again now written later"),
        (2, "read read read now written", "again again again now written"),
    ]:
        assert computing({**SMALL, "step": step})["rows"] == dict(cached=cached.split(), full=full.split())


# What is shown


def test_the_rows_the_notes_and_the_counters_tell_one_story(shown):
    page = shown(DecodeStepper(step=2))
    assert text(page, "title") == "Pass 3 of 5 reads “the₄” (decode), writes “mat”"
    assert words(page, "cached") == ["read"] * 4 + ["new", "next", "", ""]
    assert words(page, "full") == ["again"] * 4 + ["new", "next", "", ""]
    assert text(page, "note-cached") == "1 token processed, 5 so far"
    assert text(page, "note-full") == "5 tokens processed, 12 so far"
    assert [text(page, f"held-{side}") for side in ("cached", "full")] == ["115,200 bytes held", "0 bytes held"]
    # One layer of SmolLM2-135M: 576 wide, 3 key/value heads of 64.
    assert text(page, "projections-cached") == f"{576 * (2 * 576 + 2 * 192):,}"
    assert text(page, "attention-cached") == f"{2 * 1 * 5 * 576:,}"
    assert text(page, "attention-full") == f"{2 * 5 * 5 * 576:,}"
    assert text(page, "total-full") == "133.6 million"
    assert text(page, "so_far-ratio") == "2.40"


def test_the_squares_of_the_passes_are_a_line_with_a_cache_and_a_triangle_without(shown):
    page = shown(DecodeStepper(**SMALL, step=2))
    drawn = {
        side: "/".join(
            "".join(
                page.locator(f"[data-cell={side}-{place}-{index}]").get_attribute("data-state")[0] for index in range(3)
            )
            for place in range(5)
        )
        for side in ("cached", "full")
    }
    assert drawn == dict(cached="nrr/nrr/wnr/lwn/llw", full="naa/naa/wna/lwn/llw")


def test_passes_to_come_are_not_drawn(shown):
    page = shown(DecodeStepper(**SMALL, step=1))
    last = [page.locator(f"[data-cell=full-{place}-2]").get_attribute("data-state") for place in range(5)]
    assert last == ["later"] * 5


def test_it_says_what_is_counted(shown):
    rule = text(shown(DecodeStepper()), "rule")
    assert rule.startswith(
        "Counted in one layer: Q, K, V and O, 576 × (1152 + 384) for each token processed; scores "
        "and weighted sums, 2 × n_q × n_kv × 576, masked pairs too. Then × 30 layers."
    )
    rule = text(shown(DecodeStepper(scheme="mla")), "rule")
    assert rule.startswith("MLA’s multiply-adds are left out")


def test_mla_shows_rows_and_bytes_and_no_multiply_adds(shown):
    page = shown(DecodeStepper(scheme="mla", step=1))
    assert text(page, "total-full") == "not counted" and text(page, "total-ratio") == ""
    assert text(page, "held-mla") == f"{4 * 30 * (256 + 32) * 2:,} bytes"
    assert page.locator(".ds-v.ds-row:visible").count() == 0
    assert "multiply-adds" not in said(page)


def test_the_summary_is_announced_politely(shown):
    page = shown(DecodeStepper(step=1))
    assert page.get_by_role("status").get_attribute("aria-live") == "polite"
    assert said(page) == (
        "Pass 2 of 5, writes “the₄”. With a cache it computes 1 row of K and V and reads 3; without one it computes 4, "
        "3 of them again. So far the multiply-adds without a cache are 1.75 times as many. GQA holds 92,160 bytes for "
        "4 tokens."
    )


# Controls


def test_next_goes_to_the_last_pass_and_no_further(shown):
    page = shown(DecodeStepper(**SMALL))
    for reached in (0, 1, 2, 2):
        assert page.evaluate("model.get('step')") == reached
        assert page.locator("[data-go=next]").get_attribute("aria-disabled") == str(reached == 2).lower()
        press(page, "next")
    assert page.evaluate("model.saved.step") == 2


def test_back_stops_at_the_prompt(shown):
    page = shown(DecodeStepper(**SMALL, step=1))
    press(page, "back")
    press(page, "back")
    assert page.evaluate("model.saved.step") == 0
    assert text(page, "title") == "Pass 1 of 3 reads the prompt (prefill), writes “c”"


def test_start_again_brings_back_the_pass_and_the_scheme(shown):
    page = shown(DecodeStepper(step=1, scheme="mqa"))
    press(page, "next")
    page.locator("[data-scheme=mla]").click()
    press(page, "reset")
    assert page.evaluate("[model.saved.step, model.saved.scheme]") == [1, "mqa"]


@pytest.mark.parametrize("scheme, kept", [("mha", 2 * 9 * 64), ("gqa", 2 * 3 * 64), ("mqa", 2 * 64), ("mla", 288)])
def test_a_scheme_is_chosen_and_marked(shown, scheme, kept):
    page = shown(DecodeStepper(scheme="gqa" if scheme == "mha" else "mha", step=4))
    page.locator(f"[data-scheme={scheme}]").click()
    assert page.evaluate("model.saved.scheme") == scheme
    pressed = page.locator("[data-scheme][aria-pressed=true]").evaluate_all("all => all.map((b) => b.dataset.scheme)")
    assert pressed == [scheme]
    assert text(page, "held-cached") == f"{30 * 7 * kept * 2:,} bytes held"


def test_the_bars_are_as_long_as_the_bytes(shown):
    page = shown(DecodeStepper(step=4))
    longest, *rest = [page.locator(".ds-bar i").nth(i).bounding_box()["width"] for i in range(4)]
    assert [part / longest for part in rest] == pytest.approx([1 / 3, 1 / 9, 288 / 1152], abs=0.01)


def test_the_keyboard_alone_does_it_all(shown):
    page = shown(DecodeStepper())
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == ["back", "next", "reset", *SCHEMES]
    page.keyboard.press("Space")
    page.locator("[data-go=next]").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.evaluate("[model.get('step'), model.get('scheme')]") == [2, "mla"]
    assert page.evaluate("document.activeElement.dataset.go") == "next"


# Model


def test_the_state_set_from_python_is_drawn(shown):
    page = shown(DecodeStepper())
    page.evaluate("model.set('step', 4); model.set('scheme', 'mha')")
    assert text(page, "held-cached") == f"{30 * 7 * 2 * 9 * 64 * 2:,} bytes held"
    page.evaluate("model.set('step', 1); model.set('continuation', ['x', 'y'])")
    assert text(page, "title") == "Pass 2 of 2 reads “x” (decode), writes “y”"
    assert words(page, "cached") == ["read"] * 3 + ["new", "next"]


def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(DecodeStepper())
    assert page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])") == [0, 0]


def test_what_is_left_out_follows_from_the_rest():
    stepper = DecodeStepper(n_layers=np.int64(2), n_heads=4, n_kv_heads=2, d_head=16)
    assert (stepper.d_model, stepper.latent, stepper.rope, stepper.n_layers) == (64, 64, 8, 2)
    assert stepper.numbers_held() == dict(mha=128, gqa=64, mqa=32, mla=72)


@pytest.mark.parametrize(
    "wrong, reason",
    [
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
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        DecodeStepper(**wrong)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(traitlets.TraitError, match="scheme"):
        DecodeStepper(scheme="flash")


def test_sizes_stay_what_they_were_made_with():
    with pytest.raises(traitlets.TraitError, match="n_heads"):
        DecodeStepper().n_heads = 4


def test_the_picture_for_print_is_a_png():
    for options in ({}, FIXTURES[3], MLA):
        assert DecodeStepper(**options)._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, DecodeStepper(step=2), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    large = dict(
        n_layers=96,
        n_heads=96,
        n_kv_heads=96,
        d_head=128,
        prompt=["announced"] * 8,
        continuation=["understanding"] * 8,
        step=7,
    )
    for options in ({"step": 4, "scheme": "mha"}, {"scheme": "mla"}, large):
        seen = load_widget(watched, DecodeStepper(**options), width=390)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_its_height_is_the_one_reserved_and_stays_while_stepping(watched, width):
    for options, states in ({}, [("mha", 0), ("gqa", 1), ("mqa", 2), ("mla", 4)]), (SMALL, [("gqa", 1)]):
        widget = DecodeStepper(**options)
        seen = load_widget(watched, widget, width=width)
        reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
        for state in states:
            seen.page.evaluate("([a, b]) => { model.set('scheme', a); model.set('step', b); }", state)
            seen.page.wait_for_timeout(150)  # the summary follows a little later
            assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=2)
