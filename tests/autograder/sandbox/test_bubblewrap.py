"""A program in the jail: what it has, what it does not have, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap, cgroup
from autograder.sandbox.bubblewrap import Jail, NoJail, Unconfined
from autograder.sandbox.limits import MB, Limits
from course.folder import ROOT
from tests.autograder.processes import running, wait_for_the_end_of, wait_until

LIMITS = Limits(memory=128 * MB, processes=32, open_files=64, file_size=4 * MB, scratch=8 * MB, cpu_seconds=30)


@pytest.fixture(params=[Jail, Unconfined])
def confine(request):
    if request.param is Jail:
        request.getfixturevalue("needs_jail")
    return request.param


@pytest.fixture
def groups(needs_jail):
    """The folders of the control groups of a running jail."""
    with Jail([sys.executable, "-I", "-S", "-c", "input()"], limits=LIMITS) as held:
        found = list(held.group.folders)
        if not found:
            pytest.skip("no control groups can be made here (root can, where they are mounted)")
        yield held, found


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"import json, os, resource\n{code}"]


def told(confine, expression: str, **options):
    """Evaluate an expression inside."""
    with confine(python(f"print(json.dumps({expression}))"), limits=LIMITS, **options) as held:
        out, err = held.process.communicate(timeout=60)
    assert held.process.returncode == 0, err.decode()
    return json.loads(out)


# What it sees ------------------------------------------------------------------------------------------------------


def test_a_program_sees_the_students_package_and_its_own_files_of_this_checkout(needs_jail):
    seen = told(Jail, f"[os.path.join(d, f) for d, _, fs in os.walk({str(ROOT)!r}) for f in fs]")
    known = str(ROOT / "attnlab") + "/", sys.prefix + "/"
    outside = {path for path in seen if not path.startswith(known)}
    inside = {str(path) for path in bubblewrap.INSIDE.rglob("*") if path.is_file()}
    assert outside == inside and str(ROOT / "attnlab" / "__init__.py") in seen


@pytest.fixture
def files(tmp_path):
    (tmp_path / "numbers.csv").write_text("1,2")
    return {"numbers.csv": tmp_path / "numbers.csv"}


def test_the_folder_of_a_program_holds_the_given_files_which_cannot_be_changed(needs_jail, files):
    assert told(Jail, "[os.getcwd(), open('numbers.csv').read()]", files=files) == [bubblewrap.HOME, "1,2"]
    with Jail(python("open('numbers.csv', 'w')"), files=files) as held:
        assert b"Read-only file system" in held.process.communicate(timeout=60)[1]


def test_files_given_without_a_jail_are_copies_in_a_folder_that_is_removed(files):
    with Unconfined(python("print(os.getcwd()); open('numbers.csv', 'w').write('3')"), files=files) as held:
        folder = held.process.communicate(timeout=60)[0].decode().strip()
        assert (Path(folder) / "numbers.csv").read_text() == "3"
    assert files["numbers.csv"].read_text() == "1,2" and not os.path.exists(folder)


def test_the_environment_of_a_program_is_not_the_graders(confine, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "x")
    seen = told(confine, "dict(os.environ)")
    assert seen.items() >= {**bubblewrap.inner_environment(), "HOME": seen["HOME"]}.items()
    assert set(seen) - set(bubblewrap.inner_environment()) <= {"PWD", "ATTEMPT", "LC_CTYPE"}


def test_a_program_has_the_limits_it_was_given_and_no_more(confine):
    names = ("AS", "NPROC", "NOFILE", "FSIZE", "CPU", "CORE", "MEMLOCK", "MSGQUEUE")
    values = (LIMITS.mapped, LIMITS.processes, LIMITS.open_files, LIMITS.file_size, LIMITS.cpu_seconds, 0, 0, 0)
    seen = told(confine, f"[resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in {names!r}]")
    assert seen == [[value, value] for value in values]


def test_a_program_holds_its_streams_and_the_given_descriptors(confine):
    there = "[int(d) for d in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{d}')]"
    reads, writes = map(open, os.pipe(), ("rb", "wb"))
    with reads, writes:
        for end in (reads, writes):
            os.set_inheritable(end.fileno(), True)
        seen = told(confine, there, pass_fds=(writes.fileno(),))
        assert set(seen) == {0, 1, 2, writes.fileno()}


def test_a_program_has_no_rights_and_processes_of_its_own(needs_jail):
    user, processes = told(Jail, "[os.getuid(), [p for p in os.listdir('/proc') if p.isdigit()]]")
    assert user == bubblewrap.USER and len(processes) == 2


# How it ends -------------------------------------------------------------------------------------------------------

DAEMON = """
import signal, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execv(sys.executable, [sys.executable, '-I', '-S', '-c',
                 "import time; print('ready', flush=True); time.sleep(600)", %r])
    os._exit(0)
