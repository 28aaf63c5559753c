// Generation as a loop, in four steps per token: ids, model, logits, choice. The chosen token then moves to the text.

const PHASES = 4;
const BLOCKS = 30;
const PAUSE = 750; // milliseconds per step while it plays

// The text as far as it is written, what the model says next, and what is taken of it.
export function compute({ tokens, ids, runs, run, step }) {
  const { taken, ...rows } = runs[run];
  const written = Math.floor(step / PHASES), at = Math.min(written, taken.length - 1);
  const chosen = (list) => taken.slice(0, written).map((i, t) => list[t][i]);
  return {
    text: [...tokens, ...chosen(rows.tokens)], ids: [...ids, ...chosen(rows.ids)], phase: step % PHASES,
    next: rows.tokens[at], nextIds: rows.ids[at], shares: rows.shares[at], taken: taken[at],
    done: written === taken.length, written,
  };
}

const visible = (token) => token.replace(/\n/g, "⏎").trim() || "␣";

export default widget("generation_loop", "Generation as a loop", ["tokens", "ids", "runs", "run", "step"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const { runs, tokens } = read();
  const end = PHASES * runs[0].taken.length;

  const go = (step) => step >= 0 && step <= end && change(model, { step });
  const { play, stop, back, next, mark } = player(view, PAUSE, { at: () => model.get("step"), end: () => end, go,
    following: { class: "gl-next" } });
  const choices = runs.map(({ name }, run) => h("button", { type: "button", "data-run": run, onclick: () => {
    stop();
    change(model, { run, step: Math.min(model.get("step"), PHASES - 2) });
  } }, name));

  const text = h("div", { class: "gl-text", role: "img" });
  const blocks = range(BLOCKS, () => h("i"));
  const bars = runs[0].tokens[0].map(() => {
    const [name, fill, value] = [h("span"), h("i"), h("span", { class: "aw-numbers aw-right" })];
    return { name, fill, value, row: h("div", { class: "gl-bar" }, name, h("i", {}, fill), value) };
  });
  const chosen = h("div", { class: "gl-choice" });
  const logits = h("div", { class: "gl-bars" }, bars.map((bar) => bar.row));
  const box = (name, title, ...inside) => h("div", { class: `gl-box gl-${name}` }, h("p", {}, title), ...inside);
  const stations = [box("model", "model", h("div", { class: "gl-blocks" }, blocks.map((fill) => h("i", {}, fill)))),
    box("logits", "softmax of the logits", logits), box("choice", "choice", chosen)];
  const arrows = ["gl-first", "gl-second"].map((name) => h("span", { class: `gl-arrow ${name}`, "aria-hidden": "true" }, "→"));
  root.append(
    h("div", { class: "gl-tools" }, back, next, play, choices), text,
    h("div", { class: "gl-loop" }, stations[0], arrows[0], stations[1], arrows[1], stations[2]), summary);

  const chip = (token, id, kind = "") => h("span", { class: `gl-token ${kind}` }, visible(token), h("small", {}, String(id)));

  // Moves: `lit` blocks of the model, the bars, and how far the new token is on its way from the choice to the text.
  let away = [0, 0];
  const motion = animate(({ lit, shares, there }) => {
    blocks.forEach((fill, i) => (fill.style.height = `${2 * clamp(lit - i, 0, 1)}px`));
    bars.forEach(({ fill }, i) => (fill.style.transform = `scaleX(${shares[i].toFixed(4)})`));
    const flying = text.querySelector(".gl-new");
    if (flying) flying.style.transform = there < 1 ? `translate(${away.map((d) => `${((1 - there) * d).toFixed(1)}px`)})` : "";
  }, 420);

  let before = null;
  return () => {
    const state = read();
    if (state.step > end || state.run >= runs.length) return;
    const { text: words, ids, phase, next: names, shares, taken, done, written } = compute(state);
    const forward = before !== null && state.step === before + 1;
    before = state.step;
    const from = chosen.getBoundingClientRect();
    text.replaceChildren(...words.map((token, i) =>
      chip(token, ids[i], i === words.length - 1 && written && phase === 0 ? "gl-new"
        : phase === 0 && !done || i < tokens.length ? "gl-read" : "")));
    text.setAttribute("aria-label", `The text: ${words.join("").replace(/\s+/g, " ").trim()}`);
    const flies = phase === 0 && written > 0 && forward;
    if (flies) {
      const to = text.lastChild.getBoundingClientRect();
      away = [from.left + from.width / 2 - to.left - to.width / 2, from.top + from.height / 2 - to.top - to.height / 2];
    }
    const heard = phase >= 2;
    logits.classList.toggle("gl-empty", !heard);
    bars.forEach(({ name, value, row }, i) => {
      name.textContent = visible(names[i]);
      value.textContent = share(shares[i], 2);
      row.classList.toggle("gl-taken", phase === 3 && i === taken);
    });
    chosen.replaceChildren(...(phase === 3 ? [chip(names[taken], state.runs[state.run].ids[written][taken])] : []));
    stations.forEach((station, i) => station.classList.toggle("gl-on", !done && phase === i + 1));
    arrows.forEach((arrow, i) => arrow.classList.toggle("gl-on", !done && phase === i + 2));
    mark();
    choices.forEach((choice, run) => choice.setAttribute("aria-pressed", String(run === state.run)));
    const largest = Math.max(...shares);
    motion.to({ lit: phase > 0 ? BLOCKS : 0, shares: shares.map((one) => (heard ? one / largest : 0)),
      there: phase === 0 && written ? 1 : 0 }, { jump: !forward });
    const likely = `${visible(names[0])} with ${spoken(shares[0])}`;
    say(done ? "The text is written." : [`The ${words.length} ids of the text are read.`, `All ${BLOCKS} blocks run.`,
      `The likeliest next token is ${likely}.`, `Taken: ${visible(names[taken])}, with ${spoken(shares[taken])}.`][phase]);
  };
});
