"""Read a submission: files as bytes with size limits; from a notebook, the texts, names, ids and pictures of its cells.

Nothing is used as more than text. Outputs, which are most of a large file, are cut out before parsing.
"""

import base64
import hashlib
import json
import os
import re
import stat
import struct
import urllib.parse
from collections.abc import Mapping
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
    most = limits.MAX_NOTEBOOK + limits.MAX_PICTURES
    if len(data) > most or sum(map(data.count, (b",", b"[", b"{"))) > limits.MAX_PARTS:
        raise Refused("the notebook is too large, even without its outputs. Hand it in with only your answers")
    try:
        listed = notebook_cells.read(data)
    except ValueError as error:
        raise Refused(str(error)) from None
    if len(listed) > limits.MAX_CELLS:
        raise Refused(f"the notebook has {len(listed)} cells, more than {limits.MAX_CELLS}")
    return [_bounded(notebook_cells.as_cell(cell)) for cell in listed]


def _bounded(cell: SubmittedCell) -> SubmittedCell:
    """Name the pictures of a text after their content; put words in place of other pictures, and of a long text.

    Other cells are not affected.
    """
    source, shown = cell.source, {}
    if cell.kind == "markdown":
        source, shown = _named(source, cell.pictures)
    if len(source) > limits.MAX_SOURCE:
        source = f"This cell was left out: it has more than {limits.MAX_SOURCE} characters."
        source, shown = f"# {source}" if cell.kind == "code" else source, {}
    return replace(cell, source=source, pictures=shown)


# A string, whole or cut off at the end of the file, or a bracket. Nothing is tried twice: time is linear.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_VALUE = re.compile(rb"\s*+:\s*+(?=[\[{])")
_OUTPUTS = frozenset({b'"outputs"'})
_UNREAD = {1: frozenset({b'"metadata"'}), 3: _OUTPUTS, 5: _OUTPUTS}  # keys by how deep they are; 5: of an old format


def _without_outputs(data: bytes) -> bytes:
    """The same JSON, with an empty value for outputs and the notebook's own metadata, and without too large pictures.

    Raises Refused if there is too much to search.
    """
    kept, start, depth, left, top, room = [], 0, 0, limits.MAX_TOKENS, None, limits.MAX_PICTURES
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
        elif top is None and len(text) >= _LONG_TEXT:
            short, room = _without_large(text, room)
            kept += [data[start : token.start()], short]
            start = token.end()
    return b"".join([*kept, data[start:]]) if top is None else data


# Pictures in a text: PNG and JPEG, recognized by their bytes and named after them. So a name is nothing that a student
# chose, and two texts with other pictures differ.

PICTURE_MISSING = "It is not in the notebook that was handed in."
PICTURE_UNKNOWN = "It is neither PNG nor JPEG: see the notebook that was handed in."
PICTURE_TOO_LARGE = "It is too large to be shown: see the notebook that was handed in."

# A picture with a name as `_named` gives it.
PICTURE_NAME = r"attachment:([0-9a-f]{32}\.(?:png|jpeg))"
PICTURE = re.compile(rf"!\[([^\[\]\n]{{0,500}})\]\({PICTURE_NAME}\)")
# Pictures as students' programs write them: in Markdown, in HTML, and in a definition that Markdown refers to.
_ALT = r"[^\[\]\n]{0,200}+(?:\[[^\[\]\n]{0,100}\][^\[\]\n]{0,200}+)?"
_NAME = r"""[^()<>"'\n]{0,200}(?:\([^()<>"'\n]{0,100}\)[^()<>"'\n]{0,200})?"""
_ANY_PICTURE = re.compile(
    rf"""!?\[(?P<alt>{_ALT})\]\([ ]*<?attachment:(?P<inline>{_NAME})>?[ ]*(?:"[^"\n]{{0,200}}"[ ]*)?\)"""
    rf"""|<img\b[^<>]{{0,500}}?attachment:(?P<tag>{_NAME})[^<>]{{0,500}}>"""
    rf"""|^[ ]{{0,3}}\[(?P<label>[^\[\]\n]{{1,200}})\]:[ ]*<?attachment:(?P<defined>{_NAME}).{{0,200}}$""",
    re.IGNORECASE | re.MULTILINE,
)
_DATA = re.compile(r"data:image/[\w.+-]{1,40};base64,([A-Za-z0-9+/=]*+(?:\(too large\))?)")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*", re.ASCII)
_LONG_TEXT = 100_000  # characters from which a text is searched for data that are too large
_LONG_DATA = re.compile(rb"[A-Za-z0-9+/=]{%d,}+" % _LONG_TEXT)


