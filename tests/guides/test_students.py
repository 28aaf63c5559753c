"""The students' guide, followed to the letter with the bundle that is published."""

import shutil
import sys
from pathlib import Path

import pytest

from course import release
from tests.guides import runner

pytestmark = pytest.mark.slow


def third_party(folder: Path) -> Path:
    """This environment's packages, and nothing of the course: what pip would bring from the network."""
    folder.mkdir()
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    for path in site.iterdir():
        # jsonschema does without the second, which takes each process a second to load (tests/without).
        if "attnlab" not in path.name and path.name != "rfc3987_syntax" and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.long
def test_the_guide_works_to_the_letter_where_nothing_of_the_course_is(published, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(published / f"{release.NAME}.zip", home)
    session = runner.Session(home, tmp_path / "scratch", PYTHONPATH=str(third_party(tmp_path / "packages")))
    session.follow(runner.blocks("students"))
    assert "attention-course/.venv" in session.run("cd ..; python -c 'import attnlab; print(attnlab.__file__)'")


def test_the_page_in_the_bundle_is_the_guide_without_words_for_its_test():
    page = release.start_page()
    assert "% " not in page and "`% " not in page and page.startswith("# For students")
    assert all(block.text in page for block in runner.blocks("students"))
