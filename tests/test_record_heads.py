"""The script that measures heads and takes them out. Its parts run on random weights; one test needs the model."""

import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from live import reference_model
from tests.small_llama import record_heads as script
from tests.small_llama import run_script, small_weights

# A small Llama with sizes that all differ: 3 layers, 4 heads on 2 key/value heads of width 6, model width 20, 5 tokens.
SHAPE = reference_model.Shape(n_layers=3, n_heads=4, n_kv_heads=2, base=1000.0, eps=1e-3)
D_HEAD, WIDTH, HIDDEN, VOCABULARY, IDS = 6, 20, 28, 11, [3, 0, 10, 7, 3]


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return small_weights(SHAPE, D_HEAD, WIDTH, HIDDEN, VOCABULARY)


def without_columns(weights, removed):
    """The same weights, where W_O does not read the removed heads: another way to take them out."""
    cut = {name: tensor.clone() for name, tensor in weights.items()}
    for layer, head in removed:
        cut[f"blk.{layer}.attn_output"][:, head * D_HEAD : (head + 1) * D_HEAD] = 0
    return cut


# Patterns.


def test_the_first_tokens_are_left_out_where_a_pattern_would_be_forced():
    ids = [5, 6, 7, 8, 9, 4]
    assert script.previous(ids) == [(2, 1), (3, 2), (4, 3), (5, 4)]
    assert script.first(ids) == [(4, 0), (5, 0)]
    assert script.itself(ids) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_a_duplicate_is_the_latest_earlier_occurrence_and_induction_looks_at_what_came_next_after_it():
    assert script.duplicate([5, 6, 5, 7, 5]) == [(2, 0), (4, 2)]
    assert script.induction([5, 6, 7, 5, 6, 7]) == [(3, 1), (4, 2), (5, 3)]
    assert script.induction([5, 6, 6, 8]) == []  # a token said twice in a row


def test_a_measure_is_the_mean_weight_over_its_pairs():
    weights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    measured = script.mean_weight(weights, [(2, 1), (3, 2)])
    assert measured.shape == (2, 3)
    torch.testing.assert_close(measured, weights.diagonal(-1, -2, -1)[..., 1:].mean(-1))


def test_a_head_that_always_looks_back_one_is_a_perfect_previous_token_head():
    weights = torch.zeros(1, 2, 6, 6)
    weights[0, 0, 0, 0] = 1
    weights[0, 0, range(1, 6), range(5)] = 1
    weights[0, 1] = torch.eye(6)
    assert script.mean_weight(weights, script.previous(list(range(6)))).tolist() == [[1, 0]]
    assert script.mean_weight(weights, script.itself(list(range(6)))).tolist() == [[0, 1]]


def test_random_sequences_are_different_ordinary_tokens_said_twice():
    sequences = script.random_twice(500)
    assert len(sequences) == script.N_SEQUENCES
    for ids in sequences:
        half, again = ids[: script.HALF], ids[script.HALF :]
        assert half == again
        assert len(set(half)) == script.HALF
        assert min(half) >= script.FIRST_ORDINARY_ID and max(half) < 500
    assert sequences[0] != sequences[1]
    assert script.random_twice(500) == sequences


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
    measured = script.measure(texts, run)
    once, twice = ("induction", "duplicate", "induction_phrase"), ("previous", "first", "self")
    assert {name: len(values) for name, values in measured.items()} == dict.fromkeys(once, 1) | dict.fromkeys(twice, 2)
    assert all(values.shape[1:] == (2, 3) for values in measured.values())
    assert len(calls) == 4  # no text is run twice


def test_heads_are_ranked_from_the_largest_and_ties_keep_the_order_of_the_model():
    heads = script.ranked(torch.tensor([[0.1, 0.9, 0.5], [0.5, 0.9, 0.2]]))
    assert heads == [(0, 1), (1, 1), (0, 2), (1, 0), (1, 2), (0, 0)]


# Taking heads out.


