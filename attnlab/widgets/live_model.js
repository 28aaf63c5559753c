// A model that reads the reader's own sentence, in a worker of the site; before that a recorded sentence, in the same
// picture. `compute` reads the recording.

const HOW = ["on", "off", "mean"]; // as the engine counts them
const BREAKS = ["one position too far", "base 10,000", "pairs of neighbors", "heads dealt round"];
const MOST_WORDS = 6;
const LAST_RUNS = 7; // of those that say what each layer would
const LONGEST = 48; // tokens that are told apart as buttons; a longer text is read all the same

// Layers in a row that would say the same word: [first, last, word, probability after the last of them].
function runsOf(lens) {
  const runs = [];
  lens.forEach(([word, share], layer) => {
    const last = runs.at(-1);
    if (last?.[2] === word) [last[1], last[3]] = [layer, share];
    else runs.push([layer, layer, word, share]);
  });
  return runs;
}

// The map (n, n) of the chosen head, the next words as [word, probability, that of the whole model], and the runs of
// `lens`, whose entry 0 is before the first layer.
export function compute({ maps, effects, shape: [, heads], tokens, words, whole, lens, head, off }) {
  const n = tokens.length, weights = readMap(maps, head * (n * (n + 1)) / 2, n);
  const [without] = readTable(effects, "float16", head * words.length, 1, words.length);
  return { weights, next: words.map((word, w) => [word, off ? without[w] : whole[w], whole[w]]), runs: runsOf(lens),
    name: `${Math.floor(head / heads)}.${head % heads}` };
}

// Whether the reader's own model answers, in the kernel.
const isOwn = (model) => document.documentElement.dataset.content_root === undefined && model.get("own");

// Why no model can be had here, so that there is the recording alone; "" where there is one.
function reasonWithout(model) {
  if (isOwn(model)) return "";
  if (document.documentElement.dataset.content_root === undefined) return "the model itself runs on the book's site";
  if (!document.querySelector('meta[name="model-in-page"]'))
    return "this copy of the site was built without the model, which “make site” adds";
  return location.protocol === "file:" ? "the model runs on pages that come from a web address, not from a file" : "";
}

const shownWord = (word) => disambiguate([word])[0].text;

// On the wall, weights are black of their own opacity, which the style sheet turns to white in the dark; the one map has
// the colors of all maps.
const black = Uint32Array.from({ length: 256 }, (_, i) => (i ? 20 + Math.round((235 * i) / 255) : 0) * 2 ** 24);
const ink = h("canvas");

// One map into a canvas at a place. map: {n, weight: weight(i, j)}
function blot(target, { n, weight }, x, y, width, height, colors = black) {
  ink.width = ink.height = n;
  const context = ink.getContext("2d"), image = context.createImageData(n, n), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) pixels[i * n + j] = weight(i, j) > 0 ? colors[Math.round(255 * weight(i, j))] : 0;
  context.putImageData(image, 0, 0);
  target.imageSmoothingEnabled = n > width;
  target.drawImage(ink, x, y, width, height);
}

// All maps, small, with a ring around one: `current()`. `onpick` hears which head is pressed, or reached by a key.
function makeWall(layers, heads, current, onpick) {
  const canvas = h("canvas", { class: "lm-canvas", "aria-hidden": "true" }), ring = h("i", { class: "lm-ring" });
  const cell = [20, 14];
  const node = h("div", { class: "lm-wall", ...wallKeys(layers, heads, current, onpick),
    onpointerdown: (event) => onpick(headIn(node, event, layers, heads)) }, canvas, ring);
  // The maps of some layers; `mapOf(head)` may be null.
  function draw(mapOf, from = 0, to = layers) {
    const context = canvas.getContext("2d");
    if (from === 0) [canvas.width, canvas.height] = [layers * cell[0], heads * cell[1]];
    for (let layer = from; layer < to; layer++) {
      context.clearRect(layer * cell[0], 0, cell[0], canvas.height);
      for (let one = 0; one < heads; one++) {
        const map = mapOf(layer * heads + one);
        if (map) blot(context, map, layer * cell[0], one * cell[1], cell[0] - 2, cell[1] - 2);
      }
    }
  }
  function mark(head) {
    const layer = Math.floor(head / heads), one = head % heads;
    fill(node, { "aria-valuenow": head, "aria-valuetext": `layer ${layer}, head ${one}` });
    Object.assign(ring.style, { left: `${(100 * layer) / layers}%`, top: `${(100 * one) / heads}%` });
  }
  return { node, draw, mark };
}

