// A mask to paint. `compute` gives weights and leaks; `makeGrid` listens to pointer and keyboard.

const FILLS = { "-inf": -Infinity, "-1e9": -1e9, "-10": -10 };
const FILL_NAMES = { "-inf": "−∞", "-1e9": "−1e9", "-10": "−10" };

// All numbers shown. state: {scores: (n, n), mask: (n, n) booleans, fill}. Rows are queries, columns are keys.
export function compute({ scores, mask, fill = "-inf" }) {
  const weights = scores.map((row, i) => softmax(row.map((score, j) => (mask[i][j] ? score : FILLS[fill]))));
  const rows = [...scores.keys()];
  const later = rows.flatMap((i) => rows.slice(i + 1).map((j) => ({ i, j, weight: weights[i][j] })));
  const most = later.reduce((best, cell) => (cell.weight > best.weight ? cell : best), { weight: 0, i: null, j: null });
  return {
    weights,
    // moves[t][i]: whether output i moves when token t changes. Whoever reads t hears of it, and t itself asks differently,
    // which matters where it has a choice.
    moves: rows.map((t) => rows.map((i) => weights[i][t] > 0 || (i === t && weights[i].filter((w) => w > 0).length > 1))),
    count: mask.flat().filter(Boolean).length,
    empty: rows.filter((i) => !mask[i].some(Boolean)),
    // Cells that are allowed above the diagonal, and the most weight that goes to a later token.
    leak: { cells: later.filter(({ i, j }) => mask[i][j]).length, largest: most.weight, query: most.i, key: most.j },
  };
}

// The mask of a preset for n tokens.
function maskOf(preset, n, { length, window }) {
  const allowed = {
    causal: (i, j) => j <= i,
    padding: (i, j) => j < length,
    window: (i, j) => j <= i && j > i - window,
    full: () => true,
  }[preset];
  return range(n, (i) => range(n, (j) => allowed(i, j)));
}

// The preset, and its parameter, that gives this mask; {preset: "painted"} where none does.
function recognize(mask) {
  const n = mask.length;
  const inner = range(n - 1, (i) => i + 1);
  const candidates = [
    { preset: "causal" }, { preset: "full" },
    ...inner.map((length) => ({ preset: "padding", length })),
    ...inner.map((window) => ({ preset: "window", window })),
  ];
  const wanted = JSON.stringify(mask);
  return candidates.find((one) => JSON.stringify(maskOf(one.preset, n, one)) === wanted) ?? { preset: "painted" };
}

// A weight with two decimals; 1 and 0 only where it rounds to them or is exactly that.
const cellText = (weight) => (weight >= 0.995 ? "1" : weight === 0 ? "0" : weight.toFixed(2));

// The text in a cell: nothing where a masked token has no weight.
const shownOf = (weight, may) => (may || weight >= 0.005 ? cellText(weight) : weight === 0 ? "" : ">0");

// A weight in a sentence: small ones keep two figures.
function inWords(weight) {
  if (weight === 0 || weight >= 0.995) return plain(weight, 4);
  if (weight >= 0.01) return weight.toFixed(2);
  return weight.toPrecision(2).replace("e-", "e−");
}

// "a, b, c and 3 more"
function listed(names, most = 3) {
  const [shown, last] = names.length > most + 1 ? [names.slice(0, most), `${names.length - most} more`]
    : [names.slice(0, -1), names.at(-1)];
  return shown.length ? `${shown.join(", ")} and ${last}` : last;
}

function titleOf({ preset, length, window }) {
  return {
    causal: "Causal mask", full: "No mask", painted: "Painted mask",
    padding: `Padding mask, ${plural(length, "real token")}`, window: `Sliding window, ${plural(window, "token")} wide`,
  }[preset];
}

function verdictOf(names, fill, { cells, largest, query, key }) {
  if (largest === 0 && cells === 0) return "Honest: no token reads a later one.";
  if (largest === 0) return "A later token is allowed, but its weight is 0.";
  const read = `${names[query]} reads ${names[key]}, which`;
  const weight = `with weight ${inWords(largest)}`;
  if (cells > 0) return `Cheating: ${read} comes later, ${weight}.`;
  return `Leaking: with fill ${FILL_NAMES[fill]}, ${names[query]} reads the later ${names[key]}: ${inWords(largest)}.`;
}

