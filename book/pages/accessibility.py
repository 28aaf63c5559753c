"""Give screen readers what they need: pictures in words, tables with headings, roles that exist."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.util import logging

FEWEST_WORDS = 6  # of a sentence that says what a picture shows
EMPTY_HEAD = re.compile(r'<th class="head[^"]*">\s*(?:<p>\s*</p>)?\s*</th>')

logger = logging.getLogger(__name__)


def pictures_in_words(app, doctree, docname) -> None:
    """Warn of each picture without a sentence that says what it shows. A chapter has no decorative pictures."""
    for picture in doctree.findall(nodes.image):
        if len(picture.get("alt", "").split()) < FEWEST_WORDS:
            logger.warning(
                "a picture needs a sentence that says what it shows: for a figure, "
                "`mystnb: {image: {alt: ...}}` above the cell's code; for a file, `![...](file)`",
                location=picture,
                type="book",
                subtype="alt",
            )


def row_headings(app, doctree, docname) -> None:
    """Make the first column headings in a table whose upper left corner is empty."""
    for group in doctree.findall(nodes.tgroup):
        corner = next(group.findall(nodes.entry), None)
        if corner is not None and not corner.astext().strip():
            next(group.findall(nodes.colspec))["stub"] = 1


def plain_roles(app, pagename, templatename, context, doctree) -> None:
    """Make an empty corner a plain cell, and drop the roles of a bibliography that are no longer in the standard."""
    if "body" in context:
        body = EMPTY_HEAD.sub("<td></td>", context["body"])
        body = body.replace('<div role="list" class="citation-list">', '<div class="citation-list">')
        context["body"] = body.replace(' role="doc-biblioentry"', "")
