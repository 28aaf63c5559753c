"""Facts that the chapter on today's models states, and the words of its references' errors."""

import math

import pytest
import torch

from solutions.kv_cache import KVCache
from solutions.modern_attention import (
    LatentAttention,
    MixtureOfExperts,
    QKNormAttention,
    route,
    scaled_rope_frequencies,
    soft_cap,
    softmax_with_sink,
)
from solutions.rope import rope_frequencies
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


def test_a_cap_is_a_bound_and_keeps_order_and_sign(draw):
    scores = 20 * draw(1000)
    capped = soft_cap(scores, 5.0)
    assert capped.abs().max() <= 5.0 and torch.equal(capped.sign(), scores.sign())
    assert torch.equal(capped.argsort(), scores.argsort())
    close(soft_cap(1e-4 * scores, 5.0), 1e-4 * scores, 1e-6)


def test_a_sink_at_minus_infinity_has_no_effect(draw):
    scores = draw(1, 2, 3, 4)
    close(softmax_with_sink(scores, torch.full((2,), -math.inf).double()), scores.softmax(-1))


def test_no_frequency_grows_and_none_falls_below_its_share():
    plain, scaled = rope_frequencies(64), scaled_rope_frequencies(64, 10000.0, 8.0, 1.0, 4.0, 2048)
    assert (scaled <= plain).all() and (scaled >= plain / 8 * (1 - 1e-6)).all()
    assert scaled[0] == plain[0] and math.isclose(scaled[-1], plain[-1] / 8, rel_tol=1e-6)
    assert (scaled.diff() < 0).all()


def test_only_the_norms_bound_a_score(draw):
    """A normed query and key of width d give at most sqrt(d) times the largest weights, however long the tokens are."""
    torch.manual_seed(SEED)
    layer, x = QKNormAttention(10, 2, 2, 4).double(), 100 * draw(1, 6, 10)
    close(layer(1000 * x), 1000 * layer(x), 1e-5)


def test_latent_attention_keeps_a_latent_and_a_narrow_key_per_token(draw):
    layer, x, cache = LatentAttention(**SIZES).double(), draw(2, 9, 10), KVCache()
    layer(x, cache)
    latents, keys = cache.append(draw(2, 1, 0, 5), draw(2, 1, 0, 6))
    close(latents[:, 0], layer.norm(layer.W_down(x)))
    assert keys.shape == (2, 1, 9, 6)
