// Attention from a target to a source, with weights to change. `compute` holds the arithmetic; the view draws it.

const CANDIDATES = 6; // words whose probabilities are shown

// Numbers divided by their sum; zeros where there is nothing to divide.
function normalized(row) {
  const total = sum(row);
  return row.map((x) => (total > 0 ? x / total : 0));
}

// The index of the largest number above zero, the first of equals; -1 where there is none.
function largestOf(row) {
  const most = Math.max(...row);
  return most > 0 ? row.indexOf(most) : -1;
}

// The rest of a decoder, out of bytes: the values in full, what each target token has of itself, and the weights and
// biases of W_o, norm, two maps of the feed-forward network, and readout. Kept, as it is the same for every slider.
const decoders = new WeakMap();
function decoderOf({ decoder, widths: [width, inner], words, source, target }) {
  if (!decoders.has(decoder)) {
    let start = 0;
    const take = (rows, columns) => {
      const table = readTable(decoder, "float32", start, rows, columns);
      start += rows * columns;
      return table;
    };
    decoders.set(decoder, { values: take(source.length, width), own: take(target.length, width),
      W_o: take(width, width), scale: take(1, width)[0], shift: take(1, width)[0],
      W_1: take(inner, width), b_1: take(1, inner)[0], W_2: take(width, inner), b_2: take(1, width)[0],
      W: take(words.length, width), b: take(1, words.length)[0] });
  }
  return decoders.get(decoder);
}

// The probabilities of the next word when a target token reads the source with these shares.
function sayings(state, query, shares) {
  const { values, own, W_o, scale, shift, W_1, b_1, W_2, b_2, W, b } = decoderOf(state);
  const times = (matrix, x, bias) => matrix.map((row, i) => dot(row, x) + (bias?.[i] ?? 0));
  const context = own[query].map((_, c) => dot(shares, values.map((value) => value[c])));
  const x = times(W_o, context).map((number, c) => number + own[query][c]);
  const mean = sum(x) / x.length;
  const spread = Math.sqrt(sum(x.map((number) => (number - mean) ** 2)) / x.length + 1e-5);
  const normed = x.map((number, c) => ((number - mean) / spread) * scale[c] + shift[c]);
  const thought = times(W_2, times(W_1, normed, b_1).map((number) => Math.max(0, number)), b_2);
  return softmax(times(W, x.map((number, c) => number + thought[c]), b));
}

// The next words with the present shares and with the recorded ones, and the words that are worth showing:
// those that are said when one source token alone is read.
function wordsOf(state, shares, weights) {
  const { query } = state;
  const says = sayings(state, query, shares), said = sayings(state, query, weights);
  const alone = weights.map((_, j) => sayings(state, query, weights.map((_, k) => Number(j === k))));
  const many = new Map();
  [said, ...alone].forEach((row) => many.set(argmax(row), (many.get(argmax(row)) ?? 0) + row[argmax(row)]));
  const recorded = argmax(said), others = [...many.keys()].filter((word) => word !== recorded);
  const shown = [recorded, ...others.sort((a, b) => many.get(b) - many.get(a)).slice(0, CANDIDATES - 1)];
  return { says, recorded, best: argmax(says), shown };
}

// weights (recorded) and settings (the sliders): (n_t, n_s); values: (n_s, d_v). For every target token its shares and
// total, and whether its sliders were moved; for the chosen one the contexts with recorded and with present weights.
export function compute(state) {
  const { weights, values, settings, query = 0, words = [] } = state;
  const shares = settings.map(normalized);
  const totals = settings.map(sum);
  const moved = settings.map((row, i) => row.some((x, j) => x !== weights[i][j]));
  const [recorded, context] = [normalized(weights[query]), shares[query]].map((row) =>
    values[0].map((_, c) => dot(row, values.map((value) => value[c]))));
  const difference = context.map((x, c) => x - recorded[c]);
  const distance = Math.hypot(...difference);
  // If all sliders are at zero, the recorded weights still say which key mattered most.
  const largest = totals[query] > 0 ? largestOf(settings[query]) : largestOf(weights[query]);
  const said = words.length ? wordsOf({ ...state, query }, shares[query], normalized(weights[query])) : null;
  return { shares, totals, moved, recorded, context, difference, distance, largest, said };
}

