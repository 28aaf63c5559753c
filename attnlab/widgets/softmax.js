// The softmax explorer: scores to change, the weights they get, and what half precision makes of both.

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
  const maximumNats = Math.log(scores.length);
  const z = scaled.map(toHalf);
  const highest = Math.max(...z);
  return {
    scaled, weights,
    largestChange: Math.max(...weights.map((w, i) => Math.abs(w - unshifted[i]))),
    entropyNats, maximumNats, entropyBits: entropyNats / Math.LN2, maximumBits: maximumNats / Math.LN2,
    choices: Math.exp(entropyNats),
    half: { plain: halfShares(z), subtracted: halfShares(z.map((x) => toHalf(x - highest))) },
  };
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

function shares(x) {
  const highest = Math.max(...x);
  const exponentials = x.map((value) => Math.exp(value - highest));
  return exponentials.map((e) => e / sum(exponentials));
}

// The plain formula, with every step rounded to half precision. z holds half-precision numbers.
function halfShares(z) {
  const exponentials = z.map((x) => toHalf(Math.exp(x)));
  const total = exponentials.reduce((partial, e) => toHalf(partial + e));
  return { scores: z, exponentials, total, weights: exponentials.map((e) => toHalf(e / total)) };
}

// The nearest float16 number, ties to even: 11 significant bits, exponents from −14 to 15, subnormals below.
function toHalf(x) {
  if (!Number.isFinite(x) || x === 0) return x;
  const exponent = Math.max(-14, Math.floor(Math.log2(Math.abs(x))));
  const unit = 2 ** (exponent - 10);
  const whole = Math.floor(x / unit);
  const rest = x / unit - whole;
  const rounded = unit * (rest > 0.5 || (rest === 0.5 && whole % 2 !== 0) ? whole + 1 : whole);
  return Math.abs(rounded) > 65504 ? Math.sign(x) * Infinity : rounded;
}

// Half-precision numbers as NumPy names them: four figures, inf, nan.
function halfText(x) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "−inf";
  if (x === 0) return "0";
  return (Math.abs(x) < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(4)))).replace(/-/g, "−");
}

function plainVerdict({ exponentials, total, weights }, exact) {
  if (exponentials.includes(Infinity)) return "An exponential exceeds 65504 and becomes inf. inf / inf is nan.";
  if (total === Infinity) return "Each exponential fits, but their sum exceeds 65504, so every weight is divided by inf.";
  if (total === 0) return "Every exponential is too small and becomes 0. 0 / 0 is nan.";
  return `Everything fits. ${error(weights, exact)}`;
}

const error = (weights, exact) => {
  const largest = Math.max(...weights.map((w, i) => Math.abs(w - exact[i])));
  return `Largest error of a weight: ${halfText(largest)}.`;
};

// A score is called by its label, or else by its number.
const nameOf = (labels, i) => labels?.[i] ?? `score ${i + 1}`;

