// The course in one picture: "the cat sat" as bars of four numbers, at the same place and in the same colors in every
// chapter. Queries are left of a 3 x 3 map, keys above it, values below it, outputs right of it.
// `compute` holds the numbers of a stage, `SCENES` say where everything is at a moment, 0 to 1, and `artist` draws it.

// Chapter -> its name, its sentence, and how many seconds its motion takes there.
const CHAPTERS = {
  dot_products: ["Dot products", "A query meets a key: four products, and their sum is the score.", 7],
  softmax: ["Softmax", "Each row of scores bends into weights, which share one unit.", 6],
  attention: ["Attention", "Each output stacks up a share of every value, by its weights.", 7],
  masks: ["Masks", "The mask drops on the future. The weights that are left share the unit anew.", 5],
  pytorch: ["PyTorch", "A gradient nudges the key of “cat”, so that “sat” reads more of it.", 6],
  next_token: ["The next token", "Each row guesses the token that follows, and the loss is the mean cost.", 7],
  multi_head: ["Multi-head attention", "Four numbers split into two heads with a map each, and merge again.", 7],
  cross_attention: ["Cross-attention", "Queries come from one text, keys and values from another.", 6],
  positions: ["Positions", "Shuffled words keep their outputs, until each position adds a vector.", 10],
  rope: ["RoPE", "Pairs turn with their position. Move the whole text, and the map stays.", 8],
  kv_cache: ["KV caching", "The keys and values of the past stay. A new token computes one row.", 8],
  transformer_block: ["The transformer block", "The stream goes on: attention adds to it, then a network does.", 8],
  language_model: ["A language model", "The last output names the next token, which becomes a row. So it goes on.", 10],
  efficient_attention: ["Efficient attention", "The map is made tile by tile and never exists as a whole.", 8],
  steady_attention: ["Steady attention", "A sink takes weight that no key deserves. It has no value, so outputs shrink.", 7],
  long_context: ["Long context", "Each token keeps two numbers. All keys and values are made from them.", 7],
  mixture_of_experts: ["Experts", "A router scores three experts, and each token goes to two of them.", 7],
  delta_rule: ["The delta rule", "Each token writes only what is missing from what its key recalls.", 7],
};
const STEMS = Object.keys(CHAPTERS);
const MORPH = 600, STOP = 3400, HOLD = 600; // milliseconds: from stage to stage, and at a stop of the tour

// Numbers

const X = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]];
const TABLE = [...X, [0, 0, 1, 1], [0, 1, 1, 0]];
const VOCABULARY = ["the", "cat", "sat", "on", "mat"];
const SAID = [0, 1, 2, 3, 0, 4]; // the cat sat on the mat
const LAST_ROWS = [[0, -1, 1, 2], [1, 0, 2, -1], [-1, 1, 2, 0]]; // what the blocks give for its last token, each time
const FOREIGN = [[2, 0, 1, 0], [0, 1, 0, 2]]; // le chat
const SHUFFLED = [1, 2, 0]; // where each word goes: sat the cat
const LATER = 7; // how far the text is moved along
const RATE = 1;
const SINK = 1; // the score of the sink, in every row
const ROUTER = [[2, 0, 0, 0], [0, 1, 0, 2], [1, 2, 0, 0]];
const EXPERTS = [(x) => x, (x) => [...x].reverse(), (x) => times(x, 2)]; // what three experts make of a token
const TILES = [[[0, 1], [0, 1]], [[0, 1], [2]], [[2], [0, 1]], [[2], [2]]]; // queries, keys

const plus = (a, b) => a.map((x, c) => x + b[c]);
const times = (a, x) => a.map((y) => x * y);

function attend(Q, K, V, { scale = Math.sqrt(Q[0].length), causal = false } = {}) {
  const scores = Q.map((q) => K.map((k) => dot(q, k) / scale));
  const powers = scores.map((row, i) => row.map((x, j) => (causal && j > i ? 0 : Math.exp(x))));
  const weights = powers.map((row) => times(row, 1 / sum(row)));
  const outputs = weights.map((row) => V[0].map((_, c) => dot(row, V.map((v) => v[c]))));
  return { scores, powers, weights, outputs };
}

const position = (p) => [Math.sin(p), Math.cos(p), Math.sin(p / 100), Math.cos(p / 100)];

// A row whose two pairs are turned by the angles of position p.
const turn = (x, p) => [p, p / 100].flatMap((angle, pair) => {
  const [a, b, cos, sin] = [x[2 * pair], x[2 * pair + 1], Math.cos(angle), Math.sin(angle)];
  return [a * cos - b * sin, a * sin + b * cos];
});

// Attention over the three tokens at positions start, start + step, start + 2 step.
function turned(start, step = 1) {
  const tokens = X.map((x, i) => turn(x, start + i * step));
  return { tokens, ...attend(tokens, tokens, X) };
}

function placed(slots) {
  const tokens = X.map((x, i) => plus(x, position(slots[i])));
  return { tokens, ...attend(tokens, tokens, tokens) };
}

