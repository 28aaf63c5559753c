"""The process of `worker.Grader`. Run as `python -m autograder.grading.worker SOCKET PARENT`.

An order is JSON {"many", "failed", "new"}, then, where that is new, what is common to the assignment, then the
submission; each is one message, and nothing in it is executed.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from autograder.grading import grade_submission
from autograder.grading.worker import BEGUN, FAILED, NO_JAIL, OUT_OF_MEMORY, RESULT
from autograder.sandbox.bubblewrap import NoJail
from autograder.sandbox.limits import GRADER_MEMORY


def main(descriptor: str, parent: str) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: end with the grading process
    if os.getppid() != int(parent):
        return
    _set_soft("RLIMIT_CORE", 0)
    connection, common = Connection(int(descriptor)), b""
    while True:
        try:
            order = json.loads(connection.recv_bytes())
            common = connection.recv_bytes() if order.pop("new") else common
            submission = connection.recv_bytes()
        except EOFError:
            return
        connection.send_bytes(_answer(connection, common, submission, order))


def _answer(connection: Connection, common: bytes, submission: bytes, order: dict[str, Any]) -> bytes:
    def begun(notebook: str) -> None:
        connection.send_bytes(BEGUN + notebook.encode())

    try:
        _limit(*grade_submission.prepare(common))  # this time is not the submission's
        return RESULT + grade_submission.grade(common, submission, begun=begun, **order)
    except NoJail as error:
        return NO_JAIL + str(error).encode("utf-8", "replace")
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception:
        return FAILED + traceback.format_exc().encode("utf-8", "replace")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit(seconds: float, wall: float) -> None:
    """Let the kernel end this process, or give it no more memory, when it has used up what one submission may.

    seconds: of the processor; wall: for all that is waited for, which only an error in the grader makes longer
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_soft("RLIMIT_CPU", int(used.ru_utime + used.ru_stime + seconds) + 1)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _set_soft("RLIMIT_AS", mapped + GRADER_MEMORY)
    signal.setitimer(signal.ITIMER_REAL, wall)


def _set_soft(name: str, value: int) -> None:
    """Set a limit of this process that its children may raise again, as they have limits of their own."""
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
