"""The glossary and the chapters lead to each other."""

from course.folder import ROOT
import re

import pytest

from course import plain_markdown
from course import catalog

GLOSSARY = plain_markdown.glossary()
SECTIONS = {f"terms_of_{stem}": stem for stem in catalog.chapters()}


def terms_in(stem: str) -> set[str]:
    """The terms that a chapter links to, in lower case."""
    text = catalog.chapter_path(stem).read_text("utf-8")
    return {(match[1] or match[0]).lower() for match in re.findall(r"\{term\}`([^`<]+?)(?: <([^>]+)>)?`", text)}


LINKED = {stem: terms_in(stem) for stem in catalog.chapters()}


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_chapter_leads_to_the_terms_that_it_is_the_first_to_use(stem):
    own = {term for term, section in GLOSSARY.items() if section == f"terms_of_{stem}"}
    assert own, f"appendices/notation.md has no section (terms_of_{stem})="
    assert own - LINKED[stem] == set()


@pytest.mark.parametrize("stem", catalog.chapters())
def test_no_chapter_leads_to_a_term_that_a_later_one_brings(stem):
    order = catalog.chapters()
    later = {f"terms_of_{other}" for other in order[order.index(stem) + 1:]}
    assert {term for term in LINKED[stem] if GLOSSARY[term] in later} == set()


def test_every_section_of_the_glossary_names_its_chapter():
    text = (ROOT / "appendices" / "notation.md").read_text("utf-8")
    for section, stem in SECTIONS.items():
        assert re.search(rf"^\({section}\)=\n## .+\n\nFirst used in \{{ref\}}`{stem}`\.$", text, re.MULTILINE), section


def test_every_entry_says_something_and_none_is_repeated():
    text = (ROOT / "appendices" / "notation.md").read_text("utf-8")
    entries = re.findall(r"^(\S.*)\n  (\S.+)$", text, re.MULTILINE)
    assert len(entries) == len(GLOSSARY) == len({term.lower() for term, _ in entries}) >= 80
    assert [term for term, meaning in entries if len(meaning.split()) < 4] == []
