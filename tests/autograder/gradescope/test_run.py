"""A submission in a container like Gradescope's: what is handed in, who runs it, and what Gradescope is told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import jsonschema
import nbformat
import pytest

from autograder.gradescope import run
from autograder.grading import hidden_tests, messages
from course import catalog
from course.folder import ROOT
from tests.autograder import small_course
from tests.autograder.sandbox import container
from tests.conftest import write_files
from tests.red_team import attacks
from tests.red_team.course import LONG_NUMBER, long_numbers

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
# The answer is right only if none of these reach anything.
TRIES = "import numpy as np\n" + "".join(
    attacks.filled(attack.code, "/autograder", 9) + "\n" for attack in attacks.through("gradescope")
)


def notebook(course, **answers):
    made = small_course.released(course, "attention", "attention")
    return nbformat.writes(small_course.answered(made, answers)).encode()


def right(name: str) -> str:
    return small_course.reference("attention", name)


def graded(image, root="/autograder", **files: bytes) -> dict:
    """Return the report that Gradescope gets for these files. root: the folder of the image"""
    container.needed()
    for name, data in files.items():
        (image / "submission" / f"{name.replace('__', ' ')}.ipynb").write_bytes(data)
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
    answer = "import numpy as np\n" + TRIES + right("attention_weights")
    results = graded(image, attention__2=notebook(course, attention_weights=answer))  # under another name
    weights, backward = results["tests"]
    assert (weights["name"], weights["score"], weights["max_score"]) == ("attention_weights", FULL, FULL)
    assert weights["status"] == "passed" and weights["visibility"] == "after_due_date"
    assert (backward["name"], backward["score"], backward["max_score"]) == ("attention_backward (bonus)", 0.0, 0.0)
    assert "not done yet" in backward["output"] and backward["status"] == "failed"
    assert "attention 2.ipynb was used as attention.ipynb." in results["output"]
    assert "graded by a human" in results["output"] and results["stdout_visibility"] == "hidden"
    assert not list((image / "tmp").iterdir())


@pytest.mark.long
def test_a_wrong_answer_is_explained_without_hidden_inputs_and_a_bonus_is_added(image, course):
    answers = {name: right(name) for name in ("attention_weights", "attention_backward")}
    answers["attention_weights"] = answers["attention_weights"].replace("return ", "return 2 * ")
    results = graded(image, attention=notebook(course, **answers))
    weights, backward = results["tests"]
    assert 0 <= weights["score"] < FULL and " no   " in weights["output"]
    assert (backward["score"], backward["max_score"], backward["status"]) == (BONUS, 0.0, "passed")
    _, files = messages.unwrap((image / "source" / "assignment.bin").read_bytes())
    shown = set(re.findall(LONG_NUMBER, json.dumps(results)))
    for name in answers:
        numbers = set(long_numbers(hidden_tests.unpacked(files[f"hidden/{name}"])["properties"]))
        assert len(numbers) > 20 and not numbers & shown


@pytest.mark.long
def test_a_file_that_is_not_a_notebook_gets_0_and_a_reason_in_any_folder(image):
    results = graded(image, root="/srv/elsewhere", attention=b"{")
    assert [test["score"] for test in results["tests"]] == [0.0, 0.0]
    assert "attention.ipynb could not be read: the notebook is not valid JSON" in results["output"]


def test_the_student_is_told_that_the_grader_failed_and_the_instructor_why(not_root, tmp_path, capsys):
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


def test_an_answer_that_a_human_grades_is_not_a_test():
    cells = [cell("written", solution=True), cell("task", grade=False, task=True), cell("own-test")]
    assert [t["name"] for t in run.notebook_tests(cells, {"own-test": [1.0, None, False]}, {})] == ["own-test"]


def test_a_notebook_is_found_by_its_name_in_any_folder(tmp_path):
    places = ("b/softmax.ipynb", "softmax.ipynb", "masks.ipynb", ".ipynb_checkpoints/rope.ipynb")
    write_files(tmp_path, {place: place for place in places})
    found, refused, notes = run.handed_in(tmp_path, ["softmax", "rope"])
    assert found == {"softmax": b"softmax.ipynb", "masks": b"masks.ipynb"} and not refused
    assert notes == ["softmax.ipynb was handed in more than once; softmax.ipynb was used."]


@pytest.mark.parametrize(
    "places, used",
    [
        (["softmax_ann.ipynb", "__MACOSX/._softmax_ann.ipynb", "._softmax_ann.ipynb"], {"softmax"}),
        (["softmax (1).ipynb", "scratch.ipynb"], {"softmax (1)", "scratch"}),  # recognized by their cells later
        (["a/SOFTMAX.IPYNB"], {"softmax"}),
        (["softmax.ipynb.json"], {"softmax"}),
        (["a/softmax (1).ipynb", "b/softmax (1).ipynb"], {"softmax (1)", "softmax (1) (copy)"}),
    ],
)
def test_what_macs_browsers_and_hurried_hands_make_of_a_zip_is_found(tmp_path, places, used):
    write_files(tmp_path, {place: place for place in places})
    assert set(run.handed_in(tmp_path, ["softmax"])[0]) == used


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
def test_the_student_is_read_from_the_metadata(tmp_path, metadata, name):
    (tmp_path / "submission_metadata.json").write_text(json.dumps(metadata))
    assert run.student(tmp_path / "submission_metadata.json") == name
    assert run.student(tmp_path / "nothing.json") == "unknown"


def test_the_scripts_are_bash():
    for name in ("setup.sh", "run_autograder"):
        path = ROOT / "autograder" / "gradescope" / name
        assert subprocess.run([shutil.which("bash"), "-n", str(path)], check=False).returncode == 0
