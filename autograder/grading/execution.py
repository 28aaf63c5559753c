"""Run one reassembled notebook in the jail and judge its exercises from outside.

Cells run in order in one process. At each check the process is copied, and the copy waits. After the last cell,
the copies are tested: inputs go in and arrays come out, one case at a time, in a random order; the right results are
computed here. So a check sees the notebook as it was at that point, and no hidden input can reach an output.

Anything that ends or hangs costs only its own part: a cell is left out, a copy loses the property of that question;
then the whole jail ends and the notebook runs again, for the remaining questions. A process that ended itself looks
from here like one that was killed by an administrator or for lack of memory, so nothing is lost until it has ended
twice.

A stand-alone file is graded on the same route: as a notebook without cells, whose one answer is loaded from the file.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.checking import codec, schema
from attnlab.checking.judge import Report, no_answer
from autograder.grading import reasons, sanitize
from autograder.grading.channel import Channel, CpuDeadline, Died, NoAnswer, OutOfTime
from autograder.grading.hunting import HuntAnswer
from autograder.grading.questions import Answer, ProcessLost, material_of
from autograder.grading.results import Flag
from autograder.sandbox import bubblewrap, fork_client, usage
from autograder.sandbox.limits import MAX_DATA, MAX_MARKUP, MAX_OUTPUTS, MAX_TEXT, START_SECONDS, WALL, Limits, Times
from course import prerequisites
from course.cells import new_output
from course.kit.exercise import Exercise
from course.kit.hunt import Hunt

GRACE = 5.0  # for a cell that was interrupted
SLOW = 10.0  # seconds, see `Evaluated.is_slow`
MAX_RESTARTS = 24
STARTS = 3  # in a row that may fail before the machine is to blame


@dataclass(frozen=True)
class Cell:
    """A code cell, known by its place in the notebook.

    check: the exercise that is judged here; filename: of a stand-alone file, whose source this is
    lends: the exercise whose reference this source is. It takes the answer's place in the notebook, unless that answer
    is asked in the same run and earns all its points
    """

    place: int
    source: str
    solution: bool = False
    check: str | None = None
    filename: str | None = None
    lends: str | None = None


@dataclass
class Evaluated:
    """The result for one notebook: outputs and seconds by cell, reports by exercise, and what a human should see.

    left_out: place of a cell that ended or hung its process -> why
    used_up: whether something was cut short because the time for the notebook was over
    """

    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)
    left_out: dict[int, str] = field(default_factory=dict)
    used_up: bool = False

    def is_slow(self, cell: Cell) -> bool:
        """Whether a cell of the chapter's own took too long to be run a second time."""
        return not cell.solution and self.seconds.get(cell.place, 0) > SLOW


class _NotStarted(Exception):
    """The process that runs notebooks did not start; the message is the last one that it sent."""


class _SessionLost(Exception):
    """The notebook's process is gone, or does not answer.

    cell: the position of the cell that ran; died: whether the process ended, for any reason
    """

    def __init__(self, reason: str, cell: int | None = None, died: bool = False):
        super().__init__(reason)
        self.cell, self.died = cell, died


def evaluate(
    cells: Sequence[Cell],
    exercises: dict[str, Exercise],
    material: Callable[[str], schema.Material] | None = None,
    *,
    references: schema.ReferenceSources | None = None,
    files: dict[str, Path] | None = None,
    times: Times = Times(),
    limits: Limits = Limits(),
    many: bool = False,
    at_once: bool = False,
    confine: type[bubblewrap.Jail] | None = None,
) -> Evaluated:
    """Run the cells and judge the exercises that they check.

    exercises: by name; material: gives what answers to an exercise are judged by, if not what this process's course has
    references: what `attnlab.mine` gives, as `prerequisites.references` has it; files: name -> file beside the notebook
    many: more notebooks will follow, so it pays to start a warm process to fork from
    at_once: test each answer at its check, before the next cell runs; the outputs of these cells must then not be shown
    confine: the kind of sandbox, if not a jail
    Raises NoJail if student code cannot be confined.
    """
    material = material or (lambda name: material_of(exercises[name]))
    return _Evaluation(cells, exercises, material, references, files or {}, times, limits, many, at_once, confine).run()


