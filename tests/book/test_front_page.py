"""The first page's picture: what it says is what was recorded, and it works by pointer, finger and keyboard."""

import base64
import gzip
import json
import re
import shutil

import numpy as np
import pytest
import toy

from attnlab import data
from attnlab.widgets import HeadWall
from book.directives import front_page
from course.folder import ROOT
from tests.book.pages import COLORS, OTHERS, findings

pytestmark = pytest.mark.slow
WORDS = data.seven_tokens().tokens
WEIGHTS = data.seven_tokens().weights
BUDGET = 100_000  # bytes beside the page, before packing
SCREENS = [(1280, 800), (390, 844)]
INDEX = """\
---
html_theme.sidebar_secondary.remove: true
---

{beginning}

The chapters:

1. {{doc}}`chapters/toy`
"""


@pytest.fixture(scope="session")
def first_page_site(shared):
    """A toy book whose first page begins as the course's does."""
    text = (ROOT / "index.md").read_text("utf-8")
    beginning = text[text.index("# Attention") : text.index("- **You write it")]
    index = INDEX.format(beginning=re.sub(r"chapters/(dot_products|language_model)", "chapters/toy", beginning))

    def make(folder):
        toy.make(folder, **{"index.md": index})
        for name in ("seven_tokens", "heads", "stream", "pronoun"):
            shutil.copy(ROOT / f"attnlab/data/{name}.npz", folder / "attnlab/data")
        toy.build(folder, *toy.STRICT)

    return shared("front_page", make) / "_build" / "html"


# The picture waits seconds before it moves by itself. Tests need not: here a second is a tenth of one.
HURRY = "{ const later = window.setTimeout; window.setTimeout = (f, pause) => later(f, pause / 10); }"


@pytest.fixture
def hero(first_page_site, watched):
    """`hero(**context)` opens the first page from the file system; nothing may go wrong on it."""
    opened = []

    def go(**options):
        seen = watched(**{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options})
        opened.append(seen)
        seen.page.on("console", lambda message: message.type == "warning" and seen.errors.append(message.text))
        seen.page.add_init_script(HURRY)
        seen.page.goto(f"{first_page_site.as_uri()}/index.html")
        seen.page.locator(".hero[data-head]").wait_for()
        return seen.page

    yield go
    for seen in opened:
        seen.assert_clean()


# An independent reading of the rules


def habit(weights):
    later = range(2, 7)
    first, before, itself = (
        np.mean([weights[i][key(i)] for i in later]) for key in (lambda i: 0, lambda i: i - 1, int)
    )
    uneven = np.mean([abs(weights[i, : i + 1] - 1 / (i + 1)).sum() / 2 for i in later])
    weight, query, key = max((weights[i, j], i, j) for i in later for j in range(1, i - 1))
    if first >= 0.5:
        return f"rests on “The”: {100 * first:.0f}% of the weight goes there."
    if before >= 0.5:
        return f"reads the word before: {100 * before:.0f}% of the weight goes there."
    if itself >= 0.5:
        return f"stays with the word itself: {100 * itself:.0f}% of the weight goes there."
    if uneven <= 0.25:
        return "spreads its weight almost evenly."
    if weight >= 0.4:
        return f"reads “{WORDS[key]}” from “{WORDS[query]}”, with weight {weight:.2f}."
    return "divides its weight between several words."


def reading(row, query):
    if query == 0:
        return "“The” comes first and can read only itself."
    best, second = np.argsort(-row, kind="stable")[:2]
    name = lambda key: "itself" if key == query else f"“{WORDS[key]}”"  # noqa: E731
    if row[best] <= 1.5 / (query + 1):
        return f"“{WORDS[query]}” reads {query + 1} words, none with more than {row[best]:.2f}."
    also = f" and {name(second)} with {row[second]:.2f}" if row[second] >= 0.2 else ""
    return f"“{WORDS[query]}” reads {name(best)} with weight {row[best]:.2f}{also}."


def caption(layer, head, query):
    weights = WEIGHTS[layer, head]
    first, second = habit(weights), reading(weights[query], query)
    if not first.startswith("reads "):
        return f"Head {layer}.{head} {first} {second}"
    same = f" from “{WORDS[query]}”," in first
    return f"Head {layer}.{head} {first}" if same else f"In head {layer}.{head}, {second}"


def point_at(page, layer, head):
    """The middle of a head's square."""
    box = page.locator(f"#head-{layer}-{head}").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def widths(page):
    lines = page.locator(".hero-lines path").evaluate_all(
        "all => all.map((line) => [parseFloat(line.getAttribute('stroke-width')), line.getAttribute('stroke-opacity')])"
    )
    return [width for width, shown in lines if float(shown) > 0]