function summaryOf(labels, { weights, entropyNats, maximumNats, choices, half }) {
  const top = weights.indexOf(Math.max(...weights));
  const broken = half.plain.weights.some(Number.isNaN) ? "gives nan"
    : half.plain.total === Infinity ? "gives zeros" : "still works";
  const name = labels?.[top] ? `“${labels[top]}”` : nameOf(labels, top);
  return `The largest weight, ${fmt(weights[top], 3)}, is that of ${name}. ` +
    `Entropy ${fmt(entropyNats)} of at most ${fmt(maximumNats)} nats: as spread out as ` +
    `${fmt(choices, 2)} equal choices. ` +
    `In float16, softmax without the maximum ${broken}.`;
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "softmax", "Softmax: from scores to weights", model);
  const start = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));

  const state = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const edit = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    draw();
  };

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
    ends: ["0.05, sharp", "20, flat"],
  });
  const moved = control("shift", "Add to every score", {
    field: { min: -LARGEST, max: LARGEST, step: 0.5 },
    slider: { min: -20, max: 20, step: 0.5 },
    fromSlider: (x) => x,
    toSlider: (x) => x,
    ends: ["−20", "20"],
  });

  function control(trait, label, { field, slider, fromSlider, toSlider, ends }) {
    const number = numberField(label, model.get(trait), (value) => edit({ [trait]: value }),
      { ...field, "data-field": trait });
    const range = h("input", {
      type: "range", ...slider, "aria-label": `${label}, slider`, "data-slider": trait,
      oninput: () => edit({ [trait]: fromSlider(Number(range.value)) }),
    });
    const note = h("p", { class: "sm-note aw-numbers", "data-value": `${trait}-note` });
    const block = h("div", { class: "sm-control" },
      h("div", { class: "sm-head" }, h("span", {}, label), number), range,
      h("div", { class: "sm-ends aw-numbers", "aria-hidden": "true" }, ends.map((text) => h("span", {}, text))), note);
    const show = (value, text) => {
      setNumber(number, value);
      range.value = toSlider(value);
      range.setAttribute("aria-valuetext", plain(value));
      note.textContent = text;
    };
    return { block, show };
  }

  // Entropy between 0 and the logarithm of the number of scores.
  const level = h("span", { class: "sm-bar sm-level" });
  const amount = (name) => h("td", { class: "aw-numbers", "data-value": name });
  const [nats, bits, mostNats, mostBits] = ["nats", "bits", "most-nats", "most-bits"].map(amount);
  const most = h("th", { scope: "row" });
  const choices = h("p", { class: "sm-note aw-numbers", "data-value": "choices" });
  const entropy = h("div", { class: "sm-control" },
    h("div", { class: "sm-head" }, "Entropy of the weights"),
    h("span", { class: "sm-lane", "aria-hidden": "true" }, level),
    h("table", { class: "aw-plain sm-entropy" },
      h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "nats"), h("th", { scope: "col" }, "bits"))),
      h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, "now"), nats, bits), h("tr", {}, most, mostNats, mostBits))),
    choices);

  // Half precision, with and without the maximum.
  const half = {
    plain: halfTable("plain", "Plain formula: exp(z)", ["", "z", "exp(z)", "weight"]),
    subtracted: halfTable("subtracted", "Maximum subtracted: exp(z − max)", ["", "z − max", "exp", "weight"]),
  };
  const panel = h("section", { class: "sm-half", "aria-label": "In half precision" },
    h("p", { class: "sm-title" }, h("b", {}, "The same in float16"),
      ". The largest number is 65504, and exp(z) exceeds it for z above 11.09. Here ",
      h("span", { class: "sm-formula" }, "z = (score + shift) / temperature"), "."),
    h("div", { class: "sm-tables" }, half.plain.block, half.subtracted.block));

  function halfTable(kind, title, heads) {
    const body = h("tbody");
    const verdict = h("p", { class: "sm-verdict", "data-value": `${kind}-verdict` });
    const block = h("div", { class: "sm-table", "data-half": kind },
      h("table", { class: "aw-plain" }, h("caption", {}, title),
        h("thead", {}, h("tr", {}, heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))),
        body), verdict);
    const cell = (x) => h("td", { class: Number.isFinite(x) ? "aw-numbers" : "aw-numbers sm-lost" }, halfText(x));
    const show = (labels, { scores, exponentials, total, weights }, text) => {
      body.replaceChildren(
        ...scores.map((z, i) => h("tr", {},
          h("th", { scope: "row" }, h("span", { class: "sm-name" }, nameOf(labels, i))),
          [z, exponentials[i], weights[i]].map(cell))),
        h("tr", { class: "sm-total" }, h("th", { scope: "row" }, "sum"), h("td"), cell(total), h("td")));
      verdict.textContent = text;
    };
    return { block, show };
  }

  root.append(
    h("div", { class: "sm-row sm-heads", "aria-hidden": "true" },
      ["", "score", "", "weight", "", ""].map((text) => h("span", {}, text))),
    list, h("div", { class: "aw-row sm-buttons" }, add, again),
    h("div", { class: "sm-controls" }, hot.block, moved.block, entropy), panel, summary);

  function draw() {
    const now = state();
    const numbers = compute(now);
    const { scores, labels } = now;
    if (rows.length !== scores.length) {
      rows = scores.map((_, i) => makeRow(i));
      list.replaceChildren(...rows.map(({ row }) => row));
    }
    rows.forEach(({ row, name, field, slider, bar, weight, remove }, i) => {
      const called = nameOf(labels, i);
      name.textContent = called;
      name.title = called;
      row.setAttribute("aria-label", `${called}, weight ${fmt(numbers.weights[i], 3)}`);
      field.setAttribute("aria-label", `Score of ${called}`);
      setNumber(field, scores[i]);
      slider.setAttribute("aria-label", `Score of ${called}, slider`);
      slider.setAttribute("aria-valuetext", plain(scores[i]));
      slider.value = scores[i];
      bar.style.width = `${100 * numbers.weights[i]}%`;
      weight.textContent = fmt(numbers.weights[i], 3);
      remove.setAttribute("aria-label", `Remove ${called}`);
      remove.disabled = scores.length <= FEWEST;
    });
    add.disabled = scores.length >= MOST;
    hot.show(now.temperature, `Gaps between scores × ${plain(1 / now.temperature)}.`);
    moved.show(now.shift, numbers.largestChange === 0 ? "The weights do not change."
      : `The weights change by at most ${halfText(numbers.largestChange)} (rounding).`);
    level.style.width = `${(100 * numbers.entropyNats) / numbers.maximumNats}%`;
    nats.textContent = fmt(numbers.entropyNats, 3);
    bits.textContent = fmt(numbers.entropyBits, 3);
    most.textContent = `at most, log ${scores.length}`;
    mostNats.textContent = fmt(numbers.maximumNats, 3);
    mostBits.textContent = fmt(numbers.maximumBits, 3);
    choices.textContent = `As spread out as ${fmt(numbers.choices, 2)} equal choices.`;
    half.plain.show(labels, numbers.half.plain, plainVerdict(numbers.half.plain, numbers.weights));
    half.subtracted.show(labels, numbers.half.subtracted,
      `No exponential is above 1. ${error(numbers.half.subtracted.weights, numbers.weights)}`);
    say(summaryOf(labels, numbers));
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  return () => {
    stop();
    el.replaceChildren();
  };
}

export default { render };
