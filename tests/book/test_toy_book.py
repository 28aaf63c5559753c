"""The built site, as files and in a browser: over http, in a subfolder, and from the file system."""

import random
import re
import shutil

import nbformat
import pytest
import toy

from book import leaks, page_weight
from tests.conftest import Watched, new_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["http", "subfolder", "file"])
def opened(request, toy_site, serve, browser):
    """The chapter's page, opened once for each way, for all tests that look at it."""
    address = {
        "http": lambda: serve(toy_site),
        "subfolder": lambda: f"{serve(toy_site.parent)}/{toy_site.name}",
        "file": toy_site.as_uri,
    }[request.param]()
    seen = Watched(new_page(browser, viewport={"width": 1280, "height": 900}))
    seen.page.goto(f"{address}/chapters/toy.html")
    yield seen
    seen.page.context.close()


@pytest.fixture
def chapter_page(opened):
    yield opened
    try:
        opened.assert_clean()
    finally:  # the next test is not to answer for this one
        opened.forget()


# files


def test_the_reference_ran_and_is_not_on_the_page(toy_site):
    page = (toy_site / "chapters/toy.html").read_text()
    assert "one more than 41 is 42" in page
    assert "from solutions" not in re.sub("<[^>]*>", "", page)


def test_no_answer_is_in_the_built_site(toy_book):
    assert list(leaks.scan([toy_book / "_build/html"], leaks.answers(toy_book))) == []


def test_no_source_of_a_page_is_published(toy_site):
    assert not (toy_site / "_sources").exists()


def test_the_student_notebook_is_offered_and_is_there(toy_site):
    page = (toy_site / "chapters/toy.html").read_text()
    assert '<a href="../notebooks/toy.ipynb" download="toy.ipynb">' in page
    notebook = nbformat.read(toy_site / "notebooks/toy.ipynb", as_version=4)
    assert any("raise NotImplementedError" in cell.source for cell in notebook.cells)


def test_a_page_loads_what_it_uses(toy_site):
    chapter, index, search = ((toy_site / f"{name}.html").read_text() for name in ("chapters/toy", "index", "search"))
    assert "host.js" in chapter and "copybutton.js" in chapter
    for unused in ("fontawesome.js", "searchindex.js", "design-tabs.js"):
        assert unused not in chapter + index
    assert "host.js" not in index and "clipboard" not in index
    assert "searchindex.js" in search


def test_no_script_or_style_comes_from_another_host(toy_site):
    for page in toy_site.rglob("*.html"):
        assert re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//[^\"]+", page.read_text()) == []


def test_no_path_of_the_building_machine_is_published(toy_book, toy_site):
    for path in [*toy_site.rglob("*.html"), *toy_site.rglob("*.ipynb")]:
        assert str(toy_book) not in path.read_text()


def test_without_scripts_the_quiz_answer_is_readable(toy_site, watched):
    seen = watched(java_script_enabled=False)
    seen.page.goto(f"{toy_site.as_uri()}/chapters/toy.html")
    seen.page.get_by_text("Show the answer").click()
    assert seen.page.locator(".quiz-answers [data-right=true]").is_visible()


# browser


@pytest.mark.browser
def test_a_widget_mounts_and_its_views_stay_in_step(chapter_page):
    buttons = chapter_page.page.locator("[data-widget=counter]")
    buttons.nth(1).scroll_into_view_if_needed()
    buttons.nth(0).scroll_into_view_if_needed()
    assert buttons.all_inner_texts() == ["count 7, bytes 1,2,250"] * 2
    buttons.nth(0).click()
    assert buttons.all_inner_texts() == ["count 8, bytes 1,2,250"] * 2


@pytest.mark.browser
def test_a_widget_is_initialised_and_styled_once_and_has_room_reserved(chapter_page):
    page = chapter_page.page
    page.locator("[data-widget=counter]").first.wait_for()
    assert page.evaluate("document.documentElement.dataset.initialized") == "7"
    assert (
        page.evaluate(
            "[...document.head.querySelectorAll('style')]"
            ".filter((s) => s.textContent.includes('data-widget=counter')).length"
        )
        == 1
    )
    assert page.locator(".widget-view").first.bounding_box()["height"] >= 240


@pytest.mark.browser
def test_a_quiz_is_answered_with_the_keyboard(chapter_page):
    page = chapter_page.page
    first = page.locator("fieldset.quiz input").first
    first.focus()
    page.keyboard.press("Space")
    result = page.locator(".quiz-result")
    assert result.inner_text().startswith("Not this one. That is the number itself.")
    page.keyboard.press("ArrowDown")
    assert result.inner_text().startswith("Right. Yes, 2 + 1.")
    assert result.get_attribute("aria-live") == "polite"


@pytest.mark.browser
def test_mathematics_is_drawn_in_the_sites_own_font(chapter_page):
    page = chapter_page.page
    assert page.locator("math").count() >= 3
    assert page.locator("math").first.bounding_box()["width"] > 5
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px \"Book Mathematics\"', '𝑥'))")


