"""Read times as platforms and people write them: with months in many languages, and with the zone that they name.

What could mean two times is refused, never guessed: 03/04/2026, or IST, which is used in India, Ireland and Israel.
"""

import contextlib
import datetime
import functools
import re
import unicodedata
import zoneinfo

from babel.dates import get_month_names

# The languages whose names of months are read, as Moodle writes them. A name of two months is read in neither.
LANGUAGES = "en de fr es it pt nl ca da sv nb fi pl cs sk hu ro tr ru uk el".split()
# In hours from UTC. Abbreviations that are used in several zones are missing, such as CST, IST and BST.
ABBREVIATIONS = (
    dict.fromkeys(["Z", "UTC", "GMT", "WET"], 0)
    | {"WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9}
    | {"AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13, "HST": -10, "AKST": -9, "AKDT": -8}
    | {"PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CDT": -5, "EST": -5, "EDT": -4}
)
EXAMPLE = "write it as 2026-09-30 18:00"

_WORD = r"[^\W\d]+"
_DATES = [
    r"(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)",
    r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})",  # with dots the day is always first
    r"(?P<year>\d{4}) ?年 ?(?P<month>\d\d?) ?月 ?(?P<day>\d\d?) ?日",
    rf"(?P<day>\d\d?)(?:\.|º|er|st|nd|rd|th)? (?:de |d['’])?(?P<name>{_WORD})\.?,? (?:de |del )?(?P<year>\d{{4}})",
    rf"(?P<name>{_WORD})\.? (?P<day>\d\d?)(?:st|nd|rd|th)?,? (?P<year>\d{{4}})",
]
_CLOCK = (
    r"(?P<hour>\d\d?)[:.h](?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,6})\d*)?)?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?(?: ?(?P<zone>[a-z+-]\S*))?"
)
_BETWEEN = r"(?:T|,? (?:(?:at|um|à|a las|às|alle|om|kl\.?) )?)"
_FORMS = [re.compile(rf"(?:{_WORD}\.?,? )?{date}(?:{_BETWEEN}{_CLOCK})?", re.IGNORECASE) for date in _DATES]
_OFFSET = re.compile(r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?", re.IGNORECASE)


def parse_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime:
    """Return a time in UTC, without a zone, as the gradebook has times. A date alone is its first moment.

    zone: for times that name none. Raises ValueError, with words on what is wrong and what to write.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    found = next((match for form in _FORMS if (match := form.fullmatch(plain))), None)
    if found is None:
        raise ValueError(f"{text!r} is not a time that can be read: {EXAMPLE}")
    try:
        local = datetime.datetime(int(found["year"]), _month(found), int(found["day"]), *_clock(found))
        return (local - _offset(found["zone"] or "", local, zone)).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time that can be read ({error}): {EXAMPLE}") from None


def known_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Return the same, or None for what is not a time."""
    try:
        return parse_time(text, zone)
    except ValueError:
        return None


def shown(time: datetime.datetime, zone: datetime.tzinfo) -> str:
    """Write a time of the gradebook in UTC, and in another zone beside it."""
    there = time.replace(tzinfo=datetime.UTC).astimezone(zone)
    beside = "" if str(zone) == "UTC" else f" ({there:%Y-%m-%d %H:%M} {zone})"
    return f"{time} UTC{beside}"


def _month(found: re.Match) -> int:
    groups = found.groupdict()
    if "name" not in groups:
        return int(groups["month"])
    month = _months().get(groups["name"].casefold())
    if month is None:
        raise ValueError(f"the month {groups['name']!r} is not known")
    return month


@functools.cache
def _months() -> dict[str, int]:
    meanings: dict[str, set[int]] = {}
    for language in LANGUAGES:
        for context in ("format", "stand-alone"):
            for width in ("wide", "abbreviated"):
                for month, name in get_month_names(width, context, language).items():
                    meanings.setdefault(name.casefold().rstrip("."), set()).add(month)
    return {name: min(months) for name, months in meanings.items() if len(months) == 1}


def _clock(found: re.Match) -> tuple[int, int, int, int]:
    hour, half = int(found["hour"] or 0), (found["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError(f"{hour} o'clock has no {half}m")
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return hour, int(found["minute"] or 0), int(found["second"] or 0), int((found["fraction"] or "0").ljust(6, "0"))


def _offset(name: str, local: datetime.datetime, zone: datetime.tzinfo) -> datetime.timedelta:
    """Return what a local time is ahead of UTC. Raises ValueError for a zone that is not known."""
    if match := _OFFSET.fullmatch(name):
        ahead = datetime.timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        return -ahead if match["sign"] == "-" else ahead
    if "/" in name:
        try:
            zone, name = zoneinfo.ZoneInfo(name), ""
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"there is no time zone {name}") from None
    for fold in (0, 1):  # an hour that the clocks repeat has two names
        there = local.replace(tzinfo=zone, fold=fold)
        if name.upper() in ("", there.tzname()):
            return there.utcoffset() or datetime.timedelta()
    with contextlib.suppress(KeyError):
        return datetime.timedelta(hours=ABBREVIATIONS[name.upper()])
    raise ValueError(f"the time zone {name} is not clear: give an offset such as +02:00")
