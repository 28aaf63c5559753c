"""A jail that is forked from a warm process: confined as any other, and nothing of one notebook is in the next."""

from __future__ import annotations

import os
import re
import signal

import pytest

from autograder.grading.execution import Cell, evaluate
from autograder.sandbox import bubblewrap, fork_client
from autograder.sandbox.limits import MB, Limits
from course import catalog
from tests.autograder import processes, small_course

DOT = catalog.exercise("dot")


@pytest.fixture(autouse=True)
def forking(needs_jail, monkeypatch):
    monkeypatch.delenv(fork_client.COLD, raising=False)


@pytest.fixture
def fresh():
    """No server of a former test, and none left over."""
    fork_client.give_up()
    yield
    fork_client.give_up()


@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    fork_client.give_up()


def printed(*sources: str) -> list[str]:
    """Run a notebook in a forked jail, and return what each cell printed."""
    done = evaluate([Cell(place, source) for place, source in enumerate(sources)], {}, many=True)
    assert fork_client._servers, "nothing was forked"
    return [
        "".join(o.get("text", "") or "".join(o.get("traceback", [])) for o in done.outputs[place])
        for place in range(len(sources))
    ]


def graded(*before: str):
    cells = [Cell(place, source) for place, source in enumerate(before)]
    cells.append(Cell(len(cells), small_course.reference("dot_products", "dot"), solution=True))
    return evaluate([*cells, Cell(len(cells), "", check="dot")], {"dot": DOT}, many=True)


def tried(*acts: str) -> str:
    """Code that says of each act whether it was refused."""
    each = "    try:\n        act()\n        print('changed')\n    except OSError:\n        print('refused')"
    return f"for act in ({' '.join(f'lambda: {act},' for act in acts)}):\n{each}"


def test_a_right_answer_gets_full_marks_from_one_server_again_and_again():
    graded()
    first, forks = fork_client._servers[False], fork_client._servers[False].forks
    assert [graded().reports["dot"].points for _ in range(3)] == [DOT.points] * 3
    assert fork_client._servers[False] is first and first.forks == forks + 3


def test_a_notebook_without_pytorch_is_forked_from_a_process_without_it(fresh):
    graded()
    assert list(fork_client._servers) == [False]
    assert printed("import sys\nprint('tor' + 'ch' in sys.modules)") == ["False\n"]
    assert printed("import sys\nprint('tor' + 'ch' in sys.modules)  # not optimal") == ["False\n"]
    used = "print(torch.ones(2).sum().item(), torch.get_num_threads())"
    assert printed(f"import torch\n{used}") == ["2.0 1\n"]
    assert sorted(fork_client._servers) == [False, True]
    assert printed(f"import importlib\ntorch = importlib.import_module('tor' + 'ch')\n{used}") == ["2.0 1\n"]


def test_libraries_of_optimizers_are_loaded_once_for_the_notebooks_that_use_them(fresh):
    seen = "import sys\nimport torch\nprint('torch._dyn' + 'amo' in sys.modules)"
    assert printed(seen) == ["False\n"]
    assert printed(seen + "  # optim") == ["True\n"]
    assert list(fork_client._servers) == [True]


def test_the_process_of_a_notebook_has_no_rights_and_a_filter_and_sees_no_others():
    seen = "import os\nprint(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid())"
    status, processes = printed("print(open('/proc/self/status').read())", seen)
    assert set(re.findall(r"Cap\w+:\t(\w+)", status)) == {"0" * 16}
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    assert processes == "[1, 2] 2\n"


POISON = """
import os, sys, builtins, random, signal, threading, subprocess, numpy as np, torch
from attnlab.checking import probes
left = "poison"
builtins.left = sys.left = np.left = torch.left = probes.left = "poison"
os.environ["LEFT"] = "poison"
for folder in ("/tmp", "/dev/shm", os.environ["HOME"]):
    open(folder + "/poison", "w").write("poison")
random.seed(1); np.random.seed(1); torch.manual_seed(1)
torch.set_default_dtype(torch.float64); np.seterr(all="raise"); sys.setrecursionlimit(77_777)
threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True, name="poison").start()
subprocess.Popen(["sleep", "600"], start_new_session=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
np.sum = lambda *a, **k: 0
os.chdir("/tmp")
"""
TRACES = """
import os, sys, builtins, signal, threading, numpy as np, torch
from attnlab.checking import probes
found = [name for name in ("left",) for where in (builtins, sys, np, torch, probes) if hasattr(where, name)]
found += [key for key in os.environ if key == "LEFT"]
found += [f for folder in ("/tmp", "/dev/shm", os.environ["HOME"]) for f in os.listdir(folder) if f == "poison"]
found += [str(torch.get_default_dtype())] * (torch.get_default_dtype() != torch.float32)
found += [t.name for t in threading.enumerate() if t.name == "poison"]
found += ["recursion"] * (sys.getrecursionlimit() == 77_777) + ["sum"] * int(np.sum([1, 2]) != 3)
found += ["errors"] * (np.geterr()["over"] == "raise") + ["folder"] * (os.getcwd() == "/tmp")
found += ["signal"] * (signal.getsignal(signal.SIGTERM) == signal.SIG_IGN)
found += [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 2]
found += ["shell"] * ("left" in globals())
print("found", found)
"""


