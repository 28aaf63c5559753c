"""Feedback for the student: nbgrader's page, without anything that it would run, fetch, or reveal about others.

The page is one file that needs no other host and runs nothing. So formulas remain as they were typed: rendering them
would need MathJax, from another host or with two megabytes per page. The book and the student's own notebook
render them.
"""

import html
import re
from pathlib import Path

from nbgrader.converters import GenerateFeedback

from autograder.grading.results import RESULTS
from course.cells import exercise_of

# The page's own styles and embedded pictures; nothing that runs, and nothing from elsewhere.
POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    'img-src data:; form-action \'none\'; base-uri \'none\'"/>\n<meta name="referrer" content="no-referrer"/>'
)
_SCRIPT = re.compile(r"<script\b.*?</script>\s*", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(r"<style\b.*?</style>", re.DOTALL | re.IGNORECASE)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}")  # files beside the style sheet, and not beside the page


_CONTENTS = re.compile(r'(<li><a href="#(?:comment-)?([^"<>]+)">)(Test cell|Comment)(</a>)')


def as_page(page: str) -> str:
    """Remove from nbgrader's feedback page everything that runs or is fetched, and add a policy that forbids it.

    Its table of contents names the exercises, which nbgrader all calls test cells.
    """
    head, notebook, rest = page.partition('<div id="notebook"')  # a student's text comes after this
    page = _CONTENTS.sub(_named, head) + notebook + rest
    page = _STYLE.sub(lambda style: _FONT.sub("", style[0]), _SCRIPT.sub("", page))
    return re.sub(r"(<head[^>]*>)", rf"\1\n{POLICY}", page, count=1)


def _named(entry: re.Match) -> str:
    begin, name, what, end = entry.groups()
    name = html.escape(exercise_of(html.unescape(name)) or html.unescape(name))
    return f"{begin}{f'Comment on {name}' if what == 'Comment' else name}{end}"


class TrustedFeedback(GenerateFeedback):
    """Feedback as nbgrader makes it, in a page that runs nothing, without notes for graders."""

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        super().init_assignment(assignment_id, student_id)  # this copies whatever is beside the graded notebook
        (Path(self._format_dest(assignment_id, student_id)) / RESULTS).unlink(missing_ok=True)

    def write_single_notebook(self, output, resources) -> None:
        super().write_single_notebook(as_page(output), resources)
