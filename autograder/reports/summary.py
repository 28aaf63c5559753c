"""The words and tables of a class report, shared by the terminal and the page."""

import statistics
from collections.abc import Iterator

from autograder.reports.model import GRADED, ClassReport, Exercise, Student, points

MAX_NOTES = 12  # of one student, even for a submission with a thousand odd cells
WAITING = {"Written answers to grade": ("written", "task"), "Scores to confirm": ("code", "bonus")}


def summary(report: ClassReport) -> list[str]:
    graded, count = report.graded(), len(report.students)
    totals = [student.total for student in graded]
    lines = [
        f"{count - len(report.not_handed_in())} of {count} student{'s' if count != 1 else ''} handed in; "
        f"{len(graded)} graded.",
        f"Totals of those graded, of {points(report.max_score)} points: median {points(statistics.median(totals))}, "
        f"mean {points(statistics.mean(totals))}, from {points(min(totals))} to {points(max(totals))}.",
    ]
    unfinished = sum(student.submission.to_grade for student in graded)
    if unfinished:
        lines.append(f"{unfinished} of these totals may still change: something waits to be graded by hand.")
    stale = [student for student in graded if student.stale]
    if stale:
        lines.append(
            f"{len(stale)} of these totals are stale: of an earlier submission, or graded under an older release "
            f"({names(stale)}). `python -m autograder grade` brings them up to date."
        )
    if report.ungradable:
        lines.append(f"Nothing can be graded as things are: {report.ungradable}.")
    times = report.times()
    if times:
        lines.append(
            f"Time to grade a submission: median {statistics.median(t for t, _ in times):.1f} s, "
            f"slowest {times[0][0]:.1f} s ({times[0][1].name})."
        )
    return lines


def score_table(report: ClassReport) -> tuple[list[str], list[list[str]]]:
    """Points by student and exercise: the header and the rows."""
    total = f"Total ({points(report.max_score)})"
    head = ["Student", total, *(_heading(report, exercise) for exercise in report.exercises), "Late", "Penalty"]
    return head, [
        [
            student.name,
            _total(student),
            *(_shown(student, exercise) for exercise in report.exercises),
            _late(student.hours_late),
            f"-{points(student.submission.penalty)}" if student.submission.penalty else "",
        ]
        for student in report.students
    ]


def _late(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 0.05 else "< 0.1 h" if hours else ""


def _heading(report: ClassReport, exercise: Exercise) -> str:
    if exercise.kind == "bonus":
        most = max((record.max_points for _, record in report.answers(exercise)), default=0.0)
        return f"{exercise.name} (+{points(most)})" if most else f"{exercise.name} (bonus)"
    return f"{exercise.name} ({points(exercise.max_score)})"


def _total(student: Student) -> str:
    if student.status != GRADED:
        return student.status
    return points(student.total) + ("?" if student.submission.to_grade else "")


def _shown(student: Student, exercise: Exercise) -> str:
    """Format one score: `?` waits for a human, `-` is missing."""
    grade = student.grade(exercise)
    if grade is None:
        return "-"
    if grade.pending:
        return "?"
    sign = "+" if exercise.kind == "bonus" and grade.score > 0 else ""
    return f"{sign}{points(grade.score)}" + ("?" if grade.to_grade else "")


def outcome(report: ClassReport, exercise: Exercise) -> str:
    """How an exercise went, in a few words."""
    answers = report.answers(exercise)
    right = sum(all(passed for _, passed, _ in record.properties) for _, record in answers)
    idle = sum(record.not_done for _, record in answers)
    return f"{right} of {len(answers)} have everything right" + (f", {idle} did not begin" if idle else "")


def waiting(report: ClassReport) -> Iterator[tuple[str, list[str]]]:
    """The work that waits for a human: titles, each with a line per exercise."""
    for title, kinds in WAITING.items():
        yield (
            title,
            [f"{exercise.name}, {len(students)}: {names(students)}" for exercise, students in report.to_grade(*kinds)],
        )


def names(students: list[Student]) -> str:
    return ", ".join(student.name for student in students)


def shorten(words: list[str]) -> list[str]:
    return words if len(words) <= MAX_NOTES else [*words[:MAX_NOTES], f"and {len(words) - MAX_NOTES} more"]
