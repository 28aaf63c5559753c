// The sinusoidal encoding. `compute` gives the table, one pair and the dot products; the rest draws them.

// All numbers shown: those of the table, and those of the state in it.
export function compute({ max_len, d_model, position = 0, pair = 0, offset = 0 }) {
  return { encoding: tableOf(max_len, d_model), ...chosen({ max_len, d_model, position, pair, offset }) };
}

// One row of the table: sine in even columns, cosine in odd ones. Any whole number is a position.
const encodingOf = (position, frequencies) =>
  frequencies.flatMap((frequency) => [Math.sin(position * frequency), Math.cos(position * frequency)]);

function tableOf(max_len, d_model) {
  const frequencies = frequenciesOf(d_model);
  return range(max_len, (position) => encodingOf(position, frequencies));
}

function chosen({ max_len, d_model, position, pair, offset }) {
  const frequencies = frequenciesOf(d_model), frequency = frequencies[pair];
  const handAt = (at) => {
    const angle = at * frequency;
    return { position: at, angle, sine: Math.sin(angle), cosine: Math.cos(angle) };
  };
  const [here, there] = [position, position + offset].map((at) => encodingOf(at, frequencies));
  const offsets = range(2 * max_len + 1, (i) => i - max_len);
  return {
    frequencies, frequency,
    wavelength: TURN / frequency, // tokens for one full turn
    hand: handAt(position),
    other: handAt(position + offset),
    between: offset * frequency, // the angle between the two hands
    dot: dot(here, there), // of the two rows, column by column
    share: Math.cos(offset * frequency), // what the chosen pair adds to it
    offsets,
    curve: offsets.map((k) => sum(frequencies.map((w) => Math.cos(k * w)))), // without any position
  };
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

// A name, a slider and a number field on one line.
function makeControl(name, label, onvalue) {
  const { field, slider, show } = fieldAndSlider(name, label, onvalue,
    { field: { whole: true, step: 1, text: plain }, slider: { step: 1 } });
  return { block: h("div", { class: `se-control se-${name}` }, h("b", {}, label), slider, field),
    show: (least, most, value) => {
      Object.assign(field, { least, most });
      Object.assign(slider, { min: least, max: most });
      show(value);
    } };
}

// The table, with the hands of all pairs above their columns. A press or a drag on it chooses: `onpair(pair)` on the
// hands, `onplace(position, pair)` in the table. A finger scrolls the page up and down as usual.
function makeChart(root, onpair, onplace) {
  const canvas = h("canvas", { class: "se-canvas", role: "img" });
  const [rowMark, otherMark, pairMark] = ["se-row", "se-row se-other", "se-columns"].map((name) => h("i", { class: name }));
  const stage = h("div", { class: "se-stage" }, canvas, otherMark, rowMark, pairMark);
  const hands = s("svg", { class: "se-hands", "aria-hidden": "true" });
  const rows = h("div", { class: "se-rows aw-numbers", "aria-hidden": "true" });
  const node = h("div", { class: "se-chart" }, hands, rows, stage,
    h("div", { class: "se-scale aw-numbers", "aria-hidden": "true" }, "1", h("i"), "−1"));
  let half, max_len, frequencies, minis, radius;
  stroke(hands, (event) => onpair(cellIn(canvas, event, half, max_len)[0]));
  stroke(stage, (event) => onplace(...cellIn(canvas, event, half, max_len).reverse()));

  // One small clock above each pair of columns. Where they would be too small, some are left out.
  function build(state) {
    max_len = state.max_len;
    half = state.d_model / 2;
    frequencies = frequenciesOf(state.d_model);
    const breadth = hands.clientWidth || 300, room = breadth / half;
    const every = Math.max(1, Math.ceil(12 / room));
    radius = Math.min(21, (every * room) / 2 - 1);
    hands.setAttribute("viewBox", `0 0 ${breadth} 46`);
    minis = range(half).filter((i) => i % every === 0).map((i) => {
      const x = (i + 0.5) * room;
      return { i, x, ring: s("circle", { class: "se-mini", cx: x, cy: 23, r: radius }),
        pointer: s("line", { class: "se-mini", x1: x, y1: 23 }) };
    });
    hands.replaceChildren(...minis.flatMap(({ ring, pointer }) => [ring, pointer]));
    rowMark.style.height = otherMark.style.height = `${100 / max_len}%`;
    pairMark.style.width = `${100 / half}%`;
  }

  const paintTable = rebuilder(({ max_len, d_model, color }) => {
    [canvas.width, canvas.height] = [d_model, max_len];
    const image = new ImageData(d_model, max_len);
    tableOf(max_len, d_model).flat().forEach((x, at) => image.data.set([...color(x), 255], 4 * at));
    canvas.getContext("2d").putImageData(image, 0, 0);
    const every = [1, 2, 4, 8, 16, 32, 64].find((step) => max_len / step <= 5);
    rows.replaceChildren(...range(Math.ceil(max_len / every), (i) =>
      h("span", { style: `top: ${(100 * (i * every + 0.5)) / max_len}%` }, String(i * every))));
  });

  function show({ max_len, d_model }) {
    const color = scaleOf(root);
    paintTable([max_len, d_model, color(-1), color(0)], { max_len, d_model, color });
  }

  function draw({ position, pair, offset }) {
    const down = (place) => `${(100 * (Math.min(place, max_len - 1) + 0.5)) / max_len}%`;
    const second = position + offset;
    rowMark.style.top = down(position);
    otherMark.style.top = down(second);
    otherMark.hidden = Math.abs(offset) < 1e-3 || second < 0 || second > max_len - 1;
    pairMark.style.left = `${(100 * pair) / half}%`;
    for (const { i, x, ring, pointer } of minis) {
      const angle = position * frequencies[i];
      setIfChanged(pointer, { x2: x + radius * Math.sin(angle), y2: 23 - radius * Math.cos(angle) });
      for (const one of [ring, pointer]) one.classList.toggle("se-chosen", Math.abs(i - pair) < 0.5);
    }
  }
  return { node, canvas, hands, stage, build, show, draw };
}

// The clock of one pair: up is cosine, across is sine, so the hand starts at twelve and turns clockwise.
function makeClock() {
  const R = 78;
  const line = (kind) => s("line", { class: kind, x1: 0, y1: 0 });
  const hand = line("se-hand"), other = line("se-hand se-other"), sine = line("se-leg"), cosine = line("se-leg");
  const tip = s("circle", { class: "se-tip", r: 6 }), otherTip = s("circle", { class: "se-tip se-other", r: 6 });
  const way = s("path", { class: "se-arc" });
  const note = (x, y, text, anchor = "middle") => s("text", { x, y, "text-anchor": anchor }, text);
  const svg = s("svg", { class: "se-clock", viewBox: "-112 -98 224 190", role: "img" },
    s("circle", { class: "se-ring", r: R }), s("line", { class: "se-axis", x1: -R, x2: R, y1: 0, y2: 0 }),
    s("line", { class: "se-axis", y1: -R, y2: R, x1: 0, x2: 0 }),
    note(0, -R - 7, "cosine"), note(R + 9, 4, "sine", "start"), way, sine, cosine, other, hand, otherTip, tip);

  function draw({ position, offset }, theta) {
    const angle = (place) => TURN / 4 - place * theta;
    for (const [pointer, end, place] of [[hand, tip, position], [other, otherTip, position + offset]]) {
      const [x, y] = pointAt(angle(place), R);
      setIfChanged(pointer, { x2: x, y2: y });
      setIfChanged(end, { cx: x, cy: y });
    }
    const visibility = Math.abs(offset) < 1e-3 ? "hidden" : "visible";
    for (const one of [other, otherTip]) setIfChanged(one, { visibility });
    // Sine and cosine as legs: across from the upright axis, and up from the level one.
    const [across, up] = pointAt(angle(position), R);
    setIfChanged(sine, { x1: 0, y1: up, x2: across, y2: up });
    setIfChanged(cosine, { x1: across, y1: 0, x2: across, y2: up });
    // The way from the first hand to the second, whole turns left out.
    setIfChanged(way, { d: arc(angle(position), (-offset * theta) % TURN, R * 0.38) });
  }
  return { svg, draw };
}

const SPEED = 4; // tokens per second, from the last position on to the first again

export default widget("sinusoid_explorer", "Sinusoidal positions",
  ["max_len", "d_model", "position", "pair", "offset"], ({ root, summary, say, read, animate, edit, onend }) => {
  const start = read();
  let playing = 0; // the frame asked for while time runs
  let time = 0; // the position then, in tokens and parts of them
  let frequencies = [];

  const setPosition = (position, more = {}) => {
    halt();
    edit({ position, ...more });
  };
  const controls = {
    position: makeControl("position", "position p", (position) => setPosition(position)),
    pair: makeControl("pair", "pair i", (pair) => edit({ pair })),
    offset: makeControl("offset", "offset Δ", (offset) => edit({ offset })),
  };
  const run = prefersReducedMotion() ? null : button("run", "Play", () => {
    if (!playing) return go();
    halt();
    draw(); // and say where the hands point
  }, { "aria-pressed": "false" });
  const again = button("reset", "Start again", () => {
    const { max_len, d_model } = read(); // either may have been made smaller from Python since
    setPosition(Math.min(start.position, max_len - 1), { pair: Math.min(start.pair, d_model / 2 - 1),
      offset: clamp(start.offset, -max_len, max_len) });
  });
  const chart = makeChart(root, (pair) => edit({ pair }), (position, pair) => setPosition(position, { pair }));
  const clock = makeClock(), plot = makeOffsetPlot("se", 168, (offset) => edit({ offset }));
  const [frequency, wavelength, between] = ["frequency", "wavelength", "between"].map((name) =>
    h("span", { class: "aw-numbers", "data-value": name }));
  const facts = [["frequency θ", frequency], ["wavelength", wavelength], ["angle Δθ", between]].map(([text, value]) =>
    h("li", {}, h("span", { class: "se-remark" }, text), value));
  const headline = h("div", { class: "se-dot aw-numbers", "data-value": "dot" });
  root.append(
    h("div", { class: "se-controls" }, controls.position.block, h("div", { class: "se-tools" }, run, again)),
    chart.node,
    h("div", { class: "se-parts" },
      h("div", { class: "se-side" }, clock.svg, h("ul", { class: "se-facts" }, facts), controls.pair.block),
      h("div", { class: "se-below" }, headline, plot.svg, controls.offset.block)),
    summary);

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

  // The parts that move. The frequency moves by its logarithm, so that the hand slows down evenly from pair to pair.
  const sceneOf = ({ d_model, position, pair, offset }) =>
    ({ position, pair, offset, power: Math.log(frequenciesOf(d_model)[pair]) });

  // One frame: all of the scene may be between two states.
  const motion = animate((now) => {
    const { position, offset } = now, theta = Math.exp(now.power);
    chart.draw(now);
    clock.draw(now, theta);
    const product = sum(frequencies.map((w) => Math.cos(offset * w))), here = Math.floor(position + 1e-6);
    plot.draw(offset, product);
    write(frequency, theta.toFixed(theta < 0.001 ? 6 : 4));
    write(wavelength, `${figures(TURN / theta, 2)} tokens`);
    write(between, `${figures(((offset * theta) * 360) / TURN, 1)}°`);
    write(headline, `PE[${here}] · PE[${plain(here + Math.round(offset))}] = ${figures(product)}`);
  }, 250);

  const build = rebuilder((state) => {
    const { max_len, d_model } = state;
    const { curve, ...all } = chosen({ ...state, position: 0, pair: 0, offset: 0 });
    frequencies = all.frequencies;
    chart.build(state);
    plot.build(max_len, d_model / 2, (width) => (width > 440 ? 4 : 2));
    plot.plot(curve.slice(max_len));
  });

  function draw() {
    const state = read();
    const { max_len, d_model, position, pair, offset } = state;
    const fits = position < max_len && pair < d_model / 2 && Math.abs(offset) <= max_len;
    if (!fits) return; // halfway through a change from Python
    const fresh = build([max_len, d_model, chart.hands.clientWidth, plot.svg.clientWidth], state);
    controls.position.show(0, max_len - 1, position);
    controls.pair.show(0, d_model / 2 - 1, pair);
    controls.offset.show(-max_len, max_len, offset);
    chart.show(state);
    if (playing) return fresh && motion.to({ ...sceneOf(state), position: time }, { jump: true });
    motion.to(sceneOf(state), { jump: fresh });

    const { hand, wavelength: length, dot: product } = chosen(state);
    const second = position + offset;
    chart.canvas.setAttribute("aria-label", `Encoding of ${max_len} positions in ${d_model} dimensions, values from −1 to `
      + `1; row ${position} and columns ${2 * pair} and ${2 * pair + 1} are marked`);
    clock.svg.setAttribute("aria-label", `Pair ${pair}: the hand is at ${figures(hand.angle, 2)} radians`);
    plot.svg.setAttribute("aria-label", `Dot product against offset, from ${plain(-max_len)} to ${max_len}: `
      + `highest at 0 with ${plain(d_model / 2)}, ${figures(product)} at ${plain(offset)}`);
    const reach = second < 0 || second >= max_len ? ", outside the table," : "";
    say(`Pair ${pair} at position ${position}: sine ${figures(hand.sine)}, cosine ${figures(hand.cosine)}, `
      + `wavelength ${figures(length, 1)} tokens. The dot product with position ${plain(second)}${reach} is `
      + `${figures(product)}. It depends only on the offset ${plain(offset)}: move the position, and it stays.`);
  }

  onend(halt);
  onend(resized(chart.stage, draw)); // the small clocks follow the width
  onend(themed(draw)); // the colors of the table follow the theme
  return draw;
});
