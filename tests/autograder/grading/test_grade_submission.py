"""Which file is graded as which notebook, and what becomes of what cannot be: here without running any code."""

import json
import pickle

import nbformat
import pytest

from attnlab.checking.judge import no_answer
from autograder.grading import grade_submission, messages, sanitize
from autograder.grading.execution import Cell
from autograder.grading.grade_submission import NotebookMatcher
from autograder.grading.messages import Plan, Settings, pack_assignment, pack_submission
from autograder.grading.reassembly import reassemble
from autograder.grading.results import RESULTS, Graded, as_graded
from course import catalog
from tests.autograder.grading.test_reassembly import ANSWERS, DOUBLE, RELEASED, STUB, bare, handed_in, own, unmarked

TOY = {"toy": Plan(RELEASED)}


def file(cells) -> bytes:
    """A notebook's file with these cells."""
    made = []
    for cell in cells:
        metadata = {"nbgrader": {"grade_id": cell.name}} if cell.name else {}
        known = {"id": cell.id} if cell.id else {}
        made.append({"cell_type": cell.kind, "source": cell.source, "metadata": metadata, **known})
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


WHOLE, HALF, UNDONE = (file(handed_in(answers)) for answers in (ANSWERS, {"double": DOUBLE}, {}))
OF_ANOTHER = file([own("x = 1")])
# Names of files in the folder, and the one that is graded.
NAMES = {
    "its own name": ({"toy": WHOLE}, "toy"),
    "a browser's second download": ({"toy (1)": WHOLE}, "toy (1)"),
    "Jupyter's copy": ({"Copy of toy": WHOLE}, "Copy of toy"),
    "another case": ({"Toy.IPYNB": WHOLE}, "Toy.IPYNB"),
    "a name that has nothing to do with it": ({"homework_final": WHOLE}, "homework_final"),
    "another name, marks stripped": ({"toy_final": file(unmarked(handed_in()))}, "toy_final"),
    "another name, marks and ids stripped": ({"toy_final": file(bare(handed_in()))}, "toy_final"),
    "its own name, marks and ids stripped": ({"toy": file(bare(handed_in()))}, "toy"),
    "its own name beside a copy": ({"toy": HALF, "toy-Copy1": WHOLE}, "toy"),
    "its own name beside another chapter": ({"toy": WHOLE, "attention": OF_ANOTHER}, "toy"),
    "the answers in a copy, and its own as released": ({"toy": UNDONE, "toy-Copy1": WHOLE}, "toy-Copy1"),
    "nothing done, and a copy of that": ({"toy": UNDONE, "toy-Copy1": UNDONE}, "toy"),
    "another chapter under its name": ({"toy": OF_ANOTHER, "toy (1)": WHOLE}, "toy (1)"),
    "an empty file under its name": ({"toy": b"", "toy (1)": WHOLE}, "toy (1)"),
    "several copies": ({"a": HALF, "b": WHOLE, "c": HALF}, "b"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_notebook_is_found_by_its_cells_whatever_it_is_called(case):
    files, wanted = NAMES[case]
    found = NotebookMatcher(TOY, files, {})
    taken = grade_submission.submitted_cells(files[wanted])
    assert found.cells == {"toy": taken} and found.refused == {}
    assert found.needs_confirmation == ({"toy"} if case == "several copies" else set())
    told = " ".join(found.notes)
    assert (wanted == "toy") or f"handed in as '{wanted}.ipynb'" in told
    assert all(f"'{name}.ipynb'" in told for name in files.keys() - {"toy"})


def altered(alter, **top) -> bytes:
    """The file of a whole notebook, each cell altered, with these fields of its own."""
    made = json.loads(WHOLE)
    made["cells"] = [alter(cell) or cell for cell in made["cells"]]
    return json.dumps({**made, **top}).encode()


def with_metadata(cell, **added):
    return {**cell, "metadata": {**cell["metadata"], **added}}


def _as_colab(cell):
    added = {"id": "x1Y2z3", "colab": {"base_uri": "https://localhost:8080/"}, "executionInfo": {"elapsed": 3}}
    return {**{key: cell[key] for key in cell if key != "id"}, "metadata": {**added, **cell["metadata"]}}


def _as_version_3():
    cells = [{**cell, "input": cell["source"]} for cell in json.loads(WHOLE)["cells"]]
    for cell in cells:
        del cell["source"], cell["id"]
    return json.dumps({"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}).encode()


def _crlf(cell):
    return {**cell, "source": cell["source"].replace("\n", "\r\n")}


# Files that are odd in ways that change nothing.
ODD = {
    "ten years old": _as_version_3(),
    "a byte order mark": b"\xef\xbb\xbf" + WHOLE,
    "no metadata": altered(lambda cell: cell, metadata={}),
    "another kernel": altered(lambda cell: cell, metadata={"kernelspec": {"name": "bash", "language": "R"}}),
    "metadata of the wrong kind": altered(lambda cell: cell, metadata=[1], nbformat="99"),
    "Colab": altered(_as_colab, metadata={"colab": {"provenance": []}, "accelerator": "GPU"}),
    "VS Code": altered(lambda cell: with_metadata(cell, vscode={"languageId": "python"})),
    "Windows' newlines in the cells": altered(_crlf),
    "Windows' newlines in the file": json.dumps(json.loads(WHOLE), indent=1).replace("\n", "\r\n").encode(),
    "lines in lists": altered(lambda cell: {**cell, "source": cell["source"].splitlines(keepends=True)}),
    "tags that hide and skip": altered(lambda cell: with_metadata(cell, tags=["skip-execution"], deletable=False)),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_file_gives_the_same_notebook_and_no_note(case):
    found = NotebookMatcher(TOY, {"toy": ODD[case]}, {})
    made, wanted = (reassemble(cells, RELEASED) for cells in (found.cells["toy"], handed_in()))
    assert made == wanted and not (made.notes or made.needs_confirmation or found.notes)


UNREADABLE = {
    "nothing at all": {},
    "an empty file": {"toy": b""},
    "a page of a platform": {"toy": b"<!DOCTYPE html><html></html>"},
    "conflict markers": {"toy": b"<<<<<<< HEAD\n" + WHOLE},
    "a script": {"toy": DOUBLE.encode()},
    "another encoding": {"toy": WHOLE.decode().encode("utf-16")},
    "a pickle": {"toy": pickle.dumps(ANSWERS)},
    "a notebook without cells": {"toy": file([])},
    "another chapter": {"toy": OF_ANOTHER},
    "another chapter under its own name": {"attention": OF_ANOTHER},
    "half a file under another name": {"toy (1)": WHOLE[:300]},
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_without_a_fitting_file_it_is_0_with_a_reason_for_a_human_to_confirm(case):
    assignment = pack_assignment(TOY, Settings(), {}, {}, "of the release")
    packed = pack_submission("toys", "ada", [], {}, UNREADABLE[case], "of the files")
    entered, files = messages.unwrap(grade_submission.grade(assignment, packed))
    (entry,) = entered["notebooks"].values()
    assert not entry["missing"]
    assert {score for score, *_ in entry["grades"].values()} == {0.0}
    assert all(look for _, _, look, _ in entry["grades"].values())
    assert all(comment.endswith("This counts as zero.") for comment in entry["comments"].values())
    page = nbformat.reads(files["toy.ipynb"].decode(), as_version=4)
    assert sanitize.is_grader_note(page.cells[0]) and STUB.format("double") in [c.source for c in page.cells]
    record = json.loads(files[RESULTS])
    assert record["notebooks"]["toy"]["refused"] and as_graded(record) == Graded("of the files", "of the release")


def test_two_notebooks_under_each_others_names_are_told_apart():
    cells, plans = handed_in(), {"toy": Plan(RELEASED[:8]), "other": Plan(RELEASED[8:])}
    found = NotebookMatcher(plans, {"toy": file(cells[8:]), "other": file(cells[:8])}, {})
    assert [len(found.cells[name]) for name in ("toy", "other")] == [8, 2] and len(found.notes) == 2


def test_a_notebook_that_was_not_handed_in_is_missing_and_the_others_are_graded():
    found = NotebookMatcher({"toy": Plan(RELEASED), "other": Plan(RELEASED[8:])}, {"toy": WHOLE}, {})
    assert found.cells.keys() == {"toy"} and found.refused == {}


@pytest.mark.parametrize("record", [None, [], {}, {"graded": 3}, {"graded": {"submission": 4}}])
def test_a_record_that_does_not_say_what_it_is_of_is_of_nothing_that_is_known(record):
    assert as_graded(record) == Graded(None, None)


HELPER = "from google.colab import drive\ndrive.mount('/content/drive')\n\ndef summed(pairs):\n    return sum(pairs)"


@pytest.mark.parametrize("ename, told", [("ModuleNotFoundError", True), (None, False)])
def test_a_name_that_a_cell_of_the_students_own_did_not_come_to_define_is_told(ename, told):
    marks = {"nbgrader": {"grade_id": "dot", "solution": True, "grade": False, "locked": False, "task": False}}
    answer = "def dot(a, b):\n    return summed(x * y for x, y in zip(a, b))"
    sources = ((HELPER, {}), (answer, marks))
    grade = grade_submission.NotebookGrade("dot_products", Plan([]))
    grade.notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, metadata=metadata) for source, metadata in sources]
    )
    cells = [Cell(place, source, bool(metadata)) for place, (source, metadata) in enumerate(sources)]
    grade.evaluated.outputs = {0: [{"output_type": "error", "ename": ename}] if ename else []}
    grade.evaluated.reports = {"dot": no_answer(catalog.exercise("dot").material(1), "NameError")}
    grade._look_for_missing_names(cells)
    said = (
        "`summed` may be missing: the cell that defines it, `from google.colab import drive` ..., stopped with "
        "ModuleNotFoundError"
    )
    assert grade.reassembled.told == ({"dot": said} if told else {})
    assert grade.notes == ([f"dot: {said}"] if told else [])