def picture_size(data: str) -> int | None:
    """Pixels of a PNG or JPEG in base64, or None if it is not one, or is too large to be shown."""
    found = _measured(data)
    return found[1] if found and 0 < found[1] <= limits.MAX_PIXELS else None


def _measured(data: str) -> tuple[str, int, bytes] | None:
    """The kind, the number of pixels and the bytes."""
    if len(data) > limits.MAX_PICTURE or not _BASE64.fullmatch(data):
        return None
    try:
        picture = base64.b64decode(data)
    except ValueError:
        return None
    if shape := _png_size(picture):
        return "png", shape[0] * shape[1], picture
    shape = _jpeg_size(picture)
    return ("jpeg", shape[0] * shape[1], picture) if shape else None


def _png_size(data: bytes) -> tuple[int, int] | None:
    return struct.unpack(">II", data[16:24]) if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24 else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[:2] == b"\xff\xd8" and place + 9 <= len(data) and data[place] == 0xFF:
        kind, length = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])[0]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        place += 2 + length
    return None


def _without_large(text: bytes, room: int) -> tuple[bytes, int]:
    """A string of a notebook's file without data of pictures that are too large, and the room that is left."""

    def kept(found: re.Match) -> bytes:
        nonlocal room
        count = len(found[0])
        if count > min(limits.MAX_PICTURE, room):
            return b"(too large)"
        room -= count
        return found[0]

    return _LONG_DATA.sub(kept, text), room


def _named(source: str, attached: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A text whose pictures have names of their own, and their data in base64 by name. Others become words."""
    attached, kept = dict(attached), {}

    def moved(found: re.Match) -> str:
        name = f"data:{len(attached)}"
        attached[name] = found[1]
        return f"attachment:{name}"

    def replaced(found: re.Match) -> str:
        asked = next(found[group] for group in ("inline", "tag", "defined") if found[group] is not None).strip()
        title = re.sub(r"[\[\]]", "", found["alt"] or found["label"] or "").strip()
        data = attached.get(asked, attached.get(urllib.parse.unquote(asked)))
        if data is None:
            return instead_of_picture(title, PICTURE_MISSING)
        if len(data) > limits.MAX_PICTURE or "(" in data:
            return instead_of_picture(title, PICTURE_TOO_LARGE)
        if (picture := _measured(data)) is None:
            return instead_of_picture(title, PICTURE_UNKNOWN)
        kind, pixels, content = picture
        if not 0 < pixels <= limits.MAX_PIXELS:
            return instead_of_picture(title, PICTURE_TOO_LARGE)
        name = f"{hashlib.sha256(content).hexdigest()[:32]}.{kind}"
        kept[name] = base64.b64encode(content).decode("ascii")
        return f"![{title}](attachment:{name})"

    source = _ANY_PICTURE.sub(replaced, _DATA.sub(moved, source))
    return source, kept


def instead_of_picture(title: str, why: str) -> str:
    """A sentence that replaces a picture."""
    return f"(A picture was here{title and f': {title}'}. {why})"


def attach_pictures(cell, shown: Mapping[str, str]) -> None:
    """Attach to a cell of text, as nbformat does, the pictures that it refers to. shown: data by name"""
    names = {found[2] for found in PICTURE.finditer(cell.source)} & shown.keys()
    if names and cell.cell_type == "markdown":
        cell.attachments = {name: {f"image/{name.partition('.')[2]}": shown[name]} for name in sorted(names)}
