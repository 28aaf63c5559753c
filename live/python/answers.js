// Answers in the page: a card's button opens an editor with the stub, and Python in this browser checks what is written.
import { makeEditor } from "./editor.js";
import * as engine from "./engine.js";
import * as store from "./store.js";

const DOING = { check: "Checking ...", run: "Running ..." };
const LONG = 8000; // milliseconds after which it is said how to end it
const STILL = "Still running. If a loop does not end, press Stop: what you wrote stays.";
const PAUSE = 300; // milliseconds after the last key until what was typed is kept
const TRIES = 5; // checks that fail until the next hint is offered
const TAKEN_IN = "answers-taken-in"; // what a page tells its cards after a notebook has come back
const IDLE = 2; // minutes without a key that count as work at most
const MAC = /Mac|iPhone|iPad/.test(navigator.platform ?? "");
const KEYS = MAC ? "⌘ Enter" : "Ctrl+Enter";
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

const element = (tag, attributes = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...inside);
  return made;
};
const button = (text, onclick, className = "") => element("button", { type: "button", textContent: text, onclick, className });

// An address of the site, whose scripts are in _static/python.
const SITE = (path) => new URL(`../../${path}`, import.meta.url).href;
const NOTEBOOK = (stem) => SITE(`notebooks/${stem}.ipynb`);

// The notebooks that hold what a cell may use: this chapter's, and those of other chapters with answers.
async function notebooks(stem, own) {
  const all = store.answers();
  all[stem] = { ...all[stem], ...own };
  return Promise.all(Object.entries(all).map(async ([other, answers]) => ({ stem: other, notebook: await filled(other, answers) })));
}

