// One block with nine switches. `compute` counts what each setting costs; the view shows it beside Llama 2's block.

// Switch -> its name, and a model that has it.
const SWITCHES = {
  normed: ["norms of q and k", "Qwen3"],
  wide: ["wider heads", "Qwen3-4B"],
  sink: ["learned sink", "gpt-oss"],
  window: ["window", "Gemma 3"],
  stretched: ["slower pairs", "Llama 3.1"],
  latent: ["latent", "DeepSeek-V3"],
  gated: ["output gate", "Qwen3-Next"],
  state: ["states", "Qwen3-Next"],
  experts: ["experts", "gpt-oss-20b"],
};
const NAMES = Object.keys(SWITCHES);
const METERS = [["parameters", "parameters of the block"], ["used", "used by one token"],
  ["cache", "cache, bytes per token"], ["work", "multiply-adds for a token"]];
const BYTES = 2, STATE_BYTES = 4; // per number
const SHORTEST = 10, LONGEST = 17; // lengths as powers of two
const REACH = 4.5; // the scale goes from 1/23 to 23, as powers of two

function count(z, on, n) {
  const d = on.wide ? z.wide_head : z.d_head;
  const heads = z.n_heads * d, keys = z.n_kv_heads * d;
  let maps, kept, perKey;
  if (on.latent) {
    maps = z.d_model * (2 * heads + z.n_heads * z.d_rope + z.d_latent + z.d_rope) + 2 * z.d_latent * heads;
    kept = z.d_latent + z.d_rope;
    perKey = z.n_heads * (2 * z.d_latent + z.d_rope); // the matrices are moved over to query and output
  } else {
    maps = 2 * z.d_model * (heads + keys);
    kept = 2 * keys;
    perKey = 2 * heads;
  }
  maps += on.gated * z.d_model * heads;
  const small = 2 * z.d_model + on.normed * 2 * d + on.sink * z.n_heads + on.latent * z.d_latent;
  const router = z.d_model * z.n_experts, one = 3 * z.d_model * z.d_expert;
  const network = on.experts ? router + z.n_experts * one : 3 * z.d_model * z.d_ff;
  const used = on.experts ? router + z.top_k * one : network;
  const seen = on.window ? (n + (z.full - 1) * Math.min(n, z.window)) / z.full : n;
  const attention = { parameters: maps + small + network, used: maps + small + used, cache: (BYTES * kept * seen) / n,
    work: maps + used + perKey * seen };
  return on.state ? mean(attention, withState(z, network, used, n), 1 / z.attending) : attention;
}

// The numbers of a layer that keeps a state: the gated delta rule.
function withState(z, network, used, n) {
  const keys = z.n_state_keys * z.d_state, values = z.n_states * z.d_state, numbers = values * z.d_state;
  const maps = z.d_model * (2 * keys + 3 * values + 2 * z.n_states) + z.conv * (2 * keys + values);
  const small = 2 * z.d_model + 2 * z.n_states + z.d_state;
  return { parameters: maps + small + network, used: maps + small + used, cache: (STATE_BYTES * numbers) / n,
    work: maps + used + 4 * numbers }; // fade, recall, write, read
}

const mean = (one, other, share) =>
  Object.fromEntries(Object.keys(one).map((name) => [name, share * one[name] + (1 - share) * other[name]]));

// The numbers of the block as it is (`own`) and without any switch (`base`), and how many times as large they are.
export function compute({ sizes, tokens, ...state }) {
  const on = Object.fromEntries(NAMES.map((name) => [name, Number(state[name])]));
  const own = count(sizes, on, tokens);
  const base = count(sizes, Object.fromEntries(NAMES.map((name) => [name, 0])), tokens);
  return { own, base, times: METERS.map(([name]) => own[name] / base[name]) };
}

// The steps of the block: what happens, the shape that comes out, and the switches that change it.
function stepsOf(z, on) {
  const d = on.wide ? z.wide_head : z.d_head;
  const groups = on.latent ? z.n_heads : z.n_kv_heads;
  const query = on.latent ? `${d} + ${z.d_rope}` : d;
  return [
    ["norm", `(n, ${z.d_model})`, []],
    ["queries", `(${z.n_heads}, n, ${query})`, ["wide", "latent"]],
    [on.latent ? "one latent, one rotated key" : "keys and values",
      on.latent ? `(n, ${z.d_latent}), (n, ${z.d_rope})` : `2 × (${groups}, n, ${d})`,
      on.latent ? ["latent"] : ["wide"]],
    [on.normed ? "norm q and k, rotate" : "rotate",
      on.stretched ? `slow pairs ÷ ${z.factor}` : "by position", ["normed", "stretched"]],
    [on.sink ? "scores, sink" : "scores",
      on.window ? `(${z.n_heads}, n, ${z.window}), ${z.full - 1} of ${z.full} layers` : `(${z.n_heads}, n, n)`,
      ["sink", "window"]],
    [on.gated ? "weights, average, gate, W_o" : "weights, average, W_o", `(n, ${z.d_model})`, ["gated"]],
    ["layers with a state", on.state
      ? `${z.attending - 1} of ${z.attending}: (${z.n_states}, ${z.d_state}, ${z.d_state})` : "none", ["state"]],
    ["norm", `(n, ${z.d_model})`, []],
    [on.experts ? `${z.top_k} of ${z.n_experts} experts` : "SwiGLU",
      `inside ${on.experts ? `${z.top_k} × ${z.d_expert}` : z.d_ff}`, ["experts"]],
  ];
}

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

