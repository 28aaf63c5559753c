// The size of a key/value cache. `compute` multiplies the sizes of each model; the view draws them.

const LONGEST = 2 ** 19; // tokens; with the batch below, every count of bytes stays an exact whole number
const WIDEST = 512;
const WIDTHS = { 4: "float32", 2: "float16, bfloat16", 1: "int8, float8" };
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const STATE_BYTES = 4; // per number of a state, whatever the cache has
const MOST_POWER = 17; // of ten bytes, more than any cache that can be chosen

// For each preset: the size of its cache, and `mha`, that of keys and values for every head and every token.
// Sizes are 0 where a model has none: n_kv_heads with a latent row, latent and rope without, window without a bound,
// window_layers where all layers have the window, state and state_layers where all layers have a cache.
export function compute({ presets, preset, context, batch, bytes_per_element }) {
  const models = presets.map(({ name, n_layers, n_heads, n_kv_heads, d_head, latent, rope, window,
    window_layers, state, state_layers }) => {
    const attending = n_layers - state_layers;
    const states = state_layers * state * STATE_BYTES * batch;
    const size = (numbers, layers, rows, fixed) => { // rows: tokens, of all layers together
      const token_bytes = numbers * layers * bytes_per_element;
      const bytes = numbers * bytes_per_element * rows * batch + fixed;
      return { token_bytes, bytes, gb: bytes / 1e9, gib: bytes / 2 ** 30 };
    };
    const numbers = latent ? latent + rope : 2 * n_kv_heads * d_head; // per token and layer
    const bounded = window ? window_layers || attending : 0;
    const own = size(numbers, attending, bounded * Math.min(context, window) + (attending - bounded) * context, states);
    const mha = size(2 * n_heads * d_head, n_layers, n_layers * context, 0);
    const kind = latent ? "MLA" : n_kv_heads === n_heads ? "MHA" : n_kv_heads === 1 ? "MQA" : "GQA";
    return { name, kind, ...own, states, mha, ratio: mha.bytes / own.bytes };
  });
  return { models, chosen: presets.findIndex(({ name }) => name === preset) };
}

// Three figures: 1.07, 68.7, 549, 8,796; 0.000131.
function figures(x) {
  if (x >= 1000) return grouped(Math.round(x));
  return x >= 1 ? x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2) : x.toPrecision(3).replace("-", "−");
}

