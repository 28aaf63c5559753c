"""Load a page's pictures when the reader comes near, and keep their room until then: each gets its width and height."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, UnidentifiedImageError

PICTURE = re.compile(r'<img (?![^>]*\bloading=)(?=[^>]*\bsrc="[^"]*_images/([^"/]+)")')
SVG_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)(pt|px)?"[^>]*?\bheight="([\d.]+)(pt|px)?"', re.DOTALL)
PIXELS = {"pt": 4 / 3}  # per unit


def load_late(app, pagename, templatename, context, doctree) -> None:
    """Do so with the pictures of a page's text."""
    paths = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}
    if "_images/" in context.get("body", ""):
        context["body"] = PICTURE.sub(lambda match: match[0] + attributes(paths.get(match[1])), context["body"])


def attributes(path: Path | None) -> str:
    """Return the attributes for the picture in this file. Without a size where there is none."""
    found = size(path) if path else None
    sizes = 'width="{:.0f}" height="{:.0f}" '.format(*found) if found else ""
    return f'{sizes}loading="lazy" '


def size(path: Path) -> tuple[float, float] | None:
    """Return the width and the height of a picture in pixels; None if it has no size of its own or cannot be read."""
    if path.suffix == ".svg":
        found = SVG_SIZE.search(path.read_text("utf-8"))
        return found and (float(found[1]) * PIXELS.get(found[2], 1), float(found[3]) * PIXELS.get(found[4], 1))
    try:
        with Image.open(path) as picture:
            return picture.size
    except UnidentifiedImageError:
        return None
