"""Mounts one widget in a blank page, with no kernel and no book around it.

As a page of the book it says where the site's files are. It holds a stand-in for the model that anywidget hands to
`render`: `window.model`. What a test may use there:

- `model.get(name)`, `model.set(name, value)`: as in Jupyter; setting a different value calls the listeners,
  so a test can play the kernel, where the student assigns a trait from Python;
- `model.saved`: the state as last sent to the kernel by `save_changes()`;
- `window.compute(state)`: the widget's pure function;
- `window.mount(el)`: draws one more view of the model, returns what takes it away;
- `window.dispose()`: takes the first view away.
"""

from __future__ import annotations

import base64
import re

import numpy as np

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}" data-content_root="./"><head><meta charset="utf-8"><title>widget</title>
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
  window.unpack = (state) => {
    for (const [name, value] of Object.entries(state)) {
      if (value && value.__bytes__ !== undefined) {
        state[name] = new DataView(Uint8Array.from(atob(value.__bytes__), (c) => c.charCodeAt(0)).buffer);
      }
    }
    return state;
  };
  unpack(state);
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
  window.mount = (el) => module.default.render({ model: window.model, el });
  window.dispose = await mount(document.getElementById("widget"));
}"""


# A widget's summary speaks once the state has rested for a while, and some play by themselves. Tests need not wait.
AT_ONCE = """() => {
  const [later, again] = [window.setTimeout, window.setInterval];
  window.setTimeout = (f) => later(f, 0);
  window.setInterval = (f, pause) => again(f, pause / 10);
}"""


def sets(**traits):
    """A step of `CONTROLS` in which Python sets traits."""
    return tuple(traits.items())


def state_of(widget):
    """Return a widget's state as `compute` gets it in the page: traits by name, bytes as bytes."""
    return {
        name: bytes(value) if isinstance(value, memoryview) else value
        for name, value in widget.get_state().items()
        if not name.startswith("_") and name not in {"layout", "tooltip", "tabbable"}
    }


