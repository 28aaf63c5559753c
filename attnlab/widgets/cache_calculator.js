// The size of a key/value cache. `compute` multiplies the sizes of each model; `render` draws them.

const TRAITS = ["presets", "preset", "context", "batch", "bytes_per_element"];
const LONGEST = 2 ** 19; // tokens; with the batch below, every count of bytes stays an exact whole number
const WIDEST = 512;
const WIDTHS = { 4: "float32", 2: "float16, bfloat16", 1: "int8, float8" };

// For each preset: the size of its cache, and `mha`, that of keys and values for every head and every token.
// Sizes are 0 where a model has none: n_kv_heads with a latent row, latent and rope without, window without a bound.
export function compute({ presets, preset, context, batch, bytes_per_element }) {
  const models = presets.map(({ name, n_layers, n_heads, n_kv_heads, d_head, latent, rope, window }) => {
    const size = (numbers, tokens) => {
      const token_bytes = numbers * n_layers * bytes_per_element;
      const bytes = token_bytes * tokens * batch;
      return { numbers, tokens, token_bytes, bytes, gb: bytes / 1e9, gib: bytes / 2 ** 30 };
    };
    const numbers = latent ? latent + rope : 2 * n_kv_heads * d_head; // per token and layer
    const own = size(numbers, window ? Math.min(context, window) : context);
    const mha = size(2 * n_heads * d_head, context);
    const kind = latent ? "MLA" : n_kv_heads === n_heads ? "MHA" : n_kv_heads === 1 ? "MQA" : "GQA";
    return { name, kind, ...own, mha, ratio: mha.bytes / own.bytes };
  });
  return { models, chosen: presets.findIndex(({ name }) => name === preset) };
}

const grouped = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ",");
const plural = (n, word) => `${grouped(n)} ${word}${n === 1 ? "" : "s"}`;

