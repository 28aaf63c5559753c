"""Record how the heads of SmolLM2-135M read a text of 128 tokens, and keep it as attnlab/data/long_text.npz.

The chapter on efficient attention asks what is lost when a token reads only its neighbors, or only a sum. This keeps
the weight of all 270 heads by distance, and for five of them the queries, keys and values themselves, from which the
notebook computes everything else.

    make model
    python scripts/record_long_text.py              # writes the file, in half a minute
    python scripts/record_long_text.py --verify     # compares the weights with another program's instead

The five heads are picked by the measures in attnlab/data/heads.npz and not by eye: the first in the ranking of
"previous", "first", "self" and "induction", and the one in the middle of the ranking of "first".
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import data, smollm2
from live import reference_model
from scripts import recording
from solutions.language_model import LanguageModel
from solutions.multi_head import split_heads
from solutions.rope import apply_rope

TARGET = recording.DATA / "long_text.npz"
LENGTH = 128
TEXT = """The CEO announced record earnings on Friday. Three reporters had waited in the rain since seven, and the one
from the local paper had forgotten her umbrella. Inside, the coffee was cold and the chairs were wet. "We sold more
boats than ever," said the CEO, "and most of them went north." Nobody asked why. The reporter from the local paper
looked at the map behind him: a blue line ran from the harbour to a small island, and next to the island somebody had
written the word soon. She asked about the island. The CEO smiled, put away his notes and said that the rain had
stopped. On Saturday the paper carried two lines about earnings and a long story about an island."""


def read(model, ids: list[int]) -> list[tuple[torch.Tensor, ...]]:
    """Per layer: rotated queries, rotated keys and values, each (heads, n, d_head); key heads are repeated."""
    seen, hooks = [], []
    for block in model.blocks:
        found = {}
        seen.append(found)
        for name in ("W_q", "W_k", "W_v"):
            hooks.append(
                getattr(block.attention, name).register_forward_hook(
                    lambda module, given, out, name=name, found=found: found.update({name: out})
                )
            )
    model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    settings, layers, places = smollm2.config(), [], torch.arange(len(ids))
    n_heads, n_kv_heads = settings["n_heads"], settings["n_kv_heads"]
    for found in seen:
        q, k, v = (
            split_heads(found[name], heads)[0]
            for name, heads in (("W_q", n_heads), ("W_k", n_kv_heads), ("W_v", n_kv_heads))
        )
        q, k = (apply_rope(x, places, settings["base"]) for x in (q, k))
        layers.append((q, *(x.repeat_interleave(n_heads // n_kv_heads, dim=0) for x in (k, v))))
    return layers


def weights_of(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Causal attention weights (heads, n, n)."""
    later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf).softmax(-1)


def by_distance(weights: torch.Tensor) -> torch.Tensor:
    """(heads, n / 2): the mean weight that a query in the second half of the text gives to each distance."""
    half = weights.shape[-1] // 2
    rows = [weights[:, i, i - half + 1 : i + 1].flip(-1) for i in range(half, 2 * half)]
    return torch.stack(rows).mean(0)


def chosen() -> dict[str, tuple[int, int]]:
    """The measure that a head is chosen by -> (layer, head)."""
    heads = data.heads()
    found = {name: heads.ranked(name)[0][:2] for name in ("previous", "first", "self", "induction")}
    ranking = heads.ranked("first")
    return found | {"ordinary": ranking[len(ranking) // 2][:2]}


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Record how the heads of SmolLM2-135M read a text of 128 tokens.", TARGET)
    text = smollm2.tokenizer()
    ids = text.encode(TEXT.replace("\n", " "))[:LENGTH]
    assert len(ids) == LENGTH, f"the text has {len(ids)} tokens only"
    with torch.no_grad():
        layers = read(smollm2.load(LanguageModel), ids)
        weights = torch.stack([weights_of(q, k) for q, k, _ in layers])
    if options.verify:
        file = smollm2.reader()
        _, theirs, _ = reference_model.forward(
            ids, reference_model.weight_reader(file), reference_model.read_shape(file)
        )
        print(f"largest difference of a weight: {(weights - theirs).abs().max():.1e}")
        return
    heads = chosen()
    rows = [[layers[layer][part][head] for layer, head in heads.values()] for part in range(3)]
    queries, keys, values = (torch.stack(part).half().numpy() for part in rows)
    half = LENGTH // 2
    np.savez_compressed(
        options.output,
        tokens=np.array([text.decode([i]).strip() or "(newline)" for i in ids]),
        by_distance=torch.stack([by_distance(layer) for layer in weights]).half().numpy(),
        on_first=weights[:, :, half:, 0].mean(-1).float().numpy(),
        names=np.array(list(heads)),
        heads=np.array(list(heads.values())),
        queries=queries,
        keys=keys,
        values=values,
        provenance=recording.provenance(__file__, text=text.decode(ids)),
    )
    print(f"{options.output.name}: {options.output.stat().st_size:,} bytes; heads {heads}")


if __name__ == "__main__":
    main()