// How entries of the values are written: three figures of the largest of them, and as many decimals for all.
function writer(values) {
  const reach = Math.max(...values.flat().map(Math.abs)) || 1;
  const digits = Math.max(0, 2 - Math.floor(Math.log10(reach) + 0.5));
  const long = digits > 6 || reach >= 1e5;
  const number = (x) =>
    (long ? x.toExponential(1).replace("+", "") : x.toFixed(digits)).replace(/^-(?=[0.]*$)/, "").replace(/-/g, "−");
  // A change has its sign, and is "0" only where nothing changed.
  const signed = (x) => (x === 0 ? "0" : (x < 0 ? "−" : "+") + number(Math.abs(x)));
  return { reach, number, signed, vector: (numbers) => `(${numbers.map(number).join(", ")})` };
}

function summaryOf({ sources, targets, values, query, words }, { shares, totals, moved, context, distance, said }) {
  const row = shares[query];
  const where = `Target “${targets[query].name}”`;
  if (!(totals[query] > 0))
    return `${where}: no weight on any source token. All shares are 0, and so is the context.`;
  const { number, vector } = writer(values);
  const verdict = moved[query] ? `${number(distance)} away from the recorded one` : "as recorded";
  const word = said ? ` Says “${words[said.best]}”: ${spoken(said.says[said.best])}.` : "";
  return `${where}: ${readsText(row, sources, 0.05)}. Context ${vector(context)}, ${verdict}.${word}`;
}

