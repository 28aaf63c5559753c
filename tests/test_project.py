"""The project's own files: set-up, workflows, documents."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
import yaml

from course import catalog
from course.folder import ROOT


def test_workflows_are_valid_and_run_what_ci_runs():
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    done = subprocess.run(
        [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert any(step.get("run") == "bash .ci/run" for step in jobs["test"]["steps"])


def test_ci_runs_the_two_commands_on_a_bare_machine_before_it_installs_anything():
    script = (ROOT / ".ci" / "run").read_text()
    bare = script.index(".ci/bare make book\n.ci/bare make test\n")
    assert bare < script.index("make lint") < script.index("apt-get") < script.index("make model")


def test_ci_calls_the_readmes_test_command_with_a_browser_required():
    script = (ROOT / ".ci" / "run").read_text()
    assert "make test" in script and "REQUIRE_BROWSER=1" in script and "REQUIRE_MODEL=1" in script
    assert "make test" in (ROOT / "README.md").read_text()


def test_ci_has_the_compilers_of_the_appendix_and_requires_them():
    script = (ROOT / ".ci" / "run").read_text()
    assert "REQUIRE_COMPILERS=1" in script
    packages = {
        "gcc": "gcc libc6-dev",
        "g++": "g++",
        "node": "nodejs",
        "javac": "default-jdk-headless",
        "go": "golang-go",
    }
    for command, package in packages.items():
        assert f'needs "{package}" {command}\n' in script


def dry_run(target: str) -> str:
    """Return what `make` would run, in another environment."""
    command = ["make", "--dry-run", target, "VENV=/nonexistent/.venv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROMISED = [
    "env",
    "book",
    "draft",
    "test",
    "test-quick",
    "lint",
    "model",
    "gemma",
    "release",
    "publish-tree",
    "zip",
    "grade",
    "serve",
    "lab",
]


@pytest.mark.parametrize("target", [*PROMISED, "formgrader", "clean"])
def test_every_promised_target_is_there(target):
    recipe = dry_run(target)
    assert target == "clean" or "/nonexistent/.venv" in recipe  # VENV= overrides, everywhere


def test_the_environment_is_made_from_torch_first():
    recipe = dry_run("test")
    assert recipe.index("^torch==") < recipe.index("-r requirements.txt")


def test_requirements_have_upper_bounds():
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#") and not line.startswith("setuptools"):
            assert "<" in line or "==" in line, line


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_chapters_stem_names_its_files_in_every_folder(stem):
    of_exercises = ["tests/alternatives", "tests/unseen"] if catalog.exercises_of(stem) else []
    programs = [f"{folder}/{stem}.py" for folder in ("solutions", "course/exercises", *of_exercises)]
    for path in (f"chapters/{stem}.md", f"tests/test_{stem}.py", *programs):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize(
    "folder, forbidden",
    [("attnlab", "autograder|solutions|tests"), ("solutions", "autograder|tests"), ("autograder", "tests")],
)
def test_imports_run_one_way(folder, forbidden):
    for path in (ROOT / folder).rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            assert not re.match(rf"\s*(from|import) ({forbidden})\b", line), f"{path}: {line}"


@pytest.mark.parametrize("package", ["attnlab", "autograder", "book", "course", "live"])
def test_a_package_is_at_most_nine_imports_deep(package):
    graph = grimp.build_graph(package)

    @functools.cache
    def depth(module):
        return 1 + max(map(depth, graph.find_modules_directly_imported_by(module)), default=0)

    deepest = max(graph.modules, key=depth)
    assert depth(deepest) <= 9, deepest


@pytest.mark.parametrize("package", ["attnlab", "autograder", "book", "course", "live"])
def test_a_folder_holds_at_most_sixteen_modules(package):
    for folder in (ROOT / package, *(ROOT / package).rglob("*/")):
        modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        if folder not in (ROOT / "attnlab" / "widgets", ROOT / "course" / "exercises"):  # one per widget, or chapter
            assert len(modules) <= 16, (folder, sorted(modules))


@pytest.mark.parametrize("path", ["README.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_documents_are_there_and_their_relative_links_lead_somewhere(path):
    text = (ROOT / path).read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_the_readme_shows_pages_as_they_are_and_is_short():
    from PIL import Image

    from scripts import take_screenshot

    for name in take_screenshot.SOURCES:
        shown = Image.open(take_screenshot.IMAGES / name).text
        assert shown[take_screenshot.STAMP] == take_screenshot.made_from(name), "run scripts/take_screenshot.py"
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 80
