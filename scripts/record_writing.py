"""Record how SmolLM2-135M writes, step by step, and keep it as attnlab/data/writing.npz.

`record_generation.py` keeps finished texts. This keeps what the pictures of the writing loop and of sampling need: at
every step of three short texts the most likely tokens, their probabilities and the one that was taken; and, for each
token that may follow one beginning, how the model continues from there.

    make model
    python scripts/record_writing.py              # writes the file, in a few minutes
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import data, smollm2
from scripts import recording
from solutions.kv_cache import KVCache
from solutions.language_model import LanguageModel, generate, sample

TARGET = recording.DATA / "writing.npz"
PROMPT, NEW, SHOWN = "Once upon a time", 14, 6
RUNS = [("greedy", 0.0, 0), ("drawn, seed 1", 0.8, 1), ("drawn, seed 2", 0.8, 2)]
BEGINNING = 1  # of the choices in generation.npz: the one whose every next token is continued
FURTHER = 14  # tokens after it at most


def steps(model, ids: list[int], temperature: float, seed: int):
    """Yields at each step (ids of the SHOWN tokens, their probabilities, the id taken), the likeliest token first.

    Probabilities are those of the draw; for greedy writing, those of temperature 1. A token that is taken although it
    is not among the likeliest takes the last place.
    """
    generator, caches = torch.Generator().manual_seed(seed), [KVCache() for _ in model.blocks]
    unread = torch.tensor([ids])
    for _ in range(NEW):
        logits = model(unread, caches)[0, -1]
        unread = sample(logits[None], temperature, generator=generator)[:, None]
        taken = int(unread)
        shares = (logits.double() / (temperature or 1)).softmax(-1)
        best = shares.topk(SHOWN).indices.tolist()
        if taken not in best:
            best[-1] = taken
        yield best, shares[best].tolist(), taken


def sentence(text: str) -> str:
    """Up to the end of the first sentence, on one line."""
    return re.split(r"(?<=[.!?])[\s\"”]", text.replace("\n", " "))[0].rstrip()


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, __doc__.splitlines()[0], TARGET)
    torch.set_num_threads(1)
    model, text = smollm2.load(LanguageModel), smollm2.tokenizer()
    prompt = text.encode(PROMPT)
    with torch.no_grad():
        runs = [list(steps(model, prompt, temperature, seed)) for _, temperature, seed in RUNS]
        choice = data.generation().choices[BEGINNING]
        given = text.encode(choice.prompt)
        likely = model(torch.tensor([given]))[0, -1].topk(len(choice.tokens)).indices
        assert [text.decode([i]) for i in likely.tolist()] == choice.tokens
        begun = torch.cat([torch.tensor([given]).expand(len(likely), -1), likely[:, None]], dim=1)
        texts = [generate(model, part, FURTHER) for part in begun.split(25)]
    continued = [sentence(text.decode(row[len(given) + 1 :])) for part in texts for row in part.tolist()]
    np.savez_compressed(
        options.output,
        prompt_ids=np.array(prompt),
        prompt_tokens=np.array([text.decode([i]) for i in prompt]),
        run_names=np.array([name for name, *_ in RUNS]),
        run_temperatures=np.array([temperature for _, temperature, _ in RUNS]),
        shown_tokens=np.array([[[text.decode([i]) for i in best] for best, _, _ in run] for run in runs]),
        shown_ids=np.array([[best for best, _, _ in run] for run in runs]),
        shares=np.array([[part for _, part, _ in run] for run in runs], dtype=np.float32),
        taken=np.array([[best.index(taken) for best, _, taken in run] for run in runs]),
        beginning=np.array(choice.prompt),
        next_tokens=np.array(choice.tokens),
        continuations=np.array(continued),
        provenance=np.array(recording.provenance(__file__, further=f"at most {FURTHER} tokens, greedily")),
    )
    print(options.output, options.output.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
