"""Grade one answer to one exercise: a stand-alone file in a process of its own, or a live object (stock nbgrader)."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

from attnlab.check import outcomes_of, parameter_problem, signature_problem
from attnlab.judge import Report, judge, no_answer
from autograder.course import prerequisites
from autograder.course.folder import course_seed
from autograder.exercise import Exercise
from autograder.grading.channel import NoAnswer, OutOfTime
from autograder.grading.student_process import StudentProcess
from autograder.sandbox.limits import FILE_SECONDS, MAX_SOURCE


class Unreadable(Exception):
    """A file that cannot be graded at all: missing, no text, too large, or no Python."""


def grade_file(path: Path, exercise: Exercise, seed: int | None = None, seconds: float = FILE_SECONDS) -> Report:
    """Grade a Python file that defines the exercise's function or class. Raises Unreadable."""
    return grade_source(read_source(path), path.name, exercise, seed, seconds)


def read_source(path: Path) -> str:
    """The text of a Python file that at least compiles. Raises Unreadable with one line that says what is wrong."""
    try:
        if path.is_dir():
            raise Unreadable(f"{path}: a folder, not a file")
        if not path.is_file():
            raise Unreadable(f"{path}: no such file")
        if path.stat().st_size > MAX_SOURCE:
            raise Unreadable(f"{path}: larger than {MAX_SOURCE} bytes")
        source = path.read_text("utf-8-sig")  # some editors put a mark in front
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path}: not a text file in UTF-8") from None
    except SyntaxError as error:
        raise Unreadable(f"{path}, line {error.lineno}: syntax error: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise Unreadable(f"{path}: cannot be compiled: {why}") from None
    return source


def grade_source(
    source: str, filename: str, exercise: Exercise, seed: int | None = None, seconds: float = FILE_SECONDS
) -> Report:
    """Grade Python source in a separate process; scores are computed here, from the arrays that come back.

    filename: what tracebacks call it. Give the bare name: the student's code can read it.
    """
    material = material_of(exercise, seed)
    outcomes: list[list[dict | None]] = [[None] * len(p["cases"]) for p in material["properties"]]
    builds_on = "attnlab" in source or "solutions" in source  # the references themselves import what they build on
    loans = prerequisites.references(material["chapter"]) if builds_on else None
    reason, next_property, deadline = None, 0, time.monotonic() + seconds
    # A process that dies takes its property with it and no other: the rest go to a new one, in what time is left.
    while next_property < len(outcomes):
        loaded = False
        try:
            with StudentProcess(source, filename, exercise.name, deadline, seconds, loans) as process:
                problem = load_problem(process.load(), material)
                deadline = process.deadline
                if problem and next_property == 0:
                    return no_answer(material, problem)
                if problem:  # its words might carry what the first process was asked
                    reason = "the file could not be loaded a second time"
                    break
                loaded = True
                for p in range(next_property, len(outcomes)):
                    next_property = p + 1
                    prop = material["properties"][p]
                    for c, case in enumerate(prop["cases"]):
                        outcomes[p][c] = process.outcome(prop["probe"], case)
        except OutOfTime as late:
            reason = str(late)
            break
        except NoAnswer as lost:
            reason = str(lost)
            if not loaded:  # it died before the first question: it would die again
                break
    if reason and not any(outcome for row in outcomes for outcome in row):
        return no_answer(material, reason)
    report = judge_and_explain(exercise, material, outcomes)
    report.reason = report.reason or reason
    return report


def grade_object(answer, exercise: Exercise, seed: int | None = None) -> Report:
    """Grade a live object in this process, as the hidden tests do under stock nbgrader."""
    material = material_of(exercise, seed)
    problem = signature_problem(answer, material)
    if problem:
        return no_answer(material, problem)
    return judge_and_explain(exercise, material, outcomes_of(answer, material))


_made: dict[tuple[int, int], tuple[Exercise, dict]] = {}


def material_of(exercise: Exercise, seed: int | None) -> dict:
    """The hidden material, made once for all answers that this process grades."""
    key = id(exercise), course_seed() if seed is None else seed
    if key not in _made:
        _made[key] = exercise, exercise.material(key[1], misconceptions=False)
    return _made[key][1]


def judge_and_explain(exercise: Exercise, material: dict, outcomes) -> Report:
    report = judge(material, outcomes, show_cases=False)
    # Only an answer that failed needs explaining, and the mistakes are run once for all of them.
    if any(finding.kind for finding in report.findings) and not material["misconceptions"]:
        report = judge(exercise.explain(material), outcomes, show_cases=False)
    return report


def load_problem(reply: dict, material: dict, what: str = "the file") -> str | None:
    """What kept an answer from being asked anything, in words, or None. It was to come from `what`."""
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
