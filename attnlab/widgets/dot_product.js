// The dot-product explorer: two arrows to drag, and the sum, the angle and the shadow behind one number.

const TRAITS = ["a", "b"];
const LARGEST = 1e6;
const SIDE = 400; // the drawing's width and height, in its own units
const REACH = 172; // of these, from the origin to the edge of the grid

// All numbers shown. state: {a: [a1, a2], b: [b1, b2]}. Angles in degrees, null where an arrow has no direction.
export function compute({ a, b }) {
  const lengthA = Math.hypot(...a), lengthB = Math.hypot(...b);
  const products = [a[0] * b[0], a[1] * b[1]];
  const both = lengthA * lengthB;
  const sum = products[0] + products[1];
  const dot = Math.abs(sum) <= 1e-12 * both ? 0 : sum; // what is left of a cancellation is rounding
  const cosine = both === 0 ? 0 : clamp(dot / both, -1, 1);
  // atan2 stays accurate where acos does not: near 0 and 180 degrees.
  const angle = both === 0 ? null : (Math.atan2(Math.abs(a[0] * b[1] - a[1] * b[0]), dot) * 180) / Math.PI;
  const shadow = lengthA === 0 ? null : dot / lengthA;
  const foot = lengthA === 0 ? null : a.map((x) => (x / lengthA) * shadow);
  return { products, dot, lengthA, lengthB, cosine, angle, shadow, foot, sign: Math.sign(dot), extent: extent(a, b) };
}

// How far the grid reaches: 4, 8, 20, 40, 80, 200 ..., the first that holds both arrows.
function extent(a, b) {
  const size = Math.max(...[...a, ...b].map(Math.abs));
  for (let power = 1; ; power *= 10)
    for (const step of [4, 8, 20]) if (size <= step * power) return step * power;
}

const WORDS = { 1: "toward a", 0: "across a", [-1]: "away from a" };

const PRESETS = [
  ["Same direction", (a) => a.map((x) => x / 2)],
  ["Perpendicular", (a) => [-a[1], a[0]]],
  ["Opposite", (a) => a.map((x) => -x)],
  ["b twice as long", (a, b) => b.map((x) => 2 * x)],
];

function summaryOf({ dot, angle, cosine, shadow, sign }) {
  if (angle === null)
    return "a·b = 0. An arrow of length 0 has no direction, so there is no angle. Its cosine counts as 0.";
  return `a·b = ${fmt(dot)}: b points ${WORDS[sign]}. Angle ${fmt(angle, 1)}°, cosine ${fmt(cosine, 3)}. ` +
    `Shadow of b on a: ${fmt(shadow)}.`;
}

// An arrow as its length and its direction in degrees, which is the nearest one to `near`, or further round.
function polar([x, y], near) {
  const length = Math.hypot(x, y);
  const turn = length === 0 ? near : (Math.atan2(y, x) * 180) / Math.PI;
  return { length, turn: turn + 360 * Math.round((near - turn) / 360) };
}

const cartesian = ({ length, turn }) => [Math.cos, Math.sin].map((f) => length * f((turn * Math.PI) / 180));

// The angle from a to b, between −180 and 180 degrees, or null.
function signedAngle(a, b) {
  if (!Math.hypot(...a) || !Math.hypot(...b)) return null;
  return (Math.atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1]) * 180) / Math.PI;
}

