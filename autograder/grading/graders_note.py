"""The note to the grader: what a human should see of a submission, at the top of the notebook that formgrader shows."""

from __future__ import annotations

import html

from autograder.grading import nbgrader_utils as utils
from autograder.grading import sanitize
from course import cells

NOTE = "for-the-grader"  # name of the cell; no student's cell has a name
MAX_NOTES = 30


def tell_grader(notebook, notes: list[str]) -> None:
    """Put what a human should see above everything else, where there is something."""
    if not notes:
        return
    more = [f"and {len(notes) - MAX_NOTES} more, in results.json"] if len(notes) > MAX_NOTES else []
    lines = "".join(f"<li>{html.escape(sanitize.plain(note))}</li>" for note in notes[:MAX_NOTES] + more)
    # HTML without an empty line, so that Markdown leaves it alone, and TeX too.
    source = f'<div class="tex2jax_ignore"><b>For the grader:</b><ul>{lines}</ul></div>'
    cell = cells.new_cell("markdown", source, cells.nbgrader_metadata(NOTE, "markdown", locked=True))
    cell["id"], cell.metadata.nbgrader["checksum"] = NOTE, utils.compute_checksum(cell)
    notebook.cells.insert(0, cell)


def is_graders_note(cell) -> bool:
    """Whether a cell of a graded notebook is the note to the grader."""
    return cells.nbgrader_of(cell).get("grade_id") == NOTE
