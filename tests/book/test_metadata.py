"""Metadata of pages: true, short, and with absolute addresses or none."""

import re
from html import unescape
from types import SimpleNamespace

import pytest
from docutils import nodes
from PIL import Image

from book.pages import metadata
from course.folder import ROOT


def meta(page):
    found = re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)"', page)
    return {key: unescape(text) for key, text in found}


def test_a_page_has_a_title_and_a_description_of_its_own(toy_site):
    said = meta((toy_site / "chapters/toy.html").read_text("utf-8"))
    assert said["og:title"] == "1. Toy: adding one"
    assert said["description"] == said["og:description"] != meta((toy_site / "index.html").read_text())["description"]
    assert said["og:site_name"] == "Attention" and said["og:type"] == "article"


def test_without_an_address_of_the_site_no_address_is_given(toy_site):
    page = (toy_site / "chapters/toy.html").read_text("utf-8")
    assert not {"og:url", "og:image"} & set(meta(page)) and 'rel="canonical"' not in page
    assert not (toy_site / "_static" / metadata.PICTURE).exists()
    assert meta(page)["twitter:card"] == "summary"


def test_language_icon_and_colors_are_given_and_nothing_twice(toy_site):
    page = (toy_site / "index.html").read_text("utf-8")
    assert '<html lang="en"' in page and re.search(r'<link rel="icon" href="[^"]+\.svg"', page)
    assert page.count('name="theme-color"') == 2 and page.count('name="viewport"') == 1
    assert page.count('name="description"') == 1


def document(*paragraphs):
    section = nodes.section("", nodes.title("", "T"), *(nodes.paragraph("", "", *p) for p in paragraphs))
    return nodes.section("", section)


def test_a_description_is_made_of_the_first_words_without_formulas_and_ends_at_a_word():
    text = metadata.description(document([nodes.math("", "x^2")], [nodes.Text("one two " * 50)], [nodes.Text("later")]))
    assert text.startswith("one two") and text.endswith("…") and "later" not in text
    assert len(text) <= metadata.LONGEST and set(text.strip("…").split()) == {"one", "two"}


def test_a_short_beginning_is_filled_up():
    two = document([nodes.Text("Two scores.")], [nodes.Text("Which\nwins?")])
    assert metadata.description(two) == "Two scores. Which wins?"


@pytest.mark.parametrize("address", ["example.org", "https://", "javascript:alert(1)", 'https://a/"><b>'])
def test_an_invalid_address_is_named(address):
    with pytest.raises(SystemExit, match="html.baseurl must be an address"):
        metadata.base_url(SimpleNamespace(html_baseurl=address))


def test_the_picture_has_the_size_that_is_said():
    header = (ROOT / "book" / "images" / metadata.PICTURE).read_bytes()[:24]
    assert (int.from_bytes(header[16:20]), int.from_bytes(header[20:24])) == metadata.PICTURE_SIZE


def test_each_page_that_is_shared_has_a_picture_of_its_own(tmp_path):
    folder = ROOT / metadata.SHARED
    pages = metadata.shared_pages()
    assert {f"{page.rpartition('/')[2]}.png" for page in pages} == {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        assert Image.open(path).size == metadata.PICTURE_SIZE and path.stat().st_size < 60_000, path.name
    app = SimpleNamespace(srcdir=ROOT)
    assert [
        metadata.picture_of(app, page) for page in ("chapters/rope", "play/clocks", "index", "guides/students")
    ] == [
        "share/rope.png",
        "share/clocks.png",
        metadata.PICTURE,
        metadata.PICTURE,
    ]
