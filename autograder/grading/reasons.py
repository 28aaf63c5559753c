"""Why an answer could not be graded, or not fully, in words for a student: dead processes, lost time, odd replies."""

TIME_USED_UP = "the time for this notebook was used up"
DISTURBED = "it disturbed the process it ran in"
NOT_ASKED = "the process could not be given a test"
NOT_COPIED = "its process could not be copied: it had used up what processes it may have"
CHANGED = "it had changed when it was tested again"
NO_FORM = "the answer did not have the required form"
TOO_LARGE = "too much data: the answer is far larger than a right one"
SLOW_CALLS = "the calls of the test took too much time together"
LATE = "there was no answer in time"
CLOSED = "the process closed its channel before it answered"
ENDED = "the process ended before it answered"
# Of a whole notebook
SLOW_TO_JUDGE = "reading and judging it took too long"
LARGE_TO_JUDGE = "reading and judging it took too much memory"
ENDED_THE_GRADER = "it ended the grading process twice"
FAULT = "the grader failed on it"


def slow_cell(seconds: float) -> str:
    return f"it took longer than {seconds:.0f} seconds of processor time, or waited that long"


def earlier_cell(why: str) -> str:
    return f"a cell before it was stopped: {why}"


def and_raised(reason: str | None, error: str) -> str:
    return f"{reason}; its cell raised {error}"


def slow_answer(seconds: float) -> str:
    return f"no answer within {seconds:g} seconds of processor time"


def lost_cell(used_up: str | None) -> str:
    """used_up: the limit that ended the process, if known."""
    return f"it used more {used_up} than is allowed" if used_up else "it ended the process"


def exit_code(code: int) -> str:
    """code: as `subprocess` has it, or as a shell and bubblewrap report signals."""
    if code < 0 or code > 128:
        return f"the process was ended by signal {-code if code < 0 else code - 128} before it answered"
    return f"the process ended with exit code {code} before it answered"
