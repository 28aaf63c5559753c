"""Values to bytes and back, without pickle: as npz in files (`pack`), and as they lie in memory for pipes (`frame`).

Inputs go to a student's process and results come back as frames; the checks that ship with the course are stored as
npz. A value is a tree of dicts with string keys, lists, tuples, None, bools, numbers, strings, NumPy arrays
and PyTorch tensors. Arrays keep their exact dtype and shape, in the machine's own byte order.

Both directions are safe on hostile data. Nothing that is read is ever executed, and reading takes memory in proportion
to MAX_BYTES, whatever the bytes claim. Nothing that is written calls a method that a student may have replaced in a
subclass.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import zipfile

import numpy as np

MAX_BYTES = 64 * 1024 * 1024  # of all arrays of one value
MAX_TREE = 8 * 1024 * 1024  # of the JSON text that holds everything but the arrays
MAX_PACKED = MAX_BYTES + MAX_TREE + (1 << 20)  # of its packed form
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
# The header of an array, exactly as NumPy writes it. A pattern needs no evaluation, and leaves no room for records,
# negative lengths or anything else.
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[biufc]\d{1,2})', 'fortran_order': (True|False), "
    r"'shape': \(([\d, ]{0,400})\), \} *\n"
)


class CodecError(ValueError):
    """A value that cannot be packed, or bytes that do not hold a packed value."""


def pack(value) -> bytes:
    """The bytes of `value`, compressed.

    Raises CodecError for anything but the types named above, for nesting deeper than MAX_DEPTH, for more than
    MAX_NODES parts and for more than MAX_BYTES of arrays.
    """
    arrays: dict[str, np.ndarray] = {}
    with _only_codec_errors(value):
        text = _tree_text(value, arrays)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, tree=np.frombuffer(text, dtype=np.uint8), **arrays)
    return buffer.getvalue()


def copied(value):
    """What `unpack(pack(value))` gives, for less work: no bytes are made. Raises CodecError as `pack` does."""
    arrays: dict[str, np.ndarray] = {}
    with _only_codec_errors(value):
        tree = json.loads(_tree_text(value, arrays))
        return _rebuild(tree, {name: _fresh(array) for name, array in arrays.items()}, [0], 0)


def frame(value) -> bytes:
    """The bytes of `value` for a pipe: four bytes of length, the tree and the arrays' headers as JSON, then the arrays.

    It takes a tenth of the time of `pack`. Raises CodecError as `pack` does.
    """
    arrays: dict[str, np.ndarray] = {}
    with _only_codec_errors(value):
        tree = _describe(value, arrays, [0, 0], 0)
        headers = [[array.dtype.str, list(array.shape), _columns_first(array)] for array in arrays.values()]
        text = json.dumps([tree, headers]).encode("ascii")
        if len(text) > MAX_TREE:
            raise CodecError("a value that large cannot be taken as a result")
        return b"".join([len(text).to_bytes(4, "little"), text, *(array.tobytes("A") for array in arrays.values())])


@contextlib.contextmanager
def _only_codec_errors(value):
    try:
        yield
    except CodecError:
        raise
    except Exception as error:  # whatever an object that pretends to be something else provokes
        raise CodecError(f"{_article(type(value))} cannot be taken as a result") from error


def _tree_text(value, arrays) -> bytes:
    """Everything but the arrays, as JSON; these are put into `arrays`."""
    text = json.dumps(_describe(value, arrays, [0, 0], 0)).encode("ascii")
    if len(text) > MAX_TREE:
        raise CodecError("a value that large cannot be taken as a result")
    return text


def _fresh(array: np.ndarray) -> np.ndarray:
    """A copy that lies in memory as one that was written and read does."""
    return np.array(array, dtype=array.dtype.str, order="F" if _columns_first(array) else "C")


def _columns_first(array: np.ndarray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def unpack(data: bytes):
    """The value that `pack` turned into `data`; arrays are fresh and writable. Raises CodecError on anything else."""
    if len(data) > MAX_PACKED:
        raise CodecError(f"the packed value is larger than {MAX_PACKED} bytes")
    try:
        arrays = _read_arrays(data)
        tree = arrays.pop("tree")
        if tree.dtype != np.uint8 or tree.nbytes > MAX_TREE:
            raise CodecError("the packed value's tree is too large")
        return _rebuild(json.loads(tree.tobytes().decode("ascii")), arrays, [0], 0)
    except CodecError:
        raise
    except Exception as error:  # whatever a forged file provokes in zipfile, NumPy or json
        raise CodecError(f"not a packed value: {type(error).__name__}") from error


def unframe(data: bytes):
    """The value that `frame` turned into `data`; arrays are fresh and writable. Raises CodecError on anything else."""
    if len(data) > MAX_PACKED:
        raise CodecError(f"the frame is larger than {MAX_PACKED} bytes")
    try:
        end = 4 + int.from_bytes(data[:4], "little")
        if end > len(data) or end > 4 + MAX_TREE:
            raise CodecError("the frame's tree is too large")
        tree, headers = json.loads(data[4:end])
        if len(headers) > MAX_ARRAYS:
            raise CodecError("the frame has too many parts")
        arrays = {}
        for number, (dtype, shape, columns_first) in enumerate(headers):
            begin, count = end, 1
            if not _DTYPE.fullmatch(dtype) or len(shape) > 64:
                raise CodecError("unexpected array header")
            for n in shape:
                if type(n) is not int or not 0 <= n <= MAX_BYTES:
                    raise CodecError("unexpected array header")
                count *= n
            end += count * np.dtype(dtype).itemsize
            if end > len(data):  # seen before any array is made
                raise CodecError("the array's size does not match its shape")
            arrays[f"a{number}"] = _as_array(memoryview(data)[begin:end], dtype, shape, columns_first is True)
        if end != len(data):
            raise CodecError("the frame holds more than it says")
        return _rebuild(tree, arrays, [0], 0)
    except CodecError:
        raise
    except Exception as error:  # whatever a forged frame provokes in NumPy or json
        raise CodecError(f"not a frame: {type(error).__name__}") from error


def _as_array(raw, dtype: str, shape, columns_first: bool) -> np.ndarray:
    # bytearray: the array owns memory it may write to. astype: in the machine's own byte order.
    flat = np.frombuffer(bytearray(raw), dtype=dtype)
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return flat.reshape(shape, order="F" if columns_first else "C")


def _read_arrays(data: bytes) -> dict[str, np.ndarray]:
    if data.count(b"PK\x01\x02") > MAX_ARRAYS + 100:  # entries of the directory, before zipfile makes objects of them
        raise CodecError("the packed value has too many parts")
    arrays, total = {}, 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            total += member.file_size
            if total > MAX_BYTES + MAX_TREE or len(arrays) > MAX_ARRAYS:
                raise CodecError(f"the packed value is larger than {MAX_BYTES} bytes")
            # Other methods of compression can be made to take any amount of memory.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CodecError("unexpected compression")
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise CodecError("two arrays have one name")
            with archive.open(member) as stream:
                arrays[name] = _read_array(stream.read(member.file_size))
    return arrays


def _read_array(raw: bytes) -> np.ndarray:
    if raw[:8] != b"\x93NUMPY\x01\x00":
        raise CodecError("unexpected array format")
    start = 10 + int.from_bytes(raw[8:10], "little")
    header = _HEADER.fullmatch(raw[10:start].decode("latin1"))
    if header is None:
        raise CodecError("unexpected array header")
    dtype = np.dtype(header[1])
    shape = tuple(int(n) for n in header[3].replace(" ", "").split(",") if n)
    count = 1
    for n in shape:
        count *= n
    # The size is checked against what is really there before any array is made.
    if count * dtype.itemsize != len(raw) - start:
        raise CodecError("the array's size does not match its shape")
    return _as_array(raw[start:], header[1], shape, header[2] == "True")


def _describe(value, arrays, budget, depth):
    """The JSON tree of `value`; arrays are put into `arrays`. `budget` counts [nodes, bytes].

    Methods are taken from the built-in types, not from the value: a subclass may have replaced them.
    """
    budget[0] += 1
    if depth > MAX_DEPTH or budget[0] > MAX_NODES:
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
        raise CodecError("an array of Python objects cannot be taken as a result (are its rows of different lengths?)")
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
    budget[1] += count
    if budget[1] > MAX_BYTES:
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
    raise CodecError("not a packed value: unknown tag")


def _key(key) -> str:
    if not isinstance(key, str):
        raise CodecError("not a packed value: a key that is no string")
    return key
