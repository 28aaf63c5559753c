"""The hidden tests of a course: made once, the same again, made again when the seed or the code has changed."""

import stat
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from attnlab.check import filled_in
from attnlab.checking.compare import within_tolerance
from autograder.grading import hidden_tests
from course import catalog, stamps
from course.folder import GIVEN_SEED, course_seed, seed_path
from course.kit.exercise import compact

SOFTMAX = catalog.exercise("softmax")


@pytest.fixture(autouse=True)
def no_given_seed(monkeypatch):
    monkeypatch.delenv(GIVEN_SEED, raising=False)


def files(course):
    return sorted(path.name for path in (course / hidden_tests.FOLDER).iterdir())


def test_it_is_what_the_exercise_makes_from_the_courses_seed(tmp_path):
    made, came = SOFTMAX.material(course_seed(tmp_path)), hidden_tests.unpacked(hidden_tests.packed(tmp_path, SOFTMAX))
    assert within_tolerance(came["properties"], made["properties"])
    # A mistake's right results are kept as the reference's, which they equal but for rounding.
    assert within_tolerance(came, filled_in(compact(made)))


def test_it_is_made_once(tmp_path, monkeypatch):
    first = hidden_tests.packed(tmp_path, SOFTMAX)
    monkeypatch.setattr(type(SOFTMAX), "material", lambda *args, **options: pytest.fail("made again"))
    assert hidden_tests.packed(tmp_path, SOFTMAX) == first


@pytest.mark.parametrize("what", ["seed", "code"])
def test_another_seed_or_other_code_makes_it_anew_and_leaves_no_old_one(tmp_path, monkeypatch, what):
    hidden_tests.packed(tmp_path, SOFTMAX)
    before = files(tmp_path)
    if what == "seed":
        seed_path(tmp_path).write_text("12345")
    else:
        monkeypatch.setattr(stamps, "data_stamp", lambda stem, name: "another")
    again = hidden_tests.unpacked(hidden_tests.packed(tmp_path, SOFTMAX))
    assert len(files(tmp_path)) == 1 and files(tmp_path) != before
    assert within_tolerance(again["properties"], SOFTMAX.material(course_seed(tmp_path))["properties"])


def test_only_its_owner_can_read_it(tmp_path):
    hidden_tests.packed(tmp_path, SOFTMAX)
    folder = tmp_path / hidden_tests.FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def test_missing_tests_of_a_chapter_are_made_and_kept(tmp_path, monkeypatch):
    names = list(catalog.exercises_of("dot_products"))
    first = hidden_tests.packed(tmp_path, catalog.exercise("dot"))
    made = hidden_tests.of_exercises(tmp_path, names)
    assert list(made) == names and made["dot"] == first
    assert {name.rpartition("-")[0] for name in files(tmp_path)} == set(names)
    monkeypatch.setattr(type(SOFTMAX), "material", lambda *args, **options: pytest.fail("made again"))
    assert hidden_tests.of_exercises(tmp_path, names) == made


def test_tests_are_made_even_if_a_process_of_the_pool_is_killed(tmp_path, monkeypatch):
    def killed(*args):
        raise BrokenProcessPool("a process in the pool was terminated abruptly")

    monkeypatch.setattr(ProcessPoolExecutor, "map", killed)
    assert list(hidden_tests.of_exercises(tmp_path, ["dot", "matmul"])) == ["dot", "matmul"]
    assert {name.rpartition("-")[0] for name in files(tmp_path)} == {"dot", "matmul"}
