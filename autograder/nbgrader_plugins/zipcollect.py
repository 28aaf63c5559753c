"""Downloads of a learning platform, unpacked for `nbgrader zip_collect` without trusting what is in them.

An archive's members are files that students named and made. Each is looked at before it is written; one that is not
what a submission can be is left out with a warning, and the others are unpacked all the same.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path, PurePosixPath

from nbgrader.plugins import ExtractorPlugin

from autograder.grading import submission

MAX_MEMBERS = 20_000  # of one download, archives within it included
MAX_BYTES = 2 << 30  # of all that is unpacked from it
MAX_ARCHIVE = 1 << 30
MAX_DEPTH = 2  # an archive for each student within one for the class


class SafeExtractor(ExtractorPlugin):
    """Unpacks zip files, and copies other ordinary files, from the archive folder to the extracted one."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Called by `nbgrader zip_collect` with the absolute paths of both folders."""
        for folder, _, names in os.walk(archive_path):
            into = Path(extracted_path) / Path(folder).relative_to(archive_path)
            into.mkdir(parents=True, exist_ok=True)
            for name in sorted(names):
                path = Path(folder) / name
                try:
                    data = submission.read_bytes(path, MAX_ARCHIVE)
                except submission.Refused as error:
                    self.log.warning("Left out: %s", error)
                    continue
                if path.suffix.lower() == ".zip":
                    left = [MAX_MEMBERS, MAX_BYTES]
                    self._unpack(data, into / path.stem, name, left, depth=1)
                elif path.suffix.lower() in {".gz", ".tar", ".tgz", ".7z", ".rar"}:
                    self.log.warning("Left out: %s is no zip; unpack it yourself", name)
                else:
                    (into / name).write_bytes(data)

    def _unpack(self, data: bytes, into: Path, name: str, left: list[int], depth: int) -> None:
        """Write an archive's members below `into`. left: how many members and bytes there may still be."""
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            self.log.warning("Left out: %s is no zip file that can be read (%s)", name, error)
            return
        into.mkdir(parents=True, exist_ok=True)
        with archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                problem = member_problem(member, left)
                if not problem:
                    left[0] -= 1
                    left[1] -= member.file_size
                    try:
                        with archive.open(member) as stream:
                            content = stream.read(member.file_size + 1)
                        self._put(content, into / PurePosixPath(member.filename), left, depth)
                    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError) as error:
                        problem = f"cannot be unpacked ({getattr(error, 'strerror', None) or error})"
                if problem:
                    self.log.warning("Left out of %s: %.100r %s", name, member.filename, problem)

    def _put(self, content: bytes, place: Path, left: list[int], depth: int) -> None:
        """Write one member. Raises OSError where a file of that name is, or a file where a folder should be."""
        if place.suffix.lower() == ".zip" and depth < MAX_DEPTH:
            self._unpack(content, place.with_suffix(""), place.name, left, depth + 1)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(content)


def member_problem(member: zipfile.ZipInfo, left: list[int]) -> str | None:
    """Why a member is not unpacked, or None. left: how many members and bytes there may still be."""
    path, mode = PurePosixPath(member.filename), member.external_attr >> 16
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in (path.parts or [""])[0]:
        return "would be written somewhere else"
    if (
        not path.parts
        or len(path.parts) > 10
        or any(len(part.encode("utf-8", "replace")) > 255 for part in path.parts)
        or not member.filename.isprintable()
    ):
        return "has a name that no file should have"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "is a link, or no ordinary file"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed in a way that is not read"
    if member.file_size > MAX_ARCHIVE or member.file_size > left[1] or left[0] <= 0:
        return "is more than a class hands in"
    return None
