"""The caching chapter's reference answers against PyTorch's own operations, and the chapter's facts."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.kv_cache import GroupedQueryAttention, KVCache, kv_cache_bytes, quantize_cache, repeat_kv
from tests.references import close, grouped_attention, with_gradients

SEED = 90_091


@pytest.fixture
def make(draw):
    """A layer in float64 with drawn weights, large enough for weights of attention that are far from uniform."""

    def made(*sizes, **options):
        layer = GroupedQueryAttention(*sizes, **options).double()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(draw(*parameter.shape) * 2 / layer.W_q.in_features**0.5)
        return layer

    return made


@pytest.fixture
def layer(make):
    """d_model 24, six query heads of width 4, two key/value heads."""
    return make(24, 6, 2, base=50.0)


def fused(layer, x, *sizes, **options):
    """The same layer by PyTorch's fused attention."""
    return grouped_attention(x, lambda name: layer.get_parameter(f"{name}.weight"), *sizes, **options)


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


@pytest.mark.parametrize("shape, n_rep", [((2, 3, 4), 2), ((1, 2, 3, 4, 5), 2), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), -1)])
def test_what_cannot_be_repeated_is_named(draw, shape, n_rep):
    with pytest.raises(ValueError, match=f"{n_rep} times"):
        repeat_kv(draw(*shape), n_rep)


# KVCache


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


@pytest.mark.parametrize(
    "k, v",
    [
        ((1, 3, 1, 4), None),
        ((2, 1, 1, 4), None),
        ((2, 3, 1, 5), None),
        ((2, 3, 1, 4), (2, 3, 1, 5)),
        ((2, 3, 2, 4), (2, 3, 1, 4)),
        ((3, 1, 4), None),
    ],
)
def test_what_does_not_continue_is_named_and_leaves_the_cache_as_it_was(draw, k, v):
    cache = KVCache()
    keys, _ = cache.append(draw(2, 3, 2, 4), draw(2, 3, 2, 4))
    with pytest.raises(ValueError, match=r"\("):
        cache.append(draw(*k), draw(*(v or k)))
    new = draw(2, 3, 1, 4)
    assert len(cache) == 2
    assert torch.equal(cache.append(new, new)[0], torch.cat([keys, new], dim=2))


# the layer in one pass


@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_one_pass_agrees_with_fused_attention_on_complex_rotations_forward_and_backward(make, draw, n_kv_heads):
    layer, x, upstream = make(24, 6, n_kv_heads, base=50.0), draw(2, 5, 24), draw(2, 5, 24)
    theirs = with_gradients(lambda x: fused(layer, x, 6, n_kv_heads, 50.0), upstream, [x], layer.parameters())
    close(with_gradients(layer, upstream, [x], layer.parameters()), theirs, 1e-5)  # the angles are float32


def test_only_distances_count(layer, draw):
    x = draw(2, 4, 24)
    close(layer(x), fused(layer, x, 6, 2, 50.0, first=30), 1e-5)


# the layer with a cache


@pytest.mark.parametrize("lengths", [(9,), (1,) * 9, (4, 5), (5, 1, 3), (1, 7, 1), (2, 2, 2, 3)])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_any_chunks_give_the_numbers_of_one_pass(make, draw, lengths, n_kv_heads):
    layer, x = make(24, 6, n_kv_heads), draw(3, 9, 24)
    close(in_chunks(layer, x, lengths), layer(x))


def test_three_hundred_tokens_one_by_one_give_the_numbers_of_one_pass(make, draw):
    layer, x = make(4, 2, 1), draw(1, 300, 4)
    with torch.no_grad():
        close(in_chunks(layer, x, 1), layer(x), 1e-11)
        close(layer(x), fused(layer, x, 2, 1, 10000.0), 1e-4)  # 300 times the rounding of an angle


