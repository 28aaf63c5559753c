"""A page of `play/` keeps what was set in its address, and shows it to whoever opens that address."""

import pytest

SLIDER = "input[type=range]:visible"


def hash_of(page):
    page.wait_for_function("location.hash.length > 1")
    return page.evaluate("location.hash")


def test_what_was_set_comes_back_from_the_address_alone(visit, addresses, open_page):
    page = visit("play/clocks")
    slider = page.locator(SLIDER).first
    slider.press("End")
    value = slider.input_value()
    address = f"{addresses['http']}/play/clocks.html{hash_of(page)}"
    other = open_page(address, reduced_motion="reduce")
    assert other.locator(SLIDER).first.input_value() == value
    assert "explained in" in other.locator("article").inner_text().lower()


@pytest.mark.parametrize(
    "edited", ["#query=1e99", "#query=%22x%22&base=null", "#_esm=1&__proto__=2", "#d_head=7", "#%%%"]
)
def test_an_edited_address_still_shows_the_picture(edited, addresses, open_page):
    page = open_page(f"{addresses['http']}/play/clocks.html{edited}", reduced_motion="reduce")
    page.locator(SLIDER).first.wait_for()


@pytest.mark.parametrize("name", ["train", "head_off", "cheating_meter", "by_hand", "clocks", "model"])
def test_a_page_has_one_picture_and_no_code(name, visit):
    page = visit(f"play/{name}")
    page.locator("[data-mounted] .aw").wait_for()
    assert page.locator(".widget-view").count() == 1 and page.locator(".cell_input").count() == 0