@pytest.mark.browser
def test_a_hint_opens_without_scripts(toy_site, watched):
    seen = watched(java_script_enabled=False)
    seen.page.goto(f"{toy_site.as_uri()}/chapters/toy.html")
    seen.page.get_by_text("Hint 1").click()
    assert seen.page.get_by_text("Think of the number after it.").is_visible()


@pytest.mark.browser
def test_the_notebook_link_downloads_the_notebook(toy_site, serve, watched):
    seen = watched(accept_downloads=True)
    seen.page.goto(f"{serve(toy_site)}/chapters/toy.html")
    with seen.page.expect_download() as download:
        seen.page.get_by_text("download the notebook").click()
    assert download.value.suggested_filename == "toy.ipynb"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(toy_site, watched, scheme):
    seen = watched(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    seen.page.goto(f"{toy_site.as_uri()}/chapters/toy.html")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.page.evaluate("document.documentElement.dataset.theme") == scheme


@pytest.mark.browser
@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_on_a_phone_the_keyboard_opens_a_menu_and_closes_it(toy_site, watched, side):
    page = watched(viewport={"width": 390, "height": 844}).page
    page.goto(f"{toy_site.as_uri()}/chapters/toy.html")
    button, menu = page.locator(f".{side}-toggle:visible"), page.locator(f"#pst-{side}-sidebar-modal")
    button.press("Enter")
    menu.get_by_role("link").first.wait_for()
    page.keyboard.press("Escape")
    menu.wait_for(state="hidden")
    page.wait_for_function("document.activeElement.matches('.sidebar-toggle')")
    assert button.evaluate("button => button === document.activeElement")


@pytest.mark.browser
def test_a_section_chosen_in_a_menu_is_seen(toy_site, watched):
    page = watched(viewport={"width": 390, "height": 844}).page
    page.goto(f"{toy_site.as_uri()}/chapters/toy.html")
    page.locator(".secondary-toggle:visible").click()
    menu = page.locator("#pst-secondary-sidebar-modal")
    menu.get_by_role("link").first.click()
    menu.wait_for(state="hidden")
    assert "#" in page.url


@pytest.mark.browser
def test_on_a_laptop_the_sidebar_is_put_away_and_comes_back(chapter_page):
    page = chapter_page.page
    button, sidebar = page.locator(".primary-toggle:visible"), page.locator("#pst-primary-sidebar")
    button.press("Enter")
    sidebar.wait_for(state="hidden")
    page.wait_for_function("document.activeElement.matches('.primary-toggle')")
    page.keyboard.press("Enter")
    sidebar.wait_for(state="visible")


# builds that must stop


def broken(tmp_path, noise=0, **texts):
    root = toy.make(tmp_path, **texts)
    if noise:
        (root / "noise.png").write_bytes(random.Random(1).randbytes(noise))
    done = toy.build(root)
    return root, done.returncode, done.stdout + done.stderr


def test_a_planted_answer_stops_the_build_and_too_heavy_a_page_is_a_warning(tmp_path):
    _, status, log = broken(
        tmp_path,
        noise=page_weight.BUDGET,
        **{
            "index.md": "# Heavy\n\n![noise](noise.png)\n",
            "chapters/toy.md": toy.CHAPTER.replace("The end.", "The end. One could write `successor_of_x = x + 1`."),
        },
    )
    assert status != 0
    assert "chapters/toy.html: leaks solutions/toy.py:6" in log
    assert "WARNING: index.html transfers" in log and "heaviest files: _images/noise.png 500,000, " in log


def test_a_failing_reference_stops_the_build_and_prints_no_source(tmp_path):
    secret = "    if x == 41:\n        return [][int(x * 0 + 7 * 3)]\n    return x + 1\n"
    root, status, log = broken(
        tmp_path, **{"solutions/toy.py": 'def add_one(x):\n    """One more than x."""\n' + secret}
    )
    assert status != 0
    assert "the reference of add_one (solutions/toy.py) failed: IndexError: list index out of range" in log
    assert "7 * 3" not in log
    report = root / "_build/html/reports/chapters/toy.err.log"
    assert report.read_text() == (
        "the reference of add_one (solutions/toy.py) failed: IndexError: list index out of range\n"
    )


def test_a_missing_reference_is_one_clear_line(tmp_path):
    _, status, log = broken(tmp_path, **{"solutions/toy.py": "def add_two(x):\n    return x + 2\n"})
    assert status != 0
    assert "add_one" in log


def test_a_second_build_runs_nothing_and_a_changed_reference_runs_again(toy_book, tmp_path):
    root = tmp_path / "again"
    shutil.copytree(toy_book, root)
    assert "Executing notebook" not in toy.build(root).stdout
    solution = root / "solutions/toy.py"
    solution.write_text(solution.read_text() + "\n# changed\n")
    assert "Executing notebook" in toy.build(root).stdout
