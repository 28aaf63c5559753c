"""The pages of a graded submission: the student's feedback, and the grader's page in formgrader."""

import json
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.demo import sample_class
from autograder.grading import sanitize
from autograder.nbgrader_plugins import feedback
from course import catalog, release
from course.folder import ROOT
from tests.autograder import hostile
from tests.autograder.grading.test_sanitize import png

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_jail")]

STEM = "softmax"
SIGN = "the weights of this honest sentence"
MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/"  # nbgrader's own page for the grader asks for it

HONEST = f"""{SIGN} **add up**, and $a < b$:

- one
- two

```python
if a < b: pass
```
"""
HONEST_CELL = """
import matplotlib.pyplot as plt
class Table:
    def _repr_html_(self):
        return '<table class="dataframe"><tr><th>head</th></tr><tr><td>honest number</td></tr></table>'
print("honest print < 3")
plt.plot([1, 2]); plt.show()
Table()
"""


@pytest.fixture(scope="module")
def course(released, tmp_path_factory):
    """A course in which two students handed in a chapter and one is graded, with feedback."""
    folder = shutil.copytree(released, tmp_path_factory.mktemp("feedback") / "course")
    hand_in(folder, "ada", lambda notebook: None)
    (hand_in(folder, "mallory", attack) / "more.txt").write_text("more")
    release.nbgrader("autograde", STEM, "--student", "mallory", "--create", course=folder)
    release.nbgrader("generate_feedback", STEM, "--student", "mallory", course=folder)
    return folder


def hand_in(course, student, change):
    sample = sample_class.read_sample(sample_class.SAMPLES / "ada.py")
    notebook = sample_class.submission(sample, STEM, nbformat.read(course / "release" / STEM / f"{STEM}.ipynb", 4))
    change(notebook)
    folder = course / "submitted" / student / STEM
    folder.mkdir(parents=True)
    (folder / f"{STEM}.ipynb").write_text(json.dumps(notebook), "utf-8")
    return folder


def attack(notebook):
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == f"written-{STEM}":
            cell.source = "\n\n".join([HONEST, "![my sketch](attachment:sketch.png)", *hostile.MARKDOWN])
            cell.attachments = {"sketch.png": {"image/png": png(8, 5)}}
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    own = [
        *(text(source) for source in hostile.MARKDOWN),
        text(HONEST),
        code(HONEST_CELL),
        code(hostile.SHOWS),
        code(hostile.RAISES),
        code(hostile.MUCH),
        code("softmax(np.zeros(2), axis=9)"),
        code("print('</code></pre><script>window.pwned=1</script>')  # </div></div><script>window.pwned=1</script>"),
    ]
    for number, cell in enumerate(own):
        cell.metadata = {
            "tags": ['"><script>window.pwned=1</script>', "hide_input"],
            "alt": '" onerror="window.pwned=1',
            "slideshow": {"slide_type": "x"},
            "name": "<script>",
        }
        cell["id"] = f"x{number}"
    own[0]["attachments"] = {"gone.png": {"image/svg+xml": "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"}}
    notebook.cells[1:1] = own[:5]
    notebook.cells += own[5:]
    notebook.metadata = {
        "title": "</title><script>window.pwned=1</script>",
        "widgets": {
            "application/vnd.jupyter.widget-state+json": {"state": {}, "x": "</script><script>window.pwned=1</script>"}
        },
        "language_info": {"name": "x", "pygments_lexer": "html"},
        "kernelspec": {"name": "../x", "display_name": "<script>"},
    }


@pytest.fixture(scope="module")
def page(course):
    return course / "feedback" / "mallory" / STEM / f"{STEM}.html"


@pytest.fixture(scope="module")
def formgrader(course, jupyter):
    return jupyter("server", course, "formgrader", COURSE_DIR=str(course), JUPYTER_CONFIG_PATH=str(ROOT / "autograder"))


def dialogs_of(page):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    return dialogs


def assert_nothing_ran(window, dialogs):
    """Also not when every link of the student's is clicked that does not lead to another place."""
    written = window.page.evaluate("""() => {
        for (const link of document.querySelectorAll('.rendered_html a, .text_cell_render a'))
            if (!/^https?:|^mailto:/.test(link.getAttribute('href') ?? '')) link.click();
        return document.querySelectorAll('.rendered_html *').length;
    }""")
    assert written > 100
    assert window.page.evaluate("window.pwned") is None
    assert dialogs == []


