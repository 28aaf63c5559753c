"""Honest work earns the same here as under stock nbgrader, and noise costs nothing.

Stock nbgrader takes seconds for each submission, so what it enters was recorded once, by
`tests/autograder/record_stock_grades.py`; a sample is graded by it again here.
"""

import json
import shutil
from pathlib import Path

import nbformat
import nbgrader
import pytest

from course import release
from course.folder import GIVEN_SEED
from tests.autograder import honest, processes, small_course

pytestmark = [pytest.mark.slow, pytest.mark.long]

RECORD = json.loads(honest.RECORD.read_text("utf-8"))
OTHERWISE = {"imports-lost"}  # of the others, those whose handout was changed, which costs nothing here
SAME = sorted(name for name in RECORD["grades"] if not name.startswith("different-") and name not in OTHERWISE)
SAMPLE = ("late-three-days", "own-right")
DOT, COSINE = "dot_products/check-dot", "dot_products/check-cosine_similarity"
NOT_THERE = "The notebook does not define: {}."

# Where stock nbgrader says nothing beside a cell that earned nothing, a sentence here says why. By student and cell.
REASONS = {
    "a-number-and-no-function": {"dot_products/dot": "The notebook defines as something that cannot be called: dot."},
    "empty-cells": {
        "dot_products/dot": NOT_THERE.format("dot"),
        "dot_products/cosine_similarity": NOT_THERE.format("cosine_similarity"),
    },
    "misspelt-name": {"dot_products/dot": NOT_THERE.format("dot")},
    "only-a-comment": {"dot_products/dot": NOT_THERE.format("dot")},
    "other-arguments": {
        "dot_products/dot": "Your dot has no parameter `b`. Keep the parameters as they were: `dot(a, b)`."
    },
    "own-cell-breaks-a-name": {
        "dot_products/cosine_similarity": NOT_THERE.format(
            "cosine_similarity; its cell raised AttributeError: 'NoneType' object has no attribute 'ndarray'"
        )
    },
    "syntax-error": {"dot_products/dot": NOT_THERE.format("dot; its cell raised SyntaxError: expected ':' (line 1)")},
    "wrong-indent": {
        "dot_products/cosine_similarity": NOT_THERE.format(
            "cosine_similarity; its cell raised IndentationError: expected an indented block after function definition "
            "on line 1 (line 2)"
        )
    },
}


def _not_graded_by_stock(dot: float, cosine: float, comments: dict[str, str]) -> dict[str, tuple]:
    """The fields of a submission at which stock nbgrader stops without a grade, and that is graded here."""
    fields = {"autograded": (False, True), "needs_manual_grade": (True, False), "score": (0.0, dot + cosine)}
    for cell, score in (("check-dot", dot), ("check-cosine_similarity", cosine), ("written-dot_products", 0.0)):
        fields |= {f"dot_products/{cell} score": (None, score), f"dot_products/{cell} by hand": (True, False)}
    fields |= {f"dot_products/{cell} comment": (None, words) for cell, words in comments.items()}
    return {field: both for field, both in fields.items() if both[0] != both[1]}


NO_RESPONSE = {"written-dot_products": "No response."}
HALF = (
    "The notebook is not valid JSON: Unterminated string starting at: line 103 column 5 (char 2737). "
    "This counts as zero."
)
# The tests that a line on stderr fell into when the record was made: one of them or both, by chance.
LOUD = [cell for cell in (DOT, COSINE) if RECORD["grades"]["different-loud-thread"]["grades"][cell][0] == 0.0]
# Every other intended difference: by student, by field, what stock nbgrader enters and what is entered here.
DIFFERENT = {
    # A process that ends costs the exercise it ended in. Stock nbgrader gives the notebook up.
    "different-dead-kernel": _not_graded_by_stock(
        0.0, 6.0, {"dot": "A cell before it was stopped: it ended the process.", **NO_RESPONSE}
    ),
    # What cannot be read is zero with a reason, and a human confirms it. Stock nbgrader leaves it without a grade.
    "different-half-a-file": {
        field: both
        for field, both in _not_graded_by_stock(
            0.0, 0.0, dict.fromkeys(("dot", "cosine_similarity", "written-dot_products"), HALF)
        ).items()
        if not field.endswith("by hand") and field != "needs_manual_grade"
    },
    # The handout's own cells come from the release. Stock nbgrader runs what the student left of them.
    "imports-lost": {"score": (6.0, 12.0), f"{COSINE} score": (0.0, 6.0)},
    # Cells that were pasted twice are put in order: of an answer the one before its test counts, of a test the
    # instructor's. Stock nbgrader stops, and does not grade later students.
    "different-exercise-pasted-twice": _not_graded_by_stock(6.0, 6.0, NO_RESPONSE),
    "different-test-pasted-twice": _not_graded_by_stock(6.0, 6.0, NO_RESPONSE),
    # A deleted test is put back. Stock nbgrader waits for a human.
    "different-test-deleted": {
        "score": (6.0, 12.0),
        "needs_manual_grade": (True, False),
        f"{DOT} score": (None, 6.0),
        f"{DOT} by hand": (True, False),
    },
    # A line on stderr is not a failure. Stock nbgrader takes it for a failure of whichever test runs when it comes.
    "different-loud-thread": {
        "score": (12.0 - 6.0 * len(LOUD), 12.0),
        **{f"{cell} score": (0.0, 6.0) for cell in LOUD},
    },
    "different-warning-in-a-test": {
        "score": (0.0, 3.0),
        "own/test-double score": (0.0, 2.0),
        "own/test-list score": (0.0, 1.0),
    },
}

