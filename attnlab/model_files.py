"""Published models as files: the GGUF format, the check that a file is the right one, text that appears as it is made.

`smollm2` and `gemma` share these parts. The package gguf has a reader too, which makes two NumPy views of each token of
the vocabulary: half a minute and 700 MB for the 262,144 tokens of Gemma 3. Here only the header is read, and then the
tensors that are asked for, so that no file is in memory as a whole. Dequantizing is left to gguf.

Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np


class NoModel(FileNotFoundError):
    """The model file, or a package that reads it, is missing; the message says how to get it."""


def can_be_read(*packages: str) -> bool:
    """Whether all packages that read a file are installed."""
    return all(importlib.util.find_spec(name) for name in packages)


@functools.cache
def check_hash(path: Path, expected: str) -> None:
    """Raises NoModel unless the file is the one the course was made with."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise NoModel(f"{path} is a different file: its SHA-256 is {found}, expected {expected}")


# The value types of GGUF, by their numbers; 8 is a string, and 9 an array.
TYPES = dict(enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {10: "<u8", 11: "<i8", 12: "<f8"}
STRING, ARRAY = 8, 9
AT_ONCE = 1 << 22  # numbers that are dequantized at once


class Setting(NamedTuple):
    """A setting of a file, which gives its value in the way of gguf's fields."""

    value: object

    def contents(self):
        return self.value


class Tensor:
    """A tensor of a file: its name, its type, and where its numbers are.

    shape: (inputs, outputs) for a matrix, in the file's order: the axis that is contiguous comes first
    tensor_type: a `gguf.GGMLQuantizationType`
    """

    def __init__(self, path: Path, name: str, shape: list[int], kind: int, start: int):
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        self.path, self.name, self.shape, self.start = path, name, np.array(shape, np.uint64), start
        self.tensor_type = GGMLQuantizationType(kind)
        self._per_block, self._block_bytes = GGML_QUANT_SIZES[self.tensor_type]
        self.n_rows, self.width = math.prod(shape[1:]), shape[0]

    def rows(self, first: int, last: int) -> np.ndarray:
        """Rows as they are stored: float32 (rows, width), or the bytes of the blocks (rows, bytes)."""
        per_row = self.width // self._per_block * self._block_bytes
        stored = np.fromfile(
            self.path, np.uint8, (last - first) * per_row, offset=self.start + first * per_row
        ).reshape(last - first, per_row)
        return stored.view("<f4") if self.tensor_type.name == "F32" else stored

    @property
    def data(self) -> np.ndarray:
        """All rows as stored, in the order of PyTorch: (outputs, inputs or their bytes); (inputs,) for a norm."""
        stored = self.rows(0, self.n_rows)
        return stored if len(self.shape) > 1 else stored[0]

    def numbers(self) -> np.ndarray:
        """The dequantized numbers in the order of PyTorch: float32 (outputs, inputs), or (width,) for a norm."""
        from gguf import dequantize

        made = np.empty((self.n_rows, self.width), np.float32)
        step = max(1, AT_ONCE // self.width)
        for first in range(0, self.n_rows, step):  # the embedding of Gemma 3 would need its own size once more
            last = min(first + step, self.n_rows)
            made[first:last] = dequantize(self.rows(first, last), self.tensor_type)
        return made.reshape([int(size) for size in reversed(self.shape)])


class GGUF:
    """A GGUF file (version 2 or 3, little-endian): its settings and tensors. Raises ValueError for another file."""

    def __init__(self, path: Path):
        self.settings: dict[str, object] = {}
        with open(path, "rb") as file:
            magic, version, n_tensors, n_settings = struct.unpack("<4sIQQ", file.read(24).ljust(24, b"\0"))
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError(f"{path} is not a GGUF file of version 2 or 3")
            for _ in range(n_settings):
                name = _string(file)
                self.settings[name] = _value(file, *struct.unpack("<I", file.read(4)))
            described = []
            for _ in range(n_tensors):
                name = _string(file)
                (n_axes,) = struct.unpack("<I", file.read(4))
                *shape, kind, start = struct.unpack(f"<{n_axes}QIQ", file.read(8 * n_axes + 12))
                described.append((name, shape, kind, start))
            step = self.settings.get("general.alignment", 32)
            first = -(-file.tell() // step) * step
        self.tensors = [Tensor(path, name, shape, kind, first + start) for name, shape, kind, start in described]

    def get_field(self, name: str) -> Setting | None:
        """The setting of that name, or None; its `contents()` is a number, a text, or a list of them."""
        return Setting(self.settings[name]) if name in self.settings else None


def _string(file) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    return file.read(length).decode("utf-8")


def _value(file, kind: int):
    if kind == STRING:
        return _string(file)
    if kind == ARRAY:
        of, n = struct.unpack("<IQ", file.read(12))
        if of in (STRING, ARRAY):
            return [_value(file, of) for _ in range(n)]
        return np.frombuffer(file.read(n * np.dtype(TYPES[of]).itemsize), TYPES[of]).tolist()
    return np.frombuffer(file.read(np.dtype(TYPES[kind]).itemsize), TYPES[kind])[0].item()


@functools.cache
def opened(path: Path) -> GGUF:
    """The file, whose header is read once."""
    return GGUF(path)


class Page:
    """Prints text that comes in pieces; lines are broken at a blank where they would get longer than a phone shows."""

    WIDTH = 38

    def __init__(self):
        self.column = 0

    def wrapped(self, piece: str) -> str:
        words = []
        for word in re.findall(r"\n| ?[^ \n]+| ", piece):
            if word.startswith(" ") and self.column + len(word) > self.WIDTH:
                word = f"\n{word[1:]}"
            words.append(word)
            self.column = len(word.rpartition("\n")[2]) + (0 if "\n" in word else self.column)
        return "".join(words)

    def add(self, piece: str) -> None:
        print(self.wrapped(piece), end="", flush=True)


class Typewriter:
    """Prints a prompt, and after it the text of ids of which there are more at each call.

    decode: from a list of ids to their text
    """

    def __init__(self, prompt: str, decode: Callable):
        self.decode, self.page, self.shown = decode, Page(), ""
        self.page.add(prompt)

    def show(self, ids: list[int], finished: bool = False) -> None:
        so_far = self.decode(ids)
        if finished or not so_far.endswith("\ufffd"):  # half of a character: its other bytes come with the next token
            self.page.add(so_far[len(self.shown) :] if so_far.startswith(self.shown) else f"\n{so_far}")
            self.shown = so_far
        if finished:
            self.page.add("\n")


def print_recorded(prompt: str, known: Mapping[str, str], how_to_get: str) -> None:
    """Print what was recorded for a prompt, where there is no model; else, for which prompts there is something.

    known: prompt -> the text that was recorded after it
    """
    if prompt in known:
        print("[recorded]", Page().wrapped(prompt + known[prompt]), sep="\n")
    else:
        print("Without the model there are recorded texts only, for:", *known, sep="\n  ")
        print(f"For a sentence of your own, get the model.\n{how_to_get}")
