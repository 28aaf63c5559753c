"""Files and folders that are written whole or not at all, archives with equal bytes for equal contents, file hashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

EPOCH = (1980, 1, 1, 0, 0, 0)  # of all files in an archive


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` at the end, unless an exception is raised.

    Until then it is a hidden file in the same folder that its owner alone can read.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file in one step: its name never belongs to a part of it."""
    with replacing(path, mode) as file:
        file.write(data)


def draft_folder(parent: Path, contents: Mapping[str, bytes | Path]) -> Path:
    """Make a folder with these files inside another one; a path stands for the file to copy.

    contents: by names, which may have folders
    """
    made = parent / "draft"
    made.mkdir()
    for name, content in contents.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copy(content, made / name)
        else:
            (made / name).write_bytes(content)
    made.chmod(0o755)
    return made


@contextlib.contextmanager
def replacing_folder(place: Path, new: Path, aside: Path) -> Iterator[None]:
    """Put a folder in place at the end.

    What was there, if anything, is moved aside at the beginning, so that no folder is in place while it is out of date.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        place.rename(aside)
    yield
    new.rename(place)


def add_to_zip(archive: zipfile.ZipFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Put a file into an archive, compressed, with the same time as all others."""
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, mode << 16
    archive.writestr(member, content, compresslevel=9)


def hash_of(root: Path, paths: Iterable[Path]) -> str:
    """A hash of files below a root: of their contents and relative paths."""
    found = hashlib.sha256()
    for path in sorted(set(paths)):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return found.hexdigest()