def assert_honest_work_is_there(page):
    page.get_by_text(SIGN).first.wait_for()
    assert page.locator("strong", has_text="add up").count() == 2
    assert page.locator("td", has_text="honest number").count() == 1
    page.get_by_text("honest print < 3", exact=True).wait_for()
    drawn = page.locator("img[src^='data:image/png']").evaluate_all("all => all.map((image) => image.naturalWidth)")
    assert max(drawn) > 0
    assert page.locator("img[alt='my sketch']").evaluate("image => image.naturalWidth") == 8
    assert page.locator("pre", has_text="if a <").count() >= 2
    assert page.locator(".attn-check").count() == len(catalog.exercises_of(STEM))


def test_the_students_page_runs_nothing_fetches_nothing_and_shows_honest_work(page, watched):
    window = watched()
    dialogs = dialogs_of(window.page)
    window.page.goto(page.as_uri())
    assert_honest_work_is_there(window.page)
    assert_nothing_ran(window, dialogs)
    window.assert_clean()
    assert window.page.locator("script").count() == 0
    named = window.page.locator("#toc a").all_inner_texts()
    assert set(catalog.exercises_of(STEM)) <= set(named) and "Test cell" not in named
    # What was printed did not leave its cell: all cells are where the notebook has them.
    cells = window.page.locator("#notebook-container > .cell").count()
    assert cells == window.page.locator(".cell").count() > 90


def test_the_graders_page_runs_nothing_of_a_students_and_keeps_its_own_controls(course, formgrader, watched):
    window = watched()
    dialogs = dialogs_of(window.page)
    # Without MathJax nbgrader's own script stops; here is as much of it as that script asks for.
    body = "window.MathJax = {Hub: {Config() {}, Queue() {}, Startup: {signal: {Interest() {}}}}}"
    window.page.route(f"{MATHJAX}**", lambda route: route.fulfill(content_type="text/javascript", body=body))
    window.page.goto(submission_page(course, formgrader, "mallory"))
    window.page.locator("#check-softmax").wait_for()
    assert_honest_work_is_there(window.page)
    assert_nothing_ran(window, dialogs)
    assert [url for url in window.outside if not url.startswith(MATHJAX)] == []
    assert window.errors == []
    scores = window.page.locator("input.score")
    assert scores.count() == len(catalog.exercises_of(STEM)) + 1
    # The page found its own field for the score, and not a student's heading.
    window.page.wait_for_function("document.querySelector('input#check-softmax').placeholder !== ''")
    assert window.page.locator("#notebook-container > .cell").count() == window.page.locator(".cell").count()


def submission_page(course, address, student):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        return f"{address}/formgrader/submissions/{gradebook.find_submission_notebook(STEM, STEM, student).id}/"


def test_the_grader_is_told_what_was_found_and_the_student_is_not(course, formgrader, page, watched):
    notes = json.loads((course / "autograded" / "mallory" / STEM / "results.json").read_text())["notes"]
    assert notes == ["the file 'more.txt' was left out"]
    notebook = nbformat.read(course / "autograded" / "mallory" / STEM / f"{STEM}.ipynb", 4)
    assert [sanitize.is_grader_note(cell) for cell in notebook.cells].index(True) == 0
    shown = watched().page
    shown.goto(submission_page(course, formgrader, "mallory"))
    note = shown.locator(".text_cell_render", has_text="For the grader:").first
    assert "more.txt" in note.inner_text() and "code in a cell that was not handed out" in note.inner_text().lower()
    assert "For the grader" not in page.read_text("utf-8")
    assert "more.txt" not in page.read_text("utf-8")


def test_the_students_page_holds_nothing_that_is_the_instructors(page, course):
    text = page.read_text("utf-8")
    for place in {str(ROOT), sys.prefix, str(course), str(Path(sys.prefix).resolve())}:
        assert place not in text, place
    rubric = catalog.written_of(STEM).rubric.strip().splitlines()[0].strip()
    for word in ("HIDDEN TESTS", "MARK SCHEME", "secret", "solutions/", "autograder", rubric):
        assert word not in text, word
    for exercise in catalog.exercises_of(STEM).values():
        assert all(prop.title.split("`")[0] in re.sub("<[^>]*>", "", text) for prop in exercise.properties)


def test_the_student_gets_one_page_of_few_megabytes_and_nothing_that_is_for_graders(page):
    assert [path.name for path in page.parent.iterdir()] == [page.name]
    assert page.stat().st_size < 12_000_000  # of fifty that were printed


