"""How much PyTorch code holds at once and how much it computes, counted operation by operation.

    with Meter() as meter:
        output = attend(Q, K, V)
    meter.bytes      # at most so many bytes were held at once, by tensors that were made inside
    meter.work       # multiply-adds of matrix products, and results of all other arithmetic

Counting gives the same numbers on every machine. Memory that an operation uses internally and releases before it
ends is not seen, so only the result of a fused operation counts. Work on the CPU and on a GPU is counted in the same
way.
"""

from __future__ import annotations

import tracemalloc

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}  # name -> which tensor is the left factor
# They move numbers or allocate memory, and compute nothing.
_MOVES = {
    "cat",
    "stack",
    "clone",
    "_unsafe_view",
    "scalar_tensor",
    "copy_",
    "_to_copy",
    "index",
    "index_select",
    "index_put_",
    "gather",
    "scatter",
    "constant_pad_nd",
    "empty",
    "zeros",
    "ones",
    "full",
    "arange",
    "fill_",
    "zero_",
    "new_zeros",
    "new_empty",
    "new_full",
    "new_ones",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "repeat",
    "flip",
    "roll",
}


_expired = torch.UntypedStorage._expired  # what `StorageWeakRef.expired` calls at last: it is asked millions of times


def tensors_in(tree) -> list[torch.Tensor]:
    """The tensors among an operation's arguments or results, which are nested in tuples, lists and dictionaries alone.

    PyTorch's own functions for trees know many types more, and took most of the time of a check.
    """
    if isinstance(tree, torch.Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [leaf for part in parts for leaf in tensors_in(part)]


class Mode(TorchDispatchMode):
    """Sees every operation, without PyTorch's compiler, which would be loaded for the first: 35 MB, and a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Meter(Mode):
    """Counts while it is entered.

    numbers: most entries held at once in tensors made inside; bytes: the same in bytes
    work: one for each multiply-add of a matrix product, or of a fused attention, and for each entry that any other
        operation computes
    """

    def __init__(self):
        super().__init__()
        self.numbers = self.bytes = self.work = 0
        self._held: dict[int, tuple[StorageWeakRef, int, int]] = {}
        self._sums = (0, 0)  # of what is held, and of what was released since the last full count

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given, made = tensors_in([args, kwargs]), tensors_in(result)
        if not func.is_view:
            self.work += _work(func._schema.name.removeprefix("aten::"), given, made)
        old = {value.untyped_storage()._cdata for value in given}
        for value in made:
            self._hold(value, old)
        return result

    def _hold(self, value: torch.Tensor, old: set[int]) -> None:
        storage = value.untyped_storage()
        if storage._cdata in old or storage._cdata in self._held:
            return
        size = storage.nbytes()
        self._held[storage._cdata] = (StorageWeakRef(storage), size // value.element_size(), size)
        self._sums = (self._sums[0] + size // value.element_size(), self._sums[1] + size)
        if self._sums[0] > self.numbers or self._sums[1] > self.bytes:  # possibly the most so far: count everything
            self._held = {key: kept for key, kept in self._held.items() if not _expired(kept[0].cdata)}
            kept = self._held.values()
            self._sums = sum(count for _, count, _ in kept), sum(size for _, _, size in kept)
            self.numbers, self.bytes = max(self.numbers, self._sums[0]), max(self.bytes, self._sums[1])


class PythonAllocations:
    """Measure the memory of everything except PyTorch's tensors, in eight-byte numbers.

    These are NumPy's arrays and Python's own objects, at their peak while it was entered. It costs less than counting
    operations, so it works for large inputs.
    """

    def __enter__(self):
        tracemalloc.start()
        return self

    def __exit__(self, *error):
        self.numbers = tracemalloc.get_traced_memory()[1] // 8
        tracemalloc.stop()


class Operations:
    """Count operations while it is entered, however large the tensors are.

    calls: as the code writes them, views such as slices included; no attributes such as `shape`
    steps: as PyTorch carries them out, several for one call; a loop that PyTorch runs itself shows here alone
    largest: the most entries of a tensor that was made
    """

    def __init__(self):
        self._written, self._carried_out = _Written(), _CarriedOut()

    @property
    def calls(self) -> int:
        return self._written.count

    @property
    def steps(self) -> int:
        return self._carried_out.count

    @property
    def largest(self) -> int:
        return self._carried_out.largest

    def __enter__(self):
        self._carried_out.__enter__()
        self._written.__enter__()
        return self

    def __exit__(self, *error):
        self._written.__exit__(*error)
        self._carried_out.__exit__(*error)


class _Written(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += isinstance(result, (torch.Tensor, tuple, list)) and not isinstance(result, torch.Size)
        return result


class _CarriedOut(Mode):
    def __init__(self):
        super().__init__()
        self.count = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += 1
        if not func.is_view:
            self.largest = max([self.largest, *(made.numel() for made in tensors_in(result))])
        return result


def _work(name: str, given: list[torch.Tensor], made: list[torch.Tensor]) -> int:
    if name in _PRODUCTS:
        return made[0].numel() * given[_PRODUCTS[name]].shape[-1]
    if name.startswith("_scaled_dot_product"):
        queries, keys, values = given[:3]
        return queries[..., 0].numel() * keys.shape[-2] * (keys.shape[-1] + values.shape[-1])
    if name in _MOVES:
        return 0
    return max((value.numel() for value in made), default=0)
