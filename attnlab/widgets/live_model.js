// A model that reads the reader's own sentence, in a worker of the site; before that a recorded sentence, in the same
// picture. `compute` reads the recording.

const TRAITS = ["maps", "effects", "shape", "tokens", "words", "whole", "lens", "head", "query", "off"];
const HOW = ["on", "off", "mean"]; // as the engine counts them
const BREAKS = ["one position too far", "base 10,000", "pairs of neighbors", "heads dealt round"];
const MOST_WORDS = 6;
const LAST_RUNS = 7; // of those that say what each layer would
const LONGEST = 48; // tokens that are told apart as buttons; a longer text is read all the same

const bytesOf = (data) =>
  ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);

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
function compute({ maps, effects, shape: [, heads], tokens, words, whole, lens, head, off }) {
  const n = tokens.length, bytes = bytesOf(maps), start = head * (n * (n + 1)) / 2;
  const weights = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) =>
    (j > i ? 0 : bytes[start + (i * (i + 1)) / 2 + j] / 255)));
  const [without] = readTable(effects, "float16", head * words.length, 1, words.length);
  return { weights, next: words.map((word, w) => [word, off ? without[w] : whole[w], whole[w]]), runs: runsOf(lens),
    name: `${Math.floor(head / heads)}.${head % heads}` };
}

const shownWord = (word) => word.replace(/\n/g, "⏎").trim() || (word.includes("\n") ? "⏎" : "␣");

