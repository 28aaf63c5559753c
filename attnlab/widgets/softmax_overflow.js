// Where exponentials leave the numbers of float16, and how subtracting the maximum keeps them there.

const LARGEST = 1000;
const HIGHEST = Math.log(65519.99); // exp of more rounds to infinity
const LOWEST = Math.log(2 ** -25); // exp of less rounds to 0

// All numbers shown. state: {scores: [...], shift}.
export function compute({ scores, shift = 0 }) {
  const moved = scores.map((x) => x + shift);
  const z = moved.map(toHalf);
  const highest = Math.max(...z);
  return {
    moved, exact: softmax(moved),
    plain: halfShares(z), subtracted: halfShares(z.map((x) => toHalf(x - highest))),
  };
}

// The plain formula, with every step rounded to half precision. z holds half-precision numbers.
function halfShares(z) {
  const exponentials = z.map((x) => toHalf(Math.exp(x)));
  const total = exponentials.reduce((partial, e) => toHalf(partial + e));
  return { scores: z, exponentials, total, weights: exponentials.map((e) => toHalf(e / total)) };
}

// The nearest float16 number, ties to even: 11 significant bits, exponents from −14 to 15, subnormals below.
function toHalf(x) {
  if (!Number.isFinite(x) || x === 0) return x;
  const exponent = Math.max(-14, Math.floor(Math.log2(Math.abs(x)))), unit = 2 ** (exponent - 10);
  const whole = Math.floor(x / unit);
  const rest = x / unit - whole;
  const rounded = unit * (rest > 0.5 || (rest === 0.5 && whole % 2 !== 0) ? whole + 1 : whole);
  return Math.abs(rounded) > 65504 ? Math.sign(x) * Infinity : rounded;
}

// Half-precision numbers as NumPy names them: four figures, inf, nan.
function halfText(x) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "−inf";
  if (x === 0) return "0";
  return (Math.abs(x) < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(4)))).replace(/-/g, "−");
}

function verdictOf({ exponentials, total }) {
  if (exponentials.includes(Infinity)) return "An exponential is over 65504 and becomes inf. inf / inf is nan.";
  if (total === Infinity) return "Each exponential fits, but their sum is over 65504: every weight is divided by inf.";
  if (total === 0) return "Every exponential is too small and becomes 0. 0 / 0 is nan.";
  return "Every exponential fits.";
}

// A score is called by its label, or else by its number.
const nameOf = (labels, i) => labels?.[i] ?? `score ${i + 1}`;

// The drawing: two tracks, one for each way, from exponent −20 to 16 on the same axis.
const [WIDTH, LEFT, RIGHT, LOW, HIGH] = [400, 4, 396, -21, 18];
const at = (z) => scale([LOW, HIGH], [LEFT, RIGHT])(clamp(z, LOW, HIGH));