export default widget("alignment_viewer", "Alignment of a target with a source",
  ["source", "target", "weights", "values", "settings", "query", "words", "decoder", "widths"], (view) => {
  const { root, summary, say, model, animate } = view;
  const id = `alignment-${Math.random().toString(36).slice(2)}`;
  let parts = null; // the elements, made again only when tokens or values change
  let pulled = false; // whether a slider is being moved: what follows a pointer does not glide
  let hovered = null; // [row, column] of the cell under the pointer, read out below the map

  const read = () => {
    const state = view.read();
    const { source, target, weights, values, settings } = state;
    const fits = (table) => table.length === target.length && table.every((row) => row.length === source.length);
    if (!source.length || values.length !== source.length || !fits(weights) || !fits(settings)) return null; // halfway
    const [width, inner] = state.widths;
    const numbers = (source.length + target.length + width + 3 + 2 * inner + state.words.length) * width + inner
      + state.words.length;
    if (state.words.length && state.decoder.byteLength !== 4 * numbers) return null; // halfway
    state.query = Math.min(state.query, target.length - 1);
    state.sources = disambiguate(source);
    state.targets = disambiguate(target);
    return state;
  };

  // Sets the sliders of the chosen row.
  const slide = (row) => {
    const { settings, query } = read();
    change(model, { settings: settings.map((one, i) => (i === query ? row : [...one])) });
  };

  const build = rebuilder(({ sources, targets, values, words }) => {
    hovered = null;
    const [rows, columns, width] = [targets.length, sources.length, values[0].length];
    const { number, vector } = writer(values);
    const digits = width <= 4 && columns <= 10; // whether there is room for the values in figures
    parts = { cells: [], ...writer(values) }; // `reach`: the entry whose column takes all the room there is

    parts.columns = sources.map((token) => h("span", { class: "al-column" }, tokenNode(token)));
    parts.picks = targets.map((_, i) => h("input", { type: "radio", name: id, value: i,
      "data-target": `target-${i}`, onchange: () => change(model, { query: i }) }));
    parts.rows = targets.map((token, i) => {
      parts.cells.push(sources.map((_, j) => h("span", { class: "al-cell aw-heat", "data-cell": `${i}-${j}`,
        onclick: () => change(model, { query: i }),
        onpointerenter: (event) => event.pointerType === "mouse" && hover([i, j]) })));
      return h("div", { class: "al-row" }, h("label", { class: "al-target" },
        parts.picks[i], h("span", { class: "al-moved", "aria-hidden": "true" }), tokenNode(token)), ...parts.cells[i]);
    });
    parts.read = h("p", { class: "al-read" });
    const map = h("div", { class: "al-side" },
      h("div", { class: "al-row al-columns" }, h("div", { class: "al-corner" },
        h("span", { class: "aw-of-b" }, "source: is read"), h("span", { class: "aw-of-a" }, "target: reads")),
      ...parts.columns),
      h("div", { class: "al-rows aw-numbers", role: "radiogroup", "aria-label": "Target token",
        onkeydown: (event) => stepRadios(event, parts.picks),
        onpointerleave: () => hover(null) }, ...parts.rows),
      h("div", { class: "al-foot" }, heatScale(), parts.read));

    parts.title = h("b", { class: "aw-of-a" });
    const rowButton = (name, text, title, row) => button(name, text, () => slide(row()), { title });
    const chosen = (table) => [...model.get(table)[read().query]];
    const buttons = h("div", { class: "al-buttons", role: "group", "aria-label": "Weights of this target token" },
      rowButton("reset", "Reset", "Back to the recorded weights", () => chosen("weights")),
      rowButton("hard", "Hard", "All the weight on the largest one", () => {
        const { largest } = compute(read());
        return chosen("settings").map((_, j) => (j === largest ? 1 : 0));
      }),
      rowButton("even", "Even", "The same weight on all", () => chosen("settings").map(() => 1 / columns)));
    parts.sliders = sources.map(({ name }, j) =>
      rangeInput(`slider-${j}`, `Weight on ${name}`, { min: 0, max: 1, step: 0.01 }, (value) => {
        pulled = true;
        slide(chosen("settings").map((old, k) => (k === j ? value : old)));
        pulled = false;
      }));
    parts.shares = sources.map((_, j) => h("span", { class: "al-share aw-numbers", "data-share": j }));
    parts.parcels = values.map((value) => value.map(() => h("i", { class: "al-solid" })));
    parts.lines = sources.map((token, j) => h("li", { class: "al-line" },
      h("span", { class: "al-name", title: token.name }, tokenNode(token)), parts.sliders[j], parts.shares[j],
      h("span", { class: "al-values aw-numbers", role: "img", "aria-label": `value ${vector(values[j])}` },
        ...values[j].map((x, c) => h("span", { class: "al-value", title: `entry ${c + 1}: ${number(x)}` },
          h("span", { class: "al-chart" }, stand(h("i", { class: "al-pale" }), x), parts.parcels[j][c]),
          !digits ? null : h("span", { class: "al-entry" }, number(x)))))));
    parts.total = h("p", { class: "al-total aw-numbers" });
    const panel = h("div", { class: "al-panel" },
      h("div", { class: "al-top" }, h("p", { class: "al-title" }, parts.title, " reads"), buttons),
      h("p", { class: "al-line al-names", "aria-hidden": "true" }, h("span"), h("span", {}, "slider"),
        h("span", {}, "share"), h("span", {}, "value")),
      h("ul", { class: "al-lines", style: `--width: ${width}` }, ...parts.lines),
      h("div", { class: "al-below" }, h("p", { class: "al-legend" }, h("i", { class: "al-pale" }), "value ",
        h("i", { class: "al-solid" }), "share × value"), parts.total));

    for (const name of ["recorded", "context", "change"])
      parts[name] = values[0].map((_, c) => h("td", { "data-value": `${name}-${c}` }));
    parts.bars = values[0].map(() => [h("i", { class: "al-was" }), h("i", { class: "al-now" })]);
    const entries = values[0].map((_, c) => c);
    const half = width > 5 ? Math.ceil(width / 2) : width; // two tables, so that a phone can show one below the other
    parts.said = h("b", { class: "al-said" });
    parts.before = h("span", { class: "al-before" });
    parts.speech = !words.length ? [] : range(CANDIDATES, () => {
      const bar = h("i");
      return { ...wordBar("al", bar), bar };
    });
    const speech = !words.length ? null : h("div", { class: "al-speech" },
      h("p", { class: "al-title" }, parts.before, " says ", parts.said),
      h("ul", {}, ...parts.speech.map(({ row }) => row)));
    const result = h("div", { class: "al-result" }, speech, h("div", {}, h("p", { class: "al-title" }, h("b", {}, "Context"), " = shares × values, added up. ",
        h("span", {}, "Each entry stays between the smallest and the largest value (pale band).")),
      h("div", { class: "al-tables", style: `--width: ${half}` },
        contextTable(entries.slice(0, half), values),
        ...(half < width ? [contextTable(entries.slice(half), values)] : []))));

    const held = root.contains(document.activeElement);
    const size = `${columns <= 7 ? "al-few" : "al-many"}${digits ? " al-numbers" : ""}`;
    root.classList.toggle("al-speaks", words.length > 0);
    root.replaceChildren(h("div", { class: `al-parts ${size}`, style:
      `--sources: ${columns}; --targets: ${rows}; --width: ${width}; --letters: ${lettersOf(sources)}` }, map, panel),
    result, summary);
    if (held && !root.contains(document.activeElement)) parts.picks[0].focus();
  });

  // The longest name, which the height over the columns follows.
  const lettersOf = (named) => Math.min(11, Math.max(...named.map(({ name }) => name.length)));

  // Some entries of the context: columns, with recorded and present one side by side, and the numbers.
  function contextTable(some, values) {
    const row = (name, text, swatch) => h("tr", { class: `al-${name}` },
      h("th", { scope: "row" }, swatch ? h("i", { class: swatch }) : null, text), ...some.map((c) => parts[name][c]));
    const chart = (c) => {
      const column = values.map((value) => value[c]);
      const place = (x) => 50 - (50 * x) / parts.reach;
      const band = h("i", { class: "al-band",
        style: `top: ${place(Math.max(...column))}%; bottom: ${100 - place(Math.min(...column))}%` });
      return h("td", {}, h("span", { class: "al-chart" }, band, ...parts.bars[c]));
    };
    return h("table", { class: "aw-plain al-table aw-numbers", style: `--entries: ${some.length}` },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "entry"),
        ...some.map((c) => h("th", { scope: "col" }, String(c + 1))))),
      h("tbody", {}, h("tr", { "aria-hidden": "true" }, h("td"), ...some.map(chart)),
        row("recorded", "recorded", "al-was"), row("context", "now", "al-now"), row("change", "change")));
  }

  function hover(place) {
    hovered = place;
    paint();
  }

  // Draws a column up from the middle of its chart, or down from it.
  function stand(node, x) {
    const size = (Math.min(1, Math.abs(x) / parts.reach) * 50).toFixed(2);
    Object.assign(node.style, { height: `${size}%`, top: x < 0 ? "50%" : `${50 - size}%` });
    return node;
  }

  // The parts that move: the map, the shares, what they take of the values, the context, and the words.
  let now = null;
  const motion = animate(({ shares, context, words }) => {
    const { values, query } = now;
    parts.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      heat(cell, shares[i][j]);
      cell.textContent = shares[i][j] >= 0.005 ? share(shares[i][j]) : "";
    }));
    shares[query].forEach((weight, j) => {
      parts.shares[j].textContent = share(weight);
      parts.parcels[j].forEach((parcel, c) => stand(parcel, weight * values[j][c]));
    });
    parts.bars.forEach(([, bar], c) => {
      stand(bar, context[c]);
      parts.context[c].textContent = parts.number(context[c]);
    });
    words.forEach((probability, w) => {
      parts.speech[w].bar.style.width = `${100 * probability}%`;
      parts.speech[w].number.textContent = share(probability);
    });
  });

  function paint() {
    const state = read();
    if (!state) return;
    const { sources, targets, values, settings, query } = state;
    const fresh = build([state.source, state.target, values, state.words], state);
    const result = compute(state);
    const { shares, totals, moved, recorded, context, difference } = result;

    parts.rows.forEach((row, i) => {
      parts.picks[i].checked = i === query;
      parts.picks[i].setAttribute("aria-label", targets[i].name + (moved[i] ? ", changed" : ""));
      parts.rows[i].firstChild.title = targets[i].name + (moved[i] ? ": weights changed" : "");
      row.classList.toggle("al-chosen", i === query);
      row.classList.toggle("al-changed", moved[i]);
    });
    parts.columns.forEach((column, j) => column.classList.toggle("al-chosen", j === hovered?.[1]));
    const [i, j] = hovered ?? [];
    parts.read.textContent = hovered ? `${targets[i].name} looks at ${sources[j].name}: ${spoken(shares[i][j])}` : "";

    parts.title.textContent = targets[query].name;
    parts.sliders.forEach((slider, j) => {
      slider.value = settings[query][j];
      const now = shares[query][j];
      slider.setAttribute("aria-valuetext", `${spoken(settings[query][j])}, share ${spoken(now)}`);
      parts.lines[j].classList.toggle("al-nothing", now === 0);
    });
    const total = totals[query];
    parts.total.classList.toggle("al-none", !(total > 0));
    parts.total.textContent = total > 0
      ? `Sliders add up to ${fmt(total)}; share = slider / ${fmt(total)}.`
      : "All sliders are at zero, so all shares are 0.";

    parts.bars.forEach(([was], c) => {
      stand(was, recorded[c]);
      parts.recorded[c].textContent = parts.number(recorded[c]);
      parts.change[c].textContent = parts.signed(difference[c]);
      parts.change[c].classList.toggle("al-differs", difference[c] !== 0);
    });
    const { said } = result;
    if (said) {
      parts.said.textContent = state.words[said.best];
      parts.said.classList.toggle("al-other", said.best !== said.recorded);
      parts.before.textContent = query ? `After “${targets[query - 1].name}” the decoder` : "First the decoder";
      parts.speech.forEach(({ row, word }, w) => {
        row.hidden = w >= said.shown.length;
        row.classList.toggle("al-best", said.shown[w] === said.best);
        word.textContent = state.words[said.shown[w]] ?? "";
      });
    }
    now = { values, query };
    motion.to({ shares, context, words: said ? said.shown.map((word) => said.says[word]) : [] },
      { jump: pulled || fresh });
    say(summaryOf(state, result));
  }
  return paint;
});
