"""Correct answers of the dot product chapter, written in other ways. Each must get full marks."""

import math
import operator

import numpy as np
import torch
import torch.nn.functional as F

# dot -------------------------------------------------------------------------------------------------------------


def dot_by_index(a, b):
    if len(a) != len(b):
        raise ValueError("lengths differ")
    total = 0
    for i in range(len(a)):
        total = total + a[i] * b[i]
    return total


def dot_with_strict_zip(a, b):
    return float(sum(x * y for x, y in zip(a, b, strict=True)))


def dot_with_exact_sum(a, b):
    if len(b) != len(a):
        raise ValueError(f"{len(a)} != {len(b)}")
    return math.fsum(map(operator.mul, a, b))


def dot_by_recursion(a, b):
    if not len(a) and not len(b):
        return 0.0
    if not len(a) or not len(b):
        raise ValueError("one vector ended before the other")
    return a[0] * b[0] + dot_by_recursion(a[1:], b[1:])


def dot_by_polarization(a, b):
    """|a + b|^2 - |a - b|^2 is four times the dot product."""
    if len(a) != len(b):
        raise ValueError("lengths differ")
    return (sum((x + y) ** 2 for x, y in zip(a, b)) - sum((x - y) ** 2 for x, y in zip(a, b))) / 4


def dot_by_torch(a, b):
    return torch.dot(*(torch.tensor(vector, dtype=torch.float64) for vector in (a, b))).item()


# cosine_similarity -----------------------------------------------------------------------------------------------


def cosine_with_norms(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    if lengths == 0:
        return 0.0
    return np.dot(a, b) / lengths


def cosine_of_unit_vectors(a, b):
    def unit(v):
        length = math.hypot(*v)
        return np.array(v, dtype=float) / length if length else np.zeros(len(v))

    return unit(a) @ unit(b)


def cosine_with_square_roots(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    if not a.any() or not b.any():
        return 0.0
    return float(np.sum(a * b) / (np.sqrt(np.sum(a ** 2)) * np.sqrt(np.sum(b ** 2))))


def cosine_with_nan_replaced(a, b):
    with np.errstate(all="ignore"):
        cosine = np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
    return 0.0 if np.isnan(cosine) else cosine


def cosine_in_extended_precision(a, b):
    if a.size != b.size:
        raise ValueError("sizes differ")
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    lengths = np.sqrt(a.dot(a)) * np.sqrt(b.dot(b))
    return (a @ b) / lengths if lengths > 0 else 0.0


def cosine_by_torch(a, b):
    a, b = (F.normalize(torch.tensor(vector, dtype=torch.float64), dim=0, eps=1e-300) for vector in (a, b))
    return torch.dot(a, b).item()


# matmul ----------------------------------------------------------------------------------------------------------


def matmul_with_strict_zips(A, B):
    columns = [list(column) for column in zip(*B, strict=True)]
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in A]


def matmul_as_mixtures_of_rows(A, B):
    """Row i of the product is a mixture of the rows of B, with the entries of row i of A as amounts."""
    if len({len(row) for row in A}) > 1 or len({len(row) for row in B}) > 1 or len(A[0]) != len(B):
        raise ValueError("ragged, or sizes that do not fit")
    product = []
    for amounts in A:
        mixture = [0] * len(B[0])
        for amount, row in zip(amounts, B):
            mixture = [so_far + amount * entry for so_far, entry in zip(mixture, row)]
        product.append(tuple(mixture))
    return product


def matmul_by_torch(A, B):
    return (torch.tensor(A, dtype=torch.float64) @ torch.tensor(B, dtype=torch.float64)).tolist()


# pairwise_scores -------------------------------------------------------------------------------------------------


def scores_with_einsum(Q, K):
    if Q.shape[-1] != K.shape[-1]:  # einsum would stretch a width of 1
        raise ValueError("widths differ")
    return np.einsum("...qd,...kd->...qk", Q, K)


def scores_with_moveaxis(Q, K):
    return np.matmul(Q, np.moveaxis(K, -1, -2))


def scores_by_columns_and_rows(Q, K):
    return np.matmul(K, np.swapaxes(Q, -1, -2)).swapaxes(-1, -2)


def scores_query_by_query(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("widths differ")
    return np.stack([(K @ Q[..., i, :, None])[..., 0] for i in range(Q.shape[-2])], axis=-2)


def scores_by_broadcasting(Q, K):
    """Wasteful: every single product is stored before it is summed."""
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("widths differ")
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(axis=-1)


def scores_by_torch(Q, K):
    return (torch.tensor(Q, dtype=torch.float64) @ torch.tensor(K, dtype=torch.float64).mT).numpy()


# score_variance --------------------------------------------------------------------------------------------------


def variance_in_one_draw(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).var()


def variance_by_columns(d, n_samples, rng):
    scores = sum(rng.standard_normal(n_samples) * rng.standard_normal(n_samples) for _ in range(d))
    return np.mean(scores ** 2) - np.mean(scores) ** 2


ALTERNATIVES = {
    "dot": [dot_by_index, dot_with_strict_zip, dot_with_exact_sum, dot_by_recursion, dot_by_polarization],
    "cosine_similarity": [cosine_by_torch, cosine_with_norms, cosine_of_unit_vectors, cosine_with_square_roots,
                          cosine_with_nan_replaced, cosine_in_extended_precision],
    "matmul": [matmul_with_strict_zips, matmul_as_mixtures_of_rows],
    "pairwise_scores": [scores_by_torch, scores_with_einsum, scores_with_moveaxis, scores_by_columns_and_rows,
                        scores_query_by_query, scores_by_broadcasting],
    "score_variance": [variance_in_one_draw, variance_by_columns],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "dot": [dot_by_torch],
    "matmul": [matmul_by_torch],
}
