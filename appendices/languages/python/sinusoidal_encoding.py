"""Sines and cosines that tell positions apart, in plain Python."""

import math


def sinusoidal_encoding(n, d_model):
    """Return (n, d_model): sines in even columns, cosines in odd ones."""
    table = []
    for position in range(n):
        row = []
        for c in range(0, d_model, 2):
            angle = position * 10000.0 ** (-c / d_model)
            row += [math.sin(angle), math.cos(angle)]
        table.append(row)
    return table
