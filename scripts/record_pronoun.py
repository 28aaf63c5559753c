"""Record how SmolLM2-135M reads one sentence with a pronoun, and each head's part in it, as attnlab/data/pronoun.npz.

    make model
    python scripts/record_pronoun.py              # writes the file

The model, its file and the code that runs it are those of record_attention.py. Everything is computed in float64.

Source: Uszkoreit 2017 (Google Research, "Transformer: A Novel Neural Network Architecture for Language Understanding")
for the sentence, in which one head of a translation model reads "animal" from "it".
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import record_heads, recording

TARGET = recording.DATA / "pronoun.npz"
SENTENCE = "The animal did not cross the street because it was"
N_TOP = 6


def record(lm: record_heads.Model) -> dict[str, np.ndarray]:
    """All arrays of the file. attnlab/data/__init__.py says what they mean."""
    ids = lm.ids(SENTENCE)
    variants = [[], *record_heads.every_head_alone(lm.shape)]
    keep = torch.stack([record_heads.keep_all_but(removed, lm.shape) for removed in variants])
    probabilities = record_heads.without(ids, keep, lm.weight, lm.shape)[0].softmax(-1)
    top = probabilities[0].topk(N_TOP).indices
    kept = probabilities[:, top].numpy().astype(np.float32)
    return {
        "tokens": np.array(lm.tokens(SENTENCE)),
        "weights": lm.attention(ids).numpy().astype(np.float16),
        "words": np.array([record_heads.next_token(lm.tokenizer, int(i)) for i in top]),
        "whole": kept[0],
        "without": kept[1:].reshape(lm.shape.n_layers, lm.shape.n_heads, N_TOP),
        "provenance": np.array(
            recording.provenance(__file__, precision="computed in float64; weights in float16, the rest in float32")
        ),
    }


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, __doc__.splitlines()[0], TARGET)
    np.savez_compressed(options.output, **record(record_heads.Model.read()))
    print(f"{options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
