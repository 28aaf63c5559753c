"""Values to bytes and back, without pickle, in one format: the frame.

A frame is eight bytes that count the rest, four that count the JSON text, the JSON text (the tree of the value and a
header for each array), then the arrays as they are in memory. Frames go through pipes one after another and are what
the grader's processes send each other; `pack` compresses one for a file.

A value is a tree of dicts with string keys, lists, tuples, None, bools, numbers, strings, NumPy arrays and PyTorch
tensors. Arrays keep their exact dtype and shape, in the machine's own byte order.

Both directions are safe on hostile data. Nothing that is read is ever executed, and reading takes memory in proportion
to MAX_BYTES, no matter what sizes the bytes claim. Nothing that is written calls a method that a student may have
replaced in a subclass.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import sys
import zlib
from typing import Any

import numpy as np

MAX_BYTES = 64 * 1024 * 1024  # of all arrays of one value
MAX_TREE = 8 * 1024 * 1024  # of the JSON text that holds everything but the arrays
MAX_FRAME = MAX_BYTES + MAX_TREE + 12
MAX_DEPTH = 12
MAX_NODES = 100_000
MAX_ARRAYS = 10_000
_KINDS = "biufc"  # bool, int, unsigned, float, complex: no objects, no strings, no records
_TENSORS = {
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex128",
    "complex64",
}
_DTYPE = re.compile(r"[<>|=]?[biufc]\d{1,2}")


class CodecError(ValueError):
    """A value that cannot be framed, or bytes that are not the frame of a value."""


def frame(value, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of `value`; max_bytes: upper limit for all its arrays together.

    Raises CodecError for anything but the types named above, for nesting deeper than MAX_DEPTH, for more than
    MAX_NODES parts and for more than `max_bytes` of arrays.
    """
    arrays: dict[str, np.ndarray] = {}
    with _only_codec_errors(value):
        tree = _describe(value, arrays, [MAX_NODES, max_bytes], 0)
        headers = [[array.dtype.str, list(array.shape), _columns_first(array)] for array in arrays.values()]
        text = _as_json([tree, headers])
        body = [len(text).to_bytes(4, "little"), text, *(array.tobytes("A") for array in arrays.values())]
        return b"".join([sum(map(len, body)).to_bytes(8, "little"), *body])


