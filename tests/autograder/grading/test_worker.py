"""Whatever happens to the grader's own process at one notebook costs that notebook alone."""

import json

import nbformat
import pytest

from autograder.grading import messages, reasons
from autograder.grading.reassembly import ReleasedCell
from autograder.sandbox.limits import Times
from course.errors import CourseError

pytestmark = pytest.mark.usefixtures("needs_jail")
ANSWER = "def double(x):\n    return 2 * x"
RELEASED = [
    ReleasedCell("double", "code", "", False, True, False, False),
    ReleasedCell("test-double", "code", "assert double(2) == 4", True, False, True, False, 2.0),
]


def assignment(**config) -> bytes:
    plans = {name: messages.Plan(RELEASED) for name in ("own", "second")}
    mishaps = dict(preprocessors=["tests.autograder.mishaps.Mishap"], config={"Mishap": config})
    return messages.pack_assignment(plans, messages.Settings(times=Times(grader=2), **mishaps), {}, {})


def submission(student: str = "ada", own: bytes | None = None) -> bytes:
    marks = {"nbgrader": {"grade_id": "double", "solution": True}}
    right = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ANSWER, metadata=marks)])
    data = nbformat.writes(right).encode()
    return messages.pack_submission("basics", student, [], {}, {"own": own or data, "second": data})


def points(result: bytes) -> dict[str, list]:
    record, _ = messages.unwrap(result)
    return {name: found["grades"]["test-double"][:3] for name, found in record["notebooks"].items()}


RIGHT = {"own": [2.0, None, False], "second": [2.0, None, False]}


@pytest.mark.parametrize(
    "what, why",
    [
        ("raises", reasons.FAULT),
        ("spins", reasons.SLOW_TO_JUDGE),
        ("hoards", reasons.LARGE_TO_JUDGE),
        ("killed", reasons.ENDED_THE_GRADER),
    ],
)
def test_what_ends_the_process_costs_its_own_notebook_and_is_told_of(grader, tmp_path, what, why):
    common = assignment(**{what: ["eve"], "mark": str(tmp_path / "mark")})
    result = grader.grade(common, submission("eve"), many=False)
    assert points(result) == {"own": [0.0, None, True], "second": [2.0, None, False]}
    record, files = messages.unwrap(result)
    work = json.loads(files["results.json"])["notebooks"]["own"]
    assert work["refused"] == why and [flag["kind"] for flag in work["flags"]] == ["not graded"]
    assert why in files["own.ipynb"].decode()  # in the note to the grader
    assert "until an instructor has looked" in record["notebooks"]["own"]["comments"]["double"]
    assert ("no place for eve" in record["faults"].get("own", "")) == (what == "raises")
    assert points(grader.grade(common, submission("ada"), many=False)) == RIGHT


def test_a_process_that_was_killed_once_costs_nothing(grader, tmp_path):
    common = assignment(killed_once=["eve"], mark=str(tmp_path / "mark"))
    assert points(grader.grade(common, submission("eve"), many=False)) == RIGHT


def test_an_assignment_that_cannot_be_loaded_is_an_error_and_no_score(grader):
    with pytest.raises(CourseError, match="not a message"):
        grader.grade(b"none", submission())
    assert points(grader.grade(assignment(), submission(), many=False)) == RIGHT
