"""Record how heads form while the small model of the chapter on language models is trained: attnlab/data/chants.npz.

The chapter trains a model of two blocks on chants: rows of different letters, repeated. This trains the same model in
the same way, and every 25 steps keeps its four attention maps on one text, and the probability of each letter there.

    python scripts/record_chants.py              # writes the file, in half a minute

It needs no file of another model. Numbers are kept as bytes: 255 is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from solutions.kv_cache import repeat_kv
from solutions.language_model import LanguageModel
from solutions.multi_head import split_heads
from solutions.rope import apply_rope

TARGET = Path(__file__).resolve().parent.parent / "attnlab" / "data" / "chants.npz"
ALPHABET, LONG, SHORTEST, LONGEST, PERIOD = 26, 30, 6, 14, 10
D_HEAD, BASE, STEPS, EVERY, BATCH, RATE = 16, 100.0, 600, 25, 32, 0.005


def chants(how_many: int, rng: np.random.Generator, period: int | None = None) -> torch.Tensor:
    """Ids (how_many, LONG) of texts that repeat a row of letters; drawn as in the chapter."""
    texts = []
    for _ in range(how_many):
        p = period or rng.integers(SHORTEST, LONGEST + 1)
        texts.append(np.resize(rng.permutation(ALPHABET)[:p], LONG))
    return torch.from_numpy(np.array(texts))


def lowest_loss() -> float:
    """Nats per letter that no model can go below, on average: the chapter's floor."""
    periods = range(SHORTEST, LONGEST + 1)
    nats = [math.log(len(periods)) + sum(math.log(ALPHABET - t) for t in range(1, p)) for p in periods]
    return sum(nats) / len(nats) / (LONG - 1)


def new_model() -> LanguageModel:
    torch.manual_seed(1)
    model = LanguageModel(ALPHABET, 2 * D_HEAD, n_layers=2, n_heads=2, n_kv_heads=1, d_ff=64, base=BASE)
    with torch.no_grad():
        model.embedding.weight.mul_(0.02)
    return model


def maps_of(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """Attention weights (n_layers, batch, n_heads, n, n), from the matrices of each block."""
    stream, found, n = model.embedding(ids), [], ids.shape[1]
    for block in model.blocks:
        rows, part = block.norm_1(stream), block.attention
        q, k = (
            apply_rope(split_heads(linear(rows), heads), torch.arange(n), BASE)
            for linear, heads in ((part.W_q, 2), (part.W_k, 1))
        )
        scores = q @ repeat_kv(k, 2).mT / D_HEAD**0.5
        found.append(scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf).softmax(-1))
        stream = block(stream)
    return torch.stack(found)


def nats_per_letter(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """Cross-entropy (batch, LONG - 1) of each letter but the first."""
    return F.cross_entropy(model(ids)[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def train(steps: int = STEPS):
    """Yields (step, model, loss of the step that comes next, None after the last)."""
    model, rng = new_model(), np.random.default_rng(1)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    for step in range(steps):
        loss = nats_per_letter(model, chants(BATCH, rng)).mean()
        yield step, model, loss.item()
        adam.zero_grad()
        loss.backward()
        adam.step()
    yield steps, model, None


def record() -> dict[str, np.ndarray]:
    exam = chants(200, np.random.default_rng(5), period=PERIOD)[:1]
    losses, maps, chances = [], [], []
    lower = np.tril_indices(LONG)
    for step, model, loss in train():
        if loss is not None:
            losses.append(loss)
        if step % EVERY == 0:
            with torch.no_grad():
                maps.append(maps_of(model, exam)[:, 0].numpy()[..., lower[0], lower[1]])
                chances.append(nats_per_letter(model, exam)[0].neg().exp().numpy())
            print(f"step {step:3}: {losses[-1]:.3f}", file=sys.stderr)
    return {
        "text": np.array("".join("abcdefghijklmnopqrstuvwxyz"[i] for i in exam[0].tolist())),
        "period": np.array(PERIOD),
        "steps": np.arange(0, STEPS + 1, EVERY),
        "losses": np.array(losses, dtype=np.float16),
        "maps": np.rint(255 * np.stack(maps)).astype(np.uint8),
        "chances": np.rint(255 * np.stack(chances)).astype(np.uint8),
        "floor": np.array(lowest_loss()),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", metavar="PATH", type=Path, default=TARGET)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    recorded = record()
    source = {
        "model": "the two-block LanguageModel of chapters/language_model.md, trained on chants",
        "parameters": sum(p.numel() for p in new_model().parameters()),
        "seeds": "weights 1, texts 1, the text that is looked at 5",
        "batch": BATCH,
        "rate": RATE,
        "script": f"scripts/{Path(__file__).name}",
        "torch": torch.__version__.split("+")[0],
    }
    np.savez_compressed(options.output, provenance=np.array(json.dumps(source, indent=1)), **recorded)
    print(options.output, options.output.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
