// Attention for one query, stage by stage: vectors are bars, and the output is a point among the values.
// `compute` holds the arithmetic, `scene` turns a state into lengths, and `makePicture` draws these and listens.

const STAGES = ["scores", "scaled", "exponentials", "weights", "output"];
const TABS = ["q·k", "÷√d", "eˣ", "weights", "output"];
const LARGEST = 1e6; // entries of Q, K and V; their products stay far from overflow

// All numbers shown, for every query. Q: (n_q, d_k), K: (n_k, d_k), V: (n_k, d_v) as rows of numbers.
export function compute({ Q, K, V }) {
  const root = Math.sqrt(Q[0].length);
  const scores = Q.map((q) => K.map((k) => dot(q, k)));
  const scaled = scores.map((row) => row.map((score) => score / root));
  const maxima = scaled.map((row) => Math.max(...row));
  const exponentials = scaled.map((row, i) => row.map((x) => Math.exp(x - maxima[i])));
  const totals = exponentials.map(sum);
  const weights = exponentials.map((row, i) => row.map((e) => e / totals[i]));
  const output = weights.map((row) => V[0].map((_, c) => dot(row, V.map((v) => v[c]))));
  return { root, scores, scaled, maxima, exponentials, totals, weights, output, hull: V[0].length === 2 ? hull(V) : [] };
}

