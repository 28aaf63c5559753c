"""The student's notebooks in JupyterLab, in a real browser with a real kernel: widgets alive, checks readable."""

import json
import re

import nbformat
import pytest

from autograder import registry, release, sample_class

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def lab(jupyter, tmp_path_factory):
    """JupyterLab on every chapter twice: `released`, and `solved` with the answers filled in."""
    folder = tmp_path_factory.mktemp("lab")
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells in the page at once, so that a test can look at any of them.
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    complete = sample_class.Sample("complete", "", references="all")
    for name in ("released", "solved"):
        (folder / name).mkdir()
    for stem in registry.chapters():
        released = release.student_notebook(stem)
        nbformat.write(released, folder / "released" / f"{stem}.ipynb")
        nbformat.write(sample_class.submission(complete, stem, released), folder / "solved" / f"{stem}.ipynb")
    return jupyter("lab", folder, "lab", PYTHONPATH="", ATTNLAB_MODEL="",  # the recorded results
                   JUPYTERLAB_SETTINGS_DIR=str(folder / "settings"),
                   JUPYTERLAB_WORKSPACES_DIR=str(folder / "workspaces"))


def open_notebook(page, address, name):
    page.goto(f"{address}/lab/tree/{name}.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.get_by_text("| Idle").wait_for(timeout=60_000)  # the status bar: the kernel has started


def run_all(page, address, name):
    open_notebook(page, address, name)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile(r"^Run All Cells$")).click()


@pytest.mark.parametrize("stem", registry.chapters())
def test_widgets_come_alive_and_every_check_passes_on_the_answers(lab, watched, stem):
    page = watched().page
    run_all(page, lab, f"solved/{stem}")
    count = len(registry.exercises_of(stem))
    page.locator(".attn-check").nth(count - 1).wait_for(timeout=300_000)
    for report in page.locator(".attn-check").all():
        words = report.inner_text()
        passed, of = re.search(r"(\d+) of (\d+) passed", words).groups()
        assert passed == of, words
    page.locator("[data-widget]").first.wait_for(timeout=30_000)
    for kind in ("error", "stderr"):
        assert page.locator(f".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.{kind}']").count() == 0


def test_a_stub_is_told_kindly_that_it_is_not_done(lab, watched):
    page = watched().page
    open_notebook(page, lab, "released/softmax")
    for text in ("from attnlab import check", "def softmax(", "check(softmax)"):
        cell = page.locator(".jp-CodeCell").filter(has_text=text).first
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
    page.locator(".attn-check").first.wait_for(timeout=60_000)
    assert "not done yet" in page.locator(".attn-check").first.inner_text().lower()
