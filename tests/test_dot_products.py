"""The dot product chapter's reference answers against PyTorch's own operations in float64, and the chapter's facts."""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.dot_products import cosine_similarity, dot, matmul, pairwise_scores, score_variance

SEED = 10_012
THE, CAT, SAT = [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]


close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


# dot


def test_dot_agrees_with_torch(rng):
    a, b = rng.normal(size=(2, 7))
    close(dot(a.tolist(), b.tolist()), torch.dot(torch.from_numpy(a), torch.from_numpy(b)).item())


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_dot_takes_any_sequence_and_returns_a_float(kind):
    result = dot(kind([1, 2, 3]), kind([4, 5, 6]))
    assert result == 32.0 and type(result) is float


def test_dot_of_nothing_is_zero():
    result = dot([], [])
    assert result == 0.0 and type(result) is float


@pytest.mark.parametrize("a, b", [([1.0], []), ([1.0, 2.0, 3.0], [4.0, 5.0]), ([4.0, 5.0], [1.0, 2.0, 3.0])])
def test_dot_names_the_lengths_it_refuses(a, b):
    with pytest.raises(ValueError, match=f"{len(a)} and {len(b)}"):
        dot(a, b)


# cosine_similarity


def test_cosine_similarity_agrees_with_torch(rng):
    a, b = rng.normal(size=(2, 6))
    close(cosine_similarity(a, b), F.cosine_similarity(torch.from_numpy(a), torch.from_numpy(b), dim=0).item())


def test_cosine_similarity_accepts_whole_numbers():
    close(cosine_similarity(np.array([3, 4]), np.array([2, 0])), 0.6)


@pytest.mark.parametrize("size_a, size_b", [(1e150, 1e150), (1e-150, 1e-150), (1e150, 1e-150)])
def test_cosine_similarity_ignores_length_at_any_size(rng, size_a, size_b):
    a, b = rng.normal(size=(2, 4))
    close(cosine_similarity(size_a * a, size_b * b), cosine_similarity(a, b))


def test_cosine_similarity_never_leaves_its_range(rng):
    vectors = rng.normal(size=(500, 3))
    assert max(cosine_similarity(v, v) for v in vectors) <= 1.0
    assert min(cosine_similarity(v, -v) for v in vectors) >= -1.0


@pytest.mark.parametrize("shape_a, shape_b", [((3,), (2,)), ((1,), (3,)), ((2, 2), (2, 2)), ((), ())])
def test_cosine_similarity_refuses_shapes_other_than_two_vectors_of_one_length(shape_a, shape_b):
    with pytest.raises(ValueError):
        cosine_similarity(np.ones(shape_a), np.ones(shape_b))


# matmul


@pytest.mark.parametrize("n, m, p", [(2, 3, 4), (1, 5, 1), (4, 1, 2)])
def test_matmul_agrees_with_torch(rng, n, m, p):
    A, B = rng.normal(size=(n, m)), rng.normal(size=(m, p))
    close(matmul(A.tolist(), B.tolist()), torch.from_numpy(A) @ torch.from_numpy(B))


def test_rows_of_a_matrix_product_are_lists_of_their_own():
    product = matmul([[1.0], [2.0]], [[3.0, 4.0]])
    product[0][0] = 99.0
    assert product == [[99.0, 4.0], [6.0, 8.0]]


def test_matmul_of_matrices_without_rows_or_columns():
    assert matmul([], [[1.0]]) == []
    assert matmul([[1.0, 2.0]], [[], []]) == [[]]
    assert matmul([[], []], []) == [[], []]


# pairwise_scores


@pytest.mark.parametrize("leading_q, leading_k", [((), ()), ((2,), (2,)), ((2, 1), (6,)), ((), (7,)), ((2, 6), ())])
def test_scores_agree_with_einsum_on_any_leading_dimensions(rng, leading_q, leading_k):
    Q, K = rng.normal(size=(*leading_q, 3, 4)), rng.normal(size=(*leading_k, 5, 4))
    close(pairwise_scores(Q, K), torch.einsum("...qd,...kd->...qk", torch.from_numpy(Q), torch.from_numpy(K)))


@pytest.mark.parametrize(
    "shape_q, shape_k", [((3, 4), (5, 2)), ((3, 4), (5, 1)), ((4,), (5, 4)), ((3, 4), (4,)), ((2, 3, 4), (3, 5, 4))]
)
def test_scores_refuse_shapes_that_do_not_fit(shape_q, shape_k):
    with pytest.raises(ValueError):
        pairwise_scores(np.ones(shape_q), np.ones(shape_k))


# score_variance


@pytest.mark.parametrize("d", [1, 6, 40])
def test_score_variance_is_close_to_d(d):
    # Relative standard error sqrt((2 + 6 / d) / n): at most 2 % for n = 20 000.
    assert score_variance(d, 20_000, np.random.default_rng(SEED)) == pytest.approx(d, rel=0.1)


def test_score_variance_repeats_with_the_seed_and_varies_without():
    first, again, other = (score_variance(5, 30, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other


# what the chapter says


def test_the_six_sums_of_the_cat_sat():
    assert matmul([THE, CAT, SAT], [list(column) for column in zip(THE, CAT, SAT)]) == [[2, 0, 1], [0, 2, 1], [1, 1, 2]]


def test_the_angle_between_cat_and_sat_is_sixty_degrees():
    angle = math.degrees(math.acos(cosine_similarity(np.array(CAT), np.array(SAT))))
    assert angle == pytest.approx(60.0)


def test_recorded_scores_spread_within_rows_about_as_random_ones_and_over_the_whole_table_twice_as_far():
    recording = data.seven_tokens()
    raw = recording.scores * math.sqrt(recording.d_head)
    assert recording.d_head == 64 and recording.tokens[0] == "The"
    within = raw[..., 1:].std(axis=-1).mean(axis=-1)  # without The, which is the sink
    assert np.median(within) == pytest.approx(8.2, abs=0.05)
    assert (within > 8.0).sum() == 141
    assert np.median(raw.reshape(-1, 49).std(axis=1)) == pytest.approx(16.8, abs=0.05)
    assert not np.allclose(raw[29, 0], raw[29, 0].T)


def test_the_measure_of_spread_runs_low_on_random_vectors():
    queries, keys = np.random.default_rng(7).normal(size=(2, 270, 7, 64))
    within = pairwise_scores(queries, keys)[..., 1:].std(axis=-1).mean(axis=-1)
    assert np.median(within) == pytest.approx(6.9, abs=0.05)


def test_scores_in_the_hundreds_do_not_follow_from_64_dimensions():
    queries, keys = np.random.default_rng(SEED).normal(size=(2, 10_000, 64))
    scores = np.einsum("nd,nd->n", queries, keys)
    assert scores.std() == pytest.approx(8, rel=0.05) and np.abs(scores).max() < 50


def test_the_first_token_scores_high_for_nearly_every_query_in_the_head_shown():
    scores = data.seven_tokens().scores[29, 0]
    assert ((scores >= np.sort(scores, axis=1)[:, -2:-1]).argmax(axis=1) == 0).sum() >= 6
