"""The setup of a chapter's kernel while the book is built."""

import nbformat
import pytest
from nbclient import NotebookClient

from course.folder import ROOT


@pytest.mark.slow
def test_what_a_cell_prints_comes_in_one_piece_even_when_it_is_slow():
    cells = [
        "from book import kernel_setup; kernel_setup.install()",
        "import time\nprint('a', end=' ')\ntime.sleep(0.5)\nprint('b')\ntime.sleep(0.5)\nprint('c')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, resources={"metadata": {"path": str(ROOT)}}).execute()
    assert [output["text"] for output in notebook.cells[1].outputs] == ["a b\nc\n"]
