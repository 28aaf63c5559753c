"""The script that recorded a real model's attention. Its parts run on random weights; one test needs the model."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from live import reference_model
from tests.references import llama_block, rotated
from tests.small_llama import record_attention as script
from tests.small_llama import record_heads, run_script, small_weights

# A small Llama with sizes that all differ: 2 layers, 6 heads on 3 key/value heads of width 8, model width 20, 5 tokens.
SHAPE = reference_model.Shape(n_layers=2, n_heads=6, n_kv_heads=3, base=1000.0, eps=1e-3)
D_HEAD, WIDTH, HIDDEN, VOCABULARY, IDS = 8, 20, 28, 11, [3, 0, 10, 7, 3]


def half_split(x):
    """Reorder neighbouring pairs (2i, 2i + 1) on the last axis to pairs (i, i + d/2), as Hugging Face stores them."""
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


def test_rotation_of_neighbouring_pairs_is_the_half_split_one_reordered():
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(
        half_split(reference_model.rotate(x, 1000.0)), rotated(half_split(x), torch.arange(5), 1000.0)
    )


def test_rotation_leaves_the_first_position_alone():
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    turned = reference_model.rotate(x, 1000.0)
    assert torch.equal(turned[:, 0], x[:, 0])
    assert not torch.isclose(turned[:, 1:], x[:, 1:]).any()


def test_rms_norm_is_pytorchs():
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    weight = torch.linspace(0.5, 2.0, 8, dtype=torch.float64)
    torch.testing.assert_close(reference_model.rms_norm(x, weight, 1e-3), F.rms_norm(x, (8,), weight, 1e-3))


def test_the_forward_pass_agrees_with_an_independent_one():
    weights = small_weights(SHAPE, D_HEAD, WIDTH, HIDDEN, VOCABULARY)
    logits, _, _ = reference_model.forward(IDS, weights.__getitem__, SHAPE)
    torch.testing.assert_close(logits, reference_logits(weights), rtol=1e-10, atol=1e-10)


def test_the_scores_are_scaled_and_the_weights_their_causal_softmax():
    weights = small_weights(SHAPE, D_HEAD, WIDTH, HIDDEN, VOCABULARY)
    _, attention, scores = reference_model.forward(IDS, weights.__getitem__, SHAPE)
    assert attention.shape == scores.shape == (2, 6, 5, 5)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    torch.testing.assert_close(scores.masked_fill(later, -torch.inf).softmax(-1), attention)
    # The first query is at position 0 and so not turned: its score with the first key is the plain scaled dot product.
    x = F.rms_norm(weights["token_embd"][IDS[:1]], (WIDTH,), weights["blk.0.attn_norm"], SHAPE.eps)
    q = (x @ weights["blk.0.attn_q"].T).view(6, 8)
    k = (x @ weights["blk.0.attn_k"].T).view(3, 8)
    plain = torch.stack([q[head] @ k[head // 2] for head in range(6)])
    torch.testing.assert_close(scores[0, :, 0, 0], plain / 8**0.5)


def test_saving_twice_gives_the_same_bytes_and_no_pickle(tmp_path):
    weights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for name in ("a.npz", "b.npz"):
        script.save(tmp_path / name, ["The", "CEO"], weights, -weights, 8)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert file["tokens"].tolist() == ["The", "CEO"]
        assert file["weights"].dtype == file["scores"].dtype == np.float32
        assert int(file["d_head"]) == 8


@pytest.mark.parametrize(
    "arguments, words",
    [(["--model", "wrong.gguf"], "SHA-256"), (["--model", "nowhere.gguf"], "no such model file"), ([], "make model")],
)
def test_another_file_and_a_missing_model_are_said_in_one_line(tmp_path, monkeypatch, arguments, words):
    monkeypatch.setenv("ATTNLAB_MODEL", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.gguf").write_bytes(b"GGUF, but not the right one")
    for recording in (script, record_heads):
        with pytest.raises(SystemExit, match=words) as stopped:
            recording.main([*arguments, "--output", "out.npz"])
        assert len(stopped.value.code.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.gguf"]


def test_as_a_program_it_prints_no_more_than_that_line(tmp_path):
    done = run_script("record_attention", "--model", str(tmp_path / "nowhere.gguf"))
    assert done.returncode != 0
    assert done.stderr == f"no such model file: {tmp_path / 'nowhere.gguf'}\n"


@pytest.mark.slow
def test_the_script_reproduces_the_shipped_recording(tmp_path, smollm2_file):
    done = run_script("record_attention", "--output", str(tmp_path / "again.npz"))
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "again.npz") as again, np.load(script.TARGET) as shipped:
        assert again["tokens"].tolist() == shipped["tokens"].tolist()
        np.testing.assert_allclose(again["weights"], shipped["weights"], rtol=0, atol=1e-6)
        np.testing.assert_allclose(again["scores"], shipped["scores"], rtol=1e-6, atol=1e-6)
