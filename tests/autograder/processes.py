"""Which processes run below this one, and which of them are jails."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from autograder.grading.channel import Channel
from autograder.sandbox import fork_client


@contextlib.contextmanager
def reaping() -> Iterator[None]:
    """What a killed child leaves behind becomes a child of this process, for a while, and so can be found."""
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


def jails() -> list[int]:
    """The processes of bubblewrap below this one, but for those of fork servers of its own."""
    own = [pid for server in fork_client._servers.values() for pid in (server.process.pid, *below(server.process.pid))]
    return [pid for pid in below(os.getpid()) if command(pid).startswith("bwrap") and pid not in own]