const NUMBERS = {
  dot_products: () => ({ ...attend(X, X, X, { scale: 1 }), products: X[2].map((x, c) => x * X[0][c]) }),
  softmax: () => attend(X, X, X, { scale: 1 }),
  attention: () => attend(X, X, X),
  pytorch() { // the loss is -log of the weight that sat gives to cat, its gradient that of the key of cat
    const steps = [{ key: X[1] }];
    for (const step of steps) {
      Object.assign(step, attend(X, [X[0], step.key, X[2]], X));
      const weight = step.weights[2][1];
      step.loss = -Math.log(weight);
      step.gradient = times(X[2], (weight - 1) / 2);
      if (steps.length < 3) steps.push({ key: plus(step.key, times(step.gradient, -RATE)) });
    }
    return { steps };
  },
  masks: () => ({ before: attend(X, X, X), ...attend(X, X, X, { causal: true }) }),
  next_token() { // each output meets the three tokens, and a softmax gives their probabilities
    const { weights, outputs } = attend(X, X, X, { causal: true });
    const powers = outputs.map((row) => X.map((x) => Math.exp(dot(row, x))));
    const probabilities = powers.map((row) => times(row, 1 / sum(row)));
    const losses = [0, 1].map((i) => -Math.log(probabilities[i][i + 1]));
    return { weights, outputs, probabilities, losses, loss: sum(losses) / 2 };
  },
  multi_head() {
    const heads = [0, 2].map((c) => X.map((x) => x.slice(c, c + 2))).map((part) => attend(part, part, part));
    return { before: attend(X, X, X), heads, outputs: X.map((_, i) => heads.flatMap((head) => head.outputs[i])) };
  },
  cross_attention: () => attend(FOREIGN, X, X),
  positions: () => ({ without: attend(X, X, X), ordered: placed([0, 1, 2]), shuffled: placed(SHUFFLED) }),
  rope: () => ({ first: turned(0), later: turned(LATER) }),
  kv_cache: () => attend(X, X, X, { causal: true }),
  transformer_block() {
    const { weights, outputs } = attend(X, X, X);
    const between = X.map((x, i) => plus(x, outputs[i]));
    const forward = between.map((row) => row.map((x) => Math.max(0, x - 1)));
    return { weights, outputs, between, forward, after: between.map((row, i) => plus(row, forward[i])) };
  },
  language_model() {
    const windows = [0, 1, 2, 3].map((first) => SAID.slice(first, first + 3).map((id) => TABLE[id]));
    const rounds = LAST_ROWS.map((row) => {
      const normed = times(row, 1 / Math.sqrt(dot(row, row) / 4 + 1e-5));
      const logits = TABLE.map((word) => dot(word, normed));
      const powers = logits.map(Math.exp);
      return { normed, logits, probabilities: times(powers, 1 / sum(powers)), next: argmax(logits) };
    });
    return { rounds, weights: windows.map((rows) => attend(rows, rows, rows, { causal: true }).weights) };
  },
  efficient_attention() { // the running average of each row after each tile
    const { scores, outputs } = attend(X, X, X);
    const rows = X.map(() => ({ maximum: -Infinity, sum: 0, output: [0, 0, 0, 0] }));
    const steps = TILES.map(([queries, keys]) => {
      for (const i of queries) {
        const maximum = Math.max(rows[i].maximum, ...keys.map((j) => scores[i][j]));
        const old = Math.exp(rows[i].maximum - maximum);
        const powers = keys.map((j) => Math.exp(scores[i][j] - maximum));
        const output = X[0].map((_, c) => rows[i].output[c] * old + dot(powers, keys.map((j) => X[j][c])));
        rows[i] = { maximum, sum: rows[i].sum * old + sum(powers), output };
      }
      return rows.map(({ sum, output }) => times(output, 1 / (sum || 1)));
    });
    return { scores, outputs, steps };
  },
  steady_attention() { // one more score in each row, with no value
    const before = attend(X, X, X), extra = Math.exp(SINK);
    const left = before.powers.map((row) => sum(row) / (sum(row) + extra));
    return { before, sink: left.map((part) => 1 - part), weights: before.weights.map((row, i) => times(row, left[i])),
      outputs: before.outputs.map((row, i) => times(row, left[i])) };
  },
  long_context() { // two numbers per token, from which its key and its value are made
    const latents = X.map((x) => [(x[0] + x[2]) / 2, (x[1] + x[3]) / 2]);
    const made = latents.map(([a, b]) => [a, b, a, b]);
    return { before: attend(X, X, X), latents, made, ...attend(X, made, made) };
  },
  mixture_of_experts() { // each token goes to the two experts with the largest logits
    const logits = X.map((x) => ROUTER.map((row) => dot(x, row)));
    const skipped = logits.map((row) => row.indexOf(Math.min(...row)));
    const powers = logits.map((row, i) => row.map((y, e) => (e === skipped[i] ? 0 : Math.exp(y))));
    const weights = powers.map((row) => times(row, 1 / sum(row)));
    const outputs = X.map((x, i) => {
      const made = EXPERTS.map((expert) => expert(x));
      return x.map((_, c) => dot(weights[i], made.map((row) => row[c])));
    });
    return { logits, skipped, weights, outputs };
  },
  delta_rule() { // keys of length 1; each token writes its value without what the earlier ones left for its key
    const keys = X.map((x) => times(x, 1 / Math.sqrt(dot(x, x))));
    const overlaps = keys.map((key, i) => keys.map((other, j) => (j < i ? dot(key, other) : 0)));
    const recalled = [], written = [];
    X.forEach((x, i) => {
      recalled.push(x.map((_, c) => sum(written.map((row, j) => overlaps[i][j] * row[c]))));
      written.push(plus(x, times(recalled[i], -1)));
    });
    return { keys, overlaps, recalled, outputs: written };
  },
};

// The numbers of a stage.
export function compute({ stage }) {
  return NUMBERS[stage]();
}

const KNOWN = Object.fromEntries(STEMS.map((stem) => [stem, compute({ stage: stem })]));

// Descriptions of the stages, for readers who do not see them.
const TOLD = {
  dot_products: (n) => `Query sat and key the have the products ${n.products.join(", ")}, so their score is ${
    n.scores[2][0]}. The map fills with nine scores.`,
  softmax: (n) => `The scores of sat, ${n.scores[2].join(", ")}, become weights, ${inWords(n.weights[2])}: together 1.`,
  attention: (n) => `The values, times the weights ${inWords(n.weights[2])}, add up to the output of sat: ${
    inWords(n.outputs[2])}.`,
  pytorch: ({ steps }) => `Two steps against the gradient lower the loss from ${fmt(steps[0].loss)} to ${
    fmt(steps[2].loss)}: sat now gives cat the weight ${fmt(steps[2].weights[2][1])}.`,
  masks: (n) => `The three cells above the diagonal are masked. Row cat now has the weights ${inWords(n.weights[1])}.`,
  next_token: (n) => `After the, cat has the probability ${fmt(n.probabilities[0][1])}; after the cat, sat has ${
    fmt(n.probabilities[1][2])}. The loss is ${fmt(n.loss)}.`,
  multi_head: ({ heads }) => `Two maps. Row sat has the weights ${
    inWords(heads[0].weights[2])} in head 1 and ${inWords(heads[1].weights[2])} in head 2.`,
  cross_attention: (n) => `Two queries, le and chat, meet the keys of the, cat and sat. Chat has the weights ${
    inWords(n.weights[1])}.`,
  positions: (n) => `With positions, the output of sat is ${inWords(n.ordered.outputs[2])} at the end and ${
    inWords(n.shuffled.outputs[2])} at the beginning; without them it is the same.`,
  rope: (n) => `Each pair of queries and keys turned by its position. Row sat has the weights ${
    inWords(n.first.weights[2])} at positions 0 to 2 and 7 to 9 alike.`,
  kv_cache: () => "The keys and values of the and cat are kept. Only row sat is computed.",
  transformer_block: (n) => `For sat the stream is ${inWords(X[2])}, after attention ${
    inWords(n.between[2])}, after the feed-forward network ${inWords(n.after[2])}.`,
  language_model: ({ rounds }) => `After the cat sat come ${rounds.map(({ next }) => VOCABULARY[next]).join(", ")
    }, each chosen by the largest of five probabilities.`,
  efficient_attention: (n) => `Four tiles, one after the other. In the end the output of sat is ${
    inWords(n.steps[3][2])}, as without tiles.`,
  steady_attention: (n) => `With a sink of score ${SINK}, row sat has the weights ${inWords(n.weights[2])}, together ${
    fmt(1 - n.sink[2])}. The sink has the other ${fmt(n.sink[2])} and no value.`,
  long_context: (n) => `Of sat, ${inWords(n.latents[2])} are kept. With the keys made from such pairs, row sat has the weights ${
    inWords(n.weights[2])}.`,
  mixture_of_experts: (n) => `Sat has the logits ${n.logits[2].join(", ")}. It skips expert ${
    n.skipped[2] + 1}; the weights are ${inWords(n.weights[2])}.`,
  delta_rule: (n) => `For the key of sat, half of each earlier value is recalled, together ${
    n.recalled[2].map((x) => plain(x)).join(", ")}. So sat writes ${n.outputs[2].map((x) => plain(x)).join(", ")}.`,
};

