"""Whose a file is, by the outermost name that the platform gave it."""

import datetime
import re
from dataclasses import dataclass

from autograder.platforms.times import known_time

_ATTEMPT = re.compile(r"(?P<label>.+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?P<rest>_.*|\.txt)?", re.DOTALL)


@dataclass(frozen=True)
class Owner:
    """The parts of an outermost name.

    label: how the platform writes the student's name, or a login; number: the platform's number of the student
    order: of two, the later one counts; rest: what the student called the file
    logins: what else the login may be, if where it begins is not certain
    """

    label: str
    number: str = ""
    late: bool = False
    order: float = 0
    rest: str = ""
    time: datetime.datetime | None = None  # UTC, without a zone
    logins: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.number or self.label


def endings(name: str, separator: str) -> tuple[str, ...]:
    """The parts of a name that end it, the longest first: a-b-c, b-c, c."""
    parts = name.split(separator)
    return tuple(separator.join(parts[start:]) for start in range(len(parts)))


def attempt_owner(name: str, zone: datetime.tzinfo) -> Owner | None:
    """Read a name by Blackboard, `Assignment_login_attempt_2026-09-29-10-30-00_softmax.ipynb`; None for any other.

    The label is all before the attempt: `layouts` tells the login from the assignment.
    """
    match = _ATTEMPT.fullmatch(name)
    if match is None:
        return None
    when = known_time(f"{match['time'][:10]} {match['time'][11:].replace('-', ':')}", zone)
    rest = (match["rest"] or "").removeprefix("_")
    return Owner(match["label"], time=when, order=when.timestamp() if when else 0, rest=rest)


def plain_owner(name: str, is_folder: bool, zone: datetime.tzinfo) -> Owner:
    """Read a plain name: a folder's name, or the part of a file's name before the first underscore."""
    if is_folder:
        return Owner(name)
    stem = name.rpartition(".")[0] or name
    return attempt_owner(name, zone) or Owner(stem.partition("_")[0] or stem, rest=name)


def exchange_owner(name: str, assignment: str, zone: datetime.tzinfo) -> Owner | None:
    """Read a name of nbgrader's exchange, `ada+softmax+2026-09-29 18:00:00.000000 UTC+secret`; None for any other."""
    parts = name.rsplit("+", 3)
    if len(parts) == 4 and parts[1] != assignment:  # without a secret, as older versions wrote it
        parts = name.rsplit("+", 2)
    if len(parts) < 3 or parts[1] != assignment:
        return None
    time = known_time(parts[2], zone)
    return time and Owner(parts[0], time=time, order=time.timestamp())
