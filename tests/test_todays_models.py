"""Seven small models on the parts of the course, wired as on the page, against what `transformers` makes of them.

The cells of the section `small_models` are run here with other parts in place of a student's: the references, the
alternatives, and the mistakes of the exercises.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import data
from course import catalog
from scripts import record_small_models as script

ROOT = Path(__file__).parents[1]
AGREES, BROKEN = 1e-4, 1e-2  # in logits, which go up to about ten
NAMES = data.SMALL_MODELS
EARLIER = {
    "masks": ("causal_mask", "sliding_window_mask"),
    "multi_head": ("merge_heads", "split_heads"),
    "rope": ("interleaved_to_half", "rope_frequencies"),
    "kv_cache": ("KVCache", "repeat_kv"),
    "transformer_block": ("SwiGLU", "gelu_tanh", "rms_norm"),
}
NEWER = (
    "steady_attention",
    "long_context",
    "mixture_of_experts",
    "delta_rule",
)  # the chapters of which no part is left out
REFERENCES = {name: item.reference for chapter in NEWER for name, item in catalog.exercises_of(chapter).items()}
ALTERNATIVES = {
    name: others
    for chapter in NEWER
    for name, others in importlib.import_module(f"tests.alternatives.{chapter}").ALTERNATIVES.items()
}


def in_chunks_of_five(q, k, v, g, beta, state=None):
    """The gated delta rule by the function of its chapter that computes chunks."""
    return REFERENCES["chunked_gated_delta_rule"](q, k, v, g, beta, 5, state)


ALTERNATIVES["gated_delta_rule"] = [*ALTERNATIVES["gated_delta_rule"], in_chunks_of_five]


def earlier() -> dict:
    """The references that the section takes from other chapters."""
    return {
        name: getattr(importlib.import_module(f"solutions.{chapter}"), name)
        for chapter, names in EARLIER.items()
        for name in names
    }


def cells() -> list[str]:
    """The code of the page's section, without the cells that print or draw and what comes from other chapters."""
    page = (ROOT / "chapters" / "todays_models.md").read_text("utf-8")
    section = re.split(r"^## ", page.partition("(small_models)=\n## ")[2], flags=re.M)[0]
    found = re.findall(r"^```\{code-cell\}\n((?:^:[^\n]*\n)*)(.*?)^```$", section, flags=re.M | re.S)
    return [code for _, code in found if not any(text in code for text in ("print(", "attnlab.mine", "plt."))]


def wired(parts: dict, *edits: tuple[str, str]) -> dict:
    """Run the page's cells with these as the student's parts, and return what they define.

    edits: texts of the cells, and what replaces each
    """
    space = {"torch": torch, "nn": nn, "F": F, **earlier(), **parts}
    source = "\n".join(cells())
    for old, new in edits:
        assert source.count(old) >= 1, old
        source = source.replace(old, new)
    exec(source, space)
    return space


def differences(space: dict, small: data.SmallModel) -> tuple[float, float]:
    """The largest difference of a logit from the recorded ones: in one pass, and in chunks with a cache."""
    return tuple(space["difference"](space[way](small), small) for way in ("one_pass", "in_chunks"))


SOURCES = {"references": REFERENCES} | {
    f"{name}: {other.__name__}": REFERENCES | {name: other} for name, others in ALTERNATIVES.items() for other in others
}


