"""Which submissions are graded, and with which limits, as the instructor sets them on `TrustedAutograde`.

No reference is lent for an exercise that can still be handed in.
"""

import datetime
import json
import os
import shutil

import nbformat
import pytest
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.grading import grade_submission
from autograder.nbgrader_plugins.autograde import TrustedAutograde
from autograder.sandbox.cgroup import Group
from autograder.sandbox.limits import MB, Limits
from course import release
from tests.autograder import small_course

TOLD = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[1], resource.getrlimit(resource.RLIMIT_AS)[1])"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A released assignment, and one submission that tells its limits."""
    course = tmp_path_factory.mktemp("limits") / "course"
    small_course.make(course, {"own": small_course.own()}, ["ada"])
    notebook = small_course.answered(small_course.released(course, "own"), {"by-hand": TOLD})
    nbformat.write(notebook, small_course.folder(course, "ada") / "own.ipynb")
    return course


def grader(course, **traits) -> TrustedAutograde:
    folder = CourseDirectory(root=str(course), assignment_id=small_course.ASSIGNMENT)
    return TrustedAutograde(coursedir=folder, config=Config(TrustedAutograde=traits))


def result(course, student, file):
    return course / "autograded" / student / small_course.ASSIGNMENT / file


class InThisProcess:
    """A pool of this very process, in which a test can look."""

    def graded(self, jobs, count):
        for job in jobs:
            yield job.names, grade_submission.grade(job.common, job.submission, many=False)


@pytest.mark.parametrize("traits", [{}, {"memory_mb": 1024, "processes": 64}])
def test_a_submission_gets_the_memory_and_processes_that_were_set(needs_jail, course, monkeypatch, traits):
    grouped, make = [], Group.make
    monkeypatch.setattr(Group, "make", lambda limits: grouped.append(limits) or make(limits))
    limits = Limits(traits["memory_mb"] * MB, traits["processes"]) if traits else Limits()
    assert (limits.memory, limits.processes) == ((1024 * MB, 64) if traits else (3072 * MB, 128))
    nbgrader = grader(course, **traits)
    nbgrader.pool = InThisProcess()
    nbgrader.grade(nbgrader.due())
    graded = nbformat.read(result(course, "ada", "own.ipynb"), as_version=4)
    printed = [output.text for cell in graded.cells for output in cell.get("outputs", []) if "text" in output]
    assert f"{limits.processes} {limits.mapped}\n" in printed
    assert set(grouped) == {limits}


@pytest.mark.parametrize("trait, least", [("memory_mb", 512), ("processes", 32)])
def test_a_limit_that_no_notebook_can_run_with_is_refused_in_one_line(needs_jail, course, trait, least):
    option = f"--TrustedAutograde.{trait}={least - 1}"
    done = release.nbgrader("autograde", small_course.ASSIGNMENT, option, course=course, check=False)
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert done.returncode and f"TrustedAutograde.{trait} is {least - 1}; a notebook needs at least {least}" in line
    assert "Traceback" not in done.stderr and not list((course / "autograded").glob("*/*"))


@pytest.mark.parametrize(
    "option, words",
    [
        ("--no-execute", "Execute.enabled has no effect here: the sandbox runs"),
        ("--notebook=own", "CourseDirectory.notebook_id has no effect here: the notebooks of a submission"),
        ("--Execute.execute_retries=3", "Execute.execute_retries has no effect"),
        ("--OverwriteCells.add_missing_cells=False", "OverwriteCells.add_missing_cells has no effect"),
        ("--Autograde.exclude_overwriting=basics=helper.py", "Autograde.exclude_overwriting has no effect here: of a"),
    ],
)
def test_an_option_of_nbgraders_that_would_have_no_effect_is_refused_in_one_line(needs_jail, course, option, words):
    done = release.nbgrader("autograde", small_course.ASSIGNMENT, option, course=course, check=False)
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert done.returncode and words in line and "Traceback" not in done.stderr
    assert not list((course / "autograded").glob("*/*"))


def test_nbgraders_own_limit_of_a_cell_counts_unless_another_is_set(tmp_path):
    def seconds(**traits):
        own = Config(Execute={"timeout": 60}, TrustedAutograde=traits)
        return TrustedAutograde(coursedir=CourseDirectory(root=str(tmp_path)), config=own).cell_seconds

    assert (seconds(), seconds(cell_seconds=20.0), grader(tmp_path).cell_seconds) == (60.0, 20.0, 180.0)


