"""Lead old addresses on: of a chapter that was divided, and of the sections that other chapters have now.

A chapter that is no longer there keeps its address, with a page that names the chapters it was divided into. A script
leads a reader with a section's address to that section, there and on the page of a chapter that has lost sections.
"""

from __future__ import annotations

import json
from html import escape

from docutils import nodes

from course import catalog

# Of the part after `#`: to the page that has the section now, unless this page has it itself.
LEAD = """<script>
(function (moved) {
  const asked = location.hash.slice(1);
  if (Object.hasOwn(moved, asked) && !document.getElementById(asked)) location.replace(moved[asked]);
})(%s);
</script>"""


def sections(app, old: str) -> dict[str, str]:
    """Each section's id that a divided chapter had, and the address of the section now, from that chapter's page."""
    found: dict[str, str] = {}
    for stem in catalog.chapters_in(old):
        docname = f"chapters/{stem}"
        if stem == old or docname not in app.env.titles:
            continue
        page = app.builder.get_relative_uri(f"chapters/{old}", docname)
        for section in app.env.get_doctree(docname).findall(nodes.section):
            for name in section["ids"]:
                found.setdefault(name, f"{page}#{name}")
                if name.startswith(prefix := f"{stem.replace('_', '-')}-"):  # a target, named after its chapter
                    found[f"{old.replace('_', '-')}-{name.removeprefix(prefix)}"] = f"{page}#{name}"
    return found


def pages(app):
    """Yield a page for each divided chapter that is no longer there."""
    for old in catalog.DIVIDED:
        now = [stem for stem in catalog.chapters_in(old) if f"chapters/{stem}" in app.env.titles]
        if old in catalog.chapters() or not now:
            continue
        links = "".join(
            f'<li><a href="{app.builder.get_relative_uri(f"chapters/{old}", f"chapters/{stem}")}">'
            f"{escape(app.env.titles[f'chapters/{stem}'].astext())}</a></li>"
            for stem in now
        )
        body = f"<section><h1>This chapter was divided</h1><p>Its sections are in:</p><ul>{links}</ul></section>"
        yield f"chapters/{old}", {"title": "This chapter was divided", "body": body + _script(app, old)}, "page.html"


def lead_on(app, pagename, templatename, context, doctree) -> None:
    """Add the script to the page of a chapter that has lost sections."""
    old = pagename.removeprefix("chapters/")
    if doctree is not None and pagename == f"chapters/{old}" and old in catalog.DIVIDED:
        context["body"] += _script(app, old)


def _script(app, old: str) -> str:
    return LEAD % json.dumps(sections(app, old)).replace("<", "\\u003c")
