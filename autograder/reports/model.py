"""How a class did on one assignment.

Scores are those of the gradebook, as they count. The findings on each answer come from the `results.json` next to
each autograded notebook. Names and notes there may be a student's words: they are reduced to one line of printable text
when they are read, and escaped when they are written.
"""

import sys
from dataclasses import dataclass, field

from autograder.gradebook.scores import Grade, Submission

GRADED, NOT_GRADED, NOT_HANDED_IN = "graded", "not graded", "not handed in"
MAX_TEXT = 500  # characters of one note


@dataclass(frozen=True)
class Exercise:
    """One graded cell of the assignment. kind: code, bonus (its max_score is 0), written or task."""

    notebook: str
    cell: str
    name: str
    kind: str
    max_score: float


@dataclass
class Record:
    """The record of one answer in `results.json`; properties are (title, passed, misconception or None).

    through: earlier answers that were not right, and that references replaced for these points
    """

    points: float
    max_points: float
    properties: list[tuple[str, bool, str | None]]
    reason: str | None
    not_done: bool = False
    through: list[str] = field(default_factory=list)


@dataclass
class Student:
    """One student: records by (notebook, cell), seconds it took to grade by notebook.

    problems: what could not be graded, and why; review: flags and notes for a human
    stale: whether the scores are those of an earlier submission or of an older release
    """

    name: str
    first_name: str = ""
    last_name: str = ""
    status: str = NOT_HANDED_IN
    submission: Submission = field(default_factory=Submission)
    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    review: list[str] = field(default_factory=list)
    stale: bool = False

    @property
    def total(self) -> float:
        """Points after the penalty for lateness."""
        return self.submission.total

    @property
    def hours_late(self) -> float:
        return self.submission.seconds_late / 3600

    def grade(self, exercise: Exercise) -> Grade | None:
        """The points of one cell, or None where this student's submission was not graded."""
        return self.submission.grades.get((exercise.notebook, exercise.cell)) if self.status == GRADED else None


@dataclass
class ClassReport:
    """Everything known about one assignment; students in alphabetical order, exercises in the notebook's.

    ungradable: why nothing can be graded at present, or None
    """

    assignment: str
    max_score: float
    exercises: list[Exercise]
    students: list[Student]
    ungradable: str | None = None

    def graded(self) -> list[Student]:
        return [student for student in self.students if student.status == GRADED]

    def not_handed_in(self) -> list[Student]:
        return [student for student in self.students if student.status == NOT_HANDED_IN]

    def answers(self, exercise: Exercise) -> list[tuple[Student, Record]]:
        """The answers to one exercise that were judged, or that could have been."""
        key = exercise.notebook, exercise.cell
        return [(student, student.records[key]) for student in self.graded() if key in student.records]

    def properties(self, exercise: Exercise) -> dict[str, tuple[int, int]]:
        """How many answers have each property, and of how many, by its title."""
        counts: dict[str, tuple[int, int]] = {}
        for _, record in self.answers(exercise):
            for title, passed, _ in record.properties:
                had, asked = counts.get(title, (0, 0))
                counts[title] = had + passed, asked + 1
        return counts

    def misconceptions(self) -> list[tuple[Exercise, str, list[Student]]]:
        """Each misconception with the students who have it, the most frequent first."""
        found: dict[tuple[Exercise, str], list[Student]] = {}
        for exercise in self.exercises:
            for student, record in self.answers(exercise):
                for text in dict.fromkeys(text for _, _, text in record.properties if text):
                    found.setdefault((exercise, text), []).append(student)
        return [(*key, students) for key, students in sorted(found.items(), key=lambda item: -len(item[1]))]

    def times(self) -> list[tuple[float, Student]]:
        """Seconds it took to grade each submission, the slowest first."""
        return sorted(((sum(s.seconds.values()), s) for s in self.graded() if s.seconds), key=lambda pair: -pair[0])

    def to_grade(self, *kinds: str) -> list[tuple[Exercise, list[Student]]]:
        """The exercises of these kinds that wait for a human, each with its students."""
        waiting = [
            (exercise, [s for s in self.students if (grade := s.grade(exercise)) and grade.to_grade])
            for exercise in self.exercises
            if exercise.kind in kinds
        ]
        return [(exercise, students) for exercise, students in waiting if students]


def printable(text) -> str:
    """One line without control characters that move the cursor or reverse text."""
    line = " ".join(str(text)[: 4 * MAX_TEXT].split())
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def show(text: str) -> None:
    """Print text, with question marks for what standard output cannot hold."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def points(number: float | None) -> str:
    """12, 7.5, or nothing."""
    return "" if number is None else f"{round(number, 2):g}"