@pytest.fixture(scope="module")
def right():
    return wired(REFERENCES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", SOURCES)
def test_the_recorded_logits_come_out_in_one_pass_and_in_chunks(source, name):
    assert max(differences(wired(SOURCES[source]), data.small_model(name))) < AGREES


OTHER_WAYS = [
    (name, other)
    for chapter, names in EARLIER.items()
    for name in names
    for other in importlib.import_module(f"tests.alternatives.{chapter}").ALTERNATIVES[name]
]


@pytest.mark.parametrize("name, other", OTHER_WAYS, ids=lambda value: getattr(value, "__name__", value))
def test_a_part_of_an_earlier_chapter_may_be_written_in_another_way(name, other):
    space = wired(REFERENCES | {name: other})
    assert max(max(differences(space, data.small_model(model))) for model in NAMES) < AGREES


# Mistakes of the exercises, by how their sentences begin, and the model whose logits show them.
MISTAKES = {
    ("llama3", "scaled_rope_frequencies"): [
        "No frequency is changed",
        "Every frequency is divided",
        "Between the limits nothing is mixed; the frequency is kept",
        "Between the limits the shares are exchanged",
    ],
    ("qwen3", "QKNormAttention"): [
        "Queries and keys are not normalized",
        "The norm comes after the rotation",
        "The values are normalized too",
        "The scores are divided by the square root of d_model",
        "With a cache, positions begin at 0 again",
    ],
    ("gemma3", "QKNormAttention"): [
        "The window is one token too long",
        "The window is one token too short",
        "The window is not used",
        "With a cache, the window is counted from the last token",
        "`base` is not passed on",
    ],
    ("gemma3", "soft_cap"): ["Nothing is bent", "The result is between -1 and 1"],
    ("gpt_oss", "softmax_with_sink"): [
        "The sink is not used",
        "The first weight is dropped",
        "The first sink is used for every head",
    ],
    ("gpt_oss", "MixtureOfExperts"): [
        "The weights come from a softmax over all experts",
        "The weights are those of other experts",
        "The weights are left out",
        "Only the best expert of a token is used",
    ],
    ("deepseek_v3", "LatentAttention"): [
        "The latent is not normed",
        "The shared key is not rotated",
        "The query is not rotated",
        "In each head, the rotated part of the query comes first",
        "The scores are divided by the square root of d_head alone",
        "Keys and values are exchanged",
    ],
    ("qwen3_next", "gated_delta_rule"): [
        "The value is added without a look",
        "beta is not used",
        "beta multiplies the value alone",
        "The output is read before the token has written",
        "The difference is written at the query",
        "The state that is passed in is not used",
        "The state that comes back is the one at the start",
        "g is not used",
        "The state is multiplied by g itself",
        "What is recalled comes from the state before it fades",
        "The state fades after the token has written",
        "All heads fade by the g of the first one",
    ],
    ("qwen3_next", "short_convolution"): [
        "The weight is the wrong way round",
        "Everything is a token late",
        "The oldest column of the weight is left out",
        "The past that is passed in is not used",
        "A short text pushes all of the old past out",
        "Mixed tokens come back as the past",
        "An activation is applied",
    ],
    ("qwen3_next", "GatedAttention"): [
        "The gate is not used",
        "The gate has no sigmoid",
        "Each head has one gate",
        "All numbers of a head are rotated",
        "The last d_rotary numbers of a head are rotated",
        "The frequencies are those of a head d_head wide",
        "Queries and keys are not normalized",
        "The norms multiply by 1 + weight",
        "With a cache, positions begin at 0 again",
    ],
    ("qwen3_next", "MixtureOfExperts"): ["The weights come from a softmax over all experts"],
}


@pytest.mark.parametrize("model, name, start", [(*key, start) for key, starts in MISTAKES.items() for start in starts])
def test_a_mistake_in_a_part_moves_the_logits(model, name, start):
    wrong = next(m.wrong for m in catalog.exercise(name).misconceptions if m.text.startswith(start))
    assert max(differences(wired(REFERENCES | {name: wrong}), data.small_model(model))) > BROKEN


# What can be wrong in the wiring: the model that shows it, a text of the page's cells, and what is wrong in its place.
MISWIRED = {
    "pre-norm for post-norm": (
        "olmo2",
        'POST_NORM = (None, "post_attention_layernorm",\n             None, "post_feedforward_layernorm")',
        'POST_NORM = ("post_attention_layernorm", None, "post_feedforward_layernorm", None)',
    ),
    "norm of each head for all heads": (
        "olmo2",
        'rows = rms_norm(rows, weight, config["rms_norm_eps"])',
        "rows = (F.rms_norm(rows.unflatten(-1, (count, -1)), (rows.shape[-1] // count,)).flatten(-2) * weight)",
    ),
    "embedding not scaled": ("gemma3", 'scale=config["hidden_size"] ** 0.5', "scale=1.0"),
    "norm weights without their 1": ("gemma3", 'tensor + 1.0 if "norm" in name', 'tensor if "norm" in name'),
    "no norms after the sub-layers": (
        "gemma3",
        'AROUND = ("input_layernorm", "post_attention_layernorm",\n          "pre_feedforward_layernorm", '
        '"post_feedforward_layernorm")',
        'AROUND = ("input_layernorm", None, "pre_feedforward_layernorm", None)',
    ),
    "one base for all layers": ("gemma3", '["rope_parameters"][kind]', '["rope_parameters"]["full_attention"]'),
    "SwiGLU's gate": ("gemma3", "gelu_tanh(x @ gate.T)", "F.silu(x @ gate.T)"),
    "experts not clamped": ("gpt_oss", 'config["swiglu_limit"]', "1e9"),
    "1 not added": ("gpt_oss", "(up + 1)", "up"),
    "the sigmoid of SwiGLU": ("gpt_oss", "1.702 * gate", "gate"),
    "halves of an expert one after the other": (
        "gpt_oss",
        "both[..., ::2].clamp(max=self.limit)\n        up = both[..., 1::2]",
        "both.chunk(2, -1)[0].clamp(max=self.limit)\n        up = both.chunk(2, -1)[1]",
    ),
    "biases left out": ("gpt_oss", "map_.bias.data = bias", "map_.bias.data = 0 * bias"),
    "windows in the other layers": ("gpt_oss", 'windowed = kind == "sliding', 'windowed = kind != "sliding'),
    "neighbors not reordered": (
        "deepseek_v3",
        "interleaved_to_half(to_rope, 1)",
        "to_rope",
    ),
    "bias of the choice in the weights": ("deepseek_v3", "logs.gather", "(logs.exp() + self.shift).log().gather"),
    "chosen without the bias": ("deepseek_v3", "logs.exp() + self.shift", "logs.exp()"),
    "softmax for sigmoid": ("deepseek_v3", "F.logsigmoid(super().forward(x))", "super().forward(x)"),
    "no shared expert": ("deepseek_v3", "part(x) + shared(x)", "part(x)"),
    "experts not scaled": ("deepseek_v3", "factor * part(x)", "part(x)"),
    "latent of the queries not normed": (
        "deepseek_v3",
        "rms_norm(x @ self.down.T, self.norm, self.eps)",
        "x @ self.down.T",
    ),
    "norms without their 1": ("qwen3_next", 'tensor + 1.0 if name.endswith("norm.weight")', "tensor if name"),
    "1 added to the norm after the state too": ("qwen3_next", 'and name != "linear_attn.norm.weight" else', "else"),
    "last norm without its 1": ("qwen3_next", "decoder(small, blocks, one_plus=1.0)", "decoder(small, blocks)"),
    "output of the state not normed": (
        "qwen3_next",
        'read = rms_norm(read, its["norm.weight"], config["rms_norm_eps"])',
        'read = read * its["norm.weight"]',
    ),
    "gate before the norm": (
        "qwen3_next",
        'read = rms_norm(read, its["norm.weight"], config["rms_norm_eps"])\n'
        "        read = read * F.silu(split_heads(gate, n_heads))",
        "read = rms_norm(read * F.silu(split_heads(gate, n_heads)),\n"
        '                        its["norm.weight"], config["rms_norm_eps"])',
    ),
    "sigmoid for the gate's SiLU": ("qwen3_next", "read * F.silu(", "read * torch.sigmoid("),
    "no gate after the state": ("qwen3_next", "read = read * F.silu(split_heads(gate, n_heads))", "pass"),
    # The norm after the state takes this factor out again, up to the small number that it adds.
    "queries not scaled": ("qwen3_next", "q / d_k ** 0.5, k", "q, k"),
    "queries and keys not of length 1": (
        "qwen3_next",
        "repeat_kv(unit(split_heads(y, n_k)), group)",
        "repeat_kv(split_heads(y, n_k), group)",
    ),
    "keys of a group in turn": (
        "qwen3_next",
        "repeat_kv(unit(split_heads(y, n_k)), group)",
        "unit(split_heads(y, n_k)).repeat(1, group, 1, 1)",
    ),
    "no SiLU after the convolution": ("qwen3_next", "F.silu(mixed).split", "mixed.split"),
    "beta without its sigmoid": ("qwen3_next", "beta.sigmoid().mT", "beta.mT"),
    "beta and decay exchanged": ("qwen3_next", "beta, decay = (", "decay, beta = ("),
    "decay without its bias": ("qwen3_next", 'F.softplus(decay + its["dt_bias"])', "F.softplus(decay)"),
    "decay without its factor": ("qwen3_next", '-its["A_log"].exp() * F', "-F"),
    "columns not sorted by key head": (
        "qwen3_next",
        'rows = (x @ its["in_proj_qkvz.weight"].T).unflatten(2, (n_k, -1))',
        "sizes = [d_k, d_k, group * d_v, group * d_v]\n"
        '        rows = torch.cat([y.unflatten(2, (n_k, -1)) for y in (x @ its["in_proj_qkvz.weight"].T)'
        ".split([n_k * size for size in sizes], -1)], -1)",
    ),
    "past not handed on": ("qwen3_next", 'kept.get("past")', "None"),
    "state not handed on": ("qwen3_next", 'kept.get("state")', "None"),
    "queries of all heads before their gates": (
        "qwen3_next",
        'its["q_proj"].view(n_heads, 2, d_head, -1).unbind(1)',
        'its["q_proj"].view(2, n_heads, d_head, -1)',
    ),
    "shared expert without its gate": ("qwen3_next", "torch.sigmoid(x @ gate.T) * shared(x)", "shared(x)"),
    "gate on the chosen experts too": (
        "qwen3_next",
        "part(x) + torch.sigmoid(x @ gate.T) * shared(x)",
        "torch.sigmoid(x @ gate.T) * (part(x) + shared(x))",
    ),
}


@pytest.mark.parametrize("mistake", MISWIRED)
def test_a_mistake_in_the_wiring_moves_the_logits(mistake):
    name, *edit = MISWIRED[mistake]
    assert max(differences(wired(REFERENCES, tuple(edit)), data.small_model(name))) > BROKEN


@pytest.mark.parametrize("name", NAMES)
def test_a_small_model_has_few_weights_and_large_logits(name):
    small = data.small_model(name)
    assert 10_000 < sum(array.size for array in small.weights.values()) < 20_000
    assert small.logits.shape == (*small.ids.shape, small.config["vocab_size"]) and small.logits.dtype == np.float32
    assert np.abs(small.logits).max() > 5 and small.ids.shape[1] > 2 * small.config.get("sliding_window", 0)


def test_the_picture_has_the_norms_and_the_traits_of_each_model(right):
    page = (ROOT / "chapters" / "todays_models.md").read_text("utf-8")
    space = dict(right)
    exec(re.search(r"^def parts_of.*?(?=^def box)", page, flags=re.M | re.S)[0], space)
    drawn = {name: space["parts_of"](data.small_model(name)) for name in NAMES}
    norms = {name: [(before, after) for _, before, _, after in parts] for name, parts in drawn.items()}
    assert norms == dict.fromkeys(NAMES, [(True, False)] * 2) | {
        "gemma3": [(True, True)] * 2,
        "olmo2": [(False, True)] * 2,
    }
    assert {name: [traits for _, _, traits, _ in parts] for name, parts in drawn.items()} == {
        "llama3": [["slower pairs"], []],
        "qwen3": [["q, k normed"], []],
        "gemma3": [["q, k normed", "window\nin 2 of 3 layers"], []],
        "olmo2": [["q, k normed,\nall heads"], []],
        "gpt_oss": [["sink", "window\nin 1 of 2 layers"], ["2 of 5 experts"]],
        "deepseek_v3": [["latent"], ["3 of 7 experts", "shared expert"]],
        "qwen3_next": [
            ["q, k normed", "partly rotated", "output gate", "state\nin 3 of 4 layers"],
            ["2 of 5 experts", "shared expert", "with a gate"],
        ],
    }


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="no small model 'llama4'; there are llama3, qwen3"):
        data.small_model("llama4")


