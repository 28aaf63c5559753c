"""Submissions for tests: small notebooks with the marks of released ones, zips, and a course."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from pathlib import Path

from tests.conftest import write_files

ANSWERS = {"softmax": ["softmax", "log_softmax"], "multi_head": ["split_heads", "merge_heads"]}
STUB = "def {}(x):\n    raise NotImplementedError"
DONE = "def {}(x):\n    return x"


def notebook(name: str = "softmax", done: int = 2, marks: bool = True, ids: bool = True) -> bytes:
    """A notebook in which so many exercises are done. marks, ids: whether tools have left nbgrader's and Jupyter's."""
    cells = []
    for number, exercise in enumerate(ANSWERS[name]):
        answer = (DONE if number < done else STUB).format(exercise)
        for grade_id, source in ((exercise, answer), (f"check-{exercise}", "")):
            metadata = {"nbgrader": {"grade_id": grade_id, "solution": True}} if marks else {}
            cell = {"cell_type": "code", "metadata": metadata, "outputs": [], "source": source.splitlines(True)}
            cells.append({**cell, **({"id": f"{name.replace('_', '-')}-{len(cells)}"} if ids else {})})
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}, indent=1).encode()


def zipped(*members, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file; members are (name or ZipInfo, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, str]:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


def encrypted(data: bytes) -> bytes:
    """A zip whose members say that they are encrypted."""
    data = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := data.find(mark, place + 1)) >= 0:
            data[place + offset] |= 1
    return bytes(data)


def damaged(data: bytes) -> bytes:
    """A zip whose first member cannot be inflated."""
    data = bytearray(data)
    place = 30 + int.from_bytes(data[26:28], "little") + int.from_bytes(data[28:30], "little")
    data[place : place + 4] = b"\xff\xff\xff\xff"
    return bytes(data)


def course(folder: Path) -> Path:
    """A course folder in which softmax and multi_head are released."""
    return write_files(folder, {f"release/{name}/{name}.ipynb": notebook(name, done=0) for name in ANSWERS})
