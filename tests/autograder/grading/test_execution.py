"""A notebook run in the jail and judged from outside: what each exercise gets, whatever the cells do."""

import pytest

from autograder.grading.execution import Cell, Times, evaluate
from tests.course.toy_exercise import make

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_jail")]

IMPORT = "import numpy as np\nimport os, time"
RIGHT = """def doubled(x, times=1):
    if np.ndim(x) != 1:
        raise ValueError("one dimension, please")
    return np.asarray(x, dtype=float) * 2.0**times"""
QUICK = Times(cell=3, case=2, submission=90)


def run(*cells, times=QUICK):
    """Grade cells; the string "check" stands for the check of the toy exercise."""
    made = [
        Cell(i, "", check="doubled") if source == "check" else Cell(i, source, solution="def doubled" in source)
        for i, source in enumerate(cells)
    ]
    return evaluate(made, {"doubled": make()}, lambda name: make().material(11), times=times)


def points(done) -> float:
    return done.reports["doubled"].points


def text(done, place) -> str:
    return "".join(output.get("text", "") for output in done.outputs[place])


def test_a_right_answer_gets_full_marks_and_its_cells_their_outputs():
    done = run(IMPORT, RIGHT, "check", "print('so'); doubled([1.0])")
    assert points(done) == 4 and done.flags == []
    assert [o["output_type"] for o in done.outputs[3]] == ["stream", "execute_result"]
    assert done.outputs[3][1]["data"]["text/plain"] == "array([2.])"


def test_a_wrong_answer_loses_its_properties_and_is_named():
    done = run(IMPORT, RIGHT.replace("2.0**times", "(1 + times)"), "check")
    report = done.reports["doubled"]
    assert 0 < report.points < 4
    assert "inputs" not in str(report) and any(f.misconception or f.detail for f in report.findings)


def test_the_check_sees_the_notebook_as_it_was_there():
    later = run(IMPORT, "check", RIGHT)
    assert points(later) == 0 and "does not define" in later.reports["doubled"].reason
    assert points(run(IMPORT, RIGHT, "check", "def doubled(x): return None", "del np")) == 4


@pytest.mark.parametrize(
    "cell, said",
    [
        (RIGHT.replace("times=1):", "times=1:"), "SyntaxError"),
        ("from google.colab import drive\n" + RIGHT, "ModuleNotFoundError: No module named 'google"),
    ],
)
def test_the_error_that_kept_an_answer_from_being_defined_is_told(cell, said):
    reason = run(IMPORT, cell, "check").reports["doubled"].reason
    assert f"does not define: doubled; its cell raised {said}" in reason and ".py" not in reason


def test_an_error_in_a_cell_costs_that_cell():
    done = run(IMPORT, "1 / 0", "syntax error", RIGHT, "check")
    assert points(done) == 4 and [done.outputs[i][-1]["output_type"] for i in (1, 2)] == ["error", "error"]


@pytest.mark.parametrize(
    "cell, said",
    [
        ("os._exit(0)", "it ended the process"),
        ("while True:\n    try: time.sleep(9)\n    except BaseException: pass", "longer than 3 seconds"),
    ],
)
def test_a_cell_that_ends_or_hangs_twice_is_left_out_and_the_rest_is_graded(cell, said):
    done = run(IMPORT, cell, RIGHT, "check", "print('after')")
    assert points(done) == 4 and text(done, 4) == "after\n"
    (flag,) = done.flags
    assert said in done.outputs[1][0]["evalue"] and said in str(flag) and "a cell was left out: " in str(flag)


def test_an_endless_loop_that_can_be_stopped_loses_no_state():
    done = run(IMPORT, "kept = 1\nwhile True: pass", RIGHT, "check", "print(kept)")
    assert points(done) == 4 and text(done, 4) == "1\n" and done.outputs[1][0]["ename"] == "CellTimeout"


@pytest.mark.parametrize("then", ["os._exit(1)", "time.sleep(600)"])
def test_an_answer_that_dies_or_hangs_at_a_question_without_an_answer_loses_nothing(then):
    right = RIGHT.replace("(x, times=1)", "(x, times=1, **other)").split("\n")
    done = run(IMPORT, "\n".join([right[0], f"    if other: {then}", *right[1:]]), "check")
    assert points(done) == 4 and done.flags == []


@pytest.mark.parametrize(
    "dies, said", [("os._exit(1)", "ended before it answered"), ("time.sleep(600)", "no answer within")]
)
def test_an_answer_that_dies_or_hangs_before_the_first_question_is_given_up(dies, said):
    """The signature that a class gives is code, too."""
    signature = f"    @property\n    def __signature__(cls):\n        {dies}\n"
    odd = f"class Odd(type):\n{signature}class doubled(metaclass=Odd): pass"
    report = run(IMPORT, odd, "check").reports["doubled"]
    assert report.points == 0 and said in report.reason


def test_output_without_end_is_cut():
    done = run(IMPORT, "for i in range(200): print('x' * 300_000)", RIGHT, "check", times=Times(30, 2, 90))
    assert points(done) == 4 and len(text(done, 1)) < 500_000 and "too long to keep" in text(done, 1)


def test_cells_after_the_time_limit_are_lost_and_the_reason_says_so():
    done = run(IMPORT, "time.sleep(2.5)", "time.sleep(2.5)", RIGHT, "check", times=Times(cell=9, case=2, submission=3))
    assert points(done) == 0 and "used up" in done.reports["doubled"].reason


def test_pictures_tables_and_magics_work_as_in_jupyter():
    done = run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "from IPython.display import HTML\nHTML('<b>x</b>')",
        "%time 1 + 1",
        "!echo hello",
        "from attnlab.widgets import SoftmaxExplorer\nSoftmaxExplorer()",
        "await __import__('asyncio').sleep(0)",
    )
    assert "image/png" in done.outputs[0][0]["data"] and "<b>x</b>" in done.outputs[1][0]["data"]["text/html"]
    assert "hello" in text(done, 3) and all(o["output_type"] != "error" for os_ in done.outputs.values() for o in os_)
