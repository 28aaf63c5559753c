// The dot-product explorer: two arrows to drag, and the sum, the angle and the shadow behind one number.

const TRAITS = ["a", "b"];
const LARGEST = 1e6;
const SIDE = 400; // the drawing's width and height, in its own units
const REACH = 172; // of these, from the origin to the edge of the grid

// All numbers shown. state: {a: [a1, a2], b: [b1, b2]}. Angles in degrees, null where an arrow has no direction.
export function compute({ a, b }) {
  const lengthA = Math.hypot(...a);
  const lengthB = Math.hypot(...b);
  const products = [a[0] * b[0], a[1] * b[1]];
  const both = lengthA * lengthB;
  const sum = products[0] + products[1];
  const dot = Math.abs(sum) <= 1e-12 * both ? 0 : sum; // what is left of a cancellation is rounding
  const cosine = both === 0 ? 0 : Math.min(1, Math.max(-1, dot / both));
  // atan2 stays accurate where acos does not: near 0 and 180 degrees.
  const angle = both === 0 ? null : (Math.atan2(Math.abs(a[0] * b[1] - a[1] * b[0]), dot) * 180) / Math.PI;
  const shadow = lengthA === 0 ? null : dot / lengthA;
  const foot = lengthA === 0 ? null : a.map((x) => (x / lengthA) * shadow);
  return { products, dot, lengthA, lengthB, cosine, angle, shadow, foot, sign: Math.sign(dot), extent: extent(a, b) };
}

// How far the grid reaches: 4, 8, 20, 40, 80, 200 ..., the first that holds both arrows.
function extent(a, b) {
  const size = Math.max(...[...a, ...b].map(Math.abs));
  for (let power = 1; ; power *= 10) {
    for (const step of [4, 8, 20]) if (size <= step * power) return step * power;
  }
}

const WORDS = {
  1: { name: "toward", symbol: "+", says: "b points toward a" },
  0: { name: "across", symbol: "0", says: "b points across a" },
  [-1]: { name: "away", symbol: "−", says: "b points away from a" },
};

const PRESETS = [
  ["Same direction", (a) => a.map((x) => x / 2)],
  ["Perpendicular", (a) => [-a[1], a[0]]],
  ["Opposite", (a) => a.map((x) => -x)],
  ["b twice as long", (a, b) => b.map((x) => 2 * x)],
];

