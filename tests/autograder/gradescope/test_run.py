"""A submission in a container like Gradescope's: what is handed in, who runs it, and what Gradescope is told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import jsonschema
import nbformat
import numpy as np
import pytest

from autograder.gradescope import run
from autograder.grading import hidden_tests, serialization
from course import catalog
from course.folder import ROOT
from tests.autograder import small_course
from tests.autograder.sandbox import container

TEXT = {"type": "string"}
WHEN = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORM = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
# https://gradescope-autograders.readthedocs.io/en/latest/specs/, as far as it is used.
SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": TEXT,
        "output_format": FORM,
        "stdout_visibility": WHEN,
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": TEXT,
                    "output": TEXT,
                    "output_format": FORM,
                    "visibility": WHEN,
                },
                "required": ["score", "max_score", "name", "output", "output_format", "visibility"],
                "additionalProperties": False,
            },
        },
    },
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "additionalProperties": False,
}
FULL = catalog.exercise("attention_weights").points
BONUS = catalog.exercise("attention_backward").points
METADATA = {"id": 1, "users": [{"email": "ada@example.org", "id": 7, "name": "Ada"}], "previous_submissions": []}
# The answer is right only if none of this can be done, and one thing can: to write to its own folder.
TRIES = """
import glob, os, socket
done = [os.getuid() == 0]
for path in ("source/assignment.bin", "source/options.json", "source/course/solutions/attention.py", "results",
             "source/course/autograder/hidden.py", "submission_metadata.json", "submission", "source", "tmp"):
    try:
        done.append(os.listdir(f"/autograder/{path}") if os.path.isdir(f"/autograder/{path}")
                    else open(f"/autograder/{path}").read(1))
    except OSError:
        pass
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/autograder", "/autograder/results", "/autograder/tmp"):
    try:
        done.append(open(f"{folder}/mine", "w"))
    except OSError:
        pass
for family in (socket.AF_INET, socket.AF_UNIX):
    try:
        done.append(socket.socket(family))
    except OSError:
        pass
