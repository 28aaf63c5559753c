"""Test one answer: the questions of its exercise, one call each, in an unpredictable order.

The verdict on a case is reached here, from the answers to its questions (see `attnlab.checking.probes`), and the
operating system measures the memory and time that a question used.

A question that ends or hangs its process costs only its property, and the jail that ran it must end. A process that
ended itself looks from here like one that was killed by an administrator or for lack of memory, so a property is lost
only when its process has ended twice.
"""

from __future__ import annotations

import random
import secrets
import time
from typing import Any

from attnlab.check import parameter_problem
from attnlab.checking import codec
from attnlab.checking.judge import Report, judge, no_answer
from attnlab.checking.probes import PROBES
from attnlab.checking.schema import LoadQuestion, Material, Outcome, Property, Question
from autograder.grading import reasons
from autograder.grading.channel import ANY_REPLY, Died, NoAnswer, OutOfTime, checked_outcome
from autograder.grading.results import Flag
from course.folder import course_seed
from course.kit.exercise import Exercise

TIMES_EXPECTED = 16  # a reply may have this many times the bytes of a right one, plus those allowed for every reply


class ProcessLost(Exception):
    """A process with an answer is gone, or does not answer: its jail must be ended."""


class Answer:
    """The state of testing one exercise's answer.

    case_seconds: of processor time, for each question; file: source and file name, if the answer is in a file of its
    own. Then the questions come in their order, since the time left after a hang may be too short for later ones.
    """

    def __init__(
        self, exercise: Exercise, material: Material, case_seconds: float, file: tuple[str, str] | None = None
    ):
        self.exercise, self.material, self.case_seconds, self.file = exercise, material, case_seconds, file
        properties = material["properties"]
        self.outcomes: list[list[Outcome | None]] = [[None] * len(p["cases"]) for p in properties]
        self.raw: dict[tuple[int, int], dict[int, Outcome]] = {}  # of cases that are not asked to their end
        self.pending = _in_order(properties, shuffled=not file)[::-1]
        self.retried: set[int] = set()  # properties that were asked again: a process ended, or an answer was slow
        self.reason: str | None = None
        self.problem: str | None = None
        self.loaded = self.died_at_load = self.tested = False
        self.missing = False  # whether nothing of its name could be called after its cell
        self.flags: list[Flag] = []

    @property
    def open(self) -> bool:
        """Whether there are questions left."""
        return bool(self.pending) and self.problem is None

    def load(self, snapshot, deadline: float) -> None:
        """Read the answer's parameters, or why there is no answer. Raises ProcessLost.

        This comes before any question of the same jail: a later reply could be based on the inputs of another
        answer, or of this one before it died.
        """
        if self.loaded:
            return
        try:
            self.problem = self._load(snapshot, deadline)
        except NoAnswer as lost:
            late = isinstance(lost, OutOfTime)
            if late or self.died_at_load:
                self.loaded, self.pending = True, []
                self.reason = self._too_late() if late else str(lost)
            self.died_at_load = True
            raise ProcessLost from None
        self.loaded = snapshot.loaded = True

    def run_cases(self, snapshot, deadline: float) -> None:
        """Ask all pending questions. Raises ProcessLost; a question that is lost twice is not asked again."""
        try:
            if not snapshot.loaded and self._load(snapshot, deadline):
                raise NoAnswer(reasons.CHANGED)
            self._ask_honeypots(snapshot, deadline)
            while self.pending and time.monotonic() < deadline:
                self._ask_and_record(*self.pending[-1], snapshot, deadline)
                self.pending.pop()
        except OutOfTime:
            if not (self._asks_for_speed() and self._may_ask_again()):
                self._give_up(self._too_late())
            raise ProcessLost from None
        except Died as lost:
            if not self._may_ask_again():
                self._give_up(str(lost))
            raise ProcessLost from None
        except NoAnswer as lost:
            self._give_up(str(lost))
            raise ProcessLost from None
        snapshot.close()

    def _ask_and_record(self, p: int, c: int, q: int, snapshot, deadline: float) -> None:
        """Ask one question; when it was the last of its case, conclude. Raises NoAnswer."""
        prop = self.material["properties"][p]
        most = ANY_REPLY + TIMES_EXPECTED * (prop["replies"][c][q] << 10)
        use = snapshot.usage_meter() if PROBES[prop["probe"]].measured else None
        outcome = checked_outcome(self._ask(snapshot, _question(prop, c, q), deadline, most))
        if use:
            outcome["used"] = use.until_now()
        raw = self.raw.setdefault((p, c), {})
        raw[q] = outcome
        if len(raw) == len(prop["replies"][c]):
            ordered = [outcome for _, outcome in sorted(self.raw.pop((p, c)).items())]
            found = PROBES[prop["probe"]].verdict(prop["cases"][c], ordered)
            slow = self._asks_for_speed() and "value" in found and not found["value"]["in_time"]
            if slow and self._may_ask_again():
                self._ask_and_record(p, c, q, snapshot, deadline)
            else:
                self.outcomes[p][c] = found

    def report(self) -> Report | None:
        """The report, or None if nothing was asked."""
        if self.problem:
            return no_answer(self.material, self.problem)
        if not any(outcome for row in self.outcomes for outcome in row):
            return no_answer(self.material, self.reason) if self.reason else None
        report = judge_and_explain(self.exercise, self.material, self.outcomes)
        report.reason = report.reason or self.reason
        return report

    def _too_late(self) -> str:
        return reasons.slow_answer(self.case_seconds)

    def _ask(
        self, snapshot, message: LoadQuestion | Question | bytes, deadline: float, most: int = ANY_REPLY
    ) -> dict[str, Any]:
        return snapshot.ask(message, self.case_seconds, deadline, most)

    def _load(self, snapshot, deadline: float) -> str | None:
        """Why the answer cannot be tested at all, in words, or None. Raises NoAnswer."""
        question: LoadQuestion = {"answer": self.exercise.name, "file": self.file}
        reply = self._ask(snapshot, question, deadline)
        if set(reply) not in ({"loaded"}, {"failed"}):
            raise NoAnswer(reasons.NO_FORM)
        self.missing = isinstance(reply.get("failed"), dict) and reply["failed"].get("type") == "missing"
        return _load_problem(reply, self.material, "the file" if self.file else "the notebook")

    def _asks_for_speed(self) -> bool:
        """Whether the present question is about speed."""
        return bool(self.pending) and self.material["properties"][self.pending[-1][0]]["probe"] == "in_time"

    def _may_ask_again(self) -> bool:
        """Whether the present property may be asked a second time: something outside may have slowed a process."""
        if not self.pending or self.pending[-1][0] in self.retried:
            return False
        self.retried.add(self.pending[-1][0])
        return True

    def _give_up(self, reason: str) -> None:
        """The case that was asked last gave nothing: its property is lost, and no other."""
        self.reason = reason
        if self.pending:
            lost = self.pending[-1][0]
            self.pending = [question for question in self.pending if question[0] != lost]

    def _ask_honeypots(self, snapshot, deadline: float) -> None:
        """Ask questions that have no right answer, once.

        Code that answers them makes answers up, or swallows errors. To hang or to die on them costs nothing.
        Raises ProcessLost.
        """
        if self.tested:
            return
        self.tested, word = True, f"q{secrets.token_hex(4)}"
        if self._has_value(snapshot, {"probe": word, "inputs": {}}, deadline):
            self._flag("made up", "answered a test case that does not exist, so its answers are made up")
        plain = [case for prop in self.material["properties"] if prop["probe"] == "call" for case in prop["cases"]]
        if plain and self._has_value(snapshot, {"probe": "call", "inputs": {**plain[0], word: 0}}, deadline):
            self._flag("extra argument", "accepts an argument that it does not have, so it may swallow errors")

    def _has_value(self, snapshot, question: Question, deadline: float) -> bool:
        try:
            return "value" in checked_outcome(self._ask(snapshot, question, deadline))
        except (OutOfTime, Died):  # its answer could arrive late, instead of another
            raise ProcessLost from None
        except NoAnswer:
            return False

    def _flag(self, kind: str, text: str) -> None:
        self.flags.append(Flag(kind, text, self.exercise.name))