// Says what a cell means.
function sentence(i, j, { mask, fill }, { weights, empty }, names) {
  const weight = inWords(weights[i][j]);
  if (empty.includes(i)) {
    return fill === "-inf" ? `Nothing is allowed for ${names[i]}: its weights are all 0.`
      : `Nothing is allowed for ${names[i]}: all scores are ${FILL_NAMES[fill]}, so each weight is ${weight}.`;
  }
  if (!mask[i][j]) {
    return weights[i][j] === 0 ? `${names[i]} may not read ${names[j]}: weight 0.`
      : `${names[i]} may not read ${names[j]}, yet a score of ${FILL_NAMES[fill]} leaves it weight ${weight}.`;
  }
  return `${names[i]} reads ${j === i ? "itself" : names[j]}: weight ${weight}.`
    + (j === i + 1 ? " That is the very token it has to predict." : j > i ? " That token comes later." : "");
}

// Says which outputs a changed token moves.
function movesText(name, n, moved) {
  if (moved.length === n || moved.length === 0) return `Change ${name}: ${moved.length ? "every" : "no"} output moves.`;
  return `Change ${name}: ${moved.length === 1 ? "the output" : "the outputs"} of ${listed(moved)} ${
    moved.length === 1 ? "moves" : "move"}.`;
}

// Every cell on the way, so that a quick drag leaves no gaps.
function between([i0, j0], [i1, j1]) {
  const steps = Math.max(Math.abs(i1 - i0), Math.abs(j1 - j0));
  return range(steps, (step) => {
    const part = (step + 1) / steps;
    return [Math.round(i0 + (i1 - i0) * part), Math.round(j0 + (j1 - j0) * part)];
  });
}

// Presets, two of them with a number. `choose(preset, {parameter: number})`
function makePresets(choose) {
  const button = (preset, label) => h("button", { type: "button", "data-go": preset, "aria-pressed": "false",
    onclick: () => choose(preset) }, label);
  const buttons = { causal: button("causal", "Causal"), full: button("full", "Full"), window: button("window", "Window"),
    padding: button("padding", "Padding") };
  const line = (preset, name, label, short, min) => {
    const input = rangeInput(name, label, { min, step: 1 }, (value) => choose(preset, { [name]: value }));
    const value = h("span", { class: "mp-value aw-numbers", "data-value": name });
    return { name, input, value,
      node: h("div", { class: "mp-slider" }, h("span", { class: "mp-what" }, short, " ", value), input) };
  };
  const lines = { window: line("window", "window", "width of the window", "width", 1),
    padding: line("padding", "length", "real tokens", "tokens", 0) };
  const node = h("div", { class: "mp-presets", role: "group", "aria-label": "Presets" },
    [[buttons.causal, buttons.full], [buttons.window, lines.window.node], [buttons.padding, lines.padding.node]].map(
      (parts) => h("div", { class: "mp-preset" }, parts)));
  function draw(state) {
    for (const [name, one] of Object.entries(buttons)) one.setAttribute("aria-pressed", String(name === state.preset));
    for (const { name, input, value } of Object.values(lines)) {
      Object.assign(input, { max: state.tokens.length, value: state[name] });
      value.textContent = state[name];
    }
  }
  return { node, draw };
}

