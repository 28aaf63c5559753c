// The reader's progress, kept in this browser and nowhere else. One entry of the local storage holds, for each
// chapter, the names of what is done and how much there is. Where storage is blocked, it lasts as long as the page.
(() => {
  const KEY = "attention-progress";
  let memory = "{}";

  function load() {
    try {
      memory = localStorage.getItem(KEY) ?? "{}";
    } catch {} // blocked
    try {
      const all = JSON.parse(memory);
      return all && typeof all === "object" && !Array.isArray(all) ? all : {};
    } catch {
      return {}; // another site's entry, or a broken one
    }
  }

  function save(all) {
    memory = JSON.stringify(all);
    try {
      localStorage.setItem(KEY, memory);
    } catch {}
  }

  const entry = (all, stem) => ({ of: Number(all[stem]?.of) || 0, done: [].concat(all[stem]?.done ?? []) });
  const words = (done, of) => `${done} of ${of} exercises and quick questions done`;

  const span = (className, text = "") => Object.assign(document.createElement("span"), { className, textContent: text });
  const unseen = (text) => span("visually-hidden", text); // for screen readers
  // A mark, which the style sheet draws, and what it says.
  function sign(drawn, said) {
    const made = span("progress-mark");
    made.dataset.sign = drawn;
    made.append(unseen(` (${said})`));
    return made;
  }

  // A chapter: its bar, its exercises' boxes, its quizzes.
  const bar = document.querySelector(".chapter-progress");
  const boxes = [...document.querySelectorAll(".exercise-done input")];
  const quizzes = bar ? [...document.querySelectorAll("fieldset.quiz")] : [];
  const names = [...boxes.map((box) => box.dataset.exercise), ...quizzes.map((quiz) => quiz.id)];

  function doneHere(all) {
    return names.filter((name) => entry(all, bar.dataset.chapter).done.includes(name));
  }

  function mark(name, done) {
    const all = load();
    const now = doneHere(all).filter((other) => other !== name);
    if (done) now.push(name);
    all[bar.dataset.chapter] = { of: names.length, done: now };
    if (!now.length) delete all[bar.dataset.chapter];
    save(all);
    show();
  }

  function showChapter(all) {
    const done = doneHere(all);
    const meter = bar.firstElementChild;
    meter.setAttribute("aria-valuemax", names.length);
    meter.setAttribute("aria-valuenow", done.length);
    meter.setAttribute("aria-valuetext", words(done.length, names.length));
    meter.firstElementChild.style.width = `${names.length ? (100 * done.length) / names.length : 0}%`;
    bar.querySelector(".progress-text").textContent = words(done.length, names.length);
    for (const box of boxes) box.checked = done.includes(box.dataset.exercise);
    for (const quiz of quizzes) quiz.classList.toggle("quiz-done", done.includes(quiz.id));
    for (const box of boxes) {
      const section = box.closest("section[id]");
      for (const link of document.querySelectorAll(`.page-toc a[href="#${section?.id}"]`)) {
        link.classList.toggle("toc-done", box.checked);
        link.querySelector(".visually-hidden")?.remove();
        if (box.checked) link.append(unseen(" (done)"));
      }
    }
  }

  // Every page: a mark beside each link to a chapter, in the sidebar and in the first page's list.
  const LISTS = ".bd-sidenav a.reference.internal, .bd-article ol > li > p > a.reference";
  const links = [...document.querySelectorAll(LISTS)];

  function showLinks(all) {
    for (const link of links) {
      const stem = new URL(link.href).pathname.match(/\/chapters\/(\w+)\.html$/)?.[1];
      const { of, done } = entry(all, stem);
      link.querySelector(".progress-mark")?.remove();
      if (!done.length) continue;
      link.append(sign(done.length >= of ? "✓" : `${done.length}/${of}`, words(done.length, of)));
    }
  }

  // The page of all exercises: what is done.
  const rows = [...document.querySelectorAll("tr[data-exercise]")];
  function showRows(all) {
    for (const row of rows) {
      const done = entry(all, row.dataset.chapter).done.includes(row.dataset.exercise);
      row.querySelector(".progress-mark")?.remove();
      if (!done) continue;
      row.firstElementChild.append(sign("✓", "done"));
    }
  }

  // The first page: go on with the answer that was written last.
  function showContinue() {
    const start = document.querySelector('.hero-start[href*="#answer-"]');
    let newest = null;
    try {
      for (let i = 0; i < localStorage.length; i++) {
        const name = localStorage.key(i).match(/^attention-answer:(\w+)$/)?.[1];
        const kept = name && JSON.parse(localStorage.getItem(`attention-answer:${name}`));
        const when = parseInt(kept?.revision ?? "0", 36); // begins with the time
        if (kept?.stem && when > (newest?.when ?? 0)) newest = { name, stem: kept.stem, when };
      }
    } catch {} // blocked, or another site's entry
    if (!start || !newest || !/^\w+$/.test(newest.stem)) return;
    start.textContent = `Go on with ${newest.name}`;
    start.setAttribute("href", `chapters/${newest.stem}.html#answer-${newest.name}`);
  }

  function show() {
    const all = load();
    if (bar) showChapter(all);
    showLinks(all);
    showRows(all);
    showContinue();
    if (forget) forget.parentElement.hidden = !Object.keys(all).length;
  }

  const forget = document.querySelector(".progress-forget button");
  forget?.addEventListener("click", () => {
    if (!confirm("Forget what you have done in all chapters?")) return;
    memory = "{}";
    try {
      localStorage.removeItem(KEY);
    } catch {}
    show();
  });
  for (const box of boxes) box.addEventListener("change", () => mark(box.dataset.exercise, box.checked));
  for (const quiz of quizzes)
    quiz.addEventListener("change", ({ target }) => {
      const right = quiz.querySelector(`.quiz-answers [data-choice="${target.value}"]`)?.dataset.right === "true";
      if (right) mark(quiz.id, true);
    });
  addEventListener("storage", ({ key }) => (key === KEY || key === null) && show()); // another tab
  addEventListener("pageshow", ({ persisted }) => persisted && show()); // back from another page
  show();
})();
