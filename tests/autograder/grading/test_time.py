"""A limit counts processor time: what is right and slow gets its points, on a busy machine as on an idle one."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from autograder.grading.channel import CpuDeadline
from tests.autograder.small_course import report_on

LOOP = """
import torch

def one(row, temperature, generator, top_k, top_p):
    if temperature == 0:
        return int(row.argmax())
    shares = torch.softmax(row / temperature, -1)
    order = torch.argsort(shares, descending=True).tolist()[:top_k]
    kept, total, mass = [], 0.0, sum(float(shares[i]) for i in order)
    for i in order:
        if top_p is not None and kept and total >= top_p * mass:
            break
        kept.append(i)
        total += float(shares[i])
    at = float(torch.rand(1, generator=generator, dtype=torch.float64)) * total
    for i in kept:
        at -= float(shares[i])
        if at < 0:
            return i
    return kept[-1]


def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature < 0 or top_k is not None and top_k < 1 or top_p is not None and not 0 < top_p <= 1:
        raise ValueError("no token is left")
    rows = logits.reshape(-1, logits.shape[-1])
    ids = [one(row, temperature, generator, top_k, top_p) for row in rows]
    return torch.tensor(ids, dtype=torch.int64, device=logits.device).reshape(logits.shape[:-1])
"""
BROADCAST = """
def pairwise_scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("widths")
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(-1)
"""
LOOPS = """
def pairwise_scores(Q, K):
    if Q.ndim == K.ndim == 2 and Q.shape[-1] == K.shape[-1]:
        return np.array([[sum(a * b for a, b in zip(q, k)) for k in K] for q in Q])
    return Q @ np.swapaxes(K, -1, -2)
"""


@pytest.fixture(params=[0, 4], ids=["idle", "busy"])
def machine(request):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(request.param)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("needs_jail", "machine")
@pytest.mark.parametrize("name, source", [("sample", LOOP), ("pairwise_scores", BROADCAST)])
def test_a_right_answer_gets_all_its_points_however_it_is_written(name, source):
    report = report_on(name, source)
    assert report.passed, (report.reason, [(f.title, f.detail) for f in report.findings if not f.passed])


@pytest.mark.slow
@pytest.mark.usefixtures("needs_jail")
def test_python_loops_over_every_pair_are_too_slow_where_speed_is_asked_for():
    failed = [finding for finding in report_on("pairwise_scores", LOOPS).findings if not finding.passed]
    assert [finding.title for finding in failed] == ["scores 2000 queries with 2000 keys in under two seconds"]


SLOW_ONCE = """
import time

calls = []

def pairwise_scores(Q, K):
    if len(Q) == 2000 and not calls:
        calls.append(1)
        begin = time.process_time()
        while time.process_time() - begin < 4:
            pass
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("widths")
    return Q @ np.swapaxes(K, -1, -2)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("needs_jail")
def test_what_was_slow_once_is_asked_once_more():
    """Memory that the machine must first find, or another process, can make a right answer slow."""
    report = report_on("pairwise_scores", SLOW_ONCE)
    assert report.passed, [(f.title, f.detail) for f in report.findings if not f.passed]


# How long a CpuDeadline waits -----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Seconds on the wall, to be set."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    "computes, waits, ends",
    [(1.0, 0.0, 11), (0.25, 0.0, 41), (0.0, 0.0, 11), (0.1, 0.0, 61), (0.0, 0.9, 60)],
    ids=["computes", "shares", "sleeps", "starves", "waits"],
)
def test_patience_ends_by_what_was_computed(clock, computes, waits, ends):
    """Ten seconds of the processor, of which an answer has a share; one that has hardly any sleeps, or starves.

    Waiting for a processor is not sleep: on a machine so busy that an answer hardly ever runs, it has until the last
    moment.
    """
    patience = CpuDeadline(10, last=1000, spent=lambda: (computes * clock[0], waits * clock[0]))
    while patience.left():
        clock[0] += 0.5
    assert ends - 2 < clock[0] <= ends + 1


def test_time_between_two_replies_is_not_sleep_and_processor_time_adds_up(clock):
    computed = [0.0]
    patience = CpuDeadline(10, last=1000, spent=lambda: (computed[0], 0.0))
    for _ in range(3):
        clock[0] += 30  # in which the process waits for us
        patience.begin_to_wait()
        clock[0], computed[0] = clock[0] + 1, computed[0] + 1
        assert patience.left() > 0
    clock[0], computed[0] = clock[0] + 9, computed[0] + 9
    assert patience.left() == 0


def test_patience_ends_at_a_moment_in_any_case(clock):
    patience = CpuDeadline(10, last=3, spent=lambda: (0.0, 0.0))
    assert patience.left() <= 3
    clock[0] = 3.0
    assert patience.left() == 0


def test_an_immediate_answer_costs_no_look_at_the_clock(clock):
    assert CpuDeadline(10, last=1000, spent=lambda: 1 / 0).left() > 0
