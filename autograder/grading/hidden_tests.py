"""The hidden tests of a course as data.

They are made once, kept in the course's folder next to the seed, and sent with each assignment. Running every wrong
answer of a chapter takes seconds, which no grading process should spend again.
"""

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from attnlab.check import filled_in
from attnlab.checking import codec
from attnlab.checking.schema import Material
from course import catalog, stamps
from course.files import write_whole
from course.folder import course_seed
from course.kit.exercise import Exercise, compact

FOLDER = ".hidden_tests"


def packed(course: Path, exercise: Exercise) -> bytes:
    """Return the hidden tests of an exercise in this course, packed for `unpacked`; make them if they do not exist.

    A file is identified by its stamp, so none is ever out of date.
    """
    place = _file(course, exercise.name)
    with contextlib.suppress(OSError):
        return place.read_bytes()
    data = codec.pack(compact(exercise.material(course_seed(course))))
    place.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(place, data, 0o600)
    for old in set(place.parent.glob(f"{exercise.name}-*")) - {place}:
        old.unlink(missing_ok=True)
    return data


def of_exercises(course: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the hidden tests of exercises in this course, packed for `unpacked`, by name.

    The first grading of a chapter makes its hidden tests, on all cores; after that they are in the course's folder.
    """
    names = list(names)
    missing = [name for name in names if not _file(course, name).is_file()]
    if len(missing) > 1:
        workers = min(len(missing), len(os.sched_getaffinity(0)))
        # Where a process of the pool is ended from outside, this one makes the rest.
        with (
            contextlib.suppress(BrokenProcessPool),
            ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        ):
            done = pool.map(_make, repeat(course), missing)
            # Without a terminal there is no bar.
            deque(tqdm(done, "hidden tests", len(missing), leave=False, unit="", disable=None), maxlen=0)
    return {name: packed(course, catalog.exercise(name)) for name in names}


def _make(course: Path, name: str) -> None:
    packed(course, catalog.exercise(name))


def _file(course: Path, name: str) -> Path:
    """Where the hidden tests of an exercise are: the seed and the code that makes them are in the file's name."""
    stamp = f"{course_seed(course)} {stamps.data_stamp(catalog.chapter_of(name), name)}"
    return course / FOLDER / f"{name}-{hashlib.sha256(stamp.encode()).hexdigest()[:20]}.gz"


def unpacked(data: bytes) -> Material:
    return filled_in(codec.unpack(data))
