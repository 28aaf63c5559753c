"""Hostile and unlucky files in real processes: each gets what it earned, a reason, and nothing outlives it."""

from __future__ import annotations

import os
import secrets
import time

import pytest

from autograder.grading.single_file import grade_source
from autograder.sandbox import bubblewrap
from tests.autograder import processes
from tests.course.toy_exercise import RIGHT, make

SEED = 77
TOY = make()
pytestmark = pytest.mark.usefixtures("jail_if_there_is_one")


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


def body(*lines: str, before: str = "") -> str:
    """A file whose `doubled` holds these lines and then the right answer."""
    inner = "".join(f"    {line}\n" for line in lines)
    return (
        f"{before}\nimport os, sys\nimport numpy as np\n\ndef doubled(x, times=1):\n{inner}"
        "    if np.ndim(x) != 1: raise ValueError\n    return np.array(x) * 2.0 ** times\n"
    )


def test_a_right_answer_gets_full_marks():
    report = grade(RIGHT)
    assert report.passed and report.points == 4


@pytest.mark.parametrize(
    "source, reason",
    [
        ("import os\nos._exit(3)\n" + RIGHT, "the process ended with exit code 3 before it answered"),
        (body("os._exit(0)"), "exit code 0"),
        (body("os.kill(os.getpid(), 9)"), "signal 9"),
        (body("import ctypes; ctypes.string_at(0)"), "signal 11"),
    ],
    ids=["file", "call", "signal", "segmentation fault"],
)
def test_who_ends_the_process_gets_nothing_and_a_reason(source, reason):
    report = grade(source)
    assert report.points == 0 and reason in report.reason


@pytest.mark.parametrize(
    "when, passed", [("np.ndim(x) == 2", [True, True, False]), ("times == 3", [False, True, True])]
)
def test_a_crash_costs_its_own_property_alone(when, passed):
    report = grade(body(f"if {when}: os._exit(1)"))
    assert [finding.passed for finding in report.findings] == passed and "exit code 1" in report.reason


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        body("while True: pass"),
        body("import time; time.sleep(1000)"),
        body("import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"),
    ],
    ids=["file", "call", "sleep", "deaf"],
)
def test_what_hangs_is_stopped(source):
    start = time.monotonic()
    report = grade(source, seconds=0.5)
    assert report.points == 0 and report.reason == "no answer within 0.5 seconds of processor time"
    assert time.monotonic() - start < 30


def test_a_call_that_waits_for_input_meets_its_end_at_once():
    assert grade(body("sys.stdin.read()")).passed
    assert grade(body("input()")).findings[0].detail == "Raised EOFError on `x` (3,)."


def test_what_was_answered_before_a_hang_counts():
    report = grade(body("if np.ndim(x) == 2:\n        while True: pass"), seconds=1.5)
    assert [finding.passed for finding in report.findings] == [True, True, False]
    assert report.reason == "no answer within 1.5 seconds of processor time"


def test_a_file_that_dies_only_when_it_is_loaded_again_does_not_loop(no_jail, tmp_path):
    marker = tmp_path / "been here"
    report = grade(
        f"import os\nif os.path.exists({str(marker)!r}): os._exit(5)\n"
        + body("if times == 3:", f"    open({str(marker)!r}, 'w').close(); os._exit(4)")
    )
    assert report.points == 0 and "exit code 5" in report.reason


def test_what_a_second_load_says_is_not_passed_on(no_jail, tmp_path):
    """It may have been told the inputs by the first."""
    note = tmp_path / "note"
    report = grade(
        f"import os\nif os.path.exists({str(note)!r}): raise ValueError(open({str(note)!r}).read())\n"
        + body("if times == 3:", f"    open({str(note)!r}, 'w').write('secret ' + str(x)); os._exit(4)")
    )
    assert report.points == 0 and "secret" not in str(report)


def test_in_the_jail_a_second_load_finds_nothing_of_the_first(needs_jail):
    notes = "notes = [folder + '/been here' for folder in ('/tmp', '/dev/shm', os.environ['HOME'])]"
    report = grade(
        f"import os\n{notes}\nif any(map(os.path.exists, notes)): os._exit(5)\n"
        + body("if times == 3:", "    for note in notes: open(note, 'w').close()", "    os._exit(4)")
    )
    assert [finding.passed for finding in report.findings] == [False, True, True] and "exit code 4" in report.reason