def test_a_page_is_made_again_if_it_does_not_show_the_grade_that_counts_and_else_it_stays(course, page, tmp_path):
    """Released through an exchange of its own; a page of an older grade is refused there, by name."""
    folder = shutil.copytree(course, tmp_path / "course")
    page, exchange = folder / page.relative_to(course), tmp_path / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    made = page.stat().st_mtime_ns
    release.nbgrader("generate_feedback", STEM, course=folder)
    assert page.stat().st_mtime_ns == made
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention") as gradebook:
        grade = gradebook.find_grade(f"written-{STEM}", STEM, STEM, "mallory")
        grade.manual_score, grade.needs_manual_grade = 3.5, False
        gradebook.db.commit()
    (page.parent / "timestamp.txt").write_text("2026-09-29 18:00:00 UTC")
    (page.parent / "submission_secret.txt").write_text("secret")
    options = "release_feedback", STEM, f"--Exchange.root={exchange}"
    refused = release.nbgrader(*options, course=folder, check=False)
    assert refused.returncode == 1 and not list(exchange.rglob("*.html"))
    assert "show an older grade: the pages of mallory. Run `nbgrader generate_feedback softmax`" in refused.stderr
    assert "Traceback" not in refused.stderr
    release.nbgrader("generate_feedback", STEM, course=folder)
    assert re.search(r"3\.5", page.read_text("utf-8")) and page.stat().st_mtime_ns > made
    without = release.nbgrader(*options, course=folder)
    assert "mallory did not hand in through the exchange" in without.stderr
    (page.parent / "timestamp.txt").write_text("2026-09-29 18:00:00 UTC")
    (page.parent / "submission_secret.txt").write_text("secret")
    release.nbgrader(*options, course=folder)
    (released,) = exchange.rglob("*.html")
    assert released.read_bytes() == page.read_bytes()


def test_formgrader_lists_the_class_and_its_button_grades_through_the_jail(course, formgrader, watched):
    results = course / "autograded" / "ada" / STEM / "results.json"
    assert not results.exists()
    page = watched().page
    page.goto(f"{formgrader}/formgrader/manage_assignments")
    for stem in catalog.chapters():
        page.get_by_role("link", name=stem, exact=True).first.wait_for()
    page.goto(f"{formgrader}/formgrader/manage_submissions/{STEM}")
    page.get_by_text("mallory").first.wait_for()
    row = page.locator("tr", has=page.get_by_text("ada", exact=True))
    row.locator(".glyphicon-flash").click()
    done = page.locator(".modal.in", has_text=re.compile("success", re.I))
    done.wait_for(timeout=180_000)
    page.goto(f"{formgrader}/formgrader/gradebook/{STEM}/{STEM}")
    page.get_by_role("link", name=re.compile("Submission #1")).first.click()
    page.wait_for_url(re.compile("/formgrader/submissions/"))
    page.get_by_text("BEGIN MARK SCHEME").first.wait_for()  # the rubric, for whoever grades
    exercises = json.loads(results.read_text())["notebooks"][STEM]["exercises"]
    assert [e["exercise"] for e in exercises] == list(catalog.exercises_of(STEM))
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        full = sum(exercise.points for exercise in catalog.exercises_of(STEM).values())
        assert gradebook.find_submission(STEM, "ada").score == full


def test_a_note_of_anything_is_text():
    notebook = nbformat.v4.new_notebook()
    sanitize.insert_grader_note(notebook, ["<script>x</script>\n\n[x](javascript:y)", *["many"] * 99])
    source = notebook.cells[0].source
    assert "<script" not in source and "\n" not in source and "and 70 more" in source.lower()
    untouched = nbformat.v4.new_notebook()
    sanitize.insert_grader_note(untouched, [])
    assert untouched.cells == []


def test_the_contents_of_a_page_name_the_exercises_and_nothing_of_a_students_is_changed():
    entry = '<li><a href="#{}">{}</a> (Score: 1.0 / 2.0)</li>'
    entries = ("check-softmax", "Test cell"), ("comment-softmax", "Comment"), ("written-softmax", "Written response")
    head = "".join(entry.format(*both) for both in entries)
    body = '<div id="notebook">' + entry.format("check-dot", "Test cell")
    named = re.findall(r"<li><a href=.*?>(.*?)</a>", feedback.as_page(f"<head></head>{head}{body}"))
    assert named == ["softmax", "Comment on softmax", "Written response", "Test cell"]