def _in_order(properties: list[Property], shuffled: bool) -> list[tuple[int, int, int]]:
    """Property, case and number of every question. Shuffled, those that are measured still come in their own order."""
    places = [
        (p, c, q)
        for p, prop in enumerate(properties)
        for c, replies in enumerate(prop["replies"])
        for q in range(len(replies))
    ]
    if not shuffled:
        return places
    mixed = random.SystemRandom().sample(places, len(places))
    for p, prop in enumerate(properties):
        if PROBES[prop["probe"]].measured:
            own = iter([place for place in places if place[0] == p])
            mixed = [next(own) if place[0] == p else place for place in mixed]
    return mixed


def _question(prop: Property, case: int, number: int) -> bytes:
    """The frame of one question, made once for all answers that are judged by this material."""
    frames = prop.setdefault("frames", {})
    if (case, number) not in frames:
        asked = PROBES[prop["probe"]].calls(prop["cases"][case])
        frames |= {(case, q): codec.frame({"probe": prop["probe"], "inputs": inputs}) for q, inputs in enumerate(asked)}
    return frames[case, number]


def _load_problem(reply: dict[str, Any], material: Material, what: str) -> str | None:
    failed = reply.get("failed")
    if isinstance(failed, dict):
        if failed.get("type") == "missing":
            return f"{what} {str(failed.get('message'))[:60]}: {material['name']}"
        line = f" in line {failed['line']}" if isinstance(failed.get("line"), int) else ""
        return f"{what} raised {str(failed.get('type'))[:80]}{line}: {str(failed.get('message'))[:300]}"
    parameters = reply.get("loaded")
    if not isinstance(parameters, list):
        return None
    try:
        return parameter_problem([(str(n), str(k), bool(d)) for n, k, d in parameters], material)
    except (TypeError, ValueError):
        return None


def judge_and_explain(exercise: Exercise, material: Material, outcomes) -> Report:
    """The report on an answer's outcomes, with the misconceptions that explain what failed."""
    report = judge(material, outcomes, show_cases=False)
    # Only an answer that failed needs explaining, and the mistakes are run once for all of them.
    if any(finding.kind for finding in report.findings) and not material["misconceptions"]:
        report = judge(exercise.explain(material), outcomes, show_cases=False)
    return report


_made: dict[tuple[int, int], tuple[Exercise, Material]] = {}


def material_of(exercise: Exercise, seed: int | None = None) -> Material:
    """Make the material of an exercise once for all answers that this process grades. seed: the course's, if None"""
    key = id(exercise), course_seed() if seed is None else seed
    if key not in _made:
        _made[key] = exercise, exercise.material(key[1], misconceptions=False)
    return _made[key][1]
