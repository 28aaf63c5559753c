"""The course's own book, built once: every page over http and from the file system, with all its controls."""

from __future__ import annotations

import io
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import nbformat
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from PIL import Image

from book import leaks
from book.site import fonts, page_weight
from course import catalog, cells, release
from course.folder import ROOT
from scripts.browsers import PRESSES
from tests.attnlab.widget_page import assert_agrees
from tests.book.pages import (
    CHAPTERS,
    COLORS,
    OTHERS,
    PAGES,
    TOC,
    WIDTH,
    WIDTHS,
    begin,
    findings,
    in_theme,
    nothing_went_wrong,
    views,
)
from tests.book.plays import SAVED, expected
from tests.conftest import new_page

pytestmark = pytest.mark.slow

LAPTOP, PHONE = BOTH_WAYS = [("http", "laptop"), ("file", "phone")]
TO_THE_END = 400_000  # bytes that a chapter may transfer with all of its widgets and pictures
JUMP = 60  # pixels that the text below a widget may move when the widget is drawn


@pytest.fixture(scope="module")
def reading(request, addresses, browser):
    """A page of the book, opened once for all tests that look at it in the same way: pytest puts them together."""
    page, scheme, screen = request.param
    empty = new_page(browser, viewport=WIDTHS[screen], reduced_motion="reduce")
    seen = begin(empty, f"{addresses[scheme]}/{page}.html")
    yield seen
    seen.page.context.close()


@pytest.fixture
def page(reading):
    """The page that is open; nothing may go wrong on it. A test may use it, and must not change its look."""
    yield reading.page
    try:
        nothing_went_wrong(reading)
    finally:  # the next test is not to answer for this one
        reading.forget()
        reading.failed.clear()


def on(pages, *ways):
    """Run a test on the open `page`, for each of these pages and ways."""
    return opened((page, *way) for page in pages for way in ways)


def opened(readings):
    """Those on a phone are CI's: the tests of each widget and of the toy book look at that width too."""
    marked = [
        pytest.param(one, marks=pytest.mark.long if one[1:] == PHONE else (), id="-".join(one)) for one in readings
    ]
    return pytest.mark.parametrize("reading", marked, indirect=True)


# Files


def test_every_page_is_there(site):
    assert [page for page in PAGES if not (site / f"{page}.html").is_file()] == []


def test_no_part_has_the_name_of_one_of_its_pages():
    for part in TOC["parts"]:
        texts = [(ROOT / f"{page['file']}.md").read_text("utf-8") for page in part["chapters"]]
        assert f"# {part['caption']}" not in "\n".join(texts).splitlines()


@pytest.mark.weekly  # each build looks for answers, too
def test_no_answer_is_published(site):
    assert list(leaks.scan([site], leaks.answers())) == []


# Every page


@on(PAGES, *BOTH_WAYS)
def test_a_page_is_whole_and_axe_finds_nothing_on_it(page):
    """No error, no request elsewhere, nothing wider than the screen, each widget alive: in the dark and in the light.

    All rules of WCAG 2.2 up to AA and the best practices, unfolded. Colors in both themes, on the wide page.
    """
    wanted = page.locator("script[type='application/vnd.jupyter.widget-view+json']").count()
    assert len(list(views(page))) == wanted == page.locator("[data-mounted=true] [data-widget]").count()
    wide = page.viewport_size == WIDTHS["laptop"]
    for theme in ("dark", "light"):  # and as it was
        in_theme(page, theme)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert not wide or findings(page, dict(runOnly=COLORS)) == []
    assert findings(page, OTHERS if wide or "/chapters/" not in page.url else dict(runOnly=WIDTH)) == []


@on(CHAPTERS[:-1], LAPTOP)  # the last has a widget and tables alone
def test_figures_have_the_pages_background_in_light_and_in_dark(page):
    """They have no ground of their own; what is drawn is darker than what is behind it, or lighter in the dark."""
    figure, grounds = page.locator(".cell_output img").first, []
    folded = figure.evaluate_handle("(node) => node.closest('details:not([open])')")
    folded.evaluate("(box) => box && (box.open = true)")
    for theme in ("dark", "light"):  # and as it was
        in_theme(page, theme)
        figure.scroll_into_view_if_needed()
        gray = np.asarray(Image.open(io.BytesIO(figure.screenshot())).convert("L"), dtype=float)
        ground = gray[1, 1]
        drawn = gray[abs(gray - ground) > 40]
        assert len(drawn) and (drawn < ground).all() == (theme == "light") != (drawn > ground).all()
        grounds.append(ground)
    folded.evaluate("(box) => box && (box.open = false)")
    assert grounds[1] - grounds[0] > 150


