"""A small exercise for tests of the mechanism: double a vector, keep the input, refuse a matrix."""

from __future__ import annotations

import numpy as np

from attnlab.checking import probes
from course.kit.exercise import Exercise


def doubled(x, times=1):
    """Reference: x doubled `times` times; ValueError unless x has one dimension."""
    if np.ndim(x) != 1:
        raise ValueError("one dimension, please")
    return np.asarray(x, dtype=float) * 2.0**times


def make() -> Exercise:
    exercise = Exercise(doubled, section="Why double")

    @exercise.property("doubles every entry", points=2, hint="Multiply by two, as often as asked.")
    def doubles(rng):
        yield dict(x=rng.normal(size=5), times=3)
        yield dict(x=rng.normal(size=3))

    @exercise.property("leaves its input as it was", points=1, probe=probes.unchanged, hint="Make a new array.")
    def pure(rng):
        yield dict(x=rng.normal(size=4))

    @exercise.property("refuses a matrix", points=1, probe=probes.error_of, hint="Raise ValueError.")
    def refuses(rng):
        yield dict(x=rng.normal(size=(2, 3)))

    @exercise.misconception("The number of doublings is ignored.", section="How often")
    def once(x, times=1):
        return doubled(x)

    @exercise.misconception("The entries are squared and not doubled.")
    def squared(x, times=1):
        return doubled(x) / 2 * x

    @exercise.misconception("The input is doubled in place, which changes the caller's array.")
    def in_place(x, times=1):
        if x.ndim != 1:
            raise ValueError
        x *= 2.0**times
        return x

    @exercise.misconception("The number of dimensions is not checked.")
    def unchecked(x, times=1):
        return x * 2.0**times

    return exercise


RIGHT = """
import numpy as np

def doubled(x, times=1):
    x = np.array(x, dtype=float)
    if x.ndim != 1:
        raise ValueError("one dimension")
    return x * 2 ** times
"""
