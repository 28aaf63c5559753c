// Heads that form in training: a recorded run under a slider, and one that a worker trains from the reader's seed.
// The model itself is in chant_model.js, which is put behind this text.

const PAUSE = 260; // milliseconds per look while it plays
const SMOOTH = 10; // steps that a point of the curve is the mean of
const LIVE = { batch: 16, rate: 0.007, every: 5, periods: [6, 14] };
// The plot, in units of its drawing. The slider below it has the same borders, see head_forming.css.
const PLOT = { width: 400, height: 148, left: 36, right: 392, top: 8, bottom: 126, most: 3.5, least: 0.8 };

const mean = (numbers) => sum(numbers) / numbers.length;

// The numbers of one look: four maps, how much each head looks one letter back and at what came next a round ago,
// the probability of each letter, and the loss.
export function compute({ data, losses, text, period, shape: [, layers, heads], every, at }) {
  const n = text.length, size = (n * (n + 1)) / 2, start = at * (layers * heads * size + n - 1);
  const maps = range(layers * heads, (map) => readMap(data, start + map * size, n).flat());
  const chances = readTable(data, "uint8", start + layers * heads * size, 1, n - 1)[0].map((byte) => byte / 255);
  const curve = smooth(lossesOf(losses)), step = at * every;
  return { step, loss: curve[Math.min(step, curve.length - 1)], chances, maps, ...measured(maps, n, period) };
}

const lossesOf = (data) => readTable(data, "float16", 0, 1, data.byteLength / 2)[0];
const smooth = (losses) => losses.map((_, i) => mean(losses.slice(Math.max(0, i + 1 - SMOOTH), i + 1)));

function measured(maps, n, period) {
  const along = (map, first, distance) => mean(range(n - first, (i) => map[(first + i) * n + first + i - distance]));
  return { back: maps.map((map) => along(map, 1, 1)), next: maps.map((map) => along(map, period, period - 1)) };
}

