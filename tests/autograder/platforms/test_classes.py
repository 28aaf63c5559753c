"""Classes of forty from every platform: none merged, none lost, and all that is odd told, by many seeds."""

import csv
import datetime
import random
import re

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.platforms import collect
from course import catalog, release
from course.errors import CourseError
from tests.autograder import small_course
from tests.autograder.platforms import classes
from tests.autograder.platforms.handed_in import course as new_course
from tests.autograder.platforms.handed_in import notebook
from tests.conftest import the_others_weekly

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))]
ZONE = datetime.UTC


def answer(student: str, attempt: int) -> bytes:
    return notebook().replace(b"return x", f"return x  # {student}, {attempt}".encode())


@pytest.fixture
def course(tmp_path):
    folder = new_course(tmp_path / "course")
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("softmax", duedate=classes.DUE)
    return folder


def taken(course):
    return {path.parts[-3]: path.read_bytes() for path in (course / "submitted").glob("*/softmax/softmax.ipynb")}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", classes.LAYOUTS)
def test_each_student_is_collected_under_their_own_id_and_the_others_are_named(course, tmp_path, layout, seed):
    of = classes.drawn(seed, answer, notebook("multi_head"))
    source, listed = classes.written(of, layout, "softmax", tmp_path / "first")
    rows = collect.collect("softmax", [source], course, listed, ZONE)
    wanted = {one.id: one.taken for one in of.members if one.taken}
    assert taken(course) == wanted
    said = {row.student: f"{row.status} {'; '.join(row.notes)}" for row in rows}
    for one in of.members:
        if one.taken is None and one.listed:
            assert said[one.id].startswith(collect.LEFT_OUT) and "notebook" in said[one.id], (one, said[one.id])
        if one.accident == "guest":
            guest = [words for words in said.values() if "roster" in words]
            assert len(guest) == 1
        if one.accident == "resubmitted" and layout in ("canvas", "ilias"):
            assert "check that this is right" in said[one.id]
        if one.accident == "renamed":
            assert "softmax from" in said[one.id]
    assert collect.print_outcome("softmax", rows) == 1
    if layout in classes.WITH_TIMES:
        for one in of.members:
            if one.taken:
                stamp = (course / "submitted" / one.id / "softmax" / "timestamp.txt").read_text()
                assert abs(collect.times.known_time(stamp) - one.when) < datetime.timedelta(minutes=1), one
    again = collect.collect("softmax", [source], course, listed, ZONE)
    assert {row.status for row in again} <= {collect.UNCHANGED, collect.LEFT_OUT} and taken(course) == wanted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", classes.LAYOUTS)
def test_without_a_class_list_no_two_become_one(course, tmp_path, layout, seed):
    of = classes.drawn(seed, answer, notebook("multi_head"))
    source, _ = classes.written(of, layout, "softmax", tmp_path / "first")
    if layout in ("clones", "classroom"):
        with pytest.raises(CourseError, match="where do the logins begin"):
            collect.collect("softmax", [source], course)
        return
    collect.collect("softmax", [source], course)
    wanted = [one.attempts[-1] for one in of.members if one.accident not in ("no_notebook", "other_chapter")]
    assert sorted(taken(course).values()) == sorted(wanted)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", classes.LAYOUTS)
def test_a_second_download_replaces_what_is_new_and_nothing_else(course, tmp_path, layout, seed):
    of = classes.drawn(seed, answer, notebook("multi_head"))
    source, listed = classes.written(of, layout, "softmax", tmp_path / "first")
    collect.collect("softmax", [source], course, listed, ZONE)
    before, draw = taken(course), random.Random(seed)
    new = draw.sample([one for one in of.members if one.taken], 8)
    for one in new:
        one.attempts = [answer(one.id, 7)]
        one.when += datetime.timedelta(minutes=5)
    source, listed = classes.written(of, layout, "softmax", tmp_path / "second")
    rows = collect.collect("softmax", [source], course, listed, ZONE)
    assert taken(course) == before | {one.id: one.attempts[0] for one in new}
    assert {row.student for row in rows if row.status == collect.REPLACED} == {one.id for one in new}


STEM = "dot_products"
RIGHT = """def dot(a, b):
    # {}, {}
    if len(a) != len(b):
        raise ValueError("different lengths")
    return float(sum(x * y for x, y in zip(a, b)))"""
WRONG = "def dot(a, b):\n    # {}, {}\n    return 1.0"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("layout", the_others_weekly(["canvas", "moodle", "blackboard", "exchange"], "canvas"))
def test_a_class_is_graded_reported_sent_back_and_exported_twice(tmp_path, jail_if_there_is_one, layout, capsys):
    folder = tmp_path / "course"
    small_course.make(folder, {STEM: small_course.thin(STEM, ("dot",))}, assignment=STEM)
    released = small_course.released(folder, STEM, STEM)
    right = {}

    def handed_in(student: str, attempt: int) -> bytes:
        right[student] = random.Random(f"{layout} {student} {attempt}").random() < 0.5
        source = (RIGHT if right[student] else WRONG).format(student, attempt)
        return nbformat.writes(small_course.answered(released, {"dot": source})).encode()

    def command(*words, status: int) -> str:
        assert main([*map(str, words), "--course", str(folder)]) == status
        return capsys.readouterr().out

    of = classes.drawn(layout, handed_in, notebook("multi_head"))
    late = {one.id for one in of.members if one.accident == "late"}
    (folder / "late.csv").write_text("hours,percent\n0,100\n")
    for attempt in range(2):
        source, listed = classes.written(of, layout, STEM, tmp_path / f"download-{attempt}")
        command("collect", STEM, source, "--roster", listed, status=1)
        command("grade", STEM, status=0)
        command("report", STEM, status=0)
        release.nbgrader("generate_feedback", STEM, course=folder)
        command("export", "by-exercise", STEM, "--to", tmp_path / "grades.csv", status=0)
        with (tmp_path / "grades.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["student_id"]: row for row in csv.DictReader(file)}
        graded = {one.id for one in of.members if one.taken}
        assert set(rows) == graded
        for one in graded:
            points = catalog.exercise("dot").points
            score = float(rows[one][f"{STEM}: dot ({points:g})"])
            assert score == points if right[one] else score < points, one
            page = (folder / "feedback" / one / STEM / f"{STEM}.html").read_text("utf-8")
            assert f"# {one}, " in re.sub(r"<[^>]*>", "", page)
            if layout in classes.WITH_TIMES or layout == "canvas":
                assert float(rows[one][f"{STEM}: late penalty"]) == (score if one in late else 0)
        if layout in ("canvas", "moodle"):
            command("feedback-zip", layout, STEM, "--to", tmp_path / "feedback.zip", status=0)
        for one in of.draw.sample([one for one in of.members if one.taken], 5):
            one.attempts = [handed_in(one.id, 7)]
            one.when += datetime.timedelta(minutes=5)
