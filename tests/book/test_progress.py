"""The reader's progress: kept by this browser, shown everywhere, sent nowhere, deleted on request."""

import hashlib

import pytest

pytestmark = pytest.mark.browser
SHIFTS = """new PerformanceObserver((list) => list.getEntries().forEach((entry) =>
  (window.shift = (window.shift ?? 0) + entry.value))).observe({ type: "layout-shift", buffered: true });
  // The text's own face may come after the first picture, and then moves lines: here there is none.
  const faces = new MutationObserver(() => {
    if (!document.head) return;
    faces.disconnect();
    const style = document.createElement("style");
    style.textContent = "* { font-family: sans-serif !important; }";
    document.head.append(style);
  });
  faces.observe(document, { childList: true, subtree: true });"""


def bar(page):
    meter = page.get_by_role("progressbar", name="Done of this chapter")
    return meter.get_attribute("aria-valuetext")


@pytest.fixture(params=["http", "file"])
def site(request, toy_site, serve):
    return serve(toy_site) if request.param == "http" else toy_site.as_uri()


def test_what_is_done_survives_a_reload_is_marked_and_is_forgotten_when_asked(site, open_page):
    page, requests = open_page(f"{site}/chapters/toy.html"), []
    assert bar(page) == "0 of 2 exercises and quick questions done"
    page.on("request", lambda request: requests.append(request.url))
    box = page.get_by_role("checkbox", name="I have done add_one")
    box.focus()
    page.keyboard.press("Space")  # by keyboard
    assert bar(page) == "1 of 2 exercises and quick questions done"
    page.get_by_role("radio").first.check()  # a wrong choice is no answer
    assert bar(page) == "1 of 2 exercises and quick questions done"
    page.get_by_role("radio").nth(1).check()
    assert bar(page) == "2 of 2 exercises and quick questions done" and requests == []
    quiz = f"quiz-{hashlib.sha256(b'What is one more than $2$?').hexdigest()[:8]}"  # its words, not its place
    assert page.evaluate("JSON.parse(localStorage['attention-progress'])") == {
        "toy": {"of": 2, "done": ["add_one", quiz]}
    }

    page.add_init_script(SHIFTS)
    page.reload()
    assert bar(page) == "2 of 2 exercises and quick questions done" and box.is_checked()
    assert page.locator("fieldset.quiz-done").count() == 1
    page.goto(page.url)  # from its top
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.shift ?? 0") < 0.01  # every mark has its room
    box.uncheck()
    assert bar(page) == "1 of 2 exercises and quick questions done"

    page.goto(f"{site}/index.html")
    assert page.locator("article .progress-mark").text_content() == " (1 of 2 exercises and quick questions done)"
    assert page.locator(".bd-sidenav .progress-mark").get_attribute("data-sign") == "1/2"
    button = page.get_by_role("button", name="Forget my progress")
    page.once("dialog", lambda dialog: dialog.dismiss())
    button.click()
    assert page.locator(".progress-mark").count() == 2  # not yet
    page.once("dialog", lambda dialog: dialog.accept())
    button.click()
    assert page.locator(".progress-mark").count() == 0 and not button.is_visible()
    assert page.evaluate("localStorage.getItem('attention-progress')") is None


@pytest.mark.parametrize(
    "trouble",
    [
        "Object.defineProperty(window, 'localStorage',"
        " { configurable: true, get() { throw new DOMException('no'); } });",
        "localStorage.setItem('attention-progress', '{broken');",
        'localStorage.setItem(\'attention-progress\', \'{"toy": {"of": "many", "done": ["gone", 3, null]}}\');',
    ],
    ids=["blocked", "broken", "of an older text"],
)
def test_where_nothing_or_nonsense_is_stored_the_page_works_and_complains_of_nothing(toy_site, open_page, trouble):
    page = open_page(f"{toy_site.as_uri()}/chapters/toy.html", script=trouble)
    assert bar(page) == "0 of 2 exercises and quick questions done"
    page.get_by_role("checkbox", name="I have done add_one").check()
    assert bar(page) == "1 of 2 exercises and quick questions done"
