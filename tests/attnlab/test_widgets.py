"""The contract of all widgets of the package.

Widgets are found in the package. `test_widgets_<stem>.py`, a widget's own tests, may say more of it:

- `EXAMPLES`: `(widget, *changes)`, the states in which it is looked at, one after the other: a change sets traits, or
  presses the part that a selector finds. Without it, the widget as it is made without arguments.
- `EXTREMES`: further ones, too large to have room reserved for them.
- `FIXTURES` and `reference(state)`: states for `compute`, and what it has to return for them (see `assert_agrees`).
  The tests of the book ask for the same of the states that are saved in its pages.
- `STOPS`: what the Tab key reaches in the first example, by the first data attribute of each control.
- `POINTED`: parts that show where the pointer or the keyboard was, separately in each view.
- `SET`: further changes that Python makes to the first example, in which it need not be looked at.
- `AGAIN`: the widget in a state of its own, which its button `Start again` brings back.
- `MISTYPED`: by the name of a field of `AGAIN`, or else of the first example, what it does not take.
- `REFUSED`: `(*arguments, options, words)`, what the widget, or the module's own `make`, is not made of, and what is
  said. `REFUSED_LATER`: `(trait, value, words)`, what the same, made without arguments, does not let a trait be set to.
- `STILL`: parts that stay where they are while the state changes, besides the widget itself.
- `ROOM`: by how many pixels at least and at most it is higher than the room reserved for it.
- `GLIDES`: `(widget, change, parts)`, a change that sets traits, or presses the part that a selector finds, and what
  passes through places in between: by the selector of a part, the attribute that is looked at, or "" for its text.
- `CONTROLS`: by a sentence, `(widget, *steps)`, where several steps may form a tuple. A step is what a reader does:
  "name" presses a button of that name or `data-go`, "kind=name" a part with that data attribute, "[selector]" what it
  finds; "part: Key Key" presses keys on it ("keys: Key" where the focus is), "part := text" types or chooses, "hover
  part" and "leave" move the pointer, "drag part -> part" presses it at the middle of a part, or at "part at 0.2,0.5" of
  its width and height, and leads it from there; "hold" lets it go at "drop" only, and "touch" is a finger, on a phone;
  "wait" lets some frames pass; " | " separates several of these. `sets(...)` is what Python does. A dict says what is
  then seen: traits (and that the kernel knows them), "=name" the text of a `data-value` and "#name" its number, "part"
  its text, its texts as a list, its number as an int, or whether it is visible as a bool, "part@attribute" (or
  "@value"), "part => expression" in JavaScript for every `one`, "=> expression" for none, "pressed kind" names of
  pressed buttons, "focus", "said". With "~" at its end it only has to contain the text, or all of a list; `...` is what
  the first `...` for it saw.
- `SLIDERS`: `(widget, trait, places, *numbers)`, where the trait's slider stops, and numbers that its field takes.
- `WALKS`: `(widget, trait, last)`, a trait that the buttons Back and Next change by one, from 0 to the last.
- `TRAITS`: by a sentence, `(options, *steps)`, what happens in Python. The module's `make`, or the widget, is called
  with the options, which it does not change. A step is `sets(...)`, a function that is given the widget, or a dict
  of attributes as they are then.
- `KNOWN`: `(state, results)`, like `FIXTURES`, with the results themselves, whole numbers exactly.
- `BYTES`: how many bytes its arrays may have, to be small enough for a page.
- `PLAYS`: `(widget, end, *buttons)`, traits at which a widget that is played stops, and what else than `play` stops it.
"""

from __future__ import annotations

import collections
import copy
import functools
import importlib
import json
import math
import pkgutil
import re
import time
from importlib.util import find_spec

import numpy as np
import pytest
import traitlets

from attnlab import widgets
from attnlab.widgets._base import CourseWidget
from tests.attnlab.widget_page import WAY, assert_agrees, frame_clock, load_widget, number, packed, sets, state_of
from tests.conftest import Watched, new_page

STEMS = [found.name for found in pkgutil.iter_modules(widgets.__path__) if not found.name.startswith("_")]
PHONES, LAPTOP = (360, 390), 1280

