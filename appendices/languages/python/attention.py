"""Scaled dot-product attention with a mask, in plain Python."""

import math


def attend(Q, K, V, mask):
    """Return the output (n_q, d_v) and the weights (n_q, n_k)."""
    root = math.sqrt(len(K[0]))
    output = [[0.0] * len(V[0]) for _ in Q]
    weights = [[0.0] * len(K) for _ in Q]
    for query, allowed, row, blend in zip(Q, mask, weights, output):
        # 1. Scaled scores; minus infinity where the mask says no.
        scores = []
        for key, may in zip(K, allowed):
            score = 0.0
            for a, b in zip(query, key):
                score += a * b
            scores.append(score / root if may else -math.inf)
        # 2. Their maximum. A query with no key keeps its zeros.
        largest = max(scores)
        if largest == -math.inf:
            continue
        # 3. Exponentials and their total. exp(-inf) is 0.
        for j, score in enumerate(scores):
            row[j] = math.exp(score - largest)
        total = math.fsum(row)
        # 4. Weights, and the blend of the values.
        for j, value in enumerate(V):
            row[j] /= total
            for c, number in enumerate(value):
                blend[c] += row[j] * number
    return output, weights
