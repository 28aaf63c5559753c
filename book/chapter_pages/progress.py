"""Keep a reader's progress in the reader's browser: a bar at the top of each chapter, a box below each check.

Its keys do not change when a text is edited elsewhere: the chapter's stem, the exercise's name, a hash of a quiz's
question. `assets/progress.js` does the rest; without scripts none of it is shown.
"""

from __future__ import annotations

from docutils import nodes

from book import exercise_nodes
from book.directives.quiz import quiz

BAR = (
    '<div class="chapter-progress pst-js-only" data-chapter="{stem}"><div role="progressbar" aria-valuemin="0" '
    'aria-valuemax="{total}" aria-valuenow="0" aria-label="Done of this chapter"><span></span></div>'
    '<span class="progress-text" aria-hidden="true">0 of {total} exercises and quick questions done</span></div>'
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
    """Put a bar below a chapter's opening and a box below each check; on the first page, a button to forget all."""
    if app.builder.format != "html":
        return
    stem = exercise_nodes.chapter_of(docname)
    if stem is not None:
        exercises = list(exercise_nodes.checks_in(doctree))
        for name, cell in exercises:
            exercise_nodes.put_below_check(cell, DONE.format(name=name))
        quizzes = len(list(doctree.findall(quiz)))
        exercise_nodes.put_below_opening(doctree, BAR.format(stem=stem, total=len(exercises) + quizzes))
    elif docname == app.config.root_doc:
        for chapters in list(doctree.findall(nodes.enumerated_list))[-1:]:  # there is a list for each part
            exercise_nodes.put_after(chapters, exercise_nodes.raw(FORGET))
