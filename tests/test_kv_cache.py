"""Facts that the caching chapter states, and the words of its references' errors."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.kv_cache import GroupedQueryAttention, KVCache, kv_cache_bytes, quantize_cache, repeat_kv
from tests.references import close

SEED = 90_091


# sizes


@pytest.mark.parametrize("shape, n_rep", [((2, 3, 4), 2), ((1, 2, 3, 4, 5), 2), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), -1)])
def test_what_cannot_be_repeated_is_named(draw, shape, n_rep):
    with pytest.raises(ValueError, match=f"{n_rep} times"):
        repeat_kv(draw(*shape), n_rep)


@pytest.mark.parametrize(
    "k, v",
    [((1, 3, 1, 4), None), ((2, 1, 1, 4), None), ((2, 3, 1, 5), None), ((3, 1, 4), None)]
    + [((2, 3, 1, 4), (2, 3, 1, 5)), ((2, 3, 2, 4), (2, 3, 1, 4))],
)
def test_tokens_that_do_not_continue_the_cache_are_named(k, v):
    cache = KVCache()
    cache.append(torch.ones(2, 3, 2, 4), torch.ones(2, 3, 2, 4))
    with pytest.raises(ValueError, match=r"\("):
        cache.append(torch.ones(k), torch.ones(v or k))


@pytest.mark.parametrize("sizes", [(10, 4, 2), (12, 6, 4), (8, 2, 4), (8, 0, 1), (8, 4, 0), (8, 4, -2), (12, 4, 2)])
def test_heads_that_do_not_divide_or_have_no_pairs_are_named(sizes):
    words = "width 3" if sizes == (12, 4, 2) else ".*".join(map(str, sizes))
    with pytest.raises(ValueError, match=words):
        GroupedQueryAttention(*sizes)


@pytest.mark.parametrize("shape", [(2, 5, 8), (5, 24), (1, 2, 5, 24)])
def test_tokens_that_do_not_fit_are_named(shape):
    with pytest.raises(ValueError, match=r"\(batch, n, 24\)"):
        GroupedQueryAttention(24, 6, 2)(torch.ones(shape))


@pytest.mark.parametrize(
    "wrong",
    [dict(n_layers=0), dict(n_kv_heads=0), dict(d_head=-1), dict(seq_len=-1), dict(bytes_per_element=0), dict(batch=0)],
)
def test_sizes_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        kv_cache_bytes(**{**dict(n_layers=2, n_kv_heads=3, d_head=4, seq_len=5), **wrong})


def test_whole_numbers_are_not_quantized():
    with pytest.raises(ValueError, match="int64"):
        quantize_cache(torch.ones(1, 1, 2, 3, dtype=torch.int64))


# the chapter's facts


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_quantized_numbers_are_off_by_at_most_half_a_scale(draw, dtype):
    x = (draw(2, 3, 40, 8) * 3).to(dtype)
    codes, _ = quantize_cache(x)
    exact = x.double().abs().amax(-1, keepdim=True) / 127
    assert codes.abs().amax(-1).eq(127).all()
    assert ((codes * exact - x.double()).abs() <= exact * (0.5 + 1e-5)).all()


def test_three_hundred_tokens_one_by_one_give_the_numbers_of_one_pass(draw):
    layer, x, cache = GroupedQueryAttention(4, 2, 1).double(), draw(1, 300, 4), KVCache()
    with torch.no_grad():
        close(torch.cat([layer(token, cache) for token in x.split(1, dim=1)], dim=1), layer(x), 1e-11)


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


def test_only_without_the_first_token_do_the_other_weights_grow_fourfold(friday):
    factor = 1 / (1 - np.median(friday.reshape(-1, 7)[:, :6], axis=0))
    assert factor[0] == pytest.approx(4.15, abs=0.01)
    assert (factor[1:] < 1.05).all()


def test_in_most_heads_the_others_more_than_double_without_the_first_token(friday):
    doubled = (friday > 0.5).sum(axis=(0, 1))
    assert doubled[0] == 181 and (doubled[1:6] <= 12).all()


def test_most_heads_read_mainly_the_first_token():
    first = data.heads().measures["first"]
    assert np.median(first) == pytest.approx(0.67, abs=0.005)
    assert (first > 0.5).sum() == 188 and (first > 0.9).sum() == 57
