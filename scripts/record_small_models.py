"""Record seven small models, each with random weights, as attnlab/data/small_*.npz.

The chapter on today's models runs Llama 3, Qwen3, Gemma 3, OLMo 2, gpt-oss, DeepSeek-V3 and Qwen3-Next with the
student's own parts. The real models are far too large for that. These have the same architecture and some ten thousand
numbers each, drawn at random: they cannot write, but their logits agree up to rounding, or something is wrong.

    make model
    python scripts/record_small_models.py              # writes the files, in seconds
    python scripts/record_small_models.py --verify     # compares them with `transformers` instead

`transformers` builds each model from its settings, in SETTINGS below, and computes the logits in float32. The weights
are drawn by NumPy and rounded to float16 first, so that the files are small and every machine draws the same ones.
They are large enough for each trait of a model to show in its logits. Larger ones would make rounding errors larger
too.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

TARGET = Path(__file__).resolve().parent.parent / "attnlab" / "data"
SEED, BATCH = 13, 2
AGREES = 1e-4  # in logits

# By model: the name of its settings in `transformers`, how many tokens are read, and the settings.
# All sizes of a model differ, so that no two can be exchanged unseen.
SETTINGS = {
    "llama3": (
        "LlamaConfig",
        48,  # more than original_max_position_embeddings
        {
            "vocab_size": 37,
            "hidden_size": 40,
            "intermediate_size": 28,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 300.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 40,
            },
        },
    ),
    "qwen3": (
        "Qwen3Config",
        23,
        {
            "vocab_size": 41,
            "hidden_size": 28,
            "intermediate_size": 44,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        26,
        {
            "vocab_size": 43,
            "hidden_size": 24,
            "intermediate_size": 30,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 10,
            "query_pre_attn_scalar": 10,
            "rms_norm_eps": 1e-6,
            "sliding_window": 7,  # tokens, the current one included
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
                "full_attention": {"rope_type": "default", "rope_theta": 3000.0},
            },
            "final_logit_softcapping": 6.0,
            "tie_word_embeddings": True,
        },
    ),
    "olmo2": (
        "Olmo2Config",
        21,
        {
            "vocab_size": 47,
            "hidden_size": 32,
            "intermediate_size": 38,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
    "gpt_oss": (
        "GptOssConfig",
        25,
        {
            "vocab_size": 39,
            "hidden_size": 22,
            "intermediate_size": 14,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 10,
            "rms_norm_eps": 1e-5,
            "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "swiglu_limit": 1.5,
            "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 150.0},
        },
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        22,
        {
            "vocab_size": 45,
            "hidden_size": 26,
            "intermediate_size": 34,
            "moe_intermediate_size": 11,
            "num_hidden_layers": 2,
            "first_k_dense_replace": 1,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "q_lora_rank": 18,
            "kv_lora_rank": 14,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 6,
            "v_head_dim": 8,
            "n_routed_experts": 7,
            "n_shared_experts": 1,
            "num_experts_per_tok": 3,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 2.5,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "num_nextn_predict_layers": 0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 200.0},
        },
    ),
    "qwen3_next": (
        "Qwen3NextConfig",
        24,
        {
            "vocab_size": 29,
            "hidden_size": 17,
            "num_hidden_layers": 4,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 6,
            "linear_value_head_dim": 5,
            "linear_conv_kernel_dim": 4,
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 7,
            "shared_expert_intermediate_size": 8,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25},
        },
    ),
}


def draw(name: str, shape: tuple[int, ...], settings: dict, rng: np.random.Generator) -> np.ndarray:
    """The numbers of one tensor, rounded to float16. name: as `transformers` calls it"""
    spread = rng.standard_normal(shape)
    hybrid = "linear_num_key_heads" in settings
    if "norm" in name:
        # Gemma and Qwen3-Next keep what is added to 1. Weights that differ are what a rotation and a norm cannot be
        # exchanged with.
        added_to_1 = "query_pre_attn_scalar" in settings or hybrid
        numbers = 0.4 * spread + (0 if added_to_1 and "linear_attn" not in name else 1)
    elif name.endswith("A_log"):
        numbers = 0.5 * spread - 2  # a state that keeps a value for about ten tokens
    elif len(shape) == 1 or name.endswith("_bias"):
        numbers = 0.5 * spread  # biases, and the sinks
    elif "embed_tokens" in name:
        numbers = spread * (3 / settings["hidden_size"] ** 0.5 if settings["tie_word_embeddings"] else 1)
    else:
        transposed = name.endswith(("gate_up_proj", "down_proj")) and "swiglu_limit" in settings
        # What a state recalls may be small, and the norm after it enlarges rounding errors.
        size = 1.0 if hybrid and "layers" in name else 1.5
        numbers = size * spread / shape[-2 if transposed else -1] ** 0.5
    return numbers.astype(np.float16)


def make(name: str, seed: int = SEED, **changes) -> torch.nn.Module:
    """The model of that name with weights drawn from the seed, float32. changes: other settings than in SETTINGS"""
    import transformers

    kind, _, settings = SETTINGS[name]
    settings = settings | changes
    config = getattr(transformers, kind)(**settings, attn_implementation="eager", pad_token_id=None, eos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager").float().eval()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for key, tensor in weights_of(model).items():
            tensor.copy_(torch.from_numpy(draw(key, tuple(tensor.shape), settings, rng).astype(np.float32)))
    return model


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's tensors by name, in the order of their names, without a head that is the embedding's own."""
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    return dict(sorted(state.items()))


def record(name: str) -> dict[str, np.ndarray]:
    _, n, settings = SETTINGS[name]
    model = make(name)
    ids = np.random.default_rng(SEED + 1).integers(0, settings["vocab_size"], (BATCH, n))
    source = {
        "model": f"{type(model).__name__} of transformers, with random weights",
        "seed": SEED,
        "precision": "weights drawn in float16, logits computed in float32",
        "script": f"scripts/{Path(__file__).name}",
        "transformers": version("transformers"),
        "torch": torch.__version__.split("+")[0],
    }
    return {
        "config": np.array(json.dumps(settings, indent=1)),
        "ids": ids,
        "logits": logits(model, ids),
        "provenance": np.array(json.dumps(source, indent=1)),
        **{f"weight {key}": tensor.numpy().astype(np.float16) for key, tensor in weights_of(model).items()},
    }


def logits(model: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(ids), use_cache=False).logits.numpy()


def verify(folder: Path) -> None:
    """Draw the models again and compare: weights and ids must be equal, logits must agree."""
    for name in SETTINGS:
        again = record(name)
        with np.load(folder / f"small_{name}.npz", allow_pickle=False) as file:
            same = set(file.files) == set(again) and all(
                np.array_equal(file[key], again[key]) for key in again if key not in {"logits", "provenance"}
            )
            largest = np.abs(file["logits"] - again["logits"]).max()
        print(f"{name}: largest difference of a logit {largest:.1e}")
        if not same or largest > AGREES:
            sys.exit(f"{name} is not what transformers makes of its settings")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", metavar="PATH", type=Path, default=TARGET, help="the folder to write or to verify")
    parser.add_argument("--verify", action="store_true", help="compare with transformers, write nothing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.verify:
        return verify(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in SETTINGS:
        recorded = record(name)
        path = options.output / f"small_{name}.npz"
        np.savez_compressed(path, **recorded)
        numbers = sum(array.size for key, array in recorded.items() if key.startswith("weight "))
        print(f"{name}: {numbers} numbers, logits up to {np.abs(recorded['logits']).max():.1f}", path.stat().st_size)


if __name__ == "__main__":
    main()
