"""Load on each page only what it uses: no search index, icon script or widget host where the page has no use for it."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

WIDGET = "application/vnd.jupyter.widget-view+json"
# What the theme's head has in vain: icons by script (the style sheet's font has them), preloads of scripts that the
# page requests anyway, a second viewport, and data for another search.
SIGNS = r'scripts/fontawesome\.js|rel="preload"|name="viewport"|name="docsearch:[a-z]+"'
UNUSED = re.compile(rf"[ \t]*<(?:script|link|meta)[^>]*(?:{SIGNS})[^>]*>(?:</script>)?\n?")
SEARCH = re.compile(r"[ \t]*<script[^>]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>\n?")


def slim_head(app, pagename, templatename, context, doctree) -> None:
    """Give `book/templates/layout.html` the function `slim`, which removes files that the page does not use."""
    context["slim"] = lambda head: SEARCH.sub("", UNUSED.sub("", head))
    body = context.get("body", "")
    unused = [
        name
        for name, sign in (
            ("design-tabs.js", "sd-tab-set"),
            ("copybutton", "highlight"),
            ("clipboard.min.js", "highlight"),
            ("host.js", "widget-view+json"),
        )
        if sign not in body
    ]
    for kind in ("script_files", "css_files"):
        files = context[kind]
        files[:] = [file for file in files if not any(name in str(getattr(file, "filename", file)) for name in unused)]


def drop_files(app, exception) -> None:
    """Drop files of the theme that no page uses: icons drawn by script, source maps."""
    static = Path(app.outdir, "_static")
    if exception or app.builder.format != "html":
        return
    (static / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    for source_map in static.rglob("*.map"):
        source_map.unlink()


def in_words(text: nodes.Node) -> str:
    """Say what a widget's picture shows: the first line of its class's docstring. Its plain text names the class."""
    from attnlab import widgets

    kind = re.match(r"<attnlab[\w.]*\.(\w+) object", text.astext().strip())
    return said_of(getattr(widgets, kind[1]) if kind else None)


def said_of(widget: type | None) -> str:
    """The same for a class; None for a widget that is not one of the course's."""
    return f"The widget as a still picture. {(widget.__doc__ or '').splitlines()[0] if widget else ''}".strip()


class PictureWithoutScript(SphinxPostTransform):
    """Keep a widget's picture for browsers that do not run scripts. The others do not load it."""

    default_priority = 3  # just before myst-nb keeps one form of each output and drops the others
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for bundle in self.document.findall(nodes.container):
            if bundle.get("nb_element") != "mime_bundle":
                continue
            forms = {form["mime_type"]: form for form in bundle.children}
            pictures = list(forms["image/png"].findall(nodes.image)) if "image/png" in forms else []
            if WIDGET in forms and pictures:
                pictures[0]["alt"] = in_words(forms["text/plain"])
                forms[WIDGET] += [
                    nodes.raw("", "<noscript>", format="html"),
                    pictures[0],
                    nodes.raw("", "</noscript>", format="html"),
                ]


def setup(app) -> None:
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it, with or without the extension that reads it
    app.add_post_transform(PictureWithoutScript)
