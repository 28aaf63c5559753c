"""The report a student reads: short, at most 78 columns, the same as text and as HTML."""

from __future__ import annotations

import re

import numpy as np
import pytest

from attnlab.check import examine
from attnlab.checking import formatting
from attnlab.checking.judge import Finding, Report, no_answer
from attnlab.checking.report import WIDTH, as_html, as_text
from course.kit.exercise import Exercise
from tests.course.toy_exercise import doubled, make

TOY = make().material()


def text(answer) -> str:
    return as_text(examine(answer, TOY))


def raising(x, times=1):
    return x + [1, 2, 3, 4, 5, 6, 7]


ANSWERS = {
    "right": doubled,
    "none": lambda x, times=1: None,
    "off": lambda x, times=1: x * 2 + 0.1,
    "list": lambda x, times=1: list(x),
    "raises": raising,
    "strange": lambda x, times=1: (i for i in x),
    "long": lambda x, times=1: np.ones((40, 50)),
    "once": lambda x, times=1: doubled(x),
    "word": lambda x, times=1: "x" * 500,
    "tuple": lambda x, times=1: (x, x),
    "huge": lambda x, times=1: doubled(x) * 1e200,
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_report_is_short_and_in_ascii_and_no_line_is_wider_than_the_page(kind):
    shown = text(ANSWERS[kind])
    assert max(map(len, shown.split("\n"))) <= WIDTH and shown.isascii() and shown.count("\n") < 25


def test_full_marks_are_one_line_each():
    assert text(doubled) == (
        "doubled" + "3 of 3 passed".rjust(WIDTH - 7) + "\n ok   doubles every entry\n"
        " ok   leaves its input as it was\n ok   refuses a matrix"
    )


def test_a_named_mistake_comes_with_its_section_and_without_numbers():
    lines = text(ANSWERS["once"]).split("\n")
    assert lines[1:4] == [
        " no   doubles every entry",
        "      The number of doublings is ignored.",
        '      See "How often".',
    ]
    assert len(lines) == 6


def test_an_unknown_mistake_comes_with_one_small_example():
    shown = text(ANSWERS["off"])
    assert shown.count("expected = ") == 1 and shown.count("yours    = ") == 1 and "Hint: Multiply by two" in shown


def test_what_happens_everywhere_is_said_once():
    shown = text(ANSWERS["none"])
    assert shown.count("Is a `return` missing?") == 1 and "Hint: Multiply" not in shown


def test_an_exception_on_one_line_is_said_once_whatever_the_numbers_in_its_words():
    exercise = Exercise(doubled, section="S")
    exercise.property("small", points=1)(lambda rng: [dict(x=rng.normal(size=3))])
    exercise.property("large", points=1)(lambda rng: [dict(x=rng.normal(size=5))])
    shown = as_text(examine(raising, exercise.material()))
    assert shown.count("operands could not") == 1 and "large (the same mistake)" in shown


def test_an_exception_is_shown_with_its_line_of_code():
    shown = " ".join(text(raising).split())
    assert "raised ValueError" in shown and "`return x + [1, 2, 3, 4, 5, 6, 7]`" in shown
    assert f"in line {raising.__code__.co_firstlineno + 1}:" in shown


def test_a_stub_is_told_kindly_that_it_is_not_done():
    def stub(x, times=1):
        raise NotImplementedError

    shown = text(stub)
    assert "not done yet" in shown.split("\n")[0] and "that is fine" in shown and " no " not in shown


def test_an_answer_that_could_not_be_judged_lists_no_properties():
    shown = as_text(no_answer(TOY, "your doubled has no parameter `times`"))
    assert shown.split("\n")[0].endswith("could not be checked") and "Your doubled has no" in shown
    assert "every entry" not in shown


def test_a_run_that_broke_off_shows_what_passed_and_why_it_ended():
    broken = Report(
        "doubled",
        2.0,
        False,
        [
            Finding("one", True, 1.0, 1.0),
            Finding("two", False, 0.0, 1.0, kind="no answer", detail="There was no answer."),
        ],
        "no answer within 10 seconds",
    )
    shown = as_text(broken)
    assert "1 of 2 passed" in shown and "No answer within 10 seconds." in shown


@pytest.mark.parametrize("kind", ANSWERS)
def test_html_says_what_the_text_says(kind):
    report = examine(ANSWERS[kind], TOY)
    page = as_html(report)
    for finding in report.findings:
        assert finding.title in page
        assert not finding.misconception or finding.misconception in page
    tags = re.findall(r"</?(\w+)", page)
    assert all(tags.count(tag) % 2 == 0 for tag in ("p", "ul", "li", "b", "div", "pre", "a", "code", "style"))


def test_html_escapes_what_came_from_a_student():
    page = as_html(examine(lambda x, times=1: "<script>alert(1)</script>", TOY))
    assert "<script" not in page
    report = no_answer(TOY, "the file raised <img src=x onerror=alert(1)>")
    assert "<img" not in as_html(report)


def test_html_links_to_the_section_as_jupyter_names_it():
    assert '<a href="#How-often">How often</a>' in as_html(examine(ANSWERS["once"], TOY))


def test_html_loads_nothing_and_runs_nothing():
    page = as_html(examine(ANSWERS["off"], TOY))
    assert not re.search(r"https?:|<script|<link|<img|\bon\w+=|url\(|@import", page)


# Values on little room ---------------------------------------------------------------------------------------------


def test_a_table_aligns_its_signs_and_its_rows():
    assert formatting.table({"x": np.array([[1.0, 2.0], [3.0, 4.5]]), "axis": 1}) == [
        "x    = [[1. , 2. ],",
        "        [3. , 4.5]]",
        "axis = 1",
    ]


def test_long_arrays_are_told_by_shape_and_first_entries():
    assert formatting.table({"x": np.arange(2000.0).reshape(50, 40)}) == [
        "x = an array of shape (50, 40), starting 0, 1, 2, ..."
    ]
    assert formatting.table({"x": np.zeros((0, 3))}) == ["x = an array of shape (0, 3), with no entry"]


def test_two_values_that_look_alike_get_more_digits():
    lines = formatting.table({"expected": np.array([0.12345678901]), "yours": np.array([0.12345678999])})
    assert lines[0].split("= ")[1] != lines[1].split("= ")[1]


def test_no_value_takes_many_or_wide_lines():
    for value in (
        np.ones((20, 1)),
        np.full((2, 12), 1e-200),
        list(range(1000)),
        "x" * 1000,
        {"a": np.ones(99)},
        [[1.0] * 9] * 40,
        np.array([True] * 24),
        [np.ones((3, 3))] * 9,
        10**300,
        (None, "x"),
        [],
        (),
    ):
        lines = formatting.table({"name": value})
        assert len(lines) <= formatting.MOST_LINES and max(map(len, lines)) <= 70