function summaryOf({ dot, angle, cosine, shadow, sign }) {
  if (angle === null) {
    return "a·b = 0. An arrow of length 0 has no direction, so there is no angle. Its cosine counts as 0.";
  }
  return `a·b = ${fmt(dot)}: ${WORDS[sign].says}. Angle ${fmt(angle, 1)}°, cosine ${fmt(cosine, 3)}. ` +
    `Shadow of b on a: ${fmt(shadow)}.`;
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "dot_product", "Dot product of two arrows", model);
  const start = Object.fromEntries(TRAITS.map((name) => [name, [...model.get(name)]]));
  let heldExtent = null; // the grid does not rescale while a tip is dragged

  const edit = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    draw();
  };
  const state = () => ({ a: model.get("a"), b: model.get("b") });
  const move = (name, i, value) => edit({ [name]: model.get(name).map((old, j) => (i === j ? value : old)) });

  const plane = makePlane({
    onmove: (name, point) => edit({ [name]: point }),
    onhold: (holding) => {
      heldExtent = holding ? compute(state()).extent : null;
      draw();
    },
    at: (name) => model.get(name),
  });

  const headline = h("b", { "data-value": "headline" });
  const shadowText = h("span", { class: "dp-of-shadow", "data-value": "shadow" });

  // Components: four number fields.
  const fields = {};
  const lengths = {};
  const row = (name) => {
    fields[name] = [0, 1].map((i) =>
      numberField(`${name}, ${["first", "second"][i]} component`, model.get(name)[i], (value) => move(name, i, value),
        { step: 0.1, min: -LARGEST, max: LARGEST, "data-field": `${name}${i + 1}` }));
    lengths[name] = h("td", { class: "aw-numbers dp-length", "data-value": `length-${name}` });
    return h("tr", {}, h("th", { scope: "row", class: `aw-of-${name}` }, name),
      fields[name].map((field) => h("td", {}, field)), lengths[name]);
  };
  const components = h("table", { class: "aw-plain dp-components" },
    h("thead", {}, h("tr", {},
      ["arrow", "first", "second", "length"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, row("a"), row("b")));

  // The second bar starts where the first ends, so the third, their sum, ends where the second does.
  const bars = [0, 1, 2].map((i) => ({
    label: h("span", { class: "dp-term" }, ["a₁ × b₁", "a₂ × b₂", "a·b"][i]),
    bar: h("span", { class: `dp-bar ${i === 2 ? "dp-bar-sum" : ""}` }),
    value: h("span", { class: "aw-numbers aw-right", "data-value": ["product-1", "product-2", "dot"][i] }),
  }));
  const walk = h("div", { class: "dp-walk" },
    h("span", { class: "dp-caption" }, "the two products, and their sum"),
    bars.flatMap(({ label, bar, value }) =>
      [label, h("span", { class: "dp-lane", "aria-hidden": "true" }, bar), value]));

  // Three ways to compute the same number.
  const ways = Object.fromEntries(["sum", "shadow", "angle"].map((key) =>
    [key, h("div", { class: "aw-numbers dp-way", "data-value": `way-${key}` })]));
  const three = h("div", { class: "dp-ways" },
    h("div", { class: "dp-caption" }, "as a sum: a₁b₁ + a₂b₂"), ways.sum,
    h("div", { class: "dp-caption" }, "by the shadow: |a| × shadow of b on a"), ways.shadow,
    h("div", { class: "dp-caption" }, "by the angle: |a| × |b| × cos θ"), ways.angle);

  // Toward, across, away: the sign, and the cosine as a point between −1 and 1.
  const marker = h("span", { class: "dp-marker" });
  const cells = [-1, 0, 1].map((sign) =>
    h("span", { class: "dp-sign", "data-sign": sign }, `${WORDS[sign].name} ${WORDS[sign].symbol}`));
  const cosineText = h("span", { class: "aw-numbers", "data-value": "cosine" });
  const gauge = h("div", { class: "dp-gauge" },
    h("div", { class: "dp-gauge-head" }, h("span", {}, "cosine of the angle"), cosineText),
    h("div", { class: "dp-track", "aria-hidden": "true" }, marker),
    h("div", { class: "dp-ends aw-numbers", "aria-hidden": "true" },
      ["−1", "0", "1"].map((text) => h("span", {}, text))),
    h("div", { class: "dp-signs" }, cells));

  const presets = h("div", { class: "aw-row dp-presets", role: "group", "aria-label": "Examples" },
    PRESETS.map(([label, make]) => h("button", {
      type: "button",
      onclick: () => {
        // A zero arrow has no direction to copy, so a preset starts from a fresh one.
        const a = model.get("a").some((x) => x !== 0) ? model.get("a") : [2, 1];
        const b = make(a, model.get("b")).map((x) => Math.min(LARGEST, Math.max(-LARGEST, x)) + 0);
        edit({ a, b });
      },
    }, label)),
    h("button", { type: "button", onclick: () => edit(start) }, "Start again"));

  root.append(
    h("p", { class: "aw-lead" }, "Drag a tip, or select one with the Tab key and use the arrow keys."),
    h("div", { class: "dp-split" },
      h("div", { class: "dp-figure" },
        h("div", { class: "dp-headline aw-numbers" }, headline, shadowText), plane.svg, presets),
      h("div", { class: "dp-panel" }, components, gauge, walk, three)),
    summary);

  function draw() {
    const now = state();
    const numbers = compute(now);
    plane.draw(now, numbers, heldExtent ?? numbers.extent);
    for (const name of TRAITS) {
      fields[name].forEach((field, i) => setNumber(field, now[name][i]));
      lengths[name].textContent = fmt(name === "a" ? numbers.lengthA : numbers.lengthB);
    }
    headline.textContent = `a·b = ${fmt(numbers.dot)}`;
    shadowText.textContent = numbers.shadow === null ? "no shadow" : `shadow ${fmt(numbers.shadow)}`;
    const [p, q] = numbers.products;
    const spans = [[0, p], [p, p + q], [0, numbers.dot]];
    // The scale grows in doublings, so that bars change length and not their unit.
    const longest = Math.max(4, ...spans.flat().map(Math.abs));
    const scale = 2 ** Math.ceil(Math.log2(longest));
    bars.forEach(({ bar, value }, i) => {
      const [from, to] = spans[i];
      bar.style.left = `${50 + (50 * Math.min(from, to)) / scale}%`;
      bar.style.width = `${(50 * Math.abs(to - from)) / scale}%`;
      bar.dataset.sign = Math.sign(to - from);
      value.textContent = fmt([p, q, numbers.dot][i]);
    });
    const { a, b } = now;
    ways.sum.replaceChildren(
      `${plain(a[0])} × ${bracketed(b[0])} + ${bracketed(a[1])} × ${bracketed(b[1])}`, h("br"),
      ` = ${plain(p)} + ${bracketed(q)} = ${plain(numbers.dot)}`);
    ways.shadow.textContent = numbers.shadow === null ? "a has no direction"
      : `${fmt(numbers.lengthA)} × ${bracket(numbers.shadow)} ≈ ${fmt(numbers.dot)}`;
    ways.angle.textContent = numbers.angle === null ? "no angle with an arrow of length 0"
      : `${fmt(numbers.lengthA)} × ${fmt(numbers.lengthB)} × ${bracket(numbers.cosine, 3)} ≈ ${fmt(numbers.dot)}`;
    cosineText.textContent = numbers.angle === null ? "0 (no angle)"
      : `cos ${fmt(numbers.angle, 1)}° = ${fmt(numbers.cosine, 3)}`;
    marker.style.left = `${50 + 50 * numbers.cosine}%`;
    for (const cell of cells) {
      const active = numbers.angle !== null && Number(cell.dataset.sign) === numbers.sign;
      cell.toggleAttribute("data-active", active);
      if (active) cell.setAttribute("aria-current", "true");
      else cell.removeAttribute("aria-current");
    }
    say(summaryOf(numbers));
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  return () => {
    stop();
    el.replaceChildren();
  };
}

const bracket = (x, digits = 2) => (x < 0 ? `(${fmt(x, digits)})` : fmt(x, digits));

// The grid with the two arrows. `onmove(name, [x, y])` is called on a drag or a key, `onhold(true or false)` when a
// drag begins and ends.
function makePlane({ onmove, onhold, at }) {
  const layers = { grid: s("g"), scene: s("g", { "aria-hidden": "true" }) };
  const svg = s("svg", {
    viewBox: `0 0 ${SIDE} ${SIDE}`, class: "dp-plane", role: "group", "aria-label": "Grid with the arrows a and b",
  }, layers.grid, layers.scene);
  let reach = 4; // grid units from the origin to the edge, as last drawn

  const tips = Object.fromEntries(TRAITS.map((name) => [name, makeTip(name)]));
  svg.append(tips.a, tips.b);

  function makeTip(name) {
    const limit = (x) => Math.min(LARGEST, Math.max(-LARGEST, Number(x.toPrecision(12)))) + 0;
    const tip = s("g", {
      class: `dp-tip aw-of-${name}`, tabindex: "0", role: "application", "aria-roledescription": "movable arrow tip",
      "data-tip": name,
      onkeydown: (event) => {
        const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!direction || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        const step = event.shiftKey ? 1 : 0.1;
        onmove(name, at(name).map((x, i) => limit(x + step * direction[i])));
      },
      onpointerdown: (event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        tip.focus({ preventScroll: true });
        tip.setPointerCapture(event.pointerId);
        onhold(true);
      },
      onpointermove: (event) => {
        if (!tip.hasPointerCapture(event.pointerId)) return;
        const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
        const snap = reach / 40; // a tenth on the smallest grid
        const grid = (u) => limit(Math.round((Math.min(1, Math.max(-1, u)) * reach) / snap) * snap);
        onmove(name, [grid((x - SIDE / 2) / REACH), grid((SIDE / 2 - y) / REACH)]);
      },
      onlostpointercapture: () => onhold(false),
    }, s("circle", { r: 20, class: "dp-hit" }), s("circle", { r: 8, class: "dp-dot" }),
    s("circle", { r: 13, class: "dp-ring" }));
    return tip;
  }

  function draw({ a, b }, numbers, extent) {
    if (extent !== reach || !layers.grid.childNodes.length) {
      reach = extent;
      layers.grid.replaceChildren(...gridLines(extent));
    }
    const to = ([x, y]) => [SIDE / 2 + (x / extent) * REACH, SIDE / 2 - (y / extent) * REACH];
    layers.scene.replaceChildren(...scene(a, b, numbers, to));
    for (const [name, value] of [["a", a], ["b", b]]) {
      tips[name].setAttribute("transform", `translate(${to(value).join(" ")})`);
      tips[name].setAttribute("aria-label",
        `Tip of ${name} at ${plain(value[0])}, ${plain(value[1])}. Arrow keys move it by 0.1, with shift by 1.`);
    }
  }
  return { svg, draw };
}

function gridLines(extent) {
  const parts = [];
  const middle = SIDE / 2;
  for (let i = -4; i <= 4; i++) {
    const at = middle + (i / 4) * REACH;
    const kind = i === 0 ? "dp-axis" : "dp-grid";
    parts.push(s("line", { x1: at, x2: at, y1: middle - REACH, y2: middle + REACH, class: kind }),
      s("line", { y1: at, y2: at, x1: middle - REACH, x2: middle + REACH, class: kind }));
    if (i !== 0 && i % 2 === 0) {
      const text = plain((i / 4) * extent);
      const last = i === 4; // the last ones move in a little, to stay on the drawing
      parts.push(
        s("text", { x: at - (last ? 8 : 0), y: middle + 17, class: "dp-tick", "text-anchor": "middle" }, text),
        s("text", { x: middle - 6, y: SIDE - at + (last ? 12 : 5), class: "dp-tick", "text-anchor": "end" }, text));
    }
  }
  return parts;
}

// Everything that moves: a's line, the shadow with its perpendicular, the angle, the arrows and their names.
function scene(a, b, { lengthA, lengthB, angle, sign, foot }, to) {
  const parts = [];
  const origin = to([0, 0]);
  const [tipA, tipB] = [to(a), to(b)];
  if (lengthA > 0) {
    const along = a.map((x) => x / lengthA);
    const ahead = [along[0], -along[1]]; // on the drawing y points down
    const edge = REACH / Math.max(...ahead.map(Math.abs));
    const [back, front] = [-edge, edge].map((far) => origin.map((x, i) => x + far * ahead[i]));
    parts.push(line(back, front, "dp-carrier"));
    if (angle !== null) {
      const end = to(foot);
      const height = Math.hypot(tipB[0] - end[0], tipB[1] - end[1]);
      const across = height > 0 ? [(tipB[0] - end[0]) / height, (tipB[1] - end[1]) / height] : [ahead[1], -ahead[0]];
      const inward = ahead.map((x) => -x * (sign || 1));
      parts.push(line(origin, end, "dp-shadow"), line(tipB, end, "dp-drop"));
      if (height > 24 && sign !== 0) parts.push(corner(end, inward, across, 11));
    }
  }
  if (angle !== null) parts.push(...angleMark(a, b, angle, sign, lengthA, lengthB, origin, tipA, tipB));
  parts.push(...arrow(origin, tipA, "a"), ...arrow(origin, tipB, "b"));
  return parts;
}

const line = (from, to, kind) => s("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: kind });

// The square of a right angle at `at`, between two unit directions.
function corner(at, u, v, size) {
  const point = (p, q) => [0, 1].map((i) => (at[i] + p * u[i] + q * v[i]).toFixed(2)).join(" ");
  return s("path", { d: `M${point(size, 0)} L${point(size, size)} L${point(0, size)}`, class: "dp-corner" });
}

function angleMark(a, b, angle, sign, lengthA, lengthB, origin, tipA, tipB) {
  const unit = (v, length) => [v[0] / length, -v[1] / length];
  const [u, v] = [unit(a, lengthA), unit(b, lengthB)];
  const reach = Math.min(...[tipA, tipB].map((tip) => Math.hypot(tip[0] - origin[0], tip[1] - origin[1])));
  const radius = Math.min(38, 0.75 * Math.max(16, reach));
  const parts = [];
  if (sign === 0) parts.push(corner(origin, u, v, radius * 0.6));
  else {
    const from = origin.map((x, i) => x + radius * u[i]);
    const to = origin.map((x, i) => x + radius * v[i]);
    const sweep = u[0] * v[1] - u[1] * v[0] > 0 ? 1 : 0;
    const d = `M${origin.join(" ")} L${from.join(" ")} A${radius} ${radius} 0 0 ${sweep} ${to.join(" ")} Z`;
    parts.push(s("path", { d, class: "dp-wedge" }));
  }
  // The number is drawn in the middle of the wedge; a narrow wedge has no room, so it is drawn behind the origin.
  const half = Math.hypot(u[0] + v[0], u[1] + v[1]);
  const middle = half > 1e-6 ? [(u[0] + v[0]) / half, (u[1] + v[1]) / half] : [u[1], -u[0]];
  const away = angle < 40 ? -26 : radius + 22;
  parts.push(s("text", {
    x: origin[0] + away * middle[0], y: origin[1] + away * middle[1] + 5, class: "dp-name", "text-anchor": "middle",
  }, `${fmt(angle, 0)}°`));
  return parts;
}

function arrow(origin, tip, name) {
  const [dx, dy] = [tip[0] - origin[0], tip[1] - origin[1]];
  const length = Math.hypot(dx, dy);
  const kind = `dp-arrow aw-of-${name}`;
  const [ux, uy] = length > 0 ? [dx / length, dy / length] : [0.7, -0.7];
  const label = s("text", {
    x: tip[0] + 25 * ux, y: tip[1] + 25 * uy + 6, class: `dp-name dp-big aw-of-${name}`, "text-anchor": "middle",
  }, name);
  if (length < 1) return [label];
  const head = Math.min(15, length);
  const neck = [tip[0] - head * ux, tip[1] - head * uy];
  const side = head * 0.42;
  const points = [tip, [neck[0] - side * uy, neck[1] + side * ux], [neck[0] + side * uy, neck[1] - side * ux]];
  const polygon = s("polygon", { points: points.map((p) => p.join(",")).join(" "), class: kind });
  return [line(origin, neck, kind), polygon, label];
}

export default { render };
