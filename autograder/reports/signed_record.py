"""Sign what a student has done: `python -m autograder record STUDENT --to FILE`.

The file is JSON of three texts: `record`, itself JSON with the course, the day and the points of each chapter;
`signature`, of the UTF-8 bytes of `record`; and `key`, the public key, both in base64. The signature is Ed25519 (RFC
8032). The page `appendices/record.md` verifies such a file in a reader's browser, and needs no server.

No name is in a record, unless the student wants one there: the file is for the student to show.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from autograder.gradebook import scores
from course.errors import CourseError
from course.folder import course_folder, course_id

KEY = "record_key.pem"  # in the course's folder, which is the instructor's alone


def run(student: str, to: Path, name: str | None = None, course: Path | None = None) -> None:
    """Write the record of a student, and print its public key.

    name: what the student wants to be called in it. Raises CourseError if nothing of the student is graded
    """
    course = course_folder(course)
    with scores.opened(course) as gradebook:
        known = [one.id for one in scores.students(gradebook)]
        if student not in known:
            raise CourseError(f"the gradebook has no student {student!r}")
        found = [scores.read(gradebook, str(assignment.name)) for assignment in gradebook.assignments]
    chapters, waiting = [], []
    for one in sorted(found, key=lambda one: one.assignment):
        submission = one.submissions.get(student)
        if submission is None or not submission.grades:
            continue
        if submission.to_grade:
            waiting.append(one.assignment)
        else:
            chapters.append({"chapter": one.assignment, "points": submission.total, "of": one.max_score})
    if waiting:
        print(f"left out, since they wait for a human: {', '.join(waiting)}")
    if not chapters:
        raise CourseError(f"nothing of {student} is graded to the end yet")
    key = private_key(course)
    to.write_text(json.dumps(signed(chapters, key, name)) + "\n", "utf-8")
    print(to)
    print(f"signed with the key {public_text(key)}")


def signed(chapters: list[dict], key: Ed25519PrivateKey, name: str | None = None) -> dict[str, str]:
    """Return the record of these chapters as the file has it. chapters: each with `chapter`, `points` and `of`"""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {"course": course_id(), **({"name": name} if name else {}), "issued": today, "chapters": chapters}
    text = json.dumps(record, ensure_ascii=False)
    return {
        "record": text,
        "signature": base64.b64encode(key.sign(text.encode())).decode("ascii"),
        "key": public_text(key),
    }


def public_text(key: Ed25519PrivateKey) -> str:
    """Return the public key as 32 bytes in base64."""
    raw = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(key.public_key().public_bytes(*raw)).decode("ascii")


def private_key(course: Path) -> Ed25519PrivateKey:
    """Read the course's key, or make one that its owner alone can read. Raises CourseError if it is not such a key."""
    path = course / KEY
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes(*form))
        return key
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise CourseError(f"{path} cannot be read as a key: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CourseError(f"{path} is not an Ed25519 key")
    return key
