"""The recordings of a real model: each file is what its script makes, and says where its numbers come from.

The parts of the scripts run on random weights. Tests that record again need the model.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import gemma, smollm2
from course.folder import ROOT
from live import reference_model
from scripts import record_attention as attention
from scripts import record_heads as heads
from scripts import record_pronoun as pronoun
from scripts import record_stream as stream
from tests.references import llama_block

FILES = sorted((ROOT / "attnlab" / "data").glob("*.npz"))


def run_script(name: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


# The files.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recording_is_small_and_says_which_script_and_model_it_comes_from(path):
    assert path.stat().st_size < (200_000 if path.stem == "generation" else 300_000)  # for a page to load
    with np.load(path, allow_pickle=False) as file:
        source = json.loads(str(file["provenance"]))
    script = importlib.import_module(source["script"].removesuffix(".py").replace("/", "."))
    assert path in (script.TARGET, *script.TARGET.glob("small_*.npz"))
    assert not any(str(value).startswith(("/", "~", "\\")) for value in source.values())
    assert re.fullmatch(r"\d+\.\d+\.\d+", source.get("torch", "0.0.0"))
    if "sha256" in source:
        model = gemma if source["script"].endswith("gemma.py") else smollm2
        assert (source["package"], source["package_version"]) == (model.PACKAGE, model.VERSION)
        assert (source["file"], source["sha256"]) == (model.FILE_NAME, model.SHA256)
        origin = (source["model"], source["licence"], source["quantisation"].partition(" ")[0])
        assert origin == (
            ("google/gemma-3-270m", f"Gemma Terms of Use, {gemma.TERMS}", "Q4_K,")
            if model is gemma
            else ("HuggingFaceTB/SmolLM2-135M-Instruct", "Apache-2.0", "Q4_1")
        )


# Relative and absolute tolerance of each array, by its name and type.
TOLERANCES = {
    attention: lambda name, kind: (1e-6 if name == "scores" else 0, 1e-6),
    heads: lambda name, kind: (0, 1e-3 if kind == np.float16 else 1e-6),
    pronoun: lambda name, kind: (0, 1e-3 if kind == np.float16 else 1e-6),
    stream: lambda name, kind: (0, 1) if name == "stream" else (1e-3, 1e-5),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", TOLERANCES, ids=lambda script: script.__name__)
def test_the_script_reproduces_the_shipped_recording(tmp_path, smollm2_file, script):
    if script is heads and os.environ.get("RECORD_AGAIN") != "1":
        pytest.skip("records every head again, which takes many minutes: set RECORD_AGAIN=1")
    done = run_script(script.__name__.partition(".")[2], "--output", str(tmp_path / "again.npz"), timeout=1800)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "again.npz") as again, np.load(script.TARGET) as shipped:
        assert set(again.files) == set(shipped.files)
        for key in set(shipped.files) - {"provenance"}:
            made, kept = again[key], shipped[key]
            if kept.dtype.kind == "f" or key == "stream":
                rtol, atol = TOLERANCES[script](key, kept.dtype)
                np.testing.assert_allclose(made.astype(float), kept.astype(float), rtol=rtol, atol=atol, err_msg=key)
            else:
                assert made.tolist() == kept.tolist(), key


@pytest.mark.parametrize(
    "arguments, words",
    [(["--model", "wrong.gguf"], "SHA-256"), (["--model", "nowhere.gguf"], "no such model file"), ([], "make model")],
)
def test_another_file_and_a_missing_model_are_said_in_one_line(tmp_path, monkeypatch, arguments, words):
    monkeypatch.setenv("ATTNLAB_MODEL", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.gguf").write_bytes(b"GGUF, but not the right one")
    for recording in (attention, heads):
        with pytest.raises(SystemExit, match=words) as stopped:
            recording.main([*arguments, "--output", "out.npz"])
        assert len(stopped.value.code.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.gguf"]


def test_as_a_program_it_prints_no_more_than_that_line(tmp_path):
    done = run_script("record_attention", "--model", str(tmp_path / "nowhere.gguf"))
    assert done.returncode != 0
    assert done.stderr == f"no such model file: {tmp_path / 'nowhere.gguf'}\n"


# The model, on a small Llama with sizes that all differ: 3 layers, 4 heads on 2 key/value heads, 5 tokens.

SHAPE = reference_model.Shape(n_layers=3, n_heads=4, n_kv_heads=2, base=1000.0, eps=1e-3)
D_HEAD, WIDTH, HIDDEN, VOCABULARY, IDS = 6, 20, 28, 11, [3, 0, 10, 7, 3]


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """Random weights in float64, named as in the model's file."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64) / size[-1] ** 0.5

    queries, keys = SHAPE.n_heads * D_HEAD, SHAPE.n_kv_heads * D_HEAD
    sizes = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (queries, WIDTH), "attn_output": (WIDTH, queries)}
    sizes |= {"attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH)}
    sizes |= {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
    made = {"token_embd": draw(VOCABULARY, WIDTH), "output_norm": 1 + draw(WIDTH)}
    for layer in range(SHAPE.n_layers):
        made |= {f"blk.{layer}.{name}": 3 * draw(*size) for name, size in sizes.items()}
    return made


def half_split(x):
    """Reorder neighboring pairs (2i, 2i + 1) on the last axis to pairs (i, i + d/2), as Hugging Face stores them."""
    return torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)


NAMES = {"norm_1": "attn_norm", "norm_2": "ffn_norm", "attention.W_o": "attn_output"}
NAMES |= {f"attention.W_{role}": f"attn_{role}" for role in "qkv"}
NAMES |= {f"feed_forward.W_{part}": f"ffn_{part}" for part in ("gate", "up", "down")}


def reference_logits(weights):
    """The small model once more, by other means: half-split RoPE and PyTorch's fused attention and RMSNorm."""

    def weight(name, layer):
        found = weights[f"blk.{layer}.{NAMES[name]}"]
        if name not in ("attention.W_q", "attention.W_k"):
            return found
        return half_split(found.unflatten(0, (-1, D_HEAD)).mT).mT.flatten(0, 1)

    x = weights["token_embd"][IDS][None]
    for layer in range(SHAPE.n_layers):
        x = llama_block(x, lambda name: weight(name, layer), SHAPE.n_heads, SHAPE.n_kv_heads, SHAPE.base, SHAPE.eps)
    return F.rms_norm(x[0], (WIDTH,), weights["output_norm"], SHAPE.eps) @ weights["token_embd"].T


def test_the_forward_pass_agrees_with_an_independent_one(weights):
    logits, _, _ = reference_model.forward(IDS, weights.__getitem__, SHAPE)
    torch.testing.assert_close(logits, reference_logits(weights), rtol=1e-10, atol=1e-10)


def test_the_scores_are_scaled_and_the_weights_their_causal_softmax(weights):
    _, shares, scores = reference_model.forward(IDS, weights.__getitem__, SHAPE)
    assert shares.shape == scores.shape == (3, 4, 5, 5)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    torch.testing.assert_close(scores.masked_fill(later, -torch.inf).softmax(-1), shares)
    # The first query is at position 0 and so not turned: its score with the first key is the plain scaled dot product.
    x = F.rms_norm(weights["token_embd"][IDS[:1]], (WIDTH,), weights["blk.0.attn_norm"], SHAPE.eps)
    q = (x @ weights["blk.0.attn_q"].T).view(4, D_HEAD)
    k = (x @ weights["blk.0.attn_k"].T).view(2, D_HEAD)
    plain = torch.stack([q[head] @ k[head // 2] for head in range(4)])
    torch.testing.assert_close(scores[0, :, 0, 0], plain / D_HEAD**0.5)


# The attention.


def test_saving_twice_gives_the_same_bytes_and_no_pickle(tmp_path):
    weights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for name in ("a.npz", "b.npz"):
        attention.save(tmp_path / name, ["The", "CEO"], weights, -weights, 8)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert file["tokens"].tolist() == ["The", "CEO"]
        assert file["weights"].dtype == file["scores"].dtype == np.float32
        assert int(file["d_head"]) == 8


def without_columns(weights, removed):
    """The same weights, where W_O does not read the removed heads: another way to take them out."""
    cut = {name: tensor.clone() for name, tensor in weights.items()}
    for layer, head in removed:
        cut[f"blk.{layer}.attn_output"][:, head * D_HEAD : (head + 1) * D_HEAD] = 0
    return cut


# The heads: patterns.


def test_the_first_tokens_are_left_out_where_a_pattern_would_be_forced():
    ids = [5, 6, 7, 8, 9, 4]
    assert heads.previous(ids) == [(2, 1), (3, 2), (4, 3), (5, 4)]
    assert heads.first(ids) == [(4, 0), (5, 0)]
    assert heads.itself(ids) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_a_duplicate_is_the_latest_occurrence_and_induction_looks_at_the_token_after_it():
    assert heads.duplicate([5, 6, 5, 7, 5]) == [(2, 0), (4, 2)]
    assert heads.induction([5, 6, 7, 5, 6, 7]) == [(3, 1), (4, 2), (5, 3)]
    assert heads.induction([5, 6, 6, 8]) == []  # a token said twice in a row


def test_a_measure_is_the_mean_weight_over_its_pairs():
    weights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    measured = heads.mean_weight(weights, [(2, 1), (3, 2)])
    assert measured.shape == (2, 3)
    torch.testing.assert_close(measured, weights.diagonal(-1, -2, -1)[..., 1:].mean(-1))


def test_random_sequences_are_different_ordinary_tokens_said_twice():
    sequences = heads.random_twice(500)
    assert len(sequences) == heads.N_SEQUENCES
    for ids in sequences:
        half, again = ids[: heads.HALF], ids[heads.HALF :]
        assert half == again
        assert len(set(half)) == heads.HALF
        assert min(half) >= heads.FIRST_ORDINARY_ID and max(half) < 500
    assert sequences[0] != sequences[1]
    assert heads.random_twice(500) == sequences


def test_each_measure_is_taken_over_the_texts_it_names():
    calls = []

    def run(ids):
        calls.append(ids)
        return torch.full((2, 3, len(ids), len(ids)), 1.0 / len(ids))

    texts = {
        "sentences": [[1, 2, 3, 4, 5], [6, 7, 8, 9, 1, 2]],
        "random": [[1, 2, 1, 2]],
        "twice": [[3, 4, 5, 3, 4, 5]],
    }
    measured = heads.measure(texts, run)
    once, twice = ("induction", "duplicate", "induction_phrase"), ("previous", "first", "self")
    assert {name: len(values) for name, values in measured.items()} == dict.fromkeys(once, 1) | dict.fromkeys(twice, 2)
    assert all(values.shape[1:] == (2, 3) for values in measured.values())
    assert len(calls) == 4  # no text is run twice


def test_heads_are_ranked_from_the_largest_and_ties_keep_the_order_of_the_model():
    found = heads.ranked(torch.tensor([[0.1, 0.9, 0.5], [0.5, 0.9, 0.2]]))
    assert found == [(0, 1), (1, 1), (0, 2), (1, 0), (1, 2), (0, 0)]


# Taking heads out.


def test_a_head_that_is_out_is_a_head_that_w_o_does_not_read(weights):
    removals = [[(2, 1)], [], [(0, 3)], [(1, 0), (2, 2)], [(0, 0), (0, 1), (2, 3)], [(1, 2)]]
    keep = torch.stack([heads.keep_all_but(removed, SHAPE) for removed in removals])
    found, _ = heads.without(IDS, keep, weights.__getitem__, SHAPE)
    for logits, removed in zip(found, removals):
        expected, _, _ = reference_model.forward(IDS, without_columns(weights, removed).__getitem__, SHAPE)
        torch.testing.assert_close(logits, expected[-1], rtol=1e-10, atol=1e-10)


def test_weights_of_the_other_heads_are_measured_with_a_head_out(weights):
    removals = [[(2, 1)], [], [(0, 3)], [(1, 0), (2, 2)]]
    keep = torch.stack([heads.keep_all_but(removed, SHAPE) for removed in removals])
    pairs = [(2, 0), (4, 1)]
    _, looks = heads.without(IDS, keep, weights.__getitem__, SHAPE, pairs=pairs)
    assert looks.shape == (4, 3, 4)
    for measured, removed in zip(looks, removals):
        _, attention, _ = reference_model.forward(IDS, without_columns(weights, removed).__getitem__, SHAPE)
        torch.testing.assert_close(measured, (attention[:, :, 2, 0] + attention[:, :, 4, 1]) / 2)


def test_a_head_can_be_replaced_by_a_vector_of_its_own(weights):
    generator = torch.Generator().manual_seed(2)
    fill = torch.randn(3, 4, 6, generator=generator, dtype=torch.float64)
    keep = heads.keep_all_but([(1, 2)], SHAPE)[None]
    (found,), _ = heads.without(IDS, keep, weights.__getitem__, SHAPE, fill)

    # By hand: W_O does not read head 2 of layer 1, and what it would make of the vector is added as a bias.
    cut = without_columns(weights, [(1, 2)])
    bias = weights["blk.1.attn_output"][:, 12:18] @ fill[1, 2]
    x = cut["token_embd"][IDS]
    for layer in range(3):
        normed = F.rms_norm(x, (WIDTH,), cut[f"blk.{layer}.attn_norm"], SHAPE.eps)
        x = x + reference_model.attend(normed, cut.__getitem__, layer, SHAPE)[0] + (bias if layer == 1 else 0)
        normed = F.rms_norm(x, (WIDTH,), cut[f"blk.{layer}.ffn_norm"], SHAPE.eps)
        x = x + reference_model.feed_forward(normed, cut.__getitem__, layer)
    torch.testing.assert_close(found, reference_model.read_out(x[-1], cut.__getitem__, SHAPE), rtol=1e-10, atol=1e-10)


def test_the_mean_output_of_a_head_leaves_the_first_position_out(weights):
    texts = [[3, 0, 10], [7, 3, 1, 2]]
    usual = reference_model.mean_outputs(texts, weights.__getitem__, SHAPE)
    assert usual.shape == (3, 4, 6)
    # Layer 0 by hand: weights times values, one row per position.
    rows = []
    for ids in texts:
        x = F.rms_norm(weights["token_embd"][ids], (WIDTH,), weights["blk.0.attn_norm"], SHAPE.eps)
        _, attention, _ = reference_model.attend(x, weights.__getitem__, 0, SHAPE)
        v = (x @ weights["blk.0.attn_v"].T).view(len(ids), 2, D_HEAD)
        rows += [torch.stack([attention[head, i] @ v[:, head // 2] for head in range(4)]) for i in range(1, len(ids))]
    torch.testing.assert_close(usual[0], torch.stack(rows).mean(0))


def test_the_divergence_is_pytorchs_and_never_negative():
    generator = torch.Generator().manual_seed(3)
    whole = torch.randn(7, generator=generator, dtype=torch.float64)
    other = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    found = heads.divergence(whole, other)
    expected = [F.kl_div(row.log_softmax(-1), whole.log_softmax(-1), reduction="sum", log_target=True) for row in other]
    torch.testing.assert_close(found, torch.stack(expected))
    assert heads.divergence(whole, whole + 5.0) >= 0


def test_groups_are_the_strongest_heads_and_random_ones_that_overlap_with_none_of_them():
    generator = torch.Generator().manual_seed(4)
    measures = {name: torch.rand(10, 6, generator=generator) for name in heads.MEASURES}
    groups = heads.groups_of_heads(measures)
    assert groups["previous"] == heads.ranked(measures["previous"])[:5]
    strongest = set().union(*(groups[name] for name in ("induction", "previous", "first", "self")))
    others = {name: chosen for name, chosen in groups.items() if name.startswith(("random ", "same layers "))}
    assert len(others) == 2 * heads.N_RANDOM
    for chosen in others.values():
        assert len(set(chosen)) == 5
        assert not strongest & set(chosen)
    for name in (f"same layers {number}" for number in range(1, heads.N_RANDOM + 1)):
        assert sorted(layer for layer, _ in groups[name]) == sorted(layer for layer, _ in groups["induction"])
    assert heads.groups_of_heads(measures) == groups


# The stream.


@pytest.fixture(scope="module")
def lm(weights):
    return heads.Model(tokenizer=None, weight=weights.__getitem__, shape=SHAPE)


def test_every_second_state_is_what_a_block_makes_of_the_one_before(lm):
    states, looks = stream.run(lm, IDS)
    x = lm.weight("token_embd")[IDS]
    torch.testing.assert_close(states[0], x[-1])
    for layer in range(SHAPE.n_layers):
        x, expected, _ = reference_model.block(x, lm.weight, layer, SHAPE)
        torch.testing.assert_close(states[2 * layer + 2], x[-1])
        torch.testing.assert_close(looks[layer], expected)


def test_the_last_state_gives_the_logits_of_the_whole_model(lm):
    states, _ = stream.run(lm, IDS)
    logits, *_ = reference_model.forward(IDS, lm.weight, SHAPE)
    torch.testing.assert_close(reference_model.read_out(states[-1:], lm.weight, SHAPE)[0], logits[-1])
