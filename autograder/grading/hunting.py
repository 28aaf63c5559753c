"""Grade a hunt: ask for the student's verdict on each implementation, in an unpredictable order.

The test runs in the sandbox, a fork for each verdict. The implementations are here: each call of the test comes as a
message of plain data and is answered by an `attnlab.checking.hunting.opaque.Host`. Nothing that is sent tells which
implementation is asked about.
"""

from __future__ import annotations

import random
import time
from typing import Any

from attnlab.checking import codec
from attnlab.checking.hunting.examination import report_of
from attnlab.checking.hunting.opaque import Host
from attnlab.checking.judge import Report, no_answer
from autograder.grading import reasons
from autograder.grading.channel import ANY_REPLY, NoAnswer, checked_verdict
from autograder.grading.questions import Answer
from course.kit.hunt import Hunt

VERDICT_SECONDS = 10.0  # of processor time
MOST_HOSTED = 60.0  # seconds of processor time that the implementations may use, for all verdicts together
MOST_LOST = 3  # verdicts that may not come, before no more are asked for


class HuntAnswer(Answer):
    """The state of grading one test. An outcome is a verdict."""

    exercise: Hunt
    outcomes: list[list[Any]]  # verdicts

    def __init__(self, exercise, material, case_seconds, file=None):
        super().__init__(exercise, material, min(case_seconds, VERDICT_SECONDS), file)
        random.SystemRandom().shuffle(self.pending)  # also where the test is in a file of its own
        self.tested = True  # there is no question here that has no right answer
        self.given_up, self.hosted = 0, 0.0
        self.asked_again: set[tuple[int, int, int]] = set()

    def _ask_and_record(self, p: int, c: int, q: int, snapshot, deadline: float) -> None:
        case = self.material["properties"][p]["cases"][c]
        host = Host(self.exercise.implementation(case), self.exercise.contract)
        message: dict | bytes = {"hunt": self.exercise.contract}
        talk = snapshot.conversation(self.case_seconds, deadline, ANY_REPLY)
        while True:
            reply = talk(message)
            if set(reply) != {"call"}:
                break
            try:
                message = codec.frame(host.answer(reply["call"]))
            except codec.CodecError:
                raise NoAnswer(reasons.NO_FORM) from None
            if time.monotonic() > deadline:
                raise NoAnswer(reasons.TIME_USED_UP)
        self.outcomes[p][c] = {"value": checked_verdict(reply)}
        self.hosted += host.seconds
        if self.hosted > MOST_HOSTED:
            self.reason, self.pending = reasons.SLOW_CALLS, self.pending[-1:]  # the last has its answer

    def report(self) -> Report | None:
        if self.problem:
            return no_answer(self.material, self.problem)
        if not any(outcome for row in self.outcomes for outcome in row):
            return no_answer(self.material, self.reason) if self.reason else None
        right, wrong = (
            [(case["words"], outcome and outcome["value"]) for case, outcome in zip(prop["cases"], row)]
            for prop, row in zip(self.material["properties"], self.outcomes)
        )
        report = report_of(self.material, right, wrong)
        report.reason = report.reason or self.reason
        return report

    def _give_up(self, reason: str) -> None:
        """A verdict that did not come is lost alone, unless there were several, or it was on a right implementation."""
        self.reason, self.given_up = reason, self.given_up + 1
        right_one = bool(self.pending) and self.pending[-1][0] == 0
        self.pending = [] if right_one or self.given_up == MOST_LOST else self.pending[:-1]

    def _may_ask_again(self) -> bool:
        """Whether a verdict is asked for a second time: once for each, since something outside may have ended it."""
        again = bool(self.pending) and self.pending[-1] not in self.asked_again
        self.asked_again.update(self.pending[-1:])
        return again
