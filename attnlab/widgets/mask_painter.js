// A mask to paint. `compute` gives weights and leaks; `render` draws the grid and listens to pointer and keyboard.

const TRAITS = ["tokens", "scores", "mask", "preset", "length", "window", "fill", "changed"];
const FILLS = { "-inf": -Infinity, "-1e9": -1e9, "-10": -10 };
const FILL_NAMES = { "-inf": "−∞", "-1e9": "−1e9", "-10": "−10" };

// All numbers shown. state: {scores: (n, n), mask: (n, n) booleans, fill}. Rows are queries, columns are keys.
export function compute({ scores, mask, fill = "-inf" }) {
  const n = scores.length;
  const weights = scores.map((row, i) => shares(row.map((score, j) => (mask[i][j] ? score : FILLS[fill]))));
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
    leak: {
      cells: later.filter(({ i, j }) => mask[i][j]).length, // allowed above the diagonal
      of: (n * (n - 1)) / 2,
      largest: most.weight, query: most.i, key: most.j, // the most weight that goes to a later token
      answers: rows.slice(0, -1).filter((i) => mask[i][i + 1] || weights[i][i + 1] > 0), // see their next token
    },
  };
}

// Softmax of one row. Where every score is −∞ nothing is allowed, and every weight is 0.
function shares(row) {
  const highest = Math.max(...row);
  if (highest === -Infinity) return row.map(() => 0);
  const powers = row.map((score) => Math.exp(score - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

// The mask of a preset for n tokens.
function maskOf(preset, n, { length, window }) {
  const allowed = {
    causal: (i, j) => j <= i,
    padding: (i, j) => j < length,
    window: (i, j) => j <= i && j > i - window,
    full: () => true,
  }[preset];
  return Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => allowed(i, j)));
}

// The preset, and its parameter, that gives this mask; {preset: "painted"} where none does.
function recognize(mask) {
  const n = mask.length;
  const inner = Array.from({ length: n - 1 }, (_, i) => i + 1);
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

// What a cell shows: nothing where a masked token has no weight.
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
    padding: `Padding mask, ${length} real token${length === 1 ? "" : "s"}`,
    window: `Sliding window, ${window} token${window === 1 ? "" : "s"} wide`,
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

function render({ model, el }) {
  const { root, summary, say } = frame(el, "mask_painter", "Mask to paint", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const start = read();
  let parts = null; // the cells and labels, made anew only when the tokens change
  let at = [0, 0]; // [row, column] of the one cell that Tab reaches
  let hovered = null; // the cell under the pointer
  let stroke = null; // what the pointer paints: {value, last cell, began, and x, y where it came down}

  const edit = (changes) => {
    change(model, changes);
    draw();
  };
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

  // Presets, two of them with a number.
  const buttons = {};
  const button = (preset, label) => (buttons[preset] = h("button",
    { type: "button", "data-go": preset, "aria-pressed": "false", onclick: () => choose(preset) }, label));
  const slider = (preset, name, label, short, least) => {
    const input = h("input", { type: "range", min: least, step: 1, "data-slider": name, "aria-label": label,
      oninput: () => choose(preset, { [name]: Number(input.value) }) });
    const value = h("span", { class: "mp-value aw-numbers", "data-value": name });
    const line = h("div", { class: "mp-slider" }, h("span", { class: "mp-what" }, short, " ", value), input);
    return { input, value, line };
  };
  const length = slider("padding", "length", "real tokens", "tokens", 0);
  const span = slider("window", "window", "width of the window", "width", 1);
  const presets = h("div", { class: "mp-presets", role: "group", "aria-label": "Presets" },
    h("div", { class: "mp-preset" }, button("causal", "Causal"), button("full", "Full")),
    h("div", { class: "mp-preset" }, button("window", "Window"), span.line),
    h("div", { class: "mp-preset" }, button("padding", "Padding"), length.line));

  // Under the grid: what the marks mean, and what acts on all cells.
  const mark = (kind, text) => h("li", {}, h("i", { class: `mp-mark ${kind}`, "aria-hidden": "true" }), text);
  const ramp = h("span", { class: "aw-ramp mp-ramp", "aria-hidden": "true" },
    Array.from({ length: 21 }, (_, i) => h("i", { style: `--weight: ${i / 20}` })));
  const legend = h("ul", { class: "mp-legend" }, h("li", {}, "0 ", ramp, " 1"),
    mark("mp-masked", "masked"), mark("mp-peek", "later"), mark("mp-peek mp-answer", "to predict"));
  const each = (f) => put(read().mask.map((row) => row.map(f)));
  const tools = h("div", { class: "aw-row mp-tools" },
    h("button", { type: "button", "data-go": "clear", onclick: () => each(() => false) }, "Mask all"),
    h("button", { type: "button", "data-go": "flip", onclick: () => each((may) => !may) }, "Flip all"),
    h("button", { type: "button", "data-go": "reset", onclick: () => {
      const { tokens, scores, ...settings } = start;
      edit(settings);
    } }, "Start again"));

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
  root.append(presets, h("div", { class: "mp-parts" },
    h("div", { class: "mp-map" }, board),
    h("div", { class: "mp-side" },
      h("p", { class: "mp-count" }, title, " ", count),
      h("label", { class: "mp-fill" }, "masked scores become", filled),
      meter, reading)), h("div", { class: "mp-foot" }, tools, legend), summary);

  function build(tokens) {
    const n = tokens.length;
    const names = tellApart(tokens);
    const label = ({ text, sub, name }) => h("span", { title: name }, text, sub ? h("sub", {}, sub) : null);
    const columns = names.map((name) => h("div", { class: "mp-column", role: "columnheader" }, label(name)));
    const cells = tokens.map((_, i) => tokens.map((_, j) => h("div", {
      class: `aw-heat mp-cell${j > i ? " mp-later" : ""}${j === i + 1 ? " mp-next" : ""}`, role: "gridcell",
      "data-cell": `${i}-${j}`, onfocus: () => look([i, j]), onclick: (event) => clicked(event, [i, j]),
    }, h("span", { class: "mp-text", "aria-hidden": "true" }, h("span", { class: "mp-zero" }), new Text()))));
    const heads = names.map((name) => h("div", { class: "mp-token", role: "rowheader" }, label(name)));
    const outputs = tokens.map((_, i) => h("div", { class: "mp-output", "data-output": i, role: "gridcell" }, h("i")));
    const notes = tokens.map((_, i) => h("span", { class: "mp-note", "data-note": i, "aria-hidden": "true" }));
    const grid = h("div", { class: "mp-grid", role: "grid", "aria-label": "Mask: rows read columns",
      "aria-multiselectable": "true", style: `--n: ${n}`, onkeydown: move, onpointerdown: press, onpointermove: drag,
      onpointerup: release, onpointercancel: forget, onlostpointercapture: forget,
      onpointerleave: () => stroke || look(null) },
    h("div", { class: "mp-line", role: "row" },
      h("div", { class: "mp-corner", role: "columnheader" }, "reads"), columns,
      h("div", { class: "mp-output mp-head", role: "columnheader" }, "output")),
    tokens.map((_, i) => h("div", { class: "mp-line", role: "row" }, heads[i], cells[i], outputs[i], notes[i])));
    grid.classList.toggle("mp-tight", n > 6);
    grid.classList.toggle("mp-tiny", n > 8);
    const changes = names.map(({ name }, t) => h("button", { type: "button", class: "mp-change", "data-change": t,
      "aria-label": `Change ${name}`, title: `Change ${name}`,
      onclick: () => edit({ changed: model.get("changed") === t ? null : t }) }, "✎"));
    const line = h("div", { class: "mp-line mp-changes", role: "group", "aria-label": "Change a token", style: `--n: ${n}` },
      h("div", { class: "mp-corner" }, "change it"), changes, h("div"));
    line.classList.toggle("mp-tiny", n > 8);
    board.replaceChildren(grid, line);
    parts = { made: JSON.stringify(tokens), grid, columns, cells, heads, outputs, notes, changes };
    at = [0, 0];
    hovered = stroke = null;
  }

  function look(cell) {
    if (cell && !stroke) at = cell;
    hovered = cell;
    draw();
  }

  // The pointer: a press and a drag paint every cell they meet with the opposite of what the first one was. A finger
  // paints by tapping, or by dragging that starts sideways: up and down scrolls the page (touch-action).
  const cellUnder = (event) => {
    const found = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-cell]");
    return found && parts.grid.contains(found) ? found.dataset.cell.split("-").map(Number) : null;
  };

  function press(event) {
    const cell = cellUnder(event);
    if (!cell || event.button !== 0 || !event.isPrimary) return;
    stroke = { value: !read().mask[cell[0]][cell[1]], last: cell, began: false, x: event.clientX, y: event.clientY };
    at = cell;
    parts.grid.setPointerCapture(event.pointerId);
    if (event.pointerType !== "touch") begin();
  }

  function begin() {
    if (stroke.began) return;
    stroke.began = true;
    paint([stroke.last], stroke.value);
  }

  function drag(event) {
    const cell = cellUnder(event);
    if (!stroke) {
      if (event.pointerType === "mouse" && String(cell) !== String(hovered)) look(cell);
      return;
    }
    if (!cell || String(cell) === String(stroke.last)) return;
    if (!stroke.began && Math.abs(event.clientY - stroke.y) >= Math.abs(event.clientX - stroke.x)) return forget();
    begin();
    paint(between(stroke.last, cell), stroke.value);
    hovered = stroke.last = cell;
    draw();
  }

  function release() {
    if (!stroke) return;
    begin();
    forget();
  }

  function forget() {
    if (!stroke) return;
    stroke = null;
    draw();
  }

  // Every cell on the way, so that a quick drag leaves no gaps.
  function between([i0, j0], [i1, j1]) {
    const steps = Math.max(Math.abs(i1 - i0), Math.abs(j1 - j0));
    return Array.from({ length: steps }, (_, step) => {
      const part = (step + 1) / steps;
      return [Math.round(i0 + (i1 - i0) * part), Math.round(j0 + (j1 - j0) * part)];
    });
  }

  // A screen reader's click comes without a pointer, and with no count of clicks.
  function clicked(event, [i, j]) {
    if (event.detail === 0) paint([[i, j]], !read().mask[i][j]);
  }

  function move(event) {
    const { mask } = read();
    const last = mask.length - 1;
    const [i, j] = at;
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      paint([[i, j]], !mask[i][j]);
      return;
    }
    const all = event.ctrlKey || event.metaKey; // as in a spreadsheet: to the first or the last cell of all
    const to = {
      ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
      Home: [all ? 0 : i, 0], End: [all ? last : i, last], PageUp: [0, j], PageDown: [last, j],
    }[event.key];
    if (!to || event.altKey) return;
    event.preventDefault();
    at = to.map((place) => Math.max(0, Math.min(last, place)));
    hovered = null;
    if (event.shiftKey && event.key.startsWith("Arrow")) paint([at], mask[i][j]);
    parts.cells[at[0]][at[1]].focus();
  }

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

  // Weights glide: when a cell is masked, the others of its row take up what it had.
  const motion = tween(({ weights }) => parts.cells.forEach((line, i) => line.forEach((cell, j) => {
    const weight = weights[i][j], { may, lost } = cell.mp, now = `${weight.toFixed(4)} ${weight === 0} ${may} ${lost}`;
    if (cell.drawn === now) return;
    cell.drawn = now;
    heat(cell, weight);
    const text = lost ? "" : shownOf(weight, may);
    // The zero before the point is hidden where cells are narrow.
    const [zero, rest] = cell.firstChild.childNodes;
    const split = text.startsWith("0.");
    if (zero.textContent !== (split ? "0" : "")) zero.textContent = split ? "0" : "";
    if (rest.data !== (split ? text.slice(1) : text)) rest.data = split ? text.slice(1) : text;
  })), 450);

  function draw() {
    const state = read();
    const { tokens, scores, mask, fill, preset } = state;
    const n = tokens.length;
    if (scores.length !== n || mask.length !== n) return; // halfway through new arrays
    const fresh = parts?.made !== JSON.stringify(tokens);
    if (fresh) build(tokens);
    const changed = state.changed !== null && state.changed < n ? state.changed : null;
    const numbers = compute(state);
    const { weights, empty, leak, moves } = numbers;
    const names = tellApart(tokens).map(({ name }) => `“${name}”`);
    const [row, column] = hovered ?? at;
    parts.cells.forEach((line, i) => {
      const nothing = empty.includes(i);
      line.forEach((cell, j) => {
        const weight = weights[i][j];
        cell.classList.toggle("mp-masked", !mask[i][j]);
        cell.classList.toggle("mp-peek", mask[i][j] && j > i);
        cell.classList.toggle("mp-seep", !mask[i][j] && weight > 0);
        cell.mp = { may: mask[i][j], lost: !mask[i][j] && weight === 0 };
        cell.setAttribute("aria-selected", String(mask[i][j]));
        const said = sentence(i, j, state, numbers, names), shown = shownOf(weight, mask[i][j]);
        // A name must hold what is seen, as a word: “0.00” is not in “0.0000036”.
        const told = !shown || said.split(/ |\.(?!\d)/).includes(shown);
        cell.setAttribute("aria-label", told ? said : `${said} The cell shows ${shown}.`);
        cell.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
      });
      parts.heads[i].classList.toggle("mp-chosen", i === row);
      parts.columns[i].classList.toggle("mp-chosen", i === column);
      const moved = changed !== null && moves[changed][i];
      parts.outputs[i].classList.toggle("mp-moves", moved);
      parts.outputs[i].setAttribute("aria-label", changed === null ? `output of ${names[i]}`
        : `output of ${names[i]}: ${moved ? "moves" : "stays"}`);
      parts.changes[i].setAttribute("aria-pressed", String(i === changed));
      parts.columns[i].classList.toggle("mp-changed", i === changed);
      parts.notes[i].textContent = nothing && fill === "-inf" ? "empty row: this token reads nothing" : "";
    });
    const key = JSON.stringify([weights, mask]);
    if (fresh || key !== parts.key) motion.to({ weights }, { jump: fresh });
    parts.key = key;
    for (const [name, one] of Object.entries(buttons)) one.setAttribute("aria-pressed", String(name === preset));
    for (const [name, { input, value }] of [["length", length], ["window", span]]) {
      input.max = n;
      input.value = state[name];
      value.textContent = state[name];
    }
    filled.value = fill;
    title.textContent = titleOf(state);
    count.textContent = `${numbers.count} of ${n * n} cells allowed`;
    const stirred = changed === null ? [] : names.filter((_, i) => moves[changed][i]);
    reading.textContent = changed === null || hovered ? sentence(row, column, state, numbers, names)
      : `Change ${names[changed]}: ${stirred.length === n ? "every output moves" : stirred.length === 0 ? "no output moves"
        : `${stirred.length === 1 ? "the output" : "the outputs"} of ${listed(stirred)} ${stirred.length === 1 ? "moves" : "move"}`}.`;

    const caught = leak.largest > 0;
    meter.classList.toggle("mp-caught", caught);
    level.style.width = `${100 * leak.largest}%`;
    verdict.textContent = verdictOf(names, fill, leak);
    const blind = listed(empty.map((i) => names[i]));
    const [rows, reads] = empty.length === 1 ? ["row", "reads"] : ["rows", "read"];
    const blank = empty.length === 0 ? "" : fill === "-inf" ? ` Empty ${rows}: ${blind} ${reads} nothing.`
      : ` ${blind}, with nothing allowed, ${reads} every token equally.`;
    say(`${titleOf(state)}: ${count.textContent}.${blank} ${verdict.textContent}`);
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  return () => {
    stop();
    motion.stop();
    el.replaceChildren();
  };
}

export default { render };
