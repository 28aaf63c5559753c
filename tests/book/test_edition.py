"""The self-study edition: pages of solutions beside the chapters, in a separate book; the default edition has none."""

import re
import shutil
from html import unescape
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
import toy
import yaml

from book import edition, leaks
from course.folder import ROOT

pytestmark = pytest.mark.slow
CONFIGURED = {
    'baseurl: ""': 'baseurl: "https://example.org/course"',
    'launch: {repository: "",': 'launch: {repository: "someone/course",',
    'report_errors: ""': 'report_errors: "https://github.com/someone/course/issues/new"',
}


@pytest.fixture(scope="session")
def self_study(toy_book, tmp_path_factory):
    """The toy book's root after both editions were built there, the second published under an address, and its log."""
    root = shutil.copytree(toy_book, tmp_path_factory.mktemp("editions") / "book")
    config = root / "_config.yml"
    text = config.read_text("utf-8")
    for before, after in CONFIGURED.items():
        assert before in text
        text = text.replace(before, after)
    config.write_text(text, "utf-8")
    return root, toy.build(root, "--path-output", "_build/self-study", *toy.STRICT, edition="self-study")


@pytest.fixture(scope="session")
def site(self_study):
    return self_study[0] / "_build" / "self-study" / "_build" / "html"


def test_the_link_below_a_check_leads_to_a_solution_with_its_reasons_and_back(site):
    page, answers = ((site / name).read_text("utf-8") for name in ("chapters/toy.html", "solutions/toy.html"))
    link = re.findall(r'<p class="solution-link"><a href="([^"]*)">([^<]*)</a>', page)
    assert link == [("../solutions/toy.html#solution-add_one", edition.LINK)]
    (section,) = re.findall(r'<section id="solution-add_one">.*?</section>', answers, re.DOTALL)
    text = re.sub("<[^>]*>", "", section)
    assert "    successor_of_x = x + 1  # the next number\n    return successor_of_x\n" in text
    assert "Adds one." in text and "Add one." in text and "Two were added." in text
    assert 'href="../chapters/toy.html#exercise-add_one"' in section and 'id="exercise-add_one"' in page


def test_the_default_edition_has_neither_links_nor_pages_of_solutions(toy_site):
    assert not (toy_site / edition.FOLDER).exists()
    for page in toy_site.rglob("*.html"):
        assert "solution-link" not in page.read_text("utf-8")


def test_every_page_says_which_edition_it_is(site, toy_site):
    assert edition.MARK in (site / "solutions/toy.html").read_text("utf-8")
    for name in ("index.html", "chapters/toy.html", "search.html", "404.html"):
        assert edition.MARK in (site / name).read_text("utf-8")
        assert edition.MARK not in (toy_site / name).read_text("utf-8")


def test_no_notebook_runs_a_second_time_and_the_other_edition_stays_as_it_was(self_study, toy_site):
    root, log = self_study
    assert "Executing notebook" not in log
    assert (root / "_build/html/chapters/toy.html").read_bytes() == (toy_site / "chapters/toy.html").read_bytes()


def test_no_page_of_either_edition_holds_an_answer_except_for_those_of_solutions(self_study, site, monkeypatch):
    root, _ = self_study
    wanted = leaks.answers(root)
    rest = [path for path in site.iterdir() if path.name != edition.FOLDER]
    clean = [root / "_build/html", *rest, root / "_build/self-study/_build/jupyter_execute"]
    assert list(leaks.scan(clean, wanted)) == []
    assert any("solutions/toy.py" in line for line in leaks.scan([site / edition.FOLDER], wanted))
    monkeypatch.setenv("EDITION", edition.SELF_STUDY)
    assert list(leaks.scan_site(site, wanted)) == []
    monkeypatch.setenv("EDITION", "")
    assert list(leaks.scan_site(site, wanted)) != []


def test_an_answer_or_a_hidden_test_outside_the_solutions_stops_this_edition_too(self_study, tmp_path):
    again = shutil.copytree(self_study[0], tmp_path / "again")
    answer, hidden_test = "successor_of_x = x + 1", "yield dict(x=int(rng.integers(1234, 98765)))"
    with (again / "index.md").open("a", encoding="utf-8") as index:
        index.write(f"\n`{answer}`\n\n`{hidden_test}`\n")
    log = toy.build(again, "--path-output", "_build/self-study", edition="self-study", works=False)
    for origin in ("solutions/toy.py", "course/exercises/toy.py"):
        assert f"index.html: leaks {origin}:" in log


@pytest.mark.parametrize(
    "name, folder, said",
    [
        ("teacher", "_build/self-study", "EDITION is 'teacher'; there are: student, self-study"),
        ("self-study", ".", "EDITION is 'self-study', but the book would be written to"),
        ("", "_build/self-study", "EDITION is 'student', but the book would be written to"),
    ],
)
def test_an_unknown_edition_or_the_other_ones_folder_is_one_clear_line(toy_book, monkeypatch, name, folder, said):
    monkeypatch.setenv("EDITION", name)
    app = SimpleNamespace(outdir=toy_book / folder / "_build" / "html")
    with pytest.raises(SystemExit, match=re.escape(said)):
        edition.configure(app, SimpleNamespace(html_theme_options={}))


def test_what_is_published_is_the_students_edition_unless_the_repository_names_the_other():
    build = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text("utf-8"))["jobs"]["build"]
    assert build["env"]["BOOK_EDITION"] == "${{ vars.EDITION || 'student' }}"
    assert build["env"]["SITE"].endswith("|| '_build/html' }}")
    commands = [step.get("run") for step in build["steps"]]
    assert 'make site EDITION="$BOOK_EDITION"' in commands


def test_the_links_work_and_mistakes_are_folded(site, open_page):
    page = open_page(f"{site.as_uri()}/chapters/toy.html")
    assert page.get_by_text(edition.MARK).is_visible()
    page.get_by_role("link", name=edition.LINK).click()
    page.wait_for_url("**/solutions/toy.html#solution-add_one")
    assert page.get_by_text("successor_of_x = x + 1").is_visible()
    assert not page.get_by_text("Two were added.").is_visible()
    page.get_by_text("Mistakes that the check names").press("Enter")
    assert page.get_by_text("Two were added.").is_visible()
    page.get_by_role("link", name="Back to the exercise").click()
    page.wait_for_url("**/chapters/toy.html#exercise-add_one")


# What an address, a repository and a place for reports add to a page


def test_each_page_links_to_the_place_for_reports_with_its_title(site, toy_site):
    link = r'<p class="report-error"><a href="([^"]*)" rel="noopener">Report an error on this page</a></p>'
    first = "Attention, from the dot product to a running language model"
    for name, title in (("index", first), ("chapters/toy", "1. Toy: adding one")):
        (address,) = re.findall(link, (site / f"{name}.html").read_text("utf-8"))
        parts = urlsplit(unescape(address))
        assert parts.path == "/someone/course/issues/new"
        assert parse_qs(parts.query) == {"title": [f"Error on the page “{title}”"]}
        assert "report-error" not in (toy_site / f"{name}.html").read_text("utf-8")
    assert "report-error" not in (site / "search.html").read_text("utf-8")


def test_an_address_and_a_repository_give_metadata_launch_links_and_a_root(site):
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
