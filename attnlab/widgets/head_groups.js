// Query heads that share key/value heads. `compute` says which uses which; the view draws the lines.

// For each query head the key/value head that it should use (`right`) and the one that it uses.
export function compute({ n_heads, n_kv_heads, d_head, tile }) {
  const copies = n_heads / n_kv_heads, heads = range(n_heads);
  const right = heads.map((head) => Math.floor(head / copies));
  const uses = tile ? heads.map((head) => head % n_kv_heads) : right;
  return { right, uses, wrong: heads.filter((head) => uses[head] !== right[head]).length,
    numbers: 2 * n_kv_heads * d_head, saved: copies };
}

export default widget("head_groups", "Query heads and key/value heads",
  ["n_heads", "n_kv_heads", "d_head", "tile"], ({ root, summary, say, model, read, animate }) => {
  const start = { n_kv_heads: model.get("n_kv_heads"), tile: model.get("tile") };
  const n = model.get("n_heads");
  const divisors = range(n, (i) => n - i).filter((size) => n % size === 0);
  const nameOf = (many) => (many === n ? "MHA" : many === 1 ? "MQA" : "GQA");
  const choices = divisors.map((many) => h("button", { type: "button", "data-many": many,
    onclick: () => change(model, { n_kv_heads: many }) }, `${many} ${nameOf(many)}`));
  const tiled = h("input", { type: "checkbox", "data-go": "tile", onchange: () => change(model, { tile: tiled.checked }) });
  const again = button("reset", "Start again", () => change(model, start));

  // A line, a query head and a copy of keys and values for each query head. Copies of one head are at one place.
  const lines = s("svg", { class: "hg-lines", "aria-hidden": "true" });
  const stage = h("div", { class: "hg-stage", role: "img" }, lines);
  const parts = range(n, (head) => {
    const line = s("line", { y1: 36, y2: 104 });
    const query = h("span", { class: "hg-query", style: `left: ${(100 * (head + 0.5)) / n}%` }, `q${head}`);
    const copy = h("span", { class: "hg-copy" }, h("i"), h("i"));
    lines.append(line);
    stage.append(query, copy);
    return { line, copy };
  });
  const verdict = h("p", { class: "hg-verdict aw-numbers", "data-value": "verdict" });
  root.append(
    h("div", { class: "aw-row" }, h("span", {}, "key/value heads"),
      h("div", { class: "hg-group", role: "group", "aria-label": "Key/value heads" }, choices), again),
    stage, verdict, h("label", { class: "hg-switch" }, tiled, " tile instead of repeat"), summary);

  const motion = animate(({ at, ends }) => parts.forEach(({ line, copy }, head) => {
    copy.style.left = `${at[head]}%`;
    fill(line, { x1: `${(100 * (head + 0.5)) / n}%`, x2: `${ends[head]}%` });
  }), 500);

  return () => {
    const state = read();
    const { n_kv_heads, d_head, tile } = state;
    const { right, uses, wrong, numbers, saved } = compute(state);
    for (const choice of choices) choice.setAttribute("aria-pressed", String(Number(choice.dataset.many) === n_kv_heads));
    tiled.checked = tile;
    const place = (head) => (100 * (head + 0.5)) / n_kv_heads;
    parts.forEach(({ line }, head) => line.classList.toggle("hg-wrong", uses[head] !== right[head]));
    motion.to({ at: right.map(place), ends: uses.map(place) });
    verdict.textContent = `2 × ${n_kv_heads} × ${d_head} = ${numbers} numbers per token`
      + (wrong ? `; ${wrong} of ${n} heads get wrong keys` : saved > 1 ? `, ${saved} × less` : "");
    const told = `Query heads 0 to ${n - 1} use key/value heads ${uses.join(", ")}.`;
    stage.setAttribute("aria-label", told);
    say(`${nameOf(n_kv_heads)}. ${told} ${numbers} numbers are kept per token and layer. ${wrong} of ${n} query heads get `
      + "keys that were not made for them.");
  };
});
