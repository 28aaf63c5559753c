"""A page loads what it uses: no search index, no icons by script, no widget host where nothing asks for them."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

WIDGET = "application/vnd.jupyter.widget-view+json"
UNUSED = re.compile(
    r"[ \t]*<(?:script|link|meta)[^>]*(?:%s)[^>]*>(?:</script>)?\n?"
    % "|".join(
        [
            r"scripts/fontawesome\.js",  # the icons come from the style sheet's font
            r'rel="preload"',  # of scripts that the page asks for anyway
            r'name="viewport"',
            r'name="docsearch:[a-z]+"',
        ]
    )
)
SEARCH = re.compile(r"[ \t]*<script[^>]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>\n?")


def lean_head(app, pagename, templatename, context, doctree) -> None:
    """Give `book/templates/layout.html` the function that takes out of a page's head what the page does not use."""
    context["lean"] = lambda head: SEARCH.sub("", UNUSED.sub("", head))
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


def drop_weight(app, exception) -> None:
    """Drop what the theme ships and no page needs: icons drawn by script, source maps."""
    static = Path(app.outdir, "_static")
    if exception or app.builder.format != "html":
        return
    (static / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    for source_map in static.rglob("*.map"):
        source_map.unlink()


def in_words(text: nodes.Node) -> str:
    """What a widget's picture shows: the first line of the docstring of its class, which its plain form names."""
    from attnlab import widgets

    kind = re.match(r"<attnlab[\w.]*\.(\w+) object", text.astext().strip())
    return f"The widget as a still picture. {getattr(widgets, kind[1]).__doc__.splitlines()[0] if kind else ''}".strip()


class PictureWithoutScript(SphinxPostTransform):
    """A widget's picture, for a reader whose browser runs no scripts. With scripts it is not even loaded."""

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
    app.connect("html-page-context", lean_head, priority=900)
    app.connect("build-finished", drop_weight)
    app.add_post_transform(PictureWithoutScript)
