"""Grading a file, a source or a live object gives one and the same report, and tells nothing hidden."""

from __future__ import annotations

import os
import stat

import pytest

from autograder.grading import single_file
from autograder.grading.results import as_record
from autograder.grading.single_file import Unreadable, grade_file, grade_object, grade_source, read_source
from course import catalog
from course.errors import CourseError
from course.folder import course_seed, seed_path
from tests.course.toy_exercise import RIGHT, make

SEED = 77
TOY = make()
pytestmark = pytest.mark.usefixtures("jail_if_there_is_one")


def grade(source: str):
    return grade_source(source, "answer.py", TOY, seed=SEED)


def live(source: str):
    namespace: dict = {}
    exec(compile(source, "answer.py", "exec"), namespace)
    return namespace["doubled"]


ONCE = "import numpy as np\ndef doubled(x, times=1):\n    if np.ndim(x) != 1: raise ValueError\n    return x * 2.0\n"
HEAD = "def doubled(x, times=1):\n    "
SQUARED, ODD, STUB = f"{HEAD}return x * x\n", f"{HEAD}return x * 2.0 + 0.1\n", f"{HEAD}raise NotImplementedError\n"
ONE_PARAMETER = "def doubled(x):\n    return x\n"


@pytest.mark.parametrize("source", [RIGHT, ONCE, SQUARED, ODD, STUB, ONE_PARAMETER, f"{HEAD}return 1 / 0\n"])
def test_a_live_object_gets_the_same_report_as_its_file(source):
    assert as_record(grade_object(live(source), TOY, seed=SEED), "f") == as_record(grade(source), "f")


def test_points_are_earned_per_property():
    report = grade(ONCE)
    assert [(f.passed, f.points) for f in report.findings] == [(False, 0.0), (True, 1.0), (True, 1.0)]
    assert report.points == 2.0 and report.max_points == 4.0


def test_a_known_mistake_is_named_with_its_section():
    finding = grade(ONCE).findings[0]
    assert finding.misconception == "The number of doublings is ignored." and finding.section == "How often"


def test_an_unknown_mistake_gets_no_name_but_the_hint():
    record = as_record(grade(ODD), "f")
    assert record["properties"][0]["misconception"] is None
    assert record["properties"][0]["hint"] == "Multiply by two, as often as asked."


def test_every_failed_property_of_an_answer_that_ran_has_a_hint():
    for source in (ONCE, SQUARED, ODD, f"{HEAD}raise ValueError\n"):
        for entry in as_record(grade(source), "f")["properties"]:
            assert isinstance(entry["hint"], str) and entry["hint"] or entry["passed"] and entry["hint"] is None


def test_a_stub_is_not_done_and_earns_nothing():
    report = grade(STUB)
    assert report.not_done and report.points == 0 and report.reason == "doubled is not done yet"


def test_a_file_without_the_function_says_so():
    assert grade("x = 1").reason == "the file does not define: doubled"
    assert grade("").reason == "the file does not define: doubled"
    assert grade("doubled = 3").reason == "the file defines as something that cannot be called: doubled"


def test_changed_parameters_get_their_own_words():
    assert "has no parameter `times`" in grade(ONE_PARAMETER).reason
    assert "has `n` where `times` should be" in grade("def doubled(x, n):\n    return x\n").reason
    assert "also requires `y`" in grade("def doubled(x, y, times=1):\n    return x\n").reason


@pytest.mark.parametrize(
    "source",
    [
        RIGHT.replace("times=1)", "times=1, verbose=False)"),
        "import warnings\n" + RIGHT.replace("return", "warnings.warn('careful')\n    return"),
        RIGHT + "\nif __name__ == '__main__':\n    raise SystemExit(1)\n",
    ],
    ids=["another parameter with a default", "a warning", "lines for a script"],
)
def test_additions_that_change_no_result_cost_nothing(source):
    assert grade(source).passed


# Reading files -----------------------------------------------------------------------------------------------------


def refusal(path) -> str:
    with pytest.raises(Unreadable) as refused:
        read_source(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_each_file_that_cannot_be_read_gets_one_line(tmp_path):
    def file(name: str, content: bytes):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    assert refusal(tmp_path / "none.py").endswith("none.py: no such file")
    assert refusal(tmp_path).endswith(": a folder, not a file")
    assert refusal(file("a.py", b"def f(:\n")).endswith("a.py, line 1: syntax error: invalid syntax")
    assert refusal(file("b.py", b"x = '\xff\xfe'\n")).endswith("b.py: not a text file in UTF-8")
    assert "null" in refusal(file("c.py", b"x = 1\0\n"))
    assert "larger than" in refusal(file("d.py", b"#" * (single_file.MAX_SOURCE + 1)))
    assert "d deep.py" in refusal(file("d deep.py", b"(" * 5000 + b")" * 5000))
    assert "e.py" in refusal(file("e.py", b"x = " + b"-" * 200_000 + b"1"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    assert "no such file" in refusal(tmp_path / "pipe.py")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    path = tmp_path / "two words é.py"
    path.write_bytes(b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode())
    assert grade_file(path, TOY, seed=SEED).passed


def test_a_doubtful_escape_in_the_source_is_silent(tmp_path, recwarn):
    path = tmp_path / "a.py"
    path.write_text(r"pattern = '\d'" + "\n" + RIGHT)
    assert grade_file(path, TOY, seed=SEED).passed and not recwarn.list


def test_the_answer_does_not_learn_the_folder_of_its_file(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("raise ValueError(f'it is {__file__} {__name__}')")
    reason = grade_file(path, TOY, seed=SEED).reason
    assert "it is answer.py submission" in reason and str(tmp_path) not in reason


# The secret seed ---------------------------------------------------------------------------------------------------


def test_the_seed_is_made_once_and_only_its_owner_can_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DIR", str(tmp_path))
    first = course_seed()
    assert course_seed() == first and first >= 0
    assert stat.S_IMODE(seed_path().stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret_seed"]


def test_a_spoilt_seed_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DIR", str(tmp_path))
    seed_path().write_text("")
    with pytest.raises(CourseError, match="delete it"):
        course_seed()


def test_without_a_seed_given_the_courses_own_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DIR", str(tmp_path))
    assert grade_object(live(RIGHT), TOY).passed and seed_path().exists()


def test_a_refusal_in_the_students_own_words_is_named():
    source = (
        "def cosine_similarity(a, b):\n    if a.shape != b.shape or not a.any() or not b.any():\n"
        "        raise ValueError('nothing to compare')\n    return a @ b / (a @ a) ** 0.5 / (b @ b) ** 0.5\n"
    )
    report = grade_source(source, "answer.py", catalog.exercise("cosine_similarity"), seed=8191)
    assert ["refused with an error" in (f.misconception or "") for f in report.findings if not f.passed] == [True]
