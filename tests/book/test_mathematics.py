"""Formulas: what TeX says is what the MathML says, as it is printed, and what is not known is an error."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from docutils import nodes, utils

from book.pages import mathematics
from course import catalog


def tree(latex, display=False):
    return ElementTree.fromstring(mathematics.mathml(latex, display))


def tags(latex, display=False):
    return [element.tag for element in tree(latex, display).iter()]


@pytest.mark.parametrize(
    "latex, text",
    [
        (r"q \times k", "q×k"),
        (r"\alpha_{ij}", "αij"),
        (r"\operatorname{softmax}(x)", "softmax(x)"),
        (r"d_{\text{model}}", "dmodel"),
        (r"K^\top", "K⊤"),
        (r"x \le \infty", "x≤∞"),
        (r"\mathbb{R}^n", "ℝn"),
        (r"\tfrac12 - 0.5", "12−0.5"),
    ],
)
def test_a_formula_says_what_its_tex_says(latex, text):
    assert "".join(tree(latex).itertext()) == text


def test_fractions_roots_sums_and_indices_below_are_what_they_are():
    assert tags(r"\frac{q k}{\sqrt{d_k}}") == ["math", "mfrac", "mrow", "mi", "mi", "msqrt", "msub", "mi", "mi"]
    assert "munder" in tags(r"\sum_j a_j", display=True)
    maximum = tree(r"\max_j s_j", display=True).find(".//munder")
    assert maximum[0].text == "max" and maximum[1].text == "j"


def test_only_a_displayed_formula_has_a_line_of_its_own():
    assert tree("x", display=True).get("display") == "block"
    assert "display" not in tree("x").attrib


def test_lines_are_aligned_at_their_sign():
    rows = tree(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", display=True).findall(".//mtr")
    assert [[cell.get("columnalign") for cell in row] for row in rows] == [["right", "left"]] * 2


def test_a_named_function_is_upright_and_apart_from_what_it_is_applied_to():
    row = list(tree(r"\log x"))
    assert [element.tag for element in row] == ["mi", "mspace", "mi"]
    assert [element.tag for element in tree(r"\operatorname{gelu}(x)")][:2] == ["mi", "mo"]


def test_a_sign_is_not_a_difference():
    minus = [element for element in tree("a = -1").iter() if element.text == "−"]
    assert [element.get("form") for element in minus] == ["prefix"]
    assert all(element.get("form") is None for element in tree("a - 1").iter())


@pytest.mark.parametrize("latex, sign", [(r"-\infty", "∞"), (r"\partial L / \partial A", "∂")])
def test_infinity_and_the_sign_of_a_derivative_have_no_space_around_them(latex, sign):
    found = [element for element in tree(latex).iter() if element.text == sign]
    assert found and all(element.get("lspace") == element.get("rspace") == "0" for element in found)


def test_capital_greek_letters_are_upright():
    assert [element.get("mathvariant") for element in tree(r"\Delta\delta")] == ["normal", None]


@pytest.mark.parametrize(
    "latex, named", [(r"x + \attention{y}", r"\\attention"), (r"a & b", "a & b"), (r"\frac{1", "braces")]
)
def test_an_unknown_command_is_named(latex, named):
    with pytest.raises(mathematics.FormulaError) as caught:
        mathematics.mathml(latex)
    assert named in str(caught.value)


def test_a_line_does_not_begin_with_the_comma_after_a_formula():
    page = utils.new_document("")
    formula, alone = nodes.math("", "p^2"), nodes.math("", "q")
    row = nodes.paragraph("", "", nodes.Text("It grows ("), formula, nodes.Text("), and "), alone, nodes.Text(" wins."))
    page += row
    for builder in ("latex", "html"):  # the first is to change nothing
        assert page.astext() == "It grows (p^2), and q wins."
        mathematics.keep_together(SimpleNamespace(builder=SimpleNamespace(format=builder)), page, "page")

    class Writer:
        body, encode = [], staticmethod(str)

    for node in (formula, alone):
        with pytest.raises(nodes.SkipNode):
            mathematics.visit(Writer, node)
    kept, free = Writer.body
    assert re.fullmatch(r'<span class="unbroken">\(<span class="math .*</span>\),</span>', kept)
    assert "unbroken" not in free
    assert [str(part) for part in row if isinstance(part, nodes.Text)] == ["It grows ", " and ", " wins."]


def test_every_formula_of_the_course_can_be_set():
    found = 0
    for stem in catalog.chapters():
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", catalog.chapter_path(stem).read_text("utf-8"), flags=re.S | re.M)
        for display, inline in re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+)\$", prose, re.DOTALL):
            mathematics.mathml(display or inline, bool(display))
            found += 1
    assert found > 300


def test_a_shape_stays_on_one_line_in_the_text_and_as_code():
    document = utils.new_document("toy.md")
    code, block = nodes.literal("", "(2, 3, 4)"), nodes.literal_block("", "f(1, 2)")
    document += [nodes.paragraph("", "It is (1, 7, 64), or (..., d), (if, so, what).", code), block]
    mathematics.keep_shapes_whole(None, document, "toy")
    assert [node.astext() for node in document.findall(nodes.inline)] == ["(1, 7, 64)", "(..., d)"]
    assert code["classes"] == ["unbroken"] and block.astext() == "f(1, 2)"
    assert document[0].astext() == "It is (1, 7, 64), or (..., d), (if, so, what).(2, 3, 4)"


def test_a_name_has_space_before_it_only_after_the_bar_that_ends_a_length():
    assert tags(r"|a|\cos b") == ["math", "mo", "mi", "mo", "mspace", "mi", "mspace", "mi"]
    assert "mspace" not in tags(r"|\cos(b)|")
