// Sampling: logits to probabilities, what temperature, top-k and top-p leave of them, and draws from that.

const TRAITS = ["data", "vocab_size", "tokens", "prompt", "temperature", "top_k", "top_p", "seed", "drawn"];
const HOTTEST = 5;
const SHOWN = 12;
const LONG = 15; // letters of a token in a sentence
const MOST_DRAWS = 10000;
const MOST_SEED = 2 ** 32 - 1;
// Where the top-k slider stops, before it keeps all.
const STEPS = [...Array.from({ length: 20 }, (_, i) => i + 1), 25, 30, 40, 50, 75, 100, 200, 500, 1000, 2000, 5000,
  10000, 20000, 50000, 100000];

// All numbers shown. Tokens are identified by their rank; the most likely is 0.
export function compute({ data, vocab_size, ...settings }) {
  return choose(readTable(data, "float32", 0, 1, vocab_size)[0], settings);
}

function choose(logits, { temperature = 1, top_k = null, top_p = 1, seed = 0, drawn = 0 }) {
  const n = logits.length;
  const before = temperature === 0
    ? logits.map((_, rank) => (rank === 0 ? 1 : 0))
    : normalized(logits.map((logit) => Math.exp((logit - logits[0]) / temperature)));
  const byTopK = temperature === 0 ? 1 : Math.min(top_k ?? n, n);
  const left = normalized(before.slice(0, byTopK));
  // A token stays while the sum of those before it is below top_p: so the one that crosses stays too.
  let [count, reached] = [0, 0];
  while (count < byTopK && (top_p >= 1 || reached < top_p)) reached += left[count++];
  const kept = normalized(left.slice(0, count));
  const ranks = draws(kept, seed, drawn);
  const tally = kept.map(() => 0);
  for (const rank of ranks) tally[rank] += 1;
  return {
    before, kept, count, byTopK,
    reached, // by the tokens that stay, out of those that top-k left
    massOfTopK: sum(before.slice(0, byTopK)),
    mass: sum(before.slice(0, count)),
    entropyBefore: entropy(before), entropy: entropy(kept),
    tally, last: ranks.at(-1) ?? null,
  };
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
const entropy = (shares) => -sum(shares.map((p) => (p > 0 ? p * Math.log(p) : 0))) + 0; // in nats

function normalized(numbers) {
  const total = sum(numbers);
  return numbers.map((x) => x / total);
}

// The first `many` draws of this seed: each takes the next number u from 0 to 1 and the token whose part contains u.
function draws(shares, seed, many) {
  const ends = [];
  shares.forEach((p, rank) => ends.push((ends[rank - 1] ?? 0) + p));
  const next = uniform(seed);
  return Array.from({ length: many }, () => {
    const u = next();
    let [low, high] = [0, shares.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > u) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}

// Mulberry32 (Tommy Ettinger, public domain): a small generator with 32 bits of state.
function uniform(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

const NUMBERS = new Intl.NumberFormat("en");
const whole = (n) => NUMBERS.format(n);
const several = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const { root, summary, say } = frame(el, "sampling_explorer", "Sampling the next token", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const { temperature, top_k, top_p, seed } = read();
  const start = { temperature, top_k, top_p, seed };
  let [bytes, logits, names] = [null, [], []];
  // Other settings are a different experiment: the tally starts from 0.
  const edit = (values) => {
    change(model, { drawn: 0, ...values });
    draw();
  };

  // A field for whole numbers, with `set` to show one.
  function wholeField(label, name, take) {
    let [least, most, value] = [0, 0, 0];
    const good = (number) => number !== null && Number.isInteger(number) && number >= least && number <= most;
    const field = h("input", { type: "text", inputmode: "numeric", class: "aw-number", "aria-label": label,
      "data-field": name,
      oninput: () => {
        const number = readNumber(field.value);
        field.setAttribute("aria-invalid", String(!good(number)));
        if (good(number)) take(number);
      },
      onchange: () => set(least, most, value),
      onkeydown: (event) => {
        const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (!direction) return;
        event.preventDefault();
        take(Math.max(least, Math.min(most, value + direction * (event.shiftKey ? 10 : 1))));
      } });
    const set = (from, to, now) => {
      [least, most, value] = [from, to, now];
      field.setAttribute("aria-invalid", "false");
      if (document.activeElement !== field || readNumber(field.value) !== now) field.value = String(now);
    };
    return { field, set };
  }

  // The three steps, in their order.
  function step(number, label, field, slider) {
    const note = h("p", { class: "sa-note aw-numbers", "data-value": `${slider.dataset.slider}-note` });
    const block = h("div", { class: "sa-step" },
      h("div", { class: "sa-head" }, h("span", {}, h("span", { class: "sa-order" }, `${number}. `), h("b", {}, label)),
        field), slider, note);
    return { block, note };
  }
  const range = (name, label, limits, take) => h("input", { type: "range", ...limits,
    "aria-label": `${label}, slider`, "data-slider": name, oninput: (event) => take(Number(event.target.value)) });
  const hotField = numberField("Temperature", temperature, (value) => edit({ temperature: value }),
    { min: 0, max: HOTTEST, step: 0.1, "data-field": "temperature" });
  const hotSlider = range("temperature", "Temperature", { min: 0, max: HOTTEST, step: 0.1 },
    (value) => edit({ temperature: value }));
  const hot = step(1, "Temperature", hotField, hotSlider);
  const kField = wholeField("Top-k", "top_k", (value) => edit({ top_k: value }));
  const stopsOf = (n) => STEPS.filter((k) => k < n);
  const kSlider = range("top_k", "Top-k", { min: 0, step: 1 },
    (at) => edit({ top_k: stopsOf(logits.length)[at] ?? null }));
  const cutK = step(2, "Top-k", kField.field, kSlider);
  const pField = numberField("Top-p", top_p, (value) => edit({ top_p: value }),
    { min: 0.001, max: 1, step: 0.01, "data-field": "top_p" });
  const pSlider = range("top_p", "Top-p", { min: 0.01, max: 1, step: 0.01 }, (value) => edit({ top_p: value }));
  const cutP = step(3, "Top-p", pField, pSlider);

  // The most likely tokens, and one row for all others.
  const body = h("tbody");
  const table = h("table", { class: "aw-plain sa-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "sa-left" }, "token"), h("td"),
      ["softmax", "kept", "drawn"].map((text) => h("th", { scope: "col" }, text)))), body);
  const legend = h("p", { class: "sa-legend", "aria-hidden": "true" },
    h("span", {}, h("i", { class: "sa-swatch" }), "softmax at this temperature"),
    h("span", {}, h("i", { class: "sa-swatch sa-solid" }), "kept, adding up to 1"),
    h("span", {}, h("i", { class: "sa-swatch sa-mark" }), "share of the draws"));

  // What is left, in numbers.
  const cell = (name) => h("td", { class: "aw-numbers", "data-value": name });
  const columns = ["before", "after"];
  const facts = Object.fromEntries(["tokens", "mass", "nats", "bits", "choices"].map((name) =>
    [name, columns.map((column) => cell(`${name}-${column}`))]));
  const numbersTable = h("table", { class: "aw-plain sa-facts" },
    h("thead", {}, h("tr", {}, h("td"), ["softmax", "kept"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, [["tokens", "tokens"], ["probability", "mass"], ["entropy, nats", "nats"], ["entropy, bits", "bits"],
      ["effective choices", "choices"]].map(([text, name]) =>
      h("tr", {}, h("th", { scope: "row" }, text), facts[name]))));

  // Draws.
  const button = (name, text, onclick) => h("button", { type: "button", "data-go": name, onclick }, text);
  const more = (many) => edit({ drawn: Math.min(MOST_DRAWS, read().drawn + many) });
  const [one, hundred] = [button("one", "Draw one", () => more(1)), button("hundred", "Draw 100", () => more(100))];
  const clear = button("clear", "Clear", () => edit({}));
  const again = button("reset", "Start again", () => edit(start));
  const seedField = wholeField("Seed", "seed", (value) => edit({ seed: value }));
  const text = h("p", { class: "sa-text", "data-value": "text" });
  const count = h("p", { class: "sa-note aw-numbers", "data-value": "count" });

  root.append(
    h("div", { class: "sa-steps" }, hot.block, cutK.block, cutP.block),
    table, legend,
    h("div", { class: "sa-parts" },
      h("div", {}, h("p", { class: "sa-title" }, "Draw the next token"), text,
        h("div", { class: "sa-tools" }, one, hundred, clear), count,
        h("div", { class: "sa-tools" }, h("label", {}, h("b", {}, "Seed"), seedField.field), again)),
      h("div", {}, h("p", { class: "sa-title" }, "What is left"), numbersTable)),
    summary);

  // A token beside its number: white space at its ends is left out, tokens that then look alike carry their rank.
  function nameOf(tokens, rank) {
    if (rank < names.length) return names[rank];
    const told = rank < tokens.length ? tellApart([tokens[rank]])[0] : null;
    return told ?? { text: `rank ${whole(rank + 1)}`, sub: "", name: `rank ${whole(rank + 1)}` };
  }

  function rowOf(name, { before, kept, drawn, cut, title }) {
    const bar = (kind, part) => h("i", { class: kind, style: `width: ${(100 * part).toFixed(3)}%` });
    const lane = h("span", { class: "sa-lane", "aria-hidden": "true" }, bar("sa-bar", before),
      kept === null ? null : bar("sa-bar sa-solid", kept),
      drawn === null ? null : h("i", { class: "sa-mark", style: `left: ${(100 * drawn.share).toFixed(3)}%` }));
    return h("tr", { class: kept === null ? "sa-cut" : null },
      h("th", { scope: "row", title }, name), h("td", { class: "sa-wide" }, lane),
      [share(before, 3), kept === null ? cut : share(kept, 3), drawn === null ? "" : whole(drawn.times)].map((shown) =>
        h("td", { class: "aw-numbers" }, shown)));
  }

  function paintTable({ tokens, temperature: divisor, drawn }, { before, kept, tally, byTopK }) {
    const n = before.length;
    const rows = Math.min(n, SHOWN);
    const times = (of) => (drawn === 0 ? null : { times: of, share: of / drawn });
    const reason = (rank) => (divisor === 0 ? "greedy" : rank >= byTopK ? "top-k" : "top-p");
    body.replaceChildren(...Array.from({ length: rows }, (_, rank) => {
      const stays = rank < kept.length;
      return rowOf(tokenNode(nameOf(tokens, rank)), { before: before[rank], kept: stays ? kept[rank] : null,
        drawn: stays ? times(tally[rank]) : null, cut: reason(rank), title: tokens[rank] });
    }));
    if (n === rows) return;
    const stays = kept.length > rows;
    body.append(rowOf(h("span", { class: "sa-more" }, `${whole(n - rows)} more`), { before: sum(before.slice(rows)),
      kept: stays ? sum(kept.slice(rows)) : null, drawn: stays ? times(sum(tally.slice(rows))) : null,
      cut: reason(rows), title: stays ? `${whole(kept.length - rows)} of them kept` : null }));
  }

  const quoted = (tokens, rank) => {
    const { name } = nameOf(tokens, rank);
    return `“${name.length > LONG ? `${name.slice(0, LONG)}…` : name}”`;
  };

  function notes({ tokens, temperature: divisor, top_k: k, top_p: p }, { count: left, byTopK, massOfTopK, reached }) {
    const n = logits.length;
    hot.note.textContent = divisor === 0 ? "Greedy: the most likely token takes all."
      : divisor === 1 ? "Logits as they are." : `Gaps between logits × ${plain(1 / divisor)}.`;
    cutK.note.textContent = divisor === 0 ? "One token is left already."
      : byTopK === n ? `Off: all ${whole(n)} are kept.`
      : `The first ${byTopK === 1 ? "one is" : `${whole(byTopK)} are`} kept, with ${share(massOfTopK, 3)} of the probability.`;
    cutP.note.textContent = divisor === 0 ? "One token is left already."
      : p >= 1 ? `Off: all ${whole(byTopK)} stay.`
      : `${quoted(tokens, left - 1)} stays: with it the sum is ${share(reached, 3)}, and ${plain(p)} is reached.`;
  }

  function draw() {
    const state = read();
    const { data, tokens, prompt, drawn } = state;
    const n = state.vocab_size;
    if (data.byteLength !== 4 * n) return; // halfway through a change from Python
    if (bytes !== data) {
      bytes = data;
      logits = readTable(data, "float32", 0, 1, n)[0];
    }
    names = tellApart(tokens.slice(0, SHOWN));
    const numbers = choose(logits, state);
    const { before, kept, count: left, mass, tally, last } = numbers;
    const [entropyBefore, entropyNow] = [numbers.entropyBefore, numbers.entropy];

    setNumber(hotField, state.temperature);
    hotSlider.value = state.temperature;
    hotSlider.setAttribute("aria-valuetext", plain(state.temperature));
    const [stops, k] = [stopsOf(n), Math.min(state.top_k ?? n, n)];
    kField.set(1, n, k);
    kSlider.max = stops.length;
    const at = stops.findIndex((stop) => stop >= k);
    kSlider.value = at < 0 || k >= n ? stops.length : at;
    kSlider.setAttribute("aria-valuetext", k >= n ? `all ${whole(n)}` : whole(k));
    setNumber(pField, state.top_p);
    pSlider.value = state.top_p;
    pSlider.setAttribute("aria-valuetext", state.top_p >= 1 ? "1, all" : plain(state.top_p));
    seedField.set(0, MOST_SEED, state.seed);
    notes(state, numbers);
    paintTable(state, numbers);

    const show = (name, ...values) => values.forEach((value, i) => (facts[name][i].textContent = value));
    show("tokens", whole(n), whole(left));
    show("mass", "1", left === n ? "1" : share(mass, 3));
    show("nats", entropyBefore.toFixed(3), entropyNow.toFixed(3));
    show("bits", (entropyBefore / Math.LN2).toFixed(3), (entropyNow / Math.LN2).toFixed(3));
    show("choices", Math.exp(entropyBefore).toFixed(2), Math.exp(entropyNow).toFixed(2));

    // A token that brings its own space follows the prompt as it is.
    const space = !prompt || tokens.some((token) => /^\s/.test(token)) ? "" : " ";
    const next = last === null ? "…" : tokens[last] ?? `[${nameOf(tokens, last).name}]`;
    text.replaceChildren(prompt + (last === null ? " " : space), h("mark", {}, next));
    one.disabled = hundred.disabled = drawn >= MOST_DRAWS;
    clear.disabled = drawn === 0;
    count.textContent = drawn === 0 ? `No draw yet from seed ${state.seed}.`
      : `${several(drawn, "draw")} from seed ${state.seed}: `
        + `${several(tally.filter((times) => times > 0).length, "token")} of ${whole(left)} seen.`;
    const remaining = left === n ? `All ${whole(n)} tokens are left.`
      : `${several(left, "token")} of ${whole(n)} left, with ${share(mass, 3)} of the probability.`;
    say(`${remaining} ${quoted(tokens, 0)} has `
      + `${share(kept[0], 3)}, before the cuts ${share(before[0], 3)}. Entropy ${entropyNow.toFixed(2)} nats, as much as `
      + `${Math.exp(entropyNow).toFixed(1)} equal choices. ` + (drawn === 0 ? "No draw yet."
        : `Draw ${whole(drawn)}: ${quoted(tokens, last)}, drawn ${whole(tally[last])} of ${several(drawn, "time")}.`));
  }

  draw();
  const stop = listen(model, TRAITS, draw);
  return () => {
    stop();
    el.replaceChildren();
  };
}

export default { render };
