// The softmax explorer: scores that slide on the curve of the exponential, and the weights that their heights give.

const TRAITS = ["scores", "labels", "temperature", "shift"];
const FEWEST = 2;
const MOST = 8;
const COLDEST = 0.05;
const HOTTEST = 20;
const LARGEST = 1000;

// All numbers shown. state: {scores: [...], temperature, shift}.
export function compute({ scores, temperature = 1, shift = 0 }) {
  const scaled = scores.map((x) => (x + shift) / temperature);
  const weights = shares(scaled);
  const unshifted = shares(scores.map((x) => x / temperature));
  const entropyNats = -sum(weights.map((w) => (w > 0 ? w * Math.log(w) : 0))) + 0;
  return {
    scaled, weights,
    largestChange: Math.max(...weights.map((w, i) => Math.abs(w - unshifted[i]))),
    entropyNats, maximumNats: Math.log(scores.length), choices: Math.exp(entropyNats),
  };
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

function shares(x) {
  const highest = Math.max(...x);
  const exponentials = x.map((value) => Math.exp(value - highest));
  return exponentials.map((e) => e / sum(exponentials));
}

// A score is called by its label, or else by its number.
const nameOf = (labels, i) => labels?.[i] ?? `score ${i + 1}`;

function summaryOf(labels, { weights, entropyNats, maximumNats, choices }) {
  const top = weights.indexOf(Math.max(...weights));
  const name = labels?.[top] ? `“${labels[top]}”` : nameOf(labels, top);
  return `The largest weight, ${fmt(weights[top], 3)}, is that of ${name}. ` +
    `Entropy ${fmt(entropyNats)} of at most ${fmt(maximumNats)} nats: as spread out as ` +
    `${fmt(choices, 2)} equal choices.`;
}

// The drawing, in its own units.
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BASE] = [340, 250, 14, 326, 40, 218];

