"""The built toy site, as files and in a browser. What every page keeps to is tested on the course's own book."""

import random
import re

import pytest
import toy

from book.site import page_weight
from tests.book.pages import WIDTHS

pytestmark = pytest.mark.slow


# files


def test_the_reference_ran_and_is_not_on_the_page(toy_site):
    page = (toy_site / "chapters/toy.html").read_text()
    assert "one more than 41 is 42" in page
    assert "from solutions" not in re.sub("<[^>]*>", "", page)


def test_a_page_loads_what_it_uses(toy_site):
    chapter, index, search = ((toy_site / f"{name}.html").read_text() for name in ("chapters/toy", "index", "search"))
    assert "host.js" in chapter and "copybutton.js" in chapter
    for unused in ("fontawesome.js", "searchindex.js", "design-tabs.js"):
        assert unused not in chapter + index + search
    assert "host.js" not in index and "clipboard" not in index
    assert "search.js" in search and "search.js" not in chapter + index and "hero.js" not in index


def test_no_source_of_a_page_and_no_path_of_the_building_machine_is_published(toy_book, toy_site):
    assert not (toy_site / "_sources").exists()
    for path in [*toy_site.rglob("*.html"), *toy_site.rglob("*.ipynb")]:
        assert str(toy_book) not in path.read_text()


# browser


def test_without_scripts_a_hint_opens_an_answer_is_readable_and_no_bar_stands_still(toy_site, open_page):
    page = open_page(f"{toy_site.as_uri()}/chapters/toy.html", java_script_enabled=False)
    page.get_by_text("The cell to fill in, and a hint").click()
    page.get_by_text("Hint 1").click()
    assert page.get_by_text("Think of the number after it.").is_visible()
    page.get_by_text("Show the answer").click()
    assert page.locator(".quiz-answers [data-right=true]").is_visible()
    assert not page.locator(".chapter-progress").is_visible()
    assert not page.locator(".exercise-done").is_visible()


@pytest.mark.parametrize("way", ["in a subfolder", "file"])
def test_two_views_of_a_widget_stay_in_step_and_it_is_initialised_and_styled_once(toy_site, serve, open_page, way):
    address = toy_site.as_uri() if way == "file" else f"{serve(toy_site.parent)}/{toy_site.name}"
    page = open_page(f"{address}/chapters/toy.html")
    buttons = page.locator("[data-widget=counter]")
    for view in page.locator(".widget-view").all():
        view.scroll_into_view_if_needed()
        view.locator("[data-widget]").wait_for()
        assert view.bounding_box()["height"] >= 240
    assert buttons.all_inner_texts() == ["count 7, bytes 1,2,250"] * 2
    buttons.nth(0).click()
    assert buttons.all_inner_texts() == ["count 8, bytes 1,2,250"] * 2
    assert page.evaluate("document.documentElement.dataset.initialized") == "7"
    styles = page.locator("head style").evaluate_all("all => all.map((style) => style.textContent)")
    assert sum("data-widget=counter" in style for style in styles) == 1


def test_on_a_phone_the_keyboard_opens_and_closes_menus_and_shows_a_chosen_section(toy_site, open_page):
    page = open_page(f"{toy_site.as_uri()}/chapters/toy.html", viewport=WIDTHS["phone"])
    for side in ("primary", "secondary"):
        button, menu = page.locator(f".{side}-toggle:visible"), page.locator(f"#pst-{side}-sidebar-modal")
        button.press("Enter")
        menu.get_by_role("link").first.wait_for()
        page.keyboard.press("Escape")
        menu.wait_for(state="hidden")
        page.wait_for_function("document.activeElement.matches('.sidebar-toggle')")
        assert button.evaluate("button => button === document.activeElement")
    button.click()
    menu.get_by_role("link").first.click()
    menu.wait_for(state="hidden")
    assert "#" in page.url


def test_on_a_laptop_the_sidebar_is_put_away_and_comes_back(toy_page):
    page = toy_page
    button, sidebar = page.locator(".primary-toggle:visible"), page.locator("#pst-primary-sidebar")
    button.press("Enter")
    sidebar.wait_for(state="hidden")
    page.wait_for_function("document.activeElement.matches('.primary-toggle')")
    page.keyboard.press("Enter")
    sidebar.wait_for(state="visible")


# builds that must stop


def test_a_planted_answer_stops_the_build_and_too_heavy_a_page_is_a_warning(again):
    noise = random.Random(1).randbytes(page_weight.BUDGET).hex(" ", 1000)
    (again / "index.md").write_text(f"# Heavy\n\n{noise}\n")
    planted = toy.CHAPTER.replace("The end.", "The end. One could write `successor_of_x = x + 1`.")
    (again / "chapters/toy.md").write_text(planted)
    log = toy.build(again, works=False)
    assert "chapters/toy.html: leaks solutions/toy.py:6" in log
    assert "WARNING: index.html transfers" in log and "The heaviest files: index.html " in log


@pytest.mark.long
def test_a_second_build_runs_only_a_changed_reference_and_prints_no_source_if_it_fails(again):
    assert "Executing notebook" not in toy.build(again)
    secret = "    if x == 41:\n        return [][int(x * 0 + 7 * 3)]\n    return x + 1\n"
    (again / "solutions/toy.py").write_text('def add_one(x):\n    """One more than x."""\n' + secret)
    log = toy.build(again, works=False)
    assert "Executing notebook" in log
    said = "the reference of add_one (solutions/toy.py) failed: IndexError: list index out of range\n"
    assert said in log and "7 * 3" not in log
    assert (again / "_build/html/reports/chapters/toy.err.log").read_text() == said
