// Heads on one sentence, as lines and as a map. `compute` decodes and sorts; the view draws and listens.

const ROW = 24; // CSS pixels of one token, the same in the style sheet
const LEVELS = 12; // shades of a thumbnail

const mapOf = ({ data, dtype, shape: [, n] }, head) => readTable(data, dtype, head * n * n, n, n);

// The map of one head, (n, n); the sum of each row; the lines drawn, [query, key, weight] from weak to strong; the keys
// of the chosen query (-1: none) from most to least read; and what the queries after the first do on average.
export function compute({ data, dtype, shape, head = 0, query = -1, threshold = 0.05 }) {
  const n = shape[1], weights = mapOf({ data, dtype, shape }, head);
  const sums = weights.map(sum);
  const lines = weights
    .flatMap((row, i) => row.map((weight, j) => [i, j, weight]))
    .filter(([, , weight]) => weight > 0 && weight >= threshold)
    .sort((a, b) => a[2] - b[2]);
  const row = weights[query] ?? [];
  const ranking = range(row.length).sort((a, b) => row[b] - row[a] || a - b);
  const mean = (key) => sum(weights.slice(1).map((row, i) => row[key(i + 1)])) / (n - 1);
  const habits = n < 2 ? null : { first: mean(() => 0), previous: mean((i) => i - 1), self: mean((i) => i) };
  return { weights, sums, lines, row, ranking, habits };
}

// "11.6" -> "Head 11.6"; a name in words stays unchanged.
const headName = (name) => (/^\d/.test(name) ? `Head ${name}` : name);

function summaryOf({ names, head, named, query, threshold }, { row, habits }) {
  const where = headName(names[head]);
  if (query < 0) {
    if (!habits) return `${where}: one token, which can only look at itself.`;
    return `${where}, all tokens after the first: on average ${spoken(habits.first)} on the first token, `
      + `${spoken(habits.previous)} on the token before, ${spoken(habits.self)} on itself.`;
  }
  return `${where}, query “${named[query].name}”: ${readsText(row, named, Math.max(threshold, 0.005)) || "no weight on any key"}.`;
}

// A map as a small picture: one path for each shade.
function thumbnail(weights) {
  const n = weights.length;
  const shades = range(LEVELS, () => "");
  weights.forEach((row, i) => row.forEach((weight, j) => {
    const level = Math.min(LEVELS, Math.round(weight * LEVELS));
    if (level > 0) shades[level - 1] += `M${j} ${i}h1v1h-1z`;
  }));
  return s("svg", { viewBox: `0 0 ${n} ${n}`, class: "hv-picture", "aria-hidden": "true" },
    ...shades.map((d, level) => (d ? s("path", { d, "fill-opacity": ((level + 1) / LEVELS).toFixed(3) }) : "")));
}

