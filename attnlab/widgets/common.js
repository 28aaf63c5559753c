// Shared by every widget: small DOM helpers, arithmetic, numbers as text, and the frame a widget stands in.
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

// A bar from one part of its track to another.
const stretch = (bar, from, to) => Object.assign(bar.style,
  { left: `${100 * Math.min(from, to)}%`, width: `${100 * Math.abs(to - from)}%` });
const write = (node, text) => node.textContent === text || (node.textContent = text);

// A button with a name for tests and style sheets, and what it does.
const button = (name, text, onclick, attributes = {}) =>
  h("button", { type: "button", "data-go": name, onclick, ...attributes }, text);

// A slider; `onvalue` hears each number.
const rangeInput = (name, label, limits, onvalue) => h("input", { type: "range", "aria-label": label,
  "data-slider": name, ...limits, oninput: ({ target }) => onvalue(Number(target.value)) });

const range = (n, f = (i) => i) => Array.from({ length: n }, (_, i) => f(i));
const clamp = (x, least, most) => Math.min(most, Math.max(least, x));
const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
// A linear map from one interval to another.
const scale = ([from, to], [start, end]) => (x) => start + ((end - start) * (x - from)) / (to - from);
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

// A weight in two decimals, or three; "0" only for one that is exactly zero, as that of a masked key.
function share(weight, digits = 2) {
  const least = 10 ** -digits;
  return weight === 0 ? "0" : weight < least / 2 ? `<${String(least).slice(1)}` : weight.toFixed(digits);
}

// The same in words.
function spoken(weight) {
  return share(weight).replace("<.", "less than 0.");
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

// Sets several traits at once and sends them.
function change(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// Returns the entry of `keys` for the pressed key, without Ctrl, Alt or Meta; the page then does nothing else with it.
function keyOf(event, keys) {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in keys)) return undefined;
  event.preventDefault();
  return keys[event.key];
}

// The keys of a slider, for the same reason.
function stepSlider(event) {
  const slider = event.target;
  if (!slider.matches?.("input[type=range]") || event.defaultPrevented) return;
  const [min, max] = [Number(slider.min || 0), Number(slider.max || 100)];
  const step = Number(slider.step || 1) || (max - min) / 100;
  const leap = Math.max(step, (max - min) / 10);
  const by = keyOf(event, { ArrowUp: step, ArrowRight: step, ArrowDown: -step, ArrowLeft: -step, PageUp: leap,
    PageDown: -leap, Home: -Infinity, End: Infinity });
  if (!by) return;
  const before = slider.value;
  slider.value = clamp(Number(before) + by, min, max);
  if (slider.value === before) return;
  for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind, { bubbles: true }));
}

