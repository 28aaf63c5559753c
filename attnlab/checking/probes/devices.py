"""The probe of the device that an answer works on."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from attnlab.checking.probes.base import PROBES, Part, Probe
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError

if TYPE_CHECKING:
    from attnlab.checking.schema import Outcome


class AnyDevice(Probe):
    """The outcome of another probe on a device other than the CPU.

    All inputs, and a module's parameters, are there whenever the answer is called. Besides: the devices that its
    results were on. See `attnlab.checking.fake_device`.

    probe: the name of the other probe
    """

    name = "elsewhere"
    parts = {
        "device": Part(
            "Its inputs were on a device other than the CPU, such as a GPU, but its result was not",
        )
    }
    tolerates = frozenset({"value", "nan", "shape"})

    def call(self, f, *, probe="call", **inputs):
        devices: set[str] = set()
        if not isinstance(f, ClassAsFunction):
            asked = _on_device(f, devices)
        elif probe == "steps":
            asked = ClassAsFunction(lambda **init: _OnDevice(f.cls(**init), devices))
        else:
            asked = _BuiltOnDevice(f.cls, devices)
        return {**PROBES[probe].call(asked, **inputs), "device": sorted(devices)}

    def ask(self, *, probe="call", **inputs):
        return [{**asked, "probe": probe} for asked in PROBES[probe].calls(inputs)]

    def conclude(self, raw, used, *, probe="call", **case):
        device = ", ".join(sorted({name for seen in raw for name in seen["device"]}))
        outcomes: list[Outcome] = [
            {"value": {part: value for part, value in seen.items() if part != "device"}} for seen in raw
        ]
        found = PROBES[probe].verdict(case, outcomes)
        if "refused" in found:
            raise ProbeError(found["refused"])
        assert "value" in found  # as in all outcomes
        return {**found["value"], "device": device}

    def merit_words(self, case):
        return PROBES[case.get("probe", "call")].merit_words(case)

    def hint_fits(self, found, case):
        if found.part == "device" or found.kind in ("dtype", "error"):
            return True
        return bool(found.part) and PROBES[case.get("probe", "call")].hint_fits(found, case)

    def part(self, name, case):
        return self.parts.get(name) or PROBES[case.get("probe", "call")].part(name, case)

    def arguments(self, case):
        return PROBES[case.get("probe", "call")].arguments(super().arguments(case))

    def shown(self, case):
        others = {name: value for name, value in case.items() if name != "probe"}
        return PROBES[case.get("probe", "call")].shown(others)


def _on_device(run, devices: set[str]):
    """Wrap a function so that its arguments are moved to the fake device, and its result is moved back.

    devices: the set that collects the names of the devices of its results
    """
    import torch
    from torch.utils._pytree import tree_iter

    from attnlab.checking.fake_device import FakeDevice, to_cpu, to_fake_device

    @functools.wraps(run)
    def called(*args, **given):
        with torch.no_grad(), FakeDevice():
            moved: Any = to_fake_device((args, given))
            result = run(*moved[0], **moved[1])
            devices.update(leaf.device.type for leaf in tree_iter(result) if isinstance(leaf, torch.Tensor))
            return to_cpu(result)

    return called


class _OnDevice:
    """An object whose methods are called on the fake device."""

    def __init__(self, made, devices):
        import torch

        from attnlab.checking.fake_device import to_fake_device

        self._made: Any = to_fake_device(made) if isinstance(made, torch.nn.Module) else made
        self._devices = devices

    def __getattr__(self, name):
        value = getattr(self._made, name)
        return _on_device(value, self._devices) if inspect.ismethod(value) else value

    def parameters(self):
        return self._made.parameters()

    def __call__(self, **given):
        return _on_device(self._made, self._devices)(**given)

    def __len__(self):
        return len(self._made)


class _BuiltOnDevice(ClassAsFunction):
    """A class as a function whose object is on the fake device."""

    def __init__(self, cls, devices):
        super().__init__(cls)
        self._devices = devices

    def make(self, init, weights):
        made, named = super().make(init, weights)
        return _OnDevice(made, self._devices), named