def test_a_reset_cache_begins_at_position_0_again(layer, draw):
    first, second, cache = draw(2, 5, 24), draw(1, 7, 24), KVCache()
    in_chunks(layer, first, (3, 2), cache)
    cache.reset()
    close(in_chunks(layer, second, (3, 4), cache), layer(second))


def test_gradients_reach_the_first_chunk_through_the_cache(layer, draw):
    x, upstream = draw(1, 5, 24), draw(1, 5, 24)
    close(*(with_gradients(run, upstream, [x]) for run in (layer, lambda x: in_chunks(layer, x, (2, 3)))))


def test_the_cache_holds_the_key_value_heads_once(layer, draw):
    cache = KVCache()
    layer(draw(2, 5, 24), cache)
    nothing = draw(2, 2, 0, 4)
    keys, values = cache.append(nothing, nothing)
    assert keys.shape == values.shape == (2, 2, 5, 4)


def test_one_pass_leaves_no_trace(layer, draw):
    x, y, cache = draw(1, 3, 24), draw(1, 3, 24), KVCache()
    layer(y)
    expected = layer(x)
    layer(y, cache)
    assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("n_kv_heads, narrow", [(6, 24), (2, 8), (1, 4)])
def test_keys_and_values_have_narrow_maps_without_bias_in_single_precision_which_stays(draw, n_kv_heads, narrow):
    layer, x = GroupedQueryAttention(24, 6, n_kv_heads), draw(1, 4, 24).float()
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {f"W_{name}.weight": (rows, 24) for name, rows in zip("qkvo", (24, narrow, narrow, 24))}
    assert in_chunks(layer, x, (3, 1)).dtype == layer(x).dtype == torch.float32


@pytest.mark.parametrize("sizes", [(10, 4, 2), (12, 6, 4), (8, 2, 4), (8, 0, 1), (8, 4, 0), (8, 4, -2), (12, 4, 2)])
def test_heads_that_do_not_divide_or_have_no_pairs_are_named(sizes):
    words = "width 3" if sizes == (12, 4, 2) else ".*".join(map(str, sizes))
    with pytest.raises(ValueError, match=words):
        GroupedQueryAttention(*sizes)


@pytest.mark.parametrize("shape", [(2, 5, 8), (5, 24), (1, 2, 5, 24)])
def test_tokens_that_do_not_fit_are_named(layer, draw, shape):
    with pytest.raises(ValueError, match=r"\(batch, n, 24\)"):
        layer(draw(*shape))


# counting


@pytest.mark.parametrize("dtype, size", [(torch.float32, 4), (torch.float16, 2)])
def test_the_bytes_are_those_of_the_tensors_that_are_held(dtype, size):
    held = []
    for _ in range(5):  # layers
        keys = torch.zeros(3, 2, 7, 4, dtype=dtype)
        held += KVCache().append(keys, keys.clone())
    assert kv_cache_bytes(5, 2, 4, 7, size, batch=3) == sum(t.numel() * t.element_size() for t in held)


@pytest.mark.parametrize(
    "wrong",
    [dict(n_layers=0), dict(n_kv_heads=0), dict(d_head=-1), dict(seq_len=-1), dict(bytes_per_element=0), dict(batch=0)],
)
def test_sizes_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        kv_cache_bytes(**{**dict(n_layers=2, n_kv_heads=3, d_head=4, seq_len=5), **wrong})


# one byte per number


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_what_comes_back_is_within_half_a_scale_and_as_numpy_rounds(draw, dtype):
    x = (draw(2, 3, 40, 8) * 3).to(dtype)
    codes, scale = quantize_cache(x)
    assert (codes.dtype, scale.dtype, scale.shape) == (torch.int8, dtype, (2, 3, 40, 1))
    assert codes.abs().amax(-1).eq(127).all()
    exact = x.double().abs().amax(-1, keepdim=True) / 127
    assert ((codes * exact - x.double()).abs() <= exact * (0.5 + 1e-5)).all()
    theirs = np.rint(x.double().numpy() / exact.numpy())
    assert np.abs(theirs - codes.numpy()).max() <= 1  # at a half, either
    assert (theirs == codes.numpy()).mean() > 0.95


