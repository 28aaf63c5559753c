"""SmolLM2-135M in float64, in plain functions that share no code with the solutions.

The recorded data of the chapters are made with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Shape:
    """The sizes and settings that the forward pass needs besides the weights."""

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
    """A function from a tensor's name to its float64 values (outputs, inputs), dequantized on demand."""
    from gguf import dequantize

    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def weight(name: str) -> torch.Tensor:
        tensor = tensors[f"{name}.weight"]
        return torch.tensor(dequantize(tensor.data, tensor.tensor_type), dtype=torch.float64)

    return weight


# Sizes: n tokens, h heads, g key/value heads, d the width of a head. A batch axis may come first.


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale each row of x (n, width) to root mean square one, then each column by its weight (width,)."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x: torch.Tensor, base: float) -> torch.Tensor:
    """RoPE on x (heads, n, d): at position p, turn the pair (2i, 2i + 1) by the angle p * base ** (-2i / d).

    GGUF keeps the rows of W_q and W_k in the order that fits these neighboring pairs. Hugging Face keeps the pairs
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
    # Neighboring query heads share one key/value head: 0, 1, 2 the first, 3, 4, 5 the second, and so on.
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


def mean_outputs(texts: list[list[int]], weight: Callable, shape: Shape) -> torch.Tensor:
    """Average each head's input to W_O over all positions of the texts but the first: (layers, h, d)."""
    outputs = []
    for ids in texts:
        x, seen = weight("token_embd")[ids], []

        def note(out):
            seen.append(out[:, 1:])
            return out

        for layer in range(shape.n_layers):
            x, _, _ = block(x, weight, layer, shape, note)
        outputs.append(torch.stack(seen))
    return torch.cat(outputs, dim=-2).mean(-2)
