"""A weaker sandbox, for containers in which bubblewrap cannot work: student code as a separate user.

It needs root, as in a container of Gradescope's. A program runs under a user id that nothing else has, without rights
or a way to gain any, under limits, and with a filter of system calls that opens no socket at all. There are no
namespaces: the program sees the files of this machine that every user may read, and the names of its processes. So what
must stay hidden must be readable only by root, and one container must grade one submission at a time. Only
`autograder.gradescope` uses this sandbox.
"""

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

from autograder.sandbox import bubblewrap
from autograder.sandbox.bubblewrap import Jail, NoJail
from autograder.sandbox.cgroup import Group

USERS = range(61184, 65520)  # ids that systemd keeps for temporary users
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # where every user may write
FIRST_TO_GO = 'echo 1000 > /proc/self/oom_score_adj; exec "$@"'  # when memory runs out, and not the grader
TRIES = 50
CONFINED = """
import os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
rights = [status[name].strip("0 \\t\\n") for name in ("CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb")]
assert os.getuid() and os.getgid() and not os.getgroups() and not any(rights), "rights are left"
assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2", "no filter of system calls"
try:
    socket.socket(socket.AF_UNIX)
except OSError:
    print("confined")
"""


@functools.cache
def problem() -> str | None:
    """Say why this machine cannot have such a sandbox, and what to do; None if it can."""
    if os.geteuid():
        return "only root can run a program as another user"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed (Debian: apt-get install util-linux)"
    with OtherUser([sys.executable, "-I", "-S", "-c", CONFINED]) as held:
        out, err = held.process.communicate(timeout=60)
    if out.strip() == b"confined":
        return None
    return (
        f"a program of another user is not confined here: {bubblewrap.last_line(err)} "
        f"(Python, {bubblewrap.ATTNLAB} and {bubblewrap.INSIDE} must be readable by every user)"
    )


def ensure() -> None:
    """Raise NoJail if such a sandbox cannot be made."""
    if problem():
        raise NoJail(problem())


class OtherUser(Jail):
    """One program as a separate user.

    Use as a context manager: when it ends, so do all processes of that user, and its files are removed.
    """

    def __enter__(self):
        self.user = _free_user()
        # Not in /tmp if TMPDIR names another folder: the grader may have closed it to all others.
        self.home = Path(tempfile.mkdtemp(prefix="student-"))
        fonts = self.home / ".cache" / "matplotlib"
        fonts.mkdir(parents=True)
        for name, path in {**self.files, **{f".cache/matplotlib/{p.name}": p for p in bubblewrap.font_cache()}}.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.home / name)
            (self.home / name).chmod(0o444)
        for folder in (fonts, fonts.parent, self.home):
            folder.chmod(0o700)
            os.chown(folder, self.user, self.user)
        self.group = Group.make(self.limits)
        here = {"HOME": str(self.home), "TMPDIR": str(self.home)}
        self.process = bubblewrap.start(
            [
                *self.group.enter(),
                *("/bin/sh", "-c", FIRST_TO_GO, "sh"),
                *as_user(self.user),
                *bubblewrap.set_limits(self.limits, sockets=False),
                *self.program,
            ],
            self.passed,
            cwd=str(self.home),
            env={**bubblewrap.inner_environment(), **here},
        )
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for _ in range(TRIES):
            # By the user itself, to all at once: one by one, a program that forks could be faster.
            subprocess.run([*as_user(self.user), "/bin/sh", "-c", "kill -KILL -1"], capture_output=True, check=False)
            for pid in _processes_of(self.user):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not any(_processes_of(self.user)):
                break
            time.sleep(0.02)
        super().__exit__(*exc)
        shutil.rmtree(self.home, ignore_errors=True)
        _remove_files_of(self.user)


def as_user(user: int) -> list[str]:
    """The prefix of a command that makes it run as this user, without rights, and end with the grader."""
    drop = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", *drop, "--pdeathsig=KILL", "--"]


def _free_user() -> int:
    """An id that no user, process or file of a shared folder has."""
    rng = SystemRandom()
    for _ in range(TRIES):
        user = rng.choice(USERS)
        with contextlib.suppress(KeyError):
            pwd.getpwuid(user)
            continue
        if not any(_processes_of(user)) and not any(_files_of(user)):
            return user
    raise NoJail(f"of the user ids from {USERS[0]} to {USERS[-1]} none is free")


def _processes_of(user: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            if folder.stat().st_uid == user and state not in "ZX":
                yield int(folder.name)


def _files_of(user: int) -> Iterator[Path]:
    for folder in map(Path, SHARED):
        for path in folder.iterdir() if folder.is_dir() else ():
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == user:
                    yield path


def _remove_files_of(user: int) -> None:
    for path in list(_files_of(user)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
