// Attention for one query, stage by stage. `compute` holds the arithmetic; `render` draws it and listens.

const STAGES = ["scores", "scaled", "exponentials", "weights", "output"];
const LARGEST = 1e6; // entries of Q, K and V; their products stay far from overflow
const TRAITS = ["Q", "K", "V", "tokens", "query", "stage", "guess", "seen"];

// All numbers shown, for every query. Q: (n_q, d_k), K: (n_k, d_k), V: (n_k, d_v) as rows of numbers.
function compute({ Q, K, V }) {
  const root = Math.sqrt(Q[0].length);
  const scores = Q.map((q) => K.map((k) => addUp(q.map((x, i) => x * k[i]))));
  const scaled = scores.map((row) => row.map((score) => score / root));
  const maxima = scaled.map((row) => Math.max(...row));
  const exponentials = scaled.map((row, i) => row.map((x) => Math.exp(x - maxima[i])));
  const totals = exponentials.map(addUp);
  const weights = exponentials.map((row, i) => row.map((e) => e / totals[i]));
  const output = weights.map((row) => V[0].map((_, c) => addUp(row.map((w, j) => w * V[j][c]))));
  return { root, scores, scaled, maxima, exponentials, totals, weights, output };
}

function addUp(numbers) {
  return numbers.reduce((total, x) => total + x, 0);
}

// Three decimals, fewer when fewer say it exactly: 1, 0.5, 0.707.
function brief(x, decimals = 3) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e5 || size < 0.5 * 10 ** -decimals) return x.toExponential(1).replace(/-/g, "−").replace("+", "");
  const digits = Math.max(0, Math.min(decimals, size >= 1000 ? 1 : size >= 100 ? 2 : 3));
  const text = x.toFixed(digits);
  const exact = Math.abs(Number(text) - x) < 1e-9 * Math.max(1, size);
  return (exact ? String(Number(text)) : text).replace(/-/g, "−");
}

// A number inside a product or a difference: negative ones are put in brackets.
function inner(x) {
  return x < 0 ? `(${brief(x)})` : brief(x);
}

function power(exponent) {
  return ["e", h("sup", {}, exponent)];
}

// The sum behind number `j` of a stage, as text and elements.
function sumBehind(stage, j, { Q, K, V, query: i, n }) {
  const products = (a, b) => a.map((x, t) => `${inner(x)}·${inner(b[t])}`).join(" + ");
  const number = (name) => brief(n[name][i][j]);
  switch (stage) {
    case "scores":
      return [`q${i + 1} · k${j + 1} = ${products(Q[i], K[j])} = ${number("scores")}`];
    case "scaled":
      return [`${number("scores")} / √${Q[0].length} = ${number("scores")} / ${brief(n.root)} = ${number("scaled")}`];
    case "exponentials":
      if (j === n.exponentials[i].length)
        return [`total: ${n.exponentials[i].map((x) => brief(x)).join(" + ")} = ${brief(n.totals[i])}`];
      return [power(`${number("scaled")} − ${inner(n.maxima[i])}`), " = ",
        power(brief(n.scaled[i][j] - n.maxima[i])), ` = ${number("exponentials")}`].flat();
    case "weights":
      return [`${number("exponentials")} / ${brief(n.totals[i])} = ${number("weights")}`];
    default:
      return [`column ${j + 1} of V: ${products(n.weights[i], V.map((v) => v[j]))} = ${number("output")}`];
  }
}

// What a stage does, in one sentence; shown until a number is opened.
function explanation(stage, { Q, query: i, n }) {
  return {
    scores: `The dot product of q${i + 1} with each key. Press a number to see its sum.`,
    scaled: `Each score divided by √${Q[0].length} = ${brief(n.root)}, the root of a key's width.`,
    exponentials: `The row maximum, ${brief(n.maxima[i])}, is subtracted first, so nothing overflows.`,
    weights: `Each exponential divided by the total, ${brief(n.totals[i])}. They sum to 1.`,
    output: "Each column of V, averaged with these weights.",
  }[stage];
}

