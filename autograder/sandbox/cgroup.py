"""Control groups, which bound the memory and the processes of a sandbox together. Only root can make them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from pathlib import Path

from autograder.sandbox.limits import Limits

CGROUPS = Path("/sys/fs/cgroup")


class Group:
    """The control groups of one sandbox.

    Where they cannot be made, the limits of each process must suffice. (The kernel enforces the limit on processes for
    all users except root.)
    """

    def __init__(self):
        self.folders: list[Path] = []

    @classmethod
    def make(cls, limits: Limits) -> Group:
        group, processes = cls(), {"pids.max": limits.processes}
        unified = CGROUPS / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if unified.is_file() and {"memory", "pids"} <= set(unified.read_text().split()):
                group._add(CGROUPS, {"memory.max": limits.memory, "memory.swap.max": 0, **processes})
            else:  # version 1: a hierarchy for each
                names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
                memory: dict[str, int] = dict.fromkeys(names, limits.memory)
                for name, settings in (("memory", memory), ("pids", processes)):
                    if (CGROUPS / name).is_dir():
                        group._add(CGROUPS / name, settings)
        return group

    def _add(self, parent: Path, settings: dict[str, int]) -> None:
        _sweep(parent)
        folder = parent / f"attention-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir()
        self.folders.append(folder)
        for name, value in settings.items():
            with contextlib.suppress(FileNotFoundError):
                (folder / name).write_text(str(value))

    def enter(self) -> list[str]:
        """The prefix of a command that makes it start inside the group."""
        if not self.folders:
            return []
        into = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in self.folders)
        return ["/bin/sh", "-c", f'{into}exec "$@"', "sh"]

    def take_in(self, pid: int) -> None:
        """Put a running process inside. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def used_up(self) -> str | None:
        """The limit that ended a process, if known: "memory", where the kernel had no more of it to give."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    counts = dict(line.split() for line in (folder / name).read_text().splitlines())
                    if counts.get("oom_kill", "0") != "0":
                        return "memory"
        return None

    def remove(self) -> None:
        for folder in self.folders:
            for _ in range(50):  # its processes have been killed, but may still be there
                with contextlib.suppress(OSError):
                    for pid in map(int, (folder / "cgroup.procs").read_text().split()):
                        if pid:  # 0 would be this process and its group
                            os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)


@functools.cache
def _sweep(parent: Path) -> None:
    """Remove the groups of graders that were killed, once; a group that still has processes stays."""
    for folder in parent.glob("attention-*"):
        if not Path(f"/proc/{folder.name.split('-')[1]}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
