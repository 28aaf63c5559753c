"""The engine in a page, in numbers: `python scripts/bench_live.py`, on an idle machine, after `make live`.

Headless Chromium with two processors, the page and the pieces on loopback. Told are how long it takes to read twelve
tokens, how many are written a second with the cache, how soon a head's switch is seen, and what the browser's process
holds; then the ratios, in the same run, to the same engine without WebAssembly and to the course's own Python model.
"""

from __future__ import annotations

import functools
import http.server
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import torch
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attnlab import smollm2
from live import shards
from scripts.browsers import chromium_path
from solutions.language_model import LanguageModel, generate

TEXT = "The CEO announced record earnings on Friday, and then she left"  # twelve tokens
WRITTEN = 40
ENGINE = Path(__file__).resolve().parent.parent / "live" / "engine"
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script>
const worker = new Worker("/worker.js" + location.search, { type: "module" });
window.ask = (what) => new Promise((done) => {
  const begin = performance.now();
  worker.onmessage = ({ data }) => {
    if (data.error) throw new Error(data.error);
    if (data.ready) done(performance.now() - begin);
  };
  worker.postMessage(what);
});
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def in_browser(page, many: int = 5) -> dict[str, float]:
    """Milliseconds: the best of some, as others may be using the machine."""

    def best(what):
        return min(page.evaluate("ask", what) for _ in range(many))

    page.evaluate("ask", {"read": TEXT})  # everything is fetched
    read = best({"read": TEXT})
    switch = min(page.evaluate("ask", {"head": [0, 3, how]}) for how in (1, 0, 1, 0))
    page.evaluate("ask", {"read": TEXT})
    before = page.evaluate("ask", {"write": 1, "temperature": 0})
    write = page.evaluate("ask", {"write": WRITTEN + 1, "temperature": 0}) - before
    return {"read": read, "switch": switch, "token": write / WRITTEN}


def in_python() -> dict[str, float]:
    torch.set_num_threads(1)
    model = smollm2.load(LanguageModel)
    row = torch.tensor([smollm2.tokenizer().encode(TEXT)])
    assert row.shape[1] == 12

    def took(ask) -> float:
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            with torch.no_grad():
                ask()
            times.append(time.perf_counter() - begin)
        return 1000 * min(times)

    read = took(lambda: model(row))
    return {"read": read, "token": (took(lambda: generate(model, row, WRITTEN)) - read) / WRITTEN}


def main() -> None:
    if not (shards.FOLDER / shards.MANIFEST).is_file():
        sys.exit("There are no pieces yet: run make live first.")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        for path in ENGINE.iterdir():
            (folder / path.name).symlink_to(path)
        (folder / "pieces").symlink_to(shards.FOLDER)
        (folder / "index.html").write_text(PAGE, "utf-8")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        found = {}
        for kind in ("WASM with SIMD", "plain JavaScript"):
            browser = playwright.chromium.launch(executable_path=chromium_path())
            page = browser.new_page()
            if kind == "plain JavaScript":
                page.context.route("**/kernel.wasm", lambda route: route.fulfill(body=b""))
            page.goto(f"http://127.0.0.1:{server.server_port}")
            found[kind] = in_browser(page, 5 if kind.startswith("WASM") else 1)
            renderers = [p for p in psutil.Process().children(recursive=True) if "--type=renderer" in p.cmdline()]
            found[kind]["memory"] = max(process.memory_info().rss for process in renderers) / 1e6
            browser.close()
    found["Python, one thread"] = in_python()
    print(f"{'':22}{'12 tokens read':>16}{'tokens/s':>10}{'a switch':>10}{'memory':>10}")
    for kind, one in found.items():
        switch = f"{one['switch']:7.0f} ms" if "switch" in one else ""
        memory = f"{one['memory']:7.0f} MB" if "memory" in one else ""
        print(f"{kind:22}{one['read']:13.0f} ms{1000 / one['token']:10.1f}{switch:>10}{memory:>10}")
    fast = found["WASM with SIMD"]
    for kind in ("plain JavaScript", "Python, one thread"):
        read, token = found[kind]["read"] / fast["read"], found[kind]["token"] / fast["token"]
        print(f"{kind} takes {read:.1f} times as long to read, {token:.1f} times as long per token written")


if __name__ == "__main__":
    main()