export default widget("head_viewer", "Heads on one sentence",
  ["data", "dtype", "shape", "tokens", "names", "notes", "head", "query", "threshold"], (view) => {
  const { root, summary, say, model } = view;
  const id = `heads-${Math.random().toString(36).slice(2)}`;
  let parts = null; // the elements, made again only when the tokens or the heads change
  let hovered = null; // [row, column or null] under the pointer; its row is shown instead of the pinned one
  let focused = null; // the query that has the keyboard's focus, shown likewise
  let stop = 0; // the query that Tab reaches

  const read = () => {
    const state = view.read();
    const [heads, n] = state.shape;
    const size = READERS[state.dtype].size;
    const whole = heads && state.data.byteLength === heads * n * n * size && state.tokens.length === n
      && state.names.length === heads && [0, heads].includes(state.notes.length);
    if (!whole) return null; // halfway through new arrays
    state.head = Math.min(state.head, heads - 1);
    state.pinned = Math.min(state.query, n - 1);
    state.query = hovered?.[0] ?? focused ?? state.pinned;
    state.named = disambiguate(state.tokens);
    return state;
  };

  const build = rebuilder(({ shape: [heads, n], names, notes, named, pinned }) => {
    parts = { cells: [], rows: [], keys: [], numbers: [], columns: [], queries: [], heads: [], pictures: [] };
    stop = pinned < 0 ? n - 1 : pinned;

    parts.heads = names.map((name, m) => h("input", { type: "radio", name: id, value: m, "data-head": `head-${m}`,
      "aria-label": headName(name), onchange: () => change(model, { head: m }) }));
    parts.labels = names.map((name, m) => h("label", { class: "hv-thumb", title: headName(name) },
      parts.heads[m], h("span", { class: "hv-frame" }), h("span", { class: "hv-name" }, name)));
    const long = Math.max(...names.map((name) => name.length)) > 6 ? " hv-long" : "";
    const many = (most) => Math.ceil(heads / Math.ceil(heads / most));
    const thumbs = h("div", { class: `hv-thumbs${long}`, role: "radiogroup", "aria-label": "Head",
      onkeydown: (event) => stepRadios(event, parts.heads),
      style: `--wide: ${many(6)}; --narrow: ${many(3)}` }, ...parts.labels);

    parts.title = h("b");
    parts.note = h("span");
    parts.all = h("button", { type: "button", "data-go": "all", class: "hv-all",
      onclick: () => change(model, { query: model.get("query") < 0 ? stop : -1 }) }, "All tokens");
    const longest = Math.max(0, ...notes.map((note) => note.length));
    const about = h("div", { class: "hv-about" }, h("p", { class: "hv-note", style:
      `--wide-lines: ${Math.ceil((longest + 12) / 70)}; --narrow-lines: ${Math.ceil((longest + 12) / 36)}` },
      parts.title, " ", parts.note), parts.all);

    const textOf = (token) => h("span", { class: "hv-text", "data-name": token.name }, tokenNode(token));
    parts.keys = named.map((token) => {
      const number = h("span", { class: "hv-number aw-numbers" });
      parts.numbers.push(number);
      return h("li", { class: "hv-key", title: token.name }, textOf(token), number);
    });
    parts.queries = named.map((token, i) => h("button", { type: "button", class: "hv-query", "data-query": `query-${i}`,
      "aria-label": `${token.text}${token.sub ?? ""}, position ${i}`, title: token.name,
      onclick: () => pin(i), onblur: () => focus(null),
      onfocus: ({ target }) => {
        stop = i;
        focus(target.matches(":focus-visible") ? i : null);
      },
      onpointerenter: (event) => event.pointerType === "mouse" && hover([i, null]),
    }, textOf(token)));
    parts.svg = s("svg", { viewBox: `0 0 100 ${n * ROW}`, preserveAspectRatio: "none", class: "hv-svg",
      "aria-hidden": "true" });
    parts.least = h("p", { class: "hv-legend" });
    const lines = h("div", { class: "hv-lines" },
      h("p", { class: "hv-head aw-of-b" }, "key: is read"), h("span"),
      h("p", { class: "hv-head aw-of-a" }, "query: reads"),
      h("ul", { class: "hv-keys", "aria-label": "Keys, with the weights of the query" }, ...parts.keys), parts.svg,
      h("div", { class: "hv-queries", role: "toolbar", "aria-label": "Query", "aria-orientation": "vertical",
        onkeydown: move, onpointerleave: () => hover(null) }, ...parts.queries), parts.least);

    parts.columns = named.map((token) => h("span", { class: "hv-column" }, tokenNode(token)));
    parts.rows = named.map((token, i) => {
      parts.cells.push(named.map((_, j) => h("span", { class: "hv-cell aw-heat", "data-cell": `${i}-${j}`,
        onclick: () => pin(i), onpointerenter: (event) => event.pointerType === "mouse" && hover([i, j]) })));
      return h("div", { class: "hv-row" }, ...parts.cells[i]);
    });
    parts.read = h("p", { class: "hv-read" });
    parts.map = h("div", { class: "hv-map aw-numbers", role: "img" },
      h("div", { class: "hv-row hv-columns" }, ...parts.columns),
      h("div", { class: "hv-rows", onpointerleave: () => hover(null) }, ...parts.rows));
    const map = h("div", { class: "hv-side" }, parts.map, h("div", { class: "hv-foot" }, heatScale(), parts.read));

    const held = root.contains(document.activeElement);
    const letters = Math.max(...named.map(({ name }) => name.length));
    const size = n <= 8 ? " hv-few" : n <= 11 ? "" : " hv-many";
    root.replaceChildren(...(heads > 1 ? [thumbs] : []), about,
      h("div", { class: `hv-views${size}`,
        style: `--tokens: ${n}; --letters: ${Math.min(11, letters)}` }, lines, map), summary);
    if (held && !root.contains(document.activeElement)) parts.queries[stop].focus();
  });

  function pin(i) {
    stop = i;
    change(model, { query: model.get("query") === i ? -1 : i });
    paint();
  }

  function hover(place) {
    hovered = place;
    paint();
  }
  function focus(i) {
    focused = i;
    paint();
  }

  function move(event) {
    const last = parts.queries.length - 1, at = parts.queries.indexOf(document.activeElement);
    const to = at < 0 ? undefined : keyOf(event, { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last });
    if (to === undefined) return;
    hovered = null;
    parts.queries[clamp(to, 0, last)].focus();
  }

  function paint() {
    let state = read();
    if (!state) return;
    if (build([state.shape, state.tokens, state.names, state.notes], state)) {
      hovered = focused = null;
      state = read();
    }
    if (parts.data !== state.data) parts.labels.forEach((label, m) =>
      label.querySelector(".hv-frame").replaceChildren(thumbnail(mapOf(state, m))));
    parts.data = state.data;
    const { named, names, notes, head, query, pinned, threshold } = state, result = compute(state);
    const { weights, lines, row } = result;
    const strong = (weight) => weight > 0 && weight >= threshold;

    parts.heads.forEach((radio, m) => {
      radio.checked = m === head;
      parts.labels[m].classList.toggle("hv-chosen", m === head);
    });
    parts.title.textContent = headName(names[head]);
    parts.note.textContent = notes[head] ?? "";
    parts.all.setAttribute("aria-pressed", String(pinned < 0));
    parts.least.textContent = "Press a query to pin it. "
      + `The wider a line, the larger its weight; no line below ${plain(threshold)}.`;

    // From the right, where the queries are, to the left. The chosen query's lines are drawn last.
    const y = (i) => (i + 0.5) * ROW;
    const chosen = ([i]) => query < 0 || i === query;
    parts.svg.replaceChildren(...[...lines.filter((line) => !chosen(line)), ...lines.filter(chosen)].map((line) => {
      const [i, j, weight] = line;
      const mine = chosen(line);
      return s("path", { d: `M100 ${y(i)}C55 ${y(i)} 45 ${y(j)} 0 ${y(j)}`, "data-line": `${i}-${j}`,
        class: mine ? "hv-line hv-mine" : "hv-line", "stroke-width": (0.75 + weight * (mine ? 6 : 2.5)).toFixed(2),
        "stroke-opacity": (mine ? 0.3 + 0.7 * weight : 0.15 + 0.35 * weight).toFixed(3) });
    }));
    parts.keys.forEach((key, j) => {
      const weight = row[j] ?? 0;
      parts.numbers[j].textContent = weight > 0 ? share(weight) : "";
      key.style.setProperty("--weight", weight.toFixed(4));
      key.classList.toggle("hv-strong", strong(weight));
    });
    parts.queries.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === pinned));
      button.classList.toggle("hv-shown", i === query);
      button.tabIndex = i === stop ? 0 : -1;
    });

    const column = hovered?.[1] ?? -1;
    parts.rows.forEach((one, i) => one.classList.toggle("hv-shown", i === query));
    parts.columns.forEach((one, j) => one.classList.toggle("hv-shown", j === column));
    parts.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      heat(cell, weights[i][j]);
      cell.textContent = weights[i][j] >= 0.005 ? share(weights[i][j]) : "";
    }));
    parts.map.setAttribute("aria-label",
      `Map of ${headName(names[head])}: one row for each query, one column for each key; the summary has its numbers.`);
    parts.read.textContent = column >= 0
      ? `${named[query].name} looks at ${named[column].name}: ${spoken(weights[query][column])}` : "";
    say(summaryOf(state, result));
  }
  return paint;
});