def test_a_row_of_zeros_comes_back_as_zeros_and_whole_numbers_are_refused():
    codes, scale = quantize_cache(torch.zeros(1, 1, 2, 3))
    assert not codes.any() and not scale.any()
    with pytest.raises(ValueError, match="int64"):
        quantize_cache(torch.ones(1, 1, 2, 3, dtype=torch.int64))


# the chapter's facts


def test_an_eight_billion_llama_holds_a_quarter_of_what_its_query_heads_would():
    """The figures that the chapter corrects: 4 GiB and 69 GB were for 32 key/value heads, in two different units."""
    long, short = 128 * 1024, 8192
    assert kv_cache_bytes(32, 32, 128, short) == 4 * 2**30
    assert kv_cache_bytes(32, 32, 128, long) / 1e9 == pytest.approx(68.7, abs=0.05)
    assert kv_cache_bytes(32, 8, 128, short) == 2**30 and kv_cache_bytes(32, 8, 128, long) == 16 * 2**30


def test_pytorch_s_causal_flag_aligns_to_the_top_left():
    keys, values = torch.zeros(1, 5, 2), torch.eye(5)[None]
    newest = F.scaled_dot_product_attention(torch.zeros(1, 1, 2), keys, values, is_causal=True)
    assert newest[0, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_pytorch_s_causal_lower_right_is_the_mask_for_a_cache():
    from torch.nn.attention.bias import causal_lower_right  # two seconds, which no other test of this file needs

    keys, values = torch.zeros(1, 1, 5, 2), torch.eye(5)[None, None]
    for n_new in (1, 2):
        mask = causal_lower_right(n_new, 5)
        given = F.scaled_dot_product_attention(torch.zeros(1, 1, n_new, 2), keys, values, attn_mask=mask)
        allowed = torch.ones(n_new, 5).tril(5 - n_new)
        close(given[0, 0], allowed / allowed.sum(dim=1, keepdim=True), 1e-6)


def test_a_latent_row_serves_keys_and_values_that_are_never_made(draw):
    """MLA's two products, for several heads at once: the maps can be moved to the query and behind the average."""
    latent, up_k, up_v, q, out = draw(7, 3), draw(5, 3, 4), draw(5, 3, 4), draw(5, 1, 4), draw(5, 4, 6)
    keys, values = latent @ up_k, latent @ up_v
    expected = (F.scaled_dot_product_attention(q, keys, values) @ out).sum(dim=0)
    asked = q @ up_k.mT
    weights = torch.softmax(asked @ latent.T / math.sqrt(4), dim=-1)
    close(((weights @ latent) @ (up_v @ out)).sum(dim=0), expected)


def test_deepseek_v2_keeps_as_much_as_two_and_a_quarter_key_value_heads():
    assert (512 + 64) / (2 * 128) == 2.25
    assert 2 * 128 * 128 / (512 + 64) == pytest.approx(56.9, abs=0.05)


@pytest.fixture(scope="module")
def friday():
    return data.seven_tokens().weights[:, :, -1]


def test_without_the_first_token_the_other_weights_must_grow_fourfold_without_any_other_hardly(friday):
    factor = 1 / (1 - np.median(friday.reshape(-1, 7)[:, :6], axis=0))
    assert factor[0] == pytest.approx(4.15, abs=0.01)
    assert (factor[1:] < 1.05).all()


def test_in_most_heads_the_others_more_than_double_without_the_first_token(friday):
    doubled = (friday > 0.5).sum(axis=(0, 1))
    assert doubled[0] == 181 and (doubled[1:6] <= 12).all()


def test_most_heads_rest_on_the_first_token():
    first = data.heads().measures["first"]
    assert np.median(first) == pytest.approx(0.67, abs=0.005)
    assert (first > 0.5).sum() == 188 and (first > 0.9).sum() == 57
