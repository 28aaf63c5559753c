"""Whose a file is, by the names that platforms give."""

import pytest

from autograder.platforms import canvas, moodle


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("lovelaceada_12345_67890_softmax.ipynb", ("lovelaceada", "12345", False, 67890, "softmax.ipynb")),
        ("lovelaceada_LATE_12345_67890_a_1_2.ipynb", ("lovelaceada", "12345", True, 67890, "a_1_2.ipynb")),
        ("von_neumann_john_7_8_x.ipynb", ("von_neumann_john", "7", False, 8, "x.ipynb")),
        ("anon_aB3x_67890_x.ipynb", ("", "anon_aB3x", False, 67890, "x.ipynb")),
        ("LATE_anon_aB3x_67890_x.ipynb", ("", "anon_aB3x", True, 67890, "x.ipynb")),
        ("ada_12345_text.html", ("ada", "12345", False, 0, "text.html")),
        ("ada_12345_softmax.ipynb", None),
        ("softmax.ipynb", None),
    ],
)
def test_canvas(name, wanted):
    owner = canvas.owner(name)
    assert (owner and (owner.label, owner.number, owner.late, owner.order, owner.rest)) == wanted


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("Ada Lovelace_12345_assignsubmission_file_", ("Ada Lovelace", "12345", "")),
        ("Ada Lovelace_12345_assignsubmission_file", ("Ada Lovelace", "12345", "")),
        ("Ada Lovelace_12345_assignsubmission_file_soft_max.ipynb", ("Ada Lovelace", "12345", "soft_max.ipynb")),
        ("eve_11_22_x_9_assignsubmission_file_softmax.ipynb", None),
        ("Ada Lovelace", None),
    ],
)
def test_moodle(name, wanted):
    owner = moodle.owner(name)
    assert (owner and (owner.label, owner.number, owner.rest)) == wanted