// A notebook's stub has nbgrader's comment and parentheses, which make no difference.
const plain = (stub) => (stub ?? "").replace(/^\s*# YOUR CODE HERE\n/m, "").replace("NotImplementedError()", "NotImplementedError").trim();

// Loads the styles of the editor, once.
async function styles() {
  if (document.querySelector("link[data-answers]")) return;
  const link = element("link", { rel: "stylesheet", href: new URL("answers.css", import.meta.url).href });
  link.dataset.answers = "";
  await new Promise((done) => {
    link.onload = link.onerror = done;
    document.head.append(link);
  });
}

export async function open(card, { name, stem }) {
  await styles();
  const before = card.querySelector(".answer");
  if (before) return before.querySelector(".cm-content").focus();

  const stub = card.querySelector("details .cell pre").textContent.replace(/\n$/, "");
  const kept = store.answer(name);
  const current = kept && plain(kept.stub) === plain(stub); // else it was typed for another stub, and is offered and not put in place
  let older = kept && !current ? kept.text : kept?.older ?? null;
  let revision = kept?.revision, timer = 0, changed = false, busy = "", patience = 0, stopped = false, failed = 0, lastKey = 0, worked = 0;

  // ---- what the reader sees
  const status = element("p", { className: "answer-status" });
  status.setAttribute("role", "status");
  const bar = element("progress", { className: "answer-progress", max: 1, value: 0, hidden: true });
  bar.setAttribute("aria-label", "Loading Python");
  const notice = element("div", { className: "answer-notice" });
  const printed = element("pre", { className: "answer-printed", hidden: true, tabIndex: 0 });
  printed.setAttribute("aria-label", "Output of your cell");
  const report = element("div", { className: "answer-report" });
  report.setAttribute("aria-live", "polite");
  const place = element("div", { className: "answer-editor" });
  const help = element("p", { id: `answer-help-${name}`, className: "answer-help" },
    "Tab indents. To leave the editor, press Escape, then Tab. NumPy is there as np.");
  const check = button("", () => ask("check"), "answer-check");
  check.append("Check ", element("kbd", { textContent: KEYS }));
  const run = button("Run", () => ask("run"));
  const stop = button("Stop", () => { stopped = true; engine.stop(); }, "answer-stop");
  stop.disabled = true;
  let comparing = false;
  const compare = button("Show my changes", () => {
    comparing = !comparing;
    editor.compareWith(comparing ? stub : null);
    compare.textContent = comparing ? "Hide my changes" : "Show my changes";
    compare.setAttribute("aria-pressed", comparing);
  });
  compare.setAttribute("aria-pressed", "false");
  const reset = button("Reset", () => {
    const was = editor.text();
    editor.replace(stub);
    status.textContent = "";
    say("The cell is as it was at first.", ["Undo", () => editor.replace(was)]);
  });
  const take = button("Take it along", () => takeAlong(stem));
  const all = element("a", { href: SITE("answers.html"), textContent: "All my answers" });
  take.title = "The chapter's notebook with your answers in it, for Jupyter and for handing in";
  const box = element("div", { className: "answer" }, notice, place, help,
    element("div", { className: "answer-bar" }, check, run, stop), bar, status, printed, report,
    element("div", { className: "answer-more" }, compare, reset, take, all));
  card.querySelector(".answer-here").after(box);
  // Sphinx takes "/" for its search wherever it is typed, but in its own fields.
  box.addEventListener("keydown", (event) => event.stopPropagation());
  card.classList.add("answering");
  const folded = card.querySelector(":scope > details > summary");
  folded.textContent = folded.textContent.replace(/^The cell to fill in, and (.*)$/, "$1").replace(/^a hint$/, "A hint");

  const editor = makeEditor({
    parent: place, text: current ? kept.text : stub, label: `Your answer: ${name}`, describedBy: help.id,
    onChange: () => {
      const now = Date.now();
      worked += Math.min(now - (lastKey || now), IDLE * 60_000);
      lastKey = now;
      changed = true;
      clearTimeout(timer);
      timer = setTimeout(() => keep(), PAUSE);
    },
    onCheck: () => ask("check"),
  });
  editor.focus();

  function say(text, ...actions) {
    notice.replaceChildren();
    if (!text) return;
    notice.append(element("span", { textContent: `${text} ` }));
    for (const [words, action] of actions)
      notice.append(button(words, () => { notice.replaceChildren(); action(); editor.focus(); }), " ");
  }

  // ---- the living page: the cells below, with the reader's answer
  const used = element("input", { type: "checkbox", onchange: () => (used.checked ? useMine() : page.restore()) });
  const living = element("label", { className: "answer-living", hidden: true }, used,
    " Use my ", element("code", { textContent: name }), " for the outputs below on this page");
  report.after(living);
  const page = livingPage(name);

  async function useMine() {
    status.textContent = "Running the cells below ...";
    const { cells, ...ended } = await askPython({ kind: "rerun", stem, name, source: editor.text() });
    if (!cells) {
      used.checked = false;
      return show("run", ended);
    }
    const { changed: now, recorded } = page.put(cells);
    status.textContent = `${now === 1 ? "1 output" : `${now} outputs`} below now ${now === 1 ? "comes" : "come"} from your ${name}.`
      + (recorded ? ` ${recorded} more ${recorded === 1 ? "stays" : "stay"} as recorded: figures, widgets, and what needs other answers.` : "");
  }

  // ---- what is kept
  function keep(force = false) {
    clearTimeout(timer);
    if (!changed && !force) return;
    const text = editor.text();
    const saved = store.save(name, { text, stub, stem, revision, older, force });
    if (saved === null) return conflict();
    changed = false;
    revision = saved;
    if (!store.keeps) say("This browser keeps nothing here (a private window, or its storage is full): take your work along before you leave.");
  }

  function conflict() {
    const theirs = store.answer(name);
    say("This answer was changed in another tab.",
      ["Use that one", () => { revision = theirs.revision; editor.replace(theirs.text); changed = false; }],
      ["Keep this one", () => { revision = theirs.revision; keep(true); }]);
  }

  addEventListener("pagehide", () => keep());
  document.addEventListener("visibilitychange", () => document.hidden && keep());
  addEventListener("storage", ({ key }) => {
    const theirs = store.isAnswer(key) === name && store.answer(name);
    if (theirs && theirs.revision !== revision && theirs.text !== editor.text()) conflict();
    else if (theirs) revision = theirs.revision;
  });
  if (older !== null && !current)
    say("The exercise has changed since you wrote an answer to it.", ["Show my old answer", () => editor.replace(older)]);

  // A notebook dropped on the card fills the chapter's cards. The editor would take the file's text, so it must not see it.
  for (const type of ["dragover", "drop"])
    box.addEventListener(type, async (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      event.stopPropagation();
      if (type === "dragover") return;
      keep();
      const said = await takeAllIn(event.dataTransfer.files, [stem]);
      document.dispatchEvent(new Event(TAKEN_IN));
      say(said);
    }, { capture: true });
  document.addEventListener(TAKEN_IN, () => {
    const theirs = store.answer(name);
    if (!theirs || theirs.revision === revision) return;
    revision = theirs.revision;
    older = theirs.older ?? older;
    editor.replace(theirs.text);
    keep();
  });

  // ---- Python
  let ticking = 0;
  engine.watch(({ state, loaded, total, began }) => {
    clearInterval(ticking);
    bar.hidden = state !== "loading" && state !== "starting";
    if (!bar.hidden) {
      const here = state === "starting" || (total && loaded >= total); // what comes then has no measure
      if (here) bar.removeAttribute("value");
      else bar.value = total ? loaded / total : 0;
      const tick = () => {
        const seconds = Math.round((performance.now() - began) / 1000);
        status.textContent = here ? `Starting Python, with NumPy: ${seconds} s.`
          : `Loading Python: ${megabytes(loaded)} of ${total ? megabytes(total) : "about 18"} MB, ${seconds} s. Your browser keeps it.`;
      };
      tick();
      ticking = setInterval(tick, 1000);
    } else if (state === "ready" && busy) working();
    else if (state === "ready") status.textContent = "Python is ready.";
  });
  engine.start();

  function working() {
    status.textContent = DOING[busy];
    clearTimeout(patience);
    patience = setTimeout(() => (status.textContent = STILL), LONG);
  }

  async function askPython(question) {
    try {
      return await engine.ask({ ...question, notebooks: await notebooks(stem, { [name]: question.source }) });
    } catch (error) { // the site cannot be reached
      return { error: `The chapter's notebook, which holds the cells above, could not be fetched: ${error.message}.` };
    }
  }

  async function ask(kind) {
    if (busy) return;
    busy = kind;
    stopped = false;
    keep();
    printed.hidden = true;
    for (const one of [check, run]) one.setAttribute("aria-disabled", "true");
    stop.disabled = false;
    if (engine.isReady()) working();
    const source = editor.text();
    const answer = await askPython({ kind, stem, name, source });
    clearTimeout(patience);
    busy = "";
    stop.disabled = true;
    for (const one of [check, run]) one.removeAttribute("aria-disabled");
    show(kind, answer);
  }

  function show(kind, answer) {
    if (kind === "check" || answer.error) report.replaceChildren();
    status.classList.remove("answer-passed");
    const output = [answer.printed, answer.shown].filter(Boolean).join("\n");
    printed.textContent = output;
    printed.hidden = !output;
    if (answer.stopped || answer.broken) {
      status.textContent = answer.reason || (stopped ? "Stopped. What you wrote is still here."
        : `Python ended (${answer.broken ? "it ran out of memory, or out of room for calls" : "the page stopped it"}). What you wrote is still here; the next check starts it again.`);
      return;
    }
    if (answer.error) {
      status.textContent = "Your code ended with an error.";
      report.append(element("pre", { className: "answer-error", textContent: answer.error }));
      if (kind === "check") count(false);
      return;
    }
    if (kind === "run") {
      status.textContent = output ? "Done." : `Done. Nothing was printed: end with a line such as print(${name}(...)), with arguments of your own.`;
      return;
    }
    report.innerHTML = answer.html; // made by `attnlab`, which escapes what is the reader's
    lead(report);
    status.textContent = answer.passed ? `${name} passes.` : answer.notDone ? `${name} is not done yet.`
      : `${name} does not pass yet.`;
    if (!answer.notDone) count(answer.passed, answer);
    living.hidden = !answer.passed;
    if (answer.passed) {
      const done = card.querySelector(".exercise-done input");
      if (done && !done.checked) done.click();
      status.classList.add("answer-passed");
      const buttons = [...document.querySelectorAll(".answer-here button")];
      const next = buttons[buttons.findIndex((one) => one.dataset.exercise === name) + 1];
      if (next) status.append(" Next: ", element("a", { href: `#answer-${next.dataset.exercise}`, textContent: next.dataset.exercise }));
    }
  }

  // Tries are counted until the first right answer, on this machine alone.
  function count(right, answer = {}) {
    const known = store.record(name);
    const marks = answer.maxPoints === undefined ? {} : { points: answer.points, maxPoints: answer.maxPoints };
    if (!known.right)
      store.note(name, { tries: known.tries + 1, minutes: known.minutes + worked / 60_000, right, stem, ...marks });
    else store.note(name, { stem, ...marks });
    worked = 0;
    failed = right ? 0 : failed + 1;
    const hints = [...card.querySelectorAll("details details")].filter((box) => !box.open && /^\s*Hint/.test(box.textContent));
    if (failed >= TRIES && hints.length)
      say("Would a hint help?", ["Show the next hint", () => {
        failed = 0;
        const outer = hints[0].parentElement.closest("details");
        if (outer) outer.open = true;
        hints[0].open = true;
        hints[0].scrollIntoView({ block: "nearest" });
      }]);
  }
}

// Puts what cells print into their outputs on the page, and the recorded text back.
function livingPage(name) {
  const former = new Map();
  const squeeze = (text) => text.replace(/\s+/g, " ").trim();
  return {
    put(cells) {
      this.restore();
      const onPage = new Map([...document.querySelectorAll("div.cell")].map((cell) =>
        [squeeze(cell.querySelector(".cell_input pre")?.textContent ?? ""), cell]));
      let changed = 0, recorded = 0;
      for (const { source, printed } of cells) {
        const cell = onPage.get(squeeze(source)), outputs = [...(cell?.querySelectorAll(".cell_output pre") ?? [])];
        if (!cell?.querySelector(".cell_output")) continue;
        if (!printed || outputs.length !== 1 || cell.querySelector(".cell_output :is(img, object, .widget-view)")) {
          recorded++;
          continue;
        }
        const [output] = outputs, same = output.textContent.trim() === printed.trim();
        const note = element("p", { className: "answer-mine" }, same ? "The same with your " : "With your ",
          element("code", { textContent: name }));
        former.set(output, { nodes: [...output.childNodes], note });
        output.replaceChildren(printed);
        output.closest(".output").after(note);
        changed++;
      }
      return { changed, recorded };
    },
    restore() {
      for (const [output, { nodes, note }] of former) {
        output.replaceChildren(...nodes);
        note.remove();
      }
      former.clear();
    },
  };
}

// Links of a report lead to the section of this page that has that title.
function lead(report) {
  const headings = [...document.querySelectorAll("article :is(h1, h2, h3, h4)")];
  for (const link of report.querySelectorAll('a[href^="#"]')) {
    const title = link.textContent.trim();
    const found = headings.find((one) => one.textContent.replace("#", "").replace("¶", "").trim() === title);
    const id = found?.closest("section")?.id;
    if (id) link.setAttribute("href", `#${id}`);
    else link.replaceWith(title);
  }
}

// ---- notebooks, out and in

const isSolution = (cell) => cell.metadata?.nbgrader?.solution === true && cell.cell_type === "code";
const sourceOf = (cell) => [].concat(cell.source ?? []).join("").replace(/\r\n?/g, "\n");

const notebookTexts = new Map(); // stem -> promise of the notebook's text, fetched once
async function released(stem) {
  const get = async () => {
    const answer = await fetch(NOTEBOOK(stem));
    if (!answer.ok) throw new Error(`there is no notebook of ${stem} on this site`);
    return answer.text();
  };
  if (!notebookTexts.has(stem)) notebookTexts.set(stem, get());
  try {
    return JSON.parse(await notebookTexts.get(stem));
  } catch (error) {
    notebookTexts.delete(stem);
    throw error;
  }
}

// The chapter's notebook, with answers {name: text} in their cells. Nothing else of it changes.
export async function filled(stem, answers) {
  const notebook = await released(stem);
  for (const cell of notebook.cells)
    if (isSolution(cell) && typeof answers[cell.metadata.nbgrader.grade_id] === "string")
      cell.source = answers[cell.metadata.nbgrader.grade_id];
  return `${JSON.stringify(notebook, null, 1)}\n`;
}

export async function takeAlong(stem) {
  const link = element("a", {
    href: URL.createObjectURL(new Blob([await filled(stem, store.answers()[stem] ?? {})], { type: "application/x-ipynb+json" })),
    download: `${stem}.ipynb`, hidden: true,
  });
  // The page's own script writes this address into the cell that installs `attnlab`.
  link.dataset.wheel = new URL(document.querySelector("[data-wheel]").dataset.wheel, location.href).href;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

// Takes the answers out of a notebook and keeps them. Returns a sentence.
export async function takeIn(file, stems) {
  let cells;
  try {
    cells = JSON.parse(await file.text()).cells.filter(isSolution);
  } catch {
    return `${file.name} is not a notebook. Nothing was changed.`;
  }
  const names = new Set(cells.map((cell) => cell.metadata.nbgrader.grade_id));
  for (const stem of stems) {
    const ours = (await released(stem)).cells.filter(isSolution).map((cell) => [cell.metadata.nbgrader.grade_id, sourceOf(cell)]);
    if (!ours.some(([name]) => names.has(name))) continue;
    let taken = 0;
    for (const [name, stub] of ours) {
      const cell = cells.find((one) => one.metadata.nbgrader.grade_id === name), text = cell && sourceOf(cell);
      if (!text?.trim() || plain(text) === plain(stub) || text === store.answer(name)?.text) continue;
      store.save(name, { text, stub, stem, older: store.answer(name)?.text, force: true });
      taken++;
    }
    return taken ? `${taken === 1 ? "1 answer" : `${taken} answers`} of ${file.name} ${taken === 1 ? "is" : "are"} on this page now.`
      : `${file.name} has no answers that are not here already.`;
  }
  return `${file.name} is not a notebook of ${stems.length > 1 ? "these chapters" : "this chapter"}. Nothing was changed.`;
}

async function takeAllIn(files, stems) {
  const words = [];
  for (const file of [...files]) words.push(await takeIn(file, stems).catch((error) => `${file.name}: ${error.message}`));
  return words.join(" ");
}

// ---- the page of all answers

export async function overview(place, chapters) {
  await styles();
  const stems = chapters.map(({ stem }) => stem), said = element("p", { className: "answer-status" });
  said.setAttribute("role", "status");
  const list = element("div");
  const input = element("input", { type: "file", accept: ".ipynb", multiple: true, id: "answer-files" });
  const takeFiles = async (files) => {
    said.textContent = await takeAllIn(files, stems);
    show();
  };
  input.addEventListener("change", () => takeFiles(input.files));
  const drop = element("div", { className: "answer-drop" },
    element("label", { htmlFor: "answer-files", textContent: "Bring a notebook back: drop it here, or choose it" }), input);
  for (const type of ["dragover", "drop"])
    addEventListener(type, (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      if (type === "drop") takeFiles(event.dataTransfer.files);
    });
  const save = button("Save or print this page", () => print());

  function show() {
    list.replaceChildren();
    const all = store.everything();
    for (const { stem, title, exercises } of chapters) {
      const table = element("table", { className: "table" }, element("thead", {}, element("tr", {},
        ...["Exercise", "Points", "Tries until right", "Minutes"].map((text) => element("th", { textContent: text, scope: "col" })))));
      const body = element("tbody");
      const texts = [];
      for (const name of exercises) {
        const { tries, minutes, right, points, maxPoints } = store.record(name), kept = all[name];
        const link = element("a", { href: `chapters/${stem}.html#answer-${name}` }, element("code", { textContent: name }));
        body.append(element("tr", {}, element("td", {}, link),
          element("td", { textContent: maxPoints === undefined ? (kept ? "not checked" : "") : `${points} of ${maxPoints}` }),
          element("td", { textContent: tries ? (right ? tries : `${tries}, not right yet`) : "" }),
          element("td", { textContent: tries ? Math.max(1, Math.round(minutes)) : "" })));
        if (kept) texts.push(element("h3", {}, element("code", { textContent: name })), element("pre", { textContent: kept.text }));
      }
      table.append(body);
      list.append(element("h2", { textContent: title }), table);
      if (texts.length)
        list.append(button("Take this notebook along", () => takeAlong(stem)), element("details", {},
          element("summary", { textContent: "Your answers" }), ...texts));
    }
  }
  place.classList.add("answer", "answer-overview");
  place.replaceChildren(drop, said, list, save);
  show();
}

export { ask as askPython, stop as stopPython } from "./engine.js";
