"""Notebooks in JupyterLab, in a real browser with a real kernel: widgets alive, checks readable."""

import ast
import json
import re

import nbformat
import pytest

from attnlab import widgets
from attnlab.checking import code_slice
from autograder.demo import sample_class
from course import catalog
from course.folder import ROOT
from tests.conftest import Watched, new_page

pytestmark = [pytest.mark.slow, pytest.mark.long]


def handed_out(released, stem):
    return nbformat.read(released / "release" / stem / f"{stem}.ipynb", as_version=4)


def gallery(released):
    """Cells with one widget of every kind, with the statements it needs.

    From the chapter that shows it last: there `LiveModel` is given the student's model.
    """
    complete, cells, wanted = sample_class.Sample("complete", "", references="all"), [], set(widgets.__all__)
    for stem in reversed(catalog.chapters()):
        notebook = sample_class.submission(complete, stem, handed_out(released, stem))
        sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        found = []
        for source in sources:
            start = len(found)
            found += code_slice.statements(source, stem)
            shown = [
                i for i in range(start, len(found)) if isinstance(found[i].node, ast.Expr) and found[i].needs & wanted
            ]
            if shown:
                # All of the cell up to the widget: a loop that fills a list does not bind the list's name.
                here = range(start, shown[-1] + 1)
                wanted -= frozenset().union(*(found[i].needs for i in shown))
                needs = frozenset().union(*(found[i].needs for i in here))
                indices = sorted({*code_slice.needed(found[:start], needs), *here})
                source = "\n".join(ast.unparse(found[i].node) for i in indices)
                cells.append(nbformat.v4.new_code_cell(source))
    assert not wanted, f"stands in no chapter: {', '.join(wanted)}"
    return cells


@pytest.fixture(scope="module")
def lab(browser, jupyter, released, tmp_path_factory):
    """JupyterLab's window on a chapter as released, and with the answers filled in and a gallery of the widgets below.

    It is opened once: to start its scripts takes longer than all the rest.
    """
    folder = tmp_path_factory.mktemp("lab")
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells in the page at once, so that a test can look at any of them.
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    stub, complete = handed_out(released, "softmax"), sample_class.Sample("complete", "", references="all")
    nbformat.write(stub, folder / "softmax.ipynb")
    solved = sample_class.submission(complete, "softmax", stub)
    solved.cells += gallery(released)
    nbformat.write(solved, folder / "solved.ipynb")
    address = jupyter(
        "lab",
        folder,
        "lab",
        "--expose-app-in-browser",
        PYTHONPATH=str(ROOT),
        ATTNLAB_MINE="solutions",
        JUPYTERLAB_SETTINGS_DIR=str(folder / "settings"),
        JUPYTERLAB_WORKSPACES_DIR=str(folder / "workspaces"),
    )
    seen = Watched(new_page(browser, viewport={"width": 1280, "height": 900}))
    seen.page.goto(f"{address}/lab?reset")
    seen.page.wait_for_function("window.jupyterapp", timeout=60_000)
    seen.page.evaluate("jupyterapp.restored.then(() => null)")
    yield seen.page
    seen.page.context.close()


def open_notebook(lab, name):
    """The panel with this notebook, in front of those that are open already."""
    # The kernel is that of this notebook: the status bar may still speak of the one that was in front before.
    open_it = """async (path) => {
      const panel = await jupyterapp.commands.execute("docmanager:open", { path });
      await Promise.all([panel.context.ready, panel.sessionContext.ready]);
      jupyterapp.shell.activateById(panel.id);
      return panel.id;
    }"""
    panel = lab.locator(f"[id='{lab.evaluate(open_it, f'{name}.ipynb')}']")
    panel.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    return panel


def test_every_check_passes_on_the_answers_and_every_kind_of_widget_comes_alive(lab):
    panel = open_notebook(lab, "solved")
    lab.get_by_role("menuitem", name="Run", exact=True).click()
    lab.get_by_role("menuitem", name=re.compile(r"^Run All Cells$")).click()
    kinds = "new Set([...document.querySelectorAll('[data-widget]')].map((view) => view.dataset.widget)).size"
    failed = "document.querySelector('.jp-OutputArea-output[data-mime-type=\"application/vnd.jupyter.error\"]')"
    lab.wait_for_function(f"{failed} || {kinds} === {len(widgets.__all__)}", timeout=300_000)
    reports = [report.inner_text() for report in panel.locator(".attn-check").all()]
    assert len(reports) == len(catalog.exercises_of("softmax"))
    for words in reports:
        passed, of = re.search(r"(\d+) of (\d+) passed", words).groups()
        assert passed == of, words
    for kind in ("error", "stderr"):
        shown = panel.locator(f".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.{kind}']")
        assert shown.all_inner_texts() == []


def test_the_students_own_model_reads_a_sentence_in_its_widget(lab, smollm2_file):
    """After the test above, which has run the notebook: what is drawn comes from the kernel, message by message."""
    widget = open_notebook(lab, "solved").locator("[data-widget=live_model]")
    widget.scroll_into_view_if_needed()
    widget.locator("[data-go=text]").fill("The capital of Germany is")
    widget.locator("[data-go=read]").click()
    can_write = widget.locator("[data-go=write]:not([disabled])").filter(has_text="Write on")
    can_write.wait_for(timeout=60_000)
    assert widget.locator(".lm-chip").all_inner_texts() == ["The", "capital", "of", "Germany", "is"]
    assert "Berlin" in widget.locator(".lm-word").all_inner_texts()
    before = widget.locator(".lm-number").all_inner_texts()
    widget.locator("[data-how=off]").click()
    widget.locator("[data-how=off][aria-pressed=true]:not([disabled])").wait_for()
    assert widget.locator(".lm-number").all_inner_texts() != before
    widget.locator("[data-field=temperature]").fill("0")
    widget.locator("[data-how=on]").click()
    can_write.wait_for(timeout=60_000)
    widget.locator("[data-go=write]").click()
    widget.locator(".lm-written b", has_text="Berlin").wait_for(timeout=60_000)


def test_a_stub_is_told_kindly_that_it_is_not_done(lab):
    panel = open_notebook(lab, "softmax")
    for text in ("from attnlab import check", "def softmax(", "check(softmax)"):
        cell = panel.locator(".jp-CodeCell").filter(has_text=text).first
        cell.locator(".cm-content").click()
        lab.keyboard.press("Control+Enter")
    panel.locator(".attn-check").first.wait_for(timeout=60_000)
    assert "not done yet" in panel.locator(".attn-check").first.inner_text().lower()
