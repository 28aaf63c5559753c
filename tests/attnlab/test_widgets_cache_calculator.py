"""The cache calculator: its bytes against arrays that are really made, and each of its controls in a browser."""

import numpy as np
import pytest
import torch
import traitlets

from attnlab.widgets import CacheCalculator
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets

# Small enough to make the arrays; each has something of its own.
TOYS = [
    dict(name="heads", n_layers=2, n_heads=4, n_kv_heads=4, d_head=8),
    dict(name="grouped", n_layers=3, n_heads=6, n_kv_heads=2, d_head=4),
    dict(name="one", n_layers=1, n_heads=5, n_kv_heads=1, d_head=16),
    dict(name="window", n_layers=2, n_heads=4, n_kv_heads=2, d_head=4, window=10),
    dict(name="latent", n_layers=4, n_heads=8, d_head=4, latent=12, rope=3),
]
SETTINGS = [
    dict(context=7, batch=1, bytes_per_element=2),
    dict(context=10, batch=3, bytes_per_element=4),
    dict(context=11, batch=2, bytes_per_element=1),
    dict(context=1, batch=1, bytes_per_element=4),
]
FORMATS = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}


def made(preset, context, batch, bytes_per_element, plain=False):
    """Bytes of the arrays that a cache holds once the context was read; `plain`: that of multi-head attention."""
    dtype, total = FORMATS[bytes_per_element], 0
    for _ in range(preset["n_layers"]):
        kept = []
        for _ in range(context):
            if plain or "latent" not in preset:
                heads = preset["n_heads"] if plain else preset["n_kv_heads"]
                kept.append([torch.zeros(batch, heads, preset["d_head"], dtype=dtype) for _ in "kv"])
            else:
                kept.append([torch.zeros(batch, preset[name], dtype=dtype) for name in ("latent", "rope")])
            if not plain and len(kept) > preset.get("window", context):
                kept.pop(0)  # a window lets the oldest token go
        total += sum(array.nbytes for token in kept for array in token)
    return total


def state_of(widget):
    return {name: getattr(widget, name) for name in ("presets", "preset", "context", "batch", "bytes_per_element")}


@pytest.fixture
def computing(watched):
    """`computing(...)` is what the widget's module computes for CacheCalculator(...)."""
    seen = load_widget(watched, CacheCalculator())
    return lambda *args, **options: evaluate_compute(seen, state_of(CacheCalculator(*args, **options)))


def text(page, name):
    return page.locator(f"[data-value={name}]").inner_text()


def field(page, name):
    return page.locator(f"[data-field={name}]")


def slider(page, name):
    return page.locator(f"[data-slider={name}]")


# Numbers


def test_the_bytes_are_those_of_arrays_that_were_made(computing):
    for settings in SETTINGS:
        for found, toy in zip(computing(TOYS, **settings)["models"], TOYS, strict=True):
            assert found["bytes"] == made(toy, **settings)
            assert found["mha"]["bytes"] == made(toy, **settings, plain=True)


def test_a_token_takes_what_one_more_token_adds(computing):
    for found, toy in zip(computing(TOYS, context=4)["models"], TOYS, strict=True):
        steps = [made(toy, context, 1, 2) for context in (4, 5)]
        assert found["token_bytes"] == steps[1] - steps[0]


def test_units_and_ratio_follow_from_the_bytes(computing):
    for settings in SETTINGS:
        for found in computing(TOYS, **settings)["models"]:
            assert found["gb"] == pytest.approx(found["bytes"] / 1000**3, rel=1e-12)
            assert found["gib"] == pytest.approx(found["bytes"] / 1024**3, rel=1e-12)
            assert found["ratio"] == pytest.approx(found["mha"]["bytes"] / found["bytes"], rel=1e-12)


