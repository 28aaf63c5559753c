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