// What to think about before a stage is uncovered.
function question(stage, { Q, query: i }) {
  return {
    scores: `Which key agrees most with q${i + 1}? Are there ties?`,
    scaled: `Every score is divided by √${Q[0].length}. Does their order change?`,
    exponentials: "The row maximum is subtracted. Which becomes exactly 1?",
    weights: "Which key gets the largest share, and is it more than half?",
    output: "Which value will the output be closest to?",
  }[stage];
}

function operation(stage, d) {
  return {
    scores: ["q · k"],
    scaled: ["÷ ", `√${d}`],
    exponentials: power("x − max"),
    weights: ["÷ total"],
    output: ["weights · V"],
  }[stage];
}

function keyName(tokens, j) {
  return `k${j + 1}${tokens[j] ? ` ${tokens[j]}` : ""}`;
}

function summaryOf({ tokens, stage, guess, seen, query: i, n }) {
  const name = STAGES[stage];
  const where = `Stage ${stage + 1} of 5, ${name}, for q${i + 1}`;
  if (guess && stage >= seen) return `${where}: make your guess, then press Show.`;
  const row = n[name][i].map((x) => brief(x));
  if (name === "output") return `${where}: (${row.join(", ")}).`;
  const best = n.weights[i].indexOf(Math.max(...n.weights[i]));
  const verdict = name === "weights" ? ` Largest: ${keyName(tokens, best)}.` : "";
  return `${where}: ${row.map((x, j) => `${keyName(tokens, j)} ${x}`).join(", ")}.${verdict}`;
}

