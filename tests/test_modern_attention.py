"""The reference answers of the chapter on today's models against plain PyTorch and `transformers`."""

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
from tests import modern_parts
from tests.references import close, with_gradients

SEED = 13_131
PARTS = modern_parts.parts()


@pytest.fixture
def alike(draw):
    """A reference and the same part in plain PyTorch, both in float64 with the same drawn weights."""

    def made(reference, *sizes, **options):
        ours, theirs = reference(*sizes, **options).double(), PARTS[reference.__name__](*sizes, **options).double()
        with torch.no_grad():
            for name, parameter in ours.named_parameters():
                wide = parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1.0
                parameter.copy_(draw(*parameter.shape) * 2 / wide)
                theirs.get_parameter(name).copy_(parameter)
        assert {name for name, _ in theirs.named_parameters()} == {name for name, _ in ours.named_parameters()}
        return ours, theirs

    return made


def in_chunks(layer, x, lengths):
    cache = KVCache()
    return torch.cat([layer(piece, cache) for piece in x.split(lengths, dim=1)], dim=1), cache


# soft_cap


def test_a_cap_is_a_bound_and_keeps_order_and_sign(draw):
    scores = 20 * draw(1000)
    capped = soft_cap(scores, 5.0)
    assert capped.abs().max() <= 5.0 and torch.equal(capped.sign(), scores.sign())
    assert torch.equal(capped.argsort(), scores.argsort())
    close(soft_cap(1e-4 * scores, 5.0), 1e-4 * scores, 1e-6)
    assert soft_cap(scores, None) is scores


# softmax_with_sink


def test_the_sink_is_one_more_key_whose_weight_is_dropped(draw):
    scores, sink, upstream = draw(2, 3, 4, 5), draw(3), draw(2, 3, 4, 5)
    mask = torch.rand(4, 5, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[2] = False
    for given in (None, mask, mask[None, None].expand(2, 3, 4, 5)):
        ours, theirs = (
            with_gradients(lambda scores, sink, f=f: f(scores, sink, given), upstream, [scores, sink])
            for f in (softmax_with_sink, PARTS["softmax_with_sink"])
        )
        close(ours, theirs)


def test_a_sink_at_minus_infinity_is_none_at_all(draw):
    scores = draw(1, 2, 3, 4)
    close(softmax_with_sink(scores, torch.full((2,), -math.inf).double()), scores.softmax(-1))


@pytest.mark.parametrize("shape, sink", [((2, 3, 4, 5), 2), ((3, 4, 5), 3)])
def test_a_sink_that_does_not_fit_is_named(draw, shape, sink):
    with pytest.raises(ValueError, match="one number per head"):
        softmax_with_sink(draw(*shape), draw(sink))


# scaled_rope_frequencies


@pytest.mark.parametrize("base, factor, low, high, length", [(500000.0, 8, 1, 4, 8192), (300.0, 4, 2, 3, 50)])
def test_frequencies_are_stretched_as_in_transformers(base, factor, low, high, length):
    rope = pytest.importorskip("transformers.modeling_rope_utils", reason="transformers is not installed: make model")
    from transformers import LlamaConfig

    settings = dict(
        rope_type="llama3",
        rope_theta=base,
        factor=factor,
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=length,
    )
    config = LlamaConfig(hidden_size=128, num_attention_heads=1, rope_parameters=settings)
    theirs, _ = rope.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    close(scaled_rope_frequencies(128, base, factor, low, high, length), theirs, 1e-5)


def test_no_frequency_grows_and_none_falls_below_its_share():
    plain, scaled = rope_frequencies(64), scaled_rope_frequencies(64, 10000.0, 8.0, 1.0, 4.0, 2048)
    assert (scaled <= plain).all() and (scaled >= plain / 8 * (1 - 1e-6)).all()
    assert scaled[0] == plain[0] and math.isclose(scaled[-1], plain[-1] / 8, rel_tol=1e-6)
    assert (scaled.diff() < 0).all()


# QKNormAttention


@pytest.mark.parametrize("window", [None, 1, 3, 20])
@pytest.mark.parametrize("sizes", [(12, 3, 3, 4), (10, 6, 2, 4), (8, 4, 1, 6)])
def test_normed_attention_agrees_with_fused_attention_forward_and_backward(alike, draw, sizes, window):
    ours, theirs = alike(QKNormAttention, *sizes, base=50.0, window=window)
    x, upstream = draw(2, 7, sizes[0]), draw(2, 7, sizes[0])
    close(*(with_gradients(layer, upstream, [x], layer.parameters()) for layer in (ours, theirs)), 1e-5)


@pytest.mark.parametrize("lengths", [(9,), (1,) * 9, (4, 5), (5, 1, 3), (2, 7)])
@pytest.mark.parametrize("window", [None, 2, 4])
def test_normed_attention_reads_in_chunks_what_it_reads_in_one_pass(alike, draw, lengths, window):
    layer, _ = alike(QKNormAttention, 10, 6, 2, 4, window=window)
    x = draw(2, 9, 10)
    whole, cache = in_chunks(layer, x, lengths)
    close(whole, layer(x))
    nothing = draw(2, 2, 0, 4)
    keys, values = cache.append(nothing, nothing)
    assert keys.shape == values.shape == (2, 2, 9, 4)


def test_only_the_norms_bound_a_score(alike, draw):
    """A normed query and key of width d give at most sqrt(d) times the largest weights, however long the tokens are."""
    layer, _ = alike(QKNormAttention, 10, 2, 2, 4)
    with torch.no_grad():
        layer.norm_q.weight.fill_(1.0)
        layer.norm_k.weight.fill_(1.0)
        x = draw(1, 6, 10)
        close(layer(1000 * x), 1000 * layer(x), 1e-5)


@pytest.mark.parametrize("sizes, words", [((8, 4, 3, 4), "4 heads, 3"), ((8, 2, 2, 3), "width 3"), ((8, 0, 1, 4), "0")])
def test_sizes_that_do_not_fit_are_named(sizes, words):
    with pytest.raises(ValueError, match=words):
        QKNormAttention(*sizes)


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="window of 0"):
        QKNormAttention(8, 2, 2, 4, window=0)


