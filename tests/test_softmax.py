"""Facts that the softmax chapter states, and what its references refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnlab import data
from solutions.softmax import log_softmax, soft_lookup, softmax, softmax_jacobian, softmax_temperature

HUGE = np.array([[1000.0, 999.0, -1000.0], [-1000.0, -1001.0, -3000.0]])


def test_no_warning_is_raised_at_a_thousand(recwarn):
    softmax(HUGE), log_softmax(HUGE), softmax_temperature(HUGE, 8.0), softmax_jacobian(HUGE[0])
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("f", [softmax, log_softmax])
def test_an_empty_array_gives_an_empty_array_and_a_missing_axis_a_value_error(f):
    for shape in [(0,), (0, 3), (3, 0)]:
        assert f(np.empty(shape)).shape == shape
    with pytest.raises(ValueError):
        f(np.ones((2, 3)), axis=2)


def test_an_empty_dictionary_gives_zeros():
    np.testing.assert_array_equal(soft_lookup(np.ones(3), np.empty((0, 3)), np.empty((0, 2))), np.zeros(2))


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *((softmax_temperature, (np.ones(2), temperature), "temperature") for temperature in (0, -0.0, -1, -1e-9)),
        *((softmax_jacobian, (np.zeros(shape),), "dimension") for shape in [(), (1, 3), (3, 3)]),
        *(
            (soft_lookup, [np.zeros(shape) for shape in shapes], r"\d")
            for shapes in [((3,), (4, 3), (5, 2)), ((3,), (5, 3), (4, 2)), ((2,), (4, 3), (4, 2))]
            + [((1, 3), (4, 3), (4, 2)), ((3,), (3,), (4, 2)), ((3,), (4, 3), (4,))]
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# what the chapter says


def test_a_cold_softmax_is_one_hot_and_a_hot_one_uniform():
    x = np.array([1.0, 3.0, 2.0])
    np.testing.assert_allclose(softmax_temperature(x, 1e-3), [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(softmax_temperature(x, 1e9), np.full(3, 1 / 3), rtol=1e-8)


def test_equal_keys_give_the_mean_value_and_a_long_query_the_best_one():
    values = np.arange(8.0).reshape(4, 2) ** 2
    np.testing.assert_allclose(soft_lookup(np.arange(3.0), np.ones((4, 3)), values), values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(soft_lookup(np.array([0, 0, 1000, 0]), np.eye(4), values), values[2], rtol=1e-12)


def test_the_numbers_on_paper_are_right():
    np.testing.assert_allclose(softmax(np.array([3.0, 1.0])), [0.881, 0.119], atol=5e-4)
    np.testing.assert_allclose(softmax(np.array([1000.0, 999.0])), [0.731, 0.269], atol=5e-4)
    np.testing.assert_allclose(softmax_jacobian(np.array([3.0, 1.0])), [[0.105, -0.105], [-0.105, 0.105]], atol=5e-4)
    np.testing.assert_allclose(softmax(np.array([1.0, 0.5, 0.0])), [0.506, 0.307, 0.186], atol=6e-4)
    looked_up = soft_lookup(np.array([1.0, 0.5, 0.0]), np.eye(3), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    np.testing.assert_allclose(looked_up, [0.600, 0.400], atol=5e-4)
    assert softmax_temperature(np.array([3.0, 1.0]), 2 / math.log(1.5))[0] == pytest.approx(0.6)


def test_two_equal_scores_far_ahead_share_the_weight():
    np.testing.assert_allclose(softmax(np.array([8.5, 42.0, 3.2, 42.0])), [0, 0.5, 0, 0.5], atol=1e-12)


def test_the_recorded_raw_scores_break_half_precision_and_not_single_precision():
    recording = data.seven_tokens()
    largest = [recording.scores[:, :, query, : query + 1].max(axis=-1) * 8 for query in range(7)]
    assert max(row.max() for row in largest) < 119  # the limit the chapter finds for float32 ...
    assert np.mean(np.stack(largest) >= 20) > 0.75  # ... and for float16
