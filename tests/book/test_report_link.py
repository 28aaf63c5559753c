"""The link to report an error: what it opens, and the message for an address that is none."""

import re

import pytest

from book import report_link


@pytest.mark.parametrize(
    "address, made",
    [
        ("https://example.org/o/r/issues/new", "https://example.org/o/r/issues/new?title="),
        ("https://example.org/new?labels=book", "https://example.org/new?labels=book&title="),
        ("mailto:some.one@example.org", "mailto:some.one@example.org?subject="),
    ],
)
def test_the_title_is_filled_in(address, made):
    found = report_link.link(report_link.checked(address), "2. A & B?")
    assert found == made + "Error%20on%20the%20page%20%E2%80%9C2.%20A%20%26%20B%3F%E2%80%9D"


@pytest.mark.parametrize("address", ["example.org", "javascript:alert(1)", 'https://a/"><b>', "mailto:nobody", 5])
def test_an_invalid_address_is_named(address):
    with pytest.raises(SystemExit, match=re.escape("report_errors must be an address")):
        report_link.checked(address)


def test_without_an_address_there_is_none_to_check():
    assert report_link.checked("") == report_link.checked(None) == ""
