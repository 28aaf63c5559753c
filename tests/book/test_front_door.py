"""The first page goes on where the reader was, and one page lists all exercises."""

import json
from xml.etree import ElementTree

from book.site import feed, sitemap
from course import catalog

KEPT = {"text": "def softmax(x): ...", "stub": "", "stem": "softmax", "revision": "mzzzzzzz-abcdef"}


def test_the_first_button_goes_on_with_the_newest_answer(visit, open_page, addresses):
    first = visit("index")
    if not first.locator('.hero-start[href*="#answer-"]').count():
        return  # built without Python for its pages
    script = f"localStorage.setItem('attention-answer:softmax', {json.dumps(json.dumps(KEPT))})"
    page = open_page(f"{addresses['http']}/index.html", script=script, reduced_motion="reduce")
    button = page.get_by_role("link", name="Go on with softmax")
    assert button.get_attribute("href") == "chapters/softmax.html#answer-softmax"


def test_all_exercises_are_listed_and_those_that_are_done_are_marked(open_page, addresses):
    done = {"softmax": {"of": 8, "done": ["softmax"]}}
    script = f"localStorage.setItem('attention-progress', {json.dumps(json.dumps(done))})"
    page = open_page(f"{addresses['http']}/exercises.html", script=script, reduced_motion="reduce")
    assert page.locator("tr[data-exercise]").count() == len(catalog.all_exercises())
    assert page.locator("tr:has(.progress-mark)").get_attribute("data-exercise") == "softmax"
    for link in page.locator("tr[data-exercise] a").all()[:3]:
        assert link.get_attribute("href").startswith("chapters/")


def test_the_contents_of_a_chapter_tick_what_is_done(visit):
    page = visit("chapters/softmax")
    page.get_by_role("checkbox", name="I have done softmax", exact=True).check()
    ticked = page.locator(".page-toc a.toc-done")
    assert ticked.count() == 1 and "(done)" in ticked.text_content()


def test_the_first_page_shows_a_mistake_and_what_the_check_says(visit):
    page = visit("index")
    assert "e / e.sum()" in page.locator(".at-work").inner_text()
    assert "formula for a single row" in page.locator(".at-work blockquote").inner_text()


class App:
    """As much of Sphinx as the sitemap and the feed need."""

    class builder:
        format = "html"

    def __init__(self, folder, address):
        self.outdir = self.srcdir = folder
        self.config = type("Config", (), {"html_baseurl": address, "html_title": "Attention & more"})


def test_a_site_with_an_address_has_a_sitemap_and_one_without_has_none(tmp_path):
    for page in ("index.html", "chapters/softmax.html", "404.html", "_static/x.html"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("")
    sitemap.write(App(tmp_path, ""), None)
    assert not (tmp_path / "sitemap.xml").exists()
    sitemap.write(App(tmp_path, "https://example.org/a"), None)
    listed = (tmp_path / "sitemap.xml").read_text()
    assert listed.count("<loc>") == 2 and "<loc>https://example.org/a/chapters/softmax.html</loc>" in listed
    assert "Sitemap: https://example.org/a/sitemap.xml" in (tmp_path / "robots.txt").read_text()


CHANGES = """# Changelog

## 0.3.0 (unreleased)

- Not yet.

## 0.2.0 (2026-12-24)

### Handout

- A chapter on `masks` & more.

## 0.1.0 (2026-10-01)

- The first.
"""


def test_a_feed_has_the_releases_and_nothing_that_is_not_released(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    feed.write(App(tmp_path, ""), None)
    assert not (tmp_path / "feed.xml").exists()
    app, context = App(tmp_path, "https://example.org/a"), {"metatags": ""}
    feed.write(app, None)
    feed.link(app, "index", "", context, None)
    assert 'href="https://example.org/a/feed.xml"' in context["metatags"]
    atom = "{http://www.w3.org/2005/Atom}"
    root = ElementTree.parse(tmp_path / "feed.xml").getroot()
    assert root.findtext(f"{atom}updated") == "2026-12-24T00:00:00Z"
    found = root.findall(f"{atom}entry")
    assert [one.findtext(f"{atom}title") for one in found] == ["0.2.0", "0.1.0"]
    assert len({one.findtext(f"{atom}id") for one in found}) == 2
    assert "<code>masks</code> &amp; more" in found[0].findtext(f"{atom}content")
    assert "Not yet" not in (tmp_path / "feed.xml").read_text()


def test_without_a_release_there_is_no_feed(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0 (unreleased)\n\n- Not yet.\n")
    app, context = App(tmp_path, "https://example.org/a"), {"metatags": ""}
    feed.write(app, None)
    feed.link(app, "index", "", context, None)
    assert context["metatags"] == "" and not (tmp_path / "feed.xml").exists()


def test_two_keys_go_from_exercise_to_exercise(visit):
    page = visit("chapters/softmax")
    cards = page.locator(".exercise-card")
    for key, place in (("n", 0), ("n", 1), ("n", 2), ("p", 1)):
        page.keyboard.press(f"Alt+{key}")
        assert cards.nth(place).evaluate("card => card === document.activeElement"), (key, place)
        top = cards.nth(place).evaluate("card => card.getBoundingClientRect().top")
        assert 0 <= top < 300
    page.keyboard.press("n")
    assert cards.nth(1).evaluate("card => card === document.activeElement")


def test_what_was_unfolded_is_open_again_after_a_reload_and_folded_on_a_new_visit(visit):
    page = visit("chapters/softmax")
    drawer = page.locator(".bd-article details").nth(3)
    drawer.evaluate("one => { one.open = true; }")
    page.reload()
    assert drawer.evaluate("one => one.open")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert page.locator(".bd-article details[open]").count() == 0
