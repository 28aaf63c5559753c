"""Every attack of `attacks.py` is one student of one class, graded through the jail with nbgrader's own command."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from course import catalog, release
from course.folder import course_seed
from course.kit.exercise import PUBLIC_SEED
from tests.autograder import processes, small_course
from tests.red_team import course as class_
from tests.red_team.attacks import FULL, MARK, RIGHT, STEM, TARGET, Kit, through

ATTACKS = through("notebook")
pytestmark = [pytest.mark.slow, pytest.mark.long]


@dataclass
class Graded:
    course: Path
    log: str
    before: dict[Path, bytes]
    connected: bool
    left_behind: list[int]

    def record(self, name: str) -> dict:
        return json.loads(self.file("autograded", name, "results.json").read_text("utf-8"))

    def file(self, step: str, name: str, file: str) -> Path:
        return self.course / step / name / STEM / file


@pytest.fixture(scope="session")
def graded(needs_jail, released, tmp_path_factory):
    course = tmp_path_factory.mktemp("red_team") / "course"
    class_.make(released, course)
    os.environ[MARK] = "1"
    with class_.listener() as server:
        kit = Kit(class_.right_notebook(course), course, server.getsockname()[1])
        for name in class_.HONEST:
            class_.hand_in(course, name, lambda folder, kit: kit.fresh(RIGHT), kit)
        again = [attack for attack in ATTACKS if attack.first]
        for attack in again:
            class_.hand_in(course, class_.student(attack), attack.first, kit)
        for attack in again:
            class_.grade(course, "--student", class_.student(attack))
            assert class_.points(course, class_.student(attack)) == FULL  # there is an older score to survive
        for attack in ATTACKS:
            class_.hand_in(course, class_.student(attack), attack.alter, kit, hours=1)
        watched = [course / "submitted" / name / STEM / f"{STEM}.ipynb" for name in class_.HONEST]
        watched += [path for path in (course / "source").rglob("*") if path.is_file()]
        before = {path: path.read_bytes() for path in watched}
        done = class_.grade(course)
        connected = class_.came(server)
    del os.environ[MARK]
    left = processes.running("left-behind-by-red-team")
    release.nbgrader("generate_feedback", STEM, "--force", course=course, check=False)
    return Graded(course, done.stderr, before, connected, left)


@pytest.fixture(scope="session")
def hidden_numbers(graded):
    """The first digits of every number that is drawn from the secret seed, as a page would show it."""

    def drawn(seed):
        materials = [exercise.material(seed, misconceptions=False) for exercise in catalog.exercises_of(STEM).values()]
        return set(class_.long_numbers(materials))

    return drawn(course_seed(graded.course)) - drawn(PUBLIC_SEED)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_what_it_deserves(graded, attack, hidden_numbers):
    name = class_.student(attack)
    found = class_.points(graded.course, name)
    if attack.points is None:
        assert not found or not any(found.values())
    else:
        assert found is not None, "no score was entered"
        for exercise, (least, most) in attack.expected().items():
            assert found[exercise] is not None and least <= found[exercise] <= most, (exercise, found)
    if graded.file("autograded", name, "results.json").exists():
        _look_at_the_record(graded, attack, name)
        _look_for_leaks(graded, attack, name, hidden_numbers)
    else:
        assert attack.points is None


def _look_at_the_record(graded, attack, name):
    record = graded.record(name)
    work = record["notebooks"][STEM]
    notes = [*record["notes"], *work["notes"], f"could not be read: {work['refused']}" if work["refused"] else ""]
    assert not attack.note or any(attack.note in note for note in notes), notes
    assert not attack.flag or any(attack.flag in flag["text"] for flag in work["flags"]), work["flags"]
    reasons = [exercise["reason"] or "" for exercise in work["exercises"]]
    assert not attack.reason or any(attack.reason in reason for reason in reasons), reasons
    with small_course.book(graded.course) as gradebook:
        grade = gradebook.find_grade(f"check-{TARGET}", STEM, STEM, name)
        assert grade.needs_manual_grade == attack.manual


def _look_for_leaks(graded, attack, name, hidden_numbers):
    texts = {"record": graded.file("autograded", name, "results.json").read_text("utf-8"), "outputs": "", "page": ""}
    notebook = graded.file("autograded", name, f"{STEM}.ipynb")
    page = graded.file("feedback", name, f"{STEM}.html")
    if notebook.exists():
        assert notebook.stat().st_size < 10_000_000
        cells = nbformat.read(notebook, as_version=4).cells
        texts["outputs"] = json.dumps([cell.get("outputs") for cell in cells])
    if page.exists():
        texts["page"] = page.read_text("utf-8")
    for where, text in texts.items():
        for words in (*attack.absent, str(course_seed(graded.course)), str(graded.course / "source")):
            assert words not in text, (where, words)
        seen = hidden_numbers & set(re.findall(class_.LONG_NUMBER, text))
        assert not seen, (where, seen)
    for words in attack.not_in_page:
        assert words not in texts["page"]


@pytest.mark.parametrize("name", class_.HONEST)
def test_honest_students_keep_what_they_earned(graded, name):
    assert class_.points(graded.course, name) == FULL
    work = graded.record(name)["notebooks"][STEM]
    assert work["notes"] == ["code in a cell that was not handed out: import numpy as np"]
    assert work["flags"] == []
    assert graded.file("feedback", name, f"{STEM}.html").exists()


def test_each_submission_that_can_be_graded_has_feedback(graded):
    for attack in ATTACKS:
        if attack.points is not None:
            assert graded.file("feedback", class_.student(attack), f"{STEM}.html").exists(), attack.name


def test_submissions_and_the_source_stay_as_they_were(graded):
    assert {path: path.read_bytes() for path in graded.before} == graded.before


def test_no_attack_leaves_the_jail(graded):
    assert not graded.connected
    assert graded.left_behind == []
    assert list((graded.course / ".grading").iterdir()) == []


def test_only_regular_files_are_in_the_graded_folders(graded):
    found = list((graded.course / "autograded").rglob("*"))
    assert found and not any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in found)
