"""Numbers in the prose, beside the numbers that the page prints."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup

from course import catalog

DECIMALS = r"(?<![\w.,/^-])-?\d+\.\d{2,}(?![\w.]*\d)"
# Numbers that follow an output and are not of it: given in the question that begins there, or of another chapter.
GIVEN = {
    "dot_products": {"3.10"},
    "efficient_attention": {"0.01"},
    "language_model": {"2.30", "0.95", "0.97", "0.001"},
    "transformer_block": {"1.702"},
}


def not_printed(page: str) -> list[str]:
    """Decimals of each paragraph right after an output, if no number that was printed or said before rounds to them."""
    printed, said, found, after_output = [], set(), [], False
    for block in BeautifulSoup(page, "html.parser").find("article").find_all(["p", "li", "td", "pre", "h2", "h3"]):
        text = block.get_text()
        if block.name == "pre":
            after_output = after_output or block.find_parent(class_="cell_output") is not None
            printed += map(float, re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?|\d+", text.replace(",", "")))
            continue
        for number in re.findall(DECIMALS, text):
            digits, value = len(number.partition(".")[2]), float(number)
            close = (
                abs(round(p, digits) - value) < 0.51 * 10**-digits or abs(100 * p - value) < 10**-digits
                for p in printed
            )
            if after_output and number not in said and not any(close):
                found.append(number)
            said.add(number)
        if block.name in ("h2", "h3") or block.name == "p" and not block.find_parent("li"):
            after_output = False
    return found


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_number_beside_a_printed_number_agrees_with_it(site, stem):
    page = (site / "chapters" / f"{stem}.html").read_text("utf-8")
    assert set(not_printed(page)) - GIVEN.get(stem, set()) == set()


def test_a_number_that_does_not_agree_is_found():
    output = '<div class="cell_output"><pre>loss 0.4871</pre></div>'
    page = f"<article>{output}<p>The loss is {{}}.</p><p>Or 7.77.</p></article>"
    assert not_printed(page.format("0.49")) == []
    assert not_printed(page.format("0.94")) == ["0.94"]
