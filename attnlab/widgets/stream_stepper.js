// One token's numbers through all blocks of a model. `compute` reads the recording; the view draws it.

const PARTS = [["before", "stream"], ["read", "+ attention"], ["thought", "+ network"], ["after", "= stream"]];
const REACH = 2.5; // a strip ends at so many root mean squares of the stream after the block
const MIDDLE = 20, PAUSE = 420;

// The stream before the block, what its attention and its network add, and the stream after it: (width,) each, in
// units of the root mean square afterwards. Their norms, in the model's own units; and the words it would say then.
export function compute({ stream, shape: [, states, width], step, rms, added, words, probabilities, answered, text, block }) {
  const last = rms[text][2 * block + 2];
  const state = (s) => readTable(stream, "int8", (text * states + s) * width, 1, width)[0].map((x) =>
    (x * step * rms[text][s]) / last);
  const minus = (a, b) => a.map((x, c) => x - b[c]);
  const [before, middle, after] = [0, 1, 2].map((more) => state(2 * block + more));
  const strips = { before, read: minus(middle, before), thought: minus(after, middle), after };
  // Computed from the numbers themselves, before they were rounded and the largest were cut.
  const norms = { before: rms[text][2 * block] * Math.sqrt(width), read: added[text][2 * block],
    thought: added[text][2 * block + 1], after: last * Math.sqrt(width) };
  const depth = block + 1;
  return { strips, norms, depth, words: words[text][depth], probabilities: probabilities[text][depth],
    answer: answered[text][depth] };
}

export default widget("stream_stepper", "A token's numbers, block by block",
  ["stream", "shape", "step", "rms", "added", "prompts", "answers", "words", "probabilities", "answered",
    "text", "block"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const [, states, width] = model.get("shape"), blocks = (states - 1) / 2;
  let pulled = false, shown = null;

  const go = (block) => change(model, { block: clamp(block, 0, blocks - 1) });
  const text = h("select", { "aria-label": "Text", "data-go": "text",
    onchange: ({ target }) => change(model, { text: Number(target.value) }) },
    ...model.get("prompts").map((prompt, i) => h("option", { value: i },
      `${prompt.length > 30 ? `… ${prompt.split(" ").slice(-4).join(" ")}` : prompt} …`)));
  const slider = rangeInput("block", "Block", { min: 0, max: blocks - 1, step: 1 }, (block) => {
    pulled = true;
    go(block);
    pulled = false;
  });
  const { play } = player(view, PAUSE, { at: () => model.get("block"), end: () => blocks - 1, go });
  const number = h("b", { class: "ss-block aw-numbers" });

  const strips = PARTS.map(([name, label]) => {
    const path = s("path", { class: "ss-numbers" }), norm = h("b", { class: "aw-numbers", "data-value": `norm-${name}` });
    return { name, path, norm, row: h("div", { class: `ss-strip ss-${name}` },
      h("span", { class: "ss-label" }, label, h("span", {}, "norm ", norm)),
      s("svg", { viewBox: `0 0 ${width} ${2 * MIDDLE}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        s("line", { x1: 0, x2: width, y1: MIDDLE, y2: MIDDLE }), path)) };
  });
  const bars = model.get("words")[0][0].map(() => {
    const fill = h("i");
    return { ...wordBar("ss", fill), fill };
  });
  const columns = range(blocks + 1, (depth) => {
    const column = { fill: h("i"), word: h("span", {}) };
    column.node = h("span", { class: "ss-column", onclick: () => depth && go(depth - 1) },
      h("span", { class: "ss-height" }, column.fill), column.word);
    return column;
  });
  const says = h("p", { class: "ss-says" }), film = h("p", { class: "ss-note", "data-held": "" });
  root.append(h("div", { class: "ss-top" }, text, h("label", {}, "block ", number), slider, play),
    ...strips.map(({ row }) => row),
    h("div", { class: "ss-out" }, says, h("ul", {}, ...bars.map(({ row }) => row))),
    film, h("div", { class: "ss-film", "aria-hidden": "true", "data-held": "" }, ...columns.map(({ node }) => node)), summary);

  const motion = animate(({ numbers, norms, said }) => {
    const y = scale([-REACH, REACH], [2 * MIDDLE, 0]);
    strips.forEach(({ name, path, norm }) => {
      path.setAttribute("d", numbers[name].map((x, c) =>
        `M${c} ${MIDDLE}V${y(clamp(x, -REACH, REACH)).toFixed(1)}`).join(""));
      norm.textContent = norms[name].toFixed(norms[name] < 10 ? 1 : 0);
    });
    bars.forEach(({ fill, number }, w) => {
      fill.style.width = `${100 * said[w]}%`;
      number.textContent = share(said[w]);
    });
  });

  return () => {
    const state = read(), { block, prompts, answers, words, answered } = state;
    const at = Math.min(state.text, prompts.length - 1), found = compute({ ...state, text: at });
    const fresh = shown !== at;
    if (fresh) columns.forEach(({ fill, word, node }, depth) => {
      fill.style.height = `${100 * answered[at][depth]}%`;
      word.textContent = words[at][depth][0];
      node.classList.toggle("ss-right", words[at][depth][0] === answers[at]);
      node.title = `${depth ? `after block ${depth - 1}` : "before the first block"}: ${words[at][depth][0]}`;
    });
    shown = at;
    text.value = at;
    slider.value = block;
    slider.setAttribute("aria-valuetext", `block ${block} of 0 to ${blocks - 1}`);
    number.textContent = block;
    says.replaceChildren("Read out here: ", h("b", {}, found.words[0]));
    film.replaceChildren("first word at each depth; columns: probability of ", h("b", {}, answers[at]));
    bars.forEach(({ word, row }, w) => {
      word.textContent = found.words[w];
      row.classList.toggle("ss-answer", found.words[w] === answers[at]);
    });
    columns.forEach(({ node }, depth) => node.classList.toggle("ss-now", depth === found.depth));
    motion.to({ numbers: found.strips, norms: found.norms, said: found.probabilities }, { jump: fresh || pulled });
    say(`“${prompts[at]}”, after block ${block}: norm ${found.norms.after.toFixed(0)}. The model would say “${found.words[0]}”, `
      + `${spoken(found.probabilities[0])}; “${answers[at]}” has ${spoken(found.answer)}.`);
  };
});