# Controls of a widget that a screen reader does not see as controls, or that show no ring when the keyboard gets there.
RINGLESS = """(root) => [...root.querySelectorAll("button, select, input, a[href], [tabindex]:not([tabindex='-1'])")]
  .filter((node) => node.checkVisibility() && !node.disabled)
  .filter((node) => {
    node.focus();
    const rings = [node, ...node.querySelectorAll("*"), node.closest("label")].filter(Boolean).map(getComputedStyle);
    const drawn = node.querySelector(".dp-ring");  // the tip of an arrow has a round one
    const ring = drawn ? getComputedStyle(drawn).opacity === "1"
      : rings.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1.5);
    const native = node.matches("button, select, input, a[href]");
    return !(ring && node.matches(":focus-visible") && (native || node.getAttribute("role")));
  }).map((node) => node.outerHTML.slice(0, 150))"""


@on(CHAPTERS, LAPTOP)
def test_every_control_of_every_widget_has_a_role_and_shows_when_the_keyboard_is_there(page):
    page.keyboard.press("Tab")  # from now on the browser shows where it is
    for view in views(page):
        assert view.evaluate(RINGLESS) == []
    page.evaluate("document.activeElement.blur()")  # some widgets show more where the keyboard is


@on(PAGES, LAPTOP)
def test_every_formula_is_drawn_and_nothing_of_it_is_cut_off(page):
    assert page.locator("math").count() == page.locator(".math").count()
    assert page.locator(".math code").count() == 0  # a formula that could not be set
    sizes = page.locator("math:visible").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert all(width > 3 for width in sizes)
    cut = page.evaluate("""[...document.querySelectorAll("div.math")].filter((box) =>
      box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight).map((box) => box.textContent)""")
    assert cut == []


def test_every_link_leads_somewhere_in_the_book_or_is_a_sound_address(site):
    known, broken = {}, []
    for page in PAGES:
        text = (site / f"{page}.html").read_text("utf-8")
        broken += re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//[^\"]+", text)  # another host's
        for link in set(re.findall(r'<a[^>]+href="([^"]+)"', text)):
            path, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link):
                if not re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"]*)?", link):
                    broken.append(f"{page}: {link}")
                continue
            target = (site / page).parent / path if path else site / f"{page}.html"
            if target not in known:
                known[target] = target.read_text("utf-8", "replace") if target.is_file() else None
            if known[target] is None or place and f'id="{place}"' not in known[target]:
                broken.append(f"{page}: {link}")
    assert broken == []


def test_the_bibliography_has_the_labels_of_the_text_and_no_tex(site):
    text = (site / "bibliography.html").read_text("utf-8")
    labels = re.findall(r'<span class="label"><span class="fn-bracket">\[</span>(.*?)<span', text)
    assert len(labels) > 50 and all(re.fullmatch(r".+, \d{4}[a-z]?", label) for label in labels)
    assert "Rabe and Staats, 2021" in labels and "$" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for page in CHAPTERS:
        link = r'<a [^>]*href="../bibliography\.html#[^"]*" title="([^"]*)">(.*?)</a>'
        links = re.findall(link, (site / f"{page}.html").read_text("utf-8"))
        words = {re.sub("<[^>]*>", "", text) for _, text in links}
        assert {one for one in words if "," in one} <= {label.rstrip("ab") for label in labels}  # two of a year
        assert [title for title, _ in links if "$" in title] == []


def test_chapters_are_numbered_in_their_titles_the_sidebar_and_the_links_between_them(site):
    index = (site / "index.html").read_text("utf-8")
    for number, name in enumerate(CHAPTERS, 1):
        page = (site / f"{name}.html").read_text("utf-8")
        assert re.search(rf"<title>\s*{number}\. ", page)
        assert re.findall(r'<h(.)><span class="section-number">(.*?)</span>', page) == [("1", f"{number}. ")]
        assert re.search(rf'href="{name}\.html">\s*{number}\. ', index)
        after = re.search(r'<a class="right-next".*?</a>', page, re.DOTALL)[0]
        assert (f"{number + 1}. " in after) == (number < len(CHAPTERS))


def test_the_landing_page_has_one_button_and_two_doors(visit):
    page = visit("index")
    assert page.title() == "Attention, from the dot product to a running language model"
    for name, place in [
        ("Start chapter 1", "chapters/dot_products.html"),
        ("in notebooks", "index.html#how-to-do"),
        ("run a class", "index.html#how-to-grade"),
    ]:
        page.locator("article").get_by_role("link", name=name).click()
        page.wait_for_url(f"**/{place}")
        page.go_back()


