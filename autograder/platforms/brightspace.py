"""How Brightspace names what students hand in, in folders or in a flat zip.

`12345-67890 - Ada Lovelace - Sep 29, 2026 1030 AM`, with ` - softmax.ipynb` behind it for a file. The first number is
the user's; the time is in the zone of whoever downloads.
"""

import datetime
import re

from autograder.platforms.names import Owner
from autograder.platforms.times import known_time

NAME = "brightspace"
_MEMBER = re.compile(
    r"(?P<number>\d+)-\d+ ?- (?P<label>.+?) ?- (?P<date>[^-]*?\d{4}),? (?P<hour>\d{1,2}):?(?P<minute>\d\d)"
    r"(?P<half> [AP]M)?(?: ?- (?P<rest>.*))?",
    re.DOTALL,
)


def owner(name: str, zone: datetime.tzinfo = datetime.UTC) -> Owner | None:
    """Whose file or folder it is, by its name, or None if it is not a name by Brightspace."""
    match = _MEMBER.fullmatch(name)
    time = match and known_time(f"{match['date']} {match['hour']}:{match['minute']}{match['half'] or ''}", zone)
    if match is None or time is None:
        return None
    return Owner(match["label"], match["number"], order=time.timestamp(), rest=match["rest"] or "", time=time)