# What controls answer to.
KEYS = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Enter", "Space"]

# Names of what the Tab key stops at, in order. Of radio buttons with one name it is the checked one. Each is given its
# number as `stop`.
STOPS = """() => {
  const radios = (node) => node.type === "radio" && !node.checked
    && [...document.getElementsByName(node.name)].some((one) => one.checked);
  const all = [...document.querySelectorAll(".aw :is(button, select, input, textarea, a[href], summary, [tabindex])")];
  for (const node of document.querySelectorAll(".aw *")) delete node.stop;
  return all.filter((node) => node.checkVisibility() && !node.disabled && node.tabIndex >= 0 && !radios(node))
    .map((node, at) => ((node.stop = at), Object.values(node.dataset)[0] ?? node.textContent));
}"""

# The control that has the focus, if a screen reader cannot name it or no ring shows that it has the focus.
RINGLESS = """() => {
  const node = document.activeElement;
  const rings = [node, ...node.querySelectorAll("*"), node.closest("label")].filter(Boolean).map(getComputedStyle);
  const drawn = node.querySelector(".dp-ring");  // the tip of an arrow has a round one
  const ring = drawn ? getComputedStyle(drawn).opacity === "1"
    : rings.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1.5);
  const named = node.ariaLabel || node.labels?.length || node.textContent.trim();
  const native = node.matches("button, select, input, textarea, a[href], summary");
  return ring && named && (native || node.role || node.getAttribute("role")) ? [] : [node.outerHTML.slice(0, 150)];
}"""

# What can be seen of the widget, and what it has told the model.
LOOKS = """() => [document.querySelector(".aw").outerHTML, JSON.stringify(model.saved),
  ...[...document.querySelectorAll(".aw :is(input, select)")].map((one) => `${one.value} ${one.checked}`)].join()"""

FOCUS = f"""([stops, at]) => {{
  eval(stops)();
  window.went = [...document.querySelectorAll(".aw *")].find((node) => node.stop === at);
  if (!window.went) return null;
  window.went.focus();
  return ({LOOKS})();
}}"""

# Whether the focus is where it was before a key was pressed: on the same button of an action, or else in the widget.
STAYS = """() => {
  const { go } = went.dataset, here = document.activeElement;
  return went.disabled || !went.checkVisibility() || (go ? here.dataset.go === go : Boolean(here.closest(".aw")));
}"""

# What is wrong with the looks of the widget, by kind, in light and in dark: what is wider than it has room for or
# reaches out of it, controls that are hard to hit with a finger (less than 24 CSS pixels), and texts that are hard to
# read: a contrast below 4.5 to 1, or letters of less than 8 CSS pixels (those of no size are hidden).
LOOK = """() => {
  const root = document.querySelector(".aw"), room = root.getBoundingClientRect();
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const mixed = new Map(), grounds = new Map();
  const over = (color, back) => {
    if (!mixed.has(color + back)) {
      canvas.fillStyle = back; canvas.fillRect(0, 0, 1, 1);
      canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
      const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
      mixed.set(color + back, `rgb(${r} ${g} ${b})`);
    }
    return mixed.get(color + back);
  };
  const light = (rgb) => {
    const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.match(/[0-9]+/g).map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    if (!node) return "white";
    if (!grounds.has(node)) grounds.set(node, over(getComputedStyle(node).backgroundColor, behind(node.parentElement)));
    return grounds.get(node);
  };
  const written = (node) => node.matches("input[type=text]")
    || [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  const scrolls = (node) => getComputedStyle(node).overflowX === "auto";
  const scrolled = (node) => node !== root && (scrolls(node) || scrolled(node.parentElement));
  const name = (node) => node.getAttribute("aria-label") || node.textContent || node.value || node.className;
  const shown = [...root.querySelectorAll("*")].filter((node) => node.getClientRects().length);
  const controls = shown.filter((node) => node.matches("button, select, input, [tabindex='0']"));

  const width = [document.documentElement, root].filter((node) => node.scrollWidth > node.clientWidth)
    .map((node) => `${node.tagName}: ${node.scrollWidth} in ${node.clientWidth}`);
  const touch = [];
  for (const node of controls) {
    const box = node.getBoundingClientRect();
    const out = box.left < room.left || box.right > Math.min(room.right, innerWidth);
    if (out && !scrolled(node.parentElement)) width.push(`${name(node)}: cut`);
    const target = (node.type === "checkbox" && node.closest("label") || node).getBoundingClientRect();
    if (target.width < 24 || target.height < 24) touch.push(`${name(node)}: ${target.width} x ${target.height}`);
  }
  const letters = [], texts = shown.filter((node) => written(node) && !node.matches(":disabled"));
  for (const theme of ["dark", "light"]) {
    document.documentElement.dataset.theme = theme;
    grounds.clear();
    for (const node of texts) {
      const style = getComputedStyle(node), back = behind(node), drawn = node instanceof SVGElement;
      const size = parseFloat(style.fontSize) * (drawn ? Math.abs(node.getScreenCTM().a) : 1);
      if (size && size < 8) letters.push(`${name(node)}: ${size.toFixed(1)} pixels`);
      const [dark, bright] = [over(drawn ? style.fill : style.color, back), back].map(light).sort((a, b) => a - b);
      const ratio = (bright + 0.05) / (dark + 0.05);
      if (ratio < 4.5) letters.push(`${name(node)}: ${ratio.toFixed(2)} in the ${theme}`);
    }
  }
  return { width, touch, letters };
}"""

