"""Run one reassembled notebook in the jail and judge its exercises from outside.

Cells run in order in one process. At each check the process is copied, and the copy waits. When the last cell has
shown what it shows, the copies are asked: inputs go in and arrays come out, a case at a time, in an order nobody can
foresee; what is right is computed here. So a check sees the notebook as it stood there, and no hidden input can reach
an output.

Whatever ends or hangs costs what it was asked for, and no more: a cell that does is left out, a copy that does loses
that question's property, and then the whole jail ends and the notebook runs again, for what is still to be asked. From
here a process that ended itself looks like one that was
killed by somebody else (an administrator, a machine out of memory), so nothing is lost before it ended twice.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab import codec
from attnlab.judge import Report, no_answer
from autograder.exercise import Exercise
from autograder.grading.channel import Channel, Died, NoAnswer, OutOfTime, checked_outcome
from autograder.grading.single_file import judge_and_explain, load_problem, material_of
from autograder.sandbox import bubblewrap, fork_client
from autograder.sandbox.limits import MAX_DATA, MAX_TEXT, START_SECONDS, Limits, Times

GRACE = 5.0  # for a cell that was told to stop
SLOW = 10.0  # a cell of the chapter's own that took longer is not run a second time
LIVES = 24
PATIENCE = 5  # times the seconds of a question about speed, which may try twice; more is odd
MAX_FLAGS = 5  # of one answer
STARTS = 3  # in a row that may fail before the machine is to blame


@dataclass(frozen=True)
class Cell:
    """A code cell, known by its place in the notebook. `check` names the exercise that is judged here."""

    place: int
    source: str
    solution: bool = False
    check: str | None = None


@dataclass
class Evaluated:
    """What became of one notebook: outputs and seconds by place, reports by exercise, and what a human should see."""

    outputs: dict[int, list[dict]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)


class _NotStarted(Exception):
    """The process that runs notebooks did not come up; the message is the last that it said."""


class _Lost(Exception):
    """The notebook's process is gone, or does not answer.

    cell: the place of the cell that ran; died: whether the process ended, by whatever hand
    """

    def __init__(self, reason: str, cell: int | None = None, died: bool = False):
        super().__init__(reason)
        self.cell, self.died = cell, died


def evaluate(
    cells: Sequence[Cell],
    exercises: dict[str, Exercise],
    material: Callable[[str], dict] | None = None,
    *,
    loans: dict | None = None,
    files: dict[str, Path] | None = None,
    times: Times = Times(),
    limits: Limits = Limits(),
    many: bool = False,
) -> Evaluated:
    """Run the cells and judge the exercises that they check.

    exercises: by name
    material: a function from an exercise's name to what its answers are judged by (by default that of this process's
        course)
    loans: what `attnlab.mine` may give; files: name -> file in the notebook's folder
    many: more notebooks will come, so that a warm process to fork from is worth its start
    Raises jail.NoJail where student code cannot be confined.
    """
    material = material or (lambda name: material_of(exercises[name], None))
    return _Evaluation(cells, exercises, material, loans, files or {}, times, limits, many).run()


class _Evaluation:
    def __init__(self, cells, exercises, material, loans, files, times, limits, many):
        self.cells, self.loans, self.files, self.times, self.limits = cells, loans, files, times, limits
        self.jailed = bubblewrap.ensure()
        self.warm = self.jailed and many and fork_client.wanted()
        self.answers = {
            cell.check: _Answer(exercises[cell.check], material(cell.check), times) for cell in cells if cell.check
        }
        self.done = Evaluated()
        self.left_out: dict[int, str] = {}  # place of a cell that ended or hung its process -> why
        self.doubted: set[int] = set()  # places of cells whose process ended once, so that they run a second time
        self.deadline = time.monotonic() + times.submission
        sources = "\n".join(cell.source for cell in cells)
        builds_on = loans and loans["sources"]
        self.libraries = [name for name in ("torch", "matplotlib.pyplot") if name.split(".")[0] in sources or builds_on]

    def run(self) -> Evaluated:
        failed = lives = 0
        while lives < LIVES:
            try:
                with _Life(list(self.answers), self) as life:
                    failed = 0
                    held = self._run_cells(life)
                    self._ask_all(life, held)
                break
            except _LostAnswer:  # no endless loop: each question is lost after two of them
                if not any(answer.open for answer in self.answers.values()):
                    break
            except _NotStarted as said:
                if self.warm:
                    fork_client.give_up()
                    self.warm = False
                    continue
                failed, lives = failed + 1, lives + 1
                if failed == STARTS:
                    raise bubblewrap.NoJail(f"the process that runs notebooks could not be started: {said}") from None
            except _Lost as lost:
                lives += 1
                if lost.died and lost.cell not in self.doubted:
                    self.doubted.add(lost.cell)
                elif lost.cell is not None:
                    self.left_out[lost.cell] = str(lost)
                    self.done.outputs[lost.cell] = [_error_output("Stopped", str(lost))]
                    self.done.flags.append(f"a cell was left out: {lost}")
            if time.monotonic() > self.deadline:
                break
        late = "the time for this notebook was used up"
        for cell in self.cells:
            if not cell.check and cell.place not in self.done.outputs:
                self.done.outputs[cell.place] = [_error_output("Stopped", late)]
        for cell in self.cells:
            if cell.check:
                self._report(cell, late)
        return self.done

    def _run_cells(self, life: _Life) -> list[str]:
        """Run or replay every cell that may run; returns the exercises whose state is held."""
        held = []
        for cell in self.cells:
            if cell.check:
                answer = self.answers[cell.check]
                if answer.open and life.hold(cell.check, last=cell is self.cells[-1]):
                    held.append(cell.check)
                elif answer.open:
                    answer.reason = "its process could not be copied: it had used up what processes it may have"
                continue
            known = cell.place in self.done.outputs
            slow = known and not cell.solution and self.done.seconds.get(cell.place, 0) > SLOW
            if cell.place in self.left_out or slow:
                continue
            begin = time.monotonic()
            seconds = min(self.times.cell, self.deadline - begin)
            if seconds <= 0:
                break
            outputs = life.run_cell(cell, seconds)
            if not known:
                self.done.outputs[cell.place] = outputs
                self.done.seconds[cell.place] = time.monotonic() - begin
        return held

    def _ask_all(self, life: _Life, held: list[str]) -> None:
        for name in held:
            self.answers[name].hear(life.copies[name], self.deadline)
        for name in random.SystemRandom().sample(held, len(held)):
            if self.answers[name].open and time.monotonic() < self.deadline:
                self.answers[name].ask(life.copies[name], self.deadline)

    def _report(self, cell: Cell, late: str) -> None:
        answer = self.answers[cell.check]
        report = answer.report()
        if report is None:
            report = no_answer(answer.material, late)
        ended = [why for place, why in self.left_out.items() if place < cell.place]
        if ended and not report.not_done and not any(finding.passed for finding in report.findings):
            report.reason = f"a cell before it was stopped: {ended[-1]}"
        self.done.reports[cell.check] = report
        self.done.flags += [f"{cell.check}: {flag}" for flag in answer.flags]


def _error_output(name: str, words: str) -> dict:
    return {"output_type": "error", "ename": name, "evalue": words, "traceback": [f"{name}: {words}"]}


class _LostAnswer(Exception):
    """A copy is gone, or does not answer: what it runs must be ended, and only its jail can be."""


class _Life:
    """One process of the notebook, with the copies it leaves at its checks."""

    def __init__(self, names: list[str], evaluation: _Evaluation):
        self._names, self._evaluation = names, evaluation

    def __enter__(self):
        work = self._evaluation
        with contextlib.ExitStack() as stack:
            self.copies, ends = {}, []
            for name in self._names:
                own, other = socket.socketpair()
                self.copies[name] = stack.enter_context(_Copy(own))
                ends.append(other)
            self._jail = stack.enter_context(self._started(tuple(end.fileno() for end in ends)))
            for end in ends:
                end.close()
            process = self._jail.process
            self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())
            try:
                self._channel.receive(time.monotonic() + START_SECONDS)
                self._channel.send(
                    {"answers": self._names, "channels": list(self._jail.passed), "lent": work.loans},
                    time.monotonic() + START_SECONDS,
                )
            except NoAnswer:
                raise _NotStarted(self._jail.last_words()) from None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        self._stack.close()

    @contextlib.contextmanager
    def _started(self, descriptors: tuple[int, ...]):
        """The jail with the process in it: forked from a warm one, or started cold where that cannot be."""
        work = self._evaluation
        given = dict(files=work.files, pass_fds=descriptors, limits=work.limits)
        with contextlib.ExitStack() as stack:
            confined = None
            if work.warm:
                try:
                    confined = stack.enter_context(fork_client.WarmJail([], **given, torch="torch" in work.libraries))
                except fork_client.NotWarm:
                    fork_client.give_up()
                    work.warm = False
            if confined is None:
                session = str(bubblewrap.INSIDE / "notebook_session.py")
                program = [sys.executable, "-I", "-B", session, str(bubblewrap.ATTNLAB), *work.libraries]
                confine = bubblewrap.Jail if work.jailed else bubblewrap.Unconfined
                confined = stack.enter_context(confine(program, **given))
            yield confined

    def run_cell(self, cell: Cell, seconds: float) -> list[dict]:
        """The outputs of one cell. Raises _Lost if the process ends, or does not stop when it is told to."""
        try:
            request = {"cell": cell.source, "seconds": seconds, "text": MAX_TEXT, "data": MAX_DATA}
            reply = self._channel.ask(request, time.monotonic() + seconds + GRACE)
        except OutOfTime:
            raise _Lost(f"it took longer than {seconds:.0f} seconds", cell.place) from None
        except Died:
            used_up = self._jail.used_up()
            raise _Lost(
                f"it used more {used_up} than there is" if used_up else "it ended the process",
                cell.place,
                died=not used_up,
            ) from None
        except NoAnswer:
            raise _Lost("it disturbed the process it ran in", cell.place) from None
        outputs = reply.get("outputs")
        if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
            raise _Lost("it disturbed the process it ran in", cell.place)
        return outputs

    def hold(self, name: str, last: bool) -> bool:
        """last: no cell will run after this"""
        try:
            reply = self._channel.ask({"hold": name, "last": last}, time.monotonic() + GRACE)
        except NoAnswer:
            raise _Lost("the process could not be asked") from None
        return reply.get("held") is True


class _Copy:
    """The copy of a notebook's process that waits at a check. It ends when nobody is left to ask it."""

    def __init__(self, own: socket.socket):
        self._own, self.channel = own, Channel(own.fileno(), own.fileno())
        self.loaded = False  # whether it has said what it answers for

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._own.close()