export default widget("cache_calculator", "Size of a key/value cache",
  ["presets", "preset", "context", "batch", "bytes_per_element"], ({ root, summary, say, model, read, animate }) => {
  const { presets: _, ...start } = read();
  let lines = null; // the rows of the models, made again only when the models change

  // A name, a slider whose steps are doublings, and a number field.
  function control(name, label, unit, most) {
    const { field, slider, show } = fieldAndSlider(name, `${label}, ${unit}`, (value) => change(model, { [name]: value }), {
      field: { min: 1, max: most, step: 1, whole: true },
      slider: { min: 0, max: Math.log2(most), step: 1, "aria-label": `${label}, slider by doublings` },
      from: (power) => 2 ** power, to: (value) => Math.round(Math.log2(value)),
    });
    const block = h("div", { class: "cc-control" }, h("span", {}, h("b", {}, label), " ",
      h("span", { class: "cc-remark" }, unit)), slider, field);
    return { block, show };
  }
  const controls = {
    context: control("context", "context", "tokens", LONGEST),
    batch: control("batch", "batch", "texts", WIDEST),
  };
  const widths = Object.entries(WIDTHS).reverse().map(([bytes, formats]) => h("button", { type: "button",
    "data-bytes": bytes, title: formats, onclick: () => change(model, { bytes_per_element: Number(bytes) }) }, bytes));
  const format = h("span", { class: "cc-remark", "data-value": "format" });
  const reset = button("reset", "Start again", () => change(model, start));

  // Powers of ten as marks of a logarithmic scale, which moves with the sizes.
  const axis = h("div", { class: "cc-axis aw-numbers", "aria-hidden": "true" });
  const marks = range(MOST_POWER + 1, (power) => ({ power, node: h("span", { class: "cc-mark" },
    h("span", {}, `${10 ** (power % 3)} ${UNITS[Math.floor(power / 3)]}`)) }));
  axis.append(...marks.map(({ node }) => node));
  const rows = h("div", { class: "cc-rows", role: "group", "aria-label": "Model" });
  const headline = h("p", { class: "cc-headline aw-numbers", "data-value": "headline", "data-held": "" });
  const formula = h("p", { class: "cc-formula aw-numbers", "data-value": "formula", "data-held": "" });
  const source = h("span", { "data-value": "source" });

  root.append(
    h("div", { class: "cc-controls" }, controls.context.block, controls.batch.block,
      h("div", { class: "cc-tools" }, h("span", {}, h("b", {}, "bytes"), " per number"),
        h("div", { class: "cc-group", role: "group", "aria-label": "Bytes per number" }, widths), format, reset)),
    h("div", { class: "cc-models" }, axis, rows),
    h("p", { class: "cc-legend", "aria-hidden": "true" }, h("span", {}, h("i", { class: "cc-own" }), "its cache"),
      h("span", {}, h("i", { class: "cc-mha" }), "with keys and values of every head, every token")),
    headline, formula, h("p", { class: "cc-source" }, source), summary);

  const build = rebuilder(({ presets }) => {
    lines = presets.map(({ name }) => {
      const kind = h("span", { class: "cc-kind" });
      const choose = h("button", { type: "button", "data-model": name, onclick: () => change(model, { preset: name }) },
        h("b", {}, name), " ", kind);
      const [link, mha, own] = ["cc-link", "cc-mha", "cc-own"].map((part) => h("i", { class: part }));
      const [value, ratio] = [["data-size", "cc-size"], ["data-ratio", "cc-ratio"]].map(([data, part]) =>
        h("span", { class: `${part} aw-numbers`, [data]: name, "data-held": "" }));
      const line = h("div", { class: "cc-model" }, choose,
        h("span", { class: "cc-track", "aria-hidden": "true", "data-held": "" }, link, mha, own), value, ratio);
      return { choose, kind, link, mha, own, value, ratio, line };
    });
    rows.replaceChildren(...lines.map(({ line }) => line));
  });

  // One frame: sizes are powers of ten of bytes, `low` and `high` the ends of the scale.
  function draw({ low, high, own, mha, chosen }) {
    const across = (power) => (100 * (power - low)) / (high - low);
    for (const { power, node } of marks) {
      const place = across(power);
      node.style.left = `${place}%`;
      node.hidden = place < -0.01 || place > 100.01;
    }
    lines.forEach((line, i) => {
      const [left, right] = [across(own[i]), across(mha[i])];
      line.own.style.left = `${left}%`;
      line.mha.style.left = `${right}%`;
      stretch(line.link, Math.min(left, right) / 100, Math.max(left, right) / 100);
      line.value.textContent = `${figures(10 ** own[i] / 1e9)} GB`;
    });
    const bytes = 10 ** chosen;
    headline.textContent = `${model.get("preset")}: ${figures(bytes / 1e9)} GB = ${figures(bytes / 2 ** 30)} GiB`;
  }
  const motion = animate(draw, 300);

  return () => {
    const state = read();
    const { presets, preset, context, batch, bytes_per_element } = state;
    const { models, chosen } = compute(state);
    if (chosen < 0) return; // halfway through a change from Python
    const fresh = build(presets, state);
    controls.context.show(context, grouped(context));
    controls.batch.show(batch, grouped(batch));
    for (const button of widths)
      button.setAttribute("aria-pressed", String(Number(button.dataset.bytes) === bytes_per_element));
    format.textContent = WIDTHS[bytes_per_element];

    lines.forEach(({ choose, kind, ratio }, i) => {
      choose.setAttribute("aria-pressed", String(i === chosen));
      kind.textContent = models[i].kind + (presets[i].window ? ", window" : "") + (presets[i].state ? ", state" : "");
      const times = models[i].ratio;
      ratio.textContent = times < 1 ? `× ${plain(1 / times, 1)}` : `÷ ${plain(times, 1)}`;
    });
    const own = models.map(({ bytes }) => Math.log10(bytes));
    const mha = models.map((one) => Math.log10(one.mha.bytes));
    motion.to({ low: Math.floor(Math.min(...own)), high: Math.ceil(Math.max(...mha, ...own)), own, mha, chosen: own[chosen] },
      { jump: fresh });

    const one = models[chosen];
    const { n_layers, n_heads, n_kv_heads, d_head, latent, rope, window, window_layers, state_layers,
      state: numbers } = presets[chosen];
    const attending = n_layers - state_layers;
    const row = latent ? `(${latent} + ${rope})` : `2 × ${plural(n_kv_heads, "head")} × ${d_head}`;
    const kept = window && window < context ? `${plural(window, "token")} of the window` : plural(context, "token");
    const rest = window && window < context && window_layers ? attending - window_layers : 0;
    const rows = rest ? `(${plural(window_layers, "layer")} × ${kept} + ${rest} × ${grouped(context)}) × ${row}`
      : `${plural(attending, "layer")} × ${row} × ${kept}`;
    const states = numbers ? ` + ${plural(state_layers, "layer")} × ${grouped(numbers)} × ${plural(batch, "text")} × `
      + plural(STATE_BYTES, "byte") : "";
    formula.textContent = `${rows} × ${plural(batch, "text")} × `
      + `${plural(bytes_per_element, "byte")}${states} = ${plural(one.bytes, "byte")}`;
    source.textContent = presets[chosen].source;

    const some = latent ? `one latent row for all ${n_heads} heads`
      : n_kv_heads < n_heads ? `${n_kv_heads} of ${n_heads} heads` : "";
    const recent = window && window < context
      ? `a window of the tokens${rest ? ` in ${window_layers} of ${n_layers} layers` : ""}` : "";
    const fixed = numbers ? `a state of fixed size in ${state_layers} of ${n_layers} layers` : "";
    const less = [some, recent, fixed].filter(Boolean).join(" and ");
    say(`The cache of ${preset} for ${plural(context, "token")} and ${plural(batch, "text")}, `
      + `${plural(bytes_per_element, "byte")} per number, takes ${figures(one.gb)} GB, `
      + `which is ${figures(one.gib)} GiB. `
      + (less ? `It keeps ${less}; as plain multi-head attention it would be ${one.ratio.toFixed(2)} times as large.`
        : "It is plain multi-head attention: keys and values of every head and every token are kept."));
  };
});
