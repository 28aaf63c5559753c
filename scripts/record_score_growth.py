"""Record how large scores get in training, with and without normalized queries and keys: attnlab/data/score_growth.npz.

A model of two blocks is trained on the chants of scripts/record_chants.py at three learning rates and from three seeds,
once with the norms of QKNormAttention and once with nothing in their place. After every step the loss is kept, and
the largest score of the batch.

    python scripts/record_score_growth.py              # writes the file, in about a minute

It needs no file of another model.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.record_chants import ALPHABET, chants
from solutions.multi_head import split_heads
from solutions.rope import apply_rope
from solutions.steady_attention import QKNormAttention
from solutions.transformer_block import RMSNorm, SwiGLU

TARGET = Path(__file__).resolve().parent.parent / "attnlab" / "data" / "score_growth.npz"
WIDTH, N_HEADS, D_HEAD, BASE, BLOCKS, STEPS, BATCH = 32, 2, 16, 100.0, 2, 300, 16
RATES, SEEDS = (0.003, 0.01, 0.03), (0, 1, 2)


class Model(nn.Module):
    """Pre-norm blocks of QKNormAttention and SwiGLU; one head for keys and values; the embedding is also the head."""

    def __init__(self, normed: bool):
        super().__init__()
        self.embedding = nn.Embedding(ALPHABET, WIDTH)
        self.attentions = nn.ModuleList(QKNormAttention(WIDTH, N_HEADS, 1, D_HEAD, BASE) for _ in range(BLOCKS))
        self.networks = nn.ModuleList(SwiGLU(WIDTH, 2 * WIDTH) for _ in range(BLOCKS))
        self.norms = nn.ModuleList(RMSNorm(WIDTH) for _ in range(2 * BLOCKS + 1))
        with torch.no_grad():
            self.embedding.weight.mul_(0.02)
        if not normed:
            for attention in self.attentions:
                attention.norm_q = attention.norm_k = nn.Identity()

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Logits, and the largest absolute score of a key that may be seen."""
        stream, largest = self.embedding(ids), 0.0
        for i in range(BLOCKS):
            rows = self.norms[2 * i](stream)
            largest = max(largest, largest_score(self.attentions[i], rows))
            stream = stream + self.attentions[i](rows)
            stream = stream + self.networks[i](self.norms[2 * i + 1](stream))
        return self.norms[-1](stream) @ self.embedding.weight.T, largest


@torch.no_grad()
def largest_score(part: QKNormAttention, rows: torch.Tensor) -> float:
    at = torch.arange(rows.shape[1])
    q = apply_rope(part.norm_q(split_heads(part.W_q(rows), N_HEADS)), at, BASE)
    k = apply_rope(part.norm_k(split_heads(part.W_k(rows), 1)), at, BASE)
    return (q @ k.mT).tril().abs().max().item() / D_HEAD**0.5


def train(normed: bool, rate: float, seed: int, steps: int = STEPS) -> tuple[list[float], list[float]]:
    """Loss (nats per letter) and largest score, each before every step."""
    torch.manual_seed(seed)
    model, rng = Model(normed), np.random.default_rng(seed)
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    losses, scores = [], []
    for _ in range(steps):
        ids = chants(BATCH, rng)
        logits, largest = model(ids)
        loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
        scores.append(largest)
    return losses, scores


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", metavar="PATH", type=Path, default=TARGET)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    runs = [[[train(normed, rate, seed) for seed in SEEDS] for rate in RATES] for normed in (False, True)]
    both = np.array(runs)  # (2, rates, seeds, loss and score, steps)
    source = {
        "model": "two blocks of QKNormAttention and SwiGLU, trained on chants",
        "width": WIDTH,
        "d_head": D_HEAD,
        "batch": BATCH,
        "seeds": list(SEEDS),
        "script": f"scripts/{Path(__file__).name}",
        "torch": torch.__version__.split("+")[0],
    }
    np.savez_compressed(
        options.output,
        rates=np.array(RATES),
        losses=both[:, :, :, 0].astype(np.float16),
        scores=both[:, :, :, 1].astype(np.float16),
        provenance=np.array(json.dumps(source, indent=1)),
    )
    print(options.output, options.output.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
