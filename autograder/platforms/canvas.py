"""How Canvas names what students hand in: one flat zip, `lovelaceada_LATE_12345_67890_softmax-1.ipynb`.

The first number is the user's, the second the attachment's, as Canvas itself reads them when a teacher uploads graded
submissions. Source: `lib/content_zipper.rb` and `infer_comment_context_from_filename` of instructure/canvas-lms.
"""

import re

from autograder.platforms.names import Owner

NAME = "canvas"
# The columns of its gradebook that say who a student is, before those of assignments: `lib/gradebook_importer.rb`.
COLUMNS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
# A name has letters, digits and underscores, and no number between underscores. A text entry has no attachment.
_MEMBER = re.compile(
    r"(?:(?P<label>\w*?)_)??(?P<late>LATE_)?(?P<number>\d+|anon_[A-Za-z0-9]+)_(?:(?P<attachment>\d+)_)?(?P<rest>.+)",
    re.DOTALL,
)


def owner(name: str) -> Owner | None:
    """Whose file it is, by its name, or None if it is not a name by Canvas."""
    match = _MEMBER.fullmatch(name)
    if match is None or not (match["attachment"] or match["rest"] in ("text.html", "link.html")):
        return None
    return Owner(
        match["label"] or "",
        match["number"],
        late=bool(match["late"]),
        order=int(match["attachment"] or 0),
        rest=match["rest"],
    )


def feedback_name(member: str, page: str) -> str:
    """The name under which Canvas accepts a page as a comment on the submission with this file."""
    found = owner(member)
    return member[: len(member) - len(found.rest if found else "")] + page