// A widget as anywidget wants it: marked with its name, with a title and a live text summary. `begin(view)` fills it
// and returns `paint`, which draws the present state: at once, and when one of the traits changes, here or in Python.
// The view has: `root`, to draw into; `summary`, an element for the root, and `say(text)`, which announces the state in
// it (also to screen readers, politely); the `model`; `read()`, the traits; `edit(values)`, which sets some and paints;
// `animate`, a `tween` that ends with the view; and `onend(stop)` for what else has to end with it.
// Nodes with the attribute `data-held` show the answer to a question on the card: they wait for the reader's guess.
function widget(name, label, traits, begin, questions = (model) => model.get("predictions") ?? []) {
  return { render({ model, el }) {
    const ends = [];
    const { hold, ...framed } = frame(el, name, label, model, questions(model));
    const view = { ...framed, model,
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
    hold();
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

function frame(el, name, label, model, questions) {
  const summary = h("p", { class: "aw-summary", role: "status", "aria-live": "polite" });
  // JupyterLab would act on arrows, Enter and letters; in a widget they belong to its controls.
  // A group, not a landmark: a page may show one kind of widget several times.
  const root = h("div", { class: "aw", "data-widget": name, role: "group", "aria-label": label,
    "data-lm-suppress-shortcuts": "true", onkeydown: stepSlider });
  root.style.minHeight = `${model.get("min_height") ?? 0}px`;
  let timer = null, held = false, said = "";
  const show = () => {
    if (!held) return;
    held = false;
    root.classList.remove("aw-holding");
    say(said);
  };
  const card = questions.length ? cards(questions, show) : null;
  el.replaceChildren(...(card ? [card.node] : []), root);
  function say(text) {
    said = text;
    if (held) return; // it would tell the answer
    // Screen readers hear the state once it rests, not every step of a drag.
    clearTimeout(timer);
    timer = setTimeout(() => (summary.textContent = text), summary.textContent ? 120 : 0);
    if (!summary.textContent) summary.textContent = text;
  }
  const hold = () => {
    held = Boolean(card && !card.guessed() && root.querySelector("[data-held]"));
    root.classList.toggle("aw-holding", held);
    card?.holds(held);
  };
  return { root, summary, say, hold };
}

// Guesses are kept in this browser, by question.
const GUESSES = "attention-guesses";
function keptGuesses() {
  try {
    return JSON.parse(localStorage.getItem(GUESSES)) ?? {};
  } catch {
    return {}; // blocked, or another site's entry
  }
}
function keepGuess(question, guess) {
  try {
    localStorage.setItem(GUESSES, JSON.stringify({ ...keptGuesses(), [question]: guess }));
  } catch {}
}

// Questions to answer before a control is moved: one card at a time, with room for a guess and a tick for each card
// that has one. A question with an answer, [question, answer], shows it beside the guess; for the others the picture is
// the judge. `onguess` is called with the first guess, or when the reader would rather see than guess.
function cards(given, onguess) {
  const questions = given.map((one) => [].concat(one)), kept = keptGuesses();
  const guesses = questions.map(([question]) => String(kept[question] ?? ""));
  let at = 0;
  // All questions lie one above the other, so that the longest decides on the height.
  const texts = questions.map(([question]) => h("p", {}, question)), number = h("b");
  const guess = h("input", { type: "text", "aria-label": "Your guess", placeholder: "I guess …", value: guesses[0],
    oninput: () => {
      guesses[at] = guess.value;
      verdict.textContent = "";
      draw();
    },
    onchange: () => {
      keepGuess(questions[at][0], guess.value);
      if (guess.value.trim()) seen();
    },
    onkeydown: (event) => {
      if (event.key === "Enter" && guess.value.trim()) judge();
    } });
  const verdict = h("p", { class: "aw-verdict", role: "status" });
  const compare = button("compare", "Compare", judge);
  const look = button("look", "Just show me", seen);
  function seen() {
    look.hidden = true;
    onguess();
  }
  function judge() {
    keepGuess(questions[at][0], guess.value);
    seen();
    const [, answer] = questions[at];
    if (answer) verdict.textContent = `You said “${guess.value.trim()}”. ${answer}`;
  }
  const step = (by) => h("button", { type: "button", "aria-label": by < 0 ? "Previous question" : "Next question",
    onclick: () => {
      at = (at + by + questions.length) % questions.length;
      guess.value = guesses[at];
      verdict.textContent = "";
      draw();
    } }, by < 0 ? "‹" : "›");
  const draw = () => {
    const ticks = guesses.map((one) => (one.trim() ? "✓" : "·")).join("");
    number.textContent = questions.length > 1 ? `Predict ${at + 1} of ${questions.length} ${ticks}` : "Predict";
    texts.forEach((text, i) => text.classList.toggle("aw-other", i !== at));
    compare.hidden = !questions[at][1];
    compare.disabled = !guesses[at].trim();
  };
  draw();
  const node = h("div", { class: "aw-cards", role: "group", "aria-label": "Predict first",
    "data-lm-suppress-shortcuts": "true" },
  number, h("div", { class: "aw-questions", "aria-live": "polite" }, ...texts),
  h("div", { class: "aw-guess" }, guess, compare, look, ...(questions.length > 1 ? [step(-1), step(1)] : [])), verdict);
  return { node, guessed: () => guesses.some((one) => one.trim()), holds: (held) => (look.hidden = !held) };
}

const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Mixes two states of the same form: numbers by t, lists and objects entry by entry. All other values, and those that
// `from` does not have, are those of `to`.
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
