"""Mounts one widget in a blank page, with no kernel and no book around it.

The page holds a stand-in for the model that anywidget hands to `render`: `window.model`. What a test may use there:

- `model.get(name)`, `model.set(name, value)`: as in Jupyter; setting a different value calls the listeners,
  so a test can play the kernel, where the student assigns a trait from Python;
- `model.saved`: the state as last sent to the kernel by `save_changes()`;
- `window.compute(state)`: the widget's pure function;
- `window.dispose()`: what `render` returned.
"""

from __future__ import annotations

import base64

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>widget</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>
  html {{ color-scheme: light; --pst-color-text-base: #222832; --pst-color-text-muted: #48566b;
    --pst-color-background: #ffffff; --pst-color-surface: #f3f4f5; --pst-color-border: #d1d5da; }}
  html[data-theme="dark"] {{ color-scheme: dark; --pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af;
    --pst-color-background: #14181e; --pst-color-surface: #29313d; --pst-color-border: #48566b; }}
  body {{ margin: 0; padding: 12px; background: var(--pst-color-background); color: var(--pst-color-text-base);
    font: 16px/1.5 "DejaVu Sans", system-ui, sans-serif; }}
  main {{ max-width: 760px; margin: 0 auto; }}
</style></head><body><main><div id="widget"></div></main></body></html>"""

MOUNT = """async ({ esm, css, state }) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  for (const [name, value] of Object.entries(state)) {
    if (value && value.__bytes__ !== undefined) {
      state[name] = new DataView(Uint8Array.from(atob(value.__bytes__), (c) => c.charCodeAt(0)).buffer);
    }
  }
  // Like the real one: equal values are no change, and listeners hear `change:name` and `change`.
  const listeners = new Map();
  const heard = (event) => listeners.get(event) ?? [];
  const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);
  const kept = Object.fromEntries(Object.entries(state).map(([k, v]) => [k, JSON.stringify(v)]));
  window.model = {
    saved: {},
    get: (name) => state[name],
    set(name, value) {
      const changed = !same(JSON.stringify(value), kept[name]);
      state[name] = value;
      kept[name] = JSON.stringify(value);
      if (!changed) return;
      for (const event of [`change:${name}`, "change"]) for (const f of [...heard(event)]) f();
    },
    save_changes() { window.model.saved = JSON.parse(JSON.stringify(state)); },
    on(event, f) { listeners.set(event, [...heard(event), f]); },
    off(event, f) {
      for (const key of event == null ? [...listeners.keys()] : [event]) {
        listeners.set(key, f ? heard(key).filter((g) => g !== f) : []);
      }
    },
    listening: () => [...listeners.values()].flat().length,
  };
  const address = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const module = await import(address);
  URL.revokeObjectURL(address);
  window.compute = module.compute;
  window.dispose = await module.default.render({ model: window.model, el: document.getElementById("widget") });
}"""


def load_widget(watched, widget, *, theme="light", width=1280, height=900, **context):
    """A `Watched` page with `widget` drawn in it.

    `watched` is the fixture of that name; `theme` is "light" or "dark", the attribute that the book sets on <html>;
    `width`, `height` in CSS pixels; further options go to Playwright's `new_context` (`has_touch`, `reduced_motion`).
    """
    seen = watched(reuse=True, viewport={"width": width, "height": height}, **context)
    seen.page.set_content(PAGE.format(theme=theme))
    state = {
        name: {"__bytes__": base64.b64encode(value).decode()} if isinstance(value, (bytes, memoryview)) else value
        for name, value in widget.get_state().items()
        if not name.startswith("_") and name not in {"layout", "tooltip", "tabbable"}
    }
    seen.page.evaluate(MOUNT, {"esm": str(widget._esm), "css": str(widget._css), "state": state})
    return seen


def evaluate_compute(seen, state):
    """What the widget's `compute(state)` returns. Infinities and nan survive the way back (Playwright keeps them)."""
    return seen.page.evaluate("(state) => window.compute(state)", state)


FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (color, back) => {
    canvas.fillStyle = back; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    return `rgb(${r} ${g} ${b})`;
  };
  const light = (rgb) => {
    const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.match(/[0-9]+/g).map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) =>
    (node ? over(getComputedStyle(node).backgroundColor, behind(node.parentElement)) : "white");
  const faint = [];
  for (const node of document.querySelectorAll(".aw *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const style = getComputedStyle(node);
    const shown = node.getClientRects().length && !node.matches(":disabled");
    if (!shown || !(own || node.matches("input[type=text]"))) continue;
    const back = behind(node);
    const ink = over(node instanceof SVGElement ? style.fill : style.color, back);
    const [dark, bright] = [light(ink), light(back)].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    if (ratio < 4.5) faint.push(`${node.textContent || node.value}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""


def faint_texts(seen):
    """Texts of the widget whose contrast with the colour behind them is below 4.5 to 1, with their ratios."""
    return seen.page.evaluate(FAINT)


SMALL = """() => [...document.querySelectorAll(".aw :is(button, select, input, [tabindex='0'])")]
  .filter((node) => node.getClientRects().length)
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width < 24 || box.height < 24)
  .map(([node, box]) => `${node.getAttribute("aria-label") || node.textContent}: ${box.width} x ${box.height}`)"""


def small_targets(seen):
    """Controls of the widget that are less than 24 CSS pixels wide or high, hard to hit with a finger."""
    return seen.page.evaluate(SMALL)


def scrolls_sideways(seen):
    """Whether the page, or the widget on it, is wider than it has room for."""
    return seen.page.evaluate("""() => [document.documentElement, document.querySelector(".aw")]
        .some((node) => node.scrollWidth > node.clientWidth)""")


def said(page):
    """What the widget on the page announces, once it rests."""
    page.wait_for_timeout(200)  # the live region speaks once the state rests
    return page.get_by_role("status").text_content()
