"""The files of submissions, one by one, from a platform's zip or a folder.

Nothing is unpacked: no name in an archive decides where anything is written. The outermost name of a file is the
platform's or the instructor's; all that is below it is a student's. The amount read per student is bounded, and what
cannot be read affects only that student.
"""

import contextlib
import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.grading import submission
from autograder.platforms import layouts
from autograder.sandbox.limits import MAX_COLLECTED, MAX_DEPTH, MAX_FILES, MAX_UNPACKED
from course.errors import CourseError

_ENTRY = b"PK\x01\x02"  # with which each file in an archive's table of contents begins
_OTHER_ARCHIVES = (".gz", ".tar", ".tgz", ".7z", ".rar", ".xz", ".bz2")


@dataclass(frozen=True)
class File:
    """One file as the source has it. read: `read(limit)` gives its bytes, or raises one of many errors"""

    path: PurePosixPath
    read: Callable[[int], bytes]


@dataclass
class Contents:
    """The files of one student: notebooks by their paths, and lines on files that were left out."""

    notebooks: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    files: int = 0
    unpacked: int = 0


class _TooLarge(ValueError):
    """A file is larger than what may be read of it."""


class _TooMuch(Exception):
    """A student's files are more than may be read."""


@contextlib.contextmanager
def opened(source: Path) -> Iterator[list[File]]:
    """The files of a zip or a folder, without files that file managers leave behind. Raises CourseError."""
    if source.is_dir():
        yield _without_wrapper([*_in_folder(source)])
        return
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise CourseError(f"{source} is neither a folder nor a zip that can be read ({_why(error)})") from None
    with archive:
        files = [File(path, _member(archive, info)) for info in archive.infolist() if (path := _path(info))]
        yield _without_wrapper(files)


def _in_folder(source: Path) -> Iterator[File]:
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not submission.is_junk(name))
        for name in sorted(names):
            path = Path(folder) / name
            if not submission.is_junk(name):
                yield File(
                    PurePosixPath(path.relative_to(source)), lambda limit, path=path: submission.read_bytes(path, limit)
                )


def _path(info: zipfile.ZipInfo) -> PurePosixPath | None:
    """A member's path as text, or None for a folder or junk."""
    path = PurePosixPath(info.filename.replace("\\", "/").lstrip("/"))
    junk = any(part != ".." and submission.is_junk(part) for part in path.parts)
    return None if info.is_dir() or not path.parts or junk else path


def _without_wrapper(files: list[File]) -> list[File]:
    """Sources that were packed again have all in one folder: with this the names within are the outermost."""
    depth = layouts.without_wrapper(file.path.parts for file in files)
    return [File(PurePosixPath(*file.path.parts[depth:]), file.read) for file in files]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(limit: int) -> bytes:
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError("a link, or not an ordinary file")
        if info.flag_bits & 1:
            raise ValueError("encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("compressed in a way that cannot be read; make an ordinary zip")
        with archive.open(info) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise _TooLarge(f"more than {limit >> 20} MB")
        return data

    return read


def contents(files: list[File]) -> Contents:
    """The notebooks among a student's files, those in archives included. Never raises because of a student's file."""
    found = Contents()
    try:
        for file in files:
            _look(found, file, str(file.path), 0)
    except _TooMuch as error:
        found.left_out.append(str(error))
    return found


def _look(found: Contents, file: File, name: str, depth: int) -> None:
    found.files += 1
    if found.files > MAX_FILES:
        raise _TooMuch(f"more than {MAX_FILES} files: those after {name[-100:]!r} were not read")
    suffix = submission.suffix(file.path.name)
    if suffix in _OTHER_ARCHIVES:
        found.left_out.append(f"{name!r} is not a zip: unpack it yourself")
    if suffix not in (".ipynb", ".zip"):
        return
    limit = MAX_UNPACKED - found.unpacked
    if limit <= 0:
        raise _TooMuch(f"more than {MAX_UNPACKED >> 20} MB: {name[-100:]!r} and what follows were not read")
    try:
        data = file.read(min(limit, MAX_UNPACKED if suffix == ".zip" else MAX_COLLECTED))
        found.unpacked += len(data)
        if suffix == ".zip" and depth < MAX_DEPTH:
            _look_into(found, data, name, depth)
        elif suffix == ".zip":
            found.left_out.append(f"{name!r} is an archive within archives: unpack it yourself")
        else:
            found.notebooks[name] = data
    except _TooMuch:
        raise
    except Exception as error:  # a damaged archive can raise almost any error
        found.unpacked += min(limit, MAX_COLLECTED) if isinstance(error, _TooLarge) else 0
        found.left_out.append(f"{name!r} cannot be read ({_why(error)})")


def _look_into(found: Contents, data: bytes, name: str, depth: int) -> None:
    """Read the members of an archive. Its table of contents is read only once it is known to be short."""
    if data.count(_ENTRY) > MAX_FILES - found.files:
        raise _TooMuch(f"{name!r} has more than {MAX_FILES} files")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if path := _path(info):
                _look(found, File(path, _member(archive, info)), f"{name}/{path}", depth + 1)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__)[:150]
