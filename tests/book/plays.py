"""One press on each widget, on a page of the built book.

What each control does is tested on the widgets alone, in tests/attnlab. Of a page only this is asked: that the widget
that stands in it reacts, and that the module that is embedded there computes what Python does.
"""

from __future__ import annotations

import base64
import importlib

# The saved widgets of a page, in the order of their views: what was saved, and what the embedded module computes of it.
SAVED = """async () => {
  const type = "application/vnd.jupyter.widget-";
  const all = {};
  for (const script of document.querySelectorAll(`script[type="${type}state+json"]`))
    Object.assign(all, JSON.parse(script.textContent).state);
  const found = [];
  for (const script of document.querySelectorAll(`script[type="${type}view+json"]`)) {
    const named = all[JSON.parse(script.textContent).model_id], { _files, _saved, _esm } = named.state;
    const { state, buffers = [] } = structuredClone(self.widgetFiles?.[_saved] ?? named);
    const parts = _files?.map((name) => self.widgetFiles[name]._esm) ?? [_esm];
    const url = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
    const { compute } = await import(url);
    const given = { ...state };
    for (const { path, data } of buffers) {
      given[path[0]] = new DataView(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer);
      state[path[0]] = { bytes: data };
    }
    for (const name of Object.keys(state)) if (name.startsWith("_")) delete state[name];
    found.push({ state, computed: compute(given) });
  }
  return found;
}"""


def expected(name, state):
    """Return what the module of this widget must compute from a saved state, by place (see `assert_agrees`)."""
    for trait, value in state.items():
        if isinstance(value, dict) and set(value) == {"bytes"}:
            state = {**state, trait: base64.b64decode(value["bytes"])}
    return importlib.import_module(f"tests.attnlab.test_widgets_{name}").reference(state)
