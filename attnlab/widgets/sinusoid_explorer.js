// The sinusoidal encoding. `compute` gives the table, one pair and the dot products; `render` draws them.

const TRAITS = ["max_len", "d_model", "position", "pair", "offset"];
const BASE = 10000;
const TURN = 2 * Math.PI;

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
  let playing = 0; // the frame asked for while time runs
  let time = 0; // the position then, in tokens and parts of them
  let made = "", painted = ""; // what the parts were made for, what the canvas shows
  let parts = null;

  const edit = (values) => {
    change(model, values);
    draw();
  };

  // A name, a slider and a number field on one line.
  function control(name, label) {
    const field = h("input", { type: "text", inputmode: "numeric", class: "aw-number", "aria-label": label,
      "data-field": name });
    const slider = h("input", { type: "range", step: 1, "aria-label": `${label}, slider`, "data-slider": name,
      oninput: () => put(Number(slider.value)) });
    let [least, most, value] = [0, 1, 0];
    const put = (number) => {
      if (name === "position") halt();
      edit({ [name]: number });
    };
    const good = (number) => number !== null && Number.isInteger(number) && number >= least && number <= most;
    field.addEventListener("input", () => {
      const number = readNumber(field.value);
      field.setAttribute("aria-invalid", String(!good(number)));
      if (good(number)) put(number);
    });
    field.addEventListener("change", () => show(least, most, value));
    field.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!direction) return;
      event.preventDefault();
      put(Math.max(least, Math.min(most, value + direction * (event.shiftKey ? 10 : 1))));
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
    return { block: h("div", { class: `se-control se-${name}` }, h("b", {}, label), slider, field), show };
  }
  const controls = {
    position: control("position", "position p"),
    pair: control("pair", "pair i"),
    offset: control("offset", "offset Δ"),
  };
  const run = calm() ? null : h("button", { type: "button", "data-go": "run", "aria-pressed": "false",
    onclick: () => {
      if (!playing) return go();
      halt();
      draw(); // and say where the hands point
    } }, "Play");
  const again = h("button", { type: "button", "data-go": "reset", onclick: () => {
    halt();
    const { max_len, d_model, ...rest } = start;
    const size = read(); // either may have been made smaller from Python since
    edit({ position: Math.min(rest.position, size.max_len - 1), pair: Math.min(rest.pair, size.d_model / 2 - 1),
      offset: Math.max(-size.max_len, Math.min(size.max_len, rest.offset)) });
  } }, "Start again");

  // The table, with the hands of all pairs above their columns.
  const canvas = h("canvas", { class: "se-canvas", role: "img" });
  const rowMark = h("i", { class: "se-row" });
  const otherMark = h("i", { class: "se-row se-other" });
  const pairMark = h("i", { class: "se-columns" });
  const stage = h("div", { class: "se-stage", onpointerdown: pick, onpointermove: pick },
    canvas, otherMark, rowMark, pairMark);
  const hands = s("svg", { class: "se-hands", "aria-hidden": "true", onpointerdown: pick, onpointermove: pick });
  const rows = h("div", { class: "se-rows aw-numbers", "aria-hidden": "true" });
  const scale = h("div", { class: "se-scale aw-numbers", "aria-hidden": "true" }, "1", h("i"), "−1");

  // The clock: up is cosine, across is sine, so the hand starts at twelve and turns clockwise.
  const R = 78;
  const line = (kind) => s("line", { class: kind, x1: 0, y1: 0 });
  const big = { hand: line("se-hand"), other: line("se-hand se-other"), sine: line("se-leg"), cosine: line("se-leg"),
    tip: s("circle", { class: "se-tip", r: 6 }), otherTip: s("circle", { class: "se-tip se-other", r: 6 }),
    arc: s("path", { class: "se-arc" }) };
  const note = (x, y, text, anchor = "middle") => s("text", { x, y, "text-anchor": anchor }, text);
  const clock = s("svg", { class: "se-clock", viewBox: "-112 -98 224 190", role: "img" },
    s("circle", { class: "se-ring", r: R }), s("line", { class: "se-axis", x1: -R, x2: R, y1: 0, y2: 0 }),
    s("line", { class: "se-axis", y1: -R, y2: R, x1: 0, x2: 0 }),
    note(0, -R - 7, "cosine"), note(R + 9, 4, "sine", "start"),
    big.arc, big.sine, big.cosine, big.other, big.hand, big.otherTip, big.tip);
  const fact = (name) => h("span", { class: "aw-numbers", "data-value": name });
  const facts = { frequency: fact("frequency"), wavelength: fact("wavelength"), between: fact("between") };
  const list = h("ul", { class: "se-facts" }, [["frequency θ", facts.frequency], ["wavelength", facts.wavelength],
    ["angle Δθ", facts.between]].map(([text, value]) =>
    h("li", {}, h("span", { class: "se-remark" }, text), value)));

  // The dot product against the offset.
  const [H, LEFT, RIGHT, TOP, BOTTOM] = [168, 34, 14, 10, 24];
  const plot = s("svg", { class: "se-plot", role: "img", onpointerdown: slide, onpointermove: slide });
  const headline = h("div", { class: "se-dot aw-numbers", "data-value": "dot" });

  root.append(
    h("div", { class: "se-controls" }, controls.position.block, h("div", { class: "se-tools" }, run, again)),
    h("div", { class: "se-chart" }, hands, rows, stage, scale),
    h("div", { class: "se-parts" },
      h("div", { class: "se-side" }, clock, list, controls.pair.block),
      h("div", { class: "se-below" }, headline, plot, controls.offset.block)),
    summary);

  // Time: four tokens in a second, from the last position on to the first again.
  const SPEED = 4;
  function go() {
    run.setAttribute("aria-pressed", "true");
    run.textContent = "Stop";
    time = read().position;
    let before = performance.now();
    const tick = (moment) => {
      playing = requestAnimationFrame(tick);
      const { max_len, position } = read();
      time = (time + Math.max(0, moment - before) * (SPEED / 1000)) % max_len;
      before = moment;
      const reached = Math.floor(time);
      if (reached !== position) edit({ position: reached });
      motion.to({ ...sceneOf(read()), position: time }, { jump: true });
    };
    playing = requestAnimationFrame(tick);
  }

  function halt() {
    cancelAnimationFrame(playing);
    playing = 0;
    run?.setAttribute("aria-pressed", "false");
    if (run) run.textContent = "Play";
  }

  // A press or a drag on the table chooses a position and a pair; a finger scrolls the page up and down as usual.
  function pick(event) {
    if (event.type === "pointerdown" ? event.button !== 0 : !(event.buttons & 1)) return;
    const box = canvas.getBoundingClientRect();
    const { max_len, d_model } = read();
    const within = (part, size) => Math.max(0, Math.min(size - 1, Math.floor(part * size)));
    if (event.type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
    const pair = within((event.clientX - box.left) / box.width, d_model / 2);
    if (event.currentTarget === hands) return edit({ pair }); // time may run on
    halt();
    edit({ position: within((event.clientY - box.top) / box.height, max_len), pair });
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
    const every = [1, 2, 4, 8, 16, 32, 64].find((step) => max_len / step <= 5);
    rows.replaceChildren(...Array.from({ length: Math.ceil(max_len / every) }, (_, i) =>
      h("span", { style: `top: ${(100 * (i * every + 0.5)) / max_len}%` }, String(i * every))));
  }

  // What stays while positions, pair and offset change: one small clock above each pair of columns, and the curve.
  function build({ max_len, d_model }) {
    const half = d_model / 2;
    const breadth = hands.clientWidth || 300;
    const room = breadth / half;
    const every = Math.max(1, Math.ceil(12 / room)); // where they would be too small, some are left out
    const radius = Math.min(21, (every * room) / 2 - 1);
    hands.setAttribute("viewBox", `0 0 ${breadth} 46`);
    const minis = Array.from({ length: half }, (_, i) => i).filter((i) => i % every === 0).map((i) => {
      const x = (i + 0.5) * room;
      const ring = s("circle", { class: "se-mini", cx: x, cy: 23, r: radius });
      return { i, x, ring, pointer: s("line", { class: "se-mini", x1: x, y1: 23 }) };
    });
    hands.replaceChildren(...minis.flatMap(({ ring, pointer }) => [ring, pointer]));

    const { offsets, curve, frequencies } = chosen({ max_len, d_model, position: 0, pair: 0, offset: 0 });
    const [top, least] = [half, Math.min(0, ...curve)];
    const W = plot.clientWidth || 320;
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const x = (k) => LEFT + ((k + max_len) / (2 * max_len)) * (W - LEFT - RIGHT);
    const y = (value) => TOP + ((top - value) / (top - least)) * (H - TOP - BOTTOM);
    const step = [1, 2, 4, 8, 16, 32, 64].find((one) => max_len / one <= (W > 440 ? 4 : 2)) ?? 128;
    const most = Math.floor(max_len / step);
    const marks = Array.from({ length: 2 * most + 1 }, (_, i) => (i - most) * step);
    const level = (value) => [
      s("line", { class: "se-grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 6, y: y(value) + 4.5, "text-anchor": "end" }, plain(value))];
    const [drop, dot] = [s("line", { class: "se-drop", y1: y(least) }), s("circle", { class: "se-tip se-other", r: 7 })];
    plot.replaceChildren(...level(0), ...level(top), ...level(top / 2),
      ...marks.map((k) => s("text", { x: x(k), y: H - 6, "text-anchor": "middle" }, plain(k))), drop,
      s("polyline", { class: "se-curve",
        points: offsets.map((k, i) => `${x(k).toFixed(2)},${y(curve[i]).toFixed(2)}`).join(" ") }), dot);
    parts = { max_len, half, radius, minis, frequencies, x, y, drop, dot };
  }

  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  const write = (node, text) => node.textContent !== text && (node.textContent = text);
  // What moves. Of the frequency its logarithm, so that the hand slows down evenly from pair to pair.
  const sceneOf = ({ d_model, position, pair, offset }) =>
    ({ position, pair, offset, power: Math.log(BASE) * ((-2 * pair) / d_model) });

  // One frame: all of the scene may be between two states.
  function paint({ position, pair, offset, power }) {
    const { max_len, half, radius, minis, frequencies, x, y, drop, dot } = parts;
    const [theta, second] = [Math.exp(power), position + offset];
    const down = (place) => `${(100 * (Math.min(place, max_len - 1) + 0.5)) / max_len}%`;
    rowMark.style.top = down(position);
    otherMark.style.top = down(second);
    otherMark.hidden = Math.abs(offset) < 1e-3 || second < 0 || second > max_len - 1;
    pairMark.style.left = `${(100 * pair) / half}%`;
    for (const { i, x: middle, ring, pointer } of minis) {
      const angle = position * frequencies[i];
      set(pointer, { x2: middle + radius * Math.sin(angle), y2: 23 - radius * Math.cos(angle) });
      const chosenOne = Math.abs(i - pair) < 0.5;
      for (const node of [ring, pointer]) node.classList.toggle("se-chosen", chosenOne);
    }

    const tipOf = (place, r) => [r * Math.sin(place * theta), -r * Math.cos(place * theta)];
    const visibility = Math.abs(offset) < 1e-3 ? "hidden" : "visible";
    for (const [pointer, tip, place] of [[big.hand, big.tip, position], [big.other, big.otherTip, second]]) {
      const [across, up] = tipOf(place, R);
      set(pointer, { x2: across, y2: up });
      set(tip, { cx: across, cy: up });
    }
    for (const node of [big.other, big.otherTip]) set(node, { visibility });
    // Sine and cosine as legs: across from the upright axis, and up from the level one.
    const [across, up] = tipOf(position, R);
    set(big.sine, { x1: 0, y1: up, x2: across, y2: up });
    set(big.cosine, { x1: across, y1: 0, x2: across, y2: up });
    // The way from the first hand to the second, whole turns left out.
    const sweep = (offset * theta) % TURN, r = R * 0.38;
    const [large, clockwise] = [Math.abs(sweep) > Math.PI ? 1 : 0, sweep > 0 ? 1 : 0];
    set(big.arc, { d: Math.abs(sweep) < 1e-6 ? ""
      : `M ${tipOf(position, r).join(" ")} A ${r} ${r} 0 ${large} ${clockwise} ${tipOf(second, r).join(" ")}` });

    const product = frequencies.reduce((total, w) => total + Math.cos(offset * w), 0);
    set(drop, { x1: x(offset), x2: x(offset), y2: y(product) });
    set(dot, { cx: x(offset), cy: y(product) });
    write(facts.frequency, `${theta.toFixed(theta < 0.001 ? 6 : 4)}`);
    write(facts.wavelength, `${figures(TURN / theta, 2)} tokens`);
    write(facts.between, `${figures(((offset * theta) * 360) / TURN, 1)}°`);
    const here = Math.floor(position + 1e-6);
    write(headline, `PE[${here}] · PE[${plain(here + Math.round(offset))}] = ${figures(product)}`);
  }
  const motion = tween(paint, 250);

  function draw() {
    const state = read();
    const { max_len, d_model, position, pair, offset } = state;
    const fits = position < max_len && pair < d_model / 2 && Math.abs(offset) <= max_len;
    if (!fits) return; // halfway through a change from Python
    const form = [max_len, d_model, hands.clientWidth, plot.clientWidth].join();
    const anew = form !== made;
    if (anew) build(state);
    made = form;
    controls.position.show(0, max_len - 1, position);
    controls.pair.show(0, d_model / 2 - 1, pair);
    controls.offset.show(-max_len, max_len, offset);
    paintTable(state);
    rowMark.style.height = otherMark.style.height = `${100 / max_len}%`;
    pairMark.style.width = `${200 / d_model}%`;
    if (playing) return anew && motion.to({ ...sceneOf(state), position: time }, { jump: true });
    motion.to(sceneOf(state), { jump: anew });

    const { hand, wavelength, dot } = chosen(state);
    const second = position + offset;
    canvas.setAttribute("aria-label", `Encoding of ${max_len} positions in ${d_model} dimensions, values from −1 to 1; `
      + `row ${position} and columns ${2 * pair} and ${2 * pair + 1} are marked`);
    clock.setAttribute("aria-label", `Pair ${pair}: the hand is at ${figures(hand.angle, 2)} radians`);
    plot.setAttribute("aria-label", `Dot product against offset, from ${plain(-max_len)} to ${max_len}: `
      + `highest at 0 with ${plain(d_model / 2)}, ${figures(dot)} at ${plain(offset)}`);
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
    motion.stop();
    wider.disconnect();
    themed.disconnect();
    el.replaceChildren();
  };
}

export default { render };
