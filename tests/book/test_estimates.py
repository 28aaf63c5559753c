"""Minutes and difficulty, where a reader decides what to do next."""

import re

import pytest

from course import catalog, effort
from course.folder import ROOT

pytestmark = pytest.mark.slow


def test_a_chapter_says_how_long_it_takes_and_so_does_each_of_its_exercises(toy_site):
    page = (toy_site / "chapters/toy.html").read_text("utf-8")
    assert '<p class="effort">About 5 minutes to read, 3 for its exercises (estimates)</p>' in page
    dots = '<span aria-hidden="true">●○○</span>'
    assert f'<span class="effort">Estimate: 3 minutes, easy {dots}</span>' in page
    assert page.index("About 5 minutes") < page.index("download the notebook")
    assert page.index('id="exercise-add_one"') < page.index("NotImplementedError")


def test_so_does_the_list_on_the_first_page_and_its_link_to_the_bundle_gives_the_size(toy_site):
    page = (toy_site / "index.html").read_text("utf-8")
    assert re.search(r"toy\.html.*?Toy: adding one.*?\(about 5 minutes to read, 3 for its exercises\)", page, re.DOTALL)
    size = (toy_site / "notebooks/attention-course.zip").stat().st_size
    for name, words in (("index", "all of it"), ("chapters/toy", "All chapters in one folder")):
        assert f"{words}</a> (zip, {size / 1e6:.1f} MB)" in (toy_site / f"{name}.html").read_text("utf-8")


def test_chapters_are_numbered_in_title_sidebar_and_window_but_sections_are_not(toy_site):
    page, index = ((toy_site / f"{name}.html").read_text("utf-8") for name in ("chapters/toy", "index"))
    assert re.search(r"<title>\s*1\. Toy: adding one &#8212; Attention\s*</title>", page)
    assert re.findall(r'<span class="section-number">(.*?)</span>', page) == ["1. "]
    assert re.search(r'toctree-l1.*?href="chapters/toy.html">1\. Toy', index, re.DOTALL)
    (after,) = re.findall(r'<p class="prev-next-title">(.*?)</p>', index)
    assert re.sub("<[^>]*>", "", after) == "1. Toy: adding one"
    assert "<title>Attention, from the dot product to a running language model</title>" in index


def test_the_first_page_lists_the_chapters_in_order_and_states_the_rule():
    text = (ROOT / "index.md").read_text("utf-8")
    listed = re.findall(r"^(\d+)\. \{doc\}`chapters/(\w+)`", text, re.MULTILINE)
    assert listed == [(str(number), stem) for number, stem in enumerate(catalog.chapters(), 1)]
    assert f"{effort.WORDS} words or {effort.LINES} lines of code per minute" in text
