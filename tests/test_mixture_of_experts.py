"""Facts that the chapter on experts states, and the words of its references' errors."""

import pytest
import torch

from solutions.mixture_of_experts import MixtureOfExperts, route


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: route(torch.ones(2, 3, 4), 2), "2 of"),
        (lambda: route(torch.ones(3, 4), 0), "0 of"),
        (lambda: route(torch.ones(3, 4), 5), "5 of"),
        (lambda: MixtureOfExperts(6, 8, 4, 5), "5 of 4"),
        (lambda: MixtureOfExperts(6, 8, 4, 0), "0 of 4"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
