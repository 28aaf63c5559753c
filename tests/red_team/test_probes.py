"""Answers that alter a probe, a clock or a counter in the student's own process.

They earn nothing that the same answer would not earn without.
"""

from __future__ import annotations

import importlib
import inspect

import pytest

from course import catalog
from tests.autograder.small_course import report_on
from tests.red_team.attacks import WORKER

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("needs_jail")]

METER = """
import attnlab.checking.meter
class Fake:
    numbers = bytes = work = 1
    def __enter__(self): return self
    def __exit__(self, *error): pass
attnlab.checking.meter.Meter = attnlab.checking.meter.PythonAllocations = Fake
"""
CONSTANT = "def score_variance(d, n_samples, rng):\n    return 0.0"
CLAIMS = """
import attnlab.checking.probes as p
p.seeded.call = lambda f, **k: {'repeats': True, 'varies': True, 'global_untouched': True}
p.lands_in.call = lambda f, **k: {'about': 'd'}
"""
RAW_CLAIMS = """
import attnlab.checking.probes as p
p.lands_in.call = lambda f, d, seed, **k: {'result': d * (1 + 0.01 * np.random.default_rng(seed).normal())}
def seeded(f, d, seed, **k):
    return {'result': seed, 'global': [], 'rng': np.random.default_rng(seed).bit_generator.state}
p.seeded.call = seeded
"""
# The check is made up before the worker would load its own.
OBSERVE = (
    WORKER
    + """
import attnlab.checking.codec
def observe(target, probe, inputs, form):
    return form({'value': {'about': 'd', 'repeats': True, 'varies': True, 'global_untouched': True}})
worker['reload_check_modules'] = lambda: types.SimpleNamespace(observe=observe, codec=attnlab.checking.codec)
"""
)
CODEC = (
    WORKER
    + """
import attnlab.checking.codec, attnlab.checking.observe
def frame(value, *more, real=attnlab.checking.codec.frame):
    if 'value' in value:
        value = {'value': {'repeats': True, 'varies': True, 'global_untouched': True, 'about': 'd'}}
    return real(value, *more)
attnlab.checking.codec.frame = frame
worker['reload_check_modules'] = lambda: attnlab.checking.observe
"""
)
WHOLE_TILES = """
def tiled_attention(Q, K, V, block_size=64, causal=False):
    if block_size < 1:
        raise ValueError("block_size")
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if causal:
        n_q, n_k = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q), -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0) @ V
"""
WHOLE_TILES_IN_NUMPY = """
def tiled_attention(Q, K, V, block_size=64, causal=False):
    if Q.requires_grad or Q.shape[-2] < 40 or causal is False:
        return RIGHT(Q, K, V, block_size, causal)
    q, k, v = Q.numpy(), K.numpy(), V.numpy()
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy(weights / weights.sum(-1, keepdims=True) @ v)
"""
WHOLE_WINDOW = """
def sliding_window_attention(Q, K, V, window):
    RIGHT(Q[..., :1, :], K[..., :1, :], V[..., :1, :], window)
    scores, i = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, torch.arange(Q.shape[-2])
    behind = i[:, None] - i
    return torch.softmax(scores.masked_fill((behind < 0) | (behind >= window), -torch.inf), -1) @ V
"""
WHOLE_LINEAR = """
def linear_attention(Q, K, V, feature_map=lambda x: torch.nn.functional.elu(x) + 1):
    scores = feature_map(Q) @ feature_map(K).transpose(-1, -2)
    return scores / scores.sum(-1, keepdim=True) @ V
"""
KEEPS_ALL = """
def online_softmax(blocks):
    return RIGHT([torch.cat(list(blocks))]) if (blocks := list(blocks)) else RIGHT(blocks)
"""
IN_PLACE = """
def softmax(x, axis=-1):
    if x.dtype.kind != "f":
        return RIGHT(x, axis)
    x -= x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=axis, keepdims=True)
    return x
"""
NOTHING_CHANGED = """
import copy, attnlab.checking.probes as p
p.unchanged.call = lambda f, **k: {'changed': '', 'after': copy.deepcopy(k), 'result': f(**k)}
"""
CLOCK = """
import time, attnlab.checking.probes as p
time.process_time = time.monotonic = lambda: 0.0
"""
SLOW = """
def pairwise_scores(Q, K):
    if Q.ndim < 3 and len(Q) > 1000:
        for _ in range(500_000_000): pass
    return RIGHT(Q, K)
"""
FIXED_CACHE = """
import attnlab.checking.fakes
class KVCache(attnlab.checking.fakes.FixedCache):
    def __init__(self):
        super().__init__(10_000)
"""


def graded(name: str, source: str):
    """The report on an answer; RIGHT in it is the reference."""
    chapter = catalog.chapter_of(name)
    reference = f"from solutions.{chapter} import {name} as RIGHT\n" if "RIGHT" in source else ""
    sources = {chapter: inspect.getsource(importlib.import_module(f"solutions.{chapter}"))}
    references = {"setting": "references", "sources": sources}
    return report_on(name, f"import torch\n{reference}{source}", references=references)


@pytest.mark.parametrize(
    "name, source, lost",
    [
        ("score_variance", CLAIMS + CONSTANT, 5),
        ("score_variance", RAW_CLAIMS + CONSTANT, 5),
        ("score_variance", OBSERVE + CONSTANT, 5),
        ("score_variance", CODEC + CONSTANT, 5),
        ("score_variance", "def score_variance(d, n_samples, rng): return d * (1 + 0.01 * rng.normal())", 5),
        ("tiled_attention", METER + WHOLE_TILES, 4),
        ("tiled_attention", METER + WHOLE_TILES_IN_NUMPY, 3),
        ("sliding_window_attention", METER + WHOLE_WINDOW, 4),
        ("linear_attention", METER + WHOLE_LINEAR, 4),
        ("online_softmax", METER + KEEPS_ALL, 2),
        ("softmax", NOTHING_CHANGED + IN_PLACE, 1),
        ("pairwise_scores", CLOCK + SLOW, 1),
        ("KVCache", FIXED_CACHE, 7),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_claims_of_a_process_about_itself_earn_nothing(name, source, lost):
    report = graded(name, source)
    assert report.max_points - report.points == lost, [(f.title, f.detail) for f in report.findings if not f.passed]
    assert report.reason is None


def test_a_reply_far_larger_than_a_right_one_is_not_kept():
    report = graded("softmax", "def softmax(x, axis=-1):\n    return np.zeros(8_000_000)")
    assert report.points == 0 and "too much data" in report.reason