// The grid of these tokens, and a button under each column that changes its token. `maskNow()` is the present mask,
// `paint(cells, value)` sets cells of it, `look()` draws, `changeToken(t)` chooses a token to change.
function makeGrid(tokens, { maskNow, paint, look, changeToken }) {
  const n = tokens.length, names = disambiguate(tokens);
  let at = [0, 0]; // [row, column] of the one cell that Tab reaches
  let hovered = null; // the cell under the pointer
  let painting = null; // what the pointer paints: {value, last cell, began, and x, y where it came down}

  const label = ({ text, sub, name }) => h("span", { title: name }, text, sub ? h("sub", {}, sub) : null);
  const columns = names.map((name) => h("div", { class: "mp-column", role: "columnheader" }, label(name)));
  const cells = range(n, (i) => range(n, (j) => h("div", {
    class: `aw-heat mp-cell${j > i ? " mp-later" : ""}${j === i + 1 ? " mp-next" : ""}`, role: "gridcell",
    "data-cell": `${i}-${j}`, onfocus: () => lookAt([i, j]), onclick: (event) => clicked(event, [i, j]),
  }, h("span", { class: "mp-text", "aria-hidden": "true" }, h("span", { class: "mp-zero" }), new Text()))));
  const heads = names.map((name) => h("div", { class: "mp-token", role: "rowheader" }, label(name)));
  const outputs = range(n, (i) => h("div", { class: "mp-output", "data-output": i, role: "gridcell" }, h("i")));
  const notes = range(n, (i) => h("span", { class: "mp-note", "data-note": i, "aria-hidden": "true" }));
  const grid = h("div", { class: `mp-grid${n > 6 ? " mp-tight" : ""}${n > 8 ? " mp-tiny" : ""}`, role: "grid", "aria-label": "Mask: rows read columns",
    "aria-multiselectable": "true", style: `--n: ${n}`, onkeydown: move, onpointerdown: press, onpointermove: follow,
    onpointerup: release, onpointercancel: forget, onlostpointercapture: forget,
    onpointerleave: () => painting || lookAt(null) },
  h("div", { class: "mp-line", role: "row" },
    h("div", { class: "mp-corner", role: "columnheader" }, "reads"), columns,
    h("div", { class: "mp-output mp-head", role: "columnheader" }, "output")),
  range(n, (i) => h("div", { class: "mp-line", role: "row" }, heads[i], cells[i], outputs[i], notes[i])));
  const changes = names.map(({ name }, t) => h("button", { type: "button", class: "mp-change", "data-change": t,
    "aria-label": `Change ${name}`, title: `Change ${name}`, onclick: () => changeToken(t) }, "✎"));
  const line = h("div", { class: `mp-line mp-changes${n > 8 ? " mp-tiny" : ""}`, role: "group",
    "aria-label": "Change a token", style: `--n: ${n}` },
  h("div", { class: "mp-corner" }, "change it"), changes, h("div"));

  function lookAt(cell) {
    if (cell && !painting) at = cell;
    hovered = cell;
    look();
  }

  // The pointer: a press and a drag paint every cell they meet with the opposite of what the first one was. A finger
  // paints by tapping, or by dragging that starts sideways: up and down scrolls the page (touch-action).
  const cellUnder = (event) => {
    const found = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-cell]");
    return found && grid.contains(found) ? found.dataset.cell.split("-").map(Number) : null;
  };

  function press(event) {
    const cell = cellUnder(event);
    if (!cell || event.button !== 0 || !event.isPrimary) return;
    painting = { value: !maskNow()[cell[0]][cell[1]], last: cell, began: false, x: event.clientX, y: event.clientY };
    at = cell;
    grid.setPointerCapture(event.pointerId);
    if (event.pointerType !== "touch") begin();
  }

  function begin() {
    if (painting.began) return;
    painting.began = true;
    paint([painting.last], painting.value);
  }

  function follow(event) {
    const cell = cellUnder(event);
    if (!painting) {
      if (event.pointerType === "mouse" && String(cell) !== String(hovered)) lookAt(cell);
      return;
    }
    const { last, began, value, x, y } = painting;
    if (!cell || String(cell) === String(last)) return;
    if (!began && Math.abs(event.clientY - y) >= Math.abs(event.clientX - x)) return forget();
    begin();
    paint(between(last, cell), value);
    hovered = painting.last = cell;
    look();
  }

  function release() {
    if (painting) begin();
    forget();
  }

  function forget() {
    if (!painting) return;
    painting = null;
    look();
  }

  // A screen reader's click comes without a pointer, and with no count of clicks.
  function clicked(event, [i, j]) {
    if (event.detail === 0) paint([[i, j]], !maskNow()[i][j]);
  }

  function move(event) {
    const [i, j] = at, may = maskNow()[i][j];
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      return paint([at], !may);
    }
    const to = gridStep(event, at, n, n);
    if (!to) return;
    at = to;
    hovered = null;
    if (event.shiftKey && event.key.startsWith("Arrow")) paint([at], may);
    cells[at[0]][at[1]].focus();
  }

  // All but the weights, which glide.
  function draw(state, changed, numbers, names) {
    const { mask, fill } = state, { weights, empty, moves } = numbers;
    const [row, column] = hovered ?? at;
    cells.forEach((line, i) => {
      line.forEach((cell, j) => {
        const weight = weights[i][j], may = mask[i][j];
        cell.classList.toggle("mp-masked", !may);
        cell.classList.toggle("mp-peek", may && j > i);
        cell.classList.toggle("mp-seep", !may && weight > 0);
        cell.mp = { may, lost: !may && weight === 0 };
        cell.setAttribute("aria-selected", String(may));
        const said = sentence(i, j, state, numbers, names), shown = shownOf(weight, may);
        // A name must hold what is seen, as a word: “0.00” is not in “0.0000036”.
        const told = !shown || said.split(/ |\.(?!\d)/).includes(shown);
        cell.setAttribute("aria-label", told ? said : `${said} The cell shows ${shown}.`);
        cell.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
      });
      heads[i].classList.toggle("mp-chosen", i === row);
      columns[i].classList.toggle("mp-chosen", i === column);
      const moved = changed !== null && moves[changed][i];
      outputs[i].classList.toggle("mp-moves", moved);
      outputs[i].setAttribute("aria-label", changed === null ? `output of ${names[i]}`
        : `output of ${names[i]}: ${moved ? "moves" : "stays"}`);
      changes[i].setAttribute("aria-pressed", String(i === changed));
      columns[i].classList.toggle("mp-changed", i === changed);
      notes[i].textContent = empty.includes(i) && fill === "-inf" ? "empty row: this token reads nothing" : "";
    });
  }

  // When a cell is masked, the others of its row take up what it had.
  function drawWeights(weights) {
    cells.forEach((line, i) => line.forEach((cell, j) => {
      const weight = weights[i][j], { may, lost } = cell.mp, now = `${weight.toFixed(4)} ${weight === 0} ${may} ${lost}`;
      if (cell.drawn === now) return;
      cell.drawn = now;
      heat(cell, weight);
      const text = lost ? "" : shownOf(weight, may);
      // The zero before the point is hidden where cells are narrow.
      const [zero, rest] = cell.firstChild.childNodes, split = text.startsWith("0.");
      write(zero, split ? "0" : "");
      write(rest, split ? text.slice(1) : text);
    }));
  }
  return { nodes: [grid, line], draw, drawWeights, place: () => hovered ?? at, hovers: () => hovered !== null };
}

