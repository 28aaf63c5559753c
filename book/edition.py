"""Build the book in two editions.

The student's, which is the default, holds no answer. `EDITION=self-study` is for readers who learn alone, never for a
graded course: it has a page of solutions for each chapter, `solutions/softmax.html`, and a link to it below each check.
Every page says which edition it is.

Solutions are read when pages are written, after the notebooks ran and their outputs were cached, so that both editions
share one cache. The self-study edition has an output folder of its own, and each edition refuses the other's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from book import exercise_nodes
from book.errors import ConfigurationError
from course import assemble, catalog
from course.folder import ROOT

STUDENT, SELF_STUDY = EDITIONS = ("student", "self-study")
FOLDER = "solutions"  # of the site: the pages that hold answers, and nothing else does
MARK = "Self-study edition: below each check is a link to a solution, with its reasons."
LINK = "After your own try: a solution, with its reasons"


def current() -> str:
    """Return the edition that the environment variable EDITION names; the student's if it is not set."""
    name = os.environ.get("EDITION") or STUDENT
    if name not in EDITIONS:
        raise ConfigurationError(f"EDITION is {name!r}; there are: {', '.join(EDITIONS)}")
    return name


def configure(app, config) -> None:
    """Mark the pages of the self-study edition. Raises ConfigurationError where a folder is the other edition's."""
    edition = current()
    if (SELF_STUDY in Path(app.outdir).parts) != (edition == SELF_STUDY):
        raise ConfigurationError(
            f"EDITION is {edition!r}, but the book would be written to {app.outdir}: "
            f"`make book EDITION={SELF_STUDY}` gives that edition a folder of its own"
        )
    if edition == SELF_STUDY:
        config.html_theme_options["announcement"] = MARK
        config.nb_execution_cache_path = str(ROOT / "_build" / ".jupyter_cache")


def add_links(app, doctree, docname) -> None:
    """Put a link to its solution below each check, in the self-study edition."""
    stem = exercise_nodes.chapter_of(docname)
    if stem is None or app.builder.format != "html" or current() != SELF_STUDY:
        return
    for name, cell in exercise_nodes.checks_in(doctree):
        link = f'<p class="solution-link"><a href="../{FOLDER}/{stem}.html#solution-{name}">{LINK}</a></p>'
        exercise_nodes.put_below_check(cell, link)


def pages(app) -> Iterator[tuple[str, dict, str]]:
    """Yield a page of solutions for each chapter of this build that has exercises, in the self-study edition."""
    if app.builder.format != "html" or current() != SELF_STUDY:
        return
    for stem in catalog.chapters():
        if f"chapters/{stem}" in app.env.titles and catalog.exercises_of(stem):
            title = f"Solutions: {app.env.titles[f'chapters/{stem}'].astext()}"
            sections = "".join(_section(app, stem, exercise) for exercise in catalog.exercises_of(stem).values())
            body = (
                f'<section id="solutions"><h1>{escape(title)}</h1><p>Each of these is one way to write it. A different '
                f"one that passes its check is just as good.</p>{sections}</section>"
            )
            yield f"{FOLDER}/{stem}", {"title": title, "body": body}, "page.html"


def _section(app, stem: str, exercise) -> str:
    source = app.builder.highlighter.highlight_block(assemble.solution_source(stem, exercise.name), "python")
    reasons = "".join(
        f"<li><strong>{_inline(p.title[0].upper() + p.title[1:])}.</strong> {_inline(hint)}</li>"
        for p in exercise.properties
        if (hint := p.hint.removeprefix("If only this fails: "))
    )
    mistakes = "".join(f"<li>{_inline(text)}</li>" for text in dict.fromkeys(m.text for m in exercise.misconceptions))
    parts = [
        f'<section id="solution-{exercise.name}"><h2><code>{exercise.name}</code></h2>',
        f'<p><a href="../chapters/{stem}.html#exercise-{exercise.name}">Back to the exercise</a>. ',
        f"The section that explains it is “{escape(exercise.section)}”.</p>",
        f'<div class="highlight-python notranslate">{source}</div>',
        f"<h3>Why</h3><ul>{reasons}</ul>" if reasons else "",
        f"<details><summary>Mistakes that the check names</summary><ul>{mistakes}</ul></details>" if mistakes else "",
        "</section>",
    ]
    return "".join(parts)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


if __name__ == "__main__":
    print(f"The {current()} edition")  # or one line on what is wrong, before anything is built