@on(PAGES, LAPTOP)
def test_every_icon_of_a_page_is_in_the_font(page, site):
    drawn = page.evaluate("""[...document.querySelectorAll("*")].flatMap((node) => ["::before", "::after"].map((part) =>
      getComputedStyle(node, part).content)).join("")""")
    font = TTFont(site / "_static" / f"{fonts.ICONS}.woff2").getBestCmap()
    assert {icon for icon in drawn if "\ue000" <= icon <= "\uf8ff"} <= set(map(chr, font))


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_search_finds_words_the_names_of_exercises_and_terms(visit, scheme):
    """From the file system too, with Sphinx's search: its index is a script."""
    page = visit("search", scheme)
    for word, found in [
        ("temperature", "chapters/softmax"),
        ("causal_mask", "chapters/masks"),
        ("scaled_dot_product_attention", "chapters/attention"),
        ("orthogonal", "appendices/notation"),
    ]:
        field = page.locator("form.bd-search input[name=q]").last
        field.fill(word)
        field.press("Enter")
        page.wait_for_url(f"**/search.html?q={word}*")
        page.locator(f"#search-results a[href*='{found}.html']").first.wait_for()
        page.wait_for_function("!document.querySelector('#search-progress')?.textContent.includes('Searching')")


def test_a_chapter_transfers_no_more_than_the_budget(site, serve_packed, browser):
    """The heaviest chapter, then scrolled to its end: every request of a real browser, to a server that packs."""
    counted = {page: sum(page_weight.first_load(site / f"{page}.html").values()) for page in CHAPTERS}
    heaviest = max(counted, key=counted.get)
    address, sent = serve_packed(site)
    page = new_page(browser, viewport=WIDTHS["laptop"])
    page.goto(f"{address}/{heaviest}.html")
    page.locator("[data-mounted=true]").first.wait_for()
    assert {f"/{heaviest}.html", "/_static/basic.css", "/_static/fonts/text.woff2"} <= set(sent)
    # A second widget may be near the screen, and count; a font may not be needed.
    assert 0.9 * counted[heaviest] < sum(sent.values()) <= page_weight.BUDGET
    assert len(list(views(page))) > 0
    page.context.close()
    assert sum(sent.values()) < TO_THE_END


def test_the_widgets_further_down_come_when_the_reader_begins(visit):
    """So that whoever prints a page has all of them."""
    page = visit("chapters/language_model")  # its line in the sidebar is below the screen, so the theme scrolls there
    page.locator("[data-mounted=true]").first.wait_for()
    page.evaluate("new Promise((idle) => requestIdleCallback(() => requestIdleCallback(() => idle())))")
    waiting = ".widget-view:not([data-mounted])"
    assert page.locator(waiting).count() > 0 and page.locator("img[loading=lazy]").count() > 0
    page.keyboard.press("Control")
    page.wait_for_function("waiting => !document.querySelector(waiting)", arg=waiting)


@on(["appendices/languages"], PHONE)
def test_the_keyboard_goes_through_the_languages_and_every_set_of_tabs_follows(page):
    chosen = "input:checked + label"
    tabs = [(tabs, tabs.locator("label").all_inner_texts()) for tabs in page.locator(".sd-tab-set").all()]
    all_names = ["Pseudocode", "Python", "JavaScript", "C", "C++", "Java", "Go"]
    programs = [found for found, names in tabs if names == all_names]
    assert len(programs) == 5
    programs[0].locator("input").first.focus()
    for name in all_names:
        for found, names in tabs:
            assert found.locator(chosen).inner_text() == name or name not in names
        assert all(program.locator(".sd-tab-content:visible pre").count() == 1 for program in programs)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.keyboard.press("ArrowRight")


# Chapters


@on(CHAPTERS, LAPTOP)
def test_the_embedded_module_computes_what_pytorch_computes(page):
    names = [view.locator("[data-widget]").get_attribute("data-widget") for view in views(page)]
    for name, saved in zip(names, page.evaluate(SAVED), strict=True):
        assert_agrees(saved["computed"], expected(name, saved["state"]))


@on(CHAPTERS, *BOTH_WAYS)
def test_the_text_below_a_widget_does_not_jump(page):
    """The room that is reserved is the room that the widget takes, a few lines more or less."""
    for view in views(page):
        reserved, taken = view.evaluate("""(view) => {
          const parts = [view, view.firstElementChild], reserved = parseFloat(getComputedStyle(view).minHeight);
          const before = parts.map((part) => part.style.minHeight);
          for (const part of parts) part.style.minHeight = "0";
          const taken = view.getBoundingClientRect().height;
          parts.forEach((part, i) => (part.style.minHeight = before[i]));
          return [reserved, taken];
        }""")
        assert abs(reserved - taken) < JUMP, view.locator("[data-widget]").get_attribute("data-widget")


