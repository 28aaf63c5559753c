"""Memory and time of a sandbox's processes, measured by the operating system, which no code in it can alter."""

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def spent_and_waited(root: int) -> tuple[float, float]:
    """Return the seconds that a process and its descendants spent on a processor, and waiting for a processor.

    The first includes processes that have ended and were waited for; the second is 0 where the system does not say.
    """
    tree, waited = _tree(root), 0.0
    for pid in tree:
        with contextlib.suppress(OSError, IndexError, ValueError):
            waited += int(_read(f"/proc/{pid}/schedstat").split()[1]) / 1e9
    return _seconds(tree), waited


def _seconds(tree: dict[int, list[str]]) -> float:
    return sum(sum(map(int, fields[11:15])) for fields in tree.values()) / _TICKS


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _tree(root: int) -> dict[int, list[str]]:
    """A process and all below it, with the fields of /proc/PID/stat after the name, from the state on."""
    stats = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stats[int(name)] = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
    tree, found = {}, {root} & stats.keys()
    while found:
        tree |= {pid: stats[pid] for pid in found}
        found = {pid for pid, fields in stats.items() if int(fields[1]) in found} - tree.keys()
    return tree


class Use:
    """Memory and time of a process and all below it, from now on."""

    def __init__(self, root: int):
        tree = _tree(root)
        self._root, self._begin, self._held = root, _seconds(tree), {}
        for pid in tree:
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            with contextlib.suppress(OSError, KeyError):  # one that has ended has no sizes
                self._held[pid] = _status(pid)

    def until_now(self) -> dict[str, float]:
        """seconds: of the processor; bytes: the most memory beyond that of the beginning.

        This uses the peak of each process, which was reset at the beginning; if resetting is not allowed, the part
        beyond the earlier peak counts. A new process counts as a whole. What was mapped
        from files since is not counted: a fork maps a library's pages one by one, when it first runs them.
        """
        tree, more = _tree(self._root), 0
        for pid in tree:
            with contextlib.suppress(OSError, KeyError):
                now, held = _status(pid), self._held.get(pid, {})
                more += max(0, _own_peak(now) - _own_peak(held))
        return {"seconds": _seconds(tree) - self._begin, "bytes": more}


def _own_peak(sizes: dict[str, int]) -> int:
    return sizes.get("VmHWM", 0) - sizes.get("RssFile", 0)


def _status(pid: int) -> dict[str, int]:
    lines = (line.split() for line in _read(f"/proc/{pid}/status").splitlines())
    return {line[0][:-1]: int(line[1]) << 10 for line in lines if line[2:] == ["kB"]}
