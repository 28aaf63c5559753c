"""Links to other hosts: what they open, and the message for a setting that cannot be used."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from book.pages import external_links


def links(stem="softmax", **given):
    return external_links.notebook_addresses(stem, **external_links.launch_settings(given))


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


def test_notebooks_may_be_at_the_top():
    assert links(repository="a/b", folder="")["Colab"].endswith("/blob/main/softmax.ipynb")


def test_without_a_repository_there_are_no_links():
    assert external_links.launch_settings({})["repository"] == external_links.notebook_links("softmax", {}) == ""


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
        external_links.launch_settings(given)


@pytest.mark.parametrize(
    "address, made",
    [
        ("https://example.org/o/r/issues/new", "https://example.org/o/r/issues/new?title="),
        ("https://example.org/new?labels=book", "https://example.org/new?labels=book&title="),
        ("mailto:some.one@example.org", "mailto:some.one@example.org?subject="),
    ],
)
def test_the_title_of_a_page_is_filled_in(address, made):
    found = external_links.titled(external_links.report_address(address), "2. A & B?")
    assert found == made + "Error%20on%20the%20page%20%E2%80%9C2.%20A%20%26%20B%3F%E2%80%9D"


@pytest.mark.parametrize("address", ["example.org", "javascript:alert(1)", 'https://a/"><b>', "mailto:nobody", 5])
def test_an_invalid_address_for_reports_is_named(address):
    with pytest.raises(SystemExit, match=re.escape("report_errors must be an address")):
        external_links.report_address(address)


def test_without_an_address_for_reports_there_is_nothing_to_check():
    assert external_links.report_address("") == external_links.report_address(None) == ""
