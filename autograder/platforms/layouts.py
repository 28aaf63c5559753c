"""How a source is laid out: which platform packed it, and so how its outermost names are read.

The layout is that of most names, so that no file of a student can change it for a class. It is found before any file is
taken, and holds for all of them: a name that does not fit is left out and told, never read in another way.
"""

import datetime
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.platforms import brightspace, canvas, ilias, moodle, names
from autograder.platforms.names import Owner
from course.errors import CourseError

BLACKBOARD, EXCHANGE, CLONES, PLAIN = "blackboard", "exchange", "clones", "folder"
WORDS = {
    canvas.NAME: "a download from Canvas",
    moodle.NAME: "a download from Moodle",
    BLACKBOARD: "a download from Blackboard",
    brightspace.NAME: "a download from Brightspace",
    ilias.NAME: "a download from ILIAS",
    EXCHANGE: "nbgrader's exchange",
    CLONES: "clones of repositories",
    PLAIN: "files and folders that are named after students",
}
MAX_WRAPPERS = 3  # folders around what a platform has packed


@dataclass(frozen=True)
class Layout:
    """How a source is laid out. owner: `owner(name, is_folder)`, whose a file is, or None if the name does not fit"""

    kind: str
    owner: Callable[[str, bool], Owner | None]


def recognized(source: Path, tops: dict[str, bool], assignment: str, zone: datetime.tzinfo, has_roster: bool) -> Layout:
    """The layout of a source. Raises CourseError with a question if it does not say where a login begins.

    tops: the outermost names, and whether each is a folder; zone: for times without one
    has_roster: whether a class list will tell logins
    """
    clones = {path.parent.name for path in source.glob("*/.git")} if source.is_dir() else set()
    layouts = [
        Layout(moodle.NAME, lambda name, is_folder: moodle.owner(name)),
        # Before Canvas: an assignment and logins with numbers look like its names too.
        Layout(BLACKBOARD, lambda name, is_folder: None if is_folder else names.attempt_owner(name, zone)),
        Layout(canvas.NAME, lambda name, is_folder: canvas.owner(name)),
        Layout(brightspace.NAME, lambda name, is_folder: brightspace.owner(name, zone)),
        Layout(ilias.NAME, lambda name, is_folder: ilias.owner(name) if is_folder else None),
        Layout(EXCHANGE, lambda name, is_folder: names.exchange_owner(name, assignment, zone) if is_folder else None),
        Layout(CLONES, lambda name, is_folder: Owner(name) if is_folder and name in clones else None),
    ]
    for layout in layouts:
        if 2 * sum(layout.owner(name, is_folder) is not None for name, is_folder in tops.items()) > len(tops):
            return layout if layout.kind != CLONES else Layout(CLONES, _by_login(clones, assignment, has_roster))
    return Layout(PLAIN, lambda name, is_folder: names.plain_owner(name, is_folder, zone))


def _by_login(clones: set[str], assignment: str, has_roster: bool) -> Callable[[str, bool], Owner | None]:
    """Read folders called REPOSITORY-login. Both may have hyphens: a roster tells where a login begins.

    Without a roster the repository has the assignment's name, or all begin with the same single word.
    """
    own = re.compile(re.escape(assignment).replace("_", "[_-]") + r"-(?:\d+-)*", re.IGNORECASE)
    starts = {match.end() if (match := own.match(clone)) else 0 for clone in clones}
    common = os.path.commonprefix(sorted(clones))
    common = common[: common.rfind("-") + 1]
    known = len(starts) == 1 and starts != {0}
    if known:
        (start,) = starts
    elif has_roster:
        start = 0
    elif len(clones) > 1 and common.count("-") <= 1:
        start = len(common)
    else:
        raise CourseError(
            f"where do the logins begin in {', '.join(sorted(clones)[:3])}? Collect with --roster and a class list "
            "that has them in a column github"
        )
    return lambda name, is_folder: (
        Owner(name[start:], logins=() if known else names.endings(name, "-")) if is_folder and name in clones else None
    )


def without_wrapper(paths: Iterable[tuple[str, ...]]) -> int:
    """How many outer folders of an archive to leave out, so that the outermost names are those that a platform gave."""
    paths = list(paths)
    for depth in range(1, MAX_WRAPPERS + 1):
        if any(len(path) <= depth for path in paths) or len({path[:depth] for path in paths}) != 1:
            return 0
        if moodle.owner(paths[0][depth - 1]):
            return 0
        if any(_is_platforms(path[depth], len(path) > depth + 1) for path in paths):
            return depth
    return 0


def _is_platforms(name: str, is_folder: bool) -> bool:
    readers = canvas.owner, moodle.owner, brightspace.owner
    by_blackboard = names.attempt_owner(name, datetime.UTC) is not None
    return any(read(name) for read in readers) or by_blackboard or is_folder and ilias.owner(name) is not None
