"""Reading a submission: its files within limits, and the texts of a notebook's cells."""

import json
import os

import pytest

from autograder.grading import submission
from autograder.grading.submission import Refused, read_bytes, read_folder, submitted_cells
from autograder.sandbox import limits

ANSWER = "def double(x):\n    return 2 * x"


def notebook(*cells, **more) -> bytes:
    return json.dumps({"cells": cells, **more}).encode()


def cell(source, **more):
    return {"cell_type": "code", "source": source, "metadata": {}, **more}


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
def test_a_file_that_is_not_a_notebook_is_refused_in_words(bad):
    with pytest.raises(Refused) as refused:
        submitted_cells(bad)
    assert len(str(refused.value)) < 300 and "\n" not in str(refused.value)


@pytest.mark.parametrize("bad", [b"[" * 100_000, b'{"a":' * 100_000, b'{"cells": [' + b"[]," * 3_000_000 + b"0]}"])
def test_nesting_and_numbers_of_parts_are_capped_before_anything_is_built(bad):
    with pytest.raises(Refused, match="nested too deeply|too many parts|is too large"):
        submitted_cells(bad)


def test_brackets_in_strings_do_not_count():
    (found,) = submitted_cells(notebook({"cell_type": "code", "source": "[" * 5000 + '"\\'}))
    assert found.source == "[" * 5000 + '"\\'


def test_odd_cells_become_harmless_ones():
    marked = {"source": "\ud800", "metadata": {"nbgrader": "text"}}
    odd = [{}, 3, None, {"source": ["a", 4, "b"]}, {"source": {"x": 1}, "metadata": []}, marked]
    found = submitted_cells(notebook(*odd))
    assert [c.source for c in found] == ["", "ab", "", "?"] and {c.name for c in found} == {None}


def test_too_many_cells_are_refused():
    with pytest.raises(Refused, match="cells"):
        submitted_cells(notebook(*[cell("")] * (limits.MAX_CELLS + 1)))


def test_a_cell_that_is_too_long_is_left_out_alone():
    long = "x" * (limits.MAX_SOURCE + 1)
    first, second, third = submitted_cells(notebook(cell(long), {"cell_type": "markdown", "source": long}, cell("y")))
    assert first.source.startswith("# This cell was left out: it has more than") and len(first.source) < 100
    assert second.source.startswith("This cell was left out") and third.source == "y"


def test_data_in_code_and_pictures_of_another_place_stay():
    code = 'picture = "data:image/png;base64,AAAA"'
    text = "![a](https://example.org/a.png) and data:image"
    found = submitted_cells(notebook(cell(code), {"cell_type": "markdown", "source": text}))
    assert [one.source for one in found] == [code, text]


def test_a_notebook_of_an_old_format_is_read():
    old = {"cell_type": "code", "input": ANSWER, "metadata": {"nbgrader": {"grade_id": "double"}}}
    data = json.dumps({"nbformat": 3, "worksheets": [{"cells": [old]}]}).encode()
    assert submitted_cells(data) == [submission.SubmittedCell("double", "code", ANSWER)]


@pytest.mark.parametrize(
    "more",
    [
        {"outputs": [{"output_type": "stream", "text": ["a line\n", '"], "source": "forged", "x": [', "}]"]}]},
        {"outputs": [{"data": {"image/png": "A" * 5000}}]},
        {"outputs": [{"metadata": {"outputs": [[], {"a": []}]}}]},
        {"outputs": []},
        {"metadata": {"outputs": [1, {"deep": [2]}]}},
    ],
    ids=["lines", "pictures", "outputs in outputs", "none", "metadata of that name"],
)
def test_outputs_are_cut_out_and_nothing_else_is(more):
    data = notebook(cell(ANSWER, id="a", **{"metadata": {"nbgrader": {"grade_id": "x"}}, **more}), cell("b", id="z"))
    short = submission._without_outputs(data)
    assert len(short) <= len(data) and b"AAAA" not in short and b"forged" not in short
    assert [(c.source, c.id) for c in submitted_cells(data)] == [(ANSWER, "a"), ("b", "z")]


def test_a_notebook_with_sixty_megabytes_of_outputs_is_read():
    lines = [f"epoch {number}: loss 0.123456789\n" for number in range(400_000)] * 4
    shown = {"output_type": "stream", "name": "stdout", "text": lines}
    picture = {"output_type": "display_data", "data": {"image/png": "A" * (15 << 20)}}
    widgets = {"widgets": {"state": "x" * limits.MAX_NOTEBOOK}}
    data = notebook(cell(ANSWER, outputs=[shown, picture]), metadata=widgets)
    assert len(data) > 60 << 20
    assert [c.source for c in submitted_cells(data)] == [ANSWER]


@pytest.mark.parametrize(
    "bad",
    [b'"' + b'\\"' * 3_000_000, b'"' + b"\\" * 5_000_001, b'{"cells": [{' + b'"outputs":' * 500_000, b'"a' * 2_000_000],
    ids=["quotes", "backslashes", "keys", "strings"],
)
def test_no_file_takes_more_than_time_in_proportion_to_its_size(bad):
    """With time that grows as the square, any of these takes minutes to hours."""
    with pytest.raises(Refused):
        submitted_cells(bad)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_another_newline_makes_no_difference(newline):
    (found,) = submitted_cells(notebook(cell(ANSWER.replace("\n", newline))))
    assert found.source == ANSWER


# Files


def test_an_ordinary_file_is_read_and_links_folders_pipes_and_large_files_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(b"abc")
    assert read_bytes(tmp_path / "secret") == b"abc"
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe", "absent"):
        with pytest.raises(Refused, match=name):
            read_bytes(tmp_path / name)
    with pytest.raises(Refused, match="Clear its outputs"):
        read_bytes(tmp_path / "secret", limit=2)


def test_a_folder_is_known_by_its_notebooks_and_its_time_and_by_nothing_else(tmp_path):
    def digest():
        return read_folder(tmp_path).digest

    seen = [digest()]
    (tmp_path / "a.ipynb").write_bytes(b"1")
    seen.append(digest())
    (tmp_path / "notes.txt").write_bytes(b"1")
    os.utime(tmp_path / "a.ipynb", (0, 0))
    assert digest() == seen[-1]
    (tmp_path / "a.ipynb").write_bytes(b"2")
    seen.append(digest())
    (tmp_path / "a.ipynb").rename(tmp_path / "b.ipynb")
    seen.append(digest())
    (tmp_path / "timestamp.txt").write_text("2026-09-30")
    seen.append(digest())
    assert len(set(seen)) == len(seen)


def test_every_notebook_of_a_folder_is_read_whatever_its_name(tmp_path):
    for name in ("softmax (1).ipynb", "Copy.IPYNB", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "notes.txt")
    found = read_folder(tmp_path)
    assert set(found.notebooks) == {"softmax (1)", "Copy.IPYNB"} and "is a link" in found.refused["link"]


def test_more_notebooks_than_anybody_needs_are_not_read(tmp_path):
    for number in range(limits.MAX_NOTEBOOKS + 5):
        (tmp_path / f"{number:03}.ipynb").write_bytes(b"x")
    found = read_folder(tmp_path)
    assert len(found.notebooks) == limits.MAX_NOTEBOOKS and len(found.refused) == 5