function makeTracks(n) {
  const each = 20, height = n * each + 12, tracks = [];
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${2 * (height + 34) + 22}`, class: "so-tracks", role: "img",
    "aria-label": "Exponents on the range of float16" });
  ["exp(s)", "exp(s − max)"].forEach((title, k) => {
    const top = 26 + k * (height + 34);
    const dots = range(n, (i) => {
      const y = top + 6 + each * (i + 0.5);
      const dot = s("circle", { r: 7, cy: y, class: "so-dot" });
      const text = s("text", { y: y + 5, class: "so-text" });
      return { dot, text };
    });
    svg.append(
      s("text", { class: "so-title", x: at(LOWEST) + 10, y: top - 8 }, title),
      s("rect", { class: "so-fits", x: at(LOWEST), y: top, width: at(HIGHEST) - at(LOWEST), height }),
      s("rect", { class: "so-lost", x: LEFT, y: top, width: at(LOWEST) - LEFT, height }),
      s("rect", { class: "so-lost", x: at(HIGHEST), y: top, width: RIGHT - at(HIGHEST), height }),
      s("text", { class: "so-end", x: at(LOWEST) - 4, y: top - 8, "text-anchor": "end" }, k ? "" : "0"),
      s("text", { class: "so-end", x: at(HIGHEST) + 4, y: top - 8 }, k ? "" : "inf"),
      ...dots.flatMap(({ dot, text }) => [dot, text]));
    tracks.push(dots);
  });
  const base = 2 * (height + 34) + 6;
  for (const z of [-15, -10, -5, 0, 5, 10])
    svg.append(s("text", { class: "so-tick", x: at(z), y: base, "text-anchor": "middle" }, String(z).replace("-", "−")));
  const draw = (places, computed) => tracks.forEach((dots, k) => dots.forEach(({ dot, text }, i) => {
    const place = at(places[k][i]);
    setIfChanged(dot, { cx: place });
    const right = place < 300;
    setIfChanged(text, { x: place + (right ? 13 : -13), "text-anchor": right ? "start" : "end" });
    const size = computed[k].exponentials[i];
    for (const node of [dot, text]) node.classList.toggle("so-gone", size === Infinity || size === 0);
    write(text, halfText(size));
  }));
  return { svg, draw };
}

export default widget("softmax_overflow", "Softmax in float16", ["scores", "labels", "shift"], (view) => {
  const { root, summary, say, model, read: state, animate, edit } = view, start = state();
  let parts = null, computed = null;
  const motion = animate((now) => parts.tracks.draw(now.places, [computed.plain, computed.subtracted]));

  const { field, slider, show: showShift } = fieldAndSlider("shift", "Add to every score", (shift) => edit({ shift }),
    { field: { min: -LARGEST, max: LARGEST, step: 0.5 }, slider: { min: -30, max: 30, step: 0.5 } });
  const again = h("button", { type: "button", onclick: () => edit(start) }, "Start again");
  const verdict = h("p", { class: "so-verdict", "data-value": "verdict" });
  const board = h("div");
  const body = h("tbody");
  const heads = ["", "score", "float64", "float16", "float16 − max"];
  root.append(h("div", { class: "so-control" }, h("span", {}, "Add to every score"), slider, field, again),
    h("div", { class: "so-split" }, board, h("div", {}, h("table", { class: "aw-plain so-table" }, h("caption", {}, "weights"),
      h("thead", {}, h("tr", {}, heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))), body), verdict)), summary);

  const build = rebuilder((scores) => {
    const setScore = (i, value) => edit({ scores: model.get("scores").map((old, j) => (i === j ? value : old)) });
    const rows = scores.map((_, i) => {
      const name = h("span", { class: "sm-name" });
      const field = numberField("score", 0, (value) => setScore(i, value),
        { step: 0.5, min: -LARGEST, max: LARGEST, "data-field": `score-${i}` });
      const cells = ["exact", "plain", "subtracted"].map((kind) => h("td", { class: "aw-numbers", "data-value": `${kind}-${i}` }));
      return { name, field, cells, row: h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, field), ...cells) };
    });
    const sums = ["exact", "plain", "subtracted"].map((kind) => h("td", { class: "aw-numbers", "data-value": `${kind}-sum` }));
    const tracks = makeTracks(scores.length);
    body.replaceChildren(...rows.map(({ row }) => row),
      h("tr", { class: "so-sum" }, h("th", { scope: "row" }, "sum"), h("td"), ...sums));
    board.replaceChildren(tracks.svg);
    parts = { rows, sums, tracks };
  });

  function draw() {
    const now = state();
    computed = compute(now);
    const fresh = build(now.scores.length, now.scores);
    const { moved, exact, plain: direct, subtracted } = computed;
    const top = Math.max(...moved);
    motion.to({ places: [moved, moved.map((x) => x - top)] }, { jump: fresh });
    const columns = [exact, direct.weights, subtracted.weights];
    const show = (cell, x, k) =>
      write(cell, k === 0 || (Number.isFinite(x) && Math.abs(x) >= 5e-4) ? fmt(x, 3) : halfText(x));
    parts.rows.forEach(({ name, field, cells }, i) => {
      const called = nameOf(now.labels, i);
      name.textContent = name.title = called;
      field.setAttribute("aria-label", `Score of ${called}`);
      setNumber(field, now.scores[i]);
      cells.forEach((cell, k) => {
        show(cell, columns[k][i], k);
        cell.classList.toggle("so-gone", Number.isNaN(columns[k][i]) || (k === 1 && direct.total === Infinity));
      });
    });
    parts.sums.forEach((cell, k) => {
      const total = sum(columns[k]);
      show(cell, total, k);
      cell.classList.toggle("so-gone", !(Math.abs(total - 1) < 0.01));
    });
    showShift(now.shift);
    verdict.textContent = verdictOf(direct);
    verdict.classList.toggle("so-gone", !(Math.abs(sum(columns[1]) - 1) < 0.01));
    say(`With ${plain(now.shift)} added to every score, float16 without the maximum gives the weights `
      + `${direct.weights.map(halfText).join(", ")}. ${verdict.textContent}`);
  }
  return draw;
});