// The tokens as buttons, colored by the weights of the one that reads.
function makeChips(onpress) {
  const node = h("div", { class: "lm-chips", role: "group", "aria-label": "Token that reads" });
  const build = rebuilder(([tokens]) => node.replaceChildren(...disambiguate(tokens.slice(0, LONGEST)).map((label, i) =>
    h("button", { type: "button", class: "lm-chip", "data-query": i, onclick: () => onpress(i) },
      h("span", { class: "lm-ink aw-heat" }, tokenNode(label))))));
  function draw(tokens, live, query, map) {
    build([tokens, live], [tokens]);
    [...node.children].forEach((chip, i) => {
      chip.setAttribute("aria-pressed", String(i === query));
      heat(chip.firstChild, map && i <= query ? map.weight(query, i) : 0);
    });
  }
  return { node, draw };
}

// One map, large, with a frame around the row of the token that reads.
function drawMap(canvas, map, query, colors) {
  [canvas.width, canvas.height] = [360, 360];
  if (!map) return;
  const context = canvas.getContext("2d"), { n } = map;
  blot(context, map, 0, 0, 360, 360, colors);
  context.strokeStyle = getComputedStyle(canvas).color;
  context.strokeRect(1, (360 * query) / n + 1, (360 * (query + 1)) / n - 2, 360 / n - 2);
}

// The next words as bars: with the switched head, with the whole model, and what the cuts make of them.
function makeNext() {
  const bars = range(MOST_WORDS, () => {
    const [was, now, drawn] = ["was", "now", "drawn"].map((name) => h("i", { class: `lm-${name}` }));
    return { ...wordBar("lm", was, now, drawn), was, now, drawn };
  });
  const key = h("span", { class: "lm-key", hidden: true }, h("i"), "drawn with these cuts");
  const node = h("div", { class: "lm-next" }, h("p", {}, "next word", key), h("ul", {}, ...bars.map(({ row }) => row)));
  function draw(next, chances) {
    const shown = (next ?? []).map(([word, is, was], w) => [word, is, was, chances?.[w] ?? 0])
      .sort((a, b) => Math.max(b[1], b[2]) - Math.max(a[1], a[2])).slice(0, MOST_WORDS);
    const most = Math.max(0.05, ...shown.map(([, ...all]) => Math.max(...all)));
    key.hidden = !chances;
    bars.forEach(({ row, word, was, now, drawn, number }, w) => {
      const [text, is, before, chance] = shown[w] ?? ["", 0, 0, 0];
      drawn.hidden = !chances || !shown[w];
      drawn.style.left = `${(100 * chance) / most}%`;
      row.classList.toggle("lm-empty", !shown[w]);
      word.textContent = text && shownWord(text);
      was.style.width = `${(100 * before) / most}%`;
      now.style.width = `${(100 * is) / most}%`;
      number.textContent = shown[w] ? share(is) : "";
    });
  }
  return { node, draw };
}

// Controls that continue the text: a button, three numbers that cut the next words, and ways to break the model.
function makeWriting({ onwrite, oncut, onbreak }) {
  const cuts = { temperature: 0.8, top_k: 40, top_p: 0.95 };
  const field = (name, label, limits) => h("label", { class: "lm-field" }, label, numberField(label, cuts[name], (number) => {
    cuts[name] = number;
    oncut();
  }, { "data-field": name, ...limits }));
  const write = button("write", "Write on", onwrite);
  const broken = h("select", { "aria-label": "Break the model", "data-go": "break",
    onchange: ({ target }) => onbreak(target.value || null) },
    h("option", { value: "" }, "whole model"), ...BREAKS.map((name) => h("option", { value: name }, name)));
  const text = h("span");
  const nodes = [h("div", { class: "lm-row lm-writing" }, write, h("div", { class: "lm-fields" },
    field("temperature", "temperature", { min: 0, max: 5, step: 0.1 }), field("top_k", "top k", { min: 1, max: 1000, step: 1 }),
    field("top_p", "top p", { min: 0.01, max: 1, step: 0.05 })), broken),
  h("p", { class: "lm-written" }, text)]; // its end is always in view
  return { nodes, cuts, write, broken, text };
}