# Right answers that make noise get full marks: code in front of the answer, and a first line of the function.
TALK = """import sys, threading, time
def talk(stream):
    while True:
        print('still here', file=stream, flush=True)
        time.sleep(0.002)
for stream in (sys.stdout, sys.stderr):
    threading.Thread(target=talk, args=(stream,), daemon=True).start()"""
WARN = "import logging, sys, warnings\nwarnings.warn('now')\nprint('!', file=sys.stderr)\nlogging.error('a log line')"
NOISE = {
    "noise-warnings": (WARN, "pass"),
    "noise-5-mb": ("for _ in range(500):\n    print('x' * 10_000)", "print('y' * 100_000)"),
    "noise-talking-threads": (TALK, "pass"),
    "noise-child-process": ("import subprocess\nchild = subprocess.Popen(['sleep', '600'])", "pass"),
    "noise-takes-long": ("import time\ntime.sleep(2)", "time.sleep(0.1)"),
}


def noisy(before: str, line: str) -> str:
    dot = small_course.reference("dot_products", "dot")
    assert "\n    if" in dot
    return f"{before}\n\n\n" + dot.replace("\n    if", f"\n    {line}\n    if", 1)


@pytest.fixture(scope="module")
def seed():
    """The seed of the record, in place of this checkout's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GIVEN_SEED, small_course.SEED)
        yield


@pytest.fixture(scope="module")
def course(tmp_path_factory, needs_jail, seed) -> Path:
    """The released course, with nothing handed in."""
    made = tmp_path_factory.mktemp("parity") / "course"
    small_course.make(made, honest.notebooks(), [*honest.submissions(), *NOISE])
    return made


@pytest.fixture(scope="module")
def graded(course) -> Path:
    """The course after this project graded all of it, with the usual command."""
    place = course.with_name("here")
    shutil.copytree(course, place)
    honest.hand_in(place)
    cosine = small_course.reference("dot_products", "cosine_similarity")
    for student, noise in NOISE.items():
        answers = {"dot": noisy(*noise), "cosine_similarity": cosine}
        notebook = small_course.answered(small_course.released(place, "dot_products"), answers)
        nbformat.write(notebook, small_course.folder(place, student) / "dot_products.ipynb")
    done = release.nbgrader("autograde", small_course.ASSIGNMENT, honest.PENALTY, course=place, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return place


@pytest.fixture(scope="module")
def here(graded) -> dict:
    return small_course.grades(graded)


def differences(stock: dict, here: dict) -> dict[str, tuple]:
    """Return the entries that differ, by field. No extra credit and extra credit of zero are the same."""

    def flat(entered):
        fields = {name: entered[name] for name in ("score", "late_penalty", "needs_manual_grade", "autograded")}
        for cell, (score, extra, by_hand) in entered["grades"].items():
            fields |= {f"{cell} score": score, f"{cell} extra": extra or 0.0, f"{cell} by hand": by_hand}
        return fields | {f"{cell} comment": comment for cell, comment in entered["comments"].items()}

    one, other = flat(stock), flat(here)
    pairs = {field: (one.get(field), other.get(field)) for field in sorted({*one, *other})}
    return {field: pair for field, pair in pairs.items() if pair[0] != pytest.approx(pair[1])}


def test_the_record_is_of_these_submissions_and_of_this_nbgrader(course):
    again = "run python -m tests.autograder.record_stock_grades"
    assert RECORD["submissions"] == honest.fingerprint(course), again
    assert set(RECORD["grades"]) == set(honest.submissions()), again
    assert RECORD["nbgrader"] == nbgrader.__version__, again


def test_there_are_enough_and_of_many_kinds():
    assert len(SAME) >= 40
    grades = RECORD["grades"]
    full = grades["right"]["score"]
    assert any(0 < grades[student]["score"] < full for student in SAME)
    assert any(grades[student]["late_penalty"] > 0 for student in SAME)
    assert any(grades[student]["needs_manual_grade"] for student in SAME)
    assert {student for student in RECORD["grades"] if student not in SAME} == set(DIFFERENT)


@pytest.mark.parametrize("student", [*SAME, *DIFFERENT])
def test_honest_work_earns_what_it_earns_under_stock_nbgrader_but_for_what_the_tables_say(here, student):
    reasons = {f"{cell} comment": (None, words) for cell, words in REASONS.get(student, {}).items()}
    assert differences(RECORD["grades"][student], here[student]) == DIFFERENT.get(student, reasons)


def test_the_record_is_what_stock_nbgrader_enters_today(course, monkeypatch):
    place = course.with_name("stock")
    shutil.copytree(course, place)
    honest.hand_in(place, SAMPLE)
    monkeypatch.setenv("AUTOGRADER_STOCK", "1")
    release.nbgrader("autograde", small_course.ASSIGNMENT, honest.PENALTY, course=place)
    assert small_course.grades(place) == {student: RECORD["grades"][student] for student in SAMPLE}


@pytest.mark.parametrize("student", NOISE)
def test_noise_costs_nothing(here, student):
    assert here[student]["grades"][DOT] == here["right"]["grades"][DOT] == [6.0, None, False]
    assert here[student]["grades"][COSINE] == here["right"]["grades"][COSINE]
    assert here[student]["score"] == here["right"]["score"]


def test_no_process_outlives_the_grading(graded):
    assert processes.jails() == []


def test_what_is_kept_of_five_megabytes_can_be_shown(graded):
    path = graded / "autograded" / "noise-5-mb" / small_course.ASSIGNMENT / "dot_products.ipynb"
    assert 10_000 < path.stat().st_size < 2_000_000