def unframe(data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """The value that `frame` turned into `data`; arrays are fresh and writable. Raises CodecError on anything else."""
    if len(data) > max_bytes + MAX_TREE + 12:
        raise CodecError(f"the frame is larger than {max_bytes + MAX_TREE + 12} bytes")
    try:
        if len(data) < 12 or int.from_bytes(data[:8], "little") != len(data) - 8:
            raise CodecError("the frame's length is not what it says")
        end = 12 + int.from_bytes(data[8:12], "little")
        if end > len(data) or end > 12 + MAX_TREE:
            raise CodecError("the frame's tree is too large")
        tree, headers = json.loads(data[12:end])
        if len(headers) > MAX_ARRAYS:
            raise CodecError("the frame has too many parts")
        arrays = {}
        for number, (dtype, shape, columns_first) in enumerate(headers):
            begin, count = end, 1
            if not _DTYPE.fullmatch(dtype) or len(shape) > 64:
                raise CodecError("unexpected array header")
            for n in shape:
                if type(n) is not int or not 0 <= n <= max_bytes:
                    raise CodecError("unexpected array header")
                count *= n
            end += count * np.dtype(dtype).itemsize
            if end > len(data):  # seen before any array is made
                raise CodecError("the array's size does not match its shape")
            # bytearray: the array owns memory it may write to. astype: in the machine's own byte order.
            flat = np.frombuffer(bytearray(memoryview(data)[begin:end]), dtype=dtype)
            flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
            arrays[f"a{number}"] = flat.reshape(shape, order="F" if columns_first is True else "C")
        if end != len(data):
            raise CodecError("the frame holds more than it says")
        return _rebuild(tree, arrays, [0], 0)
    except CodecError:
        raise
    except Exception as error:  # any error that a forged frame causes in NumPy or json
        raise CodecError(f"not a frame: {type(error).__name__}") from error


def write(stream, value) -> None:
    """Send a value, or the frame of one, through a pipe."""
    stream.write(value if isinstance(value, bytes) else frame(value))
    stream.flush()


def read(stream) -> Any:
    """The next value that comes through a pipe, or None at its end."""
    head = stream.read(8)
    return unframe(head + stream.read(int.from_bytes(head, "little"))) if len(head) == 8 else None


def pack(value) -> bytes:
    """The frame of `value` for a file, compressed with gzip.

    It contains no timestamp. Raises CodecError as `frame` does.
    """
    return gzip.compress(frame(value), mtime=0)


def unpack(data: bytes) -> Any:
    """The value that `pack` turned into `data`. Raises CodecError on anything else."""
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(data, MAX_FRAME + 1)
    except zlib.error as error:
        raise CodecError(f"not a packed value: {error}") from error
    if len(content) > MAX_FRAME or not stream.eof or stream.unused_data:
        raise CodecError(f"not a packed value, or larger than {MAX_FRAME} bytes")
    return unframe(content)


def copied(value) -> Any:
    """Copy a value as `unframe(frame(value))` does, but without making bytes. Raises CodecError as `frame` does."""
    arrays: dict[str, np.ndarray] = {}
    with _only_codec_errors(value):
        tree = json.loads(_as_json(_describe(value, arrays, [MAX_NODES, MAX_BYTES], 0)))
        return _rebuild(tree, {name: _fresh(array) for name, array in arrays.items()}, [0], 0)


@contextlib.contextmanager
def _only_codec_errors(value):
    try:
        yield
    except CodecError:
        raise
    except Exception as error:  # any error from an object that pretends to be something else
        raise CodecError(f"{_article(type(value))} cannot be taken as a result") from error


def _as_json(tree) -> bytes:
    text = json.dumps(tree).encode("ascii")
    if len(text) > MAX_TREE:
        raise CodecError("a value that large cannot be taken as a result")
    return text


def _fresh(array: np.ndarray) -> np.ndarray:
    """A copy with the same memory layout as a value that was written and read."""
    return np.array(array, dtype=array.dtype.str, order="F" if _columns_first(array) else "C")


def _columns_first(array: np.ndarray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _describe(value, arrays, budget, depth):
    """The JSON tree of `value`; arrays are put into `arrays`. `budget`: [nodes, bytes] that are left.

    Methods are taken from the built-in types, not from the value: a subclass may have replaced them.
    """
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        raise CodecError("a value nested that deeply or of that many parts cannot be taken as a result")
    kind = type(value)
    if value is None:
        return ["none"]
    if kind is bool:
        return ["bool", value]
    if issubclass(kind, np.ndarray):
        return ["array", _store(np.ndarray.view(value, np.ndarray), arrays, budget)]
    if issubclass(kind, np.generic) and not issubclass(kind, np.character):
        array = _native(np.asarray(value))
        return ["scalar", array.dtype.str, array.tobytes().hex()]
    if issubclass(kind, str):
        text = str.__str__(value)
        _spend(budget, len(text))
        return ["str", text]
    if issubclass(kind, int):
        number = int.__int__(value)
        if abs(number) >= 10**300:
            raise CodecError("a whole number of more than 300 digits cannot be taken as a result")
        return ["int", str(number)]
    if issubclass(kind, float):
        return ["float", float.__float__(value).hex()]
    if issubclass(kind, complex):
        number = complex.__complex__(value)
        return ["complex", number.real.hex(), number.imag.hex()]
    if _is_tensor_type(kind):
        return _describe_tensor(value, arrays, budget)
    if issubclass(kind, list):
        return ["list", [_describe(item, arrays, budget, depth + 1) for item in list.__iter__(value)]]
    if issubclass(kind, tuple):
        return ["tuple", [_describe(item, arrays, budget, depth + 1) for item in tuple.__iter__(value)]]
    if issubclass(kind, dict):
        items = []
        for key, item in dict.items(value):
            if not issubclass(type(key), str):
                raise CodecError("a dictionary whose keys are not strings cannot be taken as a result")
            items.append([str.__str__(key), _describe(item, arrays, budget, depth + 1)])
            _spend(budget, len(items[-1][0]))
        return ["dict", items]
    raise CodecError(f"{_article(kind)} cannot be taken as a result")


def _describe_tensor(value, arrays, budget):
    import torch

    with torch._C.DisableTorchFunctionSubclass():  # a subclass of Tensor may intercept every operation
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in _TENSORS:
            raise CodecError(f"a tensor of dtype {name} cannot be taken as a result")
        # NumPy has no bfloat16; float32 holds each of its values exactly.
        tensor = tensor.float() if name == "bfloat16" else tensor
        return ["tensor", _store(tensor.numpy(), arrays, budget), name]


def _is_tensor_type(kind) -> bool:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and issubclass(kind, tensor)


def _native(array: np.ndarray) -> np.ndarray:
    """`array` in the machine's own byte order, if it is of a kind that may be a result."""
    if array.dtype.kind == "O":
        why = "make it with dtype=bool or dtype=float" if array.ndim > 1 else "are its rows of different lengths?"
        raise CodecError(f"an array of Python objects cannot be taken as a result ({why})")
    if array.dtype.kind not in _KINDS:
        raise CodecError(f"an array of dtype {str(array.dtype)[:40]} cannot be taken as a result")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _store(array: np.ndarray, arrays, budget) -> str:
    _spend(budget, array.nbytes)
    if len(arrays) >= MAX_ARRAYS:
        raise CodecError(f"more than {MAX_ARRAYS} arrays cannot be taken as a result")
    name = f"a{len(arrays)}"
    arrays[name] = _native(array)
    return name


def _spend(budget, count: int) -> None:
    budget[1] -= count
    if budget[1] < 0:
        raise CodecError(f"a value of more than {MAX_BYTES >> 20} MB cannot be taken as a result")


def _article(kind: type) -> str:
    """A type's name with its article: `a generator`, `an iterator`."""
    name = type.__dict__["__name__"].__get__(kind)[:60]
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _rebuild(tree, arrays, nodes, depth):
    """The value of a JSON tree. Each array may be used once: a forged tree cannot multiply it."""
    nodes[0] += 1
    if depth > MAX_DEPTH or nodes[0] > MAX_NODES:
        raise CodecError("the value is nested too deeply or has too many parts")
    match tree:
        case ["none"]:
            return None
        case ["bool", bool(value)]:
            return value
        case ["str", str(value)]:
            return value
        case ["int", str(value)] if len(value) <= 302:
            return int(value)
        case ["float", str(value)]:
            return float.fromhex(value)
        case ["complex", str(real), str(imaginary)]:
            return complex(float.fromhex(real), float.fromhex(imaginary))
        case ["scalar", str(dtype), str(value)] if _DTYPE.fullmatch(dtype):
            entry = np.frombuffer(bytes.fromhex(value), dtype=dtype, count=1)
            return entry.astype(entry.dtype.newbyteorder("="))[0]
        case ["array", str(name)]:
            return arrays.pop(name)
        case ["tensor", str(name), str(dtype)] if dtype in _TENSORS:
            import torch

            return torch.from_numpy(arrays.pop(name)).to(getattr(torch, dtype))
        case ["list", list(items)]:
            return [_rebuild(item, arrays, nodes, depth + 1) for item in items]
        case ["tuple", list(items)]:
            return tuple(_rebuild(item, arrays, nodes, depth + 1) for item in items)
        case ["dict", list(items)]:
            return {_key(key): _rebuild(item, arrays, nodes, depth + 1) for key, item in items}
    raise CodecError("not a frame: unknown tag")


def _key(key) -> str:
    if not isinstance(key, str):
        raise CodecError("not a frame: a key that is not a string")
    return key
