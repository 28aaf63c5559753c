"""Which processes run below this one, which of them are jails, and waiting for what they do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autograder.grading.channel import Channel
from autograder.sandbox import fork_client

PATIENCE = 120.0  # seconds to wait for what must come


@contextlib.contextmanager
def reaping() -> Iterator[None]:
    """Make processes that a killed child leaves behind children of this process, for a while, to find them."""
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        yield
    finally:
        prctl(36, 0, 0, 0, 0)


def below(root: int) -> list[int]:
    """The living descendants of a process."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(entry.parent.name)] = int(parent)
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def wait_until(true: Callable, words: Callable[[], str] = str):
    """Wait until `true()` returns something true, and return that. If it takes too long, fail with `words()`."""
    deadline = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < deadline, words()
        time.sleep(0.02)
    return found


def wait_for_the_end_of(mark: str) -> None:
    """Those processes must end long before they would by themselves, which is after ten minutes."""
    wait_until(lambda: not running(mark), lambda: f"{mark} still runs")


def before_message(monkeypatch, kind: str, number: int, act) -> list:
    """Call `act` just before the grader sends its message of this kind and number; returns those that were sent.

    kind: the first key of the message, or "question" for one whose answer is judged
    """
    send, sent = Channel.send, []

    def act_and_send(self, message, *args):
        sent.append("question" if isinstance(message, bytes) else next(iter(message)))
        if sent[-1] == kind and sent.count(kind) == number:
            act()
        return send(self, message, *args)

    monkeypatch.setattr(Channel, "send", act_and_send)
    return sent


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text()
    return ""


def command_line(pid: int) -> str:
    """The words of a command, with spaces between them."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def running(words: str) -> list[int]:
    """The processes of this machine that have these words on their command line; one that ended has none."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if words in command_line(pid)]


def jails() -> list[int]:
    """The processes of bubblewrap below this one, but for those of fork servers of its own."""
    own = [pid for server in fork_client._servers.values() for pid in (server.process.pid, *below(server.process.pid))]
    return [pid for pid in below(os.getpid()) if command(pid).startswith("bwrap") and pid not in own]
