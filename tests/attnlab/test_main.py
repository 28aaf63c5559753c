"""`python -m attnlab NOTEBOOK`: the public checks of a notebook, from a terminal and in GitHub Classroom's workflow."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook

from attnlab.__main__ import main
from course import assemble
from course.folder import ROOT

WORKFLOW = ROOT / "guides" / "classroom.yml"
IMPORTS = "import numpy as np\nfrom attnlab import check"
DOT = """def dot(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ValueError("lengths differ")
    return (a * b).sum()"""
STUB = "def cosine_similarity(a, b):\n    raise NotImplementedError"
ANSWERS = [IMPORTS, DOT, "check(dot)", STUB, "1 / 0"]


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """`notebook(*sources)` is a file with these cells; the name of what a cell defines is in its metadata."""
    monkeypatch.chdir(tmp_path)

    def make(*sources: str, name: str = "dot_products.ipynb", marked: bool = True) -> Path:
        cells = [new_code_cell(source) for source in sources]
        for cell in cells if marked else []:
            if cell.source.startswith("def "):
                cell.metadata["nbgrader"] = {"grade_id": cell.source[4:].split("(")[0], "solution": True}
        nbformat.write(new_notebook(cells=cells), tmp_path / name)
        return tmp_path / name

    return make


def test_each_exercise_of_the_chapter_is_checked_and_its_points_are_told(notebook, capsys):
    assert main([str(notebook(*ANSWERS))]) == 1
    out = capsys.readouterr().out
    first, second = out.index("dot   "), out.index("cosine_similarity   ")
    assert (
        first < second
        and "not done yet" in out
        and "matmul" in out
        and "does not define matmul" in " ".join(out.split())
    )
    assert "dot_products.ipynb: 6 of " in out.splitlines()[-1]


@pytest.mark.parametrize("marked, name", [(False, "dot_products.ipynb"), (False, "Copy of x.ipynb"), (True, "a.ipynb")])
def test_a_notebook_without_marks_or_under_another_name_is_checked_all_the_same(notebook, capsys, marked, name):
    assert main([str(notebook(*ANSWERS, name=name, marked=marked))]) == 1
    assert f"{name}: 6 of " in capsys.readouterr().out


def test_a_line_that_fails_costs_what_needs_it_and_nothing_else(notebook, capsys):
    needs = DOT.replace(".sum()", ".sum(scale)")
    main([str(notebook("import numpy as np\nnp.nothing_such\nscale = np.nothing_such", needs))])
    said = " ".join(capsys.readouterr().out.split())
    assert "dot needs a line that fails" in said and "nothing_such" in said and ": 0 of " in said
    main([str(notebook("import numpy as np\nnp.nothing_such\nscale = np.nothing_such", DOT))])
    assert ": 6 of " in capsys.readouterr().out


def test_a_bonus_is_not_needed_for_success(notebook, capsys):
    made = assemble.source_notebook("attention")
    for cell in made.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "attention_backward":
            cell.source = "def attention_backward(Q, K, V, d_output):\n    raise NotImplementedError"
    nbformat.write(made, "attention.ipynb")
    assert main(["attention.ipynb"]) == 0
    assert "not done yet" in capsys.readouterr().out


@pytest.mark.parametrize("text, words", [("{", "cannot be read as a notebook"), (None, "there is no ")])
def test_a_file_that_is_not_a_notebook_is_reported_in_one_line(tmp_path, capsys, text, words):
    if text:
        (tmp_path / "a.ipynb").write_text(text)
    assert main([str(tmp_path / "a.ipynb")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("check: ") and words in line


def test_a_notebook_of_another_course_is_told_in_a_line(notebook, capsys):
    assert main([str(notebook("x = 1"))]) == 2
    assert "contains no exercise of the course" in capsys.readouterr().err


# JSON ----------------------------------------------------------------------------------------------------------------


def told(capsys, *arguments: str) -> tuple[int, dict]:
    """The exit status, and what was printed as JSON."""
    try:
        status = main([*arguments, "--json"])
    except SystemExit as error:
        status = error.code
    return status, json.loads(capsys.readouterr().out)


def test_as_json_each_exercise_has_its_points_and_findings(notebook, capsys):
    plain = "def cosine_similarity(a, b):\n    return a @ b"
    status, found = told(capsys, "check", str(notebook(IMPORTS, DOT, plain)))
    assert (status, found["notebook"], found["passed"]) == (1, "dot_products.ipynb", False)
    exercises = {exercise["name"]: exercise for exercise in found["exercises"]}
    assert list(exercises)[:3] == ["dot", "cosine_similarity", "matmul"]
    dot, cosine, matmul = list(exercises.values())[:3]
    assert (dot["passed"], dot["points"], dot["max_points"]) == (True, 6, 6)
    assert all(finding["passed"] and finding["sentence"] == "" for finding in dot["findings"])
    first, _, again, _ = cosine["findings"]
    assert first["title"] == "gives the cosine of the angle" and "plain dot product" in first["sentence"]
    assert first["section"] == "Direction without length" and first["passed"] is False
    assert again["sentence"].startswith("The same mistake") and "(" not in again["title"]
    assert (matmul["judged"], matmul["findings"], matmul["points"]) == (False, [], 0)
    assert "does not define matmul" in matmul["sentence"]
    assert found["points"] == sum(exercise["points"] for exercise in found["exercises"])
    assert found["max_points"] == sum(e["max_points"] for e in found["exercises"] if not e["bonus"])


def test_as_json_an_unknown_mistake_comes_with_an_example(notebook, capsys):
    _, found = told(capsys, str(notebook(IMPORTS, "def cosine_similarity(a, b):\n    return 0.123 + a[0]")))
    (cosine,) = [exercise for exercise in found["exercises"] if exercise["name"] == "cosine_similarity"]
    assert any("0.123" in line or "expected" in line for finding in cosine["findings"] for line in finding["example"])


def test_the_json_and_the_exit_status_of_a_right_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    nbformat.write(assemble.source_notebook("dot_products"), "dot_products.ipynb")
    status, found = told(capsys, "check", "dot_products.ipynb")
    assert (status, found["passed"], found["points"]) == (0, True, found["max_points"])


def test_what_a_notebook_prints_is_not_in_the_json(notebook, capsys):
    noisy = DOT.replace("def dot(a, b):", "def dot(a, b, noise=print('noise')):")
    assert main([str(notebook(IMPORTS, noisy)), "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["points"] == 6 and "noise" in captured.err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["check", "none.ipynb"], "there is no none.ipynb"),
        (["empty.ipynb"], "cannot be read as a notebook"),
        (["check"], "required: NOTEBOOK"),
        (["dot_products.ipynb", "--github"], "not allowed with"),
    ],
)
def test_errors_are_json_too(notebook, tmp_path, capsys, arguments, words):
    notebook(*ANSWERS)
    (tmp_path / "empty.ipynb").write_text("{")
    status, found = told(capsys, *arguments)
    assert status == 2 and list(found) == ["error"] and words in found["error"]


def test_a_failure_of_the_check_itself_is_json_too(notebook, monkeypatch, capsys):
    def broken(path):
        raise RuntimeError("out of order")

    monkeypatch.setattr("attnlab.__main__.checked", broken)
    status, found = told(capsys, "check", str(notebook(*ANSWERS)))
    assert status == 2 and found["error"] == "the check itself failed: RuntimeError: out of order"


def test_a_line_that_ends_python_is_reported_like_one_that_fails(notebook, capsys):
    _, found = told(capsys, str(notebook("import sys\nsys.exit(3)\nscale = sys.exit(4)", "def dot(a, b):\n    scale")))
    (dot,) = [exercise for exercise in found["exercises"] if exercise["name"] == "dot"]
    assert "dot needs a line that fails" in dot["sentence"] and "SystemExit: 4" in dot["sentence"]


def test_the_terminal_says_what_the_check_in_a_notebook_says(notebook, capsys):
    """Also where a library's function does the work, and about the answer as a whole."""
    unused = "def cosine_similarity(a, b):\n    return (a * a).sum()"
    library = "def matmul(A, B):\n    return np.matmul(A, B).tolist()"
    _, found = told(capsys, str(notebook(IMPORTS, unused, library)))
    exercises = {exercise["name"]: exercise for exercise in found["exercises"]}
    assert exercises["matmul"]["points"] == 0 and "does the whole work" in exercises["matmul"]["sentence"]
    assert "never uses its argument b" in exercises["cosine_similarity"]["sentence"]
    main([str(notebook(IMPORTS, unused, library))])
    said = " ".join(capsys.readouterr().out.split())
    assert "does the whole work" in said and exercises["cosine_similarity"]["sentence"] in said


# GitHub Classroom ----------------------------------------------------------------------------------------------------


def reported(notebook: Path, monkeypatch) -> dict:
    """Read the step's output as the reporter does: JSON in base64."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(notebook.with_suffix(".out")))
    assert main([str(notebook), "--github"]) == 0  # whether that is a failure, the reporter says
    name, _, value = notebook.with_suffix(".out").read_text().strip().partition("=")
    assert name == "result" and "\n" not in value
    return json.loads(base64.b64decode(value, validate=True))


def test_the_reporter_gets_points_of_each_exercise(notebook, monkeypatch, capsys):
    results = reported(notebook(*ANSWERS), monkeypatch)
    tests = {test["name"]: test for test in results["tests"]}
    assert results["version"] == 1 and results["status"] == "fail"
    assert tests["dot"]["status"] == "pass" and tests["dot"]["score"] == 6 and tests["dot"]["message"] is None
    assert tests["cosine_similarity"]["score"] == 0 and "not done yet" in tests["cosine_similarity"]["message"]
    # Its sum of points, and the most, as it makes them.
    said = capsys.readouterr().out.splitlines()[-1]
    total = sum(test["score"] for test in results["tests"])
    assert f"{total} of {results['max_score']} points" in said


def test_without_githubs_variable_it_says_what_is_missing(notebook, monkeypatch, capsys):
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    with pytest.raises(SystemExit):
        main([str(notebook(*ANSWERS)), "--github"])
    assert "GITHUB_OUTPUT" in capsys.readouterr().err


def test_the_workflow_is_valid_has_no_secret_and_runs_this_command():
    check = [
        Path(sys.executable).with_name("check-jsonschema"),
        "--builtin-schema",
        "vendor.github-workflows",
        WORKFLOW,
    ]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    text = WORKFLOW.read_text("utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    check, report = job["steps"][-2:]
    assert (
        check["run"] == 'python -m attnlab "$NOTEBOOK" --github' and "secrets" not in text and "autograder/" not in text
    )
    # The reporter looks for ID_RESULTS in capitals, for each id in `runners`.
    assert report["env"] == {f"{check['id'].upper()}_RESULTS": f"${{{{ steps.{check['id']}.outputs.result }}}}"}
    assert report["with"]["runners"] == check["id"]