@opened((page, *BOTH_WAYS[i % 2]) for i, page in enumerate(CHAPTERS))
def test_every_widget_reacts_to_the_keyboard(page):
    """Each page one of the two ways, in turn, the phone in the dark; widgets alone are tested control by control."""
    in_theme(page, "light" if page.viewport_size == WIDTHS["laptop"] else "dark")
    for view in views(page):
        root = view.locator("[data-widget]")
        control, key = PRESSES[root.get_attribute("data-widget")]
        look = view.get_by_role("button", name="Just show me")  # a widget that holds its answer back is silent
        if look.count():
            look.click()
        before = root.get_by_role("status").text_content()
        root.locator(control).first.press(key)
        said = root.get_by_role("status").element_handle()
        page.wait_for_function("([said, before]) => said.textContent !== before", arg=[said, before])
    in_theme(page, "light")


@on(CHAPTERS, LAPTOP)
def test_every_quiz_answers_every_choice(page):
    quizzes = page.locator("fieldset.quiz").all()
    assert len(quizzes) >= 3
    for quiz in quizzes:
        result, choices = quiz.locator(".quiz-result"), quiz.locator("input").all()
        assert result.get_attribute("aria-live") == "polite"
        verdicts = []
        for i, choice in enumerate(choices):
            if i == 0:
                choice.check()
            else:  # the keyboard continues from there
                page.keyboard.press("ArrowDown")
                assert choice.is_checked()
            feedback = quiz.locator(f".quiz-answers [data-choice='{i}']")
            named = feedback.locator(".quiz-named").text_content()
            said = feedback.text_content().replace(named, "").split()
            assert result.text_content().split() == said and len(said) > 3
            verdicts.append(result.inner_text().split(".")[0])
        assert sorted(verdicts) == ["Not this one"] * (len(choices) - 1) + ["Right"]


OPEN_ALL = """() => [...document.querySelectorAll(".bd-article details")].filter((one) => {
  if (!one.checkVisibility()) return false;  // invisible
  const inside = [...one.children].find((child) => child.tagName !== "SUMMARY"), before = one.open;
  if (!before) one.querySelector("summary").click();
  const shows = one.open && inside.checkVisibility() && (inside.innerText.trim() || inside.querySelector("img"));
  return !shows;
}).map((one) => one.querySelector("summary").textContent)"""


@on(CHAPTERS, PHONE)
def test_every_dropdown_opens_and_closes(page):
    dropdowns = page.locator(".bd-article details:visible").all()
    titles = page.locator(".bd-article details > summary").all_text_contents()
    exercises = catalog.exercises_of(PurePosixPath(urlsplit(page.url).path).stem)  # a primer has one
    assert sum("Hint" in title for title in titles) >= min(9, 2 * len(exercises))
    assert sum("?" in title for title in titles) >= 2 and "Show code cell" not in "".join(titles)
    assert page.locator(".exercise-card").count() == len(exercises)
    inside, summary = (dropdowns[0].locator(f":scope > {part}").first for part in (":not(summary)", "summary"))
    assert not inside.is_visible()
    summary.press("Enter")  # by keyboard
    assert inside.is_visible()
    assert page.evaluate(OPEN_ALL) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0  # with all of them open
    dropdowns[0].locator("summary").first.click()
    assert not dropdowns[0].locator(":scope > :not(summary)").first.is_visible()


@on(CHAPTERS, LAPTOP)
def test_the_link_gives_the_students_notebook_of_this_chapter(page, tmp_path):
    stem = PurePosixPath(urlsplit(page.url).path).stem
    with page.expect_download() as download:
        page.locator(".chapter-download a", has_text="download the notebook").click()
    download.value.save_as(tmp_path / "got.ipynb")
    assert download.value.suggested_filename == f"{stem}.ipynb"
    notebook = nbformat.read(tmp_path / "got.ipynb", as_version=4)
    nbformat.validate(notebook)
    expected = nbformat.reads(nbformat.writes(release.student_notebook(stem)), as_version=4)
    setup = next(cell for cell in expected.cells if cell["id"] == cells.SETUP_ID)
    setup.source = cells.setup_source("import torch" in setup.source, page.url.partition("/chapters/")[0])
    assert notebook == expected


@pytest.mark.parametrize("page", CHAPTERS)
def test_the_prints_of_a_cell_share_a_box(site, page):
    text = (site / f"{page}.html").read_text("utf-8")
    cells = re.findall(r'<div class="cell_output.*?(?=<div class="cell |<section)', text, re.DOTALL)
    assert cells and max(len(re.findall(r'<div class="output stream', cell)) for cell in cells) == 1
