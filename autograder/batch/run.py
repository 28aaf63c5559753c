"""`python -m autograder grade ASSIGNMENT...`: grade what was handed in, several submissions at a time."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from autograder.batch import workers as pools
from autograder.course.folder import ROOT, course_folder, existing_gradebook
from autograder.sandbox import bubblewrap

CONFIG = ROOT / "autograder" / "nbgrader_config.py"
LOOK_SECONDS = 5.0  # between two looks of --watch


def run(
    assignments: list[str],
    course: Path | None,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    tls: dict[str, Path] | None = None,
    force: bool = False,
    student: str | None = None,
    watch: bool = False,
) -> int:
    """Grade each assignment's submissions that are new, or all of them if forced; 0 if every one could be graded."""
    bubblewrap.ensure()
    course = (course or course_folder()).resolve()
    existing_gradebook(course)
    graders = {name: _grader(name, course, force, student) for name in assignments}
    status = 0
    if workers is None:
        many = sys.maxsize if watch else sum(len(grader.due()) for grader in graders.values())
        workers = pools.worth(many)
    with pools.pool(workers, scheduler, tls) as pool:
        while True:
            for name, grader in graders.items():
                grader.pool = pool
                todo = grader.due()
                if todo:
                    status = max(status, _grade(name, grader, todo))
                elif not watch:
                    print(
                        f"{name}: {'nothing new' if grader.assignments else 'nothing was handed in'}", file=sys.stderr
                    )
            if not watch:
                return status
            try:
                time.sleep(LOOK_SECONDS)
            except KeyboardInterrupt:
                return status


def _grade(name: str, grader, todo: list[tuple[str, str]]) -> int:
    from nbgrader.converters.base import NbGraderException
    from tqdm import tqdm

    failures = []
    with tqdm(total=len(todo), desc=name, unit="", file=sys.stderr, mininterval=0.5) as bar:

        def progress(names, failed: bool) -> None:
            failures.extend([names] if failed else [])
            bar.set_postfix_str(f"{len(failures)} failed" if failures else "", refresh=False)
            bar.update()

        grader.progress = progress
        try:
            grader.grade(todo)
        except NbGraderException:  # and said so
            return 1
    return 0


class _BesideTheBar(logging.Handler):
    """Errors, above the bar."""

    def emit(self, record) -> None:
        from tqdm import tqdm

        tqdm.write(self.format(record), file=sys.stderr)


def _grader(assignment: str, course: Path, force: bool, student: str | None):
    """nbgrader's converter, configured as its command is in this course."""
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    os.environ["COURSE_DIR"] = str(course)  # the configuration reads it
    config = PyFileConfigLoader(CONFIG.name, path=str(CONFIG.parent)).load_config()
    from autograder.nbgrader_plugins.autograde import TrustedAutograde

    folder = CourseDirectory(config=config, assignment_id=assignment, **({"student_id": student} if student else {}))
    grader = TrustedAutograde(coursedir=folder, config=config, force=force)
    log = logging.getLogger("autograder.batch.run")
    if not log.handlers:
        log.addHandler(_BesideTheBar())
        log.handlers[0].setFormatter(logging.Formatter("autograder: %(message)s"))
        log.setLevel(logging.ERROR)
        log.propagate = False
    grader.log = log
    return grader
