// Mounts the course's widgets on a static page, from the state that was saved when the page was built.
// There is no kernel: a widget computes in its own module, and what it sets lives as long as the page.
(() => {
  const TYPE = "application/vnd.jupyter.widget-";
  const modules = new Map(); // module text -> promise of the module: widgets of one kind share it
  const models = new Map(); // model id -> promise of {model, widget}
  const styles = new Set();
  const mounted = new Set(); // models that are seen

  function load(text) {
    if (!modules.has(text)) {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      modules.set(text, import(url).finally(() => URL.revokeObjectURL(url)));
    }
    return modules.get(text);
  }

  function bytes({ data, encoding }) {
    const text = encoding === "hex"
      ? data.replace(/../g, (pair) => String.fromCharCode(parseInt(pair, 16)))
      : atob(data);
    return new DataView(Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer);
  }

  // A trait's value is in the JSON, or, if it is binary, beside it: each buffer says where it belongs.
  function values({ state, buffers = [] }) {
    const all = structuredClone(state);
    for (const buffer of buffers) {
      const place = buffer.path.slice(0, -1).reduce((node, key) => node[key], all);
      place[buffer.path.at(-1)] = bytes(buffer);
    }
    return all;
  }

  const same = (a, b) =>
    Object.is(a, b) ||
    (!(a instanceof DataView) && !(b instanceof DataView) && JSON.stringify(a) === JSON.stringify(b));

  // A saved widget with its module and its style, which pages share, and with its values if they are many: these are in
  // scripts (book/site/widget_files.py), and loaded when the widget is mounted.
  const folder = new URL("widgets/", document.currentScript.src);
  const files = new Map(); // name -> promise of what the script holds
  function file(name) {
    if (!files.has(name)) files.set(name, self.widgetFiles?.[name] ?? new Promise((done, failed) => {
      const script = document.createElement("script");
      const missing = () => failed(Object.assign(new Error(`${name}.js did not load`), { missing: true }));
      Object.assign(script, { src: `${folder}${name}.js`, onload: () => done(self.widgetFiles[name]), onerror: missing });
      document.head.append(script);
    }));
    return files.get(name);
  }
  async function complete(saved) {
    const { _files, _saved } = saved.state;
    if (!_files) return saved;
    const [rest, ...texts] = await Promise.all([_saved ? file(_saved) : saved, ..._files.map(file)]);
    const joined = (key) => texts.map((text) => text[key]).join("");
    return { ...rest, state: { ...rest.state, _esm: joined("_esm"), _css: joined("_css") } };
  }

  // The object that anywidget calls the model. All views of one model share it, so they stay in step.
  function makeModel(all) {
    const listeners = new Map();
    const emit = (name, ...args) => [...(listeners.get(name) ?? [])].forEach((listener) => listener(...args));
    const model = {
      get: (key) => all[key],
      set(key, value) {
        const given = typeof key === "object" ? key : { [key]: value };
        const changed = Object.keys(given).filter((k) => !same(all[k], given[k]));
        for (const k of changed) all[k] = given[k];
        for (const k of changed) emit(`change:${k}`, model, all[k]);
        if (changed.length) emit("change", model);
      },
      on(names, listener) {
        for (const name of names.split(" ")) listeners.set(name, [...(listeners.get(name) ?? []), listener]);
      },
      off(names, listener) {
        for (const name of names ? names.split(" ") : [...listeners.keys()])
          listeners.set(name, listener ? (listeners.get(name) ?? []).filter((other) => other !== listener) : []);
      },
      kept: () => structuredClone(Object.fromEntries(Object.entries(all).filter(([, one]) => !(one instanceof DataView)))),
      save_changes() {}, // there is no kernel to send them to
      send() {},
    };
    return model;
  }

  // A page of `play/` has one widget, and what the reader sets is in the address: whoever gets the link sees the same.
  const inAddress = /\/play\/[^/]*$/.test(location.pathname);
  const isSimple = (value) => ["number", "string", "boolean"].includes(typeof value)
    || (Array.isArray(value) && value.every((one) => typeof one === "number"));
  function fromAddress(all) {
    for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
      if (!Object.hasOwn(all, key) || key.startsWith("_") || !isSimple(all[key])) continue;
      try {
        const value = JSON.parse(text);
        if (typeof value === typeof all[key] && isSimple(value) && [].concat(value).length === [].concat(all[key]).length)
          all[key] = value;
      } catch {} // not a value that this page has written
    }
    return all;
  }
  function toAddress(model, saved) {
    let timer = 0;
    model.on("change", () => {
      clearTimeout(timer); // browsers refuse an address that changes with every step of a drag
      timer = setTimeout(() => {
        const changed = Object.entries(model.kept()).filter(([key, value]) =>
          !key.startsWith("_") && isSimple(value) && !same(value, saved.state[key]));
        history.replaceState(null, "", `#${new URLSearchParams(changed.map(([key, value]) => [key, JSON.stringify(value)]))}`);
      }, 300);
    });
  }

  function open(id, saved) {
    if (!models.has(id)) {
      models.set(id, (async () => {
        const model = makeModel(inAddress ? fromAddress(values(saved)) : values(saved));
        if (inAddress) toAddress(model, saved);
        const exported = (await load(saved.state._esm)).default;
        const widget = typeof exported === "function" ? await exported() : exported;
        await widget.initialize?.({ model, signal: new AbortController().signal });
        return { model, widget };
      })());
    }
    return models.get(id);
  }

  async function mount(el, id, named) {
    try {
      const saved = await complete(named), css = saved.state._css;
      if (css && !styles.has(css)) {
        styles.add(css);
        document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
      }
      const { model, widget } = await open(id, saved);
      mounted.add(model);
      await widget.render({ model, el, signal: new AbortController().signal });
      el.dataset.mounted = "true";
    } catch (error) {
      if (inAddress && location.hash) { // an edited address
        history.replaceState(null, "", location.pathname);
        models.delete(id);
        return mount(el, id, named);
      }
      el.textContent = error.missing ? "This picture did not load. Reload the page to try again."
        : "This picture needs a newer browser.";
      console.error(error);
    }
  }

  function start() {
    const state = {};
    for (const script of document.querySelectorAll(`script[type="${TYPE}state+json"]`))
      Object.assign(state, JSON.parse(script.textContent).state);

    const waiting = new Map(); // element -> mounts it
    const observer = new IntersectionObserver(
      (entries) => entries.forEach((entry) => entry.isIntersecting && show(entry.target)),
      { rootMargin: "800px 0px" });
    const show = (el) => {
      observer.unobserve(el);
      waiting.get(el)?.();
      waiting.delete(el);
    };

    for (const script of document.querySelectorAll(`script[type="${TYPE}view+json"]`)) {
      const id = JSON.parse(script.textContent).model_id;
      const saved = state[id];
      if (!saved?.state._esm && !saved?.state._files) continue;
      const el = script.nextElementSibling; // see `book/site/widget_files.py`
      waiting.set(el, () => mount(el, id, saved));
      observer.observe(el);
    }
    // The others when nothing else is to do, since a printed page has all of them: from the file system at once, from a
    // server once the reader has begun to read, so that the first load is small.
    const idle = window.requestIdleCallback ?? ((f) => setTimeout(f, 200));
    const next = () => idle(() => {
      const [el] = waiting.keys();
      if (!el) return;
      show(el);
      next();
    });
    let begun = false;
    const begin = () => {
      if (begun) return;
      begun = true;
      if (document.readyState === "complete") next();
      else addEventListener("load", next);
    };
    if (location.protocol === "file:") begin();
    else for (const event of ["scroll", "keydown", "pointerdown"])
      addEventListener(event, begin, { once: true, passive: true }); // not in boxes: the theme scrolls the sidebar
  }

  // On paper nothing can be pressed: while a page is printed, what goes step by step is at its last step, at once.
  const before = new Map();
  addEventListener("beforeprint", () => {
    for (const model of mounted) if (!before.has(model)) before.set(model, model.kept());
    const asked = window.matchMedia;
    window.matchMedia = (query) => query.includes("reduced-motion") ? { matches: true } : asked.call(window, query);
    for (const view of document.querySelectorAll(".widget-view")) {
      for (let press = 0; press < 60; press++) {
        const next = view.querySelector("[data-go=next], [data-go=step]");
        if (!next || next.ariaDisabled === "true" || !/^(Next|Step)/.test(next.textContent)) break; // "Replay": at the end
        next.click();
      }
    }
    window.matchMedia = asked;
  });
  addEventListener("afterprint", () => {
    for (const [model, state] of before) model.set(state);
    before.clear();
  });

  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
  else start();
})();