@pytest.mark.parametrize(
    "name, kind, token_bytes",
    [
        # In two bytes a number. A token of GPT-3: 2 x 96 layers x 12,288 x 2; of DeepSeek-V2: 60 x (512 + 64) x 2.
        ("SmolLM2-135M", "GQA", 23_040),
        ("Llama-2-7B", "MHA", 524_288),
        ("Mistral-7B", "GQA", 131_072),
        ("Llama-3-8B", "GQA", 131_072),
        ("Llama-3-70B", "GQA", 327_680),
        ("DeepSeek-V2", "MLA", 69_120),
        ("GPT-3 175B", "MHA", 4_718_592),
    ],
)
def test_a_token_of_a_published_model(computing, name, kind, token_bytes):
    found = computing(preset=name)
    chosen = found["models"][found["chosen"]]
    assert (chosen["name"], chosen["kind"], chosen["token_bytes"]) == (name, kind, token_bytes)


def test_the_largest_cache_is_still_counted_exactly(computing):
    found = computing(context=2**19, batch=512, bytes_per_element=4)["models"]
    assert found[-1]["bytes"] == 2 * 96 * 96 * 128 * 4 * 2**19 * 512


def test_the_picture_for_print_has_the_same_sizes(computing):
    for settings in SETTINGS:
        found = computing(TOYS, **settings)["models"]
        assert CacheCalculator(TOYS, **settings).sizes() == [(one["bytes"], one["mha"]["bytes"]) for one in found]


# What is shown


def test_llama_3_8b_at_its_own_context(shown):
    """The 69 GB sometimes given for 128k tokens counts 32 key/value heads; the model has 8."""
    page = shown(CacheCalculator(context=131072))
    assert text(page, "headline") == "Llama-3-8B: 17.2 GB = 16.0 GiB"
    assert (text(page, "gb-mha"), text(page, "gib-mha"), text(page, "gb-ratio")) == ("68.7", "64.0", "4.00")
    assert text(page, "formula") == (
        "32 layers × 2 × 8 heads × 128 × 131,072 tokens × 1 sequence × 2 bytes = 17,179,869,184 bytes"
    )
    assert text(page, "source") == "Sizes of Llama-3-8B: arXiv:2407.21783"


def test_a_window_bounds_the_tokens_kept(shown):
    page = shown(CacheCalculator(preset="Mistral-7B", context=16384))
    assert (text(page, "tokens-own"), text(page, "tokens-mha"), text(page, "gb-ratio")) == ("4,096", "16,384", "16.00")
    assert "× 4,096 tokens of the window ×" in text(page, "formula")
    field(page, "context").fill("4096")
    assert (text(page, "tokens-ratio"), text(page, "gb-ratio")) == ("1.00", "4.00")
    assert "window" not in text(page, "formula")


def test_a_latent_row_does_not_ask_for_the_heads(shown):
    page = shown(CacheCalculator(preset="DeepSeek-V2", context=1))
    assert text(page, "formula") == "60 layers × (512 + 64) × 1 token × 1 sequence × 2 bytes = 69,120 bytes"
    assert text(page, "numbers-ratio") == f"{2 * 128 * 128 / 576:.2f}"
    assert text(page, "headline") == "DeepSeek-V2: 0.0000691 GB = 0.0000644 GiB"


def test_every_model_has_its_size_and_a_bar_as_long(shown):
    page = shown(CacheCalculator(TOYS, context=100))
    expected = [(made(toy, 100, 1, 2), made(toy, 100, 1, 2, plain=True)) for toy in TOYS]
    most = max(plain for _, plain in expected)
    room = page.locator(".cc-bar").first.bounding_box()["width"]
    for i, (own, plain) in enumerate(expected):
        bars = [page.locator(f".cc-bar .{kind}").nth(i).bounding_box()["width"] for kind in ("cc-own", "cc-mha")]
        assert bars == pytest.approx([max(2, room * size / most) for size in (own, plain)], abs=0.5)
        shown_size = page.locator(".cc-size").nth(i).inner_text().removesuffix(" GB").replace("−", "-")
        assert float(shown_size) == pytest.approx(own / 1e9, rel=0.006)


