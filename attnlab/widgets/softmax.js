// The softmax explorer: scores that slide on the curve of the exponential, and the weights that their heights give.

const FEWEST = 2;
const MOST = 8;
const COLDEST = 0.05;
const HOTTEST = 20;
const LARGEST = 1000;

// All numbers shown. state: {scores: [...], temperature, shift}.
export function compute({ scores, temperature = 1, shift = 0 }) {
  const scaled = scores.map((x) => (x + shift) / temperature);
  const weights = softmax(scaled);
  const unshifted = softmax(scores.map((x) => x / temperature));
  const entropyNats = -sum(weights.map((w) => (w > 0 ? w * Math.log(w) : 0))) + 0;
  return {
    scaled, weights,
    largestChange: Math.max(...weights.map((w, i) => Math.abs(w - unshifted[i]))),
    entropyNats, maximumNats: Math.log(scores.length), choices: Math.exp(entropyNats),
  };
}

// A score is called by its label, or else by its number.
const nameOf = (labels, i) => labels?.[i] ?? `score ${i + 1}`;

function summaryOf(labels, { weights, entropyNats, maximumNats, choices }) {
  const top = argmax(weights);
  const name = labels?.[top] ? `“${labels[top]}”` : nameOf(labels, top);
  return `The largest weight, ${fmt(weights[top], 3)}, is that of ${name}. ` +
    `Entropy ${fmt(entropyNats)} of at most ${fmt(maximumNats)} nats: as spread out as ` +
    `${fmt(choices, 2)} equal choices.`;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000]; // between ticks

function heightText(x) {
  if (x >= 0.005 && x < 1e5) return plain(x, 2);
  return x.toExponential(0).replace("e+", "e").replace("-", "−").replace("Infinity", "");
}

// The drawing, in its own units.
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BASE] = [340, 250, 14, 326, 40, 218];

// The curve e^s from `low` to `high`, as high as its highest point needs, and a point on it for each score. While one is
// dragged, `onmove(i, place)` hears where on the axis it is; `onhold(true or false)` is called at both ends of the drag.
function makeCurve(onmove, onhold) {
  const path = s("path", { class: "sm-curve" });
  const ticks = range(10, () => s("text", { class: "sm-tick", y: BASE + 18, "text-anchor": "middle" }));
  const marks = s("g");
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "sm-plane", role: "img",
    "aria-label": "The curve of e to the s, with the scores on it" },
  s("line", { class: "sm-axis", x1: LEFT, x2: RIGHT, y1: BASE, y2: BASE }), path, ...ticks, marks,
  s("text", { class: "sm-tick", x: RIGHT, y: BASE + 32, "text-anchor": "end" }, "s"),
  s("text", { class: "sm-formula", x: LEFT, y: 22 }, "height eˢ"));
  let points = [], ends = [-2, 4];

  function makePoint(i) {
    const stem = s("line", { class: "sm-stem" });
    const text = s("text", { class: "sm-height", "text-anchor": "middle" });
    const node = s("g", { class: "sm-point", "data-point": i }, stem,
      s("circle", { r: 15, class: "sm-hit" }), s("circle", { r: 7, class: "sm-dot" }), text);
    drag(node, ([x], first) => {
      if (first) onhold(true);
      else onmove(i, scale([LEFT, RIGHT], ends)(clamp(x, LEFT, RIGHT)));
    }, () => onhold(false));
    return { node, stem, text, circles: [...node.querySelectorAll("circle")] };
  }

  function draw({ x, weights, low, high, top }) {
    ends = [low, high];
    const at = scale(ends, [LEFT, RIGHT]);
    if (points.length !== x.length) {
      points = x.map((_, i) => makePoint(i));
      marks.replaceChildren(...points.map(({ node }) => node));
    }
    const up = (value) => BASE - (BASE - TOP) * Math.exp(value - top);
    const steps = range(81, (i) => Math.min(top + 0.18, low + ((high - low) * i) / 80));
    path.setAttribute("d", pathOf(steps.map((value) => [at(value), up(value)])));
    const step = STEPS.find((size) => (high - low) / size <= 8);
    ticks.forEach((tick, i) => {
      const value = (Math.ceil(low / step) + i) * step;
      write(tick, value <= high ? plain(value) : "");
      setIfChanged(tick, { x: at(Math.min(value, high)) });
    });
    // The heights are written where there is room for them.
    let free = Infinity;
    for (const i of range(x.length).sort((i, j) => x[j] - x[i])) {
      const { stem, circles, text, node } = points[i];
      const [px, py] = [at(x[i]), up(x[i])];
      setIfChanged(stem, { x1: px, x2: px, y1: BASE, y2: py });
      for (const circle of circles) setIfChanged(circle, { cx: px, cy: py });
      node.style.setProperty("--weight", weights[i].toFixed(4));
      const shown = free - px > 46 ? heightText(Math.exp(x[i])) : "";
      if (shown) free = px;
      setIfChanged(text, { x: clamp(px, LEFT + 16, RIGHT - 16), y: py - 13 });
      write(text, shown);
    }
  }
  return { svg, draw };
}

