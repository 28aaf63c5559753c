// Attention tile by tile. `compute` works out every step; the view draws one of them.

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
    const queries = range(Math.min(ROWS, n_q - first), (r) => first + r);
    const held = queries.map(() => ({ maximum: -Infinity, total: 0, output: [0, 0] }));
    const reach = (query) => (causal ? query + n_k - n_q : n_k - 1); // the last key that a query may see
    for (let start = 0; start < n_k && start <= reach(queries.at(-1)); start += block_size) {
      const keys = range(Math.min(block_size, n_k - start), (c) => start + c);
      const rows = queries.map((query, r) => {
        const before = held[r];
        const tile = keys.map((key) => (key <= reach(query) ? scores[query][key] : null));
        const maximum = Math.max(before.maximum, ...tile.filter((score) => score !== null));
        const nothing = maximum === -Infinity;
        const factor = nothing ? 1 : 2 ** (before.maximum - maximum);
        const powers = tile.map((score) => (score === null || nothing ? 0 : 2 ** (score - maximum)));
        const total = before.total * factor + sum(powers);
        const output = before.output.map((number, d) =>
          number * factor + dot(powers, keys.map((key) => values[key][d])));
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

const number = (x) => (x === -Infinity ? "−∞" : plain(x, 3));
const pair = (xs) => `(${xs.map((x) => plain(x, 3)).join(", ")})`;
const list = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
const part = (t, from, to) => clamp((t - from) / (to - from), 0, 1);

export default widget("tile_stepper", "Attention tile by tile",
  ["scores", "values", "block_size", "causal", "step"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const start = { block_size: model.get("block_size"), causal: model.get("causal"), step: model.get("step") };
  const last = () => compute(read()).steps.length - 1;
  const go = (step) => step >= 0 && step <= last() && change(model, { step });
  const { play, stop, back, next, mark } = player(view, PAUSE, { at: () => model.get("step"), end: last, go,
    following: { class: "ts-next" } });
  const set = (values) => {
    stop();
    change(model, { step: 0, ...values });
  };
  const again = button("reset", "Start again", () => set(start));
  const { scores, values } = read();
  const [n_q, n_k] = [scores.length, scores[0].length];
  const sizes = range(n_k, (i) => i + 1).filter((size) => n_k % size === 0 || size === 4).map((size) =>
    h("button", { type: "button", "data-size": size, "aria-label": `${size} keys per tile`,
      onclick: () => set({ block_size: size }) }, String(size)));
  const causal = h("button", { type: "button", "data-causal": "causal", onclick: () =>
    set({ causal: !model.get("causal") }) }, "Causal");
  const title = h("p", { class: "ts-title", "data-value": "title" });

  // Slow memory: queries, keys, values and outputs. Of the scores there is only a place in the order of the work.
  const cells = scores.map((row, query) => row.map((_, key) => h("td", { "data-cell": `${query}-${key}` })));
  const outputs = scores.map((_, query) => h("td", { class: "aw-numbers ts-out", "data-value": `output-${query}` }));
  const heads = scores[0].map((_, key) => h("th", { scope: "col", class: "ts-key" }, `k${key}`));
  const map = h("table", { class: "aw-plain ts-map" },
    h("thead", {}, h("tr", {}, h("td"), heads, h("th", { scope: "col", class: "ts-value" }, "output"))),
    h("tbody", {}, scores.map((_, query) => h("tr", { class: query % ROWS ? "" : "ts-first" },
      h("th", { scope: "row", class: "ts-query" }, `q${query}`), cells[query], outputs[query]))),
    h("tfoot", {}, ["values", ""].map((label, d) => h("tr", {}, label ? h("th", { scope: "row" }, label) : h("td"),
      values.map((value) => h("td", { class: "aw-numbers" }, plain(value[d], 3))), h("td")))));

  // Fast memory: a tile of scores, and per query the maximum, the total and the output so far.
  const bar = (kind) => {
    const [old, fresh] = [h("i", { class: "ts-old" }), h("i", { class: "ts-fresh" })];
    return { old, fresh, node: h("span", { class: `ts-bar ${kind}`, "aria-hidden": "true" }, old, fresh) };
  };
  const cards = range(Math.min(ROWS, n_q), () => {
    const [name, tile, top, factor] = ["b", "span", "span", "b"].map((tag) => h(tag));
    tile.className = "ts-tile";
    factor.className = "ts-factor";
    const bars = [bar("ts-total"), bar("ts-output"), bar("ts-output")];
    const texts = bars.map(() => h("span", { class: "aw-numbers" }));
    const row = (label, i) => [h("span", { class: "ts-label" }, label), bars[i].node, texts[i]];
    const node = h("section", { class: "ts-card" },
      h("div", { class: "ts-top" }, name, tile, h("span", { class: "ts-label" }, "max"), top, factor),
      h("div", { class: "ts-bars" }, row("total", 0), row("output", 1), row("", 2)));
    return { node, name, tile, top, factor, bars, texts };
  });
  const memory = h("p", { class: "ts-memory", "data-value": "memory" });
  const slow = h("div", { class: "ts-box ts-slow" }, h("p", { class: "ts-place" }, "slow memory, large"), map);
  const fast = h("div", { class: "ts-box ts-fast" }, h("p", { class: "ts-place" }, "fast memory, small"),
    cards.map((card) => card.node), memory);
  const traveler = h("i", { class: "ts-traveler", "aria-hidden": "true" });
  root.append(
    h("div", { class: "ts-controls" }, h("span", { class: "ts-group" }, back, next, play, again),
      h("span", { class: "ts-group", role: "group", "aria-label": "Keys per tile" }, h("span", {}, "keys per tile"), sizes),
      causal), title,
    h("div", { class: "ts-panels" }, slow, fast), traveler, summary);

  // One step moves in three parts: the tile travels, old sums shrink by the factor, new terms are added. `t` is from 0
  // to 1, slowed by `tween`, which is undone here.
  let moves = null;
  const motion = animate(({ t }) => {
    const at = 1 - Math.cbrt(1 - t);
    const [travel, shrink, grow] = [part(at, 0, 0.35), part(at, 0.4, 0.7), part(at, 0.7, 1)];
    const { from, to, rows } = moves;
    traveler.style.opacity = travel < 1 ? "1" : "0";
    if (travel < 1) {
      const box = from.map((x, i) => x + (to[i] - x) * travel);
      traveler.style.transform = `translate(${box[0].toFixed(1)}px, ${box[1].toFixed(1)}px) scale(${(box[2] / 100).toFixed(3)}, ${
        (box[3] / 100).toFixed(3)})`;
    }
    rows.forEach((bars, r) => bars.forEach(({ before, after, fresh }, i) => {
      const old = before + (after - before) * shrink;
      cards[r].bars[i].old.style.transform = `scaleX(${old.toFixed(4)})`;
      cards[r].bars[i].fresh.style.transform = `translateX(${(100 * old).toFixed(2)}%) scaleX(${(fresh * grow).toFixed(4)})`;
    }));
  }, 1100);

  let before = null;
  return () => {
    const state = read();
    const { block_size, step } = state;
    const { steps, outputs: results, largest } = compute(state);
    if (step >= steps.length) return; // halfway through a change from Python
    const { kind, queries, keys, rows } = steps[step];
    for (const choose of sizes) choose.setAttribute("aria-pressed", String(Number(choose.dataset.size) === block_size));
    causal.setAttribute("aria-pressed", String(state.causal));
    mark();

    // The order of the work: gone, here, to come, never.
    const done = new Map();
    steps.forEach((other, at) => {
      for (const query of other.queries) for (const key of other.keys) done.set(`${query} ${key}`, at);
    });
    cells.forEach((row, query) => row.forEach((cell, key) => {
      const at = done.get(`${query} ${key}`);
      const hidden = state.causal && key > query + n_k - n_q;
      cell.dataset.when = hidden && at !== step ? "never" : at < step ? "gone" : at === step ? (hidden ? "hidden" : "here")
        : "later";
      cell.textContent = cell.dataset.when === "gone" ? "·" : "";
      cell.className = key && key % block_size === 0 ? "ts-edge" : "";
    }));
    outputs.forEach((cell, query) => {
      const finished = steps.some((other, at) => at <= step && other.kind === "divide" && other.queries.includes(query));
      cell.textContent = finished ? pair(results[query]) : "";
    });
    heads.forEach((head, key) => head.classList.toggle("ts-read", keys.includes(key)));
    memory.textContent = `${largest} scores at a time, of ${n_q * n_k}`;

    const names = queries.map((query) => `q${query}`);
    title.replaceChildren(h("b", {}, `Step ${step + 1} of ${steps.length}. `), kind === "tile"
      ? `${list(names)} meet ${list(keys.map((key) => `k${key}`))}.` : `No key is left for ${list(names)}: divide once.`);

    // Bars are drawn to the largest total and output of all steps.
    const tiles = steps.filter((other) => other.kind === "tile").flatMap((other) => other.rows);
    const most = (list) => Math.max(1e-9, ...list.map(Math.abs));
    const scales = [most(tiles.map((row) => row.total)), most(tiles.flatMap((row) => row.output))];
    cards.forEach(({ node, name, tile, top, factor, texts }, r) => {
      const row = rows[r];
      node.dataset.query = row.query;
      node.setAttribute("aria-label", `Query ${row.query}`);
      name.textContent = `q${row.query}`;
      ["tile", "maximum", "factor", "total", "gathered", "second"].forEach((what, i) =>
        ([tile, top, factor, ...texts][i].dataset.value = `${what}-${row.query}`));
      const old = row.before?.maximum ?? row.maximum;
      const grown = kind === "tile" && row.maximum > old && old > -Infinity;
      tile.replaceChildren(...(kind === "tile" ? row.tile : []).map((score) =>
        h("span", { class: "aw-numbers" }, score === null ? "−∞" : number(score))));
      top.textContent = grown ? `${number(old)} → ${number(row.maximum)}` : number(row.maximum);
      factor.textContent = grown ? `old × ${number(row.factor)}` : kind === "divide" && row.total ? `÷ ${number(row.total)}` : "";
      const held = kind === "divide" ? row.result : row.output;
      [number(row.total), ...held.map((x) => plain(x, 3))].forEach((text, i) => (texts[i].textContent = text));
    });

    const partOf = (x, i) => Math.abs(x) / scales[Math.min(i, 1)];
    const box = root.getBoundingClientRect();
    const place = (nodes) => {
      const all = nodes.map((node) => node.getBoundingClientRect());
      const [x, y] = [Math.min(...all.map((one) => one.left)), Math.min(...all.map((one) => one.top))];
      return [x - box.left + root.scrollLeft, y - box.top, Math.max(...all.map((one) => one.right)) - x,
        Math.max(...all.map((one) => one.bottom)) - y];
    };
    const inFast = place(cards.map((card) => (kind === "tile" ? card.tile : card.bars[1].node)));
    const inSlow = place(kind === "tile" ? queries.flatMap((query) => keys.map((key) => cells[query][key]))
      : queries.map((query) => outputs[query]));
    const [from, to] = kind === "tile" ? [inSlow, inFast] : [inFast, inSlow];
    moves = { from, to, rows: rows.map((row) => (kind === "tile"
      ? [[row.total, row.before.total], [row.output[0], row.before.output[0]], [row.output[1], row.before.output[1]]]
        .map(([now, was], i) => ({ before: partOf(was, i), after: partOf(was * row.factor, i),
          fresh: partOf(now - was * row.factor, i) }))
      : [[row.total, row.total], [row.result[0], row.output[0]], [row.result[1], row.output[1]]]
        .map(([now, was], i) => ({ before: partOf(was, i), after: partOf(now, i), fresh: 0 })))) };
    const forward = before !== null && step === before + 1;
    before = step;
    if (forward) motion.to({ t: 0 }, { jump: true });
    motion.to({ t: 1 }, { jump: !forward });

    const told = rows.map((row) => (kind === "divide" ? `q${row.query}: output ${pair(row.result)}.`
      : `q${row.query}: maximum ${number(row.maximum)}, earlier sums times ${number(row.factor)}, total ${
        number(row.total)}.`));
    say(`Step ${step + 1} of ${steps.length}. ${kind === "tile" ? `${list(names)} meet ${
      list(keys.map((key) => `k${key}`))}.` : "The division at the end."} ${told.join(" ")}`);
  };
});
