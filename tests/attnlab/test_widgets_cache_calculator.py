"""The cache calculator: its bytes against arrays that are really made, and each of its controls in a browser."""

import numpy as np
import pytest
import torch

from attnlab.widgets import CacheCalculator
from tests.attnlab.widget_page import sets, state_of

# Small enough to make the arrays; each has something of its own.
TOYS = [
    dict(name="heads", n_layers=2, n_heads=4, n_kv_heads=4, d_head=8),
    dict(name="grouped", n_layers=3, n_heads=6, n_kv_heads=2, d_head=4),
    dict(name="one", n_layers=1, n_heads=5, n_kv_heads=1, d_head=16),
    dict(name="window", n_layers=2, n_heads=4, n_kv_heads=2, d_head=4, window=10),
    dict(name="mixed", n_layers=3, n_heads=4, n_kv_heads=2, d_head=4, window=4, window_layers=2),
    dict(name="latent", n_layers=4, n_heads=8, d_head=4, latent=12, rope=3),
    dict(name="hybrid", n_layers=4, n_heads=4, n_kv_heads=1, d_head=6, state_layers=3, state=50),
]
CALCULATORS = [
    CacheCalculator(TOYS, context=7, batch=1, bytes_per_element=2),
    CacheCalculator(TOYS, context=10, batch=3, bytes_per_element=4),
    CacheCalculator(TOYS, context=11, batch=2, bytes_per_element=1),
    CacheCalculator(TOYS, context=1, batch=1, bytes_per_element=4),
]
FIXTURES = [state_of(calculator) for calculator in CALCULATORS]
FORMATS = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}
SET = [dict(context=1000, batch=6, bytes_per_element=4, preset="latent")]
AGAIN = CacheCalculator(preset="Llama-2-7B", context=300, batch=5, bytes_per_element=4)
MISTYPED = {"batch": ["", "many", "2.5", "0", "-4", "513"]}
REFUSED = [
    ([], {}, "1 to 9 models"),
    ([dict(TOYS[0], d_model=4)], {}, "unknown: .'d_model'."),
    ([dict(name="x", n_layers=1, n_heads=2)], {}, "missing: .'d_head'."),
    ([dict(TOYS[0], n_kv_heads=3)], {}, "n_kv_heads of heads must divide its 4 heads"),
    ([dict(TOYS[0], latent=3)], {}, "either n_kv_heads or, for MLA, latent"),
    ([dict(name="x", n_layers=1, n_heads=2, d_head=2)], {}, "either n_kv_heads"),
    ([dict(TOYS[0], n_layers=0)], {}, "n_layers of heads must be a whole number"),
    ([dict(TOYS[0], d_head=1.5)], {}, "d_head of heads"),
    ([TOYS[0], TOYS[0]], {}, "a different name"),
    ([dict(TOYS[0], window_layers=1)], {}, "window_layers of heads needs a window"),
    ([dict(TOYS[3], window_layers=3)], {}, "at most 2 layers have it"),
    ([dict(TOYS[0], state=3)], {}, "heads needs both state, in numbers, and state_layers, or neither"),
    ([dict(TOYS[0], state=3, state_layers=2)], {}, "leave at least one of its 2 layers"),
    ([dict(TOYS[4], state=3, state_layers=2)], {}, "at most 1 layers have it"),
    (dict(preset="GPT-5"), "preset must be one of SmolLM2-135M"),
    (dict(context=0), "context must be between 1 and"),
    (dict(batch=513), "batch must be between 1 and 512"),
    (dict(bytes_per_element=3), "must be 1, 2 or 4"),
]
STOPS = ["context", "context", "batch", "batch", "4", "2", "1", "reset", *(toy["name"] for toy in TOYS)]
EXAMPLES = [
    (CacheCalculator(TOYS), dict(batch=3, preset="latent")),
    (
        CacheCalculator(),
        dict(preset="Mistral-7B"),
        dict(preset="Mistral-7B", context=32768, batch=16),
        dict(preset="DeepSeek-V3", context=1024, batch=4),
        dict(preset="Qwen3-Next", context=2**17, batch=16),
    ),
]
GLIDES = [(CacheCalculator(), dict(context=300000), {".cc-own[style]": "style", "[data-value=headline]": ""})]
EXTREMES = [(CacheCalculator(preset="GPT-3 175B", context=2**19, batch=512, bytes_per_element=4),)]