def test_the_summary_is_announced_politely_and_gives_the_reason(shown):
    page = shown(CacheCalculator(batch=2))
    assert page.get_by_role("status").get_attribute("aria-live") == "polite"
    assert said(page) == (
        "The cache of Llama-3-8B for 8,192 tokens and 2 sequences, 2 bytes a number, takes 2.15 GB, which is 2.00 GiB. "
        "It keeps 8 of 32 heads; as plain multi-head attention it would be 4.00 times as large."
    )
    page.locator("[data-model='Llama-2-7B']").click()
    assert said(page).endswith("keys and values of every head and every token are kept.")
    page.locator("[data-model='DeepSeek-V2']").click()
    assert "It keeps one latent row for all 128 heads;" in said(page)


# Controls


@pytest.mark.parametrize("name, most", [("context", 2**19), ("batch", 512)])
def test_a_field_and_its_slider_move_together(shown, name, most):
    page = shown(CacheCalculator())
    slider(page, name).press("End")
    assert page.evaluate(f"[model.saved.{name}, Number(document.querySelector('[data-field={name}]').value)]") == [
        most,
        most,
    ]
    slider(page, name).press("ArrowLeft")
    assert page.evaluate(f"model.saved.{name}") == most // 2
    field(page, name).fill("48")
    assert (page.evaluate(f"model.saved.{name}"), slider(page, name).input_value()) == (48, "6")
    assert slider(page, name).get_attribute("aria-valuetext") == "48"
    field(page, name).press("ArrowUp")
    assert page.evaluate(f"model.saved.{name}") == 49
    slider(page, name).press("Home")
    assert (page.evaluate(f"model.saved.{name}"), field(page, name).input_value()) == (1, "1")


@pytest.mark.parametrize("typed", ["", "many", "2.5", "0", "-4", "513"])
def test_what_is_no_batch_is_marked_and_changes_nothing(shown, typed):
    page = shown(CacheCalculator(batch=5))
    batch = field(page, "batch")
    batch.fill(typed)
    assert (batch.get_attribute("aria-invalid"), page.evaluate("model.get('batch')")) == ("true", 5)
    batch.blur()
    assert (batch.get_attribute("aria-invalid"), batch.input_value()) == ("false", "5")


def test_bytes_per_element_are_chosen_and_named(shown):
    page = shown(CacheCalculator())
    for width, formats, size in [
        ("4", "float32", "2.15"),
        ("1", "int8, float8", "0.537"),
        ("2", "float16, bfloat16", "1.07"),
    ]:
        page.locator(f"[data-bytes='{width}']").click()
        assert (page.evaluate("model.saved.bytes_per_element"), text(page, "format")) == (int(width), formats)
        assert text(page, "gb-own") == size
        pressed = page.locator("[data-bytes][aria-pressed=true]")
        assert pressed.count() == 1 and pressed.inner_text() == width


def test_a_model_is_chosen_and_marked(shown):
    page = shown(CacheCalculator())
    page.locator("[data-model='GPT-3 175B']").click()
    assert page.evaluate("model.saved.preset") == "GPT-3 175B"
    pressed = page.locator("[data-model][aria-pressed=true]").evaluate_all("all => all.map((b) => b.dataset.model)")
    assert pressed == ["GPT-3 175B"]
    assert text(page, "headline").startswith("GPT-3 175B: 38.7 GB")


def test_start_again_brings_everything_back(shown):
    page = shown(CacheCalculator(preset="Llama-2-7B", context=300, batch=3, bytes_per_element=4))
    page.locator("[data-model='Llama-3-8B']").click()
    page.locator("[data-bytes='1']").click()
    slider(page, "context").press("End")
    slider(page, "batch").press("End")
    page.locator("[data-go=reset]").click()
    assert page.evaluate("['preset', 'context', 'batch', 'bytes_per_element'].map((name) => model.saved[name])") == [
        "Llama-2-7B",
        300,
        3,
        4,
    ]