# Against `transformers` itself: other sizes, other weights, other ids.


@pytest.fixture(scope="module")
def transformers():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed: make model")
    import transformers

    return transformers


# A second size for each model: other numbers of layers, heads and experts, windows, bases and factors.
OTHERS = {
    "llama3": {
        "hidden_size": 48,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "num_hidden_layers": 3,
        "rope_parameters": script.SETTINGS["llama3"][2]["rope_parameters"] | {"factor": 4.0, "low_freq_factor": 2.0},
    },
    "qwen3": {"hidden_size": 20, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 14},
    "gemma3": {
        "head_dim": 6,
        "query_pre_attn_scalar": 6,
        "sliding_window": 4,
        "num_key_value_heads": 1,
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "sliding_attention"],
        "final_logit_softcapping": None,
    },
    "olmo2": {"hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 5, "num_hidden_layers": 3},
    "gpt_oss": {
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "sliding_window": 3,
        "layer_types": ["full_attention", "sliding_attention"],
        "head_dim": 8,
    },
    "deepseek_v3": {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "n_routed_experts": 5,
        "num_experts_per_tok": 2,
        "kv_lora_rank": 10,
        "qk_nope_head_dim": 6,
        "v_head_dim": 6,
        "qk_rope_head_dim": 8,
    },
    "qwen3_next": {
        "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 3,
        "linear_conv_kernel_dim": 3,
        "head_dim": 8,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
    },
}


