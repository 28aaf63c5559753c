"""Cells are named, marked and made in one way, which nbformat and nbgrader accept."""

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator

from course import cells


def test_a_check_is_named_after_its_exercise_and_no_other_cell_is():
    assert cells.exercise_of(cells.check_id("softmax")) == "softmax"
    assert cells.exercise_of("softmax") is None and cells.exercise_of("") is None


@pytest.mark.parametrize("cell_type", ["code", "markdown"])
def test_what_is_made_is_what_nbformat_makes(cell_type):
    made = cells.new_notebook([cells.new_cell(cell_type, "x")], "here")
    makers = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    theirs = nbformat.v4.new_notebook(cells=[makers[cell_type]("x", id="here-0")], metadata=made.metadata)
    assert made == theirs and isinstance(made.cells[0], nbformat.NotebookNode)
    nbformat.validate(made)


def test_nbgrader_accepts_the_metadata():
    metadata = cells.nbgrader_metadata(cells.check_id("f"), "code", grade=True, locked=True, points=2.0)
    metadata["nbgrader"]["checksum"] = "0" * 32
    made = cells.new_notebook([cells.new_cell("code", "f", metadata), cells.new_cell("code", "g")], "here")
    MetadataValidator().validate_nb(made)
    assert cells.nbgrader_of(made.cells[0]).points == 2.0 and cells.nbgrader_of(made.cells[1]) == {}
    assert "points" not in cells.nbgrader_metadata("f", "code", solution=True)["nbgrader"]
