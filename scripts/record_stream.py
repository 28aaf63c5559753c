"""Record the residual stream of SmolLM2-135M at the last token of two texts, as attnlab/data/stream.npz.

A block adds to the stream twice: what its attention gives, and what its feed-forward network gives. After each sum the
numbers of the last token are kept. After each block they also go through the model's last norm and its readout, as if
the blocks above were not there: that is what the model would say at this depth (the "logit lens").

    make model
    python scripts/record_stream.py              # writes the file
    python scripts/record_stream.py --verify     # compares it with an independent implementation instead

The model, its file and the code that runs it are those of record_attention.py. Everything is computed in float64.

Source: nostalgebraist 2020 (interpreting GPT: the logit lens) for reading the stream between blocks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from live import reference_model
from live.sentences import SENTENCE
from scripts import record_heads, recording

TARGET = recording.DATA / "stream.npz"
PROMPTS = [
    ("The capital of France is", " Paris"),
    (f"{SENTENCE}. The CEO announced", " record"),
]
N_TOP = 4
STEP = 1 / 16  # of the root mean square of a token's numbers: the grid on which they are kept


def run(lm: record_heads.Model, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The last token's stream (2 * layers + 1, width), at first and after each sum; weights (layers, h, n, n)."""
    x = lm.weight("token_embd")[ids]
    stream, weights = [x[-1]], []
    for layer in range(lm.shape.n_layers):
        norm = lm.weight(f"blk.{layer}.attn_norm")
        read, looks, _ = reference_model.attend(
            reference_model.rms_norm(x, norm, lm.shape.eps), lm.weight, layer, lm.shape
        )
        x = x + read
        stream.append(x[-1])
        norm = lm.weight(f"blk.{layer}.ffn_norm")
        x = x + reference_model.feed_forward(reference_model.rms_norm(x, norm, lm.shape.eps), lm.weight, layer)
        stream.append(x[-1])
        weights.append(looks)
    return torch.stack(stream), torch.stack(weights)


def record(lm: record_heads.Model) -> dict[str, np.ndarray]:
    """All arrays of the file. attnlab/data/__init__.py says what they mean."""
    arrays: dict[str, list] = {
        name: [] for name in ("stream", "rms", "added", "words", "probabilities", "answer_probabilities")
    }
    for prompt, answer in PROMPTS:
        (answer_id,) = lm.ids(answer)
        stream, weights = run(lm, lm.ids(prompt))
        if not arrays["stream"]:
            first = weights.numpy().astype(np.float16)
        rms = (stream * stream).mean(-1).sqrt()
        kept = (stream / rms[:, None] / STEP).round().clamp(-127, 127)
        said = reference_model.read_out(stream[::2], lm.weight, lm.shape).softmax(-1)
        top = said.topk(N_TOP)
        arrays["stream"].append(kept.numpy().astype(np.int8))
        arrays["rms"].append(rms.numpy().astype(np.float32))
        arrays["added"].append(stream.diff(dim=0).norm(dim=-1).numpy().astype(np.float32))
        arrays["words"].append([[record_heads.next_token(lm.tokenizer, int(i)) for i in row] for row in top.indices])
        arrays["probabilities"].append(top.values.numpy().astype(np.float32))
        arrays["answer_probabilities"].append(said[:, answer_id].numpy().astype(np.float32))
    return {
        "prompts": np.array([prompt for prompt, _ in PROMPTS]),
        "answers": np.array([answer.strip() for _, answer in PROMPTS]),
        "first_tokens": np.array(lm.tokens(PROMPTS[0][0])),
        "first_weights": first,
        "step": np.array(STEP),
        **{name: np.array(values) for name, values in arrays.items()},
        "provenance": np.array(
            recording.provenance(
                __file__,
                precision="computed in float64; the stream kept in sixteenths of its root mean square, up to 127 of "
                "them, the weights in float16, the rest in float32",
                lens="the last norm and the readout, applied to the stream after each block",
            )
        ),
    }


def verify(target: Path) -> None:
    """Compare size and words of the stream with what `transformers` makes of the same model file."""
    tokenizer, theirs = recording.from_transformers(attn_implementation="eager")
    with np.load(target, allow_pickle=False) as file:
        recorded = dict(file)
    worst = 0.0
    for p, (prompt, _) in enumerate(PROMPTS):
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            hidden = theirs(ids, output_hidden_states=True).hidden_states
        for depth in range(len(hidden) - 1):  # the last one has gone through the last norm
            token = hidden[depth][0, -1].double()
            rms = float((token * token).mean().sqrt())
            worst = max(worst, abs(rms / recorded["rms"][p, 2 * depth] - 1))
            with torch.no_grad():
                best = int(theirs.lm_head(theirs.model.norm(token.float())).argmax())
            word, ours = record_heads.next_token(tokenizer, best), recorded["words"][p, depth].tolist()
            if word not in ours[:2]:
                sys.exit(f"{prompt!r}, depth {depth}: transformers says {word!r}, the recording {ours}")
    print(f"largest relative difference of a root mean square: {worst:.1e}")
    if worst > 1e-3:
        sys.exit("the recording does not agree with transformers")


def main(arguments: list[str] | None = None) -> None:
    options = recording.parse(arguments, "Record the residual stream of SmolLM2-135M at the last token.", TARGET)
    if options.verify:
        return verify(options.output)
    arrays = record(record_heads.Model.read())
    np.savez_compressed(options.output, **arrays)  # equal arrays give equal bytes: the file holds no time
    for p, (prompt, _) in enumerate(PROMPTS):
        print(prompt, "->", " ".join(arrays["words"][p][:, 0]))
    print(f"{options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
