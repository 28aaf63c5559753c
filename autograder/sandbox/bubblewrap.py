"""The jail that student code runs in: bubblewrap, with explicit mounts, no network, and limits on everything.

A process in it sees Python, its libraries, `attnlab`, the files it is given, and a folder of its own in memory that
ends with it. It talks through the pipes it inherits, so there is no socket and no shared folder. No gradebook, no
solution, no hidden test and no other submission is there to be read.
"""

from __future__ import annotations

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
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course.folder import ROOT
from autograder.errors import CourseError

HOME = "/home/student"
USER = 65534  # nobody, inside
NO_JAIL = "AUTOGRADER_NO_JAIL"
MB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")
LIMITED = Path(__file__).with_name("inside") / "set_limits.py"
# To make namespaces in which a user of its own stands for nobody. They hold in its own namespaces alone.
SERVER_RIGHTS = ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETFCAP"]


class NoJail(CourseError):
    """Student code cannot be confined here; the message says why, and what to do."""


@dataclass(frozen=True)
class Limits:
    """What one jail may use. Bytes, seconds, and numbers of things."""

    memory: int = 3072 * MB  # of all its processes, files in memory included; each process may map MAPPED
    mapped: int = 10240 * MB  # PyTorch maps much more than it uses
    processes: int = 128
    open_files: int = 512
    file_size: int = 64 * MB
    scratch: int = 256 * MB
    cpu_seconds: int = 1200


def required() -> bool:
    """Whether student code may run only in a jail: always, unless the environment says AUTOGRADER_NO_JAIL=1."""
    return os.environ.get(NO_JAIL) != "1"


