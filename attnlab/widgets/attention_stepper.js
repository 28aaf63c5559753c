// Attention for one query, stage by stage: vectors are bars, and the output is a point among the values.
// `compute` holds the arithmetic, `scene` turns a state into lengths and places, and `render` draws these and listens.

const STAGES = ["scores", "scaled", "exponentials", "weights", "output"];
const TABS = ["q·k", "÷√d", "eˣ", "weights", "output"];
const LARGEST = 1e6; // entries of Q, K and V; their products stay far from overflow
const TRAITS = ["Q", "K", "V", "tokens", "query", "stage"];

// All numbers shown, for every query. Q: (n_q, d_k), K: (n_k, d_k), V: (n_k, d_v) as rows of numbers.
function compute({ Q, K, V }) {
  const root = Math.sqrt(Q[0].length);
  const scores = Q.map((q) => K.map((k) => addUp(q.map((x, i) => x * k[i]))));
  const scaled = scores.map((row) => row.map((score) => score / root));
  const maxima = scaled.map((row) => Math.max(...row));
  const exponentials = scaled.map((row, i) => row.map((x) => Math.exp(x - maxima[i])));
  const totals = exponentials.map(addUp);
  const weights = exponentials.map((row, i) => row.map((e) => e / totals[i]));
  const output = weights.map((row) => V[0].map((_, c) => addUp(row.map((w, j) => w * V[j][c]))));
  return { root, scores, scaled, maxima, exponentials, totals, weights, output, hull: V[0].length === 2 ? hull(V) : [] };
}

function addUp(numbers) {
  return numbers.reduce((total, x) => total + x, 0);
}

// Which points of the plane are corners of the smallest convex shape that holds them all, counterclockwise.
function hull(points) {
  const order = points.map((_, i) => i).sort((i, j) => points[i][0] - points[j][0] || points[i][1] - points[j][1]);
  const turn = (o, a, b) => (points[a][0] - points[o][0]) * (points[b][1] - points[o][1])
    - (points[a][1] - points[o][1]) * (points[b][0] - points[o][0]);
  const half = (path) => {
    const kept = [];
    for (const i of path) {
      while (kept.length > 1 && turn(kept.at(-2), kept.at(-1), i) <= 0) kept.pop();
      kept.push(i);
    }
    return kept.slice(0, -1);
  };
  return points.length === 1 ? [0] : [...half(order), ...half([...order].reverse())];
}

// Three decimals, fewer when fewer say it exactly: 1, 0.5, 0.707.
function brief(x, decimals = 3) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e5 || size < 0.5 * 10 ** -decimals) return x.toExponential(1).replace(/-/g, "−").replace("+", "");
  const digits = Math.max(0, Math.min(decimals, size >= 1000 ? 1 : size >= 100 ? 2 : 3));
  const text = x.toFixed(digits);
  const exact = Math.abs(Number(text) - x) < 1e-9 * Math.max(1, size);
  return (exact ? String(Number(text)) : text).replace(/-/g, "−");
}

// A number inside a product or a difference: negative ones are put in brackets.
function inner(x) {
  return x < 0 ? `(${brief(x)})` : brief(x);
}

function power(exponent) {
  return ["e", h("sup", {}, exponent)];
}

// The sum behind number `j` of a stage, as text and elements.
function sumBehind(stage, j, { Q, K, V, query: i, n }) {
  const products = (a, b) => a.map((x, t) => `${inner(x)}·${inner(b[t])}`).join(" + ");
  const number = (name) => brief(n[name][i][j]);
  switch (stage) {
    case "scores":
      return [`q${i + 1} · k${j + 1} = ${products(Q[i], K[j])} = ${number("scores")}`];
    case "scaled":
      return [`${number("scores")} / √${Q[0].length} = ${number("scores")} / ${brief(n.root)} = ${number("scaled")}`];
    case "exponentials":
      return [power(`${number("scaled")} − ${inner(n.maxima[i])}`), " = ",
        power(brief(n.scaled[i][j] - n.maxima[i])), ` = ${number("exponentials")}`].flat();
    case "weights":
      return [`${number("exponentials")} / (${n.exponentials[i].map((x) => brief(x)).join(" + ")}) = ${number("weights")}`];
    default:
      return [`column ${j + 1} of V: ${products(n.weights[i], V.map((v) => v[j]))} = ${number("output")}`];
  }
}

