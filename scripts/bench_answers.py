"""Measure answers in the page: the time from an empty cache to the first named mistake, and what is transferred.

    make site && python scripts/bench_answers.py [--runs 3]

It serves the built site on loopback, packed with gzip. Each run has a new browser: it opens a chapter, presses *Answer
here*, writes a wrong softmax, and checks it twice. A second run in the same browser shows what the cache saves. Use an
idle machine.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.browsers import Quiet, chromium_path, start_server  # noqa: E402
from scripts.take_screenshot import MISTAKE, SITE  # noqa: E402


@functools.cache
def packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6)


SETTLE = 10_000  # milliseconds in which a browser may go on to compile, and keep what it has compiled


class Packing(Quiet):
    """A server that packs all it sends, lets the browser keep it, and counts the bytes."""

    sent = 0

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        content = packed(path)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(content)
        Packing.sent += len(content)


def processor_seconds() -> float:
    """Processor time that the browser's processes have used together (Linux)."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"headless" in (folder / "cmdline").read_bytes():
                ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            pass  # it has ended
    return ticks / os.sysconf("SC_CLK_TCK")


def visit(page, address: str) -> dict[str, float]:
    """One visit: seconds to the page, to the editor and to the first answer, and those of a second check."""
    began, seen = time.perf_counter(), {}

    def note(name: str) -> None:
        seen[name] = time.perf_counter() - began

    before = Packing.sent
    page.goto(f"{address}/chapters/softmax.html")
    note("page")
    seen["page MB"] = (Packing.sent - before) / 1e6
    page.locator("[data-exercise=softmax]").first.click()
    page.locator(".cm-content").click()
    note("editor")
    used = processor_seconds()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(MISTAKE)
    page.keyboard.press("ControlOrMeta+Enter")
    page.wait_for_selector(".answer .attn-check")
    note("first named mistake")
    seen["processor"] = processor_seconds() - used
    seen["MB"] = (Packing.sent - before) / 1e6
    again = time.perf_counter()
    page.evaluate("document.querySelector('.answer-report').replaceChildren()")
    page.keyboard.press("ControlOrMeta+Enter")
    page.wait_for_selector(".answer .attn-check")
    seen["second check"] = time.perf_counter() - again
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    from playwright.sync_api import sync_playwright

    if not (SITE / "_static" / "python").is_dir() or not chromium_path():
        raise SystemExit("a built site with Python and a Chromium are needed: run make site first")
    address = start_server(Packing, SITE)
    with sync_playwright() as playwright:
        for run in range(runs):
            with tempfile.TemporaryDirectory() as profile:  # on disk: there a browser also keeps compiled code
                context = playwright.chromium.launch_persistent_context(
                    profile, executable_path=chromium_path(), args=["--no-sandbox"]
                )
                for cache in ("empty", "warm", "warm"):
                    page = context.new_page()
                    seen = visit(page, address)
                    words = ", ".join(f"{name} {value:.2f}" for name, value in seen.items())
                    print(f"run {run + 1}, cache {cache}: {words}", flush=True)
                    page.wait_for_timeout(SETTLE)
                    page.close()
                context.close()


if __name__ == "__main__":
    main()
