// Rotary positions. `compute` turns a query and a key and scores them; `render` draws the pairs and the scores.

const TRAITS = ["d_head", "base", "query", "key", "pair", "trained"];
const TURN = 2 * Math.PI;
const [LEAST_BASE, MOST_BASE] = [2, 1e7];
const ROWS = 8; // pairs in the table at most
const FURTHER = 10; // tokens by which the summary moves both on, to show that the score stays

// All numbers shown. Before it is turned, every pair of numbers of query and key is (1, 0).
export function compute({ d_head, base, query, key, pair = 0, trained = 32 }) {
  const half = d_head / 2;
  const frequencies = Array.from({ length: half }, (_, i) => base ** ((-2 * i) / d_head)); // radians per token
  const unturned = Array.from({ length: d_head }, (_, column) => (column < half ? 1 : 0));
  const score = (at, other) => dot(turn(unturned, at, frequencies), turn(unturned, other, frequencies));
  const last = 2 * trained - 1;
  const offsets = Array.from({ length: 2 * last + 1 }, (_, i) => i - last);
  const offset = query - key;
  const finishes = (frequency) => (trained - 1) * frequency >= TURN;
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
    reached: (trained - 1) * frequencies[pair], // the angle at the last position of training
    fullTurns: frequencies.filter(finishes).length, // pairs that finish a turn within it
    // Pairs in which the angle between the hands is one that no offset of training gave.
    fresh: frequencies.filter((f) => !finishes(f) && (Math.abs(offset) * f) % TURN > (trained - 1) * f).length,
    beyond: { query: query >= trained, key: key >= trained, offset: Math.abs(offset) >= trained },
  };
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
const dot = (a, b) => sum(a.map((x, column) => x * b[column]));

// x rotated by its position, counterclockwise: pair i is numbers i and i + d_head / 2.
function turn(x, position, frequencies) {
  const half = frequencies.length;
  const turned = [...x];
  frequencies.forEach((frequency, i) => {
    const [across, up] = [Math.cos(position * frequency), Math.sin(position * frequency)];
    turned[i] = x[i] * across - x[i + half] * up;
    turned[i + half] = x[i] * up + x[i + half] * across;
  });
  return turned;
}

// `digits` figures behind the point, fewer for large numbers, so that columns keep their width.
function figures(x, digits = 3) {
  const size = Math.abs(x);
  const kept = size >= 1000 ? 0 : size >= 100 ? Math.min(1, digits) : digits;
  const text = size >= 1e6 ? x.toExponential(1).replace("e+", "e") : x.toFixed(kept);
  return text.replace(/^-(?=0(\.0*)?$)/, "").replace(/-/g, "−");
}

// The pairs that the table shows: all of them, or some from the first to the last with the chosen one among them.
function rowsOf(half, pair) {
  if (half <= ROWS) return Array.from({ length: half }, (_, i) => i);
  const spread = Array.from({ length: ROWS }, (_, row) => Math.round((row * (half - 1)) / (ROWS - 1)));
  if (spread.includes(pair)) return spread;
  const nearest = spread.slice(1, -1).sort((a, b) => Math.abs(a - pair) - Math.abs(b - pair))[0];
  return spread.map((i) => (i === nearest ? pair : i)).sort((a, b) => a - b);
}

const within = (least, x, most) => Math.max(least, Math.min(most, x));

