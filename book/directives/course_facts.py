"""Say in one line how large the course is.

    :::{course-facts}
    Free.
    :::

The line begins with the words that are given, and goes on with the numbers of chapters, exercises and hours. The
exercises are a link to the page that lists them.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from course import catalog, effort


class CourseFacts(SphinxDirective):
    """Show the facts as a paragraph."""

    has_content = True

    def run(self):
        stems = catalog.chapters()
        for stem in stems:
            self.env.note_dependency(str(catalog.chapter_path(stem)))
        hours = round(sum(map(effort.minutes, stems)) / 60)
        line = nodes.paragraph(
            "", f"{' '.join(self.content)} {len(stems)} chapters, ".lstrip(), classes=["course-facts"]
        )
        exercises = f"{len(catalog.all_exercises())} exercises"
        page = "exercises.html"  # see `book.site.all_exercises`
        line += [nodes.reference("", exercises, refuri=page), nodes.Text(f", about {hours} hours.")]
        return [line]


def setup(app) -> None:
    app.add_directive("course-facts", CourseFacts)
