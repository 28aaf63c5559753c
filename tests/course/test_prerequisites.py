"""While a chapter is graded, it may import the references of the earlier chapters that it names, and no others."""

import os

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from attnlab import mine
from autograder.grading.single_file import grade_source
from course import catalog, chapter, prerequisites
from course.errors import CourseError


@pytest.fixture
def borrowing(monkeypatch):
    """`borrowing("merge_heads")` makes the chapter on positions import these earlier answers."""

    def borrow(*names):
        notebook = new_notebook(cells=[new_code_cell(f"from attnlab.mine import {', '.join(names)}")])
        find = chapter.find_prerequisites
        monkeypatch.setattr(chapter, "read", lambda stem: chapter.Chapter(notebook, [], find(notebook, stem)))

    for cached in (prerequisites.names, prerequisites.sources):
        cached.cache_clear()
    yield borrow
    for cached in (prerequisites.names, prerequisites.sources):
        cached.cache_clear()


@pytest.mark.parametrize("stem", catalog.chapters())
def test_every_chapter_takes_from_earlier_ones_only(stem):
    order = catalog.chapters()
    assert all(order.index(catalog.chapter_of(name)) < order.index(stem) for name in prerequisites.names(stem))


def test_the_names_are_read_from_the_import_cells():
    source = "import torch\nfrom attnlab.mine import split_heads, merge_heads\nfrom attnlab.mine import parts\n%time 1"
    assert chapter.imported(source, "here") == ["split_heads", "merge_heads"]


@pytest.mark.parametrize(
    "name, words",
    [
        ("alibi_bias", "positions is not an earlier chapter"),
        ("sinusoidal_encoding", "positions is not an earlier chapter"),
        ("nothing_such", "nothing_such"),
    ],
)
def test_an_answer_of_the_same_chapter_or_of_no_exercise_cannot_be_imported(borrowing, name, words):
    borrowing(name)
    with pytest.raises(CourseError, match=words):
        prerequisites.names("positions")


def test_sources_hold_what_is_imported_and_no_other_answer(borrowing):
    borrowing("MultiHeadAttention")
    sources = prerequisites.sources("positions")
    assert set(sources) == {"multi_head"}
    assert "class MultiHeadAttention" in sources["multi_head"] and "def split_heads" in sources["multi_head"]
    assert "attention_parameters" not in sources["multi_head"]


def test_kernels_started_inside_get_the_setting_and_nothing_stays(borrowing, monkeypatch):
    monkeypatch.delenv(mine.PROVIDED, raising=False)
    borrowing("merge_heads", "split_heads")
    with prerequisites.importable("positions"):
        assert os.environ[mine.PROVIDED] == "solutions:merge_heads,split_heads"
    assert mine.PROVIDED not in os.environ


FILE = """\
import torch
from attnlab.mine import {names}


def hard_alignment(weights):
    {body}
"""


def graded(names, body):
    return grade_source(FILE.format(names=names, body=body), "answer.py", catalog.exercise("hard_alignment"), seed=3)


RIGHT = """if weights.ndim != 4:
        raise ValueError('no')
    return merge_heads(weights[:, :, :, :, None].mean(1, keepdim=True)[..., 0]).argmax(-1)"""


@pytest.fixture
def cross_attention_borrows(borrowing, jail_if_there_is_one):
    borrowing("merge_heads")
    return borrowing


def test_a_file_may_build_on_what_its_chapter_imports(cross_attention_borrows):
    report = graded("merge_heads", RIGHT)
    assert report.passed, report


@pytest.mark.parametrize(
    "names, body, words",
    [
        *((name, f"return {name}", "not among the earlier answers") for name in ("hard_alignment", "split_heads")),
        ("CrossAttention", "return CrossAttention", "not among the earlier answers"),
        ("merge_heads", "from solutions.cross_attention import hard_alignment as h; return h(weights)", ""),
        ("merge_heads", "import solutions.multi_head as m; return m.attention_parameters", ""),
    ],
)
def test_a_file_gets_no_other_answer_and_reads_none_off_the_modules(cross_attention_borrows, names, body, words):
    report = graded(names, body)
    assert report.points == 0 and words in (report.reason or "")
