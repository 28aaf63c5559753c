"""The data behind `check`: current by its own word, made anew only for a reason, and the same on every processor."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab import codec
from attnlab.check import CHECKS
from autograder.course import catalog, check_data
from autograder.course.folder import ROOT
from autograder.exercise import compact
from tests.autograder.toy_exercise import make


@pytest.mark.parametrize("stem", catalog.chapters())
def test_the_checks_data_are_current(stem):
    made_from = {check_data.read(check_data.check_file(name)).get("made_from") for name in catalog.exercises_of(stem)}
    assert made_from == {check_data.fingerprint(stem)}, "run `python -m autograder assemble` and commit attnlab/checks/"


def test_there_is_one_data_file_for_each_exercise_and_none_besides():
    assert {path.name for path in CHECKS.iterdir()} == {f"{name}.gz" for name in catalog.all_exercises()}


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
# to the stand-in for parameters that nobody named, or compute in single precision.
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
@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_makes_the_same_data(processor):
    """But for rounding within what `alike` allows; then the file is left as it is, to the last byte."""
    script = (
        "import sys\nfrom autograder.course import catalog, check_data\nfrom autograder.exercise import compact\n"
        "for name in sys.argv[1:]:\n"
        "    stored = check_data.read(check_data.check_file(name))\n"
        "    del stored['made_from']\n"
        "    if not check_data.alike(stored, compact(catalog.exercise(name).material())):\n"
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
    assert check_data.alike(stored, made) is not seen


# Files of a small course ------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one exercise, whose sources are `sources` and whose answers are those of `exercise`."""
    course = SimpleNamespace(sources="one", exercise=make(), made=0, file=tmp_path / "doubled.gz")

    def material(seed=2017):
        course.made += 1
        return course.exercise.material(seed)

    exercises = {"doubled": SimpleNamespace(material=material)}
    everything = SimpleNamespace(
        chapters=lambda: ("toy",), exercises_of=lambda stem: exercises, all_exercises=lambda: exercises
    )
    monkeypatch.setattr(check_data, "CHECKS", tmp_path)
    monkeypatch.setattr(check_data, "catalog", everything)
    monkeypatch.setattr(check_data, "fingerprint", lambda stem: course.sources)
    assert check_data.write_checks(["toy"]) == [course.file]
    return course


def test_what_is_current_is_not_made_again(course):
    assert check_data.write_checks(["toy"]) == [] and course.made == 1


def test_other_sources_that_make_the_same_change_the_hash_alone(course):
    """So another processor's last digits do not get into a file for a comment that was changed."""
    stored = codec.unpack(course.file.read_bytes())
    result = stored["properties"][0]["expected"][0]["value"]["result"]
    result *= 1 + 1e-15
    course.file.write_bytes(codec.pack(stored))
    course.sources = "two"
    assert check_data.write_checks(["toy"]) == [course.file] and course.made == 2
    again = codec.unpack(course.file.read_bytes())
    assert again["made_from"] == "two" and check_data.write_checks(["toy"]) == []
    assert np.array_equal(again["properties"][0]["expected"][0]["value"]["result"], result)


def test_other_sources_that_make_something_else_change_the_data(course):
    course.sources = "two"
    course.exercise.properties.pop()
    check_data.write_checks(["toy"])
    assert len(codec.unpack(course.file.read_bytes())["properties"]) == 2


@pytest.mark.parametrize("content", [b"", b"nonsense", codec.pack({}), None])
def test_a_file_that_is_broken_or_lost_is_made_anew(course, content):
    whole = course.file.read_bytes()
    course.file.unlink()
    if content is not None:
        course.file.write_bytes(content)
    assert check_data.write_checks(["toy"]) == [course.file]
    assert course.file.read_bytes() == whole


def test_the_data_of_an_exercise_that_is_no_more_go(course):
    course.file.with_name("tripled.gz").write_bytes(course.file.read_bytes())
    check_data.write_checks(["toy"])
    assert [path.name for path in course.file.parent.iterdir()] == ["doubled.gz"]


# What data is made from -------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    files = {
        "autograder/exercises/toy.py": "import numpy as np\nfrom autograder.exercise import Exercise\n"
        "from solutions import toy as solutions\n",
        "autograder/exercises/other.py": "import numpy",
        "autograder/exercise.py": "from attnlab import codec, data\n",
        "solutions/toy.py": "def f():\n    from solutions.earlier import g\n",
        "solutions/earlier.py": "",
        "solutions/later.py": "from solutions.toy import f\n",
        "attnlab/__init__.py": "from attnlab import widgets\n",
        "attnlab/codec.py": "import attnlab.codec\n",
        "attnlab/report.py": "",
        "attnlab/data/__init__.py": "",
        "attnlab/data/recorded.npz": "numbers",
        "attnlab/widgets/__init__.py": "",
        "numpy.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(check_data, "ROOT", tmp_path)
    return tmp_path


USED = {
    "autograder/exercises/toy.py",
    "autograder/exercise.py",
    "solutions/toy.py",
    "solutions/earlier.py",
    "attnlab/codec.py",
    "attnlab/data/__init__.py",
    "attnlab/data/recorded.npz",
}


def test_the_hash_follows_what_the_exercises_import_and_nothing_else(checkout):
    before, used = check_data.fingerprint("toy"), set()
    for path in [path for path in checkout.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        path.write_bytes(whole + b"\n# more")
        if check_data.fingerprint("toy") != before:
            used.add(path.relative_to(checkout).as_posix())
        path.write_bytes(whole)
    assert used == USED


def test_the_hash_is_of_places_in_the_checkout_and_not_of_the_checkouts_place(checkout):
    before = check_data.fingerprint("toy")
    (checkout / "solutions" / "earlier.py").rename(checkout / "solutions" / "renamed.py")
    (checkout / "solutions" / "toy.py").write_text("def f():\n    from solutions.renamed import g\n")
    assert check_data.fingerprint("toy") != before


def test_the_hash_does_not_depend_on_line_endings(checkout):
    before = check_data.fingerprint("toy")
    for path in checkout.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check_data.fingerprint("toy") == before


def test_the_hash_of_the_courses_own_sources_is_narrow():
    used = {path.relative_to(ROOT).as_posix() for path in check_data.sources("rope")}
    assert {"autograder/exercises/rope.py", "solutions/rope.py", "autograder/generators.py"} <= used
    assert {f"attnlab/{name}.py" for name in ("codec", "probes", "observe", "compare", "stand_ins", "meter")} <= used
    assert not {f"attnlab/{name}.py" for name in ("check", "judge", "relation", "report", "library_calls")} & used
    assert len(used) < 16
