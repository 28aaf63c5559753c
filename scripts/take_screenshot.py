"""Take the README's pictures: the book's first page, and an exercise that is answered in its page.

    make site && python scripts/take_screenshot.py

They are book/images/screenshot.png and book/images/answer.png, as Chromium shows the built pages. A picture remembers
the files that it shows, so that a test can say when it is older than these.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.browsers import Quiet, chromium_path, start_server  # noqa: E402

IMAGES, SITE = ROOT / "book" / "images", ROOT / "_build" / "html"
SOURCES = {
    "screenshot.png": ("index.md", "_toc.yml"),
    "answer.png": ("live/python/answers.js", "live/python/answers.css", "attnlab/checking/report.py"),
}
STAMP = "Made from"  # the name of the text chunk in the picture
SIZE = dict(width=1280, height=900)
MISTAKE = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum()"


def made_from(name: str) -> str:
    """Return a hash of what a picture shows."""
    return hashlib.sha256(b"\0".join((ROOT / source).read_bytes() for source in SOURCES[name])).hexdigest()[:20]


def first_page(page, address: str) -> bytes:
    page.goto(f"{address}/index.html")
    page.wait_for_selector(".hero-wall")
    page.evaluate("document.fonts.ready")
    return page.screenshot()


def answer(page, address: str) -> bytes:
    page.goto(f"{address}/chapters/softmax.html#answer-softmax")
    page.locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(MISTAKE)
    page.keyboard.press("ControlOrMeta+Enter")
    page.wait_for_selector(".answer .attn-check")
    page.evaluate("scrollTo(0, 0)")
    return page.locator(".exercise-card.answering").screenshot()


def take() -> None:
    """Write the pictures. Raises SystemExit if there is no site or no browser."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    if not (SITE / "_static" / "python").is_dir() or not chromium_path():
        raise SystemExit("a built site with Python and a Chromium are needed: run make site first")
    address = start_server(Quiet, SITE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path())
        for name, shot in (("screenshot.png", first_page), ("answer.png", answer)):
            page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            kept = PngInfo()
            kept.add_text(STAMP, made_from(name))
            picture = Image.open(io.BytesIO(shot(page, address))).convert("RGB")
            picture.save(IMAGES / name, pnginfo=kept, optimize=True)
        browser.close()


if __name__ == "__main__":
    take()
    print(*(f"{IMAGES.relative_to(ROOT)}/{name}" for name in SOURCES), sep="\n")
