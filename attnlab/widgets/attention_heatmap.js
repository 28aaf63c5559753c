// A map of attention weights. `compute` decodes and picks; the view draws it and listens.

// The map shown, (n_q, n_k), the sum of each row, and the keys of the selected row from most to least read.
export function compute({ data, dtype, shape, layer = 0, head = 0, query = 0 }) {
  const [, heads, n_q, n_k] = shape;
  const weights = readTable(data, dtype, (layer * heads + head) * n_q * n_k, n_q, n_k);
  const sums = weights.map(sum);
  const ranking = range(n_k).sort((a, b) => weights[query][b] - weights[query][a] || a - b);
  return { weights, sums, ranking, row: weights[query] };
}

export default widget("attention_heatmap", "Attention weights",
  ["data", "dtype", "shape", "tokens", "key_tokens", "layer", "head", "query"], (view) => {
  const { root, summary, say, model } = view;
  let parts = null; // the elements, made again only when a size or a name changes
  let at = null; // [row, column] of the one cell that Tab reaches
  let hovered = null; // the row under the pointer, shown instead of the selected one

  const read = () => {
    const state = view.read();
    const [layers, heads, n_q, n_k] = state.shape;
    const numbers = layers * heads * n_q * n_k;
    const whole = state.data.byteLength === numbers * READERS[state.dtype].size
      && state.tokens.length === n_q && state.key_tokens.length === n_k;
    if (!whole) return null; // halfway through new arrays
    state.layer = Math.min(state.layer, layers - 1);
    state.head = Math.min(state.head, heads - 1);
    state.query = Math.min(state.query, n_q - 1);
    return state;
  };

  function chooser(label, name, size) {
    const select = h("select", { "data-go": name, "aria-label": label,
      onchange: () => change(model, { [name]: Number(select.value) }) },
      ...range(size, (i) => h("option", { value: i }, String(i))));
    parts[name] = select;
    return h("label", { class: "hm-choice", ...(size < 2 ? { hidden: true } : {}) }, label, select);
  }

  const build = rebuilder(({ shape, tokens, key_tokens }) => {
    const [layers, heads, , n_k] = shape;
    at = hovered = null;
    parts = { cells: [], rows: [], lines: [], columns: [], bars: [] };
    const choosers = h("div", { class: "aw-row hm-choosers", ...(layers * heads < 2 ? { hidden: true } : {}) },
      chooser("Layer", "layer", layers), chooser("Head", "head", heads));

    parts.columns = key_tokens.map((token) =>
      h("div", { class: "hm-column", role: "columnheader" }, h("span", {}, token)));
    const header = h("div", { class: "hm-line", role: "row" },
      h("div", { class: "hm-corner", role: "columnheader" }, "looks at"), ...parts.columns);
    const lines = tokens.map((token, i) => {
      parts.cells.push(key_tokens.map((_, j) => h("div", { class: "hm-cell aw-heat", role: "gridcell",
        "data-cell": `${i}-${j}`, onclick: () => visit(i, j), onfocus: () => visit(i, j),
        onpointerenter: (event) => event.pointerType === "mouse" && hover(i, j),
      })));
      parts.rows.push(h("div", { class: "hm-token", role: "rowheader" }, h("span", { title: token }, token)));
      parts.lines.push(h("div", { class: "hm-line", role: "row" }, parts.rows[i], ...parts.cells[i]));
      return parts.lines[i];
    });
    const grid = h("div", { class: "hm-grid aw-numbers", role: "grid", "aria-label": "Weights: rows look at columns",
      style: `--keys: ${n_k}`, onkeydown: move, onpointerleave: () => hover(null) }, header, ...lines);
    if (n_k > 12) grid.classList.add("hm-tight");

    parts.title = h("p", { class: "hm-title" });
    parts.bars = key_tokens.map((token, j) => {
      const bar = h("span", { class: "hm-bar" });
      const value = h("span", { class: "hm-value aw-numbers" });
      return { bar, value, line: h("li", { "data-bar": j }, h("span", { class: "hm-name", title: token }, token),
        h("span", { class: "hm-track" }, bar), value) };
    });
    parts.sum = h("p", { class: "hm-sum aw-numbers" });
    parts.read = h("p", { class: "hm-read" });
    const focused = root.contains(document.activeElement);
    root.replaceChildren(choosers,
      h("div", { class: "hm-parts" },
        h("div", { class: "hm-map" }, h("div", { class: "hm-scroll" }, grid), h("div", { class: "hm-legend" }, heatScale())),
        h("div", { class: "hm-side" }, parts.title, h("ul", { class: "hm-bars" }, ...parts.bars.map((b) => b.line)),
          parts.sum, parts.read)),
      summary);
    if (focused && !root.contains(document.activeElement)) (layers * heads > 1 ? parts.layer : root).focus();
  });

  // Come to a cell: Tab will return to it, and its row becomes the selected one.
  function visit(i, j) {
    at = [i, j];
    if (model.get("query") !== i) change(model, { query: i });
    else paint();
  }

  function hover(i, j) {
    hovered = i === null ? null : [i, j];
    paint();
  }

  function move(event) {
    const to = gridStep(event, at, parts.cells.length, parts.cells[0].length);
    if (!to) return;
    hovered = null;
    at = to;
    parts.cells[at[0]][at[1]].focus();
  }

  function paint() {
    const state = read();
    if (!state) return;
    const { shape, tokens, key_tokens, layer, head, query } = state;
    build([shape, tokens, key_tokens], state);
    const { weights, sums, ranking } = compute(state);
    if (at === null) at = [query, ranking[0]];
    if (at[0] !== query) at = [query, at[1]];
    parts.layer.value = layer;
    parts.head.value = head;

    const sentence = (i, j) => `${tokens[i]} looks at ${key_tokens[j]}: ${spoken(weights[i][j])}`;
    parts.cells.forEach((row, i) => {
      parts.lines[i].classList.toggle("hm-chosen", i === query);
      row.forEach((cell, j) => {
        const weight = weights[i][j];
        cell.textContent = share(weight);
        heat(cell, weight);
        fill(cell, { "aria-label": sentence(i, j), "aria-selected": String(i === query) });
        cell.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
      });
    });

    const [i, j] = hovered ?? at;
    parts.columns.forEach((column, c) => column.classList.toggle("hm-chosen", c === j));
    parts.title.replaceChildren(h("b", {}, tokens[i]), " looks at");
    parts.bars.forEach(({ bar, value, line }, key) => {
      bar.style.width = `${(weights[i][key] * 100).toFixed(2)}%`;
      value.textContent = share(weights[i][key], 3);
      line.classList.toggle("hm-chosen", key === j);
    });
    parts.sum.textContent = `sum ${fmt(sums[i], 3)}`;
    parts.read.textContent = sentence(i, j);

    const place = [shape[0] > 1 ? `layer ${layer}` : "", shape[1] > 1 ? `head ${head}` : ""].filter(Boolean).join(", ");
    const top = ranking.filter((key) => weights[query][key] >= 0.005).slice(0, 3);
    const most = top.map((key) => `${key_tokens[key]} (${spoken(weights[query][key])})`).join(", then ");
    say(`${place ? `${place[0].toUpperCase()}${place.slice(1)}: ` : ""}${tokens[query]} looks `
      + (top.length ? `most at ${most}.` : "at nothing: its weights are all below 0.01."));
  }
  return paint;
});
