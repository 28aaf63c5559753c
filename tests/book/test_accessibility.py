"""The book for readers who use no mouse, who do not see its pictures, and who read it on paper."""

from __future__ import annotations

import logging
import re

import pytest
from docutils import nodes, utils

from book.pages import accessibility
from tests.book.pages import CHAPTERS, PAGES, WIDTHS, in_theme, views

# Pictures in words


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_picture_of_a_page_has_a_sentence_of_its_own(site, page):
    text = (site / f"{page}.html").read_text("utf-8")
    scripted = re.sub(r"<noscript>.*?</noscript>", "", text, flags=re.DOTALL)
    pictures = r'<img (?!class="chapter-still")[^>]*>'  # a still beside a chapter's title adds nothing to it in words
    told, shown = (
        [re.search(r'alt="([^"]*)"', image) for image in re.findall(pictures, part)] for part in (text, scripted)
    )
    figures = [alt[1] for alt in shown]
    assert all(alt and len(alt[1].split()) >= accessibility.FEWEST_WORDS and "_images" not in alt[1] for alt in told)
    assert len(set(figures)) == len(figures)
    assert figures or page not in CHAPTERS[:-1]  # the last has a widget and tables


SENTENCE = "The loss falls to zero within a few steps."


@pytest.mark.parametrize("alt", [None, "", "figure.svg", "A plot of the loss", SENTENCE])
def test_the_build_warns_of_a_picture_without_a_sentence(alt, caplog, monkeypatch):
    document = utils.new_document("chapters/toy.md")
    document += nodes.image(uri="figure.svg", **({} if alt is None else {"alt": alt}))
    monkeypatch.setattr(logging.getLogger("sphinx"), "propagate", True)
    accessibility.pictures_in_words(None, document, "chapters/toy")
    assert ("a picture needs a sentence that says what it shows" in caplog.text) == (alt != SENTENCE)
    assert alt != SENTENCE or caplog.text == ""


# Keyboard

# Marks the places where Tab must stop, in order: of a group of radio buttons one, and nothing that is not shown.
STOPS = """() => {
  const groups = new Set();
  const all = document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']");
  const stops = [...all].filter((node) => {
    if (!node.checkVisibility({ visibilityProperty: true }) || node.disabled || node.tabIndex < 0) return false;
    return node.type !== "radio" || !node.name || groups.size !== groups.add(node.name).size;
  });
  stops.forEach((node, i) => (node.stop = i));
  return stops.length;
}"""
# The element with the focus: its number, and whether its focus ring is visible.
HERE = """() => {
  const node = document.activeElement, box = node.getBoundingClientRect();
  const rings = [node, ...node.querySelectorAll("*"), node.closest("label")].filter(Boolean)
    .map((one) => getComputedStyle(one));
  return { stop: node.stop ?? null, what: node.outerHTML.slice(0, 120),
    shown: rings.some((style) => (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) ||
      style.boxShadow !== "none") && box.bottom > 0 && box.top < innerHeight };
}"""


