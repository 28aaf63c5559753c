"""Show each chapter in the lists of the first page as a card, with the still of its living picture.

The still is the one that the chapter shows in browsers without scripts, so the first page needs no file of its own. It
is loaded when the reader comes near. A chapter without a living picture has a card without a picture.
"""

from __future__ import annotations

import re
from pathlib import Path

from attnlab.widgets import LivingPicture
from book.pages import slim_pages

ENTRY = re.compile(
    r'(<li><p><a class="reference internal" href=")(chapters/\w+\.html)(">)(?:<img class="chapter-still"[^>]*>)?'
)
PICTURE = re.compile(r"<noscript>\s*<img ([^>]*)>")


def add(app, exception) -> None:
    """Put the stills into the first page. Those of an older build are replaced."""
    if exception or app.builder.format != "html":
        return
    index = Path(app.outdir, f"{app.config.root_doc}.html")
    page = index.read_text("utf-8")
    with_cards = ENTRY.sub(lambda found: found[1] + found[2] + found[3] + still(index.parent / found[2]), page)
    if with_cards != page:
        index.write_text(with_cards, "utf-8")


def still(chapter: Path) -> str:
    """Return the chapter's still for the first page, which says nothing that the title beside it does not; or ""."""
    wanted = slim_pages.said_of(LivingPicture)
    for found in PICTURE.finditer(chapter.read_text("utf-8") if chapter.is_file() else ""):
        given = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
        if given.get("alt") == wanted:
            size = " ".join(f'{key}="{given[key]}"' for key in ("width", "height") if key in given)
            source = given["src"].removeprefix("../")
            return f'<img class="chapter-still" {size} loading="lazy" alt="" src="{source}" />'
    return ""
