"""Take the README's picture of the book's first page.

    make book && python scripts/take_screenshot.py

It is book/images/screenshot.png, 1280 by 900 pixels, as Chromium shows the built page. The picture remembers the text
that it shows, so that a test can say when it is older than the page.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.browsers import chromium_path  # noqa: E402

TARGET, PAGE = ROOT / "book" / "images" / "screenshot.png", ROOT / "_build" / "html" / "index.html"
SOURCES = ("index.md", "_toc.yml")
STAMP = "Made from"  # the name of the text chunk in the picture
SIZE = dict(width=1280, height=900)


def made_from() -> str:
    """Return a hash of what the first page is made from."""
    return hashlib.sha256(b"\0".join((ROOT / name).read_bytes() for name in SOURCES)).hexdigest()[:20]


def take(target: Path = TARGET) -> None:
    """Write the picture. Raises SystemExit if there is no book or no browser."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    if not PAGE.is_file() or not chromium_path():
        raise SystemExit(f"{PAGE.relative_to(ROOT)} and a Chromium are needed: run make book first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path())
        page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        page.goto(PAGE.as_uri())
        page.wait_for_selector(".hero-wall")
        page.evaluate("document.fonts.ready")
        shot = page.screenshot()
        browser.close()
    kept = PngInfo()
    kept.add_text(STAMP, made_from())
    Image.open(io.BytesIO(shot)).convert("RGB").save(target, pnginfo=kept, optimize=True)


if __name__ == "__main__":
    take()
    print(TARGET.relative_to(ROOT))
