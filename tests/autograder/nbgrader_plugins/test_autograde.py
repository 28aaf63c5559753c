"""The limits that an instructor sets on `TrustedAutograde` are those that a submission's sandbox gets, and nothing is
lent that can still be handed in."""

import datetime
import shutil

import nbformat
import pytest
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.course import release
from autograder.nbgrader_plugins.autograde import TrustedAutograde
from autograder.sandbox.cgroup import Group
from autograder.sandbox.limits import MB, Limits
from tests.autograder import small_course

TOLD = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[1], resource.getrlimit(resource.RLIMIT_AS)[1])"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A released assignment, and one submission that tells its limits."""
    course = tmp_path_factory.mktemp("limits") / "course"
    small_course.make(course, {"own": small_course.own()}, ["ada"])
    notebook = small_course.answered(small_course.released(course, "own"), {"by-hand": TOLD})
    nbformat.write(notebook, small_course.folder(course, "ada") / "own.ipynb")
    return course


@pytest.fixture
def course(fresh, tmp_path):
    return shutil.copytree(fresh, tmp_path / "course")


def grader(course, **traits) -> TrustedAutograde:
    folder = CourseDirectory(root=str(course), assignment_id=small_course.ASSIGNMENT)
    return TrustedAutograde(coursedir=folder, config=Config(TrustedAutograde=traits))


@pytest.mark.parametrize("traits", [{}, {"memory_mb": 1024, "processes": 64}])
def test_a_submission_gets_the_memory_and_processes_that_were_set(needs_jail, course, monkeypatch, traits):
    grouped, make = [], Group.make
    monkeypatch.setattr(Group, "make", lambda limits: grouped.append(limits) or make(limits))
    limits = Limits(traits["memory_mb"] * MB, traits["processes"]) if traits else Limits()
    assert (limits.memory, limits.processes) == ((1024 * MB, 64) if traits else (3072 * MB, 128))
    nbgrader = grader(course, **traits)
    nbgrader.grade(nbgrader.due())
    graded = nbformat.read(course / "autograded" / "ada" / small_course.ASSIGNMENT / "own.ipynb", as_version=4)
    printed = [output.text for cell in graded.cells for output in cell.get("outputs", []) if "text" in output]
    assert f"{limits.processes} {limits.mapped}\n" in printed
    assert set(grouped) == {limits}


@pytest.mark.parametrize("trait, least", [("memory_mb", 512), ("processes", 32)])
def test_a_limit_that_no_notebook_can_run_with_is_refused_in_one_line(needs_jail, course, trait, least):
    done = release.nbgrader(
        "autograde", small_course.ASSIGNMENT, f"--TrustedAutograde.{trait}={least - 1}", course=course, check=False
    )
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert done.returncode and f"TrustedAutograde.{trait} is {least - 1}; a notebook needs at least {least}" in line
    assert "Traceback" not in done.stderr and not list((course / "autograded").glob("*/*"))


HOURS = datetime.timedelta(hours=1)


@pytest.mark.parametrize("chapter, hours", [("positions", 1), ("masks", 30)])
def test_a_chapter_is_not_graded_while_what_it_builds_on_can_be_handed_in(tmp_path, caplog, chapter, hours):
    due = {chapter: datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + hours * HOURS}
    nbgrader = grader(tmp_path)
    if chapter == "masks":  # which this one does not build on
        nbgrader._check_what_is_lent(["rope"], due)
        return
    with pytest.raises(NbGraderException, match="rope builds on answers of positions, which can be handed in until"):
        nbgrader._check_what_is_lent(["rope"], due)
    grader(tmp_path, lend_before_due=True)._check_what_is_lent(["rope"], due)


def test_what_is_past_its_due_date_or_has_none_is_lent(tmp_path):
    past = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - HOURS
    for due in ({}, {"positions": past}, {"rope": past + 2 * HOURS}):
        grader(tmp_path)._check_what_is_lent(["rope", "a notebook of the instructor's own"], due)