# Data


def test_all_weights_are_in_the_page_and_little_else(first_page_site):
    page = (first_page_site / "index.html").read_text("utf-8")
    sent = json.loads(re.search(r'class="hero-data">(.*?)</script>', page)[1])
    rows, columns = np.tril_indices(7)
    numbers = np.frombuffer(base64.b64decode(sent["first"]["weights"]), "<u2").reshape(30, 9, 28) / sent["full"]
    assert abs(numbers - WEIGHTS[:, :, rows, columns]).max() < 1e-5 and sent["first"]["words"] == WORDS
    beside = sum((first_page_site / "_static" / name).stat().st_size for name in ("hero.js", "hero.css"))
    assert beside + len(page) < BUDGET and len(gzip.compress(page.encode())) < 40_000


def test_no_other_page_loads_its_script_or_its_style(first_page_site):
    for page in first_page_site.rglob("*.html"):
        assert ("hero.js" in page.read_text("utf-8")) == (page == first_page_site / "index.html")


def test_the_tour_shows_one_clear_head_of_each_kind():
    stops = front_page.tour(WEIGHTS)
    assert len({tuple(stop) for stop in stops}) == len(stops) == 7
    said = " ".join(habit(WEIGHTS[layer, head]) for layer, head, _ in stops)
    for kind in ("rests on “The”", "the word before", "the word itself", "almost evenly"):
        assert kind in said
    first, second, third = (WEIGHTS[stops[i][0], stops[i][1], stops[i][2]] for i in (0, 3, 6))
    assert first.max() >= second.max() >= third.max()


# Browser


NOTE_SHIFTS = """window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach(({ value }) =>
  (window.shift += value))).observe({ type: "layout-shift", buffered: true });"""
PLACES = """() => [".hero", ".hero-words", ".hero-caption", ".hero-wall", ".hero-start"].map((part) => {
  const { y, height } = document.querySelector(part).getBoundingClientRect();
  return [y, height];
})"""


