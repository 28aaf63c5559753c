"""When two values agree, and in which words they part."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.checking.compare import difference, within_tolerance


def words(expected, got, **tolerance) -> str:
    return difference(expected, got, **tolerance).words


EYE = np.eye(2)


@pytest.mark.parametrize(
    "expected, got",
    [
        (1.5, 1.5),
        (1.5, np.float64(1.5)),
        (np.float64(1.5), 1.5),
        (2.0, 2),
        (2, 2.0),
        (1.5, np.array(1.5)),
        (3, np.int32(3)),
        ([1.0, 2.0], (1.0, 2.0)),
        ([1.0, 2.0], np.array([1.0, 2.0])),
        ([[1.0], [2.0]], np.array([[1], [2]])),
        ([], ()),
        ((EYE, EYE), [EYE, EYE]),
        (EYE, np.eye(2, dtype=int)),
        (EYE, np.asfortranarray(EYE)),
        (None, None),
        ("a", "a"),
        (True, np.True_),
        (np.True_, True),
        (EYE == 1, EYE == 1),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
        ({"a": EYE}, {"a": EYE}),
        (10**40, 10**40),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)]),
        (0.1 + 0.2, 0.3),
    ],
)
def test_these_agree(expected, got):
    assert within_tolerance(expected, got)


@pytest.mark.parametrize(
    "expected, got, kind",
    [
        (1.5, None, "none"),
        (1.5, 1.6, "value"),
        (1.5, "1.5", "type"),
        (1.5, {}, "type"),
        (1.0, True, "dtype"),
        (1.5, 1.5 + 0j, "dtype"),
        (EYE, EYE.tolist(), "type"),
        (EYE, EYE.astype("f4"), "dtype"),
        (EYE, EYE == 1, "dtype"),
        (EYE == 1, EYE, "dtype"),
        (EYE, EYE[0], "shape"),
        (EYE, 1.0, "shape"),
        (1.0, EYE, "shape"),
        (EYE, EYE[None], "shape"),
        (EYE, EYE * np.nan, "nan"),
        (EYE, -EYE, "value"),
        ((EYE, EYE), EYE, "type"),
        ((EYE, EYE), (EYE,), "type"),
        ((EYE, EYE), (EYE, 2 * EYE), "value"),
        ("a", "b", "value"),
        ("1", 1, "value"),
        (True, 1, "value"),
        (True, 1.0, "value"),
        (None, 1.0, "value"),
        ({"a": 1}, {"b": 1}, "type"),
        ({"a": 1}, [1], "type"),
        (EYE, [[1.0], [1.0, 2.0]], "type"),
        (EYE, [["a", "b"], ["c", "d"]], "type"),
        ([1.0, 2.0], ["a", "b"], "type"),
        (np.zeros((0, 3)), np.zeros((0, 4)), "shape"),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(4)], "shape"),
    ],
)
def test_these_part_and_the_kind_is_told(expected, got, kind):
    assert difference(expected, got).kind == kind


def test_tolerances_see_an_epsilon_in_a_denominator():
    share = np.array([0.25, 0.75])
    assert not within_tolerance(share, share / (1 + 1e-8)) and not within_tolerance(share, share / (1 + 1e-6))
    assert within_tolerance(share, share * (1 + 1e-12))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("rtol, atol", [(1e-9, 1e-12), (1e-3, 0.0), (0.0, 0.1)])
def test_numbers_agree_where_numpy_says_that_they_are_close(kind, rtol, atol):
    rng, special = np.random.default_rng(3), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 1.0, 1.0 + 1e-10, 1.05, -3.0]
    for left in special + list(rng.normal(size=10) * 100):
        for right in [*special, left * (1 + 1e-10), left + 0.09, left * (1 + 1e-2)]:
            with np.errstate(all="ignore"):
                one, other = np.asarray([left, 2.0]).astype(kind), np.asarray([right, 2.0])
                other = other.astype(kind if kind is not np.int64 else float)
                close = np.isclose(other, one, rtol=rtol, atol=atol, equal_nan=True).all()
            assert within_tolerance(one, other, rtol, atol) == close, (left, right)


def test_what_is_wrong_is_said_in_a_students_words():
    assert words(1.5, None) == "the result is None. Is a `return` missing? Printing a value does not return it"
    assert words(EYE, EYE.tolist()) == (
        "the result is a list where a NumPy array was expected; `np.array(...)` converts it"
    )
    assert words(EYE, np.ones((2, 3))) == "the result has shape (2, 3) where (2, 2) was expected"
    assert words(EYE, 3.0) == "the result is a single number where shape (2, 2) was expected"
    assert words(3.0, EYE) == "the result has shape (2, 2) where a single number was expected"
    assert words(EYE, EYE.astype("f4")) == "the result has dtype float32 where float64 was expected"
    assert words(EYE, EYE == 1) == "the result holds truth values where ordinary numbers were expected"
    assert words(EYE, EYE * 1j) == "the result holds complex numbers where ordinary numbers were expected"
    assert words(EYE, [[1.0], [1.0, 2.0]]) == "the result has rows of different lengths (1, 2)"
    assert words((EYE, EYE), EYE) == "the result should be 2 values, returned together, not a NumPy array"
    assert words((EYE, EYE), (EYE, EYE + 1)) == "value 2 of 2 is 2 at [0, 0] where 1 was expected"
    assert words(EYE, EYE * np.nan) == "the result has nan at [0, 0] where 1 was expected"


def test_whole_numbers_are_blamed_where_they_cannot_hold_the_result():
    assert words(EYE / 3, EYE.astype(int)).endswith("Its dtype is int64, which cannot hold fractions")


def test_a_single_number_of_less_precision_is_told_as_such():
    assert "float32" in words(1 / 3, np.float32(1 / 3)) and "fewer digits" in words(1 / 3, np.float32(1 / 3))


def test_numbers_that_part_late_are_printed_as_far_as_they_part():
    assert words(0.1234567890, 0.1234567999, rtol=1e-12) == "the result is 0.1234568 where 0.123456789 was expected"


def test_tensors_and_arrays_are_told_apart():
    torch = pytest.importorskip("torch")
    tensor = torch.eye(2, dtype=torch.float64)
    assert within_tolerance(tensor, tensor.clone())
    assert "a NumPy array where a PyTorch tensor" in words(tensor, EYE)
    assert "a PyTorch tensor where a NumPy array" in words(EYE, tensor)
    assert "float32" in words(tensor, tensor.float())
    assert within_tolerance(torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16))
