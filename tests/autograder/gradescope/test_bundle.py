"""The zip for Gradescope holds what grading takes, and nothing of the course's folder beside."""

import datetime
import stat
import zipfile
from importlib.metadata import version

import pytest

from autograder.__main__ import main
from autograder.gradescope import bundle as bundles
from autograder.grading import messages
from course import catalog, prerequisites
from course.folder import course_seed


@pytest.fixture
def archive(bundle):
    with zipfile.ZipFile(bundle) as archive:
        yield archive


def test_the_two_scripts_are_at_its_root_and_can_be_run(archive):
    for name in ("setup.sh", "run_autograder"):
        info = archive.getinfo(name)
        assert stat.S_IMODE(info.external_attr >> 16) == 0o755
        assert archive.read(name).startswith(b"#!/usr/bin/env bash\n")


def test_it_is_readable_by_its_owner_alone_for_it_holds_answers(bundle, archive):
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert "course/solutions/attention.py" in archive.namelist()


def test_neither_seed_nor_gradebook_is_in_it(course, archive):
    seed = str(course_seed(course)).encode()
    for name in archive.namelist():
        assert seed not in archive.read(name) and not name.endswith(".db") and "__pycache__" not in name


def test_libraries_are_pinned_to_the_versions_here(archive):
    lines = archive.read("requirements.txt").decode().split()
    assert f"numpy=={version('numpy')}" in lines and all("==" in line and "+" not in line for line in lines)


def test_the_time_of_a_submission_is_less_than_gradescope_gives(archive):
    record, _ = messages.unwrap(archive.read("assignment.bin"))
    assert record["settings"]["times"]["submission"] == 5 * 60 - bundles.SPARE_SECONDS


def test_points_are_those_of_checks_without_bonus_and_written_answers(archive):
    assert bundles.points(archive.read("assignment.bin")) == catalog.exercise("attention_weights").points


def test_an_assignment_that_is_not_there_is_named(course, capsys):
    assert main(["gradescope", "nothing_such", "--course", str(course)]) == 2
    assert "nothing_such" in capsys.readouterr().err


def test_earlier_chapters_that_are_not_due_are_named_in_one_line(course, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(prerequisites, "not_due", lambda *_: {"masks": datetime.datetime(2999, 1, 31, 18)})
    assert main(["gradescope", "attention", "--course", str(course), "--to", str(tmp_path / "a.zip")]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "attention builds on answers of masks, which can be handed in until 2999-01-31 18:00 UTC" in line
    assert not (tmp_path / "a.zip").exists()
