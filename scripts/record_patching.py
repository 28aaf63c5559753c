"""Record which head of SmolLM2-135M carries an answer, by activation patching, as attnlab/data/patching.npz.

Two texts differ in one word: "The capital of France is" and "The capital of Germany is". The model reads the first, but
one head gives what it gives for the second. How far do the logits move from " Paris" to " Berlin"? This is done for
every head, for eight countries in a ring, each with the next one as its donor, and for two questions.

    make model
    python scripts/record_patching.py              # writes the file, in some minutes

Everything is computed in float64 with the functions of record_attention.py, which share no code with the course's own
answers; a test patches some heads with those and compares.

Sources: Vig et al. 2020 (arXiv:2004.12265) and Meng et al. 2022 (arXiv:2202.05262) for the method; Heimersheim and
Nanda 2024 (arXiv:2404.15255) for what it shows and what it does not.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from live import reference_model
from scripts import recording

TARGET = recording.DATA / "patching.npz"
COUNTRIES = ["France", "Germany", "Italy", "Spain", "Japan", "China", "Greece", "Hungary"]
QUESTIONS = {
    "The capital of {} is": ["Paris", "Berlin", "Rome", "Madrid", "Tokyo", "Beijing", "Athens", "Budapest"],
    "The official language of {} is": [
        "French",
        "German",
        "Italian",
        "Spanish",
        "Japanese",
        "Chinese",
        "Greek",
        "Hungarian",
    ],
}
COUNTRY = -2  # its position in each text


def preference(logits: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """Logits (..., texts, vocabulary) -> (..., texts): that of the donor's answer minus that of the text's own."""
    texts = torch.arange(len(answers))
    return logits[..., texts, answers.roll(-1)] - logits[..., texts, answers]


def patched(ids: torch.Tensor, answers: torch.Tensor, weight, shape) -> dict[str, torch.Tensor]:
    """All heads in turn, on texts (texts, n): preferences, and the last token's weights on the country.

    A text with a patched head is the plain one up to the head's layer, so each layer's heads join there.
    """
    streams, gave, reads = [weight("token_embd")[ids]], [], []
    for layer in range(shape.n_layers):
        x, weights, _ = reference_model.block(
            streams[-1], weight, layer, shape, lambda found: gave.append(found) or found
        )
        streams.append(x)
        reads.append(weights[..., -1, COUNTRY])
    preferences = []
    for layer in range(shape.n_layers):

        def replace(found, layer=layer):
            for head in range(shape.n_heads):
                found[head, :, head] = gave[layer][:, head].roll(-1, dims=0)
            return found

        x = streams[layer].expand(shape.n_heads, -1, -1, -1)
        for further in range(layer, shape.n_layers):
            x, *_ = reference_model.block(x, weight, further, shape, replace if further == layer else None)
        preferences.append(preference(reference_model.read_out(x[:, :, -1], weight, shape), answers))
    logits = reference_model.read_out(streams[-1][:, -1], weight, shape)
    return {
        "probabilities": logits.softmax(-1)[torch.arange(len(answers)), answers],
        "plain": preference(logits, answers),
        "swapped": preference(logits.roll(-1, dims=0), answers),
        "patched": torch.stack(preferences),
        "reads": torch.stack(reads).movedim(1, -1),
    }


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, __doc__.splitlines()[0], TARGET)
    tokenizer, reader = smollm2.tokenizer(), smollm2.reader()
    weight, shape = functools.cache(reference_model.weight_reader(reader)), reference_model.read_shape(reader)
    found = []
    for question, answers in QUESTIONS.items():
        ids = torch.tensor([tokenizer.encode(question.format(country)) for country in COUNTRIES])
        answer_ids = torch.tensor([tokenizer.encode(f" {answer}") for answer in answers])
        assert answer_ids.shape == (len(COUNTRIES), 1), "each answer is one token"
        assert [tokenizer.decode([i]).strip() for i in ids[:, COUNTRY]] == COUNTRIES
        kept = patched(ids, answer_ids[:, 0], weight, shape)
        found.append({"ids": ids, "answer_ids": answer_ids[:, 0]} | {name: part.float() for name, part in kept.items()})
    arrays = {f"{name}_{i}": part.numpy() for i, kept in enumerate(found) for name, part in kept.items()}
    np.savez_compressed(
        options.output,
        questions=np.array(list(QUESTIONS)),
        countries=np.array(COUNTRIES),
        answers=np.array(list(QUESTIONS.values())),
        **arrays,
        provenance=np.array(recording.provenance(__file__, precision="computed in float64, kept in float32")),
    )
    print(options.output, options.output.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
