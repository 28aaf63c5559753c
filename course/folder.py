"""Where a course is: the checkout, the course's folder, its secret seed and its gradebook's address.

The folder holds `source`, `release`, `submitted`, `autograded`, `feedback`, `gradebook.db` and the seed, from which
hidden inputs are drawn. The seed never leaves it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

from course.errors import CourseError

ROOT = Path(__file__).resolve().parents[1]
COURSE_DIR = "COURSE_DIR"
GRADEBOOK_URL = "GRADEBOOK_URL"  # PostgreSQL, such as postgresql+psycopg://grader@127.0.0.1/attention
COURSE_ID = "COURSE_ID"  # the name in nbgrader's exchange, which several courses may share
GIVEN_SEED = "AUTOGRADER_SEED"


def course_folder(named: Path | None = None) -> Path:
    """The folder of a course: the one named, COURSE_DIR, or build/course in this checkout."""
    return Path(named or os.environ.get(COURSE_DIR) or ROOT / "build" / "course").resolve()


def course_id() -> str:
    """The course's name in the gradebook and in nbgrader's exchange: COURSE_ID, or attention."""
    name = os.environ.get(COURSE_ID) or "attention"
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise CourseError(f"{COURSE_ID} is {name!r}: use letters, digits, hyphens and dots alone")
    return name


def exposed(course: Path | None = None) -> list[Path]:
    """The checkout and the course's folder, if other users of this machine can enter it. Both hold answers."""
    folders = dict.fromkeys([ROOT, course_folder(course)])
    return [
        folder
        for folder in folders
        if folder.is_dir() and all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents))
    ]


def exposed_in_words(folder: Path) -> str:
    return f"other users of this machine can enter {folder}, which holds answers. Close it: chmod go-rwx {folder}"


def gradebook_url(course: Path) -> str:
    """The address of a course's gradebook: GRADEBOOK_URL, or the SQLite file in its folder."""
    return os.environ.get(GRADEBOOK_URL) or f"sqlite:///{course / 'gradebook.db'}"


def gradebook_exists(course: Path) -> bool:
    """Whether a course has a gradebook, as far as files tell: to open a SQLite file that is not there would make it."""
    from sqlalchemy.engine import make_url  # slow to import, and most callers ask for folders

    address = make_url(gradebook_url(course))
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()


def existing_gradebook(course: Path) -> str:
    """The address of a gradebook to read. Raises CourseError if it should be a file that does not exist."""
    url = gradebook_url(course)
    if not gradebook_exists(course):
        if os.environ.get(GRADEBOOK_URL):
            raise CourseError(f"no gradebook at {url}, which GRADEBOOK_URL names")
        raise CourseError(f"no gradebook in {course}: release an assignment first, or name the course with --course")
    return url


def seed_path(course: Path | None = None) -> Path:
    """The file that holds the seed of a course; `course_folder()` if none is named."""
    return course_folder(course) / "secret_seed"


def course_seed(course: Path | None = None) -> int:
    """The course's seed, made on first use. It is readable by its owner alone.

    AUTOGRADER_SEED, a whole number, replaces it when gradings of different courses are compared.
    """
    if os.environ.get(GIVEN_SEED, "").isdecimal():
        return int(os.environ[GIVEN_SEED])
    place = seed_path(course)
    if not place.exists():
        _make_seed(place)
    text = place.read_text("ascii", errors="replace").strip()
    if not text.isdecimal():
        raise CourseError(f"{place} does not contain a whole number; delete it, and a new one is made")
    return int(text)


def _make_seed(place: Path) -> None:
    """Write a new seed in one step, so that processes that start at the same time all read the same one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=place.parent, prefix=place.name)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(str(secrets.randbits(64)))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, place)
    finally:
        os.unlink(draft)
