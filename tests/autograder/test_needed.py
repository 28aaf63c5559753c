"""Of a handout's own cells those run that an answer may depend on; of the chapters' a few."""

import nbformat
import pytest

from autograder import assemble, needed, registry, release, sample_class, work


def places(given: list[str], *others: str, names=frozenset()) -> list[int]:
    return sorted(needed.needed(dict(enumerate(given)), list(others), set(names)))


@pytest.mark.parametrize("given, other, wanted", [
    (["import numpy as np", "print(1)"], "np.sum(x)", [0]),
    (["import numpy as np\nbase = 2", "scale = base + 1", "plot(scale)"], "return scale", [0, 1]),
    (["def helper(): return deep()", "def deep(): return 1", "helper()"], "helper()", [0, 1]),
    (["class A: pass", "a = A()", "b = A()"], "a", [0, 1]),
    (["for i in range(3): total = i", "with open('f') as file: pass"], "total", [0]),
    (["(x := 3)", "y: int = 1", "a, (b, *c) = z"], "c y", [1, 2]),
    (["import numpy as np", "np.random.seed(0)", "np.ones(3)", "things = []", "things.append(1)"], "np.random", [0, 1, 2]),
    (["things = []", "things.append(1)", "things[0] = 2", "del things[0]", "other.append(1)"], "things", [0, 1, 2, 3]),
    (["box.size = 3", "box = make()", "show(box)"], "box", [0, 1]),
    (["%matplotlib inline", "!ls", "show()"], "x", [0, 1]),
    (["from math import *", "show()"], "x", [0]),
    (["import os.path", "show()"], "os.getcwd()", [0]),
    (["value = 1", "show()"], "# value", [0]),
    (["value = 1", "show()"], "return globals()['val' + 'ue']", [0, 1]),
    (["value = 1", "show()"], "def f(:\n  value", [0]),
    (["value = 1"], "nothing", [])])
def test_what_somebody_may_use_is_run(given, other, wanted):
    assert places(given, other) == wanted


def test_what_is_graded_itself_may_be_made_by_the_handout():
    assert places(["def dot(a, b): return 0", "show()"], names={"dot"}) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["masks", "rope", "transformer_block"])
def test_right_answers_get_full_marks_without_the_cells_that_only_show(needs_jail, stem):
    """Graded as a submission is, and most of the chapter's own cells are left out."""
    source = assemble.source_notebook(stem)
    released = release.student_notebook(stem)
    submitted = sample_class.submission(sample_class.Sample("ada", "", references="all"), stem, released)
    official = [cell_of(cell) for cell in source.cells if "nbgrader" in cell.metadata]
    plan = work.Plan(official, {}, frozenset(
        cell.source.strip() for cell in source.cells if "nbgrader" not in cell.metadata))
    common = work.pack_assignment({stem: plan}, work.Settings(seed=5), {})
    record, files = work.parcel.unwrap(work.grade(common, work.pack_submission(
        stem, "ada", [], {}, {stem: nbformat.writes(submitted).encode()})))
    exercises = registry.exercises_of(stem)
    found = record["notebooks"][stem]["grades"]
    assert {name: (found[f"check-{name}"][0] or 0) + (found[f"check-{name}"][1] or 0) for name in exercises} == {
        name: exercise.points for name, exercise in exercises.items()}
    shown = nbformat.reads(files[f"{stem}.ipynb"].decode(), as_version=4)
    own = [cell for cell in shown.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata]
    skipped = [cell for cell in own if cell.outputs and cell.outputs[0].get("text") == work.NOT_RUN]
    assert own and skipped and not any(o.output_type == "error" for cell in shown.cells for o in cell.get("outputs", []))


def cell_of(cell):
    from autograder.intake import Official

    mark = cell.metadata.nbgrader
    return Official(mark.grade_id, cell.cell_type, cell.source, bool(mark.get("locked")), bool(mark.get("solution")),
                    bool(mark.get("grade")), bool(mark.get("task")), mark.get("points"), "")
