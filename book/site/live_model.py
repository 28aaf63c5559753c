"""Copy into the site the engine that runs SmolLM2 in a page, and the model's pieces if `make live` has made them.

Nothing of it is loaded before a reader asks for it. A site without the pieces has the engine alone, which then says
that the model is not there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = "_static/live"  # in the site
PIECES = f"{FOLDER}/pieces"


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
    pieces = Path(app.srcdir, "build", "live")
    if (pieces / "manifest.json").is_file():
        shutil.copytree(pieces, Path(app.outdir, PIECES))
