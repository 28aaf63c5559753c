"""Parts of wrong answers. Code that raises is in each chapter's own file, as in a student's."""

import inspect
import itertools
import linecache
import math
import sys

import numpy as np

_numbers = itertools.count()


def changed(answer, *texts):
    """A right answer with parts of its source replaced: before, after, before, after, ..."""
    source = inspect.getsource(answer)
    for before, after in zip(texts[::2], texts[1::2], strict=True):
        assert before in source, before
        source = source.replace(before, after)
    file = f"<{answer.__name__}, changed {next(_numbers)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names = dict(vars(sys.modules[answer.__module__]))
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[answer.__name__]


def weights_of(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def scores_of(Q, K):
    return np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(Q.shape[-1])


def attend(scores, V):
    return weights_of(scores) @ V, weights_of(scores)
