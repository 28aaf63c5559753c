"""The first cell of a notebook installs `attnlab` where it is missing, and does nothing where it is there."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from book.chapter_pages import downloads
from course import assemble, catalog, cells, release
from course.folder import ROOT
from tests.conftest import without_the_course

TELL = "\nimport attnlab; print(attnlab.__file__)"


@pytest.fixture(scope="module")
def site(serve, tmp_path_factory):
    """The folder of notebooks as the book has it, on loopback: its address and its place."""
    root = tmp_path_factory.mktemp("site")
    downloads.write(root / downloads.FOLDER, ["dot_products"])
    return f"{serve(root)}/", root / downloads.FOLDER


@pytest.fixture
def python(tmp_path):
    return without_the_course(tmp_path / "env")


def run(python, code: str, folder: Path) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, "-c", code], cwd=folder, capture_output=True, text=True, env=environment | {"PIP_NO_DEPS": "1"}
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["site", "beside", "nowhere"])
def test_a_machine_without_the_package_gets_it_or_is_told_what_to_fetch(site, python, tmp_path, where):
    address, notebooks = site
    folder = notebooks if where == "beside" else tmp_path
    done = run(python, cells.setup_source(False, address if where == "site" else "") + TELL, folder)
    if where == "nowhere":
        assert done.returncode and f"put {cells.wheel_name()}" in done.stderr
    else:
        assert done.returncode == 0 and str(tmp_path / "env") in done.stdout, done.stderr
        again = run(python, cells.setup_source(False, "http://127.0.0.1:9/") + TELL, tmp_path)
        assert again.returncode == 0 and not again.stderr  # it is there, so nothing is asked for


def test_a_chapter_that_needs_pytorch_says_where_to_get_it(tmp_path):
    missing = "import sys\nsys.modules['torch'] = None\n"
    done = run(sys.executable, missing + cells.setup_source(True, ""), tmp_path)
    assert done.returncode and "pip install torch" in done.stderr
    assert run(sys.executable, missing + cells.setup_source(False, ""), tmp_path).returncode == 0


@pytest.mark.parametrize("stem", catalog.chapters())
def test_it_is_the_first_code_cell_of_every_notebook_and_the_others_keep_their_ids(stem):
    notebook = release.student_notebook(stem)
    first, *more = [cell for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line.split()[:2] for cell in more for line in cell.source.splitlines()]
    assert first.source == cells.setup_source(["import", "torch"] in lines)
    assert first.id == cells.SETUP_ID
    others = [cell["id"] for cell in assemble.source_notebook(stem).cells if cell["id"] != cells.SETUP_ID]
    assert others == [f"{stem.replace('_', '-')}-{number}" for number in range(len(others))]


def test_the_address_is_the_one_the_book_is_published_at(monkeypatch):
    monkeypatch.setattr(cells, "published_at", lambda: "https://example.org/attention/")
    assert f'"https://example.org/attention/notebooks/{cells.wheel_name()}"' in cells.setup_source(False)


# PyTorch is too large to be installed unasked, and the first cell says where to get it. The model's file is optional.
# psutil comes with Jupyter's kernel, and the rest with anywidget.
NOT_REQUIRED = {"torch", "gguf", "tokenizers", "IPython", "traitlets", "psutil"}
NOT_IMPORTED = {"ipywidgets"}  # what anywidget is built on, held to the versions that the course is tested with


def test_the_wheel_requires_what_attnlab_imports_and_nothing_else():
    """A machine as Colab's, where nothing else of the course is, gets all of it from the first cell."""
    imported = set()
    for path in (ROOT / "attnlab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = {re.match(r"[\w-]+", wanted)[0] for wanted in project["dependencies"]}
    assert imported - set(sys.stdlib_module_names) - {"attnlab"} - NOT_REQUIRED == required - NOT_IMPORTED
