"""`nbgrader zip_collect`: collects the assignment's `archive` folder as `autograder collect` does.

nbgrader would unpack everything first, and recognize students by one pattern for all names. Here the step that unpacks
does the collecting, and the command ends with it.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportOptionalMemberAccess=false

import sys
from pathlib import Path

from nbgrader.plugins import ExtractorPlugin

from autograder.platforms import canvas, collect, moodle
from course.errors import CourseError


class Collector(ExtractorPlugin):
    """Collects, prints the outcome for each student, and ends the command.

    The command's status is 1 if something was left out.
    """

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Called by `nbgrader zip_collect` with the absolute paths of both folders; nothing is put into the second."""
        archive, coursedir = Path(archive_path), self.parent.coursedir
        # A zip that is named after a student was handed in by one; the platform packed the others.
        zips = [path for path in archive.glob("*.zip") if not (canvas.owner(path.name) or moodle.owner(path.name))]
        zips.sort(key=lambda path: path.stat().st_mtime)  # of two downloads the later one counts
        rest = any(path not in zips and not path.name.startswith(".") for path in archive.iterdir())
        try:
            rows = collect.collect(
                coursedir.assignment_id, [*zips, *([archive] if rest else [])], Path(coursedir.root), leave=set(zips)
            )
        except CourseError as error:
            self.log.error(str(error))
            sys.exit(1)
        sys.exit(collect.print_outcome(coursedir.assignment_id, rows))