@pytest.mark.parametrize(
    "line",
    [
        "sys.exit()",
        "sys.exit('bye')",
        "raise KeyboardInterrupt",
        "raise SystemExit(0)",
        "raise GeneratorExit",
        "class E(BaseException): pass\n    raise E",
    ],
)
def test_an_exit_in_a_call_is_an_error_like_any_other(line):
    report = grade(body(line))
    assert report.points == 0 and report.reason is None
    assert {finding.kind for finding in report.findings} == {"error"}


@pytest.mark.parametrize("line", ["sys.exit()", "raise KeyboardInterrupt", "raise SystemExit(0)", "1 / 0"])
def test_an_exit_while_loading_is_a_reason(line):
    report = grade(f"import sys\n{line}\n{RIGHT}")
    assert report.points == 0 and report.reason.startswith("the file raised ") and "line 2" in report.reason


@pytest.mark.parametrize("where", ["sys.stdout", "sys.stderr", "sys.__stdout__", "os.fdopen(1, 'w', closefd=False)"])
def test_a_flood_of_output_costs_nothing(where):
    report = grade(body(f"stream = {where}", "for _ in range(300): stream.write('flood ' * 10_000)", "stream.flush()"))
    assert report.passed


def test_printing_does_not_corrupt_the_channel():
    assert grade(body("print(x)", "os.write(1, b'12345678' * 100)", "os.system('echo hello')")).passed


@pytest.mark.parametrize(
    "noise",
    ["b'\\xff' * 4096", "bytes(4096)", "(5).to_bytes(8, 'little') + b'hello'", "(1 << 62).to_bytes(8, 'little')"],
)
def test_frames_forged_on_every_descriptor_earn_nothing(noise):
    report = grade(
        body(
            "for d in range(3, 64):",
            "    try: os.set_blocking(d, False); os.write(d, " + noise + ")",
            "    except OSError: pass",
            before="import os",
        ),
        seconds=3,
    )
    assert report.points == 0
    assert report.reason


def test_a_well_formed_forged_frame_is_an_answer_and_no_score():
    forge = (
        "from attnlab import codec",
        "data = codec.frame({'value': {'result': 1.0, 'points': 4, 'passed': True}})",
        "for d in range(3, 64):",
        "    try: os.write(d, data)",
        "    except OSError: pass",
    )
    assert grade(body(*forge), seconds=3).points == 0


@pytest.mark.parametrize(
    "reply",
    [
        "{'value': 3}",
        "{'passed': True}",
        "{'value': {}, 'points': 4}",
        "{}",
        "{'error': {}}",
        "{'error': {'type': 1, 'message': 2, 'line': 'x', 'code': []}}",
        "{'refused': 3}",
    ],
)
def test_a_worker_taken_over_by_the_file_cannot_break_the_grader(reply):
    takeover = f"import attnlab.checking.codec as f\nold = f.write\nf.write = lambda s, v: old(s, {reply})\n"
    report = grade(takeover + RIGHT, seconds=5)
    assert report.points == 0


@pytest.mark.parametrize(
    "line",
    [
        "return np.zeros(20_000_000)",
        "return [0.0] * 10**7",
        "return 'x' * (80 << 20)",
        "return (v for v in x)",
        "return object()",
        "r = []\n    for _ in range(10**5): r = [r]\n    return r",
        "r = []; r.append(r); return r",
        "return 10 ** 100_000",
        "return np.array([object()])",
        "return doubled",
        "return {1: 2}",
        "return float('nan')",
        "return 'right'",
        "return None",
        "return [[1.0], [1.0, 2.0]]",
        "return np.array([b'x'])",
        "return True",
    ],
)
def test_a_nonsense_answer_gets_nothing_and_the_grader_goes_on(line):
    report = grade(body(line))
    assert report.points == 0 and report.reason is None and len(report.findings) == 3


def test_an_answer_that_equals_everything_earns_nothing():
    lie = "class Yes(np.ndarray):\n    __eq__ = __ne__ = lambda self, other: np.ones(1, bool)\n"
    assert grade(body("return np.zeros(len(x)).view(Yes)", before=f"import numpy as np\n{lie}")).points == 0
    assert grade(body("return type('Y', (float,), {'__eq__': lambda a, b: True})(0)")).points == 0


def test_another_dtype_is_not_the_same_answer():
    report = grade(body("return (np.array(x) * 2.0 ** times).astype(np.float32)"))
    assert report.findings[0].kind == "dtype" and report.findings[0].points == 0


def test_foreign_byte_order_is_the_same_answer():
    assert grade(body("if np.ndim(x) == 1: return (np.array(x) * 2.0 ** times).astype('>f8')")).passed


