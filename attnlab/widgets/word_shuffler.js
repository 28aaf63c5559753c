// Words that change places. `compute` attends to them in some order; the view draws what each word gets.

const BASE = 10000;
const SAME = 1e-9; // outputs that differ by less are equal but for rounding

// The output of each word, in the order of the words: queries, keys and values are the vectors themselves.
function attend(vectors, order, positions) {
  const width = vectors[0].length;
  const encoded = order.map((word, place) => vectors[word].map((x, column) => {
    const angle = place * BASE ** (-(column - (column % 2)) / width);
    return positions ? x + (column % 2 ? Math.cos(angle) : Math.sin(angle)) : x;
  }));
  const outputs = [], inputs = [];
  order.forEach((word, place) => {
    const weights = softmax(encoded.map((key) => dot(key, encoded[place]) / Math.sqrt(width)));
    inputs[word] = encoded[place];
    outputs[word] = range(width, (column) => dot(weights, encoded.map((row) => row[column])));
  });
  return { inputs, outputs };
}

// All numbers shown, word by word; `first` are the outputs in the order in which the words are listed.
export function compute({ vectors, order, positions }) {
  const { inputs, outputs } = attend(vectors, order, positions);
  const first = attend(vectors, vectors.map((_, word) => word), positions).outputs;
  const changes = outputs.map((row, word) => Math.max(...row.map((x, column) => Math.abs(x - first[word][column]))));
  return { inputs, outputs, first, changes, changed: changes.filter((change) => change > SAME).length };
}

export default widget("word_shuffler", "Words in another order", ["words", "vectors", "order", "positions"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const start = { order: [...model.get("order")], positions: model.get("positions") };
  let columns = null;

  // Another order, by chance.
  const shuffle = h("button", { type: "button", "data-go": "shuffle", onclick: () => {
    const order = model.get("order");
    let mixed = order;
    while (String(mixed) === String(order)) {
      mixed = order.map((word) => [Math.random(), word]).sort(([a], [b]) => a - b).map(([, word]) => word);
    }
    change(model, { order: mixed });
  } }, "Shuffle");
  const add = h("input", { type: "checkbox", "data-go": "positions",
    onchange: () => change(model, { positions: add.checked }) });
  const again = button("reset", "Start again", () => change(model, start));
  const stage = h("div", { class: "ws-stage" });
  const verdict = h("p", { class: "ws-verdict", "data-value": "verdict" });
  root.append(h("div", { class: "aw-row" }, shuffle, h("label", { class: "ws-switch" }, add, " add positions"), again),
    stage, verdict, summary);

  // Bars of a vector, up for positive numbers and down for negative ones.
  const barsOf = (width, kind) => range(width, () => h("i", { class: kind }));
  const build = rebuilder(({ words, vectors }) => {
    const width = vectors[0].length;
    columns = words.map((text, word) => {
      const input = barsOf(width, "ws-in"), ghost = barsOf(width, "ws-ghost"), output = barsOf(width, "ws-out");
      const chip = h("button", { type: "button", "data-word": text, title: "change places with the next word",
        onclick: () => {
          const order = [...model.get("order")];
          const at = order.indexOf(word), next = (at + 1) % order.length;
          [order[at], order[next]] = [order[next], order[at]];
          change(model, { order });
        } }, text);
      const box = (...bars) => h("div", { class: "ws-box", role: "img" }, bars.map((list) =>
        h("span", { class: "ws-bars" }, list)));
      const [before, after] = [box(input), box(ghost, output)];
      const told = h("span", { class: "ws-told", "data-value": `told-${text}` });
      const node = h("div", { class: "ws-column" }, chip, before, h("span", { class: "ws-arrow" }, "↓ output"), after, told);
      return { node, chip, input, ghost, output, before, after, told };
    });
    stage.style.setProperty("--many", words.length);
    stage.replaceChildren(...columns.map(({ node }) => node));
  });

  const UNIT = 13; // pixels for 1
  const raise = (bars, row) => bars.forEach((bar, column) => {
    const size = Math.min(34, Math.abs(row[column]) * UNIT);
    Object.assign(bar.style, { height: `${size}px`, transform: `translateY(${row[column] < 0 ? 0 : -size}px)` });
  });
  const motion = animate(({ places, inputs, outputs, first }) => {
    columns.forEach(({ node, input, ghost, output }, word) => {
      node.style.left = `calc(100% * ${places[word].toFixed(4)} / var(--many))`;
      raise(input, inputs[word]);
      raise(ghost, first[word]);
      raise(output, outputs[word]);
    });
  }, 500);

  return () => {
    const state = read();
    const { words, vectors, order, positions } = state;
    if (order.length !== words.length || vectors.length !== words.length) return; // halfway through a change from Python
    const fresh = build([words, vectors], state);
    const { inputs, outputs, first, changes, changed } = compute(state);
    add.checked = positions;
    columns.forEach(({ before, after, told }, word) => {
      const spell = (row) => row.map((x) => fmt(x)).join(", ");
      before.setAttribute("aria-label", `${words[word]}, input: ${spell(inputs[word])}`);
      after.setAttribute("aria-label", `${words[word]}, output: ${spell(outputs[word])}`);
      told.textContent = changes[word] > SAME ? `± ${fmt(changes[word])}` : "same";
    });
    const text = order.map((word) => words[word]).join(" ");
    verdict.textContent = `${changed} of ${words.length} outputs changed`;
    motion.to({ places: words.map((_, word) => order.indexOf(word)), inputs, outputs, first }, { jump: fresh });
    say(`“${text}”, ${positions ? "with" : "without"} positions: ${changed} of ${words.length} outputs differ from those of `
      + `“${words.join(" ")}”.`);
  };
});
