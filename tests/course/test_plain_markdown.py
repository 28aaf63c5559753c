"""Book markup becomes markdown that any notebook shows."""

import re

import pytest

from course import plain_markdown
from course.errors import CourseError


def plain(text):
    return plain_markdown.markdown(text, "chapters/x.md")


CODE = "```python\n:::{note}\n(label)=\n{ref}`x`\n```"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(softmax)=\n# Softmax\n\nSome *words* and $x_1$.", "# Softmax\n\nSome *words* and $x_1$."),
        (":::{tip}\nLook twice.\n:::", "> **Tip**\n>\n> Look twice."),
        (":::{admonition} Find the bug\nWhere?\n:::", "> **Find the bug**\n>\n> Where?"),
        ("a **{term}`query`** asks **{term}`keys <key>`**.", "a **query** asks **keys**."),
        (CODE, CODE),
    ],
    ids=["label", "tip", "admonition", "term", "code"],
)
def test_what_only_the_book_knows_becomes_plain_and_the_rest_stays(text, expected):
    assert plain(text) == expected


def test_a_dropdown_becomes_a_fold_that_html_knows():
    made = plain(":::{dropdown} Hint 1: use `keepdims`\nBody\n:::")
    assert made.startswith(
        '<details>\n<summary style="display: list-item">Hint 1: use <code>keepdims</code></summary>\n\nBody'
    )
    assert made.endswith("</details>")


def test_blocks_nest_with_more_colons_outside():
    made = plain("::::{note}\nA\n:::{dropdown} More\nB\n:::\n::::")
    assert "> <details>" in made and "> B" in made


def test_a_quiz_lists_choices_first_and_folds_the_answer():
    made = plain(":::{quiz} What is 1 + 1?\n- [ ] three :: Count again.\n- [x] two :: Yes.\n:::")
    question, answer = made.split("<details>")
    assert "three" in question and "Count again" not in question
    assert "**Right.** Yes." in answer


def test_a_right_choice_may_be_marked_with_either_letter():
    """As on the page: both read a quiz by `course.chapter`."""
    small, capital = (plain(f":::{{quiz}} Q?\n- [ ] a :: b\n- [{x}] c :: d\n:::") for x in "xX")
    assert small == capital and "**Right.** d" in small


@pytest.mark.parametrize(
    "body", ["- [ ] a :: b\n- [ ] c :: d", "- [x] a :: b", "- [x] a :: b\n- [x] c :: d", "- [x] a\n- [ ] c :: d"]
)
def test_a_quiz_without_exactly_one_right_choice_is_refused(body):
    with pytest.raises(CourseError, match="quiz"):
        plain(f":::{{quiz}} Q?\n{body}\n:::")


def test_references_become_their_words_and_citations_author_and_year_with_a_link():
    assert plain("see {ref}`the last chapter <softmax>`.") == "see the last chapter."
    link = "[Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)"
    assert plain("{cite:p}`vaswani2017attention`") == f"({link})"
    assert plain("{cite:t}`vaswani2017attention,rush2018annotated`") == (
        f"{link}; [Rush, 2018](https://doi.org/10.18653/v1/W18-2509)"
    )


def test_what_a_chapter_cites_is_listed_once_with_titles_and_links():
    made = plain_markdown.references(
        ["{cite:p}`rush2018annotated, rabe2021self`", "{cite:t}`rush2018annotated` {term}`q`"]
    )
    head, empty, *lines = made.split("\n")
    assert head == "## References" and empty == "" and len(lines) == 2
    assert lines[0] == (
        "- Rabe and Staats, 2021. [Self-attention Does Not Need $O(n^2)$ Memory](https://arxiv.org/abs/2112.05682). "
        "arXiv preprint arXiv:2112.05682."
    )
    assert plain_markdown.references(["no source at all"]) == ""


def test_every_entry_has_a_sound_address_or_is_a_book_and_no_tex_but_formulas():
    books = {"raschka2024build"}
    for key, entry in plain_markdown.bibliography().items():
        assert re.fullmatch(r"https://[^\s()]+", entry.address) or key in books, key
        assert not re.search(r"[{}\\]", re.sub(r"\$[^$]+\$", "", entry.line)), key


def test_a_reference_without_words_takes_the_title_of_its_target():
    assert "{" not in plain("{ref}`softmax`")


@pytest.mark.parametrize(
    "text, words",
    [
        (":::{figure} x.png\n:::", "no plain form"),
        (":::{note}\nnever closed", "never closed"),
        ("{frob}`x`", "role 'frob'"),
        ("{ref}`nowhere-at-all`", "nowhere-at-all"),
        ("{cite:p}`nobody1900`", "nobody1900"),
        ("{term}`words <nothing at all>`", "nothing at all"),
        ("```{image} x.png\n```", "no plain form"),
        (":::\n", "opens no directive"),
    ],
)
def test_what_has_no_plain_form_is_an_error_that_names_it(text, words):
    with pytest.raises(CourseError, match=words):
        plain(text)
