// A transformer block, step by step. `compute` says what flows where; the view draws it and listens.

const BLOCKS = { encoder: "Encoder", decoder: "Decoder", llama: "Llama" };
const SIZES = ["batch", "n", "n_memory", "d_model", "n_heads", "n_kv_heads", "d_ff"];

// Axes of what flows: names of sizes.
const STREAM = ["batch", "n", "d_model"];
const INNER = ["batch", "n", "d_ff"];
const headsOf = (tokens, count = "n_heads") => ["batch", count, tokens, "d_head"];

// A linear map's parameters, as PyTorch keeps them: weight (out, in) and perhaps a bias.
const linear = (name, to, from, bias) =>
  [{ name: `${name}.weight`, axes: [to, from] }, ...(bias ? [{ name: `${name}.bias`, axes: [to] }] : [])];

// Steps of a block. `lane`: "stream" for what is on the residual stream, "branch" for what left it, "side" for what
// comes in from the side. `out`: what flows on, as [name, axes]. `learns`: parameters, as [{name, axes}].

const branch = (part) => (op, label, line, says, out, learns = []) =>
  ({ id: `${part}.${op}`, part, lane: "branch", label, line, says, out, learns });
const arrival = (id, lane, label, line, name, axes, says) =>
  ({ id, part: "", lane, label, line, out: [[name, axes]], learns: [], says });

function normStep(part, rms) {
  return {
    id: part, part, lane: "branch", label: part, line: `h ← ${part}(x)`, out: [["h", STREAM]],
    learns: (rms ? ["weight"] : ["weight", "bias"]).map((name) => ({ name: `${part}.${name}`, axes: ["d_model"] })),
    says: rms
      ? "Each token's row is divided by its root mean square, then scaled. The stream itself stays as it was."
      : "Each token's row is brought to mean 0 and variance 1, then scaled and shifted. The stream stays as it was.",
  };
}

function attentionSteps(part, name, { size, causal = false, memory = false, grouped = false }) {
  const keys = memory ? "n_memory" : "n";
  const few = grouped ? "n_kv_heads" : "n_heads";
  const kv = grouped ? "d_kv" : "d_model";
  const step = branch(part);
  const split = memory || grouped ? [["q", headsOf("n")], ["k, v", headsOf(keys, few)]] : [["q, k, v", headsOf("n")]];
  const from = memory ? "memory" : "h";
  const each = `heads of width ${size.d_head}`;
  const times = size.n_heads / size.n_kv_heads;
  const steps = [step("qkv", "W_q, W_k, W_v", `q, k, v ← W_q h, W_k ${from}, W_v ${from}`,
    memory ? "Queries come from the stream, keys and values from the memory."
      : grouped
        ? `Three maps, cut into ${each}: ${size.n_heads} for queries, ${size.n_kv_heads} for keys and for values.`
        : `Three maps make queries, keys and values; each token's row is cut into ${size.n_heads} ${each}.`,
    split, [...linear(`${part}.W_q`, "d_model", "d_model"), ...linear(`${part}.W_k`, kv, "d_model"),
      ...linear(`${part}.W_v`, kv, "d_model")])];
  if (grouped) {
    steps.push(step("rope", "RoPE", "q, k ← rotate(q), rotate(k)",
      "Queries and keys are rotated by their positions, values are not. A cache keeps these k and v.",
      split));
    steps.push(step("repeat", "repeat k, v", "k, v ← one copy per query head",
      times === 1 ? "There are already as many key heads as query heads, so nothing is repeated."
        : `Each key head and each value head serves ${times} query heads, so there are ${times} copies of it.`,
      [["q, k, v", headsOf("n")]]));
  }
  const whom = causal ? "itself and earlier ones; later ones get 0"
    : memory ? "the tokens of the memory" : "all tokens, itself included";
  steps.push(
    step("weights", "softmax", `weights ← softmax(${causal ? "causal " : ""}q kᵀ / √d_head)`,
      `In each head, each token distributes a total weight of 1 over ${whom}.`,
      [["weights", ["batch", "n_heads", "n", keys]]]),
    step("mix", "weights · v", "mixed ← weights v",
      "Each head averages its values with these weights: again one row for each token of x.",
      [["mixed", headsOf("n")]]),
    step("W_o", "W_o", `${name} ← W_o (heads side by side)`,
      "The heads are put side by side and mixed by one map, as wide as the stream again.",
      [[name, STREAM]], linear(`${part}.W_o`, "d_model", "d_model")));
  return steps;
}

