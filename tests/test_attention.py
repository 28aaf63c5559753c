"""Facts that the attention chapter states, and the words of its references' errors."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import data
from solutions.attention import attention_weights, project_qkv, scaled_dot_product_attention, self_attention
from tests.references import CAT_SAT

SEED = 30_031
close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "answer, shapes, words",
    [
        (project_qkv, ((5, 2), (4, 2), (4, 2)), r"W_q.*\(5, 2\).*width 4"),
        (project_qkv, ((4, 2), (5, 2), (4, 2)), r"W_k.*\(5, 2\).*width 4"),
        (project_qkv, ((4, 2), (4, 2), (5, 2)), r"W_v.*\(5, 2\).*width 4"),
        (project_qkv, ((4, 4), (4, 4), (2, 4, 4)), "W_v"),
        (scaled_dot_product_attention, ((5, 3), (5, 2)), "width 4.*width 3"),
        (scaled_dot_product_attention, ((5, 4), (6, 2)), "5 keys.*6 values"),
        (attention_weights, ((5, 1),), "width 4.*width 1"),
    ],
)
def test_sizes_that_do_not_fit_are_named(answer, shapes, words):
    with pytest.raises(ValueError, match=words):
        answer(np.ones((3, 4)), *map(np.ones, shapes))


def test_without_any_key_the_output_is_zero():
    output, weights = scaled_dot_product_attention(np.ones((3, 4)), np.ones((0, 4)), np.ones((0, 2)))
    assert weights.shape == (3, 0) and np.array_equal(output, np.zeros((3, 2)))


# the chapter's facts


def test_the_chapter_s_pytorch_module_does_the_same(rng):
    chapter = (Path(__file__).parent.parent / "chapters" / "attention.md").read_text("utf-8")
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", chapter, re.DOTALL | re.MULTILINE).group(1), names)
    module = names["SelfAttention"](6, 4).double()
    x, mask = rng.normal(size=(2, 3, 6)), np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    W = [layer.weight.detach().numpy().T for layer in (module.query, module.key, module.value)]
    output = module(torch.from_numpy(x), torch.from_numpy(mask)).detach().numpy()
    close(output, self_attention(x, *W, mask)[0])


def test_the_third_of_three_tokens_is_1_000_and_1_248():
    Q = K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    output, weights = scaled_dot_product_attention(Q, K, np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]]))
    assert np.round(weights[2], 3).tolist() == [0.248, 0.248, 0.503]
    assert [f"{value:.3f}" for value in output[2]] == ["1.000", "1.248"]


def test_the_cat_sat_agrees_with_the_paper_calculation():
    output, weights = self_attention(np.array(CAT_SAT), np.eye(4), np.eye(4), np.eye(4))
    e = np.exp([0.5, 0.5, 1.0])
    close(weights[2], e / e.sum())
    assert np.round(weights[2], 3).tolist() == [0.274, 0.274, 0.452]
    assert np.round(output[2], 3).tolist() == [0.726, 0.726, 0.274, 0.274]


def test_with_the_hand_made_projections_sat_reads_mostly_from_cat():
    W_q = np.array([[1, 0], [1, 0], [-1, 0], [-1, 1]])
    W_k = np.array([[0, 0], [0, 0], [0, 1], [1, 0]])
    weights = self_attention(np.array(CAT_SAT), W_q, W_k, np.eye(4))[1]
    assert weights[2].argmax() == 1 and weights[1].argmax() == 0
    close(weights[0], np.full(3, 1 / 3))


@pytest.mark.parametrize("width", [64, 1024])
def test_dividing_by_the_root_of_the_width_makes_the_width_matter_no_more(rng, width):
    keys = rng.normal(size=(400, 8, width))
    scores = np.einsum("qd,qkd->qk", rng.normal(size=(400, width)), keys)
    largest = {
        name: np.median(torch.softmax(torch.from_numpy(scores / scale), dim=-1).numpy().max(axis=-1))
        for name, scale in [("none", 1.0), ("root", width**0.5), ("width", float(width))]
    }
    assert largest["none"] > 0.9
    assert 0.3 < largest["root"] < 0.4
    assert largest["width"] < 0.16


@pytest.fixture(scope="module")
def recording():
    return data.seven_tokens()


def test_in_most_heads_announced_reads_the_first_token(recording):
    favourites = recording.weights[:, :, recording.tokens.index("announced")].argmax(axis=-1)
    assert np.bincount(favourites.ravel(), minlength=7).tolist() == [238, 18, 14, 0, 0, 0, 0]


def test_the_head_that_reads_the_subject_does_more_than_look_one_step_back(recording):
    at = recording.tokens.index
    to_subject = recording.weights[:, :, at("announced"), at("CEO")]
    head = np.unravel_index(to_subject.argmax(), to_subject.shape)
    assert to_subject[head] > 0.9
    assert recording.weights[head][at("earnings"), at("record")] < 0.05
