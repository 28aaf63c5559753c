// Shared by every widget: small DOM helpers, number formatting, and the frame a widget stands in.
// This text is put in front of each widget's module, so nothing here is exported and nothing is global to the page.

const SVG_NS = "http://www.w3.org/2000/svg";

// h("button", {class: "x", onclick: f, "aria-label": "y"}, "text", child, ...)
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NS, tag), attributes, children);
}

function fill(node, attributes, children = []) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

// Sets attributes that are not so already: in a frame few are new. Numbers keep five decimals.
function setIfChanged(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = typeof value === "number" ? String(Math.round(value * 1e5) / 1e5) : value;
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

const write = (node, text) => node.textContent === text || (node.textContent = text);

// A button with a name for tests and style sheets, and what it does.
const button = (name, text, onclick, attributes = {}) =>
  h("button", { type: "button", "data-go": name, onclick, ...attributes }, text);

// A slider; `onvalue` hears each number.
const rangeInput = (name, label, limits, onvalue) => h("input", { type: "range", ...limits, "data-slider": name,
  "aria-label": label, oninput: ({ target }) => onvalue(Number(target.value)) });

const range = (n, f = (i) => i) => Array.from({ length: n }, (_, i) => f(i));
const clamp = (x, least, most) => Math.min(most, Math.max(least, x));
const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
const argmax = (numbers) => numbers.indexOf(Math.max(...numbers));

// Each score becomes its share of e to the scores: all add up to 1. Zeros where every score is −∞.
function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => (most === -Infinity ? 0 : Math.exp(score - most)));
  const total = sum(powers) || 1;
  return powers.map((power) => power / total);
}

// 1.5 -> "1.50"; tiny, huge and non-finite numbers stay readable; a true minus sign keeps columns straight.
function fmt(x, digits = 2) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6) ? x.toExponential(1) : x.toFixed(digits);
  return text.replace(/^-(?=0(\.0*)?$)/, "").replace(/-/g, "−");
}

// Number formats of arrays that are sent as bytes -> how to read one number of them.
const READERS = {
  float16: { size: 2, read: (view, at) => halfToNumber(view.getUint16(at, true)) },
  float32: { size: 4, read: (view, at) => view.getFloat32(at, true) },
  uint8: { size: 1, read: (view, at) => view.getUint8(at) },
  int8: { size: 1, read: (view, at) => view.getInt8(at) },
};

// IEEE 754 half precision: 1 bit of sign, 5 of exponent, 10 of fraction. (DataView.getFloat16 is too young to rely on.)
function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = (bits & 0x3ff) / 1024;
  if (exponent === 0) return sign * fraction * 2 ** -14;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction) * 2 ** (exponent - 15);
}

// Rows of numbers out of bytes, from number `start` on, last axis fastest.
// Bytes come as a DataView, in Jupyter and on a static page; plain arrays of bytes are taken too.
function readTable(data, dtype, start, rows, columns) {
  const bytes = ArrayBuffer.isView(data) ? [data.buffer, data.byteOffset, data.byteLength] : [data];
  const view = new DataView(...bytes);
  const { size, read } = READERS[dtype];
  return range(rows, (i) => range(columns, (j) => read(view, (start + i * columns + j) * size)));
}

// A causal map (n, n) out of bytes, from byte `start` on: its lower triangle, times 255.
function readMap(data, start, n) {
  const [bytes] = readTable(data, "uint8", start, 1, (n * (n + 1)) / 2);
  return range(n, (i) => range(n, (j) => (j > i ? 0 : bytes[(i * (i + 1)) / 2 + j] / 255)));
}

// A weight in two decimals, or three; "0" only for one that is exactly zero, as that of a masked key.
function share(weight, digits = 2) {
  const least = 10 ** -digits;
  return weight === 0 ? "0" : weight < least / 2 ? `<${String(least).slice(1)}` : weight.toFixed(digits);
}

