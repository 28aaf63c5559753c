"""Grade one answer to one exercise: a stand-alone file in a separate process, or a live object (stock nbgrader)."""

import warnings
from pathlib import Path

from attnlab.check import outcomes_of, signature_problem
from attnlab.checking import library_calls
from attnlab.checking.judge import Report, no_answer
from autograder.grading.execution import Cell, evaluate
from autograder.grading.questions import judge_and_explain, material_of
from autograder.sandbox.limits import FILE_LIMITS, FILE_SECONDS, MAX_SOURCE, WALL, Times
from course import prerequisites
from course.kit.exercise import Exercise


class Unreadable(Exception):
    """A file that cannot be graded at all: missing, not text, too large, or not Python."""


def grade_file(path: Path, exercise: Exercise, seed: int | None = None) -> Report:
    """Grade a Python file that defines the exercise's function or class. Raises Unreadable."""
    return grade_source(read_source(path), path.name, exercise, seed)


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
    """Grade Python source in a separate process; scores are computed here, from the arrays that it returns.

    filename: what tracebacks call it. Give the bare name: the student's code can read it.
    Raises NoJail if student code cannot be confined.
    """
    material = material_of(exercise, seed)
    done = evaluate(
        [Cell(0, source, check=exercise.name, filename=filename)],
        {exercise.name: exercise},
        lambda name: material,
        references=prerequisites.references(material["chapter"]),
        times=Times(case=seconds, submission=WALL * seconds),
        limits=FILE_LIMITS,
    )
    found = library_calls.uses(exercise.name, source, material["by_hand"])
    return library_calls.without_points(done.reports[exercise.name], found)


def grade_object(answer, exercise: Exercise, seed: int | None = None) -> Report:
    """Grade a live object in this process, as the hidden tests do under stock nbgrader."""
    material = material_of(exercise, seed)
    problem = signature_problem(answer, material)
    if problem:
        return no_answer(material, problem)
    report = judge_and_explain(exercise, material, outcomes_of(answer, material))
    return library_calls.without_points(report, library_calls.uses_of(answer, material))
