"""Notebooks in JupyterLab, in a real browser with a real kernel: widgets alive, checks readable."""

import ast
import json
import os
import re

import nbformat
import pytest

from attnlab import excerpt, widgets
from autograder.course import catalog, release
from autograder.course.folder import ROOT
from autograder.demo import sample_class

pytestmark = pytest.mark.slow


def gallery():
    """A notebook with one widget of every kind: from the chapter that shows it first, with the statements it needs."""
    complete, cells, wanted = sample_class.Sample("complete", "", references="all"), [], set(widgets.__all__)
    for stem in catalog.chapters():
        notebook = sample_class.submission(complete, stem, release.student_notebook(stem))
        found = [
            statement
            for cell in notebook.cells
            if cell.cell_type == "code"
            for statement in excerpt.statements(cell.source, stem)
        ]
        for statement in found:
            kinds = statement.needs & wanted
            if isinstance(statement.node, ast.Expr) and kinds:
                wanted -= kinds
                needed = [found[i] for i in excerpt.needed(found, statement.needs)]
                cells.append("\n".join(ast.unparse(s.node) for s in [*needed, statement]))
    assert not wanted, f"stands in no chapter: {', '.join(wanted)}"
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}},
    )


@pytest.fixture(scope="session")
def lab(jupyter, tmp_path_factory):
    """JupyterLab on a chapter as released and with the answers filled in, and on a gallery of the widgets."""
    folder = tmp_path_factory.mktemp("lab")
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells in the page at once, so that a test can look at any of them.
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    released = release.student_notebook("softmax")
    complete = sample_class.Sample("complete", "", references="all")
    nbformat.write(released, folder / "softmax.ipynb")
    nbformat.write(sample_class.submission(complete, "softmax", released), folder / "solved.ipynb")
    nbformat.write(gallery(), folder / "gallery.ipynb")
    packages = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    return jupyter(
        "lab",
        folder,
        "lab",
        PYTHONPATH=packages,
        ATTNLAB_MINE="solutions",
        JUPYTERLAB_SETTINGS_DIR=str(folder / "settings"),
        JUPYTERLAB_WORKSPACES_DIR=str(folder / "workspaces"),
    )


def open_notebook(page, address, name):
    page.goto(f"{address}/lab/tree/{name}.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.get_by_text("| Idle").wait_for(timeout=60_000)  # the status bar: the kernel has started


def run_all(page, address, name):
    open_notebook(page, address, name)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile(r"^Run All Cells$")).click()


def nothing_went_wrong(page):
    for kind in ("error", "stderr"):
        assert page.locator(f".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.{kind}']").count() == 0


def test_every_check_of_a_chapter_passes_on_the_answers(lab, watched):
    page = watched().page
    run_all(page, lab, "solved")
    count = len(catalog.exercises_of("softmax"))
    page.locator(".attn-check").nth(count - 1).wait_for(timeout=300_000)
    for report in page.locator(".attn-check").all():
        words = report.inner_text()
        passed, of = re.search(r"(\d+) of (\d+) passed", words).groups()
        assert passed == of, words
    nothing_went_wrong(page)


def test_every_kind_of_widget_comes_alive(lab, watched):
    page = watched().page
    run_all(page, lab, "gallery")
    page.locator("[data-widget]").nth(len(widgets.__all__) - 1).wait_for(timeout=300_000)
    shown = {view.get_attribute("data-widget") for view in page.locator("[data-widget]").all()}
    assert len(shown) == len(widgets.__all__)
    nothing_went_wrong(page)


def test_a_stub_is_told_kindly_that_it_is_not_done(lab, watched):
    page = watched().page
    open_notebook(page, lab, "softmax")
    for text in ("from attnlab import check", "def softmax(", "check(softmax)"):
        cell = page.locator(".jp-CodeCell").filter(has_text=text).first
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
    page.locator(".attn-check").first.wait_for(timeout=60_000)
    assert "not done yet" in page.locator(".attn-check").first.inner_text().lower()
