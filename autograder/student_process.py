"""The grader's side of a student's process: starts `attnlab/worker.py`, sends inputs, takes outcomes as plain data.

Nothing that comes back is trusted: frames are capped in size and time, decoded without pickle and checked for their
form. A process that dies or falls silent is killed with all it started.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attnlab import codec

WORKER = Path(codec.__file__).with_name("worker.py")
START_SECONDS = 60.0  # for the interpreter, NumPy and PyTorch; the student's time starts after it
NO_FORM = "the answer was not in the form it must have"


class NoAnswer(Exception):
    """The process gave no usable answer; the message says why, in a student's words."""


class OutOfTime(NoAnswer):
    """The time of the whole answer is used up."""


class StudentProcess:
    """One run of one student's file. Use as a context manager."""

    def __init__(self, source: str, filename: str, name: str, deadline: float, seconds: float,
                 lent: dict | None = None):
        """deadline: on the clock of time.monotonic, once the process has started; `seconds` is for messages.

        lent: {"setting": ..., "sources": ...}, the references that `attnlab.mine` gives; see `autograder.lent`
        """
        self._job = {"source": source, "filename": filename, "name": name, "lent": lent}
        self._deadline, self._seconds = deadline, seconds
        self._libraries = ["torch"] if "torch" in source or lent and lent["sources"] else []  # slow to import, and not by the student's fault

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="attempt-", ignore_cleanup_errors=True)
        self._mark = f"ATTEMPT={secrets.token_hex(16)}"  # what its descendants are known by, in any session
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(WORKER), *self._libraries], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, cwd=self._folder.name, start_new_session=True,
            env={"PATH": os.defpath, "HOME": self._folder.name, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1",
                 "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                 **dict([self._mark.split("=")])})
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        _kill_marked(self._mark)
        self._process.stdin.close()
        self._process.stdout.close()
        self._folder.cleanup()

    def load(self, started_budget: float = START_SECONDS) -> dict:
        """Run the file; returns {"loaded": parameters} or {"failed": {type, message, line, code}}."""
        begin = time.monotonic()
        try:
            self._receive(begin + started_budget)
        except NoAnswer:
            raise NoAnswer("the process that should run the file could not be started") from None
        # Start-up is the grader's own time, not the student's.
        self._deadline += time.monotonic() - begin
        reply = self.ask(self._job)
        if set(reply) not in ({"loaded"}, {"failed"}):
            raise NoAnswer(NO_FORM)
        return reply

    @property
    def deadline(self) -> float:
        return self._deadline

    def outcome(self, probe: str, inputs: dict) -> dict:
        """The outcome of one probe, of the form that `attnlab.observe` describes."""
        reply = self.ask({"probe": probe, "inputs": inputs})
        if set(reply) == {"error"}:
            error = reply["error"]
            fits = isinstance(error, dict) and set(error) == {"type", "message", "line", "code"} and all(
                isinstance(error[key], (str, type(None))) for key in ("type", "message", "code"))
            if fits and isinstance(error["type"], str) and isinstance(error["line"], (int, type(None))):
                return {"error": {**error, "type": error["type"][:80], "message": (error["message"] or "")[:500]}}
        elif set(reply) == {"refused"} and isinstance(reply["refused"], str):
            return {"refused": reply["refused"][:300]}
        elif set(reply) == {"value"}:
            return reply
        raise NoAnswer(NO_FORM)

    def ask(self, message: dict) -> dict:
        data = codec.pack(message)
        frame = len(data).to_bytes(8, "little") + data
        try:
            self._send(frame)
            return self._receive(self._deadline)
        except (BrokenPipeError, ConnectionResetError):
            raise NoAnswer(self._last_words()) from None

    def _send(self, frame: bytes) -> None:
        descriptor, sent = self._process.stdin.fileno(), 0
        os.set_blocking(descriptor, False)
        while sent < len(frame):
            if not _ready(descriptor, select.POLLOUT, self._deadline):
                raise OutOfTime(self._late())
            with contextlib.suppress(BlockingIOError):
                sent += os.write(descriptor, frame[sent:sent + 65536])

    def _receive(self, deadline: float) -> dict:
        length = int.from_bytes(self._exactly(8, deadline), "little")
        if length > codec.MAX_PACKED:
            raise NoAnswer("the answer is too large")
        try:
            value = codec.unpack(self._exactly(length, deadline))
        except codec.CodecError:
            raise NoAnswer(NO_FORM) from None
        if not isinstance(value, dict):
            raise NoAnswer(NO_FORM)
        return value

    def _exactly(self, count: int, deadline: float) -> bytes:
        descriptor, chunks, have = self._process.stdout.fileno(), [], 0
        while have < count:
            if not _ready(descriptor, select.POLLIN, deadline):
                raise OutOfTime(self._late())
            chunk = os.read(descriptor, min(1 << 20, count - have))
            if not chunk:
                raise NoAnswer(self._last_words())
            chunks.append(chunk)
            have += len(chunk)
        return b"".join(chunks)

    def _late(self) -> str:
        return f"no answer within {self._seconds:g} seconds"

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "the process closed its channel before it answered"
        if code < 0:
            return f"the process was ended by signal {-code} before it answered"
        return f"the process ended with exit code {code} before it answered"


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    """Waits until a descriptor can be read or written (or was closed at the other end), at most until `deadline`."""
    poll, left = select.poll(), deadline - time.monotonic()
    poll.register(descriptor, event)
    return left > 0 and bool(poll.poll(left * 1000))


def _kill_marked(mark: str) -> None:
    """Kill what the student's code left running in sessions of its own, where there is a /proc to find it by."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
