"""An exercise is answered in its card: the stub, the check's words, and nothing that was typed is lost."""

from __future__ import annotations

import json
import shutil

import pytest

from autograder import __main__ as command_line
from book.site import answers, page_weight
from course import catalog
from tests.autograder import small_course
from tests.book.pages import CHAPTERS, findings, in_theme
from tests.conftest import new_page, skip

ONE_ROW = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum()"
RIGHT = """def softmax(x, axis=-1):
    x = np.asarray(x, dtype=float)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)"""
DOT = """def dot(a, b):
    if len(a) != len(b):
        raise ValueError(f"lengths {len(a)} and {len(b)}")
    return float(sum(x * y for x, y in zip(a, b)))"""
NAMED = "This is the formula for a single row"


@pytest.fixture(scope="module")
def offered(site):
    """The chapters of the built site whose exercises can be answered in the page."""
    pieces = site / answers.FOLDER / "pieces.json"
    if not pieces.is_file():
        skip("the book was built without Python for its pages: make site", "REQUIRE_MODEL")
    return json.loads(pieces.read_text("utf-8"))["chapters"]


class Card:
    """The card of one exercise on a page, as a reader uses it."""

    def __init__(self, page, name="softmax"):
        self.page, self.name = page, name
        self.box = page.locator(".exercise-card", has=page.locator(f"[data-exercise={name}]")).first

    def open(self):
        self.box.get_by_role("button", name="Answer here").click()
        self.box.locator(".cm-content").wait_for()
        return self

    def write(self, text):
        self.box.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)
        return self

    def text(self):
        return "\n".join(self.box.locator(".cm-line").all_inner_texts()).replace("\xa0", " ").replace("\n\n", "\n")

    def check(self, text=None):
        if text is not None:
            self.write(text)
        self.box.get_by_role("button", name="Check").click()
        return self.result()

    def result(self):
        """The words of the check, once it has ended."""
        self.box.locator(".answer-stop:disabled").wait_for(timeout=120_000)
        return self.box.locator(".answer-report").inner_text()

    def kept(self):
        return self.page.evaluate(f"JSON.parse(localStorage.getItem('attention-answer:{self.name}'))")

    def is_kept(self, text):
        self.page.wait_for_function(
            "([name, text]) => JSON.parse(localStorage.getItem(`attention-answer:${name}`))?.text === text",
            arg=[self.name, text],
        )


@pytest.fixture
def card(offered, visit):
    return Card(visit("chapters/softmax"))


def test_no_page_loads_anything_of_it_before_the_reader_asks(offered, site):
    for page in ["index", *CHAPTERS]:
        loaded = page_weight.first_load(site / f"{page}.html")
        assert [path for path in loaded if answers.FOLDER in path.as_posix()] == []


def test_the_cards_of_the_offered_chapters_have_the_button_and_no_others(offered, site):
    for stem in catalog.chapters():
        page = (site / "chapters" / f"{stem}.html").read_text("utf-8")
        there = [name for name in catalog.exercises_of(stem) if f'data-exercise="{name}" data-stem="{stem}"' in page]
        assert there == (list(catalog.exercises_of(stem)) if stem in offered else [])


def test_a_build_without_python_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(answers, "chapters", lambda: None)
    assert "make site" in answers.offer("softmax", "softmax")
    assert "<button" not in answers.offer("softmax", "softmax")


