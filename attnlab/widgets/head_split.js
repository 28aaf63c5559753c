// Numbers that travel from tokens to heads and back. `compute` says where each of them is; the view moves them.

const CELL = 34, GAP = 16, LEFT = 58, TOP = 24;

// For every number, in the order of the rows: its token and column, and the block, row and column where it is now.
// Blocks are heads, one below the other; in rows and cut rows there is one. `shape` is that of the tensor.
export function compute({ tokens: { length: n }, width, heads, stage, bug }) {
  const each = width / heads;
  const cells = range(n * width, (at) => {
    const [token, column] = [Math.floor(at / width), at % width];
    if (stage !== 2) return { token, column, block: 0, row: token, at: column };
    if (!bug) return { token, column, block: Math.floor(column / each), row: token, at: column % each };
    // One reshape: numbers are read in order, and fill the new shape in order.
    return { token, column, block: Math.floor(at / (n * each)), row: Math.floor(at / each) % n, at: at % each };
  });
  const shapes = [[n, width], bug ? [n, width] : [n, heads, each], [heads, n, each], [n, width]];
  const lines = bug
    ? ["x", "x", `x.reshape(${heads}, ${n}, ${each})`, `heads.reshape(${n}, ${width})`]
    : ["x", `x.reshape(${n}, ${heads}, ${each})`, "cut.transpose(0, 1)", `heads.transpose(0, 1).reshape(${n}, ${width})`];
  return { cells, shape: shapes[stage], shapes, line: lines[stage] };
}

// Describes the picture in a sentence.
function meaning({ tokens, width, heads, stage, bug }, { cells }) {
  const each = width / heads;
  if (stage === 0) return "One row per token. 10 is number 0 of token 1.";
  if (stage === 1) return bug ? "No cut: the reshape comes at once." : "Each row is cut. No number has moved.";
  if (stage === 3) return bug ? "The numbers are back, so a test of split and merge together finds nothing."
    : "The pieces of each token are side by side again.";
  if (!bug) return `Every head has its ${each} numbers of every token.`;
  const inside = new Map();
  cells.filter(({ block }) => block === 0).forEach(({ token }) => inside.set(token, (inside.get(token) ?? 0) + 1));
  const parts = [...inside].map(([token, count], i) => `${count}${i ? "" : " numbers"} of “${tokens[token]}”`);
  return `Wrong numbers: head 0 holds ${parts.join(" and ")}.`;
}

export default widget("head_split", "Tokens cut into heads",
  ["tokens", "width", "heads", "stage", "bug"], ({ root, summary, say, model, read, animate }) => {
  let parts = null;

  const stages = ["rows", "cut", "heads", "merged"].map((name, stage) => h("button", { type: "button", "data-stage": name,
    onclick: () => change(model, { stage }) }, h("b", {}, name), h("span", { class: "aw-numbers" })));
  const bug = h("button", { type: "button", "data-go": "bug", class: "hs-bug",
    onclick: () => change(model, { bug: !model.get("bug") }) }, "without transpose");
  const line = h("code", { class: "hs-line" }), note = h("p", { class: "hs-note" }), stand = h("div", { class: "hs-stand" });
  root.append(h("div", { class: "hs-top" },
    h("div", { class: "hs-stages", role: "group", "aria-label": "Stage" }, ...stages), bug),
    h("p", { class: "hs-code" }, line), stand, note, summary);

  // Where a number is drawn. Rows that are cut have a gap between heads; heads are one below the other.
  const place = ({ width, heads, stage, bug: wrong, tokens }, { block, row, at }) => {
    const each = width / heads;
    const gap = stage === 1 && !wrong ? GAP * Math.floor(at / each) : 0;
    return [LEFT + at * CELL + gap, TOP + (block * tokens.length + row) * CELL + block * GAP];
  };

  const build = rebuilder(({ tokens, width, heads }) => {
    const wide = LEFT + width * CELL + (heads - 1) * GAP + 60, high = TOP + heads * tokens.length * CELL + (heads - 1) * GAP;
    const cells = tokens.flatMap((_, token) => range(width, (column) =>
      s("g", { class: `hs-cell hs-token-${token}`, "data-number": `${10 * token + column}` },
        s("rect", { x: 1, y: 1, width: CELL - 3, height: CELL - 3, rx: 4 }),
        s("text", { x: CELL / 2, y: CELL / 2 + 5 }, String(10 * token + column)))));
    const names = range(heads * tokens.length, (at) => s("text", { class: "hs-name", x: LEFT - 8,
      y: TOP + at * CELL + Math.floor(at / tokens.length) * GAP + CELL / 2 + 5 }));
    const blocks = range(heads, (block) => s("text", { class: "hs-head",
      x: LEFT + (width / heads) * CELL + 10, y: TOP + block * (tokens.length * CELL + GAP) + CELL / 2 + 5 }, `head ${block}`));
    parts = { cells, names, blocks };
    stand.replaceChildren(s("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, "aria-hidden": "true" },
      ...names, ...blocks, ...cells));
  });

  const motion = animate(({ places }) => places.forEach(([x, y], i) =>
    parts.cells[i].setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`)), 600);

  return () => {
    const state = read(), { tokens, width, stage, heads } = state, found = compute(state);
    const fresh = build([tokens, width, heads], state);
    stages.forEach((button, at) => {
      button.setAttribute("aria-pressed", String(at === stage));
      button.lastChild.textContent = tuple(found.shapes[at]);
    });
    bug.setAttribute("aria-pressed", String(state.bug));
    line.textContent = `${found.line}  →  ${tuple(found.shape)}`;
    const split = stage === 2;
    parts.names.forEach((name, at) => {
      const row = at % tokens.length;
      name.textContent = split ? (state.bug ? `row ${row}` : tokens[row]) : at < tokens.length ? tokens[at] : "";
    });
    parts.blocks.forEach((name) => (name.style.visibility = split ? "visible" : "hidden"));
    note.textContent = meaning(state, found);
    note.classList.toggle("hs-wrong", state.bug && split && heads > 1);
    motion.to({ places: found.cells.map((cell) => place(state, cell)) }, { jump: fresh });
    say(`${["Rows", "Cut", "Heads", "Merged"][stage]}, shape ${tuple(found.shape)}. ${meaning(state, found)}`);
  };
});
