"""A reader's progress, kept in the reader's browser: a bar at the top of each chapter, a box below each check.

Its keys do not change when a text is edited elsewhere: the chapter's stem, the exercise's name, a hash of a quiz's
question. `assets/progress.js` does the rest; without scripts none of it is shown.
"""

from __future__ import annotations

from docutils import nodes

from book import check_cells

BAR = (
    '<div class="chapter-progress pst-js-only" data-chapter="{stem}"><div role="progressbar" aria-valuemin="0" '
    'aria-valuemax="{total}" aria-valuenow="0" aria-label="Done of this chapter"><span></span></div>'
    '<span class="progress-text" aria-hidden="true">0 of {total} done</span></div>'
)
DONE = (
    '<label class="exercise-done pst-js-only"><input type="checkbox" data-exercise="{name}" autocomplete="off"/> '
    "<span>I have done <code>{name}</code></span></label>"
)
FORGET = (
    '<p class="progress-forget pst-js-only" hidden>What you have done is marked in the list of chapters. '
    'Only this browser knows it. <button type="button">Forget my progress</button></p>'
)


def add_controls(app, doctree, docname) -> None:
    if app.builder.format != "html":
        return
    stem = check_cells.chapter_of(docname)
    if stem is not None:
        exercises = list(check_cells.in_document(doctree))
        for name, cell in exercises:
            check_cells.put_after(cell, check_cells.raw(DONE.format(name=name)))
        quizzes = sum(1 for node in doctree.findall() if node.__class__.__name__ == "quiz")
        check_cells.put_below_title(doctree, BAR.format(stem=stem, total=len(exercises) + quizzes))
    elif docname == app.config.root_doc:
        chapters = next(doctree.findall(nodes.enumerated_list), None)
        if chapters is not None:
            check_cells.put_after(chapters, check_cells.raw(FORGET))


def setup(app) -> None:
    app.connect("doctree-resolved", add_controls, priority=600)  # after the links, so that the bar goes above them
