"""The probe of the device that an answer works on."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking import probes
from attnlab.checking.observe import outcome_of
from attnlab.checking.probes.class_as_function import ClassAsFunction

X = torch.arange(12.0).reshape(3, 4)


def test_the_probe_tells_the_device_and_what_another_probe_sees():
    seen = outcome_of(lambda x: x.mul_(2), "elsewhere", dict(probe="unchanged", x=X.clone()))["value"]
    assert seen["device"] == "meta" and seen["changed"] == "x" and torch.equal(seen["result"], 2 * X)


def test_the_probe_tells_of_a_result_that_was_made_on_the_cpu():
    assert outcome_of(lambda x: torch.ones(3), "elsewhere", dict(x=X.clone()))["value"]["device"] == "cpu"


class Joins:
    def __init__(self):
        self.kept = torch.zeros(0, 4)

    def append(self, k):
        self.kept = torch.cat([self.kept, k])
        return self.kept

    def __len__(self):
        return len(self.kept)


def test_in_steps_two_devices_are_not_taken_for_a_refusal():
    steps = [dict(do="len"), dict(do="append", k=X.clone())]
    with pytest.raises(Exception, match="same device"):
        probes.elsewhere.call(ClassAsFunction(Joins), probe="steps", init={}, steps=steps)
