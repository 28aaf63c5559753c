"""Facts that the chapter on today's models states, and the words of its references' errors."""

import pytest
import torch

from solutions.modern_attention import (
    LatentAttention,
    MixtureOfExperts,
    QKNormAttention,
    route,
    softmax_with_sink,
)
from tests.references import close

SEED = 13_131
SIZES = dict(d_model=10, n_heads=3, d_head=4, d_rope=6, d_latent=5)


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
        (lambda: LatentAttention(**SIZES | dict(d_rope=3)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_rope=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(n_heads=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_latent=0)), "do not fit"),
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


# the chapter's facts


def test_only_the_norms_bound_a_score(draw):
    """A normed query and key of width d give at most sqrt(d) times the largest weights, however long the tokens are."""
    torch.manual_seed(SEED)
    layer, x = QKNormAttention(10, 2, 2, 4).double(), 100 * draw(1, 6, 10)
    close(layer(1000 * x), 1000 * layer(x), 1e-5)
