"""The site's files: its own scripts and style, MathJax from the site itself, and nothing that asks another host."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

WIDGET = "application/vnd.jupyter.widget-view+json"
MATHJAX = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2")  # the script, and the fonts it looks for beside itself


def copy_mathjax(app) -> None:
    """Copy MathJax from the package that carries it. Before the pages are written, since they link it by its hash."""
    if app.builder.format != "html":
        return
    target = Path(app.outdir, "_static", "mathjax")
    for part in MATHJAX:
        source, copy = mathjax_folder() / part, target / part
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)


def mathjax_folder() -> Path:
    """Where the installed `sphinx-mathjax-offline` keeps MathJax. Its name is no importable one."""
    files = importlib.metadata.files("sphinx-mathjax-offline")
    script = next(file for file in files if file.name == MATHJAX[0])
    return Path(script.locate()).parent


def mathjax_where_needed(app, pagename, templatename, context, doctree) -> None:
    """Sphinx also loads MathJax where the table of contents leads to mathematics. Only the page itself counts here."""
    domain = app.env.get_domain("math")
    if not domain.data["has_equations"].get(pagename, False):
        files = context["script_files"]
        files[:] = [file for file in files if MATHJAX[0] not in str(getattr(file, "filename", file))]


def drop_weight(app, exception) -> None:
    """Drop what the theme ships and no page needs: icons drawn by script (the style sheet has them), source maps."""
    static = Path(app.outdir, "_static")
    if exception or app.builder.format != "html":
        return
    (static / "scripts" / "fontawesome.js").write_text("// The icons come from the style sheet's font.\n", "utf-8")
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
                forms[WIDGET] += [nodes.raw("", "<noscript>", format="html"), pictures[0],
                                  nodes.raw("", "</noscript>", format="html")]


def setup(app) -> None:
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it, with or without the extension that reads it
    app.connect("builder-inited", copy_mathjax)
    app.connect("html-page-context", mathjax_where_needed, priority=900)
    app.connect("build-finished", drop_weight)
    app.add_post_transform(PictureWithoutScript)
