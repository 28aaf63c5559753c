"""Whose a file is, by the outermost name that the platform gave it."""

import datetime
import re
from dataclasses import dataclass

from dateutil import parser

_ATTEMPT = re.compile(r"(?P<label>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_.*)?", re.DOTALL)


@dataclass(frozen=True)
class Owner:
    """The parts of an outermost name.

    label: how the platform writes the student's name, or a login; number: the platform's number of the student
    order: of two, the later one counts; rest: what the student called the file
    """

    label: str
    number: str = ""
    late: bool = False
    order: float = 0
    rest: str = ""
    time: datetime.datetime | None = None  # UTC, without a zone

    @property
    def key(self) -> str:
        return self.number or self.label


def plain_owner(name: str, is_folder: bool) -> Owner:
    """Read a plain name: a folder's name, or the part of a file's name before the first underscore.

    Blackboard puts the time of the attempt after it.
    """
    if is_folder:
        return Owner(name)
    if match := _ATTEMPT.fullmatch(name):
        date, time = match["time"][:10], match["time"][11:].replace("-", ":")
        when = parse_time(f"{date} {time}")
        return Owner(match["label"], time=when, order=when.timestamp() if when else 0)
    stem = name.rpartition(".")[0] or name
    return Owner(stem.partition("_")[0] or stem, rest=name)


def exchange_owner(name: str, assignment: str) -> Owner | None:
    """Read a name of nbgrader's exchange, `ada+softmax+2026-09-29 18:00:00.000000 UTC+secret`; None for any other."""
    parts = name.rsplit("+", 3)
    if len(parts) == 4 and parts[1] != assignment:  # without a secret, as older versions wrote it
        parts = name.rsplit("+", 2)
    if len(parts) < 3 or parts[1] != assignment:
        return None
    time = parse_time(parts[2])
    return time and Owner(parts[0], time=time, order=time.timestamp())


def parse_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """A time in UTC, without a zone, as the gradebook has times; None if the text is not a time.

    zone: for times without one
    """
    if not re.search(r"\d{4}", text):
        return None  # otherwise a bare number would be read as a day of this month
    try:
        time = parser.parse(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=zone)).astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