// What a stage does, in one sentence; shown until a number is opened.
function explanation(stage, { Q, query: i, n }) {
  return {
    scores: `Query ${i + 1} meets each key: multiply bar by bar, and add. Press a number to see its sum.`,
    scaled: `Each score is divided by √${Q[0].length} = ${brief(n.root)}, the root of a key's width.`,
    exponentials: `The largest, ${brief(n.maxima[i])}, is subtracted first, so that nothing overflows.`,
    weights: `Each is divided by their total, ${brief(n.totals[i])}. Weights add up to 1.`,
    output: "Each value times its weight, stacked. Drag the query, a key, a value.",
  }[stage];
}

function keyName(tokens, j) {
  return `k${j + 1}${tokens[j] ? ` ${tokens[j]}` : ""}`;
}

function summaryOf({ tokens, stage, query: i, n }) {
  const name = STAGES[stage];
  const where = `Stage ${stage + 1} of 5, ${name}, for q${i + 1}`;
  const row = n[name][i].map((x) => brief(x));
  const best = n.weights[i].indexOf(Math.max(...n.weights[i]));
  const verdict = stage > 2 ? ` Largest weight: ${keyName(tokens, best)}, ${brief(n.weights[i][best])}.` : "";
  if (name === "output") return `${where}: (${row.join(", ")}).${verdict}`;
  return `${where}: ${row.map((x, j) => `${keyName(tokens, j)} ${x}`).join(", ")}.${verdict}`;
}

// The first of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, ... that is not below `size`.
function roundUp(size) {
  for (let power = 10 ** Math.floor(Math.log10(Math.max(size, 0.5))); ; power *= 10)
    for (const step of [1, 1.5, 2, 3, 4, 6, 8]) if (size <= step * power * (1 + 1e-9)) return step * power;
}

// How finely something is dragged at this scale: 0.05 from 1 to 10.
const fineness = (extent) => 10 ** Math.floor(Math.log10(extent) + 1e-9) / 20;
// Sets an attribute that is drawn, where it is not so already: in a frame few are new.
function keep(node, name, value) {
  const kept = (node.kept ??= {});
  if (kept[name] !== value) node.setAttribute(name, (kept[name] = value));
}

const biggest = (...tables) => Math.max(0, ...tables.flat(2).map(Math.abs));
const below = (...tables) => tables.flat(2).some((x) => x < 0);

// How large things are drawn, which stays while something is dragged.
function scales({ Q, K, V, query }) {
  const flat = (c) => [0, ...V.map((v) => v[c])];
  const ends = V[0].length === 2 ? [0, 1].map((c) => [Math.min(...flat(c)), Math.max(...flat(c))]) : [[0, 1], [0, 1]];
  return {
    keys: roundUp(1.25 * biggest(Q[query], K)), keysDown: below(Q[query], K) ? 0.5 : 0.12,
    values: roundUp(biggest(V)), valuesDown: below(V) ? 0.5 : 0.12,
    from: ends.map(([least]) => least), span: roundUp(Math.max(...ends.map(([least, most]) => most - least))),
  };
}

// What is drawn, as numbers alone, so that it can glide from one state to another: for each key the pieces of its bar in
// the lane, where the lane has its zero, how far weights have come, the stacked values, and the vectors themselves.
function scene({ Q, K, V, query, stage, n }, scale) {
  const q = Q[query], weights = n.weights[query];
  const row = n[STAGES[Math.min(stage, 3)]][query];
  const walks = K.map((k) => {
    let at = 0;
    return q.map((x, t) => [at, (at += x * k[t])]);
  });
  const lanes = stage === 0 ? walks : row.map((x) => q.map(() => [0, x]));
  const low = stage < 2 ? Math.min(0, ...walks.flat(2)) : 0;
  const high = stage < 2 ? Math.max(0, ...walks.flat(2)) : 1;
  const poured = stage === 4 ? weights : weights.map(() => 1);
  const stacks = V[0].map((_, c) => {
    const top = { up: 0, down: 0 };
    return V.map((v, j) => {
      const side = v[c] < 0 ? "down" : "up";
      return [top[side], (top[side] += weights[j] * v[c])];
    });
  });
  return { q, k: K, v: V, lanes, row, low, reach: Math.max(high - low, 1e-9), solid: stage ? 1 : 0, heat: stage > 2 ? 1 : 0,
    weights, poured, stacks, output: n.output[query], flow: stage === 4 ? 1 : 0, ...scale };
}

