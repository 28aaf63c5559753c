"""The grader's end of a channel to student code.

Values come in frames (see `attnlab.checking.codec`), and none is trusted. Frames are capped in size and time, decoded
without pickle and checked for their form. Time is processor time: on a busy machine an answer has more time by the
clock.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attnlab.checking import codec
from attnlab.checking.schema import Outcome
from autograder.grading import reasons
from autograder.sandbox.limits import WALL

Message: TypeAlias = Mapping[str, Any]
ANY_REPLY = 1 << 20  # bytes allowed for every reply


class NoAnswer(Exception):
    """There was no usable answer; the message says why, in words for a student."""


class OutOfTime(NoAnswer):
    """There was no answer in time."""


class Died(NoAnswer):
    """The process at the other end has ended."""


class CpuDeadline:
    """The time that an answer has, in seconds of processor time.

    It ends when the answer has used this time, or has slept for as long; when WALL times as much has passed; or at a
    given moment on the clock of time.monotonic, whichever is first.

    spent: returns the processor time used so far, and the time spent waiting for a processor, which is not sleep;
    called only if an answer takes long
    """

    LOOK = 0.25  # seconds between two checks

    def __init__(self, seconds: float, last: float, spent: Callable[[], tuple[float, float]]):
        self._seconds, self._end, self._spent, self._first = seconds, last, spent, None
        self.begin_to_wait()

    def begin_to_wait(self) -> None:
        """Wait for the next of several replies: only processor time adds up, since the process has slept meanwhile."""
        self._begin = time.monotonic()
        self._last = min(self._end, self._begin + WALL * self._seconds)

    def left(self) -> float:
        """Seconds to wait before the next check; 0 when the deadline has passed."""
        now = time.monotonic()
        passed, left = now - self._begin, self._last - now
        if passed > min(self.LOOK, self._seconds / 2):
            now_spent = self._spent()
            self._first = self._first or now_spent
            used, waited = (now - then for now, then in zip(now_spent, self._first))
            idle = passed > self._seconds and used + waited < passed / (2 * WALL)
            if idle or used > self._seconds:
                return 0.0
        return max(0.0, min(self.LOOK, self._seconds / 2, left))


class Channel:
    """Sends and receives frames over two descriptors, which may be the same.

    A deadline is a time on the clock of time.monotonic, or a CpuDeadline.
    """

    def __init__(self, reads: int, writes: int):
        self._reads, self._writes = reads, writes
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)

    def ask(self, message: Message | bytes, deadline: float | CpuDeadline, most: int = ANY_REPLY) -> dict[str, Any]:
        """message: a value, or the frame of one; most: bytes of the answer

        Raises OutOfTime, Died, or NoAnswer if the reply is not a valid answer."""
        self.send(message, deadline)
        return self.receive(deadline, most)

    def send(self, message: Message | bytes, deadline: float | CpuDeadline) -> None:
        frame, sent = message if isinstance(message, bytes) else codec.frame(message), 0
        while sent < len(frame):
            self._wait(self._writes, select.POLLOUT, deadline)
            try:
                sent += os.write(self._writes, frame[sent : sent + 65536])
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                raise Died(reasons.CLOSED) from None

    def receive(self, deadline: float | CpuDeadline, most: int = ANY_REPLY) -> dict[str, Any]:
        head = self._exactly(8, deadline)
        length = int.from_bytes(head, "little")
        if length > min(most, codec.MAX_FRAME):
            raise NoAnswer(reasons.TOO_LARGE)
        try:
            value = codec.unframe(head + self._exactly(length, deadline))
        except codec.CodecError:
            raise NoAnswer(reasons.NO_FORM) from None
        if not isinstance(value, dict):
            raise NoAnswer(reasons.NO_FORM)
        return value

    def _exactly(self, count: int, deadline: float | CpuDeadline) -> bytes:
        chunks, have = [], 0
        while have < count:
            self._wait(self._reads, select.POLLIN, deadline)
            try:
                chunk = os.read(self._reads, min(1 << 20, count - have))
            except BlockingIOError:
                continue
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise Died(reasons.ENDED)
            chunks.append(chunk)
            have += len(chunk)
        return b"".join(chunks)

    def _wait(self, descriptor: int, event: int, deadline: float | CpuDeadline) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while (left := deadline.left() if isinstance(deadline, CpuDeadline) else deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                return
        raise OutOfTime(reasons.LATE)


def checked_outcome(reply: dict[str, Any]) -> Outcome:
    """Check that a reply is an outcome (see `attnlab.checking.schema`), and shorten its words. Raises NoAnswer."""
    if set(reply) == {"error"}:
        error = reply["error"]
        fits = (
            isinstance(error, dict)
            and set(error) == {"type", "message", "line", "code"}
            and all(isinstance(error[key], (str, type(None))) for key in ("type", "message", "code"))
        )
        if fits and isinstance(error["type"], str) and isinstance(error["line"], (int, type(None))):
            kind, message = error["type"][:80], (error["message"] or "")[:500]
            return {"error": {"type": kind, "message": message, "line": error["line"], "code": error["code"]}}
    elif set(reply) == {"refused"} and isinstance(reply["refused"], str):
        return {"refused": reply["refused"][:300]}
    elif set(reply) == {"value"}:
        return {"value": reply["value"]}
    raise NoAnswer(reasons.NO_FORM)


def checked_verdict(reply: dict[str, Any]) -> dict[str, Any]:
    """Check that a reply is a verdict of a test, and shorten its words. Raises NoAnswer."""
    found = reply.get("verdict")
    if set(reply) != {"verdict"} or not isinstance(found, dict) or not isinstance(found.get("accepted"), bool):
        raise NoAnswer(reasons.NO_FORM)
    if found["accepted"]:
        return {"accepted": True, "error": None}
    error = checked_outcome({"error": found.get("error")})
    return {"accepted": False, **error}
