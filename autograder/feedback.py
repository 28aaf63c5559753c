"""What is told about a graded submission: to the grader in a note that formgrader shows, to the student in a page.

The student's page is one file that needs no other host and runs nothing. So formulas stay as they were typed: to set
them would take MathJax, from a host elsewhere or two megabytes a page. The book and the student's own notebook set them.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from nbgrader import utils
from nbgrader.converters import GenerateFeedback

from autograder import clean, nodes

NOTE = "for-the-grader"  # name of the cell; no student's cell has a name
MAX_NOTES = 30
RESULTS = "results.json"  # beside the autograded notebooks: what gradebook and notebook do not hold, for graders alone
# The page's own styles and pictures that stand in it; nothing that runs, and nothing from elsewhere.
POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    'img-src data:; form-action \'none\'; base-uri \'none\'"/>\n<meta name="referrer" content="no-referrer"/>'
)
_SCRIPT = re.compile(r"<script\b.*?</script>\s*", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(r"<style\b.*?</style>", re.DOTALL | re.IGNORECASE)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}")  # files that lie beside the style sheet, and not beside the page


def tell_grader(notebook, notes: list[str]) -> None:
    """Put what a human should see above everything else, where there is something."""
    if not notes:
        return
    told = [
        *notes[:MAX_NOTES],
        *([f"and {len(notes) - MAX_NOTES} more, in results.json"] if len(notes) > MAX_NOTES else []),
    ]
    lines = "".join(f"<li>{html.escape(clean.plain(note))}</li>" for note in told)
    # HTML without an empty line, so that Markdown leaves it alone, and TeX too.
    cell = nodes.markdown_cell(f'<div class="tex2jax_ignore"><b>For the grader:</b><ul>{lines}</ul></div>', id=NOTE)
    cell.metadata["nbgrader"] = {
        "grade_id": NOTE,
        "grade": False,
        "solution": False,
        "locked": True,
        "task": False,
        "schema_version": 3,
        "cell_type": "markdown",
    }
    cell.metadata.nbgrader["checksum"] = utils.compute_checksum(cell)
    notebook.cells.insert(0, cell)


def is_graders_note(cell) -> bool:
    """Whether a cell of a graded notebook is the note to the grader."""
    return cell.metadata.get("nbgrader", {}).get("grade_id") == NOTE


def as_page(page: str) -> str:
    """nbgrader's feedback page, without what it would run and fetch, and with a policy that says so."""
    page = _STYLE.sub(lambda style: _FONT.sub("", style[0]), _SCRIPT.sub("", page))
    return re.sub(r"(<head[^>]*>)", rf"\1\n{POLICY}", page, count=1)


class TrustedFeedback(GenerateFeedback):
    """Feedback as nbgrader makes it, in a page that runs nothing, without what is for graders alone."""

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        super().init_assignment(assignment_id, student_id)  # this copies whatever lies beside the graded notebook
        (Path(self._format_dest(assignment_id, student_id)) / RESULTS).unlink(missing_ok=True)

    def write_single_notebook(self, output, resources) -> None:
        super().write_single_notebook(as_page(output), resources)
