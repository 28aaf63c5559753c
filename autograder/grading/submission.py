"""From what was handed in, only what a student may decide: the sources of solution cells, and of added cells.

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

from autograder.course import cells
from autograder.sandbox.limits import MAX_CELLS, MAX_NESTING, MAX_NOTEBOOK, MAX_PARTS, MAX_SOURCE


class Refused(Exception):
    """What was handed in cannot be read; the message says why, and what to do, in a student's words."""


@dataclass(frozen=True)
class ReleasedCell:
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
class SubmittedCell:
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
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused(f"{path.name} is not an ordinary file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > limit:
            size = f"{status.st_size >> 20} MB, more than {limit >> 20}"
            raise Refused(f"{path.name} has {size}. Clear its outputs, and hand it in again")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Refused(f"{path.name} grew while it was read")
    return data


def submitted_cells(data: bytes) -> list[SubmittedCell]:
    """The cells of a notebook file. Raises Refused."""
    if problem := _too_much(data):
        raise Refused(problem)
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused("the notebook is not text in UTF-8") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"the notebook is not valid JSON: {str(error)[:100]}") from None
    if not isinstance(notebook, dict):
        raise Refused("the file holds something else than a notebook")
    listed = notebook.get("cells")
    if listed is None and isinstance(notebook.get("worksheets"), list):  # notebooks of ten years ago
        sheets = [sheet.get("cells") for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        listed = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(listed, list):
        raise Refused("the notebook has no cells")
    if len(listed) > MAX_CELLS:
        raise Refused(f"the notebook has {len(listed)} cells, more than {MAX_CELLS}")
    return [_submitted_cell(cell) for cell in listed if isinstance(cell, dict)]


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


def _submitted_cell(cell: dict) -> SubmittedCell:
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
    return SubmittedCell(name if isinstance(name, str) else None, kind, source)


def reassemble(
    submitted: list[SubmittedCell],
    released: list[ReleasedCell],
    plain: frozenset[str] = frozenset(),
    run_extra: bool = True,
) -> Reassembled:
    """The released cells in their order, with the student's text where it is theirs to write.

    plain: sources of the released cells that nbgrader does not know, so that only others are told of
    run_extra: whether code in added cells is run; text always stays
    """
    known = {cell.name: cell for cell in released}
    answers: dict[str, str] = {}
    added: dict[str | None, list[SubmittedCell]] = {None: []}  # by the released cell that they follow
    notes, before = [], None
    final = {cell.name: number for number, cell in enumerate(submitted) if cell.name in known}
    for number, cell in enumerate(submitted):
        if cell.name in known and final[cell.name] == number:
            before = cell.name
            added.setdefault(before, [])
            if known[before].solution:
                answers[before] = cell.source
            if cell.kind != known[before].cell_type:
                notes.append(f"{before} was handed in as another kind of cell")
            continue
        if cell.name in known:
            notes.append(f"{cell.name} was handed in more than once; the last one counts")
            if not known[cell.name].solution:
                continue  # a locked cell a second time: it could only be a forgery
        if cell.kind == "code" and cell.source.strip() and cell.source.strip() not in plain:
            notes.append("code in a cell that was not handed out: " + _first_line(cell.source))
            if not run_extra:
                continue
        added[before].append(cell)
    made = [cells.new_cell(cell.kind, cell.source) for cell in added[None]]
    for cell in released:
        if cell.name not in final:
            notes.append(f"{cell.name} was missing")
        kinds = {"grade": cell.grade, "solution": cell.solution, "locked": cell.locked, "task": cell.task}
        metadata = cells.nbgrader_metadata(
            cell.name, cell.cell_type, points=cell.points, checksum=cell.checksum, **kinds
        )
        made.append(cells.new_cell(cell.cell_type, answers.get(cell.name, cell.source), metadata))
        made += [cells.new_cell(own.kind, own.source) for own in added.get(cell.name, [])]
    return Reassembled(cells.new_notebook(made, "cell"), notes)


def _first_line(source: str) -> str:
    line = next((line for line in source.splitlines() if line.strip()), "").strip()
    return line[:60] + ("…" if len(line) > 60 else "")
