"""What is taken from a submission: the text of cells that the student may write, and nothing else."""

import json
import os

import nbformat
import pytest

from autograder.grading import submission
from autograder.grading.submission import Refused, ReleasedCell, read_bytes, reassemble, submitted_cells

DOUBLE = ReleasedCell(
    "double", "code", "def double(x):\n    raise NotImplementedError", False, True, False, False, None, "aa"
)
CHECK = ReleasedCell("check-double", "code", "check(double)", True, False, True, False, 3.0, "bb")
WHY = ReleasedCell("why", "markdown", "Write here.", False, True, True, False, 2.0, "cc")
OFFICIAL = [DOUBLE, CHECK, WHY]
ANSWER = "def double(x):\n    return 2 * x"


def cell(source, name=None, kind="code", **metadata):
    mark = (
        {"nbgrader": {"grade_id": name, "grade": True, "locked": False, "points": 99, "solution": True}} if name else {}
    )
    return {"cell_type": kind, "source": source, "metadata": {**mark, **metadata}, "outputs": [{"any": "thing"}]}


def taken(*cells, official=OFFICIAL, **options):
    return reassemble(submitted_cells(json.dumps({"cells": cells}).encode()), official, **options)


def sources(made):
    return {c.metadata.nbgrader.grade_id: c.source for c in made.notebook.cells if "nbgrader" in c.metadata}


HONEST = cell(ANSWER, "double"), cell("check(double)", "check-double"), cell("Because.", "why", "markdown")


def test_an_honest_notebook_comes_out_as_it_went_in():
    made = taken(*HONEST)
    assert sources(made) == {"double": ANSWER, "check-double": "check(double)", "why": "Because."}
    assert made.notes == []
    nbformat.validate(made.notebook)


def test_type_points_locks_and_outputs_come_from_the_gradebook():
    made = taken(*HONEST)
    marks = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader for c in made.notebook.cells}
    assert marks["check-double"].points == 3.0 and marks["check-double"].locked and not marks["check-double"].solution
    assert not marks["double"].grade and "points" not in marks["double"]
    assert all(c.get("outputs", []) == [] for c in made.notebook.cells)


def test_the_text_of_a_locked_cell_is_the_gradebooks():
    made = taken(HONEST[0], cell("3.0", "check-double"), HONEST[2])
    assert sources(made)["check-double"] == "check(double)"


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2)])
def test_moved_cells_stand_in_their_order_again(order):
    assert list(sources(taken(*(HONEST[i] for i in order)))) == ["double", "check-double", "why"]


def test_a_missing_cell_is_put_back_and_told_of():
    made = taken(HONEST[0])
    assert sources(made) == {"double": ANSWER, "check-double": "check(double)", "why": "Write here."}
    assert made.notes == ["check-double was missing", "why was missing"]


def test_of_a_cell_handed_in_twice_the_last_counts_and_the_first_is_a_cell_of_the_students_own():
    made = taken(cell("def double(x):\n    return 0", "double"), *HONEST)
    assert sources(made)["double"] == ANSWER and "more than once" in made.notes[0]
    assert made.notebook.cells[0].source.endswith("return 0") and "nbgrader" not in made.notebook.cells[0].metadata


def test_a_locked_cell_handed_in_twice_runs_nothing():
    made = taken(cell("print('forged')", "check-double"), *HONEST)
    assert all("forged" not in c.source for c in made.notebook.cells)


@pytest.mark.parametrize("kind", ["markdown", "raw", None, 7])
def test_a_retyped_answer_is_still_the_answer(kind):
    made = taken(cell(ANSWER, "double", kind), *HONEST[1:])
    assert sources(made)["double"] == ANSWER and made.notebook.cells[0].cell_type == "code"


@pytest.mark.parametrize(
    "metadata",
    [
        {"tags": ["skip-execution", "raises-exception"]},
        {"deletable": False},
        {"jupyter": {"source_hidden": True}},
        {"attachments": {"a.png": {}}},
    ],
)
def test_other_metadata_means_nothing(metadata):
    made = taken(cell(ANSWER, "double", **metadata), *HONEST[1:])
    assert set(made.notebook.cells[0].metadata) == {"nbgrader"}
    assert "attachments" not in made.notebook.cells[0]


