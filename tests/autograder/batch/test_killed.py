"""Killed at any moment, a second run completes: same grades, nothing lost or doubled, nothing left over."""

import contextlib
import json
import multiprocessing
import os
import pkgutil
import random
import shutil
import signal
import sqlite3
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from autograder.grading.execution import Cell, evaluate
from autograder.sandbox import bubblewrap, cgroup
from course import catalog
from course.folder import ROOT
from tests.autograder import processes, small_course
from tests.autograder.honest import PENALTY
from tests.autograder.processes import PATIENCE, wait_until
from tests.conftest import the_others_weekly

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("KILL_SEED", "20"))  # each moment is drawn from it, and printed where a test fails
# Each is killed once in the first half of a run and once in the second.
TARGETS = ["the grader", "bubblewrap", "the notebook's process"] * 2
ROWS = ("student", "submitted_assignment", "submitted_notebook", "grade", "comment")

# nbgrader takes seconds to import and a submission half of one: each run is a fork of a process that has it.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["autograder.nbgrader_plugins.autograde", "nbgrader.apps.autogradeapp", __name__])


def grade(course: Path, arguments: tuple[str, ...] = (), die_at: str | None = None) -> None:
    """Do what `nbgrader autograde` does, in a separate process; see `Run`."""
    os.environ["COURSE_DIR"] = str(course)
    os.chdir(ROOT / "autograder")
    log = os.open(course / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if die_at:
        _die_at(die_at)
    from nbgrader.apps.autogradeapp import AutogradeApp

    AutogradeApp.launch_instance([small_course.ASSIGNMENT, PENALTY, *arguments])
    sys.exit(0)


# The method that is called at each moment, and whether it is still done.
MOMENTS = {
    "before anything is entered": ("autograder.gradebook.writer:Writer.enter", False),
    "in the middle of the transaction": ("autograder.gradebook.writer:Writer._enter", True),
    "before the folder is in place": ("autograder.gradebook.writer:Writer.enter", True),
    "after the folder is in place": ("autograder.nbgrader_plugins.autograde:TrustedAutograde.set_permissions", False),
}


def _die_at(moment: str) -> None:
    method, done = MOMENTS[moment]
    owner, name = pkgutil.resolve_name(method.rpartition(".")[0]), method.rpartition(".")[2]
    act = getattr(owner, name)

    def die(*args, **kwargs):
        if done:
            act(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)


class Run:
    """One `nbgrader autograde`, which may be killed."""

    def __init__(self, course: Path, *arguments: str, die_at: str | None = None):
        self.process = forks.Process(target=grade, args=(course, arguments, die_at))
        self.process.start()

    def wait(self) -> int:
        self.process.join(PATIENCE)
        assert self.ended(), "the grader did not end"
        return self.process.exitcode

    def ended(self) -> bool:
        return self.process.exitcode is not None

    def find(self, what: str) -> list[int]:
        """The processes of this run that are `what`, now."""
        if what == "the grader":
            return [self.process.pid]
        name = "bwrap" if what == "bubblewrap" else "python"
        return [pid for pid in processes.below(self.process.pid) if processes.command(pid).startswith(name)]


@pytest.fixture(scope="module", autouse=True)
def reaper():
    """Make processes that a killed grader leaves behind children of this process, so that they can be found."""
    with processes.reaping():
        yield


@dataclass
class Class:
    """A released course with ungraded submissions, and the result of an undisturbed run."""

    course: Path
    seconds: float
    expected: dict


@pytest.fixture(scope="module")
def class_(tmp_path_factory, needs_jail) -> Class:
    fresh = tmp_path_factory.mktemp("killed") / "course"
    students = ("ada", "boris")
    small_course.make(fresh, {"dot_products": small_course.thin("dot_products")}, students)
    dot, cosine = (small_course.reference("dot_products", name) for name in small_course.KEPT["dot_products"])
    work = {
        "ada": ({"dot": dot, "cosine_similarity": cosine, "written-dot_products": "Length."}, -24),
        "boris": ({"dot": dot + "\n\nprint(open('words.txt').read())", "cosine_similarity": "1 / 0"}, 30),
    }
    for student, (answers, late) in work.items():
        notebook = small_course.answered(small_course.released(fresh, "dot_products"), answers)
        nbformat.write(notebook, small_course.folder(fresh, student, late) / "dot_products.ipynb")
    calm = fresh.with_name("calm")
    shutil.copytree(fresh, calm)
    begin = time.monotonic()
    assert Run(calm).wait() == 0, (calm / "log.txt").read_text()
    return Class(fresh, time.monotonic() - begin, state(calm))


def state(course: Path) -> dict:
    """All that grading leaves behind, but for times. Raises where a result is not whole."""
    rows = {}
    with contextlib.closing(sqlite3.connect(course / "gradebook.db")) as database:
        for table in ROWS:
            rows[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    results = {}
    for folder in sorted((course / "autograded").glob(f"*/{small_course.ASSIGNMENT}")):
        notebook = nbformat.read(folder / "dot_products.ipynb", as_version=4)
        nbformat.validate(notebook)
        record = json.loads((folder / "results.json").read_text("utf-8"))
        results[folder.parent.name] = {
            "files": sorted((path.name, path.stat().st_mode) for path in folder.iterdir()),
            "folder": folder.stat().st_mode,
            "notes": record["notes"],
            "exercises": [
                (r["exercise"], r["points"], [p["passed"] for p in r["properties"]])
                for r in record["notebooks"]["dot_products"]["exercises"]
            ],
            "outputs": [
                [o for o in cell.get("outputs", []) if o.output_type in ("stream", "error")] for cell in notebook.cells
            ],
        }
    return {"grades": small_course.grades(course), "rows": rows, "results": results}


def left_over(course: Path, pids: list[int]) -> list[str]:
    """Return what killed graders left: drafts, journals, control groups, and jails that still run."""
    found = [str(path) for path in (course / ".grading").glob("*")]
    found += [str(path) for path in course.glob("gradebook.db-*")]
    for place, _, _ in os.walk(cgroup.CGROUPS):  # which does not mind that others' groups come and go
        found += [place for pid in pids if Path(place).name.startswith(f"attention-{pid}-")]
    return found + [f"process {pid}" for pid in processes.jails()]


def finish(course: Path, expected: dict, *before: Run) -> None:
    """A second run, as anyone would start it, and what must be true after it."""
    wait_until(lambda: not processes.jails(), lambda: "a jail outlived its grader")
    second = Run(course)
    assert second.wait() == 0, (course / "log.txt").read_text()
    assert state(course) == expected
    assert left_over(course, [run.process.pid for run in (*before, second)]) == []


@pytest.mark.long
@pytest.mark.parametrize("trial", the_others_weekly(range(len(TARGETS)), 1, 4))
def test_killed_at_a_random_moment_a_second_run_completes(class_, tmp_path, trial):
    draw = random.Random(f"{SEED} {trial}")
    half = (trial >= len(TARGETS) // 2) / 2
    target, moment = TARGETS[trial], class_.seconds * draw.uniform(half, half + 0.5)
    course = tmp_path / "course"
    shutil.copytree(class_.course, course)
    first = Run(course)
    time.sleep(moment)
    # Between two submissions there is no jail: then the next one is meant, if there is one.
    wait_until(lambda: first.ended() or first.find(target), lambda: "no process to kill")
    victim = None if first.ended() else draw.choice(first.find(target) or [None])
    if victim:
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(victim, signal.SIGKILL)
    print(f"KILL_SEED={SEED}: killed {target} ({victim}) after {moment:.3f} of {class_.seconds:.3f} seconds")
    code = first.wait()
    if target != "the grader":
        assert code == 0, "a run was stopped by the end of a jail"
        assert state(course) == class_.expected
    finish(course, class_.expected, first)


@pytest.mark.parametrize("kind, number", [("answers", 1), ("cell", 1), ("snapshot", 1), ("answer", 1), ("question", 3)])
def test_a_jail_that_was_killed_costs_no_point(needs_jail, monkeypatch, kind, number):
    """Killed just before a message: the start, a cell, the check, the question for parameters, a case."""
    lives = []
    enter = bubblewrap.Jail.__enter__

    def enter_and_remember(self):
        lives.append(self)
        return enter(self)

    def kill():
        lives[-1].process.kill()
        lives[-1].process.wait()
        # What runs in it ends a little later.
        wait_until(lambda: not processes.jails(), lambda: "a killed jail goes on")

    monkeypatch.setattr(bubblewrap.Jail, "__enter__", enter_and_remember)
    processes.before_message(monkeypatch, kind, number, kill)
    dot, answer = catalog.exercise("dot"), small_course.reference("dot_products", "dot")
    done = evaluate([Cell(0, answer, solution=True), Cell(1, "", check="dot")], {"dot": dot})
    assert done.reports["dot"].points == dot.points
    assert done.flags == []
    assert len(lives) == 2


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_between_two_steps_of_entering_a_grade_a_second_run_completes(class_, tmp_path, moment):
    course = tmp_path / "course"
    shutil.copytree(class_.course.with_name("calm"), course)  # graded already: older results are at stake, too
    first = Run(course, "--force", "--student=boris", die_at=moment)
    assert first.wait() == -signal.SIGKILL, (course / "log.txt").read_text()
    finish(course, class_.expected, first)