def packed(state):
    """The same as it travels to a page, where `unpack` makes a DataView of bytes."""
    return {
        name: {"__bytes__": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in state.items()
    }


def number(text):
    """The number that a text of the page shows."""
    return float(text.replace("−", "-").replace("<", "").replace("∞", "inf"))


def assert_agrees(computed, expected):
    """`expected` maps places in what `compute` returned to arrays; a place is `name.0.name`, `*` for all of a list."""

    def at(value, names):
        for i, name in enumerate(names):
            if name == "*":
                return [at(one, names[i + 1 :]) for one in value]
            value = value[int(name) if isinstance(value, list) else name]
        return value

    for place, value in expected.items():
        got = np.array(at(computed, place.split(".")), dtype=float)
        np.testing.assert_allclose(got, np.asarray(value, dtype=float), rtol=1e-9, atol=1e-11, err_msg=place)


class View:
    """The page that a widget is drawn on. Parts are found by their data attributes, which stay while numbers change.

    `seen` is a `Watched` page. `page`, `locator`, `evaluate`, `keyboard`, `mouse`, `get_by_role` and `get_by_label` are
    Playwright's.
    """

    def __init__(self, seen):
        self.seen, self.page = seen, seen.page
        self.locator, self.evaluate = seen.page.locator, seen.page.evaluate
        self.get_by_role, self.get_by_label = seen.page.get_by_role, seen.page.get_by_label
        self.keyboard, self.mouse = seen.page.keyboard, seen.page.mouse

    def part(self, kind, name):
        return self.locator(f"[data-{kind}='{name}']")

    def text(self, name):
        return self.part("value", name).inner_text()

    def number(self, name):
        return number(self.text(name))

    def texts(self, where):
        return self.locator(where).all_inner_texts()

    def field(self, name):
        return self.part("field", name)

    def slider(self, name):
        return self.part("slider", name)

    def press(self, button):
        """Press the button of this `data-go`, or else of this name."""
        named = self.part("go", button)
        # Forced, since Playwright waits for what is aria-disabled; such a button keeps the focus and does nothing.
        (named if named.count() else self.get_by_role("button", name=button, exact=True)).click(force=True)

    def get(self, *names):
        """Traits of the model, a list of them where several are asked for."""
        values = self.evaluate("(names) => names.map((name) => model.get(name))", names)
        return values if len(names) > 1 else values[0]

    def saved(self, *names):
        """The same as last sent to the kernel."""
        values = self.evaluate("(names) => names.map((name) => model.saved[name])", names)
        return values if len(names) > 1 else values[0]

    def state(self, widget):
        """All traits of a widget that are not bytes, as the model has them."""
        names = [name for name, value in state_of(widget).items() if not isinstance(value, bytes)]
        return dict(zip(names, self.get(*names)))

    def set(self, **traits):
        """Set traits as the kernel does, in this order."""
        self.evaluate("(traits) => Object.entries(traits).forEach(([name, value]) => model.set(name, value))", traits)

    def pressed(self, kind):
        """Names of the buttons of one kind that are pressed."""
        pressed = self.locator(f"[data-{kind}][aria-pressed=true]")
        return pressed.evaluate_all("(all, kind) => all.map((one) => one.dataset[kind])", kind)

    def focused(self):
        """Return the name of the control that has the focus."""
        return self.evaluate("Object.values(document.activeElement.dataset)[0]")

    def tab(self, times):
        """Names of what so many presses of the Tab key reach."""
        return [self.keyboard.press("Tab") or self.focused() for _ in range(times)]

    def rest(self):
        """Wait until what the widget does a little later is done."""
        self.evaluate("() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), 0))")

    def said(self):
        """Return the widget's announcement, once it rests."""
        self.rest()
        return self.get_by_role("status").text_content()

    def middle(self, part):
        """The middle of a locator's box, on the page as it is scrolled."""
        box = part.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def stroke(self, *places, steps=1):
        """The mouse, pressed at the first place, goes through the others, and is let go."""
        self.mouse.move(*places[0])
        self.mouse.down()
        for place in places[1:]:
            self.mouse.move(*place, steps=steps)
        self.mouse.up()

    def each(self, where, expression):
        """Evaluate an expression in JavaScript for every `one` that a selector finds."""
        return self.locator(where).evaluate_all(f"(all) => all.map((one) => {expression})")

    def touch(self, *places):
        """A finger that comes down at the first place, goes through the others, and leaves."""
        session = self.page.context.new_cdp_session(self.page)
        for place, kind in zip(places, ["touchStart"] + ["touchMove"] * len(places)):
            point = dict(zip("xy", place))
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        self.page.wait_for_timeout(100)

    def slides(self, name, last, typed):
        """A slider and its field show the same, and tell the kernel: `last` at the end, then what is typed."""
        self.slider(name).press("End")
        assert self.get(name) == last == self.saved(name)
        assert self.field(name).input_value() == str(last)
        self.field(name).fill(typed)
        assert self.get(name) == float(typed) == self.saved(name)

    def find(self, part):
        """Find the parts with this data attribute if `part` is `kind=name`; otherwise `part` is a selector."""
        return self.part(*part.split("=", 1)) if re.match(r"[a-z-]+=", part) else self.locator(part)

    def do(self, step):
        """A step of `CONTROLS`: what is done by hand is a text, what Python sets is made by `sets`."""
        if not isinstance(step, str):
            return self.set(**dict(step))
        if " | " in step:
            return [self.do(one) for one in step.split(" | ")]
        part, sign, given = re.match(r"(.+?)(?:( := |: )(.*))?$", step).groups()
        if part == "keys" and sign:
            return [self.keyboard.press(key) for key in given.split()]
        if part.startswith("hover "):
            return self.find(part.removeprefix("hover ")).first.hover()
        if part == "leave":
            return self.mouse.move(0, 0)
        if not re.match(r"[a-z-]+=|[.\[]", part):
            return self.press(part)
        node = self.find(part).first
        if sign == ": ":
            return [node.press(key) for key in given.split()]
        if sign:
            select = node.evaluate("(node) => node.matches('select')")
            return node.select_option(given) if select else node.fill(given)
        return node.click(force=True)

    def look(self, name, value):
        """Return the present state of `name`, in the form of `value`; see `CONTROLS`."""
        if name in ("said", "focus"):
            return self.said() if name == "said" else self.focused()
        if name.startswith("pressed "):
            return self.pressed(name.removeprefix("pressed "))
        if name.isidentifier():
            return self.get(name)
        if name.startswith("="):
            return self.text(name[1:])
        part, _, attribute = name.partition("@")
        if attribute:
            node = self.find(part).first
            return node.input_value() if attribute == "value" else node.get_attribute(attribute)
        if isinstance(value, list):
            return self.find(part).evaluate_all("all => all.map((one) => one.innerText ?? one.textContent)")
        if isinstance(value, bool):
            return self.find(part).first.is_visible()
        return self.find(part).count() if isinstance(value, int) else self.find(part).first.inner_text()

    def shows(self, expected, told):
        """Assert what an entry of `CONTROLS` says; `told`: whether the kernel was told of the traits as they are."""
        for name, value in expected.items():
            got = self.look(name.removesuffix("~"), value)
            if name.endswith("~"):
                assert all(words in got for words in ([value] if isinstance(value, str) else value)), (name, got)
            else:
                assert got == value, name
                if told and name.isidentifier() and name not in ("said", "focus"):
                    assert self.saved(name) == value, name

    def compute(self, state):
        """Return the result of the widget's `compute`. Infinities and nan survive the way back."""
        return self.evaluate("(state) => window.compute(unpack(state))", packed(state))


def load_widget(watched, widget, *, theme="light", width=1280, height=900, before=AT_ONCE, **context):
    """A `View` of `widget`.

    `watched` is the fixture of that name; `theme` is "light" or "dark", the attribute that the book sets on <html>;
    `width`, `height` in CSS pixels; `before` is a script that runs before the widget is drawn; further options go to
    Playwright's `new_context` (`has_touch`, `reduced_motion`).
    """
    seen = watched(reuse=True, viewport={"width": width, "height": height}, **context)
    seen.page.set_content(PAGE.format(theme=theme))
    seen.page.evaluate(before)
    state = packed(state_of(widget))
    seen.page.evaluate(MOUNT, {"esm": str(widget._esm), "css": str(widget._css), "state": state})
    return View(seen)
