// Sampling: logits to probabilities, what temperature, top-k and top-p leave of them, and draws from that.

const HOTTEST = 5;
const SHOWN = 12;
const LONG = 15; // letters of a token in a sentence
const ROW = 24; // pixels, as in the style sheet
const RECENT = 2; // draws that are written out
const MOST_DRAWS = 10000;
const MOST_SEED = 2 ** 32 - 1;
// Where the top-k slider stops, before it keeps all.
const STEPS = [...range(20, (i) => i + 1), 25, 30, 40, 50, 75, 100, 200, 500, 1000, 2000, 5000,
  10000, 20000, 50000, 100000];

// All numbers shown. Tokens are identified by their rank; the most likely is 0.
export function compute({ data, vocab_size, ...settings }) {
  return choose(readTable(data, "float32", 0, 1, vocab_size)[0], settings);
}

function choose(logits, { temperature = 1, top_k = null, top_p = 1, seed = 0, drawn = 0 }) {
  const n = logits.length;
  const before = temperature === 0
    ? logits.map((_, rank) => (rank === 0 ? 1 : 0))
    : softmax(logits.map((logit) => (logit - logits[0]) / temperature));
  const byTopK = temperature === 0 ? 1 : Math.min(top_k ?? n, n);
  const left = normalized(before.slice(0, byTopK));
  // A token stays while the sum of those before it is below top_p: so the one that crosses stays too.
  let [count, reached] = [0, 0];
  while (count < byTopK && (top_p >= 1 || reached < top_p)) reached += left[count++];
  const kept = normalized(left.slice(0, count)), ranks = draws(kept, seed, drawn);
  const tally = kept.map(() => 0);
  for (const rank of ranks) tally[rank] += 1;
  return {
    before, kept, count, byTopK,
    reached, // by the tokens that stay, out of those that top-k left
    massOfTopK: sum(before.slice(0, byTopK)),
    mass: sum(before.slice(0, count)),
    entropyBefore: entropy(before), entropy: entropy(kept),
    tally, last: ranks.at(-1) ?? null, recent: ranks.slice(-RECENT).reverse(),
  };
}

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
  return range(many, () => {
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

export default widget("sampling_explorer", "Sampling the next token",
  ["data", "vocab_size", "tokens", "continuations", "prompt", "temperature", "top_k", "top_p", "seed",
    "drawn"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const { temperature, top_k, top_p, seed } = read();
  const start = { temperature, top_k, top_p, seed };
  let [bytes, laid, logits, names] = [null, null, [], []];
  // Other settings are a different experiment: the tally starts from 0.
  const edit = (values) => view.edit({ drawn: 0, ...values });

  // The three settings, in their order.
  function step(number, label, { field, slider }) {
    return h("div", { class: "sa-step" },
      h("div", { class: "sa-head" }, h("span", {}, h("span", { class: "sa-order" }, `${number}. `), h("b", {}, label)),
        field), slider);
  }
  const hot = fieldAndSlider("temperature", "Temperature", (value) => edit({ temperature: value }),
    { field: { min: 0, max: HOTTEST, step: 0.1 }, slider: { min: 0, max: HOTTEST, step: 0.1 } });
  const stopsOf = (n) => STEPS.filter((k) => k < n);
  const cut = fieldAndSlider("top_k", "Top-k", (value) => edit({ top_k: value }), {
    field: { min: 1, step: 1, whole: true }, slider: { min: 0, step: 1 },
    from: (at) => stopsOf(logits.length)[at] ?? null,
    to: (k) => stopsOf(logits.length).filter((stop) => stop < k).length,
  });
  const nucleus = fieldAndSlider("top_p", "Top-p", (value) => edit({ top_p: value }),
    { field: { min: 0.001, max: 1, step: 0.01 }, slider: { min: 0.01, max: 1, step: 0.01 } });

  // The most likely tokens, a row for all others, and a line where each limit cuts.
  let rows = [];
  const body = h("tbody");
  const table = h("table", { class: "aw-plain sa-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "sa-left" }, "token"), h("td"),
      ["kept", "drawn"].map((text) => h("th", { scope: "col" }, text)))), body);
  const lines = Object.fromEntries(["top-k", "top-p"].map((name) =>
    [name, h("div", { class: `sa-line sa-${name}` }, h("span", { "data-value": `line-${name}` }))]));
  const left = h("p", { class: "sa-note aw-numbers", "data-value": "left" });

  // Draws.
  const more = (many) => edit({ drawn: Math.min(MOST_DRAWS, read().drawn + many) });
  const one = button("one", model.get("continuations").length ? "Write a sentence" : "Draw one", () => more(1));
  const hundred = button("hundred", "Draw 100", () => more(100));
  const clear = button("clear", "Clear", () => edit({}));
  const again = button("reset", "Start again", () => edit(start));
  const seedField = numberField("Seed", seed, (value) => edit({ seed: value }),
    { min: 0, max: MOST_SEED, step: 1, whole: true, "data-field": "seed" });
  const sentences = range(RECENT, (i) => h("p", { "data-value": `text-${i}` }));

  root.append(
    h("div", { class: "sa-steps" }, step(1, "Temperature", hot), step(2, "Top-k", cut), step(3, "Top-p", nucleus)),
    h("div", { class: "sa-list" }, table, Object.values(lines)), left,
    h("div", { class: "sa-tools" }, one, hundred, clear, h("label", {}, "seed", seedField), again),
    h("div", { class: "sa-text" }, sentences), summary);

  // A token beside its number: white space at its ends is left out, tokens that then look alike carry their rank.
  function nameOf(tokens, rank) {
    if (rank < names.length) return names[rank];
    const told = rank < tokens.length ? disambiguate([tokens[rank]])[0] : null;
    return told ?? { text: `rank ${grouped(rank + 1)}`, sub: "", name: `rank ${grouped(rank + 1)}` };
  }

  const quoted = (tokens, rank) => {
    const { name } = nameOf(tokens, rank);
    return `“${name.length > LONG ? `${name.slice(0, LONG)}…` : name}”`;
  };

  // The rows of this vocabulary, once; what is in them changes.
  function lay(tokens, n) {
    const shown = Math.min(n, SHOWN);
    rows = range(shown + (n > shown), (rank) => {
      const [pale, solid] = [h("i", { class: "sa-bar" }), h("i", { class: "sa-bar sa-solid" })];
      const [kept, drawn] = [h("td", { class: "aw-numbers" }), h("td", { class: "aw-numbers" })];
      const rest = rank === shown;
      const node = h("tr", {}, h("th", { scope: "row", title: rest ? null : tokens[rank] },
        rest ? h("span", { class: "sa-more" }, `${grouped(n - shown)} more`) : tokenNode(nameOf(tokens, rank))),
      h("td", { class: "sa-wide" }, rest ? null : h("span", { class: "sa-lane", "aria-hidden": "true" }, pale, solid)),
      kept, drawn);
      return { node, pale, solid, kept, drawn, rest };
    });
    body.replaceChildren(...rows.map((row) => row.node));
  }

  // Bars end where their share of the largest one does, and lines are as many rows down as tokens stay.
  const motion = animate(({ pale, solid, cuts }) => {
    rows.forEach((row, rank) => {
      if (row.rest) return;
      row.pale.style.transform = `scaleX(${pale[rank].toFixed(4)})`;
      row.solid.style.transform = `scaleX(${solid[rank].toFixed(4)})`;
    });
    for (const [name, line] of Object.entries(lines)) line.style.transform = `translateY(${(cuts[name] * ROW).toFixed(1)}px)`;
  });

  function paint(state, { before, kept, tally, byTopK, count, reached }) {
    const { top_p: p, temperature: divisor, drawn, tokens } = state;
    const n = before.length, shown = Math.min(n, SHOWN);
    rows.forEach(({ node, kept: share_, drawn: times, rest }, rank) => {
      const stays = rank < kept.length;
      const all = (list) => (rest ? sum(list.slice(shown)) : list[rank]);
      node.classList.toggle("sa-cut", !stays);
      share_.textContent = stays ? share(all(kept), 3) : "";
      times.textContent = stays && drawn ? grouped(all(tally)) : "";
    });
    const show = (name, at, words) => {
      lines[name].classList.toggle("sa-off", at >= n || at > shown);
      lines[name].firstChild.textContent = words;
    };
    show("top-k", divisor === 0 ? n : byTopK, `top-k ${grouped(byTopK)}`);
    show("top-p", divisor === 0 || p >= 1 || count === byTopK && reached < p ? n : count,
      `top-p ${plain(p)}: with ${quoted(tokens, count - 1)} the sum is ${share(reached, 3)}`);
    const scaled = (list) => range(shown, (rank) => (list[rank] ?? 0) / kept[0]);
    motion.to({ pale: scaled(before), solid: scaled(kept),
      cuts: { "top-k": Math.min(byTopK, shown), "top-p": Math.min(count, shown) } });
  }

  // A token that brings its own space follows the prompt as it is.
  function written({ prompt, tokens, continuations }, rank) {
    const space = !prompt || tokens.some((token) => /^\s/.test(token)) ? "" : " ";
    return [prompt + space, h("mark", {}, tokens[rank] ?? `[${nameOf(tokens, rank).name}]`), continuations[rank] ?? ""];
  }

  function draw() {
    const state = read();
    const { data, tokens, prompt, drawn } = state;
    const n = state.vocab_size;
    if (data.byteLength !== 4 * n) return; // halfway through a change from Python
    names = disambiguate(tokens.slice(0, SHOWN));
    if (bytes !== data || laid !== tokens) {
      [bytes, laid] = [data, tokens];
      logits = readTable(data, "float32", 0, 1, n)[0];
      lay(tokens, n);
    }
    const numbers = choose(logits, state);
    const { before, kept, count, mass, tally, last, recent } = numbers;

    hot.show(state.temperature);
    const k = Math.min(state.top_k ?? n, n);
    cut.field.most = n;
    cut.slider.max = stopsOf(n).length;
    cut.show(k, k >= n ? `all ${grouped(n)}` : grouped(k));
    nucleus.show(state.top_p, state.top_p >= 1 ? "1, all" : plain(state.top_p));
    setNumber(seedField, state.seed);
    paint(state, numbers);
    left.textContent = `${grouped(count)} of ${grouped(n)} tokens left, ${count === n ? "all" : share(mass, 3)} of the probability, `
      + `as unsure as ${Math.exp(numbers.entropy).toFixed(1)} equal choices`;

    sentences.forEach((line, i) => line.replaceChildren(
      ...(i < recent.length ? written(state, recent[i]) : i ? [] : [`${prompt} `, h("mark", {}, "…")])));
    one.disabled = hundred.disabled = drawn >= MOST_DRAWS;
    clear.disabled = drawn === 0;
    const remaining = count === n ? `All ${grouped(n)} tokens are left.`
      : `${plural(count, "token")} of ${grouped(n)} left, with ${share(mass, 3)} of the probability.`;
    say(`${remaining} ${quoted(tokens, 0)} has `
      + `${share(kept[0], 3)}, before the cuts ${share(before[0], 3)}. Entropy ${numbers.entropy.toFixed(2)} nats, as much as `
      + `${Math.exp(numbers.entropy).toFixed(1)} equal choices. ` + (drawn === 0 ? "No draw yet."
        : `Draw ${grouped(drawn)}: ${quoted(tokens, last)}, drawn ${grouped(tally[last])} of ${plural(drawn, "time")}.`));
  }
  return draw;
});
