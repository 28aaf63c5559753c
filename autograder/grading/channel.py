"""The grader's end of a channel to student code: values in frames (see `attnlab.codec`), of which nothing is trusted.

Frames are capped in size and time, decoded without pickle and checked for their form.
"""

from __future__ import annotations

import os
import select
import time

from attnlab import codec
from autograder.grading import reasons


class NoAnswer(Exception):
    """No usable answer came; the message says why, in a student's words."""


class OutOfTime(NoAnswer):
    """No answer came in the time there was."""


class Died(NoAnswer):
    """The process at the other end has ended."""


class Channel:
    """Asks and hears over two descriptors, which may be one. Deadlines are on the clock of time.monotonic."""

    def __init__(self, reads: int, writes: int):
        self._reads, self._writes = reads, writes
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)

    def ask(self, message: dict | bytes, deadline: float) -> dict:
        """message: a value, or the frame of one. Raises OutOfTime, Died, or NoAnswer for an answer that is none."""
        self.send(message, deadline)
        return self.receive(deadline)

    def send(self, message: dict | bytes, deadline: float) -> None:
        frame, sent = message if isinstance(message, bytes) else codec.frame(message), 0
        while sent < len(frame):
            self._wait(self._writes, select.POLLOUT, deadline)
            try:
                sent += os.write(self._writes, frame[sent : sent + 65536])
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                raise Died(reasons.CLOSED) from None

    def receive(self, deadline: float) -> dict:
        head = self._exactly(8, deadline)
        length = int.from_bytes(head, "little")
        if length > codec.MAX_FRAME:
            raise NoAnswer(reasons.TOO_LARGE)
        try:
            value = codec.unframe(head + self._exactly(length, deadline))
        except codec.CodecError:
            raise NoAnswer(reasons.NO_FORM) from None
        if not isinstance(value, dict):
            raise NoAnswer(reasons.NO_FORM)
        return value

    def _exactly(self, count: int, deadline: float) -> bytes:
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

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll, left = select.poll(), deadline - time.monotonic()
        poll.register(descriptor, event)
        if left <= 0 or not poll.poll(left * 1000):
            raise OutOfTime(reasons.LATE)


def checked_outcome(reply: dict) -> dict:
    """An outcome of the form that `attnlab.observe` describes. Raises NoAnswer."""
    if set(reply) == {"error"}:
        error = reply["error"]
        fits = (
            isinstance(error, dict)
            and set(error) == {"type", "message", "line", "code"}
            and all(isinstance(error[key], (str, type(None))) for key in ("type", "message", "code"))
        )
        if fits and isinstance(error["type"], str) and isinstance(error["line"], (int, type(None))):
            return {"error": {**error, "type": error["type"][:80], "message": (error["message"] or "")[:500]}}
    elif set(reply) == {"refused"} and isinstance(reply["refused"], str):
        return {"refused": reply["refused"][:300]}
    elif set(reply) == {"value"}:
        return reply
    raise NoAnswer(reasons.NO_FORM)