function feedForwardSteps(gated) {
  const part = "feed_forward", step = branch(part);
  const down = "A last map brings each token back to the width of the stream.";
  if (!gated) {
    return [
      step("W_1", "W_1, GELU", "u ← gelu(W_1 h)", "A map to more numbers, then GELU on each of them. " +
        "No token sees another here.", [["u", INNER]], linear(`${part}.W_1`, "d_ff", "d_model", true)),
      step("W_2", "W_2", "f ← W_2 u", down, [["f", STREAM]], linear(`${part}.W_2`, "d_model", "d_ff", true))];
  }
  return [
    step("W_gate", "W_gate, W_up", "gate, up ← W_gate h, W_up h",
      "Two maps of the same row, equally wide. No token sees another here.", [["gate, up", INNER]],
      [...linear(`${part}.W_gate`, "d_ff", "d_model"), ...linear(`${part}.W_up`, "d_ff", "d_model")]),
    step("gating", "silu(gate) · up", "u ← silu(gate) · up",
      "Number by number: silu of the gate decides how much of up passes.", [["u", INNER]]),
    step("W_down", "W_down", "f ← W_down u", down, [["f", STREAM]], linear(`${part}.W_down`, "d_model", "d_ff"))];
}

function stepsOf(kind, size) {
  const llama = kind === "llama";
  const subLayers = {
    encoder: () => [["a", attentionSteps("attention", "a", { size })]],
    decoder: () => [["a", attentionSteps("self_attention", "a", { size, causal: true })],
      ["c", attentionSteps("cross_attention", "c", { size, memory: true })]],
    llama: () => [["a", attentionSteps("attention", "a", { size, causal: true, grouped: true })]],
  }[kind]();
  subLayers.push(["f", feedForwardSteps(llama)]);
  const steps = [arrival("x", "stream", "x", "x comes in", "x", STREAM,
    "One row of numbers for each token: the residual stream. It runs straight through the block.")];
  subLayers.forEach(([name, inside], i) => {
    steps.push(normStep(`norm_${i + 1}`, llama));
    if (inside[0].part === "cross_attention") {
      steps.push(arrival("memory", "side", "memory", "memory comes in", "memory", ["batch", "n_memory", "d_model"],
        "The encoder's output comes in from the side: as wide as the stream, with its own tokens."));
    }
    const last = i === subLayers.length - 1;
    steps.push(...inside, arrival(`add_${i + 1}`, "stream", "+", `x ← x + ${name}`, "x", STREAM,
      last ? "Added. The output has the shape of the input, so that blocks can be stacked."
        : "The sub-layer's result is added. It replaces nothing: what was in the stream is still in the sum."));
  });
  return steps;
}

