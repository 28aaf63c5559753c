"""A second device that every machine has, to test whether a student's code works on the device of its inputs.

    with FakeDevice():
        output = attend(*to_fake_device([Q, K, V]))    # output.device is `meta`
    to_cpu(output)                                     # the same numbers on the CPU

PyTorch's own `meta` device has shapes but no numbers, and lets some operations mix devices. Here a tensor reports that
it is on `meta`, keeps its numbers on the CPU, and cannot be combined with CPU tensors. As on a GPU, that is a
RuntimeError, unless the other has no dimension, is an index, or is copied from or to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from attnlab.checking.meter import Mode, tensors_in

DEVICE = torch.device("meta")
_MIX = {"aten::copy_", "aten::_to_copy", "aten::to", "aten::set_"}
_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
_INDEXING = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}
_FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray}


# It has PyTorch's name for it, but never counts as a refusal.
OtherDevice = type("RuntimeError", (Exception,), {"__doc__": "Tensors of two devices met."})


class FakeDeviceTensor(torch.Tensor):
    """A tensor that reports another device; `cpu_tensor` has its numbers."""

    __slots__ = ("cpu_tensor",)
    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]  # PyTorch's stub wants a classmethod

    @staticmethod
    def __new__(cls, cpu_tensor):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            cpu_tensor.size(),
            strides=cpu_tensor.stride(),
            storage_offset=cpu_tensor.storage_offset(),
            dtype=cpu_tensor.dtype,
            device=DEVICE,
            requires_grad=cpu_tensor.requires_grad,
        )

    def __init__(self, cpu_tensor):
        self.cpu_tensor = cpu_tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Dispatch(Mode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Data(TorchFunctionMode):
    """Handle tensors made from lists, which the other mode sees too late: `torch.tensor(numbers)`, lists as indices."""

    def __torch_function__(self, func, types, args: Any = (), kwargs=None):
        options: dict[str, Any] = dict(kwargs or {})
        device = options.get("device")
        if func in _FROM_DATA and device is not None and torch.device(device) == DEVICE:
            return func(*args, **{**options, "device": "cpu"}).to(DEVICE)
        if func in _INDEXING and isinstance(args[0], FakeDeviceTensor):
            args = (args[0], _as_tensors(args[1]), *args[2:])
        if func is torch.Tensor.tolist and isinstance(args[0], FakeDeviceTensor):
            return args[0].cpu_tensor.tolist()
        if func is torch.Tensor.new_tensor and isinstance(args[0], FakeDeviceTensor) and device is None:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **options}).to(DEVICE)
        return func(*args, **options)


class FakeDevice:
    """While it is entered, `meta` is a device with numbers."""

    def __init__(self):
        self._modes = (_Dispatch(), _Data())

    def __enter__(self):
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error):
        for mode in reversed(self._modes):
            mode.__exit__(*error)


def to_fake_device(tree):
    """Move every tensor of a tree to the other device, sharing its memory, so that writes there show here.

    Of a module, move the parameters and buffers in place.
    """
    if isinstance(tree, torch.nn.Module):
        known = {}
        for module in tree.modules():
            for table in (module._parameters, module._buffers):
                for name, value in table.items():
                    if value is not None and id(value) not in known:
                        there = FakeDeviceTensor(value.detach().clone())
                        is_parameter = isinstance(value, torch.nn.Parameter)
                        known[id(value)] = torch.nn.Parameter(there, requires_grad=False) if is_parameter else there
                    table[name] = known.get(id(value))
        return tree
    return tree_map(lambda leaf: FakeDeviceTensor(leaf.detach()) if isinstance(leaf, torch.Tensor) else leaf, tree)


def to_cpu(tree):
    """Every tensor of a tree on the CPU."""
    return tree_map(lambda leaf: leaf.cpu_tensor.detach().clone() if isinstance(leaf, FakeDeviceTensor) else leaf, tree)


def _as_tensors(index):
    if isinstance(index, tuple):
        return tuple(map(_as_tensors, index))
    return torch.tensor(index) if isinstance(index, (list, range)) else index


def _run(func, args, kwargs):
    name = func._schema.name
    tensors = tensors_in([args, kwargs])
    wrappers = {id(leaf.cpu_tensor): leaf for leaf in tensors if isinstance(leaf, FakeDeviceTensor)}
    there = bool(wrappers)
    if there and name not in _MIX:
        indexed = name in _INDEXED and isinstance(args[0], FakeDeviceTensor)
        for leaf in tensors_in([args[0], args[2:]]) if indexed else tensors:
            if not isinstance(leaf, FakeDeviceTensor) and leaf.ndim:
                raise OtherDevice(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"that of the inputs and {leaf.device}!"
                )
    device = kwargs.get("device")
    if device is not None:
        there = device == DEVICE
        kwargs = {**kwargs, "device": torch.device("cpu") if there else device}
    elif name == "aten::copy_":
        there = isinstance(args[0], FakeDeviceTensor)
    result = func(*_with_tensors(_cpu_tensor, args), **_with_tensors(_cpu_tensor, kwargs))
    if not there:
        return result
    return _with_tensors(lambda leaf: wrappers[id(leaf)] if id(leaf) in wrappers else FakeDeviceTensor(leaf), result)


def _cpu_tensor(tensor):
    return tensor.cpu_tensor if isinstance(tensor, FakeDeviceTensor) else tensor


def _with_tensors(change, tree):
    """The same tree, as `tensors_in` knows it, with each tensor changed."""
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: _with_tensors(change, part) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_with_tensors(change, part) for part in tree]
        return parts if isinstance(tree, list) else tuple(parts)
    return tree
