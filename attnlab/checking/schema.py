"""The form of the data that travels: between modules, into check data, and through pipes to a student's process.

Nothing here runs: modules import these types for annotations only. What comes from a student's process is checked
before it counts as an `Outcome`, see `autograder.grading.channel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict, final

# Data that an exercise is judged by -----------------------------------------------------------------------------------

Case: TypeAlias = dict[str, Any]  # the inputs of one case of a property, by name
Parts: TypeAlias = dict[str, Any]  # the parts of an outcome, or raw results of a call, by name


class Material(TypedDict):
    """The data that an exercise is judged by, made by `course.kit.exercise`.

    signature, parameters: of the reference, without annotations
    chapter: its stem; section: the heading that explains the exercise
    by_hand: library functions that it must be written without (see `attnlab.checking.library_calls`)
    misconceptions: empty if only answers that fail will need them
    needless: parameters that a right answer need not use
    hunt: the contract of the implementations, if the answer is a test of them
    """

    name: str
    signature: str
    parameters: list[str]
    chapter: str
    section: str
    bonus: bool
    by_hand: list[str]
    properties: list[Property]
    misconceptions: list[Misconception]
    needless: NotRequired[list[str]]
    hunt: NotRequired[Contract]


class Contract(TypedDict):
    """The exercise whose implementations a hunt is about.

    of: its name; methods: of its objects, if it is a class; random: whether it draws from PyTorch's global generator
    errors: whether what it refuses is a part of the contract
    """

    of: str
    methods: list[str] | None
    random: bool
    errors: bool


class Property(TypedDict):
    """A requirement on answers.

    probe: the name of the probe; rtol, atol: the tolerance for its numbers
    expected: the reference's outcome of each case
    replies: how many kilobytes the reference's raw results take, for each question of each case
    frames: the frames of the questions by case and question, once made (see `autograder.grading.questions`)
    """

    title: str
    points: float
    probe: str
    hint: str
    rtol: float
    atol: float
    cases: list[Case]
    expected: list[Result]
    replies: list[list[int]]
    frames: NotRequired[dict[tuple[int, int], bytes]]


class Misconception(TypedDict):
    """A known mistake, and the sentence that explains it.

    outcomes: outcomes[p][c] is what the mistake gives on case c of property p. A file has None where that is right.
    wrong: whether outcomes[p][c] is wrong, once computed
    """

    text: str
    section: str | None
    outcomes: list[list[Outcome]]
    wrong: NotRequired[list[list[bool]]]


# Outcomes of probes ---------------------------------------------------------------------------------------------------


@final
class Result(TypedDict):
    """The parts that a probe saw. used: time and memory, if the operating system measured them"""

    value: Parts
    used: NotRequired[Used]


@final
class Raised(TypedDict):
    """An exception in the student's code."""

    error: ErrorInfo
    used: NotRequired[Used]


@final
class Refused(TypedDict):
    """A result that is not plain data (an open file, a million lists), or a class that lacks what the exercise names.

    refused: why, in words for a student
    """

    refused: str
    used: NotRequired[Used]


Outcome: TypeAlias = Result | Raised | Refused


class ErrorInfo(TypedDict):
    """An exception, and the last line of the student's own file that it went through."""

    type: str
    message: str
    line: int | None
    code: str | None


class Used(TypedDict, total=False):
    """Seconds of processor time and bytes of memory of a call; empty if they were not measured from outside."""

    seconds: float
    bytes: int


# What `python -m attnlab check FILE --json` prints --------------------------------------------------------------------


class ToldFinding(TypedDict):
    """One line of a check.

    sentence: what is wrong and what may help, in words; empty if it passed
    section: the heading to read again, if the check names the mistake
    example: lines that show an input, what came back and what should have
    """

    title: str
    passed: bool
    sentence: str
    section: str | None
    example: list[str]


class ToldExercise(TypedDict):
    """The check of one exercise.

    judged: whether there was an answer that could be run; if not, `sentence` says why and there are no findings
    sentence: about the answer as a whole; may be empty
    """

    name: str
    passed: bool
    judged: bool
    bonus: bool
    points: float
    max_points: float
    sentence: str
    findings: list[ToldFinding]


class ToldNotebook(TypedDict):
    """The checks of a notebook. passed: whether all exercises pass that are not a bonus"""

    notebook: str
    passed: bool
    points: float
    max_points: float
    exercises: list[ToldExercise]


class ToldError(TypedDict):
    """Nothing could be checked, and why."""

    error: str


# Orders and questions to processes that the grader does not trust -----------------------------------------------------


class ForkOrder(TypedDict):
    """Fork a first process of a new jail (see `autograder.sandbox.fork_client`).

    program: the command line; empty for the process that runs notebooks
    scratch: bytes of its folders; limits: as `set_limits` takes them
    files: names of the files next to the notebook; libraries: the modules that the process has loaded
    """

    program: list[str]
    scratch: int
    limits: list[str]
    files: list[str]
    libraries: Sequence[str]


class ReferenceSources(TypedDict):
    """The references that `attnlab.mine` gives. setting: the value of ATTNLAB_MINE; sources: module -> Python source"""

    setting: str
    sources: dict[str, str]


class References(TypedDict):
    """References without their text. modules: name -> bytecode in an array"""

    setting: str
    modules: dict[str, Any]


class Job(TypedDict):
    """The first message to the process of a notebook.

    answers, channels: the exercises that are tested, and the descriptor for the questions to each
    """

    references: References | None
    answers: list[str]
    channels: list[int]


class RunOrder(TypedDict):
    """Run a cell.

    seconds, wall: its limit, and how many times as long it may last by the clock
    text, data, outputs: how many characters are kept of its prints and of all else that it shows, and how many outputs
    """

    cell: str
    seconds: float
    wall: float
    text: int
    data: int
    outputs: int


class LendOrder(TypedDict):
    """Define an answer again, as its reference. code: bytecode in an array"""

    lend: str
    code: Any


class SnapshotOrder(TypedDict):
    """Keep the state for questions to an answer. last: whether no order follows"""

    snapshot: str
    last: bool


Order: TypeAlias = RunOrder | LendOrder | SnapshotOrder


class LoadQuestion(TypedDict):
    """Load the function or class that questions are about. file: its source and file name, if not in the notebook"""

    answer: str
    file: tuple[str, str] | None


class Question(TypedDict):
    """One call of a probe."""

    probe: str
    inputs: Case
