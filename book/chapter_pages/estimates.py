"""Say how long a chapter or an exercise takes.

The times are below a chapter's opening, on each card of an exercise, and in the lists of the first page. All are
estimates; `course.effort` says how they are made.
"""

from __future__ import annotations

import re

from docutils import nodes

from book import exercise_nodes
from course import catalog, effort


def add(app, doctree, docname) -> None:
    """Put how long a chapter takes below its opening, and after its link in the lists of the first page."""
    if app.builder.format != "html":
        return
    stem = exercise_nodes.chapter_of(docname)
    if stem is not None:
        words = effort.of_chapter(stem)
        exercise_nodes.put_below_opening(doctree, f'<p class="effort">{words[0].upper()}{words[1:]} (estimates)</p>')
    elif docname == app.config.root_doc:
        for item in doctree.findall(nodes.list_item):
            _add_to_item(item)


def of_card(exercise) -> str:
    """Return an exercise's minutes and difficulty for its card; "" where neither is declared."""
    words, level = effort.of_exercise(exercise), exercise.difficulty
    dots = f' <span aria-hidden="true">{"●" * level}{"○" * (3 - level)}</span>' if level else ""
    return f'<span class="effort">{words}{dots}</span>' if words else ""


def _add_to_item(item: nodes.list_item) -> None:
    """Add a chapter's minutes at the end of an item that begins with a link to it."""
    link = next(item.findall(nodes.reference), None)
    found = re.fullmatch(r"chapters/(\w+)\.html", link.get("refuri", "")) if link is not None else None
    if found and found[1] in catalog.chapters():
        item.children[-1] += exercise_nodes.raw(f' <span class="effort">({effort.of_chapter(found[1])})</span>')
