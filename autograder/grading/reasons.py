"""Why an answer could not be graded, or not in full, in a student's words: dead processes, lost time, odd replies."""

from __future__ import annotations

TIME_USED_UP = "the time for this notebook was used up"
DISTURBED = "it disturbed the process it ran in"
NOT_ASKED = "the process could not be asked"
CHANGED = "it was not the same when it was asked again"
NO_FORM = "the answer was not in the form it must have"
TOO_LARGE = "too much came: the answer is far larger than a right one"
LATE = "no answer came in time"
CLOSED = "the process closed its channel before it answered"
ENDED = "the process ended before it answered"
# Of a whole notebook
SLOW_TO_JUDGE = "reading and judging it took too long"
LARGE_TO_JUDGE = "reading and judging it took too much memory"
ENDED_THE_GRADER = "it ended the process that grades, twice"
FAULT = "the grader failed at it"


def slow_cell(seconds: float) -> str:
    return f"it took longer than {seconds:.0f} seconds of processor time, or waited that long"


def slow_answer(seconds: float) -> str:
    return f"no answer within {seconds:g} seconds of processor time"


def lost_cell(used_up: str | None) -> str:
    """used_up: the limit that ended the process, where that can be told."""
    return f"it used more {used_up} than there is" if used_up else "it ended the process"


def exit_code(code: int) -> str:
    """code: as `subprocess` has it, or as a shell and bubblewrap tell of signals."""
    if code < 0 or code > 128:
        return f"the process was ended by signal {-code if code < 0 else code - 128} before it answered"
    return f"the process ended with exit code {code} before it answered"
