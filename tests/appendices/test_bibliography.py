"""Works that are cited, and works that are listed."""

from course.folder import ROOT
import re

import pytest
from pybtex.database import parse_file


ENTRIES = parse_file(str(ROOT / "references.bib")).entries
PAGES = [*(ROOT / "chapters").glob("*.md"), *(ROOT / "appendices").glob("*.md")]


def test_every_work_that_is_listed_is_cited_somewhere():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    cited = {key.strip() for keys in re.findall(r"\{cite:[pt]\}`([^`]+)`", text) for key in keys.split(",")}
    assert cited == set(ENTRIES)


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_has_author_title_and_year_and_its_key_agrees(key):
    entry = ENTRIES[key]
    first = entry.persons["author"][0]
    name = re.sub(r"\W", "", "".join([*first.prelast_names, *first.last_names])).lower()
    who, year = re.fullmatch(r"([a-z]+)(\d{4})\w+", key).groups()
    assert name.startswith(who)
    assert (entry.fields["year"], bool(entry.fields["title"])) == (year, True)
    assert {"booktitle", "journal", "publisher", "institution"} & set(entry.fields)
    # An arXiv number begins with year and month, and no work appears before it is written.
    for yy, month in re.findall(r"arxiv\.org/abs/(\d\d)(\d\d)\.\d{4,5}$", entry.fields.get("url", "")):
        assert 1 <= int(month) <= 12 and 2000 + int(yy) <= int(year)
    numbers = re.findall(r"\d{4}\.\d{4,5}", entry.fields.get("journal", "") + " " + entry.fields.get("url", ""))
    assert len(set(numbers)) <= 1
