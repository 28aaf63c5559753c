"""Grade one answer to one exercise: a stand-alone file in a process of its own, or a live object (stock nbgrader)."""

from __future__ import annotations

import time
from pathlib import Path

from attnlab.check import examine, parameter_problem
from attnlab.judge import Report, judge, no_answer
from autograder import secret
from autograder.exercise import Exercise
from autograder.student_process import NoAnswer, OutOfTime, StudentProcess

SECONDS = 10.0  # one file, all cases together
MAX_SOURCE = 1 << 20


class Unreadable(Exception):
    """A file that cannot be graded at all: missing, no text, too large, or no Python."""


def grade_file(path: Path, exercise: Exercise, seed: int | None = None, seconds: float = SECONDS) -> Report:
    """Grade a Python file that defines the exercise's function or class. Raises Unreadable."""
    return grade_source(read_source(path), str(path), exercise, seed, seconds)


def read_source(path: Path) -> str:
    """The text of a Python file that at least compiles. Raises Unreadable with one line that says what is wrong."""
    try:
        if not path.is_file():
            raise Unreadable(f"{path}: no such file")
        if path.stat().st_size > MAX_SOURCE:
            raise Unreadable(f"{path}: larger than {MAX_SOURCE} bytes")
        source = path.read_text("utf-8")
        compile(source, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path}: not a text file in UTF-8") from None
    except SyntaxError as error:
        raise Unreadable(f"{path}, line {error.lineno}: syntax error: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{path}: cannot be compiled: {type(error).__name__}") from None
    return source


def grade_source(source: str, filename: str, exercise: Exercise, seed: int | None = None,
                 seconds: float = SECONDS) -> Report:
    """Grade Python source in a separate process; scores are computed here, from the arrays that come back."""
    material = exercise.material(secret.seed() if seed is None else seed, misconceptions=False)
    outcomes: list[list[dict | None]] = [[None] * len(p["cases"]) for p in material["properties"]]
    reason, next_property, deadline = None, 0, time.monotonic() + seconds
    # A process that dies takes its property with it and no other: the rest go to a new one, in what time is left.
    while next_property < len(outcomes):
        try:
            with StudentProcess(source, filename, exercise.name, deadline, seconds) as process:
                problem = _load_problem(process.load(), material)
                deadline = process.deadline
                if problem:
                    return no_answer(material, problem)
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
            if next_property == 0:  # it died before the first question: it would die again
                break
    report = judge(material, outcomes, show_cases=False)
    if any(finding.kind for finding in report.findings):  # only an answer that failed needs explaining
        report = judge(exercise.explain(material), outcomes, show_cases=False)
    if reason and not any(outcome for row in outcomes for outcome in row):
        return no_answer(material, reason)
    if reason and report.reason is None:
        report.reason = reason
    return report


def grade_object(answer, exercise: Exercise, seed: int | None = None) -> Report:
    """Grade a live object in this process, as the hidden tests do under stock nbgrader."""
    material = exercise.material(secret.seed() if seed is None else seed, misconceptions=False)
    report = examine(answer, material, show_cases=False)
    if any(finding.kind for finding in report.findings):
        report = examine(answer, exercise.explain(material), show_cases=False)
    return report


def as_record(report: Report, file: str) -> dict:
    """A report as one JSON object."""
    return {
        "file": file, "exercise": report.exercise, "points": report.points, "max_points": report.max_points,
        "properties": [{"title": f.title, "passed": f.passed, "points": f.points, "max_points": f.max_points,
                        "hint": None if f.passed else f.hint or None, "misconception": f.misconception}
                       for f in report.findings],
        "reason": report.reason,
    }


def _load_problem(reply: dict, material: dict) -> str | None:
    """What kept the file from being asked anything, in words, or None."""
    failed = reply.get("failed")
    if isinstance(failed, dict):
        if failed.get("type") == "missing":
            return f"the file {failed.get('message')}: {material['name']}"
        line = f" in line {failed['line']}" if isinstance(failed.get("line"), int) else ""
        return f"the file raised {str(failed.get('type'))[:80]}{line}: {str(failed.get('message'))[:300]}"
    parameters = reply.get("loaded")
    if not isinstance(parameters, list):
        return None
    try:
        return parameter_problem([(str(n), str(k), bool(d)) for n, k, d in parameters], material)
    except (TypeError, ValueError):
        return None
