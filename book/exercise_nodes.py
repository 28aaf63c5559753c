"""Find the stubs and checks of a chapter's exercises in its document, and put nodes next to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes

from course import catalog


def chapter_of(docname: str) -> str | None:
    """Return the stem of a chapter's page; None for other pages."""
    folder, _, stem = docname.rpartition("/")
    return stem if folder == "chapters" and stem in catalog.chapters() else None


def checks_in(doctree) -> Iterator[tuple[str, nodes.Element]]:
    """Yield each exercise's name and the cell of its check, in the order of the page."""
    return _cells(doctree, "tag_check", r"check\((\w+)\)")


def stubs_in(doctree) -> Iterator[tuple[str, nodes.Element]]:
    """Yield each exercise's name and the cell of its stub, in the order of the page."""
    return _cells(doctree, "tag_exercise", r"^(?:def|class) (\w+)")


def _cells(doctree, tag: str, name: str) -> Iterator[tuple[str, nodes.Element]]:
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") == "cell_code" and tag in cell["classes"]:
            source = next(cell.findall(nodes.literal_block)).astext()
            yield re.search(name, source, re.MULTILINE)[1], cell


def put_after(node: nodes.Element, new: nodes.Node) -> None:
    """Put a node after another one."""
    node.parent.insert(node.parent.index(node) + 1, new)


def put_below_opening(doctree, html: str) -> None:
    """Put HTML below a page's opening (title, first paragraphs, picture), and above HTML that was put there before."""
    page = next(doctree.findall(nodes.section), None)
    if page is not None:
        ends = (at for at, one in enumerate(page) if isinstance(one, nodes.section) or one.get("below_opening"))
        page.insert(next(ends, len(page)), raw(html, below_opening=True))


def put_below_check(cell: nodes.Element, html: str) -> None:
    """Put a control of an exercise below its check, and above those that were put there before."""
    put_after(cell, raw(html, exercise_control=True))


def is_control(node: nodes.Node) -> bool:
    """Tell whether a node was put below a check by `put_below_check`."""
    return isinstance(node, nodes.raw) and node.get("exercise_control", False)


def raw(html: str, **attributes) -> nodes.raw:
    """Return a node that is written as this HTML."""
    return nodes.raw("", html, format="html", **attributes)
