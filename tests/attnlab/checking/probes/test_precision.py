"""The probe of whether narrow numbers are computed with in a wider dtype."""

import pytest
import torch

from tests.attnlab.checking.probes.helpers import seen

X = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
WEIGHT = torch.randn(64, generator=torch.Generator().manual_seed(2)).bfloat16()


def in_float32(x, weight):
    wide = x.float()
    return (wide / wide.square().mean(-1, keepdim=True).sqrt() * weight.float()).to(x.dtype)


def weighted_at_the_end(x, weight):
    """As Llama does: rounded before the weight, and once more after it."""
    wide = x.float()
    return (wide / wide.square().mean(-1, keepdim=True).sqrt()).to(x.dtype) * weight


def as_it_is(x, weight):
    return (x - x.mean(-1, keepdim=True)) / x.square().mean(-1, keepdim=True).sqrt() * weight + 0.1 * weight


@pytest.mark.parametrize("answer, exact", [(in_float32, True), (weighted_at_the_end, True), (as_it_is, False)])
def test_one_rounding_or_two_are_exact_and_more_are_not(answer, exact):
    assert seen("widened", answer, x=X, weight=WEIGHT)["exact"] is exact


def test_a_result_that_is_nan_or_of_another_shape_is_not_exact():
    assert (
        seen("widened", lambda x, weight: x * float("nan") if x.dtype == X.dtype else x, x=X, weight=WEIGHT)["exact"]
        is False
    )
    assert seen("widened", lambda x, weight: x[:2] if x.dtype == X.dtype else x, x=X, weight=WEIGHT)["exact"] is False


def test_a_result_that_is_not_a_tensor_is_told():
    assert "one tensor of floats" in str(seen("widened", lambda x, weight: 1, x=X, weight=WEIGHT))
