"""Facts that the caching chapter states, and the words of its references' errors."""

import numpy as np
import pytest
import torch

from attnlab import data
from solutions.kv_cache import GroupedQueryAttention, KVCache, kv_cache_bytes, quantize_cache, repeat_kv


def appended(k, v):
    """A second append, of these shapes, to a cache of (2, 3, 2, 4)."""
    cache = KVCache()
    cache.append(torch.ones(2, 3, 2, 4), torch.ones(2, 3, 2, 4))
    cache.append(torch.ones(k), torch.ones(v))


def read(shape):
    GroupedQueryAttention(24, 6, 2)(torch.ones(shape))


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *((repeat_kv, (torch.ones(shape), 2), "2 times") for shape in [(2, 3, 4), (1, 2, 3, 4, 5)]),
        *((repeat_kv, (torch.ones(2, 3, 4, 5), n_rep), f"{n_rep} times") for n_rep in (0, -1)),
        *((appended, (k, k), r"\(") for k in [(1, 3, 1, 4), (2, 1, 1, 4), (2, 3, 1, 5), (3, 1, 4)]),
        *((appended, (k, (2, 3, 1, 4)), r"\(") for k in [(2, 3, 1, 5), (2, 3, 2, 4)]),
        *(
            (GroupedQueryAttention, sizes, ".*".join(map(str, sizes)))
            for sizes in [(10, 4, 2), (12, 6, 4), (8, 2, 4), (8, 0, 1), (8, 4, 0), (8, 4, -2)]
        ),
        (GroupedQueryAttention, (12, 4, 2), "width 3"),
        *((read, (shape,), r"\(batch, n, 24\)") for shape in [(2, 5, 8), (5, 24), (1, 2, 5, 24)]),
        *(
            (kv_cache_bytes, sizes, "at least")
            for sizes in [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, -1, 5), (2, 3, 4, -1), (2, 3, 4, 5, 0), (2, 3, 4, 5, 2, 0)]
        ),
        (quantize_cache, (torch.ones(1, 1, 2, 3, dtype=torch.int64),), "int64"),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# the chapter's facts


def test_an_eight_billion_llama_and_deepseek_v2_hold_what_the_chapter_says():
    """The figures that the chapter corrects: 4 GiB and 69 GB were for 32 key/value heads, in two different units."""
    long, short = 128 * 1024, 8192
    assert kv_cache_bytes(32, 32, 128, short) == 4 * 2**30
    assert kv_cache_bytes(32, 32, 128, long) / 1e9 == pytest.approx(68.7, abs=0.05)
    assert kv_cache_bytes(32, 8, 128, short) == 2**30 and kv_cache_bytes(32, 8, 128, long) == 16 * 2**30
    assert (512 + 64) / (2 * 128) == 2.25
    assert 2 * 128 * 128 / (512 + 64) == pytest.approx(56.9, abs=0.05)


@pytest.fixture(scope="module")
def friday():
    return data.seven_tokens().weights[:, :, -1]


def test_only_without_the_first_token_do_the_other_weights_grow_fourfold(friday):
    factor = 1 / (1 - np.median(friday.reshape(-1, 7)[:, :6], axis=0))
    assert factor[0] == pytest.approx(4.15, abs=0.01)
    assert (factor[1:] < 1.05).all()


def test_most_heads_read_mainly_the_first_token(friday):
    doubled = (friday > 0.5).sum(axis=(0, 1))
    assert doubled[0] == 181 and (doubled[1:6] <= 12).all()
    first = data.heads().measures["first"]
    assert np.median(first) == pytest.approx(0.67, abs=0.005)
    assert (first > 0.5).sum() == 188 and (first > 0.9).sum() == 57
