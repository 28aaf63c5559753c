"""Grade submissions in a process of the grader's own, which has limits of processor time and memory for each.

Reading, parsing, analyzing, judging and cleaning all happen there. A submission can harm only its own process: the
notebook at which that process ended counts as zero, with a reason, and a new process continues with the next.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from autograder.grading import reasons
from autograder.sandbox.bubblewrap import NoJail
from autograder.sandbox.limits import MAX_RESULT
from course.errors import CourseError

MANY = 6  # submissions from which on it pays to start a process to fork others from
OUT_OF_MEMORY = 77  # the exit code of a process that could get no more memory
# Messages of a process: a notebook was begun, the result, there is no jail, it failed outside any notebook.
BEGUN, RESULT, NO_JAIL, FAILED = b"b", b"r", b"j", b"f"


class Job(NamedTuple):
    """names: of the assignment and the student; common, submission: what `grade_submission.grade` takes"""

    names: tuple[str, str]
    common: bytes
    submission: bytes


class _Ended(Exception):
    """The process ended during this notebook; None if outside any."""

    def __init__(self, notebook: str | None, code: int):
        super().__init__(notebook, code)
        self.notebook, self.code = notebook, code


class Grader:
    """The process, which is started when it is first needed, and again when it has ended. For one thread.

    As a pool, it grades one submission after another: what `nbgrader autograde` and formgrader's button do.
    """

    def __init__(self):
        self._graded = 0
        self._process: subprocess.Popen | None = None
        self._common: bytes | None = None  # of the assignment that the process knows

    def graded(self, jobs: Iterable[Job], count: int) -> Iterator[tuple[tuple[str, str], bytes | Exception]]:
        """Names and results of jobs, or the exceptions that prevented them. count: the number of jobs, at most"""
        for job in jobs:
            try:
                result = self.grade(job.common, job.submission, many=count >= MANY or self._graded >= MANY)
            except NoJail:
                raise
            except Exception as error:
                result = error
            self._graded += 1
            yield job.names, result

    def grade(self, common: bytes, submission: bytes, many: bool = True) -> bytes:
        """The result of one submission, as `grade_submission.grade` gives it. Raises NoJail and CourseError.

        A process that ended itself looks from here like one that was killed by an administrator, so a notebook is lost
        only when its process has ended twice, or has used up what it may.
        """
        failed: dict[str, str] = {}
        died: set[str | None] = set()
        while True:
            try:
                return self._ask(common, submission, {"many": many, "failed": failed})
            except _Ended as ended:
                self.close()
                why = _limit_of(ended.code)
                if ended.notebook in failed or not ended.notebook and ended.notebook in died:
                    raise CourseError(f"the process that grades ended ({ended.code})") from None
                if ended.notebook and (why or ended.notebook in died):
                    failed[ended.notebook] = why or reasons.ENDED_THE_GRADER
                died.add(ended.notebook)
            except CourseError:
                raise
            except BaseException:  # such as an interrupt; the result of the process is no longer wanted
                self.close()
                raise

    def _ask(self, common: bytes, submission: bytes, order: dict[str, Any]) -> bytes:
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            process = self._start()
        notebook = None
        try:
            self._connection.send_bytes(json.dumps({**order, "new": self._common is not common}).encode())
            if self._common is not common:
                self._connection.send_bytes(common)
                self._common = common
            self._connection.send_bytes(submission)
            while (said := self._connection.recv_bytes(MAX_RESULT))[:1] == BEGUN:
                notebook = said[1:].decode()
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()  # it has only closed its socket, or sent far too much
            raise _Ended(notebook, process.wait()) from None
        if said[:1] == RESULT:
            return said[1:]
        raise (NoJail if said[:1] == NO_JAIL else CourseError)(said[1:].decode("utf-8", "replace"))

    def _start(self) -> subprocess.Popen:
        self._folder = tempfile.TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True)
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autograder.grading.worker", str(other.fileno()), str(os.getpid())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C is for this process, which ends that one
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": self._folder.name},
            )
        self._connection = Connection(own.detach())
        return self._process

    def close(self) -> None:
        """End the process, and with it every jail that it has."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()
        self._process = self._common = None


def _limit_of(code: int) -> str | None:
    """Which limit ended a process with this exit code, in words for a student."""
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        return reasons.SLOW_TO_JUDGE
    return reasons.LARGE_TO_JUDGE if code == OUT_OF_MEMORY else None
