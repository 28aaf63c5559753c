"""Stamps of check data and grades: they follow the code that matters, and nothing else."""

from __future__ import annotations

import pytest

from course import catalog, stamps
from course.folder import ROOT

EXERCISES = '''
import numpy as np
from course.kit.exercise import Exercise
from attnlab.checking import probes
from solutions import toy as solutions

SIZE = 3
OTHER_SIZE = 4

doubled = Exercise(solutions.doubled, section="A")


@doubled.property("doubles", points=2, rtol=1e-9, hint="Twice.")
def doubles(rng):
    """Draw the cases."""
    yield dict(x=np.arange(SIZE))


@doubled.misconception("It squares.")
def squared(x):
    return x**2


HALF = 0.5
doubled.mistakes(edit("return twice(x)", "return HALF * x", "It halves."))


tripled = Exercise(solutions.tripled, section="A")


@tripled.property("triples", points=1, probe=probes.unchanged, hint="Three times.")
def triples(rng):
    yield dict(x=np.arange(OTHER_SIZE))


for size in (1, 2):
    tripled.misconception("It adds.")(lambda x: x + size)
'''
FILES = {
    "course/exercises/toy.py": EXERCISES,
    "course/kit/exercise.py": "class Exercise:\n    tolerance = 1\n",
    "solutions/toy.py": "from solutions.earlier import twice\n\n\ndef doubled(x):\n    return twice(x)\n\n\n"
    "def tripled(x):\n    return 3 * x\n",
    "solutions/earlier.py": "def twice(x):\n    return 2 * x\n\n\ndef unused(x):\n    return x\n",
    "attnlab/checking/probes.py": "from attnlab.checking import formatting as show\n\n\n"
    "def call(f):\n    return f()\n\n\n"
    "def unchanged(f):\n    return copied(f(show))\n\n\ndef copied(x):\n    return x\n",
    "attnlab/checking/formatting.py": "WIDTH = 80\n",
    "attnlab/checking/judge.py": "def judge(x):\n    return x > 0.5\n",
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    monkeypatch.setattr(stamps, "MAKES_MATERIAL", ("course.kit.exercise",))
    monkeypatch.setattr(stamps, "DECIDES_POINTS", ("attnlab.checking.judge",))
    yield tmp_path
    forget()


def forget():
    stamps._module.cache_clear()
    stamps._whole.cache_clear()


def taken():
    """The stamps of both exercises, by exercise and kind."""
    forget()
    return {
        (name, kind): stamp("toy", name)
        for name in ("doubled", "tripled")
        for kind, stamp in (("data", stamps.data_stamp), ("grades", stamps.grade_stamp))
    }


def changed(checkout, name, old, new):
    """Which stamps are different after a text in a file is replaced."""
    before, path = taken(), checkout / name
    assert old in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    after = taken()
    return {which for which in before if before[which] != after[which]}


EXERCISE_FILE = "course/exercises/toy.py"
DOUBLED, TRIPLED = ({(name, "data"), (name, "grades")} for name in ("doubled", "tripled"))
BOTH = DOUBLED | TRIPLED
CHANGES = {
    "a comment": (EXERCISE_FILE, "SIZE = 3", "SIZE = 3  # rows", set()),
    "a docstring": (EXERCISE_FILE, "Draw the cases.", "Yield the cases.", set()),
    "the layout": (EXERCISE_FILE, "x**2", "(\n        x ** 2\n    )", set()),
    "a tolerance": (EXERCISE_FILE, "rtol=1e-9", "rtol=1e-8", DOUBLED),
    "points": (EXERCISE_FILE, "points=1", "points=2", TRIPLED),
    "a misconception": (EXERCISE_FILE, "x**2", "x**3", DOUBLED),
    "the text of a misconception": (EXERCISE_FILE, "It adds.", "It adds a number.", TRIPLED),
    "an edit": (EXERCISE_FILE, "HALF * x", "x * HALF", DOUBLED),
    "a name in the text of an edit": (EXERCISE_FILE, "HALF = 0.5", "HALF = 0.6", DOUBLED),
    "misconceptions of a loop": (EXERCISE_FILE, "(1, 2)", "(1, 3)", TRIPLED),
    "a constant of the cases": (EXERCISE_FILE, "OTHER_SIZE = 4", "OTHER_SIZE = 5", TRIPLED),
    "a reference": ("solutions/toy.py", "3 * x", "x * 3", TRIPLED),
    "what a reference imports": ("solutions/earlier.py", "2 * x", "x * 2", DOUBLED),
    "a definition that nothing needs": ("solutions/earlier.py", "return x\n", "return -x\n", set()),
    "a probe": ("attnlab/checking/probes.py", "f(show)", "f(2, show)", TRIPLED),
    "a helper of a probe": ("attnlab/checking/probes.py", "return x", "return [x]", TRIPLED),
    "formatting": ("attnlab/checking/formatting.py", "80", "90", set()),
    "what makes all material": ("course/kit/exercise.py", "tolerance = 1", "tolerance = 2", BOTH),
    "a rule of the judge": ("attnlab/checking/judge.py", "0.5", "0.6", {("doubled", "grades"), ("tripled", "grades")}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_alters_exactly_the_stamps_of_the_exercises_that_need_it(checkout, what):
    name, old, new, expected = CHANGES[what]
    assert changed(checkout, name, old, new) == expected


def test_a_moved_module_alters_no_stamp(checkout):
    before = taken()
    (checkout / "solutions" / "earlier.py").rename(checkout / "solutions" / "helpers.py")
    path = checkout / "solutions" / "toy.py"
    path.write_text(path.read_text("utf-8").replace("solutions.earlier", "solutions.helpers"), "utf-8")
    (checkout / "attnlab" / "checking" / "formatting.py").rename(checkout / "attnlab" / "checking" / "layout.py")
    path = checkout / "attnlab" / "checking" / "probes.py"
    path.write_text(path.read_text("utf-8").replace("formatting as", "layout as"), "utf-8")
    assert taken() == before


def test_the_lists_name_modules_of_the_course_and_no_measuring_or_formatting():
    listed = (*stamps.MAKES_MATERIAL, *stamps.DECIDES_POINTS)
    assert all(stamps._path(name) for name in (*listed, *stamps.NOT_FOLLOWED))
    points = {name.rpartition(".")[2] for name in stamps.DECIDES_POINTS}
    assert {"judge", "library_calls", "questions", "second_run"} <= points
    assert not {name for name in listed if name.endswith((".show", ".meter", ".report"))}


def test_every_exercise_has_its_own_stamp():
    found = [stamps.data_stamp(stem, name) for stem in catalog.chapters() for name in catalog.exercises_of(stem)]
    assert len(set(found)) == len(found) == len(catalog.all_exercises())
    assert ROOT == stamps.ROOT
