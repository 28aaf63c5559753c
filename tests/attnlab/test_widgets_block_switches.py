"""The block with nine switches: its counts against the modules of the course, and each of its controls."""

import pytest
import torch
from torch import nn

from attnlab.widgets import BlockSwitches
from attnlab.widgets.block_switches import SIZES, SWITCHES
from solutions.kv_cache import kv_cache_bytes
from solutions.long_context import LatentAttention
from solutions.mixture_of_experts import MixtureOfExperts
from solutions.steady_attention import GatedAttention, QKNormAttention
from solutions.transformer_block import SwiGLU
from tests.attnlab.widget_page import state_of

TINY = dict(d_model=12, n_heads=4, n_kv_heads=2, d_head=4, wide_head=6, d_ff=20, window=1500, full=3)
TINY |= dict(d_latent=5, d_rope=2, n_experts=6, top_k=2, d_expert=8)
TINY |= dict(attending=3, n_states=4, n_state_keys=2, d_state=3, conv=2)
BLOCKS = [
    BlockSwitches(),
    *(BlockSwitches(**{name: True}, tokens=2**14) for name in SWITCHES),
    BlockSwitches(**dict.fromkeys(SWITCHES, True)),
    BlockSwitches(TINY, latent=True, wide=True, normed=True),
    BlockSwitches(TINY, gated=True, state=True, wide=True, tokens=2048),
    BlockSwitches(TINY, window=True, experts=True, sink=True, tokens=2048),
]
FIXTURES = [state_of(block) for block in BLOCKS]
EXAMPLES = [(BlockSwitches(), *({name: True} for name in SWITCHES), dict(tokens=2**17), "[data-switch=latent]")]
SET = [dict(latent=True, tokens=4096), dict(tokens=3000)]
AGAIN = BlockSwitches(window=True, tokens=2**15)
STOPS = [*SWITCHES, "tokens", "reset"]
REFUSED = [
    (dict(width=3), {}, "unknown: width"),
    (dict(d_model=0), {}, "d_model must be a whole number"),
    (dict(top_k=1.5), {}, "top_k must be"),
    (dict(tokens=1000), "tokens must be from 1024"),
]


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def delta_layer(z):
    """The maps, and all modules, of a layer with states, as the page on today's models wires it."""
    keys, values = z["n_state_keys"] * z["d_state"], z["n_states"] * z["d_state"]
    maps = nn.ModuleList(
        [
            nn.Linear(z["d_model"], 2 * keys + 2 * values, bias=False),
            nn.Linear(z["d_model"], 2 * z["n_states"], bias=False),
            nn.Conv1d(2 * keys + values, 2 * keys + values, z["conv"], groups=2 * keys + values, bias=False),
            nn.Linear(values, z["d_model"], bias=False),
        ]
    )
    small = nn.ParameterList([torch.empty(z["n_states"]), torch.empty(z["n_states"]), torch.empty(z["d_state"])])
    return maps, nn.ModuleList([maps, small])


def block(state):
    """The numbers of a block made of the course's own classes, on a device that stores nothing."""
    z, n = state["sizes"], state["tokens"]
    d = z["wide_head"] if state["wide"] else z["d_head"]
    with torch.device("meta"):
        plain = QKNormAttention(z["d_model"], z["n_heads"], z["n_kv_heads"], d)
        latent = LatentAttention(z["d_model"], z["n_heads"], d, z["d_rope"], z["d_latent"])
        mixture = MixtureOfExperts(z["d_model"], z["d_expert"], z["n_experts"], z["top_k"])
        dense = SwiGLU(z["d_model"], z["d_ff"])
        gate = count(GatedAttention(z["d_model"], z["n_heads"], z["n_kv_heads"], d, 2)) - count(plain)
        delta_maps, delta = (count(part) for part in delta_layer(z))
    norms = count(plain.norm_q) + count(plain.norm_k)
    attention = count(latent) if state["latent"] else count(plain) - norms
    attention += gate if state["gated"] else 0
    small = 2 * z["d_model"] + (norms if state["normed"] else 0) + (z["n_heads"] if state["sink"] else 0)
    network = count(mixture) if state["experts"] else count(dense)
    idle = count(mixture.experts[0]) * (z["n_experts"] - z["top_k"]) if state["experts"] else 0
    layers = [n] + [min(n, z["window"]) if state["window"] else n] * (z["full"] - 1)
    seen = sum(layers) / len(layers)
    if state["latent"]:
        cache, width = 2 * (z["d_latent"] + z["d_rope"]) * seen / n, 2 * z["d_latent"] + z["d_rope"]
        maps = attention - count(latent.norm)
    else:
        cache = sum(kv_cache_bytes(1, z["n_kv_heads"], d, tokens) for tokens in layers) / len(layers) / n
        width, maps = 2 * d, attention
    numbers = z["n_states"] * z["d_state"] ** 2
    attends = [
        attention + small + network,
        attention + small + network - idle,
        cache,
        maps + network - idle + z["n_heads"] * width * seen,
    ]
    keeps = [
        delta + 2 * z["d_model"] + network,
        delta + 2 * z["d_model"] + network - idle,
        torch.empty(numbers, dtype=torch.float32, device="meta").nbytes / n,
        delta_maps + network - idle + 4 * numbers,
    ]
    stack = [keeps if state["state"] else attends] * (z["attending"] - 1) + [attends]
    return dict(zip(("parameters", "used", "cache", "work"), (sum(layer) / len(stack) for layer in zip(*stack))))