function inWords(row) {
  return row.map((x) => spoken(x)).join(", ");
}

// Places

const LEFT = 44, RIGHT = 304, ABOVE = 47, BELOW = 206, UNIT = 14; // UNIT: pixels per 1 of a bar
const STEP = [0, 13, 26, 39], NONE = [0, 0, 0, 0];
const across = (j) => 108 + 62 * j, down = (i) => 56 + 38 * i;
const foot = (i) => down(i) + 30, line = (i) => down(i) + 22, over = (j) => across(j) + 3.5;
const THREE = [0, 1, 2], PAIRS = [[0, 1], [0, 2], [1, 2]];

// Everything that is ever drawn, at home and invisible, in the order in which it is drawn.
function blank() {
  const bars = (x, y, n = NONE) => ({ x, y, n, up: NONE, xs: STEP, w: 10, o: 0 });
  const text = (x, y, words) => ({ x, y, text: words, o: 0 });
  const box = () => ({ x: across(0), y: down(0), w: 56, h: 34, o: 0 });
  const map = (x) => THREE.map((i) => THREE.map((j) =>
    ({ x: across(j) + x, y: down(i), w: 56, n: 0, digits: 2, hot: 0, level: 0, said: 1, o: 0 })));
  return {
    band: range(2, box),
    half: map(29),
    cell: map(0),
    unit: range(3, (j) => ({ ...box(), x: across(j), y: down(2), weight: 0 })),
    frame: range(3, box),
    ring: [box()],
    token: range(6, (i) => bars(LEFT, foot(Math.min(i, 2)), TABLE[SAID[i]])),
    place: range(3, (i) => bars(LEFT, foot(i))),
    query: range(3, (i) => bars(LEFT, foot(i), X[i])),
    key: range(3, (j) => bars(over(j), ABOVE, X[j])),
    value: range(3, (j) => bars(over(j), BELOW, X[j])),
    output: range(3, (i) => bars(RIGHT, foot(i))),
    stream: range(3, (i) => bars(LEFT, foot(i), X[i])),
    flow: range(9, (at) => bars(over(at % 3), BELOW, X[at % 3])),
    more: range(3, (i) => bars(390, foot(i))),
    copy: [bars(LEFT, foot(2), X[2]), bars(over(0), ABOVE, X[0])],
    dial: range(12, (at) => ({ angle: 0, size: 0, o: 0, ...(at < 6
      ? { x: LEFT + 12 + 25 * (at % 2), y: down(at >> 1) + 17 }
      : { x: across((at - 6) >> 1) + 15.5 + 25 * (at % 2), y: 33 }) })),
    lid: PAIRS.map(([, j]) => ({ x: across(j), y: -40, o: 0 })),
    next: range(5, (m) => ({ x: 126 + 36 * m, y: 198, part: 0, won: 0, o: 0 })),
    word: [...SAID.map((id, i) => text(36, line(Math.min(i, 2)), VOCABULARY[id])),
      text(-30, line(0), "le"), text(-30, line(1), "chat")],
    head: range(6, (j) => text(across(j % 3) + 28, 13, VOCABULARY[j % 3])),
    index: range(3, (i) => text(6, line(i), String(i))),
    note: range(6, () => ({ ...text(198, 196, ""), tone: "" })),
    role: [["queries", LEFT - 1, 48], ["tokens", LEFT - 1, 48], ["keys", 98, 34], ["values", 98, 198],
      ["outputs", RIGHT - 1, 46]].map(([words, x, y]) => text(x, y, words)),
  };
}

const show = (items, values) => items.flat().forEach((item, at) =>
  Object.assign(item, typeof values === "function" ? values(at) : values));

// The values, times one row of weights, rise to that row and stack up right of it, above what is `below` them there.
function pour(S, p, i, weights, start, time, below = NONE) {
  const rise = p(start, start + time * 0.55), reach = p(start + time * 0.5, start + time);
  let up = below;
  weights.forEach((weight, j) => {
    const n = times(X[j], weight);
    S.flow[3 * i + j] = { ...S.flow[3 * i + j], x: mix(over(j), RIGHT, reach), y: mix(BELOW, foot(i), rise),
      n: mix(X[j], n, rise), up: mix(NONE, up, reach), o: p(start, start + 0.02) };
    up = plus(up, n);
  });
}