# How high the widget is, and where parts are. It takes the room that is reserved for it at least.
PLACES = """([parts, reserved]) => [document.querySelector(".aw").getBoundingClientRect().height, parts.map((part) => {
  const box = document.querySelector(part).getBoundingClientRect();
  return [box.left, box.top + scrollY, box.width, part === ".aw" ? Math.max(box.height, reserved) : box.height];
})]"""

UNTOUCHED = """(given) => {
  const state = unpack(given);
  const bytes = () => Object.values(state).filter(ArrayBuffer.isView).map((view) => [...new Uint8Array(view.buffer)]);
  const before = JSON.stringify([state, bytes()]);
  compute(state);
  return JSON.stringify([state, bytes()]) === before;
}"""

# Counts what a view asks of the page beyond its own element, from before it is drawn.
TRACK = """() => {
  window.sleep = window.setTimeout;
  window.held = { outside: new Set(), observing: new Set(), waiting: new Set() };
  const outer = (target) => !(target instanceof Node) || ["#document", "HTML", "BODY"].includes(target.nodeName);
  const { addEventListener, removeEventListener } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function (kind, f, ...rest) {
    if (outer(this ?? window)) held.outside.add(f);
    return addEventListener.call(this, kind, f, ...rest);
  };
  EventTarget.prototype.removeEventListener = function (kind, f, ...rest) {
    held.outside.delete(f);
    return removeEventListener.call(this, kind, f, ...rest);
  };
  for (const kind of ["ResizeObserver", "MutationObserver", "IntersectionObserver"]) {
    const { observe, disconnect } = window[kind].prototype;
    window[kind].prototype.observe = function (...rest) { held.observing.add(this); return observe.apply(this, rest); };
    window[kind].prototype.disconnect = function () { held.observing.delete(this); return disconnect.call(this); };
  }
  for (const [start, stop, once] of [["setInterval", "clearInterval"], ["setTimeout", "clearTimeout", true],
      ["requestAnimationFrame", "cancelAnimationFrame", true]]) {
    const [begin, end] = [window[start], window[stop]];
    window[start] = (f, ...rest) => {
      const id = begin((...given) => { if (once) held.waiting.delete(`${start} ${id}`); f(...given); }, ...rest);
      held.waiting.add(`${start} ${id}`);
      return id;
    };
    window[stop] = (id) => { held.waiting.delete(`${start} ${id}`); return end(id); };
  }
}"""