// The same in words.
function spoken(weight) {
  return share(weight).replace("<.", "less than 0.");
}

// Tokens as they are shown: one that occurs more than once carries its position, and white space is made visible.
// `text` and `sub` are for the eye, `name` has both in one string.
function disambiguate(tokens) {
  const shown = tokens.map((token) =>
    token.replace(/\n/g, "⏎").trim() || (token.includes("\n") ? "⏎" : "␣"));
  return shown.map((text, i) => {
    const sub = shown.indexOf(text) === shown.lastIndexOf(text) ? "" : String(i);
    return { text, sub, name: text + sub.replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]) };
  });
}

// The same as an element; where there is little room, its text is cut short and its position stays.
const tokenNode = ({ text, sub }) =>
  h("span", { class: "aw-token" }, h("span", {}, text), sub ? h("sub", {}, sub) : null);

// Colors a cell (class aw-heat) by its weight.
function heat(cell, weight) {
  cell.style.setProperty("--weight", Math.min(1, Math.max(0, weight)).toFixed(4));
  // Where black on the color is easier to read than white changes at another weight in each theme.
  cell.classList.toggle("aw-deep", weight > 0.645);
  cell.classList.toggle("aw-bright", weight > 0.43);
  cell.classList.toggle("aw-zero", weight === 0);
}

// The scale of these colors, from 0 to 1.
function heatScale() {
  return h("div", { class: "aw-scale", role: "img", "aria-label": "Color scale for weights from 0 to 1" },
    h("span", { class: "aw-ramp" }, ...Array.from({ length: 41 }, (_, i) => h("i", { style: `--weight: ${i / 40}` }))),
    h("span", { class: "aw-ticks" }, ...[0, 0.25, 0.5, 0.75, 1].map((tick) => h("span", {}, String(tick)))));
}

// The same colors for a canvas: 256 pixels, from weight 0 to weight 1. Null before there is a style.
function heatColors(root) {
  const style = getComputedStyle(root), [low, high] = ["--aw-low", "--aw-high"].map((name) => style.getPropertyValue(name));
  if (!low) return null;
  const context = h("canvas", { width: 256, height: 1 }).getContext("2d", { willReadFrequently: true });
  for (let i = 0; i < 256; i++) {
    context.fillStyle = `color-mix(in oklch, ${high} ${(i / 2.55).toFixed(2)}%, ${low})`;
    context.fillRect(i, 0, 1, 1);
  }
  return new Uint32Array(context.getImageData(0, 0, 256, 1).data.buffer);
}

// Calls back when the page turns light or dark, until what it returns is called.
function themed(callback) {
  const observer = new MutationObserver(callback);
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributeFilter: ["data-theme", "data-jp-theme-light"] });
  }
  return () => observer.disconnect();
}

// The number in a text field, or null while the text is not a number.
function readNumber(text) {
  const cleaned = text.trim().replace(/−/g, "-").replace(",", ".");
  const value = Number(cleaned);
  return cleaned !== "" && Number.isFinite(value) ? value : null;
}

// A number as short as it goes: 2 -> "2", 0.3 -> "0.3", 1/3 -> "0.333".
function plain(x, digits = 3) {
  const short = Number(x.toFixed(digits));
  return Number.isFinite(x) && (short !== 0 || x === 0) && Math.abs(x) < 1e6
    ? String(short).replace("-", "−") : fmt(x, digits);
}

// 1234567 -> "1,234,567"
const grouped = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ",");
const plural = (n, word) => `${grouped(n)} ${word}${n === 1 ? "" : "s"}`;
const tuple = (shape) => `(${shape.join(", ")})`;

// What a number field shows: an exact decimal where there is one, else six figures.
const fieldText = (value) => String(Number(value.toPrecision(6)));

