"""The scripts that record the real model, and a small Llama for them: random weights, named as in the model's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
sys.path.append(str(SCRIPTS))  # as when one is run: it imports another

import record_attention  # noqa: E402, F401
import record_heads  # noqa: E402, F401


def run_script(name: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def small_weights(shape, d_head: int, width: int, hidden: int, vocabulary: int) -> dict[str, torch.Tensor]:
    """Weights in float64 by name. shape: the numbers of layers, heads and key/value heads, as the scripts' `Shape`."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64) / size[-1] ** 0.5

    weights = {"token_embd": draw(vocabulary, width), "output_norm": 1 + draw(width)}
    for layer in range(shape.n_layers):
        sizes = {
            "attn_norm": (width,),
            "ffn_norm": (width,),
            "attn_q": (shape.n_heads * d_head, width),
            "attn_output": (width, shape.n_heads * d_head),
            "attn_k": (shape.n_kv_heads * d_head, width),
            "attn_v": (shape.n_kv_heads * d_head, width),
            "ffn_gate": (hidden, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }
        weights |= {f"blk.{layer}.{name}": 3 * draw(*size) for name, size in sizes.items()}
    return weights