def test_nbgraders_command_logs_each_student_with_the_points(needs_jail, course):
    done = release.nbgrader("autograde", small_course.ASSIGNMENT, "--student", "ada", course=course)
    assert f"{small_course.ASSIGNMENT} of ada is graded: 0 points" in done.stderr


def test_two_courses_share_one_exchange(course, tmp_path, monkeypatch):
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    for name in ("attention-a", "attention-b"):
        monkeypatch.setenv("COURSE_ID", name)
        release.nbgrader("release_assignment", small_course.ASSIGNMENT, f"--Exchange.root={exchange}", course=course)
    assert sorted(path.parents[1].name for path in exchange.glob("*/outbound/*")) == ["attention-a", "attention-b"]


HOURS = datetime.timedelta(hours=1)


def test_a_chapter_is_not_graded_while_what_it_builds_on_can_be_handed_in(tmp_path):
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    due = {"positions": now + HOURS}
    with pytest.raises(NbGraderException, match="rope builds on answers of positions, which can be handed in until"):
        grader(tmp_path)._check_what_is_lent(["rope"], due)
    grader(tmp_path, lend_before_due=True)._check_what_is_lent(["rope"], due)
    for due in ({}, {"positions": now - HOURS}, {"rope": now + HOURS}, {"masks": now + 30 * HOURS}):
        grader(tmp_path)._check_what_is_lent(["rope", "a notebook of the instructor's own"], due)


def test_a_running_extension_for_an_earlier_chapter_delays_only_that_student(needs_jail, tmp_path):
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    with small_course.book(tmp_path) as gradebook:
        for stem in ("positions", "rope"):
            gradebook.add_assignment(stem, duedate=now - 30 * HOURS)
            gradebook.add_notebook(stem, stem)
        for student, days in (("ada", 0), ("boris", 3), ("cleo", 1)):
            gradebook.add_student(student)
            gradebook.update_or_create_submission("positions", student)
            gradebook.grant_extension("positions", student, days=days)
            (tmp_path / "submitted" / student / "rope").mkdir(parents=True)

    def due(**traits):
        command = TrustedAutograde(
            coursedir=CourseDirectory(root=str(tmp_path), assignment_id="rope"), config=Config(TrustedAutograde=traits)
        )
        return [student for _, student in command.due()], command.waiting

    until = f"positions can be handed in until {now + 42 * HOURS:%Y-%m-%d %H:%M} UTC"
    assert due() == (["ada", "cleo"], {("rope", "boris"): until})
    done = release.nbgrader("autograde", "rope", "--student", "boris", course=tmp_path, check=False)
    assert done.returncode == 1 and f"graded later: rope of boris, since {until}" in done.stderr
    assert due(lend_before_due=True) == (["ada", "boris", "cleo"], {})
    with small_course.book(tmp_path) as gradebook:  # where the class waits, the command stops
        gradebook.update_or_create_assignment("positions", duedate=now + HOURS)
    assert due()[0] == ["ada"]


# What is graded


OLD = "def double(x):\n    return x ** 2"


@pytest.fixture(scope="module")
def graded(needs_jail, template, tmp_path_factory):
    """The same course when it is graded.

    ada used the right name, boris another, cleo has no such notebook, and dora has an old attempt behind her answer.
    """
    place = shutil.copytree(template, tmp_path_factory.mktemp("graded") / "course")
    answers = {"double": "def double(x):\n    return 2 * x", "by-hand": "print(double(4))"}
    notebook = small_course.answered(small_course.released(place, "own"), answers)
    nbformat.write(notebook, small_course.folder(place, "ada") / "own.ipynb")
    nbformat.write(notebook, small_course.folder(place, "boris") / "own (1).ipynb")
    (small_course.folder(place, "cleo") / "other.ipynb").write_text('{"cells": []}')
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    old = nbformat.from_dict({**notebook.cells[names.index("double")], "id": "old", "source": OLD})
    notebook.cells.insert(names.index("test-list") + 1, old)
    nbformat.write(notebook, small_course.folder(place, "dora") / "own.ipynb")
    command = grader(place)
    command.grade(command.due())
    return place


