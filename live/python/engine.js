// One worker for the page, started when it is first needed and again after it was stopped.
const HERE = new URL(".", import.meta.url);
let worker = null, state = "none", waiting = new Map(), counter = 0;
const listeners = new Set();
const progress = { loaded: 0, total: 0, began: 0 };

const tell = () => listeners.forEach((listener) => listener({ state, ...progress }));

export const isReady = () => state === "ready";

export function watch(listener) {
  listeners.add(listener);
  listener({ state, ...progress });
  return () => listeners.delete(listener);
}

export function start() {
  if (worker) return;
  Object.assign(progress, { loaded: 0, total: 0, began: performance.now() });
  state = "loading";
  worker = new Worker(new URL("worker.js", HERE), { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.kind === "pieces") progress.total = data.total;
    else if (data.kind === "loading") progress.loaded = data.loaded;
    else if (data.kind === "starting") state = "starting";
    else if (data.kind === "ready") state = "ready";
    else if (data.kind === "failed") return end(`Python could not be loaded: ${data.text}`);
    else if (data.kind === "broken") {
      waiting.get(data.id)?.({ broken: data.text });
      waiting.delete(data.id);
      return end("");
    } else if (data.kind === "done") {
      waiting.get(data.id)?.(data);
      waiting.delete(data.id);
    }
    tell();
  };
  worker.onerror = (event) => {
    event.preventDefault();
    end(`Python could not be loaded: ${event.message ?? "this browser does not run module workers"}`);
  };
  tell();
}

function end(reason) {
  worker?.terminate();
  worker = null;
  state = reason ? "failed" : "none";
  for (const resolve of waiting.values()) resolve({ stopped: true, reason });
  waiting = new Map();
  tell();
}

// Ends what runs, at once. The next question starts Python again.
export const stop = () => end("");

// {printed, shown, error, html, passed, ...}, or {stopped}, or {broken}
export function ask(question) {
  start();
  const id = ++counter;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker.postMessage({ ...question, id });
  });
}
