"""`python -m autograder try NAME FILE... [--json]` on real exercises, as an instructor runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from autograder import __main__ as command_line
from autograder.grading.single_file import grade_file
from course import catalog
from course.folder import ROOT, course_seed
from tests.conftest import each_chapter

RIGHT = """import numpy as np
def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
NO_MAXIMUM = """import numpy as np
def softmax(x, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
"""


@pytest.fixture
def attempt_here(capfd, jail_if_there_is_one):
    """The same command in this process, which has imported everything. The file is run in one of its own as ever."""

    def run(*arguments) -> subprocess.CompletedProcess:
        capfd.readouterr()
        status = command_line.main(["try", *map(str, arguments)])
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return run


def records(run) -> list[dict]:
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture
def file(tmp_path):
    def write(name: str, content: str | bytes):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_each_file_is_one_json_object_on_one_line(file, jail_if_there_is_one):
    paths = [
        file("right.py", RIGHT),
        file("two words.py", NO_MAXIMUM),
        file("stub.py", "def softmax(x, axis=-1):\n    raise NotImplementedError\n"),
        file("leaves.py", "import os; os._exit(7)"),
        file("nothing.py", ""),
        file("mark.py", b"\xef\xbb\xbf" + RIGHT.encode()),
    ]
    command = [sys.executable, "-m", "autograder", "try", "softmax", *paths, "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and run.stderr == ""
    found = records(run)
    assert [entry["file"] for entry in found] == [str(path) for path in paths]
    full = catalog.exercise("softmax").points
    assert [entry["points"] for entry in found[2:]] == [0, 0, 0, full] and found[0]["points"] == full
    for entry in found:
        assert entry["exercise"] == "softmax" and entry["max_points"] == full
        assert entry["points"] == sum(p["points"] for p in entry["properties"])
        for part in entry["properties"]:
            assert {"title", "passed", "points", "hint", "misconception"} <= part.keys()
            assert part["passed"] or isinstance(part["hint"], str)
    assert any("maximum" in (p["misconception"] or "") for p in found[1]["properties"])
    assert found[2]["reason"] == "softmax is not done yet" and "exit code 7" in found[3]["reason"]


def test_without_json_it_prints_a_table_a_file(file, attempt_here):
    run = attempt_here("softmax", file("right.py", RIGHT), file("wrong.py", NO_MAXIMUM), file("bad.py", "1 / 0"))
    full = f"{catalog.exercise('softmax').points:g}"
    assert run.returncode == 0 and run.stderr == ""
    assert f"right.py: {full} of {full} points" in run.stdout and " no   " in run.stdout
    assert f"bad.py: 0 of {full} points: the file raised ZeroDivisionError in line 1: division by zero" in run.stdout


def test_files_that_cannot_be_read_are_a_line_each_and_a_status_and_the_next_goes_on(file, tmp_path, attempt_here):
    broken, latin = file("broken.py", "def softmax(:\n"), file("latin.py", b"x = '\xe9'\n")
    run = attempt_here("softmax", broken, latin, tmp_path / "absent.py", file("right.py", RIGHT), "--json")
    *unread, last = records(run)
    said = ("broken.py, line 1: syntax error: ", "latin.py: not a text file in UTF-8", "absent.py: no such file")
    for record, line, words in zip(unread, run.stderr.splitlines(), said, strict=True):
        assert record["points"] == 0 and words in record["reason"] and words in line
    assert run.returncode != 0 and last["points"] == last["max_points"]


def test_an_answer_that_prints_does_not_disturb_the_json(file, attempt_here):
    noisy = "print('{')\nimport os\nos.write(1, b'noise')\nos.write(2, b'noise')\n"
    noisy += RIGHT.replace("    e =", "    print(x); e =")
    run = attempt_here("softmax", file("noisy.py", noisy), "--json")
    assert run.stderr == "" and records(run)[0]["points"] == catalog.exercise("softmax").points


@pytest.mark.long
def test_a_file_that_hangs_gets_a_reason_after_ten_seconds_and_the_next_goes_on(file, attempt_here):
    hangs = file("hangs.py", "import time\ndef softmax(x, axis=-1):\n    time.sleep(600)\n")
    run = attempt_here("softmax", hangs, file("right.py", RIGHT), "--json")
    first, second = records(run)
    assert first["points"] == 0 and first["reason"] == "no answer within 10 seconds of processor time"
    assert second["points"] == second["max_points"] and run.returncode == 0


def test_nothing_hidden_is_in_the_output(file, attempt_here):
    tell = "def softmax(x, axis=-1):\n    raise type('E' + repr(x.tolist()), (ValueError,), {})(repr(x.tolist()))\n"
    hidden = catalog.exercise("softmax").material(course_seed(), misconceptions=False)
    for path in (file("tell.py", tell), file("same.py", "def softmax(x, axis=-1):\n    return x * 1.5\n")):
        for flags in ([], ["--json"]):
            run = attempt_here("softmax", path, *flags)
            for prop in hidden["properties"]:
                for case in prop["cases"]:
                    for number in case["x"].ravel().tolist():
                        assert float(number).is_integer() or f"{abs(number):.6g}"[:7] not in run.stdout


@pytest.mark.parametrize("stem", each_chapter("softmax", "rope"))
def test_an_exercise_of_every_chapter_takes_its_reference_as_a_file(stem, jail_if_there_is_one):
    """The chapter's solutions as one file: what a student who is done has."""
    report = grade_file(ROOT / "solutions" / f"{stem}.py", next(iter(catalog.exercises_of(stem).values())))
    assert report.points == report.max_points
