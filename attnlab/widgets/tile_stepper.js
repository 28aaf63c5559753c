// Attention tile by tile. `compute` works out every step; `render` draws one of them.

const TRAITS = ["scores", "values", "block_size", "causal", "step"];
const ROWS = 2; // queries of a tile
const PAUSE = 1600; // milliseconds per step while it plays

// All steps. A step is one tile of one block of queries, or the division at the end of the block.
// Scores count powers of two. `rows` has, for each query of the block: the tile's scores (null where hidden), the
// maximum and the total before and after, the factor on the earlier sums, the new terms, and the output before and after.
export function compute({ scores, values, block_size, causal }) {
  const [n_q, n_k] = [scores.length, scores[0].length];
  const steps = [];
  const outputs = [];
  for (let first = 0; first < n_q; first += ROWS) {
    const queries = Array.from({ length: Math.min(ROWS, n_q - first) }, (_, r) => first + r);
    const held = queries.map(() => ({ maximum: -Infinity, total: 0, output: [0, 0] }));
    const reach = (query) => (causal ? query + n_k - n_q : n_k - 1); // the last key that a query may see
    for (let start = 0; start < n_k && start <= reach(queries.at(-1)); start += block_size) {
      const keys = Array.from({ length: Math.min(block_size, n_k - start) }, (_, c) => start + c);
      const rows = queries.map((query, r) => {
        const before = held[r];
        const tile = keys.map((key) => (key <= reach(query) ? scores[query][key] : null));
        const maximum = Math.max(before.maximum, ...tile.filter((score) => score !== null));
        const nothing = maximum === -Infinity;
        const factor = nothing ? 1 : 2 ** (before.maximum - maximum);
        const powers = tile.map((score) => (score === null || nothing ? 0 : 2 ** (score - maximum)));
        const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
        const total = before.total * factor + sum(powers);
        const output = before.output.map((number, d) =>
          number * factor + sum(powers.map((power, c) => power * values[keys[c]][d])));
        held[r] = { maximum, total, output };
        return { query, tile, before, factor, powers, ...held[r] };
      });
      steps.push({ kind: "tile", queries, keys, rows });
    }
    const rows = queries.map((query, r) => {
      const { maximum, total, output } = held[r];
      const result = output.map((number) => (total === 0 ? 0 : number / total));
      outputs.push(result);
      return { query, maximum, total, output, result };
    });
    steps.push({ kind: "divide", queries, keys: [], rows });
  }
  const largest = Math.max(...steps.map(({ queries, keys }) => queries.length * keys.length));
  return { steps, outputs, largest };
}

const number = (x) => (x === -Infinity ? "−∞" : plain(x, 4));
const pair = (xs) => `(${xs.map((x) => plain(x, 3)).join(", ")})`;
const list = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);

