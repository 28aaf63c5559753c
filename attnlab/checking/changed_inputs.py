"""Which inputs a call has changed: compared bit for bit, by the checker, with what the student's process sent back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnlab.checking.formatting import as_numpy

if TYPE_CHECKING:
    from attnlab.checking.schema import Case


def bitwise_equal(a, b) -> bool:
    """Whether two values are the same, bit for bit, type for type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(bitwise_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(bitwise_equal, a, b))
    if hasattr(a, "detach"):  # a tensor
        if a.dtype != b.dtype:
            return False
        a, b = as_numpy(a), as_numpy(b)
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def changed_inputs(before: Case, after: Case) -> str:
    """The names of inputs that have changed. A feature map is a name in the case, not an input."""
    return ", ".join(n for n in before if n != "feature_map" and not bitwise_equal(before[n], after[n]))
