"""Offer to answer exercises in the page, where `python -m live.python_pieces` has made Python for it.

A card then has a button. Nothing of the editor or of Python is loaded before a reader presses it.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
from html import escape
from pathlib import Path

from book import exercise_nodes
from course import catalog, cells
from course.folder import ROOT

PAGE = "answers"
PIECES = ROOT / "build" / "python"
FOLDER = "_static/python"  # in the site
BUTTON = (
    '<p class="answer-here pst-js-only" id="answer-{name}"><button type="button" data-exercise="{name}" '
    'data-stem="{stem}">Answer here</button> <span>on this page, with nothing to install</span></p>'
)
NOT_BUILT = (  # where a build with Python has the button: in chapters that need no PyTorch, see `live.python_pieces`
    '<p class="answer-here">This copy of the site was built without Python for its pages. '
    "<code>make site</code> builds it with an <i>Answer here</i> on this card.</p>"
)
NEEDS_PYTORCH = re.compile(r"^(import|from) torch\b", re.MULTILINE)


@functools.cache
def chapters() -> tuple[str, ...] | None:
    """The chapters whose exercises can be answered in the page; None if this build has no Python for its pages."""
    manifest = PIECES / "pieces.json"
    return tuple(json.loads(manifest.read_text("utf-8"))["chapters"]) if manifest.is_file() else None


def outdated(app, env, added, changed, removed) -> list[str]:
    """Return the pages that a build with Python and one without differ in, if this one differs from the last one."""
    before, env.course_answers = getattr(env, "course_answers", None), chapters()
    if before == chapters():
        return []
    return [page for page in env.found_docs if page.startswith("chapters/") or page == app.config.root_doc]


def offer(stem: str, name: str) -> str:
    """Return HTML for the card of an exercise: the button, or why there is none."""
    offered = chapters()
    if offered is None:
        return "" if NEEDS_PYTORCH.search((ROOT / "solutions" / f"{stem}.py").read_text("utf-8")) else NOT_BUILT
    if stem not in offered:
        return ""
    return BUTTON.format(name=escape(name), stem=escape(stem))


def lead_from_first_page(app, doctree, docname) -> None:
    """Make an exercise that can be answered at once the first button of the first page."""
    if docname != app.config.root_doc or not chapters() or app.builder.format != "html":
        return
    for link in list(doctree.findall(lambda node: "hero-start" in getattr(node, "attributes", {}).get("classes", ()))):
        link["classes"].append("hero-second")
        first = next(iter(catalog.exercises_of(chapters()[0])))
        address = f"chapters/{chapters()[0]}.html#answer-{first}"
        button = f'<a class="sd-btn hero-start" href="{address}">Write your first function here</a> '
        link.parent.insert(link.parent.index(link), exercise_nodes.raw(button))


def pages(app):
    """Yield the page with all answers of a reader, if this build has Python for its pages."""
    listed = [
        {"stem": stem, "title": app.env.titles[f"chapters/{stem}"].astext(), "exercises": [*catalog.exercises_of(stem)]}
        for stem in chapters() or ()
        if f"chapters/{stem}" in app.env.titles
    ]
    if not listed:
        return
    body = (
        "<section><h1>Your answers</h1><p>All that you wrote on these pages, as this browser has kept it. Nothing is "
        "sent anywhere. Points are those of the public cases; a course that grades uses others of the same kinds. To "
        "hand answers in, or to go on in Jupyter, take a chapter's notebook along: it has your answers in their cells."
        "</p>"
        "<p>The exercises of the other chapters need PyTorch, which these pages do not have. Do them in a notebook.</p>"
        f'<div id="answers" data-wheel="{cells.PUBLISHED_FOLDER}/{cells.wheel_name()}">'
        "<noscript>This page needs scripts.</noscript></div>"
        f'<p><a href="{FOLDER}/licenses.txt">Licenses</a> of Python, NumPy and the editor.</p></section>'
        '<script type="module">import { overview } from "./_static/python/answers.js";'
        f"overview(document.getElementById('answers'), {json.dumps(listed).replace('<', chr(92) + 'u003c')});</script>"
    )
    yield PAGE, {"title": "Your answers", "body": body}, "page.html"


def copy(app, exception) -> None:
    """Put the editor and Python into the site, in place of those of an older build."""
    if exception or app.builder.format != "html":
        return
    target = Path(app.outdir, FOLDER)
    shutil.rmtree(target, ignore_errors=True)
    if chapters() is not None:
        shutil.copytree(PIECES, target)