export default widget("head_forming", "Heads that form in training",
  ["data", "losses", "floor", "text", "period", "shape", "every", "at", "seed"], (view) => {
  const { root, summary, say, model, read, animate, onend } = view;
  const { text, period, shape: [looks, layers, heads], every, floor } = read();
  const n = text.length, steps = (looks - 1) * every;
  const recorded = smooth(lossesOf(model.get("losses")));
  let worker = null, retry = 0;
  let own = null; // the run that is trained here: {seed, losses, curve, looks, live, place}
  let mine = false; // whether it is the one that is shown

  // The curve.
  const x = scale([0, steps], [PLOT.left, PLOT.right]), height = scale([PLOT.least, PLOT.most], [PLOT.bottom, PLOT.top]);
  const y = (loss) => height(clamp(loss, PLOT.least, PLOT.most));
  const outline = (curve) => pathOf(curve.map((loss, i) => [x(i), y(loss)]));
  const [behind, path] = [s("path", { class: "hf-behind" }), s("path")];
  const [cursor, point] = [s("line", { class: "hf-at", y1: PLOT.top, y2: PLOT.bottom }), s("circle", { r: 4 })];
  const label = (at, down, words, anchor = "middle") => s("text", { x: at, y: down, "text-anchor": anchor }, words);
  const follow = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const at = (placeIn(curve, event)[0] * PLOT.width - PLOT.left) / (PLOT.right - PLOT.left);
    pick(Math.round(clamp(at, 0, 1) * (looks - 1)));
  };
  const curve = s("svg", { class: "hf-curve", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img",
    "aria-label": "Loss against step", onpointerdown: follow, onpointermove: follow },
    [1, 2, 3].map((tick) => [s("line", { x1: PLOT.left, x2: PLOT.right, y1: y(tick), y2: y(tick) }),
      label(PLOT.left - 6, y(tick) + 4, String(tick), "end")]).flat(),
    [0, 200, 400, 600].filter((tick) => tick <= steps).map((tick) => label(x(tick), PLOT.height - 6, String(tick), tick === steps ? "end" : "middle")),
    s("line", { class: "hf-floor", x1: PLOT.left, x2: PLOT.right, y1: y(floor), y2: y(floor) }),
    label(PLOT.left + 6, y(floor) - 5, "floor", "start"), behind, path, cursor, point);
  const slider = rangeInput("at", "Step of training", { class: "hf-slider", min: 0, max: looks - 1, step: 1 }, pick);
  const now = h("p", { class: "hf-now aw-numbers", "data-value": "now" });

  // The chant, a round per row. Its first letter is given.
  const letters = [...text].map((letter, i) => h("span", { class: i ? "aw-heat" : "hf-given" }, letter));
  const chant = h("div", { class: "hf-chant", role: "img", "data-value": "chant",
    style: `grid-template-columns: repeat(${period}, max-content)` }, letters);

  // The maps.
  const heads_ = range(layers * heads, (i) => {
    const canvas = h("canvas", { width: n, height: n, role: "img", "data-map": i });
    const bar = (name) => {
      const [fill, value] = [h("i"), h("span", { class: "aw-numbers", "data-value": `${name}-${i}` })];
      return { fill, value, row: h("div", { class: "hf-bar" }, h("span", {}, name), h("i", {}, fill), value) };
    };
    const [back, next] = [bar("back"), bar("next")];
    const context = canvas.getContext("2d"), image = context.createImageData(n, n);
    return { canvas, back, next, context, image, pixels: new Uint32Array(image.data.buffer),
      node: h("div", {}, h("p", {}, `block ${Math.floor(i / heads)}, head ${i % heads}`), canvas, back.row, next.row) };
  });

  const place = () => (mine ? own.place : model.get("at"));
  const { play, stop } = player(view, PAUSE, { at: place, end: () => (mine ? own.looks.length : looks) - 1, go: show,
    ready: () => !(mine && worker) });
  const train = button("train", "Train one here", () => (worker ? stopTraining() : startTraining()));
  const back = button("recorded", "Recorded run", () => {
    stop();
    mine = false;
    draw();
  });
  const seed = numberField("Seed", model.get("seed"), (value) => change(model, { seed: Math.trunc(value) }),
    { min: 0, max: 2 ** 31 - 1, step: 1, "data-field": "seed" });
  const note = h("p", { class: "hf-note", "data-value": "note" });
  root.append(
    h("div", { class: "hf-top" },
      h("div", {}, now, curve, slider),
      h("div", { class: "hf-side" }, chant, h("div", {},
        h("p", { class: "hf-note" }, "chance given to each letter"), heatScale()))),
    h("div", { class: "hf-tools" }, play, train, h("label", {}, "seed", seed), back),
    h("div", { class: "hf-maps" }, heads_.map((one) => one.node)), note, summary);

  let ramp = null; // before there is a style

  function paint({ step, loss, chances, maps, back: backs, next: nexts }) {
    setIfChanged(cursor, { x1: x(step), x2: x(step) });
    setIfChanged(point, { cx: x(step), cy: y(loss) });
    now.textContent = `Step ${Math.round(step)}: ${loss.toFixed(2)} nats per letter`;
    chances.forEach((chance, i) => heat(letters[i + 1], chance));
    ramp ??= heatColors(root);
    heads_.forEach(({ back, next, context, image, pixels }, map) => {
      for (const [{ fill, value }, weight] of [[back, backs[map]], [next, nexts[map]]]) {
        fill.style.transform = `scaleX(${weight.toFixed(4)})`;
        value.textContent = share(weight);
      }
      if (!ramp) return;
      for (let i = 0; i < n; i++)
        for (let j = 0; j <= i; j++) pixels[i * n + j] = ramp[Math.round(255 * maps[map][i * n + j])];
      context.putImageData(image, 0, 0);
    });
    if (!ramp && !retry) retry = requestAnimationFrame(() => draw({ jump: true })); // not on the page yet
  }
  const motion = animate(paint, 280);

  function draw({ jump = false } = {}) {
    const state = read();
    if (state.at >= looks) return;
    const shown = mine ? own.live ?? own.looks[own.place] : compute(state);
    behind.setAttribute("d", mine ? outline(recorded) : own ? outline(own.curve) : "");
    path.setAttribute("d", outline(mine ? own.curve : recorded));
    slider.value = mine ? Math.round(shown.step / every) : state.at;
    slider.disabled = Boolean(worker) && mine;
    slider.setAttribute("aria-valuetext", `step ${shown.step}`);
    back.disabled = !mine;
    train.textContent = worker ? "Stop" : "Train one here";
    setNumber(seed, state.seed);
    note.textContent = mine ? own.words : "Weight one letter back, and on what came next last time.";
    motion.to(shown, { jump });
    const who = (map) => `block ${Math.floor(map / heads)}, head ${map % heads}`;
    const [one, two] = [argmax(shown.back), argmax(shown.next)];
    chant.setAttribute("aria-label", `The chant ${text}. Its letters from the second round on get a mean probability of ${
      mean(shown.chances.slice(period)).toFixed(2)}.`);
    heads_.forEach(({ canvas }, map) => canvas.setAttribute("aria-label", `Attention map of ${who(map)}`));
    say(`${mine ? "Trained here" : "Recorded"}, step ${shown.step}: ${shown.loss.toFixed(2)} nats per letter. Most weight `
      + `one letter back: ${spoken(shown.back[one])} by ${who(one)}. On what came next: ${spoken(shown.next[two])} by ${
        who(two)}.`);
  }

  function pick(at) {
    if (mine && worker) return;
    stop();
    show(at);
  }
  // A look of the run that is shown.
  function show(at) {
    if (!mine) {
      if (at !== model.get("at")) change(model, { at });
      return draw();
    }
    own.live = null;
    own.place = Math.min(at, own.looks.length - 1);
    draw();
  }
  // Training, in a worker whose program is the text of two functions. Nothing is fetched.
  function startTraining() {
    stop();
    const program = `${uniform}\n${chantModel}\n(${chantWorker})();`;
    const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
    const since = performance.now();
    own = { losses: [], curve: [], looks: [], live: null, place: 0, words: "" };
    mine = false; // until there is something to show
    const fail = () => {
      stopTraining();
      mine = false;
      own = null;
      draw();
      note.textContent = "This browser does not start a worker here, so nothing can be trained.";
    };
    try {
      worker = new Worker(address);
    } catch {
      return fail();
    } finally {
      setTimeout(() => URL.revokeObjectURL(address), 0);
    }
    worker.onerror = fail;
    worker.onmessage = ({ data: { step, losses, chances, maps: lists } }) => {
      own.losses.push(...losses);
      own.curve = smooth(own.losses);
      const maps = lists.flatMap((list) => range(heads, (head) =>
        Array.from(list.subarray(head * n * n, (head + 1) * n * n))));
      const loss = own.curve.at(-1) ?? -mean(chances.map(Math.log));
      own.live = { step, loss, chances, maps, ...measured(maps, n, period) };
      if (step % every === 0) own.place = own.looks.push(own.live) - 1;
      const seconds = (performance.now() - since) / 1000;
      own.words = `Seed ${own.seed}: ${step} of ${steps} steps in ${seconds.toFixed(0)} s, on this machine.`;
      if (step === steps) stopTraining();
      mine = true;
      draw();
    };
    own.seed = model.get("seed");
    const exam = [...text].map((letter) => letter.charCodeAt(0) - 97);
    worker.postMessage({ seed: own.seed, exam, steps, ...LIVE });
    draw();
  }
  function stopTraining() {
    worker?.terminate();
    worker = null;
    if (own) own.live = null;
    if (own && !own.looks.length) own = null;
    draw();
  }

  let seen = read().at;
  onend(themed(() => {
    ramp = null;
    draw({ jump: true });
  }));
  onend(() => worker?.terminate());
  onend(() => cancelAnimationFrame(retry));
  return () => {
    const { at } = read();
    mine &&= Boolean(worker) || at === seen;
    seen = at;
    draw();
  };
});
