"""Make `404.html`, which servers send for an address without a page, at any depth.

Its own addresses therefore begin at the root: the path of `html: baseurl:`, or `/`.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from book.pages import metadata
from course import catalog

PAGE = "404"
RELATIVE = re.compile(r'\b(href|src|action|data-content_root)="(?![a-z]+:|/|#)(?:\./)?([^"]*)"')


def pages(app):
    """Yield the page: what happened, where to search, and all chapters."""
    chapters = "".join(
        f'<li><a href="{app.builder.get_target_uri(f"chapters/{stem}")}">'
        f"{escape(app.env.titles[f'chapters/{stem}'].astext())}</a></li>"
        for stem in catalog.chapters()
        if f"chapters/{stem}" in app.env.titles
    )
    body = (
        "<section><h1>There is no such page</h1><p>The address may be mistyped, or the page may have moved. "
        'Search for a word of it, or go on from <a href="index.html">the first page</a>.</p>'
        '<form class="missing-search" action="search.html" method="get" role="search">'
        '<input type="search" name="q" aria-label="Search the book"/> <button type="submit">Search</button></form>'
        f"<h2>All chapters</h2><ol>{chapters}</ol></section>"
    )
    yield PAGE, {"title": "There is no such page", "body": body}, "page.html"


def begin_at_the_root(app, exception) -> None:
    """Make the page's relative addresses begin at the root."""
    if exception or app.builder.format != "html":
        return
    root = urlsplit(metadata.base_url(app.config)).path or "/"
    page = Path(app.outdir, f"{PAGE}.html")
    page.write_text(RELATIVE.sub(lambda found: f'{found[1]}="{root}{found[2]}"', page.read_text("utf-8")), "utf-8")
