"""Jails that are forked from a warm process: the same confinement as `bubblewrap.Jail`, without seconds of imports.

A grading process has one server for notebooks that use PyTorch and one for those that do not, whose forks cost half as
much; each is started when it is first needed. They contain nothing from any submission, so nothing can pass from one
to the next. A server that fails is given up, and a jail is started cold.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence

from attnlab.checking.schema import ForkOrder
from autograder.sandbox import bubblewrap
from autograder.sandbox.cgroup import Group
from autograder.sandbox.limits import FORK_SECONDS, START_SECONDS, Limits

COLD = "AUTOGRADER_COLD"
IDLE_SECONDS = 300  # for which a server waits for the next submission
FORKS = 500  # from one server, before a new one replaces it with all that libraries may have accumulated
MAX_FILES = 32 << 20  # bytes of given files that are copied into a jail
# What notebooks import.
PLAIN = ["matplotlib.pyplot", "attnlab.check", "attnlab.data", "attnlab.mine", "attnlab.widgets"]
CHECKING = [f"attnlab.checking.{name}" for name in ("fake_device", "meter", "fakes")]
TORCH = ["torch", "torch.nn.functional", *CHECKING, *PLAIN]


class NotWarm(Exception):
    """No process could be forked; the message says why."""


class Server:
    """A warm process that has these libraries loaded, in its own jail, ready. Raises NotWarm."""

    def __init__(self, libraries: list[str]):
        self.forks = 0
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(START_SECONDS)
        with other:
            program = [sys.executable, "-I", "-B", str(bubblewrap.INSIDE / "fork_server.py"), str(bubblewrap.ATTNLAB)]
            program += [str(other.fileno()), str(IDLE_SECONDS), *libraries]
            command = [*bubblewrap.command_line({}, Limits(), server=True), "--", *program]
            self.process = bubblewrap.start(command, (other.fileno(),), subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            if self.control.recv(16) == b"ready":
                return
        self.close()
        raise NotWarm("the fork server did not start")

    @property
    def usable(self) -> bool:
        return self.process.poll() is None and self.forks < FORKS

    def fork(self, order: ForkOrder, descriptors: list[int]) -> None:
        """Raises OSError."""
        self.forks += 1
        socket.send_fds(self.control, [json.dumps(order).encode()], descriptors)

    def close(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()


_servers: dict[bool, Server] = {}  # by whether it has PyTorch
_one_at_a_time = threading.Lock()


def wanted() -> bool:
    """Whether processes may be forked: not where the environment says AUTOGRADER_COLD=1."""
    return os.environ.get(COLD) != "1"


def server(torch: bool = True) -> Server:
    """This process's server with or without PyTorch. Raises NotWarm."""
    with _one_at_a_time:
        if torch in _servers and not _servers[torch].usable:
            _servers.pop(torch).close()
        if torch not in _servers:
            _servers[torch] = Server(TORCH if torch else PLAIN)
        return _servers[torch]


def give_up() -> None:
    """End the servers. The next one needed is a new one."""
    with _one_at_a_time:
        while _servers:
            _servers.popitem()[1].close()


atexit.register(give_up)
os.register_at_fork(after_in_child=_servers.clear)  # a fork of this process has none: they end with this one


class WarmJail(bubblewrap.Jail):
    """A jail whose first process is forked from the server. Entering it raises NotWarm if none could be forked.

    program: the command line, or [] for the process that runs notebooks; libraries: what that has loaded
    """

    def __init__(
        self, program: list[str], *, libraries: Sequence[str] = ("torch",), pass_fds: tuple[int, ...] = (), **options
    ):
        super().__init__(program, **options)
        self._libraries, self._pass_fds = libraries, pass_fds
        self.passed = tuple(range(3, 3 + len(pass_fds)))

    def __enter__(self):
        self.group, self.process = Group.make(self.limits), _Forked()
        with contextlib.ExitStack() as failed:
            failed.callback(self.__exit__)
            try:
                self._fork()
            except OSError as error:
                raise NotWarm(f"the fork server made no process: {error}") from None
            failed.pop_all()
        return self

    def _fork(self) -> None:
        """Raises NotWarm or OSError."""
        order: ForkOrder = {
            "program": self.program,
            "scratch": self.limits.scratch,
            "limits": self.limits.rlimits(),
            "files": list(self.files),
            "libraries": self._libraries,
        }
        with contextlib.ExitStack() as ends:
            for end in self.process.ends:
                ends.callback(os.close, end)
            announce, other = map(ends.enter_context, socket.socketpair())
            announce.settimeout(FORK_SECONDS)
            announce.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            files = [ends.enter_context(open(path, "rb")).fileno() for path in self.files.values()]
            if sum(os.fstat(file).st_size for file in files) > MAX_FILES:
                raise NotWarm("the given files are too large to be copied")
            given = [other.fileno(), *self.process.ends, *files, *self._pass_fds]
            server("torch" in self._libraries).fork(order, given)
            other.close()
            self.process.hold(_next_word(announce))
            self.group.take_in(self.process.pid)
            announce.send(b".")
            _next_word(announce)

    def last_words(self) -> str:
        return "the process that was forked for it ended"


def _next_word(announce: socket.socket) -> int:
    """Wait for the process at the other end to report progress.

    Returns its number in this namespace, from the kernel. Raises NotWarm or OSError.
    """
    said, told, *_ = announce.recvmsg(200, socket.CMSG_SPACE(12))
    if said != b"." or not told:
        raise NotWarm(said[1:].decode("utf-8", "replace") or "the process that was forked ended")
    return struct.unpack("3i", told[0][2])[0]


class _Forked:
    """The first process of a jail's namespace: what of `subprocess.Popen` a jail's user needs."""

    def __init__(self):
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        self.ends = [reads, writes]  # the process's own
        self.stdin, self.stdout, self.stderr = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), open(os.devnull, "rb")
        self._handle = None

    def hold(self, pid: int) -> None:
        """Hold the process; it waits for our message, so the number is still its own."""
        self.pid, self._handle = pid, os.pidfd_open(pid)

    def kill(self) -> None:
        """End it, and with it every process of its namespace."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        """Raises subprocess.TimeoutExpired, as `Popen.wait` does."""
        if self._handle is not None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            os.close(self._handle)
            self._handle = None