def test_every_control_is_reached_with_the_tab_key(shown):
    page = shown(CacheCalculator(TOYS))
    reached = []
    for _ in range(13):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("Object.values(document.activeElement.dataset)[0]"))
    assert reached == ["context", "context", "batch", "batch", "4", "2", "1", "reset", *(toy["name"] for toy in TOYS)]
    page.keyboard.press("Enter")
    assert page.evaluate("model.get('preset')") == "latent"


# Model


def test_the_state_set_from_python_is_drawn(shown):
    page = shown(CacheCalculator())
    page.evaluate("model.set('context', 1000); model.set('batch', 6); model.set('bytes_per_element', 4)")
    page.evaluate("model.set('preset', 'GPT-3 175B')")
    assert text(page, "formula").endswith(f"= {2 * 96 * 96 * 128 * 1000 * 6 * 4:,} bytes")
    assert (field(page, "context").input_value(), slider(page, "batch").input_value()) == ("1000", "3")


def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(CacheCalculator())
    assert page.evaluate("() => (dispose(), [model.listening(), document.querySelectorAll('.aw').length])") == [0, 0]


def test_own_models_are_taken_with_the_first_chosen():
    calculator = CacheCalculator([dict(TOYS[4], n_layers=np.int64(2))])
    assert calculator.preset == "latent"
    assert calculator.presets[0] == dict(
        name="latent", source="", n_layers=2, n_heads=8, d_head=4, n_kv_heads=0, latent=12, rope=3, window=0
    )


@pytest.mark.parametrize(
    "wrong, reason",
    [
        ([], "1 to 8 models"),
        ([dict(TOYS[0], d_model=4)], "unknown: .'d_model'."),
        ([dict(name="x", n_layers=1, n_heads=2)], "missing: .'d_head'."),
        ([dict(TOYS[0], n_kv_heads=3)], "n_kv_heads of heads must divide its 4 heads"),
        ([dict(TOYS[0], latent=3)], "either n_kv_heads or, for MLA, latent"),
        ([dict(name="x", n_layers=1, n_heads=2, d_head=2)], "either n_kv_heads"),
        ([dict(TOYS[0], n_layers=0)], "n_layers of heads must be a whole number"),
        ([dict(TOYS[0], d_head=1.5)], "d_head of heads"),
        ([TOYS[0], TOYS[0]], "a name of its own"),
    ],
)
def test_a_model_that_cannot_be_is_refused_with_the_reason(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        CacheCalculator(wrong)


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (dict(preset="GPT-5"), "preset must be one of SmolLM2-135M"),
        (dict(context=0), "context must lie between 1 and"),
        (dict(batch=513), "batch must lie between 1 and 512"),
        (dict(bytes_per_element=3), "must be 1, 2 or 4"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_reason(wrong, reason):
    with pytest.raises(traitlets.TraitError, match=reason):
        CacheCalculator(**wrong)


def test_the_picture_for_print_is_a_png():
    for widget in (CacheCalculator(), CacheCalculator(TOYS, context=1)):
        assert widget._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(watched, theme):
    assert faint_texts(load_widget(watched, CacheCalculator(preset="Mistral-7B"), theme=theme)) == []


def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(watched):
    for options in ({}, dict(preset="GPT-3 175B", context=2**19, batch=512, bytes_per_element=4)):
        seen = load_widget(watched, CacheCalculator(**options), width=390)
        assert not scrolls_sideways(seen)
        assert small_targets(seen) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_its_height_is_the_one_reserved_and_stays_while_numbers_change(watched, width):
    widget = CacheCalculator()
    seen = load_widget(watched, widget, width=width)
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    for preset, context, batch in [("Llama-3-8B", 8192, 1), ("Mistral-7B", 32768, 16), ("DeepSeek-V2", 1024, 4)]:
        seen.page.evaluate(
            "(values) => Object.entries(values).forEach(([k, v]) => model.set(k, v))",
            dict(preset=preset, context=context, batch=batch),
        )
        seen.page.wait_for_timeout(150)  # the summary follows a little later
        assert seen.page.locator(".aw").bounding_box()["height"] == pytest.approx(reserved, abs=2)
