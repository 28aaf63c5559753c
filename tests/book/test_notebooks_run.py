"""Every notebook that a reader downloads by a click runs on a machine without `attnlab`.

Its first cell fetches the wheel from the copy of the site that it came from, although `_config.yml` names no address.
It runs once as it was downloaded: then a cell may only fail because an exercise is not done. And once with the answers:
then no cell may fail.
"""

import ast
import functools
import json
import os
import subprocess

import nbformat
import pytest
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

from attnlab.mine import PROVIDED
from autograder.demo import sample_class
from course import catalog
from tests.conftest import new_page, the_others_weekly, without_the_course

pytestmark = [pytest.mark.slow, pytest.mark.long]
RUN_IN_CI = ("softmax", "language_model", "todays_models")
HIDDEN = {"PYTHONPATH", PROVIDED}
NOT_DONE = {"NotImplementedError", "NotThere"}  # the stub's own error, and what `attnlab.mine` says of an earlier one
TELL = "import attnlab; print(attnlab.__file__)"


@pytest.fixture(scope="module")
def downloaded(addresses, browser, tmp_path_factory):
    """`downloaded(stem)` is the notebook that the button of a chapter's page saves, from the built book on loopback."""
    folder, page = tmp_path_factory.mktemp("downloads"), new_page(browser)

    @functools.cache
    def click(stem):
        page.goto(f"{addresses['http']}/chapters/{stem}.html")
        with page.expect_download() as download:
            page.locator(".chapter-download a").click()
        download.value.save_as(folder / f"{stem}.ipynb")
        return (folder / f"{stem}.ipynb").read_text("utf-8")

    yield lambda stem: nbformat.reads(click(stem), as_version=4)
    page.context.close()


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    python = without_the_course(folder / "env")
    gone = subprocess.run([python, "-c", TELL], cwd=folder, capture_output=True, text=True, env=environment())
    assert "No module named 'attnlab'" in gone.stderr
    return python


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in HIDDEN} | {"PIP_NO_INDEX": "1"}


@pytest.fixture(scope="module")
def run(python, tmp_path_factory):
    """`run(notebook, folder)` runs a notebook in that Python; returns the failed cells, with their errors."""
    kernels = tmp_path_factory.mktemp("kernels")
    (kernels / "student").mkdir()
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "student", "language": "python"}
    (kernels / "student" / "kernel.json").write_text(json.dumps(spec))

    def go(notebook, folder):
        notebook = nbformat.from_dict(notebook)
        notebook.cells.append(nbformat.v4.new_code_cell(TELL))
        specs = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
        manager = KernelManager(kernel_name="student", kernel_spec_manager=specs)
        client = NotebookClient(
            notebook, km=manager, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}}
        )
        try:
            client.execute(env=environment())
        finally:
            manager.shutdown_kernel(now=True)  # a client ends only kernels of its own manager
        assert str(python.parents[1]) in notebook.cells[-1].outputs[0].text
        return [
            (cell, output)
            for cell in notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if output.output_type == "error"
        ]

    return go


def made_by(source: str) -> set[str]:
    """The names that a cell would have made, had it not failed."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


@pytest.mark.parametrize("stem", the_others_weekly(catalog.chapters(), *RUN_IN_CI))
def test_as_downloaded_a_cell_fails_only_where_an_exercise_is_not_done(downloaded, run, tmp_path, stem):
    """By the exercise's own error, or since it uses a name that a cell would have made which failed so."""
    missing, otherwise = set(), []
    for cell, error in run(downloaded(stem), tmp_path):
        follows = error.ename == "NameError" and error.evalue.split("'")[1] in missing
        if error.ename not in NOT_DONE and not follows:
            otherwise.append(f"{error.ename}: {error.evalue}\n{cell.source}")
        missing |= made_by(cell.source)
    assert otherwise == []


@pytest.fixture(scope="module")
def answered(downloaded, tmp_path_factory):
    """A folder with all notebooks, each exercise answered."""
    sample, folder = sample_class.Sample("complete", "", references="all"), tmp_path_factory.mktemp("answered")
    for stem in catalog.chapters():
        nbformat.write(sample_class.submission(sample, stem, downloaded(stem)), folder / f"{stem}.ipynb")
    return folder


@pytest.mark.parametrize("stem", the_others_weekly(catalog.chapters(), *RUN_IN_CI))
def test_with_every_exercise_answered_no_cell_fails(answered, run, stem):
    failed = run(nbformat.read(answered / f"{stem}.ipynb", as_version=4), answered)
    assert [f"{error.ename}: {error.evalue}\n{cell.source}" for cell, error in failed] == []
