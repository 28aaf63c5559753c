// Curves to guess. `compute` compares a guess with the truth; the view lets the reader draw it.

// Each guess at every point of its curve, straight between its knots, and how far it is from the truth on average.
export function compute({ truth, guesses }) {
  const drawn = truth.map((curve, which) => curve.map((_, i) => between(guesses[which], i / (curve.length - 1))));
  const errors = truth.map((curve, which) => sum(curve.map((y, i) => Math.abs(y - drawn[which][i]))) / curve.length);
  return { drawn, errors };
}

// Knots that are evenly spaced from 0 to 1, and the value at one place.
function between(knots, place) {
  const at = place * (knots.length - 1), before = Math.min(knots.length - 2, Math.floor(at));
  return knots[before] + (knots[before + 1] - knots[before]) * (at - before);
}

export default widget("curve_guess", "Draw your guess",
  ["names", "truth", "start", "x_label", "y_label", "mark", "mark_text", "level", "level_text", "guesses",
    "chosen", "shown"], ({ root, summary, say, model, read, animate, onend }) => {
  const { names, truth, start, x_label, y_label, mark, mark_text, level, level_text, guesses: first } = read();
  const [points, knots] = [truth[0].length, first[0].length];
  const [H, LEFT, RIGHT, TOP, BOTTOM] = [240, 46, 16, 14, 40];
  let W = 320;
  const x = (i) => scale([0, points - 1], [LEFT, W - RIGHT])(i), y = scale([0, 1], [H - BOTTOM, TOP]);
  const put = (knot, value) => {
    const { guesses, chosen } = read();
    const kept = Math.round(100 * clamp(value, 0, 1)) / 100;
    if (guesses[chosen][knot] === kept) return;
    change(model, { guesses: guesses.map((one, which) => one.map((old, i) =>
      (which === chosen && i === knot ? kept : old))) });
  };

  const choices = names.map((name, which) => h("button", { type: "button", "data-curve": name,
    onclick: () => change(model, { chosen: which }) }, name));
  const show = h("button", { type: "button", "data-go": "show", class: "cg-show",
    onclick: () => change(model, { shown: !model.get("shown") }) }, "Show the truth");
  const again = h("button", { type: "button", "data-go": "reset", onclick: () =>
    change(model, { guesses: first, chosen: 0, shown: false }) }, "Start again");
  const [back, guess, line] = [s("g"), s("polyline", { class: "cg-guess" }), s("polyline", { class: "cg-truth" })];
  const handles = first[0].map((_, knot) => s("circle", { class: "cg-knot", r: 12, role: "slider", tabindex: 0,
    "data-knot": knot, "aria-valuemin": 0, "aria-valuemax": 1,
    onkeydown: (event) => {
      const by = keyOf(event, { ArrowUp: 0.05, ArrowRight: 0.05, ArrowDown: -0.05, ArrowLeft: -0.05, PageUp: 0.2,
        PageDown: -0.2, Home: -1, End: 1 });
      if (!by) return;
      const { guesses, chosen } = read();
      put(knot, guesses[chosen][knot] + by);
    } }));
  const plot = s("svg", { class: "cg-plot", role: "group", "aria-label": `${y_label} against ${x_label}` },
    back, line, guess, handles);
  // A stroke over the picture draws: the knot nearest to the pointer follows it.
  stroke(plot, (event) => {
    const [part, down] = placeIn(plot, event, [LEFT, RIGHT, TOP, BOTTOM]);
    put(clamp(Math.round(part * (knots - 1)), 0, knots - 1), 1 - down);
  });
  const verdict = h("p", { class: "cg-verdict aw-numbers", "data-value": "verdict" });
  root.append(h("div", { class: "aw-row" }, h("div", { class: "cg-group", role: "group", "aria-label": "Curve" }, choices),
    show, again), plot, verdict, summary);

  function build() {
    W = plot.clientWidth || 320;
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const text = (at, down, words, anchor = "middle") => s("text", { x: at, y: down, "text-anchor": anchor }, words);
    const step = [1, 2, 4, 8, 16, 32, 64].find((one) => points / one <= 8);
    const marks = range(points).filter((i) => (i + start) % step === 0);
    const rule = (x1, x2, y1, y2) => s("line", { class: "cg-rule", x1, x2, y1, y2 });
    back.replaceChildren(
      ...[0, 0.5, 1].flatMap((value) => [s("line", { class: "cg-grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
        text(LEFT - 18, y(value) + 4.5, plain(value), "end")]),
      ...marks.map((i) => text(x(i), H - 24, String(i + start))), text((LEFT + W - RIGHT) / 2, H - 6, x_label),
      ...(mark === null ? [] : [rule(x(mark - start), x(mark - start), TOP, y(0)),
        text(x(mark - start) + 6, TOP + 12, mark_text, "start")]),
      ...(level === null ? [] : [rule(LEFT, W - RIGHT, y(level), y(level)),
        text(W - RIGHT, y(level) - 5, level_text, "end")]));
  }

  const path = (values) => values.map((value, i) => `${x((i * (points - 1)) / (values.length - 1)).toFixed(1)},`
    + y(value).toFixed(1)).join(" ");
  const motion = animate(({ guess: own, line: now }) => {
    guess.setAttribute("points", path(own));
    line.setAttribute("points", path(now));
    handles.forEach((node, knot) =>
      setIfChanged(node, { cx: x((knot * (points - 1)) / (knots - 1)), cy: y(own[knot]) }));
  }, 600);
  let scene = "";

  function paint() {
    const { guesses, chosen, shown } = read();
    if (chosen >= names.length) return;
    const { drawn, errors } = compute({ truth, guesses });
    choices.forEach((choice, which) => choice.setAttribute("aria-pressed", String(which === chosen)));
    show.setAttribute("aria-pressed", String(shown));
    line.style.visibility = shown ? "visible" : "hidden";
    handles.forEach((node, knot) => {
      const at = start + Math.round((knot * (points - 1)) / (knots - 1));
      fill(node, { "aria-label": `${names[chosen]} at ${at}`, "aria-valuenow": guesses[chosen][knot] });
    });
    // The truth sets out from the guess. A point that is being moved follows the pointer at once.
    const still = scene === `${chosen} ${shown}`;
    scene = `${chosen} ${shown}`;
    motion.to({ guess: guesses[chosen], line: shown ? truth[chosen] : drawn[chosen] }, { jump: still });
    verdict.textContent = shown ? `Your guess for “${names[chosen]}” is off by ${fmt(errors[chosen])} on average.`
      : `Draw your guess for “${names[chosen]}”.`;
    say(shown ? `${verdict.textContent} The truth begins at ${fmt(truth[chosen][0])} and ends at `
      + `${fmt(truth[chosen].at(-1))}.` : verdict.textContent);
  }

  build();
  onend(resized(plot, () => {
    if (plot.clientWidth === W) return;
    build();
    scene = "";
    paint();
  }));
  return paint;
});