class _Evaluation:
    def __init__(self, cells, exercises, material, references, files, times, limits, many, at_once, confine):
        self.cells, self.references, self.files, self.times, self.limits = cells, references, files, times, limits
        self.at_once = at_once
        self.confine = confine or (bubblewrap.Jail if bubblewrap.ensure() else bubblewrap.Unconfined)
        self.warm = self.confine is bubblewrap.Jail and many and fork_client.wanted()
        self.answers = {
            cell.check: (HuntAnswer if isinstance(exercises[cell.check], Hunt) else Answer)(
                exercises[cell.check],
                material(cell.check),
                times.case,
                (cell.source, cell.filename) if cell.filename else None,
            )
            for cell in cells
            if cell.check
        }
        self.done = Evaluated()
        # Half of what may be shown of markup is for the student's own cells.
        self.left_out, self._shown = self.done.left_out, sanitize.OutputBudget(markup=MAX_MARKUP // 2)
        self.retried: set[int] = set()  # places of cells whose process ended once, so that they run a second time
        self.deadline = time.monotonic() + times.submission
        sources = "\n".join(cell.source for cell in cells)
        builds_on = references and references["sources"]
        self.libraries = [name for name in ("torch", "matplotlib.pyplot") if name.split(".")[0] in sources or builds_on]
        # Every optimizer loads it at its first step, which takes a second.
        if "torch" in self.libraries and "optim" in sources:
            self.libraries.append("torch._dynamo")

    def run(self) -> Evaluated:
        failed_starts = restarts = 0
        while restarts < MAX_RESTARTS:
            try:
                with Session(self) as session:
                    failed_starts = 0
                    self._ask_all(session, self._run_cells(session))
                break
            except ProcessLost:  # not an endless loop: each question is lost after two of them
                if not any(answer.open for answer in self.answers.values()):
                    break
            except _NotStarted as said:
                if self.warm:
                    fork_client.give_up()
                    self.warm = False
                    continue
                failed_starts, restarts = failed_starts + 1, restarts + 1
                if failed_starts == STARTS:
                    raise bubblewrap.NoJail(f"the process that runs notebooks could not be started: {said}") from None
            except _SessionLost as lost:
                restarts += 1
                self._note_loss(lost)
            if time.monotonic() > self.deadline:
                break
        self.done.used_up = self.done.used_up or time.monotonic() > self.deadline
        for cell in self.cells:
            if cell.check:
                self._report(cell, cell.check)
            elif cell.place not in self.done.outputs:
                self.done.outputs[cell.place] = _stopped(reasons.TIME_USED_UP)
        return self.done

    def _note_loss(self, lost: _SessionLost) -> None:
        """Leave the cell out that ran when the process was lost, but give one that ended a second try."""
        if lost.cell is None:
            return
        if lost.died and lost.cell not in self.retried:
            self.retried.add(lost.cell)
        else:
            self.left_out[lost.cell] = str(lost)
            self.done.outputs[lost.cell] = _stopped(str(lost))
            self.done.flags.append(Flag("left out", f"a cell was left out: {lost}"))

    def _run_cells(self, session: Session) -> list[str]:
        """Run or replay every cell that may run; returns the exercises whose state was kept at their checks."""
        kept = []
        for cell in self.cells:
            if cell.check:
                answer = self.answers[cell.check]
                if answer.open and session.take_snapshot(cell.check, last=cell is self.cells[-1]):
                    kept.append(cell.check)
                    if self.at_once:
                        self._ask_all(session, [cell.check])
                elif answer.open:
                    answer.reason = reasons.NOT_COPIED
                continue
            known = cell.place in self.done.outputs
            left_out = cell.place in self.left_out or self.done.is_slow(cell)
            if left_out or cell.lends and not self._may_lend(cell.lends):
                continue
            begin = time.monotonic()
            seconds = min(self.times.cell, self.deadline - begin)
            if seconds <= 0:
                break
            outputs, late = session.run_cell(cell, seconds)
            self.done.used_up = self.done.used_up or late and seconds < self.times.cell
            if not known:
                # Cleaned on arrival, so that only what a notebook may show is kept of it.
                self.done.outputs[cell.place] = sanitize.outputs([] if self.at_once else outputs, 0, self._shown)
                self.done.seconds[cell.place] = time.monotonic() - begin
        return kept

    def _may_lend(self, name: str) -> bool:
        """Whether an answer's points are settled, and short: before that its reference must not be in the jail."""
        if name not in self.answers:
            return True
        report = None if self.answers[name].open else self.answers[name].report()
        return report is not None and report.points < report.max_points

    def _ask_all(self, session: Session, kept: list[str]) -> None:
        for name in kept:
            self.answers[name].load(session.snapshots[name], self.deadline)
        for name in random.SystemRandom().sample(kept, len(kept)):
            if self.answers[name].open and time.monotonic() < self.deadline:
                self.answers[name].run_cases(session.snapshots[name], self.deadline)

    def _report(self, cell: Cell, name: str) -> None:
        answer = self.answers[name]
        report = answer.report() or no_answer(answer.material, reasons.TIME_USED_UP)
        ended = [why for place, why in self.left_out.items() if place < cell.place]
        if ended and not report.not_done and not any(finding.passed for finding in report.findings):
            report.reason = reasons.earlier_cell(ended[-1])
        elif answer.missing and (raised := self._raised_in_the_cell_of(cell)):
            report.reason = reasons.and_raised(report.reason, raised)
        self.done.reports[name] = report
        self.done.flags += answer.flags

    def _raised_in_the_cell_of(self, check: Cell) -> str | None:
        """Describe the exception of the answer cell before a check, in the words of the student's own process."""
        before = [cell.place for cell in self.cells if cell.solution and cell.place < check.place]
        for output in self.done.outputs.get(max(before, default=-1), []):
            if output["output_type"] == "error":
                words = re.sub(r"\(\S+, line (\d+)\)", r"(line \1)", output["evalue"].split("\n")[0].strip())
                return f"{output['ename'][:80]}: {words[:200]}" if words else output["ename"][:80]
        return None


def _stopped(why: str) -> list[dict[str, Any]]:
    return [new_output("error", ename="Stopped", evalue=why, traceback=[f"Stopped: {why}"])]


class Session:
    """One process that runs the notebook, with the snapshots it leaves at its checks. Use as a context manager."""

    def __init__(self, evaluation: _Evaluation):
        self._evaluation = evaluation
        self.snapshots: dict[str, Snapshot] = {}

    def __enter__(self):
        evaluation, begin = self._evaluation, time.monotonic()
        names, ends = list(evaluation.answers), []
        with contextlib.ExitStack() as stack:
            for name in names:
                own, end = socket.socketpair()
                # A file's one answer is in the process itself, so that its exit is visible.
                self.snapshots[name] = Snapshot(own, self, bool(evaluation.answers[name].file))
                stack.callback(own.close)
                ends.append(end)
            self._jail = self._enter_jail(stack, tuple(end.fileno() for end in ends))
            for end in ends:
                end.close()
            process = self._jail.process
            self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())
            lent = prerequisites.with_bytecode(evaluation.references)
            job: schema.Job = {"answers": names, "channels": list(self._jail.passed), "references": lent}
            try:
                self._channel.receive(begin + START_SECONDS)
                self._channel.send(job, time.monotonic() + START_SECONDS)
            except NoAnswer:
                raise _NotStarted(self._jail.last_words()) from None
            self._stack = stack.pop_all()
        evaluation.deadline += time.monotonic() - begin  # the grader's own time, not the student's
        return self

    def __exit__(self, *exc):
        self._stack.close()

    def _enter_jail(self, stack: contextlib.ExitStack, descriptors: tuple[int, ...]) -> bubblewrap.Jail:
        """The jail with the process in it: forked from a warm one, or started cold if that is not possible."""
        evaluation = self._evaluation
        options = {"files": evaluation.files, "pass_fds": descriptors, "limits": evaluation.limits}
        if evaluation.warm:
            try:
                return stack.enter_context(fork_client.WarmJail([], libraries=evaluation.libraries, **options))
            except fork_client.NotWarm:
                fork_client.give_up()
                evaluation.warm = False
        session = str(bubblewrap.INSIDE / "notebook_session.py")
        program = [sys.executable, "-I", "-B", session, str(bubblewrap.ATTNLAB), *evaluation.libraries]
        return stack.enter_context(evaluation.confine(program, **options))

    def run_cell(self, cell: Cell, seconds: float) -> tuple[list[dict[str, Any]], bool]:
        """The outputs of one cell, and whether it was stopped because it was late.

        Raises _SessionLost if the process ends, or does not stop when it is interrupted.
        """
        try:
            order = _order(cell, seconds)
            cpu_deadline = self.cpu_deadline(seconds + GRACE, self._evaluation.deadline + GRACE)
            reply = self._channel.ask(order, cpu_deadline, codec.MAX_TREE + 12)
        except OutOfTime:
            raise _SessionLost(reasons.slow_cell(seconds), cell.place) from None
        except Died:
            used_up = self._jail.group.used_up()
            raise _SessionLost(reasons.lost_cell(used_up), cell.place, died=not used_up) from None
        except NoAnswer:
            raise _SessionLost(reasons.DISTURBED, cell.place) from None
        outputs = reply.get("outputs")
        if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
            raise _SessionLost(reasons.DISTURBED, cell.place)
        return outputs, reply.get("late") is True

    def cpu_deadline(self, seconds: float, last: float) -> CpuDeadline:
        """last: the moment at which to give up in any case"""
        return CpuDeadline(seconds, last, lambda: usage.spent_and_waited(self._jail.process.pid))

    def usage_meter(self) -> usage.Use:
        """Measure what the processes of the jail use from this call on."""
        return usage.Use(self._jail.process.pid)

    def take_snapshot(self, name: str, last: bool) -> bool:
        """Keep the present state for the answer of that name. last: no cell will run after this"""
        try:
            order: schema.SnapshotOrder = {"snapshot": name, "last": last}
            reply = self._channel.ask(order, time.monotonic() + GRACE)
        except NoAnswer:
            raise _SessionLost(reasons.NOT_ASKED) from None
        return reply.get("taken") is True

    def how_it_ended(self) -> str:
        """Say why the process ended, in words for a student."""
        try:
            code = self._jail.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return reasons.CLOSED
        return reasons.exit_code(code)