@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("width, height", SCREENS)
def test_nothing_moves_when_the_script_draws_or_the_page_comes_in_pieces(
    first_page_site, serve, watched, width, height, model
):
    page = watched(viewport={"width": width, "height": height}, reduced_motion="reduce").page
    late, arrived = [], []
    text = (first_page_site / "index.html").read_text("utf-8")
    deferred = re.findall(r'<script defer[^>]*src="([^"?]*)', text)
    page.route(
        lambda address: any(name in address for name in deferred),
        lambda route: route.continue_() if arrived else late.append(route),
    )
    if model:
        text = text.replace("<head>", '<head><meta name="model-in-page" content="yes">', 1)
    page.route("**/index.html", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.add_init_script(NOTE_SHIFTS)
    page.goto(f"{serve(first_page_site)}/index.html", wait_until="commit")
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    page.evaluate("document.fonts.ready.then(() => 0)")
    before = np.array(page.evaluate(PLACES))
    arrived.append(True)
    for route in late:
        route.continue_()
    page.locator(".hero[data-head]").wait_for()
    page.wait_for_load_state("load")
    assert abs(page.evaluate(PLACES) - before).max() <= 1
    assert page.evaluate("window.shift") < 0.02  # with what the font moves
    page.evaluate("document.querySelectorAll('.hero-ask, .hero-legend').forEach((part) => part.remove())")
    assert abs(page.evaluate(PLACES) - before).max() <= 1  # these parts are the last that a browser reads


@pytest.mark.parametrize("width, height", SCREENS)
def test_the_sentence_the_picture_and_the_button_are_seen_at_once(hero, width, height):
    page = hero(viewport={"width": width, "height": height})
    for part in ("h1", "h1 + p", ".hero-picture", ".hero-caption", ".hero-wall", ".hero-start"):
        box = page.locator(f"article {part}").first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height, part
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, part
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_pointer_on_a_square_changes_lines_at_once_and_shows_the_recorded_numbers(hero):
    page = hero()
    page.locator(".hero-word").nth(6).hover()
    rng = np.random.default_rng(19)
    for layer, head in [(18, 6), (0, 0), (29, 8), *rng.integers([30, 9], size=(20, 2)).tolist()]:
        page.mouse.move(*point_at(page, layer, head))
        assert page.locator(".hero-caption").inner_text() == caption(layer, head, 6)
        drawn = WEIGHTS[layer, head, 6][WEIGHTS[layer, head, 6] >= 0.002]
        assert abs(np.array(widths(page)) - (18 * np.sort(drawn) + 0.75)).max() < 0.02  # the thickest on top
    numbers = page.locator(".hero-word small").all_inner_texts()
    assert numbers == [f"{weight:.2f}" for weight in WEIGHTS[layer, head, 6]]


def test_the_keyboard_moves_through_the_words_and_through_the_wall(hero):
    page = hero()
    page.locator(".hero-word[tabindex='0']").focus()
    page.keyboard.press("Home")
    for query in (0, 1, 2):
        assert page.locator(".hero-word:focus").get_attribute("aria-checked") == "true"
        head = map(int, page.locator(".hero").get_attribute("data-head").split("."))
        assert page.locator(".hero-caption").inner_text() == caption(*head, query)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    wall = page.locator(".hero-wall")
    assert wall.evaluate("wall => wall === document.activeElement")
    page.keyboard.press("Home")
    layer, head = map(int, page.locator(".hero").get_attribute("data-head").split("."))
    assert layer == 0
    side = "ArrowRight" if head < 8 else "ArrowLeft"
    page.keyboard.press("ArrowUp")  # the first layer is at the bottom
    page.keyboard.press(side)
    reached = [1, head + (1 if head < 8 else -1)]
    assert page.locator(".hero").get_attribute("data-head") == f"{reached[0]}.{reached[1]}"
    chosen = wall.get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("aria-label") == f"Layer {reached[0]}, head {reached[1]}"
    said = page.locator(".hero > [role=status]")
    page.wait_for_function(
        "([said, text]) => said.textContent === text", arg=[said.element_handle(), caption(*reached, 3)]
    )


def test_on_a_phone_a_tap_chooses_the_word_and_a_finger_moves_over_the_wall(hero):
    page = hero(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.locator(".hero-word").nth(4).tap()
    assert page.locator(".hero-word").nth(4).get_attribute("aria-checked") == "true"
    client = page.context.new_cdp_session(page)
    for kind, place in [("touchStart", (3, 2)), ("touchMove", (17, 5)), ("touchMove", (18, 6))]:
        x, y = point_at(page, *place)
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        shown = page.locator(".hero-caption").element_handle()
        page.wait_for_function("([shown, text]) => shown.textContent === text", arg=[shown, caption(*place, 4)])
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("scrollY") == 0
    for word in page.locator(".hero-word").all():
        assert word.bounding_box()["height"] >= 24


# Collects the values of an attribute of the first line in `seen`, as the picture is drawn again.
WATCH = """(attribute) => {
  const line = document.querySelector(".hero-lines path");
  window.seen = new Set();
  new MutationObserver(() => seen.add(line.getAttribute(attribute))).observe(line, { attributes: true });
}"""


def test_it_moves_by_itself_until_the_reader_does_something(hero):
    page = hero(reduced_motion="no-preference")
    heads = page.locator(".hero")
    first = heads.get_attribute("data-head")
    page.evaluate(WATCH, "stroke-width")
    page.wait_for_function("([hero, first]) => hero.dataset.head !== first", arg=[heads.element_handle(), first])
    page.wait_for_function("seen.size > 5")  # through values between
    page.keyboard.press("Shift")
    stays = heads.get_attribute("data-head")
    page.wait_for_timeout(700)
    assert heads.get_attribute("data-head") == stays


def test_with_reduced_motion_it_rests_and_jumps(hero):
    page = hero()
    before = page.locator(".hero").get_attribute("data-head")
    page.wait_for_timeout(700)
    assert page.locator(".hero").get_attribute("data-head") == before
    page.evaluate(WATCH, "d")
    page.locator(".hero-word").nth(2).focus()
    page.wait_for_function("seen.size > 0")
    page.wait_for_timeout(400)
    assert page.evaluate("seen.size") == 1


def test_another_recorded_sentence_is_read_and_leads_to_the_wall_of_heads(hero):
    page = hero()
    page.get_by_role("button", name="The animal did not cross").click()
    page.locator(".hero-word", has_text="because").wait_for()
    pronoun = data.pronoun()
    words = page.locator(".hero-word span").all_inner_texts()
    assert words == pronoun.tokens
    reader = words.index("it")
    assert page.locator(".hero-word").nth(reader).get_attribute("aria-checked") == "true"
    layer, head = map(int, page.locator(".hero").get_attribute("data-head").split("."))
    inner = pronoun.weights[:, :, reader, 1 : reader - 1]  # neither the first word, nor the one before, nor itself
    assert inner[layer, head].max() == inner.max()
    numbers = page.locator(".hero-word small").all_inner_texts()[: reader + 1]
    assert numbers == [f"{weight:.2f}" for weight in pronoun.weights[layer, head, reader, : reader + 1]]
    link = page.get_by_role("link", name=f"Switch head {layer}.{head} off").get_attribute("href")
    text = next(i for i, one in enumerate(HeadWall().texts) if one["tokens"] == words)
    assert link.endswith(f"/play/head_off.html#text={text}&head={9 * layer + head}&off=true")
    page.get_by_role("button", name="The capital of France is").click()
    page.locator(".hero-word", has_text="capital").wait_for()
    assert page.locator(".hero-word").count() == 5 and page.locator(".hero-lines path").count() == 5
    assert not page.locator(".hero-own").is_visible()  # this site has no model


# Answers as the model's worker does, after the texts it is given: three layers at once, then the others.
WORKER = """
let queue = Promise.resolve();
onmessage = ({ data }) => (queue = queue.then(() => answer(data)));
async function answer(data) {
  if (data.read === "broken") return postMessage({ error: "no model today" });
  const tokens = data.read?.split(/(?= )/) ?? self.tokens, n = (self.tokens = tokens).length;
  const maps = new Float32Array(9 * n * n);
  for (let h = 0; h < 9; h++) for (let i = 0; i < n; i++) maps[(h * n + i) * n + Math.min(h, i)] = 1;
  if (data.read) postMessage({ done: 97e6, total: 97e6 });
  if (data.read) postMessage({ tokens, ids: tokens });
  if (data.read === "Too slow") await new Promise((done) => setTimeout(done, 500));
  for (let layer = 0; layer < 30; layer++) postMessage({ layer, maps });
  postMessage({ next: [[" sun", data.head?.[2] ? 0.25 : 0.5, 0.5], [" rain", 0.1, 0.1]], lens: [] });
  postMessage({ ready: true, kept: true, simd: true });
}
"""


def test_where_the_site_has_the_model_it_reads_ones_own_sentence_and_switches_heads_off(
    first_page_site, tmp_path, serve, watched
):
    site = shutil.copytree(first_page_site, tmp_path / "site")
    (site / "_static/live").mkdir(exist_ok=True)
    (site / "_static/live/worker.js").write_text(WORKER, "utf-8")
    index = site / "index.html"
    index.write_text(index.read_text("utf-8").replace("<head>", '<head><meta name="model-in-page" content="yes">', 1))
    seen = watched(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page = seen.page
    page.goto(f"{serve(site)}/index.html")
    own, note = page.get_by_role("textbox", name="Your sentence"), page.locator(".hero-note")
    for text, said in [
        ("", "Type a sentence first."),
        ("Hello you", "Here a sentence has 3 to 14 tokens; this one has 2."),
        ("a " * 20, "Here a sentence has 3 to 14 tokens; this one has 20."),
        ("broken", "no model today"),
        ("Too slow", "Here a sentence has 3 to 14 tokens; this one has 2."),  # its answers come during the next one
    ]:
        own.fill(text)
        page.get_by_role("button", name="Read my sentence").click()
        page.wait_for_function("([note, said]) => note.textContent === said", arg=[note.element_handle(), said])
    assert page.locator(".hero-word").count() == 7  # the recorded sentence is still there
    own.fill("Tomorrow we expect some")
    own.press("Enter")
    switch = page.get_by_role("button", name="Switch head 0.1 off")  # the first that reads the second word
    switch.wait_for()
    assert page.locator(".hero-word span").all_inner_texts() == ["Tomorrow", "we", "expect", "some"]
    assert note.inner_text() == "Next word: “sun”, 50%."
    switch.click()
    page.get_by_role("button", name="Switch head 0.1 on").wait_for()
    assert note.inner_text() == "Next word: “sun”, 25%; 50% with all heads."
    assert findings(page, OTHERS) == []
    seen.assert_clean()


@pytest.mark.parametrize("width, height", SCREENS)
def test_the_longest_caption_has_room_and_moves_nothing(hero, width, height):
    page = hero(viewport={"width": width, "height": height})
    said = {(at, query): caption(*at, query) for at in np.ndindex(30, 9) for query in range(7)}
    longest = sorted(said, key=lambda key: len(said[key]))[-3:]
    before = page.locator(".hero-start").bounding_box()
    for at, query in longest:
        page.locator(".hero-word").nth(query).hover()
        page.mouse.move(*point_at(page, *at))
        assert page.locator(".hero-caption").inner_text() == said[at, query]
        assert page.locator(".hero-start").bounding_box() == before


def test_in_the_dark_words_and_captions_can_be_read(hero):
    page = hero(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    page.locator(".hero-word").nth(6).hover()
    assert findings(page, dict(runOnly=COLORS)) == [] and findings(page, OTHERS) == []


def test_without_scripts_there_is_a_still_picture(first_page_site, open_page):
    page = open_page(f"{first_page_site.as_uri()}/index.html", java_script_enabled=False)
    picture = page.locator("noscript img")
    assert picture.is_visible() and picture.evaluate("image => image.naturalWidth") == 1200
    assert not page.locator(".hero").is_visible()
