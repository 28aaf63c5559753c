// A curve that the reader draws before the true one is laid over it.

// state: {x, y: points of the true curve, x increasing; log: whether x is on a logarithmic axis; guess: heights drawn at
// evenly spaced columns, null where nothing is drawn yet}. Returns the columns, the true heights there, and how far the
// guess is from these on average, or null while a column is empty.
export function compute({ x, y, log, guess }) {
  const place = x.map((value) => (log ? Math.log(value) : value));
  const columns = guess.map((_, i) => place[0] + ((place.at(-1) - place[0]) * i) / (guess.length - 1));
  const truth = columns.map((at) => {
    const j = Math.min(x.length - 1, Math.max(1, place.findIndex((one) => one >= at - 1e-12)));
    const part = Math.min(1, (at - place[j - 1]) / (place[j] - place[j - 1]));
    return y[j - 1] + part * (y[j] - y[j - 1]);
  });
  const gaps = guess.map((value, i) => (value === null ? null : Math.abs(value - truth[i])));
  return { columns: columns.map((at) => (log ? Math.exp(at) : at)), truth,
    apart: gaps.includes(null) ? null : sum(gaps) / gaps.length };
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BASE] = [560, 250, 46, 548, 14, 208];

export default widget("draw_curve", "A curve to draw",
  ["x", "y", "log", "low", "high", "xlabel", "ylabel", "guess", "shown"], (view) => {
  const { root, summary, say, model, read: state, animate } = view;
  let chosen = 0, pen = null; // the column that keys change, and the column where the pointer was last
  const up = (value, { low, high }) => scale([low, high], [BASE, TOP])(value);
  const across = (i, n) => scale([0, n - 1], [LEFT, RIGHT])(i);

  const grid = s("g"), truth = s("path", { class: "dc-truth", pathLength: 1 }), mine = s("path", { class: "dc-guess" });
  const here = s("circle", { r: 6, class: "dc-here" });
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "dc-plane", tabindex: "0", role: "slider", "data-go": "draw",
    "aria-orientation": "vertical", onkeydown: keyed },
  s("rect", { class: "dc-paper", x: LEFT, y: TOP, width: RIGHT - LEFT, height: BASE - TOP }), grid, mine, truth, here);
  const show = h("button", { type: "button", "data-go": "show", onclick: () => change(model, { shown: !model.get("shown") }) });
  const again = h("button", { type: "button", "data-go": "again", onclick: () =>
    change(model, { guess: model.get("guess").map(() => null), shown: false }) }, "Draw again");
  const verdict = h("p", { class: "dc-verdict", "data-value": "verdict" });
  root.append(svg, h("div", { class: "aw-row" }, show, again, verdict), summary);

  function put(changes) {
    const { low, high, guess } = state(), now = [...guess];
    for (const [i, value] of changes) now[i] = clamp(value, low, high);
    change(model, { guess: now });
  }

  // Every column on the way, so that a quick stroke leaves no gap.
  drag(svg, ([x, y], first) => {
    const { low, high, guess: { length: n }, shown } = state();
    if (first ? shown : !pen) return;
    const column = clamp(Math.round(((x - LEFT) / (RIGHT - LEFT)) * (n - 1)), 0, n - 1);
    const to = [column, low + ((BASE - y) / (BASE - TOP)) * (high - low)];
    const from = first ? to : pen, steps = Math.abs(column - from[0]);
    put(steps === 0 ? [to] : range(steps, (k) => [from[0] + Math.sign(column - from[0]) * (k + 1),
      from[1] + ((to[1] - from[1]) * (k + 1)) / steps]));
    pen = to;
    chosen = column;
  }, () => (pen = null));

  function keyed(event) {
    const { low, high, guess, shown } = state();
    const [side, step] = keyOf(event, { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] })
      ?? [0, 0];
    const now = guess[chosen] ?? (low + high) / 2;
    if (side) {
      const next = clamp(chosen + side, 0, guess.length - 1);
      const fill = guess[next] === null && !shown ? [[chosen, now], [next, now]] : [];
      chosen = next;
      if (fill.length) put(fill);
      else draw();
    } else if (step && !shown) put([[chosen, now + (step * (high - low)) / (event.shiftKey ? 10 : 40)]]);
  }

  const motion = animate(({ part }) => {
    truth.setAttribute("stroke-dasharray", `${part.toFixed(3)} 1`);
    truth.style.visibility = part > 0 ? "visible" : "hidden";
  }, 900);

  const build = rebuilder((now) => {
    const { x, y, log, low, high } = now;
    const place = (value) => (log ? Math.log(value) : value);
    const right = (value) => scale([place(x[0]), place(x.at(-1))], [LEFT, RIGHT])(place(value));
    const powers = range(25, (i) => 10 ** (i - 12)).filter((p) => p >= x[0] * 0.999 && p <= x.at(-1) * 1.001);
    const xs = log && powers.length > 1 ? powers : [0, 0.25, 0.5, 0.75, 1].map((part) => x[0] + part * (x.at(-1) - x[0]));
    const ys = [0, 0.25, 0.5, 0.75, 1].map((part) => low + part * (high - low));
    grid.replaceChildren(
      ...ys.map((value) => s("line", { class: "dc-line", x1: LEFT, x2: RIGHT, y1: up(value, now), y2: up(value, now) })),
      ...ys.map((value) => s("text", { class: "dc-tick", x: LEFT - 6, y: up(value, now) + 5, "text-anchor": "end" }, plain(value, 2))),
      ...xs.map((value) => s("text", { class: "dc-tick", x: right(value), y: BASE + 18, "text-anchor": "middle" }, plain(value))),
      s("text", { class: "dc-tick", x: RIGHT, y: BASE + 36, "text-anchor": "end" }, now.xlabel),
      s("text", { class: "dc-tick", x: LEFT + 6, y: TOP + 16 }, now.ylabel));
    truth.setAttribute("d", pathOf(x.map((value, i) => [right(value), up(y[i], now)])));
  });

  function draw() {
    const now = state(), { guess, shown, low, high, x, y, log } = now, numbers = compute(now);
    build([x, y, log, low, high, now.xlabel, now.ylabel], now);
    mine.setAttribute("d", pathOf(guess.map((value, i) =>
      (value === null ? null : [across(i, guess.length), up(value, now)]))));
    const level = guess[chosen] ?? (low + high) / 2;
    setIfChanged(here, { cx: across(chosen, guess.length), cy: up(level, now) });
    motion.to({ part: shown ? 1 : 0 });
    show.textContent = shown ? "Hide the curve" : "Lay the curve over it";
    const drawn = guess.filter((value) => value !== null).length;
    verdict.textContent = !shown ? (drawn === 0 ? "Draw from the left edge to the right." : "")
      : numbers.apart === null ? "" : `On average you are ${fmt(numbers.apart)} away.`;
    const told = guess[chosen] === null ? "nothing drawn" : plain(guess[chosen], 2);
    fill(svg, { "aria-label": `${now.ylabel} against ${now.xlabel}, column ${chosen + 1} of ${guess.length}`,
      "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": level,
      "aria-valuetext": `${plain(numbers.columns[chosen])}: ${told}` });
    say(`${drawn} of ${guess.length} columns are drawn. `
      + (shown ? `The true curve goes from ${plain(y[0], 2)} to ${plain(y.at(-1), 2)}.` : "The true curve is hidden."));
  }
  return draw;
});
