"""A page that lists all exercises: difficulty, minutes, points, where each can be done, and whether it is done.

`assets/progress.js` marks what the reader has done; only the reader's browser knows it.
"""

from __future__ import annotations

from html import escape

from book.site import answers
from course import catalog, effort

PAGE = "exercises"
HEAD = "".join(f'<th scope="col">{title}</th>' for title in ("Exercise", "Estimate", "Points", "Where"))


def pages(app):
    """Yield the page, with the exercises of the chapters that are in this build."""
    here, parts = answers.chapters() or (), []
    for stem in catalog.chapters():
        exercises = catalog.exercises_of(stem)
        if not exercises or f"chapters/{stem}" not in app.env.titles:
            continue
        rows = "".join(row(stem, name, exercise, stem in here) for name, exercise in exercises.items())
        title = escape(app.env.titles[f"chapters/{stem}"].astext())
        parts.append(
            f'<h2><a href="chapters/{stem}.html">{title}</a></h2>'
            f'<table class="table exercise-list"><thead><tr>{HEAD}</tr></thead><tbody>{rows}</tbody></table>'
        )
    if parts:
        body = (
            f"<section><h1>All exercises</h1><p>{len(catalog.all_exercises())} functions and classes to write, each "
            "with a check. A star marks a stretch exercise, whose points are added on top.</p>"
            f"{''.join(parts)}</section>"
        )
        yield PAGE, {"title": "All exercises", "body": body}, "page.html"


def row(stem: str, name: str, exercise, here: bool) -> str:
    """Return a row of the table."""
    place = f"chapters/{stem}.html#{'answer' if here else 'exercise'}-{name}"
    cells = (
        f'<a href="{place}"><code>{name}</code></a>{" ★" if exercise.bonus else ""}',
        effort.of_exercise(exercise).removeprefix("Estimate: "),
        f"{exercise.points:g}",
        "on the page" if here else "in the notebook",
    )
    return f'<tr data-exercise="{name}" data-chapter="{stem}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
