"""The amount read per student is bounded, and no archive raises or decides where something is written."""

import random
from pathlib import PurePosixPath

import pytest

from autograder.platforms import sources
from tests.autograder.platforms.handed_in import notebook, zipped

SEED = 4


def contents(data: bytes, name: str = "work.zip") -> sources.Contents:
    return sources.contents([sources.File(PurePosixPath(name), lambda limit: data)])


def test_notebooks_are_found_in_archives_of_any_layout_and_junk_is_not():
    found = contents(
        zipped(
            ("a\\b\\softmax.ipynb", b"1"),
            ("/abs.ipynb", b"2"),
            ("../up.ipynb", b"3"),
            ("c/inner.ZIP", zipped(("d/e.IPYNB", b"4"))),
            ("__MACOSX/._x.ipynb", b"5"),
            (".ipynb_checkpoints/x-checkpoint.ipynb", b"6"),
            ("._softmax.ipynb", b"7"),
        )
    )
    assert sorted(found.notebooks.values()) == [b"1", b"2", b"3", b"4"] and found.left_out == []


def test_archives_are_opened_to_a_depth():
    data = zipped(("softmax.ipynb", b"1"))
    for _ in range(5):
        data = zipped(("inner.zip", data))
    found = contents(data)
    assert found.notebooks == {} and "archive within archives" in found.left_out[0]


def test_all_that_is_unpacked_of_one_student_is_bounded_together(monkeypatch):
    monkeypatch.setattr(sources, "MAX_UNPACKED", 1 << 20)
    part = zipped(*((f"{number}.ipynb", b"\0" * 300_000) for number in range(3)))
    found = contents(zipped(("a.zip", part), ("b.zip", part)))
    assert len(found.notebooks) == 3 and "cannot be read (more than" in found.left_out[0]


@pytest.mark.parametrize("inside", [False, True])
def test_files_of_one_student_are_counted_before_a_table_of_contents_is_read(monkeypatch, inside):
    monkeypatch.setattr(sources, "MAX_FILES", 10)
    many = zipped(*((f"{number}.txt", b"") for number in range(11)))
    found = contents(zipped(("softmax.ipynb", b"1"), ("z.zip", many)) if inside else many)
    assert len(found.notebooks) == inside and "files" in found.left_out[0]


def test_damaged_archives_never_raise():
    draw, whole = random.Random(SEED), zipped(("softmax.ipynb", notebook()), ("b.zip", zipped(("c.ipynb", notebook()))))
    read = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            data[draw.choice([draw.randrange(len(data)), -draw.randint(1, 200)])] = draw.randrange(256)
        read += len(contents(bytes(data)).notebooks) > 0
    assert 0 < read < 300
