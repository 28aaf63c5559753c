"""A signed record says what the gradebook says, and any change of it shows."""

import base64
import json
import stat

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.reports import signed_record


@pytest.fixture
def course(tmp_path):
    """A course with two assignments: ada has 7 of 10 points in one, and the other waits for a human."""
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_student("ada", first_name="Ada", last_name="Lovelace")
        gradebook.add_student("boris")
        for name, waits in (("softmax", False), ("masks", True)):
            gradebook.add_assignment(name)
            gradebook.add_notebook(name, name)
            gradebook.add_grade_cell("a", name, name, max_score=10, cell_type="code")
            gradebook.add_submission(name, "ada")
            (grade,) = gradebook.find_submission_notebook(name, name, "ada").grades
            grade.auto_score, grade.needs_manual_grade = 7.0, waits
            gradebook.db.commit()
    return tmp_path


def written(course, *more):
    to = course / "record.json"
    assert main(["record", "ada", "--course", str(course), "--to", str(to), *more]) == 0
    return json.loads(to.read_text("utf-8"))


def verify(file):
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(file["key"]))
    key.verify(base64.b64decode(file["signature"]), file["record"].encode())


def test_a_record_holds_what_is_graded_to_the_end_and_no_name_unless_one_is_given(course, capsys):
    file = written(course)
    verify(file)
    record = json.loads(file["record"])
    assert record["chapters"] == [{"chapter": "softmax", "points": 7.0, "of": 10.0}]
    assert record["course"] == "attention" and "Lovelace" not in file["record"] and "ada" not in file["record"]
    assert "wait for a human: masks" in capsys.readouterr().out
    named = written(course, "--name", "Ada Łovelace")
    verify(named)
    assert json.loads(named["record"])["name"] == "Ada Łovelace"
    assert named["key"] == file["key"]  # the course has one key


def test_a_changed_record_does_not_fit_its_signature(course):
    file = written(course)
    with pytest.raises(InvalidSignature):
        verify({**file, "record": file["record"].replace("7.0", "9.0")})


def test_the_private_key_is_for_its_owner_alone_and_in_no_record(course):
    file = written(course)
    path = course / signed_record.KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "PRIVATE" in path.read_text() and "PRIVATE" not in json.dumps(file)


@pytest.mark.parametrize(
    "student, words", [("eve", "no student 'eve'"), ("boris", "nothing of boris is graded to the end yet")]
)
def test_there_is_no_record_of_nothing(course, capsys, student, words):
    to = course / "record.json"
    assert main(["record", student, "--course", str(course), "--to", str(to)]) == 2
    assert words in capsys.readouterr().err and not to.exists()


def test_a_file_that_is_not_such_a_key_is_refused(course, capsys):
    (course / signed_record.KEY).write_text("no key")
    assert main(["record", "ada", "--course", str(course), "--to", str(course / "record.json")]) == 2
    assert "cannot be read as a key" in capsys.readouterr().err
