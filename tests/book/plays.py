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
    const { state, buffers = [] } = structuredClone(all[JSON.parse(script.textContent).model_id]);
    const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
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
    "stream_stepper": ("[data-slider=block]", "ArrowRight"),
    "tile_stepper": ("[data-go=next]", "Enter"),
    "word_shuffler": ("[data-go=shuffle]", "Enter"),
}


def expected(name, state):
    """What the module of this widget has to compute of a saved state, by place (see `assert_agrees`)."""
    for trait, value in state.items():
        if isinstance(value, dict) and set(value) == {"bytes"}:
            state = {**state, trait: base64.b64decode(value["bytes"])}
    return importlib.import_module(f"tests.attnlab.test_widgets_{name}").reference(state)
