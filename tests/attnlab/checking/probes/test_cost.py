"""Probes of time and memory."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from attnlab.checking import probes
from attnlab.checking.observe import outcome_of, raw_outcomes_of
from tests.attnlab.checking.probes.helpers import seen


def test_a_fast_answer_is_in_time():
    got = seen("in_time", lambda a, k: a * k, seconds=5, seed=1, entries=2, shapes={"a": (300, 4)}, k=2)
    a = np.random.default_rng(1).normal(size=(300, 4)).reshape(-1)
    assert got["in_time"] is True and len(got["sample"]) == 8 and set(got["sample"]) <= set(2 * a)


def test_an_endless_python_loop_is_broken_off():
    def slow(a):
        while True:
            pass

    start = time.monotonic()
    assert seen("in_time", slow, seconds=0.1, seed=1, shapes={"a": (2,)}) == {"in_time": False, "sample": None}
    assert time.monotonic() - start < 20


def test_waiting_is_not_computing_but_ends_too():
    def idle(a):
        for _ in range(10_000):
            time.sleep(0.01)

    assert seen("in_time", idle, seconds=0.1, seed=1, shapes={"a": (2,)})["in_time"] is False


GROWTH = dict(seed=3, entries=4, n=40, large=dict(n=300), shapes=dict(x=(0, 4)), watched=["memory", "work"])


def test_growth_tells_a_line_from_a_square():
    line = outcome_of(lambda x: x * 2, "growth", GROWTH)["value"]
    square = outcome_of(lambda x: (x @ x.T).sum(0), "growth", GROWTH)["value"]
    assert (line["memory in step"], line["work in step"]) == (True, True)
    assert (square["memory in step"], square["work in step"]) == (False, False)


def test_a_square_in_numpy_is_seen_as_one_in_pytorch_is():
    def square(x):
        rows = x.numpy()
        return torch.from_numpy((rows @ rows.T).sum(0))

    assert outcome_of(square, "growth", GROWTH)["value"]["memory in step"] is False


def test_what_the_operating_system_saw_counts_where_nothing_was_counted_inside():
    raw = raw_outcomes_of(lambda x: x * 2, "growth", GROWTH)
    assert probes.growth.verdict(GROWTH, raw)["value"]["memory in step"] is True
    raw[2]["used"] = {"seconds": 0.0, "bytes": 8 * 300 * 300}
    assert probes.growth.verdict(GROWTH, raw)["value"]["memory in step"] is False


def cat(blocks):
    return torch.cat(list(blocks)).sum()


def in_numpy(blocks):
    return torch.from_numpy(np.concatenate([block.numpy() for block in blocks])).sum()


@pytest.mark.parametrize(
    "answer, hoards", [(cat, True), (in_numpy, True), (lambda blocks: sum(block.sum() for block in blocks), False)]
)
def test_a_stream_that_is_hoarded_is_told_from_one_that_is_not(answer, hoards):
    case = dict(blocks=[torch.ones(6) for _ in range(20)], large=dict(seed=1, count=20, size=3000))
    assert outcome_of(answer, "streamed", case)["value"]["hoarded"] is hoards


@pytest.mark.parametrize(
    "keep, hoards",
    [(lambda block: block, True), (lambda block: block.tolist(), True), (lambda block: block.sum().item(), False)],
)
def test_blocks_that_show_few_of_their_numbers_are_seen_to_be_kept(keep, hoards):
    case = dict(blocks=[torch.ones(6) for _ in range(20)], large=dict(seed=1, count=64, size=4000, every=16))
    outcome = outcome_of(lambda blocks: float(len([keep(block) for block in blocks])), "streamed", case)
    assert outcome["value"]["hoarded"] is hoards


TOKENS = dict(k=torch.rand(1, 1, 16, 2), chunk=32, times=[2, 10], entries=3)


def token_by_token(k, chunk):
    total, sums = 0, []
    for t in range(k.shape[2]):
        total = total + k[:, :, t]
        sums.append(total)
    return torch.stack(sums, 2), total


def chunk_by_chunk(k, chunk):
    total, sums = torch.zeros(1, 1, 1, 2), []
    for piece in k.split(chunk, 2):
        sums.append(total + piece.cumsum(2))
        total = sums[-1][:, :, -1:]
    return torch.cat(sums, 2), total[:, :, 0]


def rows_of_each_chunk(k, chunk):
    total, sums = torch.zeros(1, 1, 2), []
    for piece in k.split(chunk, 2):
        for row in range(piece.shape[2]):
            total = total + piece[:, :, row]
            sums.append(total)
    return torch.stack(sums, 2), total


def all_against_all(k, chunk):
    n = k.shape[2]
    sums = torch.ones(n, n).tril() @ k
    return sums, sums[:, :, -1]


@pytest.mark.parametrize(
    "answer, operations, memory",
    [
        (chunk_by_chunk, True, True),
        (token_by_token, False, True),
        (rows_of_each_chunk, False, True),
        (all_against_all, True, False),
    ],
)
def test_a_loop_over_chunks_is_told_from_one_over_tokens_and_from_one_table(answer, operations, memory):
    found = seen("chunked_work", answer, **TOKENS)
    assert (found["operations in step"], found["memory in step"]) == (operations, memory)


def test_a_loop_that_pytorch_runs_itself_is_seen_in_its_steps():
    raw = raw_outcomes_of(chunk_by_chunk, "chunked_work", TOKENS)
    raw[1]["value"]["steps"] += 4 * 128
    assert probes.chunked_work.verdict(TOKENS, raw)["value"]["operations in step"] is False


def test_entries_of_all_results_at_both_lengths_are_compared():
    found, other = (seen("chunked_work", answer, **TOKENS)["sample"] for answer in (chunk_by_chunk, token_by_token))
    assert len(found) == 4
    for one, two in zip(found, other):
        torch.testing.assert_close(one, two)


def test_a_result_that_is_not_a_tuple_of_tensors_is_refused_in_words():
    assert "a tuple of tensors, not Tensor" in seen("chunked_work", lambda k, chunk: k, **TOKENS)["refused"]
