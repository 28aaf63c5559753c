"""`python -m autograder similar ASSIGNMENT`: answers to one exercise that are alike, compared on this machine.

Each answer is read as a sequence of tokens: without comments, docstrings and layout, and with one word for every name
that it binds itself. Runs of tokens are compared. Those that are expected to be alike are removed first: runs in the
stub, in the reference solution, and in many answers of the class. The result is the share of the remaining runs of the
shorter answer that the other also has. Short answers are not compared, since there are few ways to write them.

Long answers that are nearly the same are a group, and count as one answer where runs of many answers are removed.
Otherwise the more students copy an answer, the less of it would be found.
"""

import collections
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.grading import submission
from autograder.grading.sanitize import NOTE
from autograder.grading.submission import Refused
from autograder.reports.model import printable, show
from autograder.sandbox.limits import MAX_ANSWER
from course.errors import CourseError
from course.folder import course_folder

RUN = 5  # tokens that are compared together
LEAST = 20  # runs that must remain of an answer to compare it
ALIKE = 0.6  # the share from which a pair is shown
SAME, LONG = 0.9, 40  # the share from which answers of at least so many runs are nearly the same
SHOWN = 20  # pairs and groups of an exercise, the most alike first
MANY = 5  # answers, or a quarter of the class, that may share a run before it counts as common

DISCLAIMER = (
    "Similarity proves nothing. There are few good ways to write some functions, and students may have learned one\n"
    "from the same page. Look at both answers, and ask, before you conclude anything."
)
_DROPPED = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|#[^\n]*')
_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|[^\s\w]")
_NAME = r"[^\W\d]\w*"
_BOUND = re.compile(rf"^[ \t]*({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*[-+*/@]?=(?!=)|\b(?:for|as) +({_NAME})", re.M)


@dataclass(frozen=True)
class Alike:
    """Two answers that are alike, or a group that is nearly the same. share: of the runs of the one that has fewest"""

    students: tuple[str, ...]
    share: float
    common: int
    answers: tuple[str, ...]


def run(assignment: str, course: Path | None, answers: bool) -> None:
    """Print the pairs of each exercise. Raises CourseError if nothing is graded yet."""
    show("\n".join(_lines(assignment, course_folder(course), answers)))


def _lines(assignment: str, course: Path, show: bool) -> Iterator[str]:
    given, handed_in = read(assignment, course)
    yield DISCLAIMER
    short = []
    for (notebook, cell), answers in handed_in.items():
        found, compared = alike(answers, given.get((notebook, cell), ""))
        if compared < 2:
            short.append(cell)
            continue
        yield ""
        more = f"; the first {SHOWN}" if len(found) > SHOWN else ""
        yield f"{cell}: {compared} of {len(answers)} answers compared, pairs or groups alike: {len(found)}{more}"
        for one in found[:SHOWN]:
            *others, last = students = [printable(student) for student in one.students]
            yield f"  {one.share:4.0%}  {', '.join(others)} and {last}: {one.common} runs of {RUN} tokens in common"
            if show:
                for student, answer in zip(students, one.answers):
                    yield f"        -- {student}"
                    yield from (f"        {printable_code(line)}" for line in answer.splitlines())
    if short:
        yield ""
        yield f"Not compared, because too little is left without what is expected to be alike: {', '.join(short)}"


def printable_code(line: str) -> str:
    """A line of code, with its indent, without control characters."""
    line = line.expandtabs(4)
    return line[: len(line) - len(line.lstrip())] + printable(line)


def read(assignment: str, course: Path) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], dict[str, str]]]:
    """The given code and the answers: sources by notebook and cell, and for answers also by student.

    Answers are those of the autograded notebooks, where each is in its own cell.
    """
    given, handed_in = {}, {}
    for folder in ("release", "source"):
        for path in sorted((course / folder / assignment).glob("*.ipynb")):
            for name, source in _cells(path):
                given[path.stem, name] = f"{given.get((path.stem, name), '')}\n{source}"
    for path in sorted(course.glob(f"autograded/*/{assignment}/*.ipynb")):
        student = path.parent.parent.name
        for name, source in _cells(path):
            handed_in.setdefault((path.stem, name), {})[student] = source
    if not handed_in:
        raise CourseError(f"nothing of {printable(assignment)} is graded yet in {course}")
    solved = {}  # cells that students write, rather than those that were handed out
    for key, answers in handed_in.items():
        if any(answer.strip() not in given.get(key, "") for answer in answers.values()):
            solved[key] = answers
    return given, solved


def _cells(path: Path) -> list[tuple[str, str]]:
    try:
        cells = submission.submitted_cells(submission.read_bytes(path))
    except Refused:
        return []
    return [(cell.name, cell.source) for cell in cells if cell.name and cell.name != NOTE]


def alike(answers: dict[str, str], given: str) -> tuple[list[Alike], int]:
    """Pairs and groups of answers that are alike, the most alike first, and how many answers could be compared.

    answers: sources by student; given: the stub and the reference solution
    """
    expected = runs(given)
    found = {student: runs(source) - expected for student, source in answers.items() if len(source) <= MAX_ANSWER}
    groups = _nearly_the_same(found)
    having = collections.Counter(
        itertools.chain.from_iterable(set().union(*(found[student] for student in group)) for group in groups)
    )
    many = max(MANY, len(found) // 4)
    found = {student: {one for one in own if having[one] <= many} for student, own in found.items()}
    found = {student: own for student, own in found.items() if len(own) >= LEAST}
    students_of = collections.defaultdict(list)
    for student, own in found.items():
        for one in own:
            students_of[one].append(student)
    group_of = {student: number for number, group in enumerate(groups) for student in group}
    common = collections.Counter(
        pair
        for students in students_of.values()
        for pair in itertools.combinations(students, 2)
        if group_of[pair[0]] != group_of[pair[1]]
    )
    common |= {
        tuple(group): len(set.intersection(*(found[student] for student in group)))
        for group in ([student for student in group if student in found] for group in groups)
        if len(group) > 1
    }
    made = [
        Alike(those, count / min(len(found[one]) for one in those), count, tuple(answers[one] for one in those))
        for those, count in common.items()
    ]
    return sorted((one for one in made if one.share >= ALIKE), key=lambda one: (-one.share, one.students)), len(found)


def _nearly_the_same(found: dict[str, set]) -> list[list[str]]:
    """All students, in groups whose long answers are nearly the same as the group's first; most are alone."""
    groups: list[list[str]] = []
    for student, own in found.items():
        for group in groups:
            first = found[group[0]]
            if min(len(own), len(first)) >= LONG and len(own & first) >= SAME * max(len(own), len(first)):
                group.append(student)
                break
        else:
            groups.append([student])
    return groups


def runs(source: str) -> set[tuple[str, ...]]:
    """The runs of tokens of a text, independent of its own names. Takes time in proportion to the text."""
    bare = _DROPPED.sub("", source[: 4 * MAX_ANSWER])
    own = {name.strip() for names in _BOUND.findall(bare) for group in names for name in group.split(",")}
    tokens = ["name" if token in own else token for token in _TOKEN.findall(bare)]
    return {tuple(tokens[place : place + RUN]) for place in range(len(tokens) - RUN + 1)}
