"""How tests open pages of the built book, and what they look at."""

from __future__ import annotations

import sys
from pathlib import Path

import axe_playwright_python
import yaml

from course import catalog
from course.folder import ROOT
from tests.conftest import Watched

CHAPTERS = [f"chapters/{stem}" for stem in catalog.chapters()]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"]), "search", "genindex"]
WIDTHS = {"laptop": dict(width=1280, height=900), "phone": dict(width=390, height=844)}
# `make axe` fetches the newest; where that was not done, the one of the Python package looks.
NEWEST = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")
AXE = (NEWEST if NEWEST.is_file() else Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")

# The rules of axe: those that look at colors, and every other one, the experimental and the strictest too.
COLORS = ["color-contrast", "link-in-text-block"]
OTHERS = dict(but=[*COLORS, "color-contrast-enhanced"])  # contrast as WCAG wants it at AA, and not at AAA
WIDTH = ["scrollable-region-focusable", "target-size"]  # those of which a narrow page alone may fail

# What axe finds on the page with everything unfolded; afterwards all is as it was. Its time grows with the number of
# elements. So of texts with one ink and size on one ground it looks at the colors of the first, and of widgets whole,
# where things may overlap; other code is plain text while it looks, and a formula an empty box of the same size.
FINDINGS = """async (options) => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  for (const box of folded) box.open = true;
  for (const fading of document.getAnimations()) fading.finish();  // what is half there has half of its contrast
  scrollTo(0, 0);  // what the page's head covers would be too small to hit
  const grounds = new Map(), kinds = new Map();
  const ground = (node) => {
    if (node && !grounds.has(node)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(node);
      const own = [backgroundColor, backgroundImage, opacity].join();
      const clear = own === "rgba(0, 0, 0, 0),none,1", solid = own.startsWith("rgb(") && own.endsWith(",none,1");
      grounds.set(node, clear ? ground(node.parentElement) : solid ? own : own + ground(node.parentElement));
    }
    return grounds.get(node) ?? "";
  };
  if (options.but) {
    const every = axe.getRules().map(({ ruleId }) => [ruleId, { enabled: !options.but.includes(ruleId) }]);
    options = { rules: Object.fromEntries(every) };
  }
  const colors = options.runOnly?.includes("color-contrast");
  for (const node of colors ? document.querySelectorAll("body *") : []) {
    const written = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!written || !node.checkVisibility({ visibilityProperty: true }) || node.closest(".aw, math")) continue;
    const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(node);
    const kind = [color, fontSize, fontWeight, textDecorationLine, ground(node), node.matches("a")].join();
    if (!kinds.has(kind)) kinds.set(kind, node);
  }
  const pieces = [...document.querySelectorAll("pre, math")].map((whole) => [whole, [...whole.childNodes]])
    .filter(([whole]) => ![...kinds.values()].some((node) => whole.contains(node)));
  const boxes = pieces.map(([whole]) => whole.getBoundingClientRect());
  pieces.forEach(([whole], i) => {
    const space = document.createElementNS("http://www.w3.org/1998/Math/MathML", "mspace");
    for (const side of ["width", "height"]) space.setAttribute(side, `${boxes[i][side]}px`);
    whole.replaceChildren(whole.matches("pre") ? whole.textContent : space);
  });
  const where = colors ? { include: [...kinds.values(), ...document.querySelectorAll(".aw")] } : document;
  // Without `preload: false` axe fetches the style sheets once more, which no file may.
  const found = await axe.run(where, { ...options, preload: false, resultTypes: ["violations"] });
  for (const [whole, parts] of pieces) whole.replaceChildren(...parts);
  for (const box of folded) box.open = false;
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
    """Return axe's findings, as `rule: element, what to do`. Findings on colors are those of both themes."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE)
    return page.evaluate(FINDINGS, options)
