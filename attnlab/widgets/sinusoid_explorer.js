// The sinusoidal encoding. `compute` gives the table, one pair and the dot products; `render` draws them.

const TRAITS = ["max_len", "d_model", "position", "pair", "offset"];
const BASE = 10000;
const WIDTHS = [4, 8, 16, 32, 64, 128];
const TURN = 2 * Math.PI;
const BEAT = 350; // milliseconds per token while it plays

// All numbers shown: those of the table, and those of the state in it.
export function compute({ max_len, d_model, position = 0, pair = 0, offset = 0 }) {
  return { encoding: tableOf(max_len, d_model), ...chosen({ max_len, d_model, position, pair, offset }) };
}

// Radians per token, one for each pair of columns: 10000^(−2i / d_model).
const frequenciesOf = (d_model) =>
  Array.from({ length: d_model / 2 }, (_, i) => BASE ** ((-2 * i) / d_model));

// One row of the table: sine in even columns, cosine in odd ones. Any whole number is a position.
const encodingOf = (position, frequencies) =>
  frequencies.flatMap((frequency) => [Math.sin(position * frequency), Math.cos(position * frequency)]);

function tableOf(max_len, d_model) {
  const frequencies = frequenciesOf(d_model);
  return Array.from({ length: max_len }, (_, position) => encodingOf(position, frequencies));
}

function chosen({ max_len, d_model, position, pair, offset }) {
  const frequencies = frequenciesOf(d_model);
  const frequency = frequencies[pair];
  const handAt = (at) => {
    const angle = at * frequency;
    return { position: at, angle, sine: Math.sin(angle), cosine: Math.cos(angle) };
  };
  const [here, there] = [position, position + offset].map((at) => encodingOf(at, frequencies));
  const offsets = Array.from({ length: 2 * max_len + 1 }, (_, i) => i - max_len);
  return {
    frequencies, frequency,
    wavelength: TURN / frequency, // tokens for one full turn
    hand: handAt(position),
    other: handAt(position + offset),
    between: offset * frequency, // the angle between the two hands
    dot: here.reduce((total, x, column) => total + x * there[column], 0), // of the two rows, column by column
    share: Math.cos(offset * frequency), // what the chosen pair adds to it
    offsets,
    curve: offsets.map((k) => frequencies.reduce((total, w) => total + Math.cos(k * w), 0)), // without any position
  };
}

// `digits` figures behind the point, fewer for large numbers, so that columns keep their width.
function figures(x, digits = 3) {
  const kept = Math.abs(x) >= 1000 ? 0 : Math.abs(x) >= 100 ? Math.min(1, digits) : digits;
  return x.toFixed(kept).replace(/^-(?=0(\.0*)?$)/, "").replace("-", "−");
}

