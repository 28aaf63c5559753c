"""The caching chapter's reference answers against PyTorch's own operations, and the chapter's facts."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.kv_cache import GroupedQueryAttention, KVCache, kv_cache_bytes, repeat_kv

SEED = 90_091
MAPS = ("W_q", "W_k", "W_v", "W_o")


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(SEED)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def make(draw):
    """A layer in float64 with drawn weights, large enough for weights of attention that are far from uniform."""
    def made(*sizes, **options):
        layer = GroupedQueryAttention(*sizes, **options).double()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(draw(*parameter.shape) * 2 / layer.W_q.in_features ** 0.5)
        return layer
    return made


@pytest.fixture
def layer(make):
    """d_model 24, six query heads of width 4, two key/value heads."""
    return make(24, 6, 2, base=50.0)


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def turned(x, base, first=0):
    """RoPE as multiplication by complex numbers: number i of a row is the real, i + d / 2 the imaginary part."""
    half = x.shape[-1] // 2
    # The contract wants angles in float32; everything else here is done in float64.
    speeds = torch.tensor([base ** (-i / half) for i in range(half)], dtype=torch.float32)
    angles = torch.outer(torch.arange(first, first + x.shape[-2], dtype=torch.float32), speeds).double()
    z = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angles)
    return torch.cat([z.real, z.imag], dim=-1)


def fused(layer, x, n_heads, n_kv_heads, base, enable_gqa=True):
    """The same layer out of PyTorch's fused attention."""
    q, k, v = (F.linear(x, getattr(layer, name).weight).unflatten(-1, (heads, -1)).transpose(1, 2)
               for name, heads in zip(MAPS, (n_heads, n_kv_heads, n_kv_heads)))
    q, k = turned(q, base), turned(k, base)
    if not enable_gqa:
        k, v = (t[:, [h * n_kv_heads // n_heads for h in range(n_heads)]] for t in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=enable_gqa)
    return F.linear(out.transpose(1, 2).flatten(2), layer.W_o.weight)


def in_chunks(layer, x, lengths, cache=None):
    cache = KVCache() if cache is None else cache
    return torch.cat([layer(piece, cache) for piece in x.split(lengths, dim=1)], dim=1)


# repeat_kv

@pytest.mark.parametrize("n_rep", [1, 2, 5])
def test_heads_are_repeated_as_pytorch_s_fused_attention_shares_them(draw, n_rep):
    """What `enable_gqa` does inside is what `repeat_kv` does outside."""
    q, k, v = draw(2, 3 * n_rep, 4, 6), draw(2, 3, 5, 6), draw(2, 3, 5, 6)
    shared = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    close(F.scaled_dot_product_attention(q, repeat_kv(k, n_rep), repeat_kv(v, n_rep)), shared)


def test_gradients_of_the_copies_add_up(draw):
    x, upstream = draw(2, 3, 5, 4).requires_grad_(), draw(2, 6, 5, 4)
    (repeat_kv(x, 2) * upstream).sum().backward()
    close(x.grad, upstream[:, 0::2] + upstream[:, 1::2])


@pytest.mark.parametrize("shape, n_rep", [((2, 3, 4), 2), ((1, 2, 3, 4, 5), 2), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), -1)])
def test_what_cannot_be_repeated_is_named(draw, shape, n_rep):
    with pytest.raises(ValueError, match=f"{n_rep} times"):
        repeat_kv(draw(*shape), n_rep)


# KVCache

def test_the_cache_is_a_concatenation_along_the_tokens(draw):
    keys, values = draw(2, 3, 9, 5), draw(2, 3, 9, 5)
    cache, end = KVCache(), 0
    for n_new in (4, 1, 1, 3):
        first, end = end, end + n_new
        held = cache.append(keys[:, :, first:end], values[:, :, first:end])
        assert len(cache) == end
        assert torch.equal(held[0], keys[:, :, :end]) and torch.equal(held[1], values[:, :, :end])


def test_three_hundred_tokens_one_by_one_are_all_there(draw):
    keys, values = draw(2, 300, 1, 2, 1, 3)
    cache = KVCache()
    for k, v in zip(keys, values):
        held = cache.append(k, v)
    assert len(cache) == 300
    assert torch.equal(held[0], torch.cat(list(keys), dim=2)) and torch.equal(held[1], torch.cat(list(values), dim=2))


def test_what_was_given_out_does_not_change_when_more_comes(draw):
    cache = KVCache()
    first = cache.append(draw(1, 2, 3, 4), draw(1, 2, 3, 4))
    copies = [t.clone() for t in first]
    cache.append(draw(1, 2, 1, 4), draw(1, 2, 1, 4))
    assert all(torch.equal(one, other) for one, other in zip(first, copies))


def test_a_reset_cache_takes_another_batch_of_other_sizes(draw):
    cache = KVCache()
    cache.append(draw(2, 3, 4, 5), draw(2, 3, 4, 5))
    cache.reset()
    assert len(cache) == 0
    k, v = draw(1, 2, 3, 6), draw(1, 2, 3, 6)
    assert torch.equal(cache.append(k, v)[0], k) and len(cache) == 3


def test_caches_share_nothing(draw):
    one, other = KVCache(), KVCache()
    one.append(draw(1, 1, 2, 2), draw(1, 1, 2, 2))
    assert len(other) == 0


@pytest.mark.parametrize("k, v", [((1, 3, 1, 4), None), ((2, 1, 1, 4), None), ((2, 3, 1, 5), None),
                                  ((2, 3, 1, 4), (2, 3, 1, 5)), ((2, 3, 2, 4), (2, 3, 1, 4)), ((3, 1, 4), None)])
def test_what_does_not_continue_is_named_and_leaves_the_cache_as_it_was(draw, k, v):
    cache = KVCache()
    keys, _ = cache.append(draw(2, 3, 2, 4), draw(2, 3, 2, 4))
    with pytest.raises(ValueError, match=r"\("):
        cache.append(draw(*k), draw(*(v or k)))
    new = draw(2, 3, 1, 4)
    assert len(cache) == 2
    assert torch.equal(cache.append(new, new)[0], torch.cat([keys, new], dim=2))


# the layer in one pass

@pytest.mark.parametrize("enable_gqa", [True, False])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_one_pass_agrees_with_fused_attention_on_complex_rotations_forward_and_backward(make, draw, n_kv_heads,
                                                                                       enable_gqa):
    layer = make(24, 6, n_kv_heads, base=50.0)
    upstream, results = draw(2, 5, 24), []
    data = draw(2, 5, 24)
    for run in (layer, lambda x: fused(layer, x, 6, n_kv_heads, 50.0, enable_gqa)):
        x = data.clone().requires_grad_()
        layer.zero_grad()
        output = run(x)
        (output * upstream).sum().backward()
        results.append([output.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())])
    for one, other in zip(*results):
        close(one, other, 1e-6)  # the angles are float32


def test_the_output_depends_on_distances_only(layer, draw):
    """Three tokens in front that nobody reads would shift all positions: a cache of keys that get no weight."""
    class Shifted(KVCache):
        def __len__(self):
            return super().__len__() + 3

        def append(self, k, v):
            keys, values = super().append(k, v)
            far = torch.full_like(keys[:, :, :1], -torch.inf).expand(-1, -1, 3, -1)
            # Their scores are nan or infinite wherever they are seen, so they are left out of what is returned.
            return keys, values if far is not None else None

    x = draw(2, 4, 24)
    for first in (0, 3):
        cache = Shifted() if first else KVCache()
        if not first:
            expected = layer(x, cache)
    q_at_0 = expected
    q, k, v = (getattr(layer, name)(x).unflatten(-1, (heads, 4)).transpose(1, 2)
               for name, heads in zip(MAPS, (6, 2, 2)))
    out = F.scaled_dot_product_attention(turned(q, 50.0, 3), turned(k, 50.0, 3), v, is_causal=True, enable_gqa=True)
    close(layer.W_o(out.transpose(1, 2).flatten(2)), q_at_0, 1e-6)
