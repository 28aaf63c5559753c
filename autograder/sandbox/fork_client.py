"""Jails that are forked from a warm process: the same confinement as `jail.Jail`, without seconds of imports.

A grading process has one server for notebooks that use PyTorch and one for those that do not, whose forks cost half as
much; each is started when it is first wanted. They hold nothing of any submission, so nothing can pass from one to the
next. A server that does not do its work is given up, and a jail is started the slow way.
"""

from __future__ import annotations

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
from pathlib import Path

from attnlab import codec
from autograder.sandbox import bubblewrap
from autograder.sandbox.bubblewrap import HOME, LIMITED, Limits

SERVER = Path(__file__).with_name("inside") / "fork_server.py"
COLD = "AUTOGRADER_COLD"
IDLE_SECONDS = 300  # for which a server waits for the next submission
START_SECONDS, FORK_SECONDS = 60.0, 15.0
FORKS = 500  # from one server; then comes a new one, whatever a library may have piled up in it
MAX_FILES = 32 << 20  # bytes of given files that are copied into a jail


PLAIN = [
    "matplotlib.pyplot",
    "attnlab.check",
    "attnlab.data",
    "attnlab.mine",
    "attnlab.widgets",
]  # what notebooks import
TORCH = ["torch", "torch.nn.functional", *PLAIN]


class NotWarm(Exception):
    """No process could be forked; the message says why."""


class Server:
    """A warm process that has these libraries loaded, in a jail of its own."""

    def __init__(self, libraries: list[str]):
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.forks = 0
        with other:
            program = [
                sys.executable,
                "-I",
                "-B",
                f"{HOME}/{SERVER.name}",
                str(Path(codec.__file__).parent),
                str(LIMITED),
                str(other.fileno()),
                str(IDLE_SECONDS),
                *libraries,
            ]
            command = [*bubblewrap.bubblewrap({SERVER.name: SERVER}, Limits(), {}, server=True), "--", *program]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                pass_fds=(other.fileno(),),
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
            )

    def wait_until_ready(self) -> None:
        """Raises NotWarm."""
        self.control.settimeout(START_SECONDS)
        try:
            if self.control.recv(16) != b"ready":
                raise NotWarm("the fork server did not start")
        except OSError:
            raise NotWarm("the fork server did not start in time") from None

    @property
    def usable(self) -> bool:
        return self.process.poll() is None and self.forks < FORKS

    def fork(self, order: dict, descriptors: list[int]) -> None:
        """Raises NotWarm."""
        self.forks += 1
        try:
            socket.send_fds(self.control, [json.dumps(order).encode()], descriptors)
        except OSError as error:
            raise NotWarm(f"the fork server is gone: {error}") from None

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
    """This process's server with or without PyTorch, ready. Raises NotWarm."""
    with _one_at_a_time:
        if torch not in _servers or not _servers[torch].usable:
            _close(torch)
            _servers[torch] = Server(TORCH if torch else PLAIN)
            try:
                _servers[torch].wait_until_ready()
            except NotWarm:
                _close(torch)
                raise
        return _servers[torch]


def _close(torch: bool) -> None:
    if torch in _servers:
        _servers.pop(torch).close()


def give_up() -> None:
    """End the servers. The next that is wanted is a new one."""
    with _one_at_a_time:
        for torch in list(_servers):
            _close(torch)


atexit.register(give_up)
os.register_at_fork(after_in_child=_servers.clear)  # a fork of this process has none: they end with this one


class WarmJail(bubblewrap.Jail):
    """A jail whose first process is forked from the server. Entering it raises NotWarm where there is none.

    program: the command line, or [] for the process that runs notebooks; torch: whether that has PyTorch loaded
    """

    def __init__(
        self,
        program: list[str],
        *,
        files: dict[str, Path] | None = None,
        pass_fds: tuple[int, ...] = (),
        limits: Limits = Limits(),
        environment: dict[str, str] | None = None,
        torch: bool = True,
    ):
        self._torch, self.limits, self._files, self._pass_fds = torch, limits, files or {}, pass_fds
        self.passed = tuple(range(3, 3 + len(pass_fds)))
        self._order = {
            "program": program,
            "environment": environment or {},
            "scratch": limits.scratch,
            "limits": bubblewrap.limit_arguments(limits),
        }
        self._group = bubblewrap.Group.make(limits)

    def __enter__(self):
        with contextlib.ExitStack() as ends, contextlib.ExitStack() as held:
            held.callback(self._group.remove)
            files = {name: ends.enter_context(open(path, "rb")) for name, path in self._given_files().items()}
            if sum(os.fstat(file.fileno()).st_size for file in files.values()) > MAX_FILES:
                raise NotWarm("the given files are too large to be copied")
            announce, announce_end = socket.socketpair()
            held.enter_context(announce)
            ends.enter_context(announce_end)
            reads_in, stdin = os.pipe()
            stdout, writes_out = os.pipe()
            ends.callback(os.close, reads_in)
            ends.callback(os.close, writes_out)
            process = _Forked(os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))
            held.callback(process.close)
            held.callback(process.kill)
            announce.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            server(self._torch).fork(
                {**self._order, "files": list(files)},
                [
                    announce_end.fileno(),
                    reads_in,
                    writes_out,
                    *(file.fileno() for file in files.values()),
                    *self._pass_fds,
                ],
            )
            announce_end.close()
            process.be(_number(announce))
            try:
                self._group.take_in(process.pid)
            except OSError as error:
                process.kill()
                raise NotWarm(f"its control group does not take it: {error}") from None
            announce.send(b".")
            _next_words(announce)
            announce.close()
            self.process = process
            held.pop_all()
        return self

    def __exit__(self, *exc):
        super().__exit__(*exc)
        self.process.close()

    def _given_files(self) -> dict[str, Path]:
        fonts = {f".cache/matplotlib/{path.name}": path for path in bubblewrap.font_cache()}
        return {**fonts, **self._files}

    def last_words(self) -> str:
        return "the process that was forked for it ended"


def _next_words(announce: socket.socket) -> list:
    """What the kernel tells of the process at the other end, which says that it got on. Raises NotWarm."""
    announce.settimeout(FORK_SECONDS)
    try:
        said, told, *_ = announce.recvmsg(200, socket.CMSG_SPACE(12))
    except OSError:
        raise NotWarm("the fork server made no process in time") from None
    if said != b".":
        raise NotWarm(said[1:].decode("utf-8", "replace") or "the process that was forked ended")
    return told


def _number(announce: socket.socket) -> int:
    """The number, in this namespace, of the process at the other end. Raises NotWarm."""
    for level, kind, data in _next_words(announce):
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return struct.unpack("3i", data)[0]
    raise NotWarm("the kernel does not tell which process it is")


class _Forked:
    """The first process of a jail's namespace, by its number: what of `subprocess.Popen` a jail's user needs."""

    def __init__(self, stdin, stdout):
        self.stdin, self.stdout, self.stderr = stdin, stdout, open(os.devnull, "rb")
        self.pid, self._handle = 0, None

    def be(self, pid: int) -> None:
        """Hold the process; it waits for a word of ours, so the number is still its own."""
        self.pid, self._handle = pid, os.pidfd_open(pid)

    def kill(self) -> None:
        """End it, and with it every process of its namespace."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        if self._handle is not None and not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked process", timeout)

    def close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
