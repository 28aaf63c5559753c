"""Run a program in a jail: bubblewrap with explicit mounts, no network, and limits on everything.

A process in it sees Python, its libraries, `attnlab`, the programs of `inside`, the files it is given, and its own
folders in memory, which end with it. It talks through the pipes it inherits, so there is no socket and no shared
folder. No gradebook, solution, hidden test or other submission can be read there.
"""

import contextlib
import functools
import os
import secrets
import shutil
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.sandbox.cgroup import Group
from autograder.sandbox.limits import Limits
from course.errors import CourseError
from course.folder import ROOT

INSIDE, ATTNLAB = Path(__file__).with_name("inside"), ROOT / "attnlab"
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"]
HOME = "/home/student"
USER = 65534  # an unprivileged user, inside
NO_JAIL = "AUTOGRADER_NO_JAIL"
# To make user namespaces in which another user is unprivileged. These capabilities hold only in its own namespaces.
SERVER_RIGHTS = ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETFCAP"]


class NoJail(CourseError):
    """Student code cannot be confined here; the message says why, and what to do."""


def required() -> bool:
    """Whether student code may run only in a jail: always, unless the environment says AUTOGRADER_NO_JAIL=1."""
    return os.environ.get(NO_JAIL) != "1"


@functools.cache
def problem() -> str | None:
    """Say why this machine has no jail, and what to do; None if it has one."""
    if shutil.which("bwrap") is None:
        return (
            "bubblewrap is not installed (Debian: apt-get install bubblewrap), so student code could read and "
            "change what it likes"
        )
    out = err = b""
    for _ in range(2):  # again if it was killed: that says nothing about the machine
        with Jail([sys.executable, "-I", "-S", "-c", "print('confined')"]) as jail:
            out, err = jail.process.communicate(timeout=60)
        if 0 <= jail.process.returncode <= 128:  # above, it was bubblewrap's own child that was killed
            break
    if out.strip() == b"confined":
        return None
    said = last_line(err)
    return f"bubblewrap is installed but cannot confine a process here: {said} ({_advice(said)})"


def last_line(said: bytes) -> str:
    return (said.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]


def _advice(said: str) -> str:
    """Say what to do about bubblewrap that does not start."""
    if "nknown option" in said:
        return "version 0.8 or newer is needed"
    for setting, forbids, allows in (
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
    ):
        path = Path("/proc/sys", *setting.split("."))
        if path.exists() and path.read_text().strip() == forbids:
            kept = f"echo {setting}={allows} | sudo tee /etc/sysctl.d/60-attention.conf"
            return f"sudo sysctl -w {setting}={allows}, and to keep it after a reboot: {kept}"
    return (
        "user namespaces must be allowed; in Docker: --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined"
    )


def ensure() -> bool:
    """Whether a jail can be used. Raises NoJail if it is required and missing."""
    if not required():
        return False
    if problem():
        raise NoJail(f"{problem()}. To grade without a jail, and only code that you trust, set {NO_JAIL}=1")
    return True


class Jail:
    """One program in its own jail. Use as a context manager; when it ends, so does every process in it.

    program: the command line, of paths that are the same inside
    files: name in the home folder -> path of a file to be read there
    pass_fds: descriptors that go to the program; `passed` has the numbers they have there
    process: a Popen with pipes, or a fork with the same methods (see `fork_client`)
    """

    process: Any

    def __init__(
        self,
        program: list[str],
        *,
        files: dict[str, Path] | None = None,
        pass_fds: tuple[int, ...] = (),
        limits: Limits = Limits(),
    ):
        self.program, self.files, self.passed, self.limits = program, files or {}, pass_fds, limits
        self.group = Group()

    def __enter__(self):
        self.group = Group.make(self.limits)
        confined = command_line(self.files, self.limits)
        command = [*self.group.enter(), *confined, "--", *set_limits(self.limits), *self.program]
        self.process = start(command, self.passed)
        return self

    def __exit__(self, *exc):
        self.process.kill()  # the first process of its namespace ends with it, and every other with that one
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        self.group.remove()

    def last_words(self) -> str:
        """The messages of a program that did not start."""
        self.process.kill()
        return last_line(self.process.stderr.read())