# Draws the widget once for each of its buttons, presses it, and takes the view away. What rests by itself may.
LEAVE = """async () => {
  const el = document.getElementById("widget");
  const many = el.querySelectorAll("button").length;
  for (let at = 0; at <= many; at++) {
    if (at) dispose = await mount(el);
    el.querySelectorAll("button")[at]?.click();
    dispose();
  }
  for (let tries = 0; tries < 500 && held.waiting.size; tries++) await new Promise((resolve) => sleep(resolve, 20));
  return { drawn: el.childElementCount, listening: model.listening(), outside: held.outside.size,
    observing: held.observing.size, waiting: held.waiting.size };
}"""

# What a reader sees of each view, besides parts that show where the pointer was, and names of its radio buttons.
VIEWS = """(pointed) => [...document.querySelectorAll(".aw")].map((root) => {
  const fields = [...root.querySelectorAll("input, select")];
  for (const node of root.querySelectorAll(pointed)) node.hidden = true;
  return [root.innerText.replace(/\\s+/g, " ") + fields.map((one) => [one.value, one.checked, one.min, one.max]),
    fields.filter((one) => one.type === "radio").map((one) => one.name)];
})"""

# Draws one more view, in place of the one that it drew before.
ANEW = """async () => {
  window.anew?.();
  window.anew = await mount(document.querySelector("main").appendChild(document.createElement("div")));
}"""

# What the summary says two frames after a change.
SPEAKS = """async (traits) => {
  for (const [name, value] of Object.entries(traits)) model.set(name, value);
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  return document.querySelector("[role=status]").textContent;
}"""

every = pytest.mark.parametrize("stem", STEMS)


def class_of(stem):
    module = importlib.import_module(f"attnlab.widgets.{stem}")
    classes = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, CourseWidget)]
    [found] = [one for one in classes if one.__module__ == module.__name__]
    return found


def own(stem, name, default=None):
    """Return the widget's own test module."""
    tests = f"tests.attnlab.test_widgets_{stem}"
    return getattr(importlib.import_module(tests), name, default) if find_spec(tests) else default


def those_with(name):
    """For the widgets whose own tests say this of them."""
    return pytest.mark.parametrize("stem", [stem for stem in STEMS if own(stem, name)])


def rows(name):
    """For each row that the widgets' own tests give by this name."""
    return pytest.mark.parametrize("stem, given", [(stem, row) for stem in STEMS for row in own(stem, name, [])])


def sentences(name):
    """For each entry of the tables that the widgets' own tests have by this name."""
    all = [(stem, sentence, steps) for stem in STEMS for sentence, steps in own(stem, name, {}).items()]
    return pytest.mark.parametrize("stem, steps", [one[::2] for one in all], ids=["-".join(one[:2]) for one in all])


def flat(steps):
    """The steps of a table one after the other."""
    return [step for one in steps for step in (flat(one) if isinstance(one, tuple) else [one])]


def examples(stem):
    return own(stem, "EXAMPLES") or [(class_of(stem)(),)]


def states(view, changes):
    """Put the widget into one state after the other, from the one it is in; yields what was changed."""
    yield {}
    for change in changes:
        if isinstance(change, str):
            view.locator(change).first.click(force=True)
        else:
            view.set(**change)
        yield change


@every
def test_it_is_exported(stem):
    assert class_of(stem).__name__ in widgets.__all__


# Numbers


@every
def test_compute_gives_the_numbers_of_the_reference_and_leaves_its_input_as_it_was(stem, shown):
    view = shown(examples(stem)[0][0])
    for state in own(stem, "FIXTURES", []):
        assert_agrees(view.compute(state), own(stem, "reference")(state))
    for state, expected in own(stem, "KNOWN", []):
        assert_agrees(view.compute(state), expected, exact=True)
    for widget, *_ in examples(stem):
        assert view.evaluate(UNTOUCHED, packed(state_of(widget)))


@every
def test_its_state_is_plain_json_besides_bytes_and_print_gets_a_picture(stem):
    for widget, *_ in examples(stem)[:1] + own(stem, "EXTREMES", []):
        arrays = [value for value in state_of(widget).values() if isinstance(value, bytes)]
        json.dumps({name: value for name, value in state_of(widget).items() if value not in arrays})
        assert sum(map(len, arrays)) < own(stem, "BYTES", math.inf)
        assert widget._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")


# Looks