function render({ model, el }) {
  const { root, summary, say } = frame(el, "attention_stepper", "Attention for one query, step by step", model);
  const id = `stepper-${Math.random().toString(36).slice(2)}`;
  let parts = null; // the elements, made anew only when a size or a name changes
  let open = {}; // stage -> which of its numbers is opened
  let traced = null; // the number opened last: its ingredients are marked in Q, K and V

  const read = () => {
    const state = {};
    for (const name of TRAITS) state[name] = model.get(name);
    const { Q, K, V } = state;
    if (Q[0].length !== K[0].length || K.length !== V.length) return null; // halfway through new arrays
    state.query = Math.min(state.query, Q.length - 1);
    state.tokens = state.tokens?.length === K.length ? state.tokens : [];
    state.n = compute(state);
    return state;
  };

  const go = (stage) => stage >= 0 && stage < STAGES.length && change(model, { stage });

  function build({ Q, K, V, tokens }) {
    const nameOf = (letter, i) => {
      const token = letter === "q" && Q.length !== K.length ? null : tokens[i];
      return [`${letter}${i + 1}`, token ? h("span", { class: "st-token" }, token) : null].filter(Boolean);
    };
    parts = { fields: {}, rows: {}, cells: {}, stages: {} };

    const table = (name, what, rows) => {
      const letter = name.toLowerCase();
      parts.fields[name] = rows.map((row, i) => row.map((x, c) =>
        numberField(`${letter}${i + 1}, entry ${c + 1}`, x, (number) => {
          const next = model.get(name).map((r) => [...r]);
          next[i][c] = number;
          change(model, { [name]: next });
        }, { "data-field": `${name}-${i}-${c}`, min: -LARGEST, max: LARGEST, step: 0.5, onfocus: paint,
          onblur: paint })));
      parts.rows[name] = rows.map((_, i) => h("tr", {}, h("th", { scope: "row" }, ...nameOf(letter, i)),
        ...parts.fields[name][i].map((field) => h("td", {}, field))));
      return h("table", { class: `st-table st-${letter}` },
        h("caption", {}, h("b", {}, name), ` ${what}`, h("span", {}, `, ${rows.length} × ${rows[0].length}`)),
        h("tbody", {}, ...parts.rows[name]));
    };

    parts.queries = Q.map((_, i) => h("button", { type: "button", "data-query": i, onclick: () =>
      change(model, model.get("guess") ? { query: i, seen: 0 } : { query: i }) }, ...nameOf("q", i)));
    parts.back = h("button", { type: "button", "data-go": "back", onclick: () => go(model.get("stage") - 1) }, "Back");
    parts.next = h("button", { type: "button", "data-go": "next", class: "st-next",
      onclick: () => go(model.get("stage") + 1) }, "Next");
    const again = "Back to the first stage and the first numbers";
    parts.reset = h("button", { type: "button", "data-go": "reset", title: again,
      onclick: () => {
        open = {};
        traced = null;
        change(model, { ...structuredClone(model.get("start")), stage: 0, seen: model.get("guess") ? 0 : 1 });
      } }, "Reset");
    parts.guess = h("input", { type: "checkbox", "data-go": "guess", onchange: () =>
      change(model, { guess: parts.guess.checked, seen: model.get("stage") + 1 }) });
    parts.formula = Object.fromEntries(["scores", "scaled", "weights", "output"].map((stage) => [stage, h("span")]));
    parts.formula.scores.append(h("i", {}, "QK"), h("sup", {}, "T"));
    parts.formula.scaled.append("/√", h("i", {}, "d"), h("sub", {}, "k"));
    parts.formula.weights.append("softmax");
    parts.formula.output.append(h("i", {}, "V"));

    const keys = h("div", { class: "st-keys", "aria-hidden": "true" },
      ...K.map((_, j) => h("span", {}, ...nameOf("k", j))));
    const columns = V[0].map((_, c) => `column ${c + 1}`);
    const keyNames = K.map((_, j) => keyName(tokens, j));
    const flow = STAGES.map((stage, index) =>
      stageRow(stage, index, stage === "output" ? columns : keyNames, operation(stage, Q[0].length)));

    const many = Math.max(K.length, V[0].length) > 4 ? "st-flow st-many" : "st-flow";
    const focused = root.contains(document.activeElement);
    // The lines that a sum of d terms needs are kept free, so that opening one moves nothing.
    const letters = 14 * Math.max(K[0].length, K.length) + 20;
    const lines = `--wide-lines: ${Math.ceil(letters / 70)}; --narrow-lines: ${Math.max(2, Math.ceil(letters / 38))}`;
    const small = Math.max(K[0].length, V[0].length) < 3 ? "st-inputs st-small" : "st-inputs";
    root.replaceChildren(
      h("div", { class: small }, table("Q", "queries", Q), table("K", "keys", K), table("V", "values", V)),
      h("div", { class: "st-controls" },
        h("div", { class: "st-group", role: "group", "aria-label": "Query" }, h("span", {}, "Query"), ...parts.queries),
        h("label", { class: "st-guess" }, parts.guess, "Let me guess first"),
        h("div", { class: "st-group" }, parts.back, parts.next, parts.reset)),
      h("div", { class: many, style: `--keys: ${K.length}; --columns: ${V[0].length}; ${lines}` },
        h("div", { class: "st-stage st-head" }, h("p", { class: "st-formula", "aria-hidden": "true" },
          parts.formula.weights, "(", parts.formula.scores, parts.formula.scaled, ")", parts.formula.output), keys),
        ...flow),
      summary);
    if (focused && !root.contains(document.activeElement)) parts.next.focus();
  }

  function stageRow(stage, index, names, how) {
    const why = h("p", { class: "st-why", id: `${id}-${stage}` });
    const cell = (j, name) => h("button", { type: "button", class: "st-cell", "data-cell": j, "data-name": name,
      "data-short": name.split(" ").at(stage === "output" ? -1 : 0), "aria-controls": why.id,
      onclick: () => toggle(stage, j) });
    const cells = names.map((name, j) => cell(j, name));
    const line = h("div", { class: "st-cells" }, ...cells);
    if (stage === "exponentials") cells.push(cell(names.length, "total"));
    const show = h("button", { type: "button", class: "st-show", "data-go": `show-${stage}`, onclick: () => {
      change(model, { seen: index + 1 });
      cells[0].focus();
    } }, "Show");
    const tab = h("button", { type: "button", class: "st-tab", "data-stage-tab": stage, onclick: () => go(index),
      onkeydown: (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!step || !STAGES[index + step]) return;
        event.preventDefault();
        parts.stages[STAGES[index + step]].tab.focus();
      } }, h("span", { class: "st-number" }, String(index + 1)), h("b", {}, stage),
      h("span", { class: "st-operation" }, ...how));
    const total = stage === "exponentials" ? h("div", { class: "st-total" }, "total", cells[names.length]) : null;
    const row = h("div", { class: `st-stage st-${stage}`, role: "group", "aria-label": stage, "data-stage": stage },
      tab,
      h("div", { class: "st-body" }, h("div", { class: "st-numbers aw-numbers" }, line, total),
        h("div", { class: "st-note" }, why, show)));
    parts.cells[stage] = cells;
    parts.stages[stage] = { row, why, show, tab };
    return row;
  }

  function toggle(stage, j) {
    if (parts.stages[stage].row.dataset.now !== "shown") return;
    const closing = open[stage] === j;
    open = { ...open, [stage]: closing ? undefined : j };
    traced = closing ? null : { stage, j };
    paint();
  }

  function paint() {
    const state = read();
    if (!state) return;
    const { Q, K, V, tokens, query, stage: current, guess, seen, n } = state;
    const made = JSON.stringify([Q.length, K.length, K[0].length, V[0].length, tokens]);
    if (parts?.made !== made) {
      open = {};
      traced = null;
      build(state);
      parts.made = made;
    }

    for (const name of ["Q", "K", "V"])
      state[name].forEach((row, i) => row.forEach((x, c) => {
        const field = parts.fields[name][i][c];
        setNumber(field, x);
        if (!field.matches(":focus")) field.value = brief(x, 2); // in full only while it is edited
      }));
    parts.queries.forEach((button, i) => button.setAttribute("aria-pressed", String(i === query)));
    parts.rows.Q.forEach((row, i) => row.classList.toggle("st-current", i === query));
    parts.guess.checked = guess;
    parts.back.setAttribute("aria-disabled", String(current === 0));
    parts.next.setAttribute("aria-disabled", String(current === STAGES.length - 1));
    const lit = STAGES[current] === "exponentials" ? "weights" : STAGES[current];
    for (const [name, span] of Object.entries(parts.formula)) span.classList.toggle("st-lit", name === lit);

    STAGES.forEach((stage, index) => {
      const { row, why, show, tab } = parts.stages[stage];
      const now = index > current ? "later" : guess && index >= seen ? "covered" : "shown";
      row.dataset.now = now;
      tab.toggleAttribute("aria-current", false);
      if (index === current) tab.setAttribute("aria-current", "step");
      show.hidden = now !== "covered";
      const values = stage === "exponentials" ? [...n[stage][query], n.totals[query]] : n[stage][query];
      parts.cells[stage].forEach((cell, j) => {
        const opened = now === "shown" && open[stage] === j;
        cell.textContent = now === "shown" ? brief(values[j]) : now === "covered" ? "?" : "";
        const heard = { later: "not reached yet", covered: "covered", shown: cell.textContent }[now];
        cell.setAttribute("aria-label", `${cell.dataset.name}: ${heard}`);
        cell.setAttribute("aria-expanded", String(opened));
        cell.setAttribute("aria-disabled", String(now !== "shown"));
        cell.tabIndex = now === "shown" ? 0 : -1;
        if (opened) cell.setAttribute("aria-describedby", why.id);
        else cell.removeAttribute("aria-describedby");
        if (stage === "weights") cell.style.setProperty("--weight", now === "shown" ? values[j].toFixed(4) : 0);
      });
      const opened = now === "shown" && open[stage] !== undefined;
      why.classList.toggle("st-sum", opened);
      if (now === "later") why.replaceChildren();
      else if (now === "covered") why.replaceChildren(question(stage, state));
      else if (opened) why.replaceChildren(...sumBehind(stage, open[stage], state));
      else why.replaceChildren(explanation(stage, state));
    });

    markIngredients(state);
    say(summaryOf(state));
  }

  // A score is made of one query and one key, an output of one column of V: show which.
  function markIngredients({ query, stage: current }) {
    const mark = (name, wanted) => parts.fields[name].forEach((row, i) => row.forEach((field, c) =>
      field.classList.toggle("st-used", wanted(i, c))));
    const active = traced && STAGES.indexOf(traced.stage) <= current ? traced : null;
    mark("Q", (i) => active?.stage === "scores" && i === query);
    mark("K", (i) => active?.stage === "scores" && i === active.j);
    mark("V", (_, c) => active?.stage === "output" && c === active.j);
  }

  paint();
  const stop = listen(model, TRAITS, paint);
  return () => {
    stop();
    el.replaceChildren();
  };
}

export { compute };
export default { render };
