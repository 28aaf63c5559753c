"""Where a course is, and where its gradebook."""

import tempfile
from pathlib import Path

import pytest

from course import folder
from course.errors import CourseError


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    monkeypatch.delenv(folder.GRADEBOOK_URL, raising=False)
    monkeypatch.delenv(folder.COURSE_DIR, raising=False)


def test_a_course_is_where_it_is_named_or_where_the_environment_says(tmp_path, monkeypatch):
    assert folder.course_folder() == folder.ROOT / "build" / "course"
    monkeypatch.setenv(folder.COURSE_DIR, str(tmp_path))
    assert folder.course_folder() == tmp_path.resolve()
    assert folder.course_folder(tmp_path / "other") == (tmp_path / "other").resolve()


def test_the_gradebook_is_in_the_course_unless_the_environment_names_another(tmp_path, monkeypatch):
    assert folder.gradebook_url(tmp_path) == f"sqlite:///{tmp_path / 'gradebook.db'}"
    monkeypatch.setenv(folder.GRADEBOOK_URL, "postgresql+psycopg://grader@127.0.0.1/attention")
    assert (
        folder.existing_gradebook(tmp_path)
        == folder.gradebook_url(tmp_path)
        == "postgresql+psycopg://grader@127.0.0.1/attention"
    )


@pytest.mark.parametrize("named", [None, "sqlite:///{}/x.db", "sqlite+pysqlite:///{}/x.db?timeout=5"])
def test_to_read_a_gradebook_that_is_not_there_is_an_error_and_makes_none(named, tmp_path, monkeypatch):
    if named:
        monkeypatch.setenv(folder.GRADEBOOK_URL, named.format(tmp_path))
    with pytest.raises(CourseError, match="GRADEBOOK_URL" if named else "release an assignment first"):
        folder.existing_gradebook(tmp_path)
    assert not list(tmp_path.iterdir())


def test_settings_of_the_address_do_not_belong_to_the_files_name(tmp_path, monkeypatch):
    (tmp_path / "x.db").touch()
    monkeypatch.setenv(folder.GRADEBOOK_URL, f"sqlite:///{tmp_path}/x.db?timeout=5")
    assert folder.existing_gradebook(tmp_path).endswith("x.db?timeout=5")


def test_a_course_that_other_users_can_enter_is_named(monkeypatch, tmp_path):
    with tempfile.TemporaryDirectory() as place:
        course = Path(place).resolve() / "course"
        monkeypatch.setattr(folder, "ROOT", tmp_path)
        tmp_path.chmod(0o700)
        assert folder.exposed(course) == []  # not there
        course.mkdir(0o755)
        assert folder.exposed(course) == []  # the folder around it is closed
        course.parent.chmod(0o755)
        assert folder.exposed(course) == [course]
        course.chmod(0o750)
        assert folder.exposed(course) == []


def test_a_course_has_the_name_of_the_environment_if_it_can_be_a_folders(monkeypatch):
    monkeypatch.delenv(folder.COURSE_ID, raising=False)
    assert folder.course_id() == "attention"
    monkeypatch.setenv(folder.COURSE_ID, "attention-2027.b")
    assert folder.course_id() == "attention-2027.b"
    monkeypatch.setenv(folder.COURSE_ID, "../other")
    with pytest.raises(CourseError, match="COURSE_ID is '../other'"):
        folder.course_id()