def made(preset, context, batch, bytes_per_element, plain=False):
    """Bytes of the arrays that a cache holds once the context was read; `plain`: that of multi-head attention."""
    device = "cpu" if context < 100 else "meta"  # meta: arrays without numbers, however large
    dtype, total, window = FORMATS[bytes_per_element], 0, preset.get("window") or context
    shape = [preset.get("latent"), preset.get("rope")]
    if plain or not preset.get("latent"):
        shape = [(preset["n_heads"] if plain else preset["n_kv_heads"], preset["d_head"])] * 2
    for layer in range(preset["n_layers"]):
        if not plain and layer < (preset.get("state_layers") or 0):
            total += torch.zeros(batch, preset["state"], dtype=torch.float32, device=device).nbytes
            continue
        bounded = layer < (preset.get("window_layers") or preset["n_layers"])
        kept = []
        for _ in range(context):
            kept.append([torch.zeros(batch, *np.atleast_1d(one), dtype=dtype, device=device) for one in shape])
            if not plain and bounded and len(kept) > window:
                kept.pop(0)  # a window lets the oldest token go
        total += sum(array.nbytes for token in kept for array in token)
    return total


def sizes(state, plain=False):
    """Bytes of the cache of each model. What a long context holds is what a short one does, so many times."""
    settings = state["batch"], state["bytes_per_element"]
    if state["context"] < 100:
        return [made(preset, state["context"], *settings, plain) for preset in state["presets"]]
    total = []
    for preset in state["presets"]:
        keeping = 0 if plain else preset["state_layers"]
        attending = preset["n_layers"] - keeping
        bounded = (preset["window_layers"] or attending) if preset["window"] and not plain else 0
        layers = [min(state["context"], preset["window"])] * bounded + [state["context"]] * (attending - bounded)
        one = {"n_layers": 1, "window_layers": 0}
        per_token = made(preset | one | {"state_layers": 0}, 1, *settings, plain)
        per_state = made(preset | one | {"state_layers": 1}, 1, *settings) if keeping else 0
        total.append(sum(layers) * per_token + keeping * per_state)
    return total


def reference(state):
    own, plain = (np.array(sizes(state, plain)) for plain in (False, True))
    return {
        "models.*.bytes": own,
        "models.*.mha.bytes": plain,
        "models.*.gb": own / 1000**3,
        "models.*.gib": own / 1024**3,
        "models.*.ratio": plain / own,
        "models.*.token_bytes": [
            made(one, 2, 1, state["bytes_per_element"]) - made(one, 1, 1, state["bytes_per_element"])
            for one in (preset | {"window": 0} for preset in state["presets"])
        ],
        "chosen": [one["name"] for one in state["presets"]].index(state["preset"]),
    }


# In two bytes per number. A token of GPT-3: 2 x 96 layers x 12,288 x 2; of DeepSeek-V3: 61 x (512 + 64) x 2; of
# Qwen3-Next: 12 x 2 x 2 x 256 x 2.
PUBLISHED = {
    "SmolLM2-135M": ("GQA", 23_040),
    "Llama-2-7B": ("MHA", 524_288),
    "Mistral-7B": ("GQA", 131_072),
    "Llama-3-8B": ("GQA", 131_072),
    "Llama-3-70B": ("GQA", 327_680),
    "DeepSeek-V3": ("MLA", 70_272),
    "gpt-oss-20b": ("GQA", 49_152),
    "Qwen3-Next": ("GQA", 24_576),
    "GPT-3 175B": ("MHA", 4_718_592),
}
LARGEST = CacheCalculator(context=2**19, batch=512, bytes_per_element=4)
KNOWN = [(state_of(LARGEST), {"models.-1.bytes": 2 * 96 * 96 * 128 * 4 * 2**19 * 512})]


def test_a_token_of_a_published_model(shown):
    models = shown(CALCULATORS[0]).compute(state_of(CacheCalculator()))["models"]
    assert {one["name"]: (one["kind"], one["token_bytes"]) for one in models} == PUBLISHED


def test_the_picture_for_print_has_the_same_sizes():
    for calculator, state in zip(CALCULATORS, FIXTURES):
        assert calculator.sizes() == list(zip(sizes(state), sizes(state, plain=True)))


DOTS = """() => [...document.querySelectorAll(".cc-track")].map((track) => [".cc-own", ".cc-mha"].map((dot) => {
  const box = track.querySelector(dot).getBoundingClientRect();
  return box.left + box.width / 2;
}))"""
MARKS = """() => [...document.querySelectorAll(".cc-mark")].filter((mark) => mark.checkVisibility())
  .map((mark) => [mark.getBoundingClientRect().left, mark.innerText])"""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_model_has_its_size_and_dots_at_their_places_on_the_scale(shown, width):
    view = shown(CacheCalculator(TOYS, context=99), width=width)
    expected = [(made(toy, 99, 1, 2), made(toy, 99, 1, 2, plain=True)) for toy in TOYS]
    marks = view.evaluate(MARKS)
    assert [text for _, text in marks] == ["100 B", "1 kB", "10 kB", "100 kB"]
    (left, _), (right, _) = marks[0], marks[-1]
    for i, (sizes, dots) in enumerate(zip(expected, view.evaluate(DOTS))):
        assert dots == pytest.approx([left + (right - left) * (np.log10(size) - 2) / 3 for size in sizes], abs=1)
        shown_size = view.locator(".cc-size").nth(i).inner_text().removesuffix(" GB").replace("−", "-")
        assert float(shown_size) == pytest.approx(sizes[0] / 1e9, rel=0.006)


