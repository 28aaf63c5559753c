"""Take pictures of the built site: two for the README, and one for each chapter and page of `play` that is shared.

    make site && python scripts/take_screenshot.py

The README's are book/images/screenshot.png, the first page, and book/images/answer.png, an exercise that is answered in
its page; each remembers the files that it shows, so that a test can say when it is older than these. Those for shared
links are in book/images/share, of the size that previews ask for: a page's title beside one of its widgets.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from book.pages.metadata import PICTURE_SIZE, shared_pages  # noqa: E402
from scripts.browsers import Quiet, chromium_path, start_server  # noqa: E402

IMAGES, SITE = ROOT / "book" / "images", ROOT / "_build" / "html"
SOURCES = {
    "screenshot.png": ("index.md", "_toc.yml"),
    "answer.png": ("live/python/answers.js", "live/python/answers.css", "attnlab/checking/report.py"),
}
STAMP = "Made from"  # the name of the text chunk in the picture
SIZE = dict(width=1280, height=900)
# The widget that stands for a page, by its place among the page's widgets; the first is the living picture.
BEST = {
    "chapters/dot_products": 1,
    "chapters/attention": 1,
    "chapters/masks": 1,
    "chapters/multi_head": 1,
    "chapters/cross_attention": 1,
    "chapters/positions": 2,
    "chapters/rope": 1,
    "chapters/language_model": 2,
    "chapters/efficient_attention": 1,
    "chapters/delta_rule": 1,
}
CARD = """
<style>
  html, body {{ min-height: 0 !important; margin: 0; overflow: hidden; background: #fff; }}
  body {{ width: 1200px; height: 630px; display: grid !important; grid-template-columns: 400px 1fr; }}
  div {{ display: flex; flex-direction: column; justify-content: center; gap: 24px; padding: 0 20px 0 56px; }}
  b {{ font: 700 52px/1.15 var(--pst-font-family-base); color: #1b2430; }}
  p {{ margin: 0; font: 400 26px/1.35 var(--pst-font-family-base); color: #4a5560; }}
  img {{ align-self: center; justify-self: center; max-width: 730px; max-height: 570px; }}
</style>
<div><p>Attention, a free course</p><b>{title}</b><p>{about}</p></div><img src="data:image/png;base64,{picture}">
"""
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


def card(page, address: str, name: str) -> bytes:
    """The picture for a link to a page, as PNG. Its 256 colors are chosen so that none is far from the true one."""
    from PIL import Image

    page.goto(f"{address}/{name}.html")
    heading = page.locator("article h1").first.evaluate(
        "one => [...one.childNodes].map((node) => (node.className === 'headerlink' ? '' : node.textContent)).join('')"
    )
    view = page.locator(".widget-view").nth(BEST.get(name, 0))
    view.scroll_into_view_if_needed()
    widget = view.locator(".aw")
    widget.wait_for()
    show = widget.get_by_role("button", name="Just show me")
    if show.count():
        show.first.click()
    page.add_style_tag(
        content=".aw button[data-go] { visibility: hidden } .aw { border-color: transparent !important }"
    )
    picture = base64.b64encode(widget.screenshot()).decode()
    title, _, more = " ".join(heading.split()).partition(": ")
    about = (more[:1].upper() + more[1:]) if more else "One idea, in your browser" if "play/" in name else ""
    page.evaluate(
        "html => { document.body.innerHTML = html; }",
        CARD.format(title=escape(title), about=escape(about), picture=picture),
    )
    page.evaluate("document.fonts.ready")
    page.locator("img").evaluate("image => image.decode()")
    shot = page.screenshot(clip=dict(x=0, y=0, width=PICTURE_SIZE[0], height=PICTURE_SIZE[1]))
    few = (
        Image.open(io.BytesIO(shot))
        .convert("RGB")
        .quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    packed = io.BytesIO()
    few.save(packed, "PNG", optimize=True)
    return packed.getvalue()


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
        page = browser.new_page(viewport=SIZE, device_scale_factor=1, color_scheme="light", reduced_motion="reduce")
        for name in shared_pages():
            path = IMAGES / "share" / f"{name.rpartition('/')[2]}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(card(page, address, name))
        browser.close()


if __name__ == "__main__":
    take()
    print(*(f"{IMAGES.relative_to(ROOT)}/{name}" for name in SOURCES), sep="\n")