// A labeled number field. `onvalue` hears each valid edit; what is not a number, or not a `whole` one, or lies outside
// `min` and `max`, is marked and changes nothing, and the last good value comes back when the field is left.
// With `step`, the up and down keys change the value: by one step, with shift by ten. `text` makes a value's text.
function numberField(label, value, onvalue, attributes = {}) {
  const { min = -Infinity, max = Infinity, step, whole, text = whole ? String : fieldText, ...rest } = attributes;
  const read = () => {
    const number = readNumber(input.value);
    const valid = number !== null && number >= input.least && number <= input.most && (!whole || Number.isInteger(number));
    return valid ? number : null;
  };
  const input = h("input", {
    type: "text", inputmode: whole ? "numeric" : "decimal", class: "aw-number", "aria-label": label, value: text(value),
    ...rest,
    oninput: () => {
      const number = read();
      input.setAttribute("aria-invalid", String(number === null));
      if (number !== null) onvalue((input.good = number));
    },
    onchange: () => {
      if (whole || read() === null) input.value = text(input.good);
      input.setAttribute("aria-invalid", "false");
    },
    onkeydown: (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step || !direction) return;
      event.preventDefault();
      const moved = Number((input.good + direction * step * (event.shiftKey ? 10 : 1)).toPrecision(12));
      setNumber(input, clamp(moved, input.least, input.most));
      onvalue(input.good);
    },
  });
  return Object.assign(input, { good: value, least: min, most: max, text });
}

// Shows `value` in a number field, but leaves text that is being typed alone if it means the same number.
function setNumber(input, value) {
  input.good = value;
  input.setAttribute("aria-invalid", "false");
  if (readNumber(input.value) !== value) input.value = input.text(value);
}

// Sets several traits at once and sends them.
function change(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// What `keys` has for the key that is pressed, without Ctrl, Alt or Meta; the page does nothing else with it then.
function keyOf(event, keys) {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in keys)) return undefined;
  event.preventDefault();
  return keys[event.key];
}

// The cell of a grid to which a key leads from cell [i, j], as in a spreadsheet: with Ctrl, to the first or last of all.
function gridStep(event, [i, j], rows, columns) {
  const all = event.ctrlKey || event.metaKey;
  const to = {
    ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    Home: [all ? 0 : i, 0], End: [all ? rows - 1 : i, columns - 1], PageUp: [0, j], PageDown: [rows - 1, j],
  }[event.key];
  if (!to || event.altKey) return null;
  event.preventDefault();
  return [clamp(to[0], 0, rows - 1), clamp(to[1], 0, columns - 1)];
}

// Drags a part of a drawing, or a pen over all of it. `move([x, y], first)` hears where the pointer is, in units of the
// drawing, first when it comes down, and `end` when it leaves.
function drag(node, move, end = () => {}) {
  const where = (event) => {
    const matrix = (node.ownerSVGElement ?? node).getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    return [x, y];
  };
  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    if (node.tabIndex >= 0) node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    move(where(event), true);
  });
  node.addEventListener("touchstart", (event) => {
    if (node.ownerSVGElement) event.preventDefault(); // or the page scrolls with the part
  }, { passive: false });
  node.addEventListener("pointermove", (event) =>
    node.hasPointerCapture(event.pointerId) && move(where(event), false));
  node.addEventListener("lostpointercapture", end);
}

// Calls `f` where the pointer is pressed on `node`, and on its way from there. A finger scrolls the page as usual.
function stroke(node, f) {
  const hear = (event) => {
    const begins = event.type === "pointerdown";
    if (begins ? event.button !== 0 : !(event.buttons & 1)) return;
    if (begins) node.setPointerCapture(event.pointerId);
    f(event);
  };
  for (const kind of ["pointerdown", "pointermove"]) node.addEventListener(kind, hear);
}

// Where the pointer is in `node`: parts of its width and height, without its margins in pixels.
function placeIn(node, event, [left, right, top, bottom] = [0, 0, 0, 0]) {
  const box = node.getBoundingClientRect();
  return [(event.clientX - box.left - left) / (box.width - left - right),
    (event.clientY - box.top - top) / (box.height - top - bottom)];
}