export default widget("dot_product", "Dot product of two arrows", TRAITS, (view) => {
  const { root, summary, say, model, read: state, animate, edit } = view, start = state();
  let heldExtent = null; // the grid does not rescale while a tip is dragged
  let last = null; // what was drawn last: a turn starts there, and takes the short way

  const move = (name, i, value) => edit({ [name]: model.get(name).map((old, j) => (i === j ? value : old)) });

  const plane = makePlane({
    onmove: (name, point) => edit({ [name]: point }),
    onhold: (holding) => {
      heldExtent = holding ? compute(state()).extent : null;
      draw();
    },
    at: (name) => model.get(name),
  });
  const plot = makePlot();

  const headline = h("b", { "data-value": "headline" });
  const signText = h("span", { class: "dp-sign" });
  const shadowText = h("span", { class: "dp-of-shadow", "data-value": "shadow" });

  // Components: four number fields.
  const fields = {};
  const pair = (name) => {
    fields[name] = [0, 1].map((i) =>
      numberField(`${name}, ${["first", "second"][i]} component`, model.get(name)[i], (value) => move(name, i, value),
        { step: 0.1, min: -LARGEST, max: LARGEST, "data-field": `${name}${i + 1}` }));
    return h("span", { class: "dp-pair" }, h("b", { class: `aw-of-${name}` }, name), " = (", fields[name][0], ", ",
      fields[name][1], ")");
  };
  const components = h("div", { class: "dp-components" }, pair("a"), pair("b"));

  // The second bar starts where the first ends, so the third, their sum, ends where the second does.
  const bars = [0, 1, 2].map((i) => ({
    label: h("span", { class: "dp-term" }, ["a₁ × b₁", "a₂ × b₂", "a·b"][i]),
    bar: h("span", { class: `dp-bar ${i === 2 ? "dp-bar-sum" : ""}` }),
    value: h("span", { class: "aw-numbers aw-right", "data-value": ["product-1", "product-2", "dot"][i] }),
  }));
  const walk = h("div", { class: "dp-walk" }, bars.flatMap(({ label, bar, value }) =>
    [label, h("span", { class: "dp-lane", "aria-hidden": "true" }, bar), value]));
  const angleWay = h("div", { class: "aw-numbers dp-way", "data-value": "way-angle" });

  const presets = h("div", { class: "aw-row dp-presets", role: "group", "aria-label": "Examples" },
    PRESETS.map(([label, make]) => h("button", { type: "button", onclick: () => {
      // A zero arrow has no direction to copy, so a preset starts from a fresh one.
      const a = model.get("a").some((x) => x !== 0) ? model.get("a") : [2, 1];
      edit({ a, b: make(a, model.get("b")).map((x) => clamp(x, -LARGEST, LARGEST) + 0) });
    } }, label)),
    button("around", "Turn b around", around),
    h("button", { type: "button", onclick: () => {
      plot.clear();
      edit(start);
    } }, "Start again"));

  root.append(
    h("div", { class: "dp-split" },
      h("div", { class: "dp-figure" },
        h("div", { class: "dp-headline aw-numbers" }, headline, signText, shadowText), plane.svg),
      h("div", { class: "dp-panel" }, components, plot.svg, angleWay, walk)),
    presets, summary);

  // Everything drawn: lengths and directions of both arrows, and two scales. At rest the arrows are exactly as given.
  function show({ a, b, extent, most, exact }) {
    const now = exact ?? { a: cartesian(a), b: cartesian(b) };
    last = { a, b, extent, most, exact: null };
    const numbers = compute(now);
    plane.draw(now, numbers, extent);
    plot.draw(signedAngle(now.a, now.b), numbers, most);
    headline.textContent = `a·b = ${fmt(numbers.dot)}`;
    signText.textContent = numbers.angle === null ? "" : WORDS[numbers.sign];
    signText.dataset.sign = numbers.sign;
    shadowText.textContent = numbers.shadow === null ? "no shadow" : `shadow ${fmt(numbers.shadow)}`;
    const [p, q] = numbers.products;
    const spans = [[0, p], [p, p + q], [0, numbers.dot]];
    // The scale grows in doublings, so that bars change length and not their unit.
    const longest = Math.max(4, ...spans.flat().map(Math.abs));
    const scale = 2 ** Math.ceil(Math.log2(longest));
    bars.forEach(({ bar, value }, i) => {
      const [from, to] = spans[i];
      stretch(bar, 0.5 + from / scale / 2, 0.5 + to / scale / 2);
      bar.dataset.sign = Math.sign(to - from);
      value.textContent = fmt([p, q, numbers.dot][i]);
    });
    angleWay.textContent = numbers.angle === null ? "No angle with an arrow of length 0."
      : `|a| |b| cos θ = ${fmt(numbers.lengthA)} × ${fmt(numbers.lengthB)} × ${bracket(numbers.cosine, 3)}`;
  }
  const motion = animate((now) => show(now === motion.target ? now : { ...now, exact: null }), 600);
  const turning = animate((now) => show(now === turning.target ? now : { ...now, exact: null }), 2400);

  function goal() {
    const { a, b } = state();
    const numbers = compute({ a, b });
    return { a: polar(a, last?.a.turn ?? 0), b: polar(b, last?.b.turn ?? 0), extent: heldExtent ?? numbers.extent,
      most: 2 ** Math.ceil(Math.log2(Math.max(4, numbers.lengthA * numbers.lengthB))), exact: { a, b } };
  }

  // Once around, from where b is: the curve draws itself.
  function around() {
    motion.stop();
    const from = goal();
    turning.to(from, { jump: true });
    if (prefersReducedMotion()) for (let step = 0; step <= 360; step += 3)
      show({ ...from, b: { ...from.b, turn: from.b.turn + step }, exact: null });
    turning.target = { ...from, b: { ...from.b, turn: from.b.turn + 360 } };
    turning.to(turning.target);
  }

  function draw() {
    const now = state(), numbers = compute(now);
    turning.stop();
    if (turning.target) motion.to(last, { jump: true });
    turning.target = null;
    motion.target = goal();
    motion.to(motion.target, { jump: heldExtent !== null });
    for (const name of TRAITS) {
      fields[name].forEach((field, i) => setNumber(field, now[name][i]));
      plane.name(name, now[name]);
    }
    say(summaryOf(numbers));
  }

  return draw;
});

