"""The accessibility report is about all criteria, what it names exists, and what it says of whole pages holds."""

import re

import pytest

from course.folder import ROOT
from tests.book.pages import PAGES

REPORT = (ROOT / "appendices" / "accessibility.md").read_text("utf-8")
# All criteria of WCAG 2.1 at levels A and AA, and what 2.2 adds: how many each guideline has, but for those at AAA.
GUIDELINES = {
    "1.1": [1],
    "1.2": [1, 2, 3, 4, 5],
    "1.3": [1, 2, 3, 4, 5],
    "1.4": [1, 2, 3, 4, 5, 10, 11, 12, 13],
    "2.1": [1, 2, 4],
    "2.2": [1, 2],
    "2.3": [1],
    "2.4": [1, 2, 3, 4, 5, 6, 7, 11],
    "2.5": [1, 2, 3, 4, 7, 8],
    "3.1": [1, 2],
    "3.2": [1, 2, 3, 4, 6],
    "3.3": [1, 2, 3, 4, 7, 8],
    "4.1": [1, 2, 3],
}
ROWS = re.findall(r"^\| (\d\.\d\.\d+) [^|]+\(A{1,2}\) \| ([^|]+) \| (.+) \|$", REPORT, re.M)


def test_each_criterion_has_one_line():
    wanted = [f"{guideline}.{number}" for guideline, numbers in GUIDELINES.items() for number in numbers]
    assert sorted(number for number, *_ in ROWS) == sorted(wanted)
    assert {said for _, said, _ in ROWS} == {"supports", "partially supports", "not applicable"}


def test_each_line_names_a_test_that_exists_or_a_walk_that_is_described():
    described = set(re.findall(r"^\*Walk (\d)\*", REPORT, re.M))
    for number, _, backed in ROWS:
        named, walks = re.findall(r"`(test_\w+\.py)::(test_\w+)`", backed), re.findall(r"\*walk (\d)\*", backed)
        assert named or walks or "as 1.2.1" in backed or number == "2.5.8", number
        assert set(walks) <= described
        for file, test in named:
            folder = "attnlab" if file == "test_widgets.py" else "book"
            assert f"def {test}(" in (ROOT / "tests" / folder / file).read_text("utf-8"), f"{number}: {file}::{test}"


def test_what_is_partly_supported_is_listed_with_its_number():
    known = set(re.findall(r"\((\d\.\d\.\d+)\)", REPORT.partition("## WCAG 2.1")[0]))
    assert known == {number for number, said, _ in ROWS if said == "partially supports"}


def test_there_is_nothing_to_hear_and_no_video(site):
    for path in site.rglob("*.html"):
        assert not re.search(r"<(?:audio|video|iframe|object|embed)\b", path.read_text("utf-8")), path.name


def test_no_style_asks_how_a_device_is_held():
    for path in [*ROOT.glob("book/assets/*.css"), *ROOT.glob("attnlab/widgets/*.css"), *ROOT.glob("live/python/*.css")]:
        assert "orientation:" not in path.read_text("utf-8"), path.name


# What is wider than the page and does not scroll alone.
WIDER = """() => document.documentElement.scrollWidth - innerWidth <= 0 ? [] :
  [...document.querySelectorAll(".bd-article *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 3).map((one) => `${one.tagName} ${one.className}`)"""
SPACING = """* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }
p { margin-bottom: 2em !important; }"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_into_320_pixels(page, addresses, open_page):
    narrow = open_page(
        f"{addresses['http']}/{page}.html", viewport=dict(width=320, height=640), reduced_motion="reduce"
    )
    assert narrow.evaluate(WIDER) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index", "chapters/softmax", "guides/students"])
def test_a_page_takes_wider_spacing(page, visit):
    seen = visit(page)
    seen.add_style_tag(content=SPACING)
    assert seen.evaluate(WIDER) == []
    cut = seen.evaluate(
        """() => [...document.querySelectorAll(".bd-article :is(p, li, dd, summary, h1, h2, h3, button)")]
          .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".aw, .visually-hidden")
            && getComputedStyle(one).overflowY !== "visible" && one.scrollHeight > one.clientHeight + 2)
          .map((one) => one.textContent.trim().slice(0, 40))"""
    )
    assert cut == []
