"""Matrices in plain Python, as lists of rows: multiplied, read, printed."""

import math


def multiply(A, B):
    """The product (n, m) of A (n, k) and B (k, m)."""
    columns = list(zip(*B))
    return [[sum(a * b for a, b in zip(row, column)) for column in columns]
            for row in A]


def add(A, B):
    """The sum of two matrices of one shape, as a new matrix."""
    return [[a + b for a, b in zip(*rows)] for rows in zip(A, B)]


def read_number(words, name, low, high, whole=False):
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
            f"{name}: '{word}' is not a {kind} from {low:g} to {high:g}")
    return number


def read_sizes(words, *names):
    return [int(read_number(words, name, 1, 1000, whole=True))
            for name in names]


def read_matrix(words, name, rows, columns):
    return [[read_number(words, name, -1e30, 1e30) for _ in range(columns)]
            for _ in range(rows)]


def read_mask(words, rows, columns):
    """True where a query may attend to a key."""
    return [[read_number(words, "mask", 0, 1, whole=True) == 1
             for _ in range(columns)] for _ in range(rows)]


def print_matrix(title, rows):
    print(title)
    for row in rows:
        print(*row)