export default widget("mask_painter", "Mask to paint",
  ["tokens", "scores", "mask", "preset", "length", "window", "fill", "changed"], (view) => {
  const { root, summary, say, model, read, animate, edit } = view;
  const { tokens: _tokens, scores: _scores, ...start } = read();
  let grid = null, gliding = ""; // the grid, made again only when the tokens change, and where its weights glide

  const choose = (preset, parameter = {}) => {
    const state = { ...read(), ...parameter };
    edit({ preset, ...parameter, mask: maskOf(preset, state.tokens.length, state) });
  };
  const put = (mask) => edit({ mask, ...recognize(mask) });
  const paint = (cells, value) => {
    const { mask } = read();
    if (cells.every(([i, j]) => mask[i][j] === value)) return;
    const painted = mask.map((row) => [...row]);
    for (const [i, j] of cells) painted[i][j] = value;
    put(painted);
  };
  const presets = makePresets(choose);

  // Under the grid: what the marks mean, and what acts on all cells.
  const mark = (kind, text) => h("li", {}, h("i", { class: `mp-mark ${kind}`, "aria-hidden": "true" }), text);
  const ramp = h("span", { class: "aw-ramp mp-ramp", "aria-hidden": "true" },
    range(21, (i) => h("i", { style: `--weight: ${i / 20}` })));
  const legend = h("ul", { class: "mp-legend" }, h("li", {}, "0 ", ramp, " 1"),
    mark("mp-masked", "masked"), mark("mp-peek", "later"), mark("mp-peek mp-answer", "to predict"));
  const each = (f) => put(read().mask.map((row) => row.map(f)));
  const tools = h("div", { class: "aw-row mp-tools" }, button("clear", "Mask all", () => each(() => false)),
    button("flip", "Flip all", () => each((may) => !may)), button("reset", "Start again", () => edit(start)));

  // Beside the grid: the count, the fill, the meter, and the cell looked at.
  const count = h("b", { class: "aw-numbers", "data-value": "count" });
  const title = h("span", { "data-value": "title" });
  const filled = h("select", { "data-go": "fill", onchange: () => edit({ fill: filled.value }) },
    Object.entries(FILL_NAMES).map(([value, text]) => h("option", { value }, text)));
  const level = h("span", { class: "mp-level" });
  const verdict = h("p", { class: "mp-verdict", "data-value": "verdict" });
  const meter = h("div", { class: "mp-meter", role: "group", "aria-label": "Cheating meter" },
    h("p", { class: "mp-heading" }, h("b", {}, "Cheating meter")),
    h("div", { class: "mp-track", "aria-hidden": "true" }, level),
    verdict);
  const reading = h("p", { class: "mp-reading", "data-value": "reading" });
  const board = h("div", { class: "mp-board" });
  root.append(presets.node, h("div", { class: "mp-parts" },
    h("div", { class: "mp-map" }, board),
    h("div", { class: "mp-side" },
      h("p", { class: "mp-count" }, title, " ", count),
      h("label", { class: "mp-fill" }, "masked scores become", filled),
      meter, reading)), h("div", { class: "mp-foot" }, tools, legend), summary);

  const build = rebuilder((tokens) => {
    grid = makeGrid(tokens, { maskNow: () => model.get("mask"), paint, look: draw,
      changeToken: (t) => edit({ changed: model.get("changed") === t ? null : t }) });
    board.replaceChildren(...grid.nodes);
  });
  const motion = animate(({ weights }) => grid.drawWeights(weights), 450);

  function draw() {
    const state = read();
    const { tokens, scores, mask, fill } = state, n = tokens.length;
    if (scores.length !== n || mask.length !== n) return; // halfway through new arrays
    const fresh = build(tokens, tokens);
    const changed = state.changed !== null && state.changed < n ? state.changed : null;
    const numbers = compute(state);
    const { weights, empty, leak, moves } = numbers;
    const names = disambiguate(tokens).map(({ name }) => `“${name}”`);
    grid.draw(state, changed, numbers, names);
    const key = JSON.stringify([weights, mask]);
    if (fresh || key !== gliding) motion.to({ weights }, { jump: fresh });
    gliding = key;
    presets.draw(state);
    filled.value = fill;
    title.textContent = titleOf(state);
    count.textContent = `${numbers.count} of ${n * n} cells allowed`;
    reading.textContent = changed === null || grid.hovers() ? sentence(...grid.place(), state, numbers, names)
      : movesText(names[changed], n, names.filter((_, i) => moves[changed][i]));
    meter.classList.toggle("mp-caught", leak.largest > 0);
    level.style.width = `${100 * leak.largest}%`;
    verdict.textContent = verdictOf(names, fill, leak);
    const blind = listed(empty.map((i) => names[i]));
    const [rows, reads] = empty.length === 1 ? ["row", "reads"] : ["rows", "read"];
    const blank = empty.length === 0 ? "" : fill === "-inf" ? ` Empty ${rows}: ${blind} ${reads} nothing.`
      : ` ${blind}, with nothing allowed, ${reads} every token equally.`;
    say(`${titleOf(state)}: ${count.textContent}.${blank} ${verdict.textContent}`);
  }
  return draw;
});
