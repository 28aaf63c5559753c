// The first page's picture: a word, and lines to the words that it reads, in one of the heads of a real model. The wall
// of squares has one square for each head. Everything that is said is computed from the weights: recorded ones, or those
// of the reader's own sentence where the site has the model.
(() => {
  // The recorded weights by layer and head, each as rows of n weights, 0 for later keys.
  function unpack({ weights, words }, { layers, heads, full }) {
    const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer), n = words.length, each = (n * (n + 1)) / 2;
    const at = (layer, head, query, key) => key > query ? 0
      : view.getUint16(2 * ((layer * heads + head) * each + (query * (query + 1)) / 2 + key), true) / full;
    return Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) =>
      words.map((_, query) => words.map((_, key) => at(layer, head, query, key)))));
  }

  // The weights of one layer, (heads, n, n) numbers in a row, as rows by head.
  const layerOf = (maps, heads, n) => Array.from({ length: heads }, (_, head) =>
    Array.from({ length: n }, (_, query) => [...maps.subarray((head * n + query) * n, (head * n + query + 1) * n)]));

  // The head in which a word puts most weight on one that is neither the first, nor the one before, nor itself.
  function clearest(all, query) {
    let best = { weight: -1 };
    all.forEach((ofLayer, layer) => ofLayer?.forEach((rows, head) => {
      const weight = Math.max(0, ...rows[query].slice(1, Math.max(1, query - 1)));
      if (weight > best.weight) best = { weight, layer, head };
    }));
    return [best.layer, best.head, query];
  }

  // How a head divides its weight between the first word, the word before, the word itself and all others: means over
  // the words from the third on, for which these are different words.
  function shares(rows) {
    const later = rows.map((_, query) => query).slice(2);
    const mean = (key) => later.reduce((sum, query) => sum + rows[query][key(query)], 0) / later.length;
    const [first, before, itself] = [mean(() => 0), mean((query) => query - 1), mean((query) => query)];
    return { first, before, itself, other: 1 - first - before - itself };
  }

  const quoted = (word) => `“${word}”`;
  const hundredths = (x) => x.toFixed(2);
  const percent = (x) => `${Math.round(100 * x)}%`;
  const MOST = 0.5, EVEN = 0.25, CLEAR = 0.4; // shares from which, or up to which, a head is said to do something

  // The purpose of a head, as the end of a sentence that begins with its name.
  function habit(rows, words) {
    const { first, before, itself } = shares(rows);
    const later = words.map((_, query) => query).slice(2);
    if (first >= MOST) return `rests on ${quoted(words[0])}: ${percent(first)} of the weight goes there.`;
    if (before >= MOST) return `reads the word before: ${percent(before)} of the weight goes there.`;
    if (itself >= MOST) return `stays with the word itself: ${percent(itself)} of the weight goes there.`;
    const uneven = (query) =>
      rows[query].slice(0, query + 1).reduce((sum, w) => sum + Math.abs(w - 1 / (query + 1)), 0) / 2;
    if (later.reduce((sum, query) => sum + uneven(query), 0) / later.length <= EVEN)
      return "spreads its weight almost evenly.";
    let pair = { weight: 0 };
    for (const query of later)
      for (let key = 1; key < query - 1; key++)
        if (rows[query][key] > pair.weight) pair = { query, key, weight: rows[query][key] };
    if (pair.weight >= CLEAR)
      return `reads ${quoted(words[pair.key])} from ${quoted(words[pair.query])}, with weight ${hundredths(pair.weight)}.`;
    return "divides its weight between several words.";
  }

  // The words that one word reads in this head.
  function reading(rows, words, query) {
    if (query === 0) return `${quoted(words[0])} comes first and can read only itself.`;
    const row = rows[query].slice(0, query + 1);
    const [top, second] = row.map((weight, key) => ({ weight, key })).sort((a, b) => b.weight - a.weight);
    const name = ({ key }) => (key === query ? "itself" : quoted(words[key]));
    if (top.weight <= 1.5 / (query + 1))
      return `${quoted(words[query])} reads ${query + 1} words, none with more than ${hundredths(top.weight)}.`;
    const also = second.weight >= 0.2 ? ` and ${name(second)} with ${hundredths(second.weight)}` : "";
    return `${quoted(words[query])} reads ${name(top)} with weight ${hundredths(top.weight)}${also}.`;
  }

  function caption(rows, words, layer, head, query) {
    const [first, second] = [habit(rows, words), reading(rows, words, query)];
    if (!first.startsWith("reads “")) return `Head ${layer}.${head} ${first} ${second}`;
    const same = first.includes(` from ${quoted(words[query])},`); // else it is about words that are not shown
    return same ? `Head ${layer}.${head} ${first}` : `In head ${layer}.${head}, ${second}`;
  }

  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Draws what lies between the numbers that are shown and new ones.
  function tween(draw) {
    let now = null, asked = 0;
    const move = (target, duration) => {
      cancelAnimationFrame(asked);
      if (!now || !duration || calm()) return draw((now = target));
      const from = now, begin = performance.now();
      const step = (time) => {
        const part = Math.min(1, Math.max(0, (time - begin) / duration)), way = 1 - (1 - part) ** 3;
        now = part < 1 ? target.map((x, i) => from[i] + (x - from[i]) * way) : target;
        draw(now);
        if (part < 1) asked = requestAnimationFrame(step);
      };
      asked = requestAnimationFrame(step);
    };
    move.again = () => now && draw(now); // the same in another place
    move.forget = () => (now = null); // what comes next has another number of words
    return move;
  }

  function start(hero) {
    const content = JSON.parse(hero.querySelector(".hero-data").textContent);
    const { layers, heads, tour, first } = content;
    const [picture, wall, shown, said, form, note] =
      [".hero-picture", ".hero-wall", ".hero-caption", "[role=status]", ".hero-own", ".hero-note"]
        .map((part) => hero.querySelector(part));
    const svg = hero.querySelector("svg"), group = hero.querySelector(".hero-words");
    const offered = [...hero.querySelectorAll(".hero-sentence")];
    const [wallPage, turn] = hero.querySelectorAll(".hero-off"); // for a recorded sentence, and for one's own

    // The sentence that is shown: its words, its weights by layer and head (of the reader's own sentence a layer may be
    // missing yet), its place on the wall of heads where it is recorded, and which head and word are shown.
    let words, n, all, place, chips, lines, layer, head, query;

    // The wall: a square for each head.
    const squares = Array.from({ length: layers }, (_, l) => {
      const row = document.createElement("div");
      row.setAttribute("role", "row");
      wall.append(row);
      return Array.from({ length: heads }, (_, h) => {
        const square = document.createElement("span");
        square.id = `head-${l}-${h}`;
        square.setAttribute("role", "gridcell");
        square.setAttribute("aria-label", `Layer ${l}, head ${h}`);
        square.style.cssText = `--layer: ${l}; --head: ${h}`;
        row.append(square);
        return square;
      });
    });
    function color(l) {
      squares[l].forEach((square, h) => {
        const share = all[l] && shares(all[l][h]);
        const kind = share ? Object.keys(share).reduce((a, b) => (share[b] > share[a] ? b : a)) : "";
        square.dataset.kind = kind;
        square.style.setProperty("--share", (share?.[kind] ?? 0).toFixed(3));
      });
    }

    // The lines: one path for each word that may be read, blue where it leaves the reader, orange where it arrives.
    const make = (name, parent, attributes) => {
      const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    function makeLines() {
      svg.replaceChildren();
      const defs = make("defs", svg, {});
      lines = words.map((_, key) => {
        const fade = make("linearGradient", defs, { id: `hero-fade-${key}`, gradientUnits: "userSpaceOnUse" });
        make("stop", fade, { offset: "0.1", class: "hero-from" });
        make("stop", fade, { offset: "0.9", class: "hero-to" });
        return { fade, path: make("path", svg, { fill: "none", stroke: `url(#hero-fade-${key})`, "stroke-linecap": "round" }) };
      });
    }
    function makeChips() {
      chips = words.map((word, key) => {
        const chip = document.createElement("button"), text = document.createElement("span");
        Object.assign(chip, { type: "button", className: "hero-word", role: "radio" });
        text.textContent = word;
        chip.append(text, document.createElement("small"));
        chip.lastChild.ariaHidden = "true";
        const read = () => key !== query && show([layer, head, key], 250);
        for (const event of ["pointerenter", "focus", "click"]) chip.addEventListener(event, read);
        return chip;
      });
      group.replaceChildren(...chips);
      group.classList.toggle("hero-many", words.length > 8);
      resized.disconnect();
      for (const node of [picture, ...chips]) resized.observe(node);
    }

    // The places of words: they form a row with the lines above them, or a column with the lines at the side.
    let places = [], column = false, room = 0;
    function measure() {
      const frame = picture.getBoundingClientRect();
      const boxes = chips.map((chip) => chip.getBoundingClientRect());
      column = boxes[1].top >= boxes[0].bottom;
      places = boxes.map((box) => column
        ? [box.right - frame.left, (box.top + box.bottom) / 2 - frame.top]
        : [(box.left + box.right) / 2 - frame.left, box.top - frame.top]);
      room = column ? frame.right - boxes[0].right : boxes[0].top - frame.top;
      svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    }

    // `state`: where the reading word is, counted in words, so that it may be between two, and its n weights.
    const between = (at) => {
      const low = Math.min(n - 2, Math.floor(at)), part = at - low;
      return [0, 1].map((axis) => places[low][axis] + (places[low + 1][axis] - places[low][axis]) * part);
    };
    function draw([at, ...weights]) {
      const [x0, y0] = between(at);
      const longest = Math.abs(column ? places[n - 1][1] - places[0][1] : places[n - 1][0] - places[0][0]);
      lines.forEach(({ fade, path }, key) => {
        const [x1, y1] = places[key], weight = weights[key], width = 18 * weight + 0.75;
        const away = Math.abs(column ? y1 - y0 : x1 - x0) / longest, near = Math.max(0, 1 - away * (n - 1));
        const bow = ((room - 12) / 0.75) * (0.28 + 0.72 * away), wide = 14 * near;
        path.setAttribute("d", column
          ? `M${x0},${y0 - wide * 0.6} C${x0 + bow},${y0 - wide} ${x1 + bow},${y1 + wide} ${x1},${y1 + wide * 0.6}`
          : `M${x0 - wide},${y0} C${x0 - wide * 2.5},${y0 - bow} ${x1 + wide * 2.5},${y1 - bow} ${x1 + wide},${y1}`);
        path.setAttribute("stroke-width", width.toFixed(2));
        path.setAttribute("stroke-opacity", weight < 0.002 ? 0 : Math.min(1, 0.25 + weight * 2).toFixed(3));
        const apart = near > 0.99 ? [wide, 0] : [0, 0];
        fade.setAttribute("x1", x0 - (column ? 0 : apart[0]));
        fade.setAttribute("y1", y0 - (column ? apart[0] : 0));
        fade.setAttribute("x2", x1 + (column ? 0.1 : apart[0] + 0.1));
        fade.setAttribute("y2", y1 + (column ? apart[0] + 0.1 : 0.1));
        chips[key].style.setProperty("--weight", weight.toFixed(3));
      });
    }
    const move = tween(draw);

    let saying = 0;
    const off = new Set(); // the heads that are switched off while the reader's own sentence is read
    function show(next, duration, aloud = true) {
      if (!all[next[0]]) return; // not read yet
      [layer, head, query] = next;
      const rows = all[layer][head];
      svg.append(...[...lines.keys()].sort((a, b) => rows[query][a] - rows[query][b]).map((key) => lines[key].path));
      chips.forEach((chip, key) => {
        chip.setAttribute("aria-checked", String(key === query));
        chip.tabIndex = key === query ? 0 : -1;
        chip.classList.toggle("hero-later", key > query);
        chip.lastElementChild.textContent = key > query ? "" : hundredths(rows[query][key]);
      });
      wall.querySelector("[aria-selected=true]")?.removeAttribute("aria-selected");
      squares[layer][head].setAttribute("aria-selected", "true");
      wall.setAttribute("aria-activedescendant", squares[layer][head].id);
      shown.textContent = caption(rows, words, layer, head, query);
      wallPage.hash = `text=${place}&head=${layer * heads + head}&off=true`;
      wallPage.textContent = `Switch head ${layer}.${head} off`;
      turn.textContent = `Switch head ${layer}.${head} ${off.has(`${layer}.${head}`) ? "on" : "off"}`;
      hero.dataset.head = `${layer}.${head}`;
      clearTimeout(saying); // screen readers hear what the reader rests on, not every square on the way
      if (aloud) saying = setTimeout(() => (said.textContent = shown.textContent), 500);
      move([query, ...rows[query]], duration);
    }

    // Until the reader does something, the picture moves by itself.
    let stop = 0, waiting = 0, seen = true;
    const next = () => {
      if (seen && !document.hidden) show(tour[(stop = (stop + 1) % tour.length)], 900, false);
      waiting = setTimeout(next, 3200);
    };
    const watcher = new IntersectionObserver((entries) => (seen = entries.at(-1).isIntersecting));
    const still = () => {
      clearTimeout(waiting);
      watcher.disconnect();
      hero.dataset.moving = "false";
    };

    const resized = new ResizeObserver(() => {
      measure();
      move.again();
    });

    // Another sentence: its words and weights. Without a word that reads, the tour begins.
    function take(sentence, weights, reader) {
      [words, n, all, place] = [sentence.words, sentence.words.length, weights, sentence.place];
      makeChips();
      makeLines();
      measure();
      squares.forEach((_, l) => color(l));
      wallPage.hidden = place === undefined;
      turn.hidden = true;
      note.textContent = "";
      move.forget();
      show(reader === undefined ? tour[0] : clearest(all, reader), 0, reader !== undefined);
    }
    const press = (chosen) => offered.forEach((one) => one.setAttribute("aria-pressed", String(one === chosen)));

    const recorded = [first];
    const loaded = () => (loaded.promise ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: "_static/hero-sentences.js", onload: done, onerror: failed });
      document.head.append(script);
    }).then(() => recorded.push(...window.heroSentences)));
    offered.forEach((one, i) => one.addEventListener("click", async () => {
      press(one);
      if (i) await loaded();
      if (one.ariaPressed === "true") take(recorded[i], unpack(recorded[i], content), recorded[i].query);
    }));

    // The reader's own sentence, read by the model in a worker of the site.
    const MOST_TOKENS = 14;
    let worker = null, own = null;
    const asked = []; // the sentence of each question that is not answered yet: the first is being answered
    function tell(text) {
      note.textContent = text;
    }
    function fail(text) {
      own = null;
      tell(text);
    }
    function ask(what) {
      if (!worker) {
        worker = new Worker(new URL("_static/live/worker.js", location.href), { type: "module" });
        worker.onmessage = ({ data }) => hear(data);
        worker.onerror = () => {
          worker = null;
          asked.length = 0;
          fail("The model could not be started in this browser.");
        };
      }
      asked.push(own);
      worker.postMessage(what);
    }
    function hear(data) {
      const stale = asked[0] !== own; // of a sentence that was refused or replaced
      if (data.error || data.ready) asked.shift();
      if (stale && !data.total) return;
      if (data.error) return fail(data.error);
      if (!own) return;
      if (data.total) tell(data.done < data.total ? `Loading the model, once: ${Math.round(data.done / 1e6)} of ${Math.round(data.total / 1e6)} MB` : "");
      if (data.tokens) {
        const many = data.tokens.length;
        if (many < 3 || many > MOST_TOKENS)
          return fail(`Here a sentence has 3 to ${MOST_TOKENS} tokens; this one has ${many}.`);
        own.words = data.tokens.map((token) => token.trim() || "␣");
        own.all = Array(layers).fill(null);
      }
      if (data.maps) {
        own.all[data.layer] = layerOf(data.maps, heads, own.words.length);
        if (own.all === all) {
          color(data.layer);
          if (data.layer === layer) show([layer, head, query], 250, false);
        } else if (data.layer === 0) {
          press(null);
          take(own, own.all, own.words.length - 1);
        }
      }
      if (data.next) {
        const [[word, now, whole]] = [...data.next].sort((a, b) => b[1] - a[1]);
        const changed = off.size ? `; ${percent(whole)} with all heads` : "";
        if (!own.read) show(clearest(all, query), 250);
        own.read = true;
        tell(`Next word: ${quoted(word.trim() || "␣")}, ${percent(now)}${changed}.`);
      }
      if (data.ready) turn.hidden = own.all !== all;
    }
    turn.addEventListener("click", () => {
      const name = `${layer}.${head}`, on = off.delete(name);
      if (!on) off.add(name);
      turn.hidden = true; // until the answer is there
      ask({ head: [layer, head, Number(!on)] });
      show([layer, head, query], 0, false);
    });
    if (document.querySelector('meta[name="model-in-page"]') && location.protocol !== "file:") {
      const text = form.querySelector("input");
      form.hidden = false;
      const size = document.createElement("small"); // on the button, until it is pressed
      size.textContent = ` ${content.size} MB`;
      form.lastElementChild.append(size);
      form.lastElementChild.title = `Loads the model first: ${content.size} MB, once`;
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!text.value.trim()) return tell("Type a sentence first.");
        off.clear();
        own = { all: null };
        tell(worker ? "" : `Loading the model, once: ${content.size} MB`);
        size.remove();
        ask({ read: text.value.trim() });
      });
    }

    take(first, unpack(first, content));
    hero.dataset.moving = String(!calm());
    if (!calm()) {
      waiting = setTimeout(next, 3200);
      watcher.observe(hero);
      for (const event of ["pointerdown", "keydown"]) addEventListener(event, still, { once: true, capture: true });
      for (const event of ["pointermove", "focusin"]) hero.addEventListener(event, still, { once: true, capture: true });
    }
    const STEPS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const plain = (event) => !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
    hero.querySelector(".hero-words").addEventListener("keydown", (event) => {
      const step = { Home: -query, End: n - 1 - query }[event.key] ?? STEPS[event.key]?.reduce((a, b) => a + b);
      if (step === undefined || !plain(event)) return;
      event.preventDefault();
      chips[(query + step + n) % n].focus();
    });

    // Heads: the square under the pointer, also while a finger moves over the wall; arrow keys.
    const upright = () => getComputedStyle(wall).getPropertyValue("--upright").trim() === "1";
    const within = (x, most) => Math.min(most - 1, Math.max(0, Math.floor(x * most)));
    const under = ({ clientX, clientY }) => {
      const box = wall.getBoundingClientRect();
      const x = (clientX - box.left) / box.width, y = (clientY - box.top) / box.height;
      return upright() ? [within(1 - y, layers), within(x, heads)] : [within(x, layers), within(y, heads)];
    };
    const point = (event) => {
      const [l, h] = under(event);
      if (l !== layer || h !== head) show([l, h, query], 0);
    };
    wall.addEventListener("pointermove", point);
    wall.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") wall.setPointerCapture(event.pointerId);
      point(event);
    });
    wall.addEventListener("keydown", (event) => {
      const [x, y] = STEPS[event.key] ?? [];
      const ends = { Home: 0, End: layers - 1 }[event.key];
      if ((x === undefined && ends === undefined) || !plain(event)) return;
      event.preventDefault();
      const [l, h] = ends !== undefined ? [ends, head]
        : upright() ? [layer - y, head + x] : [layer + x, head + y];
      if (l >= 0 && l < layers && h >= 0 && h < heads) show([l, h, query], 250);
    });
  }

  for (const hero of document.querySelectorAll(".hero")) start(hero);
})();
