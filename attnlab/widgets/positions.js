// Shared by the two explorers of positions: frequencies, the clocks that turn with them, and numbers as text.

const TURN = 2 * Math.PI;

// Radians per token, one for each pair of columns: base^(−2i / width).
const frequenciesOf = (width, base = 10000) => range(width / 2, (i) => base ** ((-2 * i) / width));

// `digits` figures behind the point, fewer for large numbers, so that columns keep their width.
function figures(x, digits = 3) {
  const size = Math.abs(x);
  const kept = size >= 1000 ? 0 : size >= 100 ? Math.min(1, digits) : digits;
  const text = size >= 1e6 ? x.toExponential(1).replace("e+", "e") : x.toFixed(kept);
  return text.replace(/^-(?=0(\.0*)?$)/, "").replace(/-/g, "−");
}

// The point at an angle, counterclockwise from the right, and the way on from there in less than a turn.
const pointAt = (angle, r) => [r * Math.cos(angle), -r * Math.sin(angle)];
function arc(from, by, r) {
  if (Math.abs(by) < 1e-6) return "";
  const [large, clockwise] = [Math.abs(by) > Math.PI ? 1 : 0, by < 0 ? 1 : 0];
  return `M ${pointAt(from, r).join(" ")} A ${r} ${r} 0 ${large} ${clockwise} ${pointAt(from + by, r).join(" ")}`;
}

// A curve against the offset, from −last to last, with the present offset on it. `onoffset` hears one that is pressed.
// Classes of its parts begin with `kind`.
function makeOffsetPlot(kind, height, onoffset) {
  const [LEFT, RIGHT, TOP, BOTTOM] = [34, 14, 10, 24];
  const svg = s("svg", { class: `${kind}-plot`, role: "img" });
  const drop = s("line", { class: `${kind}-drop` }), curve = s("polyline", { class: `${kind}-curve` });
  const dot = s("circle", { class: `${kind}-point`, r: 7 });
  let last, x, y, floor, levels;
  stroke(svg, (event) => {
    const [part] = placeIn(svg, event, [LEFT, RIGHT, 0, 0]);
    onoffset(clamp(Math.round((2 * part - 1) * last), -last, last));
  });

  // The parts that stay for offsets up to `last` and values up to `most`: `marksFor(width)` says how many marks there
  // may be on a side, at least `least` apart; `zero` is that of 0; `behind` are offsets between which the ground is shaded.
  function build(offsets, most, marksFor, { least = 1, zero = "0", behind = [] } = {}) {
    last = offsets;
    const width = svg.clientWidth || 320, text = (at, words) => s("text", at, words);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    x = scale([-last, last], [LEFT, width - RIGHT]);
    let step = least;
    while (last / step > marksFor(width)) step *= 2;
    const marks = Math.floor(last / step);
    levels = [0, most / 2, most].map((value) => ({ value, line: s("line", { class: `${kind}-grid`, x1: LEFT,
      x2: width - RIGHT }), text: text({ x: LEFT - 6, "text-anchor": "end" }, plain(value)) }));
    svg.replaceChildren(...behind.map(([from, to]) => s("rect", { class: `${kind}-unseen`, x: x(from), y: TOP,
      width: x(to) - x(from), height: height - TOP - BOTTOM })), ...levels.flatMap(({ line, text }) => [line, text]),
    ...range(2 * marks + 1, (i) => (i - marks) * step).map((k) =>
      text({ x: x(k), y: height - 6, "text-anchor": "middle" }, k ? plain(k) : zero)), drop, curve, dot);
  }

  // values: those at offsets 0, 1 ... last; the curve is the same on both sides.
  function plot(values) {
    floor = Math.min(0, ...values);
    y = scale([floor, values[0]], [height - BOTTOM, TOP]);
    for (const { value, line, text } of levels) {
      setIfChanged(line, { y1: y(value), y2: y(value) });
      setIfChanged(text, { y: y(value) + 4.5 });
    }
    setIfChanged(curve, { points: [...values.slice(1).reverse(), ...values].map((value, i) =>
      `${x(i - last).toFixed(2)},${y(value).toFixed(2)}`).join(" ") });
  }

  function draw(offset, value) {
    setIfChanged(drop, { x1: x(offset), x2: x(offset), y1: y(floor), y2: y(value) });
    setIfChanged(dot, { cx: x(offset), cy: y(value) });
  }
  return { svg, build, plot, draw };
}