@pytest.fixture(scope="module")
def faults(browser):
    """`faults(stem, width)`: what is wrong with the looks of a widget's examples, by kind. Looked at once for all."""
    pages = {}

    @functools.cache
    def look(stem, width):
        if width not in pages:
            pages[width] = new_page(browser, viewport=dict(width=width, height=844), reduced_motion="reduce")
        seen, found = Watched(pages[width]), collections.defaultdict(list)
        roomy, (low, high) = examples(stem), own(stem, "ROOM", (-5, 5))
        for example in roomy + own(stem, "EXTREMES", []):
            widget, *changes = example
            view = load_widget(lambda **_: seen, widget, width=width)
            view.evaluate("() => { document.querySelector('.aw').style.minHeight = 0; }")
            reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
            places = []
            for change in states(view, changes if width != PHONES[0] else ()):
                view.rest()
                # Each state of the first example, and of the others the first and the last.
                if example is roomy[0] or change in ({}, *changes[-1:]):
                    for kind, wrong in view.evaluate(LOOK).items():
                        found[kind] += [(change, one) for one in wrong]
                height, now = view.evaluate(PLACES, [[".aw", *own(stem, "STILL", [])], reserved])
                places.append(now)
                if example in roomy and not low <= (more := height - reserved) <= high:
                    found["room"].append((change, more))
            if example in roomy:
                found["moved"] += [
                    (change, one) for change, one in zip(changes, places[1:]) if not near(one, places[0])
                ]
            view.evaluate("dispose()")
        seen.assert_clean()
        seen.release()
        return found

    yield look
    for page in pages.values():
        page.context.close()


def near(places, others):
    """Whether the same parts are at the same places, to a pixel."""
    return all(a == pytest.approx(b, abs=1) for a, b in zip(places, others))


@every
@pytest.mark.parametrize("width", PHONES)
def test_a_phone_shows_it_without_scrolling_sideways_and_fingers_hit_its_controls(stem, width, faults):
    assert (faults(stem, width)["width"], faults(stem, width)["touch"]) == ([], [])


@every
@pytest.mark.parametrize("width", [390, LAPTOP])
def test_every_text_can_be_read_in_light_and_in_dark(stem, width, faults):
    """The contrast is 4.5 to 1 or more, and no letter smaller than 8 pixels."""
    assert faults(stem, width)["letters"] == []


@every
@pytest.mark.parametrize("width", [390, LAPTOP])
def test_it_takes_the_room_that_is_reserved_and_nothing_moves(stem, width, faults):
    """It is as high as the page was told, without help, and as high in every state."""
    assert (faults(stem, width)["room"], faults(stem, width)["moved"]) == ([], [])


@every
def test_nothing_glides_where_motion_is_unwanted(stem, shown):
    view = shown(examples(stem)[0][0])
    assert view.evaluate("""() => [...document.querySelectorAll(".aw, .aw *")].map((node) => getComputedStyle(node))
        .every((style) => /^(0s(, )?)+$/.test(style.transitionDuration) && style.animationName === "none")""")


@sentences("CONTROLS")
def test_controls_do_what_they_say(stem, steps, shown):
    widget, *steps = flat(steps)
    phone = dict(width=390, height=800, has_touch=True) if any("touch " in step for step in steps) else {}
    view = shown(widget, **phone)
    for step in steps:
        if isinstance(step, str | sets):
            view.do(step)
        else:
            view.shows(step)


@rows("PLAYS")
def test_it_plays_to_its_end_and_from_there_anew_until_it_is_stopped(stem, given, shown):
    widget, end, *others = given
    view = shown(widget, before=frame_clock(100))
    play = view.part("go", "play")
    assert play.evaluate("(play) => { play.click(); return play.textContent; }") == "Pause"
    view.page.wait_for_function("document.querySelector('[data-go=play]').textContent === 'Play'")
    assert view.state(widget).items() >= end.items()
    for button in ["play", *others]:
        view.set(**end)
        play.evaluate("(play, stop) => { play.click(); stop.click(); }", view.part("go", button).element_handle())
        stopped = view.state(widget)
        assert play.inner_text() == "Play" and not stopped.items() >= end.items()
        view.frames(40)  # some steps
        assert view.state(widget) == stopped