def _order(cell: Cell, seconds: float) -> schema.RunOrder | schema.LendOrder:
    if cell.lends:
        return {"lend": cell.lends, "code": prerequisites.bytecode(cell.source)}
    return {
        "cell": cell.source,
        "seconds": seconds,
        "wall": WALL,
        "text": MAX_TEXT,
        "data": MAX_DATA,
        "outputs": MAX_OUTPUTS,
    }


class Snapshot:
    """The state of a notebook at a check, in a process that answers questions. It ends when its socket is closed."""

    def __init__(self, own: socket.socket, session: Session, is_session: bool):
        self._session, self._channel = session, Channel(own.fileno(), own.fileno())
        self._is_session = is_session  # the session's own process, and no copy of it
        self.loaded = False  # whether it has said what it answers for
        self.close, self.usage_meter = own.close, session.usage_meter

    def ask(
        self, message: schema.LoadQuestion | schema.Question | bytes, seconds: float, last: float, most: int
    ) -> dict[str, Any]:
        """seconds: of processor time; last: the moment at which to give up; most: bytes of the answer

        Raises OutOfTime, Died, or NoAnswer for a reply that is not an answer."""
        return self.conversation(seconds, last, most)(message)

    def conversation(self, seconds: float, last: float, most: int) -> Callable[[Any], dict[str, Any]]:
        """A function that asks, for several messages in the time of one question; the rest is as in `ask`."""
        limit = self._session.cpu_deadline(seconds, last)

        def talk(message) -> dict[str, Any]:
            limit.begin_to_wait()
            try:
                return self._channel.ask(message, limit, most)
            except Died as died:
                raise Died(self._session.how_it_ended() if self._is_session else str(died)) from None

        return talk
