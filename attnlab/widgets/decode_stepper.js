// Writing token by token. `compute` counts every pass with a cache and without; `render` draws one of them.

const TRAITS = ["n_layers", "n_heads", "n_kv_heads", "d_head", "d_model", "latent", "rope", "bytes_per_element",
  "prompt", "continuation", "scheme", "step"];
const SCHEMES = {
  mha: "multi-head", gqa: "grouped-query", mqa: "multi-query", mla: "multi-head latent",
};
const SIDES = ["cached", "full"];
const WORDS = { now: "new", read: "read", again: "again", written: "next", later: "" };

// The state of the rows of token `place` in pass `index`, both from 0, after a prompt of p tokens.
// now: computed for the first time; read: taken from the cache; again: computed before and computed once more;
// written: the token this pass writes, which has no rows yet; later: not there yet.
function rowState(side, place, index, p) {
  const known = p + index;
  if (place >= known) return place === known ? "written" : "later";
  if (index === 0 || place === known - 1) return "now";
  return side === "cached" ? "read" : "again";
}

// All counts. Each pass has two sides: `cached`, with a cache, and `full`, without. For MLA the multiply-adds are null.
export function compute({ n_layers, n_heads, n_kv_heads, d_head, d_model, latent, rope, bytes_per_element, prompt,
  continuation, scheme, step }) {
  const p = prompt.length;
  const heads = { mha: n_heads, gqa: n_kv_heads, mqa: 1, mla: null }[scheme];
  const perScheme = (f) => Object.fromEntries(Object.keys(SCHEMES).map((name) => [name, f(name)]));
  const row = 2 * d_head; // one key and one value
  const numbers = { mha: row * n_heads, gqa: row * n_kv_heads, mqa: row, mla: latent + rope };
  const held = p + step; // tokens in the cache after this pass
  const token_bytes = perScheme((name) => numbers[name] * n_layers * bytes_per_element);

  // Multiply-adds of one layer that processes n_q tokens against n_kv keys.
  const cost = (n_q, n_kv) => {
    if (heads === null) return { projections: null, attention: null, layer: null, total: null };
    const projections = n_q * (2 * d_model * d_model + 2 * d_model * heads * d_head); // Q and O, K and V
    const attention = 2 * n_q * n_kv * d_model; // scores and weighted sums, masked pairs included
    return { projections, attention, layer: projections + attention, total: n_layers * (projections + attention) };
  };
  const so_far = { cached: { multiply_adds: 0, rows: 0 }, full: { multiply_adds: 0, rows: 0 } };
  const passes = continuation.map((_, index) => {
    const keys = p + index;
    const side = (name, tokens) => {
      const counted = cost(tokens, keys);
      const sum = so_far[name];
      sum.rows += tokens;
      sum.multiply_adds = counted.total === null ? null : sum.multiply_adds + counted.total;
      return { tokens, keys, ...counted, so_far: sum.multiply_adds, rows_so_far: sum.rows };
    };
    return { cached: side("cached", index === 0 ? p : 1), full: side("full", keys) };
  });

  const { cached, full } = passes[step];
  const over = (a, b) => (a === null ? null : a / b);
  const states = (side) => [...prompt, ...continuation].map((_, place) => rowState(side, place, step, p));
  return {
    heads, numbers, held, token_bytes,
    held_bytes: perScheme((name) => held * token_bytes[name]),
    rows: { cached: states("cached"), full: states("full") },
    passes,
    ratio: over(full.total, cached.total),
    ratio_so_far: over(full.so_far, cached.so_far),
  };
}

// 1234567 -> "1,234,567"; counts of a hundred million and more in words, with four figures.
const grouped = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ",");
function counted(x) {
  if (x < 1e8) return grouped(x);
  const [unit, word] = x < 1e9 ? [1e6, "million"] : x < 1e12 ? [1e9, "billion"] : [1e12, "trillion"];
  const digits = x / unit >= 1000 ? 0 : x / unit >= 100 ? 1 : x / unit >= 10 ? 2 : 3;
  return `${(x / unit).toFixed(digits)} ${word}`;
}

