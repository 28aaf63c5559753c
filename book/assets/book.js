// Quizzes: choosing an answer shows its feedback. The texts are in the page already, behind a disclosure.
addEventListener("DOMContentLoaded", () => {
  for (const quiz of document.querySelectorAll("fieldset.quiz")) {
    const answers = quiz.querySelector(".quiz-answers");
    const result = quiz.querySelector(".quiz-result");
    answers.hidden = true;
    quiz.addEventListener("change", (event) => {
      const feedback = answers.querySelector(`[data-choice="${event.target.value}"]`);
      result.dataset.right = feedback.dataset.right;
      result.replaceChildren(...[...feedback.childNodes].map((node) => node.cloneNode(true)));
      result.querySelector(".quiz-named").remove(); // the choice itself: it is marked above
    });
  }
});

// Boxes that scroll are stops for the Tab key. The theme sees to it, but not for formulas and unfolded boxes.
addEventListener("load", () => {
  const tables = [...document.querySelectorAll(".bd-article .pst-scrollable-table-container")];
  const mark = (box) => {
    if (box.scrollWidth <= box.clientWidth && box.tabIndex !== 0) return; // the theme may have seen that it scrolls
    box.tabIndex = 0;
    if (!tables.includes(box)) return;
    box.setAttribute("role", "region"); // what can have the focus needs a role and a name
    box.setAttribute("aria-label", `Table ${1 + tables.indexOf(box)}`);
  };
  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => mark(target)));
  const inside = ".pst-scrollable-table-container, details :is(pre, .output), div.math";
  for (const box of document.querySelectorAll(`.bd-article :is(${inside})`)) {
    mark(box); // in a folded box too, whose sizes are not observed
    observer.observe(box);
  }
});

// The theme lets go of these buttons once they are pressed. Who uses the keyboard may want to press them again.
{
  let pressed = null;
  const back = () => pressed?.focus({ preventScroll: true }); // nothing, as long as a menu lies over the page
  addEventListener("click", ({ target }) => {
    const button = target.closest(".theme-switch-button, .search-button, .sidebar-toggle");
    if (!button) return;
    pressed = button;
    setTimeout(back);
  }, true);
  addEventListener("close", () => setTimeout(() => document.activeElement === document.body && back()), true);

  // After a choice in a menu that covers the page, close the menu: the reader wants to see the section.
  addEventListener("click", ({ target }) => {
    const menu = target.closest('a[href^="#"]')?.closest("dialog");
    if (!menu) return;
    pressed = null;
    menu.close();
  });
}

// Paper is white and nothing on it opens: while a page is printed it is light, and all that is folded is open.
{
  const root = document.documentElement;
  let before = null;
  addEventListener("beforeprint", () => {
    before ??= { theme: root.dataset.theme, folded: [...document.querySelectorAll("details:not([open])")] };
    root.dataset.theme = "light";
    for (const box of before.folded) box.open = true;
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = before.theme;
    for (const box of before.folded) box.open = false;
    before = null;
  });
}

// A notebook installs attnlab from the copy of the site that it came from: its first cell gets the address of the wheel.
addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-wheel]");
  if (!link || !location.protocol.startsWith("http")) return;
  event.preventDefault();
  const save = document.createElement("a");
  save.download = link.download;
  save.href = link.href; // unchanged, if it cannot be read here
  try {
    const response = await fetch(link.href);
    const wheel = new URL(link.dataset.wheel, location.href).href; // has neither quotes nor backslashes
    const address = /(glob\(\\"attnlab-\*\.whl\\"\), \\")[^"\\]*/;
    const text = (await response.text()).replace(address, (_, before) => before + wheel);
    if (response.ok) save.href = URL.createObjectURL(new Blob([text], { type: "application/x-ipynb+json" }));
  } catch {}
  save.click();
  setTimeout(() => URL.revokeObjectURL(save.href), 60000);
});

