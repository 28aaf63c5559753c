"""Values to bytes and back, as npz without pickle.

Inputs go to a student's process and results come back in this form, and the checks that ship with the course are
stored in it. A value is a tree of dicts with string keys, lists, tuples, None, bools, numbers, strings, NumPy arrays
and PyTorch tensors. Arrays keep their exact dtype and shape. Nothing that is read is ever executed.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import zipfile

import numpy as np

MAX_BYTES = 64 * 1024 * 1024  # of one packed value, compressed or not
MAX_DEPTH = 12
MAX_NODES = 200_000
_KINDS = "biufc"  # bool, int, unsigned, float, complex: no objects, no strings, no records


class CodecError(ValueError):
    """A value that cannot be packed, or bytes that do not hold a packed value."""


def pack(value) -> bytes:
    """The bytes of `value`.

    Raises CodecError for anything but the types named above, for nesting deeper than MAX_DEPTH and for more than
    MAX_BYTES of arrays.
    """
    arrays: dict[str, np.ndarray] = {}
    tree = _describe(value, arrays, [0, 0], 0)
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(tree).encode("utf-8"), dtype=np.uint8)
    np.savez_compressed(buffer, tree=text, **arrays)
    return buffer.getvalue()


def unpack(data: bytes):
    """The value that `pack` turned into `data`; arrays are fresh and writable. Raises CodecError on anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
                raise CodecError(f"the packed value is larger than {MAX_BYTES} bytes")
            arrays = {}
            for member in archive.infolist():
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _read_array(stream.read(member.file_size + 1))
        return _rebuild(json.loads(arrays["tree"].tobytes().decode("utf-8")), arrays, 0)
    except CodecError:
        raise
    except Exception as error:  # whatever a forged file provokes in zipfile, NumPy or json
        raise CodecError(f"not a packed value: {type(error).__name__}") from error


def _read_array(raw: bytes) -> np.ndarray:
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise CodecError("unexpected array format")
    length = int.from_bytes(stream.read(2), "little")
    header = ast.literal_eval(stream.read(length).decode("latin1"))
    dtype = np.dtype(header["descr"])
    if dtype.kind not in _KINDS or dtype.hasobject:
        raise CodecError(f"arrays of {dtype} are not accepted")
    shape = tuple(int(n) for n in header["shape"])
    count = 1
    for n in shape:
        count *= n
    # The size is checked against what is really there before any array is made.
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(raw) - stream.tell():
        raise CodecError("the array's size does not match its shape")
    flat = np.frombuffer(raw, dtype=dtype, offset=stream.tell(), count=count).copy()
    return flat.reshape(shape, order="F" if header["fortran_order"] else "C")


def _describe(value, arrays, budget, depth):
    """The JSON tree of `value`; arrays are put into `arrays`. `budget` counts [nodes, bytes]."""
    budget[0] += 1
    if depth > MAX_DEPTH or budget[0] > MAX_NODES:
        raise CodecError("the value is nested too deeply or has too many parts")
    if value is None or isinstance(value, (bool, str)):
        if isinstance(value, str):
            budget[1] += len(value)
        kind = type(value).__name__
        return {"NoneType": ["none"], "bool": ["bool", bool(value)]}.get(kind) or ["str", str(value)]
    if isinstance(value, int):
        return ["int", str(int(value))] if abs(int(value)) < 10**300 else _refuse(value, "an integer of that size")
    if isinstance(value, float) and not isinstance(value, np.generic):
        return ["float", float(value).hex()]
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.asarray(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        if tensor.dtype == torch.bfloat16:  # NumPy has no bfloat16; float32 holds each of its values exactly
            return ["tensor", _store(tensor.float().numpy(), arrays, budget), "bfloat16"]
        return ["tensor", _store(tensor.numpy(), arrays, budget), str(tensor.dtype).removeprefix("torch.")]
    if isinstance(value, np.generic):
        return ["scalar", _store(np.asarray(value), arrays, budget)]
    if isinstance(value, np.ndarray):
        return ["array", _store(np.asarray(value), arrays, budget)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__ if type(value) in (list, tuple) else "tuple",
                [_describe(item, arrays, budget, depth + 1) for item in value]]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return ["dict", [[str(key), _describe(item, arrays, budget, depth + 1)] for key, item in value.items()]]
    return _refuse(value, f"a value of type {type(value).__name__}")


def _refuse(value, what):
    raise CodecError(f"{what} cannot be taken as a result")


def _store(array, arrays, budget):
    if array.dtype.kind not in _KINDS or array.dtype.hasobject:
        raise CodecError(f"an array of dtype {array.dtype} cannot be taken as a result")
    budget[1] += array.nbytes
    if budget[1] > MAX_BYTES:
        raise CodecError(f"the value is larger than {MAX_BYTES} bytes")
    name = f"a{len(arrays)}"
    arrays[name] = np.array(array)  # a plain array, whatever subclass came
    return name


def _rebuild(tree, arrays, depth):
    if depth > MAX_DEPTH:
        raise CodecError("the value is nested too deeply")
    match tree:
        case ["none"]:
            return None
        case ["bool", bool(value)]:
            return value
        case ["str", str(value)]:
            return value
        case ["int", str(value)]:
            return int(value)
        case ["float", str(value)]:
            return float.fromhex(value)
        case ["scalar", str(name)]:
            return arrays[name][()]
        case ["array", str(name)]:
            return arrays[name]
        case ["tensor", str(name), str(dtype)]:
            import torch

            return torch.from_numpy(arrays[name]).to(getattr(torch, dtype))
        case ["list", list(items)]:
            return [_rebuild(item, arrays, depth + 1) for item in items]
        case ["tuple", list(items)]:
            return tuple(_rebuild(item, arrays, depth + 1) for item in items)
        case ["dict", list(items)]:
            return {str(key): _rebuild(item, arrays, depth + 1) for key, item in items}
    raise CodecError("not a packed value: unknown tag")
