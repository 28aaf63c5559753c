"""The students' half: it installs and works on its own, and nothing private is in it."""

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest
import yaml

from attnlab.mine import PROVIDED
from book import leaks, publish
from course import catalog, release
from course.errors import CourseError
from course.folder import ROOT

pytestmark = pytest.mark.slow
KEPT_OUT = ("solutions", "course", "autograder", "tests", "book", "scripts", ".git", ".github", ".ci")


@pytest.fixture(scope="module")
def names(published):
    return sorted(path.relative_to(published).as_posix() for path in published.rglob("*") if not path.is_dir())


def test_the_tree_holds_chapters_notebooks_attnlab_and_the_bundle_and_nothing_else(names):
    outside = [name for name in names if not name.startswith("attnlab/")]
    top = [".gitignore", "AGENTS.md", "LICENSE", "README.md", "attention-course.zip", "pyproject.toml"]
    chapters = [name for stem in catalog.chapters() for name in (f"chapters/{stem}.md", f"notebooks/{stem}.ipynb")]
    assert outside == sorted([".binder/environment.yml", ".binder/postBuild", "requirements.txt", *top, *chapters])
    assert {f"attnlab/checks/{name}.gz" for name in catalog.all_exercises()} <= set(names)


def test_no_file_of_the_private_folders_is_in_it_under_any_name(published, names):
    assert [name for name in names if name.split("/")[0] in KEPT_OUT] == []
    private = {
        path.read_bytes()
        for folder in ("solutions", "course", "autograder", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.stat().st_size > 0
    }
    assert [name for name in names if (published / name).read_bytes() in private] == []
    assert [path for path in published.rglob("*") if path.is_symlink()] == []
    hidden = re.compile(r"secret_seed|hidden_tests|gradebook|\.db$|timestamp\.txt|(^|/)\.git(/|$)|pycache|sample_class")
    assert [name for name in names if hidden.search(name)] == []


def test_no_line_of_a_solution_and_of_a_hidden_test_is_in_it_and_one_would_be_found(published, tmp_path):
    assert list(leaks.scan([published], leaks.answers())) == []
    copy = shutil.copytree(published / "notebooks", tmp_path / "tree")
    path = copy / "softmax.ipynb"
    notebook = nbformat.read(path, as_version=4)
    solutions = ast.parse((ROOT / "solutions" / "softmax.py").read_text("utf-8"))
    notebook.cells[-1].source += "\n" + ast.unparse(solutions.body[-1].body[-1])
    nbformat.write(notebook, path)
    assert list(leaks.scan([copy], leaks.answers())) != []


def test_neither_a_seed_of_this_checkout_nor_a_rubric_nor_a_path_of_this_machine_is_in_it(published, names):
    seeds = [path.read_text().strip() for path in ROOT.glob("**/secret_seed") if path.stat().st_size]
    rubrics = [
        line.strip()
        for stem in catalog.chapters()
        for line in catalog.written_of(stem).rubric.splitlines()
        if len(line.strip()) > 40
    ]
    assert len(rubrics) >= len(catalog.chapters())
    for name in names:
        text = (published / name).read_text("utf-8", errors="replace")
        # The same words in a notebook's JSON, where quotes are escaped.
        found = [words for words in [*seeds, *rubrics, str(ROOT)] if words in text or json.dumps(words)[1:-1] in text]
        assert found == [], name


def test_the_same_course_gives_the_same_bytes(published, monkeypatch):
    """Made again with two chapters, which is quick: the files of the tree, and those in the bundle."""
    monkeypatch.setattr(catalog, "chapters", lambda: ("dot_products", "softmax"))
    again = dict(publish.files())
    bundles = [
        zipfile.ZipFile(io.BytesIO(data))
        for data in (again.pop("attention-course.zip"), (published / "attention-course.zip").read_bytes())
    ]
    shared = [member for member in bundles[0].infolist() if not member.filename.endswith("START.md")]
    for member in shared:
        other = bundles[1].getinfo(member.filename)
        assert (member.CRC, member.date_time, member.external_attr) == (other.CRC, other.date_time, other.external_attr)
    assert len(shared) == 5  # two notebooks, the wheel, what it requires, the page for assistants
    again.pop("README.md")  # it names the chapters
    assert [name for name, content in again.items() if (published / name).read_bytes() != content] == []


def test_the_bundle_in_it_holds_the_same_notebooks(published):
    with zipfile.ZipFile(published / "attention-course.zip") as archive:
        for stem in catalog.chapters():
            assert archive.read(f"{release.NAME}/{stem}.ipynb") == (published / f"notebooks/{stem}.ipynb").read_bytes()


@pytest.fixture(scope="module")
def installed(published, tmp_path_factory):
    """The tree's package alone in a folder, as pip would put it into an environment."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(published, folder / "tree")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", folder / "site", "."]
    subprocess.run(command, cwd=folder / "tree", check=True)
    return folder / "site"


def run_alone(site, folder, code):
    """Python with that package and this environment's third-party ones; this checkout is not in reach."""
    environment = {name: value for name, value in os.environ.items() if name != PROVIDED}
    environment |= {"PYTHONPATH": str(site), "MPLBACKEND": "agg"}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


def test_it_installs_and_the_first_cells_of_a_notebook_run_with_its_check(published, installed):
    notebook = nbformat.read(published / "notebooks" / "dot_products.ipynb", as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    first = next(index for index, source in enumerate(sources) if source == "check(dot)")
    code = "\n".join([*sources[: first + 1], "import attnlab, importlib.util", "print(attnlab.__file__)"])
    done = run_alone(installed, published / "notebooks", code)
    assert done.returncode == 0, done.stderr
    assert "not done yet" in done.stdout and str(installed) in done.stdout


def test_what_a_student_needs_is_required_and_binder_installs_it(published):
    requirements = (published / "requirements.txt").read_text().splitlines()
    assert "." in requirements and any(line.startswith("jupyterlab") for line in requirements)
    assert "pip install --no-cache-dir -r requirements.txt" in (published / ".binder/postBuild").read_text()
    assert os.access(published / ".binder" / "postBuild", os.X_OK)
    environment = yaml.safe_load((published / ".binder/environment.yml").read_text())
    assert any(str(wanted).startswith("python=3.") for wanted in environment["dependencies"])


def test_its_own_files_install_it_and_agree_on_pytorch(published, tmp_path):
    """Run what Binder's postBuild runs, except for the download: all requirements fit together."""
    tree = shutil.copytree(published, tmp_path / "tree")
    offline = ["--dry-run", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "-r", "requirements.txt"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    conda = yaml.safe_load((tree / ".binder/environment.yml").read_text())["dependencies"]
    asked = next(line for line in (tree / "requirements.txt").read_text().splitlines() if line.startswith("torch"))
    assert asked.replace("torch", "pytorch-cpu") in conda


def test_where_it_is_installed_the_first_cell_of_a_notebook_does_nothing(published, installed):
    first = {}
    for path in sorted((published / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        first[path.stem] = next(cell.source for cell in cells if cell.cell_type == "code")
    assert set(catalog.chapters()) <= first.keys()
    # What would install is not there. A line says which cell prints.
    code = f"import subprocess\nsubprocess.run = None\nfor stem, source in {first!r}.items():\n"
    code += "    print(stem, flush=True)\n    exec(compile(source, stem, 'exec'), {'__name__': '__main__'})\n"
    done = run_alone(installed, published / "notebooks", code)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, list(first), "")


def test_relative_links_and_folders_that_the_readme_names_are_there(published):
    text = (published / "README.md").read_text()
    assert "{start}" not in text and text.count("\n# ") == 0 and "## For students" in text
    for name in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE):
        assert (published / name).exists(), name


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CourseError, match="holds something else"):
        publish.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_answer_stops_it_and_nothing_is_left_behind(tmp_path, monkeypatch):
    line = leaks.answers()
    answer = next(text for text, origin in line.items() if origin.startswith("solutions/"))
    monkeypatch.setattr(publish, "files", lambda: iter([("chapters/softmax.md", answer.encode())]))
    with pytest.raises(CourseError, match="chapters/softmax.md: leaks solutions/"):
        publish.write(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_the_workflow_makes_the_public_repository_hold_the_tree_and_nothing_else(published, tmp_path):
    """Its own commands, on a repository in a folder."""

    def git(*arguments):
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "--quiet", "--bare", "remote")
    git("clone", "--quiet", "remote", "public")
    (tmp_path / "public" / "solutions.py").write_text("left from an earlier time")
    git("-C", "public", "add", "--all")
    git("-C", "public", "commit", "--quiet", "-m", "before")
    shutil.copytree(published, tmp_path / "tree")
    steps = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())["jobs"]["tree"]["steps"]
    (commands,) = [step["run"] for step in steps if "run" in step]
    for _ in range(2):  # the second time nothing has changed
        command, environment = ["bash", "-eo", "pipefail", "-c", commands], {**os.environ, "VERSION": "v1"}
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    pushed = git("-C", "remote", "ls-tree", "-r", "--name-only", "HEAD").split()
    assert pushed == sorted(path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file())
    assert git("-C", "remote", "rev-list", "--count", "HEAD").strip() == "2"
