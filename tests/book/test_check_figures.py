"""The page of figures says what was recorded about the checks."""

import json

from book.directives import check_figures

RECORD = json.loads(check_figures.RECORD.read_text("utf-8"))


def test_a_mutant_counts_as_wrong_unless_it_agrees_or_differs_beyond_the_contract():
    row = {"mutants": {"agree": 2, "beyond": 1, "survive": 1, "named": 4, "told": 3, "neither": 2}}
    assert check_figures.wrong(row) == 10


def test_the_columns_of_mutants_add_up():
    total = check_figures.sums(RECORD.values())
    parts = ("named", "told", "raise", "numbers", "not caught")
    assert total["mutants"] == sum(total[part] for part in parts) > 1000


def test_the_page_shows_the_sums_and_a_row_for_each_exercise(site):
    page = (site / "appendices" / "checks.html").read_text("utf-8")
    total = check_figures.sums(RECORD.values())
    assert f"{total['mutants']:,} mutants" in page and f"{total['right answers']:,} right answers" in page
    for name in RECORD:
        assert f'<span class="pre">{name}</span>' in page