@pytest.mark.parametrize(
    "line",
    [
        "np.isclose = np.array_equal = np.allclose = lambda *a, **k: np.True_",
        "import attnlab.checking.compare as c, attnlab.checking.judge as j; "
        "c.difference = j.difference = j._differs = lambda *a, **k: None",
        "import attnlab.checking.probes.base as b, attnlab.checking.probes.basic as c; "
        "b.bitwise_equal = lambda *a: True; c.changed_inputs = lambda *a: ''",
        "import attnlab.checking.judge as j; j.judge = j.Finding = j.Report = lambda *a, **k: None",
        "import copy; copy.deepcopy = lambda x: x",
        "import builtins; builtins.all = builtins.any = lambda *a: True",
    ],
)
def test_patching_the_students_own_process_changes_no_score(line):
    wrong = f"{line}\ndef doubled(x, times=1):\n    x *= 3\n    return x\n"
    assert grade(f"import numpy as np\n{wrong}").points == 0


def test_altering_the_input_is_seen_from_outside_however_the_comparison_is_patched():
    report = grade(
        "import attnlab.checking.probes.base as b, attnlab.checking.probes.basic as c\n"
        "b.bitwise_equal = lambda *a: True\nc.changed_inputs = lambda *a: ''\n"
        "c.Unchanged.conclude = lambda *a, **k: {}\nimport numpy as np\n"
        "np.array_equal = lambda *a, **k: True\n" + body("if np.ndim(x) == 1: x *= 2.0 ** times; return x")
    )
    assert [finding.passed for finding in report.findings] == [True, False, True]


def test_closing_all_descriptors_gets_nothing_and_a_reason():
    report = grade(body("os.closerange(0, 256)"), seconds=3)
    assert report.points == 0 and report.reason


def test_threads_that_stay_do_not_keep_the_process():
    start = time.monotonic()
    assert grade(
        body(
            "import threading, time",
            "for daemon in (True, False): threading.Thread(target=time.sleep, args=(60,), daemon=daemon).start()",
        )
    ).passed
    assert time.monotonic() - start < 30


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("session", [False, True])
def test_a_child_process_does_not_outlive_its_file(either_way, session):
    mark = f"child-{secrets.token_hex(8)}"
    start = (
        "import subprocess, sys",
        f"sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(50)', {mark!r}]",
        f"subprocess.Popen(sleep, start_new_session={session})",
    )
    assert grade("\n".join(start) + RIGHT).passed
    processes.wait_for_the_end_of(mark)


def test_the_grader_and_the_solutions_cannot_be_imported():
    for package in ("solutions", "autograder", "tests", "solutions.softmax", "conftest"):
        report = grade(f"import {package}\n{RIGHT}")
        assert report.points == 0 and "ModuleNotFoundError" in report.reason


def test_attnlab_can_be_imported_as_in_the_notebook():
    assert grade(f"from attnlab import check\n{RIGHT}").passed


def test_it_runs_in_an_empty_folder_of_its_own_that_is_gone_afterwards(either_way):
    tell = "import os\nseen = os.getcwd() + '|' + ','.join(os.listdir('.')) + '|'\nopen('left behind', 'w').close()\n"
    for _ in range(2):
        folder, listing, _ = grade(tell + "raise ValueError('|' + seen)").reason.partition("|")[2].split("|")
        assert set(listing.split(",")) <= {"", ".cache", ".ipython"}  # the list of fonts, and what IPython puts there
        assert not os.path.exists(folder)
        assert (folder == bubblewrap.HOME) == (either_way == "needs_jail")


def test_the_graders_environment_is_not_passed_on(either_way, monkeypatch):
    monkeypatch.setenv("A_TOKEN_OF_THE_GRADER", "x")
    report = grade("import os\nraise ValueError(' '.join(sorted(os.environ)))")
    assert "A_TOKEN_OF_THE_GRADER" not in report.reason and "HOME" in report.reason


def test_memory_is_limited():
    report = grade(body("return np.ones(2 ** 36)"))
    assert report.points == 0


def test_a_big_file_cannot_be_written():
    report = grade(body("with open('big', 'wb') as f:", "    for _ in range(65): f.write(bytes(1 << 20))"))
    assert report.points == 0


def test_the_time_that_pytorch_takes_to_load_is_not_the_students():
    """Well over a second, which is all that this file gets from the moment it runs."""
    assert grade(f"import torch\n{RIGHT}", seconds=1.0).passed