// The curve e^s from `low` to `high`, as high as its highest point needs, and a point on it for each score.
function makeCurve(drag) {
  const path = s("path", { class: "sm-curve" });
  const ticks = Array.from({ length: 10 }, () => s("text", { class: "sm-tick", y: BASE + 18, "text-anchor": "middle" }));
  const marks = s("g");
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "sm-plane", role: "img",
    "aria-label": "The curve of e to the s, with the scores on it" },
  s("line", { class: "sm-axis", x1: LEFT, x2: RIGHT, y1: BASE, y2: BASE }), path, ...ticks, marks,
  s("text", { class: "sm-tick", x: RIGHT, y: BASE + 32, "text-anchor": "end" }, "s"),
  s("text", { class: "sm-formula", x: LEFT, y: 22 }, "height eˢ"));
  let points = [], view = { low: -2, high: 4 };
  const at = (x) => LEFT + ((RIGHT - LEFT) * (x - view.low)) / (view.high - view.low);

  function makePoint(i) {
    const stem = s("line", { class: "sm-stem" });
    const text = s("text", { class: "sm-height", "text-anchor": "middle" });
    const node = s("g", { class: "sm-point", "data-point": i }, stem,
      s("circle", { r: 15, class: "sm-hit" }), s("circle", { r: 7, class: "sm-dot" }), text);
    node.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      node.setPointerCapture(event.pointerId);
      drag.hold(true);
    });
    node.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // or the page scrolls
    node.addEventListener("pointermove", (event) => {
      if (!node.hasPointerCapture(event.pointerId)) return;
      const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const part = Math.min(1, Math.max(0, (x - LEFT) / (RIGHT - LEFT)));
      drag.move(i, view.low + part * (view.high - view.low));
    });
    node.addEventListener("lostpointercapture", () => drag.hold(false));
    return { node, stem, text, circles: [...node.querySelectorAll("circle")] };
  }

  function draw({ x, weights, low, high, top }) {
    view = { low, high };
    if (points.length !== x.length) {
      points = x.map((_, i) => makePoint(i));
      marks.replaceChildren(...points.map(({ node }) => node));
    }
    const up = (value) => BASE - (BASE - TOP) * Math.exp(value - top);
    const steps = Array.from({ length: 81 }, (_, i) => Math.min(top + 0.18, low + ((high - low) * i) / 80));
    path.setAttribute("d", `M${steps.map((value) => `${at(value).toFixed(1)} ${up(value).toFixed(1)}`).join("L")}`);
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000].find((size) => (high - low) / size <= 8);
    ticks.forEach((tick, i) => {
      const value = (Math.ceil(low / step) + i) * step;
      const shown = value <= high ? plain(value) : "";
      if (tick.textContent !== shown) tick.textContent = shown;
      tick.setAttribute("x", at(Math.min(value, high)).toFixed(1));
    });
    // The heights are written where there is room for them.
    const order = x.map((_, i) => i).sort((i, j) => x[j] - x[i]);
    let free = Infinity;
    for (const i of order) {
      const { stem, circles, text, node } = points[i];
      const [px, py] = [at(x[i]), up(x[i])];
      for (const [name, value] of [["x1", px], ["x2", px], ["y1", BASE], ["y2", py]]) stem.setAttribute(name, value.toFixed(1));
      for (const circle of circles) {
        circle.setAttribute("cx", px.toFixed(1));
        circle.setAttribute("cy", py.toFixed(1));
      }
      node.style.setProperty("--weight", weights[i].toFixed(4));
      const size = Math.exp(x[i]);
      const shown = free - px > 46 ? (size < 1e5 && size >= 0.005 ? plain(size, 2) : size.toExponential(0).replace("e+", "e")
        .replace("-", "−").replace("Infinity", "")) : "";
      if (shown) free = px;
      text.setAttribute("x", Math.min(RIGHT - 16, Math.max(LEFT + 16, px)).toFixed(1));
      text.setAttribute("y", (py - 13).toFixed(1));
      if (text.textContent !== shown) text.textContent = shown;
    }
  }
  return { svg, draw };
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "softmax", "Softmax: from scores to weights", model);
  const start = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  let held = null; // the part of the axis that is shown, while a point is dragged

  const state = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const edit = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    draw();
  };
  const curve = makeCurve({
    move: (i, place) => {
      const { temperature, shift } = state();
      const fine = 0.1 * Math.max(1, 10 ** Math.floor(Math.log10(temperature)));
      const score = Math.round((place * temperature - shift) / fine) * fine;
      setScore(i, Math.min(LARGEST, Math.max(-LARGEST, Number(score.toPrecision(6)))) + 0);
    },
    hold: (holding) => {
      held = holding ? view(compute(state()).scaled) : null;
      draw();
    },
  });

  // One row per score.
  const list = h("div", { class: "sm-rows" });
  let rows = [];
  const setScore = (i, value) => edit({ scores: model.get("scores").map((old, j) => (i === j ? value : old)) });

  function makeRow(i) {
    const name = h("span", { class: "sm-name" });
    const field = numberField("score", 0, (value) => setScore(i, value),
      { step: 0.1, min: -LARGEST, max: LARGEST, "data-field": `score-${i}` });
    const slider = h("input", {
      type: "range", min: -10, max: 10, step: 0.1, "data-slider": `score-${i}`,
      oninput: () => setScore(i, Number(slider.value)),
    });
    const bar = h("span", { class: "sm-bar" });
    const weight = h("span", { class: "aw-numbers aw-right", "data-value": `weight-${i}` });
    const remove = h("button", {
      type: "button", class: "sm-remove", "data-remove": i, onclick: () => removeScore(i),
    }, "×");
    const row = h("div", { class: "sm-row", role: "group" },
      name, field, slider, h("span", { class: "sm-lane", "aria-hidden": "true" }, bar), weight, remove);
    return { row, name, field, slider, bar, weight, remove };
  }

  function removeScore(i) {
    const { scores, labels } = state();
    edit({ scores: scores.filter((_, j) => j !== i), labels: labels && labels.filter((_, j) => j !== i) });
    // The focus stays on the list: on the row that moved up, or on adding when no more can go.
    const next = rows[Math.min(i, rows.length - 1)].remove;
    (next.disabled ? add : next).focus();
  }

  const add = h("button", {
    type: "button",
    onclick: () => {
      const { scores, labels } = state();
      const names = labels && [...scores.map((_, i) => nameOf(labels, i)), `score ${scores.length + 1}`];
      edit({ scores: [...scores, 0], labels: names });
      rows.at(-1).field.focus();
    },
  }, "Add a score");
  const again = h("button", { type: "button", onclick: () => edit(start) }, "Start again");

  // Temperature and shift.
  const hot = control("temperature", "Temperature", {
    field: { min: COLDEST, max: HOTTEST, step: 0.05 },
    slider: { min: Math.log10(COLDEST), max: Math.log10(HOTTEST), step: 0.02 },
    fromSlider: (x) => Math.min(HOTTEST, Math.max(COLDEST, Number((10 ** x).toPrecision(3)))),
    toSlider: Math.log10,
  });
  const moved = control("shift", "Add to every score", {
    field: { min: -LARGEST, max: LARGEST, step: 0.5 },
    slider: { min: -20, max: 20, step: 0.5 },
    fromSlider: (x) => x,
    toSlider: (x) => x,
  });

  function control(trait, label, { field, slider, fromSlider, toSlider }) {
    const number = numberField(label, model.get(trait), (value) => edit({ [trait]: value }),
      { ...field, "data-field": trait });
    const range = h("input", {
      type: "range", ...slider, "aria-label": `${label}, slider`, "data-slider": trait,
      oninput: () => edit({ [trait]: fromSlider(Number(range.value)) }),
    });
    const note = h("p", { class: "sm-note aw-numbers", "data-value": `${trait}-note` });
    const block = h("div", { class: "sm-control" }, h("div", { class: "sm-head" }, h("span", {}, label), number), range, note);
    const show = (value, text) => {
      setNumber(number, value);
      range.value = toSlider(value);
      range.setAttribute("aria-valuetext", plain(value));
      note.textContent = text;
    };
    return { block, show };
  }

  const spread = h("p", { class: "sm-note aw-numbers", "data-value": "choices" });
  root.append(h("div", { class: "sm-split" }, curve.svg,
    h("div", { class: "sm-side" }, h("div", { class: "sm-row sm-heads", "aria-hidden": "true" },
      ["", "score", "", "weight", "", ""].map((text) => h("span", {}, text))), list,
    h("div", { class: "aw-row sm-buttons" }, add, again), spread)),
  h("div", { class: "sm-controls" }, hot.block, moved.block), summary);

  // The part of the axis that is shown: more of it where scores lie further out.
  function view(scaled) {
    return { low: Math.min(-2, Math.floor(Math.min(...scaled)) - 1), high: Math.max(4, Math.ceil(Math.max(...scaled)) + 1) };
  }

  const motion = tween((now) => {
    curve.draw(now);
    rows.forEach(({ bar, weight }, i) => {
      bar.style.width = `${(100 * now.weights[i]).toFixed(2)}%`;
      bar.style.setProperty("--weight", now.weights[i].toFixed(4));
      weight.textContent = fmt(now.weights[i], 3);
    });
  });

  function draw() {
    const now = state();
    const numbers = compute(now);
    const { scores, labels } = now;
    if (rows.length !== scores.length) {
      rows = scores.map((_, i) => makeRow(i));
      list.replaceChildren(...rows.map(({ row }) => row));
    }
    motion.to({ x: numbers.scaled, weights: numbers.weights, top: Math.max(...numbers.scaled),
      ...(held ?? view(numbers.scaled)) }, { jump: held !== null });
    rows.forEach(({ row, name, field, slider, remove }, i) => {
      const called = nameOf(labels, i);
      name.textContent = called;
      name.title = called;
      row.setAttribute("aria-label", `${called}, weight ${fmt(numbers.weights[i], 3)}`);
      field.setAttribute("aria-label", `Score of ${called}`);
      setNumber(field, scores[i]);
      slider.setAttribute("aria-label", `Score of ${called}, slider`);
      slider.setAttribute("aria-valuetext", plain(scores[i]));
      slider.value = scores[i];
      remove.setAttribute("aria-label", `Remove ${called}`);
      remove.disabled = scores.length <= FEWEST;
    });
    add.disabled = scores.length >= MOST;
    hot.show(now.temperature, `Gaps between scores × ${plain(1 / now.temperature)}.`);
    moved.show(now.shift, numbers.largestChange < 1e-9 ? "The weights do not change."
      : `Rounding changes a weight by ${fmt(numbers.largestChange)}.`);
    spread.textContent = `Entropy ${fmt(numbers.entropyNats)}, as ${fmt(numbers.choices, 2)} equal choices.`;
    say(summaryOf(labels, numbers));
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  return () => {
    stop();
    motion.stop();
    el.replaceChildren();
  };
}

export default { render };
