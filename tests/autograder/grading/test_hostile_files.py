"""Hostile and unlucky files in real processes: each gets what it earned, a reason, and nothing outlives it."""

from __future__ import annotations

import json
import os
import re
import secrets

import pytest

from attnlab.checking.report import as_html, as_text
from autograder.grading import single_file
from autograder.grading.results import as_record
from autograder.grading.single_file import grade_source
from autograder.sandbox import bubblewrap
from course import catalog
from tests.autograder import processes
from tests.course.toy_exercise import RIGHT, make
from tests.red_team import attacks, course

SEED = 77
TOY, TARGET = make(), catalog.exercise(attacks.TARGET)
pytestmark = pytest.mark.usefixtures("jail_if_there_is_one")


@pytest.fixture(scope="module")
def material():
    return single_file.material_of(TARGET, SEED)


@pytest.mark.parametrize("attack", attacks.through("file"), ids=lambda attack: attack.name)
def test_a_file_gets_what_it_deserves(needs_jail, monkeypatch, tmp_path, material, attack):
    monkeypatch.setattr(single_file, "material_of", lambda *given: material)
    monkeypatch.setenv(attacks.MARK, "1")
    with course.listener() as server:
        source = "import numpy as np\n" + attacks.filled(attack.code, tmp_path, server.getsockname()[1])
        report = grade_source(source, "answer.py", TARGET, seed=SEED, seconds=2)
        assert not course.came(server)
    least, most = attack.expected_of_file()
    assert least <= report.points <= most, (report.reason, report.findings)
    assert (attack.file_reason or attack.reason) in (report.reason or "")
    shown = json.dumps(as_record(report, "f")) + as_text(report) + as_html(report)
    assert not any(words in shown for words in attack.absent)
    assert not re.search(r"\d\.\d{3}", as_text(report))
    assert not set(re.findall(course.LONG_NUMBER, shown)) & set(course.long_numbers(material["properties"]))
    processes.wait_for_the_end_of("left-behind-by-red-team")


# What is true of files alone ---------------------------------------------------------------------------------------


def grade(source: str, seconds: float = 10.0):
    return grade_source(source, "answer.py", TOY, seed=SEED, seconds=seconds)


@pytest.fixture
def no_jail(monkeypatch):
    """Without the jail a file can leave notes on this machine."""
    monkeypatch.setenv(bubblewrap.NO_JAIL, "1")


@pytest.fixture(params=["needs_jail", "no_jail"])
def either_way(request):
    request.getfixturevalue(request.param)
    return request.param


def body(*lines: str) -> str:
    """A file whose `doubled` has these lines in front of the right answer."""
    inner = "".join(f"    {line}\n" for line in lines)
    return (
        f"import os, sys\nimport numpy as np\n\ndef doubled(x, times=1):\n{inner}"
        "    if np.ndim(x) != 1: raise ValueError\n    return np.array(x) * 2.0 ** times\n"
    )


def test_a_call_that_asks_for_input_is_told_that_there_is_none():
    assert grade(body("input()")).findings[0].detail == "Raised EOFError on `x` (3,)."


@pytest.mark.parametrize(
    "then, said",
    [("os._exit(5)", "exit code 5"), ("raise ValueError(open(note).read())", "")],
    ids=["it dies", "it tells"],
)
def test_a_file_that_dies_is_not_loaded_again_and_again_and_its_words_are_not_passed_on(no_jail, tmp_path, then, said):
    """The second load may have been told the inputs by the first."""
    report = grade(
        f"import os\nnote = {str(tmp_path / 'note')!r}\nif os.path.exists(note): {then}\n"
        + body("if times == 3:", "    open(note, 'w').write('secret ' + str(x)); os._exit(4)")
    )
    assert report.points == 0 and said in report.reason and "secret" not in str(report)


def test_in_the_jail_a_second_load_finds_nothing_of_the_first(needs_jail):
    notes = "notes = [folder + '/been here' for folder in ('/tmp', '/dev/shm', os.environ['HOME'])]"
    report = grade(
        f"import os\n{notes}\nif any(map(os.path.exists, notes)): os._exit(5)\n"
        + body("if times == 3:", "    for note in notes: open(note, 'w').close()", "    os._exit(4)")
    )
    assert [finding.passed for finding in report.findings] == [False, True, True] and "exit code 4" in report.reason


def test_another_dtype_is_another_answer_and_another_byte_order_is_not():
    report = grade(body("return (np.array(x) * 2.0 ** times).astype(np.float32)"))
    assert report.findings[0].kind == "dtype" and report.findings[0].points == 0
    assert grade(body("if np.ndim(x) == 1: return (np.array(x) * 2.0 ** times).astype('>f8')")).passed


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("session", [False, True])
def test_a_child_process_does_not_outlive_its_file(no_jail, session):
    mark = f"child-{secrets.token_hex(8)}"
    start = (
        "import subprocess, sys",
        f"sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(600)', {mark!r}]",
        f"subprocess.Popen(sleep, start_new_session={session})",
    )
    assert grade("\n".join(start) + RIGHT).passed
    processes.wait_for_the_end_of(mark)


def test_it_runs_in_an_empty_folder_of_its_own_that_is_gone_afterwards(either_way):
    tell = "import os\nseen = os.getcwd() + '|' + ','.join(os.listdir('.')) + '|'\nopen('left behind', 'w').close()\n"
    for _ in range(2):
        folder, listing, _ = grade(tell + "raise ValueError('|' + seen)").reason.partition("|")[2].split("|")
        assert set(listing.split(",")) <= {"", ".cache", ".ipython"}  # the list of fonts, and what IPython puts there
        assert not os.path.exists(folder)
        assert (folder == bubblewrap.HOME) == (either_way == "needs_jail")


def test_the_time_that_pytorch_takes_to_load_is_not_the_students():
    """Well over a second, which is all that this file gets from the moment it runs."""
    assert grade(f"import torch\n{RIGHT}", seconds=1.0).passed