export default widget("live_model", "A language model that reads your sentence",
  ["maps", "effects", "shape", "tokens", "words", "whole", "lens", "head", "query", "off"], (view) => {
  const { root, summary, say, model, read, onend } = view;
  const [layers, heads] = model.get("shape");
  const site = document.documentElement.dataset.content_root;
  const own = isOwn(model), without = reasonWithout(model);

  // The results of the page's model for the reader's text; null as long as the recording is shown.
  let live = null, worker = null, busy = false, shownQuery = null, asked = "", ramp = null;
  const changed = new Map(); // of the live model: head -> OFF or MEAN

  const input = h("input", { type: "text", class: "lm-text", "aria-label": "Your text", "data-go": "text",
    value: model.get("tokens").join(" "), maxlength: 600, onkeydown: (event) => {
      if (event.key === "Enter" && !go.disabled) {
        event.preventDefault();
        begin();
      }
    } });
  const go = button("read", "", begin, { class: "lm-go" });
  const bar = h("progress", { class: "lm-progress", max: 1, value: 0, "aria-label": "Fetched of the model", hidden: true });
  const note = h("p", { class: "lm-note", "aria-live": "polite" });
  const chips = makeChips((i) => {
    if (!live) return change(model, { query: i });
    shownQuery = i;
    paint();
  });
  const wall = makeWall(layers, heads, () => model.get("head"), (head) => change(model, { head }));
  const title = h("b", { class: "lm-title" });
  const switches = HOW.map((how, i) => h("button", { type: "button", "data-how": how, onclick: () => turn(i) }, how));
  const map = h("canvas", { class: "lm-map", role: "img" });
  const words = makeNext();
  const lens = h("ol", { class: "lm-lens", "data-held": "", "aria-label": "Likeliest word after each layer" });
  const writing = makeWriting({ onwrite: writeOn, oncut: draws, onbreak: (broken) => ask({ broken }) });
  const { write, broken } = writing;
  root.append(h("div", { class: "lm-row" }, input, go), h("div", { class: "lm-state" }, bar, note), chips.node, wall.node,
    wallAxis("lm", layers),
    h("div", { class: "lm-views" },
      h("div", { class: "lm-head" },
        h("div", { class: "lm-switch", role: "group", "aria-label": "Head" }, title, ...switches), map),
      words.node, h("div", { class: "lm-layers" }, h("p", {}, "after each layer it would say"), lens)),
    ...writing.nodes, summary);

  // The engine: a worker of the site, or the kernel.

  function ask(what) {
    busy = true;
    if (own) model.send(what);
    else worker.postMessage(what);
    paint();
  }

  function begin() {
    if (!worker && !own) {
      try {
        worker = new Worker(new URL(`${site}_static/live/worker.js`, location.href), { type: "module" });
      } catch {
        return fail("The model runs on pages that come from a web address, not from a file.");
      }
      worker.onmessage = ({ data }) => hear(data);
      worker.onerror = () => {
        worker = null;
        fail("The engine could not be started here. Was this page opened from a web address?");
      };
      bar.hidden = false;
    }
    note.textContent = "";
    writing.text.replaceChildren();
    live = null;
    asked = input.value;
    ask({ read: asked });
  }

  // Asks for the next words with the temperature and the cuts, which a kernel's `generate` does not have.
  function draws() {
    if (worker && live?.next && !busy) worker.postMessage({ cuts: writing.cuts });
  }

  function fail(reason) {
    busy = false;
    bar.hidden = true;
    note.textContent = ""; // so that a screen reader says it again when it fails again
    setTimeout(() => (note.textContent = reason), 50);
    paint();
  }

  function hear(data) {
    if (data.total) {
      bar.value = data.done / data.total;
      bar.hidden = data.done >= data.total;
      note.textContent = bar.hidden ? "" : `${Math.round(data.done / 1e6)} of ${Math.round(data.total / 1e6)} MB`;
    }
    if (data.notice) note.textContent = data.notice;
    if (data.error) return fail(data.error);
    if (data.tokens) {
      live = { tokens: data.tokens, maps: Array(layers).fill(null), next: null, lens: null };
      shownQuery = null;
      wall.draw(mapOf);
    }
    if (!live) return; // still of the text before this one
    if (data.maps) {
      live.maps[data.layer] = data.maps;
      wall.draw(mapOf, data.layer, data.layer + 1);
    }
    if (data.next) Object.assign(live, { next: data.next, lens: data.lens, drawn: null });
    if (data.drawn) live.drawn = data.drawn;
    if (data.pieces) live.tokens = data.pieces; // with what was written
    if (data.text !== undefined) writing.text.replaceChildren(asked, h("b", {}, data.text));
    if (data.ready) {
      busy = false;
      if (!data.kept) note.textContent = "This browser keeps nothing: the next visit fetches the model again.";
      else if (!data.simd) note.textContent = "Without WebAssembly's SIMD this takes about ten times as long.";
      draws();
    }
    paint();
  }

  function turn(how) {
    const head = model.get("head");
    if (!live) return change(model, { off: how === 1 });
    if (how) changed.set(head, how);
    else changed.delete(head);
    ask({ head: [Math.floor(head / heads), head % heads, how] });
  }

  function writeOn() {
    if (write.dataset.writing) {
      if (!own) worker.postMessage({ stop: true }); // a kernel hears nothing while it writes
      return;
    }
    write.dataset.writing = "yes";
    ask({ write: 40, seed: Math.floor(Math.random() * 2 ** 31), ...writing.cuts });
  }

  // The map of a head, live or recorded; null where it is not there yet.
  function mapOf(head) {
    if (!live) {
      const { weights } = compute({ ...read(), head });
      return { n: weights.length, weight: (i, j) => weights[i][j] };
    }
    const all = live.maps[Math.floor(head / heads)];
    if (!all) return null;
    const n = Math.round(Math.sqrt(all.length / heads)), start = (head % heads) * n * n;
    return { n, weight: (i, j) => all[start + i * n + j] };
  }

  // Enables the controls that can be used now.
  function able(how) {
    go.textContent = worker || own ? "Read" : `Load the model and read (${model.get("size")} MB, once)`;
    go.disabled = busy && !live;
    const isWriting = busy && write.dataset.writing;
    if (!busy) delete write.dataset.writing;
    write.textContent = isWriting && !own ? "Stop" : "Write on";
    write.disabled = !live?.next || (busy && (own || !isWriting));
    broken.disabled = !live?.next || busy;
    switches.forEach((one, i) => {
      one.setAttribute("aria-pressed", String(i === how));
      one.disabled = live ? !live.next || busy || (own && i === 2) : i === 2;
    });
  }

  function paint() {
    const state = read(), { head } = state;
    const recorded = compute(state), tokens = live?.tokens ?? state.tokens, { name } = recorded;
    const found = mapOf(head), n = found?.n ?? tokens.length;
    const query = Math.min(n - 1, (live ? shownQuery : state.query < 0 ? null : state.query) ?? n - 1);
    const how = live ? changed.get(head) ?? 0 : Number(state.off);
    const next = live ? live.next : recorded.next, runs = live ? live.lens && runsOf(live.lens) : recorded.runs;

    able(how);
    chips.draw(tokens, Boolean(live), query, found);
    wall.mark(head);
    title.textContent = `Head ${name}`;
    map.setAttribute("aria-label", `Map of head ${name}, ${n} queries by ${n} keys`);
    ramp ??= heatColors(root);
    drawMap(map, found, query, ramp ?? black);
    words.draw(next, live?.drawn);
    lens.replaceChildren(...(runs ?? []).slice(-LAST_RUNS).map(([first, last, word, chance]) => h("li", {},
      h("span", { class: "aw-numbers" }, first === last ? `${first}` : `${first}–${last}`), " ",
      h("b", {}, shownWord(word)), " ", h("span", { class: "aw-numbers" }, share(chance)))));
    if (!next || !found) return;
    const row = range(query + 1, (j) => found.weight(query, j)), best = argmax(row);
    const said = [...next].sort((a, b) => b[1] - a[1])[0];
    say(`${live ? "" : "Recorded. "}Head ${name} is ${HOW[how]}: “${shownWord(tokens[query] ?? "")}” reads “${
      shownWord(tokens[best] ?? "")}”, ${spoken(row[best])}. Next word “${shownWord(said[0])}”: ${spoken(said[1])}.`);
  }

  if (own) {
    root.classList.add("lm-own");
    const heard = (data, buffers) => hear(buffers?.length ? { ...data, maps: new Float32Array(
      buffers[0].buffer.slice(buffers[0].byteOffset, buffers[0].byteOffset + buffers[0].byteLength)) } : data);
    model.on("msg:custom", heard);
    onend(() => model.off("msg:custom", heard));
  } else if (without) {
    root.classList.add("lm-recorded");
    const place = root.parentElement; // room for the controls was reserved in it, and they are not there
    root.style.minHeight = place.style.minHeight = "";
    requestAnimationFrame(() => (place.style.minHeight = `${place.offsetHeight}px`));
    note.textContent = `A recorded sentence: ${without}.`;
  }
  wall.draw(mapOf);
  onend(() => worker?.terminate());
  onend(themed(() => {
    ramp = null;
    paint();
  }));
  return paint;
}, (model) => [...model.get("predictions"), ...(reasonWithout(model) ? [] : model.get("live_predictions"))]);
