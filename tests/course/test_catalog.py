"""Exercises are found by name, and no more is loaded for that than their own chapter."""

import subprocess
import sys

import pytest

from course import catalog
from course.errors import CourseError
from course.folder import ROOT


def test_every_exercise_is_found_in_the_chapter_that_declares_it():
    for stem in catalog.chapters():
        for name in catalog.exercises_of(stem):
            assert catalog.chapter_of(name) == stem


@pytest.mark.parametrize("name", ["nothing_of_that_name", "np", "LEFT"])
def test_an_unknown_exercise_is_refused_and_the_known_ones_are_named(name):
    with pytest.raises(CourseError, match=rf"unknown exercise '{name}'; there are: dot, "):
        catalog.chapter_of(name)


def test_to_find_an_exercise_in_numpy_does_not_load_pytorch():
    """Each process that grades would spend a second or two on it."""
    program = (
        "import sys; from course import catalog; print(catalog.chapter_of('masked_softmax'));"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["masks", "False"], done.stderr