def _question(prop: dict, number: int) -> bytes:
    """The frame of one question, made once for all answers that are judged by this material."""
    frames = prop.setdefault("frames", {})
    if number not in frames:
        frames[number] = codec.frame({"probe": prop["probe"], "inputs": prop["cases"][number]})
    return frames[number]


class _Answer:
    """What is known about one exercise's answer."""

    def __init__(self, exercise: Exercise, material: dict, times: Times):
        self.exercise, self.material, self.times = exercise, material, times
        properties = self.material["properties"]
        self.outcomes: list[list[dict | None]] = [[None] * len(p["cases"]) for p in properties]
        self.left = [(p, c) for p, prop in enumerate(properties) for c in range(len(prop["cases"]))]
        random.SystemRandom().shuffle(self.left)
        self.doubted: set[int] = set()  # properties at which a process ended once, so that they are asked again
        self.reason: str | None = None
        self.problem: str | None = None
        self.heard = self.died_at_once = self.tested = False
        self.flags: list[str] = []

    @property
    def open(self) -> bool:
        """Whether there is something to ask still."""
        return bool(self.left) and self.problem is None

    def ask(self, copy: _Copy, deadline: float) -> None:
        """Ask everything that is left. Raises _LostAnswer; what is lost twice is not asked again."""
        try:
            if not copy.loaded and self._load(copy, deadline):
                raise NoAnswer("it was not the same when it was asked again")
            self._canaries(copy, deadline)
            while self.left and time.monotonic() < deadline:
                p, c = self.left[-1]
                prop = self.material["properties"][p]
                begin = time.monotonic()
                limit = min(begin + self.times.case, deadline)
                reply = copy.channel.ask(_question(prop, c), limit)
                self.outcomes[p][c] = outcome = checked_outcome(reply)
                self._clock(prop["cases"][c].get("seconds"), outcome, time.monotonic() - begin)
                self.left.pop()
        except OutOfTime:
            self._give_up(f"no answer within {self.times.case:g} seconds")
            raise _LostAnswer from None
        except Died as lost:
            self._doubt(str(lost))
            raise _LostAnswer from None
        except NoAnswer as lost:
            self._give_up(str(lost))
            raise _LostAnswer from None
        copy.__exit__()

    def hear(self, copy: _Copy, deadline: float) -> None:
        """Let the answer say what parameters it has, or why there is none. Raises _LostAnswer.

        This comes before any question of the same jail: what was said later could be made of the inputs of another
        answer, or of this one before it died.
        """
        if self.heard:
            return
        try:
            self.problem = self._load(copy, deadline)
        except NoAnswer as lost:
            late = isinstance(lost, OutOfTime)
            if late or self.died_at_once:
                self.heard, self.left = True, []
                self.reason = f"no answer within {self.times.case:g} seconds" if late else str(lost)
            self.died_at_once = True
            raise _LostAnswer from None
        self.heard = copy.loaded = True

    def _load(self, copy: _Copy, deadline: float) -> str | None:
        reply = copy.channel.ask({"answer": self.exercise.name}, min(time.monotonic() + self.times.case, deadline))
        return load_problem(reply, self.material, "the notebook")

    def _doubt(self, reason: str) -> None:
        """A process ended at a question: the first time somebody else may have ended it."""
        if self.left and self.left[-1][0] not in self.doubted:
            self.doubted.add(self.left[-1][0])
        else:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """The case that was asked last gave nothing: its property is lost, and no other."""
        self.reason = reason
        if self.left:
            lost = self.left[-1][0]
            self.left = [(p, c) for p, c in self.left if p != lost]

    def _canaries(self, copy: _Copy, deadline: float) -> None:
        """Ask questions without a right answer, once.

        A function that answers them makes results up or swallows errors; one that hangs or dies at them loses nothing.
        Raises _LostAnswer.
        """
        if self.tested:
            return
        self.tested, word = True, f"q{secrets.token_hex(4)}"
        if self._answers(copy, {"probe": word, "inputs": {}}, deadline):
            self.flags.append("answered a question that does not exist, so its answers are made up")
        plain = [case for prop in self.material["properties"] if prop["probe"] == "call" for case in prop["cases"]]
        if plain and self._answers(copy, {"probe": "call", "inputs": {**plain[0], word: 0}}, deadline):
            self.flags.append("accepts an argument that it does not have, so it may swallow errors")

    def _answers(self, copy: _Copy, question: dict, deadline: float) -> bool:
        try:
            return "value" in checked_outcome(
                copy.channel.ask(question, min(time.monotonic() + self.times.case, deadline))
            )
        except (OutOfTime, Died):  # its answer could come late, in place of another
            raise _LostAnswer from None
        except NoAnswer:
            return False

    def _clock(self, seconds, outcome: dict, took: float) -> None:
        """The probe of speed looks at a clock in the student's process; this one cannot be set there."""
        value = outcome.get("value")
        if (
            isinstance(seconds, float | int)
            and isinstance(value, dict)
            and value.get("in_time") is True
            and took > PATIENCE * seconds
            and len(self.flags) < MAX_FLAGS
        ):
            self.flags.append(f"answered after {took:.0f} seconds, and said that it took at most {seconds:g}")

    def report(self) -> Report | None:
        """The report, or None if nothing was asked."""
        if self.problem:
            return no_answer(self.material, self.problem)
        came = any(outcome for row in self.outcomes for outcome in row)
        if not came:
            return no_answer(self.material, self.reason) if self.reason else None
        report = judge_and_explain(self.exercise, self.material, self.outcomes)
        report.reason = report.reason or self.reason
        return report