def test_a_head_that_is_out_is_a_head_that_w_o_does_not_read(weights):
    removals = [[(2, 1)], [], [(0, 3)], [(1, 0), (2, 2)], [(0, 0), (0, 1), (2, 3)], [(1, 2)]]
    keep = torch.stack([script.keep_all_but(removed, SHAPE) for removed in removals])
    found, _ = script.without(IDS, keep, weights.__getitem__, SHAPE)
    for logits, removed in zip(found, removals):
        expected, _, _ = reference_model.forward(IDS, without_columns(weights, removed).__getitem__, SHAPE)
        torch.testing.assert_close(logits, expected[-1], rtol=1e-10, atol=1e-10)


def test_what_the_other_heads_look_at_is_measured_with_a_head_out(weights):
    removals = [[(2, 1)], [], [(0, 3)], [(1, 0), (2, 2)]]
    keep = torch.stack([script.keep_all_but(removed, SHAPE) for removed in removals])
    pairs = [(2, 0), (4, 1)]
    _, looks = script.without(IDS, keep, weights.__getitem__, SHAPE, pairs=pairs)
    assert looks.shape == (4, 3, 4)
    for measured, removed in zip(looks, removals):
        _, attention, _ = reference_model.forward(IDS, without_columns(weights, removed).__getitem__, SHAPE)
        torch.testing.assert_close(measured, (attention[:, :, 2, 0] + attention[:, :, 4, 1]) / 2)


def test_a_head_can_be_replaced_by_a_vector_of_its_own(weights):
    generator = torch.Generator().manual_seed(2)
    fill = torch.randn(3, 4, 6, generator=generator, dtype=torch.float64)
    keep = script.keep_all_but([(1, 2)], SHAPE)[None]
    (found,), _ = script.without(IDS, keep, weights.__getitem__, SHAPE, fill)

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
    found = script.divergence(whole, other)
    expected = [F.kl_div(row.log_softmax(-1), whole.log_softmax(-1), reduction="sum", log_target=True) for row in other]
    torch.testing.assert_close(found, torch.stack(expected))
    assert script.divergence(whole, whole + 5.0) >= 0


def test_groups_are_the_strongest_heads_and_random_ones_that_overlap_with_none_of_them():
    generator = torch.Generator().manual_seed(4)
    measures = {name: torch.rand(10, 6, generator=generator) for name in script.MEASURES}
    groups = script.groups_of_heads(measures)
    assert groups["previous"] == script.ranked(measures["previous"])[:5]
    strongest = set().union(*(groups[name] for name in ("induction", "previous", "first", "self")))
    others = {name: heads for name, heads in groups.items() if name.startswith(("random ", "same layers "))}
    assert len(others) == 2 * script.N_RANDOM
    for heads in others.values():
        assert len(set(heads)) == 5
        assert not strongest & set(heads)
    for name in (f"same layers {number}" for number in range(1, script.N_RANDOM + 1)):
        assert sorted(layer for layer, _ in groups[name]) == sorted(layer for layer, _ in groups["induction"])
    assert script.groups_of_heads(measures) == groups


# The script as a whole.


@pytest.mark.slow
def test_the_script_reproduces_the_shipped_recording(tmp_path, smollm2_file):
    if os.environ.get("RECORD_AGAIN") != "1":
        pytest.skip("records every head again, which takes many minutes: set RECORD_AGAIN=1")
    done = run_script("record_heads", "--output", str(tmp_path / "again.npz"), timeout=1800)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "again.npz") as again, np.load(script.TARGET) as shipped:
        assert set(again.files) == set(shipped.files)
        for name in set(shipped.files) - {"provenance"}:
            if shipped[name].dtype.kind == "f":
                precision = 1e-3 if shipped[name].dtype == np.float16 else 1e-6
                np.testing.assert_allclose(again[name], shipped[name], rtol=0, atol=precision, err_msg=name)
            else:
                assert again[name].tolist() == shipped[name].tolist(), name
