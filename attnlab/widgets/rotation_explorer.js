// Rotary positions. `compute` turns a query and a key and scores them; the view draws the pairs and the scores.

const [LEAST_BASE, MOST_BASE] = [2, 1e7];
const CLOCKS = 4; // pairs that are drawn at most
const FURTHER = 10; // tokens by which the summary moves both on, to show that the score stays

// All numbers shown. Before it is turned, every pair of numbers of query and key is (1, 0).
export function compute({ d_head, base, query, key, trained = 32 }) {
  const half = d_head / 2, frequencies = frequenciesOf(d_head, base);
  const unturned = range(d_head, (column) => (column < half ? 1 : 0));
  const score = (at, other) => dot(turn(unturned, at, frequencies), turn(unturned, other, frequencies));
  const last = 2 * trained - 1;
  const offsets = range(2 * last + 1, (i) => i - last);
  const offset = query - key;
  return {
    frequencies,
    wavelengths: frequencies.map((frequency) => TURN / frequency), // tokens for one full turn
    angles: { query: frequencies.map((f) => query * f), key: frequencies.map((f) => key * f) },
    between: frequencies.map((f) => offset * f), // from the key's hand to the query's
    rotated: { query: turn(unturned, query, frequencies), key: turn(unturned, key, frequencies) },
    shares: frequencies.map((f) => Math.cos(offset * f)), // what each pair adds to the score
    score: score(query, key),
    further: { query: query + FURTHER, key: key + FURTHER, score: score(query + FURTHER, key + FURTHER) },
    offset, offsets,
    curve: offsets.map((k) => sum(frequencies.map((f) => Math.cos(k * f)))), // without any position
    reached: frequencies.map((f) => (trained - 1) * f), // the angle at the last position of training
    fullTurns: frequencies.filter((f) => (trained - 1) * f >= TURN).length, // pairs that finish a turn within it
    fresh: frequencies.map((f) => isFresh(offset, f, trained)),
    beyond: { query: query >= trained, key: key >= trained, offset: Math.abs(offset) >= trained },
  };
}

// Whether the angle between the hands is one that no offset of training gave, in a pair that did not finish a turn.
const isFresh = (offset, frequency, trained) => (trained - 1) * frequency < TURN
  && (Math.abs(offset) * frequency) % TURN > (trained - 1) * frequency;

// x rotated by its position, counterclockwise: pair i is numbers i and i + d_head / 2.
function turn(x, position, frequencies) {
  const half = frequencies.length, turned = [...x];
  frequencies.forEach((frequency, i) => {
    const [across, up] = [Math.cos(position * frequency), Math.sin(position * frequency)];
    turned[i] = x[i] * across - x[i + half] * up;
    turned[i + half] = x[i] * up + x[i + half] * across;
  });
  return turned;
}

// An angle in degrees, or in turns from the first full one on.
const angleText = (x) => (Math.abs(x) < TURN ? `${figures((360 * x) / TURN, 1)}°` : `${figures(x / TURN, 1)} turns`);

// The pairs that are drawn: all of them, or some from the first to the last with the chosen one among them.
function pairsOf(half, pair) {
  if (half <= CLOCKS) return range(half);
  const spread = range(CLOCKS, (at) => Math.round((at * (half - 1)) / (CLOCKS - 1)));
  if (spread.includes(pair)) return spread;
  const nearest = spread.slice(1, -1).sort((a, b) => Math.abs(a - pair) - Math.abs(b - pair))[0];
  return spread.map((i) => (i === nearest ? pair : i)).sort((a, b) => a - b);
}

