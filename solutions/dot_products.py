"""Reference answers of the dot product chapter: from two lists of numbers to a whole table of scores.

`dot` and `matmul` are plain Python; the others use NumPy and accept whole numbers. A sequence of vectors is an array
(..., n, d): n vectors of d numbers, with any leading dimensions. Inputs are never changed. Sizes that do not fit
raise ValueError.
"""

import numpy as np


def dot(a: list[float], b: list[float]) -> float:
    """Sum of the products of entries at the same position, for two sequences of equal length; 0.0 for empty ones."""
    if len(a) != len(b):
        raise ValueError(f"vectors of lengths {len(a)} and {len(b)} have no dot product")
    return float(sum(x * y for x, y in zip(a, b)))


def cosine_similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two vectors (d,), from -1 to 1; 0.0 when either is the zero vector."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"two vectors of one length are needed, not shapes {a.shape} and {b.shape}")
    length_a, length_b = np.linalg.norm(a), np.linalg.norm(b)
    if length_a == 0.0 or length_b == 0.0:
        return 0.0
    # Each vector is divided by its own length, so that very long and very short ones neither overflow nor vanish.
    # Rounding can give a result just outside [-1, 1], which no angle has as its cosine.
    return float(np.clip((a / length_a) @ (b / length_b), -1.0, 1.0))


def matmul(A: list[list[float]], B: list[list[float]]) -> list[list[float]]:
    """Rows of A (n, m) with columns of B (m, p): a list of n rows of p dot products."""
    for name, rows in {"A": A, "B": B}.items():
        widths = {len(row) for row in rows}
        if len(widths) > 1:
            raise ValueError(f"the rows of {name} have different lengths: {sorted(widths)}")
    if len(A) > 0 and len(A[0]) != len(B):
        raise ValueError(f"rows of A have {len(A[0])} entries, columns of B have {len(B)}")
    columns_of_B = list(zip(*B))
    return [[dot(row, column) for column in columns_of_B] for row in A]


def pairwise_scores(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Dot product of every query (..., n_q, d) with every key (..., n_k, d): scores (..., n_q, n_k)."""
    Q, K = np.asarray(Q, dtype=float), np.asarray(K, dtype=float)
    if Q.ndim < 2 or K.ndim < 2 or Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"queries (..., n_q, d) and keys (..., n_k, d) are needed, not {Q.shape} and {K.shape}")
    return Q @ np.swapaxes(K, -1, -2)


def score_variance(d: int, n_samples: int, rng: np.random.Generator) -> float:
    """Variance of q·k over n_samples pairs of vectors (d,) with independent standard normal entries."""
    queries = rng.standard_normal((n_samples, d))
    keys = rng.standard_normal((n_samples, d))
    return float(np.einsum("nd,nd->n", queries, keys).var())
