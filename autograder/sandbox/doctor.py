"""`python -m autograder doctor`: tries to break out of the jail on this machine, and says what held.

Each probe runs in a jail like that of a submission, with small limits so that it is quick. Its targets are real: the
doctor puts a file next to yours, starts a server on loopback and a process, and checks whether the probe got there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autograder.sandbox import bubblewrap, fork_client, other_user
from autograder.sandbox.limits import MB, Limits
from course.folder import ROOT, course_folder, exposed, exposed_in_words, seed_path

SECONDS = 60  # for what runs in one jail; much less is needed
SMALL = Limits(memory=160 * MB, processes=24, open_files=64, file_size=4 * MB, scratch=8 * MB, cpu_seconds=20)
NO_MOUNTS = "Bubblewrap did not hide it: keep the course and its checkout outside /usr and outside Python's own folders"
NO_SPACES = "Bubblewrap did not prevent it: take the distribution's own, 0.8 or newer"
NO_GROUP = (
    "This needs a control group, and none could be made: grade as root, on a system with groups for memory and pids"
)
NO_ROOT = "Each process has a limit of its own; grade as root to limit all of them together"
NO_LIMIT = "The kernel did not hold a limit (setrlimit): grade on a plain Linux, not in a sandbox without limits"
NO_FILTER = "No filter of system calls (seccomp) is in force: this needs Linux on x86_64 or aarch64"
# What a separate user in the same container does not prevent, and what does, if anything.
NOT_PROMISED = {
    "see": "It sees command lines, but no environment or memory",
    "memory": "The container's limit applies, and each process has its own",
    "disk": "The container ends with the submission",
}


@dataclass(frozen=True)
class Probe:
    """One thing to try: what must not be possible, and what to do if it is."""

    key: str
    title: str
    advice: str
    probe: str = ""  # its function in `inside/probes.py`, where that has another name


# What is in one row runs in one jail.
ROUNDS = [
    [
        Probe("home", "your home cannot be read", NO_MOUNTS, "read"),
        Probe("course", "the gradebook and the submissions cannot be read", NO_MOUNTS, "read"),
        Probe("seed", "the secret seed cannot be read", NO_MOUNTS, "read"),
        Probe("solutions", "the solutions and the grader cannot be read", NO_MOUNTS, "read"),
        Probe("write", "nothing of this machine can be written to", NO_MOUNTS),
        Probe("kernel", "settings of the kernel cannot be changed", NO_SPACES),
        Probe("loopback", "servers on this machine cannot be reached", NO_SPACES),
        Probe("unix_socket", "Unix sockets of this machine cannot be reached", NO_SPACES),
        Probe("other_sockets", "other ways out of the network are closed", NO_FILTER),
        Probe("see", "processes of this machine cannot be seen", NO_SPACES),
        Probe("signals", "processes of this machine cannot be signaled", NO_SPACES),
        Probe("trace", "processes cannot be traced", NO_FILTER),
        Probe("namespaces", "no namespaces can be made", NO_SPACES),
        Probe("mounts", "nothing can be mounted", NO_SPACES),
        Probe("privileges", "no rights can be gained", NO_SPACES),
        Probe("limits", "limits cannot be raised", NO_LIMIT),
        Probe("environment", "your environment cannot be seen", NO_SPACES),
    ],
    [Probe("fork", "processes are bounded", NO_GROUP)],
    [Probe("memory", "memory is bounded, of all processes together", NO_GROUP)],
    [Probe("disk", "files are bounded together", NO_SPACES), Probe("big_file", "each file is bounded", NO_LIMIT)],
    [Probe("processor", "computing time is bounded", NO_LIMIT)],
    [Probe("outlive", "nothing outlives the jail", NO_SPACES)],
]


def run(other_user: bool = False) -> int:
    """Print a line for each probe; 0 only if all of them were stopped. other_user: of that weaker sandbox"""
    if other_user:
        return _run_other_user()
    if bubblewrap.problem():
        print(f"MISSING  a jail: {bubblewrap.problem()}")
        return 1
    findings = examine()
    for probe, came in findings:
        if came and not _promised(probe):
            print(f"open     {probe.title}: student code {came}. {NO_ROOT}")
        else:
            print(f"MISSING  {probe.title}: student code {came}. {probe.advice}" if came else f"ok       {probe.title}")
    failed = sum(came is not None and _promised(probe) for probe, came in findings) + _examine_warm()
    if not bubblewrap.required():
        print(f"MISSING  the jail is switched off: {bubblewrap.NO_JAIL}=1 is set. Unset it")
        failed += 1
    for folder in exposed():
        print(f"open     {exposed_in_words(folder)}")
    print("Student code is confined here." if not failed else f"Student code is not confined here: {failed} missing.")
    return 1 if failed else 0


def _promised(probe: Probe) -> bool:
    """Whether the jail promises this to the user who grades: only root can make control groups."""
    return probe.key != "memory" or os.geteuid() == 0


def _run_other_user() -> int:
    """The same for the weaker sandbox of `other_user`; 0 if it keeps all its promises."""
    if other_user.problem():
        print(f"MISSING  a separate user: {other_user.problem()}")
        return 1
    failed = 0
    for probe, came in examine(other_user.OtherUser):
        promised = probe.key not in NOT_PROMISED
        failed += bool(came and promised)
        why = "Let only root read and write there" if promised else NOT_PROMISED[probe.key]
        word = "MISSING  " if promised else "open     "
        print(f"{word}{probe.title}: student code {came}. {why}" if came else f"ok       {probe.title}")
    return 1 if failed else 0


def _examine_warm() -> int:
    """The same in jails forked from a warm process; prints one line, or one for each probe that was not stopped."""
    try:
        missing = [(probe, came) for probe, came in examine(fork_client.WarmJail) if came and _promised(probe)]
    except fork_client.NotWarm as error:
        print(f"slow     no jail can be forked from a warm process ({error}): each is started separately")
        return 0
    finally:
        fork_client.give_up()
    for probe, came in missing:
        print(
            f"MISSING  forked from a warm process: {probe.title}: student code {came}. "
            f"Set {fork_client.COLD}=1 to do without such jails"
        )
    if not missing:
        print("ok       all of this also holds in a jail that is forked from a warm process")
    return len(missing)


def examine(confine=bubblewrap.Jail) -> list[tuple[Probe, str | None]]:
    """Run every probe in this kind of jail: None where it held, or words for what was possible."""
    findings = []
    with contextlib.ExitStack() as stack:
        outside = _Outside(stack)
        for probes in ROUNDS:
            limits = replace(SMALL, cpu_seconds=1) if probes[0].key == "processor" else SMALL
            came = _ask(probes, outside, confine, limits)
            findings += [(probe, outside.seen(probe.key) or came[probe.key]) for probe in probes]
    return findings


def _ask(probes: list[Probe], outside: _Outside, confine, limits: Limits) -> dict[str, str | None]:
    came: dict[str, str | None] = {probe.key: "did not end, so what it can do is unknown" for probe in probes}
    asked = [{"key": p.key, "probe": p.probe or p.key, "paths": outside.paths.get(p.key)} for p in probes]
    request = {**outside.request, **asdict(limits), "probes": asked}
    with confine([sys.executable, "-I", "-S", str(bubblewrap.INSIDE / "probes.py")], limits=limits) as confined:
        timer = threading.Timer(SECONDS, confined.process.kill)  # a jail that stops nothing may also hang
        timer.start()
        with contextlib.suppress(BrokenPipeError):
            confined.process.stdin.write(json.dumps(request).encode() + b"\n")
            confined.process.stdin.flush()
        for line in confined.process.stdout:
            said = json.loads(line)
            came[said["key"]] = said["came"]
            if said["key"] == probes[-1].key:
                break
        timer.cancel()
        if "memory" in came and confined.group.used_up() == "memory":
            came["memory"] = None  # the process that would report it may be among those that were ended
    return came


def places() -> list[Path]:
    """Folders in which nothing may be created: of the system, of Python, and of this checkout."""
    system = ("/", "/usr", "/etc", "/dev", "/var/tmp", sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))
    return [*map(Path, system), ROOT, ROOT / "autograder", ROOT / "course", bubblewrap.ATTNLAB, bubblewrap.INSIDE]


class _Outside:
    """The targets of the probes: files, servers and a process of this user, all gone when the stack is closed.

    request: what every probe receives; paths: what some probes try to read, by key
    """

    def __init__(self, stack: contextlib.ExitStack):
        self._stack = stack
        self._token, mark, daemon = (f"doctor-{secrets.token_hex(8)}" for _ in range(3))
        os.environ["ATTENTION_DOCTOR"] = mark
        stack.callback(os.environ.pop, "ATTENTION_DOCTOR")
        folder, course = stack.enter_context(tempfile.TemporaryDirectory(prefix="doctor-")), course_folder()
        existing = next(path for path in (course, *course.parents) if path.is_dir())
        self.paths = {
            "home": self._bait(Path.home()),
            "course": self._bait(existing, course / "gradebook.db", course / "submitted"),
            "seed": self._bait(existing, seed_path()),
            "solutions": [str(path) for path in (*(ROOT / "solutions").glob("*.py"), Path(__file__))],
        }
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{folder}/socket", "\0" + self._token):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
        sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(120)", mark]
        victim = subprocess.Popen(sleep, env={"ATTENTION_DOCTOR": mark}, stdin=subprocess.DEVNULL)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        self._folders = [str(path) for path in (*places(), folder, Path.home(), existing)]
        self.request = {
            "token": self._token,
            "mark": mark,
            "daemon": daemon,
            "victim": victim.pid,
            "port": server.getsockname()[1],
            "socket": f"{folder}/socket",
            "folders": self._folders,
            "files": [str(bubblewrap.INSIDE / "set_limits.py"), str(bubblewrap.ATTNLAB / "__init__.py"), os.__file__],
        }

    def _bait(self, folder: Path, *paths: Path) -> list[str]:
        """Files that must not be visible inside: a new file in the folder, and those of the paths that exist."""
        bait = folder / f".{self._token}-bait"
        with contextlib.suppress(OSError):
            bait.touch()
            self._stack.callback(bait.unlink, missing_ok=True)
        return [str(path) for path in (bait, *paths) if path.exists()]

    def seen(self, key: str) -> str | None:
        """Look at effects that are visible only from outside, and remove everything that the probe left."""
        if key == "write":
            changed = [folder for folder in self._folders if os.path.lexists(f"{folder}/{self._token}")]
            for folder in changed:
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/{self._token}")
            return f"can write to {', '.join(changed[:3])}" if changed else None
        if key == "outlive":
            deadline, daemon = time.monotonic() + 5, self.request["daemon"]
            while (left := list(bubblewrap.processes_with(daemon, "cmdline"))) and time.monotonic() < deadline:
                time.sleep(0.02)
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return "is still there when the jail has ended" if left else None
        return None
