"""How long things take, where a reader decides: under a chapter's title, above each stub, and in the list of chapters
on the first page. All of it is estimated; `autograder.course.effort` says how.
"""

from __future__ import annotations

import re

from docutils import nodes

from autograder.course import catalog, effort
from book import check_cells


def add(app, doctree, docname) -> None:
    if app.builder.format != "html":
        return
    stem = check_cells.chapter_of(docname)
    if stem is not None:
        words = effort.of_chapter(stem)
        check_cells.put_below_title(doctree, f'<p class="effort">{words[0].upper()}{words[1:]} (estimates)</p>')
        for name, cell in check_cells.stubs_in(doctree):
            cell.insert(0, check_cells.raw(above_stub(catalog.exercises_of(stem)[name])))
    elif docname == app.config.root_doc:
        for item in doctree.findall(nodes.list_item):
            _add_to_item(item)


def above_stub(exercise) -> str:
    """The line above a stub, which is also the place that links to an exercise lead to."""
    words, level = effort.of_exercise(exercise), exercise.difficulty
    dots = f' <span aria-hidden="true">{"●" * level}{"○" * (3 - level)}</span>' if level else ""
    return f'<p class="effort" id="exercise-{exercise.name}">{words}{dots}</p>'


def _add_to_item(item: nodes.list_item) -> None:
    """A chapter's minutes at the end of an item that begins with a link to it."""
    link = next(item.findall(nodes.reference), None)
    found = re.fullmatch(r"chapters/(\w+)\.html", link.get("refuri", "")) if link is not None else None
    if found and found[1] in catalog.chapters():
        item.children[-1] += check_cells.raw(f' <span class="effort">({effort.of_chapter(found[1])})</span>')


def setup(app) -> None:
    app.connect("doctree-resolved", add, priority=550)  # after the links, so that it goes above them