def test_the_smallest_and_the_largest_cache_can_be_told_apart(shown):
    dots = shown(CacheCalculator()).evaluate(DOTS)
    smol, gpt = dots[0][0], dots[-1][0]
    assert gpt - smol > 100 and dots[0][1] - smol > 20


SLIDERS = [
    (CacheCalculator(), "context", [2**doublings for doublings in range(20)], 48),
    (CacheCalculator(), "batch", [2**doublings for doublings in range(10)], 48),
]
CONTROLS = {
    # The 69 GB sometimes given for 128k tokens counts 32 key/value heads; the model has 8.
    "the sizes of Llama 3, of a window and of a latent row": (
        CacheCalculator(context=131072),
        {"=headline": "Llama-3-8B: 17.2 GB = 16.0 GiB", "=source": "arXiv:2407.21783"},
        {"size=Llama-3-8B": "17.2 GB", "ratio=Llama-3-8B": "÷ 4"},
        {"=formula": "32 layers × 2 × 8 heads × 128 × 131,072 tokens × 1 text × 2 bytes = 17,179,869,184 bytes"},
        sets(preset="Mistral-7B", context=16384),
        {"ratio=Mistral-7B": "÷ 16", "=formula~": "× 4,096 tokens of the window ×"},
        ("field=context := 4096", {"ratio=Mistral-7B": "÷ 4", "=formula~": "× 4,096 tokens × 1 text"}),
        sets(preset="gpt-oss-20b", context=16384),
        {"=formula~": "(12 layers × 128 tokens of the window + 12 × 16,384) × 2 × 8 heads × 64 × 1 text × 2 bytes = "},
        {"said~": "a window of the tokens in 12 of 24 layers;"},
        sets(preset="DeepSeek-V3", context=1),
        {"=formula": "61 layers × (512 + 64) × 1 token × 1 text × 2 bytes = 70,272 bytes"},
        {"ratio=DeepSeek-V3": f"÷ {2 * 128 * 128 / 576:.1f}"},
        {"=headline": "DeepSeek-V3: 0.0000703 GB = 0.0000654 GiB"},
    ),
    "a state of fixed size outweighs the cache of a short text, and not that of a long one": (
        CacheCalculator(preset="Qwen3-Next", context=1),
        {"=headline": "Qwen3-Next: 0.0755 GB = 0.0703 GiB", "ratio=Qwen3-Next": "× 96"},
        sets(context=262144),
        {
            "=formula": "12 layers × 2 × 2 heads × 256 × 262,144 tokens × 1 text × 2 bytes + 36 layers × 524,288 × "
            "1 text × 4 bytes = 6,517,948,416 bytes"
        },
        {"said~": "It keeps 2 of 16 heads and a state of fixed size in 36 of 48 layers;"},
        ("field=batch := 2", {"=headline~": "Qwen3-Next: 13.0 GB"}),
    ),
    "the summary gives the reason": (
        CacheCalculator(batch=2),
        {
            "said": "The cache of Llama-3-8B for 8,192 tokens and 2 texts, 2 bytes per number, takes 2.15 GB, which is "
            "2.00 GiB. It keeps 8 of 32 heads; as plain multi-head attention it would be 4.00 times as large."
        },
        (sets(preset="Llama-2-7B"), {"said~": "keys and values of every head and every token are kept."}),
        (sets(preset="DeepSeek-V3"), {"said~": "It keeps one latent row for all 128 heads;"}),
    ),
    "a model and the bytes per number are chosen and marked, and the sliders are near the numbers": (
        CacheCalculator(),
        *(
            (f"bytes={width}", {"bytes_per_element": width, "pressed bytes": [str(width)]})
            + ({"=format": formats, "size=Llama-3-8B": size},)
            for width, formats, size in [
                (1, "int8, float8", "0.537 GB"),
                (4, "float32", "2.15 GB"),
                (2, "float16, bfloat16", "1.07 GB"),
            ]
        ),
        ("field=context := 48 | field=batch := 48", {"slider=context@value": "6", "slider=batch@value": "6"}),
        sets(context=8192, batch=1),
        ("model=GPT-3 175B", {"preset": "GPT-3 175B", "pressed model": ["GPT-3 175B"]}),
        {"=headline~": "GPT-3 175B: 38.7 GB"},
    ),
}
TRAITS = {
    "own models are taken with the first chosen": (
        dict(presets=[dict(TOYS[5], n_layers=np.int64(2))]),
        dict(preset="latent"),
        dict(
            presets=[
                dict(TOYS[5], n_layers=2, source="", n_kv_heads=0, window=0, window_layers=0, state=0, state_layers=0)
            ]
        ),
    ),
}
