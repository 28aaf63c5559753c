"""The one reader of a student's notebook: its cells' texts, names and ids, whatever program wrote the file.

Editors write sources as lists, half a character at the end of an emoji, a byte order mark, or formats of ten years ago.
Metadata may be anything, or gone. All of that is read here in the same way while grading, by `attnlab.mine` and by
`python -m attnlab`, so that what counts in one place counts in the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One cell: a name it may claim, its kind, its text with "\\n" for each new line, its id.

    kind: "code", or "markdown" for all others; solution: whether it claims to be an answer's
    pictures: data of attached files by name, as the file has them
    """

    name: str | None
    kind: str
    source: str
    id: str | None = None
    solution: bool = False
    pictures: dict[str, str] = field(default_factory=dict)


def read(data: bytes) -> list[dict[str, Any]]:
    """The cells of a notebook file, as they are in it. Raises ValueError in words for a student."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("the notebook is not text in UTF-8") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the notebook is not valid JSON: {str(error)[:100]}") from None
    if not isinstance(notebook, dict):
        raise ValueError("the file is not a notebook")
    listed = notebook.get("cells")
    if listed is None and isinstance(notebook.get("worksheets"), list):  # notebooks of ten years ago
        sheets = [sheet.get("cells") for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        listed = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(listed, list):
        raise ValueError("the notebook has no cells")
    return [cell for cell in listed if isinstance(cell, dict)]


def as_cell(cell: dict[str, Any]) -> Cell:
    """One cell of a file. What has no sensible value is empty."""
    source = _text(cell.get("source", cell.get("input", "")))
    source = source.encode("utf-8", "replace").decode("utf-8")  # half a character could not be written
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    mark = mark if isinstance(mark, dict) else {}
    name, own = mark.get("grade_id"), cell.get("id")
    return Cell(
        name if isinstance(name, str) else None,
        "code" if cell.get("cell_type") == "code" else "markdown",
        one_newline(source),
        own if isinstance(own, str) else None,
        bool(mark.get("solution")),
        _attached(cell.get("attachments")),
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _attached(files: Any) -> dict[str, str]:
    """The first text of each attached file: there is one per kind, and only pictures have several kinds."""
    found = files.items() if isinstance(files, dict) else ()
    return {name: _text(next(iter(kinds.values()))) for name, kinds in found if isinstance(kinds, dict) and kinds}


def one_newline(text: str) -> str:
    """Text with "\\n" for each new line: some editors write "\\r\\n", which makes no difference."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
