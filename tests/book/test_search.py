"""The search by section: what is in its index, and that readers' questions find their section among the first three."""

import json
import re
import shutil

import pytest

from book.site import search
from tests.book.pages import begin, nothing_went_wrong
from tests.conftest import new_page

pytestmark = pytest.mark.slow

# What a reader types, and the places of which one must be among the first three answers.
QUESTIONS = {
    "why divide by sqrt": ["attention.html#why-divide-by-the-square-root-of-the-width"],
    "causal mask": ["masks.html#exercise-causal_mask", "masks.html#exercise-the-causal-mask"],
    "sotmax": ["softmax.html#exercise-softmax", "softmax.html#exercise-softmax-that-never-overflows", "softmax.html"],
    "softmax overflow": ["softmax.html#where-exponentials-overflow"],
    "flash attention": ["efficient_attention.html#what-the-gpu-does", "efficient_attention.html#tile-by-tile"],
    "kv cache size": ["kv_cache.html#how-large-a-cache-gets", "kv_cache.html#exercise-bytes-of-a-cache"],
    "rotary positions pairing": ["rope.html#two-ways-to-pair", "rope.html#from-one-pairing-to-the-other"],
    "top p sampling": ["language_model.html#which-token-to-take", "language_model.html#exercise-sample"],
    "cross attention query": ["cross_attention.html#one-asks-the-other-answers", "cross_attention.html#by-hand"],
    "what is a query": ["attention.html#three-roles", "notation.html#term-query"],
    "quadratic cost": ["efficient_attention.html#the-price-of-a-square"],
    "backpropagation": ["pytorch.html#the-same-in-pytorch"],
    "residual stream": ["transformer_block.html#the-stream-that-everything-is-added-to"],
}

NOT_IN_THE_BOOK = ["beam search", "hallucination", "kubernetes"]

PAGE = r"""<html><body><nav>Menu words</nav><article><section id="top">
<h1><span class="section-number">1. </span>Top<a class="headerlink" href="#top">#</a></h1><p>The page begins here.</p>
<section id="inner"><h2>Inner<a class="headerlink">#</a></h2>
<p>Divide by <math alttext="\sqrt{d_k}"><mi>d</mi></math>, then by <math alttext="\frac{a}{2}"></math>.</p>
<div class="cell"><pre>code = 1</pre><div class="output">printed</div></div>
<fieldset class="quiz"><p>asked</p></fieldset><details><summary>Hint 1</summary><p>hinted</p></details>
<div class="cell"><p class="effort" id="exercise-halved">5 minutes</p><pre>def halved(x):
    \"\"\"Half of every entry.

    x: numbers\"\"\"</pre></div></section>
<dl class="glossary"><dt id="term-half">half<a class="headerlink">#</a></dt><dd><p>One of two.</p></dd></dl>
</section></article></body></html>""".replace(r"\"", '"')


# Files


def test_a_section_is_a_record_without_menus_code_quizzes_and_hints():
    found = {record.place: record for record in search.records(PAGE, "a/b.html", {"halved"})}
    assert set(found) == {"a/b.html", "a/b.html#inner", "a/b.html#exercise-halved", "a/b.html#term-half"}
    assert found["a/b.html"].text == "The page begins here." and found["a/b.html"].title == "Top"
    inner = found["a/b.html#inner"]
    assert inner.text == "Divide by sqrt(d_k), then by a/2. halved: Half of every entry."
    assert (inner.title, inner.page, inner.kind) == ("Inner", "Top", "section")
    exercise, term = found["a/b.html#exercise-halved"], found["a/b.html#term-half"]
    assert (exercise.title, exercise.text, exercise.kind) == ("halved", "Half of every entry.", "exercise")
    assert (term.title, term.text, term.kind) == ("half", "One of two.", "term")


