"""An assignment of the instructor's own: modules and data beside its notebook are there in the jail as in Jupyter."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.converters.base import NbGraderException

from autograder.batch import run
from autograder.grading.results import graded_in
from tests.autograder import small_course

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_jail")]

BESIDE = {
    "helper.py": "def five():\n    return 5\n",
    "tools/__init__.py": "",
    "tools/more.py": "SIX = 6\n",
    "data/numbers.txt": "7\n",
    "__pycache__/helper.pyc": "no",
}
TESTS = {
    "module": "import helper\nassert answer() == helper.five()",
    "package": "from tools.more import SIX\nassert answer() + 1 == SIX",
    "data": "assert int(open('data/numbers.txt').read()) == answer() + 2",
    "mode": "import os\nassert os.environ['NBGRADER_EXECUTION'] == 'autograde'",
    "numpy": "import numpy, helper\nassert 'site-packages' in numpy.__file__",
}


def notebook(kernel="python3", language="python"):
    def cell(name, source, **marks):
        usual = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
        return new_code_cell(source, metadata={"nbgrader": {"grade_id": name, **usual, **marks}})

    answer = "def answer():\n    ### BEGIN SOLUTION\n    return 5\n    ### END SOLUTION"
    tests = [cell(name, source, grade=True, locked=True, points=1) for name, source in TESTS.items()]
    kernelspec = {"name": kernel, "display_name": kernel, "language": language}
    return new_notebook(cells=[cell("answer", answer, solution=True), *tests], metadata={"kernelspec": kernelspec})


def grade(course):
    grader = run.configured(small_course.ASSIGNMENT, course)
    grader.grade(grader.due())


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with a right answer and a wrong one, both graded; the first student hands in modules of her own too."""
    course = tmp_path_factory.mktemp("own") / "course"
    small_course.make(course, {"own": notebook()}, ["ada", "boris"], beside=BESIDE)
    for student, value in (("ada", "5"), ("boris", "6")):
        answers = {"answer": f"def answer():\n    return {value}"}
        handed_in = small_course.answered(small_course.released(course, "own"), answers)
        place = small_course.folder(course, student)
        small_course.nbformat.write(handed_in, place / "own.ipynb")
        (place / "helper.py").write_text("def five():\n    return 6\n")  # does not replace the instructor's
    grade(course)
    return course


def test_modules_packages_and_data_beside_the_notebook_are_there_and_the_students_are_not(course):
    found = small_course.grades(course)
    assert (found["ada"]["score"], found["boris"]["score"]) == (len(TESTS), 2.0)


def test_they_are_beside_the_graded_notebook_too(course):
    graded = course / "autograded" / "ada" / small_course.ASSIGNMENT
    assert (graded / "data" / "numbers.txt").read_text() == "7\n" and graded_in(graded).release
    assert (graded / "helper.py").read_text() == BESIDE["helper.py"] and not (graded / "__pycache__").exists()
    assert graded.joinpath("data").stat().st_mode & 0o777 == 0o755


def test_a_notebook_in_another_language_is_refused_before_anything_is_graded(tmp_path, caplog):
    course = tmp_path / "course"
    small_course.make(course, {"own": notebook("ir", "R")}, ["ada"])
    small_course.nbformat.write(small_course.released(course, "own"), small_course.folder(course, "ada") / "own.ipynb")
    with pytest.raises(NbGraderException, match=r"own.ipynb is a notebook in r, and only Python is graded"):
        grade(course)
    assert not (course / "autograded").exists() or not list((course / "autograded").iterdir())