@pytest.mark.parametrize("shape", [(2, 5, 8), (5, 10), (1, 2, 5, 10)])
def test_tokens_that_do_not_fit_are_named(draw, shape):
    with pytest.raises(ValueError, match=r"\(batch, n, 10\)"):
        QKNormAttention(10, 2, 2, 4).double()(draw(*shape))


# LatentAttention


SIZES = dict(d_model=10, n_heads=3, d_head=4, d_rope=6, d_latent=5)


def test_latent_attention_agrees_with_plain_pytorch_forward_and_backward(alike, draw):
    ours, theirs = alike(LatentAttention, **SIZES, base=50.0)
    x, upstream = draw(2, 7, 10), draw(2, 7, 10)
    close(*(with_gradients(layer, upstream, [x], layer.parameters()) for layer in (ours, theirs)), 1e-5)


@pytest.mark.parametrize("lengths", [(9,), (1,) * 9, (4, 5), (5, 1, 3), (2, 7)])
def test_latent_attention_reads_in_chunks_and_keeps_one_narrow_row_per_token(alike, draw, lengths):
    layer, _ = alike(LatentAttention, **SIZES)
    x = draw(2, 9, 10)
    whole, cache = in_chunks(layer, x, lengths)
    close(whole, layer(x))
    latents, keys = cache.append(draw(2, 1, 0, 5), draw(2, 1, 0, 6))
    close(latents[:, 0], layer.norm(layer.W_down(x)))
    assert keys.shape == (2, 1, 9, 6)


@pytest.mark.parametrize("changed", [dict(d_rope=3), dict(d_rope=0), dict(n_heads=0), dict(d_latent=0)])
def test_latents_that_cannot_be_are_named(changed):
    with pytest.raises(ValueError, match="do not fit"):
        LatentAttention(**SIZES | changed)


# route and MixtureOfExperts


def test_routing_is_a_softmax_over_all_divided_by_what_the_chosen_have(draw):
    logits = draw(50, 9)
    weights, experts = route(logits, 4)
    everything = logits.softmax(-1)
    close(weights, everything.gather(-1, experts) / everything.gather(-1, experts).sum(-1, keepdim=True))
    assert (weights.diff(dim=-1) <= 0).all()
    left = torch.ones_like(logits).scatter(-1, experts, 0).bool()
    assert (logits.masked_fill(~left, -math.inf).amax(-1) <= logits.gather(-1, experts).amin(-1)).all()


@pytest.mark.parametrize("shape, top_k", [((2, 3, 4), 2), ((3, 4), 0), ((3, 4), 5)])
def test_choices_that_cannot_be_made_are_named(draw, shape, top_k):
    with pytest.raises(ValueError, match=f"{top_k} of"):
        route(draw(*shape), top_k)


@pytest.mark.parametrize("n_experts, top_k", [(5, 1), (5, 2), (4, 4), (1, 1)])
def test_a_mixture_agrees_with_plain_pytorch_forward_and_backward(alike, draw, n_experts, top_k):
    ours, theirs = alike(MixtureOfExperts, 6, 8, n_experts, top_k)
    x, upstream = draw(2, 20, 6), draw(2, 20, 6)
    close(*(with_gradients(layer, upstream, [x], layer.parameters()) for layer in (ours, theirs)), 1e-10)


def test_an_idle_expert_is_not_called_and_gets_no_gradient(alike, draw):
    layer, _ = alike(MixtureOfExperts, 6, 8, 5, 2)
    called = []
    for e, expert in enumerate(layer.experts):
        expert.register_forward_hook(lambda module, args, result, e=e: called.append((e, len(args[0]))))
    x = draw(1, 1, 6)
    layer(x).sum().backward()
    busy = sorted(route(layer.router(x[0]), 2)[1][0].tolist())
    assert sorted(called) == [(e, 1) for e in busy]
    for e, expert in enumerate(layer.experts):
        assert (expert.W_up.weight.grad is not None) == (e in busy)


def test_with_one_expert_a_mixture_is_a_feed_forward_network(alike, draw):
    layer, _ = alike(MixtureOfExperts, 6, 8, 1, 1)
    x = draw(2, 3, 6)
    close(layer(x), layer.experts[0](x))


@pytest.mark.parametrize("sizes", [(6, 8, 4, 5), (6, 8, 4, 0)])
def test_mixtures_that_cannot_be_are_named(sizes):
    with pytest.raises(ValueError, match=f"{sizes[3]} of {sizes[2]}"):
        MixtureOfExperts(*sizes)