def test_the_editor_has_the_stub_of_the_notebook(card, site):
    card.open()
    (stub,) = [
        "".join(cell["source"])
        for cell in json.loads((site / "notebooks" / "softmax.ipynb").read_text("utf-8"))["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "softmax"
    ]
    squeezed = "".join(card.text().split())
    assert squeezed == "".join(stub.replace("# YOUR CODE HERE", "").replace("Error()", "Error").split())


def test_a_mistake_is_named_its_link_leads_to_the_section_and_a_right_answer_passes(card):
    card.open()
    assert NAMED in card.check(ONE_ROW)
    card.box.get_by_role("link", name="Why subtract the maximum").click()
    section = card.page.evaluate("location.hash")
    assert card.page.locator(f"section{section} > h2").inner_text().startswith("Why subtract the maximum")
    assert "6 of 6 passed" in card.check(RIGHT)
    assert card.box.locator(".exercise-done input").is_checked()
    assert card.box.get_by_role("status").filter(has_text="softmax passes.").count()


def test_the_keyboard_is_enough(card):
    page = card.page
    card.box.get_by_role("button", name="Answer here").focus()
    page.keyboard.press("Enter")
    card.box.locator(".cm-content").wait_for()
    page.wait_for_function("document.activeElement.classList.contains('cm-content')")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("def softmax(x, axis=-1):\n")
    page.keyboard.press("Tab")
    page.keyboard.type("return x / 2")
    page.keyboard.press("ControlOrMeta+Enter")
    assert "of 6 passed" in card.result()
    assert card.text().endswith("    return x / 2")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Check")


def test_what_was_typed_comes_back_after_a_reload_and_a_newer_stub_is_shown_as_it_is(card):
    card.open().write(RIGHT)
    card.is_kept(RIGHT)
    card.page.reload()
    card.open()
    assert card.text() == RIGHT
    card.page.evaluate(
        """() => {
          const key = "attention-answer:softmax", kept = JSON.parse(localStorage.getItem(key));
          localStorage.setItem(key, JSON.stringify({ ...kept, stub: "an older stub" }));
        }"""
    )
    card.page.reload()
    card.open()
    assert "NotImplementedError" in card.text()
    card.box.get_by_role("button", name="Show my old answer").click()
    assert card.text() == RIGHT


def test_what_is_typed_just_before_the_page_is_left_is_kept(card):
    card.open().write(RIGHT)
    card.page.goto(card.page.url.replace("chapters/softmax", "index"))
    assert card.kept()["text"] == RIGHT


def test_two_tabs_do_not_overwrite_each_other(card):
    card.open().write("# one")
    card.is_kept("# one")
    other = Card(card.page.context.new_page())
    other.page.goto(card.page.url)
    other.open().write("# two")
    other.is_kept("# two")
    notice = card.box.locator(".answer-notice", has_text="changed in another tab")
    notice.wait_for()
    assert card.text() == "# one"
    notice.get_by_role("button", name="Use that one").click()
    assert card.text() == "# two"


def test_where_nothing_can_be_kept_it_works_and_says_so(offered, open_page, addresses):
    blocked = """const set = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) {
        if (key.startsWith("attention-")) throw new DOMException("full", "QuotaExceededError");
        set.call(this, key, value);
      };"""
    card = Card(open_page(f"{addresses['http']}/chapters/softmax.html", script=blocked, reduced_motion="reduce"))
    card.open().write(ONE_ROW)
    card.box.locator(".answer-notice", has_text="keeps nothing here").wait_for()
    assert NAMED in card.check()


def test_reset_can_be_undone(card):
    card.open().write(RIGHT)
    card.box.get_by_role("button", name="Reset").click()
    assert "NotImplementedError" in card.text()
    card.box.get_by_role("button", name="Undo").click()
    assert card.text() == RIGHT


def test_stop_ends_a_loop_and_what_was_typed_stays(card):
    endless = "while True:\n    pass"
    card.open()
    card.check(ONE_ROW)  # Python is there
    card.write(endless)
    card.box.get_by_role("button", name="Run").click()
    card.box.get_by_role("button", name="Stop").click()
    card.box.locator(".answer-status", has_text="Stopped").wait_for()
    assert card.text() == endless
    assert "6 of 6 passed" in card.check(RIGHT)


def test_after_five_tries_that_fail_the_next_hint_is_offered(card):
    card.open()
    for number in range(5):
        card.check(f"{ONE_ROW}  # {number}")
    card.box.get_by_role("button", name="Show the next hint").click()
    assert card.box.locator("details details[open]").count() == 1
    record = card.page.evaluate("JSON.parse(localStorage.getItem('attention-tries')).softmax")
    assert (record["tries"], record["right"]) == (5, False)


def test_the_notebook_that_is_taken_along_has_the_answer_and_nothing_else_changes(card, site):
    card.open().write(RIGHT)
    card.is_kept(RIGHT)
    with card.page.expect_download() as download:
        card.box.get_by_role("button", name="Take it along").click()
    taken = json.loads(download.value.path().read_text("utf-8"))
    original = json.loads((site / "notebooks" / "softmax.ipynb").read_text("utf-8"))
    for mine, theirs in zip(taken["cells"], original["cells"], strict=True):
        own = theirs["metadata"].get("nbgrader", {}).get("grade_id") == "softmax"
        if "attnlab-*.whl" not in "".join(theirs["source"]):  # that cell has the address that the site is served from
            assert mine["source"] == (RIGHT if own else theirs["source"])
        assert mine["metadata"] == theirs["metadata"]
    assert download.value.suggested_filename == "softmax.ipynb"


@pytest.fixture
def from_jupyter(site) -> str:
    """The notebook of softmax with an answer in it, as Jupyter saves it."""
    notebook = json.loads((site / "notebooks" / "softmax.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "softmax":
            cell["source"] = RIGHT.splitlines(keepends=True)
    return json.dumps(notebook)


def drop(card, name, content):
    """Drop a file on a card."""
    card.box.locator(".cm-content").evaluate(
        """(editor, [name, content]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([content], name));
            editor.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        [name, content],
    )


def test_a_notebook_that_is_dropped_on_a_card_fills_it_and_what_was_typed_is_kept(card, from_jupyter):
    card.open().write(ONE_ROW)
    drop(card, "other.ipynb", "no notebook")
    card.box.get_by_text("other.ipynb is not a notebook").wait_for()
    assert card.text() == ONE_ROW
    drop(card, "softmax.ipynb", from_jupyter)
    card.box.get_by_text("1 answer of softmax.ipynb is on this page now").wait_for()
    card.is_kept(RIGHT)
    assert card.text() == RIGHT and card.kept()["older"] == ONE_ROW


def test_a_notebook_that_comes_back_fills_the_answers_and_the_overview_shows_them(
    offered, visit, from_jupyter, tmp_path
):
    (tmp_path / "softmax.ipynb").write_text(from_jupyter, "utf-8")
    (tmp_path / "other.ipynb").write_text("no notebook", "utf-8")
    page = visit("answers")
    page.locator("#answer-files").set_input_files([tmp_path / "softmax.ipynb", tmp_path / "other.ipynb"])
    said = page.get_by_role("status").filter(has_text="other.ipynb is not a notebook")
    said.wait_for()
    assert "1 answer of softmax.ipynb is on this page now" in said.inner_text()
    page.locator("summary", has_text="Your answers").click()
    assert page.locator("pre", has_text="def softmax").inner_text() == RIGHT
    page.get_by_role("link", name="softmax", exact=True).click()
    card = Card(page)
    card.box.locator(".cm-content").wait_for()
    assert card.text() == RIGHT


def test_a_page_from_a_folder_says_why_it_cannot(offered, visit, open_page, addresses):
    page = visit("chapters/softmax", scheme="file")
    said = page.locator(".answer-here").first.evaluate("offer => getComputedStyle(offer, '::before').content")
    assert "Use the notebook" in said and page.locator(".answer-here button:visible").count() == 0
    page = open_page(f"{addresses['file']}/chapters/softmax.html#answer-softmax")  # as the first page's button
    page.wait_for_load_state("networkidle")
    assert page.locator(".answer-here").first.is_visible() and page.locator(".cm-content").count() == 0
    page = visit("index", scheme="file")
    page.get_by_role("link", name="Start chapter 1").wait_for()
    assert page.locator(".hero-start:visible").count() == 1


def test_the_first_page_leads_to_an_exercise_that_opens(offered, visit):
    page = visit("index")
    page.get_by_role("link", name="Write your first function").click()
    page.wait_for_url("**/chapters/dot_products.html#answer-dot")
    card = Card(page, "dot")
    card.box.locator(".cm-content").wait_for()
    assert "4 of 4 passed" in card.check(DOT)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_open_card_is_accessible_and_fits(offered, browser, addresses, width, theme):
    page = new_page(browser, viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page.goto(f"{addresses['http']}/chapters/softmax.html")
    card = Card(page)
    card.open()
    assert NAMED in card.check(ONE_ROW)
    in_theme(page, theme)
    assert [line for line in findings(page, {}) if "answer" in line or "cm-" in line] == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if width == 390:
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('.cm-content')).fontSize)") >= 16
    page.context.close()


def test_the_outputs_below_come_from_the_readers_function_and_back(card):
    card.open()
    page, switch = card.page, card.box.get_by_label("Use my softmax for the outputs below on this page")
    assert not switch.is_visible()
    card.check(RIGHT)
    outputs = page.locator(".cell_output pre")
    recorded = outputs.all_text_contents()
    switch.check()
    card.box.locator(".answer-status", has_text="below now come from your softmax").wait_for(timeout=60_000)
    assert page.locator(".answer-mine", has_text="The same with your softmax").count() >= 3
    now = outputs.all_text_contents()  # one cell prints a difference of rounding, which may have other digits here
    assert sum(mine.strip() != theirs.strip() for mine, theirs in zip(now, recorded, strict=True)) <= 1
    switch.uncheck()
    assert page.locator(".answer-mine").count() == 0
    assert outputs.all_text_contents() == recorded
    card.write(RIGHT.replace("return e", "print('mine'); return e"))
    card.check()
    switch.check()
    page.locator(".cell_output pre", has_text="mine").first.wait_for()


def test_the_grader_takes_the_notebook_and_gives_what_the_page_said(card, released, tmp_path, needs_jail):
    """A wrong softmax, and nothing else: the points of its check on hidden cases are those of the public ones."""
    card.open()
    card.check(ONE_ROW)
    said = card.page.evaluate("JSON.parse(localStorage.getItem('attention-tries')).softmax")
    with card.page.expect_download() as download:
        card.box.get_by_role("button", name="Take it along").click()
    course, handed_in = shutil.copytree(released, tmp_path / "course", symlinks=True), tmp_path / "in"
    handed_in.mkdir()
    (handed_in / "ada_softmax.ipynb").write_bytes(download.value.path().read_bytes())
    (course / "roster.csv").write_text("id\nada\n", "utf-8")
    for command in (
        ["collect", "softmax", str(handed_in)],
        ["grade", "softmax", "--workers", "1"],
    ):
        assert command_line.main([*command, "--course", str(course)]) == 0
    with small_course.book(course) as gradebook:
        (submission,) = gradebook.assignment_submissions("softmax")
        scores = {grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades}
    assert scores.pop("check-softmax") == said["points"] == 6.0
    assert not any(scores.values())
