"""Scaled dot-product attention with a mask, in plain Python.

    python attention.py < problem.txt
"""

import math
import sys
from collections import deque


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


def read(words, name, low, high, whole=False):
    """Take the next number of the input; it must be within bounds."""
    if not words:
        raise ValueError(f"{name}: the input ends too soon")
    word = words.popleft()
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not low <= number <= high or whole and number % 1:
        kind = "whole number" if whole else "number"
        raise ValueError(
            f"{name}: '{word}' is no {kind} from {low:g} to {high:g}")
    return number


def read_matrix(words, name, rows, columns):
    return [[read(words, name, -1e150, 1e150) for _ in range(columns)]
            for _ in range(rows)]


def read_problem(words):
    n_q, n_k, d_k, d_v = (int(read(words, name, 1, 1000, whole=True))
                          for name in ("n_q", "n_k", "d_k", "d_v"))
    Q = read_matrix(words, "Q", n_q, d_k)
    K = read_matrix(words, "K", n_k, d_k)
    V = read_matrix(words, "V", n_k, d_v)
    mask = [[bool(read(words, "mask", 0, 1, whole=True))
             for _ in range(n_k)] for _ in range(n_q)]
    return Q, K, V, mask


def main():
    words = deque(sys.stdin.read().split())
    more = True
    while more:
        try:
            problem = read_problem(words)
        except ValueError as error:
            sys.exit(f"attention: {error}")
        for title, rows in zip(("output", "weights"), attend(*problem)):
            print(title)
            for row in rows:
                print(*row)
        more = bool(words)


if __name__ == "__main__":
    main()