function render({ model, el }) {
  const { root, summary, say } = frame(el, "live_model", "A language model that reads your sentence", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const [layers, heads] = model.get("shape"), many = layers * heads;
  const site = document.documentElement.dataset.content_root;
  const own = site === undefined && model.get("own"); // the reader's own model, in the kernel

  // What the model in the page has said of the reader's text; null as long as the recording is shown.
  let live = null, worker = null, busy = false, shownQuery = null;
  const changed = new Map(); // of the live model: head -> OFF or MEAN

  // The text and the button that begins it all.
  const input = h("input", { type: "text", class: "lm-text", "aria-label": "Your text", "data-go": "text",
    value: model.get("tokens").join(" "), maxlength: 600, onkeydown: (event) => {
      if (event.key === "Enter" && !go.disabled) {
        event.preventDefault();
        begin();
      }
    } });
  const go = h("button", { type: "button", "data-go": "read", class: "lm-go", onclick: () => begin() });
  const bar = h("progress", { class: "lm-progress", max: 1, value: 0, "aria-label": "Fetched of the model", hidden: true });
  const note = h("p", { class: "lm-note", "aria-live": "polite" });
  const chips = h("div", { class: "lm-chips", role: "group", "aria-label": "Token that reads" });

  // The wall.
  const canvas = h("canvas", { class: "lm-canvas", "aria-hidden": "true" }), ring = h("i", { class: "lm-ring" });
  const wall = h("div", { class: "lm-wall", role: "slider", tabindex: 0, "data-go": "wall", "aria-label": "Head",
    "aria-valuemin": 0, "aria-valuemax": many - 1, onpointerdown: (event) => {
      const box = wall.getBoundingClientRect();
      const at = (x, size, count) => Math.min(count - 1, Math.max(0, Math.floor((x / size) * count)));
      change(model, { head: at(event.clientX - box.left, box.width, layers) * heads
        + at(event.clientY - box.top, box.height, heads) });
    }, onkeydown: (event) => {
      const by = { ArrowRight: heads, ArrowLeft: -heads, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      change(model, { head: (model.get("head") + by + many) % many });
    } }, canvas, ring);

  // One head, its switch, the next words, the layers' words.
  const title = h("b", { class: "lm-title" });
  const switches = HOW.map((how, i) => h("button", { type: "button", "data-how": how, onclick: () => turn(i) }, how));
  const map = h("canvas", { class: "lm-map", role: "img" });
  const bars = Array.from({ length: MOST_WORDS }, () => {
    const one = { word: h("span", { class: "lm-word" }), was: h("i", { class: "lm-was" }),
      now: h("i", { class: "lm-now" }), drawn: h("i", { class: "lm-drawn" }), number: h("span", { class: "lm-number aw-numbers" }) };
    one.row = h("li", {}, one.word, h("span", { class: "lm-track" }, one.was, one.now, one.drawn), one.number);
    return one;
  });
  const drawnKey = h("span", { class: "lm-key", hidden: true }, h("i"), "drawn with these cuts");
  const lens = h("ol", { class: "lm-lens", "aria-label": "Likeliest word after each layer" });

  // Writing on.
  const field = (name, label, value, attributes) => {
    const node = numberField(label, value, (number) => {
      cuts[name] = number;
      draws();
    }, { "data-field": name, ...attributes });
    return h("label", { class: "lm-field" }, label, node);
  };
  const cuts = { temperature: 0.8, top_k: 40, top_p: 0.95 };
  const fields = h("div", { class: "lm-fields" },
    field("temperature", "temperature", cuts.temperature, { min: 0, max: 5, step: 0.1 }),
    field("top_k", "top k", cuts.top_k, { min: 1, max: 1000, step: 1 }),
    field("top_p", "top p", cuts.top_p, { min: 0.01, max: 1, step: 0.05 }));
  const write = h("button", { type: "button", "data-go": "write", onclick: () => writeOn() }, "Write on");
  const broken = h("select", { "aria-label": "Break the model", "data-go": "break",
    onchange: ({ target }) => ask({ broken: target.value || null }) },
    h("option", { value: "" }, "whole model"), ...BREAKS.map((name) => h("option", { value: name }, name)));
  const written = h("span"), page = h("p", { class: "lm-written" }, written); // its end is always in view
  root.append(h("div", { class: "lm-row" }, input, go), h("div", { class: "lm-state" }, bar, note), chips, wall,
    h("p", { class: "lm-axis", "aria-hidden": "true" }, h("span", {}, "layer 0"),
      h("span", {}, "one column per layer, one map per head"), h("span", {}, `layer ${layers - 1}`)),
    h("div", { class: "lm-views" },
      h("div", { class: "lm-head" }, h("div", { class: "lm-switch", role: "group", "aria-label": "Head" }, title,
        ...switches), map),
      h("div", { class: "lm-next" }, h("p", {}, "next word", drawnKey), h("ul", {}, ...bars.map(({ row }) => row))),
      h("div", { class: "lm-layers" }, h("p", {}, "after each layer it would say"), lens)),
    h("div", { class: "lm-row lm-writing" }, write, fields, broken), page, summary);

  // The worker

  function ask(what) {
    busy = true;
    if (own) model.send(what);
    else worker.postMessage(what);
    paint();
  }

  function begin() {
    const text = input.value;
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
    written.replaceChildren();
    live = null;
    asked = text;
    ask({ read: text });
  }

  let asked = "";

  // What the temperature and the cuts make of the next words; a kernel's `generate` has none.
  const draws = () => worker && live?.next && !busy && worker.postMessage({ cuts });

  function fail(words) {
    busy = false;
    bar.hidden = true;
    note.textContent = ""; // so that a screen reader says it again when it fails again
    setTimeout(() => (note.textContent = words), 50);
    paint();
  }

  function hear(data) {
    if (data.total) {
      bar.value = data.done / data.total;
      note.textContent = data.done < data.total
        ? `${Math.round(data.done / 1e6)} of ${Math.round(data.total / 1e6)} MB` : "";
      bar.hidden = data.done >= data.total;
    }
    if (data.notice) note.textContent = data.notice;
    if (data.error) return fail(data.error);
    if (data.tokens) {
      live = { tokens: data.tokens, maps: Array(layers).fill(null), next: null, lens: null };
      shownQuery = null;
      drawWall(0, layers);
    }
    if (!live) return; // still of the text before this one
    if (data.maps) {
      live.maps[data.layer] = data.maps;
      const n = Math.round(Math.sqrt(data.maps.length / heads));
      drawWall(data.layer, data.layer + 1);
    }
    if (data.next) Object.assign(live, { next: data.next, lens: data.lens, drawn: null });
    if (data.drawn) live.drawn = data.drawn;
    if (data.pieces) live.tokens = data.pieces; // with what was written
    if (data.text !== undefined) written.replaceChildren(asked, h("b", {}, data.text));
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
    ask({ write: 40, seed: Math.floor(Math.random() * 2 ** 31), ...cuts });
  }

  // Drawing. On the wall, weights are black of their own opacity, which the style sheet turns to white in the dark; the
  // one map has the colors of all maps.

  const ink = document.createElement("canvas");
  const black = Uint32Array.from({ length: 256 }, (_, i) => (i ? 20 + Math.round((235 * i) / 255) : 0) * 2 ** 24);
  let ramp = null;

  // One map into a canvas at a place: weight(i, j)
  function blot(target, n, weight, x, y, width, height, colors = black) {
    ink.width = ink.height = n;
    const context = ink.getContext("2d"), image = context.createImageData(n, n), pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) pixels[i * n + j] = weight(i, j) > 0 ? colors[Math.round(255 * weight(i, j))] : 0;
    }
    context.putImageData(image, 0, 0);
    target.imageSmoothingEnabled = n > width;
    target.drawImage(ink, x, y, width, height);
  }

  const weightsOf = (head) => {
    if (live) {
      const all = live.maps[Math.floor(head / heads)];
      if (!all) return null;
      const n = Math.round(Math.sqrt(all.length / heads)), start = (head % heads) * n * n;
      return { n, weight: (i, j) => all[start + i * n + j] };
    }
    const { weights } = compute({ ...read(), head });
    return { n: weights.length, weight: (i, j) => weights[i][j] };
  };

  function drawWall(from, to) {
    const cell = [20, 14], context = canvas.getContext("2d");
    if (from === 0) [canvas.width, canvas.height] = [layers * cell[0], heads * cell[1]];
    for (let layer = from; layer < to; layer++) {
      context.clearRect(layer * cell[0], 0, cell[0], canvas.height);
      for (let one = 0; one < heads; one++) {
        const found = weightsOf(layer * heads + one);
        if (found) blot(context, found.n, found.weight, layer * cell[0], one * cell[1], cell[0] - 2, cell[1] - 2);
      }
    }
  }

  function paint() {
    const state = read(), { head } = state, name = `${Math.floor(head / heads)}.${head % heads}`;
    const recorded = compute(state), tokens = live?.tokens ?? state.tokens;
    const found = weightsOf(head), n = found?.n ?? tokens.length;
    const query = Math.min(n - 1, (live ? shownQuery : state.query < 0 ? null : state.query) ?? n - 1);
    const how = live ? changed.get(head) ?? 0 : Number(state.off);
    const next = live ? live.next : recorded.next, runs = live ? live.lens && runsOf(live.lens) : recorded.runs;

    go.textContent = worker || own ? "Read" : `Load the model and read (${model.get("size")} MB, once)`;
    go.disabled = busy && !live;
    const writing = busy && write.dataset.writing;
    if (!busy) delete write.dataset.writing;
    write.textContent = writing && !own ? "Stop" : "Write on";
    write.disabled = !live?.next || (busy && (own || !writing));
    broken.disabled = !live?.next || busy;

    const labels = tellApart(tokens.slice(0, LONGEST)), key = JSON.stringify([tokens, Boolean(live)]);
    if (chips.made !== key) {
      chips.made = key;
      chips.replaceChildren(...labels.map((label, i) => h("button", { type: "button", class: "lm-chip",
        "data-query": i, onclick: () => {
          if (!live) return change(model, { query: i });
          shownQuery = i;
          paint();
        } }, h("span", { class: "lm-ink aw-heat" }, tokenNode(label)))));
    }
    [...chips.children].forEach((chip, i) => {
      chip.setAttribute("aria-pressed", String(i === query));
      heat(chip.firstChild, found && i <= query ? found.weight(query, i) : 0);
    });

    wall.setAttribute("aria-valuenow", head);
    wall.setAttribute("aria-valuetext", `layer ${Math.floor(head / heads)}, head ${head % heads}`);
    ring.style.left = `${(100 * Math.floor(head / heads)) / layers}%`;
    ring.style.top = `${(100 * (head % heads)) / heads}%`;
    title.textContent = `Head ${name}`;
    switches.forEach((one, i) => {
      one.setAttribute("aria-pressed", String(i === how));
      one.disabled = live ? !live.next || busy || (own && i === 2) : i === 2;
    });
    map.setAttribute("aria-label", `Map of head ${name}, ${n} queries by ${n} keys`);
    [map.width, map.height] = [360, 360];
    if (found) {
      const context = map.getContext("2d");
      ramp ??= heatColors(root);
      blot(context, n, found.weight, 0, 0, 360, 360, ramp ?? black);
      context.strokeStyle = getComputedStyle(map).color;
      context.strokeRect(1, (360 * query) / n + 1, (360 * (query + 1)) / n - 2, 360 / n - 2);
    }
    const chances = live?.drawn;
    const shown = (next ?? []).map(([word, is, was], w) => [word, is, was, chances?.[w] ?? 0]).sort((a, b) => Math.max(b[1], b[2]) - Math.max(a[1], a[2])).slice(0, MOST_WORDS);
    const most = Math.max(0.05, ...shown.map(([, ...all]) => Math.max(...all)));
    drawnKey.hidden = !chances;
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
    lens.replaceChildren(...(runs ?? []).slice(-LAST_RUNS).map(([first, last, word, chance]) => h("li", {},
      h("span", { class: "aw-numbers" }, first === last ? `${first}` : `${first}–${last}`), " ", h("b", {}, shownWord(word)),
      " ", h("span", { class: "aw-numbers" }, share(chance)))));
    if (!next || !found) return;
    const row = Array.from({ length: query + 1 }, (_, j) => found.weight(query, j)), best = row.indexOf(Math.max(...row));
    const said = [...next].sort((a, b) => b[1] - a[1])[0];
    say(`${live ? "" : "Recorded. "}Head ${name} is ${HOW[how]}: “${shownWord(tokens[query] ?? "")}” reads “${
      shownWord(tokens[best] ?? "")}”, ${spoken(row[best])}. Next word “${shownWord(said[0])}”: ${spoken(said[1])}.`);
  }

  const heard = (data, buffers) => hear(buffers?.length ? { ...data, maps: new Float32Array(
    buffers[0].buffer.slice(buffers[0].byteOffset, buffers[0].byteOffset + buffers[0].byteLength)) } : data);
  if (own) {
    root.classList.add("lm-own");
    model.on("msg:custom", heard);
  } else if (site === undefined) { // outside of the book there is no engine
    root.classList.add("lm-recorded");
    note.textContent = "A recorded sentence: the model itself runs on the book's site.";
  }
  drawWall(0, layers);
  paint();
  const unlisten = listen(model, TRAITS, paint);
  const untheme = themed(() => {
    ramp = null;
    paint();
  });
  return () => {
    worker?.terminate();
    untheme();
    if (own) model.off("msg:custom", heard);
    unlisten();
    el.replaceChildren();
  };
}

export { compute };
export default { render };
