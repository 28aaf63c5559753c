"""How tests open pages of the built book, and what they look at."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
import yaml

from autograder import registry
from tests.conftest import Watched

CHAPTERS = [f"chapters/{stem}" for stem in registry.chapters()]
TOC = yaml.safe_load((registry.ROOT / "_toc.yml").read_text("utf-8"))
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"]), "search", "genindex"]
WIDTHS = {"laptop": dict(width=1280, height=900), "phone": dict(width=390, height=844)}
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")

# The rules of axe: those that look at colours, and all others.
COLOURS = ["color-contrast", "link-in-text-block"]
RULES = dict(runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"])

# What axe finds on the page with everything unfolded. Words of code that have one class in one kind of box look alike:
# one of each stays, since axe takes most of its time for their colours. Afterwards all is as it was.
FINDINGS = """async (options) => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  const kinds = new Set(), alike = [...document.querySelectorAll(".highlight span[class]")].filter((word) => {
    const box = word.closest(".cell")?.className ?? "", kind = `${word.className} in ${box}`;
    return kinds.size === kinds.add(kind).size;
  });
  for (const box of folded) box.open = true;
  for (const word of alike) word.style.display = "none";
  const found = await axe.run(document, { ...options, resultTypes: ["violations"] });
  for (const box of folded) box.open = false;
  for (const word of alike) word.style.display = "";
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`));
}"""


def begin(page, address):
    """Open an address on an empty page, and note what goes wrong from here on."""
    seen = Watched(page)
    seen.failed = []
    # What a reader's next click cuts off has not failed.
    page.on("requestfailed", lambda request: "ABORTED" in request.failure or seen.failed.append(request.url))
    page.on("response", lambda answer: answer.status >= 400 and seen.failed.append(answer.url))
    page.goto(address)
    return seen


def nothing_went_wrong(seen):
    seen.assert_clean()
    assert seen.failed == []


def views(page):
    """The widgets of a page, each scrolled to and so mounted."""
    for view in page.locator(".widget-view").all():
        view.scroll_into_view_if_needed()
        view.locator("[data-widget]").wait_for()
        yield view


def in_theme(page, theme):
    """As the reader's system has it. The page follows."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("(theme) => document.documentElement.dataset.theme === theme", arg=theme)


def findings(page, **options):
    """What axe has to say, as `rule: element, what to do`."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE)
    return page.evaluate(FINDINGS, {**RULES, **options})


def without_colours():
    return dict(rules={rule: dict(enabled=False) for rule in COLOURS})
