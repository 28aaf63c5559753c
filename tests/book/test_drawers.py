"""A hidden output and its explanation are one drawer, named by the question."""

from urllib.parse import urlsplit

import pytest
from bs4 import BeautifulSoup

from course import catalog


@pytest.mark.parametrize("stem", ["softmax", "masks"])
def test_each_hidden_output_is_in_a_drawer_that_names_its_question(stem, site):
    page = BeautifulSoup((site / "chapters" / f"{stem}.html").read_text("utf-8"), "html.parser")
    drawers = page.select("details.reveal")
    assert len(drawers) == catalog.chapter_path(stem).read_text("utf-8").count("hide-output")
    for drawer in drawers:
        assert drawer.summary.get_text().strip().endswith("?")
        assert drawer.select_one(".cell_output") and drawer.select_one("p")
        assert not drawer.find_parent("details")
    assert not page.select("details.below-input"), "no output is left in a drawer of its own"


def test_what_a_drawer_holds_is_seen_when_it_opens(visit):
    page = visit("chapters/masks")
    assert urlsplit(page.url).path.endswith("masks.html")
    drawer = page.locator("details.reveal").first
    inside = drawer.locator(".cell_output").first
    assert not inside.is_visible()
    drawer.locator("> summary").press("Enter")
    assert inside.is_visible()
