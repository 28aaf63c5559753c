"""Facts that the chapter on scores that stay in hand states, and the words of its references' errors."""

import pytest
import torch

from solutions.steady_attention import QKNormAttention, softmax_with_sink
from tests.references import close

SEED = 13_131


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: softmax_with_sink(torch.ones(2, 3, 4, 5), torch.ones(2)), "one number per head"),
        (lambda: softmax_with_sink(torch.ones(3, 4, 5), torch.ones(3)), "one number per head"),
        (lambda: QKNormAttention(8, 4, 3, 4), "4 heads, 3"),
        (lambda: QKNormAttention(8, 2, 2, 3), "width 3"),
        (lambda: QKNormAttention(8, 0, 1, 4), "0"),
        (lambda: QKNormAttention(8, 2, 2, 4, window=0), "window of 0"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(2, 5, 8)), r"\(batch, n, 10\)"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(5, 10)), r"\(batch, n, 10\)"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(1, 2, 5, 10)), r"\(batch, n, 10\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# the chapter's facts


def test_only_the_norms_bound_a_score(draw):
    """A normed query and key of width d give at most sqrt(d) times the largest weights, however long the tokens are."""
    torch.manual_seed(SEED)
    layer, x = QKNormAttention(10, 2, 2, 4).double(), 100 * draw(1, 6, 10)
    close(layer(1000 * x), 1000 * layer(x), 1e-5)
