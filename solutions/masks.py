"""Reference answers of the masks chapter: which keys a query may read, in NumPy.

A mask is boolean and True means that the query (row) may attend to the key (column). Inputs are never changed. Sizes
that do not fit raise ValueError. Sources: Vaswani et al., 2017, section 3.2.3 (causal mask); Beltagy et al., 2020
(sliding window); Krell et al., 2021 (packed documents).
"""

import numpy as np


def causal_mask(n_q: int, n_k: int | None = None) -> np.ndarray:
    """Return (n_q, n_k) truth values, aligned to the bottom right.

    The last query sees every key, each query before it one key fewer. With more queries than keys, the first n_q - n_k
    rows allow nothing. n_k = None means as many keys as queries.
    """
    n_k = n_q if n_k is None else n_k
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)


def padding_mask(lengths: list[int] | np.ndarray, max_len: int) -> np.ndarray:
    """(batch, 1, max_len) truth values: True on the first lengths[b] positions of sentence b, for every query."""
    lengths = np.asarray(lengths)
    if lengths.ndim != 1:
        raise ValueError(f"one length per sentence is needed, not an array of shape {lengths.shape}")
    if np.any(lengths < 0) or np.any(lengths > max_len):
        raise ValueError(f"lengths must be between 0 and max_len = {max_len}, got {lengths.tolist()}")
    return np.arange(max_len) < lengths[:, None, None]


def sliding_window_mask(n: int, window: int) -> np.ndarray:
    """(n, n) truth values: each token sees itself and the window - 1 tokens before it, as far as there are any."""
    if window < 1:
        raise ValueError(f"window must be at least 1 (the token itself), got {window}")
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    steps_back = np.arange(n)[:, None] - np.arange(n)
    return (steps_back >= 0) & (steps_back < window)


def document_mask(document_ids: list | np.ndarray) -> np.ndarray:
    """(..., n, n) truth values: each token sees the tokens of its own document, up to and including itself.

    document_ids: (..., n) whole numbers; equal numbers are one document, wherever they stand
    """
    ids = np.asarray(document_ids)
    if ids.ndim < 1:
        raise ValueError(f"one number per token is needed, not the single number {ids}")
    return (ids[..., :, None] == ids[..., None, :]) & np.tri(ids.shape[-1], dtype=bool)


def masked_softmax(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Softmax along the last axis over what the mask allows; the two broadcast.

    scores: (..., n_q, n_k) or any shape; whole numbers too. A hidden entry gets exactly 0, whatever its
    score. A row in which nothing is allowed is all zeros.
    """
    visible = np.where(mask, scores, -np.inf)
    # An empty row has maximum -inf and total 0. Replacing them by 0 and 1 leaves zeros and never meets -inf - -inf.
    top = visible.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(visible - np.where(top == -np.inf, 0.0, top))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0.0, 1.0, total)


def causal_attention(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Output (..., n_q, d_v) and weights (..., n_q, n_k) of attention in which no query sees a later key.

    Q (..., n_q, d_k), K (..., n_k, d_k), V (..., n_k, d_v); leading dimensions broadcast. The queries are the last
    n_q of the n_k positions; a query before the first key has zeros in both results.
    """
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"queries have width {Q.shape[-1]}, keys have width {K.shape[-1]}")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"{K.shape[-2]} keys, but {V.shape[-2]} values")
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    weights = masked_softmax(scores, causal_mask(Q.shape[-2], K.shape[-2]))
    return weights @ V, weights


