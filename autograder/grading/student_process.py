"""A stand-alone file in a process of its own: starts `attnlab/worker.py`, sends inputs, takes outcomes as plain data.

It runs in the jail where there is one, and under the same limits where there is none.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from attnlab import codec
from autograder.grading.channel import NO_FORM, Channel, Died, NoAnswer, OutOfTime, checked_outcome
from autograder.sandbox import bubblewrap
from autograder.sandbox.limits import FILE_LIMITS, START_SECONDS

WORKER = Path(codec.__file__).with_name("worker.py")


class StudentProcess:
    """One run of one student's file. Use as a context manager."""

    def __init__(
        self, source: str, filename: str, name: str, deadline: float, seconds: float, lent: dict | None = None
    ):
        """deadline: on the clock of time.monotonic, once the process has started; `seconds` is for messages.

        lent: {"setting": ..., "sources": ...}, the references that `attnlab.mine` gives, as
            `autograder.course.prerequisites.references` returns them
        """
        self._job = {"source": source, "filename": filename, "name": name, "lent": lent}
        self._deadline, self._seconds = deadline, seconds
        needs_torch = "torch" in source or lent and lent["sources"]  # slow to import, and not by the student's fault
        program = [sys.executable, "-I", "-B", str(WORKER), *(["torch"] if needs_torch else [])]
        confine = bubblewrap.Jail if bubblewrap.required() and not bubblewrap.problem() else bubblewrap.Unconfined
        self._jail = confine(program, limits=FILE_LIMITS, environment={"MPLBACKEND": "agg"})

    def __enter__(self):
        self._process = self._jail.__enter__().process
        self._channel = Channel(self._process.stdout.fileno(), self._process.stdin.fileno())
        return self

    def __exit__(self, *exc):
        self._jail.__exit__(*exc)

    def load(self, started_budget: float = START_SECONDS) -> dict:
        """Run the file; returns {"loaded": parameters} or {"failed": {type, message, line, code}}."""
        begin = time.monotonic()
        try:
            self._channel.receive(begin + started_budget)
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
        return checked_outcome(self.ask({"probe": probe, "inputs": inputs}))

    def ask(self, message: dict) -> dict:
        """Raises OutOfTime, or NoAnswer with a student's words for what happened."""
        try:
            return self._channel.ask(message, self._deadline)
        except OutOfTime:
            raise OutOfTime(f"no answer within {self._seconds:g} seconds") from None
        except Died:
            raise NoAnswer(self._last_words()) from None

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "the process closed its channel before it answered"
        if code < 0 or code > 128:  # bubblewrap tells of signals as a shell does
            return f"the process was ended by signal {-code if code < 0 else code - 128} before it answered"
        return f"the process ended with exit code {code} before it answered"