// One function per stage: what is elsewhere than in `blank` at a moment. `p(a, b)` goes from 0 to 1 between the moments
// a and b; `n` are the stage's numbers.
const SCENES = {
  dot_products(S, p, n) {
    const lit = p(0, 0.08) - p(0.66, 0.76), go = p(0.1, 0.3), meet = p(0.44, 0.54), sum = p(0.56, 0.64);
    show(S.query, (i) => ({ o: i === 2 ? 1 : 1 - 0.8 * lit }));
    show(S.key, (j) => ({ o: j === 0 ? 1 : 1 - 0.8 * lit }));
    show(S.cell, (at) => ({ o: 1, digits: 0, n: n.scores.flat()[at],
      said: at === 6 ? sum : p(0.74 + 0.02 * at, 0.82 + 0.02 * at) }));
    Object.assign(S.band[0], { x: LEFT - 4, y: down(2) - 2, w: across(0) + 60 - LEFT, h: 38, o: lit });
    Object.assign(S.band[1], { x: across(0) - 2, y: 14, w: 60, h: down(2) + 22, o: lit });
    Object.assign(S.ring[0], { y: down(2), o: p(0.02, 0.1) });
    const there = p(0.09, 0.1) - sum;
    Object.assign(S.copy[0], { x: mix(LEFT, across(0) + 3, go), n: mix(X[2], n.products, meet), w: mix(10, 5.5, go),
      o: there });
    Object.assign(S.copy[1], { x: mix(over(0), across(0) + 8.5, go), y: mix(ABOVE, foot(2), go),
      n: mix(X[0], n.products, meet), w: mix(10, 5.5, go), o: there });
    const terms = X[2].map((x, c) => `${c ? "+ " : ""}${x}·${X[0][c]}`);
    show(S.note, (c) => ({ text: [...terms, `= ${n.scores[2][0]}`, "sat · the:"][c],
      x: [119, 157, 201, 245, 283, 66][c],
      o: c === 4 ? sum : c === 5 ? p(0.28, 0.34) : p(0.3 + 0.05 * c, 0.36 + 0.05 * c) }));
  },
  softmax(S, p, n) {
    const bend = p(0.1, 0.36), divide = p(0.44, 0.68), fly = p(0.7, 0.92);
    show([...S.query, ...S.key], { o: 0.3 });
    show(S.cell, (at) => {
      const [score, power, weight] = [n.scores, n.powers, n.weights].map((all) => all.flat()[at]);
      return { o: 1, n: mix(mix(score, power, bend), weight, divide), hot: p(0.5, 0.7), weight,
        level: mix(mix(score, power, bend) / 8, weight, divide) };
    });
    let x = across(0);
    S.unit.forEach((part, j) => {
      const weight = n.weights[2][j];
      Object.assign(part, { x: mix(across(j), x, fly), y: mix(down(2), 181, fly), w: mix(56, 180 * weight, fly),
        h: mix(34, 20, fly), weight, o: p(0.69, 0.71) });
      x += 180 * weight;
    });
    Object.assign(S.ring[0], { x: across(0), y: down(2), w: 180, o: p(0.64, 0.7) });
    show(S.note.slice(0, 2), (at) => ({ text: ["sat", "= 1"][at], x: [88, 306][at], o: p(0.84, 0.94) }));
  },
  attention(S, p, n) {
    const hot = p(0.04, 0.18);
    show([...S.query, ...S.key], { o: 1 - 0.65 * hot });
    show(S.value, { o: 1 });
    show(S.cell, (at) => ({ o: 1, hot, n: mix(n.scores.flat()[at], n.weights.flat()[at], hot) }));
    [[2, 0.22, 0.34], [1, 0.56, 0.22], [0, 0.76, 0.22]].forEach(([i, start, time]) => {
      pour(S, p, i, n.weights[i], start, time);
    });
  },
  pytorch(S, p, { steps }) {
    const [first, second] = [p(0.2, 0.4), p(0.62, 0.84)];
    const key = mix(mix(steps[0].key, steps[1].key, first), steps[2].key, second);
    const { weights } = attend(X, [X[0], key, X[2]], X), weight = weights[2][1];
    const arrows = p(0.08, 0.14) - p(0.38, 0.44) + p(0.5, 0.56) - p(0.82, 0.9);
    show(S.query, (i) => ({ o: i === 2 ? 1 : 0.25 }));
    show(S.key, (j) => ({ o: j === 1 ? 1 : 0.25, n: j === 1 ? key : X[j] }));
    show(S.cell, (at) => ({ o: 1, hot: 1, n: weights.flat()[at] }));
    Object.assign(S.ring[0], { x: across(1), y: down(2), o: 1 });
    show(S.note.slice(0, 2), (c) => ({ text: "↑", tone: "key", x: over(1) + 13 * c + 5,
      y: ABOVE - UNIT * key[c] - 4, o: arrows }));
    Object.assign(S.note[2], { text: `loss = −log ${fmt(weight)} = ${fmt(-Math.log(weight))}`, o: 1 });
  },
  masks(S, p, n) {
    const anew = p(0.52, 0.8), drop = (at) => p(0.1 + 0.07 * at, 0.34 + 0.07 * at) ** 2;
    show([...S.query, ...S.key, ...S.value], { o: 0.3 });
    show(S.cell, (at) => ({ o: 1, hot: 1, n: mix(n.before.weights.flat()[at], n.weights.flat()[at], anew) }));
    S.lid.forEach((lid, at) => {
      const [i, j] = PAIRS[at];
      Object.assign(lid, { y: mix(-40, down(i), drop(at)), o: p(0.08 + 0.07 * at, 0.14 + 0.07 * at) });
      S.cell[i][j].said = 1 - p(0.28 + 0.07 * at, 0.34 + 0.07 * at);
    });
    show(S.output, (i) => ({ o: 1, n: mix(n.before.outputs[i], n.outputs[i], anew) }));
  },
  next_token(S, p, n) {
    const guess = p(0.16, 0.46), cost = p(0.7, 0.84);
    show([...S.query, ...S.key], { o: 0.3 });
    show(S.output, (i) => ({ o: i < 2 ? 1 : 0.3, n: n.outputs[i] }));
    show(S.cell, (at) => ({ o: at < 6 ? 1 : 1 - 0.7 * guess, hot: 1, said: at % 3 > (at - (at % 3)) / 3 ? guess : 1,
      n: mix(n.weights.flat()[at], n.probabilities.flat()[at], guess) }));
    [0, 1].forEach((i) => Object.assign(S.frame[i], { x: across(i + 1), y: down(i),
      o: p(0.5 + 0.1 * i, 0.56 + 0.1 * i) }));
    Object.assign(S.note[2], { text: `loss = (${n.losses.map((x) => fmt(x)).join(" + ")}) / 2 = ${fmt(n.loss)}`, o: cost });
  },
  multi_head(S, p, { before, heads, outputs }) {
    const cut = p(0.03, 0.11), go = p(0.11, 0.36), hot = p(0.44, 0.56), grow = p(0.6, 0.78), merge = p(0.84, 0.97);
    [S.cell, S.half].forEach((map, head) => map.flat().forEach((cell, at) => {
      Object.assign(cell, { x: mix(cell.x, 108 + 95 * head + 29 * (at % 3), go), w: head ? 27 : mix(56, 27, cut),
        n: mix(before.weights.flat()[at], heads[head].weights.flat()[at], hot), hot: 1, o: head ? p(0.04, 0.06) : 1,
        said: (head ? 0 : 1 - p(0.02, 0.06)) + p(0.34, 0.4) });
    }));
    for (const row of [S.key, S.value]) {
      show(row, (j) => {
        const [a, b] = [110, 205].map((x) => x + 29 * j - over(j));
        return { o: 1, xs: mix(STEP, [a, a + 13, b, b + 13], go) };
      });
    }
    const apart = [-3, 10, 29, 42];
    show(S.query, { o: 1, xs: mix(STEP, apart, go) });
    show(S.output, (i) => ({ o: grow > 0 ? 1 : 0, n: times(outputs[i], grow), xs: mix(apart, STEP, merge) }));
    S.head.forEach((word, at) => {
      Object.assign(word, { x: mix(word.x, 121.5 + 95 * (at > 2) + 29 * (at % 3), go),
        o: (at > 2 ? 0 : 1 - p(0.06, 0.11)) + p(0.34, 0.4) });
    });
  },
  cross_attention(S, p, n) {
    const come = p(0, 0.22), hot = p(0.36, 0.5);
    show(S.word, (i) => ({ o: i > 5 ? come : 0, x: i > 5 ? mix(-30, 36, come) : 36 }));
    show(S.query, (i) => (i < 2 ? { o: p(0, 0.04), n: FOREIGN[i], x: mix(-70, LEFT, come) } : {}));
    show([...S.key, ...S.value], { o: 1 });
    show(S.cell, (at) => (at < 6 ? { o: p(0.2, 0.3), said: p(0.3, 0.36), hot,
      n: mix(n.scores.flat()[at], n.weights.flat()[at], hot) } : {}));
    [0, 1].forEach((i) => pour(S, p, i, n.weights[i], 0.54 + 0.2 * i, 0.24));
  },
  positions(S, p, { ordered, shuffled }) {
    const back = p(0.05, 0.2) - p(0.32, 0.44), add = p(0.54, 0.64), again = p(0.7, 0.86);
    const tokens = mix(mix(X, ordered.tokens, add), shuffled.tokens, again);
    const now = attend(tokens, tokens, tokens);
    const slot = THREE.map((i) => mix(i, SHUFFLED[i], back + again));
    show(S.word.slice(0, 3), (i) => ({ y: line(slot[i]) }));
    show(S.head.slice(0, 3), (j) => ({ x: across(slot[j]) + 28 }));
    show(S.query, (i) => ({ o: 1, y: foot(slot[i]), n: tokens[i] }));
    show(S.key, (j) => ({ o: 1, x: over(slot[j]), n: tokens[j] }));
    show(S.output, (i) => ({ o: 1, y: foot(slot[i]), n: now.outputs[i] }));
    show(S.cell, (at) => ({ o: 1, hot: 1, n: now.weights.flat()[at], x: across(slot[at % 3]),
      y: down(slot[Math.floor(at / 3)]) }));
    show(S.place, (i) => ({ n: times(position(i), p(0.46, 0.54)), up: X[i], o: p(0.45, 0.46) - p(0.62, 0.66) }));
    show(S.index, { o: p(0.44, 0.5) });
    show(S.note.slice(0, 3), (at) => ({
      text: ["shuffled: the same outputs", "a vector for each position is added", "shuffled: other outputs"][at],
      o: [p(0.16, 0.22) - p(0.3, 0.36), p(0.46, 0.52) - p(0.66, 0.72), p(0.82, 0.88)][at] }));
  },
  rope(S, p) {
    const dials = p(0, 0.1), step = p(0.14, 0.4), start = LATER * p(0.56, 0.88);
    const now = turned(start, step);
    show([...S.query, ...S.key], { o: 1 - dials });
    show(S.dial, (at) => {
      const [i, pair] = [(at >> 1) % 3, at % 2];
      const [a, b] = X[i].slice(2 * pair, 2 * pair + 2);
      return { o: dials, size: Math.hypot(a, b), angle: Math.atan2(b, a) + (start + i * step) * (pair ? 0.01 : 1) };
    });
    show(S.cell, (at) => ({ o: 1, hot: 1, n: now.weights.flat()[at] }));
    show(S.index, (i) => ({ o: p(0.1, 0.16), text: String(Math.round(start + i)) }));
    show(S.note.slice(0, 2), (at) => ({
      text: ["each pair turns by its position", "the same distances, the same map"][at],
      o: at ? p(0.86, 0.92) : p(0.14, 0.2) - p(0.5, 0.56) }));
  },
  kv_cache(S, p, n) {
    const come = THREE.map((i) => p(0.32 * i, 0.32 * i + 0.12));
    const made = THREE.map((i) => p(0.32 * i + 0.12, 0.32 * i + 0.24));
    const past = [...come.slice(1), 0];
    show(S.word.slice(0, 3), (i) => ({ o: come[i] * (1 - 0.5 * past[i]) }));
    show(S.head.slice(0, 3), (j) => ({ o: come[j] }));
    show(S.query, (i) => ({ o: come[i] * (1 - past[i]) }));
    show(S.key, (j) => ({ o: come[j], y: mix(-20, ABOVE, come[j]) }));
    show(S.value, (j) => ({ o: come[j], y: mix(260, BELOW, come[j]) }));
    show(S.cell, (at) => {
      const [i, j] = [Math.floor(at / 3), at % 3];
      const now = 1 - past[i];
      return j > i ? {} : { o: made[i] * (0.25 + 0.75 * now), said: now, hot: now, n: n.weights[i][j] };
    });
    show(S.output, (i) => ({ o: made[i] * (1 - 0.75 * past[i]), n: times(n.outputs[i], made[i]) }));
    const kept = past[0] + past[1];
    show(S.frame.slice(0, 2), (at) => ({ x: across(0) - 3, y: at ? 172 : 1, w: 62 * Math.max(1, kept), h: at ? 42 : 50,
      o: past[0] }));
  },
  transformer_block(S, p, n) {
    const on = p(0.04, 0.26), think = p(0.74, 0.9);
    show(S.token.slice(0, 3), { o: 1 - 0.65 * on });
    show(S.stream, { o: 1, x: mix(LEFT, RIGHT, on) });
    show(S.value, { o: p(0.26, 0.34) });
    show(S.cell, (at) => ({ o: p(0.22, 0.3), hot: 1, n: n.weights.flat()[at] }));
    THREE.forEach((i) => pour(S, p, i, n.weights[i], 0.36 + 0.05 * i, 0.26, X[i]));
    show(S.more, (i) => ({ x: mix(390, RIGHT, think), n: n.forward[i], up: n.between[i], o: p(0.72, 0.76) }));
    show(S.note.slice(0, 3), (at) => ({ text: ["stream", "+ attention", "+ network"][at],
      tone: ["", "value", "more"][at], x: [124, 191, 268][at], y: 34,
      o: p([0.04, 0.36, 0.74][at], [0.1, 0.42, 0.8][at]) }));
  },
  language_model(S, p, { rounds, weights }) {
    const round = Math.min(2, Math.floor(p.t * 3)), q = (a, b) => p((round + a) / 3, (round + b) / 3);
    const { normed, probabilities, next } = rounds[round];
    const chosen = q(0.48, 0.58), go = q(0.64, 0.94), begun = round ? 1 : p(0, 0.06);
    const x = S.next[next].x;
    show(S.token, (i) => {
      const slot = i - round - go, fresh = i === round + 3;
      const o = fresh ? q(0.86, 0.97) : slot > 2 ? 0 : clamp(1 + 2 * slot, 0, 1);
      return { o, y: fresh ? foot(2) : foot(slot) };
    });
    show(S.word.slice(0, 6), (i) => ({ o: i === round + 3 ? q(0.6, 0.66) : S.token[i].o,
      y: i === round + 3 ? mix(212, line(2), go) : line(i - round - go),
      x: i === round + 3 ? mix(x + 10, 36, go) : 36 }));
    show(S.head.slice(0, 3), (j) => ({ o: Math.abs(1 - 2 * go), text: VOCABULARY[SAID[round + j + (go > 0.5)]] }));
    const now = mix(weights[round], weights[round + 1], go);
    show(S.cell, (at) => (at % 3 > at / 3 ? {} : { o: 1, hot: 1, n: now.flat()[at] }));
    Object.assign(S.output[2], { o: 1 - go, n: times(normed, q(0.04, 0.2)) });
    show(S.next, (m) => ({ o: begun, part: probabilities[m] * (q(0.2, 0.42) - (round < 2 ? q(0.9, 1) : 0)),
      won: m === next ? chosen : 0 }));
    Object.assign(S.note[0], { text: "next:", x: 84, y: 212, o: begun });
  },
  efficient_attention(S, p, { scores, steps }) {
    const start = (at) => 0.03 + 0.23 * at, boxes = TILES.map(([queries, keys]) => ({ x: across(keys[0]) - 3,
      y: down(queries[0]) - 3, w: 62 * keys.length, h: 38 * queries.length + 2 }));
    const on = TILES.map((_, at) => p(start(at), start(at) + 0.05) - p(start(at) + 0.19, start(at) + 0.23));
    const end = p(0.94, 1);
    const lit = (side, i) => Math.max(end, ...TILES.map((tile, at) => (tile[side].includes(i) ? on[at] : 0)));
    show(S.query, (i) => ({ o: 0.25 + 0.75 * lit(0, i) }));
    show([...S.key, ...S.value], (j) => ({ o: 0.25 + 0.75 * lit(1, j % 3) }));
    let [box, n] = [boxes[0], THREE.map(() => NONE)];
    TILES.forEach(([queries, keys], at) => {
      box = mix(box, boxes[at], p(start(at) - 0.04, start(at) + 0.03));
      n = mix(n, steps[at], p(start(at) + 0.07, start(at) + 0.17));
      for (const i of queries)
        for (const j of keys) Object.assign(S.cell[i][j], { o: 0.45 + 0.55 * on[at], said: on[at] });
    });
    show(S.cell, (at) => ({ digits: 1, n: scores.flat()[at] }));
    Object.assign(S.frame[2], { ...box, o: p(0, 0.04) - p(0.93, 0.97) });
    show(S.output, (i) => ({ o: 1, n: n[i] }));
  },
  steady_attention(S, p, n) {
    const room = p(0.02, 0.26), come = p(0.24, 0.44), take = p(0.48, 0.82);
    const column = (j) => mix(across(j), 108 + 47 * j, room), xs = mix(STEP, [0, 9.5, 19, 28.5], room), w = mix(10, 7.5, room);
    show(S.query, { o: 0.3 });
    show(S.key, (j) => ({ o: 0.3, x: mix(over(j), column(j) + 3, room), xs, w }));
    show(S.value, (j) => ({ o: 1, x: mix(over(j), column(j) + 3, room), xs, w }));
    show(S.cell, (at) => ({ o: 1, hot: 1, x: column(at % 3), w: mix(56, 43, room),
      n: mix(n.before.weights.flat()[at], n.weights.flat()[at], take) }));
    show(S.half.map((row) => row[0]), (i) => ({ o: come, hot: 1, x: column(3), w: 43, n: n.sink[i] * take,
      said: p(0.46, 0.5), y: mix(-40, down(i), come) }));
    show(S.head, (j) => (j < 4 ? { o: j < 3 ? 1 : come, x: column(j) + mix(28, 21.5, room),
      text: [...VOCABULARY.slice(0, 3), "sink"][j] } : {}));
    show(S.output, (i) => ({ o: 1, n: mix(n.before.outputs[i], n.outputs[i], take) }));
    Object.assign(S.note[0], { text: "no value", x: 271, y: 200, o: p(0.84, 0.94) });
  },
  long_context(S, p, n) {
    const squeeze = p(0.06, 0.34), make = p(0.46, 0.78), two = (j) => [...n.latents[j], 0, 0];
    const bars = (j) => ({ o: 1, n: mix(mix(X[j], two(j), squeeze), n.made[j], make),
      xs: mix(mix(STEP, [13, 26, 26, 26], squeeze), STEP, make) });
    show(S.query, { o: 0.3 });
    show(S.key, bars);
    show(S.value, bars);
    show(S.cell, (at) => ({ o: 1, hot: 1, n: mix(n.before.weights.flat()[at], n.weights.flat()[at], make) }));
    show(S.output, (i) => ({ o: 1, n: mix(n.before.outputs[i], n.outputs[i], make) }));
    Object.assign(S.note[0], { text: "kept: two numbers", x: 198, y: 34, o: squeeze - make });
  },
  mixture_of_experts(S, p, n) {
    const drop = (i) => p(0.3 + 0.08 * i, 0.46 + 0.08 * i), share = p(0.6, 0.78), add = p(0.76, 0.94);
    show(S.head, (j) => (j < 3 ? { o: 1, text: `expert ${j + 1}` } : {}));
    show(S.query, { o: 1 });
    show(S.key, (e) => ({ o: 0.4, n: times(ROUTER[e], 0.5) }));
    show(S.cell, (at) => ({ o: 1, hot: share, digits: share > 0.5 ? 2 : 0, said: p(0.02 * at, 0.08 + 0.02 * at),
      n: mix(n.logits.flat()[at], n.weights.flat()[at], share) }));
    S.lid.forEach((lid, i) => {
      const e = n.skipped[i];
      Object.assign(lid, { x: across(e), y: mix(-40, down(i), drop(i) ** 2), o: p(0.28 + 0.08 * i, 0.34 + 0.08 * i) });
      S.cell[i][e].said *= 1 - drop(i);
    });
    show(S.output, (i) => ({ o: 1, n: times(n.outputs[i], add) }));
  },
  delta_rule(S, p, n) { // the first two keys are orthogonal, so their tokens write their whole values
    const turns = [p(0.02, 0.18), p(0.2, 0.38), p(0.4, 0.5)], take = p(0.78, 0.96), there = p(0.74, 0.76);
    show(S.query, (i) => ({ o: 0.25 + 0.75 * turns[i], n: n.keys[i] }));
    show(S.key, (j) => ({ o: 1, n: n.keys[j] }));
    show(S.value, { o: 1 });
    show(S.cell, (at) => (at % 3 < Math.floor(at / 3) ? { o: 1, n: n.overlaps.flat()[at],
      said: turns[Math.floor(at / 3)] } : {}));
    pour(S, p, 2, n.overlaps[2].slice(0, 2), 0.46, 0.26);
    show(S.flow, (at) => ({ o: S.flow[at].o * (1 - there) }));
    show(S.output, (i) => (i < 2 ? { o: 1, n: times(n.outputs[i], turns[i]) }
      : { o: there, n: mix(n.recalled[2], n.outputs[2], take) }));
    S.role[4].text = "written";
    show(S.note.slice(0, 2), (at) => ({ text: ["recalled", "missing"][at], tone: "value", x: 330, y: 188,
      o: at ? take : p(0.66, 0.74) - p(0.76, 0.8) }));
  },
};

