"""The probe of a function that hands a state on."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking.compare import within_tolerance
from attnlab.checking.probes import PROBES
from tests.attnlab.checking.probes.helpers import seen, words

X = torch.arange(6.0, dtype=torch.float64).reshape(1, 6)
CASE = dict(handed="state", along=dict(x=1), x=X)


def running(x, weight=1.0, state=None):
    """Running sums, and the last of them."""
    state = torch.zeros_like(x[:, :1]) if state is None else state
    sums = state + (weight * x).cumsum(1)
    return sums, sums[:, -1:]


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 5]])
def test_outputs_of_several_calls_are_put_together_beside_the_last_state(cuts):
    assert within_tolerance(dict(result=running(X)), seen("handed_on", running, **CASE, cuts=cuts))


def test_the_first_call_gets_the_state_of_the_case_and_what_is_not_cut_stays_whole():
    given = torch.ones(1, 1, dtype=torch.float64)
    got = seen("handed_on", running, **CASE, cuts=[4], given=given, weight=2.0)
    assert within_tolerance(dict(result=running(X, 2.0, given)), got)


def test_a_state_that_is_not_handed_on_shows():
    got = seen("handed_on", lambda x, state=None: running(x), **CASE, cuts=[4])
    assert got["result"][0].tolist() == [[0, 1, 3, 6, 4, 9]]


@pytest.mark.parametrize(
    "dtype, width",
    [
        (torch.float32, "float32 or wider"),
        (torch.float64, "float32 or wider"),
        (torch.bfloat16, "bfloat16"),
        (torch.int64, "int64"),
    ],
)
def test_a_wide_state_may_have_either_dtype(dtype, width):
    def answer(x, state=None):
        return x, torch.ones(2, dtype=dtype)

    got = seen("handed_on", answer, **CASE, cuts=[], wide=True, only="state")
    assert got["width"] == width and (got["result"].dtype == torch.float64) == (dtype != torch.int64)


def test_the_output_may_be_all_that_is_looked_at():
    assert seen("handed_on", running, **CASE, cuts=[2], only="output")["result"].tolist() == [[0, 1, 3, 6, 10, 15]]


def test_a_student_is_shown_the_state_by_its_name():
    shown = PROBES["handed_on"].shown(CASE | dict(given=X, cuts=[2], wide=True))
    assert shown.keys() == {"x", "state", "cuts"}


def test_the_words_name_both_dtypes():
    expected, got = dict(width="float32 or wider", result=X), dict(width="bfloat16", result=X)
    assert words("handed_on", expected, got) == "The state came as bfloat16 where float32 or wider was asked for"


@pytest.mark.parametrize(
    "answer, said",
    [
        (lambda x, state=None: x, "two tensors, output and state, not Tensor"),
        (lambda x, state=None: (x, x, x), "3 values (Tensor, Tensor, Tensor)"),
        (lambda x, state=None: (x, None), "2 values (Tensor, NoneType)"),
        (lambda x, state=None: (x.sum(), x), "the output has 0 axes"),
        (lambda x, state=None: (x.expand(x.shape[1], -1), x), "cannot be put together: (4, 4) and (2, 2)"),
    ],
)
def test_what_is_not_an_output_and_a_state_is_refused_in_words(answer, said):
    assert said in seen("handed_on", answer, **CASE, cuts=[4])["refused"]
