"""How ILIAS names what students hand in: a folder for each, `Lovelace_Ada_adal_12345`, below one or two others."""

import re

from autograder.platforms import names
from autograder.platforms.names import Owner

NAME = "ilias"
_MEMBER = re.compile(r"(?P<last>[^_]+)_(?P<first>[^_]+)_(?P<login>[^_].*)_(?P<number>\d+)", re.DOTALL)


def owner(name: str) -> Owner | None:
    """Whose folder it is, by its name, or None if it is not a name by ILIAS.

    A login may have underscores, and so may what is before it.
    """
    match = _MEMBER.fullmatch(name)
    return match and Owner(match["login"], logins=names.endings(match["login"], "_"))