// kind and sizes -> what flows. nodes: [{id, part, lane, label, line, says, out: [{name, axes, shape}],
// learns: [{name, axes, shape}], parameters}], in the order of the steps; `line` is an index into `lines`.
// edges: [{from, to, name, shape}], `from` and `to` being ids, the last edge goes to "out".
// parts: [{name, parameters}] and their total.
export function compute({ kind, code = {}, ...given }) {
  const size = { ...given, d_head: given.d_model / given.n_heads };
  size.d_kv = size.n_kv_heads * size.d_head;
  const shapeOf = (axes) => axes.map((axis) => size[axis]);
  const lines = [];
  const nodes = stepsOf(kind, size).map((step, i) => {
    const line = code[kind] ? code[kind][i] : step.line;
    if (line || !lines.length) lines.push(line);
    const learns = step.learns.map(({ name, axes }) => ({ name, axes, shape: shapeOf(axes) }));
    return { ...step, learns, line: lines.length - 1,
      out: step.out.map(([name, axes]) => ({ name, axes, shape: shapeOf(axes) })),
      parameters: sum(learns.map(({ shape }) => shape.reduce((a, b) => a * b))) };
  });

  const edges = [];
  const connect = (from, to) => from.out.forEach(({ name, shape }) =>
    edges.push({ from: from.id, to: to?.id ?? "out", name, shape }));
  nodes.forEach((node, i) => {
    const after = nodes.slice(i + 1).filter((next) => next.lane !== "side");
    connect(node, after[0]);
    const further = after.find((next) => next.lane === "stream");
    if (node.lane === "stream" && further) connect(node, further); // past the sub-layer, unchanged
  });

  const parts = [];
  for (const { part, parameters } of nodes) {
    if (!part) continue;
    if (parts.at(-1)?.name !== part) parts.push({ name: part, parameters: 0 });
    parts.at(-1).parameters += parameters;
  }
  return { nodes, edges, lines, parts, total: sum(nodes.map(({ parameters }) => parameters)) };
}

const shapesText = (out) => out.map(({ name, shape }) => `${name} ${tuple(shape)}`).join(" · ");

// The parameters of a step with the product behind them.
function learnsText({ learns, parameters }) {
  if (!learns.length) return "Nothing is learned here.";
  const terms = learns.map(({ name, shape }) => {
    const [owner, kind] = name.split(".").slice(-2);
    return `${kind === "weight" && shape.length > 1 ? owner : kind} ${shape.map(grouped).join(" × ")}`;
  });
  return `${grouped(parameters)} parameters: ${terms.join(", ")}.`;
}

// Where things are in the diagram, in CSS pixels; the style sheet has the same numbers.
const ROW = 25;
const NODE = 24;
const MAIN = 18; // the residual stream
const LEFT = 60; // left edge of what has left it
const AXIS = 84; // where one step of a branch leads to the next
const SIDE = 174; // what comes from the side
const top = (row) => row * ROW + 2;
const middle = (row) => top(row) + NODE / 2;
const bottom = (row) => top(row) + NODE;

const NARROW = { encoder: 112, decoder: 147, llama: 126 }; // the longest words of a step, on a phone

// The path of an edge and its arrowhead, between two nodes with their rows.
function edgePath(from, to) {
  const down = (x, y) => `M${x - 4} ${y - 6}L${x} ${y}L${x + 4} ${y - 6}`;
  if (from.lane === "stream" && (!to || to.lane === "stream")) {
    const end = to ? top(to.row) : bottom(from.row) + 24;
    return [`M${MAIN} ${bottom(from.row)}V${end - 2}`, down(MAIN, end)];
  }
  if (from.lane === "stream") {
    const y = middle(to.row);
    return [`M${MAIN} ${y - 12}Q${MAIN} ${y} ${MAIN + 12} ${y}H${LEFT - 2}`,
      `M${LEFT - 7} ${y - 4}L${LEFT - 1} ${y}L${LEFT - 7} ${y + 4}`];
  }
  if (to.lane === "stream") {
    const y = middle(to.row), x = MAIN + NODE / 2;
    return [`M${AXIS} ${bottom(from.row)}V${y - 10}Q${AXIS} ${y} ${AXIS - 10} ${y}H${x + 2}`,
      `M${x + 7} ${y - 4}L${x + 1} ${y}L${x + 7} ${y + 4}`];
  }
  const x = from.lane === "side" ? SIDE : AXIS;
  return [`M${x} ${bottom(from.row)}V${top(to.row) - 2}`, down(x, top(to.row) - 1)];
}

