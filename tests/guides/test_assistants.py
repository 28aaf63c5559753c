"""AGENTS.md, for programs that help a student: short, and all that it names is true."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from course import assemble, catalog, release
from course.folder import ROOT

LINES = 40
HERE = ("START.md", "")  # in the bundle
BELOW = ("README.md", "notebooks/")  # in the published tree
PAGES = pytest.mark.parametrize("page", [HERE, BELOW], ids=["bundle", "tree"])


@pytest.fixture(scope="module")
def text():
    return release.assistants_page(*HERE)


def in_code(text: str) -> list[str]:
    """List what is between back quotes."""
    return re.findall(r"`([^`\n]+)`", text)


def indented(text: str) -> list[str]:
    """The commands on lines of their own."""
    return re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)


@PAGES
def test_the_page_is_short_and_every_place_in_it_is_filled_in(page):
    text = release.assistants_page(*page)
    assert len(text.splitlines()) <= LINES
    assert not re.search(r"\{\w*\}", text)


@pytest.mark.slow
def test_the_files_that_it_names_are_in_the_bundle(released, text):
    with zipfile.ZipFile(released / "dist" / f"{release.NAME}.zip") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        assert archive.read(f"{release.NAME}/AGENTS.md").decode() == text
    named = {code for code in in_code(text) if code.endswith((".md", ".ipynb"))}
    assert named == {"START.md", "softmax.ipynb"} and named <= names
    assert any(name.startswith("attnlab-") for name in names)


@pytest.mark.slow
def test_the_files_and_folders_that_it_names_are_in_the_published_tree(published):
    text = (published / "AGENTS.md").read_text("utf-8")
    assert text == release.assistants_page(*BELOW)
    named = {code for code in in_code(text) if code.endswith((".md", ".ipynb", "/")) or code.startswith("attnlab")}
    assert named == {"README.md", "notebooks/", "notebooks/softmax.ipynb", "attnlab", "attnlab/checks"}
    assert [name for name in named if not (published / name).exists()] == []


def run(command: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a command of the page with this Python."""
    own = command.replace("python", f"'{sys.executable}'", 1)
    return subprocess.run(own, shell=True, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the notebook that the page names, as a student begins it."""
    folder = tmp_path_factory.mktemp("notebooks")
    nbformat.write(release.student_notebook("softmax"), folder / "softmax.ipynb")
    return folder


def test_the_command_that_lists_the_exercises_lists_them(text, folder):
    (command,) = [code for code in in_code(text) if code.startswith("python -c")]
    done = run(command, folder)
    assert set(done.stdout.split()) == set(catalog.all_exercises()), done.stderr


def test_the_command_that_asks_the_check_answers_with_the_fields_that_are_named(text, folder):
    (command,) = indented(text)
    done = run(command, folder)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert all("not done yet" in exercise["sentence"].lower() for exercise in found["exercises"])
    notebook = assemble.source_notebook("softmax")
    for cell in notebook.cells:
        cell.source = cell.source.replace("axis=axis", "axis=0")
    nbformat.write(notebook, folder / "softmax.ipynb")
    (wrong, *_) = [e for e in json.loads(run(command, folder).stdout)["exercises"] if not e["passed"]]
    failed = next(finding for finding in wrong["findings"] if not finding["passed"])
    fields = in_code(text[text.index("- For each of") : text.index("- Exit status")])
    assert fields[0] == "exercises"
    own, of_findings = fields[1 : fields.index("findings") + 1], fields[fields.index("findings") + 1 :]
    assert set(own) <= wrong.keys() and set(of_findings) == failed.keys()


def test_the_exit_status_is_2_with_an_error_where_nothing_can_be_checked(text, tmp_path):
    (command,) = indented(text)
    done = run(command, tmp_path)
    assert (done.returncode, list(json.loads(done.stdout))) == (2, ["error"])


def test_below_each_check_are_hints(text):
    """The ladder that the page speaks of."""
    assert "Below each check are hints, from a nudge to a plan" in text
    for stem in catalog.chapters():
        chapter = (ROOT / "chapters" / f"{stem}.md").read_text("utf-8")
        for name in catalog.exercises_of(stem):
            section = chapter[chapter.index(f"\ncheck({name})\n") :].partition("\n## ")[0]
            assert re.findall(r"^:::\{dropdown\} Hint( 1)?\b", section, re.MULTILINE), name


def test_the_start_page_has_what_the_page_says():
    headings = re.findall(r"^## (.+)$", release.start_page(), re.MULTILINE)
    assert {"Start", "What the check says", "What a mistake costs", "Hand in"} <= set(headings)
    assert "The notebooks, in their order" in headings
