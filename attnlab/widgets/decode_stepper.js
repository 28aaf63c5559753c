// Writing token by token. `compute` counts every pass with a cache and without; the view draws one of them.

const SCHEMES = {
  mha: "multi-head", gqa: "grouped-query", mqa: "multi-query", mla: "multi-head latent",
};
const SIDES = ["cached", "full"];

// The state of the rows of token `place` in pass `index`, both from 0, after a prompt of p tokens.
// now: computed for the first time; read: taken from the cache; again: computed before and computed once more;
// written: the token this pass writes, which has no rows yet; later: not there yet.
function rowState(side, place, index, p) {
  const known = p + index;
  if (place >= known) return place === known ? "written" : "later";
  if (index === 0 || place === known - 1) return "now";
  return side === "cached" ? "read" : "again";
}

// All counts. Each pass has two sides: `cached`, with a cache, and `full`, without. For MLA the multiply-adds are null.
export function compute({ n_layers, n_heads, n_kv_heads, d_head, d_model, latent, rope, bytes_per_element, prompt,
  continuation, scheme, step }) {
  const p = prompt.length;
  const heads = { mha: n_heads, gqa: n_kv_heads, mqa: 1, mla: null }[scheme];
  const perScheme = (f) => Object.fromEntries(Object.keys(SCHEMES).map((name) => [name, f(name)]));
  const row = 2 * d_head; // one key and one value
  const numbers = { mha: row * n_heads, gqa: row * n_kv_heads, mqa: row, mla: latent + rope };
  const held = p + step; // tokens in the cache after this pass
  const token_bytes = perScheme((name) => numbers[name] * n_layers * bytes_per_element);

  // Multiply-adds of one layer that processes n_q tokens against n_kv keys.
  const cost = (n_q, n_kv) => {
    if (heads === null) return { projections: null, attention: null, layer: null, total: null };
    const projections = n_q * (2 * d_model * d_model + 2 * d_model * heads * d_head); // Q and O, K and V
    const attention = 2 * n_q * n_kv * d_model; // scores and weighted sums, masked pairs included
    return { projections, attention, layer: projections + attention, total: n_layers * (projections + attention) };
  };
  const so_far = { cached: { multiply_adds: 0, rows: 0 }, full: { multiply_adds: 0, rows: 0 } };
  const passes = continuation.map((_, index) => {
    const keys = p + index;
    const side = (name, tokens) => {
      const counted = cost(tokens, keys);
      const sum = so_far[name];
      sum.rows += tokens;
      sum.multiply_adds = counted.total === null ? null : sum.multiply_adds + counted.total;
      return { tokens, keys, ...counted, so_far: sum.multiply_adds, rows_so_far: sum.rows };
    };
    return { cached: side("cached", index === 0 ? p : 1), full: side("full", keys) };
  });

  const { cached, full } = passes[step];
  const over = (a, b) => (a === null ? null : a / b);
  const states = (side) => [...prompt, ...continuation].map((_, place) => rowState(side, place, step, p));
  return {
    heads, numbers, held, token_bytes,
    held_bytes: perScheme((name) => held * token_bytes[name]),
    rows: { cached: states("cached"), full: states("full") },
    passes,
    ratio: over(full.total, cached.total),
    ratio_so_far: over(full.so_far, cached.so_far),
  };
}

// 1234567 -> "1,234,567"; counts of a hundred million and more in words, with four figures.
function counted(x) {
  if (x < 1e8) return grouped(x);
  const [unit, word] = x < 1e9 ? [1e6, "million"] : x < 1e12 ? [1e9, "billion"] : [1e12, "trillion"];
  const digits = x / unit >= 1000 ? 0 : x / unit >= 100 ? 1 : x / unit >= 10 ? 2 : 3;
  return `${(x / unit).toFixed(digits)} ${word}`;
}

