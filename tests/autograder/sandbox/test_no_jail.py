"""Where there is no jail: nbgrader's command refuses, what is the course's own goes on, `--no-jail` is heard."""

from __future__ import annotations

import os

import pytest

from autograder.__main__ import main
from autograder.demo import sample_class
from autograder.sandbox import bubblewrap
from course import release
from course.folder import ROOT

RIGHT = (ROOT / "solutions" / "softmax.py").read_text("utf-8")


@pytest.fixture
def hidden(monkeypatch):
    """A machine without a jail, where the jail is not switched off."""
    monkeypatch.setattr(bubblewrap, "problem", lambda: "there is no jail today")
    monkeypatch.setenv(bubblewrap.NO_JAIL, "")


@pytest.fixture
def graded(monkeypatch):
    """Whether a jail was required when the sample class was to be graded."""
    seen = []
    monkeypatch.setattr(sample_class, "run", lambda course, stems: seen.append(bubblewrap.required()) or 0)
    return seen


def test_autograde_refuses_in_one_line_before_anything_is_touched(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(bubblewrap.NO_JAIL, raising=False)
    course = tmp_path / "course"
    done = release.nbgrader("autograde", "softmax", course=course, check=False)
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert done.returncode != 0 and "bubblewrap is not installed" in line and f"{bubblewrap.NO_JAIL}=1" in line
    assert "Traceback" not in done.stderr and not course.exists()


def test_the_sample_class_is_graded_without_a_jail_and_a_line_says_so(hidden, graded, capsys):
    assert main(["sample"]) == 0 and graded == [False]
    (line,) = capsys.readouterr().err.splitlines()
    assert "without a jail" in line and "there is no jail today" in line


def test_the_sample_class_is_graded_in_the_jail_where_there_is_one(hidden, graded, monkeypatch, capsys):
    monkeypatch.setattr(bubblewrap, "problem", lambda: None)
    assert main(["sample"]) == 0 and graded == [True] and capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["sample", "--no-jail"], ["try", "softmax", "FILE", "--no-jail"]])
def test_the_option_no_jail_switches_the_jail_off_without_a_message(hidden, graded, tmp_path, capsys, arguments):
    (tmp_path / "right.py").write_text(RIGHT)
    assert main([str(tmp_path / "right.py") if word == "FILE" else word for word in arguments]) == 0
    assert os.environ[bubblewrap.NO_JAIL] == "1" and capsys.readouterr().err == ""


def test_a_file_is_not_tried_without_a_jail(hidden, tmp_path, capsys):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'was_here')!r}, 'w')")
    assert main(["try", "softmax", str(tmp_path / "evil.py")]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert "there is no jail today" in line and not said.out and not (tmp_path / "was_here").exists()
