// Where the pointer is, what it drags, and paths through points.

// The path through points [x, y]; null lifts the pen.
function pathOf(points) {
  let pen = "M";
  return points.map((point) => {
    const part = point ? `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}` : "";
    pen = point ? "L" : "M";
    return part;
  }).join("");
}

// Drags a part of a drawing, or a pen over all of it. `move([x, y], first)` hears where the pointer is, in units of the
// drawing, first when it comes down, and `end` when it leaves.
function drag(node, move, end = () => {}) {
  const where = (event) => {
    const matrix = (node.ownerSVGElement ?? node).getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    return [x, y];
  };
  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    if (node.tabIndex >= 0) node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    move(where(event), true);
  });
  node.addEventListener("touchstart", (event) => {
    if (node.ownerSVGElement) event.preventDefault(); // or the page scrolls with the part
  }, { passive: false });
  node.addEventListener("pointermove", (event) => node.hasPointerCapture(event.pointerId) && move(where(event), false));
  node.addEventListener("lostpointercapture", end);
}

// Calls `f` where the pointer is pressed on `node`, and on its way from there. A finger scrolls the page as usual.
function stroke(node, f) {
  const hear = (event) => {
    const begins = event.type === "pointerdown";
    if (begins ? event.button !== 0 : !(event.buttons & 1)) return;
    if (begins) node.setPointerCapture(event.pointerId);
    f(event);
  };
  for (const kind of ["pointerdown", "pointermove"]) node.addEventListener(kind, hear);
}

// Where the pointer is in `node`: parts of its width and height, without its margins in pixels.
function placeIn(node, event, [left, right, top, bottom] = [0, 0, 0, 0]) {
  const box = node.getBoundingClientRect();
  return [(event.clientX - box.left - left) / (box.width - left - right),
    (event.clientY - box.top - top) / (box.height - top - bottom)];
}

// The cell there of a table with so many columns and rows that fills the node.
const cellIn = (node, event, ...counts) =>
  placeIn(node, event).map((part, i) => clamp(Math.floor(part * counts[i]), 0, counts[i] - 1));

// The head there on a wall of maps.
function headIn(node, event, layers, heads) {
  const [layer, head] = cellIn(node, event, layers, heads);
  return layer * heads + head;
}
