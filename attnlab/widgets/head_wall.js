// All heads of a recorded model as a wall of maps, one of them large, with a switch. `compute` reads the recordings.

const PATTERNS = ["previous", "first", "self", "induction", "mixed"];
const HINTS = { previous: "the token before", first: "the first token", self: "itself",
  induction: "what followed last time", mixed: "no single pattern" };
const LEAST = 0.5; // the same in Python
const MATTERS = 0.1;
const SHADES = [0.12, 0.4, 0.75]; // weights from which a cell of a small map has the next shade
const LINE = 0.05; // weights below it have no line

// The map (n, n) of one head on the chosen text, out of bytes: its lower triangle, times 255.
function mapOf({ maps, shape: [layers, heads], texts, text }, head) {
  const many = layers * heads, sizes = texts.map(({ tokens: { length: n } }) => (n * (n + 1)) / 2);
  const start = sum(sizes.slice(0, text)) * many + head * sizes[text];
  return readMap(maps, start, texts[text].tokens.length);
}

// The weights of the chosen head, (n, n); its scores by pattern; the kind of every head, an index into PATTERNS; which
// heads change the answer's probability; and the next words' probabilities without the chosen head.
export function compute(state) {
  const { effects, scores, shape: [layers, heads], texts, text, head } = state;
  const many = layers * heads;
  const table = readTable(scores, "float32", 0, PATTERNS.length - 1, many);
  const kinds = range(many, (one) => {
    const its = table.map((row) => row[one]), most = Math.max(...its);
    if (its[3] >= LEAST) return 3; // such a head rests on the first token where nothing is repeated
    return most >= LEAST ? its.indexOf(most) : PATTERNS.length - 1;
  });
  const { words, whole, answer } = texts[text];
  const start = sum(texts.slice(0, text).map(({ words: { length } }) => length)) * many;
  const without = readTable(effects, "float16", start, many, words.length);
  const matters = without.map((row) => Math.abs(row[answer] - whole[answer]) >= MATTERS);
  return { weights: mapOf(state, head), scores: table.map((row) => row[head]), kinds, matters, without: without[head],
    most: Math.max(...whole, ...without.flat()) };
}

// A question and its answer, with values that the widget knows in place of {name}.
const filledIn = (one, values) => [].concat(one).map((text) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]));

const TRAITS = ["maps", "effects", "scores", "shape", "texts", "head", "text", "query", "off", "show"];

