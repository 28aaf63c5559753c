"""The student's bundle installs and runs where nothing of the course is."""

import json
import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import nbformat
import pytest

from attnlab import data
from attnlab.mine import PROVIDED
from course import catalog, release
from course.folder import ROOT
from tests.conftest import WITHOUT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def bundle(released, tmp_path_factory):
    """The unpacked bundle, and a fresh environment with its wheel in it."""
    folder = tmp_path_factory.mktemp("student")
    with zipfile.ZipFile(released / "dist" / f"{release.NAME}.zip") as opened:
        opened.extractall(folder)
    home = folder / release.NAME
    # The environment sees this one's third-party packages, to spare a download; the course itself is not among them.
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    (own,) = folder.glob("env/lib/python*/site-packages")
    # By this one's pip: to install another takes longer than all the rest.
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", *home.glob("*.whl")], check=True
    )
    (own / "third_party.pth").write_text(site.getsitepackages()[0] + "\n")
    shutil.copy(Path(WITHOUT, "rfc3987_syntax.py"), own)
    return home, python


def test_the_bundle_holds_notebooks_wheel_requirements_and_two_pages_and_nothing_else(bundle):
    home, _ = bundle
    names = sorted(path.name for path in home.iterdir())
    wheel = next(home.glob("attnlab-*.whl")).name
    pages = ["AGENTS.md", "START.md"]
    assert names == sorted([*(f"{s}.ipynb" for s in catalog.chapters()), wheel, "requirements.txt", *pages])
    assert wheel in (home / "requirements.txt").read_text()


def test_the_start_page_names_the_notebooks_in_their_order(bundle):
    text = (bundle[0] / "START.md").read_text()
    places = [text.rindex(f"`{stem}.ipynb`, about ") for stem in catalog.chapters()]
    assert places == sorted(places) and "{" not in text


def test_whatever_a_notebook_imports_is_required(bundle):
    """By attnlab itself, or beside it: a student has nothing else."""
    home, _ = bundle
    asked = (home / "requirements.txt").read_text() + (ROOT / "pyproject.toml").read_text()
    for path in home.glob("*.ipynb"):
        source = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
        imported = {name.split(".")[0] for name in re.findall(r"^(?:import|from) ([\w.]+)", source, re.MULTILINE)}
        for name in imported - set(sys.stdlib_module_names) - {"attnlab"}:
            assert re.search(rf"\b{name}\b[><=]", asked), f"{path.name} imports {name}"


def test_the_wheel_holds_attnlab_alone_with_its_data(bundle):
    home, _ = bundle
    with zipfile.ZipFile(next(home.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"attnlab"}
    for name in catalog.all_exercises():
        assert f"attnlab/checks/{name}.gz" in names
    assert {"attnlab/widgets/softmax.js", "attnlab/widgets/widgets.css", "attnlab/data/seven_tokens.npz"} <= set(names)


def run(bundle, code):
    home, python = bundle
    done = subprocess.run([python, "-I", "-c", code], cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_attnlab_comes_from_the_bundle_and_the_answers_are_not_there(bundle):
    out = run(
        bundle,
        "import attnlab, importlib.util as u; print(attnlab.__file__);"
        "print([u.find_spec(n) for n in ('autograder', 'solutions')])",
    )
    assert str(ROOT) not in out and "[None, None]" in out


def taken(python, folder, *stems):
    """Return the answer of `attnlab.mine` for every exercise in a folder of notebooks: "taken", or why not."""
    names = [name for stem in stems or catalog.chapters() for name in catalog.exercises_of(stem)]
    code = (
        "import json, sys\nfrom attnlab import mine\nsaid = {}\nfor name in sys.argv[1:]:\n"
        "    try:\n        getattr(mine, name)\n        said[name] = 'taken'\n"
        "    except ImportError as error:\n        said[name] = str(error)\nprint(json.dumps(said))"
    )
    done = subprocess.run([python, "-I", "-c", code, *names], cwd=folder, capture_output=True, text=True, env=OWN)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OWN = {name: value for name, value in os.environ.items() if name not in {PROVIDED, "PYTHONPATH"}}


def test_every_stub_as_released_is_not_done_yet(bundle):
    home, python = bundle
    said = taken(python, home)
    assert said.keys() == catalog.all_exercises().keys()
    assert [words for words in said.values() if "is not done yet" not in words] == []


@pytest.fixture(scope="session")
def complete(bundle, tmp_path_factory):
    """A student's folder in the bundle's layout, with every exercise solved."""
    from autograder.demo import sample_class

    sample, folder = sample_class.Sample("complete", "", references="all"), tmp_path_factory.mktemp("complete")
    for path in bundle[0].glob("*.ipynb"):
        solved = sample_class.submission(sample, path.stem, nbformat.read(path, as_version=4))
        nbformat.write(solved, folder / path.name)
    return folder


@pytest.mark.long
@pytest.mark.weekly
def test_every_answer_of_a_complete_copy_passes_its_check_and_can_be_built_on(bundle, complete):
    assert {name: words for name, words in taken(bundle[1], complete).items() if words != "taken"} == {}


def test_data_and_widgets_come_with_the_wheel(bundle):
    out = run(
        bundle,
        "from attnlab import data, widgets\n"
        "print(data.seven_tokens().weights.shape, data.heads().measures['first'].shape)\n"
        "print(all(getattr(widgets, name)._esm for name in widgets.__all__))",
    )
    assert out == "(30, 9, 7, 7) (30, 9)\nTrue\n"


@pytest.mark.weekly
def test_a_complete_copy_runs_the_real_model_on_its_own_code(bundle, complete, smollm2_file):
    """Run `language_model` from its first cell to generated text, with no reference in reach."""
    convert = [bundle[1], "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "--output", "ran"]
    last = "language_model.ipynb"
    done = subprocess.run([*convert, last], cwd=complete, capture_output=True, text=True, timeout=600, env=OWN)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = [o for c in nbformat.read(complete / "ran.ipynb", as_version=4).cells for o in c.get("outputs", [])]
    assert [o for o in outputs if o.get("name") == "stderr"] == []
    (parts,) = [o.data["text/plain"] for o in outputs if "this notebook" in o.get("data", {}).get("text/plain", "")]
    for stem in ("multi_head", "rope", "kv_cache", "transformer_block"):
        assert f"your {stem}.ipynb" in parts
    assert "reference" not in parts
    printed = "".join(o.text for o in outputs if o.get("name") == "stdout")
    assert printed.count("-> 100% of the tokens as recorded") == len(data.generation().prompts) - 1
    assert "[recorded]" not in printed
