// Controls for pictures that go step by step, and play.

// A button that plays: every `pause` milliseconds it goes on by one, until it is at the end; from there it starts over.
// `at` and `end` give numbers, `go` takes one; while it is not `ready` it does not begin. Returns the button, what stops
// it, buttons for single steps, and `mark`, which tells these whether they lead anywhere.
function player({ onend }, pause, { at, end, go, ready = () => true, attributes, following }) {
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const play = button("play", "Play", () => {
    if (timer !== null) return stop();
    if (!ready()) return;
    if (at() >= end()) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      go(at() + 1);
      if (at() >= end()) stop();
    }, pause);
  }, attributes);
  const step = (by) => () => {
    stop();
    go(at() + by);
  };
  const back = button("back", "Back", step(-1)), next = button("next", "Next", step(1), following);
  const mark = () => {
    back.setAttribute("aria-disabled", String(at() === 0));
    next.setAttribute("aria-disabled", String(at() === end()));
  };
  onend(stop);
  return { play, stop, back, next, mark };
}