open("mine", "w").write("mine")
assert not any(done), done
"""


def notebook(course, **answers):
    made = small_course.released(course, "attention", "attention")
    return nbformat.writes(small_course.answered(made, answers)).encode()


def right(name: str) -> str:
    return small_course.reference("attention", name)


def graded(image, root="/autograder", **files: bytes) -> dict:
    """Return the report that Gradescope gets for these files. root: the folder of the image"""
    container.needed()
    for name, data in files.items():
        (image / "submission" / name.replace("__", " ")).with_suffix(".ipynb").write_bytes(data)
    (image / "submission_metadata.json").write_text(json.dumps(METADATA))
    given = [] if root == "/autograder" else [f"GRADESCOPE_ROOT={root}"]
    done = container.run("env", *given, f"{root}/run_autograder", binds={root: image}, cwd=root)
    results = json.loads((image / "results" / "results.json").read_text("utf-8"))
    jsonschema.validate(results, SCHEMA)
    assert done.returncode == 0, done.stderr
    return results


@pytest.mark.long
def test_the_image_is_set_up_and_the_doctor_finds_all_that_is_promised(image):
    container.needed()
    done = container.run("bash", "/autograder/source/setup.sh", binds={"/autograder": image}, cwd="/autograder")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    held = [line for line in lines if line.startswith("ok ")]
    not_held = [line.split(":")[0].split(maxsplit=1)[1] for line in lines if line.startswith("open ")]
    assert len(held) + len(not_held) == len(lines) and len(held) >= 20
    assert set(not_held) <= {
        "processes of this machine cannot be seen",
        "memory is bounded, of all processes together",
        "files are bounded together",
    }


@pytest.mark.long
def test_a_submission_is_graded_and_reaches_nothing(image, course):
    results = graded(
        image, attention__2=notebook(course, attention_weights=TRIES + right("attention_weights"))
    )  # under another name
    weights, backward = results["tests"]
    assert (weights["name"], weights["score"], weights["max_score"]) == ("attention_weights", FULL, FULL)
    assert weights["status"] == "passed" and weights["visibility"] == "after_due_date"
    assert (backward["name"], backward["score"], backward["max_score"]) == ("attention_backward (bonus)", 0.0, 0.0)
    assert "not done yet" in backward["output"] and backward["status"] == "failed"
    assert "attention 2.ipynb was used as attention.ipynb." in results["output"]
    assert "graded by a human" in results["output"] and results["stdout_visibility"] == "hidden"
    assert not list((image / "tmp").iterdir())


@pytest.mark.long
def test_a_wrong_answer_is_explained_without_hidden_inputs_and_a_bonus_comes_on_top(image, course):
    wrong = right("attention_weights").replace("return ", "return 2 * ")
    results = graded(
        image, attention=notebook(course, attention_weights=wrong, attention_backward=right("attention_backward"))
    )
    weights, backward = results["tests"]
    assert 0 <= weights["score"] < FULL and " no   " in weights["output"]
    assert (backward["score"], backward["max_score"], backward["status"]) == (BONUS, 0.0, "passed")
    _, files = serialization.unwrap((image / "source" / "assignment.bin").read_bytes())
    shown = set(re.findall(LONG, json.dumps(results)))
    for name in ("attention_weights", "attention_backward"):
        numbers = set(long_numbers(hidden_tests.unpacked(files[f"hidden/{name}"])["properties"]))
        assert len(numbers) > 20 and not numbers & shown


LONG = r"(?a)(\d+[._]\d{7})\d{3,}"


def long_numbers(value):
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from long_numbers(item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield from re.findall(LONG, " ".join(map(repr, value.ravel().tolist())))


@pytest.mark.long
def test_a_file_that_is_not_a_notebook_is_zero_with_a_reason_in_any_folder(image):
    results = graded(image, root="/srv/elsewhere", attention=b"{")
    assert [test["score"] for test in results["tests"]] == [0.0, 0.0]
    assert "attention.ipynb could not be read: the notebook is not valid JSON" in results["output"]


def test_where_the_grader_fails_the_student_is_told_and_the_instructor_sees_why(not_root, tmp_path, capsys):
    assert run.main(tmp_path) == 1
    results = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    jsonschema.validate(results, SCHEMA)
    assert results["score"] == 0 and "not your fault" in results["output"] and "tests" not in results
    why = "only root can run a program as another user"
    assert why in capsys.readouterr().err and why not in results["output"]


# The parts -----------------------------------------------------------------------------------------------------------


def cell(name="check-dot", **more):
    return {"name": name, "grade": True, "solution": False, "task": False, "points": 3.0, **more}


@pytest.mark.parametrize(
    "grades, points, words",
    [
        ([3.0, None, False], 3.0, "all of it"),
        ([1.5, None, False], 1.5, "all of it"),
        ([3.0, None, True], 0.0, f"{run.DOUBTFUL}\nall of it"),
        ([None, None, False], 0.0, "all of it"),
    ],
)
def test_a_cell_is_a_test(grades, points, words):
    (test,) = run.notebook_tests([cell()], {"check-dot": grades}, {"check-dot": "all of it"})
    assert test["name"] == "dot" and test["score"] == points and test["output"] == words
    assert test["status"] == ("passed" if points == 3 else "failed")


def test_manually_graded_cells_are_not_tests():
    cells = [cell("written", solution=True), cell("task", grade=False, task=True), cell("own-test")]
    assert [t["name"] for t in run.notebook_tests(cells, {"own-test": [1.0, None, False]}, {})] == ["own-test"]


def test_a_notebook_is_found_by_its_name_in_any_folder(tmp_path):
    for place in ("b/softmax.ipynb", "softmax.ipynb", "masks.ipynb", ".ipynb_checkpoints/rope.ipynb"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(place)
    found, refused, notes = run.handed_in(tmp_path, ["softmax", "rope"])
    assert found == {"softmax": b"softmax.ipynb"} and not refused
    assert notes == ["softmax.ipynb was handed in more than once; softmax.ipynb was used."]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "softmax.ipynb").symlink_to(ROOT / "README.md")
    found, refused, _ = run.handed_in(tmp_path, ["softmax"])
    assert not found and "link" in refused["softmax"]


@pytest.mark.parametrize(
    "metadata, name",
    [
        (METADATA, "ada@example.org"),
        ({"users": [{"email": "", "id": 7}, {"email": "b@c", "id": 8}]}, "7, b@c"),
        ({"users": [{}]}, "unknown"),
        ([], "unknown"),
    ],
)
def test_the_students_are_read_from_the_metadata(tmp_path, metadata, name):
    (tmp_path / "submission_metadata.json").write_text(json.dumps(metadata))
    assert run.student(tmp_path / "submission_metadata.json") == name
    assert run.student(tmp_path / "nothing.json") == "unknown"


def test_the_scripts_are_bash():
    for name in ("setup.sh", "run_autograder"):
        path = ROOT / "autograder" / "gradescope" / name
        assert subprocess.run([shutil.which("bash"), "-n", str(path)], check=False).returncode == 0
