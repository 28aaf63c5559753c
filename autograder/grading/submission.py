"""Read a submission: files as bytes with size limits, and from a notebook only its cells' texts, names and ids.

Nothing is used as more than text. Outputs, which are most of a large file, are cut out before parsing.
"""

import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.sandbox import limits


class Refused(Exception):
    """Raised where a file cannot be read; the message says why, and what to do, in words for a student."""


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as it was handed in: a name it may claim, its kind, its text with "\\n" for each new line, its id."""

    name: str | None
    kind: str
    source: str
    id: str | None = None


def read_bytes(path: Path, limit: int = limits.MAX_FILE) -> bytes:
    """The bytes of a regular file. Raises Refused for anything else."""
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


@dataclass(frozen=True)
class Folder:
    """The notebooks in a submission's folder, by file name without .ipynb, and why others of them cannot be read.

    digest: a hash of the notebooks and the time stamp. It shows whether a submission is the one that was graded
    """

    notebooks: dict[str, bytes]
    refused: dict[str, str]
    digest: str


def read_folder(folder: Path) -> Folder:
    """Read a submission's folder; empty if it is not a folder."""
    notebooks, refused, left = {}, {}, limits.MAX_FOLDER
    for path in notebook_files(folder):
        name = path.name.removesuffix(".ipynb")
        try:
            if len(notebooks) + len(refused) >= limits.MAX_NOTEBOOKS or left <= 0:
                raise Refused("too much was handed in with it")
            notebooks[name] = read_bytes(path)
            left -= len(notebooks[name])
        except Refused as error:
            refused[name] = str(error)
    known = hashlib.sha256(_stamp(folder))
    for name, data in sorted({**notebooks, **{name: why.encode() for name, why in refused.items()}}.items()):
        known.update(json.dumps([name, hashlib.sha256(data).hexdigest()]).encode("ascii"))
    return Folder(notebooks, refused, known.hexdigest())


def notebook_files(folder: Path) -> list[Path]:
    """List everything with a notebook's name in a submission's folder, links included, in the order of names."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [folder / name for name in sorted(os.listdir(folder)) if name.lower().endswith(".ipynb")]


def _stamp(folder: Path) -> bytes:
    try:
        return read_bytes(folder / "timestamp.txt", 1000).strip()
    except Refused:
        return b""


def submitted_cells(data: bytes) -> list[SubmittedCell]:
    """The cells of a notebook file. Raises Refused."""
    data = _without_outputs(data)
    if len(data) > limits.MAX_NOTEBOOK or sum(map(data.count, (b",", b"[", b"{"))) > limits.MAX_PARTS:
        raise Refused("the notebook is too large, even without its outputs. Hand it in with only your answers")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused("the notebook is not text in UTF-8") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"the notebook is not valid JSON: {str(error)[:100]}") from None
    if not isinstance(notebook, dict):
        raise Refused("the file is not a notebook")
    listed = notebook.get("cells")
    if listed is None and isinstance(notebook.get("worksheets"), list):  # notebooks of ten years ago
        sheets = [sheet.get("cells") for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        listed = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(listed, list):
        raise Refused("the notebook has no cells")
    if len(listed) > limits.MAX_CELLS:
        raise Refused(f"the notebook has {len(listed)} cells, more than {limits.MAX_CELLS}")
    return [_submitted_cell(cell) for cell in listed if isinstance(cell, dict)]


# A string, whole or cut off at the end of the file, or a bracket. Nothing is tried twice: time is linear.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_VALUE = re.compile(rb"\s*+:\s*+(?=[\[{])")
_OUTPUTS = frozenset({b'"outputs"', b'"attachments"'})
_UNREAD = {1: frozenset({b'"metadata"'}), 3: _OUTPUTS, 5: _OUTPUTS}  # keys by how deep they are; 5: of an old format


def _without_outputs(data: bytes) -> bytes:
    """The same JSON, with an empty value for outputs, attached files and the notebook's own metadata.

    Raises Refused if there is too much to search.
    """
    kept, start, depth, left, top = [], 0, 0, limits.MAX_TOKENS, None
    for token in _TOKEN.finditer(data):
        left -= 1
        if left < 0:
            raise Refused("the notebook has too many parts. Clear its outputs, and hand it in again")
        text = token[0]
        if text in (b"[", b"{"):
            depth += 1
            if depth > limits.MAX_NESTING:
                raise Refused("the notebook is nested too deeply to be one")
        elif text in (b"]", b"}"):
            depth -= 1
            if depth == top:  # what is not read ends here
                start, top = token.start(), None
        elif top is None and text in _UNREAD.get(depth, ()) and (value := _VALUE.match(data, token.end())):
            kept.append(data[start : value.end() + 1])
            top = depth
    return b"".join([*kept, data[start:]]) if top is None else data


def _submitted_cell(cell: dict[str, Any]) -> SubmittedCell:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    if len(source) > limits.MAX_SOURCE:
        raise Refused(f"a cell has more than {limits.MAX_SOURCE} characters")
    source = source.encode("utf-8", "replace").decode("utf-8")  # half a character could not be written
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = mark.get("grade_id") if isinstance(mark, dict) else None
    kind, own = "code" if cell.get("cell_type") == "code" else "markdown", cell.get("id")
    return SubmittedCell(
        name if isinstance(name, str) else None, kind, one_newline(source), own if isinstance(own, str) else None
    )


def one_newline(text: str) -> str:
    """Text with "\\n" for each new line: some editors write "\\r\\n", which makes no difference."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