const bracket = (x, digits = 2) => (x < 0 ? `(${fmt(x, digits)})` : fmt(x, digits));

// The dot product against the angle from a to b: a dot, and the trace that it leaves.
function makePlot() {
  const [width, height, left, right, middle, reach] = [340, 168, 12, 328, 76, 62];
  const across = scale([-180, 180], [left, right]);
  const dot = s("circle", { r: 6, class: "dp-now" });
  const trace = s("path", { class: "dp-trace" });
  const lines = [-90, 90].map((angle) => s("line", { class: "dp-grid", x1: across(angle), x2: across(angle),
    y1: middle - reach, y2: middle + reach }));
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "dp-plot", role: "img",
    "aria-label": "The dot product against the angle" },
  s("rect", { class: "dp-zone", x: across(-90), y: middle - reach, width: across(90) - across(-90), height: reach }),
  ...lines, s("line", { class: "dp-axis", x1: left, x2: right, y1: middle, y2: middle }),
  s("text", { class: "dp-tick", x: left, y: middle - reach + 6 }, "a·b"),
  ...[-180, -90, 0, 90, 180].map((angle) => s("text", { class: "dp-tick", x: across(angle), y: height - 8,
    "text-anchor": angle === -180 ? "start" : angle === 180 ? "end" : "middle" }, `${plain(angle)}°`)), trace, dot);
  let seen = []; // [angle, dot product], or null where the pen was lifted
  let edge = 4; // the largest product there is room for
  const up = (value) => middle - (value / edge) * reach;
  function draw(angle, { dot: value }, most) {
    const rescaled = edge !== most;
    edge = most;
    dot.classList.toggle("dp-none", angle === null);
    if (angle !== null) {
      const before = seen.at(-1), same = before && before[0] === angle && before[1] === value;
      if (before && Math.abs(before[0] - angle) > 180) seen.push(null);
      if (!same) seen.push([angle, value]);
      if (seen.length > 800) seen = seen.slice(-800);
      setIfChanged(dot, { cx: across(angle), cy: up(value) });
      if (same && !rescaled) return;
    } else if (seen.at(-1)) seen.push(null);
    trace.setAttribute("d", pathOf(seen.map((one) => one && [across(one[0]), up(one[1])])));
  }
  return { svg, draw, clear: () => (seen = []) };
}