def test_cells_of_the_students_own_stay_where_they_follow_and_are_told_of():
    made = taken(cell("import math"), HONEST[0], cell("help_me = 1"), *HONEST[1:])
    assert [c.source for c in made.notebook.cells] == [
        "import math",
        ANSWER,
        "help_me = 1",
        "check(double)",
        "Because.",
    ]
    assert [note.split(": ")[-1] for note in made.notes] == ["import math", "help_me = 1"]


def test_cells_that_were_handed_out_are_not_told_of():
    assert taken(cell("import math\n"), *HONEST, plain=frozenset({"import math"})).notes == []


def test_by_policy_code_of_the_students_own_is_not_run_but_text_stays():
    made = taken(cell("import math"), cell("A thought.", kind="markdown"), *HONEST, run_extra=False)
    assert [c.source for c in made.notebook.cells][:2] == ["A thought.", ANSWER]


@pytest.mark.parametrize("name", [["double"], {"a": 1}, 7, None, "nobody"])
def test_a_name_that_is_none_makes_a_cell_of_the_students_own(name):
    made = taken(cell("x = 1", name), *HONEST)
    assert made.notebook.cells[0].source == "x = 1" and sources(made)["double"] == ANSWER


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"not json",
        b"[]",
        b"3",
        b'{"cells": 3}',
        b'{"no": "cells"}',
        "x\xe9".encode("latin1"),
        b'{"cells": [',
        b"\x00\x01",
        b'{"cells": [], "x": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_notebook_is_refused_in_words(bad):
    with pytest.raises(Refused) as refused:
        submitted_cells(bad)
    assert len(str(refused.value)) < 300 and "\n" not in str(refused.value)


@pytest.mark.parametrize("bad", [b"[" * 100_000, b'{"a":' * 100_000, b'{"cells": [' + b"[]," * 3_000_000 + b"0]}"])
def test_nesting_and_numbers_of_parts_are_capped_before_anything_is_built(bad):
    with pytest.raises(Refused, match="nested too deeply|too many parts"):
        submitted_cells(bad)


def test_brackets_in_strings_do_not_count():
    (found,) = submitted_cells(json.dumps({"cells": [{"cell_type": "code", "source": "[" * 5000 + '"\\'}]}).encode())
    assert found.source == "[" * 5000 + '"\\'


def test_odd_cells_become_harmless_ones():
    found = submitted_cells(
        json.dumps(
            {
                "cells": [
                    {},
                    3,
                    None,
                    {"source": ["a", 4, "b"]},
                    {"source": {"x": 1}, "metadata": []},
                    {"source": "\ud800", "metadata": {"nbgrader": "text"}},
                ]
            }
        ).encode()
    )
    assert [c.source for c in found] == ["", "ab", "", "?"] and {c.name for c in found} == {None}


def test_too_many_cells_and_too_long_ones_are_refused():
    with pytest.raises(Refused, match="cells"):
        taken(*[cell("")] * (submission.MAX_CELLS + 1))
    with pytest.raises(Refused, match="characters"):
        taken(cell("x" * (submission.MAX_SOURCE + 1)))


def test_a_notebook_of_an_old_format_is_read():
    old = {
        "nbformat": 3,
        "worksheets": [
            {"cells": [{"cell_type": "code", "input": ANSWER, "metadata": {"nbgrader": {"grade_id": "double"}}}]}
        ],
    }
    assert submitted_cells(json.dumps(old).encode()) == [submission.SubmittedCell("double", "code", ANSWER)]


# Files


def test_an_ordinary_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert read_bytes(tmp_path / "a") == b"abc"


def test_links_folders_pipes_and_large_files_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe", "absent"):
        with pytest.raises(Refused, match=name):
            read_bytes(tmp_path / name)
    with pytest.raises(Refused, match="Clear its outputs"):
        read_bytes(tmp_path / "secret", limit=2)