export default widget("block_stepper", "A transformer block, step by step",
  ["kind", ...SIZES, "code", "step"], ({ root, summary, say, model, read }) => {
  let parts = null; // the elements, made again when the block or a size changes
  let flow = null;

  const go = (step) => change(model, { step: clamp(step, 0, flow.nodes.length - 1) });

  // Up and down in the diagram or in the code; the focus moves along.
  const walk = (event, where, at, count) => {
    const to = keyOf(event, { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: count - 1 });
    if (to === undefined) return;
    const next = clamp(to, 0, count - 1);
    go(where === "nodes" ? next : flow.nodes.findIndex(({ line }) => line === next));
    parts[where][next].focus();
  };

  const build = rebuilder((state) => {
    const { kind } = state;
    flow = compute(state);
    const { nodes, edges, lines } = flow;
    const rows = new Map(nodes.map((node, row) => [node.id, { ...node, row }]));
    parts = {};
    parts.kinds = Object.entries(BLOCKS).map(([name, label]) => h("button", { type: "button", "data-kind": name,
      "aria-pressed": String(name === kind), onclick: () => change(model, { kind: name, step: 0 }) }, label));
    parts.start = button("start", "Start", () => go(0));
    parts.back = button("back", "Back", () => go(model.get("step") - 1));
    parts.step = button("step", "Step", () => go(model.get("step") + 1), { class: "bs-step" });
    parts.end = button("end", "End", () => go(nodes.length - 1));
    parts.line = h("code", { class: "bs-line" });
    parts.shapes = h("p", { class: "bs-shapes aw-numbers", "data-value": "shapes" });
    parts.learns = h("p", { class: "bs-learns aw-numbers", "data-value": "learns" });

    // The diagram: lines below, boxes above.
    parts.edges = edges.map((edge) => {
      const [path, head] = edgePath(rows.get(edge.from), rows.get(edge.to));
      const stream = rows.get(edge.from).lane === "stream" && (rows.get(edge.to)?.lane ?? "stream") === "stream";
      return s("g", { class: stream ? "bs-edge bs-stream" : "bs-edge", "data-edge": `${edge.from} ${edge.to}` },
        s("path", { d: path }), s("path", { d: head }));
    });
    const height = nodes.length * ROW + 16;
    // The stream last, so that it is drawn above what leaves it.
    const drawn = s("svg", { width: 300, height, "aria-hidden": "true" },
      ...parts.edges.filter((edge) => !edge.matches(".bs-stream")),
      ...parts.edges.filter((edge) => edge.matches(".bs-stream")));
    parts.nodes = nodes.map((node, row) => h("button", { type: "button", "data-node": node.id,
      class: `bs-node bs-${node.lane}`, style: `top: ${top(row)}px`, onclick: () => go(row),
      "aria-label": `${node.label}, step ${row + 1} of ${nodes.length}: ${shapesText(node.out)}`,
      onkeydown: (event) => walk(event, "nodes", row, nodes.length) }, node.label));
    parts.labels = nodes.map((node, row) => h("span", { class: `bs-shape bs-${node.lane}`, "data-shape": node.id,
      style: `top: ${top(row) + 5}px`, "aria-hidden": "true" },
      ...node.out.flatMap(({ name, shape }, i) => [i ? " · " : "", h("i", {}, name), ` ${tuple(shape)}`])));
    parts.boxes = flow.parts.filter(({ name }) => !name.startsWith("norm")).map(({ name }) => {
      const inside = [...rows.values()].filter(({ part }) => part === name);
      return h("span", { class: "bs-box", "data-part": name, "aria-hidden": "true",
        style: `top: ${top(inside[0].row) - 1}px; height: ${(inside.length - 1) * ROW + NODE + 2}px` },
        h("span", {}, name));
    });

    parts.lines = lines.map((text, i) => {
      const its = nodes.filter(({ line }) => line === i).length;
      return h("button", { type: "button", "data-line": `line-${i}`, class: "bs-code-line",
        onclick: () => go(flow.nodes.findIndex(({ line }) => line === i)),
        onkeydown: (event) => walk(event, "lines", i, lines.length), style: `--steps: ${its}` }, text);
    });

    parts.bars = flow.parts.map(({ name, parameters }) =>
      h("i", { "data-part": name, style: `flex-grow: ${parameters}` }));
    parts.chips = flow.parts.map(({ name, parameters }) =>
      h("li", { "data-part": name }, `${name} `, h("b", { "data-value": `parameters-${name}` }, grouped(parameters))));

    const kept = document.activeElement;
    const again = root.contains(kept) && (kept.dataset.kind ? `[data-kind='${kept.dataset.kind}']`
      : kept.dataset.go ? `[data-go='${kept.dataset.go}']` : "[data-go='step']");
    root.replaceChildren(
      h("div", { class: "bs-top" },
        h("div", { class: "bs-group", role: "group", "aria-label": "Block" }, ...parts.kinds),
        h("div", { class: "bs-group", role: "group", "aria-label": "Steps" },
          parts.start, parts.back, parts.step, parts.end)),
      h("div", { class: "bs-about" },
        h("div", { class: "bs-now", style: `--narrow: ${NARROW[kind]}px` }, h("div", { class: "bs-said" }, parts.line), parts.shapes, summary,
          parts.learns),
        h("div", { class: "bs-parameters aw-numbers" },
          h("span", { class: "bs-bar", "aria-hidden": "true" }, ...parts.bars),
          h("ul", { "aria-label": "Parameters" }, ...parts.chips,
            h("li", {}, "together ", h("b", { "data-value": "total" }, grouped(flow.total)))))),
      h("div", { class: "bs-parts" },
        h("div", { class: "bs-diagram", role: "group", "aria-label": "Diagram", style: `height: ${height}px` },
          ...parts.boxes, drawn, ...parts.labels, ...parts.nodes),
        h("div", { class: "bs-code", role: "group", "aria-label": "Code" }, ...parts.lines)));
    if (again) root.querySelector(again)?.focus();
  });

  return () => {
    const state = read();
    const { step: _, ...what } = state;
    build(what, state);
    const { nodes, edges } = flow, at = Math.min(state.step, nodes.length - 1);
    const node = nodes[at];
    const row = (id) => nodes.findIndex((one) => one.id === id);
    const when = (one) => (one < at ? "done" : one === at ? "now" : "later");

    for (const one of [parts.start, parts.back]) one.setAttribute("aria-disabled", String(at === 0));
    for (const one of [parts.step, parts.end]) one.setAttribute("aria-disabled", String(at === nodes.length - 1));
    const mark = (element, current) => {
      if (current) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
      element.tabIndex = current ? 0 : -1;
    };
    parts.nodes.forEach((button, i) => {
      button.dataset.now = when(i);
      mark(button, i === at);
    });
    parts.labels.forEach((label, i) => (label.dataset.now = when(i)));
    parts.edges.forEach((edge, i) => (edge.dataset.now = when(row(edges[i].from))));
    parts.lines.forEach((button, i) => mark(button, i === node.line));
    for (const element of [...parts.boxes, ...parts.bars, ...parts.chips])
      element.classList.toggle("bs-here", element.dataset.part === node.part);

    parts.line.textContent = flow.lines[node.line];
    parts.shapes.replaceChildren(...node.out.map(({ name, axes }) =>
      h("span", {}, h("b", {}, `${name} `), tuple(axes))));
    parts.learns.textContent = learnsText(node);
    const where = `Step ${at + 1} of ${nodes.length}${node.part ? `, ${node.part}` : ""}`;
    say(`${where}: ${node.says} Out: ${shapesText(node.out)}.`);
  };
});