export default widget("rotation_explorer", "Rotary positions",
  ["d_head", "base", "query", "key", "pair", "trained"], (view) => {
  const { root, summary, say, model, read, animate, edit, onend } = view, start = read();
  let clocks = []; // the drawn pairs
  let form = null, plotted = null; // what is drawn: {d_head, trained}, and the base of the curve

  // A handle on the line of positions, for the pointer and for the keys of a slider.
  const MARGIN = 38; // half a handle, so that both ends are in the drawing
  function handle(name, label, take) {
    let value = 0, most = 1, grabbed = 0;
    const go = (to) => clamp(to, 0, most) !== value && take(clamp(to, 0, most));
    const under = (event) => placeIn(strip, event, [MARGIN, MARGIN, 0, 0])[0] * (2 * model.get("trained") - 1);
    const node = h("div", { class: `ro-handle ro-${name}`, role: "slider", tabindex: 0, "data-slider": name,
      "aria-label": label, "aria-valuemin": 0,
      onkeydown: (event) => {
        const by = keyOf(event, { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10,
          Home: -Infinity, End: Infinity });
        if (by) go(value + by * (event.shiftKey ? 10 : 1));
      },
      onpointerdown: (event) => {
        if (event.button !== 0) return;
        node.setPointerCapture(event.pointerId);
        grabbed = under(event) - value;
      },
      onpointermove: (event) => {
        if (event.buttons & 1) go(Math.round(under(event) - grabbed));
      } });
    const show = (now, to, words) => {
      [value, most] = [now, to];
      setIfChanged(node, { "aria-valuemax": to, "aria-valuenow": now, "aria-valuetext": words });
    };
    return { node, show };
  }
  const handles = {
    query: handle("query", "Query", (query) => edit({ query })),
    both: handle("both", "Move both", (earlier) => {
      const { query, key } = read();
      const by = earlier - Math.min(query, key);
      edit({ query: query + by, key: key + by });
    }),
    key: handle("key", "Key", (key) => edit({ key })),
  };
  const [span, beyond] = [h("i", { class: "ro-span" }), h("i", { class: "ro-beyond" })];
  const [inside, outside] = [h("span", {}), h("span", {})];
  const strip = h("div", { class: "ro-places", role: "group" }, h("i", { class: "ro-band" }, beyond), span,
    Object.values(handles).map(({ node }) => node), h("p", { class: "ro-regions aw-numbers" }, inside, outside));

  // A clock for each pair: its first number across, its second up, counterclockwise.
  const R = 76;
  const dials = h("div", { class: "ro-clocks", role: "group" });
  function clockOf(i) {
    const line = (kind) => s("line", { class: kind, x1: 0, y1: 0 });
    const parts = { query: line("ro-hand"), key: line("ro-hand ro-second"),
      queryTip: s("circle", { class: "ro-tip", r: 8 }), keyTip: s("circle", { class: "ro-tip ro-second", r: 8 }),
      between: s("path", { class: "ro-between" }), reached: s("path", { class: "ro-reached" }) };
    const dial = s("svg", { class: "ro-clock", viewBox: "-94 -94 188 188", role: "img", "data-clock": i },
      s("circle", { class: "ro-ring", r: R }), s("line", { class: "ro-axis", x1: -R, x2: R, y1: 0, y2: 0 }),
      s("line", { class: "ro-axis", y1: -R, y2: R, x1: 0, x2: 0 }),
      parts.reached, parts.between, parts.key, parts.query, parts.keyTip, parts.queryTip);
    const text = (name) => h("span", { class: "aw-numbers", "data-value": `${name}-${i}` });
    const [wavelength, between, share, bar] = [text("wavelength"), text("between"), text("share"), h("i", {})];
    const node = h("div", { class: "ro-pair" }, h("p", {}, h("b", {}, `pair ${i}`), " ", wavelength), dial,
      h("p", {}, between), h("div", { class: "ro-share", "aria-hidden": "true" }, bar), h("p", {}, share));
    return { i, dial, parts, wavelength, between, share, bar, node };
  }
  const pairSlider = rangeInput("pair", "Pair i", { step: 1, min: 0 }, (pair) => edit({ pair }));
  const pairNumber = h("b", { class: "aw-numbers" });
  const pairs = h("label", { class: "ro-choice" }, pairNumber, pairSlider);

  const total = h("b", { class: "aw-numbers", "data-value": "score" });
  const apart = h("span", { class: "aw-numbers", "data-value": "offset" });
  const base = fieldAndSlider("base", "Base", (base) => edit({ base }), {
    field: { min: LEAST_BASE, max: MOST_BASE, step: 1000 }, slider: { min: 0.3, max: 7, step: 0.1 },
    from: (power) => clamp(Number((10 ** power).toPrecision(2)), LEAST_BASE, MOST_BASE), to: Math.log10,
  });
  const again = button("reset", "Start again", () => {
    const { d_head, trained } = read(), last = 2 * trained - 1; // may have been made smaller from Python since
    edit({ base: start.base, query: Math.min(start.query, last), key: Math.min(start.key, last),
      pair: Math.min(start.pair, d_head / 2 - 1) });
  });

  // A press or a drag on the curve chooses the offset: the query moves, and the key only where it has to.
  const plot = makeOffsetPlot("ro", 150, (offset) => {
    const { key, trained } = read(), last = 2 * trained - 1;
    const place = clamp(key, Math.max(0, -offset), Math.min(last, last - offset));
    edit({ key: place, query: place + offset });
  });

  root.append(strip, dials, pairs,
    h("div", { class: "ro-tools" }, h("div", { class: "ro-score" }, "score ", total, " ", apart),
      h("label", { class: "ro-base" }, h("b", {}, "Base"), base.field), base.slider, again),
    plot.svg, summary);

  // The parts that stay while positions and base change: the clocks, the regions, the marks of the curve.
  const buildClocks = rebuilder((shown) => {
    clocks = shown.map(clockOf);
    dials.replaceChildren(...clocks.map(({ node }) => node));
  });
  const build = rebuilder(({ d_head, pair, trained }) => {
    const shown = pairsOf(d_head / 2, pair);
    buildClocks(shown, shown);
    const last = 2 * trained - 1;
    write(inside, `training: 0 to ${trained - 1}`);
    write(outside, `beyond: ${trained} to ${last}`);
    strip.style.setProperty("--edge", ((trained - 0.5) / last).toFixed(4));
    pairs.hidden = d_head / 2 <= CLOCKS;
    plot.build(last, d_head / 2, (width) => (width > 480 ? 5 : 2.5),
      { least: 4, zero: "Δ = 0", behind: [[-last, 0.5 - trained], [trained - 0.5, last]] });
    form = { d_head, trained };
    plotted = null;
  });

  // One frame: `query` and `key` may be between two positions, and `power` is the logarithm of the base.
  function paint(now) {
    const { query, key, power } = now;
    const { d_head, trained } = form;
    const [base, last, offset] = [10 ** power, 2 * trained - 1, query - key];
    const frequencies = frequenciesOf(d_head, base);
    const across = (place) => `calc(${MARGIN}px + ${(place / last).toFixed(5)} * (100% - ${2 * MARGIN}px))`;
    for (const [name, place] of [["query", query], ["key", key], ["both", (query + key) / 2]])
      handles[name].node.style.left = across(place);
    Object.assign(span.style, { left: across(Math.min(query, key)), right: across(last - Math.max(query, key)) });
    write(handles.query.node, `query ${Math.round(query)}`);
    write(handles.key.node, `key ${Math.round(key)}`);
    write(handles.both.node, `Δ ${plain(Math.round(offset))}`);

    for (const { i, parts, wavelength, between, share, bar, node } of clocks) {
      const theta = frequencies[i];
      for (const [name, place] of [["key", key], ["query", query]]) {
        const [x, y] = pointAt(place * theta, R);
        setIfChanged(parts[name], { x2: x, y2: y });
        setIfChanged(parts[`${name}Tip`], { cx: x, cy: y });
      }
      const [angle, own] = [offset * theta, Math.cos(offset * theta)];
      const fresh = isFresh(offset, theta, trained);
      node.classList.toggle("ro-new", fresh);
      setIfChanged(parts.between, { d: arc(key * theta, angle % TURN, R * 0.4) });
      setIfChanged(parts.reached, { d: arc(0, Math.min((trained - 1) * theta, TURN - 1e-4), R + 10) });
      write(wavelength, `${figures(TURN / theta, 2)} tokens`);
      write(between, `∠ ${angleText(angle)}${fresh ? " new" : ""}`);
      write(share, `cos ${figures(own)}`);
      stretch(bar, 0.5, 0.5 + own / 2);
    }
    const scoreAt = (k) => sum(frequencies.map((f) => Math.cos(k * f)));
    const value = scoreAt(offset);
    write(total, figures(value));
    write(apart, `at Δ = ${plain(Math.round(offset))}`);

    if (plotted !== base) plot.plot(range(last + 1, scoreAt));
    plotted = base;
    plot.draw(offset, value);
  }
  const motion = animate(paint, 250);

  // Says what the trained length means for the two positions.
  function reach({ d_head, query, key, trained }, { offset, beyond: past, fresh }) {
    const distance = plain(Math.abs(offset));
    if (past.offset) return `No two tokens were ${distance} apart in training: for ${fresh.filter(Boolean).length} of `
      + `${d_head / 2} pairs, the angle between the hands is new.`;
    if (!past.query && !past.key) return `Both are within the ${trained} tokens of training.`;
    const which = past.query && past.key ? "Both positions are" : `Position ${past.query ? query : key} is`;
    return `${which} beyond training, but tokens ${distance} apart occurred in it, so this score is known.`;
  }

  function draw() {
    const state = read();
    const { d_head, query, key, pair, trained } = state;
    const [last, half] = [2 * trained - 1, d_head / 2];
    if (Math.max(query, key) > last || pair >= half) return; // halfway through a change from Python
    const numbers = compute(state);
    const { score, offset, fullTurns, further, angles } = numbers;
    const fresh = build([d_head, trained, pairsOf(half, pair), plot.svg.clientWidth], state);

    const words = (place) => `${place}${place >= trained ? ", beyond training" : ""}`;
    handles.query.show(query, last, words(query));
    handles.key.show(key, last, words(key));
    const earlier = Math.min(query, key);
    handles.both.show(earlier, last - Math.abs(offset), `query ${query}, key ${key}`);
    base.show(state.base, fieldText(state.base));
    [pairSlider.max, pairSlider.value] = [half - 1, pair];
    write(pairNumber, `Pair i = ${pair}`);
    for (const { i, dial } of clocks) {
      dial.setAttribute("aria-label", `Pair ${i}, numbers ${i} and ${i + half}: the query's hand is at `
        + `${figures(angles.query[i], 2)} radians, the key's at ${figures(angles.key[i], 2)}, counterclockwise from the `
        + "right");
    }
    dials.setAttribute("aria-label", `${fullTurns} of ${half} ${half === 1 ? "pair completes" : "pairs complete"} a `
      + "rotation in training");
    strip.setAttribute("aria-label", `Positions 0 to ${last}, trained up to ${trained - 1}`);
    plot.svg.setAttribute("aria-label", `Score against offset, from ${plain(-last)} to ${last}: highest at 0 with `
      + `${plain(half)}, ${figures(score)} at ${plain(offset)}; offsets from ${trained} on are beyond training`);
    motion.to({ query, key, power: Math.log10(state.base) }, { jump: fresh });
    say(`Query at ${query}, key at ${key}: score ${figures(score)}. Move both on by ${FURTHER}, to ${further.query} `
      + `and ${further.key}: ${figures(further.score)} again. Only the offset ${plain(offset)} counts. `
      + reach(state, numbers));
  }

  onend(resized(plot.svg, draw)); // the marks of the curve follow the width
  return draw;
});
