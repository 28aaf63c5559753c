"""nbgrader's Validate, on the command line and as JupyterLab's button: it says for each exercise what `check` says."""

import json
import os
import subprocess
import sys
import urllib.request

import nbformat
import pytest

from attnlab import check
from course import catalog, release
from course.folder import ROOT
from tests.autograder import small_course

pytestmark = [pytest.mark.slow, pytest.mark.long]

STEM = "softmax"
NAIVE = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)"
FORWARD = "import numpy as np\nfrom solutions.softmax import {0}"


def answered(answers: dict[str, str], words="Because the largest score takes all."):
    """The chapter as released, with these answers to its exercises and to its written question."""
    notebook = release.student_notebook(STEM)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name == f"written-{STEM}":
            cell.source = words or cell.source
        cell.source = answers.get(name, cell.source)
    return notebook


def all_right() -> dict[str, str]:
    return {name: FORWARD.format(name) for name in catalog.exercises_of(STEM)}


def on_the_command_line(folder, notebook) -> str:
    nbformat.write(notebook, folder / "tried.ipynb")
    command = [sys.executable, "-m", "nbgrader", "validate", "tried.ipynb"]
    own = {**os.environ, "PYTHONPATH": str(ROOT)}  # the answers import the references
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=own)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def by_button(jupyter, tmp_path_factory):
    """Return what JupyterLab's button gets for a notebook."""
    folder = tmp_path_factory.mktemp("validate")
    options = ["--ServerApp.disable_check_xsrf=True", "--ServerApp.jpserver_extensions=nbgrader.server_extensions."]
    options[1] += "validate_assignment=True"
    address = jupyter("server", folder, "api", *options, PYTHONPATH=str(ROOT))

    def ask(notebook):
        nbformat.write(notebook, folder / "tried.ipynb")
        body, kind = json.dumps({"path": "tried.ipynb"}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/assignments/validate", body, kind)
        with urllib.request.urlopen(request, timeout=300) as reply:
            told = json.loads(reply.read())
        assert told["success"], told["value"]
        return told["value"]

    return ask


def test_an_assignment_in_which_only_the_essay_is_written_does_not_pass(by_button):
    failed = by_button(answered({}))["failed"]
    required = [name for name, exercise in catalog.exercises_of(STEM).items() if not exercise.bonus]
    assert [cell["source"] for cell in failed] == [f"check({name})" for name in required]
    assert all("Not done yet" in cell["raw_error"] for cell in failed)


def test_a_wrong_answer_is_told_its_mistake_as_by_check(by_button, capsys):
    answers = all_right() | {"softmax": NAIVE}
    (failed,) = by_button(answered(answers))["failed"]
    namespace = {}
    exec(f"import numpy as np\n{NAIVE}", namespace)
    check(namespace["softmax"])
    assert failed["raw_error"].strip() == capsys.readouterr().out.strip()
    assert "No maximum is subtracted." in failed["raw_error"]


def test_finished_work_passes(by_button, tmp_path):
    assert by_button(answered(all_right())) == {}
    assert on_the_command_line(tmp_path, answered(all_right())).startswith("Success!")


def test_the_command_line_says_the_same_and_names_a_written_answer_that_is_missing(tmp_path):
    said = on_the_command_line(tmp_path, answered(all_right() | {"softmax": NAIVE}, words=None))
    assert "VALIDATION FAILED ON 2 CELL(S)!" in said
    assert "No maximum is subtracted." in said and "You did not provide a response." in said


def test_an_own_assignment_fails_where_its_visible_tests_fail(by_button):
    notebook = small_course.own()
    (answer,) = (cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "double")
    answer.source = "def double(x):\n    return x + 2"
    tests = [cell for cell in notebook.cells if "double(2)" in cell.source or "double([1])" in cell.source]
    tests[0].source = "assert double(2) == 4"  # as released: without its hidden tests
    (failed,) = by_button(notebook)["failed"]
    assert failed["source"] == tests[1].source and "TypeError" in failed["raw_error"]