def test_a_notebook_that_poisons_its_process_leaves_no_trace_in_the_next():
    poisoned = printed(POISON, TRACES)[1]
    assert poisoned.count("left") >= 5 and "poison" in poisoned and "recursion" in poisoned  # the traces do show
    assert printed(TRACES) == ["found []\n"]


def test_no_two_notebooks_draw_the_same_numbers():
    draw = (
        "import random, numpy as np, torch\n"
        "print(random.random(), np.random.rand(), torch.rand(1).item(), np.random.default_rng().random())"
    )
    drawn = [number for _ in range(2) for (text,) in [printed(draw)] for number in text.split()]
    assert len(set(drawn)) == len(drawn) == 8


def test_given_files_can_be_read_and_cannot_be_changed(tmp_path):
    (tmp_path / "words.txt").write_text("the cat sat")
    source = "import os\nprint(open('words.txt').read())\n"
    source += tried("open('words.txt', 'w')", "os.unlink('words.txt')")
    done = evaluate([Cell(0, source)], {}, files={"words.txt": tmp_path / "words.txt"}, many=True)
    assert done.outputs[0][0]["text"] == "the cat sat\nrefused\nrefused\n"


@pytest.mark.parametrize("many, forked", [(230, True), (300, False)])
def test_a_notebook_finds_all_the_files_that_it_is_given(tmp_path, many, forked):
    """More than the kernel passes on in one message are for a jail that is started cold."""
    files = {f"{number}.txt": tmp_path / f"{number}.txt" for number in range(many)}
    for path in files.values():
        path.write_text(path.stem)
    listing = "import os\nprint(sorted(int(f[:-4]) for f in os.listdir('.') if f[-4:] == '.txt'))"
    done = evaluate([Cell(0, listing)], {}, many=True, files=files)
    assert done.outputs[0][0]["text"] == f"{list(range(many))}\n"
    assert bool(fork_client._servers) == forked


def test_the_list_of_fonts_is_the_machines_own_and_cannot_be_changed():
    """It is mounted, not copied."""
    source = "import glob, os\n(path,) = glob.glob(os.environ['HOME'] + '/.cache/matplotlib/*.json')\n"
    source += "print(os.path.getsize(path))\n"
    source += tried("open(path, 'a')", "os.unlink(path)", "os.rename(path, path + 'x')")
    (path,) = bubblewrap.font_cache()
    assert printed(source) == [f"{path.stat().st_size}\n" + "refused\n" * 3]


def test_a_notebook_can_use_a_loopback_of_its_own():
    source = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "print(socket.create_connection(server.getsockname(), 5) is not None)"
    )
    assert printed(source) == ["True\n"]


@pytest.mark.parametrize(
    "change",
    [("import ctypes\n", "raise SystemExit\n"), ("    _give_up_rights()\n", "    1 / 0\n"), None],
    ids=["the server does not start", "a fork fails", "the environment forbids it"],
)
def test_a_jail_is_started_cold_where_none_can_be_forked(fresh, altered, monkeypatch, change):
    if change:
        altered(*change)
    else:
        monkeypatch.setenv(fork_client.COLD, "1")
    assert graded().reports["dot"].points == DOT.points
    assert not fork_client._servers


def test_a_server_is_replaced_after_so_many_forks(fresh, monkeypatch):
    monkeypatch.setattr(fork_client, "FORKS", 2)
    seen: list[int] = []
    for _ in range(3):
        graded()
        seen.append(fork_client._servers[False].process.pid)
    assert seen[0] == seen[1] != seen[2]


def test_a_server_that_was_killed_is_replaced():
    graded()
    first = fork_client._servers[False].process.pid
    os.kill(first, signal.SIGKILL)
    assert graded().reports["dot"].points == DOT.points
    assert fork_client._servers[False].process.pid != first


@pytest.mark.parametrize("kind, number", [("cell", 1), ("question", 3)])
def test_a_server_that_is_killed_in_the_middle_costs_no_point(monkeypatch, kind, number):
    def kill():
        fork_client._servers[False].process.kill()
        fork_client._servers[False].process.wait()

    sent = processes.before_message(monkeypatch, kind, number, kill)
    done = graded("x = 1")
    assert done.reports["dot"].points == DOT.points and done.flags == []
    assert sent.count(kind) > number


def test_an_unused_server_ends(fresh, monkeypatch):
    monkeypatch.setattr(fork_client, "IDLE_SECONDS", 0.2)
    held = fork_client.server()
    assert held.process.wait(processes.PATIENCE) is not None


def test_a_server_that_is_given_up_leaves_no_process():
    with processes.reaping():
        graded()
        below = processes.below(fork_client._servers[False].process.pid)
        assert below
        fork_client.give_up()
        processes.wait_until(lambda: not set(below) & set(processes.below(os.getpid())))


def test_limits_hold_in_a_fork():
    held = "[resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[1] for name in ('AS', 'NPROC', 'NOFILE', 'CORE')]"
    for limits in (Limits(), Limits(memory=1024 * MB, processes=48, open_files=64)):
        done = evaluate([Cell(0, f"import resource\nprint({held})")], {}, limits=limits, many=True)
        numbers = [limits.mapped, limits.processes, limits.open_files, 0]
        assert fork_client._servers and done.outputs[0][0]["text"] == f"{numbers}\n"