@pytest.fixture
def again(graded, tmp_path):
    return shutil.copytree(graded, tmp_path / "again")


def due(course, **traits) -> list[str]:
    return [student for _, student in grader(course, **traits).due()]


def test_a_notebook_under_another_name_is_graded_like_one_under_its_own(graded):
    found = small_course.grades(graded)
    assert found["boris"]["grades"] == found["ada"]["grades"] and found["ada"]["score"] == 3.0
    record = json.loads(result(graded, "boris", "results.json").read_text())
    assert record["notes"] == ["own.ipynb was handed in as 'own (1).ipynb', which has its cells"]


def test_a_students_id_may_have_any_letters(again):
    students = ["Ada King", "a+b", "a.b", "a@b.org", "jürgen", "o'neil", "李偉"]
    for student in students:
        shutil.copytree(again / "submitted" / "ada", again / "submitted" / student)
    command = grader(again)
    assert sorted(student for _, student in command.due()) == students
    command.grade(command.due())
    found = small_course.grades(again)
    assert {found[student]["score"] for student in students} == {3.0} and command.due() == []


def test_an_old_attempt_behind_the_answer_is_shown_and_not_run(graded):
    found = small_course.grades(graded)
    assert found["dora"]["grades"] == found["ada"]["grades"]
    assert "more than once" in found["dora"]["comments"]["own/double"]
    page = nbformat.read(result(graded, "dora", "own.ipynb"), as_version=4)
    texts = {cell.source: output.text for cell in page.cells for output in cell.get("outputs", []) if "text" in output}
    assert texts[OLD] == grade_submission.NOT_COUNTED and texts["print(double(4))"] == "8\n"


def test_where_no_notebook_fits_it_is_zero_with_a_page_and_a_human_looks(graded):
    found = small_course.grades(graded)["cleo"]
    assert found["score"] == 0 and found["needs_manual_grade"]
    assert "other.ipynb" in found["comments"]["own/double"]
    page = nbformat.read(result(graded, "cleo", "own.ipynb"), as_version=4)
    assert "For the grader" in page.cells[0].source


def test_what_is_graded_is_not_graded_again(again):
    for path in (again / "submitted").rglob("*.ipynb"):
        os.utime(path)
    assert due(again) == [] and due(again, force=True) == ["ada", "boris", "cleo", "dora"]


@pytest.mark.parametrize("seconds", [0, 2_000_000_000])
def test_a_new_file_is_graded_whatever_its_time(again, seconds):
    path = again / "submitted" / "ada" / small_course.ASSIGNMENT / "own.ipynb"
    path.write_text(path.read_text().replace("2 * x", "x + x"))
    os.utime(path, (seconds, seconds))
    command = grader(again)
    assert command.due() == [(small_course.ASSIGNMENT, "ada")] and not command.outdated
    command.grade(command.due())
    assert command.due() == []


@pytest.mark.parametrize("file", ["own.ipynb", "timestamp.txt", "another.ipynb"])
def test_a_grader_that_goes_on_sees_what_has_changed_since_it_looked(again, file):
    command = grader(again)
    assert command.due() == []
    place = again / "submitted" / "ada" / small_course.ASSIGNMENT / file
    place.write_text("2026-10-04 18:00:00 UTC")
    assert command.due() == [(small_course.ASSIGNMENT, "ada")]


def test_a_changed_release_is_graded_again_unless_the_instructor_wants_it_otherwise(again):
    with small_course.book(again) as gradebook:
        gradebook.find_grade_cell("test-double", "own", small_course.ASSIGNMENT).max_score = 6
        gradebook.db.commit()
    command = grader(again)
    todo = command.due()
    assert [student for _, student in todo] == ["ada", "boris", "cleo", "dora"]
    assert command.outdated == {small_course.ASSIGNMENT: 4}
    assert due(again, regrade=False) == []
    command.grade(todo)
    assert small_course.grades(again)["ada"]["score"] == 7.0 and due(again) == []


def test_a_grade_that_does_not_say_what_it_is_of_is_made_again(again):
    place = result(again, "ada", "results.json")
    place.write_text(json.dumps({**json.loads(place.read_text()), "graded": None}))
    assert due(again) == ["ada"]
