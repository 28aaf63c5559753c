// Tokens that become one, or do not. `compute` gives a floor's points; the view moves them.

const HALF = 150, WIDE = 340, HIGH = 240, PAUSE = 500;

// Where the tokens are on a floor, how alike they are, and the largest distance of two points in the plane.
export function compute({ points, alike, floor, add }) {
  const which = add ? 1 : 0, at = Math.min(floor, points[which].length - 1);
  const now = points[which][at];
  const apart = Math.max(...now.flatMap((a) => now.map((b) => Math.hypot(a[0] - b[0], a[1] - b[1]))));
  return { now, alike: alike[which][at], apart };
}

export default widget("collapse_viewer", "Tokens with and without a residual stream",
  ["points", "alike", "floor", "add"], (view) => {
  const { root, summary, say, model, read, animate } = view;
  const id = `collapse-${Math.random().toString(36).slice(2)}`;
  let parts = null;
  let seen = [0, 0]; // the highest floor that was shown of each tower: its curve is drawn so far, as the rest is a guess

  const floors = () => model.get("alike")[0].length - 1;
  const go = (floor) => change(model, { floor: clamp(floor, 0, floors()) });
  const plus = h("button", { type: "button", "data-go": "add", class: "cv-plus",
    onclick: () => change(model, { add: !model.get("add") }) });
  const slider = rangeInput("floor", "Floor", { min: 0, step: 1 }, go);
  const { play } = player(view, PAUSE, { at: () => model.get("floor"), end: floors, go,
    attributes: { class: "cv-play" } });
  const floorNumber = h("b", { class: "aw-numbers" }), cosine = h("b", { class: "aw-numbers", "data-value": "alike" });
  const formula = h("code", { class: "cv-formula" });
  const views = h("div", { class: "cv-views" });
  root.append(h("div", { class: "cv-top" }, plus, h("span", {}, "floor ", floorNumber), slider, play), views, summary);

  const px = (x) => HALF + x * (HALF - 14);
  const cx = (floor) => scale([0, floors()], [34, WIDE - 14])(floor);
  const cy = scale([1, -0.3], [14, HIGH - 30]);

  const build = rebuilder(({ points, alike }) => {
    const dots = points[0][0].map((_, i) => s("g", { class: "cv-dot" }, s("circle", { r: 11 }),
      s("text", { y: 4 }, String(i + 1))));
    seen = [0, 0];
    const clips = alike.map(() => s("rect", { y: 0, width: 0, height: HIGH }));
    const curves = alike.map((row, which) => s("path", { "clip-path": `url(#${id}-${which})`, class: `cv-curve cv-${which ? "with" : "without"}`,
      d: pathOf(row.map((value, floor) => [cx(floor), cy(value)])) }));
    const ends = alike.map((row, which) => s("text", { class: "cv-name", x: cx(floors()) - 4,
      y: cy(row.at(-1)) + (which ? 22 : -5), "text-anchor": "end" }, which ? "with +" : "without +"));
    const here = s("circle", { class: "cv-here", r: 6 });
    const axis = [0, 0.5, 1].flatMap((value) => [
      s("line", { x1: 34, x2: WIDE - 8, y1: cy(value), y2: cy(value), class: "cv-grid" }),
      s("text", { x: 28, y: cy(value) + 4, "text-anchor": "end" }, String(value))]);
    parts = { dots, curves, here, clips, ends };
    views.replaceChildren(
      h("div", { class: "cv-plane" }, s("svg", { viewBox: `0 0 ${2 * HALF} ${2 * HALF}`, "aria-hidden": "true" },
        s("circle", { cx: HALF, cy: HALF, r: HALF - 14, class: "cv-grid" }), ...dots)),
      h("div", { class: "cv-side" }, h("p", {}, formula, " ", h("span", {}, "mean cosine ", cosine)),
        s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" }, 
          ...clips.map((clip, which) => s("clipPath", { id: `${id}-${which}` }, clip)), ...axis, ...curves, ...ends, here,
          s("text", { x: 34, y: HIGH - 4 }, "floor 0"),
          s("text", { x: WIDE - 8, y: HIGH - 4, "text-anchor": "end" }, String(floors())))));
  });

  const motion = animate(({ now, alike, floor, shown }) => {
    now.forEach(([x, y], i) => parts.dots[i].setAttribute("transform", `translate(${px(x)} ${px(-y)})`));
    cosine.textContent = fmt(alike);
    parts.clips.forEach((clip, which) => clip.setAttribute("width", shown[which] ? cx(shown[which]) + 2 : 0));
    setIfChanged(parts.here, { cx: cx(floor), cy: cy(alike) });
  }, 450);

  return () => {
    const state = read(), found = compute(state), fresh = build([state.points, state.alike], state);
    slider.max = floors();
    slider.value = state.floor;
    floorNumber.textContent = state.floor;
    plus.textContent = state.add ? "+ is on" : "+ is off";
    plus.setAttribute("aria-pressed", String(state.add));
    formula.textContent = state.add ? "x ← x + attention(x)" : "x ← attention(x)";
    parts.curves.forEach((curve, which) => curve.classList.toggle("cv-chosen", Boolean(which) === state.add));
    seen[Number(state.add)] = Math.max(seen[Number(state.add)], state.floor);
    parts.ends.forEach((name, which) => (name.style.opacity = seen[which] === floors() ? 1 : 0));
    motion.to({ now: found.now, alike: found.alike, floor: state.floor, shown: [...seen] }, { jump: fresh });
    say(`Floor ${state.floor}, ${state.add ? "with" : "without"} the sum: mean cosine ${fmt(found.alike)}. `
      + `The tokens are ${found.apart < 0.05 ? "one point" : "different points"} in the plane.`);
  };
});