export default widget("decode_stepper", "Decoding with and without a cache",
  ["n_layers", "n_heads", "n_kv_heads", "d_head", "d_model", "latent", "rope", "bytes_per_element", "prompt",
    "continuation", "scheme", "step"], ({ root, summary, say, model, read, animate, onend }) => {
  const start = { step: model.get("step"), scheme: model.get("scheme") };
  let parts = null; // the elements, made again only when tokens change
  let racing = 0; // the frame asked for while both writers run

  const set = (values) => {
    halt();
    change(model, values);
    paint(); // also where nothing changes, and a race was on
  };
  const go = (step) => set(step >= 0 && step < model.get("continuation").length ? { step } : {});
  const race = prefersReducedMotion() ? null : button("race", "Race", run, { class: "ds-next" });
  const back = button("back", "Back", () => go(model.get("step") - 1));
  const next = button("next", "Next", () => go(model.get("step") + 1));
  onend(halt);
  const again = button("reset", "Start again", () => set(start));
  const title = h("p", { class: "ds-title", "data-value": "title" });
  const panels = h("div", { class: "ds-panels" });
  const ratio = h("p", { class: "ds-ratio aw-numbers", "data-value": "ratio", "data-held": "" });

  // The four schemes: a button with the bytes that are held now, as a bar and as a number.
  const schemes = Object.fromEntries(Object.entries(SCHEMES).map(([name, words]) => {
    const [bytes, bar] = [h("span", { class: "aw-numbers", "data-value": `held-${name}` }), h("i")];
    const choose = h("button", { type: "button", "data-scheme": name, title: words,
      onclick: () => change(model, { scheme: name }) }, h("b", {}, name.toUpperCase()),
    h("span", { class: "ds-bar", "aria-hidden": "true" }, bar), bytes);
    return [name, { choose, bytes, bar }];
  }));
  const heldTitle = h("p", { class: "ds-heading" });
  const choice = h("div", { class: "ds-choice", hidden: !model.get("choose_scheme") }, heldTitle,
    h("div", { class: "ds-schemes", role: "group", "aria-label": "Scheme" },
      Object.values(schemes).map(({ choose }) => choose)));

  root.append(
    h("div", { class: "ds-controls" }, title, h("div", { class: "ds-group" }, race, back, next, again)),
    panels, ratio,
    h("p", { class: "ds-legend", "aria-hidden": "true" },
      ...[["now", "computed"], ["read", "read"], ["again", "computed again"]].map(
        ([state, text]) => h("span", {}, h("i", { class: "ds-cell", "data-state": state }), text))),
    choice, summary);

  // For each writer its text, a row of cells for each pass, and a bar of the work.
  const build = rebuilder(({ prompt, continuation }) => {
    halt();
    const [names, p] = [disambiguate([...prompt, ...continuation]), prompt.length];
    parts = { names, p, sides: {}, most: 0 };
    panels.replaceChildren(...SIDES.map((side) => {
      const words = names.map((name, place) => h("span", { class: place < p ? "ds-word" : "ds-word ds-written" },
        tokenNode(name)));
      // Cells in the order of the work. Those of a cache appear when the pass that reads them begins.
      const passes = continuation.map((_, index) => names.map((_, place) => ({
        state: rowState(side, place, index, p), node: h("i", { class: "ds-cell", "data-cell": `${side}-${place}-${index}` }),
      })));
      const work = passes.map((cells) => cells.filter(({ state }) => state === "now" || state === "again").length);
      const ends = work.map((_, index) => sum(work.slice(0, index + 1)));
      parts.most = Math.max(parts.most, ends.at(-1));
      const grid = h("div", { class: "ds-grid", role: "img", style: `--tokens: ${names.length}` }, h("span"), words,
        passes.flatMap((cells, index) => [h("span", { class: "ds-pass" }, String(index + 1)),
          ...cells.map(({ node }) => node)]));
      const [first, more] = [h("i", { class: "ds-first" }), h("i", { class: "ds-more" })];
      const counts = h("span", { class: "aw-numbers", "data-value": `so_far-${side}` });
      parts.sides[side] = { words, passes, ends, grid, first, more, counts };
      return h("div", { class: "ds-panel", "data-side": side },
        h("p", { class: "ds-name" }, h("b", {}, side === "cached" ? "With a cache" : "Without"), counts), grid,
        h("div", { class: "ds-work", "aria-hidden": "true" }, first, more));
    }));
  });

  // One frame: `cached` and `full` are how many tokens each has processed, and parts of one.
  function draw(done) {
    for (const side of SIDES) {
      const { words, passes, ends, first, more } = parts.sides[side];
      const reached = done[side] + 1e-6;
      const { p, most } = parts;
      let repeated = 0;
      passes.forEach((cells, index) => {
        let at = index ? ends[index - 1] : 0;
        const begun = reached > at + 0.01 || (index === 0 && reached > 0.01);
        for (const { state, node } of cells) {
          const works = state === "now" || state === "again";
          const shown = works ? reached >= (at += 1) : begun;
          if (state === "again") repeated += clamp(reached - at + 1, 0, 1);
          const now = shown ? state : "later";
          if (node.dataset.state !== now) node.dataset.state = now;
        }
        words[p + index].classList.toggle("ds-there", reached >= ends[index]);
      });
      first.style.width = `${(100 * (done[side] - repeated)) / most}%`;
      more.style.width = `${(100 * repeated) / most}%`;
    }
    ratio.textContent = `${(done.full / done.cached).toFixed(1)} × the work without a cache`;
  }
  const motion = animate(draw, 450);

  // Both writers process so many tokens in a second, until each has written the text.
  const SPEED = 5;
  function run() {
    halt();
    const last = model.get("continuation").length - 1;
    if (last !== model.get("step")) change(model, { step: last });
    const began = performance.now();
    const frameAt = (moment) => {
      const spent = Math.max(0.001, ((moment - began) * SPEED) / 1000);
      const goals = SIDES.map((side) => parts.sides[side].ends.at(-1));
      const [cached, full] = goals.map((goal) => Math.min(goal, spent));
      racing = spent < Math.max(...goals) ? requestAnimationFrame(frameAt) : 0;
      motion.to({ cached, full }, { jump: true });
      if (!racing) return paint();
      const passOf = (side, done) => Math.min(last, parts.sides[side].ends.findIndex((end) => end > done - 1e-6)) + 1;
      title.textContent = cached < goals[0] ? `With a cache: pass ${passOf("cached", cached)}, without: pass `
        + `${passOf("full", full)}` : `With a cache: done. Without: pass ${passOf("full", full)}`;
    };
    racing = requestAnimationFrame(frameAt);
    paint();
  }

  function halt() {
    cancelAnimationFrame(racing);
    racing = 0;
  }

  function paint() {
    const state = read();
    const { prompt, continuation, scheme, step } = state;
    if (step >= continuation.length) return; // halfway through a change from Python
    const fresh = build([prompt, continuation], state), n = compute(state);
    const p = prompt.length;
    const { cached, full } = n.passes[step];
    const name = (place) => `“${parts.names[place].name}”`;
    const writes = `writes ${name(p + step)}`;
    const none = scheme === "mla";
    back.setAttribute("aria-disabled", String(step === 0));
    next.setAttribute("aria-disabled", String(step === continuation.length - 1));
    root.classList.toggle("ds-latent", none);
    for (const [side, one] of [["cached", cached], ["full", full]]) {
      const { counts, grid } = parts.sides[side];
      counts.textContent = `${plural(one.rows_so_far, "token")} processed`
        + (none ? "" : `, ${counted(one.so_far)} multiply-adds`);
      const computed = n.rows[side].filter((row) => row === "now" || row === "again").length;
      grid.setAttribute("aria-label", `${side === "cached" ? "With" : "Without"} a cache, pass ${step + 1}: `
        + `${plural(computed, "row")} of keys and values computed, ${n.rows[side].filter((row) => row === "read").length} `
        + "read from the cache");
    }
    heldTitle.textContent = `Bytes held for ${plural(n.held, "token")}`;
    const most = Math.max(...Object.values(n.held_bytes));
    for (const [key, { choose, bytes, bar }] of Object.entries(schemes)) {
      choose.setAttribute("aria-pressed", String(key === scheme));
      bytes.textContent = grouped(n.held_bytes[key]);
      bar.style.width = `${(100 * n.held_bytes[key]) / most}%`;
    }
    if (racing) return;
    title.replaceChildren(h("b", {}, `Pass ${step + 1} of ${continuation.length}`),
      step === 0 ? ` reads the prompt (prefill), ${writes}` : ` reads ${name(p + step - 1)} (decode), ${writes}`);
    motion.to({ cached: cached.rows_so_far, full: full.rows_so_far }, { jump: fresh });

    const kind = none ? "latent row" : "row";
    const rows = `With a cache it computes ${plural(cached.tokens, kind)}${none ? "" : " of K and V"}`
      + `${step ? ` and reads ${n.held - 1}` : ""}; without one it computes `
      + `${step ? `${full.tokens}, ${full.tokens - 1} of them again` : "the same rows"}.`;
    const so = none ? " The multiply-adds of MLA are not counted: its projections can be multiplied out in several ways."
      : step === 0 ? " So far both cost the same."
        : ` So far there are ${n.ratio_so_far.toFixed(2)} times as many multiply-adds without a cache.`;
    say(`Pass ${step + 1} of ${continuation.length}, ${writes}. ${rows}${so} `
      + `${scheme.toUpperCase()} holds ${plural(n.held_bytes[scheme], "byte")} for ${plural(n.held, "token")}.`);
  }
  return paint;
});
