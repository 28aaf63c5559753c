"""The model's file in pieces: one for each layer, the embedding in many, the tokenizer, the ends.

    manifest.json            the model's sizes, and name, bytes and SHA-256 of each piece
    layer-07-<hash>.bin      a layer: its matrices, packed as in the file (Q4_1), and its norms, in the order of LAYER
    embedding-031-<hash>.bin the rows of 256 tokens (Q8_0), so that a sentence can be read before the vocabulary is here
    ends-<hash>.bin          the last norm, then each head's mean output, for a head that is swapped for its mean
    tokenizer-<hash>.json    the vocabulary as the pairs that byte pair encoding joins

No number is changed: what the page computes is compared with what Python makes of the same file. Only the rows of W_q
and W_k move, from the order for interleaved rotary pairs to the order for half-split pairs, as in `smollm2.weights`.
A piece's name holds the beginning of its SHA-256, so a browser may keep it for good.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from attnlab import smollm2
from course.folder import ROOT
from live.sentences import SENTENCES

FOLDER = ROOT / "build" / "live"
MANIFEST = "manifest.json"
ROWS = 256  # of the embedding in one piece
LARGEST = 5_000_000  # bytes of a piece
KINDS = {0: "f32", 3: "q4_1", 8: "q8_0"}  # of the file, by its numbers
LAYER = [f"{name}.weight" for name in smollm2.IN_BLOCK]  # a layer's parameters, in the order in which they are kept


def write(folder: Path = FOLDER, path: Path | None = None, means: np.ndarray | None = None) -> Path:
    """Write the pieces and their manifest into a folder that is emptied first.

    path: the model's file; without it, the installed one
    means: each head's mean output, (layers, heads * d_head); without it, measured with PyTorch
    Raises smollm2.NoModel if there is no file.
    """
    tensors = {tensor.name: tensor for tensor in smollm2.reader(path).tensors}
    config = smollm2.config(path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def piece(name: str, content: bytes, suffix: str = ".bin") -> dict:
        if len(content) > LARGEST:
            raise ValueError(f"{name} has {len(content):,} bytes; a piece has at most {LARGEST:,}")
        digest = hashlib.sha256(content).hexdigest()
        file = f"{name}-{digest[:16]}{suffix}"
        (folder / file).write_bytes(content)
        return {"file": file, "bytes": len(content), "sha256": digest}

    embedding = tensors["token_embd.weight"]
    means = head_means(path) if means is None else means
    ends = [tensors["output_norm.weight"].data.astype("<f4").tobytes(), means.astype("<f4").tobytes()]
    manifest = {
        "model": "SmolLM2-135M-Instruct by HuggingFaceTB, Apache-2.0",
        "config": config,
        "tokenizer": piece("tokenizer", tokenizer(path), ".json"),
        "layer": [_described(name, tensors[f"blk.0.{theirs}.weight"]) for name, theirs in _named()],
        "layers": [
            piece(f"layer-{layer:02}", b"".join(_packed(tensors, layer, *names, config) for names in _named()))
            for layer in range(config["n_layers"])
        ],
        "embedding": _described("embedding.weight", embedding) | {"rows_per_piece": ROWS},
        "embeddings": [
            piece(f"embedding-{first // ROWS:03}", embedding.data[first : first + ROWS].tobytes())
            for first in range(0, config["vocab_size"], ROWS)
        ],
        "ends": piece("ends", b"".join(ends)),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return folder


def measure(folder: Path) -> tuple[int, int]:
    """How many pieces a folder holds, and their bytes together."""
    pieces = [path for path in folder.iterdir() if path.name != MANIFEST]
    return len(pieces), sum(path.stat().st_size for path in pieces)


def tokenizer(path: Path | None = None) -> bytes:
    """The first tokens in full, special ones and single bytes; each later token is two earlier ones, joined.

    The file lists the tokens that are joined in the order of their ids, which is also the order in which byte pair
    encoding prefers them: so a pair's place says which token it makes. Raises ValueError for a file without this order.
    """

    def setting(name):
        return smollm2.reader(path).get_field(f"tokenizer.ggml.{name}").contents()

    tokens, merges = setting("tokens"), [merge.split(" ") for merge in setting("merges")]
    known = {token: i for i, token in enumerate(tokens)}
    first = len(tokens) - len(merges)
    if [known[a + b] for a, b in merges] != list(range(first, len(tokens))):
        raise ValueError("the vocabulary is not in the order of its merges")
    pairs = [known[part] for merge in merges for part in merge]
    return json.dumps({"first": tokens[:first], "pairs": pairs}, separators=(",", ":")).encode()


def head_means(path: Path | None = None) -> np.ndarray:
    """Average each head's output before W_o over ordinary sentences: (layers, heads * d_head).

    The sentences, and the numbers, are those of the mean ablation in `attnlab.data.heads`.
    """
    from live import reference_model  # it loads PyTorch

    opened, text = smollm2.reader(path), smollm2.tokenizer(path)
    weight = functools.cache(reference_model.weight_reader(opened))
    sentences = [text.encode(sentence) for sentence in SENTENCES]
    return reference_model.mean_outputs(sentences, weight, reference_model.read_shape(opened)).flatten(1).numpy()


def _named():
    return zip(LAYER, smollm2.IN_BLOCK.values())


def _described(name: str, tensor) -> dict:
    """How the numbers of a matrix (rows, cols) or a norm (1, cols) are kept."""
    cols, rows = (*tensor.shape.tolist(), 1)[:2]
    return {"name": name, "kind": KINDS[int(tensor.tensor_type)], "rows": rows, "cols": cols}


def _packed(tensors: dict, layer: int, name: str, theirs: str, config: dict) -> bytes:
    """The bytes of one matrix or norm of a layer."""
    rows = tensors[f"blk.{layer}.{theirs}.weight"].data
    heads = {"attention.W_q.weight": config["n_heads"], "attention.W_k.weight": config["n_kv_heads"]}.get(name)
    if heads:
        each = rows.reshape(heads, -1, rows.shape[-1])
        rows = np.concatenate([each[:, ::2], each[:, 1::2]], axis=1)
    return np.ascontiguousarray(rows).tobytes()
