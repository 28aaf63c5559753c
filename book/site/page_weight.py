"""Weigh each page: count the bytes that its first load transfers, with gzip, and warn of a page above the budget.

We count everything that a browser may request before the reader scrolls or clicks: the page, its scripts and styles,
what these name in `url()` (fonts, icons), and pictures that are not lazy. It does not include the scripts of widgets
further down, which `assets/host.js` requests. A browser may request less, as when no text needs a font.
"""

from __future__ import annotations

import functools
import gzip
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

BUDGET = 250_000  # bytes
PACKED = {".woff", ".woff2", ".png", ".jpg", ".jpeg", ".gif", ".webp"}  # servers do not compress these again
IN_STYLES = re.compile(r"""(?:url\(\s*|@import\s+(?!url))["']?([^"');\s]+)""")


class References(HTMLParser):
    """Collect the addresses that a page's first load requests, in `found`."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in {"noscript", "template", "style"}:
            self._inside.append(tag)
        if "noscript" in self._inside or given.get("loading") == "lazy":
            return
        wanted = {
            "link": given.get("href")
            if set((given.get("rel") or "").split()) & {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
            else None,
            "object": given.get("data"),
            "video": given.get("poster"),
        }.get(tag, given.get("src"))
        several = [part.split()[0] for part in (given.get("srcset") or "").split(",") if part.split()]
        self.found += [address for address in [wanted, *several] if address]
        self.found += IN_STYLES.findall(given.get("style") or "")

    def handle_endtag(self, tag):
        if tag in self._inside:
            self._inside.remove(tag)

    def handle_data(self, data):
        if self._inside[-1:] == ["style"]:
            self.found += IN_STYLES.findall(data)


@functools.cache
def transferred(path: Path, changed: int) -> int:
    """Count the bytes of a file as a server sends it. `changed`, its modification time, is part of the cache's key."""
    content = path.read_bytes()
    return len(content) if path.suffix.lower() in PACKED else len(gzip.compress(content, 6))


def first_load(page: Path) -> dict[Path, int]:
    """Return each file that a page's first load requests, with its bytes. Raises FileNotFoundError if it is missing."""
    weights: dict[Path, int] = {}
    waiting = [page.resolve()]
    while waiting:
        path = waiting.pop()
        if path in weights:
            continue
        weights[path] = transferred(path, path.stat().st_mtime_ns)
        if path.suffix == ".html":
            named = References(path.read_text("utf-8")).found
        elif path.suffix == ".css":
            named = IN_STYLES.findall(path.read_text("utf-8"))
        else:
            continue
        for address in named:
            parts = urlsplit(address)
            # Neither data nor other hosts, which tests forbid, nor what 404.html requests from the root.
            if not parts.scheme and not parts.netloc and parts.path and not parts.path.startswith("/"):
                waiting.append((path.parent / unquote(parts.path)).resolve())
    return weights


def too_heavy(page: Path, site: Path) -> str | None:
    """Return a sentence that names the heaviest files of a page above the budget; None for a page within it."""
    weights = first_load(page)
    total = sum(weights.values())
    if total <= BUDGET:
        return None
    heaviest = sorted(weights, key=weights.get, reverse=True)[:3]
    named = ", ".join(f"{path.relative_to(site.resolve())} {weights[path]:,}" for path in heaviest)
    return (
        f"{page.relative_to(site)} transfers {total:,} bytes on its first load; at most {BUDGET:,} are allowed. "
        f"The heaviest files: {named}"
    )


def check(app, exception) -> None:
    """Warn of each page that is above the budget or asks for a file that is not there."""
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir)
    for page in sorted(site.rglob("*.html")):
        if page.is_relative_to(site / "_static"):
            continue  # pieces of templates
        try:
            reason = too_heavy(page, site)
        except FileNotFoundError as error:
            reason = f"{page.relative_to(site)} asks for {Path(error.filename).name}, which is not there"
        if reason:
            logging.getLogger(__name__).warning(reason, type="book", subtype="weight")
