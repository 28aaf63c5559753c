"""Copy into the site the engine that runs SmolLM2 in a page, and the model's pieces if `make live` has made them.

Nothing of it is loaded before a reader asks for it. In a site without the pieces no page offers the model.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = "_static/live"  # in the site
PIECES = f"{FOLDER}/pieces"


def pieces(app) -> Path | None:
    """The folder with the model's pieces, or None if this build has none."""
    folder = Path(app.srcdir, "build", "live")
    return folder if (folder / "manifest.json").is_file() else None


def tell_page(app, pagename, templatename, context, doctree) -> None:
    """Say in the head of each page whether the site has the model, so that no page offers what is not there."""
    if pieces(app):
        context["metatags"] = context.get("metatags", "") + '<meta name="model-in-page" content="yes">\n'


def copy(app, exception) -> None:
    """Put the engine and the pieces into the site, in place of those of an older build."""
    if exception or app.builder.format != "html":
        return
    target = Path(app.outdir, FOLDER)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in Path(app.srcdir, "live", "engine").glob("*.[jw]*"):
        if path.suffix in (".js", ".wasm"):
            shutil.copyfile(path, target / path.name)
    if made := pieces(app):
        shutil.copytree(made, Path(app.outdir, PIECES))