class Unconfined(Jail):
    """The same without a jail, for trusted code: same limits on each process, same environment."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="attempt-", ignore_cleanup_errors=True)
        home, self._mark = self._folder.name, secrets.token_hex(16)  # its descendants inherit the mark
        for name, path in self.files.items():
            (Path(home) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, Path(home) / name)
        environment = {**inner_environment(), "HOME": home, "ATTEMPT": self._mark}
        self.process = start([*set_limits(self.limits), *self.program], self.passed, cwd=home, env=environment)
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        super().__exit__(*exc)
        for pid in processes_with(f"ATTEMPT={self._mark}", "environ"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._folder.cleanup()


def processes_with(entry: str, kind: str) -> Iterator[int]:
    """The processes of this machine that have an entry in their `cmdline` or `environ`."""
    for path in Path("/proc").glob(f"[0-9]*/{kind}"):
        with contextlib.suppress(OSError):
            if entry.encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def start(command: list[str], pass_fds: tuple[int, ...], streams: int = subprocess.PIPE, cwd: str = "/", env=None):
    """A process in its own session. env: its environment, which for bubblewrap contains only a PATH"""
    return subprocess.Popen(
        command,
        stdin=streams,
        stdout=streams,
        stderr=streams,
        cwd=cwd,
        env=env or {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        pass_fds=pass_fds,
        start_new_session=True,
    )


def set_limits(limits: Limits, sockets: bool = True) -> list[str]:
    """The prefix of a command that makes it run under limits.

    sockets: whether it may open any, as they end at its network namespace; else it starts only if the kernel refuses
    """
    program = [sys.executable, "-I", "-S", str(INSIDE / "set_limits.py")]
    return [*program, "sockets" if sockets else "no-sockets", *limits.rlimits()]


def command_line(files: dict[str, Path], limits: Limits, server=False) -> list[str]:
    """The command line of bubblewrap: everything that is mounted and set.

    server: for the grader's own program that makes jails inside of it, see `inside/fork_server.py`
    """
    user = "0" if server else str(USER)
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent"]
    command += ["--new-session", "--clearenv", "--uid", user, "--gid", user, "--hostname", "jail"]
    command += SERVER_RIGHTS if server else ["--disable-userns"]
    for path in filter(os.path.lexists, SYSTEM):
        command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp", HOME):
        command += ["--size", str(limits.scratch), "--tmpfs", folder]
    for path in python_folders():
        command += ["--ro-bind", path, path]
    for path in font_cache():
        command += ["--ro-bind", str(path), f"{HOME}/.cache/matplotlib/{path.name}"]
    for name, path in files.items():
        command += ["--ro-bind", str(path), f"{HOME}/{name}"]
    # /proc as well: a grader that is root is root for /proc/sys in any namespace, and /proc/1/mem is writable for its
    # owner.
    for folder in ("/dev", "/") if server else ("/proc", "/dev", "/"):
        command += ["--remount-ro", folder]
    for name, value in inner_environment().items():
        command += ["--setenv", name, value]
    return [*command, "--chdir", HOME]


def inner_environment() -> dict[str, str]:
    """The whole environment of a process in the jail."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": HOME,
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
        "ATTNLAB_MODEL": "",
        "ATTNLAB_GEMMA": "",
        "NBGRADER_EXECUTION": "autograde",  # as nbgrader tells tests in which of its commands they run
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def python_folders() -> list[str]:
    """Python, its libraries, `attnlab` and `inside`. The rest of this checkout stays outside."""
    folders = {sys.base_prefix, sys.prefix, str(ATTNLAB), str(INSIDE)}
    if site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages()):
        folders.add(site.getusersitepackages())
    there = {*map(Path, folders), *map(Path, map(os.path.realpath, folders)), Path("/usr")}
    return sorted(str(path) for path in there if path != Path("/usr") and there.isdisjoint(path.parents))


@functools.cache
def font_cache() -> tuple[Path, ...]:
    """Matplotlib's list of fonts. Making it again in each jail would take seconds of every student's time."""
    import matplotlib

    folder = Path(matplotlib.get_cachedir())
    if not list(folder.glob("fontlist-*.json")):
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], capture_output=True, check=False)
    return tuple(sorted(folder.glob("fontlist-*.json")))