// Three figures and a unit: 84.2 M, 1.02 k, 640.
function short(x) {
  const [size, unit] = UNITS.find(([least]) => x >= least) ?? [1, ""];
  const y = x / size;
  return `${y >= 100 ? y.toFixed(0) : y >= 10 ? y.toFixed(1) : y.toFixed(2)} ${unit}`.trim();
}
const ratio = (x) => `× ${x >= 10 ? x.toFixed(1) : x.toFixed(2)}`;

export default widget("block_switches", "One block with nine switches", ["sizes", "tokens", ...NAMES], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const { sizes: _, ...start } = read();

  const buttons = NAMES.map((name) => h("button", { type: "button", "data-switch": name,
    onclick: () => change(model, { [name]: !model.get(name) }) }, h("b", {}, SWITCHES[name][0]), " ",
  h("span", {}, SWITCHES[name][1])));
  const slider = rangeInput("tokens", "Tokens in the text", { min: SHORTEST, max: LONGEST, step: 1 },
    (power) => change(model, { tokens: 2 ** power }));
  const length = h("b", { class: "aw-numbers", "data-value": "tokens" });
  const again = button("reset", "Start again", () => change(model, start));

  const lines = range(9, () => {
    const [name, shape] = [h("span"), h("code")];
    return { name, shape, line: h("li", {}, name, shape) };
  });
  const meters = METERS.map(([name, words]) => {
    const bar = h("i"), times = h("b", { class: "aw-numbers", "data-times": name });
    const value = h("span", { class: "aw-numbers", "data-value": name });
    const line = h("div", { class: "bs-meter" }, h("span", {}, words), value,
      h("span", { class: "bs-track", "aria-hidden": "true" }, bar), times);
    return { bar, times, value, line };
  });
  root.append(
    h("div", { class: "bs-switches", role: "group", "aria-label": "Switches" }, buttons),
    h("div", { class: "bs-length" }, h("span", {}, "text of ", length, " tokens"), slider, again),
    h("div", { class: "bs-body" }, h("ol", { class: "bs-steps" }, lines.map(({ line }) => line)),
      h("div", {}, h("div", { class: "bs-meters" }, meters.map(({ line }) => line)),
        h("p", { class: "bs-remark" }, "Beside Llama 2’s block. From dot to dot: twice as much. Two bytes per number, in a state four. "
          + "With states or a window: the mean of the layers."))),
    summary);

  const motion = animate(({ logs }) => meters.forEach(({ bar, times }, at) => {
    const log = logs[at], end = clamp(log, -REACH, REACH);
    stretch(bar, 0.5, 0.5 + end / REACH / 2);
    times.textContent = ratio(2 ** log);
  }), 500);

  return () => {
    const state = read();
    const { own, base, times } = compute(state);
    for (const button of buttons) button.setAttribute("aria-pressed", String(state[button.dataset.switch]));
    slider.value = Math.round(Math.log2(state.tokens));
    length.textContent = grouped(state.tokens);
    slider.setAttribute("aria-valuetext", `${length.textContent} tokens`);
    stepsOf(state.sizes, state).forEach(([name, shape, by], at) => {
      lines[at].name.textContent = name;
      lines[at].shape.textContent = shape;
      lines[at].line.classList.toggle("bs-changed", by.some((one) => state[one]));
    });
    METERS.forEach(([name], at) => {
      meters[at].value.textContent = short(own[name]);
      meters[at].line.classList.toggle("bs-more", times[at] > 1.005);
      meters[at].line.classList.toggle("bs-less", times[at] < 0.995);
    });
    motion.to({ logs: times.map(Math.log2) });
    const on = NAMES.filter((name) => state[name]).map((name) => `${SWITCHES[name][0]} as in ${SWITCHES[name][1]}`);
    say(`${on.length ? on.join(", ") : "Llama 2’s block"}. ${METERS.map(([name, words], at) =>
      `${words}: ${short(own[name])}, ${times[at].toFixed(2)} times ${short(base[name])}`).join("; ")}.`);
  };
});
