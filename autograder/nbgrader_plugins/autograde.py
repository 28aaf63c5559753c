"""nbgrader's autograding, in this course's sandbox.

`nbgrader autograde`, formgrader's button and `python -m autograder grade` all come here.

A submission is read as bytes, graded by `grading.grade_submission` in a process with limits, and entered in one
step by the one writer. Whatever a submission does, the batch continues, and what is lost is zero with a reason.
`install()` puts the converter where nbgrader looks for its own; `nbgrader_config.py` calls it.
"""

# Nbgrader's tables and traits have no types.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

import contextlib
import datetime
import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sqlalchemy
import sqlalchemy.exc
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets import Any, Bool, Float, Int, List, Unicode, default

from autograder.gradebook import released, scores
from autograder.gradebook.writer import Writer
from autograder.grading import hidden_tests, messages, results, submission
from autograder.grading.worker import Grader, Job
from autograder.nbgrader_plugins import feedback, late, staging
from autograder.nbgrader_plugins.handed_in import FileCache, HandedIn, ordinary_files, read
from autograder.sandbox import bubblewrap
from autograder.sandbox.limits import FIRST_SECONDS, LEAST_MEMORY, LEAST_PROCESSES, MB, Limits, Times
from course import catalog, prerequisites
from course.cells import exercise_of
from course.errors import CourseError
from course.files import draft_folder, replacing_folder
from course.nbgrader_workarounds import replace_converters

# Options of nbgrader's that have no effect here, and why.
NO_EFFECT = {
    "Execute": "the sandbox runs the notebook (--no-execute would give points that nothing has checked)",
    "OverwriteCells": "every cell but the answers comes from the release",
    "OverwriteKernelspec": "notebooks are run by this Python",
    "Autograde.sanitize_preprocessors": "every cell but the answers comes from the release",
    "Autograde.exclude_overwriting": "of a student's files, only notebooks are read",
    "CourseDirectory.notebook_id": "the notebooks of a submission are graded together (--notebook)",
}
MAX_GIVEN = 256 << 20  # bytes of an assignment's own files, which every grading process receives


