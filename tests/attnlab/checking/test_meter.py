"""What the meter says of operations whose cost is known."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab.checking import probe_verdicts
from attnlab.checking.meter import Meter
from attnlab.checking.observe import outcome_of, raw_outcomes_of


def test_neither_counting_nor_the_other_device_loads_pytorchs_compiler():
    code = (
        "import sys, torch\nfrom attnlab.checking import fake_device, meter\n"
        "with meter.Meter() as counted:\n    torch.ones(3, 5) @ torch.ones(5, 7)\n"
        "with fake_device.Elsewhere():\n    moved = fake_device.moved(torch.ones(3))\n    moved + moved\n"
        "print(counted.work, 'torch._dynamo' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["105", "False"]


def test_a_product_costs_a_multiply_add_for_each_pair_of_numbers_that_meet():
    with Meter() as meter:
        torch.ones(3, 5) @ torch.ones(5, 7)
        torch.ones(2, 3, 5) @ torch.ones(2, 5, 7)
        F.linear(torch.ones(3, 5), torch.ones(7, 5), torch.ones(7))
    assert meter.work == 4 * 3 * 5 * 7


def test_other_arithmetic_costs_one_for_each_number_and_moving_costs_nothing():
    x = torch.ones(4, 6)
    with Meter() as meter:
        x.T.reshape(3, 8).clone()
        torch.cat([x, x])[2:].contiguous()
        x.exp().sum(-1)
    assert meter.work == 4 * 6 + 4


def test_fused_attention_counts_as_its_two_products():
    q, k = torch.ones(1, 2, 5, 8), torch.ones(1, 2, 7, 8)
    with Meter() as meter:
        F.scaled_dot_product_attention(q, k, k)
    assert meter.work == 2 * 5 * 7 * 16


def test_what_is_let_go_is_no_longer_held():
    with Meter() as meter:
        for _ in range(10):
            torch.ones(100)
    assert (meter.numbers, meter.bytes) == (100, 400)


def test_what_is_kept_adds_up_and_views_take_nothing():
    given = torch.ones(50)
    with Meter() as meter:
        kept = [torch.ones(100) for _ in range(3)]
        views = [kept[0][:5], kept[1].view(10, 10), given[:3], given.add_(1)]
        kept.append(torch.ones(7, dtype=torch.bool))
    assert (meter.numbers, meter.bytes) == (307, 1207) and len(views) == 4


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
    assert probe_verdicts.conclusion("growth", GROWTH, raw)["value"]["memory in step"] is True
    raw[2]["used"] = {"seconds": 0.0, "bytes": 8 * 300 * 300}
    assert probe_verdicts.conclusion("growth", GROWTH, raw)["value"]["memory in step"] is False


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
