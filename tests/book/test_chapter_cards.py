"""The first page shows a chapter's own still beside its title, and loads it late."""

from types import SimpleNamespace

import pytest

from attnlab.widgets import LivingPicture
from book.pages import slim_pages
from book.site import chapter_cards
from tests.conftest import write_files

ENTRY = (
    '<li><p><a class="reference internal" href="chapters/{}.html"><span class="doc">T</span></a>: what it is</p></li>'
)
STILL = '<noscript><img width="6" height="3" loading="lazy" alt="{}" src="../_images/{}.png" /></noscript>'


@pytest.fixture
def site(tmp_path):
    alt = slim_pages.said_of(LivingPicture)
    return write_files(
        tmp_path,
        {
            "index.html": f"<ol>{ENTRY.format('one')}{ENTRY.format('two')}{ENTRY.format('none')}</ol>",
            "chapters/one.html": STILL.format("Another picture.", "x") + STILL.format(alt, "a"),
            "chapters/two.html": STILL.format("Another picture.", "y"),
        },
    )


def cards(site):
    app = SimpleNamespace(outdir=site, builder=SimpleNamespace(format="html"), config=SimpleNamespace(root_doc="index"))
    chapter_cards.add(app, None)
    return (site / "index.html").read_text()


def test_a_chapter_with_a_living_picture_gets_its_still_and_the_others_none(site):
    still = '<img class="chapter-still" width="6" height="3" loading="lazy" alt="" src="_images/a.png" />'
    first, rest = ENTRY.format("one"), ENTRY.format("two") + ENTRY.format("none")
    assert cards(site) == f"<ol>{first.replace('<span', still + '<span')}{rest}</ol>"


def test_a_second_build_replaces_the_still(site):
    first = cards(site)
    assert cards(site) == first
    page = site / "chapters/one.html"
    page.write_text(page.read_text().replace("/a.png", "/b.png"))
    assert cards(site) == first.replace("/a.png", "/b.png")
