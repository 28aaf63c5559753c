"""Mounts one widget in a blank page, with no kernel and no book around it.

As a page of the book it says where the site's files are. It holds a stand-in for the model that anywidget hands to
`render`: `window.model`. What a test may use there:

- `model.get(name)`, `model.set(name, value)`: as in Jupyter; setting a different value calls the listeners,
  so a test can play the kernel, where the student assigns a trait from Python;
- `model.saved`: the state as last sent to the kernel by `save_changes()`;
- `model.told`: the state as the kernel knows it, from Python or from there;
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
<meta name="model-in-page" content="yes">
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
    told: JSON.parse(JSON.stringify(state)),
    get: (name) => state[name],
    set(name, value) {
      const changed = !same(JSON.stringify(value), kept[name]);
      state[name] = value;
      kept[name] = JSON.stringify(value);
      if (!changed) return;
      for (const event of [`change:${name}`, "change"]) for (const f of [...heard(event)]) f();
    },
    save_changes() {
      this.saved = JSON.parse(JSON.stringify(state));
      Object.assign(this.told, this.saved);
    },
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


# The clock of the page goes on by so many milliseconds in each frame, however long a frame takes on a busy machine.
FRAME_CLOCK = """() => {
  let now = 0, last = 0;
  const due = new Map();
  const next = window.requestAnimationFrame.bind(window);
  const frame = () => {
    next(frame);
    now += PACE;
    for (const [id, timer] of due) {
      if (timer.at > now) continue;
      if (timer.again) timer.at = now + timer.again;
      else due.delete(id);
      timer.f();
    }
  };
  next(frame);
  const later = (again) => (f, pause = 0) => {
    due.set(++last, { f, at: now + pause, again: again && Math.max(1, pause) });
    return last;
  };
  [window.setTimeout, window.setInterval] = [later(false), later(true)];
  window.clearTimeout = window.clearInterval = (id) => due.delete(id);
  window.requestAnimationFrame = (step) => next(() => step(now));
  performance.now = () => now;
}"""


def frame_clock(pace=1000 / 60):
    """A script for `before`: from then on each frame takes `pace` milliseconds, also for timers."""
    return FRAME_CLOCK.replace("PACE", str(pace))


# What parts look like in each frame after a change, until they rest and for so many frames at least, and whether the
# widget consists of the same nodes as before, but for words in bold in a text that is written again.
WAY = """async ([change, parts, frames]) => {
  const look = () => Object.entries(parts).map(([part, name]) => {
    const node = document.querySelector(part);
    return name ? node?.getAttribute(name) : node.textContent;
  }).join();
  const nodes = () => [...document.querySelectorAll(".aw :not(b, mark)")];
  const before = nodes(), looks = [look()];
  if (typeof change === "string") document.querySelector(change).click();
  else for (const [name, value] of Object.entries(change)) model.set(name, value);
  for (let still = 0; (still < 15 || looks.length < frames) && looks.length < 1000;) {
    looks.push(look());
    still = looks.at(-1) === looks.at(-2) ? still + 1 : 0;
    await new Promise(requestAnimationFrame);
  }
  return [looks, nodes().length === before.length && before.every((node) => node.isConnected)];
}"""


class sets(dict):
    """A step of `CONTROLS` or `TRAITS` in which Python sets traits, in this order."""


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


def sines(positions, width):
    """The sinusoidal encoding of any positions: pairs of a sine and a cosine, 10000 ** (-2 i / width) radians each."""
    angles = np.outer(positions, 10000.0 ** (-np.arange(0, width, 2) / width))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), width)


def assert_agrees(computed, expected, exact=False):
    """`expected` maps places in what `compute` returned to arrays; a place is `name.0.name`, `*` for all of a list.

    exact: whole numbers have to be equal
    """

    def at(value, names):
        for i, name in enumerate(names):
            if name == "*":
                return [at(one, names[i + 1 :]) for one in value]
            value = value[int(name) if isinstance(value, list) else name]
        return value

    for place, value in expected.items():
        got = np.array(at(computed, place.split(".")), dtype=float)
        rounding = {} if exact and np.asarray(value).dtype.kind == "i" else dict(rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(got, np.asarray(value, dtype=float), **{"rtol": 0, **rounding}, err_msg=place)


class View:
    """The page that a widget is drawn on. Parts are found by their data attributes, which stay while numbers change.

    `seen` is a `Watched` page. `page`, `locator`, `evaluate`, `keyboard`, `mouse` and `get_by_role` are
    Playwright's.
    """

    def __init__(self, seen):
        self.seen, self.page = seen, seen.page
        self.locator, self.evaluate = seen.page.locator, seen.page.evaluate
        self.get_by_role = seen.page.get_by_role
        self.keyboard, self.mouse = seen.page.keyboard, seen.page.mouse
        self.first = {}  # what `shows` saw when it was first told that something stays

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
        self.evaluate(
            """(traits) => Object.entries(traits).forEach(([name, value]) => {
          model.told[name] = value;
          model.set(name, value);
        })""",
            traits,
        )

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

    def frames(self, many):
        """Wait for so many frames."""
        self.evaluate(
            """(many) => new Promise((resolve) => {
          const next = () => (many-- ? requestAnimationFrame(next) : resolve());
          next();
        })""",
            many,
        )

    def said(self):
        """Return the widget's announcement, once it rests."""
        self.rest()
        return self.get_by_role("status").text_content()

    def middle(self, part):
        """The middle of a locator's box, on the page as it is scrolled."""
        box = part.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def stroke(self, *places):
        """The mouse, pressed at the first place, goes through the others, and is let go."""
        self.hold(*places)
        self.mouse.up()

    def hold(self, *places):
        """The same, without letting it go."""
        self.mouse.move(*places[0])
        self.mouse.down()
        for place in places[1:]:
            self.mouse.move(*place, steps=2)  # quick

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
        self.rest()

    def find(self, part):
        """Find the parts with this data attribute if `part` is `kind=name`; otherwise `part` is a selector."""
        return self.part(*part.split("=", 1)) if re.match(r"[a-z-]+=", part) else self.locator(part)

    def spot(self, where):
        """A place: the middle of a part, or "part at 0.2,0.5", so far across its box and down."""
        part, _, shares = where.partition(" at ")
        box = self.find(part).first.bounding_box()
        across, down = map(float, shares.split(",")) if shares else (0.5, 0.5)
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def do(self, step):
        """A step of `CONTROLS`: what is done by hand is a text, what Python sets is made by `sets`."""
        if isinstance(step, sets):
            return self.set(**step)
        if " | " in step:
            return [self.do(one) for one in step.split(" | ")]
        if pointed := re.match("(drag|hold|touch) (.*)", step):
            act = dict(drag=self.stroke, hold=self.hold, touch=self.touch)[pointed[1]]
            return act(*map(self.spot, pointed[2].split(" -> ")))
        if step in ("drop", "wait"):
            return self.mouse.up() if step == "drop" else self.frames(20)
        part, sign, given = re.match(r"(.+?)(?:( := |: )(.*))?$", step).groups()
        if part == "keys" and sign:
            return [self.keyboard.press(key) for key in given.split()]
        if part.startswith("hover "):
            where = part.removeprefix("hover ")
            return self.mouse.move(*self.spot(where)) if " at " in where else self.find(where).first.hover()
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
        if name.startswith("=> "):
            return self.evaluate(name.removeprefix("=> "))
        if " => " in name:
            return self.each(*name.split(" => ", 1))
        if name.startswith(("=", "#")):
            return self.text(name[1:]) if name[0] == "=" else self.number(name[1:])
        part, _, attribute = name.partition("@")
        if attribute:
            node = self.find(part).first
            return node.input_value() if attribute == "value" else node.get_attribute(attribute)
        if isinstance(value, list) or value is ...:
            return self.find(part).evaluate_all("all => all.map((one) => one.innerText ?? one.textContent)")
        if isinstance(value, bool):
            return self.find(part).first.is_visible()
        return self.find(part).count() if isinstance(value, int) else self.find(part).first.inner_text()

    def shows(self, expected):
        """Assert what an entry of `CONTROLS` says. Of the traits that it names the kernel knows."""
        for name, value in expected.items():
            got = self.look(name.removesuffix("~"), value)
            if value is ...:
                assert got == self.first.setdefault(name, got), name
            elif name.endswith("~"):
                assert all(words in got for words in ([value] if isinstance(value, str) else value)), (name, got)
            else:
                assert got == value, name
                if name.isidentifier() and name not in ("said", "focus"):
                    assert self.evaluate("(name) => model.told[name]", name) == value, name

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
