"""Reading a submitted folder: only bytes are taken from it, within limits."""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false

import datetime
import fnmatch
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader import utils

from autograder.grading import messages, submission
from autograder.sandbox.limits import MAX_BESIDE, MAX_NOTEBOOK


@dataclass(frozen=True)
class HandedIn:
    """One submission as it was read: when, the files to keep, and what is graded, packed."""

    timestamp: datetime.datetime | None
    kept: dict[str, bytes]
    packed: bytes


def read(folder: Path, assignment: str, student: str, allowed_files: Iterable[str], log) -> HandedIn:
    """Read a submission's folder, and use its contents only as bytes.

    allowed_files: patterns of the files besides notebooks that are kept
    """
    notes: list[str] = []
    timestamp = None if folder.is_symlink() else _timestamp(folder, notes, log)
    kept, found = _kept_files(folder, allowed_files, notes), submission.read_folder(folder)
    for name, why in found.refused.items():
        log.warning("%s: %s", folder / f"{name}.ipynb", why)
    packed = messages.pack_submission(assignment, student, notes, found.refused, found.notebooks, found.digest)
    return HandedIn(timestamp, kept, packed)


def _timestamp(folder: Path, notes: list[str], log) -> datetime.datetime | None:
    path = folder / "timestamp.txt"
    if not os.path.lexists(path):
        return None
    try:
        return utils.parse_utc(submission.read_bytes(path, 1000).decode("ascii").strip() or None)
    except (submission.Refused, ValueError, OverflowError) as error:
        notes.append(f"timestamp.txt holds no time: {str(error)[:100]}")
        log.warning("%s holds no time", path)
        return None


def _kept_files(folder: Path, allowed_files: Iterable[str], notes: list[str]) -> dict[str, bytes]:
    """The files that may be kept. Links, devices and folders are reported, and left where they are."""
    kept: dict[str, bytes] = {}
    if folder.is_symlink() or not folder.is_dir():
        notes.append("what was handed in is a link, or not a folder; nothing in it was read")
        return kept
    for number, entry in enumerate(sorted(os.scandir(folder), key=lambda entry: entry.name)):
        if number == MAX_BESIDE:
            notes.append(f"there were more than {MAX_BESIDE} files; the others were left out")
            break
        if entry.name.lower().endswith(".ipynb"):
            continue
        allowed = any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in allowed_files)
        if not allowed or not entry.is_file(follow_symlinks=False):
            notes.append(f"the file {entry.name[:100]!r} was left out")
            continue
        try:
            kept[entry.name] = submission.read_bytes(Path(entry.path), MAX_NOTEBOOK - sum(map(len, kept.values())))
        except submission.Refused as error:
            notes.append(f"left out: {error}")
    return kept


def ordinary_files(folder: Path, ignore: Iterable[str]) -> dict[str, Path]:
    """The instructor's files beside a source notebook and in folders there, by their names in that folder."""
    there = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        name.as_posix(): folder / name
        for name in there
        if name.suffix != ".ipynb" and not any(fnmatch.fnmatch(part, one) for part in name.parts for one in ignore)
    }


class FileCache:
    """Values that were read from files, kept until the files change: `--watch` looks every few seconds."""

    def __init__(self):
        self._known: dict[tuple[Path, ...], tuple[list, object]] = {}

    def get(self, paths: list[Path], read: Callable[[], Any]) -> Any:
        """The value of `read()`, called again only if one of the files has changed."""
        key, state = tuple(paths), [_file_state(path) for path in paths]
        if key not in self._known or self._known[key][0] != state:
            self._known[key] = state, read()
        return self._known[key][1]


def _file_state(path: Path) -> tuple | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
