"""Folders that belong to one grader at a time: to prepare a result in, and those of submissions that are graded."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def staging_folder(course: Path) -> Iterator[Path]:
    """A folder for one grading, removed at its end. Folders of graders that were killed are removed first."""
    shared = course / ".grading"
    shared.mkdir(exist_ok=True)
    with contextlib.ExitStack() as held:
        with locked(shared):
            for left in shared.iterdir():
                with contextlib.suppress(OSError), locked(left, wait=False):  # its grader has ended
                    shutil.rmtree(left)
            own = Path(tempfile.mkdtemp(dir=shared))
            held.enter_context(locked(own))
        held.callback(shutil.rmtree, own, ignore_errors=True)
        yield own


@contextlib.contextmanager
def locked(folder: Path, wait: bool = True) -> Iterator[None]:
    """Hold a folder; a grader that is killed lets go. Raises BlockingIOError if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
