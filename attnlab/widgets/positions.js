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

// Where a curve against the offset is drawn: `across(k)`, and offsets that are marked, fewer where it is narrow.
function offsetAxis(plot, [left, right], last, steps, apart) {
  const width = plot.clientWidth || 320;
  const across = (k) => left + ((k + last) / (2 * last)) * (width - left - right);
  const step = steps.find((size) => last / size <= apart(width)) ?? 2 * steps.at(-1);
  const most = Math.floor(last / step);
  return { width, across, marks: range(2 * most + 1, (i) => (i - most) * step) };
}
