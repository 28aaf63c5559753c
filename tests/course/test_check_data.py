"""The data behind `check`: current by their stamps, made again only for a reason, the same on every processor."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab.check import CHECKS
from attnlab.checking import codec
from course import catalog, check_data, stamps
from course.folder import ROOT
from course.kit.exercise import compact
from tests.conftest import the_others_weekly
from tests.course.toy_exercise import make


@pytest.mark.parametrize("stem", catalog.chapters())
def test_the_checks_data_are_current(stem):
    stored = {name: check_data.manifest()[name] for name in catalog.exercises_of(stem)}
    current = {name: (stamps.data_stamp(stem, name), stamps.grade_stamp(stem, name)) for name in stored}
    again = "run `python -m autograder assemble` and commit attnlab/checks/"
    assert {name: (line["data"], line["grades"]) for name, line in stored.items()} == current, again


def test_there_is_one_data_file_for_each_exercise_and_a_manifest():
    files = {f"{name}.gz" for name in catalog.all_exercises()} | {"manifest.json"}
    assert {path.name for path in CHECKS.iterdir()} == files
    assert check_data.manifest().keys() == catalog.all_exercises().keys()


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_the_checks_data_are_data_and_small(name):
    data = (CHECKS / f"{name}.gz").read_bytes()
    assert codec.unpack(data)["name"] == name
    assert len(data) < 300_000


# Two processors add in another order, and so their last digits differ. These settings take the place of others: what
# the libraries do where there is no AVX512, and where there is no AVX, with more threads.
PROCESSORS = {
    "no AVX512": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": "1",
    },
    "no AVX": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
        "OMP_NUM_THREADS": "3",
    },
}
# Their wrong answers move entries by rounding errors, take the largest of numbers that are nearly equal, leave numbers
# to the stand-in for parameters without a name, or compute in single precision.
SENSITIVE = (
    "causal_attention",
    "MultiHeadAttention",
    "CrossAttention",
    "hard_alignment",
    "GroupedQueryAttention",
    "sinusoidal_encoding",
)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("processor", the_others_weekly(PROCESSORS, "no AVX512"))
def test_another_processor_makes_the_same_data(processor):
    """But for rounding within what `alike` allows; then the file is left unchanged, to the last byte."""
    script = (
        "import sys\nfrom course import catalog, check_data\nfrom course.kit.exercise import compact\n"
        "for name in sys.argv[1:]:\n"
        "    stored = check_data.read(check_data.check_file(name))\n"
        "    if not check_data.equal_up_to_rounding(stored, compact(catalog.exercise(name).material())):\n"
        "        print(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *SENSITIVE],
        cwd=ROOT,
        env=os.environ | PROCESSORS[processor],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("size, seen", [(1e-3, True), (1e-14, False)])
def test_data_that_say_something_else_are_seen(size, seen):
    stored, made = (compact(make().material()) for _ in range(2))
    made["properties"][0]["expected"][0]["value"]["result"] += size
    assert check_data.equal_up_to_rounding(stored, made) is not seen


# Files of a small course ------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one exercise, `exercise`, whose code has the stamps `data` and `grades`."""
    course = SimpleNamespace(data="one", grades="one", exercise=make(), made=0, file=tmp_path / "doubled.gz")

    def material(seed=2017):
        course.made += 1
        return course.exercise.material(seed)

    exercises = {"doubled": SimpleNamespace(material=material)}
    everything = SimpleNamespace(
        chapters=lambda: ("toy",), exercises_of=lambda stem: exercises, all_exercises=lambda: exercises
    )
    monkeypatch.setattr(check_data, "CHECKS", tmp_path)
    monkeypatch.setattr(check_data, "catalog", everything)
    monkeypatch.setattr(check_data, "data_stamp", lambda stem, name: course.data)
    monkeypatch.setattr(check_data, "grade_stamp", lambda stem, name: course.grades)
    assert check_data.write_checks(["toy"]) == [course.file]
    return course


def test_current_data_are_not_made_again(course):
    assert check_data.write_checks(["toy"]) == [] and course.made == 1


def test_other_code_that_makes_the_same_data_changes_the_manifest_alone(course):
    """So another processor's last digits do not get into a file."""
    stored = codec.unpack(course.file.read_bytes())
    result = stored["properties"][0]["expected"][0]["value"]["result"]
    result *= 1 + 1e-15
    course.file.write_bytes(codec.pack(stored))
    course.data = "two"
    assert check_data.write_checks(["toy"]) == [] and course.made == 2
    again = codec.unpack(course.file.read_bytes())
    assert np.array_equal(again["properties"][0]["expected"][0]["value"]["result"], result)
    assert check_data.manifest()["doubled"]["data"] == "two"
    assert check_data.write_checks(["toy"]) == [] and course.made == 2


def test_other_code_that_makes_other_data_changes_the_file(course):
    course.data = "two"
    course.exercise.properties.pop()
    assert check_data.write_checks(["toy"]) == [course.file]
    assert len(codec.unpack(course.file.read_bytes())["properties"]) == 2


@pytest.mark.parametrize("content", [b"", b"nonsense", codec.pack({}), None])
def test_a_file_that_is_broken_or_lost_is_made_again(course, content):
    whole = course.file.read_bytes()
    course.file.unlink()
    if content is not None:
        course.file.write_bytes(content)
    assert check_data.write_checks(["toy"]) == [course.file]
    assert course.file.read_bytes() == whole


def test_a_broken_or_lost_manifest_is_written_again(course):
    place = course.file.with_name("manifest.json")
    whole = place.read_bytes()
    for content in (b"", b"{", None):
        place.unlink() if content is None else place.write_bytes(content)
        check_data.write_checks(["toy"])
        assert place.read_bytes() == whole


def test_the_data_of_a_removed_exercise_are_deleted(course):
    course.file.with_name("tripled.gz").write_bytes(course.file.read_bytes())
    check_data.write_checks(["toy"])
    assert sorted(path.name for path in course.file.parent.iterdir()) == ["doubled.gz", "manifest.json"]


def graded_as():
    check_data.graded_as.cache_clear()
    return check_data.graded_as("toy", "doubled")


def test_grades_are_recorded_under_the_stamp_that_was_kept_until_the_code_changes(course):
    assert graded_as() == "one"
    lines = check_data.manifest()
    lines["doubled"]["graded_as"] = "former"
    check_data.write_manifest(lines)
    assert graded_as() == "former"
    course.data = "two"  # the data alone, such as a text
    check_data.write_checks(["toy"])
    assert graded_as() == "former"
    course.grades = "two"  # not yet written
    assert graded_as() == "two"
    check_data.write_checks(["toy"])
    assert graded_as() == "two" and "graded_as" not in check_data.manifest()["doubled"]