// The cell there of a table with so many columns and rows that fills the node.
const cellIn = (node, event, ...counts) =>
  placeIn(node, event).map((part, i) => clamp(Math.floor(part * counts[i]), 0, counts[i] - 1));

// Arrow keys in a group of radio buttons, as browsers do it; JupyterLab keeps them from doing it by themselves.
function stepRadios(event, radios) {
  const at = radios.indexOf(event.target);
  const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
  if (at < 0 || !step || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const next = radios[(at + step + radios.length) % radios.length];
  next.focus();
  next.click();
}

// The keys of a slider, for the same reason.
function stepSlider(event) {
  const slider = event.target;
  if (!slider.matches?.("input[type=range]") || event.defaultPrevented) return;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const [min, max] = [Number(slider.min || 0), Number(slider.max || 100)];
  const step = Number(slider.step || 1) || (max - min) / 100;
  const leap = Math.max(step, (max - min) / 10);
  const by = { ArrowUp: step, ArrowRight: step, ArrowDown: -step, ArrowLeft: -step, PageUp: leap, PageDown: -leap,
    Home: -Infinity, End: Infinity }[event.key];
  if (!by) return;
  event.preventDefault();
  const before = slider.value;
  slider.value = Math.min(max, Math.max(min, Number(before) + by));
  if (slider.value === before) return;
  for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind, { bubbles: true }));
}

// A widget as anywidget wants it: marked with its name, with a title and a live text summary. `begin(view)` fills it
// and returns `paint`, which draws the present state: at once, and when one of the traits changes, here or in Python.
// The view has: `root`, to draw into; `summary`, an element for the root, and `say(text)`, which announces the state in
// it (also to screen readers, politely); the `model`; `read()`, the traits; `edit(values)`, which sets some and paints;
// `animate`, a `tween` that ends with the view; and `onend(stop)` for what else has to end with it.
function widget(name, label, traits, begin) {
  return { render({ model, el }) {
    const ends = [];
    const view = { ...frame(el, name, label, model), model,
      read: () => Object.fromEntries(traits.map((trait) => [trait, model.get(trait)])),
      edit: (values) => {
        change(model, values);
        paint();
      },
      animate: (...given) => {
        const motion = tween(...given);
        ends.push(motion.stop);
        return motion;
      },
      onend: (stop) => ends.push(stop) };
    const paint = begin(view);
    paint();
    const listener = () => paint();
    for (const trait of traits) model.on(`change:${trait}`, listener);
    return () => {
      for (const trait of traits) model.off?.(`change:${trait}`, listener);
      for (const stop of ends) stop();
      el.replaceChildren();
    };
  } };
}

function frame(el, name, label, model) {
  el.replaceChildren();
  const summary = h("p", { class: "aw-summary", role: "status", "aria-live": "polite" });
  // JupyterLab would act on arrows, Enter and letters; in a widget they belong to its controls.
  // A group, not a landmark: a page may show one kind of widget several times.
  const root = h("div", { class: "aw", "data-widget": name, role: "group", "aria-label": label,
    "data-lm-suppress-shortcuts": "true", onkeydown: stepSlider });
  root.style.minHeight = `${model.get("min_height") ?? 0}px`;
  const questions = model.get("predictions") ?? [];
  if (questions.length) el.append(cards(questions));
  el.append(root);
  let timer = null;
  const say = (text) => {
    // Screen readers hear the state once it rests, not every step of a drag.
    clearTimeout(timer);
    timer = setTimeout(() => (summary.textContent = text), summary.textContent ? 120 : 0);
    if (!summary.textContent) summary.textContent = text;
  };
  return { root, summary, say };
}

