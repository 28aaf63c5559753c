"""How a source is laid out: which platform packed it, and so how its outermost names are read.

The layout is that of most names, so that no file of a student can change it for a class. It is found before any file is
taken, and holds for all of them: a name that does not fit is left out and told, never read in another way.
"""

import datetime
import os
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.platforms import brightspace, canvas, ilias, moodle, names
from autograder.platforms.names import Owner
from autograder.platforms.roster import Roster
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


def recognized(
    source: Path, tops: dict[str, bool], assignment: str, zone: datetime.tzinfo, listed: Roster | None
) -> Layout:
    """The layout of a source. Raises CourseError with a question if it does not tell the layout or where logins begin.

    tops: the outermost names, and whether each is a folder; zone: for times without one
    listed: the class list, if there is one
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
        fits = {name: owner for name, is_folder in tops.items() if (owner := layout.owner(name, is_folder))}
        if 2 * len(fits) > len(tops):
            if layout.kind == CLONES:
                return Layout(CLONES, _clones(clones, assignment, listed))
            if layout.kind == BLACKBOARD:
                return Layout(BLACKBOARD, _attempts({owner.label for owner in fits.values()}, zone, listed))
            return layout
        if len({owner.key for owner in fits.values()}) >= max(2, len(tops) / 4):
            others = [name for name in tops if name not in fits]
            raise CourseError(
                f"{len(fits)} names are as in {WORDS[layout.kind]} ({next(iter(fits))!r}), {len(others)} are not "
                f"({others[0]!r}): put each kind into a source of its own, and collect one after the other"
            )
    return Layout(PLAIN, lambda name, is_folder: names.plain_owner(name, is_folder, zone))


def _clones(clones: set[str], assignment: str, listed: Roster | None) -> Callable[[str, bool], Owner | None]:
    """Read folders called REPOSITORY-login. Both may have hyphens: a roster tells where a login begins.

    Without a roster the repository has the assignment's name, or all begin with the same single word.
    """
    own = re.compile(re.escape(assignment).replace("_", "[_-]") + r"-(?:\d+-)*", re.IGNORECASE)
    starts = {match.end() if (match := own.match(clone)) else 0 for clone in clones}
    common = _common(clones, "-")
    start = _listed_start(clones, "-", listed.logins() if listed else ())
    if start is None and len(starts) == 1 and starts != {0}:
        (start,) = starts
    elif start is None and listed is None and len(clones) > 1 and common.count("-") <= 1:
        start = len(common)
    if start is None:
        raise CourseError(
            f"where do the logins begin in {', '.join(sorted(clones)[:3])}? Collect with --roster and a class list "
            "that has them in a column github"
        )
    return lambda name, is_folder: Owner(name[start:]) if is_folder and name in clones else None


def _attempts(labels: set[str], zone: datetime.tzinfo, listed: Roster | None) -> Callable[[str, bool], Owner | None]:
    """Read Blackboard's names, Assignment_login. Both may have underscores: a roster tells where a login begins.

    Without a roster it is what differs between the names; of a single name it is the last part.
    """
    start = _listed_start(labels, "_", listed.ids() if listed else ())
    if start is None:
        start = len(_common(labels, "_"))

    def owner(name: str, is_folder: bool) -> Owner | None:
        found = None if is_folder else names.attempt_owner(name, zone)
        return found and replace(found, label=found.label[start:])

    return owner


def _common(labels: Collection[str], separator: str) -> str:
    """The beginning that labels share, up to a separator."""
    common = os.path.commonprefix(sorted(labels))
    return common[: common.rfind(separator) + 1]


def _listed_start(labels: Collection[str], separator: str, logins: Collection[str]) -> int | None:
    """Where logins begin, the same place in all labels: there most are on the list. None if no place is the best."""
    common = _common(labels, separator)
    starts = [0, *(place + 1 for place, letter in enumerate(common) if letter == separator)]
    listed = [sum(label[start:].casefold() in logins for label in labels) for start in starts]
    best = [start for start, count in zip(starts, listed) if count == max(listed)]
    return best[0] if max(listed) and len(best) == 1 else None


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
