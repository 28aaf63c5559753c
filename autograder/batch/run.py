"""`python -m autograder grade ASSIGNMENT...`: grade submissions, several at a time."""

import glob
import logging
import sys
import time
from pathlib import Path

from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from autograder.batch import workers as pools
from autograder.gradebook import scores
from autograder.nbgrader_plugins import late
from autograder.nbgrader_plugins.autograde import TrustedAutograde
from autograder.sandbox import bubblewrap
from course.errors import CourseError
from course.folder import course_folder

LOOK_SECONDS = 5.0  # between two checks by --watch


def grade(
    assignment: list[str],
    course: Path | None,
    student: str | None,
    force: bool,
    watch: bool,
    workers: int | None,
    scheduler: str | None,
    **tls: Path | None,
) -> int:
    """Grade each assignment's submissions that are new, or all of them if forced; 0 if every one could be graded.

    The arguments are the options of the command `grade`.
    """
    bubblewrap.ensure()
    course = course_folder(course)
    _ensure_known(course, assignment, student)
    graders = [configured(name, course, force, student) for name in assignment]
    todo = [grader.due() for grader in graders]
    workers = workers or pools.worker_count(sys.maxsize if watch else sum(map(len, todo)))
    status, told, keys = 0, set(), {name.removeprefix("tls_"): path for name, path in tls.items() if path}
    with pools.pool(workers, scheduler, keys) as pool:
        while True:
            for grader, submissions in zip(graders, todo):
                name, grader.pool = grader.coursedir.assignment_id, pool
                for why in sorted({why for why in grader.waiting.values() if (name, why) not in told}):
                    who = ", ".join(student for (_, student), reason in grader.waiting.items() if reason == why)
                    print(f"{name}: graded later, since {why}: {who}", file=sys.stderr)
                    told.add((name, why))
                for count in grader.outdated.values():
                    print(f"{name}: {count} graded under an older release; grading again", file=sys.stderr)
                if submissions:
                    status = max(status, _grade(name, grader, submissions))
                elif not watch:
                    said = "nothing new" if grader.assignments else "nothing was handed in"
                    print(f"{name}: {said}", file=sys.stderr)
            if not watch:
                return status
            try:
                time.sleep(LOOK_SECONDS)
            except KeyboardInterrupt:
                return status
            todo = [grader.due() for grader in graders]


def _ensure_known(course: Path, assignments: list[str], student: str | None) -> None:
    """Raise CourseError for an assignment or a student that neither the gradebook nor the submitted folder has."""
    with scores.opened(course) as gradebook:
        for assignment in assignments:
            scores.find_assignment(gradebook, assignment)
        known = {row.id for row in scores.students(gradebook)}
    if student and student not in known and not glob.glob(student, root_dir=course / "submitted"):
        raise CourseError(f"unknown student {student!r}: neither in the gradebook nor in {course / 'submitted'}")


def _grade(name: str, grader, todo: list[tuple[str, str]]) -> int:
    failures = []
    with (
        logging_redirect_tqdm([grader.log]),  # errors are shown above the bar
        tqdm(total=len(todo), desc=name, unit="", file=sys.stderr, mininterval=0.5) as bar,
    ):

        def progress(names, failed: bool) -> None:
            failures.extend([names] if failed else [])
            bar.set_postfix_str(f"{len(failures)} failed" if failures else "", refresh=False)
            bar.update()

        grader.progress, grader.claimed_by_other_run, status = progress, [], 0
        try:
            grader.grade(todo)
        except NbGraderException:  # and said so
            status = 1
    if grader.claimed_by_other_run:
        print(f"{name}: {len(grader.claimed_by_other_run)} left to another run, which is grading them", file=sys.stderr)
    return status


def configured(assignment: str, course: Path, force: bool = False, student: str | None = None) -> TrustedAutograde:
    """nbgrader's converter, configured as its command is in this course."""
    config = late.course_config(course)
    folder = CourseDirectory(config=config, assignment_id=assignment, **({"student_id": student} if student else {}))
    grader = TrustedAutograde(coursedir=folder, config=config, force=force)
    handler, log = logging.StreamHandler(), logging.getLogger(__name__)
    handler.setFormatter(logging.Formatter("autograder: %(message)s"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.ERROR)
    grader.log = log
    return grader