export default widget("softmax", "Softmax: from scores to weights",
  ["scores", "labels", "temperature", "shift"], ({ root, summary, say, model, read: state, animate, edit }) => {
  const start = state();
  let held = null; // the part of the axis that is shown, while a point is dragged

  const curve = makeCurve((i, place) => {
    const { temperature, shift } = state();
    const fine = 0.1 * Math.max(1, 10 ** Math.floor(Math.log10(temperature)));
    const score = Math.round((place * temperature - shift) / fine) * fine;
    setScore(i, clamp(Number(score.toPrecision(6)), -LARGEST, LARGEST) + 0);
  }, (holding) => {
    held = holding ? axisOf(compute(state()).scaled) : null;
    draw();
  });

  // One row per score.
  const list = h("div", { class: "sm-rows" });
  let rows = [];
  const setScore = (i, value) => edit({ scores: model.get("scores").map((old, j) => (i === j ? value : old)) });

  function makeRow(i) {
    const name = h("span", { class: "sm-name" });
    const { field, slider, show } = fieldAndSlider(`score-${i}`, "score", (value) => setScore(i, value),
      { field: { step: 0.1, min: -LARGEST, max: LARGEST }, slider: { min: -10, max: 10, step: 0.1 } });
    const bar = h("span", { class: "sm-bar" });
    const weight = h("span", { class: "aw-numbers aw-right", "data-value": `weight-${i}` });
    const remove = h("button", { type: "button", class: "sm-remove", "data-remove": i, onclick: () => removeScore(i) }, "×");
    const row = h("div", { class: "sm-row", role: "group" },
      name, field, slider, h("span", { class: "sm-lane", "aria-hidden": "true" }, bar), weight, remove);
    return { row, name, field, slider, show, bar, weight, remove };
  }

  function removeScore(i) {
    const { scores, labels } = state();
    edit({ scores: scores.filter((_, j) => j !== i), labels: labels && labels.filter((_, j) => j !== i) });
    // The focus stays on the list: on the row that moved up, or on adding when no more can go.
    const next = rows[Math.min(i, rows.length - 1)].remove;
    (next.disabled ? add : next).focus();
  }

  const add = h("button", { type: "button", onclick: () => {
    const { scores, labels } = state();
    const names = labels && [...scores.map((_, i) => nameOf(labels, i)), `score ${scores.length + 1}`];
    edit({ scores: [...scores, 0], labels: names });
    rows.at(-1).field.focus();
  } }, "Add a score");
  const again = h("button", { type: "button", onclick: () => edit(start) }, "Start again");

  // Temperature and shift.
  const hot = control("temperature", "Temperature", {
    field: { min: COLDEST, max: HOTTEST, step: 0.05 },
    slider: { min: Math.log10(COLDEST), max: Math.log10(HOTTEST), step: 0.02 },
    from: (x) => clamp(Number((10 ** x).toPrecision(3)), COLDEST, HOTTEST),
    to: Math.log10,
  });
  const moved = control("shift", "Add to every score", {
    field: { min: -LARGEST, max: LARGEST, step: 0.5 },
    slider: { min: -20, max: 20, step: 0.5 },
  });

  function control(trait, label, ends) {
    const { field, slider, show } = fieldAndSlider(trait, label, (value) => edit({ [trait]: value }), ends);
    const note = h("p", { class: "sm-note aw-numbers", "data-value": `${trait}-note` });
    const block = h("div", { class: "sm-control" }, h("div", { class: "sm-head" }, h("span", {}, label), field), slider, note);
    return { block, show: (value, text) => {
      show(value);
      note.textContent = text;
    } };
  }

  const spread = h("p", { class: "sm-note aw-numbers", "data-value": "choices" });
  root.append(h("div", { class: "sm-split" }, curve.svg,
    h("div", { class: "sm-side" }, h("div", { class: "sm-row sm-heads", "aria-hidden": "true" },
      ["", "score", "", "weight", "", ""].map((text) => h("span", {}, text))), list,
    h("div", { class: "aw-row sm-buttons" }, add, again), spread)),
  h("div", { class: "sm-controls" }, hot.block, moved.block), summary);

  // The part of the axis that is shown: more of it where scores lie further out.
  function axisOf(scaled) {
    return { low: Math.min(-2, Math.floor(Math.min(...scaled)) - 1), high: Math.max(4, Math.ceil(Math.max(...scaled)) + 1) };
  }

  const motion = animate((now) => {
    curve.draw(now);
    rows.forEach(({ bar, weight }, i) => {
      bar.style.width = `${(100 * now.weights[i]).toFixed(2)}%`;
      bar.style.setProperty("--weight", now.weights[i].toFixed(4));
      weight.textContent = fmt(now.weights[i], 3);
    });
  });

  function draw() {
    const now = state(), numbers = compute(now);
    const { scores, labels } = now;
    if (rows.length !== scores.length) {
      rows = scores.map((_, i) => makeRow(i));
      list.replaceChildren(...rows.map(({ row }) => row));
    }
    motion.to({ x: numbers.scaled, weights: numbers.weights, top: Math.max(...numbers.scaled),
      ...(held ?? axisOf(numbers.scaled)) }, { jump: held !== null });
    rows.forEach(({ row, name, field, slider, show, remove }, i) => {
      const called = nameOf(labels, i);
      name.textContent = name.title = called;
      row.setAttribute("aria-label", `${called}, weight ${fmt(numbers.weights[i], 3)}`);
      field.setAttribute("aria-label", `Score of ${called}`);
      slider.setAttribute("aria-label", `Score of ${called}, slider`);
      show(scores[i]);
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
  return draw;
});