// Everything at a moment of a stage.
function sceneOf(stage, moment) {
  const p = (a, b) => {
    const part = clamp((moment - a) / (b - a), 0, 1);
    return part * part * (3 - 2 * part);
  };
  p.t = moment;
  const S = blank();
  show([...S.word.slice(0, 3), ...S.head.slice(0, 3)], { o: 1 });
  SCENES[stage](S, p, KNOWN[stage]);
  const named = [["query", "dial"], ["token"], ["key", "dial"], ["value"], ["output", "flow", "stream"]];
  show(S.role, (at) => ({ o: Math.min(1, 4 * Math.max(...named[at].flatMap((kind) => S[kind].map(({ o }) => o)))) }));
  return S;
}

// Drawing

// Kind of thing -> what makes one and returns the function that draws it.
const PENS = {
  bars: (g, kind) => {
    const rects = STEP.map(() => g.appendChild(s("rect", { class: `lp-${kind}`, rx: 1.5 })));
    const stub = ["flow", "more", "stream", "copy"].includes(kind) ? 0 : 1.5;
    return ({ x, y, n, up, xs, w }) => rects.forEach((rect, c) => {
      const height = Math.max(stub, Math.abs(n[c]) * UNIT);
      setIfChanged(rect, { x: x + xs[c], y: y - UNIT * up[c] - (n[c] < 0 ? 0 : height), width: w, height });
    });
  },
  cell: (g) => {
    const size = { width: 56, height: 34, rx: 4 };
    const back = s("rect", { class: "lp-back", ...size }), level = s("rect", { class: "lp-level", rx: 4 });
    const ink = s("rect", { class: "lp-ink", ...size }), number = s("text", { y: 21.5 });
    g.classList.add("lp-cell");
    g.append(back, level, ink, number);
    return ({ x, y, w, n, digits, hot, level: part, said, weight = n }) => {
      setIfChanged(g, { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
      for (const rect of [back, ink]) setIfChanged(rect, { width: w });
      setIfChanged(level, { width: w, y: 34 - 34 * part, height: 34 * part, opacity: 1 - hot });
      setIfChanged(ink, { opacity: hot });
      heat(g, weight);
      g.classList.toggle("aw-heat", hot > 0.5);
      const text = hot > 0.5 ? share(n) : fmt(n, digits);
      setIfChanged(number, { x: w / 2, opacity: said, class: w < 40 ? "lp-small" : "" });
      write(number, said < 0.01 ? "" : w < 40 ? text.replace("0.", ".") : text);
    };
  },
  unit: (g) => {
    const rect = g.appendChild(s("rect", { class: "lp-ink lp-edge" }));
    return ({ x, y, w, h: height, weight }) => {
      heat(g, weight);
      setIfChanged(rect, { x, y, width: w, height });
    };
  },
  box: (g, kind) => {
    const rect = g.appendChild(s("rect", { class: `lp-${kind}`, rx: 5 }));
    return ({ x, y, w, h: height }) => setIfChanged(rect, { x, y, width: w, height });
  },
  dial: (g, kind, at) => {
    const hand = s("path", { class: "lp-hand" }), knob = s("circle", { r: 2.2, class: "lp-knob" });
    g.classList.add(at < 6 ? "lp-query" : "lp-key");
    g.append(s("circle", { r: 11.5, class: "lp-dial" }), hand, knob);
    return ({ x, y, angle, size }) => {
      const [a, b] = [Math.cos(angle) * size * 7.6, -Math.sin(angle) * size * 7.6].map((z) => z.toFixed(2));
      setIfChanged(g, { transform: `translate(${x} ${y})` });
      setIfChanged(hand, { d: `M0 0L${a} ${b}` });
      setIfChanged(knob, { cx: Number(a), cy: Number(b) });
    };
  },
  lid: (g) => {
    g.append(s("rect", { class: "lp-lid", width: 56, height: 34, rx: 4 }),
      s("path", { class: "lp-hatch", d: "M2 26L24 3M8 32L36 3M20 32L48 3M32 32L54 9M44 32L54 21" }),
      s("text", { x: 28, y: 22 }, "−∞"));
    return ({ x, y }) => setIfChanged(g, { transform: `translate(${x} ${y.toFixed(2)})` });
  },
  next: (g, kind, at) => {
    const bar = s("rect", { width: 16, rx: 1.5 });
    const word = s("text", { y: 14 }, VOCABULARY[at]);
    g.classList.add("lp-next");
    g.append(bar, word);
    return ({ x, y, part, won }) => {
      const height = Math.max(1.5, 38 * part);
      setIfChanged(g, { transform: `translate(${x} ${y})` });
      setIfChanged(bar, { x: -8, y: -height, height, opacity: 0.4 + 0.6 * won });
      g.classList.toggle("lp-won", won > 0.5);
    };
  },
  text: (g, kind, at) => {
    const node = g.appendChild(s("text", { class: `lp-${kind} lp-${kind}-${at}` }));
    return ({ x, y, text, tone }) => {
      setIfChanged(node, { x, y });
      if (tone !== undefined) setIfChanged(node, { class: `lp-note lp-tone-${tone || "none"}` });
      write(node, text);
    };
  },
};
const PEN_OF = { band: "box", frame: "box", ring: "box", cell: "cell", half: "cell", unit: "unit", dial: "dial",
  lid: "lid", next: "next", word: "text", head: "text", index: "text", note: "text", role: "text" };

// Draws scenes into `svg`: its nodes are made once, then only their attributes change.
function artist(svg) {
  const pens = Object.entries(blank()).map(([kind, items]) => [kind, items.flat().map((_, at) => {
    const g = svg.appendChild(s("g", { "data-part": `${kind}-${at}` }));
    const pen = PEN_OF[kind] ?? "bars", draw = PENS[pen](g, kind, at);
    const words = ["cell", "text"].includes(pen) ? g.querySelector("text") : null;
    return (item) => {
      const seen = item.o >= 0.01;
      setIfChanged(g, { display: seen ? "inline" : "none" });
      if (!seen) return words && write(words, "");
      setIfChanged(g, { opacity: Math.min(1, item.o) });
      draw(item);
    };
  })]);
  return (scene) => pens.forEach(([kind, drawers]) => scene[kind].flat().forEach((item, at) => drawers[at](item)));
}

const STEPS = [0, 0.2, 0.4, 0.6, 0.8, 1]; // moments to step through where motion is unwanted

export default widget("living_picture", "The cat sat, in one picture", ["stage", "links", "at"], (view) => {
  const { root, summary, say, model, onend } = view, tour = model.get("tour");
  const svg = s("svg", { viewBox: "0 0 372 218", role: "img" });
  const draw = artist(svg);
  const title = h("p", { class: "lp-title" }), caption = h("p", { class: "lp-caption" });
  const play = button("play", "", press);
  const bars = STEMS.map(() => h("i"));
  const stops = STEMS.map((stem, at) => h("button", { type: "button", "data-stop": stem,
    "aria-label": `${at + 1} ${CHAPTERS[stem][0]}`, onclick: () => jump(stem) },
    bars[at], h("span", {}, String(at + 1))));
  root.classList.toggle("lp-tour", tour);
  root.append(h("div", { class: "lp-body" }, svg,
    h("div", { class: "lp-side" }, tour ? title : null, caption, play)),
    ...(tour ? [h("div", { class: "lp-stops", role: "group", "aria-label": "Chapters" }, stops)] : []), summary);

  let stage = null; // the stage that is drawn
  let scene = null, from = null; // what is drawn, and what a stage morphs from
  let spent = 0; // milliseconds since the stage began, negative while it morphs
  let playing = false, touring = tour && !prefersReducedMotion(), visible = false, fresh = true, asked = 0, last = 0;

  const time = () => (tour ? STOP : CHAPTERS[stage][2] * 1000);
  const moment = () => clamp(spent / time(), 0, 1);
  const ended = () => spent >= time() + (touring ? HOLD : 0);
  const told = () => TOLD[stage](KNOWN[stage]);
  const still = () => prefersReducedMotion() || model.get("at") !== null;

  function paint() {
    const at = model.get("at");
    const now = at ?? moment();
    scene = sceneOf(stage, now);
    if (spent < 0 && from && at === null) scene = mix(from, scene, 1 - (spent / MORPH) ** 2);
    draw(scene);
    root.dataset.moment = now.toFixed(3);
    bars.forEach((bar, i) => {
      const place = STEMS.indexOf(stage);
      bar.style.setProperty("--part", i < place ? 1 : i > place ? 0 : now.toFixed(3));
    });
    const name = prefersReducedMotion() ? (tour ? "Next" : "Step") : playing ? "Pause" : ended() && !tour ? "Replay" : "Play";
    write(play, name);
  }

  function run() {
    cancelAnimationFrame(asked);
    asked = 0;
    if (!playing || !visible || still()) return;
    last = performance.now();
    asked = requestAnimationFrame(step);
  }

  function step(now) {
    spent += clamp(now - last, 0, 100);
    last = now;
    const next = STEMS[STEMS.indexOf(stage) + 1];
    if (ended() && touring && next) return change(model, { stage: next });
    if (ended()) playing = touring = false;
    paint();
    asked = playing ? requestAnimationFrame(step) : 0;
  }

  // The stage from its beginning, out of whatever is drawn.
  function begin() {
    from = scene;
    spent = still() ? Infinity : scene ? -MORPH : 0;
    playing = !still();
    fresh = false;
    paint();
    run();
  }

  function jump(stem) {
    if (stem === stage) begin();
    else change(model, { stage: stem });
  }

  function press() {
    const place = STEMS.indexOf(stage);
    if (prefersReducedMotion() && tour) return jump(STEMS[(place + 1) % STEMS.length]);
    if (model.get("at") !== null) change(model, { at: null });
    if (prefersReducedMotion()) {
      const now = STEPS.findIndex((one) => one > moment() + 0.01);
      spent = time() * (now < 0 ? 0 : STEPS[now]);
    } else if (playing) {
      playing = touring = false;
    } else {
      touring = tour;
      if (spent >= time()) return jump(tour ? STEMS[(place + 1) % STEMS.length] : stage);
      playing = true;
    }
    paint();
    run();
    const steps = Math.round(moment() * (STEPS.length - 1)) + 1;
    say(`${prefersReducedMotion() ? `Moment ${steps} of ${STEPS.length}` : playing ? "Playing" : "Paused"}. ${told()}`);
  }

  function update() {
    const now = model.get("stage"), [name, sentence] = CHAPTERS[now], place = STEMS.indexOf(now);
    const href = model.get("links")?.[now], words = `${place + 1}. ${name}`, told = TOLD[now](KNOWN[now]);
    title.replaceChildren(href ? h("a", { href }, words) : words);
    caption.textContent = sentence;
    stops.forEach((stop, at) => stop.setAttribute("aria-current", at === place ? "step" : "false"));
    svg.setAttribute("aria-label", told);
    if (!(touring && playing) || !summary.textContent) say(tour ? `${name}: ${told}` : told);
    if (stage === now) return paint();
    const first = stage === null;
    stage = now;
    if (!first) return begin();
    spent = Infinity; // its end, until it is looked at: so it prints as a whole
    paint();
  }

  const watcher = new IntersectionObserver(([entry]) => {
    visible = entry.isIntersecting;
    if (visible && fresh && !still()) begin();
    else run();
  }, { threshold: 0.5 });
  watcher.observe(root);
  onend(() => {
    playing = touring = false;
    cancelAnimationFrame(asked);
    watcher.disconnect();
  });
  return update;
});