def reference(state):
    own, base = block(state), block(state | dict.fromkeys(SWITCHES, False))
    return {
        **{f"own.{name}": value for name, value in own.items()},
        **{f"base.{name}": value for name, value in base.items()},
        "times": [own[name] / base[name] for name in own],
    }


def test_the_picture_for_print_counts_the_same():
    for one, state in zip(BLOCKS, FIXTURES):
        assert one.numbers() == pytest.approx(block(state))


def test_what_the_published_models_have_is_what_their_switches_say():
    """Blocks times layers and the tables of words, beside the totals of the reports: 4.0 and 20.9 billion."""
    qwen = BlockSwitches(dict(d_ff=9728), normed=True, wide=True).numbers()
    assert 36 * qwen["parameters"] + 151_936 * 2560 == pytest.approx(4.0e9, rel=0.01)
    sizes = dict(d_model=2880, n_heads=64, wide_head=64, d_expert=2880)
    oss = BlockSwitches(sizes, wide=True, sink=True, experts=True).numbers()
    assert 24 * oss["parameters"] + 2 * 201_088 * 2880 == pytest.approx(20.9e9, rel=0.01)
    assert 24 * oss["used"] + 201_088 * 2880 == pytest.approx(3.6e9, rel=0.02)


SLIDERS = [(BlockSwitches(window=True), "tokens", [2**doublings for doublings in range(10, 18)])]
PARAMETERS = BlockSwitches(experts=True).numbers()["parameters"] / BlockSwitches().numbers()["parameters"]
CONTROLS = {
    "a switch shows what it changes and what it costs": (
        BlockSwitches(),
        {"[data-times]": ["× 1.00"] * 4, ".bs-changed span": 0},
        ("switch=experts", {"experts": True, "pressed switch": ["experts"], ".bs-changed span": ["4 of 32 experts"]}),
        {"times=parameters": f"× {PARAMETERS:.2f}", "times=cache": "× 1.00"},
        ("switch=latent", {".bs-changed span~": ["one latent, one rotated key"], "said~": "latent as in DeepSeek-V3"}),
    ),
    "a state saves nothing in a short text and three quarters in a long one": (
        BlockSwitches(state=True, tokens=1024),
        {"times=cache": "× 0.85", ".bs-changed code": ["3 of 4: (32, 128, 128)"]},
        ("slider=tokens: End", {"times=cache": "× 0.25", "said~": "states as in Qwen3-Next"}),
        ("switch=gated", {".bs-changed span~": ["weights, average, gate, W_o"]}),
    ),
    "a window saves more the longer the text is": (
        BlockSwitches(window=True, tokens=1024),
        {"times=cache": "× 1.00"},
        ("slider=tokens: End", {"tokens": 2**17, "=tokens": "131,072", "times=cache": "× 0.17"}),
    ),
}
TRAITS = {
    "sizes left out are those published": (dict(sizes=dict(d_ff=10)), dict(sizes=SIZES | dict(d_ff=10))),
}
