"""The decode stepper: its counts against those of PyTorch's operations, and each of its controls in a browser."""

import re

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab.widgets import DecodeStepper
from tests.attnlab.widget_page import WAY, frame_clock, sets, state_of

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
CHOICES = [dict(scheme=scheme, step=step) for scheme, step in zip(SCHEMES, (0, 1, 2, 4))]
EXAMPLES = [
    (DecodeStepper(), *CHOICES, dict(scheme="mha")),
    (DecodeStepper(**SMALL), dict(step=1)),
    (DecodeStepper(**OPTIONS[3]),),
]
GLIDES = [(DecodeStepper(), "[data-go=next]", {"[data-side=full] .ds-more": "style"})]
EXTREMES = [
    (DecodeStepper(**MLA),),
    (DecodeStepper(n_layers=96, n_heads=96, n_kv_heads=96, d_head=128, step=7, **WORDY),),
]


def products(state, heads, tokens, keys):
    """Multiply-adds of a layer that reads so many tokens at so many keys, as PyTorch counts them: maps, attention."""
    width, d_model = state["d_head"], state["d_model"]
    maps = [(tokens, d_model, many * width) for many in (state["n_heads"], heads, heads)]  # W_q, W_k, W_v
    maps += [(tokens, state["n_heads"] * width, d_model)]  # W_o
    attention = [(tokens, width, keys), (tokens, keys, width)] * state["n_heads"]  # scores, and values weighted
    for sizes in (maps, attention):
        with FlopCounterMode(display=False) as counter:
            for n, inner, m in sizes:
                torch.empty(n, inner, device="meta") @ torch.empty(inner, m, device="meta")
        yield counter.get_total_flops() / 2


def decode(state, use_cache):
    """Every pass: tokens, keys, multiply-adds and what is held, by writing the continuation token by token."""
    heads = dict(mha=state["n_heads"], gqa=state["n_kv_heads"], mqa=1)[state["scheme"]]
    passes, n_layers, first = [], state["n_layers"], len(state["prompt"])
    for keys in range(first, first + len(state["continuation"])):
        tokens = 1 if use_cache and passes else keys
        projections, attention = products(state, heads, tokens, keys)
        total = n_layers * (projections + attention)
        kept = np.zeros((n_layers, keys, 2, heads, state["d_head"]), dtype=f"f{state['bytes_per_element']}")
        before = passes[-1] if passes else dict(so_far=0, rows_so_far=0)
        passes.append(
            dict(
                tokens=tokens,
                keys=keys,
                layer=projections + attention,
                projections=projections,
                attention=attention,
                total=total,
                so_far=before["so_far"] + total,
                rows_so_far=before["rows_so_far"] + tokens,
                bytes=kept.nbytes,
            )
        )
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


KNOWN = [
    # 3 layers, 4 tokens read after pass 2, 2 bytes each; a row has 5 + 3 numbers, whatever the heads.
    (
        state_of(DecodeStepper(**{**MLA, "n_heads": n_heads})),
        {"numbers.mla": 5 + 3, "held_bytes.mla": 3 * 4 * 2 * (5 + 3), "passes.2.full.rows_so_far": 2 + 3 + 4}
        | dict.fromkeys(["passes.2.cached.total", "passes.2.full.so_far", "ratio"], np.nan),
    )
    for n_heads in (2, 4, 16)
] + [
    # Table 1 of arXiv:2405.04434, for the sizes of DeepSeek-V2: MHA 2 n_h d_h, GQA 2 n_g d_h, MQA 2 d_h, MLA 9/2 d_h.
    (
        state_of(DecodeStepper(n_layers=60, n_heads=128, n_kv_heads=8, d_head=128)),
        {f"numbers.{name}": many * 128 for name, many in dict(mha=2 * 128, gqa=2 * 8, mqa=2, mla=9 / 2).items()},
    )
]


def test_a_row_is_read_exactly_where_a_cache_had_it(shown):
    view = shown(DecodeStepper())
    for step, cached, full in [
        (0, "now now written later later", "now now written later later"),
        (1, "read read now written later", "again again now written later"),
        (2, "read read read now written", "again again again now written"),
    ]:
        found = view.compute(state_of(DecodeStepper(**SMALL, step=step)))
        assert found["rows"] == dict(cached=cached.split(), full=full.split())


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


