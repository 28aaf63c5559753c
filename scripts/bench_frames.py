"""Frames a second while a widget of the book moves: `python scripts/bench_frames.py [NAME...]`, on an idle machine.

Headless Chromium with its processor slowed four times presses a control of each widget, as the tests of pages do, again
and again for two seconds, so that something always moves. Told are the frames that were drawn a second (60 at best) and
how long the slowest of twenty took, in milliseconds. Needs `make book` and Chromium.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import re
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from course.folder import ROOT
from scripts.browsers import PRESSES, chromium_path

HTML = ROOT / "_build" / "html"
SLOWED = 4
FRAMES = """async ([key, seconds]) => {
  const moved = document.activeElement, times = [];
  const press = () => {
    const held = document.activeElement === document.body ? moved : document.activeElement;
    if (key === "Enter" || key === "Space") held.click();
    else held.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    if (held.type === "range") {  // an event alone does not move it
      const up = Number(held.value) < Number(held.max) ? Number(held.value) + Number(held.step || 1) : held.min;
      held.value = up;
      held.dispatchEvent(new Event("input", { bubbles: true }));
    }
  };
  const again = setInterval(press, 250), begin = performance.now();
  await new Promise((done) => {
    const frame = (now) => {
      times.push(now);
      if (now - begin < seconds * 1000) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  clearInterval(again);
  return times;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def places() -> dict[str, str]:
    """The first page that each widget stands on."""
    found = {}
    for page in sorted(HTML.glob("chapters/*.html")) + [HTML / "index.html"]:
        for name in re.findall(r'"_anywidget_id": "attnlab\.widgets\.(\w+)\.', page.read_text("utf-8")):
            found.setdefault(name, page.relative_to(HTML).as_posix())
    return found


def measured(page, name: str) -> list[float]:
    """Milliseconds between frames, once the widget stands still."""
    selector, key = PRESSES[name]
    view = page.locator(f".widget-view:has([data-widget='{name}'])").first
    view.scroll_into_view_if_needed()
    view.locator(selector).first.focus()
    page.wait_for_timeout(700)
    times = page.evaluate(FRAMES, [key, 2])
    return [after - before for before, after in zip(times, times[1:], strict=False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="widgets, by the names of their files; all by default")
    names = parser.parse_args().names or sorted(PRESSES)
    handler = functools.partial(Quiet, directory=HTML)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = places()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path())
        print(f"{'widget':24}{'frames/s':>10}{'slow ms':>10}  page")
        for name in names:
            if name not in where:
                print(f"{name:24}{'-':>10}{'-':>10}  on no page")
                continue
            page = browser.new_page(viewport=dict(width=1280, height=900))
            page.goto(f"http://127.0.0.1:{server.server_port}/{where[name]}")
            for view in page.locator(".widget-view").all():
                view.scroll_into_view_if_needed()
                view.locator("[data-widget]").wait_for()
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
            gaps = sorted(measured(page, name))
            a_second, slow = 1000 * len(gaps) / sum(gaps), gaps[int(0.95 * len(gaps))]
            print(f"{name:24}{a_second:10.0f}{slow:10.0f}  {where[name]}", flush=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
