"""The browser that benchmarks and tests drive, the server of its pages, and a control of each widget to press."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from pathlib import Path

BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]

# Widget -> the control that is pressed, and the key.
PRESSES = {
    "alignment_viewer": ("[data-go=even]", "Enter"),
    "attention_heatmap": (".hm-cell[tabindex='0']", "ArrowUp"),
    "attention_stepper": ("[data-go=next]", "Enter"),
    "block_stepper": ("[data-go=step]", "Enter"),
    "block_switches": ("[data-switch=latent]", "Enter"),
    "cache_calculator": ("[data-slider=batch]", "ArrowRight"),
    "collapse_viewer": ("[data-slider=floor]", "ArrowRight"),
    "curve_guess": ("[data-go=show]", "Enter"),
    "decode_stepper": ("[data-go]:is([data-go=next], [data-go=back]):not([aria-disabled=true])", "Enter"),
    "dot_product": ("[data-tip=b]", "ArrowLeft"),
    "draw_curve": ("[data-go=draw]", "ArrowUp"),
    "generation_loop": ("[data-go=next]", "Enter"),
    "head_forming": ("[data-slider=at]", "ArrowRight"),
    "head_groups": ("[data-go=tile]", "Space"),
    "head_split": ("[data-stage][aria-pressed=false]", "Enter"),
    "head_viewer": ("[data-query][tabindex='0']", "ArrowUp"),
    "head_wall": ("[data-go=wall]", "ArrowRight"),
    "live_model": ("[data-go=wall]", "ArrowRight"),
    "living_picture": ("[data-go=play]", "Enter"),
    "mask_painter": ("[data-go=flip]", "Enter"),
    "rotation_explorer": ("[data-slider=query]", "ArrowRight"),
    "sampling_explorer": ("[data-go=one]", "Enter"),
    "sinusoid_explorer": ("[data-slider=position]", "ArrowRight"),
    "softmax": ("[data-slider=score-0]", "ArrowRight"),
    "softmax_overflow": ("[data-slider=shift]", "ArrowRight"),
    "state_table": ("[data-go=next]", "Enter"),
    "stream_stepper": ("[data-slider=block]", "ArrowRight"),
    "tile_stepper": ("[data-go=next]", "Enter"),
    "word_shuffler": ("[data-go=shuffle]", "Enter"),
}


def chromium_path() -> str | None:
    """The program of a Chromium on the PATH, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def start_server(handler: type[Quiet], folder: Path, **options) -> str:
    """Serve a folder on loopback, for as long as this process runs; returns the address."""
    handle = functools.partial(handler, directory=str(folder), **options)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handle)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