// From the file system no page may read another, so the search lists its results without the passages around the word.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined")
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A link to something folded opens what it is in; a link to an exercise opens its card.
{
  const reveal = () => {
    let name;
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch {
      return; // an edited address
    }
    const target = document.getElementById(name);
    const folded = target?.matches(".exercise-card") ? target.querySelector("details") : target;
    let box = folded?.closest("details:not([open])");
    if (!box) return;
    for (; box; box = box.parentElement.closest("details:not([open])")) box.open = true;
    target.scrollIntoView();
  };
  addEventListener("DOMContentLoaded", reveal);
  addEventListener("hashchange", reveal);
}

// Alt+N and Alt+P go to the next and the previous exercise. (Without Alt they would be in the way of screen readers.)
addEventListener("keydown", (event) => {
  const step = { KeyN: 1, KeyP: -1 }[event.code];
  if (!step || !event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const cards = [...document.querySelectorAll(".exercise-card")], line = innerHeight / 3;
  if (step < 0) cards.reverse();
  const current = document.activeElement.closest(".exercise-card");
  const place = (card) => card.getBoundingClientRect().top;
  const next = current ? cards[cards.indexOf(current) + 1]
    : cards.find((card) => (step > 0 ? place(card) > line : place(card) < 0));
  if (!next) return;
  event.preventDefault();
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView();
});

// After a reload, or on the way back to a page, what the reader had unfolded is open again.
{
  const key = `attention-open:${location.pathname}`, boxes = () => [...document.querySelectorAll(".bd-article details")];
  addEventListener("DOMContentLoaded", () => {
    if (performance.getEntriesByType("navigation")[0]?.type === "navigate") return;
    try {
      const all = boxes();
      for (const i of JSON.parse(sessionStorage.getItem(key) ?? "[]")) if (all[i]) all[i].open = true;
    } catch {} // nothing is kept in this browser
  });
  addEventListener("pagehide", () => {
    try {
      sessionStorage.setItem(key, JSON.stringify(boxes().flatMap((box, i) => (box.open ? [i] : []))));
    } catch {}
  });
}

// "Answer here" on a card loads the editor, which loads Python. Nothing of either is loaded before.
async function answerHere(button) {
  const card = button.closest(".exercise-card"), said = button.nextElementSibling;
  const folder = new URL("../_static/python/", location);
  button.ariaDisabled = "true";
  said.textContent = "The editor is coming ...";
  try {
    const { open } = await import(new URL("answers.js", folder));
    await open(card, { name: button.dataset.exercise, stem: button.dataset.stem });
    button.parentElement.hidden = true;
  } catch (error) {
    console.warn(error);
    said.textContent = "does not work in this browser. Use the notebook.";
  }
  button.ariaDisabled = null;
}
addEventListener("click", ({ target }) => {
  const button = target.closest(".answer-here button");
  if (button && !button.ariaDisabled) answerHere(button);
});
// The first page's button leads to `#answer-dot`: the reader has pressed it there.
function fromLink() {
  const name = location.hash.match(/^#answer-(\w+)$/)?.[1];
  const button = name && document.querySelector(`.answer-here button[data-exercise="${name}"]`);
  if (!button || location.protocol === "file:") return;
  answerHere(button).then(() => button.closest(".exercise-card").scrollIntoView());
}
addEventListener("DOMContentLoaded", fromLink);
addEventListener("hashchange", fromLink);

// The page's contents go along with the reader: what is marked there is always in view.
addEventListener("DOMContentLoaded", () => {
  const contents = document.querySelector(".page-toc");
  if (!contents) return;
  new MutationObserver(() => {
    const marked = [...contents.querySelectorAll(".nav-link.active")].at(-1);
    let column = contents;
    while (column && column.scrollHeight <= column.clientHeight) column = column.parentElement;
    if (!marked || !column || column === document.documentElement) return;
    const { top, bottom } = marked.getBoundingClientRect(), frame = column.getBoundingClientRect();
    if (top < frame.top || bottom > frame.bottom) column.scrollTop += top - frame.top - frame.height / 2;
  }).observe(contents, { attributes: true, attributeFilter: ["class"], subtree: true });
});

// The theme's arrow that unfolds a chapter's own pages in the sidebar has no name.
addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll(".bd-sidenav .has-children > details > summary"))
    arrow.ariaLabel = `Pages of ${arrow.closest(".has-children").querySelector("a").textContent.trim()}`;
});
