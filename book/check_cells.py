"""Where the checks stand in a chapter's document, for what is put below them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes

from autograder.course import catalog


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


def put_after(cell: nodes.Element, *new: nodes.Node) -> None:
    place = cell.parent.index(cell) + 1
    cell.parent[place:place] = new


def raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")
