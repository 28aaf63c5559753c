"""The self-study edition: each solution once, folded, in a separate book; the default edition holds none."""

import re
import shutil

import pytest
import toy

from book import edition, leaks

pytestmark = pytest.mark.slow
CONFIGURED = {
    'baseurl: ""': 'baseurl: "https://example.org/course"',
    'launch: {repository: "",': 'launch: {repository: "someone/course",',
}


@pytest.fixture(scope="session")
def self_study(toy_book, tmp_path_factory):
    """The toy book's root after both editions were built there, the second published under an address, and its log."""
    root = tmp_path_factory.mktemp("editions") / "book"
    shutil.copytree(toy_book, root)
    config = root / "_config.yml"
    text = config.read_text("utf-8")
    for before, after in CONFIGURED.items():
        assert before in text
        text = text.replace(before, after)
    config.write_text(text, "utf-8")
    done = toy.build(root, "--path-output", "_build/self-study", "-W", "-n", "--keep-going", edition="self-study")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return root, done.stdout + done.stderr


@pytest.fixture(scope="session")
def site(self_study):
    return self_study[0] / "_build" / "self-study" / "_build" / "html"


def test_every_solution_is_there_once_and_folded(site):
    page = (site / "chapters/toy.html").read_text("utf-8")
    assert page.count('<details class="solution"') == 1 and "<details open" not in page
    (box,) = re.findall(r'<details class="solution" id="solution-add_one">.*?</details>', page, re.DOTALL)
    text = re.sub("<[^>]*>", "", box)
    assert "def add_one(x):\n    successor_of_x = x + 1\n    return successor_of_x\n" in text
    assert leaks.squeeze(re.sub("<[^>]*>", "", page)).count("successor_of_x=x+1") == 1


def test_every_page_says_which_edition_it_is(site, toy_site):
    for name in ("index.html", "chapters/toy.html", "search.html", "404.html"):
        assert edition.MARK in (site / name).read_text("utf-8")
        assert edition.MARK not in (toy_site / name).read_text("utf-8")


def test_no_notebook_runs_a_second_time_and_the_other_edition_stays_as_it_was(self_study, toy_site):
    root, log = self_study
    assert "Executing notebook" not in log
    assert (root / "_build/html/chapters/toy.html").read_bytes() == (toy_site / "chapters/toy.html").read_bytes()


def test_the_default_edition_has_no_line_of_a_solution_and_neither_edition_has_one_in_a_notebook(self_study, site):
    root, _ = self_study
    wanted = leaks.answers(root)
    clean = [root / "_build/html", site / "notebooks", root / "_build/self-study/_build/jupyter_execute"]
    assert list(leaks.scan(clean, wanted)) == []
    assert any("solutions/toy.py" in line for line in leaks.scan([site / "chapters"], wanted))


def test_a_hidden_test_stops_the_edition_with_solutions_too(self_study, tmp_path):
    root, _ = self_study
    again = tmp_path / "again"
    shutil.copytree(root, again)
    index = again / "index.md"
    index.write_text(index.read_text() + "\n`yield dict(x=int(rng.integers(1234, 98765)))`\n")
    done = toy.build(again, "--path-output", "_build/self-study", edition="self-study")
    assert done.returncode != 0
    assert "index.html: leaks autograder/exercises/toy.py:" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "name, folder, said",
    [
        ("teacher", "_build/self-study", "EDITION is 'teacher'; there are: student, self-study"),
        ("self-study", ".", "EDITION is 'self-study', but the book would be written to"),
        ("", "_build/self-study", "EDITION is 'student', but the book would be written to"),
    ],
)
def test_an_unknown_edition_or_the_other_ones_folder_is_one_clear_line(toy_book, monkeypatch, name, folder, said):
    from types import SimpleNamespace

    monkeypatch.setenv("EDITION", name)
    app = SimpleNamespace(outdir=toy_book / folder / "_build" / "html")
    with pytest.raises(SystemExit, match=re.escape(said)):
        edition.configure(app, SimpleNamespace(html_theme_options={}))


def test_a_docstring_is_left_out_and_the_rest_is_as_it_was():
    source = 'class A:\n    """What."""\n\n    def f(self):\n        """How."""\n        return 1  # why\n'
    assert edition.without_docstrings(source) == "class A:\n    def f(self):\n        return 1  # why"


@pytest.mark.browser
def test_a_solution_opens_with_the_keyboard_and_is_closed_before(site, watched):
    seen = watched()
    seen.page.goto(f"{site.as_uri()}/chapters/toy.html")
    box = seen.page.locator("details.solution")
    assert not box.locator("pre").is_visible()
    box.locator("summary").press("Enter")
    assert "successor_of_x" in box.locator("pre").inner_text()
    assert seen.page.get_by_text(edition.MARK).is_visible()
    seen.assert_clean()


# What an address and a repository add to a page


def test_an_address_and_a_repository_give_absolute_metadata_launch_links_and_a_root_for_unknown_pages(site):
    page, lost = ((site / name).read_text("utf-8") for name in ("chapters/toy.html", "404.html"))
    for said in (
        '<link rel="canonical" href="https://example.org/course/chapters/toy.html"',
        '<meta property="og:url" content="https://example.org/course/chapters/toy.html"/>',
        '<meta property="og:image" content="https://example.org/course/_static/preview.png"/>',
        '<meta name="twitter:card" content="summary_large_image"/>',
        '<a href="https://colab.research.google.com/github/someone/course/blob/main/notebooks/toy.ipynb" '
        'rel="noopener">Open in Colab</a>',
        'href="https://mybinder.org/v2/gh/someone/course/main?urlpath=lab%2Ftree%2Fnotebooks%2Ftoy.ipynb"',
    ):
        assert said in page
    assert (site / "_static/preview.png").is_file()
    assert not re.search(r"<(?:script|img|iframe|link)[^>]*(?:colab|binder)", page)
    assert 'href="/course/chapters/toy.html"' in lost and 'action="/course/search.html"' in lost
