"""How long things take, where a reader decides: under a chapter's title, on each exercise's card, and in the list of
chapters on the first page. All of it is estimated; `course.effort` says how.
"""

from __future__ import annotations

import re

from docutils import nodes

from book import check_cells
from course import catalog, effort


def add(app, doctree, docname) -> None:
    if app.builder.format != "html":
        return
    stem = check_cells.chapter_of(docname)
    if stem is not None:
        words = effort.of_chapter(stem)
        check_cells.put_below_title(doctree, f'<p class="effort">{words[0].upper()}{words[1:]} (estimates)</p>')
    elif docname == app.config.root_doc:
        for item in doctree.findall(nodes.list_item):
            _add_to_item(item)


def of_card(exercise) -> str:
    """An exercise's minutes and difficulty, for its card; "" where neither is declared."""
    words, level = effort.of_exercise(exercise), exercise.difficulty
    dots = f' <span aria-hidden="true">{"●" * level}{"○" * (3 - level)}</span>' if level else ""
    return f'<span class="effort">{words}{dots}</span>' if words else ""


def _add_to_item(item: nodes.list_item) -> None:
    """A chapter's minutes at the end of an item that begins with a link to it."""
    link = next(item.findall(nodes.reference), None)
    found = re.fullmatch(r"chapters/(\w+)\.html", link.get("refuri", "")) if link is not None else None
    if found and found[1] in catalog.chapters():
        item.children[-1] += check_cells.raw(f' <span class="effort">({effort.of_chapter(found[1])})</span>')


def setup(app) -> None:
    app.connect("doctree-resolved", add, priority=550)  # after the links, so that it goes above them
