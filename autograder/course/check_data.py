"""The data behind `check`: `attnlab/checks/<name>.gz` for each exercise, generated and committed.

Each file stores a hash of the sources it was made from, which alone decides whether it is current.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from attnlab import codec
from attnlab.check import CHECKS
from attnlab.compare import agree, as_array
from autograder.course import catalog
from autograder.course.folder import ROOT
from autograder.exercise import compact


def write_checks(stems: Iterable[str]) -> list[Path]:
    """Make the data of these chapters that are not current; returns the files that were written.

    Numbers that differ only by rounding, which depends on the processor, keep their old bytes.
    """
    CHECKS.mkdir(exist_ok=True)
    written, stems = [], list(stems)
    for stem in stems:
        made_from = fingerprint(stem)
        for name, exercise in catalog.exercises_of(stem).items():
            path = check_file(name)
            stored = read(path)
            if stored.pop("made_from", None) != made_from:
                made = compact(exercise.material())
                data = codec.pack({**(stored if alike(stored, made) else made), "made_from": made_from})
                draft = path.with_suffix(f".{os.getpid()}")
                draft.write_bytes(data)
                os.replace(draft, path)  # whole, or as it was
                written.append(path)
    if set(stems) == set(catalog.chapters()):
        for stray in set(CHECKS.glob("*.gz")) - set(map(check_file, catalog.all_exercises())):
            stray.unlink()
    return written


def check_file(name: str) -> Path:
    return CHECKS / f"{name}.gz"


def read(path: Path) -> dict:
    """The contents of a file; nothing if there is none or it cannot be read."""
    try:
        return codec.unpack(path.read_bytes())
    except (OSError, codec.CodecError):
        return {}


def fingerprint(stem: str) -> str:
    """A hash of the sources that a chapter's material is made from, and of their places in the checkout."""
    digest = hashlib.sha256()
    for path in sorted(sources(stem)):
        content = hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def sources(stem: str) -> set[Path]:
    """The module of a chapter's exercises, and all that it imports from this checkout, directly or not."""
    found, waiting = set(), [ROOT / "autograder" / "exercises" / f"{stem}.py"]
    while waiting:
        path = waiting.pop()
        if path not in found and path.suffix == ".py":
            for name in _imports(path.read_text("utf-8")):
                waiting += _files(name) or _files(name.rpartition(".")[0] or name)
        found.add(path)
    return found


@functools.cache
def _imports(source: str) -> list[str]:
    """The dotted names that a module imports; of `from a import b`, `a.b`."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [f"{getattr(node, 'module', '')}.{alias.name}".strip(".") for node in nodes for alias in node.names]


def _files(name: str) -> list[Path]:
    """The files of this checkout behind a dotted name: a module, or a package with its data."""
    place = ROOT / name.replace(".", "/")
    module = place.with_suffix(".py")
    return [module] if module.is_file() else [path for path in place.glob("*.*") if path.is_file()]


def alike(a, b) -> bool:
    """Whether two materials are the same up to rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    single = _in_single_precision(a) and _in_single_precision(b)
    with np.errstate(all="ignore"):
        return agree(a, b, rtol=1e-4, atol=1e-5) if single else agree(a, b, rtol=1e-9, atol=1e-12)


def _in_single_precision(value) -> bool:
    """Whether a value seems to have been computed in single rather than double precision."""
    numbers = None if isinstance(value, (str, type(None))) else as_array(value)
    if numbers is None or numbers.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return np.array_equal(numbers.astype(np.float32).astype(numbers.dtype), numbers, equal_nan=True)