def test_the_same_records_give_the_same_files_and_only_those_that_are_used(tmp_path):
    found = [*search.records(PAGE, "a/b.html", {"halved"}), search.Record("c.html", "More", "", "words " * 20)]
    for name in ("one", "two"):
        search.write(found, tmp_path / name)
    one, two = (
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    assert all(name == "names.json" or search.KEPT.fullmatch(name.rpartition("/")[2]) for name in one)
    named = json.loads(one["names.json"])
    assert ["exercise", "halved", "Top", "a/b.html#exercise-halved", "Half of every entry."] in named["names"]
    assert {"divide", "sqrt", "more"} <= set(named["words"]) and "more" in named["titles"]


def test_an_earlier_index_is_replaced(tmp_path):
    (tmp_path / "old.pf_fragment").write_text("old")
    search.write([search.Record("c.html", "More", "", "some words here")], tmp_path)
    assert not (tmp_path / "old.pf_fragment").exists() and (tmp_path / "pagefind.js").is_file()


def test_the_toy_book_has_an_index_and_no_page_but_the_search_loads_its_script(toy_site):
    assert (toy_site / search.FOLDER / "pagefind.js").is_file()
    for page in toy_site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "pagefind" not in text and ("search.js" in text) == (page.name == "search.html")
    named = json.loads((toy_site / search.FOLDER / "names.json").read_text("utf-8"))["names"]
    place = "chapters/toy.html#exercise-add_one"
    assert ["exercise", "add_one", "Toy: adding one", place, "One more than x."] in named


# Browser


def ask(page, question, press=None):
    """The addresses of the answers."""
    field = page.locator(".bd-search-container input[name=q]")
    field.fill(question)
    if press:
        field.press(press)
    page.locator(f"#search-results[data-answered='{question}']").wait_for()
    return page.locator("#search-results .search-hit > a").evaluate_all("all => all.map((link) => link.href)")


def test_sections_exercises_and_near_misses_are_found_while_one_types(toy_site, serve, open_page):
    page = open_page(f"{serve(toy_site.parent)}/html/search.html")  # not at the top of the server
    assert ask(page, "add one")[0].endswith("/html/chapters/toy.html#exercise-add_one")
    assert ask(page, "largest number", "Enter")[0].endswith("chapters/toy.html#written-question")
    assert "?q=largest%20number" in page.url
    assert "largest" in page.locator(".search-hit mark").all_inner_texts()
    assert any(place.endswith("#two-views-of-one-counter") for place in ask(page, "cuonter"))
    assert page.locator(".search-said").inner_text().startswith("Showing results for counter.")
    page.get_by_role("button", name="cuonter").click()
    page.locator(".search-said", has_text="Nothing has been found").wait_for()
    assert not page.locator("script[src*=searchindex]").count()  # the other search is not loaded


def test_what_is_typed_before_the_index_is_there_is_answered(toy_site, serve, browser):
    page, held = new_page(browser), []
    page.route("**/names.json", lambda route: held.append(route))
    with page.expect_request("**/names.json"):
        seen = begin(page, f"{serve(toy_site)}/search.html?q=largest")
    field = page.locator(".bd-search-container input[name=q]")
    field.fill("written question ")
    page.wait_for_timeout(300)  # longer than a pause in typing
    held[0].continue_()
    page.locator(".search-hit a[href$='#written-question']").wait_for()
    assert field.input_value() == "written question "
    page.context.close()
    nothing_went_wrong(seen)


def test_the_field_of_another_page_leads_to_the_answers(toy_site, serve, open_page):
    page = open_page(f"{serve(toy_site)}/chapters/toy.html")
    page.locator(".search-button-field").click()
    page.locator("dialog input[name=q]").fill("written question")
    page.keyboard.press("Enter")
    page.locator(".search-hit a[href$='#written-question']").wait_for()
    assert page.locator(".bd-search-container input[name=q]").input_value() == "written question"


def test_where_the_index_is_missing_the_other_search_answers(toy_site, serve, browser, tmp_path):
    folder = shutil.copytree(toy_site, tmp_path / "site", ignore=shutil.ignore_patterns("pagefind"))
    page = new_page(browser)
    page.goto(f"{serve(folder)}/search.html?q=largest")
    page.locator("#search-results a[href*='chapters/toy.html']").first.wait_for()
    page.context.close()


def test_readers_questions_have_their_section_among_the_first_three(visit):
    page, missed = visit("search"), {}
    for question, places in QUESTIONS.items():
        answers = [re.sub(r".*/(?:chapters|appendices)/", "", answer) for answer in ask(page, question)]
        if not set(places) & set(answers[:3]):
            missed[question] = answers[:5]
    assert missed == {}
    for question in NOT_IN_THE_BOOK:
        assert ask(page, question) == [] and "Nothing has been found" in page.locator(".search-said").inner_text()
    for excerpt in page.locator(".search-hit p").all_inner_texts():
        assert not re.search(r"Contents|Show code|import numpy|Hint \d", excerpt)