const plural = (n, word) => `${grouped(n)} ${word}${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const { root, summary, say } = frame(el, "decode_stepper", "Decoding with and without a cache", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const start = { step: model.get("step"), scheme: model.get("scheme") };
  let parts = null; // the elements, made anew only when tokens change

  const go = (step) => step >= 0 && step < model.get("continuation").length && change(model, { step });
  const button = (name, label, onclick, rest = {}) =>
    h("button", { type: "button", "data-go": name, onclick, ...rest }, label);
  const back = button("back", "Back", () => go(model.get("step") - 1));
  const next = button("next", "Next", () => go(model.get("step") + 1), { class: "ds-next" });
  const again = button("reset", "Start again", () => change(model, start));
  const title = h("p", { class: "ds-title", "data-value": "title" });
  const panels = h("div", { class: "ds-panels" });

  // The four schemes: a button, what is kept for a token, and the bytes held now as a bar.
  const schemes = Object.fromEntries(Object.entries(SCHEMES).map(([name, words]) => {
    const choose = h("button", { type: "button", "data-scheme": name, onclick: () => change(model, { scheme: name }) },
      h("b", {}, name.toUpperCase()), ` ${words}`);
    const [what, bytes] = [h("span", { class: "ds-what aw-numbers" }),
      h("span", { class: "ds-bytes aw-numbers", "data-value": `held-${name}` })];
    const bar = h("i");
    const line = h("div", { class: "ds-scheme" }, choose, what,
      h("span", { class: "ds-bar", "aria-hidden": "true" }, bar), bytes);
    return [name, { choose, what, bytes, bar, line }];
  }));

  // The counters: a row each, with a cache, without, and how many times as much that is.
  const counters = Object.fromEntries([
    ["projections", "One layer, projections"], ["attention", "One layer, scores and sums"],
    ["total", "All layers, this pass"], ["so_far", "All layers, so far"]].map(([name, text]) => {
    const cells = Object.fromEntries([...SIDES, "ratio"].map((side) =>
      [side, h("td", { class: "aw-numbers", "data-value": `${name}-${side}` })]));
    const line = h("tr", { class: `ds-${name}` }, h("th", { scope: "row" }, text), Object.values(cells));
    return [name, { cells, line }];
  }));
  const table = h("table", { class: "aw-plain ds-counters" },
    h("thead", {}, h("tr", {}, h("td", {}, "Multiply-adds"),
      ...["with cache", "without", "ratio"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, Object.values(counters).map(({ line }) => line)));
  const rule = h("p", { class: "ds-rule aw-numbers", "data-value": "rule" });
  const heldTitle = h("p", { class: "ds-heading" });

  root.append(
    h("div", { class: "ds-controls" }, title, h("div", { class: "ds-group" }, back, next, again)),
    panels,
    h("p", { class: "ds-legend", "aria-hidden": "true" },
      ...[["now", "computed, first time"], ["read", "read from the cache"], ["again", "computed again"]].map(
        ([state, text]) => h("span", {}, h("i", { class: "ds-square", "data-state": state }), text))),
    table, rule, heldTitle,
    h("div", { class: "ds-schemes", role: "group", "aria-label": "Scheme" },
      Object.values(schemes).map(({ line }) => line)),
    summary);

  function build({ prompt, continuation }) {
    const names = tellApart([...prompt, ...continuation]);
    parts = { names, sides: {} };
    panels.replaceChildren(...SIDES.map((side) => {
      const rows = names.map((name, place) => {
        const bars = ["k", "v"].map((kind) => h("i", { class: `ds-row ds-${kind}` }));
        const word = h("td", { class: "ds-word", "data-word": place });
        const squares = continuation.map((_, index) => h("i", { class: "ds-square",
          "data-cell": `${side}-${place}-${index}` }));
        const line = h("tr", {}, h("th", { scope: "row" }, tokenNode(name)),
          h("td", { class: "ds-bars", "aria-hidden": "true" }, h("span", {}, bars)), word,
          h("td", { class: "ds-history", "aria-hidden": "true" }, h("span", {}, squares)));
        return { line, word, squares };
      });
      parts.sides[side] = rows;
      const ticks = continuation.map((_, index) => h("span", { "data-tick": index }, String(index + 1)));
      const kinds = h("span", { class: "ds-kinds" });
      const [note, held] = ["note", "held"].map((name) =>
        h("span", { class: "ds-note aw-numbers", "data-value": `${name}-${side}` }));
      Object.assign(rows, { kinds, ticks, note, held });
      return h("table", { class: "aw-plain ds-panel", "data-side": side, style: `--passes: ${continuation.length}` },
        h("caption", {}, h("b", {}, side === "cached" ? "With a cache" : "Without a cache"), note, held),
        h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, kinds), h("th", { scope: "col" }, "rows"),
          h("th", { scope: "col", class: "ds-history" }, h("span", { class: "ds-ticks" }, ticks)))),
        h("tbody", {}, rows.map(({ line }) => line)));
    }));
  }

  function paint() {
    const state = read();
    const { n_layers, n_heads, n_kv_heads, d_head, d_model, latent, rope, prompt, continuation, scheme, step } = state;
    if (step >= continuation.length) return; // halfway through a change from Python
    const made = JSON.stringify([prompt, continuation]);
    if (parts?.made !== made) {
      build(state);
      parts.made = made;
    }
    const n = compute(state);
    const p = prompt.length;
    const { cached, full } = n.passes[step];
    const name = (place) => `“${parts.names[place].name}”`;
    const writes = `writes ${name(p + step)}`;
    title.replaceChildren(h("b", {}, `Pass ${step + 1} of ${continuation.length}`),
      step === 0 ? ` reads the prompt (prefill), ${writes}` : ` reads ${name(p + step - 1)} (decode), ${writes}`);
    back.setAttribute("aria-disabled", String(step === 0));
    next.setAttribute("aria-disabled", String(step === continuation.length - 1));

    // Bars are as wide as what the scheme keeps, a full one being a row for every head.
    const part = scheme === "mla" ? Math.min(1, n.numbers.mla / n.numbers.mha) : n.heads / n_heads;
    for (const side of SIDES) {
      const rows = parts.sides[side];
      const panel = rows[0].line.closest("table");
      panel.classList.toggle("ds-latent", scheme === "mla");
      panel.style.setProperty("--part", part.toFixed(4));
      rows.kinds.replaceChildren(...(scheme === "mla" ? [h("span", {}, "latent")]
        : [h("span", { class: "ds-k" }, "K"), h("span", { class: "ds-v" }, "V")]));
      const bytes = side === "cached" ? n.held_bytes[scheme] : 0;
      const { tokens, rows_so_far } = n.passes[step][side];
      rows.note.textContent = `${plural(tokens, "token")} processed, ${rows_so_far} so far`;
      rows.held.textContent = `${plural(bytes, "byte")} held`;
      rows.ticks.forEach((tick, index) => tick.classList.toggle("ds-current", index === step));
      rows.forEach(({ line, word, squares }, place) => {
        const now = n.rows[side][place];
        line.dataset.state = now;
        word.textContent = WORDS[now];
        squares.forEach((square, index) => {
          square.dataset.state = index > step ? "later" : rowState(side, place, index, p);
          square.classList.toggle("ds-current", index === step);
        });
      });
    }

    const none = scheme === "mla";
    for (const [key, { cells }] of Object.entries(counters)) {
      const [a, b] = [cached[key], full[key]];
      cells.cached.textContent = a === null ? "not counted" : counted(a);
      cells.full.textContent = b === null ? "not counted" : counted(b);
      cells.ratio.textContent = a === null ? "" : (b / a).toFixed(2);
    }
    rule.textContent = none
      ? "MLA’s multiply-adds are left out: the projections from the latent row to keys and values may or may not be "
        + "merged with those of Q and O, and each way has a different count. The bytes held are the same either way."
      : `Counted in one layer: Q, K, V and O, ${d_model} × (${2 * d_model} + ${2 * n.heads * d_head}) for each token `
        + `processed; scores and weighted sums, 2 × n_q × n_kv × ${d_model}, with masked pairs. Then × `
        + `${plural(n_layers, "layer")}. The rest of the block is not counted; it runs for the same tokens.`;

    heldTitle.textContent = `Held for ${plural(n.held, "token")} after this pass`;
    const most = Math.max(...Object.values(n.held_bytes));
    const kept = { mha: plural(n_heads, "head"), gqa: plural(n_kv_heads, "head"), mqa: "1 head",
      mla: `${latent} + ${rope}` };
    for (const [key, { choose, what, bytes, bar }] of Object.entries(schemes)) {
      choose.setAttribute("aria-pressed", String(key === scheme));
      what.textContent = key === "mla" ? kept.mla : `2 × ${kept[key]} × ${d_head}`;
      bytes.textContent = plural(n.held_bytes[key], "byte");
      bar.style.width = `${(100 * n.held_bytes[key]) / most}%`;
    }

    const kind = none ? "latent row" : "row";
    const rows = `With a cache it computes ${plural(cached.tokens, kind)}${none ? "" : " of K and V"}`
      + `${step ? ` and reads ${n.held - 1}` : ""}; without one it computes `
      + `${step ? `${full.tokens}, ${full.tokens - 1} of them again` : "the same rows"}.`;
    const so = none ? "" : step === 0 ? " So far both cost the same."
      : ` So far there are ${n.ratio_so_far.toFixed(2)} times as many multiply-adds without a cache.`;
    say(`Pass ${step + 1} of ${continuation.length}, ${writes}. ${rows}${so} `
      + `${scheme.toUpperCase()} holds ${plural(n.held_bytes[scheme], "byte")} for ${plural(n.held, "token")}.`);
  }

  paint();
  const stop = listen(model, TRAITS, paint);
  return () => {
    stop();
    el.replaceChildren();
  };
}

export default { render };
