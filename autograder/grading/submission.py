"""Read a submission: files as bytes with size limits, and from a notebook only its cells' texts, names and ids.

Nothing is used as more than text. Outputs, which are most of a large file, are cut out before parsing.
"""

import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab import notebook_cells
from attnlab.notebook_cells import Cell as SubmittedCell
from autograder.sandbox import limits


class Refused(Exception):
    """Raised where a file cannot be read; the message says why, and what to do, in words for a student."""


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or left behind by a file manager."""
    return name.startswith(".") or name in {"__MACOSX", "Thumbs.db", "desktop.ini"}


def suffix(name: str) -> str:
    """The last suffix of a file's name, in small letters. Some browsers write their own behind a notebook's."""
    return Path(re.sub(r"(\.ipynb)\.(json|txt)$", r"\1", name.lower())).suffix


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
        listed = notebook_cells.read(data)
    except ValueError as error:
        raise Refused(str(error)) from None
    if len(listed) > limits.MAX_CELLS:
        raise Refused(f"the notebook has {len(listed)} cells, more than {limits.MAX_CELLS}")
    return [_bounded(notebook_cells.as_cell(cell)) for cell in listed]


# Pictures as Markdown and HTML have them, in the cell itself or attached to it. The data come first: they are long.
_DATA = re.compile(r"data:image/[\w.+-]{1,40};base64,([A-Za-z0-9+/=]*+)")
_MARKDOWN_PICTURE = re.compile(r"!\[([^\]\n]{0,200})\]\((?:attachment:[^)\n]{1,200}|left-out:(\d+))[^)\n]{0,200}\)")
_HTML_PICTURE = re.compile(r"<img\b[^<>]{0,500}?left-out:(\d+)[^<>]{0,500}>", re.IGNORECASE)


def _bounded(cell: SubmittedCell) -> SubmittedCell:
    """Put words in place of pictures, and of a text that is too long. Other cells are not affected."""
    source = cell.source
    if cell.kind == "markdown":
        source = _DATA.sub(lambda found: f"left-out:{len(found[1]) * 3 // 4000}", source)
        source = _MARKDOWN_PICTURE.sub(lambda found: _left_out(found[1], found[2]), source)
        source = _HTML_PICTURE.sub(lambda found: _left_out("", found[1]), source)
    if len(source) > limits.MAX_SOURCE:
        source = f"This cell was left out: it has more than {limits.MAX_SOURCE} characters."
        source = f"# {source}" if cell.kind == "code" else source
    return replace(cell, source=source)


def _left_out(title: str, kilobytes: str | None) -> str:
    about = ", ".join(filter(None, [title.strip(), kilobytes and f"{kilobytes} kB"]))
    return f"(A picture was here{f': {about}' if about else ''}. It is in the notebook that was handed in.)"


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