def fresh(name: str, seed: int, **changes) -> data.SmallModel:
    """A model that was never recorded."""
    _, n, settings = script.SETTINGS[name]
    model = script.make(name, seed, **changes)
    ids = np.random.default_rng(seed).integers(0, settings["vocab_size"], (3, n + seed))
    weights = {key: tensor.numpy() for key, tensor in script.weights_of(model).items()}
    return data.SmallModel(name, settings | changes, weights, ids, script.logits(model, ids), {})


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_other_weights_sizes_and_ids_agree_with_transformers(transformers, right, name, seed):
    changes = OTHERS[name] if seed > 1 else {}
    assert max(differences(right, fresh(name, seed, **changes))) < AGREES


def test_transformers_makes_the_recorded_numbers_again(transformers, capsys):
    script.main(["--verify"])
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(NAMES)


# None of the seven caps its scores. Gemma 2 does: Gemma 3's wiring, with the cap in place of the norms of q and k.
GEMMA_2 = (
    "Gemma2Config",
    26,
    {
        **{k: v for k, v in script.SETTINGS["gemma3"][2].items() if k != "rope_parameters"},
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
        "attn_logit_softcapping": 2.0,
    },
)
ITS_WIRING = """
def gemma2(small):
    config, blocks = small.config, []
    frequencies = rope_frequencies(config["head_dim"], config["rope_parameters"]["rope_theta"])
    for kind, layer in zip(config["layer_types"], layers_of(small)):
        layer = {name: tensor + ("norm" in name) for name, tensor in layer.items()}
        window = config["sliding_window"] if kind == "sliding_attention" else None
        attention = attention_of(layer, config, frequencies, window)
        blocks.append(block_of(layer, config, attention, geglu(layer), norms=AROUND))
    return decoder(small, blocks, scale=config["hidden_size"] ** 0.5, one_plus=1.0,
                   cap=config["final_logit_softcapping"])

WIRED["gemma2"] = gemma2
"""
CAPPED = (
    'scores = soft_cap(q @ k.mT / q.shape[-1] ** 0.5,\n                          config.get("attn_logit_softcapping"))'
)
CAP_AFTER = (
    "scores = soft_cap((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf), "
    'config["attn_logit_softcapping"])\n        seen = torch.ones_like(seen)'
)


def test_the_cap_comes_before_the_mask_in_gemma_2(transformers, monkeypatch):
    monkeypatch.setitem(script.SETTINGS, "gemma2", GEMMA_2)
    small = fresh("gemma2", 4)
    for edits, fits in (((), True), (((CAPPED, CAP_AFTER),), False)):
        space = wired(REFERENCES, *edits)
        exec(ITS_WIRING, space)
        largest = differences(space, small)
        assert max(largest) < AGREES if fits else min(largest) > BROKEN


def test_the_traits_that_the_page_breaks_by_a_setting_are_seen(right):
    for name, changed in (
        ("gemma3", {"sliding_window": 8}),
        ("gpt_oss", {"num_experts_per_tok": 3}),
        ("deepseek_v3", {"routed_scaling_factor": 1.0}),
    ):
        small = data.small_model(name)
        other = dataclasses.replace(small, config=small.config | changed)
        assert max(differences(right, other)) > BROKEN