// Colors of the table, from −1 over 0 to 1, read from the style sheet so that they follow the theme.
function scaleOf(root) {
  const style = getComputedStyle(root);
  const [low, middle, high] = ["--se-low", "--se-middle", "--se-high"].map((name) =>
    style.getPropertyValue(name).match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16)));
  return (x) => {
    const end = x < 0 ? low : high;
    const part = Math.min(1, Math.abs(x));
    return middle.map((from, channel) => Math.round(from + (end[channel] - from) * part));
  };
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "sinusoid_explorer", "Sinusoidal positions", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const start = read();
  let playing = null; // the timer while it plays
  let painted = ""; // what the canvas shows

  const edit = (values) => {
    change(model, values);
    draw();
  };

  // A labeled number field with a slider below it.
  function control(name, label, note) {
    const field = h("input", { type: "text", inputmode: "numeric", class: "aw-number", "aria-label": label,
      "data-field": name });
    const slider = h("input", { type: "range", step: 1, "aria-label": `${label}, slider`, "data-slider": name,
      oninput: () => set(Number(slider.value)) });
    let [least, most, value] = [0, 1, 0];
    const set = (number) => {
      if (name === "position") halt();
      edit({ [name]: number });
    };
    const good = (number) => number !== null && Number.isInteger(number) && number >= least && number <= most;
    field.addEventListener("input", () => {
      const number = readNumber(field.value);
      field.setAttribute("aria-invalid", String(!good(number)));
      if (good(number)) set(number);
    });
    field.addEventListener("change", () => show(least, most, value));
    field.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction) return;
      event.preventDefault();
      set(Math.max(least, Math.min(most, value + direction * (event.shiftKey ? 10 : 1))));
    });
    const show = (from, to, now) => {
      [least, most, value] = [from, to, now];
      [slider.min, slider.max] = [from, to];
      slider.value = now;
      slider.setAttribute("aria-valuetext", plain(now));
      const typing = document.activeElement === field && readNumber(field.value) === now;
      if (!typing) field.value = plain(now);
      field.setAttribute("aria-invalid", "false");
    };
    const remark = note && h("span", { class: "se-remark" }, note);
    const block = h("div", { class: `se-control se-${name}` },
      h("div", { class: "se-head" }, h("span", {}, h("b", {}, label), remark), field), slider);
    return { block, show };
  }
  const controls = {
    position: control("position", "Position p"),
    pair: control("pair", "Pair i"),
    offset: control("offset", "Offset Δ", " to the second hand"),
  };
  const width = h("select", { "data-go": "d_model", onchange: () => {
    const d_model = Number(width.value);
    edit({ d_model, pair: Math.min(read().pair, d_model / 2 - 1) });
  } });
  const widths = [...new Set([...WIDTHS, start.d_model])].sort((a, b) => a - b);
  width.append(...widths.map((value) => h("option", { value }, String(value))));
  const run = calm() ? null : h("button", { type: "button", "data-go": "run", "aria-pressed": "false",
    onclick: () => {
      if (!playing) return go();
      halt();
      draw(); // and say where the hands point
    } }, "Play");
  const again = h("button", { type: "button", "data-go": "reset", onclick: () => {
    halt();
    const { max_len, ...rest } = start;
    edit(rest);
  } }, "Start again");

  // The table, with the hands of all pairs above their columns.
  const canvas = h("canvas", { class: "se-canvas", role: "img" });
  const rowMark = h("i", { class: "se-row" });
  const otherMark = h("i", { class: "se-row se-other" });
  const pairMark = h("i", { class: "se-columns" });
  const stage = h("div", { class: "se-stage", onpointerdown: pick, onpointermove: pick },
    canvas, otherMark, rowMark, pairMark);
  const hands = s("svg", { class: "se-hands", "aria-hidden": "true" });
  const rows = h("div", { class: "se-rows aw-numbers", "aria-hidden": "true" });
  const columns = h("div", { class: "se-ticks aw-numbers", "aria-hidden": "true" });
  const scale = h("div", { class: "se-scale aw-numbers", "aria-hidden": "true" }, "−1", h("i"), "1");

  // The clock: up is cosine, across is sine, so the hand starts at twelve and turns clockwise.
  const R = 78;
  const line = (kind) => s("line", { class: kind, x1: 0, y1: 0 });
  const parts = { hand: line("se-hand"), other: line("se-hand se-other"), sine: line("se-leg"), cosine: line("se-leg"),
    tip: s("circle", { class: "se-tip", r: 5 }), otherTip: s("circle", { class: "se-tip se-other", r: 5 }),
    arc: s("path", { class: "se-arc" }) };
  const note = (x, y, text, anchor = "middle") => s("text", { x, y, "text-anchor": anchor }, text);
  const clock = s("svg", { class: "se-clock", viewBox: "-112 -104 224 208", role: "img" },
    s("circle", { class: "se-ring", r: R }), s("line", { class: "se-axis", x1: -R, x2: R, y1: 0, y2: 0 }),
    s("line", { class: "se-axis", y1: -R, y2: R, x1: 0, x2: 0 }),
    Array.from({ length: 12 }, (_, i) => {
      const [x, y] = [Math.sin((i * TURN) / 12), -Math.cos((i * TURN) / 12)];
      return s("line", { class: "se-axis", x1: x * (R - 4), y1: y * (R - 4), x2: x * R, y2: y * R });
    }),
    note(0, -R - 9, "cosine 1"), note(0, R + 18, "−1"), note(-R - 5, 4, "−1", "end"),
    note(R + 5, 4, "sine", "start"), note(R + 5, 18, "1", "start"),
    parts.arc, parts.sine, parts.cosine, parts.other, parts.hand, parts.otherTip, parts.tip);
  const cell = (name) => h("td", { class: "aw-numbers", "data-value": name });
  const names = ["angle", "sine", "cosine"];
  const heads = ["", "angle, rad", "sine", "cosine"];
  const row = (kind, text) => {
    const head = h("th", { scope: "row", class: kind }, text);
    const cells = names.map((name) => cell(`${kind}-${name}`));
    return { head, cells, line: h("tr", {}, head, cells) };
  };
  const [here, there] = [row("hand", "p"), row("other", "p + Δ")];
  const table = h("table", { class: "aw-plain se-table" },
    h("thead", {}, h("tr", {}, heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))),
    h("tbody", {}, here.line, there.line));
  const fact = (name) => h("span", { class: "aw-numbers", "data-value": name });
  const facts = { columns: fact("columns"), frequency: fact("frequency"), wavelength: fact("wavelength"),
    between: fact("between") };
  const list = h("ul", { class: "se-facts" }, [["Columns", facts.columns], ["Frequency θ", facts.frequency],
    ["Wavelength", facts.wavelength], ["Angle between", facts.between]].map(([text, value]) =>
    h("li", {}, h("span", { class: "se-remark" }, text), value)));

  // The dot product against the offset.
  const [H, LEFT, RIGHT, TOP, BOTTOM] = [190, 40, 14, 12, 30];
  const plot = s("svg", { class: "se-plot", role: "img", onpointerdown: slide, onpointermove: slide });
  const headline = h("p", { class: "se-dot aw-numbers", "data-value": "dot" });
  const remark = h("p", { class: "se-note aw-numbers", "data-value": "note" });

  root.append(
    h("div", { class: "se-controls" }, controls.position.block, controls.pair.block,
      h("div", { class: "se-tools" }, h("label", {}, h("b", {}, "d_model"), width), run, again)),
    h("div", { class: "se-parts" },
      h("div", { class: "se-map" }, h("p", { class: "se-title" }, "Every position, every dimension"),
        h("div", { class: "se-chart" }, hands, rows, stage, columns), scale),
      h("div", { class: "se-side" }, h("p", { class: "se-title" }, "One pair is a clock hand"), clock, table, list)),
    h("div", { class: "se-below" }, h("p", { class: "se-title" }, "Dot product of two positions, Δ apart"),
      h("div", { class: "se-reading" }, headline, remark), plot, controls.offset.block),
    summary);

  function go() {
    playing = setInterval(() => {
      const { position, max_len } = read();
      edit({ position: (position + 1) % max_len });
    }, BEAT);
    run.setAttribute("aria-pressed", "true");
    run.textContent = "Stop";
  }

  function halt() {
    clearInterval(playing);
    playing = null;
    run?.setAttribute("aria-pressed", "false");
    if (run) run.textContent = "Play";
  }

  // A press or a drag on the table chooses a position and a pair; a finger scrolls the page up and down as usual.
  function pick(event) {
    if (event.type === "pointerdown" ? event.button !== 0 : !(event.buttons & 1)) return;
    const box = canvas.getBoundingClientRect();
    const { max_len, d_model } = read();
    const within = (part, size) => Math.max(0, Math.min(size - 1, Math.floor(part * size)));
    halt();
    if (event.type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
    edit({ position: within((event.clientY - box.top) / box.height, max_len),
      pair: within((event.clientX - box.left) / box.width, d_model / 2) });
  }

  // The same on the curve, for the offset.
  function slide(event) {
    if (event.type === "pointerdown" ? event.button !== 0 : !(event.buttons & 1)) return;
    const box = plot.getBoundingClientRect();
    const { max_len } = read();
    const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    if (event.type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
    edit({ offset: Math.max(-max_len, Math.min(max_len, Math.round((2 * part - 1) * max_len))) });
  }

  function paintTable({ max_len, d_model }) {
    const color = scaleOf(root);
    const key = [max_len, d_model, ...color(-1), ...color(0)].join();
    if (painted === key) return;
    painted = key;
    [canvas.width, canvas.height] = [d_model, max_len];
    const image = new ImageData(d_model, max_len);
    tableOf(max_len, d_model).flat().forEach((x, at) => image.data.set([...color(x), 255], 4 * at));
    canvas.getContext("2d").putImageData(image, 0, 0);
    const every = [1, 2, 4, 8, 16, 32, 64].find((step) => max_len / step <= 9);
    rows.replaceChildren(...Array.from({ length: Math.ceil(max_len / every) }, (_, i) =>
      h("span", { style: `top: ${(100 * (i * every + 0.5)) / max_len}%` }, String(i * every))));
    const across = [1, 2, 4, 8, 16, 32].find((step) => d_model / step <= 9);
    columns.replaceChildren(...Array.from({ length: Math.ceil(d_model / across) }, (_, i) =>
      h("span", { style: `left: ${(100 * (i * across + 0.5)) / d_model}%` }, String(i * across))));
  }

  // One small clock above each pair of columns. Its size on the page follows the width of the table.
  function paintHands({ position, pair }, frequencies) {
    const breadth = hands.clientWidth || 300;
    const room = breadth / frequencies.length;
    const every = Math.max(1, Math.ceil(12 / room)); // where they would be too small, some are left out
    const radius = Math.min(12, (every * room) / 2 - 0.5);
    hands.setAttribute("viewBox", `0 0 ${breadth} 28`);
    hands.replaceChildren(...frequencies.flatMap((frequency, i) => {
      if (i !== pair && (i % every || Math.abs(i - pair) < every)) return [];
      const [x, angle] = [(i + 0.5) * room, position * frequency];
      const kind = i === pair ? "se-mini se-chosen" : "se-mini";
      return [s("circle", { class: kind, cx: x, cy: 14, r: radius }),
        s("line", { class: kind, x1: x, y1: 14, x2: x + radius * Math.sin(angle), y2: 14 - radius * Math.cos(angle) })];
    }));
  }

  function paintClock({ offset }, { hand, other, between }) {
    const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
    for (const [pointer, tip, { sine, cosine }] of [[parts.hand, parts.tip, hand],
      [parts.other, parts.otherTip, other]]) {
      set(pointer, { x2: sine * R, y2: -cosine * R });
      set(tip, { cx: sine * R, cy: -cosine * R });
    }
    const visibility = offset === 0 ? "hidden" : "visible";
    set(parts.other, { visibility });
    set(parts.otherTip, { visibility });
    // Sine and cosine as legs: across from the upright axis, and up from the level one.
    const [x, y] = [hand.sine * R, -hand.cosine * R];
    set(parts.sine, { x1: 0, y1: y, x2: x, y2: y });
    set(parts.cosine, { x1: x, y1: 0, x2: x, y2: y });
    // The way from the first hand to the second, whole turns left out.
    const sweep = between % TURN;
    const r = R * 0.38;
    const [large, clockwise] = [Math.abs(sweep) > Math.PI ? 1 : 0, sweep > 0 ? 1 : 0];
    const point = ({ sine, cosine }) => `${r * sine} ${-r * cosine}`;
    set(parts.arc, { d: Math.abs(sweep) < 1e-6 ? ""
      : `M ${point(hand)} A ${r} ${r} 0 ${large} ${clockwise} ${point(other)}` });
  }

  function paintPlot({ max_len, d_model, offset }, { offsets, curve, dot }) {
    const top = d_model / 2;
    const least = Math.min(0, ...curve);
    const W = plot.clientWidth || 320;
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const x = (k) => LEFT + ((k + max_len) / (2 * max_len)) * (W - LEFT - RIGHT);
    const y = (value) => TOP + ((top - value) / (top - least)) * (H - TOP - BOTTOM);
    const step = [1, 2, 4, 8, 16, 32, 64].find((one) => max_len / one <= (W > 480 ? 4 : 2)) ?? 128;
    const most = Math.floor(max_len / step);
    const marks = Array.from({ length: 2 * most + 1 }, (_, i) => (i - most) * step);
    const level = (value) => [
      s("line", { class: "se-grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 7, y: y(value) + 4.5, "text-anchor": "end" }, plain(value))];
    plot.replaceChildren(
      ...level(0), ...level(top), ...level(top / 2),
      ...marks.map((k) => s("text", { x: x(k), y: H - 8, "text-anchor": "middle" }, plain(k))),
      s("line", { class: "se-drop", x1: x(offset), x2: x(offset), y1: y(least), y2: y(dot) }),
      s("polyline", { class: "se-curve",
        points: offsets.map((k, i) => `${x(k).toFixed(2)},${y(curve[i]).toFixed(2)}`).join(" ") }),
      s("circle", { class: "se-tip se-other", r: 6, cx: x(offset), cy: y(dot) }));
    plot.setAttribute("aria-label", `Dot product against offset, from ${plain(-max_len)} to ${max_len}: `
      + `highest at 0 with ${plain(top)}, ${figures(dot)} at ${plain(offset)}`);
  }

  function draw() {
    const state = read();
    const { max_len, d_model, position, pair, offset } = state;
    const fits = position < max_len && pair < d_model / 2 && Math.abs(offset) <= max_len;
    if (!fits) return; // halfway through a change from Python
    const numbers = chosen(state);
    const { frequency, frequencies, wavelength, hand, other, between, dot, share: own } = numbers;
    controls.position.show(0, max_len - 1, position);
    controls.pair.show(0, d_model / 2 - 1, pair);
    controls.offset.show(-max_len, max_len, offset);
    const listed = [...width.options].map((one) => Number(one.value));
    if (!listed.includes(d_model)) {
      width.add(h("option", { value: d_model }, String(d_model)), listed.filter((one) => one < d_model).length);
    }
    width.value = d_model;

    paintTable(state);
    rowMark.style.cssText = `top: ${(100 * (position + 0.5)) / max_len}%; height: ${100 / max_len}%`;
    const second = position + offset;
    otherMark.style.cssText = `top: ${(100 * (second + 0.5)) / max_len}%; height: ${100 / max_len}%`;
    otherMark.hidden = offset === 0 || second < 0 || second >= max_len;
    pairMark.style.cssText = `left: ${(200 * pair) / d_model}%; width: ${200 / d_model}%`;
    canvas.setAttribute("aria-label", `Encoding of ${max_len} positions in ${d_model} dimensions, values from −1 to 1; `
      + `row ${position} and columns ${2 * pair} and ${2 * pair + 1} are marked`);
    paintHands(state, frequencies);
    paintClock(state, numbers);
    paintPlot(state, numbers);

    clock.setAttribute("aria-label", `Pair ${pair}: the hand is at ${figures(hand.angle, 2)} radians`);
    for (const [{ head, cells }, one, text] of [[here, hand, "p = "], [there, other, "p + Δ = "]]) {
      head.textContent = text + plain(one.position);
      [one.angle, one.sine, one.cosine].forEach((value, i) => (cells[i].textContent = figures(value, i ? 3 : 2)));
    }
    facts.columns.textContent = `${2 * pair} (sine) and ${2 * pair + 1} (cosine)`;
    facts.frequency.textContent = `${frequency.toFixed(frequency < 0.001 ? 6 : 4)} rad per token`;
    facts.wavelength.textContent = `${figures(wavelength, 2)} tokens`;
    facts.between.textContent = `Δ θ = ${figures(between, 2)} rad`;
    headline.textContent = `PE[${position}] · PE[${plain(second)}] = ${figures(dot)}`;
    remark.textContent = `At most d_model / 2 = ${plain(d_model / 2)}, at Δ = 0. Pair ${pair} adds `
      + `cos(${figures(between, 2)}) = ${figures(own)}.`;
    if (playing) return; // a screen reader hears where the hands stop, not every step
    const reach = second < 0 || second >= max_len ? ", outside the table," : "";
    say(`Pair ${pair} at position ${position}: sine ${figures(hand.sine)}, cosine ${figures(hand.cosine)}, `
      + `wavelength ${figures(wavelength, 1)} tokens. The dot product with position ${plain(second)}${reach} is `
      + `${figures(dot)}. It depends only on the offset ${plain(offset)}: move the position, and it stays.`);
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  // The small clocks follow the width, the colors of the table follow the theme.
  const wider = new ResizeObserver(draw);
  wider.observe(stage);
  const themed = new MutationObserver(draw);
  for (const node of [document.documentElement, document.body]) {
    themed.observe(node, { attributeFilter: ["data-theme", "data-jp-theme-light"] });
  }
  return () => {
    halt();
    stop();
    wider.disconnect();
    themed.disconnect();
    el.replaceChildren();
  };
}

export default { render };