function render({ model, el }) {
  const { root, summary, say } = frame(el, "tile_stepper", "Attention tile by tile", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const start = { block_size: model.get("block_size"), causal: model.get("causal"), step: model.get("step") };
  let playing = null;

  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  };
  const last = () => compute(read()).steps.length - 1;
  const go = (step) => step >= 0 && step <= last() && change(model, { step });
  const button = (name, label, onclick, rest = {}) =>
    h("button", { type: "button", "data-go": name, onclick, ...rest }, label);
  const back = button("back", "Back", () => { stop(); go(model.get("step") - 1); });
  const next = button("next", "Next", () => { stop(); go(model.get("step") + 1); }, { class: "ts-next" });
  const play = button("play", "Play", () => {
    if (playing !== null) return stop();
    if (model.get("step") === last()) change(model, { step: 0 });
    play.textContent = "Pause";
    playing = setInterval(() => {
      go(model.get("step") + 1);
      if (model.get("step") === last()) stop();
    }, PAUSE);
  });
  const again = button("reset", "Start again", () => { stop(); change(model, start); });
  const set = (values) => { stop(); change(model, { ...values, step: 0 }); };
  const sizes = h("span", { class: "ts-group", role: "group", "aria-label": "Keys per tile" },
    h("span", {}, "keys per tile"));
  const causal = h("button", { type: "button", "data-causal": "causal", onclick: () =>
    set({ causal: !model.get("causal") }) }, "Causal");
  const title = h("p", { class: "ts-title", "data-value": "title" });
  const map = h("table", { class: "aw-plain ts-map" });
  const cards = h("div", { class: "ts-cards" });
  const memory = h("p", { class: "ts-memory", "data-value": "memory" });
  root.append(
    h("div", { class: "ts-controls" }, h("span", { class: "ts-group" }, back, next, play, again)),
    h("div", { class: "ts-controls" }, sizes, causal), title,
    h("div", { class: "ts-panels" }, h("div", {}, map, memory), cards), summary);

  function paint() {
    const state = read();
    const { scores, values, block_size, step } = state;
    const { steps, outputs, largest } = compute(state);
    if (step >= steps.length) return; // halfway through a change from Python
    const { kind, queries, keys, rows } = steps[step];
    const [n_q, n_k] = [scores.length, scores[0].length];

    if (sizes.children.length === 1) {
      for (let size = 1; size <= n_k; size += 1) {
        if (n_k % size === 0 || size === 4) {
          sizes.append(h("button", { type: "button", "data-size": size, "aria-label": `${size} keys per tile`,
            onclick: () => set({ block_size: size }) }, String(size)));
        }
      }
    }
    for (const choose of sizes.querySelectorAll("button")) {
      choose.setAttribute("aria-pressed", String(Number(choose.dataset.size) === block_size));
    }
    causal.setAttribute("aria-pressed", String(state.causal));
    back.setAttribute("aria-disabled", String(step === 0));
    next.setAttribute("aria-disabled", String(step === steps.length - 1));

    // The map: gone, here, to come, never. Past tiles keep no number: they have been thrown away.
    const done = new Map();
    steps.forEach((other, at) => {
      for (const query of other.queries) for (const key of other.keys) done.set(`${query} ${key}`, at);
    });
    const finished = (query) => steps.some((other, at) =>
      at <= step && other.kind === "divide" && other.queries.includes(query));
    map.replaceChildren(
      h("caption", {}, "Scores, in powers of two"),
      h("thead", {}, h("tr", {}, h("td"), scores[0].map((_, key) => h("th", { scope: "col" }, `k${key}`)),
        h("th", { scope: "col" }, "output"))),
      h("tbody", {}, scores.map((row, query) => h("tr", { class: query % ROWS ? "" : "ts-first" },
        h("th", { scope: "row" }, `q${query}`),
        row.map((score, key) => {
          const at = done.get(`${query} ${key}`);
          const hidden = state.causal && key > query + n_k - n_q;
          const when = hidden && at !== step ? "never" : at < step ? "gone" : at === step ? (hidden ? "hidden" : "here")
            : "later";
          const words = { here: number(score), hidden: "−∞", never: "", gone: "·", later: "" }[when];
          return h("td", { "data-cell": `${query}-${key}`, "data-when": when,
            class: `aw-numbers${key && key % block_size === 0 ? " ts-edge" : ""}` }, words);
        }),
        h("td", { class: "aw-numbers ts-out", "data-value": `output-${query}` },
          finished(query) ? pair(outputs[query]) : "")))),
      h("tfoot", {}, ["values", ""].map((label, d) => h("tr", {}, label ? h("th", { scope: "row" }, label) : h("td"),
        values.map((value) => h("td", { class: "aw-numbers" }, plain(value[d], 3))), h("td")))));
    memory.textContent = `At most ${largest} scores are held at once, of ${n_q * n_k} in all.`;

    const names = queries.map((query) => `q${query}`);
    title.replaceChildren(h("b", {}, `Step ${step + 1} of ${steps.length}. `), kind === "tile"
      ? `${list(names)} meet ${list(keys.map((key) => `k${key}`))}.`
      : `No key is left for ${list(names)}: divide once.`);

    const line = (name, label, text, rest = {}) => h("div", { class: "ts-line", ...rest }, h("dt", {}, label),
      h("dd", { class: "aw-numbers", "data-value": name }, text));
    cards.replaceChildren(...rows.map((row) => {
      const { query } = row;
      const name = (what) => `${what}-${query}`;
      const grown = kind === "tile" && row.maximum > row.before.maximum;
      const lines = kind === "tile" ? [
        line(name("tile"), "scores of the tile", row.tile.map((x) => (x === null ? "−∞" : number(x))).join("  ")),
        line(name("maximum"), "running maximum", grown ? `${number(row.before.maximum)} → ${number(row.maximum)}`
          : `${number(row.maximum)} stays`, { class: `ts-line${grown ? " ts-grown" : ""}` }),
        line(name("factor"), "factor for the old", row.maximum === -Infinity ? "nothing yet"
          : `2^(${number(row.before.maximum)} − ${bracketed(row.maximum)}) = ${number(row.factor)}`),
        line(name("powers"), "new terms", row.powers.map(number).join("  ")),
        line(name("total"), "running total", `${number(row.before.total)} × ${number(row.factor)} + ${
          number(row.powers.reduce((a, b) => a + b, 0))} = ${number(row.total)}`),
        line(name("gathered"), "output so far", `${pair(row.before.output)} × ${number(row.factor)} + new = ${
          pair(row.output)}`),
      ] : [
        line(name("maximum"), "maximum", number(row.maximum)),
        line(name("total"), "total", number(row.total)),
        line(name("gathered"), "output so far", pair(row.output)),
        line(name("result"), "divided by total", row.total === 0 ? "nothing was seen: (0, 0)"
          : `${pair(row.output)} / ${number(row.total)} = ${pair(row.result)}`),
      ];
      return h("section", { class: "ts-card", "data-query": query, "aria-label": `Query ${query}` },
        h("p", { class: "ts-name" }, `q${query}`), h("dl", {}, lines));
    }));

    const told = rows.map((row) => (kind === "divide" ? `q${row.query}: output ${pair(row.result)}.`
      : `q${row.query}: maximum ${number(row.maximum)}, earlier sums times ${number(row.factor)}, total ${
        number(row.total)}.`));
    say(`Step ${step + 1} of ${steps.length}. ${kind === "tile" ? `${list(names)} meet ${
      list(keys.map((key) => `k${key}`))}.` : "The division at the end."} ${told.join(" ")}`);
  }

  paint();
  const unlisten = listen(model, TRAITS, paint);
  return () => {
    stop();
    unlisten();
    el.replaceChildren();
  };
}

export default { render };
