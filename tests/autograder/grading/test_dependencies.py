"""The cells of a handout that run: those that an answer may depend on, a few in each chapter."""

import nbformat
import pytest

from autograder.demo import sample_class
from autograder.grading import dependencies, grade_submission, messages
from course import assemble, release
from tests.autograder import small_course
from tests.conftest import each_chapter


def places(given: list[str], *others: str, names=frozenset()) -> list[int]:
    return sorted(dependencies.needed(dict(enumerate(given)), list(others), set(names)))


@pytest.mark.parametrize(
    "given, other, wanted",
    [
        (["import numpy as np", "print(1)"], "np.sum(x)", [0]),
        (["import numpy as np\nbase = 2", "scale = base + 1", "plot(scale)"], "print(scale)", [0, 1]),
        (["def helper(): return deep()", "def deep(): return 1", "helper()"], "helper()", [0, 1]),
        (["class A: pass", "a = A()", "b = A()"], "a", [0, 1]),
        (["for i in range(3): total = i", "with open('f') as file: pass"], "total", [0]),
        (["(x := 3)", "y: int = 1", "a, (b, *c) = z"], "c, y", [1, 2]),
        (["import numpy as np", "np.set_defaults(0)", "np.ones(3)", "x = []", "x.append(1)"], "np.x", [0, 1, 2]),
        (
            [
                "import torch",
                "torch.manual_seed(0)",
                "torch.set_num_threads(1)",
                "torch.set_default_dtype(torch.float64)",
                "draw.manual_seed(0)",
                "draw = torch.Generator().manual_seed(1)",
            ],
            "torch, draw",
            [0, 3, 4, 5],
        ),
        (["plt.plot(x)\nplt.show()", "import matplotlib.pyplot as plt", "x = 1"], "plt", [1]),
        (["class A(B):\n    def __init__(self):\n        super().__init__()\n        self.x = 1"], "super()", []),
        (["l = make()", "for n in names: getattr(l, n).copy_(x)", "setup(l).fill_(0)", "len(l)"], "l", [0, 1, 2]),
        (["x = []", "x.append(1)", "x[0] = 2", "del x[0]", "other.append(1)"], "x", [0, 1, 2, 3]),
        (["box.size = 3", "box = make()", "show(box)"], "box", [0, 1]),
        (["%matplotlib inline", "!ls", "show()"], "x", [0, 1]),
        (["from math import *", "show()"], "x", [0]),
        (["import os.path", "show()"], "os.getcwd()", [0]),
        (["value = 1", "show()"], "# value", []),
        (["value = 1", "show()"], "print(globals()['val' + 'ue'])", [0, 1]),
        (["value = 1", "f = lambda: eval('val' + 'ue')"], "f()", [0, 1]),
        (["value = 1", "show()"], "def f(:\n  value", [0]),
        (["value = 1", "show()"], "%time value", [0]),
        (["value = 1", "def count():\n    global value\n    value += 1"], "value", [0, 1]),
        (
            ["table = {}", "def put(x):\n    table[x] = 1", "def own():\n    table = {}\n    table[0] = 1"],
            "table",
            [0, 1],
        ),
        (["value = 1", "show()"], "if __name__ == '__main__':\n    run()  # globals, eval", []),
        (["value = 1", "show()"], "import __main__\nprint(__main__.value)", [0, 1]),
        (["value = 1", "show()"], "getattr(__builtins__, 'globals')", [0, 1]),
        (["value = 1", "show()"], "from builtins import vars as v", [0, 1]),
        (["value = 1"], "nothing", []),
        (["value = 1", "print([value for value in range(3)])"], "value", [0]),
    ],
)
def test_cells_that_an_answer_may_use_are_run(given, other, wanted):
    assert places(given, other) == wanted


@pytest.mark.parametrize(
    "source, used",
    [
        ("def f(x, *rest, y=z, **more):\n    w = x + y\n    return w + v", {"z", "v"}),
        ("lambda a: a + b", {"b"}),
        ("[i * s for i in row if i]", {"s", "row"}),
        ("[i for i in row]\ni", {"row", "i"}),  # what a comprehension counts with has no value behind it
        ("def f():\n    return {i: 1 for i in row}, {i for i in row}, i", {"row", "i"}),
        ("import a as b\nprint(b)", {"print"}),
        ("import a as b\ndef f(): return b", {"b"}),  # by the time it runs another cell may have bound it again
        ("for row in rows:\n    print(row)", {"rows", "print"}),
        ("for row in rows:\n    pass\nrow", {"rows", "row"}),  # there may be no rows
        ("if a:\n    b = 1\nb", {"a", "b"}),
        ("while a:\n    b = 1\nelse:\n    b", {"a", "b"}),
        ("with a as b:\n    b", {"a"}),
        ("try:\n    a = 1\nexcept E as e:\n    e, a", {"E", "a"}),
        ("match a:\n    case [b, *c] if b: d\n    case {'k': K.x, **e}: pass", {"a", "b", "d", "K"}),
        ("a += 1", {"a"}),
        ("a = 1\na += b", {"b"}),
        ("a.b = c", {"a", "c"}),
        ("a and (b := c)\nb", {"a", "b", "c"}),
        ("class A(B):\n    k = m\n    def f(self): return self.k + k", {"B", "m", "k"}),
        ("@decorated\ndef f(a: int) -> float: return a", {"decorated", "int", "float"}),
        ("def f():\n    def g(): return a\n    a = 1\n    return g", set()),
        ("def f():\n    global a\n    a = b\n    return a", {"a", "b"}),
        ("'a' # b", set()),
        ("f'{a:{b}}'", {"a", "b"}),
    ],
)
def test_the_names_that_a_cell_uses(source, used):
    assert dependencies._used(source) == used


def test_code_that_cannot_be_followed_uses_every_word_in_it():
    assert {"value", "x"} <= dependencies._used("(" * 5000 + "value" + ")" * 5000 + "\nx")
    assert "value" in dependencies._used("-" * 50_000 + "value")


def test_what_is_graded_itself_may_be_made_by_the_handout():
    assert places(["def dot(a, b): return 0", "show()"], names={"dot"}) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("stem", each_chapter("multi_head", "kv_cache"))
def test_right_answers_get_full_marks_without_the_cells_that_only_show(needs_jail, stem):
    """Graded as a submission is, and most of the chapter's own cells are left out."""
    released = release.student_notebook(stem)
    made = sample_class.submission(sample_class.Sample("ada", "", references="all"), stem, released)
    submitted = messages.pack_submission(stem, "ada", [], {}, {stem: nbformat.writes(made).encode()})
    common = small_course.packed(stem, assemble.source_notebook(stem), seed=5)
    record, files = messages.unwrap(grade_submission.grade(common, submitted))
    assert small_course.lost(stem, record["notebooks"][stem]["grades"]) == {}
    shown = nbformat.reads(files[f"{stem}.ipynb"].decode(), as_version=4)
    own = [cell for cell in shown.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata]
    assert [cell for cell in own if cell.outputs and cell.outputs[0].get("text") == grade_submission.NOT_RUN]
    assert not any(output.output_type == "error" for cell in shown.cells for output in cell.get("outputs", []))
