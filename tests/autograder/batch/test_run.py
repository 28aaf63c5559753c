"""`python -m autograder grade`: several workers, here or elsewhere; killed anywhere, each submission is graded once."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from distributed.security import Security

from autograder.__main__ import main
from autograder.batch import run
from autograder.batch import workers as pools
from autograder.nbgrader_plugins import staging
from course import catalog
from course.folder import ROOT
from tests.autograder import processes, small_course
from tests.autograder.processes import PATIENCE, wait_until

pytestmark = pytest.mark.slow

KILL_SEED = int(os.environ.get("KILL_SEED", "7"))
MANY = 32
FEW = 6


@pytest.fixture(autouse=True)
def environment():
    """nbgrader's configuration alters the environment of the process that reads it: here, of the tests that follow."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def hand_in(course: Path, students: list[str]) -> None:
    """Every second right, the others wrong in their own way; a quarter is late."""
    right = small_course.reference("dot_products", "dot")
    zipped = "def dot(a, b):\n    return float(sum(x * y for x, y in zip(a, b)))"
    for number, student in enumerate(students):
        answers = {"dot": zipped if number % 2 else right}
        notebook = small_course.answered(small_course.released(course, "dot_products"), answers)
        late = 30 if number % 4 == 3 else -24
        nbformat.write(notebook, small_course.folder(course, student, late) / "dot_products.ipynb")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, needs_jail) -> Path:
    """A released course with an ungraded class."""
    course = tmp_path_factory.mktemp("grade") / "course"
    students = [f"s{number:03}" for number in range(MANY)]
    small_course.make(course, {"dot_products": small_course.thin("dot_products")}, students)
    hand_in(course, students)
    return course


@pytest.fixture
def course(fresh, tmp_path) -> Path:
    return first(fresh, tmp_path, FEW)


def first(fresh: Path, folder: Path, many: int) -> Path:
    """A course with so many of that class."""
    place = shutil.copytree(fresh, folder / "course")
    for student in students(place)[many:]:
        shutil.rmtree(place / "submitted" / student)
    return place


def students(course: Path) -> list[str]:
    return sorted(folder.name for folder in (course / "submitted").iterdir())


def place_of(course: Path, student: str) -> int:
    """The folder that holds a result, as the file system knows it."""
    return (course / "autograded" / student / small_course.ASSIGNMENT).stat().st_ino


def grading(course: Path, *arguments: str) -> list[str]:
    return ["grade", small_course.ASSIGNMENT, "--course", str(course), *arguments]


