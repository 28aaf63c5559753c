"""Submissions made to stop or to fill the grader's own process cost only their author.

The figures are what each took before there was a limit.
"""

import nbformat
import pytest

from autograder.grading import dependencies, messages
from autograder.sandbox.limits import MAX_OUTPUTS, MAX_SHOWN, MB, Times
from course import assemble, catalog
from course.cells import nbgrader_of
from tests.autograder import small_course

STEM = "softmax"
SECONDS = 2  # of the grader's own processor time
pytestmark = pytest.mark.usefixtures("needs_jail")


@pytest.fixture(scope="module")
def common() -> bytes:
    made = assemble.source_notebook(STEM)
    made.cells = [cell for cell in made.cells if nbgrader_of(cell)]
    return small_course.packed(STEM, made, seed=5, times=Times(cell=20, case=5, grader=SECONDS))


@pytest.fixture
def grade(grader, common):
    """`grade(bytes)`: a notebook's grades, and the notebook that shows them."""

    def graded(data: bytes):
        packed = messages.pack_submission(STEM, "eve", [], {}, {STEM: data})
        record, files = messages.unwrap(grader.grade(common, packed))
        return record["notebooks"][STEM]["grades"], nbformat.reads(files[f"{STEM}.ipynb"].decode(), as_version=4)

    return graded


def notebook(*extra: str, answer: str | None = None) -> bytes:
    """Right answers behind extra cells, or this code in place of each."""
    made = assemble.source_notebook(STEM)
    cells = [cell for cell in made.cells if nbgrader_of(cell)]
    for cell in cells:
        if answer and nbgrader_of(cell).get("solution") and cell.cell_type == "code":
            cell.source = answer.replace("NAME", nbgrader_of(cell)["grade_id"])
    first = ["import numpy as np\nfrom attnlab import check", *extra]
    made.cells = [*map(nbformat.v4.new_code_cell, first), *cells]
    return nbformat.writes(made).encode()


def held(grader) -> int:
    """The most bytes that the grader's process has held since it was started."""
    with open(f"/proc/{grader._process.pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def test_a_file_that_takes_a_square_to_scan_is_given_up_and_the_next_is_graded(grade):
    """64 KB took 21 seconds, a megabyte an hour and a half."""
    grades, shown = grade(b'"' + b'\\"' * (1 << 20))
    assert {grade[0] for name, grade in grades.items() if name.startswith("check-")} == {0.0}
    assert "For the grader" in shown.cells[0].source
    grades, _ = grade(notebook())
    assert small_course.lost(STEM, grades) == {}


def test_large_replies_fill_no_memory(grade, grader):
    """Five answers of 67 MB for each question made the grader 4,033 MB."""
    before = held(grader)
    grades, _ = grade(notebook(answer="def NAME(*a, **k):\n    return np.zeros(8_380_000)"))
    assert {grades[f"check-{name}"][0] for name in catalog.exercises_of(STEM)} == {0.0}
    assert held(grader) < before + 300 * MB


TAKEN_OVER = """
import sys
import numpy as np
from attnlab.checking import codec
output = {"output_type": "stream", "name": "stdout", "text": "x" * SIZE, "data": np.zeros(BYTES, np.uint8)}
forged = codec.frame({"outputs": [output] * MANY, "late": False})
sys.modules["notebook_session"].run_cell = lambda *given: forged
"""


@pytest.mark.parametrize(
    "size, array, many", [(7 << 20, 0, 1), (10, 60 << 20, 1), (2, 0, 3000)], ids=["texts", "arrays", "many"]
)
def test_forged_outputs_are_one_total_for_a_notebook(grade, grader, size, array, many):
    """25 cells of 64 MB each made the grader 1,721 MB."""
    forge = TAKEN_OVER.replace("SIZE", str(size)).replace("BYTES", str(array)).replace("MANY", str(many))
    before = held(grader)
    _, shown = grade(notebook(forge, *["'more'"] * 24))
    outputs = [output for cell in shown.cells for output in cell.get("outputs", [])]
    assert len(outputs) < MAX_OUTPUTS + 2 * len(shown.cells)
    assert sum(len(output.get("text", "")) for output in outputs) <= MAX_SHOWN + 100 * len(shown.cells)
    assert held(grader) < before + 300 * MB


@pytest.mark.parametrize(
    "source",
    ["".join(f"a{i}=1\nif 0:b\n" for i in range(200_000)), "f'" + "{x}" * 1_000_000 + "'"],
    ids=["names", "an f-string"],
)
def test_dependency_analysis_is_skipped_for_very_long_code(source):
    """373 KB took 24 seconds, an f-string of 300 KB 33."""
    assert dependencies.needed({1: "import numpy", 4: "show()"}, [source], set()) == {1, 4}


def test_many_outputs_do_not_end_the_session(grade):
    """More than 20,000 did."""
    grades, shown = grade(
        notebook(
            "import sys\nfor i in range(15_000):\n    print(i)\n    print(i, file=sys.stderr)",
            "from IPython.display import display\nfor i in range(3000): display(i)\ndisplay({1: [[]] * 200_000})",
        )
    )
    assert small_course.lost(STEM, grades) == {}
    kept = [output for cell in shown.cells[:4] for output in cell.get("outputs", [])]
    assert MAX_OUTPUTS <= len(kept) <= MAX_OUTPUTS + 4 and kept[0].text == "0\n"


def test_an_output_of_very_many_parts_does_not_end_the_session(grade):
    parts = "{'application/json': [[1]] * 100_000, 'text/plain': 'x'}"
    grades, _ = grade(notebook(f"from IPython.display import display\ndisplay({parts}, raw=True)"))
    assert small_course.lost(STEM, grades) == {}


def test_a_cell_that_asks_for_input_costs_nothing(grade):
    grades, shown = grade(notebook("name = input('Your name? ')\nanswer = int(name or 3)\nprint(answer)"))
    assert small_course.lost(STEM, grades) == {}
    assert any(output.get("text") == "Your name? \n3\n" for cell in shown.cells for output in cell.get("outputs", []))
