"""Facts that the dot product chapter states, and what its references refuse."""

import math

import numpy as np
import pytest

from attnlab import data
from solutions.dot_products import cosine_similarity, dot, matmul, pairwise_scores

SEED = 10_012
THE, CAT, SAT = [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]


@pytest.mark.parametrize("a, b", [((1, 2, 3), np.array([4, 5, 6])), ([], [])])
def test_dot_returns_a_float_for_whole_numbers_and_for_nothing(a, b):
    result = dot(a, b)
    assert result == 32.0 * bool(a) and type(result) is float


def test_cosine_similarity_never_leaves_its_range(rng):
    vectors = rng.normal(size=(500, 3))
    assert max(cosine_similarity(v, v) for v in vectors) <= 1.0
    assert min(cosine_similarity(v, -v) for v in vectors) >= -1.0


def test_matrices_without_rows_or_columns_can_be_multiplied():
    assert matmul([], [[1.0]]) == []
    assert matmul([[1.0, 2.0]], [[], []]) == [[]]
    assert matmul([[], []], []) == [[], []]


@pytest.mark.parametrize("a, b", [([1.0], []), ([1.0, 2.0, 3.0], [4.0, 5.0]), ([4.0, 5.0], [1.0, 2.0, 3.0])])
def test_dot_names_the_lengths_it_refuses(a, b):
    with pytest.raises(ValueError, match=f"{len(a)} and {len(b)}"):
        dot(a, b)


@pytest.mark.parametrize(
    "answer, a, b",
    [(cosine_similarity, *shapes) for shapes in [((3,), (2,)), ((1,), (3,)), ((2, 2), (2, 2)), ((), ())]]
    + [(pairwise_scores, *shapes) for shapes in [((3, 4), (5, 2)), ((3, 4), (5, 1)), ((4,), (5, 4)), ((3, 4), (4,))]]
    + [(pairwise_scores, (2, 3, 4), (3, 5, 4))],
)
def test_shapes_that_do_not_fit_are_refused(answer, a, b):
    with pytest.raises(ValueError):
        answer(np.ones(a), np.ones(b))


# what the chapter says


def test_the_six_sums_of_the_cat_sat():
    assert matmul([THE, CAT, SAT], [list(column) for column in zip(THE, CAT, SAT)]) == [[2, 0, 1], [0, 2, 1], [1, 1, 2]]


def test_the_angle_between_cat_and_sat_is_sixty_degrees():
    angle = math.degrees(math.acos(cosine_similarity(np.array(CAT), np.array(SAT))))
    assert angle == pytest.approx(60.0)


def test_recorded_scores_spread_in_rows_as_random_ones_do_and_in_the_table_twice_as_far():
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
