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

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

// 1.5 -> "1.50"; tiny, huge and non-finite numbers stay readable; a true minus sign keeps columns straight.
function fmt(x, digits = 2) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6) ? x.toExponential(1) : x.toFixed(digits);
  return text.replace(/^-(?=0(\.0*)?$)/, "").replace(/-/g, "−");
}

// The number in a text field, or null while what stands there is not one.
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

// The same in brackets when negative, for use after × and +.
const bracketed = (x, digits = 3) => (x < 0 ? `(${plain(x, digits)})` : plain(x, digits));

// What a number field shows: an exact decimal where there is one, else six figures.
const fieldText = (value) => String(Number(value.toPrecision(6)));

// A labelled number field. `onvalue` hears each valid edit; what is not a number, or lies outside `min` and `max`, is
// marked and changes nothing, and the last good value comes back when the field is left.
// With `step`, the up and down keys change the value: by one step, with shift by ten.
function numberField(label, value, onvalue, attributes = {}) {
  const { min = -Infinity, max = Infinity, step, ...rest } = attributes;
  const valid = (number) => number !== null && number >= min && number <= max;
  let good = value;
  const take = () => {
    const number = readNumber(input.value);
    input.setAttribute("aria-invalid", String(!valid(number)));
    if (valid(number)) onvalue((good = number));
  };
  const input = h("input", {
    type: "text", inputmode: "decimal", class: "aw-number", "aria-label": label, value: fieldText(value), ...rest,
    oninput: take,
    onchange: () => {
      if (!valid(readNumber(input.value))) setNumber(input, good);
    },
    onkeydown: (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step || !direction) return;
      event.preventDefault();
      const moved = Number((good + direction * step * (event.shiftKey ? 10 : 1)).toPrecision(12));
      setNumber(input, Math.min(max, Math.max(min, moved)));
      onvalue(good);
    },
  });
  input.keep = (number) => (good = number);
  return input;
}

// Shows `value` in a number field, leaving alone what somebody is typing if it says the same.
function setNumber(input, value) {
  input.keep?.(value);
  input.setAttribute("aria-invalid", "false");
  if (readNumber(input.value) !== value && input.value !== fieldText(value)) input.value = fieldText(value);
}

// Calls `f` when any of the named traits changes, here or in Python. Returns the function that stops it.
function listen(model, names, f) {
  for (const name of names) model.on(`change:${name}`, f);
  return () => names.forEach((name) => model.off?.(`change:${name}`, f));
}

// Empties `el`, marks the root with the widget's name, and gives it a title and a live text summary.
// Returns {root, say}: draw into root; say(text) announces the state (also to screen readers, politely).
function frame(el, name, label, model) {
  el.replaceChildren();
  const summary = h("p", { class: "aw-summary", role: "status", "aria-live": "polite" });
  const root = h("section", { class: "aw", "data-widget": name, "aria-label": label });
  root.style.minHeight = `${model.get("min_height") ?? 0}px`;
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

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