// Where things are, in units of the drawing: on a wide page planes are beside the flow, on a phone below it.
function layout(narrow, rows, wide, high) {
  const planes = (wide === 2) + (high === 2);
  const x = narrow
    ? { pair: [36, 104], lane: [116, 190], number: [192, 242], value: [248, 312], band: 326 }
    : planes ? { pair: [56, 158], lane: [176, 300], number: [304, 364], value: [374, 462], band: 488 }
      : { pair: [64, 210], lane: [232, 440], number: [448, 512], value: [526, 678], band: 708 };
  const top = narrow ? 50 : 64, foot = narrow ? 64 : 88;
  const each = narrow ? (rows > 3 ? 37 : 46) : rows > 3 ? 52 : 72;
  const flow = top + rows * each + foot;
  const side = narrow ? (planes === 2 ? 160 : 200) : 200;
  const height = narrow ? flow + (planes ? side + 8 : 0) : Math.max(flow, planes * side + (planes - 1) * 8);
  const corner = (at) => (narrow ? [planes === 2 ? at * 168 : 64, flow + 8] : [518, at * (side + 8)]);
  return { width: narrow ? 330 : 720, height, x, top, each, foot: flow - foot, flow, side, narrow,
    keyPlane: wide === 2 ? corner(0) : null, valuePlane: high === 2 ? corner(wide === 2 ? 1 : 0) : null };
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "attention_stepper", "Attention for one query, step by step", model);
  let parts = null; // the elements, made anew only when a size, a name or the room changes
  let opened = null; // the number whose sum is shown: {stage, j}
  let held = null; // scales while something is dragged
  let narrow = false;
  const motion = tween((now) => parts?.draw(now), 600);

  const read = () => {
    const state = {};
    for (const name of TRAITS) state[name] = model.get(name);
    const { Q, K, V } = state;
    if (Q[0].length !== K[0].length || K.length !== V.length) return null; // halfway through new arrays
    state.query = Math.min(state.query, Q.length - 1);
    state.tokens = state.tokens?.length === K.length ? state.tokens : [];
    state.n = compute(state);
    return state;
  };

  const go = (stage) => change(model, { stage });
  const limit = (x) => Math.min(LARGEST, Math.max(-LARGEST, Number(x.toPrecision(12)))) + 0;
  const put = (name, i, vector) => change(model, { [name]: model.get(name).map((row, j) => (i === j ? vector : row)) });
  const entry = (name, i, c, value) => put(name, i, model.get(name)[i].map((x, t) => (t === c ? limit(value) : x)));

  // A part that is dragged: `move([x, y])` hears where the pointer is, in units of the drawing.
  function draggable(node, move) {
    node.classList.add("st-drag");
    const where = (event) => {
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(parts.svg.getScreenCTM().inverse());
      return [x, y];
    };
    node.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      if (node.tabIndex >= 0) node.focus({ preventScroll: true });
      node.setPointerCapture(event.pointerId);
      held = scales(read());
      move(where(event), true);
    });
    node.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // or the page scrolls
    node.addEventListener("pointermove", (event) => node.hasPointerCapture(event.pointerId) && move(where(event)));
    node.addEventListener("lostpointercapture", () => {
      held = null;
      paint();
    });
    return node;
  }

  // One vector as bars. It is a slider: up and down change an entry, left and right choose which.
  function vector(name, letter, i, width, [x0, x1]) {
    const slot = (x1 - x0) / width, bar = Math.min(24, slot * (letter === "v" ? 0.62 : 0.34));
    const row = () => (name === "Q" ? model.get("query") : i); // the one query that is shown is any of Q
    const at = (c) => x0 + slot * (c + 0.5) + bar * { q: -0.55, k: 0.55, v: 0 }[letter];
    let chosen = 0, grab = null; // the entry that keys change, and what is held of it
    const rects = (kind) => Array.from({ length: width }, (_, c) => s("rect", { class: `st-bar ${kind}`, width: bar,
      x: at(c) - bar / 2 }));
    const ghosts = rects(`st-ghost st-of-${letter}`), bars = rects(`st-of-${letter}`);
    const twins = letter === "k" ? Array.from({ length: width }, (_, c) => s("rect", { class: "st-bar st-of-q st-twin", width: bar,
      x: x0 + slot * (c + 0.5) - bar * 1.05 })) : [];
    const texts = width <= 3 ? bars.map((_, c) => s("text", { class: `st-entry st-of-${letter}`, x: at(c),
      "text-anchor": "middle" })) : [];
    const line = s("line", { class: "st-zero", x1: x0, x2: x1 });
    const hit = s("rect", { class: "st-hit", x: x0 - 2, width: x1 - x0 + 4 });
    let unit = 1, zero = 0; // as last drawn, for the pointer
    const node = s("g", { class: "st-vector", role: "slider", tabindex: "0", "data-vector": `${letter}${name === "Q" ? "" : i}`,
      "aria-orientation": "vertical",
      onkeydown: (event) => {
        const { key, shiftKey, ctrlKey, altKey, metaKey } = event;
        const turn = { ArrowLeft: -1, ArrowRight: 1 }[key], step = { ArrowUp: 0.1, ArrowDown: -0.1 }[key];
        if (ctrlKey || altKey || metaKey || (!turn && !step)) return;
        event.preventDefault();
        if (turn) {
          chosen = (chosen + turn + width) % width;
          paint();
        } else entry(name, row(), chosen, model.get(name)[row()][chosen] + step * (shiftKey ? 10 : 1));
      } }, hit, line, ...ghosts, ...twins, ...bars, ...texts);
    draggable(node, ([x, y], first) => {
      if (first) {
        chosen = Math.max(0, Math.min(width - 1, Math.floor((x - x0) / slot)));
        grab = { y, value: model.get(name)[row()][chosen] };
        return paint();
      }
      const extent = held[name === "V" ? "values" : "keys"], snap = fineness(extent);
      const value = Math.max(-extent, Math.min(extent, grab.value + (grab.y - y) / unit));
      entry(name, row(), chosen, Math.round(value / snap) * snap);
    });
    const place = (rect, from, to) => {
      keep(rect, "y", (zero - Math.max(from, to) * unit).toFixed(2));
      keep(rect, "height", Math.max(Math.abs(to - from) * unit, 0).toFixed(2));
    };
    // numbers; [y0, y1] of its strip; size of one unit of the strip; share below zero; full: what is drawn as an outline
    const draw = (numbers, [y0, y1], extent, down, { full, meets } = {}) => {
      const room = y1 - y0 - (texts.length ? 12 : 2);
      unit = (room * (1 - down)) / extent;
      zero = y1 - down * room;
      keep(line, "y1", zero);
      keep(line, "y2", zero);
      keep(hit, "y", y0);
      keep(hit, "height", y1 - y0);
      numbers.forEach((x, c) => {
        place(bars[c], 0, x);
        place(ghosts[c], 0, full ? full[c] : 0);
        if (twins.length) place(twins[c], 0, meets[c]);
        if (!texts.length) return;
        const shown = full ? full[c] : x;
        keep(texts[c], "y", (zero - Math.max(0, shown) * unit - 3).toFixed(2));
        const text = brief(shown, 2);
        if (texts[c].textContent !== text) texts[c].textContent = text;
      });
    };
    const tell = (numbers) => {
      node.setAttribute("aria-label", `${letter}${row() + 1}, entry ${chosen + 1} of ${width}`);
      node.setAttribute("aria-valuenow", numbers[chosen]);
      node.setAttribute("aria-valuemin", -LARGEST);
      node.setAttribute("aria-valuemax", LARGEST);
      node.setAttribute("aria-valuetext", `${brief(numbers[chosen])} of (${numbers.map((x) => brief(x)).join(", ")})`);
      bars.forEach((one, c) => one.classList.toggle("st-chosen", c === chosen));
    };
    return { node, draw, tell };
  }

  // A number that opens to its sum.
  function pressable(place, j, [x0, x1], [y0, y1]) {
    const text = s("text", { x: (x0 + x1) / 2, y: (y0 + y1) / 2 + 5, "text-anchor": "middle" });
    const stage = () => (place === "output" ? "output" : STAGES[Math.min(model.get("stage"), 3)]);
    const press = () => {
      opened = opened?.place === place && opened.j === j ? null : { place, j };
      paint();
    };
    const node = s("g", { class: `st-number st-number-${place}`, role: "button", tabindex: "0", "data-cell": `${place}-${j}`,
      onclick: press, onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        press();
      } }, s("rect", { class: "st-hit", x: x0, y: y0, width: x1 - x0, height: y1 - y0, rx: 5 }), text);
    const draw = (x) => {
      const now = brief(x);
      if (text.textContent !== now) text.textContent = now;
    };
    const tell = (name, value, shown) => {
      node.setAttribute("aria-label", `${name}, ${place === "output" ? "output" : stage()}: ${shown ? brief(value) : "later"}`);
      node.setAttribute("aria-pressed", String(opened?.place === place && opened.j === j));
      node.setAttribute("tabindex", shown ? "0" : "-1");
      node.setAttribute("aria-hidden", String(!shown));
    };
    return { node, draw, tell };
  }

  // A square of the plane with its axes; `to` turns numbers into places.
  function plane([x0, y0], side, title) {
    const axes = [s("line", { class: "st-axis" }), s("line", { class: "st-axis" })];
    const node = s("g", { class: "st-plane" },
      s("rect", { class: "st-paper", x: x0, y: y0, width: side, height: side, rx: 6 }),
      ...axes, s("text", { class: "st-title", x: x0 + 8, y: y0 + 16 }, title));
    const map = { to: null, back: null };
    const draw = (from, span) => {
      const unit = (side - 52) / span, left = x0 + 26, base = y0 + side - 20;
      map.to = ([x, y]) => [left + (x - from[0]) * unit, base - (y - from[1]) * unit];
      map.back = ([x, y]) => [from[0] + (x - left) / unit, from[1] + (base - y) / unit];
      const [ox, oy] = map.to([0, 0]);
      const set = (line, numbers) => ["x1", "y1", "x2", "y2"].forEach((name, i) => keep(line, name, numbers[i]));
      set(axes[0], [x0 + 4, oy, x0 + side - 4, oy]);
      set(axes[1], [ox, y0 + 22, ox, y0 + side - 4]);
    };
    return { node, draw, map };
  }

  // A point of a plane with its name, to be dragged. (The keyboard reaches its bars.)
  function dot(letter, name, move) {
    const mark = s("g", { class: `st-dot st-of-${letter}` }, s("circle", { r: 14, class: "st-hit" }), s("circle", { r: 6 }),
      s("text", { x: 9, y: -7 }, name));
    let at = [0, 0], off = [0, 0];
    draggable(mark, ([x, y], first) => {
      if (first) off = [x - at[0], y - at[1]];
      else move([x - off[0], y - off[1]]);
    });
    const draw = ([x, y]) => {
      at = [x, y];
      keep(mark, "transform", `translate(${x.toFixed(2)} ${y.toFixed(2)})`);
    };
    return { node: mark, draw };
  }

  function build({ Q, K, V, tokens }) {
    const [rows, wide, high] = [K.length, K[0].length, V[0].length];
    const at = layout(narrow, rows, wide, high);
    const { x, top, each } = at;
    const strip = (j) => [top + j * each + 3, top + (j + 1) * each - 5];
    const center = (j) => (strip(j)[0] + strip(j)[1]) / 2;
    const named = (letter, i) => (letter === "q" && Q.length !== K.length ? "" : tokens[i] ?? "");
    const short = (text) => (text.length > (narrow ? 4 : 8) ? `${text.slice(0, narrow ? 3 : 7)}…` : text);
    const label = (letter, i, y) => s("g", { class: `st-name st-of-${letter}`, "aria-hidden": "true" },
      s("text", { x: 0, y: tokens.length ? y - 2 : y + 5 }, `${letter}${i + 1}`),
      s("text", { x: 0, y: y + 13, class: "st-token" }, short(named(letter, i))));

    const names = K.map((_, j) => label("k", j, center(j)));
    const q = vector("Q", "q", 0, wide, x.pair);
    const k = K.map((_, j) => vector("K", "k", j, wide, x.pair));
    const v = V.map((_, j) => vector("V", "v", j, high, x.value));
    const queryName = label("q", 0, top / 2);
    const slot = (x.pair[1] - x.pair[0]) / wide;
    // The query comes down to every key.
    const drops = Array.from({ length: wide }, (_, t) => s("line", { class: "st-drop", y1: top - 8, y2: at.foot - 6,
      x1: x.pair[0] + slot * (t + 0.5) - Math.min(24, slot * 0.34) * 0.55,
      x2: x.pair[0] + slot * (t + 0.5) - Math.min(24, slot * 0.34) * 0.55 }));

    const thick = Math.min(26, each - 16);
    const pieces = K.map(() => Array.from({ length: wide }, () => s("rect", { class: "st-piece" })));
    const zeros = K.map((_, j) => s("line", { class: "st-zero", y1: strip(j)[0] + 2, y2: strip(j)[1] - 2 }));
    const numbers = K.map((_, j) => pressable("key", j, x.number, [center(j) - 14, center(j) + 14]));
    const flows = K.map(() => s("path", { class: "st-flow" }));
    const head = s("text", { class: "st-head", x: (x.lane[0] + x.lane[1]) / 2, y: top - 8, "text-anchor": "middle" });
    const valueHead = s("text", { class: "st-head st-of-v", x: (x.value[0] + x.value[1]) / 2, y: top - 8,
      "text-anchor": "middle" }, narrow ? "values" : "values v");

    // The output: values stacked, and their sums as numbers.
    const foot = [at.foot + 6, at.flow - 6];
    const vslot = (x.value[1] - x.value[0]) / high, vbar = Math.min(24, vslot * 0.62);
    const stack = V[0].map((_, c) => V.map(() => s("rect", { class: "st-bar st-of-v st-stack", width: vbar,
      x: x.value[0] + vslot * (c + 0.5) - vbar / 2 })));
    const nets = V[0].map((_, c) => s("line", { class: "st-net", x1: x.value[0] + vslot * (c + 0.5) - vbar / 2 - 3,
      x2: x.value[0] + vslot * (c + 0.5) + vbar / 2 + 3 }));
    const across = Math.min(high, 3), cell = (x.number[1] - x.lane[0]) / across;
    const lines = Math.ceil(high / 3);
    const outputs = V[0].map((_, c) => {
      const y = (foot[0] + foot[1]) / 2 + (Math.floor(c / 3) - (lines - 1) / 2) * 26;
      return pressable("output", c, [x.lane[0] + (c % 3) * cell, x.lane[0] + (c % 3 + 1) * cell], [y - 13, y + 13]);
    });
    const outName = s("text", { class: "st-head st-of-v st-big", x: 0, y: (foot[0] + foot[1]) / 2 + 5 }, "output");
    const footer = s("line", { class: "st-sum", x1: 0, x2: x.value[1], y1: at.foot, y2: at.foot });
    const result = s("g", { class: "st-result" }, outName, ...outputs.map(({ node }) => node),
      s("g", { "aria-hidden": "true" }, ...stack.flat(), ...nets));

    // Two planes: queries with keys, and values with the output among them.
    const paper = { keys: null, values: null };
    const inPlane = [];
    if (at.keyPlane) {
      const map = plane(at.keyPlane, at.side, narrow ? "q and k" : "query and keys");
      const snap = (point) => map.map.back(point).map((u) =>
        limit(Math.round(Math.max(-held.keys, Math.min(held.keys, u)) / fineness(held.keys)) * fineness(held.keys)));
      const shaft = s("line", { class: "st-shaft" });
      const keys = K.map((_, j) => dot("k", `k${j + 1}`, (point) => put("K", j, snap(point))));
      const tip = dot("q", "q", (point) => put("Q", model.get("query"), snap(point)));
      for (const [name, value] of Object.entries({ tabindex: "0", role: "application",
        "aria-roledescription": "movable point", "data-tip": "q" })) keep(tip.node, name, value);
      tip.node.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        const i = model.get("query"), size = event.shiftKey ? 1 : 0.1;
        put("Q", i, model.get("Q")[i].map((u, c) => limit(u + size * step[c])));
      });
      paper.keys = { map, shaft, keys, tip };
      inPlane.push(map.node, shaft, ...keys.map(({ node }) => node), tip.node);
    }
    if (at.valuePlane) {
      const map = plane(at.valuePlane, at.side, narrow ? "values, output" : "values and output");
      const shape = s("polygon", { class: "st-hull" });
      const pulls = V.map(() => s("line", { class: "st-pull" }));
      const dots = V.map((_, j) => dot("v", `v${j + 1}`, (point) => put("V", j, map.map.back(point).map((u) =>
        limit(Math.round(u / fineness(held.span)) * fineness(held.span))))));
      const out = s("g", { class: "st-dot st-out" }, s("circle", { r: 8 }), s("circle", { r: 3, class: "st-core" }));
      paper.values = { map, shape, pulls, dots, out };
      inPlane.push(map.node, shape, ...pulls, ...dots.map(({ node }) => node), out);
    }

    const svg = s("svg", { viewBox: `0 0 ${at.width} ${at.height}`, class: "st-picture", role: "group",
      "aria-label": "Vectors as bars, one row per key" },
    s("g", { "aria-hidden": "true" }, ...drops, queryName, ...names, head, valueHead, footer, ...flows,
      ...pieces.flat(), ...zeros),
    q.node, ...k.map(({ node }) => node), ...numbers.map(({ node }) => node), ...v.map(({ node }) => node), result,
    ...inPlane);

    const [laneLeft, laneRight] = x.lane;
    const draw = (d) => {
      q.draw(d.q, [4, top - 8], d.keys, d.keysDown);
      k.forEach((one, j) => one.draw(d.k[j], strip(j), d.keys, d.keysDown, { meets: d.q }));
      v.forEach((one, j) => one.draw(d.v[j].map((value) => value * d.poured[j]), strip(j), d.values, d.valuesDown,
        { full: d.v[j] }));
      const unit = (laneRight - laneLeft) / d.reach, zero = laneLeft - d.low * unit;
      pieces.forEach((row, j) => {
        keep(zeros[j], "x1", zero);
        keep(zeros[j], "x2", zero);
        const each = (thick / wide) * (1 - d.solid) + thick * d.solid;
        row.forEach((piece, t) => {
          const [from, to] = d.lanes[j][t];
          keep(piece, "x", (zero + Math.min(from, to) * unit).toFixed(2));
          keep(piece, "width", Math.max(Math.abs(to - from) * unit, 0.01).toFixed(2));
          keep(piece, "y", (center(j) - thick / 2 + t * (thick / wide) * (1 - d.solid)).toFixed(2));
          keep(piece, "height", each.toFixed(2));
          keep(piece, "style", `--weight: ${d.weights[j].toFixed(4)}; --heat: ${(100 * d.heat).toFixed(1)}%`);
        });
        numbers[j].draw(d.row[j]);
        const y = center(j), end = (foot[0] + foot[1]) / 2, w = d.weights[j] * d.flow;
        keep(flows[j], "d", `M${x.value[1]} ${y} C${x.band + 10} ${y} ${x.band + 10} ${end} ${x.value[1]} ${end}`);
        keep(flows[j], "stroke-width", (w * 14).toFixed(2));
      });
      const room = foot[1] - foot[0] - 4, down = d.valuesDown;
      const size = (room * (1 - down)) / d.values, base = foot[1] - down * room;
      stack.forEach((column, c) => {
        column.forEach((piece, j) => {
          const [from, to] = d.stacks[c][j];
          keep(piece, "y", (base - Math.max(from, to) * size).toFixed(2));
          keep(piece, "height", (Math.abs(to - from) * size).toFixed(2));
        });
        keep(nets[c], "y1", (base - d.output[c] * size).toFixed(2));
        keep(nets[c], "y2", (base - d.output[c] * size).toFixed(2));
        outputs[c].draw(d.output[c]);
      });
      keep(result, "opacity", d.flow.toFixed(3));
      if (paper.keys) {
        const { map, shaft, keys, tip } = paper.keys;
        map.draw([-d.keys, -d.keys], 2 * d.keys);
        const [a, b] = [map.map.to([0, 0]), map.map.to(d.q)];
        ["x1", "y1", "x2", "y2"].forEach((name, i) => keep(shaft, name, [...a, ...b][i].toFixed(2)));
        keys.forEach((one, j) => one.draw(map.map.to(d.k[j])));
        tip.draw(b);
      }
      if (paper.values) {
        const { map, shape, pulls, dots, out } = paper.values;
        map.draw(d.from, d.span);
        const places = d.v.map(map.map.to), [ox, oy] = map.map.to(d.output);
        keep(shape, "points", parts.hull.map((j) => places[j].map((u) => u.toFixed(2)).join(",")).join(" "));
        dots.forEach((one, j) => {
          one.draw(places[j]);
          ["x1", "y1", "x2", "y2"].forEach((name, i) =>
            keep(pulls[j], name, [...places[j], ox, oy][i].toFixed(2)));
          keep(pulls[j], "stroke-width", (10 * d.weights[j] * d.flow).toFixed(2));
        });
        keep(out, "transform", `translate(${ox.toFixed(2)} ${oy.toFixed(2)})`);
        keep(out, "opacity", d.flow.toFixed(3));
      }
    };

    const queries = Q.map((_, i) => h("button", { type: "button", "data-query": i, onclick: () =>
      change(model, { query: i }) }, `q${i + 1}`, named("q", i) && Q.length < 5 ? h("span", {}, ` ${named("q", i)}`) : null));
    const tabs = STAGES.map((stage, i) => h("button", { type: "button", "data-stage-tab": stage, onclick: () => go(i),
      "aria-label": `${TABS[i].replace("d", wide)}: stage ${i + 1}, ${stage}` }, TABS[i].replace("d", wide)));
    const back = h("button", { type: "button", "data-go": "back", onclick: () =>
      model.get("stage") > 0 && go(model.get("stage") - 1) }, "Back");
    const next = h("button", { type: "button", "data-go": "next", class: "st-next", onclick: () =>
      go((model.get("stage") + 1) % STAGES.length) }, "Next");
    const reset = h("button", { type: "button", "data-go": "reset", title: "The first numbers again", onclick: () => {
      opened = null;
      change(model, structuredClone(model.get("start")));
    } }, "Reset");
    const why = h("p", { class: "st-why aw-numbers" });
    const focused = root.contains(document.activeElement);
    root.replaceChildren(
      h("div", { class: "st-controls" },
        h("div", { class: "st-group", role: "group", "aria-label": "Query" }, ...queries),
        h("div", { class: "st-group st-steps" }, back, next, reset)),
      h("div", { class: "st-tabs", role: "group", "aria-label": "Stages" }, ...tabs),
      svg, why, summary);
    if (focused && !root.contains(document.activeElement)) next.focus();
    return { svg, draw, q, k, v, numbers, outputs, result, queries, tabs, back, next, why, head, queryName, paper, hull: [] };
  }

  function paint() {
    const state = read();
    if (!state) return;
    const { Q, K, V, tokens, query, stage, n } = state;
    const made = JSON.stringify([Q.length, K.length, K[0].length, V[0].length, tokens, narrow]);
    let fresh = false;
    if (parts?.made !== made) {
      opened = null;
      motion.stop();
      parts = { ...build(state), made };
      fresh = true;
    }
    parts.hull = n.hull;
    motion.to(scene(state, held ?? scales(state)), { jump: fresh || held !== null });

    const named = Q.length === K.length ? tokens[query] ?? "" : "";
    const [title, token] = parts.queryName.children;
    title.textContent = `q${query + 1}`;
    token.textContent = named.length > (narrow ? 4 : 8) ? `${named.slice(0, narrow ? 3 : 7)}…` : named;
    parts.head.textContent = ["q · k", `q · k ÷ √${K[0].length}`, "exponentials", "weights", "weights"][stage];
    parts.queries.forEach((button, i) => button.setAttribute("aria-pressed", String(i === query)));
    parts.tabs.forEach((tab, i) => {
      tab.classList.toggle("st-past", i < stage);
      tab.toggleAttribute("aria-current", false);
      if (i === stage) tab.setAttribute("aria-current", "step");
    });
    parts.back.setAttribute("aria-disabled", String(stage === 0));
    const last = stage === STAGES.length - 1;
    if (parts.next.textContent !== (last ? "Replay" : "Next")) parts.next.textContent = last ? "Replay" : "Next";
    parts.q.tell(Q[query]);
    parts.k.forEach((one, j) => one.tell(K[j]));
    parts.v.forEach((one, j) => one.tell(V[j]));
    const name = STAGES[Math.min(stage, 3)];
    parts.numbers.forEach((one, j) => one.tell(keyName(tokens, j), n[name][query][j], true));
    parts.outputs.forEach((one, c) => one.tell(`column ${c + 1}`, n.output[query][c], last));
    parts.result.setAttribute("aria-hidden", String(!last));
    parts.svg.dataset.stage = STAGES[stage];
    parts.paper.keys?.tip.node.setAttribute("aria-label", `q${query + 1} at (${Q[query].map((u) => brief(u)).join(", ")})`);
    if (opened?.place === "output" && !last) opened = null;
    const shown = opened?.place === "output" ? "output" : STAGES[Math.min(stage, 3)];
    parts.why.classList.toggle("st-opened", Boolean(opened));
    parts.why.replaceChildren(...(opened ? sumBehind(shown, opened.j, state) : [explanation(STAGES[stage], state)]));
    say(summaryOf(state));
  }

  const fit = () => {
    const room = root.clientWidth;
    const now = room > 0 && room < 560;
    if (now === narrow && parts) return;
    narrow = now;
    paint();
  };
  fit();
  const watcher = new ResizeObserver(fit);
  watcher.observe(root);
  const stop = listen(model, TRAITS, paint);
  return () => {
    stop();
    watcher.disconnect();
    motion.stop();
    el.replaceChildren();
  };
}

export { compute };
export default { render };
