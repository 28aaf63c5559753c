// Tables of weights: out of bytes, as colors, and beside the names of tokens; and keys that go through them.

// Number formats of arrays that are sent as bytes -> how to read one number of them.
const READERS = {
  float16: { size: 2, read: (view, at) => halfToNumber(view.getUint16(at, true)) },
  float32: { size: 4, read: (view, at) => view.getFloat32(at, true) },
  uint8: { size: 1, read: (view, at) => view.getUint8(at) },
  int8: { size: 1, read: (view, at) => view.getInt8(at) },
};

// IEEE 754 half precision: 1 bit of sign, 5 of exponent, 10 of fraction. (DataView.getFloat16 is too young to rely on.)
function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = (bits & 0x3ff) / 1024;
  if (exponent === 0) return sign * fraction * 2 ** -14;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction) * 2 ** (exponent - 15);
}

// Rows of numbers out of bytes, from number `start` on, last axis fastest.
// Bytes come as a DataView, in Jupyter and on a static page; plain arrays of bytes are taken too.
function readTable(data, dtype, start, rows, columns) {
  const bytes = ArrayBuffer.isView(data) ? [data.buffer, data.byteOffset, data.byteLength] : [data];
  const view = new DataView(...bytes);
  const { size, read } = READERS[dtype];
  return range(rows, (i) => range(columns, (j) => read(view, (start + i * columns + j) * size)));
}

// A causal map (n, n) out of bytes, from byte `start` on: its lower triangle, times 255.
function readMap(data, start, n) {
  const [bytes] = readTable(data, "uint8", start, 1, (n * (n + 1)) / 2);
  return range(n, (i) => range(n, (j) => (j > i ? 0 : bytes[(i * (i + 1)) / 2 + j] / 255)));
}

// Tokens as they are shown: one that occurs more than once carries its position, and white space is made visible.
// `text` and `sub` are for the eye, `name` has both in one string.
function disambiguate(tokens) {
  const shown = tokens.map((token) => token.replace(/\n/g, "⏎").trim() || (token.includes("\n") ? "⏎" : "␣"));
  return shown.map((text, i) => {
    const sub = shown.indexOf(text) === shown.lastIndexOf(text) ? "" : String(i);
    return { text, sub, name: text + sub.replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]) };
  });
}

// The same as an element; where there is little room, its text is cut short and its position stays.
const tokenNode = ({ text, sub }) =>
  h("span", { class: "aw-token" }, h("span", {}, text), sub ? h("sub", {}, sub) : null);

// "0.62 on “cat”, 0.2 on “sat”, 0.1 on 3 others": the three largest weights that are not below `least`, and the rest.
function readsText(row, names, least) {
  const looked = range(row.length).filter((j) => row[j] > 0).sort((a, b) => row[b] - row[a] || a - b);
  const top = looked.filter((j) => row[j] >= least).slice(0, 3), rest = looked.slice(top.length);
  const left = rest.length === 1 ? "one other" : `${rest.length} others`;
  return [...top.map((j) => `${spoken(row[j])} on “${names[j].name}”`),
    ...(rest.length ? [`${spoken(sum(rest.map((j) => row[j])))} on ${left}`] : [])].join(", ");
}

// Colors a cell (class aw-heat) by its weight.
function heat(cell, weight) {
  cell.style.setProperty("--weight", Math.min(1, Math.max(0, weight)).toFixed(4));
  // Where black on the color is easier to read than white changes at another weight in each theme.
  cell.classList.toggle("aw-deep", weight > 0.645);
  cell.classList.toggle("aw-bright", weight > 0.43);
  cell.classList.toggle("aw-zero", weight === 0);
}

// The scale of these colors, from 0 to 1.
function heatScale() {
  return h("div", { class: "aw-scale", role: "img", "aria-label": "Color scale for weights from 0 to 1" },
    h("span", { class: "aw-ramp" }, ...Array.from({ length: 41 }, (_, i) => h("i", { style: `--weight: ${i / 40}` }))),
    h("span", { class: "aw-ticks" }, ...[0, 0.25, 0.5, 0.75, 1].map((tick) => h("span", {}, String(tick)))));
}

// The same colors for a canvas: 256 pixels, from weight 0 to weight 1. Null before there is a style.
function heatColors(root) {
  const style = getComputedStyle(root), [low, high] = ["--aw-low", "--aw-high"].map((name) => style.getPropertyValue(name));
  if (!low) return null;
  const context = h("canvas", { width: 256, height: 1 }).getContext("2d", { willReadFrequently: true });
  for (let i = 0; i < 256; i++) {
    context.fillStyle = `color-mix(in oklch, ${high} ${(i / 2.55).toFixed(2)}%, ${low})`;
    context.fillRect(i, 0, 1, 1);
  }
  return new Uint32Array(context.getImageData(0, 0, 256, 1).data.buffer);
}

// Calls back when the page turns light or dark, until what it returns is called.
function themed(callback) {
  const observer = new MutationObserver(callback);
  for (const node of [document.documentElement, document.body])
    observer.observe(node, { attributeFilter: ["data-theme", "data-jp-theme-light"] });
  return () => observer.disconnect();
}

// The cell of a grid to which a key leads from cell [i, j], as in a spreadsheet: with Ctrl, to the first or last of all.
function gridStep(event, [i, j], rows, columns) {
  const all = event.ctrlKey || event.metaKey;
  const to = {
    ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    Home: [all ? 0 : i, 0], End: [all ? rows - 1 : i, columns - 1], PageUp: [0, j], PageDown: [rows - 1, j],
  }[event.key];
  if (!to || event.altKey) return null;
  event.preventDefault();
  return [clamp(to[0], 0, rows - 1), clamp(to[1], 0, columns - 1)];
}

// Arrow keys in a group of radio buttons, as browsers do it; JupyterLab keeps them from doing it by themselves.
function stepRadios(event, radios) {
  const at = radios.indexOf(event.target);
  const step = at < 0 ? undefined : keyOf(event, { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 });
  if (!step) return;
  const next = radios[(at + step + radios.length) % radios.length];
  next.focus();
  next.click();
}

// A word, a track with bars, and a number, in a row of a list; `kind` begins their classes.
function wordBar(kind, ...bars) {
  const word = h("span", { class: `${kind}-word` }), number = h("span", { class: `${kind}-number aw-numbers` });
  return { word, number, row: h("li", {}, word, h("span", { class: `${kind}-track` }, ...bars), number) };
}

// Keys and attributes of a wall of maps, a column per layer: its value is a head. `pick(head)` hears where a key leads.
const wallKeys = (layers, heads, current, pick) => ({ tabindex: 0, role: "slider", "data-go": "wall", "aria-label": "Head",
  "aria-valuemin": 0, "aria-valuemax": layers * heads - 1, onkeydown: (event) => {
    const by = keyOf(event, { ArrowRight: heads, ArrowLeft: -heads, ArrowDown: 1, ArrowUp: -1 });
    if (by) pick((current() + by + layers * heads) % (layers * heads));
  } });
const wallAxis = (kind, layers) => h("p", { class: `${kind}-axis`, "aria-hidden": "true" }, h("span", {}, "layer 0"),
  h("span", {}, "one column per layer, one map per head"), h("span", {}, `layer ${layers - 1}`));