// Three figures: 1.07, 68.7, 549, 8,796; 0.000131.
function figures(x) {
  if (x >= 1000) return grouped(Math.round(x));
  return x >= 1 ? x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2) : x.toPrecision(3).replace("-", "−");
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "cache_calculator", "Size of a key/value cache", model);
  const read = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const { presets: _, ...start } = read();
  let parts = null; // the rows of the models, made anew only when the models change

  // A labeled number field, and a slider whose steps are doublings.
  function control(name, label, unit, most) {
    const set = (value) => change(model, { [name]: value });
    const whole = (value) => value === null || Number.isInteger(value);
    const field = numberField(`${label}, ${unit}`, model.get(name), (value) => whole(value) && set(value),
      { min: 1, max: most, step: 1, inputmode: "numeric", "data-field": name });
    field.addEventListener("input", () => {
      if (!whole(readNumber(field.value))) field.setAttribute("aria-invalid", "true");
    });
    field.addEventListener("change", () => show(model.get(name))); // a fraction does not stay
    const slider = h("input", { type: "range", min: 0, max: Math.log2(most), step: 1, "data-slider": name,
      "aria-label": `${label}, slider by doublings`, oninput: () => set(2 ** Number(slider.value)) });
    const show = (value) => {
      setNumber(field, value);
      slider.value = Math.round(Math.log2(value));
      slider.setAttribute("aria-valuetext", grouped(value));
    };
    const heading = h("span", {}, h("b", {}, label), " ", h("span", { class: "cc-remark" }, unit));
    const block = h("div", { class: "cc-control" }, h("div", { class: "cc-head" }, heading, field), slider);
    return { block, show };
  }
  const controls = {
    context: control("context", "Context", "tokens", LONGEST),
    batch: control("batch", "Batch", "sequences", WIDEST),
  };
  const widths = Object.entries(WIDTHS).reverse().map(([bytes, formats]) => h("button", { type: "button",
    "data-bytes": bytes, "aria-label": `${bytes} bytes, ${formats}`, title: formats,
    onclick: () => change(model, { bytes_per_element: Number(bytes) }) }, bytes));
  const format = h("span", { class: "cc-remark", "data-value": "format" });
  const reset = h("button", { type: "button", "data-go": "reset", onclick: () => change(model, start) }, "Start again");

  const list = h("div", { class: "cc-models", role: "group", "aria-label": "Model" });
  const headline = h("p", { class: "cc-headline aw-numbers", "data-value": "headline" });
  const formula = h("p", { class: "cc-formula aw-numbers", "data-value": "formula" });
  const source = h("p", { class: "cc-source", "data-value": "source" });
  const rows = Object.fromEntries([["numbers", "Numbers per token and layer"], ["token_bytes", "Bytes per token"],
    ["tokens", "Tokens kept"], ["gb", "GB, 10⁹ bytes"], ["gib", "GiB, 2³⁰ bytes"]].map(([name, text]) => {
    const cells = Object.fromEntries(["own", "mha", "ratio"].map((side) =>
      [side, h("td", { class: "aw-numbers", "data-value": `${name}-${side}` })]));
    const line = h("tr", { class: `cc-${name}` }, h("th", { scope: "row" }, text), Object.values(cells));
    return [name, { cells, line }];
  }));
  const table = h("table", { class: "aw-plain cc-table" },
    h("thead", {}, h("tr", {}, h("td"),
      ...["as it is", "as plain MHA", "ratio"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, Object.values(rows).map(({ line }) => line)));

  root.append(
    h("div", { class: "cc-controls" }, controls.context.block, controls.batch.block,
      h("div", { class: "cc-tools" }, h("b", {}, "Bytes per element"),
        h("div", { class: "cc-group", role: "group", "aria-label": "Bytes per element" }, widths), format, reset)),
    list,
    h("p", { class: "cc-legend", "aria-hidden": "true" }, h("span", {}, h("i", { class: "cc-own" }), "its cache"),
      h("span", {}, h("i", { class: "cc-mha" }), "as plain MHA: every head, every token")),
    headline, formula, table, source, summary);

  function build({ presets }) {
    const lines = presets.map(({ name }) => {
      const kind = h("span", { class: "cc-kind" });
      const choose = h("button", { type: "button", "data-model": name, onclick: () => change(model, { preset: name }) },
        h("b", {}, name), " ", kind);
      const [mha, own] = [h("i", { class: "cc-mha" }), h("i", { class: "cc-own" })];
      const value = h("span", { class: "cc-size aw-numbers", "data-size": name });
      const bar = h("span", { class: "cc-bar", "aria-hidden": "true" }, mha, own);
      const line = h("div", { class: "cc-model" }, choose, bar, value);
      return { choose, kind, mha, own, value, line };
    });
    list.replaceChildren(...lines.map(({ line }) => line));
    parts = { lines };
  }

  function paint() {
    const state = read();
    const { presets, preset, context, batch, bytes_per_element } = state;
    const { models, chosen } = compute(state);
    if (chosen < 0) return; // halfway through a change from Python
    const made = JSON.stringify(presets);
    if (parts?.made !== made) {
      build(state);
      parts.made = made;
    }
    controls.context.show(context);
    controls.batch.show(batch);
    for (const button of widths) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.bytes) === bytes_per_element));
    }
    format.textContent = WIDTHS[bytes_per_element];

    const most = Math.max(...models.map(({ mha }) => mha.bytes));
    parts.lines.forEach(({ choose, kind, mha, own, value }, i) => {
      const one = models[i];
      choose.setAttribute("aria-pressed", String(i === chosen));
      kind.textContent = presets[i].window ? `${one.kind}, window` : one.kind;
      mha.style.width = `${(100 * one.mha.bytes) / most}%`;
      own.style.width = `${(100 * one.bytes) / most}%`;
      value.textContent = `${figures(one.gb)} GB`;
    });

    const one = models[chosen];
    const { n_layers, n_kv_heads, d_head, latent, rope, window } = presets[chosen];
    const row = latent ? `(${latent} + ${rope})` : `2 × ${plural(n_kv_heads, "head")} × ${d_head}`;
    const kept = window && window < context ? `${plural(window, "token")} of the window` : plural(context, "token");
    headline.textContent = `${preset}: ${figures(one.gb)} GB = ${figures(one.gib)} GiB`;
    formula.textContent = `${plural(n_layers, "layer")} × ${row} × ${kept} × ${plural(batch, "sequence")} × `
      + `${plural(bytes_per_element, "byte")} = ${plural(one.bytes, "byte")}`;
    source.textContent = presets[chosen].source && `Sizes of ${preset}: ${presets[chosen].source}`;
    for (const [name, { cells }] of Object.entries(rows)) {
      const write = name.startsWith("g") ? figures : grouped;
      cells.own.textContent = write(one[name]);
      cells.mha.textContent = write(one.mha[name]);
      cells.ratio.textContent = (one.mha[name] / one[name]).toFixed(2);
    }

    const { n_heads } = presets[chosen];
    const less = [latent ? `one latent row for all ${n_heads} heads`
      : n_kv_heads < n_heads ? `${n_kv_heads} of ${n_heads} heads` : "",
    window && window < context ? "a window of the tokens" : ""].filter(Boolean).join(" and ");
    say(`The cache of ${preset} for ${plural(context, "token")} and ${plural(batch, "sequence")}, `
      + `${plural(bytes_per_element, "byte")} per number, takes ${figures(one.gb)} GB, `
      + `which is ${figures(one.gib)} GiB. `
      + (less ? `It keeps ${less}; as plain multi-head attention it would be ${one.ratio.toFixed(2)} times as large.`
        : "It is plain multi-head attention: keys and values of every head and every token are kept."));
  }

  paint();
  const stop = listen(model, TRAITS, paint);
  return () => {
    stop();
    el.replaceChildren();
  };
}

export default { render };