@functools.cache
def problem() -> str | None:
    """Why there is no jail on this machine, in words that say what to do, or None."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return (
            "bubblewrap is not installed (Debian: apt-get install bubblewrap), so student code could read and "
            "change what it likes"
        )
    for _ in range(2):  # once more if somebody killed it: that says nothing about the machine
        with Jail([sys.executable, "-I", "-S", "-c", "print('confined')"]) as jail:
            out, err = jail.process.communicate(timeout=60)
        if jail.process.returncode >= 0:
            break
    if out.strip() != b"confined":
        said = (err.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]
        return f"bubblewrap is installed but cannot confine a process here: {said} ({_advice(said)})"
    return None


def _advice(said: str) -> str:
    """What to do about bubblewrap that does not start."""

    def setting(name: str) -> str:
        path = Path("/proc/sys") / name
        return path.read_text().strip() if path.exists() else ""

    if "nknown option" in said:
        return "version 0.8 or newer is needed"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if setting("kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if setting("user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=10000"
    return (
        "user namespaces must be allowed; in Docker: --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined"
    )


def ensure() -> bool:
    """Whether there is a jail to use. Raises NoJail where there is none and one is required."""
    if not required():
        return False
    if problem():
        raise NoJail(f"{problem()}. To grade without a jail, and only code that you trust, set {NO_JAIL}=1")
    return True


class Jail:
    """One program in a jail of its own. Use as a context manager; when it ends, so does every process in it.

    program: the command line, of paths that are the same inside
    files: name in the home folder -> path of a file to be read there
    pass_fds: descriptors that go to the program; `passed` has the numbers they have there
    """

    def __init__(
        self,
        program: list[str],
        *,
        files: dict[str, Path] | None = None,
        pass_fds: tuple[int, ...] = (),
        limits: Limits = Limits(),
        environment: dict[str, str] | None = None,
    ):
        self.limits = limits
        self._group = Group.make(limits)
        self._command = [
            *self._group.enter(),
            *bubblewrap(files or {}, limits, environment or {}),
            "--",
            *limited(limits),
            *program,
        ]
        self.passed, self._cwd = pass_fds, "/"
        self._environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}  # bubblewrap's own; inside it is another

    def __enter__(self):
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._cwd,
            pass_fds=self.passed,
            start_new_session=True,
            env=self._environment,
        )
        return self

    def __exit__(self, *exc):
        self.process.kill()  # the first process of its namespace ends with it, and every other with that one
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        self._group.remove()

    def used_up(self) -> str | None:
        """The limit that ended the program, where that can be told."""
        return self._group.used_up()

    def last_words(self) -> str:
        """What a program that did not start has said."""
        self.process.kill()
        said = self.process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else "it said nothing"


class Unconfined(Jail):
    """The same without a jail, for code that is trusted: same limits on each process, same environment."""

    def __init__(self, program, *, files=None, pass_fds=(), limits=Limits(), environment=None):
        self.limits, self._group, self.passed = limits, Group(), pass_fds
        self._folder = tempfile.TemporaryDirectory(prefix="attempt-", ignore_cleanup_errors=True)
        self._cwd = self._folder.name
        for name, path in (files or {}).items():
            shutil.copy(path, Path(self._folder.name) / name)
        self._mark = {"ATTEMPT": secrets.token_hex(16)}  # what its descendants are known by, in any session
        self._environment = {**inner_environment(), "HOME": self._folder.name, **(environment or {}), **self._mark}
        self._command = [*limited(limits), *program]

    def __exit__(self, *exc):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        super().__exit__(*exc)
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"ATTEMPT={self._mark['ATTEMPT']}".encode() in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
        self._folder.cleanup()


def limited(limits: Limits) -> list[str]:
    """What to put before a command so that it runs under limits."""
    return [sys.executable, "-I", "-S", str(LIMITED), *limit_arguments(limits)]


def limit_arguments(limits: Limits) -> list[str]:
    """The numbers that `limited.py` takes."""
    return [
        str(value)
        for value in (limits.mapped, limits.processes, limits.open_files, limits.file_size, limits.cpu_seconds)
    ]


def bubblewrap(files: dict[str, Path], limits: Limits, environment: dict[str, str], server: bool = False) -> list[str]:
    """The command line of bubblewrap: what is mounted, what is set, and nothing else.

    server: for the grader's own program that makes jails inside of it, see `fork_server.py`
    """
    user = str(0 if server else USER)
    command = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--unshare-user",
        *(SERVER_RIGHTS if server else ["--disable-userns"]),
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--uid",
        user,
        "--gid",
        user,
        "--hostname",
        "jail",
    ]
    for folder in system_folders():
        link = os.path.islink(folder)
        command += ["--symlink", os.readlink(folder), folder] if link else ["--ro-bind", folder, folder]
    # Read-only: who grades as root is root to /proc/sys in any namespace, and /proc/1/mem is writable to its owner.
    command += [
        "--proc",
        "/proc",
        *([] if server else ["--remount-ro", "/proc"]),
        "--dev",
        "/dev",
        "--size",
        str(limits.scratch),
        "--tmpfs",
        "/dev/shm",
        "--remount-ro",
        "/dev",
        "--size",
        str(limits.scratch),
        "--tmpfs",
        "/tmp",
        "--size",
        str(limits.scratch),
        "--tmpfs",
        HOME,
    ]
    for path in python_folders():
        command += ["--ro-bind", path, path]
    for name, path in files.items():
        command += ["--ro-bind", str(path), f"{HOME}/{name}"]
    for path in font_cache():
        command += ["--ro-bind", str(path), f"{HOME}/.cache/matplotlib/{path.name}"]
    command += ["--remount-ro", "/", "--chdir", HOME]
    for name, value in {**inner_environment(), **environment}.items():
        command += ["--setenv", name, value]
    return command


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
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ATTNLAB_MODEL": "",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def system_folders() -> list[str]:
    """The folders of the system that programs and libraries are read from."""
    wanted = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/lib32",
        "/etc/ld.so.cache",
        "/etc/alternatives",
        "/etc/fonts",
    ]
    return [folder for folder in wanted if os.path.lexists(folder)]


def python_folders() -> list[str]:
    """Python, its libraries and `attnlab`. The rest of this checkout stays outside."""
    wanted = {os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, ROOT / "attnlab")}
    wanted |= {sys.prefix, str(ROOT / "attnlab"), str(LIMITED)}
    if site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages()):
        wanted.add(site.getusersitepackages())
    outer = [path for path in wanted if path != "/usr" and not path.startswith("/usr/")]
    return sorted(
        path for path in outer if not any(path != other and path.startswith(other + os.sep) for other in outer)
    )


@functools.cache
def font_cache() -> tuple[Path, ...]:
    """Matplotlib's list of fonts. Made in each jail anew, it would take seconds of every student's time."""
    import matplotlib

    folder = Path(matplotlib.get_cachedir())
    if not list(folder.glob("fontlist-*.json")):
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], capture_output=True, check=False)
    return tuple(sorted(folder.glob("fontlist-*.json")))


@dataclass
class Group:
    """A control group, which bounds memory and processes together. Root can make one; for anyone else, and where there
    is none, the limits of each process must do (the kernel holds them against all of a user but root)."""

    folders: list[Path] = field(default_factory=list)

    @classmethod
    def make(cls, limits: Limits) -> Group:
        group, name = cls(), f"attention-{os.getpid()}-{time.monotonic_ns()}"
        both = CGROUPS / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if both.is_file() and {"memory", "pids"} <= set(both.read_text().split()):
                group._add(
                    CGROUPS / name, {"memory.max": limits.memory, "memory.swap.max": 0, "pids.max": limits.processes}
                )
            else:
                if (CGROUPS / "memory").is_dir():
                    group._add(
                        CGROUPS / "memory" / name,
                        {"memory.limit_in_bytes": limits.memory, "memory.memsw.limit_in_bytes": limits.memory},
                    )
                if (CGROUPS / "pids").is_dir():
                    group._add(CGROUPS / "pids" / name, {"pids.max": limits.processes})
        return group

    def _add(self, folder: Path, settings: dict[str, int]) -> None:
        _sweep(folder.parent)
        folder.mkdir()
        self.folders.append(folder)
        for name, value in settings.items():
            with contextlib.suppress(FileNotFoundError):
                (folder / name).write_text(str(value))

    def enter(self) -> list[str]:
        """What to put before a command so that it starts inside."""
        if not self.folders:
            return []
        into = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in self.folders)
        return ["/bin/sh", "-c", f'{into}exec "$@"', "sh"]

    def take_in(self, pid: int) -> None:
        """Put a process that runs already inside. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def used_up(self) -> str | None:
        for folder in self.folders:
            with contextlib.suppress(OSError):
                for name in ("memory.events", "memory.oom_control"):
                    text = (folder / name).read_text() if (folder / name).exists() else ""
                    if any(line.split()[0] == "oom_kill" and line.split()[1] != "0" for line in text.splitlines()):
                        return "memory"
        return None

    def remove(self) -> None:
        for folder in self.folders:
            for _ in range(50):  # its processes are dead, but may not have been buried yet
                with contextlib.suppress(OSError):
                    for pid in map(int, (folder / "cgroup.procs").read_text().split()):
                        if pid:  # 0 would be this process and its group
                            os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)


_swept: set[Path] = set()
_sweeping = threading.Lock()


def _sweep(parent: Path) -> None:
    """Remove the groups that graders left behind which were killed; one that still has processes stays."""
    with _sweeping:
        if parent in _swept:
            return
        _swept.add(parent)
        for folder in parent.glob("attention-*"):
            if not Path(f"/proc/{folder.name.split('-')[1]}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
