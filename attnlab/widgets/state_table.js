// A memory of fixed size. `compute` writes the pairs one after another; the view shows one moment of that.

const PAUSE = 1800; // milliseconds per pair while it plays

// Returns each step, the state after each, and what all keys recall at the present step.
// A step has the state before the pair is written (already decayed), what the key recalls from it, and what is written.
export function compute({ key_rows: keys, value_rows: values, names, rule, beta, kept, step }) {
  const recall = (state, key) => values[0].map((_, c) => dot(key, state.map((row) => row[c])));
  let state = keys[0].map(() => values[0].map(() => 0));
  const states = [state];
  const steps = keys.map((key, i) => {
    const before = state.map((row) => row.map((x) => kept * x));
    const recalled = recall(before, key);
    const written = values[i].map((x, c) => beta * (rule === "delta" ? x - recalled[c] : x));
    state = before.map((row, r) => row.map((x, c) => x + key[r] * written[c]));
    states.push(state);
    return { before, recalled, written };
  });
  const recalled = keys.map((key) => recall(states[step], key));
  const errors = recalled.map((row, i) => Math.hypot(...row.map((x, c) => x - values[i][c])));
  // A pair is out of date as soon as its name has been written again.
  const replaced = names.map((name, i) => names.slice(i + 1, step).includes(name));
  return { steps, states, recalled, errors, replaced };
}

const short = (x) => plain(x, 2);
const vector = (numbers) => `(${numbers.map(short).join(", ")})`;