def press_until(page, key, selector, most=60):
    """Press a key until the keyboard is at an element that the selector names."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{key} does not lead to {selector}")


@pytest.fixture
def softmax(visit):
    page = visit("chapters/softmax")
    list(views(page))
    page.evaluate("scrollTo(0, 0)")
    return page


@pytest.mark.slow
def test_tab_leads_through_the_whole_page_in_order_and_shows_where_it_is(softmax):
    page = softmax
    wanted, seen, hidden = page.evaluate(STOPS), [], []
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        here = page.evaluate(HERE)
        if here["stop"] is None:  # past the end: the browser itself
            break
        seen.append(here["stop"])
        if not here["shown"]:
            hidden.append(here["what"])
    assert seen == list(range(wanted)) and wanted > 60
    assert hidden == []


@pytest.mark.slow
def test_a_chapter_is_read_and_worked_through_with_the_keyboard_alone(softmax):
    page, keyboard = softmax, softmax.keyboard
    keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to main content")
    assert skip.evaluate("(node) => node === document.activeElement") and skip.is_visible()
    keyboard.press("Enter")
    assert page.url.endswith("#main-content")
    keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")

    press_until(page, "Tab", ".theme-switch-button")
    themes = set()
    for _ in range(3):
        keyboard.press("Enter")
        themes.add(page.evaluate("document.documentElement.dataset.mode"))
    assert themes == {"light", "dark", "auto"}

    # A widget: its first slider by arrow keys, its first button by Space.
    press_until(page, "Tab", "[data-widget] input[type=range]", 120)
    value = "document.activeElement.value"
    before = page.evaluate(value)
    keyboard.press("ArrowLeft")
    assert page.evaluate(value) != before
    keyboard.press("ArrowRight")
    assert page.evaluate(value) == before
    keyboard.press("Space")

    # A folded box opens and closes.
    press_until(page, "Tab", "details.sd-dropdown > summary", 120)
    box = "document.activeElement.parentElement.open"
    for key, is_open in [("Enter", True), ("Space", False)]:
        keyboard.press(key)
        assert page.evaluate(box) == is_open

    # A quick question: Space chooses, arrows move on, and each time the feedback is announced.
    press_until(page, "Tab", "fieldset.quiz input", 200)
    keyboard.press("Space")
    said = "document.activeElement.closest('fieldset').querySelector('[role=status]').textContent"
    first = page.evaluate(said)
    keyboard.press("ArrowDown")
    assert first and page.evaluate(said) not in ("", first)

    # Follow the link at the end of the page.
    press_until(page, "Tab", ".prev-next-area a.right-next", 200)
    keyboard.press("Enter")
    page.wait_for_url("**/chapters/attention.html")


@pytest.mark.slow
def test_the_search_is_reached_and_asked_with_the_keyboard(visit):
    page = visit("index")
    press_until(page, "Tab", ".search-button__button, .bd-search input")
    page.keyboard.press("Enter")
    page.keyboard.type("temperature")
    page.keyboard.press("Enter")
    page.locator("#search-results a[href*='chapters/softmax.html']").first.wait_for()


# Paper

ON_PAPER = """() => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility());
  const cut = shown(".bd-article pre, .bd-article .pst-scrollable-table-container, .bd-article .aw")
    .filter((node) => node.scrollWidth > node.clientWidth + 1);
  return {
    navigation: shown(".bd-sidebar, .bd-header, .bd-header-article, .prev-next-footer, .copybtn, .section-nav").length,
    hints: shown(".exercise-card .sd-dropdown").length,
    titles: shown("h1").length,
    steps: [...document.querySelectorAll("[data-go=next]")].filter((next) => next.textContent === "Next" &&
      next.ariaDisabled !== "true").length,
    folded: document.querySelectorAll(".bd-article details:not([open])").length,
    theme: document.documentElement.dataset.theme,
    inverted: shown(".cell_output img").filter((node) => getComputedStyle(node).filter !== "none").length,
    cut: cut.map((node) => node.outerHTML.slice(0, 100)),
  };
}"""


@pytest.mark.slow
def test_on_paper_a_page_is_light_and_open_and_nothing_is_cut_off(visit):
    page = visit("chapters/attention", "file")  # it has a link to another site
    in_theme(page, "dark")
    page.wait_for_function("""document.querySelectorAll('.widget-view').length ===
      document.querySelectorAll('.widget-view[data-mounted=true]').length""")  # the reader has not scrolled there
    folded = page.locator("details:not([open])").count()
    steps = page.locator("[data-widget=attention_stepper]").all_inner_texts()
    page.set_viewport_size(dict(width=718, height=1000))  # A4 within its margins
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(ON_PAPER) == dict(
        navigation=0, hints=0, titles=1, steps=0, folded=0, theme="light", inverted=0, cut=[]
    )
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    link = page.locator(".bd-article a[href^=http]").first
    assert link.evaluate("(node) => getComputedStyle(node, '::after').content").count("http") == 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDTHS["laptop"])
    assert page.locator("[data-widget=attention_stepper]").all_inner_texts() == steps  # where the reader was
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("details:not([open])").count() == folded
