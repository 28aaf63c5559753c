"""Links to Colab and Binder: their form, and the message for a wrong configuration."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from book import launch_links


def links(stem="softmax", **given):
    return launch_links.links(stem, **launch_links.settings(given))


def test_the_addresses_have_the_form_that_the_hosts_document():
    assert links(repository="owner/repo") == {
        "Colab": "https://colab.research.google.com/github/owner/repo/blob/main/notebooks/softmax.ipynb",
        "Binder": "https://mybinder.org/v2/gh/owner/repo/main?urlpath=lab%2Ftree%2Fnotebooks%2Fsoftmax.ipynb",
    }


def test_a_branch_with_a_slash_and_a_folder_with_a_space_arrive_as_they_are():
    colab, binder = map(urlsplit, links(repository="o-w/r.e_p", branch="release/2026", folder="the course/nb").values())
    assert unquote(colab.path) == "/github/o-w/r.e_p/blob/release/2026/the course/nb/softmax.ipynb"
    assert " " not in colab.path
    assert binder.path == "/v2/gh/o-w/r.e_p/release%2F2026"  # Binder reads one part as the branch
    assert parse_qs(binder.query) == {"urlpath": ["lab/tree/the course/nb/softmax.ipynb"]}


def test_notebooks_may_lie_at_the_top():
    assert links(repository="a/b", folder="")["Colab"].endswith("/blob/main/softmax.ipynb")


def test_without_a_repository_there_is_none_to_check():
    assert launch_links.settings({})["repository"] == ""


@pytest.mark.parametrize(
    "given, said",
    [
        (dict(repository="https://github.com/a/b"), "launch.repository must be OWNER/NAME"),
        (dict(repository="a"), "launch.repository must be OWNER/NAME"),
        (dict(repository="a/.."), "launch.repository must be OWNER/NAME"),
        (dict(repository='a/b"><script>'), "launch.repository must be OWNER/NAME"),
        (dict(repository="a/b", branch=""), "launch.branch must be the name of a branch"),
        (dict(repository="a/b", branch="a..b"), "launch.branch must be the name of a branch"),
        (dict(repository="a/b", branch=2026), "launch.branch must be the name of a branch, not 2026"),
        (dict(repository="a/b", folder="/notebooks"), "launch.folder must be a folder"),
        (dict(repository="a/b", folder="../b"), "launch.folder must be a folder"),
        (dict(repo="a/b"), "`launch` has repository, branch, folder, and no 'repo'"),
    ],
)
def test_what_is_wrong_is_named(given, said):
    with pytest.raises(SystemExit, match=re.escape(said)):
        launch_links.settings(given)
