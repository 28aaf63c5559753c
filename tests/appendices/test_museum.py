"""The museum: each bug has its report and its date, a guess, and an exercise; what the page says of numbers is so."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from course import catalog, chapter
from course.folder import ROOT
from tests.test_chapter_code import faulty_drawers

TEXT = (ROOT / "appendices" / "museum.md").read_text("utf-8")
SECTIONS = {section.partition("\n")[0]: section for section in TEXT.split("\n## ")[1:]}
BUGS = {title: section for title, section in SECTIONS.items() if "```{code-cell}" in section}
REPORT = re.compile(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+\)")
DATE = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2}, 20\d\d\b"
)
EACH = pytest.mark.parametrize("title", BUGS)


def test_the_page_says_how_many_bugs_it_has():
    assert len(BUGS) == 11 and "the eleven bugs" in TEXT
    assert "the eleven bugs" in (ROOT / "appendices" / "where_next.md").read_text("utf-8")


@EACH
def test_each_bug_has_its_symptom_its_report_and_the_date_before_its_code(title):
    story = BUGS[title].partition("```{code-cell}")[0]
    assert story.splitlines()[2].startswith("The symptom: ")
    assert REPORT.search(story) and DATE.search(story)
    assert story.rstrip().endswith("?"), "the question comes last"


@EACH
def test_each_bug_has_two_guesses_and_an_exercise(title):
    assert BUGS[title].count(":tags: [hide-output]") == BUGS[title].count(":tags: [hide-input, hide-output]") == 1
    (practice,) = re.findall(r"^Practice: (.+)$", BUGS[title], re.MULTILINE)
    links = re.findall(r'<a href="\.\./chapters/(\w+)\.html#exercise-(\w+)"><code>(\w+)</code></a>', practice)
    assert links or "there is no exercise" in practice
    for stem, anchor, shown in links:
        assert anchor == shown and shown in catalog.exercises_of(stem) and f"{{ref}}`{stem}`" in practice


def test_each_answer_is_in_a_drawer_that_names_its_question():
    assert faulty_drawers(chapter.parse(TEXT, "appendices/museum.md")) == []


def test_lines_fit_on_a_phone(printed):
    code = [line for cell in re.findall(r"```\{code-cell\}\n(.*?)```", TEXT, re.DOTALL) for line in cell.splitlines()]
    assert [line for line in code if len(line) > 76] == []
    assert [line for text in printed.values() for line in text if len(line) > 38] == []


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, int], list[str]]:
    """The lines that the cells print, by (title, 0 for the bug or 1 for its mend)."""
    names, found = {}, {}
    for title, section in {"": TEXT.partition("\n## ")[0], **BUGS}.items():
        for number, cell in enumerate(re.findall(r"```\{code-cell\}\n(?::[^\n]*\n)*(.*?)```", section, re.DOTALL)):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(cell, names)
            found[title, number] = out.getvalue().splitlines()
    return found


@pytest.mark.parametrize(
    "title, bug, mended",
    [
        ("Every key is read, but is every query served?", "sums: [1.02 0.52 1.46]", "sums: [1. 1. 1.]"),
        ("A mask without effect", "[0.09 0.24 0.67]", "[0.27 0.73 0.  ]"),
        ("Better to be wrong", "right    loss 33.3", "right    loss 0.0"),
        ("The right caption, with the wrong numbers", "heads 12: largest weight 0.38", "0.125 and not 0.289"),
        ("A result that depends on its neighbors", "masks: A B A B", "A changes by 0.00"),
        ("Only the longest prompt is right", "[2 3]", "off by 0.00"),
        ("A cache that is never read", "tokens read: 250", "tokens read: 22"),
        ("A few good words, then nothing", "[0 0 1 2 3 4]", "[4 4 4 4 4 4]"),
        ("Four question marks for a smile", "hi \ufffd\ufffd\ufffd\ufffd", "hi 😃"),
    ],
)
def test_the_cells_print_what_the_text_says(printed, title, bug, mended):
    assert bug in printed[title, 0] and mended in printed[title, 1]


def test_with_is_causal_each_step_gives_the_first_value_and_the_other_mask_the_last_row(printed):
    title = "The same vector at every step"
    assert [line.split(": ")[1] for line in printed[title, 0]] == ["1.00"] * 4
    step, whole = (line.split(": ")[1] for line in printed[title, 1])
    assert step == whole != "1.00"


def test_both_signs_keep_the_distance_and_mirrored_numbers_give_the_score_of_the_other(printed):
    plus, minus = (line.split(": ")[1].split(" and ") for line in printed["The wrong sign that was right", 0])
    assert len(set(plus)) == len(set(minus)) == 1 and plus != minus
    assert printed["The wrong sign that was right", 1] == plus[:1]


def test_in_a_batch_a_neighbor_changes_the_result_before_the_mend(printed):
    last = printed["A result that depends on its neighbors", 0][-1]
    assert float(last.rpartition(" ")[2]) > 0.1