def command(course: Path, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen:
    grade = [sys.executable, "-m", "autograder", *grading(course), *arguments]
    return subprocess.Popen([*before, *grade], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def graded(course: Path) -> list[str]:
    return sorted(folder.parent.name for folder in (course / "autograded").glob(f"*/{small_course.ASSIGNMENT}"))


def scores(course: Path) -> dict[str, tuple]:
    return {
        student: (found["grades"]["dot_products/check-dot"][0], found["late_penalty"])
        for student, found in small_course.grades(course).items()
    }


def expected(students) -> dict[str, tuple]:
    points = catalog.exercise("dot").points
    return {student: (points - 2.0 * (int(student[1:]) % 2), 0.0) for student in students}


def test_a_class_is_graded_and_a_second_run_has_nothing_to_do(course, capsys):
    assert main(grading(course, "--workers", "1")) == 0
    assert f"{FEW}/{FEW}" in capsys.readouterr().err  # the bar is full
    assert scores(course) == expected(graded(course)) and len(graded(course)) == FEW
    marks = {path: path.stat().st_mtime_ns for path in (course / "autograded").rglob("*")}
    assert main(grading(course, "--workers", "1")) == 0
    assert {path: path.stat().st_mtime_ns for path in (course / "autograded").rglob("*")} == marks


def test_one_student_again_and_no_other(course, capsys):
    arguments = grading(course, "--workers", "1")
    assert main([*arguments, "--student", "s001"]) == 0 and graded(course) == ["s001"]
    before = place_of(course, "s001")
    assert main([*arguments, "--student", "s001"]) == 0
    assert "nothing new" in capsys.readouterr().err
    assert main([*arguments, "--student", "s001", "--force"]) == 0
    assert place_of(course, "s001") != before


def test_what_arrives_is_graded_while_it_watches(course, fresh):
    late = "s020"
    process = command(course, "--workers", "1", "--watch")
    try:
        wait_until(lambda: len(graded(course)) == FEW)
        shutil.copytree(fresh / "submitted" / late, course / "submitted" / late)
        wait_until(lambda: late in graded(course))
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in err and process.returncode in (0, 130), err
    assert scores(course) == expected(graded(course))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "no gradebook in"),
        (["--scheduler", "tcp://192.0.2.1:8786"], "must not leave this machine unencrypted"),
        (["--scheduler", "tls://127.0.0.1:1"], "needs --tls-ca, --tls-cert and --tls-key"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(course, tmp_path, capsys, arguments, words):
    where = course if arguments else tmp_path / "nothing"
    assert main(grading(where, *arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_an_assignment_without_submissions_is_reported(course, capsys):
    shutil.rmtree(course / "submitted")
    assert main(grading(course, "--workers", "1")) == 0
    assert f"{small_course.ASSIGNMENT}: nothing was handed in" in capsys.readouterr().err


def test_an_unknown_assignment_or_student_is_an_error(course, capsys):
    assert main(["grade", "sofmax", "--course", str(course)]) == 2
    assert f"unknown assignment 'sofmax'; in the gradebook: {small_course.ASSIGNMENT}" in capsys.readouterr().err
    assert main(grading(course, "--student", "Amelie")) == 2
    assert "unknown student 'Amelie'" in capsys.readouterr().err


def test_a_scheduler_without_workers_says_so(course, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pools, "PATIENCE", 1)
    log = tmp_path / "log"
    with dask("scheduler", *ANY_PORT, log=log):
        address = address_in(log)
        status = main(["grade", small_course.ASSIGNMENT, "--course", str(course), "--scheduler", address])
    said = capsys.readouterr().err
    assert status == 2 and f"the scheduler at {address} has no workers" in said and not graded(course)


def test_two_graders_at_once_grade_each_submission_once(course):
    """As two assistants do: nothing is graded twice, neither gets a traceback, and all grades are there in the end."""
    runs = [command(course, "--workers", "1") for _ in range(2)]
    said = [run.communicate(timeout=PATIENCE)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert not any("Traceback" in words or "could not be graded" in words for words in said)
    assert scores(course) == expected(graded(course)) and len(graded(course)) == FEW


def test_what_another_run_is_grading_is_left_to_it(course, capsys):
    names = students(course)
    with staging.locked(course / "submitted" / names[0] / small_course.ASSIGNMENT):
        assert main(grading(course, "--workers", "1")) == 0
    assert f"{small_course.ASSIGNMENT}: 1 left to another run" in capsys.readouterr().err
    assert graded(course) == names[1:]
    assert main(grading(course, "--workers", "1")) == 0 and graded(course) == names


# Several machines ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def dask(role: str, *arguments: str, log: Path, before: tuple[str, ...] = ()):
    """A scheduler or a worker of Dask, as a process."""
    program = [*before, sys.executable, "-m", f"distributed.cli.dask_{role}", "--no-dashboard", *arguments]
    with log.open("ab") as file, subprocess.Popen(program, cwd=ROOT, stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.kill()


ANY_PORT = ("--host", "tcp://127.0.0.1:0", "--port", "0")


def address_in(log: Path) -> str:
    """The address that a scheduler gives when it is ready."""
    return wait_until(lambda: re.search(r"Scheduler at: +(tcp://127\.0\.0\.1:\d+)", log.read_text()), log.read_text)[1]


def keys(folder: Path) -> dict[str, str]:
    """A certificate of an authority and one that it signed, for all; as files."""
    folder.mkdir(exist_ok=True)
    made = Security.temporary()
    found = {}
    for name, text in {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}.items():
        (folder / f"{name}.pem").write_text(text)
        found[name] = str(folder / f"{name}.pem")
    return found


def tls(files: dict[str, str], dask: bool = False) -> list[str]:
    names = {"ca": "--tls-ca-file" if dask else "--tls-ca", "cert": "--tls-cert", "key": "--tls-key"}
    return [word for name, option in names.items() for word in (option, files[name])]


@pytest.fixture
def spaces():
    """Three network namespaces on one bridge: 10.77.0.1 for the grader, .2 and .3 for workers.

    For each, the words to put before a command so that it runs there.
    """
    with contextlib.ExitStack() as stack:
        pids, pipe = [], subprocess.PIPE
        for _ in range(3):
            holds = ["sh", "-c", "unshare --net sh -c 'echo $$; exec cat'"]  # until its input ends
            holder = stack.enter_context(subprocess.Popen(holds, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
            pids.append(holder.stdout.readline().strip())
        if not all(pids):
            pytest.skip("no network namespaces can be made here (root can, on most machines)")
        inside = [("nsenter", f"--net=/proc/{pid}/ns/net", "--") for pid in pids]
        plan = [(0, "link add bridge0 type bridge"), (0, "addr add 10.77.0.1/24 dev bridge0")]
        for number in (1, 2):
            plan.append((0, f"link add port{number} type veth peer name eth0 netns {pids[number]}"))
            plan.append((0, f"link set port{number} master bridge0 up"))
            plan.append((number, f"addr add 10.77.0.{number + 1}/24 dev eth0"))
            plan.append((number, "link set eth0 up"))
        plan += [*((number, "link set lo up") for number in range(3)), (0, "link set bridge0 up")]
        try:
            for number, words in plan:
                subprocess.run([*inside[number], "ip", *words.split()], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces cannot be connected here: {error}")
        yield inside


@pytest.mark.long
def test_two_workers_in_network_namespaces_of_their_own_grade_a_class_over_tls(course, spaces, tmp_path):
    files, other, log = keys(tmp_path), keys(tmp_path / "other"), tmp_path / "log"
    with contextlib.ExitStack() as stack:
        scheduler = ("--host", "tls://10.77.0.1:8786", *tls(files, True))
        stack.enter_context(dask("scheduler", *scheduler, log=log, before=spaces[0]))
        workers = []
        for number in (1, 2):
            place = ("--host", f"tls://10.77.0.{number + 1}", "--local-directory", str(tmp_path / f"worker{number}"))
            worker = ("tls://10.77.0.1:8786", *place, "--no-nanny", "--nthreads", "1", *tls(files, True))
            workers.append(stack.enter_context(dask("worker", *worker, log=log, before=spaces[number])))
        wait_until(lambda: log.read_text().count("Registered to") == 2, log.read_text)
        stranger = command(course, "--scheduler", "tls://10.77.0.1:8786", *tls(other), before=spaces[0])
        _, err = stranger.communicate(timeout=PATIENCE)
        assert stranger.returncode == 2 and "no scheduler answers" in err and not graded(course)
        process = command(course, "--scheduler", "tls://10.77.0.1:8786", *tls(files), before=spaces[0])
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err + log.read_text()
        for worker in workers:
            assert named(worker.pid, "bwrap"), "one of the workers graded nothing"
    assert scores(course) == expected(graded(course)) and len(graded(course)) == FEW


# Killed ----------------------------------------------------------------------------------------------------


def named(root: int, word: str) -> list[int]:
    """The processes below this one that have this word in their command line."""
    return [pid for pid in processes.below(root) if word in processes.command_line(pid)]


@pytest.mark.long
@pytest.mark.weekly
def test_killed_again_and_again_each_submission_is_graded_once(fresh, tmp_path):
    """Three runs, of which the last completes; none touches what an earlier run has put in place.

    In the first, a worker and a fork server are killed, which it survives, then the writer with its own scheduler. In
    the second, a separate scheduler.
    """
    course, draw = first(fresh, tmp_path, MANY), random.Random(KILL_SEED)
    print(f"KILL_SEED={KILL_SEED}")
    in_place: dict[str, int] = {}

    def nothing_was_done_twice():
        found = {name: place_of(course, name) for name in graded(course)}
        assert in_place.items() <= found.items()
        in_place.update(found)

    with processes.reaping():
        begun = command(course, "--workers", "2")
        for at, words in ((3, "spawn_main"), (7, "fork_server.py")):
            wait_until(lambda: len(graded(course)) >= at + draw.randrange(3))
            os.kill(draw.choice(wait_until(lambda: named(begun.pid, words))), signal.SIGKILL)
        wait_until(lambda: len(graded(course)) >= 12 + draw.randrange(3))
        begun.kill()
        _, err = begun.communicate(timeout=PATIENCE)
        wait_until(lambda: not processes.jails())
        assert 12 <= len(graded(course)) < MANY, err
        nothing_was_done_twice()

        log, own = tmp_path / "log", ("--nthreads", "1", "--local-directory", str(tmp_path / "worker"))
        with dask("scheduler", *ANY_PORT, log=log) as scheduler, dask("worker", address_in(log), *own, log=log):
            wait_until(lambda: "Registered to" in log.read_text(), log.read_text)
            second = command(course, "--scheduler", address_in(log))
            wait_until(lambda: len(graded(course)) >= 20 + draw.randrange(3))
            scheduler.kill()
            _, err = second.communicate(timeout=PATIENCE)
        assert second.returncode in (1, 2) and "a second run does the rest" in err and "Traceback" not in err, err
        assert len(graded(course)) < MANY
        nothing_was_done_twice()

        third = command(course, "--workers", "2")
        _, err = third.communicate(timeout=PATIENCE)
        assert third.returncode == 0, err
        nothing_was_done_twice()
        wait_until(lambda: not processes.jails())
    assert scores(course) == expected(f"s{number:03}" for number in range(MANY))
    assert list((course / ".grading").iterdir()) == []


@pytest.mark.long
def test_interrupted_it_ends_at_once_and_the_next_run_does_the_rest(fresh, tmp_path):
    course = first(fresh, tmp_path, 3 * FEW)
    with processes.reaping():
        process = command(course, "--workers", "2")
        wait_until(lambda: len(graded(course)) >= 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130 and "Traceback" not in err, err
        assert err.splitlines()[-1].startswith("autograder: interrupted")
        wait_until(lambda: not processes.jails())
    before = len(graded(course))
    assert 3 <= before < 3 * FEW
    assert main(grading(course, "--workers", "1")) == 0
    assert scores(course) == expected(graded(course)) and len(graded(course)) == 3 * FEW


def test_what_fails_in_the_grader_is_zero_until_a_human_looks_and_the_others_are_graded(course):
    names = students(course)
    assert main(grading(course, "--workers", "1")) == 0
    grader = run.configured(small_course.ASSIGNMENT, course, True, None)
    grader.autograde_preprocessors = ["tests.autograder.mishaps.Mishap"]
    grader.config.Mishap.raises = [names[2]]
    with contextlib.closing(grader.pool), pytest.raises(Exception, match=names[2]):
        grader.grade(grader.due())
    found = small_course.grades(course)
    assert found[names[2]]["score"] == 0 and found[names[2]]["grades"]["dot_products/check-dot"] == [0.0, 0.0, True]
    assert "until an instructor has looked" in found[names[2]]["comments"]["dot_products/dot"]
    others = [name for name in names if name != names[2]]
    assert {name: scores(course)[name] for name in others} == expected(others)


def test_a_slow_submission_is_graded_after_others_and_loses_nothing(course):
    slow, *_ = names = students(course)
    path = course / "submitted" / slow / small_course.ASSIGNMENT / "dot_products.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(1, nbformat.v4.new_code_cell("import time\ntime.sleep(3)\nprint('sle' + 'pt')"))
    nbformat.write(notebook, path)
    order, grader = [], run.configured(small_course.ASSIGNMENT, course, False, None)
    grader.first_seconds = 2.0
    grader.progress = lambda key, failed: order.append((key[1], failed))
    with contextlib.closing(grader.pool):
        grader.grade(grader.due())
    assert sorted(order) == [(name, False) for name in names]
    assert order[0] != (slow, False), "it is the first that is due"  # on a busy machine others may be as slow
    assert scores(course) == expected(names)
    shown = course / "autograded" / slow / small_course.ASSIGNMENT / "dot_products.ipynb"
    assert "slept" in shown.read_text("utf-8")


def test_a_small_class_gets_one_worker_and_a_large_one_all_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4))
    assert [pools.worker_count(many) for many in (0, 1, 39, 40, 100, 10**6)] == [1, 1, 1, 2, 3, 4]


def test_more_workers_than_one_are_on_loopback_and_strangers_cannot_use_them():
    with pools.pool(2) as pool:
        address = pool._client.scheduler.address
        assert address.startswith("tls://127.0.0.1:") and pool.workers == 2
        anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 10) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
            anybody.wrap_socket(plain) as secret,
        ):
            secret.sendall(b"x" * 64)
            while secret.recv(4096):  # with TLS 1.3 the refusal comes after the handshake
                pass