input()
"""


def test_the_end_of_a_program_ends_every_process_that_left_it(confine):
    mark = f"daemon-{secrets.token_hex(8)}"
    with confine(python(DAEMON % mark), limits=LIMITS) as held:
        assert held.process.stdout.readline() == b"ready\n" and running(mark)
    wait_for_the_end_of(mark)


GRADER = """
import sys
from autograder.sandbox.bubblewrap import Jail
with Jail([sys.executable, "-I", "-S", "-c", "import os" + %r]) as held:
    print(held.process.stdout.readline(), flush=True)
    input()
"""


def test_the_jail_of_a_killed_grader_ends(needs_jail):
    mark, pipe = f"daemon-{secrets.token_hex(8)}", subprocess.PIPE
    program = [sys.executable, "-c", GRADER % (DAEMON % mark)]
    with subprocess.Popen(program, cwd=ROOT, stdin=pipe, stdout=pipe) as grader:
        assert b"ready" in grader.stdout.readline() and running(mark)
        grader.kill()
    wait_for_the_end_of(mark)


# Control groups ----------------------------------------------------------------------------------------------------


def test_a_group_bounds_all_processes_and_is_removed_with_the_jail(groups):
    held, folders = groups
    for folder in folders:
        # The shell that enters it has only just been started.
        wait_until(lambda: str(held.process.pid) in (folder / "cgroup.procs").read_text().split())
    names = ("memory.limit_in_bytes", "memory.max", "pids.max")
    written = [folder / name for folder in folders for name in names if (folder / name).exists()]
    assert {path.read_text().strip() for path in written} == {str(LIMITS.memory), str(LIMITS.processes)}
    held.__exit__()
    assert not any(folder.exists() for folder in folders)


def test_running_out_of_memory_is_detected(groups):
    with Jail(python("if not os.fork(): block = b'x' * (200 << 20)\nos.wait()"), limits=LIMITS) as held:
        held.process.communicate(timeout=60)
        assert held.group.used_up() == "memory"
    with Jail(python("pass"), limits=LIMITS) as held:
        held.process.communicate(timeout=60)
        assert held.group.used_up() is None


def test_groups_of_killed_graders_are_removed_and_those_of_others_stay(groups):
    with subprocess.Popen(["true"]) as ended:
        pass
    parent = groups[1][0].parent
    stale, living = parent / f"attention-{ended.pid}-1", parent / f"attention-{os.getpid()}-1"
    stale.mkdir()
    living.mkdir()
    cgroup._sweep.cache_clear()
    try:
        with Jail(python("pass")) as held:
            held.process.wait()
        assert not stale.exists() and living.exists()
    finally:
        for folder in filter(Path.exists, (stale, living)):
            folder.rmdir()


# Where there is none -----------------------------------------------------------------------------------------------


@pytest.fixture
def path_with(tmp_path, monkeypatch):
    """`path_with(script)`: a PATH on which `bwrap` is this shell script, or is missing."""

    def hide(script: str | None = None):
        if script:
            (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        bubblewrap.problem.cache_clear()

    monkeypatch.delenv(bubblewrap.NO_JAIL, raising=False)
    yield hide
    bubblewrap.problem.cache_clear()


def test_grading_without_bubblewrap_is_refused_in_one_line(path_with):
    path_with(None)
    with pytest.raises(NoJail) as refused:
        bubblewrap.ensure()
    words = str(refused.value)
    assert "bubblewrap is not installed" in words and f"{bubblewrap.NO_JAIL}=1" in words and "\n" not in words


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo 'bwrap: uid map: Permission denied' >&2; exit 1", "uid map: Permission denied ("),
        ("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", "version 0.8 or newer is needed"),
        ("kill -9 $$", "cannot confine"),
        ("exit 0", "cannot confine"),
    ],
    ids=["refused", "too old", "always killed", "does nothing"],
)
def test_a_bubblewrap_that_cannot_confine_is_refused_with_its_message(path_with, script, words):
    path_with(script)
    assert words in bubblewrap.problem()


def test_a_killed_self_test_is_repeated(needs_jail, path_with, tmp_path):
    real, mark = shutil.which("bwrap"), tmp_path / "killed"
    path_with(f'test -e {mark} && exec {real} "$@"\n/usr/bin/touch {mark}\nkill -9 $$')
    assert bubblewrap.problem() is None and mark.exists()


def test_only_the_word_1_in_the_environment_switches_the_jail_off(path_with, monkeypatch):
    path_with(None)
    monkeypatch.setenv(bubblewrap.NO_JAIL, "1")
    assert not bubblewrap.required() and bubblewrap.ensure() is False
    for word in ("", "0", "no", "true"):
        monkeypatch.setenv(bubblewrap.NO_JAIL, word)
        assert bubblewrap.required()