function render({ model, el }) {
  const { root, summary, say } = frame(el, "rotation_explorer", "Rotary positions", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const start = read();
  const edit = (values) => {
    change(model, values);
    draw();
  };

  // A labeled number field with a slider below it. `take` hears every new whole number in range.
  function control(name, text, take, label = text) {
    const field = h("input", { type: "text", inputmode: "numeric", class: "aw-number", "aria-label": label,
      "data-field": name });
    const slider = h("input", { type: "range", step: 1, "aria-label": `${label}, slider`, "data-slider": name,
      oninput: () => take(Number(slider.value)) });
    let [most, value] = [1, 0];
    const good = (number) => number !== null && Number.isInteger(number) && number >= 0 && number <= most;
    field.addEventListener("input", () => {
      const number = readNumber(field.value);
      field.setAttribute("aria-invalid", String(!good(number)));
      if (good(number)) take(number);
    });
    field.addEventListener("change", () => show(most, value));
    field.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction) return;
      event.preventDefault();
      take(within(0, value + direction * (event.shiftKey ? 10 : 1), most));
    });
    const show = (to, now) => {
      [most, value] = [to, now];
      slider.max = to;
      slider.value = now;
      slider.setAttribute("aria-valuetext", plain(now));
      const typing = document.activeElement === field && readNumber(field.value) === now;
      if (!typing) field.value = plain(now);
      field.setAttribute("aria-invalid", "false");
    };
    const block = h("div", { class: `ro-control ro-${name}` },
      h("div", { class: "ro-head" }, h("b", {}, text), field), slider);
    return { block, show };
  }
  const controls = {
    query: control("query", "Query at", (query) => edit({ query })),
    key: control("key", "Key at", (key) => edit({ key })),
    both: control("both", "Move both", (earlier) => {
      const { query, key } = read();
      const by = earlier - Math.min(query, key);
      edit({ query: query + by, key: key + by });
    }, "Move both, the earlier to"),
    pair: control("pair", "Pair i", (pair) => edit({ pair })),
  };
  const baseField = numberField("Base", start.base, (base) => edit({ base }),
    { min: LEAST_BASE, max: MOST_BASE, step: 1000, "data-field": "base" });
  const baseSlider = h("input", { type: "range", min: 0.3, max: 7, step: 0.1, "aria-label": "Base, slider",
    "data-slider": "base", oninput: () => edit({
      base: within(LEAST_BASE, Number((10 ** Number(baseSlider.value)).toPrecision(2)), MOST_BASE) }) });
  const baseBlock = h("div", { class: "ro-control" },
    h("div", { class: "ro-head" }, h("b", {}, "Base"), baseField), baseSlider);
  const again = h("button", { type: "button", "data-go": "reset", onclick: () => {
    const { d_head, trained, ...rest } = start;
    const last = 2 * read().trained - 1; // either may have been made smaller from Python since
    edit({ ...rest, query: Math.min(rest.query, last), key: Math.min(rest.key, last),
      pair: Math.min(rest.pair, read().d_head / 2 - 1) });
  } }, "Start again");

  // The positions of query and key, and how far training went.
  const places = s("svg", { class: "ro-places", role: "img" });

  // The clock of one pair: its first number across, its second up, counterclockwise.
  const R = 78;
  const line = (kind) => s("line", { class: kind, x1: 0, y1: 0 });
  const parts = { query: line("ro-hand"), key: line("ro-hand ro-second"),
    queryTip: s("circle", { class: "ro-tip", r: 5 }), keyTip: s("circle", { class: "ro-tip ro-second", r: 5 }),
    between: s("path", { class: "ro-between" }), reached: s("path", { class: "ro-reached" }),
    across: s("text", { x: R + 14, y: 5 }), up: s("text", { x: 0, y: -R - 14, "text-anchor": "middle" }) };
  const clock = s("svg", { class: "ro-clock", viewBox: "-130 -108 260 206", role: "img" },
    s("circle", { class: "ro-ring", r: R }), s("line", { class: "ro-axis", x1: -R, x2: R, y1: 0, y2: 0 }),
    s("line", { class: "ro-axis", y1: -R, y2: R, x1: 0, x2: 0 }),
    parts.reached, parts.across, parts.up, parts.between, parts.key, parts.query, parts.keyTip, parts.queryTip);
  const fact = (name) => h("span", { class: "aw-numbers", "data-value": name });
  const facts = { numbers: fact("numbers"), frequency: fact("frequency"), wavelength: fact("wavelength"),
    between: fact("between"), training: fact("training") };
  const list = h("ul", { class: "ro-facts" }, [["Numbers rotated", facts.numbers], ["Frequency θ", facts.frequency],
    ["Wavelength", facts.wavelength], ["Angle between", facts.between], ["In training (green)", facts.training]]
    .map(([text, value]) => h("li", {}, h("span", { class: "ro-remark" }, text), value)));

  // Every pair, one row each.
  const body = h("tbody");
  const table = h("table", { class: "aw-plain ro-table" },
    h("thead", {}, h("tr", {}, [["pair", ""], ["wave\u00adlength", ""], ["query", "ro-of-query"], ["key", "ro-of-key"],
      ["between", ""], ["cosine", ""]].map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))), body);
  const turns = h("p", { class: "ro-note aw-numbers", "data-value": "turns" });

  // The score against the offset.
  const [H, LEFT, RIGHT, TOP, BOTTOM] = [190, 40, 14, 12, 30];
  const plot = s("svg", { class: "ro-plot", role: "img", onpointerdown: slide, onpointermove: slide });
  const headline = h("p", { class: "ro-score aw-numbers", "data-value": "score" });
  const remark = h("p", { class: "ro-note aw-numbers", "data-value": "note" });

  root.append(
    h("div", { class: "ro-controls" }, controls.query.block, controls.key.block, controls.both.block),
    places,
    h("div", { class: "ro-parts" },
      h("div", { class: "ro-side" }, controls.pair.block, clock, list),
      h("div", { class: "ro-side" }, baseBlock, table, turns, h("div", { class: "ro-tools" }, again))),
    h("div", { class: "ro-below" }, headline, remark, plot),
    summary);

  // A press or a drag on the curve chooses the offset: the query moves, and the key only where it has to.
  function slide(event) {
    if (event.type === "pointerdown" ? event.button !== 0 : !(event.buttons & 1)) return;
    const box = plot.getBoundingClientRect();
    const { key, trained } = read();
    const last = 2 * trained - 1;
    const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    const offset = within(-last, Math.round((2 * part - 1) * last), last);
    if (event.type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
    const at = within(Math.max(0, -offset), key, Math.min(last, last - offset));
    edit({ key: at, query: at + offset });
  }

  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  // The point at this angle, and the way from one angle to another in less than a turn, counterclockwise or back.
  const at = (angle, r) => [r * Math.cos(angle), -r * Math.sin(angle)];
  const way = (from, by, r) => {
    const [large, clockwise] = [Math.abs(by) > Math.PI ? 1 : 0, by < 0 ? 1 : 0];
    return Math.abs(by) < 1e-6 ? "" : `M ${at(from, r).join(" ")} A ${r} ${r} 0 ${large} ${clockwise} `
      + at(from + by, r).join(" ");
  };

  function paintClock({ d_head, pair }, { angles, between, reached }) {
    for (const name of ["key", "query"]) {
      const [x, y] = at(angles[name][pair], R);
      set(parts[name], { x2: x, y2: y });
      set(parts[`${name}Tip`], { cx: x, cy: y });
    }
    set(parts.between, { d: way(angles.key[pair], between[pair] % TURN, R * 0.38) });
    set(parts.reached, { d: way(0, Math.min(reached, TURN - 1e-4), R + 5) });
    parts.across.textContent = `x[${pair}]`;
    parts.up.textContent = `x[${pair + d_head / 2}]`;
    clock.setAttribute("aria-label", `Pair ${pair}: the query's hand is at ${figures(angles.query[pair], 2)} `
      + `radians, the key's at ${figures(angles.key[pair], 2)}, counterclockwise from the right`);
  }

  function paintPlaces({ query, key, trained }) {
    const last = 2 * trained - 1;
    const W = places.clientWidth || 320;
    const x = (position) => 10 + (position / last) * (W - 20);
    const edge = x(trained - 0.5);
    // The names keep inside the drawing and off the marks.
    const name = (text, position, y, kind) => s("text", { class: kind, x: within(34, x(position), W - 34), y,
      "text-anchor": "middle" }, text);
    places.setAttribute("viewBox", `0 0 ${W} 66`);
    places.replaceChildren(
      s("rect", { class: "ro-trained", x: 4, y: 25, width: edge - 4, height: 10, rx: 2 }),
      s("rect", { class: "ro-unseen", x: edge, y: 25, width: W - 4 - edge, height: 10, rx: 2 }),
      s("text", { x: (4 + edge) / 2, y: 63, "text-anchor": "middle" }, `training: 0 to ${trained - 1}`),
      s("text", { x: (edge + W - 4) / 2, y: 63, "text-anchor": "middle" }, `beyond: ${trained} to ${last}`),
      s("circle", { class: "ro-tip ro-second", cx: x(key), cy: 30, r: 7 }),
      s("circle", { class: "ro-tip", cx: x(query), cy: 30, r: 5 }),
      name(`query ${query}`, query, 17, "ro-of-query"), name(`key ${key}`, key, 49, "ro-of-key"));
    const where = (position) => (position >= trained ? ", beyond training" : "");
    places.setAttribute("aria-label", `Positions 0 to ${last}, trained up to ${trained - 1}. `
      + `Query at ${query}${where(query)}; key at ${key}${where(key)}`);
  }

  function paintTable({ d_head, pair }, { wavelengths, angles, between, shares, score }) {
    const half = d_head / 2;
    const cell = (text, name) => h("td", { class: "aw-numbers", "data-value": name }, text);
    body.replaceChildren(
      ...rowsOf(half, pair).map((i) => h("tr", { "aria-current": i === pair ? "true" : null,
        onclick: () => edit({ pair: i }) },
        h("th", { scope: "row", class: "aw-numbers" }, String(i)), cell(figures(wavelengths[i], 2), `wavelength-${i}`),
        cell(figures(angles.query[i]), `query-${i}`), cell(figures(angles.key[i]), `key-${i}`),
        cell(figures(between[i]), `between-${i}`), cell(figures(shares[i]), `share-${i}`))),
      h("tr", { class: "ro-sum" }, h("th", { scope: "row", colspan: 5 },
        half === 1 ? "score" : `score: sum over all ${half} pairs`),
        cell(figures(score), "sum")));
  }

  function paintPlot({ d_head, trained }, { offsets, offset, curve, score }) {
    const top = d_head / 2;
    const last = 2 * trained - 1;
    const least = Math.min(0, ...curve);
    const W = plot.clientWidth || 320;
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const x = (k) => LEFT + ((k + last) / (2 * last)) * (W - LEFT - RIGHT);
    const y = (value) => TOP + ((top - value) / (top - least)) * (H - TOP - BOTTOM);
    const step = [4, 8, 16, 32, 64, 128].find((one) => last / one < (W > 480 ? 5 : 2.5)) ?? 256;
    const most = Math.floor(last / step);
    const marks = Array.from({ length: 2 * most + 1 }, (_, i) => (i - most) * step);
    const level = (value) => [
      s("line", { class: "ro-grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 7, y: y(value) + 4.5, "text-anchor": "end" }, plain(value))];
    const unseen = (from, to) => s("rect", { class: "ro-unseen", x: x(from), y: TOP, width: x(to) - x(from),
      height: H - TOP - BOTTOM });
    plot.replaceChildren(
      unseen(-last, 0.5 - trained), unseen(trained - 0.5, last),
      ...level(0), ...level(top), ...level(top / 2),
      ...marks.map((k) => s("text", { x: x(k), y: H - 8, "text-anchor": "middle" }, plain(k))),
      s("line", { class: "ro-drop", x1: x(offset), x2: x(offset), y1: y(least), y2: y(score) }),
      s("polyline", { class: "ro-curve",
        points: offsets.map((k, i) => `${x(k).toFixed(2)},${y(curve[i]).toFixed(2)}`).join(" ") }),
      s("circle", { class: "ro-tip ro-third", r: 6, cx: x(offset), cy: y(score) }));
    plot.setAttribute("aria-label", `Score against offset, from ${plain(-last)} to ${last}: highest at 0 with `
      + `${plain(top)}, ${figures(score)} at ${plain(offset)}; offsets from ${trained} on are beyond training`);
  }

  // What the trained length means for the two positions.
  function reach({ d_head, query, key, trained }, { offset, beyond, fresh }) {
    const apart = plain(Math.abs(offset));
    if (beyond.offset) return `No two tokens were ${apart} apart in training: for ${fresh} of ${d_head / 2} pairs, the `
      + "angle between the hands is new.";
    if (!beyond.query && !beyond.key) return `Both are within the ${trained} tokens of training.`;
    const which = beyond.query && beyond.key ? "Both positions are" : `Position ${beyond.query ? query : key} is`;
    return `${which} beyond training, but tokens ${apart} apart occurred in it, so this score is known.`;
  }

  function draw() {
    const state = read();
    const { d_head, base, query, key, pair, trained } = state;
    const last = 2 * trained - 1;
    if (Math.max(query, key) > last || pair >= d_head / 2) return; // halfway through a change from Python
    const numbers = compute(state);
    const { frequencies, wavelengths, between, shares, score, offset, fullTurns, further, reached } = numbers;
    controls.query.show(last, query);
    controls.key.show(last, key);
    controls.both.show(last - Math.abs(offset), Math.min(query, key));
    controls.pair.show(d_head / 2 - 1, pair);
    setNumber(baseField, base);
    baseSlider.value = Math.log10(base);
    baseSlider.setAttribute("aria-valuetext", fieldText(base));
    paintPlaces(state);
    paintClock(state, numbers);
    paintTable(state, numbers);
    paintPlot(state, numbers);

    const frequency = frequencies[pair];
    facts.numbers.textContent = `x[${pair}] and x[${pair + d_head / 2}]`;
    facts.frequency.textContent = `${frequency < 1e-4 ? fmt(frequency, 4) : frequency.toFixed(4)} rad per token`;
    facts.wavelength.textContent = `${figures(wavelengths[pair], 2)} tokens`;
    facts.between.textContent = `Δ θ = ${figures(between[pair], 2)} rad`;
    facts.training.textContent = reached < TURN / 4 ? `0 to ${figures((360 * reached) / TURN, 1)} degrees`
      : `0 to ${figures(reached / TURN, 2)} turns`;
    turns.textContent = `${fullTurns} of ${d_head / 2} ${d_head === 2 ? "pair completes" : "pairs complete"} a rotation in `
      + "training.";
    headline.textContent = `score = ${figures(score)} at offset Δ = ${plain(offset)}`;
    remark.textContent = `Δ = query − key. The score is at most ${plain(d_head / 2)}, at Δ = 0. Pair ${pair} adds `
      + `cos(${figures(between[pair], 2)}) = ${figures(shares[pair])}.`;
    say(`Query at ${query}, key at ${key}: score ${figures(score)}. Move both on by ${FURTHER}, to ${further.query} `
      + `and ${further.key}: ${figures(further.score)} again. Only the offset ${plain(offset)} counts. `
      + reach(state, numbers));
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  const wider = new ResizeObserver(draw); // the line of positions and the curve follow the width
  wider.observe(plot);
  return () => {
    stop();
    wider.disconnect();
    el.replaceChildren();
  };
}

export default { render };
