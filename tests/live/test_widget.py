"""The widget with the real engine: a sentence of the reader's, its heads, a switch, a break, and writing on."""

from __future__ import annotations

import shutil

import pytest
import torch

from attnlab import smollm2
from attnlab.widgets import LiveModel
from course.folder import ROOT
from live import shards
from solutions.language_model import LanguageModel, generate
from tests.attnlab.widget_page import MOUNT, PAGE, packed, state_of
from tests.book.pages import AXE
from tests.conftest import Watched
from tests.live.test_worker import Site

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def site(pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "live" / "engine", folder / "_static" / "live")
    (folder / "_static" / "live" / "pieces").symlink_to(pieces)
    (folder / "index.html").write_text(PAGE.format(theme="light"), "utf-8")
    return Site(folder)


@pytest.fixture(scope="module")
def page(browser, site):
    """The widget, mounted on a page of that site; its model comes once for all tests of this file."""
    page = browser.new_page(viewport=dict(width=1280, height=900))
    page.goto(site.address)
    widget = LiveModel("12.4")
    page.evaluate(MOUNT, dict(esm=widget._esm, css=widget._css, state=packed(state_of(widget))))
    page.watched = Watched(page)
    yield page
    page.close()


PROMPT = "The capital of Germany is"


@pytest.fixture(scope="module")
def expected(smollm2_file):
    """Compute in Python, for the prompt, the likeliest next token's probability and the text that follows."""
    model, tokenizer = smollm2.load(LanguageModel), smollm2.tokenizer()
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    with torch.no_grad():
        shares = model(ids)[0, -1].softmax(0)
    return shares.max().item(), tokenizer.decode(generate(model, ids, 12)[0])


def ready(page):
    page.locator("[data-go=write]:not([disabled])").filter(has_text="Write on").wait_for(timeout=60_000)


def words(page):
    return dict(
        zip(page.locator(".lm-word").all_inner_texts(), page.locator(".lm-number").all_inner_texts(), strict=True)
    )


def test_nothing_is_fetched_before_the_reader_asks(page, site):
    assert not [name for name in site.asked if name.endswith((".bin", ".wasm", "worker.js"))]
    assert page.locator("[data-go=write]").is_disabled()


def test_a_sentence_is_read_and_its_words_and_heads_are_shown(page, expected):
    page.locator("[data-go=text]").fill(PROMPT)
    page.locator("[data-go=read]").click()
    ready(page)
    assert page.locator(".lm-chip").all_inner_texts() == PROMPT.split()
    share, text = expected
    word = text.removeprefix(PROMPT).split()[0].rstrip(".,")
    assert words(page)[word] == f"{share:.2f}"
    assert page.locator("[data-go=read]").inner_text() == "Read"
    assert page.locator(".lm-lens li b").last.inner_text() == word
    filled = page.evaluate("""() => {
      const canvas = document.querySelector(".lm-canvas"), context = canvas.getContext("2d");
      const inked = (x) => context.getImageData(x, 0, 20, canvas.height).data.some((value) => value > 0);
      return Array.from({ length: 30 }, (_, layer) => inked(layer * 20));
    }""")
    assert filled == [True] * 30
    page.get_by_role("status").filter(has_text=f"Next word “{word}”").wait_for(state="attached")


def test_a_head_is_switched_off_set_to_its_mean_and_back(page):
    whole = words(page)
    page.locator("[data-go=wall]").focus()
    for how in ("off", "mean", "on"):
        page.locator(f"[data-how={how}]").click()
        page.locator(f"[data-how={how}][aria-pressed=true]:not([disabled])").wait_for()
    assert words(page) == whole


def wait_for_marks(page, condition):
    """Wait until the marks on the bars are so: the worker tells where they are."""
    page.wait_for_function(f"""() => {{
      const marks = Array.from(document.querySelectorAll(".lm-drawn"), (one) => parseFloat(one.style.left));
      const low = Math.min(...marks), high = Math.max(...marks);
      return {condition};
    }}""")


def test_the_marks_on_the_bars_show_what_the_cuts_make_of_the_words(page):
    """At temperature 0 the likeliest word is certain; at a high one the words draw level."""
    assert page.locator(".lm-key").is_visible()
    page.locator("[data-field=temperature]").fill("0")
    wait_for_marks(page, "String(marks) === '100,0,0,0,0,0'")
    page.locator("[data-field=temperature]").fill("5")
    page.locator("[data-field=top_k]").fill("6")
    page.locator("[data-field=top_p]").fill("1")
    wait_for_marks(page, "0 < low && low < high && high < 4 * low")
    page.locator("[data-field=top_k]").fill("2")
    wait_for_marks(page, "marks.filter((mark) => mark === 0).length >= 4")


def test_it_writes_on_and_stops(page, expected):
    for name, value in (("temperature", "0"), ("top_k", "1")):
        page.locator(f"[data-field={name}]").fill(value)
    page.locator("[data-go=write]").click()
    page.wait_for_function("document.querySelector('.lm-written b')?.textContent.split(' ').length > 4")
    assert page.locator("[data-go=write]").inner_text() == "Stop"
    page.locator("[data-go=write]").click()
    ready(page)
    written = page.locator(".lm-written").text_content()
    assert len(written) > len(PROMPT) + 8 and (written.startswith(expected[1]) or expected[1].startswith(written))
    assert page.locator(".lm-chip").count() > 6


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_while_the_model_is_there(page, theme):
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    page.evaluate(AXE)
    found = page.evaluate("""async () => {
      for (const moving of document.getAnimations()) moving.finish();
      const found = await axe.run(".aw", { preload: false, resultTypes: ["violations"] });
      return found.violations.flatMap(({ id, nodes }) =>
        nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`));
    }""")
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert found == []


def test_it_is_broken_and_mended(page):
    page.locator("[data-go=read]").click()
    ready(page)
    whole = words(page)
    page.locator("[data-go=break]").select_option("base 10,000")
    ready(page)
    assert words(page) != whole
    page.locator("[data-go=break]").select_option("")
    ready(page)
    assert words(page) == whole
    page.watched.assert_clean()


def test_what_the_button_says_of_its_size_is_true(pieces):
    assert LiveModel().size == round(shards.measure(pieces)[1] / 1e6)