def numbers(look):
    return np.array([float(text) for text in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", look)])


@rows("GLIDES")
def test_a_change_glides_to_where_it_jumps_if_motion_is_unwanted(stem, given, shown):
    """No part is made again, no frame takes most of the way, and the jump is looked at for as long."""
    widget, change, parts = given
    moving = shown(widget, before=frame_clock(), reduced_motion="no-preference")
    glide, kept = moving.evaluate(WAY, [change, parts, 0])
    steps = np.linalg.norm(np.diff([numbers(look) for look in glide], axis=0), axis=1)
    assert len(set(glide)) > 4 and steps.max() < 0.8 * steps.sum(), glide
    jump, still_kept = shown(widget, before=frame_clock()).evaluate(WAY, [change, parts, len(glide)])
    assert kept and still_kept
    assert len(set(jump)) == 2 and (glide[0], glide[-1]) == (jump[0], jump[-1])


@rows("SLIDERS")
def test_a_slider_stops_at_each_of_its_places_and_its_field_takes_what_is_between_them(stem, given, shown):
    widget, name, places, *typed = given
    view = shown(widget)
    slider, field = view.slider(name), view.field(name)

    def press(key):
        before = view.get(name)
        slider.press(key)
        assert (now := view.get(name)) == before or now == view.saved(name)
        assert None in (now, field.count() or None) or number(field.input_value()) == now
        return now

    assert [press("End"), press("Home")] == [places[-1], places[0]]
    assert [press("ArrowRight") for _ in places[1:]] == [*places[1:]]
    for text in map(str, typed):
        field.fill(text)
        assert view.get(name) == float(text) == view.saved(name)
        assert slider.get_attribute("aria-valuetext") == text.replace("-", "−")
        field.press("ArrowUp")
        assert view.get(name) > float(text)
        field.press("ArrowDown")
        assert view.get(name) == float(text)


@rows("WALKS")
def test_next_goes_to_the_last_step_and_back_to_the_first_and_no_further(stem, given, shown):
    widget, trait, last = given
    view = shown(widget)
    for button, places in ("next", [*range(last + 1)]), ("back", [*range(last, -1, -1)]):
        for place in places:
            assert view.get(trait) == place
            assert view.part("go", button).get_attribute("aria-disabled") == str(place == places[-1]).lower()
            view.press(button)
        assert view.get(trait) == places[-1] == view.saved(trait)


# Keyboard

PATIENCE = 60  # seconds, for a control that stays silent


@every
def test_the_tab_key_reaches_every_control_in_order_and_shows_where_it_is(stem, shown):
    view = shown(examples(stem)[0][0])
    stops = view.evaluate(STOPS)
    assert stops and stops == own(stem, "STOPS", stops)
    for at in range(len(stops)):
        view.keyboard.press("Tab")
        assert view.evaluate("document.activeElement.stop") == at
        assert view.evaluate(RINGLESS) == []
    view.keyboard.press("Tab")
    assert not view.evaluate("document.querySelector('.aw').contains(document.activeElement)")


@every
def test_every_control_answers_to_the_keyboard(stem, shown):
    """Whatever Tab reaches changes something when one of its keys is pressed, in one of the states at least.

    The focus is not lost by that.
    """
    widget, *changes = examples(stem)[0]
    view = shown(widget)
    silent = set(view.evaluate(STOPS))

    def rounds():
        yield from states(view, changes)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:  # a button may be off, or slow, while what another one began is going on
            yield

    for _ in rounds():
        stops = view.evaluate(STOPS)
        for at, name in enumerate(stops):
            for key in KEYS:
                if name in silent and (before := view.evaluate(FOCUS, [STOPS, at])):
                    view.keyboard.press(key)
                    if view.evaluate(LOOKS) != before:
                        silent.discard(name)
                        assert view.evaluate(STAYS), (name, key)
        if not silent:
            break
    assert silent == set()


@those_with("MISTYPED")
def test_what_a_field_does_not_take_is_marked_and_changes_nothing(stem, shown):
    widget = own(stem, "AGAIN") or examples(stem)[0][0]
    view = shown(widget)
    for name, wrong in own(stem, "MISTYPED").items():
        field, before = view.field(name), view.state(widget)
        back = field.input_value()
        for typed in wrong:
            field.fill(typed)
            assert field.get_attribute("aria-invalid") == "true", (name, typed)
            field.blur()
            assert (field.input_value(), field.get_attribute("aria-invalid")) == (back, "false"), (name, typed)
            assert view.state(widget) == before, (name, typed)


@those_with("AGAIN")
def test_start_again_brings_the_first_state_back(stem, shown):
    """After each control was used in turn."""
    widget = own(stem, "AGAIN")
    view = shown(widget)
    first, again = view.state(widget), view.get_by_role("button", name="Start again", exact=True)
    for at in range(len(view.evaluate(STOPS))):
        view.evaluate(FOCUS, [STOPS, at])
        if not again.evaluate("(button) => button === document.activeElement"):
            for key in ("ArrowUp", "Space"):
                view.keyboard.press(key)
    assert view.state(widget) != first
    again.press("Enter")
    assert view.state(widget) == first


@every
def test_the_summary_says_politely_what_is_shown_once_the_state_rests(stem, shown):
    widget, *changes = examples(stem)[0]
    view = shown(widget, before=frame_clock())
    summary = view.get_by_role("status")
    assert summary.count() == 1 and summary.get_attribute("aria-live") == "polite"
    heard = {summary.text_content()}
    assert len(min(heard)) > 20
    for change in [one for one in changes if isinstance(one, dict)][:3]:
        assert view.evaluate(SPEAKS, change) in heard
        view.frames(12)
        heard.add(summary.text_content())
    assert len(heard) > 1 or not changes


# Coming and going


@every
def test_a_view_that_is_taken_away_leaves_nothing_behind(stem, shown):
    """No drawing, listener, timer or observer, whichever of its buttons was the last to be pressed."""
    view = shown(examples(stem)[0][0], before=TRACK, reduced_motion="no-preference")
    assert view.evaluate(LEAVE) == dict(drawn=0, listening=0, outside=0, observing=0, waiting=0)


@every
def test_what_python_sets_is_drawn_by_every_view_as_by_a_new_one(stem, shown):
    """Two views of one model, and a third that comes and goes, show the same without sharing radio buttons."""
    widget, *changes = examples(stem)[0]
    view = shown(widget)
    view.evaluate("() => mount(document.querySelector('main').appendChild(document.createElement('div')))")
    for change in states(view, [*(one for one in changes if isinstance(one, dict)), *own(stem, "SET", [])]):
        view.evaluate(ANEW)
        view.rest()
        seen = view.evaluate(VIEWS, own(stem, "POINTED", "nothing"))
        assert seen[0][0] == seen[1][0] == seen[2][0], change
        names = [name for _, radios in seen for name in set(radios)]
        assert len(names) == len(set(names)), change


# Python


@rows("REFUSED")
def test_what_does_not_fit_is_refused_with_the_reason(stem, given):
    *arguments, options, words = given
    with pytest.raises((ValueError, traitlets.TraitError), match=words):
        own(stem, "make", class_of(stem))(*arguments, **options)


@rows("REFUSED_LATER")
def test_what_does_not_fit_later_is_refused_with_the_reason(stem, given):
    name, value, words = given
    widget = own(stem, "make", class_of(stem))()
    with pytest.raises((ValueError, traitlets.TraitError), match=words):
        setattr(widget, name, value)


@sentences("TRAITS")
def test_traits_take_what_is_given_and_follow_each_other(stem, steps):
    options, *steps = flat(steps)
    before = copy.deepcopy(options)
    widget = own(stem, "make", class_of(stem))(**options)
    for step in steps:
        if callable(step):
            step(widget)
        elif isinstance(step, sets):
            for name, value in step.items():
                setattr(widget, name, value)
        else:
            now = {name: getattr(widget, name) for name in step}
            assert {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in now.items()} == step
    for name, value in before.items():
        assert np.array_equal(options[name], value)
