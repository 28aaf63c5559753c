"""The mask that hides the future, in plain Python."""


def causal_mask(n_q, n_k):
    """Return (n_q, n_k): True up to each query's own position.

    The last query has the position of the last key.
    """
    mask = [[False] * n_k for _ in range(n_q)]
    for i in range(n_q):
        for j in range(n_k):
            if j <= i + n_k - n_q:
                mask[i][j] = True
    return mask