// What to guess before a control is moved: one card at a time, with room for a guess and a tick for each card that has
// one. Guesses stay in the page, and the picture is the judge.
function cards(questions) {
  const guesses = questions.map(() => "");
  let at = 0;
  // All questions lie one above the other, so that the longest decides on the height.
  const texts = questions.map((question) => h("p", {}, question)), number = h("b");
  const guess = h("input", { type: "text", "aria-label": "Your guess", placeholder: "I guess …", oninput: () => {
    guesses[at] = guess.value;
    draw();
  } });
  const step = (by) => h("button", { type: "button", "aria-label": by < 0 ? "Previous question" : "Next question",
    onclick: () => {
      at = (at + by + questions.length) % questions.length;
      guess.value = guesses[at];
      draw();
    } }, by < 0 ? "‹" : "›");
  const draw = () => {
    const ticks = guesses.map((one) => (one.trim() ? "✓" : "·")).join("");
    number.textContent = questions.length > 1 ? `Predict ${at + 1} of ${questions.length} ${ticks}` : "Predict";
    texts.forEach((text, i) => text.classList.toggle("aw-other", i !== at));
  };
  draw();
  return h("div", { class: "aw-cards", role: "group", "aria-label": "Predict first", "data-lm-suppress-shortcuts": "true" },
    number, h("div", { class: "aw-questions", "aria-live": "polite" }, ...texts),
    h("div", { class: "aw-guess" }, guess, ...(questions.length > 1 ? [step(-1), step(1)] : [])));
}

const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// What lies between two states of the same form: numbers are mixed, lists and objects entry by entry. Whatever else
// there is, and what was not there before, is as it will be.
function mix(from, to, t) {
  if (typeof to === "number") return Number.isFinite(from) && Number.isFinite(to) ? from + (to - from) * t : to;
  if (Array.isArray(to)) return to.map((x, i) => mix(from?.[i], x, t));
  if (to && typeof to === "object")
    return Object.fromEntries(Object.entries(to).map(([key, x]) => [key, mix(from?.[key], x, t)]));
  return to;
}

// Motion: `tween(draw).to(state)` draws what lies between the last state and the new one, for `duration` milliseconds,
// and rests on the new one. A new target starts from where the picture is. The first state, and every one where the
// reader wants reduced motion or follows a pointer (`jump`), is drawn at once. Call `stop` when the view is taken away.
function tween(draw, duration = 300) {
  let from, to, begin, now = null, asked = 0;
  const stop = () => {
    cancelAnimationFrame(asked);
    asked = 0;
  };
  const step = (time) => {
    const part = Math.min(1, Math.max(0, (time - begin) / duration));
    now = part < 1 ? mix(from, to, 1 - (1 - part) ** 3) : to;
    asked = part < 1 ? requestAnimationFrame(step) : 0;
    draw(now);
  };
  return {
    to(target, { jump = false } = {}) {
      stop();
      if (now === null || jump || prefersReducedMotion()) return draw((now = target));
      [from, to, begin] = [now, target, performance.now()];
      asked = requestAnimationFrame(step);
    },
    stop,
  };
}

// A button that plays: every `pause` milliseconds it goes on by one, until it is at the end; from there it begins anew.
// `at` and `end` give numbers, `go` takes one; while it is not `ready` it does not begin. Returns the button and what
// stops it.
function player({ onend }, pause, { at, end, go, ready = () => true, attributes }) {
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const play = button("play", "Play", () => {
    if (timer !== null) return stop();
    if (!ready()) return;
    if (at() >= end()) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      go(at() + 1);
      if (at() >= end()) stop();
    }, pause);
  }, attributes);
  onend(stop);
  return { play, stop };
}

// Returns a function that calls `build(state)` where `key` is another than the last time, and says whether it did.
function rebuilder(build) {
  let last;
  return (key, state) => {
    const now = JSON.stringify(key), fresh = now !== last;
    last = now;
    if (fresh) build(state);
    return fresh;
  };
}

// Calls `f` when the size of `node` changes, until the returned function is called.
function resized(node, f) {
  const observer = new ResizeObserver(f);
  observer.observe(node);
  return () => observer.disconnect();
}
