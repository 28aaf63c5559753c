"""Facts that the chapter on longer texts and smaller caches states, and the words of its references' errors."""

import pytest

from solutions.long_context import LatentAttention

SIZES = dict(d_model=10, n_heads=3, d_head=4, d_rope=6, d_latent=5)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: LatentAttention(**SIZES | dict(d_rope=3)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_rope=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(n_heads=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_latent=0)), "do not fit"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
