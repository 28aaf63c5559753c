"""From what was handed in, only what a student may decide: the sources of solution cells, and of cells of their own.

Everything else comes from the gradebook's record: which cells there are, in which order, of which type, for how many
points, with which text. What was handed in is read as bytes, with caps, and never trusted with more than text.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import numpy as np

from autograder.grading import nodes
from autograder.sandbox.limits import MAX_CELLS, MAX_NESTING, MAX_NOTEBOOK, MAX_PARTS, MAX_SOURCE


class Refused(Exception):
    """What was handed in cannot be read; the message says why, and what to do, in a student's words."""


@dataclass(frozen=True)
class Official:
    """One nbgrader cell as the gradebook has it."""

    name: str
    cell_type: str
    source: str
    locked: bool
    solution: bool
    grade: bool
    task: bool
    points: float | None
    checksum: str


@dataclass(frozen=True)
class Submitted:
    """One cell as it was handed in: a name it may claim, its kind, and its text."""

    name: str | None
    kind: str
    source: str


@dataclass
class Reassembled:
    """The notebook to be graded, and what a human may want to know about how it was handed in."""

    notebook: nbformat.NotebookNode
    notes: list[str] = field(default_factory=list)


def read_bytes(path: Path, limit: int = MAX_NOTEBOOK) -> bytes:
    """The bytes of a regular file, and of nothing else. Raises Refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{path.name} is a link, or cannot be read ({error.strerror})") from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise Refused(f"{path.name} is no ordinary file")
    with os.fdopen(descriptor, "rb") as file:
        if found.st_size > limit:
            raise Refused(
                f"{path.name} has {found.st_size >> 20} MB, more than {limit >> 20}. Clear its outputs, and "
                "hand it in again"
            )
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Refused(f"{path.name} grew while it was read")
    return data


def cells_of(data: bytes) -> list[Submitted]:
    """The cells of a notebook file. Raises Refused."""
    if problem := _too_much(data):
        raise Refused(problem)
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused("the notebook is not text in UTF-8") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"the notebook is no valid JSON: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise Refused("the file holds something else than a notebook")
    cells = found.get("cells")
    if cells is None and isinstance(found.get("worksheets"), list):  # notebooks of ten years ago
        cells = [
            cell
            for sheet in found["worksheets"]
            if isinstance(sheet, dict)
            for cell in (sheet.get("cells") if isinstance(sheet.get("cells"), list) else [])
        ]
    if not isinstance(cells, list):
        raise Refused("the notebook has no cells")
    if len(cells) > MAX_CELLS:
        raise Refused(f"the notebook has {len(cells)} cells, more than {MAX_CELLS}")
    return [_cell(cell) for cell in cells if isinstance(cell, dict)]


def _too_much(data: bytes) -> str | None:
    """Why building what these bytes describe would take too much, judged by brackets and commas alone, or None."""
    bare = np.frombuffer(_STRING.sub(b"", data), dtype=np.uint8)
    opening = (bare == ord("[")) | (bare == ord("{"))
    closing = (bare == ord("]")) | (bare == ord("}"))
    depth = np.cumsum(opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int64)
    if depth.size and depth.max() > MAX_NESTING:
        return "the notebook is nested too deeply to be one"
    if np.count_nonzero(opening) + np.count_nonzero(bare == ord(",")) > MAX_PARTS:
        return "the notebook has too many parts. Clear its outputs, and hand it in again"
    return None


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _cell(cell: dict) -> Submitted:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    if len(source) > MAX_SOURCE:
        raise Refused(f"a cell has more than {MAX_SOURCE} characters")
    source = source.encode("utf-8", "replace").decode("utf-8")  # half a character would not survive being written
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = mark.get("grade_id") if isinstance(mark, dict) else None
    kind = "code" if cell.get("cell_type") == "code" else "markdown"
    return Submitted(name if isinstance(name, str) else None, kind, source)


def reassemble(
    submitted: list[Submitted], official: list[Official], given: frozenset[str] = frozenset(), run_extra: bool = True
) -> Reassembled:
    """The official cells in their order, with the student's text where it is theirs to write.

    given: sources of plain cells as they were released, so that only others are told of
    run_extra: whether code in cells of the student's own is run; text always stays
    """
    known = {cell.name: cell for cell in official}
    theirs: dict[str, str] = {}
    after: dict[str | None, list[Submitted]] = {None: []}  # own cells, by the official cell they follow
    notes, last = [], None
    final = {cell.name: number for number, cell in enumerate(submitted) if cell.name in known}
    for number, cell in enumerate(submitted):
        if cell.name in known and final[cell.name] == number:
            last = cell.name
            after.setdefault(last, [])
            if known[last].solution:
                theirs[last] = cell.source
            if cell.kind != known[last].cell_type:
                notes.append(f"{last} was handed in as another kind of cell")
            continue
        if cell.name in known:
            notes.append(f"{cell.name} was handed in more than once; the last one counts")
            if not known[cell.name].solution:
                continue  # a locked cell a second time: it could only be a forgery
        if cell.kind == "code" and cell.source.strip() and cell.source.strip() not in given:
            notes.append("code in a cell that was not handed out: " + _first_line(cell.source))
            if not run_extra:
                continue
        after[last].append(cell)
    cells = [_own(cell) for cell in after[None]]
    for cell in official:
        if cell.name not in final:
            notes.append(f"{cell.name} was missing")
        cells.append(_official(cell, theirs.get(cell.name)))
        cells += [_own(own) for own in after.get(cell.name, [])]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    notebook = nodes.notebook(
        cells,
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
            "language_info": {"name": "python"},
        },
    )
    return Reassembled(notebook, notes)


def _first_line(source: str) -> str:
    line = next((line for line in source.splitlines() if line.strip()), "").strip()
    return line[:60] + ("…" if len(line) > 60 else "")


def _own(cell: Submitted):
    return nodes.cell(cell.kind, cell.source)


def _official(cell: Official, theirs: str | None):
    mark = {
        "grade_id": cell.name,
        "grade": cell.grade,
        "solution": cell.solution,
        "locked": cell.locked,
        "task": cell.task,
        "schema_version": 3,
        "cell_type": cell.cell_type,
        "checksum": cell.checksum,
    }
    if cell.points is not None:
        mark["points"] = cell.points
    return nodes.cell(cell.cell_type, cell.source if theirs is None else theirs, {"nbgrader": mark})