class TrustedAutograde(Autograde):
    """Autograding that takes from a submission only what a student may decide."""

    coursedir: CourseDirectory  # as a trait has no type
    extra_cells = Bool(True, help="Run code in cells that students added. Either way the report mentions them.").tag(
        config=True
    )
    run_all = Bool(
        False,
        help="Also run the handout's own cells that no answer depends on, to show their output; "
        "in most chapters they take ten times as long as the answers.",
    ).tag(config=True)
    regrade = Bool(
        True,
        help="Grade again what was graded under an older release: other cells, points or hidden tests. Otherwise such "
        "grades are kept, and the report names them.",
    ).tag(config=True)
    allowed_files = List(
        Unicode(),
        ["timestamp.txt", "submission_secret.txt"],
        help="Patterns of file names that a submission may hold besides "
        "its notebooks; they are kept, and the others are left out.",
    ).tag(config=True)
    given_files = List(
        Unicode(),
        ["*"],
        help="Patterns of the instructor's own files next to the source notebook, and in folders there, that code may "
        "read and import in the jail.",
    ).tag(config=True)
    lend_before_due = Bool(
        False,
        help="Grade a chapter that builds on another before the other is due, or while a student has an extension for "
        "it. The course's answers stand in for those of the other chapter, and a student's code can read them.",
    ).tag(config=True)
    cell_seconds = Float(help="Processor time of one cell; by default Execute.timeout, if that is set.").tag(
        config=True
    )
    case_seconds = Float(Times.case, help="Processor time of one test case.").tag(config=True)
    submission_seconds = Float(Times.submission, help="Wall time of one notebook.").tag(config=True)
    first_seconds = Float(
        FIRST_SECONDS,
        help="Wall time of one notebook in a first pass. A submission that needs more is graded after all others, "
        "from the beginning and with its full time, so that it loses nothing and does not delay the others.",
    ).tag(config=True)
    grader_seconds = Float(
        Times.grader, help="Processor time for the grader to read, judge and clean one submission."
    ).tag(config=True)
    memory_mb = Int(Limits.memory // MB, help="Memory of one notebook's processes together.").tag(config=True)
    processes = Int(Limits.processes, help="Processes and threads of one notebook.").tag(config=True)
    autograde_preprocessors = List(["nbgrader.preprocessors.IgnorePattern", "nbgrader.preprocessors.LimitOutput"]).tag(
        config=True
    )
    pool = Any(Grader(), help="What runs the grading; see `autograder.batch.workers`.")

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.outdated: dict[str, int] = {}  # by assignment: how many are due for a new release alone
        self.claimed_by_other_run: list[tuple[str, str]] = []  # submissions that another run is grading
        self.waiting: dict[tuple[str, str], str] = {}  # submissions that are graded later, and why
        self._files_read = FileCache()
        self._fingerprints: dict[str, str | None] = {}

    @default("cell_seconds")
    def _cell_seconds_default(self) -> float:
        given = float(self.config.Execute.get("timeout") or 0)  # text if it is from the command line
        return given if given > 0 else Times.cell

    def start(self) -> None:
        try:
            bubblewrap.ensure()  # said before anything is touched
        except bubblewrap.NoJail as error:
            self._stop(str(error))
        todo = self.due()
        if not todo and not self.assignments:
            self._stop(f"there are no submissions at {self._pattern()}")
        self.grade(todo)
        if self.waiting:
            later = (f"{assignment} of {student}, since {why}" for (assignment, student), why in self.waiting.items())
            self._stop(f"graded later: {'; '.join(later)}")

    def _pattern(self) -> str:
        return self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)

    def due(self) -> list[tuple[str, str]]:
        """The submissions to be graded now, by assignment and student.

        These are submissions that are new, that have changed since they were graded, or that were graded under an
        older release. A submission without a notebook counts as well: an earlier score must not remain. Those of
        students who can still hand in what the chapter builds on are left for later, and named in `waiting`.
        """
        self.assignments = {
            folder: glob.glob(os.path.join(glob.escape(folder), f"{self.coursedir.notebook_id}.ipynb"))
            for folder in glob.glob(self._pattern())
        }
        todo, self.outdated, self._fingerprints = [], {}, {}
        for folder in sorted(self.assignments):
            match = re.match(self._format_source("(?P<assignment_id>.*)", "(?P<student_id>.*)", escape=True), folder)
            if match is None:
                self._stop(f"{folder} is not where submissions are")
            key = match["assignment_id"], match["student_id"]
            if self.init_destination(*key):
                todo.append(key)
        self.waiting = self._waiting(todo)
        return [key for key in todo if key not in self.waiting]

    def _waiting(self, todo: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The submissions of students who have a running extension for an earlier chapter, and which one that is."""
        found = {}
        with contextlib.suppress(MissingEntry, sqlalchemy.exc.OperationalError):  # `grade` says what is wrong
            with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                longer = {student for _, student in todo} & scores.extended(gradebook)
                due = {student: scores.due_dates(gradebook, {student}) for student in longer}
                whole = scores.due_dates(gradebook, ()) if longer else {}
                for assignment, student in todo if longer else ():
                    names = [notebook.name for notebook in gradebook.find_assignment(assignment).notebooks]
                    for _, earlier, when in self._not_due(names, due.get(student, {})):
                        if when != whole[earlier]:  # else the whole class waits
                            found[assignment, student] = f"{earlier} can be handed in until {when:%Y-%m-%d %H:%M} UTC"
        return found

    def grade(self, todo: list[tuple[str, str]]) -> None:
        """Grade submissions, and enter each when it is done. Raises NbGraderException with a line that says why."""
        if not todo:
            return
        self._refuse_options_without_effect()
        for name, least in (("memory_mb", LEAST_MEMORY // MB), ("processes", LEAST_PROCESSES)):
            if getattr(self, name) < least:
                self._stop(f"TrustedAutograde.{name} is {getattr(self, name)}; a notebook needs at least {least}")
        try:
            failed = self.grade_all(todo)
        except sqlalchemy.exc.OperationalError as error:
            self._stop(
                f"the gradebook cannot be used ({error.orig}); after an update of nbgrader, back it up and run "
                "`nbgrader db upgrade`"
            )
        except (CourseError, MissingEntry) as error:
            self._stop(str(error))
        if failed:
            self._stop("could not be graded: " + ", ".join(f"{a} of {s}" for a, s in failed))

    def _refuse_options_without_effect(self) -> None:
        for option, why in NO_EFFECT.items():
            section, _, name = option.partition(".")
            given = set(self.config.get(section, {})) - {"timeout"}
            for found in sorted(given):
                if not name or found == name:
                    self._stop(
                        f"{section}.{found} has no effect here: {why}. Leave it out, or grade with AUTOGRADER_STOCK=1, "
                        "nbgrader's own way, which runs students' code with your rights"
                    )

    def grade_all(self, todo: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Grade submissions, by assignment and student; returns those that could not be graded.

        Those that use up the time of the first pass come last, so that they delay no other.
        """
        with Writer(self.coursedir.db_url, self.coursedir.course_id, self._late()) as writer:
            names = dict.fromkeys(name for name, _ in todo)
            common = {name: self.packed(name, self.submission_seconds, extensions=False) for name in names}
            admitted, failed = self._admitted(writer, todo)
            if len(admitted) > 1 and self.first_seconds < self.submission_seconds:
                quick, slow = {name: self.packed(name, self.first_seconds, extensions=False) for name in names}, []
                failed += self._grade_each(writer, quick, admitted, slow)
                admitted = slow
            return failed + self._grade_each(writer, common, admitted)

    def _admitted(self, writer: Writer, todo: list[tuple[str, str]]) -> tuple[list, list]:
        """The submissions to grade, and those of students who are not in the gradebook and must not be added."""
        admitted, failed = [], []
        for assignment, student in todo:
            try:
                self._run_hook(self.run_pre_convert_hook, assignment, student)
                writer.admit(student, self.create_student)
                admitted.append((assignment, student))
            except MissingEntry as error:
                self.log.error("%s of %s: %s", assignment, student, error)
                failed.append((assignment, student))
        return admitted, failed

    def _grade_each(self, writer: Writer, common: dict[str, bytes], todo: list, slow: list | None = None) -> list:
        """Grade submissions, and enter each when it is done; returns those that could not be graded.

        slow: if given, this is a first pass, and submissions that use up its time are put there and not entered
        """
        failed: list[tuple[str, str]] = []
        handed_in: dict[tuple[str, str], HandedIn] = {}
        claims: dict[tuple[str, str], contextlib.ExitStack] = {}

        def jobs():
            for key in todo:
                claim = self._claim(*key)
                if claim is None:
                    self.claimed_by_other_run.append(key)
                if claim is None or not self.init_destination(*key):  # another run has graded it since
                    self.progress(key, False)
                    continue
                claims[key] = claim
                try:
                    folder = Path(self._format_source(*key))
                    handed_in[key] = read(folder, *key, self.allowed_files, self.log)
                    yield Job(key, common[key[0]], handed_in[key].packed)
                except OSError:
                    self.log.exception("%s of %s could not be read", *key)
                    failed.append(key)

        for key, result in self.pool.graded(jobs(), len(todo)):
            submitted = handed_in.pop(key)
            try:
                if isinstance(result, Exception):
                    raise result
                record, files = messages.unwrap(result)
                if slow is not None and record["used_up"]:
                    slow.append(key)
                    self.log.info("%s of %s takes long, and is graded after the others", *key)
                    continue
                for notebook, fault in record["faults"].items():
                    self.log.error("%s of %s: the grader failed at %s and gave no points\n%s", *key, notebook, fault)
                    failed.append(key)
                self._put_in_place(writer, *key, submitted, record["notebooks"], files)
                grades = [grade for notebook in record["notebooks"].values() for grade in notebook["grades"].values()]
                points = sum((score or 0) + (extra or 0) for score, extra, *_ in grades)
                self.log.info("%s of %s is graded: %g points from the autograder", *key, points)
                self._run_hook(self.run_post_convert_hook, *key)
            except (sqlalchemy.exc.OperationalError, bubblewrap.NoJail):
                raise
            except Exception:
                self.log.exception("%s of %s could not be graded", *key)
                failed.append(key)
            finally:
                claims.pop(key).close()
            self.progress(key, key in failed)
        return list(dict.fromkeys(failed))

    def _claim(self, assignment_id: str, student_id: str) -> contextlib.ExitStack | None:
        """A hold on a submission, which ends with this process at the latest; None if another run has it."""
        folder, claim = Path(self._format_source(assignment_id, student_id)), contextlib.ExitStack()
        try:
            if folder.is_dir() and not folder.is_symlink():
                claim.enter_context(staging.locked(folder, wait=False))
        except BlockingIOError:
            return None
        return claim

    def _run_hook(self, hook, assignment_id: str, student_id: str) -> None:
        self.notebooks = sorted(self.assignments.get(self._format_source(assignment_id, student_id), []))
        hook()

    def progress(self, key: tuple[str, str], failed: bool) -> None:
        """Called after each submission."""

    def _late(self):
        """The rule for penalties; it also says in the log who is late."""
        penalty = late.rule(parent=self)

        def logged(student: str, notebook, seconds: float) -> float | None:
            self.log.warning("%s is %s seconds late", student, seconds)
            return penalty(student, notebook, seconds)

        return logged

    def _fingerprint(self, assignment_id: str) -> str | None:
        """The fingerprint of what was released, or None where there is none: `grade` says why."""
        if assignment_id not in self._fingerprints:
            self._fingerprints[assignment_id] = None
            with contextlib.suppress(MissingEntry, CourseError, sqlalchemy.exc.OperationalError):
                with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                    plans = released.plans(gradebook, assignment_id, self._folder(assignment_id, "release"))
                self._fingerprints[assignment_id] = released.fingerprint(plans, Path(self.coursedir.root))
        return self._fingerprints[assignment_id]

    def packed(self, assignment_id: str, seconds: float, extensions: bool = True) -> bytes:
        """Pack what all submissions of an assignment have in common, for another machine. Raises MissingEntry.

        seconds: for each notebook; extensions: whether all students' extensions for earlier chapters must have ended
        """
        source = self._folder(assignment_id, "source")
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            plans = released.plans(gradebook, assignment_id, self._folder(assignment_id, "release"))
            self._check_what_is_lent(plans, scores.due_dates(gradebook, None if extensions else ()))
        given = {
            name: path
            for name, path in ordinary_files(source, self.coursedir.ignore).items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.given_files)
        }
        if sum(path.stat().st_size for path in given.values()) > MAX_GIVEN:
            self._stop(
                f"the files in {source} are more than {MAX_GIVEN >> 20} MB; name those that code may read in "
                "TrustedAutograde.given_files"
            )
        kinds = [step.rpartition(".")[2] for step in self.autograde_preprocessors]
        settings = messages.Settings(
            self.extra_cells,
            self.run_all,
            Times(self.cell_seconds, self.case_seconds, seconds, self.grader_seconds),
            Limits(memory=self.memory_mb * MB, processes=self.processes),
            list(self.autograde_preprocessors),
            {kind: dict(self.config[kind]) for kind in kinds if kind in self.config},
        )
        checked = {exercise_of(cell.name) for plan in plans.values() for cell in plan if cell.grade}
        known = [name for notebook in plans for name in catalog.exercises_in(notebook)]
        hidden = hidden_tests.of_exercises(Path(self.coursedir.root), [name for name in known if name in checked])
        return messages.pack_assignment(
            plans,
            settings,
            {name: path.read_bytes() for name, path in given.items()},
            hidden,
            released.fingerprint(plans, Path(self.coursedir.root)),
        )

    def _check_what_is_lent(self, notebooks: Iterable[str], due: dict[str, datetime.datetime]) -> None:
        """Stop if answers would be lent that can still be handed in."""
        for stem, earlier, when in self._not_due(notebooks, due):
            self._stop(
                f"{stem} builds on answers of {earlier}, which can be handed in until {when:%Y-%m-%d %H:%M} UTC. "
                "To grade it, they would be lent to the students' code, which can read them. "
                f"Grade {stem} after that, or set TrustedAutograde.lend_before_due=True"
            )

    def _not_due(
        self, notebooks: Iterable[str], due: dict[str, datetime.datetime]
    ) -> Iterator[tuple[str, str, datetime.datetime]]:
        """Each chapter among the notebooks, an earlier one that it builds on and that is not due, and until when."""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        for stem in filter(catalog.chapters_in, set(notebooks)) if not self.lend_before_due else ():
            for earlier, when in prerequisites.not_due(stem, due, now).items():
                yield stem, earlier, when

    def _folder(self, assignment_id: str, step: str) -> Path:
        return Path(self.coursedir.format_path(getattr(self.coursedir, f"{step}_directory"), ".", assignment_id))

    def _stop(self, words: str):
        self.log.error(words)
        raise NbGraderException(words) from None

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether to grade. A submission whose grading was cut short is graded again."""
        if student_id in self.coursedir.student_id_exclude.split(","):
            return False
        done, folder = (Path(form(assignment_id, student_id)) for form in (self._format_dest, self._format_source))
        if self.force or not done.exists():
            return True
        graded = self._files_read.get([done / results.RESULTS], lambda: results.graded_in(done))
        files = [*submission.notebook_files(folder), folder / "timestamp.txt"]
        if graded.submission != self._files_read.get(files, lambda: submission.read_folder(folder).digest):
            return True
        if self.regrade and graded.release != self._fingerprint(assignment_id):
            self.outdated[assignment_id] = self.outdated.get(assignment_id, 0) + 1
            return True
        self.log.info("Skipping existing assignment: %s", done)
        return False

    def _put_in_place(
        self, writer: Writer, assignment_id: str, student_id: str, handed_in: HandedIn, notebooks: dict, files: dict
    ) -> None:
        """Enter a result and put its folder in place: cut short anywhere, it is graded again."""
        place = Path(self._format_dest(assignment_id, student_id))
        given = ordinary_files(self._folder(assignment_id, "source"), self.coursedir.ignore)
        before = results.entered_in(place)
        with staging.staging_folder(Path(self.coursedir.root)) as own:
            draft = draft_folder(own, {**handed_in.kept, **given, **files})
            folders = 0o2775 if self.coursedir.groupshared else 0o755
            for path in [draft, *draft.rglob("*")]:  # rights are given before anything is visible
                path.chmod(folders if path.is_dir() else int(str(self.permissions), 8))
            # No folder is in place while it and the gradebook disagree.
            with replacing_folder(place, draft, aside=own / "old"):
                writer.enter(assignment_id, student_id, handed_in.timestamp, notebooks, before)
        self.set_permissions(assignment_id, student_id)


def install() -> None:
    """Let nbgrader use this converter, and the one for feedback."""
    replace_converters(TrustedAutograde, feedback.TrustedFeedback)