def test_causal_attention(causal_attention) -> None:
    """Accept an implementation of causal_attention by returning, reject it by raising."""

    def expected(q, k, v):
        """One query at a time, with the keys that it may read."""
        n_q, n_k = len(q), len(k)
        weights = np.zeros((n_q, n_k))
        for row in range(n_q):
            seen = max(0, row + n_k - n_q + 1)
            if seen:
                scores = [float(np.dot(q[row], k[j])) / float(np.sqrt(q.shape[1])) for j in range(seen)]
                powers = [float(np.exp(score - max(scores))) for score in scores]
                weights[row, :seen] = [power / sum(powers) for power in powers]
        return weights @ v, weights

    draws = np.random.default_rng(0)

    def compare(Q, K, V):
        before = [each.copy() for each in (Q, K, V)]
        output, weights = causal_attention(Q, K, V)
        leading = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
        assert weights.shape == (*leading, Q.shape[-2], K.shape[-2]), "the shape of the weights"
        every = np.broadcast_shapes(leading, V.shape[:-2])
        assert output.shape == (*every, Q.shape[-2], V.shape[-1]), "the shape of the output"
        for place in np.ndindex(every):
            one = [np.broadcast_to(each, (*every, *each.shape[-2:]))[place] for each in (Q, K, V)]
            wanted = expected(*one)
            np.testing.assert_allclose(output[place], wanted[0], rtol=1e-11, atol=1e-13)
            given = np.broadcast_to(weights, (*every, *weights.shape[-2:]))[place]
            np.testing.assert_allclose(given, wanted[1], rtol=1e-11, atol=1e-13)
        for each, kept in zip((Q, K, V), before):
            np.testing.assert_array_equal(each, kept, err_msg="an input was changed")

    for n_q, n_k, d_k, d_v in [
        (1, 1, 2, 2),
        (4, 4, 4, 3),
        (3, 3, 3, 3),
        (2, 5, 4, 2),
        (1, 4, 3, 1),
        (5, 2, 2, 3),
        (4, 1, 1, 2),
    ]:
        compare(draws.normal(size=(n_q, d_k)), draws.normal(size=(n_k, d_k)), draws.normal(size=(n_k, d_v)))
    compare(draws.normal(size=(2, 3, 4)), draws.normal(size=(2, 5, 4)), draws.normal(size=(2, 5, 2)))
    compare(draws.normal(size=(2, 3, 2, 4)), draws.normal(size=(2, 1, 4, 4)), draws.normal(size=(2, 1, 4, 2)))
    compare(draws.normal(size=(3, 2)), draws.normal(size=(2, 3, 2)), draws.normal(size=(2, 3, 4)))
    compare(draws.normal(size=(3, 2)), draws.normal(size=(3, 2)), draws.normal(size=(2, 3, 4)))
    compare(1000 * draws.normal(size=(3, 4)), draws.normal(size=(3, 4)), draws.normal(size=(3, 2)))
    compare(draws.normal(size=(3, 4)) - 40, draws.normal(size=(3, 4)) + 40, draws.normal(size=(3, 2)))
    compare(np.full((3, 2), 1e20), np.full((3, 2), -1e20), draws.normal(size=(3, 2)))
    compare(np.zeros((3, 2)), draws.normal(size=(3, 2)), draws.normal(size=(3, 2)))
    compare(draws.normal(size=(2, 3)), np.zeros((4, 3)), draws.normal(size=(4, 2)))
    whole = draws.integers(-3, 4, size=(3, 3, 4))
    compare(*whole)
    compare(whole[0], whole[1], draws.normal(size=(3, 2)))
    compare(whole[0], draws.normal(size=(3, 4)), draws.normal(size=(3, 2)))
    compare(draws.normal(size=(2, 4, 3)), draws.normal(size=(2, 2, 3)), draws.normal(size=(2, 2, 3)))
    compare(np.ones((3, 1)), np.array([[0.0], [1.0], [1e17]]), draws.normal(size=(3, 2)))
    # A later key is not read at all: a change there, however large, changes nothing before it.
    Q, K, V = (draws.normal(size=(4, 3)) for _ in range(3))
    first = causal_attention(Q, K, V)
    K[3], V[3] = 1e6, -1e6
    second = causal_attention(Q, K, V)
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one[:3], other[:3])
