"""The data behind `check`: `attnlab/checks/<name>.gz` for each exercise, generated and committed.

`manifest.json` beside them has a line for each exercise:
  data      the stamp of the code that its data were made by; they are current if it is that of today's code
  grades    the stamp of the code that its points depend on
  graded_as what grades are recorded under: a former `grades`, after a change of the code that
            `scripts/compare_mistakes.py` has shown to change no grade; without it, `grades` itself
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.check import CHECKS
from attnlab.checking import codec
from attnlab.checking.compare import as_array, within_tolerance
from course import catalog
from course.files import write_whole
from course.kit.exercise import compact
from course.stamps import data_stamp, grade_stamp


def write_checks(stems: Iterable[str]) -> list[Path]:
    """Make the data of these chapters that are not current; returns the data files that were written.

    A file is written only if its content differs by more than rounding, which depends on the processor.
    """
    CHECKS.mkdir(exist_ok=True)
    stems, before = list(stems), manifest()
    written, lines = [], dict(before)
    for stem in stems:
        for name, exercise in catalog.exercises_of(stem).items():
            path, line = check_file(name), lines.get(name, {})
            stored = read(path)
            if not stored or line.get("data") != data_stamp(stem, name):
                made = compact(exercise.material())
                if not equal_up_to_rounding(stored, made):
                    write_whole(path, codec.pack(made))
                    written.append(path)
            stamps = {"data": data_stamp(stem, name), "grades": grade_stamp(stem, name)}
            if line.get("grades") != stamps["grades"]:
                line = {}
            lines[name] = line | stamps
    if set(stems) == set(catalog.chapters()):
        for stray in set(CHECKS.glob("*.gz")) - set(map(check_file, catalog.all_exercises())):
            stray.unlink()
        lines = {name: lines[name] for name in catalog.all_exercises()}
    if lines != before:
        write_manifest(lines)
    return written


def check_file(name: str) -> Path:
    return CHECKS / f"{name}.gz"


def read(path: Path) -> dict[str, Any]:
    """The contents of a data file; empty if it is missing or cannot be read."""
    try:
        stored = codec.unpack(path.read_bytes())
    except (OSError, codec.CodecError):
        return {}
    stored.pop("made_from", None)  # files that have not changed since they held their own stamp
    return stored


def manifest() -> dict[str, dict[str, str]]:
    """The stamps of each exercise, by name; nothing if the file is missing or broken."""
    try:
        return json.loads((CHECKS / "manifest.json").read_text("ascii"))
    except (OSError, ValueError):
        return {}


def write_manifest(lines: dict[str, dict[str, str]]) -> None:
    """Write the stamps, a line for each exercise."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(lines[name])}" for name in sorted(lines))
    write_whole(CHECKS / "manifest.json", f"{{\n{rows}\n}}\n".encode("ascii"))


@functools.cache
def graded_as(stem: str, name: str) -> str:
    """The stamp that grades of an exercise are recorded under; it changes if a change of the code may change them."""
    line, stamp = manifest().get(name, {}), grade_stamp(stem, name)
    return line.get("graded_as", stamp) if line.get("grades") == stamp else stamp


def equal_up_to_rounding(a, b) -> bool:
    """Whether two materials are the same up to rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_up_to_rounding(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal_up_to_rounding, a, b))
    single = _in_single_precision(a) and _in_single_precision(b)
    with np.errstate(all="ignore"):
        return within_tolerance(a, b, rtol=1e-4, atol=1e-5) if single else within_tolerance(a, b, rtol=1e-9, atol=1e-12)


def _in_single_precision(value) -> bool:
    """Whether a value seems to have been computed in single rather than double precision."""
    numbers = None if isinstance(value, (str, type(None))) else as_array(value)
    if numbers is None or numbers.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return np.array_equal(numbers.astype(np.float32).astype(numbers.dtype), numbers, equal_nan=True)
