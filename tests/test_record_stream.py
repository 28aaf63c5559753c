"""The script that records the residual stream. It runs on random weights; one test needs the model."""

import importlib

import numpy as np
import pytest
import torch

from live import reference_model
from tests.small_llama import record_heads, run_script, small_weights

script = importlib.import_module("record_stream")  # found once the others are

SHAPE = reference_model.Shape(n_layers=3, n_heads=4, n_kv_heads=2, base=1000.0, eps=1e-3)
IDS = [3, 0, 10, 7, 3]


@pytest.fixture(scope="module")
def lm():
    weights = small_weights(SHAPE, 6, 20, 28, 11)
    return record_heads.Model(tokenizer=None, weight=weights.__getitem__, shape=SHAPE)


def test_every_second_state_is_what_a_block_makes_of_the_one_before(lm):
    stream, weights = script.run(lm, IDS)
    x = lm.weight("token_embd")[IDS]
    torch.testing.assert_close(stream[0], x[-1])
    for layer in range(SHAPE.n_layers):
        x, looks, _ = reference_model.block(x, lm.weight, layer, SHAPE)
        torch.testing.assert_close(stream[2 * layer + 2], x[-1])
        torch.testing.assert_close(weights[layer], looks)


def test_the_last_state_gives_the_logits_of_the_whole_model(lm):
    stream, _ = script.run(lm, IDS)
    logits, *_ = reference_model.forward(IDS, lm.weight, SHAPE)
    torch.testing.assert_close(reference_model.read_out(stream[-1:], lm.weight, SHAPE)[0], logits[-1])


@pytest.mark.slow
def test_the_script_reproduces_the_shipped_recording(tmp_path, smollm2_file):
    done = run_script("record_stream", "--output", str(tmp_path / "again.npz"), timeout=600)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "again.npz") as again, np.load(script.TARGET) as shipped:
        assert set(again.files) == set(shipped.files)
        for name in set(again.files) - {"provenance"}:
            if again[name].dtype.kind == "f":
                np.testing.assert_allclose(again[name], shipped[name], rtol=1e-3, atol=1e-5, err_msg=name)
            elif name == "stream":
                assert (abs(again[name].astype(int) - shipped[name]) <= 1).all()
            else:
                assert np.array_equal(again[name], shipped[name]), name
