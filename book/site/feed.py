"""Write `feed.xml`, the changelog's releases as an Atom feed, where the site has an address.

A heading `## 1.2.0 (2026-12-01)` begins a release; what has no date is not released, and is left out.
"""

from __future__ import annotations

import functools
import re
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from book.pages import metadata

NAME = "feed.xml"
_RELEASE = re.compile(r"^## (?P<version>\S+) \((?P<day>\d{4}-\d{2}-\d{2})\)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)


def releases(app) -> list[dict[str, str]]:
    """The changelog's releases, newest first: version, day and text. Empty where the site has no address."""
    return _read(Path(app.srcdir, "CHANGELOG.md")) if metadata.base_url(app.config) else []


@functools.cache  # each page names the feed
def _read(changelog: Path) -> list[dict[str, str]]:
    text = changelog.read_text("utf-8") if changelog.is_file() else ""
    return [found.groupdict() for found in _RELEASE.finditer(text)]


def link(app, pagename, templatename, context, doctree) -> None:
    """Name the feed in the head of each page."""
    if releases(app):
        address = escape(metadata.base_url(app.config) + NAME)
        context["metatags"] += (
            f'\n    <link rel="alternate" type="application/atom+xml" title="Changes" href="{address}"/>'
        )


def write(app, exception) -> None:
    """Write the feed, if there is a release."""
    if exception or app.builder.format != "html" or not (found := releases(app)):
        return
    base, markdown = metadata.base_url(app.config), MarkdownIt()
    entries = "".join(
        f"<entry><title>{escape(one['version'])}</title><id>{base}#{escape(one['version'])}</id>"
        f'<updated>{one["day"]}T00:00:00Z</updated><link href="{base}"/>'
        f'<content type="html">{escape(markdown.render(one["text"].strip()))}</content></entry>\n'
        for one in found
    )
    name = escape(app.config.html_title or app.config.project)
    Path(app.outdir, NAME).write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f'<title>{name}: changes</title><id>{base}{NAME}</id><link rel="self" href="{base}{NAME}"/>'
        f"<updated>{max(one['day'] for one in found)}T00:00:00Z</updated><author><name>{name}</name></author>\n"
        f"{entries}</feed>\n",
        "utf-8",
    )