// Which points of the plane are corners of the smallest convex shape that holds them all, counterclockwise.
function hull(points) {
  const order = range(points.length).sort((i, j) => points[i][0] - points[j][0] || points[i][1] - points[j][1]);
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

// Says in one sentence what a stage does; shown until a number is opened.
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
  const best = argmax(n.weights[i]);
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

// The drawing as numbers, so that it can glide from one state to another: for each key the pieces of its bar in
// the lane, where the lane has its zero, how far weights have come, the stacked values, and the vectors themselves.
function scene({ Q, K, V, query, stage, n }, scale) {
  const q = Q[query], weights = n.weights[query], row = n[STAGES[Math.min(stage, 3)]][query];
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

const limit = (x) => clamp(Number(x.toPrecision(12)), -LARGEST, LARGEST) + 0;
const shorten = (text, narrow) => (text.length > (narrow ? 4 : 8) ? `${text.slice(0, narrow ? 3 : 7)}…` : text);
const setLine = (line, [x1, y1], [x2, y2]) => setIfChanged(line, { x1, y1, x2, y2 });
const shownStage = (stage) => STAGES[Math.min(stage, 3)]; // the numbers beside the lane

// One vector as bars: row `i` of `name`, or, of Q, the one query that is shown. It is a slider: up and down change an
// entry, left and right choose which.
function makeVector(hand, name, i, width, [x0, x1]) {
  const { model } = hand, letter = name.toLowerCase();
  const slot = (x1 - x0) / width, bar = Math.min(24, slot * (name === "V" ? 0.62 : 0.34));
  const row = () => (name === "Q" ? model.get("query") : i);
  const at = (c, kind = letter) => x0 + slot * (c + 0.5) + bar * { q: -0.55, k: 0.55, v: 0 }[kind];
  let chosen = 0, grab = null; // the entry that keys change, and what is held of it
  const rects = (kind, of = letter) => range(width, (c) =>
    s("rect", { class: `st-bar ${kind} st-of-${of}`, width: bar, x: at(c, of) - bar / 2 }));
  const ghosts = rects("st-ghost"), bars = rects(""), twins = name === "K" ? rects("st-twin", "q") : [];
  const texts = width > 3 ? [] : bars.map((_, c) =>
    s("text", { class: `st-entry st-of-${letter}`, x: at(c), "text-anchor": "middle" }));
  const line = s("line", { class: "st-zero", x1: x0, x2: x1 });
  const hit = s("rect", { class: "st-hit", x: x0 - 2, width: x1 - x0 + 4 });
  let unit = 1, zero = 0; // as last drawn, for the pointer
  const node = s("g", { class: "st-vector", role: "slider", tabindex: "0",
    "data-vector": `${letter}${name === "Q" ? "" : i}`, "aria-orientation": "vertical", onkeydown: (event) => {
      const [turn, step] = keyOf(event, { ArrowLeft: [-1], ArrowRight: [1], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }) ?? [];
      if (turn) {
        chosen = (chosen + turn + width) % width;
        hand.paint();
      } else if (step) {
        hand.enter(name, row(), chosen, model.get(name)[row()][chosen] + step * (event.shiftKey ? 10 : 1));
      }
    } }, hit, line, ...ghosts, ...twins, ...bars, ...texts);
  hand.drag(node, ([x, y], first) => {
    if (first) {
      chosen = clamp(Math.floor((x - x0) / slot), 0, width - 1);
      grab = { y, value: model.get(name)[row()][chosen] };
      return hand.paint();
    }
    const extent = hand.held[name === "V" ? "values" : "keys"], snap = fineness(extent);
    const value = clamp(grab.value + (grab.y - y) / unit, -extent, extent);
    hand.enter(name, row(), chosen, Math.round(value / snap) * snap);
  });
  const place = (rect, x) => setIfChanged(rect, { y: zero - Math.max(0, x) * unit, height: Math.abs(x) * unit });
  // numbers; [y0, y1] of its strip; size of one unit of the strip; share below zero; full: what is drawn as an outline
  const draw = (numbers, [y0, y1], extent, down, { full, meets } = {}) => {
    const room = y1 - y0 - (texts.length ? 12 : 2);
    unit = (room * (1 - down)) / extent;
    zero = y1 - down * room;
    setIfChanged(line, { y1: zero, y2: zero });
    setIfChanged(hit, { y: y0, height: y1 - y0 });
    numbers.forEach((x, c) => {
      const shown = full ? full[c] : x;
      place(bars[c], x);
      place(ghosts[c], full ? full[c] : 0);
      if (twins.length) place(twins[c], meets[c]);
      if (!texts.length) return;
      setIfChanged(texts[c], { y: zero - Math.max(0, shown) * unit - 3 });
      write(texts[c], brief(shown, 2));
    });
  };
  const tell = (numbers) => {
    fill(node, { "aria-label": `${letter}${row() + 1}, entry ${chosen + 1} of ${width}`,
      "aria-valuenow": numbers[chosen], "aria-valuemin": -LARGEST, "aria-valuemax": LARGEST,
      "aria-valuetext": `${brief(numbers[chosen])} of (${numbers.map((x) => brief(x)).join(", ")})` });
    bars.forEach((one, c) => one.classList.toggle("st-chosen", c === chosen));
  };
  return { node, draw, tell };
}

// A number that opens to its sum: number `j` of the lane ("key") or of the output.
function makeNumber(hand, place, j, [x0, x1], [y0, y1]) {
  const text = s("text", { x: (x0 + x1) / 2, y: (y0 + y1) / 2 + 5, "text-anchor": "middle" });
  const isOpen = () => hand.opened?.place === place && hand.opened.j === j;
  const press = () => {
    hand.opened = isOpen() ? null : { place, j };
    hand.paint();
  };
  const node = s("g", { class: `st-number st-number-${place}`, role: "button", tabindex: "0", "data-cell": `${place}-${j}`,
    onclick: press, onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    } }, s("rect", { class: "st-hit", x: x0, y: y0, width: x1 - x0, height: y1 - y0, rx: 5 }), text);
  const draw = (x) => write(text, brief(x));
  const tell = (name, stage, value, shown) => fill(node, {
    "aria-label": `${name}, ${stage}: ${shown ? brief(value) : "later"}`, "aria-pressed": String(isOpen()),
    tabindex: shown ? "0" : "-1", "aria-hidden": String(!shown) });
  return { node, draw, tell };
}

// A square of the plane with its axes; `map.to` turns numbers into places, `map.back` places into numbers.
function makePlane([x0, y0], side, title) {
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
    setLine(axes[0], [x0 + 4, oy], [x0 + side - 4, oy]);
    setLine(axes[1], [ox, y0 + 22], [ox, y0 + side - 4]);
  };
  return { node, draw, map };
}

