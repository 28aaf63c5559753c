"""How Moodle names what students hand in.

A folder for each student, `Ada Lovelace_12345_assignsubmission_file/softmax.ipynb` (with another underscore at its end
before Moodle 4.1), or one flat zip, `Ada Lovelace_12345_assignsubmission_file_softmax.ipynb`. The number is the
participant's in this one assignment: the column Identifier of its grading worksheet has it. Source:
`mod/assign/classes/downloader.php` and `mod/assign/feedback/file/importziplib.php` of moodle/moodle.
"""

import re

from autograder.platforms.names import Owner

NAME = "moodle"
# The columns of its export of grades that say who a student is; those of grade items follow.
COLUMNS = ["First name", "Last name", "ID number", "Email address"]
_MEMBER = re.compile(r"(?P<label>[^_]*)_(?P<number>\d+)_assignsubmission_[a-z]+(?:_(?P<rest>.*))?", re.DOTALL)


def owner(name: str) -> Owner | None:
    """Whose file or folder it is, by its name, or None if it is not a name by Moodle."""
    match = _MEMBER.fullmatch(name)
    return match and Owner(match["label"], match["number"], rest=match["rest"] or "")


def feedback_name(member: str, page: str) -> str:
    """The name under which Moodle accepts a page as a feedback file for the participant of this file."""
    label, number, *_ = member.split("/")[0].split("_")
    return f"{label}_{number}_assignsubmission_file_/{page}"