// The grid with the two arrows. `onmove(name, [x, y])` is called on a drag or a key, `onhold(true or false)` when a
// drag begins and ends.
function makePlane({ onmove, onhold, at }) {
  const origin = [SIDE / 2, SIDE / 2];
  const { lines, ticks } = gridLines();
  const carrier = s("line", { class: "dp-carrier" }), shadow = s("line", { class: "dp-shadow" });
  const drop = s("line", { class: "dp-drop" }), corner = s("path", { class: "dp-corner" });
  const wedge = s("path", { class: "dp-wedge" });
  const angleText = s("text", { class: "dp-name", "text-anchor": "middle" });
  const arrows = Object.fromEntries(TRAITS.map((name) => [name, {
    shaft: s("line", { class: `dp-arrow aw-of-${name}` }), head: s("polygon", { class: `dp-arrow aw-of-${name}` }),
    label: s("text", { class: `dp-name dp-big aw-of-${name}`, "text-anchor": "middle" }, name),
  }]));
  const svg = s("svg", {
    viewBox: `0 0 ${SIDE} ${SIDE}`, class: "dp-plane", role: "group", "aria-label": "Grid with the arrows a and b",
  }, s("g", {}, ...lines, ...ticks), s("g", { "aria-hidden": "true" }, carrier, shadow, drop, corner, wedge, angleText,
    ...Object.values(arrows).flatMap(({ shaft, head, label }) => [shaft, head, label])));
  let reach = 4; // grid units from the origin to the edge, as last drawn

  const tips = Object.fromEntries(TRAITS.map((name) => [name, makeTip(name)]));
  svg.append(tips.a, tips.b);

  function makeTip(name) {
    const limit = (x) => clamp(Number(x.toPrecision(12)), -LARGEST, LARGEST) + 0;
    const tip = s("g", {
      class: `dp-tip aw-of-${name}`, tabindex: "0", role: "application", "aria-roledescription": "movable arrow tip",
      "data-tip": name,
      onkeydown: (event) => {
        const direction = keyOf(event, { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] });
        const step = event.shiftKey ? 1 : 0.1;
        if (direction) onmove(name, at(name).map((x, i) => limit(x + step * direction[i])));
      },
    }, s("circle", { r: 20, class: "dp-hit" }), s("circle", { r: 8, class: "dp-dot" }),
    s("circle", { r: 13, class: "dp-ring" }));
    drag(tip, ([x, y], first) => {
      if (first) return onhold(true);
      const snap = reach / 40; // a tenth on the smallest grid
      const grid = (u) => limit(Math.round((clamp(u, -1, 1) * reach) / snap) * snap);
      onmove(name, [grid((x - SIDE / 2) / REACH), grid((SIDE / 2 - y) / REACH)]);
    }, () => onhold(false));
    return tip;
  }

  const segment = (node, from, to) => setIfChanged(node, { x1: from[0], y1: from[1], x2: to[0], y2: to[1] });
  const visible = (node, shown) => (node.style.display = shown ? "" : "none");
  const step = (from, ...parts) => from.map((x, i) => x + parts.reduce((sum, [far, u]) => sum + far * u[i], 0));
  // The square of a right angle at `from`, between two unit directions.
  const square = (from, u, v, size) => `M${[[[size, u]], [[size, u], [size, v]], [[size, v]]]
    .map((parts) => step(from, ...parts).map((x) => x.toFixed(2)).join(" ")).join("L")}`;

  function draw({ a, b }, numbers, extent) {
    const { lengthA, lengthB, angle, sign, foot } = numbers;
    if (extent !== reach || !ticks[0].textContent) {
      reach = extent;
      for (const tick of ticks) write(tick, plain((Number(tick.dataset.part) / 4) * extent, 2));
    }
    const to = ([x, y]) => [SIDE / 2 + (x / extent) * REACH, SIDE / 2 - (y / extent) * REACH];
    const [tipA, tipB] = [to(a), to(b)];
    visible(carrier, lengthA > 0);
    for (const node of [shadow, drop, angleText]) visible(node, angle !== null);
    visible(wedge, angle !== null && sign !== 0);
    let bent = "";
    if (lengthA > 0) {
      const ahead = [a[0] / lengthA, -a[1] / lengthA]; // on the drawing y points down
      const edge = REACH / Math.max(...ahead.map(Math.abs));
      segment(carrier, step(origin, [-edge, ahead]), step(origin, [edge, ahead]));
      if (angle !== null) {
        const end = to(foot), height = Math.hypot(tipB[0] - end[0], tipB[1] - end[1]);
        segment(shadow, origin, end);
        segment(drop, tipB, end);
        if (height > 24 && sign !== 0) {
          const aside = [(tipB[0] - end[0]) / height, (tipB[1] - end[1]) / height];
          bent = square(end, ahead.map((x) => -x * sign), aside, 11);
        }
        const v = [b[0] / lengthB, -b[1] / lengthB];
        const near = Math.min(...[tipA, tipB].map((tip) => Math.hypot(tip[0] - origin[0], tip[1] - origin[1])));
        const radius = Math.min(38, 0.75 * Math.max(16, near));
        if (sign === 0) bent = square(origin, ahead, v, radius * 0.6);
        else {
          const sweep = ahead[0] * v[1] - ahead[1] * v[0] > 0 ? 1 : 0;
          const [from, end] = [step(origin, [radius, ahead]), step(origin, [radius, v])];
          setIfChanged(wedge, { d: `M${origin.join(" ")} L${from.join(" ")} A${radius} ${radius} 0 0 ${sweep} ${end.join(" ")} Z` });
        }
        // The number is drawn in the middle of the wedge; a narrow wedge has no room, so it is drawn behind the origin.
        const half = Math.hypot(ahead[0] + v[0], ahead[1] + v[1]);
        const middle = half > 1e-6 ? [(ahead[0] + v[0]) / half, (ahead[1] + v[1]) / half] : [ahead[1], -ahead[0]];
        const away = angle < 40 ? -26 : radius + 22;
        setIfChanged(angleText, { x: origin[0] + away * middle[0], y: origin[1] + away * middle[1] + 5 });
        angleText.textContent = `${fmt(angle, 0)}°`;
      }
    }
    setIfChanged(corner, { d: bent });
    for (const [name, tip] of [["a", tipA], ["b", tipB]]) {
      const { shaft, head, label } = arrows[name];
      const length = Math.hypot(tip[0] - origin[0], tip[1] - origin[1]);
      const [ux, uy] = length > 0 ? [(tip[0] - origin[0]) / length, (tip[1] - origin[1]) / length] : [0.7, -0.7];
      setIfChanged(label, { x: tip[0] + 25 * ux, y: tip[1] + 25 * uy + 6 });
      visible(shaft, length >= 1);
      visible(head, length >= 1);
      const point = Math.min(15, length), side = point * 0.42;
      const neck = [tip[0] - point * ux, tip[1] - point * uy];
      segment(shaft, origin, neck);
      const points = [tip, [neck[0] - side * uy, neck[1] + side * ux], [neck[0] + side * uy, neck[1] - side * ux]];
      setIfChanged(head, { points: points.map((p) => p.map((x) => x.toFixed(2)).join(",")).join(" ") });
      tips[name].setAttribute("transform", `translate(${tip.map((x) => x.toFixed(2)).join(" ")})`);
    }
  }
  const name = (which, value) => tips[which].setAttribute("aria-label",
    `Tip of ${which} at ${plain(value[0])}, ${plain(value[1])}. Arrow keys move it by 0.1, with shift by 1.`);
  return { svg, draw, name };
}

function gridLines() {
  const lines = [], ticks = [], middle = SIDE / 2;
  for (let i = -4; i <= 4; i++) {
    const at = middle + (i / 4) * REACH;
    const kind = i === 0 ? "dp-axis" : "dp-grid";
    const ends = [middle - REACH, middle + REACH];
    lines.push(s("line", { x1: at, x2: at, y1: ends[0], y2: ends[1], class: kind }),
      s("line", { x1: ends[0], x2: ends[1], y1: at, y2: at, class: kind }));
    if (i === 0 || i % 2 !== 0) continue;
    const last = i === 4; // the last ones move in a little, to stay on the drawing
    ticks.push(
      s("text", { x: at - (last ? 8 : 0), y: middle + 17, class: "dp-tick", "text-anchor": "middle", "data-part": i }),
      s("text", { x: middle - 6, y: SIDE - at + (last ? 12 : 5), class: "dp-tick", "text-anchor": "end", "data-part": i }));
  }
  return { lines, ticks };
}
