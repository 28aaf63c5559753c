// The search page. Over http it asks the index by section (book/site/search.py), and answers while the reader types;
// from the file system, or where that index is missing, it loads Sphinx's search as it comes.
(() => {
  const ROOT = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const SMALL = new Set(("a an and are as at be by can do does for from has have how i if in is it its my not of on or " +
    "so than that the their there these they this to was we what when where which who will with you").split(" "));
  const SHOWN = 12, LOOKED_AT = 30, SECTIONS = 400; // the last is about how many there are

  function fallBack() {
    for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"]) {
      const script = document.createElement("script");
      script.async = false; // one after another
      script.src = new URL(name, ROOT);
      document.head.append(script);
    }
  }

  const split = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}']+/gu, " ").trim().split(" ").filter(Boolean);

  // How many letters must be put in, left out, changed or swapped with the next one to make one word of the other.
  function distance(a, b) {
    const rows = [[...Array(b.length + 1).keys()]];
    for (let i = 1; i <= a.length; i++) {
      rows.push([i]);
      for (let j = 1; j <= b.length; j++) {
        const same = a[i - 1] === b[j - 1];
        rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + !same);
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
          rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
    return rows[a.length][b.length];
  }

  // A word that the book does not have, nor the beginning of one: the nearest word of a title or a name instead.
  function corrected(word, { titles, known }) {
    if (word.length < 4 || /\d/.test(word) || known.some((other) => other.startsWith(word))) return word;
    const most = word.length < 6 ? 1 : 2;
    let best = word, least = most + 1;
    for (const other of titles) {
      if (Math.abs(other.length - word.length) >= least) continue;
      const apart = distance(word, other) + (other[0] === word[0] ? 0 : 0.5);
      if (apart < least) [best, least] = [other, apart];
    }
    return best;
  }

  // Whether the book has no such word, nor one that begins with it. Words with digits are not listed.
  const isUnknown = (word, { known }) =>
    /^\p{L}{2,}$/u.test(word) && !known.some((other) => other.startsWith(word) || stem(other) === stem(word));

  // Terms and exercises of that name: at most one of each, the shortest name that has all the words.
  function named(wanted, { names }) {
    if (!wanted.length) return [];
    const joined = wanted.join(" ");
    return ["exercise", "term"].flatMap((kind) => {
      const fitting = names.filter((one) => one.kind === kind)
        .map((one) => ({ ...one, words: split(one.title.replace(/([a-z])([A-Z])/g, "$1 $2")), whole: split(one.title) }))
        .filter(({ words, whole }) => [words, whole].some((own) => own.join(" ") === joined) ||
          (wanted.length > 1 && wanted.every((word) => words.includes(word))))
        .sort((a, b) => a.words.length - b.words.length);
      return fitting.slice(0, 1);
    });
  }

  const stem = (word) => word.replace(/(?:ing|ed|es|s)$/, "").slice(0, 7);

  // The sections, best first: those with all words before those with some, and among these by how well titles match.
  async function sections(pagefind, wanted) {
    const scores = new Map(), found = new Map();
    const take = (results, worth) => {
      const top = results[0]?.score || 1;
      for (const one of results.slice(0, LOOKED_AT)) {
        if (!found.has(one.id)) found.set(one.id, one); // the first was asked for all words, and marks them
        scores.set(one.id, (scores.get(one.id) ?? 0) + worth * (0.5 + (0.5 * one.score) / top));
      }
    };
    take((await pagefind.search(wanted.join(" "))).results, 1);
    // A rare word says more than one that is everywhere; a single letter says nothing by itself.
    const rarity = new Map();
    for (const word of new Set(wanted)) {
      const { results } = await pagefind.search(word);
      rarity.set(word, word.length < 2 ? 0.1 : Math.log(2 + SECTIONS / (1 + results.length)));
      if (wanted.length > 1 && word.length > 1) take(results, 0.15 * rarity.get(word));
    }
    const total = wanted.reduce((sum, word) => sum + rarity.get(word), 0);
    const first = [...scores].sort((a, b) => b[1] - a[1]).slice(0, LOOKED_AT);
    const loaded = await Promise.all(first.map(async ([id, score]) => ({ score, ...(await found.get(id).data()) })));
    const hits = (text) => { // a word in another form is worth less
      const own = split(text ?? ""), stems = own.map(stem);
      const worth = (word) => (own.includes(word) ? 1 : stems.includes(stem(word)) ? 0.2 : 0);
      return wanted.reduce((sum, word) => sum + rarity.get(word) * worth(word), 0) / total;
    };
    return loaded
      .map((one) => ({ ...one, rank: one.score + 1.2 * hits(one.meta.title) + 0.3 * hits(one.meta.page) -
        (/^(guides|appendices)/.test(one.meta.place) ? 0.25 : 0) }))
      .sort((a, b) => b.rank - a.rank)
      .map(({ meta, excerpt }) => ({ kind: "section", title: meta.title, page: meta.page, place: meta.place, excerpt }));
  }

  function entry({ kind, title, page, place, excerpt, text }) {
    const item = document.createElement("li"), link = document.createElement("a"), passage = document.createElement("p");
    item.className = "search-hit";
    item.dataset.kind = kind;
    link.href = new URL(place, ROOT);
    link.append(kind === "exercise" ? Object.assign(document.createElement("code"), { textContent: title }) : title);
    item.append(link);
    const where = [kind === "section" ? "" : kind, page].filter(Boolean).join(", ");
    if (where) item.append(Object.assign(document.createElement("span"), { className: "search-where", textContent: where }));
    if (excerpt) passage.innerHTML = excerpt; // escaped, but for its marks
    else passage.textContent = text;
    item.append(passage);
    return item;
  }

  async function start() {
    const box = document.querySelector("#search-results");
    const fields = [...document.querySelectorAll("form.bd-search input[name=q]")];
    if (location.protocol === "file:" || !box) return fallBack();
    let pagefind, names;
    try {
      const folder = new URL("pagefind/", ROOT);
      const answer = await fetch(new URL("names.json", folder));
      if (!answer.ok) throw new Error(answer.statusText);
      const given = await answer.json();
      names = {
        names: given.names.map(([kind, title, page, place, text]) => ({ kind, title, page, place, text })),
        titles: given.titles,
        known: given.words,
      };
      pagefind = await import(new URL("pagefind.js", folder));
      await pagefind.options({ excerptLength: 28, noWorker: true });
      await pagefind.init();
    } catch {
      return fallBack();
    }
    const said = Object.assign(document.createElement("p"), { className: "search-said" });
    said.setAttribute("role", "status");
    const list = Object.assign(document.createElement("ol"), { className: "search-found" });
    box.replaceChildren(said, list);

    let asked = 0, last = null;
    async function answer(query, exactly = false) {
      const mine = ++asked, typed = split(query);
      if (!typed.length) {
        said.textContent = "";
        return list.replaceChildren();
      }
      const meant = exactly ? typed : typed.map((word) => corrected(word, names));
      const content = meant.filter((word) => !SMALL.has(word));
      const wanted = content.length ? content : meant;
      // A question about something that the book does not have gets no answer, rather than twelve about other things.
      const isElsewhere = wanted.filter((word) => isUnknown(word, names)).length * 2 >= wanted.length;
      const byName = isElsewhere ? [] : named(wanted, names);
      const others = isElsewhere ? [] : await sections(pagefind, wanted);
      if (mine !== asked) return; // the reader has typed on
      const all = [...byName, ...others].slice(0, SHOWN);
      list.replaceChildren(...all.map(entry));
      const fixed = meant.join(" ");
      if (fixed !== typed.join(" ")) {
        const back = Object.assign(document.createElement("button"), { type: "button", textContent: query });
        back.addEventListener("click", () => answer(query, true));
        said.replaceChildren("Showing results for ",
          Object.assign(document.createElement("b"), { textContent: fixed }), ". Search for ", back, " instead.");
      } else said.textContent = all.length ? "" : `Nothing has been found for “${query}”.`;
      box.dataset.answered = query;
    }

    function ask(query, typedIn = null) {
      for (const field of fields) if (field !== typedIn) field.value = query;
      if (query === last) return;
      last = query;
      const address = new URL(location.href);
      address.search = query ? `?q=${encodeURIComponent(query)}` : "";
      history.replaceState(null, "", address);
      answer(query);
    }
    let waiting = 0;
    for (const field of fields) {
      field.form.addEventListener("submit", (event) => {
        event.preventDefault();
        clearTimeout(waiting);
        ask(field.value.trim());
        field.closest("dialog")?.close();
      });
      field.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => ask(field.value.trim(), field), 150);
      });
    }
    // Text that was typed while the index was loading counts, and stays.
    const typedIn = fields.find((field) => field.value.trim());
    if (typedIn) ask(typedIn.value.trim(), typedIn);
    else ask((new URLSearchParams(location.search).get("q") ?? "").trim());
  }

  start();
})();
