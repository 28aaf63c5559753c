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
OTHERS = dict(runOnly=["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"],
              rules={rule: dict(enabled=False) for rule in COLOURS})
WIDTH = ["scrollable-region-focusable", "target-size"]  # those of which a narrow page alone may fail

# What axe finds on the page with everything unfolded; afterwards all is as it was. `thin` is for colours, which take
# most of its time: words of code that have one class in one kind of box look alike, so that one of each is enough, and
# formulas are drawn by the style sheet, which axe does not see.
FINDINGS = """async ({ thin, ...options }) => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  const kinds = new Set(), words = [...document.querySelectorAll(".highlight span[class]")];
  const alike = words.filter((word) => {
    const box = word.closest(".cell")?.className ?? "", kind = `${word.className} in ${box}`;
    return kinds.size === kinds.add(kind).size;
  });
  const left = thin ? [...alike, ...document.querySelectorAll("mjx-container")] : [];
  for (const box of folded) box.open = true;
  scrollTo(0, 0);  // what the page's head covers would be too small to hit
  for (const node of left) node.style.display = "none";
  // Without `preload: false` axe fetches the style sheets once more, which no file may.
  const found = await axe.run(document, { ...options, preload: false, resultTypes: ["violations"] });
  for (const box of folded) box.open = false;
  for (const node of left) node.style.display = "";
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


def findings(page, options):
    """What axe has to say, as `rule: element, what to do`. Of colours it has to say something in each theme."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE)
    return page.evaluate(FINDINGS, options)
