"""Find the cells of a chapter's checks, and put things below them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes

from course import catalog


def chapter_of(docname: str) -> str | None:
    """The stem of a chapter's page; None for other pages."""
    folder, _, stem = docname.rpartition("/")
    return stem if folder == "chapters" and stem in catalog.chapters() else None


def in_document(doctree) -> Iterator[tuple[str, nodes.Element]]:
    """Each exercise's name and the cell of its check, in the order of the page."""
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") == "cell_code" and "tag_check" in cell["classes"]:
            source = next(cell.findall(nodes.literal_block)).astext()
            yield re.search(r"check\((\w+)\)", source)[1], cell


def stubs_in(doctree) -> Iterator[tuple[str, nodes.Element]]:
    """Each exercise's name and the cell of its stub, in the order of the page."""
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") == "cell_code" and "tag_exercise" in cell["classes"]:
            source = next(cell.findall(nodes.literal_block)).astext()
            yield re.search(r"^(?:def|class) (\w+)", source, re.MULTILINE)[1], cell


def put_after(node: nodes.Element, *new: nodes.Node) -> None:
    place = node.parent.index(node) + 1
    node.parent[place:place] = new


def put_below_title(doctree, html: str) -> None:
    """Put HTML below the page's title, and above what was put there before."""
    title = next(doctree.findall(nodes.title), None)
    if title is not None:
        put_after(title, raw(html))


def raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")
