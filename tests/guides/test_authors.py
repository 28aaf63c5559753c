"""The authors' guide, followed to the letter: a chapter, an exercise, misconceptions and a widget in a fresh clone."""

import re

import pytest

from autograder.sandbox import bubblewrap
from course.folder import ROOT
from tests.guides import runner

pytestmark = pytest.mark.slow


def test_the_guide_works_to_the_letter(fresh_clone, tmp_path):
    own_files = {bubblewrap.NO_JAIL: "1"} if bubblewrap.problem() else {}
    session = runner.Session(fresh_clone, tmp_path / "scratch", **own_files)
    session.follow(runner.blocks("authors"))
    page = (fresh_clone / "build/draft/_build/html/chapters/halves.html").read_text("utf-8")
    assert "each gets [3.5 2. ]" in page and "half.js" not in page and "HalfExplorer" in page
    assert "np.asarray(x)" not in re.sub("<[^>]*>", "", page)
    # What the guide has made is the only thing that differs from the course as it was.
    assert (fresh_clone / "chapters/softmax.md").read_bytes() == (ROOT / "chapters/softmax.md").read_bytes()
    assert runner.altered_checks(fresh_clone) == {"halved.gz", "manifest.json"}
    before, after = (_manifest_lines(root) for root in (ROOT, fresh_clone))
    assert before < after and all('"halved"' in line for line in after - before)


def _manifest_lines(root):
    return {line.rstrip(",") for line in (root / "attnlab/checks/manifest.json").read_text("utf-8").splitlines()}


def test_the_files_it_shows_in_full_do_not_exist_in_the_course():
    """They are taken for an example, and are not looked for in what is published."""
    for block in runner.blocks("authors"):
        if block.kind == "file" and block.language != "diff":
            assert not (ROOT / block.file).exists(), block.where