export default widget("state_table", "A state that is written and overwritten",
  ["key_rows", "value_rows", "names", "rule", "beta", "kept", "step"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const start = { ...read() };
  const { key_rows: keys, value_rows: values, names } = start;
  const last = keys.length, [d_k, d_v] = [keys[0].length, values[0].length];
  let dragged = false;

  const go = (step) => step >= 0 && step <= last && change(model, { step });
  const { play, stop, back, next, mark } = player(view, PAUSE, { at: () => model.get("step"), end: () => last, go,
    following: { class: "st-next" } });
  const again = button("reset", "Start again", () => {
    stop();
    change(model, { rule: start.rule, beta: start.beta, kept: start.kept, step: start.step });
  });
  const rules = [["add", "Add"], ["delta", "Delta rule"]].map(([rule, text]) =>
    h("button", { type: "button", "data-rule": rule, onclick: () => change(model, { rule }) }, text));
  const ends = { field: { min: 0, max: 1, step: 0.05 }, slider: { min: 0, max: 1, step: 0.05 } };
  const part = (trait, label, sign) => {
    const { field, slider, show } = fieldAndSlider(trait, label, (value) => {
      dragged = true;
      change(model, { [trait]: value });
      dragged = false;
    }, ends);
    return { show, row: h("div", { class: "st-part" }, h("span", {}, sign), field, slider) };
  };
  const beta = part("beta", "beta, the part that is written", "beta, written");
  const kept = part("kept", "exp(g), the part of the state that is kept", "exp(g), kept");
  const title = h("p", { class: "st-title", "data-value": "title" });

  // The state, with the key of the pair at its left, and under its columns what is stored, recalled and written.
  const entry = (name) => h("td", { class: "aw-numbers", "data-value": name });
  const key = range(d_k, (r) => h("th", { scope: "row", class: "aw-numbers st-key", "data-value": `key-${r}` }));
  const cells = range(d_k, (r) => range(d_v, (c) => h("td", { class: "aw-numbers st-cell", "data-cell": `${r}-${c}` })));
  const feet = [["stored", "v"], ["recalled", "Sᵀk"], ["written", "beta × what is missing"]].map(([name, text]) => {
    const label = h("span", {}, text);
    const entries = range(d_v, (c) => entry(`${name}-${c}`));
    return { name, label, entries, row: h("tr", { class: `st-${name}` },
      h("th", { scope: "row" }, `${name} `, h("br"), label), entries) };
  });
  const table = h("table", { class: "aw-plain st-state" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), h("th", { scope: "colgroup", colspan: d_v }, "state S"))),
    h("tbody", {}, range(d_k, (r) => h("tr", {}, key[r], cells[r]))),
    h("tfoot", {}, feet.map(({ row }) => row)));

  // All pairs: the value that was written, the one that its key recalls now, and how far the two are apart.
  const rows = names.map((name, i) => {
    const note = h("span", { class: "st-old", "data-value": `note-${i}` });
    const label = h("th", { scope: "row" }, name, note, h("small", { class: "st-its-key" }, vector(keys[i])));
    const found = h("td", { class: "aw-numbers st-found", "data-value": `found-${i}` });
    const error = h("span", { class: "aw-numbers", "data-value": `error-${i}` }), bar = h("i");
    return { note, found, error, bar, row: h("tr", { "data-pair": i }, label,
      h("td", { class: "aw-numbers st-v" }, vector(values[i])), found,
      h("td", { class: "st-error" }, h("span", { class: "st-lane", "aria-hidden": "true" }, bar), error)) };
  });
  const pairs = h("table", { class: "aw-plain st-pairs" },
    h("thead", {}, h("tr", {}, ["pair", "stored", "recalled now", "error"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map(({ row }) => row)));
  root.append(
    h("div", { class: "st-controls" }, h("span", { class: "st-group" }, back, next, play, again),
      h("span", { class: "st-group", role: "group", "aria-label": "How a pair is written" }, rules)),
    h("div", { class: "st-parts" }, beta.row, kept.row), title,
    h("div", { class: "st-panels" }, table, pairs), summary);

  const largest = Math.max(1, ...values.flat().map(Math.abs));
  const motion = animate(({ state, recalled, errors }) => {
    state.forEach((row, r) => row.forEach((x, c) => {
      write(cells[r][c], short(x));
      cells[r][c].style.setProperty("--size", Math.min(1, Math.abs(x) / largest).toFixed(3));
      cells[r][c].classList.toggle("st-negative", x < 0);
    }));
    rows.forEach(({ found, error, bar, row }, i) => {
      const there = row.dataset.when !== "later";
      write(found, there ? vector(recalled[i]) : "");
      write(error, there ? errors[i].toFixed(1) : "");
      bar.style.width = there ? `${Math.min(100, (100 * errors[i]) / (2 * largest)).toFixed(1)}%` : "0%";
    });
  }, 700);

  return () => {
    const state = read(), { step, rule } = state;
    if (step > last) return; // halfway through a change from Python
    const { steps, states, recalled, errors, replaced } = compute(state);
    for (const choose of rules) choose.setAttribute("aria-pressed", String(choose.dataset.rule === rule));
    beta.show(state.beta);
    kept.show(state.kept);
    mark();

    const now = step ? steps[step - 1] : null, i = step - 1;
    title.replaceChildren(h("b", {}, step ? `Pair ${step} of ${last}: ${names[i]}. ` : "The state is empty. "),
      step === 0 ? `Press Next to write the first of ${last} pairs.`
        : rule === "delta" ? `${vector(now.recalled)} is recalled, ${vector(values[i])} should be.`
          : `${vector(values[i])} is added, whatever was there.`);
    key.forEach((cell, r) => (cell.textContent = now ? short(keys[i][r]) : "·"));
    feet.forEach(({ name, label, entries }) => {
      const numbers = now && { stored: values[i], recalled: now.recalled, written: now.written }[name];
      if (name === "written") label.textContent = rule === "delta" ? "beta × (v − Sᵀk)" : "beta × v";
      entries.forEach((cell, c) => (cell.textContent = numbers ? short(numbers[c]) : "·"));
    });
    rows.forEach(({ row, note }, at) => {
      row.dataset.when = at >= step ? "later" : at === i ? "here" : replaced[at] ? "replaced" : "earlier";
      note.textContent = replaced[at] ? " (old)" : "";
    });
    motion.to({ state: states[step], recalled, errors }, { jump: dragged });

    const told = names.map((name, at) => (at < step && !replaced[at]
      ? `${name} recalls ${vector(recalled[at])}, stored was ${vector(values[at])}.` : "")).filter(Boolean);
    say(`${rule === "delta" ? "Delta rule" : "Addition"}, beta ${plain(state.beta)}, kept ${plain(state.kept)}. ${
      plural(step, "pair")} written${told.length ? `: ${told.join(" ")}` : ", the state is empty."}`);
  };
});
