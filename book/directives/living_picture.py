"""Show the tour of the living picture on a page that is not a notebook, such as the first one.

    :::{living-picture}
    :::

The page gets the widget as a notebook's output has it: its saved state and a place to show it, which `assets/host.js`
mounts. Each stop is a link to its chapter.
"""

from __future__ import annotations

import json

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attnlab.widgets import LivingPicture
from attnlab.widgets._base import HERE
from attnlab.widgets.living_picture import STAGES

MODEL = "living-picture-tour"
TYPE = "application/vnd.jupyter.widget-"


class living_picture(nodes.General, nodes.Element):  # noqa: N801  (docutils names nodes in lower case)
    pass


class LivingPictureTour(SphinxDirective):
    """Show the tour through all chapters."""

    def run(self):
        shared = ("_base.py", "common.js", "weights.js", "widgets.css")
        for path in (*HERE.glob("living_picture.*"), *(HERE / name for name in shared)):
            self.env.note_dependency(str(path))
        return [living_picture()]


def saved_state(links: dict[str, str]) -> dict:
    """Return what `assets/host.js` needs of the widget: its code, its style and its traits."""
    widget = LivingPicture(tour=True, links=links)
    names = ["_esm", "_css", *(name for name in widget.class_trait_names(sync=True) if not name.startswith("_"))]
    state = widget.get_state([name for name in names if name not in ("layout", "tabbable", "tooltip")])
    widget.close()
    return state


def visit(self, node) -> None:
    here = self.builder.current_docname
    links = {stage: self.builder.get_relative_uri(here, f"chapters/{stage}") for stage in STAGES}
    state = {"state": {MODEL: {"state": saved_state(links)}}}
    for kind, content in (("state", state), ("view", {"model_id": MODEL})):
        text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
        self.body.append(f'<script type="{TYPE}{kind}+json">{text}</script>\n')


def depart(self, node) -> None:
    pass


def add_host(app, pagename, templatename, context, doctree) -> None:
    """Load the script that mounts widgets on a page with the tour."""
    if doctree is not None and next(doctree.findall(living_picture), None) is not None:
        app.add_js_file("host.js", defer="defer")


def setup(app) -> None:
    app.add_node(living_picture, html=(visit, depart))
    app.add_directive("living-picture", LivingPictureTour)
