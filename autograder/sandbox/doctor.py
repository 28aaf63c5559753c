"""`python -m autograder doctor`: tries to break out of the jail on this machine, and says what held.

Each probe runs in a jail like that of a submission, with small limits so that it is quick. What it is after is real:
the doctor puts a file where yours are, a server on loopback, a process of yours, and looks whether the probe got there.
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
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.course.folder import ROOT, course_folder, seed_path
from autograder.sandbox import bubblewrap, fork_client
from autograder.sandbox.bubblewrap import MB, Limits

PROBES = Path(__file__).with_name("inside") / "probes.py"
SECONDS = 60  # for what runs in one jail; much less is needed
SMALL = Limits(
    memory=160 * MB, mapped=1024 * MB, processes=24, open_files=64, file_size=4 * MB, scratch=8 * MB, cpu_seconds=20
)
NO_MOUNTS = "Bubblewrap did not hide it: keep the course and its checkout outside /usr and outside Python's own folders"
NO_SPACES = "Bubblewrap did not prevent it: take the distribution's own, 0.8 or newer"
NO_GROUP = "That takes a control group, and none could be made: grade as root, where groups for memory and pids are"
NO_LIMIT = "The kernel did not hold a limit (setrlimit): grade on a plain Linux, not in a sandbox without limits"
NO_FILTER = "No filter of system calls (seccomp) is in force: it takes Linux on x86_64 or aarch64"


@dataclass(frozen=True)
class Probe:
    """One thing to try: what must not be possible, and what to do where it is."""

    key: str
    title: str
    advice: str
    probe: str = ""  # its function in doctor_probes.py, where that has another name


@dataclass(frozen=True)
class Finding:
    """What came of a probe: None where the jail held, or words for what was possible."""

    probe: Probe
    came: str | None


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
        Probe("signals", "processes of this machine cannot be signalled", NO_SPACES),
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


def run() -> int:
    """Print a line for each probe; 0 only if all of them were held."""
    if bubblewrap.problem():
        print(f"MISSING  a jail: {bubblewrap.problem()}")
        return 1
    findings = examine()
    for finding in findings:
        if finding.came is None:
            print(f"ok       {finding.probe.title}")
        else:
            print(f"MISSING  {finding.probe.title}: student code {finding.came}. {finding.probe.advice}")
    failed = sum(finding.came is not None for finding in findings) + _examine_warm()
    if not bubblewrap.required():
        print(f"MISSING  the jail is switched off: {bubblewrap.NO_JAIL}=1 is set. Unset it")
        failed += 1
    print("Student code is confined here." if not failed else f"Student code is not confined here: {failed} missing.")
    return 1 if failed else 0


def _examine_warm() -> int:
    """The same in jails forked from a warm process; prints one line, or one for each that was not held."""
    try:
        fork_client.server()
        missing = [finding for finding in examine(fork_client.WarmJail) if finding.came is not None]
    except fork_client.NotWarm as error:
        print(f"slow     no jail can be forked from a warm process ({error}): each is started for itself")
        return 0
    finally:
        fork_client.give_up()
    for finding in missing:
        print(
            f"MISSING  forked from a warm process: {finding.probe.title}: student code {finding.came}. "
            f"Set {fork_client.COLD}=1 to do without such jails"
        )
    if not missing:
        print("ok       all of this holds in a jail that is forked from a warm process, too")
    return len(missing)


def examine(confine=bubblewrap.Jail) -> list[Finding]:
    """Run every probe.

    confine: the jail to try, with the arguments of `jail.Jail`
    """
    findings = []
    with _Outside() as outside:
        for probes in ROUNDS:
            limits = replace(SMALL, cpu_seconds=1) if probes[0].key == "processor" else SMALL
            came = _ask(probes, outside, confine, limits)
            findings += [Finding(probe, outside.seen(probe.key) or came[probe.key]) for probe in probes]
    return findings


def _ask(probes: list[Probe], outside: _Outside, confine, limits: Limits) -> dict[str, str | None]:
    """What came of some probes in one jail, by key."""
    came = {probe.key: "did not end, so it is not known what it can do" for probe in probes}
    request = {
        **outside.request,
        "memory": limits.memory,
        "processes": limits.processes,
        "file_size": limits.file_size,
        "scratch": limits.scratch,
        "cpu_seconds": limits.cpu_seconds,
        "probes": [
            {"key": probe.key, "probe": probe.probe or probe.key, **outside.special.get(probe.key, {})}
            for probe in probes
        ],
    }
    program = [sys.executable, "-I", "-S", "-c", "import os; exec(open(os.environ['HOME'] + '/probes.py').read())"]
    with confine(program, files={"probes.py": PROBES}, limits=limits) as confined:
        timer = threading.Timer(SECONDS, confined.process.kill)  # a jail that holds nothing may also hang
        timer.start()
        with contextlib.suppress(BrokenPipeError):
            confined.process.stdin.write(json.dumps(request).encode() + b"\n")
            confined.process.stdin.flush()
        for _ in probes:
            line = confined.process.stdout.readline()
            if not line:
                break
            said = json.loads(line)
            came[said["key"]] = said["came"]
        timer.cancel()
        if "memory" in came and confined.used_up() == "memory":
            came["memory"] = None  # whoever tells of it may be among those who were ended
    return came


def places() -> list[Path]:
    """Folders in which nothing may be made: of the system, of Python, and of this checkout."""
    system = map(Path, ("/", "/usr", "/etc", "/dev", "/var/tmp"))
    return [
        *system,
        ROOT,
        ROOT / "attnlab",
        ROOT / "autograder",
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(os.__file__).parent,
    ]


class _Outside:
    """What the probes are after: files, servers and a process of this user, all gone afterwards."""

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        with self._stack:
            self.token, self.mark, self._daemon = (f"doctor-{secrets.token_hex(8)}" for _ in range(3))
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="doctor-")))
            self._stack.enter_context(_variable("ATTENTION_DOCTOR", self.mark))
            course = course_folder()
            beside_course = next(path for path in (course, *course.parents) if path.is_dir())
            self.special = {
                "home": {"paths": self._paths(Path.home())},
                "course": {"paths": self._paths(beside_course, course / "gradebook.db", course / "submitted")},
                "seed": {"paths": self._paths(beside_course, seed_path())},
                "solutions": {
                    "paths": self._paths(
                        None, *sorted((ROOT / "solutions").glob("*.py")), Path(__file__), ROOT / "tests" / "conftest.py"
                    )
                },
            }
            server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for address in (str(folder / "socket"), "\0" + self.token):
                unix = self._stack.enter_context(socket.socket(socket.AF_UNIX))
                unix.bind(address)
                unix.listen()
            victim = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", "import time; time.sleep(120)", self.mark],
                env={"ATTENTION_DOCTOR": self.mark},
                stdin=subprocess.DEVNULL,
            )
            self._stack.callback(victim.wait)
            self._stack.callback(victim.kill)
            self._folders = list(map(str, (*places(), folder, Path.home(), beside_course)))
            files = [str(path) for path in (bubblewrap.LIMITED, ROOT / "attnlab" / "__init__.py", os.__file__)]
            self.request = {
                "token": self.token,
                "mark": self.mark,
                "daemon": self._daemon,
                "victim": victim.pid,
                "port": server.getsockname()[1],
                "socket": str(folder / "socket"),
                "folders": self._folders,
                "files": files,
            }
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc):
        self._stack.close()

    def _paths(self, folder: Path | None, *paths: Path) -> list[str]:
        """What can be read here and must not be there: a new file in the folder, and those of these that exist."""
        found = []
        if folder:
            bait = folder / f".{self.token}-bait"
            with contextlib.suppress(OSError):
                bait.touch()
                self._stack.callback(bait.unlink, missing_ok=True)
                found.append(bait)
        return [str(path) for path in (*found, *paths) if path.exists()]

    def seen(self, key: str) -> str | None:
        """What only a look from outside tells; what was left is taken away."""
        if key == "write":
            found = [folder for folder in self._folders if os.path.lexists(os.path.join(folder, self.token))]
            for folder in found:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, self.token))
            return f"can write to {', '.join(found[:3])}" if found else None
        if key == "outlive":
            deadline = time.monotonic() + 5
            while (left := self._daemons()) and time.monotonic() < deadline:
                time.sleep(0.02)
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return "is still there when the jail has ended" if left else None
        return None

    def _daemons(self) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if self._daemon.encode() in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found


@contextlib.contextmanager
def _variable(name: str, value: str):
    """A variable of this environment, for a while."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
