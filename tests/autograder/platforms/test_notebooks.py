"""A notebook is known by what is in it; by its name only where nothing is in it."""

import nbformat
import pytest

from autograder.platforms import notebooks
from course import release
from tests.autograder.platforms.handed_in import course, notebook


@pytest.fixture
def known(tmp_path):
    return notebooks.released(course(tmp_path))


@pytest.mark.parametrize(
    "data, name, wanted",
    [
        (notebook(), "anything.ipynb", "softmax"),
        (notebook("multi_head"), "softmax.ipynb", "multi_head"),
        (notebook(marks=False), "Untitled.ipynb", "softmax"),
        (notebook("multi_head", marks=False, ids=False), "softmax.ipynb", "multi_head"),
        (notebook()[: len(notebook()) // 2 + 200], "cut_off.ipynb", "softmax"),
        (notebook().replace(b'"softmax"', b'"renamed_since"'), "old.ipynb", "softmax"),
        (b"", "softmax.ipynb", "softmax"),
        (b"<html>", "Copy of Softmax (2).ipynb", "softmax"),
        (b"<html>", "softmax-Copy1.ipynb", "softmax"),
        (b"<html>", "multi_head final.IPYNB", "multi_head"),
        (b"<html>", "log_softmax.ipynb", None),
        (b"<html>", "softmax_notes.ipynb", None),
        (b'{"cells": [{"source": ["def softmax(x):"]}]}', "softmax.ipynb", None),
        (b'{"cells": [{"metadata": {"nbgrader": {"grade_id": "other"}}}]}', "softmax.ipynb", None),
    ],
)
def test_which_notebook_a_file_is(known, data, name, wanted):
    found = notebooks.recognized(data, name, known)
    assert (found and found.name) == wanted


def test_answers_are_counted_and_what_cannot_be_read_has_none(known):
    softmax = next(one for one in known if one.name == "softmax")
    files = (notebook(), notebook(done=1), notebook(done=0), b"{")
    assert [notebooks.answered(data, softmax) for data in files] == [2, 1, 0, 0]


def test_a_chapter_of_the_course_has_marks_of_each_kind(tmp_path):
    place = tmp_path / "release" / "dot_products"
    place.mkdir(parents=True)
    nbformat.write(release.student_notebook("dot_products"), place / "dot_products.ipynb")
    (one,) = notebooks.released(tmp_path)
    assert all(len(marks) > 5 for marks in one.marks) and b"cosine_similarity" in one.marks[0] & one.marks[2]