BARS = {f"[data-side={side}] .ds-{part}": "style" for side in ("cached", "full") for part in ("first", "more")}


def test_in_the_race_both_process_as_many_tokens_until_one_has_written_the_text(shown):
    view = shown(DecodeStepper(**SMALL), before=frame_clock(), reduced_motion="no-preference")
    looks, kept = view.evaluate(WAY, ["[data-go=race]", BARS, 0])
    steps = np.reshape([re.findall("width: (.+?)%", look) for look in looks], (-1, 2, 2)).astype(float).sum(-1)
    cached, full = steps[steps[:, 1] < 99].T[:, 1:]
    assert kept
    goal = 100 * 4 / 9  # of the 2 + 3 + 4 tokens without a cache, it takes 2 + 1 + 1
    np.testing.assert_allclose(cached, np.minimum(full, goal), atol=0.01)
    assert len({*full}) > 10 and steps[-1] == pytest.approx([goal, 100])
    assert view.get("step") == 2 == view.saved("step")
    assert view.text("title") == "Pass 3 of 3 reads “d” (decode), writes “e”"
    view.press("race")
    view.press("next")  # ends it
    assert view.text("title").startswith("Pass 3 of 3")


STATES = {word[0]: word for word in ("now", "read", "written", "later", "again")}


def cells(side, *rows):
    """Seen: the states of the cells of a side, a row for each token, the first letter of a state for each pass."""
    return {
        f"cell={side}-{place}-{index}@data-state": STATES[letter]
        for place, row in enumerate(rows)
        for index, letter in enumerate(row)
    }


WALKS = [(DecodeStepper(**SMALL), "step", 2)]
HELD = dict(mha=2 * 9 * 64, gqa=2 * 3 * 64, mqa=2 * 64, mla=288)
BYTES_DRAWN = ".ds-bar i => one.offsetWidth / document.querySelector('.ds-bar i').offsetWidth"
CONTROLS = {
    "the rows of the passes are a line with a cache and a triangle without": (
        DecodeStepper(**SMALL),
        {"=title": "Pass 1 of 3 reads the prompt (prefill), writes “c”"},
        sets(step=1),  # passes to come are not drawn
        cells("cached", "nrl", "nrl", "wnl", "lwl", "lll") | cells("full", "nal", "nal", "wnl", "lwl", "lll"),
        sets(step=2),
        cells("cached", "nrr", "nrr", "wnr", "lwn", "llw") | cells("full", "naa", "naa", "wna", "lwn", "llw"),
    ),
    "MLA shows bytes and no multiply-adds": (
        DecodeStepper(scheme="mla", step=1),
        {"=so_far-full": "7 tokens processed", "=held-mla": f"{4 * 30 * (256 + 32) * 2:,}"},
        {"said~": "The multiply-adds of MLA are not counted", "go=race": 0},
    ),
    "schemes may be left out of sight": (
        DecodeStepper(choose_scheme=False),
        {".aw button": 7, "[data-scheme] => one.checkVisibility()": [False] * 4},
    ),
    "the summary gives the counts": (
        DecodeStepper(step=1),
        {
            "said": "Pass 2 of 5, writes “the₄”. With a cache it computes 1 row of K and V and reads 3; without one it "
            "computes 4, 3 of them again. So far there are 1.75 times as many multiply-adds without a cache. GQA holds "
            "92,160 bytes for 4 tokens."
        },
    ),
    "a scheme is chosen and marked, and its bar is as long as its bytes": (
        DecodeStepper(step=4),
        *(
            (f"scheme={scheme}", {"scheme": scheme, "pressed scheme": [scheme], f"=held-{scheme}": f"{420 * many:,}"})
            for scheme, many in HELD.items()
        ),
        {BYTES_DRAWN: pytest.approx([many / HELD["mha"] for many in HELD.values()], abs=0.02)},
    ),
}


def test_what_is_left_out_follows_from_the_rest():
    stepper = DecodeStepper(n_layers=np.int64(2), n_heads=4, n_kv_heads=2, d_head=16)
    assert (stepper.d_model, stepper.latent, stepper.rope, stepper.n_layers) == (64, 64, 8, 2)
    assert stepper.numbers_held() == dict(mha=128, gqa=64, mqa=32, mla=72)
    assert DecodeStepper(choose_scheme=False).min_height < DecodeStepper().min_height
