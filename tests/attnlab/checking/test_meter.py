"""The meter on operations whose cost is known."""

import subprocess
import sys

import torch
import torch.nn.functional as F

from attnlab.checking.meter import Meter, Operations


def test_neither_counting_nor_the_other_device_loads_pytorchs_compiler():
    code = (
        "import sys, torch\nfrom attnlab.checking import fake_device, meter\n"
        "with meter.Meter() as counted:\n    torch.ones(3, 5) @ torch.ones(5, 7)\n"
        "with meter.Operations():\n    torch.ones(3, 5) @ torch.ones(5, 7)\n"
        "with fake_device.FakeDevice():\n    moved = fake_device.to_fake_device(torch.ones(3))\n    moved + moved\n"
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


def test_operations_are_counted_as_they_are_written_and_as_they_are_carried_out():
    x = torch.ones(2, 3, 5)
    with Operations() as seen:
        assert x.shape[1:] and x.dtype and x.ndim
        y = x[:, 1:].mT
        y @ x[:, :2]
    assert seen.calls == 4 and seen.steps > 4


def test_the_largest_tensor_is_one_that_was_made_and_not_a_view():
    x = torch.ones(40)
    with Operations() as seen:
        x.expand(40, 40)[0] + 1
        torch.zeros(5) + x[:5]
    assert seen.largest == 40
