"""Stamps of check data and grades: they follow the code that matters, and nothing else."""

from __future__ import annotations

import pytest

from attnlab.check import material_of
from attnlab.checking import probes
from course import catalog, stamps
from course.folder import ROOT
from course.kit.hunt import without_hunts

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


halved = Exercise(solutions.halved, section="A")


def halves(rng):
    yield dict(x=np.arange(5), probe="unchanged")


halved.any_device(halves)
'''
BASIC = """
from attnlab.checking import formatting as show
from attnlab.checking.probes.base import Part, Probe


class Call(Probe):
    name = "call"

    def call(self, f):
        return f()


class Twice(Probe):
    def again(self, f):
        return copied(f(show))


class Unchanged(Twice):
    name = "unchanged"
    parts = {"after": Part("It was altered.", symptom=False)}


def copied(x):
    return x
"""
DEVICES = """
from attnlab.checking.probes.base import PROBES, Probe


class AnyDevice(Probe):
    name = "elsewhere"

    def call(self, f, *, probe="call"):
        return PROBES[probe].call(f)
"""
KIT = """
class Exercise:
    tolerance = 1

    def property(self, title, probe=probes.call):
        pass

    def any_device(self, cases):
        self.property("works", probe=probes.elsewhere)(cases)
"""
FILES = {
    "course/exercises/toy.py": EXERCISES,
    "course/kit/exercise.py": KIT,
    "solutions/toy.py": "from solutions.earlier import twice\n\n\ndef doubled(x):\n    return twice(x)\n\n\n"
    "def tripled(x):\n    return 3 * x\n\n\ndef halved(x):\n    return x / 2\n",
    "solutions/earlier.py": "def twice(x):\n    return 2 * x\n\n\ndef unused(x):\n    return x\n",
    "attnlab/checking/probes/__init__.py": "FOUND = {}\n",
    "attnlab/checking/probes/base.py": "class Probe:\n    pass\n",
    "attnlab/checking/probes/basic.py": BASIC,
    "attnlab/checking/probes/devices.py": DEVICES,
    "attnlab/checking/probes/other.py": "class Other(Probe):\n    name = 'other'\n",
    "attnlab/checking/formatting.py": "WIDTH = 80\n",
    "attnlab/checking/judge.py": "def judge(x):\n    return x > 0.5\n",
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    monkeypatch.setattr(stamps, "MAKES_MATERIAL", ("course.kit.exercise", "attnlab.checking.probes.base"))
    monkeypatch.setattr(stamps, "DECIDES_POINTS", ("attnlab.checking.judge",))
    yield tmp_path
    forget()


def forget():
    stamps._module.cache_clear()
    stamps._whole.cache_clear()
    stamps._probe_classes.cache_clear()
    stamps._probes_of_the_kit.cache_clear()


def taken():
    """The stamps of all exercises, by exercise and kind."""
    forget()
    return {
        (name, kind): stamp("toy", name)
        for name in ("doubled", "tripled", "halved")
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
DOUBLED, TRIPLED, HALVED = ({(name, "data"), (name, "grades")} for name in ("doubled", "tripled", "halved"))
ALL = DOUBLED | TRIPLED | HALVED
BASIC_FILE = "attnlab/checking/probes/basic.py"
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
    "the probe of a property that names none, and of one on any device": (
        BASIC_FILE,
        "return f()",
        "return f",
        DOUBLED | HALVED,
    ),
    "a probe, also where a case names it": (BASIC_FILE, "symptom=False", "symptom=True", TRIPLED | HALVED),
    "what a probe extends": (BASIC_FILE, "f(show)", "f(2, show)", TRIPLED | HALVED),
    "a helper of a probe": (BASIC_FILE, "return x", "return [x]", TRIPLED | HALVED),
    "the words of a probe": (BASIC_FILE, "It was altered.", "It altered it.", set()),
    "a probe that a method of the kit names": ("attnlab/checking/probes/devices.py", "].call(f)", "].call", HALVED),
    "a probe that nothing names": (
        "attnlab/checking/probes/other.py",
        "Probe):",
        "Probe):\n    measured = True",
        set(),
    ),
    "what all probes extend": ("attnlab/checking/probes/base.py", "pass", "measured = False", ALL),
    "formatting": ("attnlab/checking/formatting.py", "80", "90", set()),
    "what makes all material": ("course/kit/exercise.py", "tolerance = 1", "tolerance = 2", ALL),
    "a rule of the judge": ("attnlab/checking/judge.py", "0.5", "0.6", {which for which in ALL if "grades" in which}),
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
    path = checkout / BASIC_FILE
    path.write_text(path.read_text("utf-8").replace("formatting as", "layout as"), "utf-8")
    assert taken() == before


def test_the_lists_name_modules_of_the_course_and_no_measuring_or_formatting():
    listed = (*stamps.MAKES_MATERIAL, *stamps.DECIDES_POINTS)
    assert all(stamps._path(name) for name in (*listed, *stamps.NOT_FOLLOWED))
    points = {name.rpartition(".")[2] for name in stamps.DECIDES_POINTS}
    assert {"judge", "library_calls", "questions", "second_run"} <= points
    assert not {name for name in listed if name.endswith((".show", ".meter", ".report"))}


def test_a_stamp_covers_exactly_the_probes_that_an_exercise_asks_with():
    classes = {place: probe for probe, place in stamps._probe_classes().items()}
    for stem in catalog.chapters():
        for name in without_hunts(catalog.exercises_of(stem)):
            needed = stamps._needed(f"{stamps.EXERCISES}.{stem}", name)
            covered = {classes.get((module, index)) for module in needed for index in needed[module]} - {None}
            properties = material_of(name)["properties"]
            asked = {prop["probe"] for prop in properties}
            asked |= {case.get("probe", "call") for p in properties if p["probe"] == "elsewhere" for case in p["cases"]}
            bases = {base for probe in asked for base in type(getattr(probes, probe)).__mro__[1:]}
            asked |= {vars(base)["name"] for base in bases if vars(base).get("name")}  # a probe may refine another
            # `call` is the default of the probe `elsewhere`, whether or not each case names another.
            assert covered == asked | ({"call"} if "elsewhere" in asked else set()), name


def test_every_exercise_has_its_own_stamp():
    found = [stamps.data_stamp(stem, name) for stem in catalog.chapters() for name in catalog.exercises_of(stem)]
    assert len(set(found)) == len(found) == len(catalog.all_exercises())
    assert ROOT == stamps.ROOT
