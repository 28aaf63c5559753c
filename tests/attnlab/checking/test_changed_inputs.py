"""Equality bit for bit, by which a changed input is seen."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.checking.changed_inputs import bitwise_equal


@pytest.mark.parametrize(
    "before, after",
    [
        (np.float32([1.0]), np.float64([1.0])),
        ([1], [1.0]),
        ((1,), [1]),
        (0.0, -0.0),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_bitwise_equality_is_strict(before, after):
    assert bitwise_equal(before, before) and not bitwise_equal(before, after)


def test_a_nan_is_bitwise_equal_to_itself():
    assert bitwise_equal(np.array([np.nan]), np.array([np.nan]))