// A point of a plane with its name, to be dragged. (The keyboard reaches its bars.)
function makeDot(hand, letter, name, move) {
  const node = s("g", { class: `st-dot st-of-${letter}` }, s("circle", { r: 14, class: "st-hit" }), s("circle", { r: 6 }),
    s("text", { x: 9, y: -7 }, name));
  let at = [0, 0], off = [0, 0];
  hand.drag(node, ([x, y], first) => {
    if (first) off = [x - at[0], y - at[1]];
    else move([x - off[0], y - off[1]]);
  });
  const draw = ([x, y]) => {
    at = [x, y];
    setIfChanged(node, { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
  };
  return { node, draw };
}

// The query among the keys. Its tip takes arrow keys too.
function makeKeyPlane(hand, corner, { side, narrow }, n) {
  const { model } = hand, plane = makePlane(corner, side, narrow ? "q and k" : "query and keys");
  const snap = (point) => plane.map.back(point).map((u) => {
    const { keys } = hand.held, fine = fineness(keys);
    return limit(Math.round(clamp(u, -keys, keys) / fine) * fine);
  });
  const shaft = s("line", { class: "st-shaft" });
  const keys = range(n, (j) => makeDot(hand, "k", `k${j + 1}`, (point) => hand.put("K", j, snap(point))));
  const tip = makeDot(hand, "q", "q", (point) => hand.put("Q", model.get("query"), snap(point)));
  fill(tip.node, { tabindex: "0", role: "application", "aria-roledescription": "movable point", "data-tip": "q",
    onkeydown: (event) => {
      const step = keyOf(event, { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] });
      const i = model.get("query"), size = event.shiftKey ? 1 : 0.1;
      if (step) hand.put("Q", i, model.get("Q")[i].map((u, c) => limit(u + size * step[c])));
    } });
  const draw = (d) => {
    plane.draw([-d.keys, -d.keys], 2 * d.keys);
    const end = plane.map.to(d.q);
    setLine(shaft, plane.map.to([0, 0]), end);
    keys.forEach((one, j) => one.draw(plane.map.to(d.k[j])));
    tip.draw(end);
  };
  const tell = (query, q) =>
    tip.node.setAttribute("aria-label", `q${query + 1} at (${q.map((u) => brief(u)).join(", ")})`);
  return { nodes: [plane.node, shaft, ...keys.map(({ node }) => node), tip.node], draw, tell };
}

// The output among the values, in their convex hull.
function makeValuePlane(hand, corner, { side, narrow }, n) {
  const plane = makePlane(corner, side, narrow ? "values, output" : "values and output");
  const shape = s("polygon", { class: "st-hull" });
  const pulls = range(n, () => s("line", { class: "st-pull" }));
  const dots = range(n, (j) => makeDot(hand, "v", `v${j + 1}`, (point) => hand.put("V", j, plane.map.back(point).map((u) => {
    const fine = fineness(hand.held.span);
    return limit(Math.round(u / fine) * fine);
  }))));
  const out = s("g", { class: "st-dot st-out" }, s("circle", { r: 8 }), s("circle", { r: 3, class: "st-core" }));
  const draw = (d, hull) => {
    plane.draw(d.from, d.span);
    const places = d.v.map(plane.map.to), end = plane.map.to(d.output);
    setIfChanged(shape, { points: hull.map((j) => places[j].map((u) => u.toFixed(2)).join(",")).join(" ") });
    dots.forEach((one, j) => {
      one.draw(places[j]);
      setLine(pulls[j], places[j], end);
      setIfChanged(pulls[j], { "stroke-width": 10 * d.weights[j] * d.flow });
    });
    setIfChanged(out, { transform: `translate(${end.map((u) => u.toFixed(2)).join(" ")})`, opacity: d.flow });
  };
  return { nodes: [plane.node, shape, ...pulls, ...dots.map(({ node }) => node), out], draw };
}

// Between keys and values: for each key the bar of its number in pieces, the number, and what flows on to the output.
function makeLane(hand, { x, each, top, narrow }, strip, center, wide, n, end) {
  const thick = Math.min(26, each - 16), [left, right] = x.lane;
  const pieces = range(n, () => range(wide, () => s("rect", { class: "st-piece" })));
  const zeros = range(n, (j) => s("line", { class: "st-zero", y1: strip(j)[0] + 2, y2: strip(j)[1] - 2 }));
  const numbers = range(n, (j) => makeNumber(hand, "key", j, x.number, [center(j) - 14, center(j) + 14]));
  const flows = range(n, () => s("path", { class: "st-flow" }));
  const head = s("text", { class: "st-head", x: (left + right) / 2, y: top - 8, "text-anchor": "middle" });
  const valueHead = s("text", { class: "st-head st-of-v", x: (x.value[0] + x.value[1]) / 2, y: top - 8,
    "text-anchor": "middle" }, narrow ? "values" : "values v");
  const draw = (d) => {
    const unit = (right - left) / d.reach, zero = left - d.low * unit;
    const height = (thick / wide) * (1 - d.solid) + thick * d.solid;
    pieces.forEach((row, j) => {
      const y = center(j);
      setIfChanged(zeros[j], { x1: zero, x2: zero });
      row.forEach((piece, t) => {
        const [from, to] = d.lanes[j][t];
        setIfChanged(piece, { x: zero + Math.min(from, to) * unit, width: Math.max(Math.abs(to - from) * unit, 0.01),
          y: y - thick / 2 + t * (thick / wide) * (1 - d.solid), height,
          style: `--weight: ${d.weights[j].toFixed(4)}; --heat: ${(100 * d.heat).toFixed(1)}%` });
      });
      numbers[j].draw(d.row[j]);
      setIfChanged(flows[j], { "stroke-width": 14 * d.weights[j] * d.flow,
        d: `M${x.value[1]} ${y} C${x.band + 10} ${y} ${x.band + 10} ${end} ${x.value[1]} ${end}` });
    });
  };
  return { nodes: [head, valueHead, ...flows, ...pieces.flat(), ...zeros], head, numbers, draw };
}

// The output: values stacked, and their sums as numbers.
function makeOutput(hand, { x }, foot, n, high) {
  const middle = (foot[0] + foot[1]) / 2;
  const slot = (x.value[1] - x.value[0]) / high, bar = Math.min(24, slot * 0.62);
  const left = (c) => x.value[0] + slot * (c + 0.5) - bar / 2;
  const stack = range(high, (c) => range(n, () => s("rect", { class: "st-bar st-of-v st-stack", width: bar, x: left(c) })));
  const nets = range(high, (c) => s("line", { class: "st-net", x1: left(c) - 3, x2: left(c) + bar + 3 }));
  const cell = (x.number[1] - x.lane[0]) / Math.min(high, 3), lines = Math.ceil(high / 3);
  const numbers = range(high, (c) => {
    const y = middle + (Math.floor(c / 3) - (lines - 1) / 2) * 26;
    return makeNumber(hand, "output", c, [x.lane[0] + (c % 3) * cell, x.lane[0] + (c % 3 + 1) * cell], [y - 13, y + 13]);
  });
  const node = s("g", { class: "st-result" },
    s("text", { class: "st-head st-of-v st-big", x: 0, y: middle + 5 }, "output"), ...numbers.map(({ node }) => node),
    s("g", { "aria-hidden": "true" }, ...stack.flat(), ...nets));
  const draw = (d) => {
    const room = foot[1] - foot[0] - 4, base = foot[1] - d.valuesDown * room;
    const size = (room * (1 - d.valuesDown)) / d.values;
    stack.forEach((column, c) => {
      column.forEach((piece, j) => {
        const [from, to] = d.stacks[c][j];
        setIfChanged(piece, { y: base - Math.max(from, to) * size, height: Math.abs(to - from) * size });
      });
      const y = base - d.output[c] * size;
      setIfChanged(nets[c], { y1: y, y2: y });
      numbers[c].draw(d.output[c]);
    });
    setIfChanged(node, { opacity: d.flow });
  };
  return { node, numbers, draw };
}

// Names of keys and of the query, and lines on which the query comes down to every key.
function makeNames({ x, top, foot, narrow }, { Q, K, tokens }, center) {
  const label = (letter, i, y) => s("g", { class: `st-name st-of-${letter}`, "aria-hidden": "true" },
    s("text", { x: 0, y: tokens.length ? y - 2 : y + 5 }, `${letter}${i + 1}`),
    s("text", { x: 0, y: y + 13, class: "st-token" },
      shorten(letter === "q" && Q.length !== K.length ? "" : tokens[i] ?? "", narrow)));
  const query = label("q", 0, top / 2), slot = (x.pair[1] - x.pair[0]) / K[0].length;
  const drops = K[0].map((_, t) => {
    const at = x.pair[0] + slot * (t + 0.5) - Math.min(24, slot * 0.34) * 0.55;
    return s("line", { class: "st-drop", y1: top - 8, y2: foot - 6, x1: at, x2: at });
  });
  return { nodes: [...drops, query, ...K.map((_, j) => label("k", j, center(j)))], query };
}

// The whole drawing for vectors of these sizes. `draw(scene, hull)` shows a moment, `tell(state)` names the parts.
function makePicture(hand, state, narrow) {
  const { K, V, tokens } = state, [n, wide, high] = [K.length, K[0].length, V[0].length];
  const at = layout(narrow, n, wide, high), { x, top, each } = at;
  const strip = (j) => [top + j * each + 3, top + (j + 1) * each - 5];
  const center = (j) => (strip(j)[0] + strip(j)[1]) / 2;
  const foot = [at.foot + 6, at.flow - 6];
  const names = makeNames(at, state, center);
  const q = makeVector(hand, "Q", 0, wide, x.pair);
  const k = K.map((_, j) => makeVector(hand, "K", j, wide, x.pair));
  const v = V.map((_, j) => makeVector(hand, "V", j, high, x.value));
  const lane = makeLane(hand, at, strip, center, wide, n, (foot[0] + foot[1]) / 2);
  const output = makeOutput(hand, at, foot, n, high);
  const keyPlane = at.keyPlane && makeKeyPlane(hand, at.keyPlane, at, n);
  const valuePlane = at.valuePlane && makeValuePlane(hand, at.valuePlane, at, n);
  const nodes = (list) => list.map(({ node }) => node);
  const svg = s("svg", { viewBox: `0 0 ${at.width} ${at.height}`, class: "st-picture", role: "group",
    "aria-label": "Vectors as bars, one row per key" },
  s("g", { "aria-hidden": "true" }, ...names.nodes,
    s("line", { class: "st-sum", x1: 0, x2: x.value[1], y1: at.foot, y2: at.foot }), ...lane.nodes),
  q.node, ...nodes(k), ...nodes(lane.numbers), ...nodes(v), output.node,
  ...(keyPlane?.nodes ?? []), ...(valuePlane?.nodes ?? []));

  function draw(d, hull) {
    q.draw(d.q, [4, top - 8], d.keys, d.keysDown);
    k.forEach((one, j) => one.draw(d.k[j], strip(j), d.keys, d.keysDown, { meets: d.q }));
    v.forEach((one, j) => one.draw(d.v[j].map((value) => value * d.poured[j]), strip(j), d.values, d.valuesDown,
      { full: d.v[j] }));
    lane.draw(d);
    output.draw(d);
    keyPlane?.draw(d);
    valuePlane?.draw(d, hull);
  }

  function tell({ Q, K, V, query, stage, n }) {
    const [title, token] = names.query.children, last = stage === STAGES.length - 1, name = shownStage(stage);
    title.textContent = `q${query + 1}`;
    token.textContent = shorten(Q.length === K.length ? tokens[query] ?? "" : "", narrow);
    lane.head.textContent = ["q · k", `q · k ÷ √${wide}`, "exponentials", "weights", "weights"][stage];
    q.tell(Q[query]);
    k.forEach((one, j) => one.tell(K[j]));
    v.forEach((one, j) => one.tell(V[j]));
    lane.numbers.forEach((one, j) => one.tell(keyName(tokens, j), name, n[name][query][j], true));
    output.numbers.forEach((one, c) => one.tell(`column ${c + 1}`, "output", n.output[query][c], last));
    output.node.setAttribute("aria-hidden", String(!last));
    svg.dataset.stage = STAGES[stage];
    keyPlane?.tell(query, Q[query]);
  }
  return { svg, draw, tell };
}

// The controls around the drawing: queries, stages, and steps through them.
function makeControls(hand, { Q, K, tokens }) {
  const { model } = hand, wide = K[0].length;
  const named = (i) => (Q.length === K.length && Q.length < 5 ? tokens[i] : "");
  const go = (stage) => change(model, { stage });
  const queries = Q.map((_, i) => h("button", { type: "button", "data-query": i, onclick: () =>
    change(model, { query: i }) }, `q${i + 1}`, named(i) ? h("span", {}, ` ${named(i)}`) : null));
  const tabs = STAGES.map((stage, i) => h("button", { type: "button", "data-stage-tab": stage, onclick: () => go(i),
    "aria-label": `${TABS[i].replace("d", wide)}: stage ${i + 1}, ${stage}` }, TABS[i].replace("d", wide)));
  const back = button("back", "Back", () => model.get("stage") > 0 && go(model.get("stage") - 1));
  const next = button("next", "Next", () => go((model.get("stage") + 1) % STAGES.length), { class: "st-next" });
  const reset = button("reset", "Reset", () => {
    hand.opened = null;
    change(model, structuredClone(model.get("start")));
  }, { title: "The first numbers again" });
  const nodes = [
    h("div", { class: "st-controls" }, h("div", { class: "st-group", role: "group", "aria-label": "Query" }, ...queries),
      h("div", { class: "st-group st-steps" }, back, next, reset)),
    h("div", { class: "st-tabs", role: "group", "aria-label": "Stages" }, ...tabs)];
  function draw(query, stage) {
    queries.forEach((one, i) => one.setAttribute("aria-pressed", String(i === query)));
    tabs.forEach((tab, i) => {
      tab.classList.toggle("st-past", i < stage);
      if (i === stage) tab.setAttribute("aria-current", "step");
      else tab.removeAttribute("aria-current");
    });
    back.setAttribute("aria-disabled", String(stage === 0));
    write(next, stage === STAGES.length - 1 ? "Replay" : "Next");
  }
  return { nodes, next, draw };
}

export default widget("attention_stepper", "Attention for one query, step by step",
  ["Q", "K", "V", "tokens", "query", "stage"], (view) => {
  const { root, summary, say, model, animate, onend } = view;
  let picture = null, controls = null; // made again only when a size, a name or the room changes
  let hull = [], narrow = false;
  const why = h("p", { class: "st-why aw-numbers" });

  const read = () => {
    const state = view.read();
    const { Q, K, V } = state;
    if (Q[0].length !== K[0].length || K.length !== V.length) return null; // halfway through new arrays
    state.query = Math.min(state.query, Q.length - 1);
    state.tokens = state.tokens?.length === K.length ? state.tokens : [];
    state.n = compute(state);
    return state;
  };

  // State that the parts share.
  const hand = {
    model, paint,
    opened: null, // the number whose sum is shown: {place, j}
    held: null, // scales while something is dragged
    put: (name, i, vector) => change(model, { [name]: model.get(name).map((row, j) => (i === j ? vector : row)) }),
    enter: (name, i, c, value) => hand.put(name, i, model.get(name)[i].map((x, t) => (t === c ? limit(value) : x))),
    drag(node, move) {
      node.classList.add("st-drag");
      drag(node, (place, first) => {
        if (first) hand.held = scales(read());
        move(place, first);
      }, () => {
        hand.held = null;
        paint();
      });
    },
  };
  const motion = animate((now) => picture?.draw(now, hull), 600);

  const build = rebuilder((state) => {
    hand.opened = null;
    motion.stop();
    const focused = root.contains(document.activeElement);
    picture = makePicture(hand, state, narrow);
    controls = makeControls(hand, state);
    root.replaceChildren(...controls.nodes, picture.svg, why, summary);
    if (focused && !root.contains(document.activeElement)) controls.next.focus();
  });

  function paint() {
    const state = read();
    if (!state) return;
    const { Q, K, V, tokens, query, stage, n } = state;
    const fresh = build([Q.length, K.length, K[0].length, V[0].length, tokens, narrow], state);
    hull = n.hull;
    motion.to(scene(state, hand.held ?? scales(state)), { jump: fresh || hand.held !== null });
    controls.draw(query, stage);
    if (hand.opened?.place === "output" && stage < STAGES.length - 1) hand.opened = null;
    picture.tell(state);
    const { opened } = hand;
    why.classList.toggle("st-opened", Boolean(opened));
    why.replaceChildren(...(opened ? sumBehind(opened.place === "output" ? "output" : shownStage(stage), opened.j, state)
      : [explanation(STAGES[stage], state)]));
    say(summaryOf(state));
  }

  // Narrow is a room of less than 560 pixels.
  const fit = () => {
    const room = root.clientWidth, now = room > 0 && room < 560;
    if (now === narrow) return;
    narrow = now;
    paint();
  };
  onend(resized(root, fit));
  fit();
  return paint;
});
