"""Rules for classes that no page has are dropped, and no others."""

import pytest
import tinycss2

from book.site import theme_styles

WORDS = {"used", "also-used", "main"}


@pytest.mark.parametrize(
    "before, after",
    [
        (".used{color:red}", ".used{color:red}"),
        (".gone{color:red}", ""),
        (".used .gone{color:red}", ""),
        (".used,.gone,p{color:red}", ".used,p{color:red}"),
        (".used.also-used>p:hover{color:red}", ".used.also-used>p:hover{color:red}"),
        (".used:not(.gone){color:red}", ".used:not(.gone){color:red}"),
        (".used:is(.gone,p){color:red}", ".used:is(.gone,p){color:red}"),
        ("p[class~=gone]{color:red}", "p[class~=gone]{color:red}"),
        ("@media print{.gone{color:red}.used{color:red}}", "@media print{.used{color:red}}"),
        ("@media print{.gone{color:red}}", ""),
        ("@supports (x:y){@media print{.gone{a:b}}}", ""),
        ("@font-face{font-family:a;src:url(a.woff2)}", "@font-face{font-family:a;src:url(a.woff2)}"),
        ("@keyframes a{from{opacity:.5}to{opacity:1}}", "@keyframes a{from{opacity:.5}to{opacity:1}}"),
        (":root{--a:.gone}", ":root{--a:.gone}"),
        ("p{margin:.5em}", "p{margin:.5em}"),
    ],
)
def test_a_rule_stays_if_its_classes_are_words_of_the_site(before, after):
    rules = tinycss2.parse_stylesheet(before, skip_comments=True, skip_whitespace=True)
    assert tinycss2.serialize(theme_styles.used(rules, WORDS)).strip() == after


class App:
    """As much of Sphinx as the step needs."""

    class builder:
        format = "html"

    def __init__(self, folder):
        self.outdir = folder


def test_a_class_that_only_a_script_sets_counts(tmp_path):
    styles = tmp_path / "_static" / "styles"
    styles.mkdir(parents=True)
    (tmp_path / "index.html").write_text('<p class="one">', "utf-8")
    (tmp_path / "_static" / "a.js").write_text('node.classList.add("two")', "utf-8")
    (styles / "theme.css").write_text(".one{a:b}.two{a:b}.three{a:b}", "utf-8")
    (tmp_path / "_static" / "book.css").write_text(".three{a:b}", "utf-8")
    theme_styles.drop_unused(App(tmp_path), None)
    assert (styles / "theme.css").read_text("utf-8") == ".one{a:b}.two{a:b}"
    assert (tmp_path / "_static" / "book.css").read_text("utf-8") == ".three{a:b}"  # our own is as we wrote it


def test_the_arrow_of_a_tooltip_stays(tmp_path):
    (tmp_path / "_static" / "styles").mkdir(parents=True)
    sheet = tmp_path / "_static" / "styles" / "theme.css"
    (tmp_path / "index.html").write_text('<button data-bs-toggle="tooltip">', "utf-8")
    (tmp_path / "_static" / "a.js").write_text('tip.className = "tooltip-arrow"', "utf-8")
    sheet.write_text(".bs-tooltip-auto[data-popper-placement^=top] .tooltip-arrow,.bs-tooltip-top{a:b}", "utf-8")
    theme_styles.drop_unused(App(tmp_path), None)
    assert sheet.read_text("utf-8") == ".bs-tooltip-auto[data-popper-placement^=top] .tooltip-arrow{a:b}"
