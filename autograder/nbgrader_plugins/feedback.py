"""Feedback for the student: nbgrader's page, without anything that it would run, fetch, or reveal about others.

The page is one file that needs no other host and runs nothing. So formulas remain as they were typed: rendering them
would need MathJax, from another host or with two megabytes per page. The book and the student's own notebook
render them.
"""

import glob
import html
import re
import shutil
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeReleaseFeedback

from autograder.gradebook import feedback_stamps
from autograder.grading.results import RESULTS
from autograder.nbgrader_plugins import late
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


def as_page(page: str, stamp: str = "") -> str:
    """Remove from nbgrader's feedback page everything that runs or is fetched, and add a policy that forbids it.

    Its table of contents names the exercises, which nbgrader all calls test cells. stamp: of the grade that it shows
    """
    head, notebook, rest = page.partition('<div id="notebook"')  # a student's text comes after this
    page = _CONTENTS.sub(_named, head) + notebook + rest
    page = _STYLE.sub(lambda style: _FONT.sub("", style[0]), _SCRIPT.sub("", page))
    return re.sub(r"(<head[^>]*>)", rf"\1\n{feedback_stamps.tag(stamp)}\n{POLICY}", page, count=1)


def _named(entry: re.Match) -> str:
    begin, name, what, end = entry.groups()
    name = html.escape(exercise_of(html.unescape(name)) or html.unescape(name))
    return f"{begin}{f'Comment on {name}' if what == 'Comment' else name}{end}"


def _stamps(coursedir: CourseDirectory, assignment_id: str, student: str | None = None) -> dict[tuple[str, str], str]:
    """The stamps of the grades that count, by student and notebook."""
    autograded = Path(coursedir.root, coursedir.autograded_directory)
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        return feedback_stamps.of_grades(gradebook, assignment_id, autograded, student)


class TrustedFeedback(GenerateFeedback):
    """Feedback as nbgrader makes it, in a page that runs nothing, without notes for graders.

    nbgrader makes a page again if the submission is newer. Here it is made again if it does not show the grade that
    counts: after a second submission without a time, a regrade, an extension or a score by hand.
    """

    coursedir: CourseDirectory  # as a trait has no type

    def start(self) -> None:
        late.renew([self.coursedir.assignment_id], self.coursedir.db_url, parent=self)
        super().start()

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        place = Path(self._format_dest(assignment_id, student_id))
        excluded = student_id in self.coursedir.student_id_exclude.split(",")
        if not excluded and place.is_dir():
            stamps = _stamps(self.coursedir, assignment_id, student_id)
            for page in place.glob(f"{self.coursedir.notebook_id}.html"):
                if feedback_stamps.of_page(page) != stamps.get((student_id, page.stem)):
                    self.log.warning("Removing a page that shows an older grade: %s", page)
                    page.unlink()
            if not any(place.glob("*.html")):
                shutil.rmtree(place)
        return super().init_destination(assignment_id, student_id)

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        super().init_assignment(assignment_id, student_id)  # this copies whatever is beside the graded notebook
        (Path(self._format_dest(assignment_id, student_id)) / RESULTS).unlink(missing_ok=True)

    def write_single_notebook(self, output, resources) -> None:
        about = resources["nbgrader"]
        stamps = _stamps(self.coursedir, about["assignment"], about["student"])
        page = as_page(output, stamps.get((about["student"], about["notebook"]), ""))
        super().write_single_notebook(page, resources)


class ReleaseCurrentFeedback(ExchangeReleaseFeedback):
    """Release pages that show the grade that counts. The others are named, and nbgrader's command fails.

    Students who handed in another way than through the exchange are named as well; for nbgrader they end the command.
    """

    coursedir: CourseDirectory  # as a trait has no type

    def copy_files(self) -> None:
        assignment, stale = self.coursedir.assignment_id, []
        late.renew([assignment], self.coursedir.db_url, parent=self)
        stamps = _stamps(self.coursedir, assignment)
        for folder in sorted(glob.glob(self.src_path)):
            student = Path(folder).parent.name
            pages = [*Path(folder).glob("*.html")]
            if any(feedback_stamps.of_page(page) != stamps.get((student, page.stem)) for page in pages):
                stale.append(student)
            elif not all(Path(folder, name).is_file() for name in ("timestamp.txt", "submission_secret.txt")):
                self.log.warning("%s did not hand in through the exchange: no page is released", student)
            else:
                self.src_path = glob.escape(folder)
                super().copy_files()
        if stale:
            self.fail(
                f"not released, since they show an older grade: the pages of {', '.join(stale)}. Run "
                f"`nbgrader generate_feedback {assignment}` and release again"
            )