export default widget("head_wall", "All heads of a model", TRAITS, ({ root, summary, say, model, read, animate }) => {
  const [layers, heads] = model.get("shape");
  let hovered = null; // the head under the pointer, shown instead of the chosen one
  let parts = null, lit = null;

  const nameOf = (head) => `${Math.floor(head / heads)}.${head % heads}`;

  // The parts that stay: filters, wall, switch.
  const filters = ["", ...PATTERNS, "matters"].map((name) => h("button", { type: "button", "data-show": name || "all",
    class: `hw-filter hw-${name || "all"}`, title: HINTS[name] ?? null,
    onclick: () => change(model, { show: model.get("show") === name ? "" : name }) },
    PATTERNS.includes(name) ? h("i") : null, h("span", {}, name || "all"), " ", h("b", { class: "aw-numbers", "data-held": name === "matters" ? "" : null })));
  const cells = range(layers * heads, (head) =>
    s("g", { transform: `translate(${Math.floor(head / heads) * 10 + 0.5} ${(head % heads) * 10 + 0.5})` }));
  const ring = h("i", { class: "hw-ring" }); // no part of the drawing, which would be painted again as it moves
  const pick = (head, hover = null) => {
    hovered = hover;
    if (hover === null) change(model, { head });
    paint();
  };
  const svg = s("svg", { viewBox: `0 0 ${layers * 10} ${heads * 10}`, preserveAspectRatio: "none", class: "hw-wall",
    ...wallKeys(layers, heads, () => model.get("head"), pick),
    onpointerdown: (event) => pick(headIn(svg, event, layers, heads)),
    onpointermove: (event) => {
      const head = headIn(svg, event, layers, heads);
      if (event.pointerType !== "mouse") change(model, { head });
      else if (head !== hovered) pick(head, head);
    },
    onpointerleave: () => {
      hovered = null;
      paint();
    } }, ...cells);
  const title = h("p", { class: "hw-title" }, h("b"), " ", h("span"));
  const text = h("select", { "aria-label": "Text", "data-go": "text",
    onchange: ({ target }) => change(model, { text: Number(target.value), query: -1 }) },
    ...model.get("texts").map(({ tokens }, i) => h("option", { value: i },
      `${tokens.length > 7 ? `… ${tokens.slice(-3).join(" ")}` : tokens.join(" ")} …`)));
  const off = button("off", "", () => change(model, { off: !model.get("off") }), { class: "hw-off" });
  const views = h("div", { class: "hw-views" });
  root.append(h("div", { class: "hw-filters", role: "group", "aria-label": "Heads to show" }, ...filters),
    h("div", { class: "hw-frame" }, svg, ring),
    wallAxis("hw", layers),
    h("div", { class: "hw-bar" }, title, text, off), views, summary);

  // The small maps of one text: a ground and a path for each shade.
  function drawWall(state) {
    const n = state.texts[state.text].tokens.length;
    cells.forEach((cell, head) => {
      const paths = SHADES.map(() => "");
      mapOf(state, head).forEach((row, i) => row.forEach((weight, j) => {
        const shade = SHADES.filter((least) => weight >= least).length;
        if (shade) paths[shade - 1] += `M${j} ${i}h1v1h-1z`;
      }));
      cell.replaceChildren(s("rect", { width: 9, height: 9 }), ...paths.map((d, shade) =>
        (d ? s("path", { d, transform: `scale(${9 / n})`, "fill-opacity": SHADES[shade] + 0.2 }) : "")));
    });
  }

  // Lines, map and bars of one text.
  const build = rebuilder(({ texts, text: at }) => {
    const { tokens, words } = texts[at], named = disambiguate(tokens), n = tokens.length;
    const id = `wall-${Math.random().toString(36).slice(2)}`;
    parts = { lines: [], cells: [], named };
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) parts.lines.push({ i, j, node: s("path", {
      d: `M100 ${i + 0.5}C55 ${i + 0.5} 45 ${j + 0.5} 0 ${j + 0.5}`, class: "hw-line", "data-line": `${i}-${j}` }) });
    parts.keys = named.map((token) => h("span", { class: "hw-key" }, tokenNode(token)));
    parts.queries = named.map((token, i) => h("span", { class: "hw-query", role: "option", id: `${id}-${i}`,
      "data-query": i, onclick: () => change(model, { query: model.get("query") === i ? -1 : i }) }, tokenNode(token)));
    parts.list = h("div", { class: "hw-list", role: "listbox", tabindex: 0, "data-go": "query",
      "aria-label": "Query, the token that reads", onkeydown: (event) => {
        const now = model.get("query");
        const query = keyOf(event, { ArrowDown: Math.min(n - 1, now + 1), ArrowUp: now < 0 ? n - 1 : now - 1,
          Escape: -1, Home: 0, End: n - 1 });
        if (query !== undefined) change(model, { query });
      } }, ...parts.queries);
    parts.rows = named.map((_, i) => {
      parts.cells.push(named.map(() => h("span", { class: "aw-heat" })));
      return h("div", { class: "hw-row", onclick: () =>
        change(model, { query: model.get("query") === i ? -1 : i }) }, ...parts.cells[i]);
    });
    parts.map = h("div", { class: "hw-map", role: "img" }, ...parts.rows);
    parts.bars = words.map((text) => {
      const was = h("i", { class: "hw-was" }), now = h("i", { class: "hw-now" }), bar = wordBar("hw", was, now);
      bar.word.textContent = text;
      return { ...bar, was, now };
    });
    views.style.setProperty("--tokens", n);
    views.replaceChildren(
      h("div", { class: "hw-lines" }, h("p", { class: "aw-of-b" }, "key"), h("span"), h("p", { class: "aw-of-a" }, "query"),
        h("div", { class: "hw-keys" }, ...parts.keys),
        s("svg", { viewBox: `0 0 100 ${n}`, preserveAspectRatio: "none", class: "hw-svg", "aria-hidden": "true" },
          ...parts.lines.map(({ node }) => node)), parts.list),
      h("div", { class: "hw-side" }, h("p", {}, "map"), parts.map),
      h("div", { class: "hw-next" }, h("p", {}, h("span", {}, "next word")), h("ul", {}, ...parts.bars.map(({ row }) => row))));
  });

  // The parts that move: the map, its lines, the bars, the ring.
  let query = -1, most = 1;
  const motion = animate(({ weights, bars, at }) => {
    for (const { i, j, node } of parts.lines) {
      const weight = weights[i][j], mine = query < 0 || query === i;
      const strokeWidth = weight >= LINE && mine ? 0.6 + 5 * weight : 0;
      Object.assign(node.style, { strokeWidth, strokeOpacity: 0.25 + 0.7 * weight });
    }
    parts.cells.forEach((row, i) => row.forEach((cell, j) => heat(cell, weights[i][j])));
    parts.bars.forEach(({ now, number }, w) => {
      now.style.width = `${(100 * bars[w]) / most}%`;
      number.textContent = share(bars[w]);
    });
    ring.style.transform = `translate(${100 * at[0]}%, ${100 * at[1]}%)`;
  }, 250);

  function paint() {
    const state = read();
    if (hovered !== null) state.head = hovered;
    const { head, texts, off: out, show } = state, fresh = build(state.text, state);
    if (fresh) drawWall(state);
    const found = compute(state);
    query = Math.min(state.query, texts[state.text].tokens.length - 1);
    most = found.most;
    const { tokens, words, whole, answer } = texts[state.text];
    const kind = PATTERNS[found.kinds[head]], score = found.scores[found.kinds[head]];

    const count = { "": found.kinds.length, matters: found.matters.filter(Boolean).length };
    PATTERNS.forEach((name, k) => (count[name] = found.kinds.filter((one) => one === k).length));
    ["", ...PATTERNS, "matters"].forEach((name, i) => {
      filters[i].setAttribute("aria-pressed", String(show === name));
      filters[i].querySelector("b").textContent = count[name];
    });
    filters.at(-1).title = `“${words[answer]}” changes by ${MATTERS} or more without it`;
    const lighting = `${show} ${state.text}`;
    if (lighting !== lit) cells.forEach((cell, one) => {
      const bright = !show || (show === "matters" ? found.matters[one] : PATTERNS[found.kinds[one]] === show);
      cell.setAttribute("class", `hw-${PATTERNS[found.kinds[one]]}${bright ? "" : " hw-dim"}`);
    });
    lit = lighting;
    const name = nameOf(head);
    title.firstChild.textContent = `Head ${name}`;
    title.lastChild.textContent = kind === "mixed" ? "mixed" : `${HINTS[kind]}: ${share(score)}`;
    title.className = `hw-title hw-${kind}`;
    off.textContent = out ? `${name} is off` : `Switch ${name} off`;
    off.setAttribute("aria-pressed", String(out));
    text.value = state.text;
    fill(svg, { "aria-valuenow": head, "aria-valuetext": `layer ${Math.floor(head / heads)}, head ${head % heads}, ${kind}` });
    parts.queries.forEach((one, i) => one.setAttribute("aria-selected", String(i === query)));
    parts.rows.forEach((one, i) => one.classList.toggle("hw-chosen", i === query));
    parts.list.setAttribute("aria-activedescendant", parts.queries[query]?.id ?? "");
    parts.map.setAttribute("aria-label", `Map of head ${name}, ${tokens.length} queries by ${tokens.length} keys`);
    parts.bars.forEach(({ row, was }, w) => {
      was.style.width = `${(100 * whole[w]) / found.most}%`;
      row.classList.toggle("hw-answer", w === answer);
    });

    // The ring and a sweep over the wall follow the pointer; a press glides.
    motion.to({ weights: found.weights, bars: out ? found.without : whole,
      at: [Math.floor(head / heads), head % heads] }, { jump: fresh });
    const row = found.weights[query < 0 ? tokens.length - 1 : query], best = argmax(row);
    say(`Head ${name}, ${kind === "mixed" ? "no single pattern" : `${HINTS[kind]}, score ${spoken(score)}`}. “${
      parts.named[query < 0 ? tokens.length - 1 : query].name}” reads “${parts.named[best].name}”: ${spoken(row[best])}. `
      + `Next word “${words[answer]}”: ${spoken(whole[answer])}, without this head ${spoken(found.without[answer])}.`);
  }
  return paint;
}, (model) => {
  const { matters } = compute(Object.fromEntries(TRAITS.map((trait) => [trait, model.get(trait)])));
  const values = { matters: matters.filter(Boolean).length, all: matters.length };
  return model.get("predictions").map((one) => filledIn(one, values));
});
