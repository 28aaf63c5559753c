// Python in a module worker: loads once, then runs and checks cells, one after the other.
import { loadPyodide } from "./pyodide.mjs";

const here = (name) => new URL(name, import.meta.url).href;
let python, session, packages, pieces;

// Count bytes as they come, whoever asks for them: the page shows them.
const original = fetch;
let loaded = 0;
self.fetch = async (...args) => {
  const answer = await original(...args);
  // A copy is counted: of the answer itself, a browser keeps what it has compiled for the next page.
  if (answer.ok && answer.body) count(answer.clone().body.getReader());
  return answer;
};
async function count(reader) {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    loaded += value.byteLength;
    postMessage({ kind: "loading", loaded });
  }
}

// Python as it is right after its start, kept for the next page: to start it takes four fifths of the time of a load.
const KEPT = "attention-python";
const address = () => here(`started?${pieces.pyodide}`);
async function start() {
  const options = { indexURL: here("."), packages: [] };
  const snapshot = await kept().catch(() => null);
  if (snapshot) return loadPyodide({ ...options, _loadSnapshot: snapshot });
  const started = await loadPyodide({ ...options, _makeSnapshot: true });
  keep(started.makeMemorySnapshot()).catch(() => {}); // a private window, or no room: the next page starts it again
  return started;
}
// Pyodide would wait for ever on a snapshot that is not whole, so its digest is kept with it.
const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).join();
async function kept() {
  const found = await (await caches.open(KEPT)).match(address());
  const bytes = found && new Uint8Array(await found.arrayBuffer());
  return bytes && (await digest(bytes)) === found.headers.get("digest") ? bytes : null;
}
async function keep(snapshot) {
  await caches.delete(KEPT); // of an older version
  const headers = { digest: await digest(snapshot) };
  await (await caches.open(KEPT)).put(address(), new Response(snapshot, { headers }));
}

async function load() {
  pieces = await (await original(here("pieces.json"), { cache: "no-cache" })).json();
  const total = Object.values(pieces.bytes).reduce((sum, bytes) => sum + bytes, 0);
  postMessage({ kind: "pieces", total });
  const bytes = async (name) => new Uint8Array(await (await fetch(here(name))).arrayBuffer());
  const [ready, archive, source, ...wheels] = await Promise.all([
    start(),
    bytes(pieces.attnlab),
    bytes("session.py"),
    ...pieces.wheels.map(bytes),
  ]);
  postMessage({ kind: "starting" });
  python = ready;
  // Unpacked by hand: what `loadPackage` adds, such as a look at the lock file, is done when the site is built.
  packages = python.runPython("import site; site.getsitepackages()[0]");
  for (const wheel of wheels) python.unpackArchive(wheel, "wheel", { extractDir: packages });
  python.unpackArchive(archive, "zip", { extractDir: packages });
  python.FS.writeFile(`${packages}/session.py`, source);
  session = python.pyimport("session");
  postMessage({ kind: "ready" });
}

let recorded = false; // whether the recorded data are there
const checks = new Set(); // the chapters whose data are there
async function unpack(name) {
  const archive = await (await original(here(name))).arrayBuffer();
  python.unpackArchive(new Uint8Array(archive), "zip", { extractDir: packages });
  python.pyimport("importlib").invalidate_caches();
}
async function answer({ kind, id, stem, name, source, notebooks }) {
  if (kind === "rerun" && !recorded) {
    await unpack(pieces.recorded);
    recorded = true;
  }
  for (const { stem: other, notebook } of notebooks) {
    if (!checks.has(other) && pieces.chapters[other]) {
      await unpack(pieces.chapters[other]);
      checks.add(other);
    }
    session.put(other, notebook);
  }
  const made = kind === "check" ? session.check(stem, name, source)
    : kind === "rerun" ? session.rerun(stem, name) : session.run(stem, name, source);
  const js = made.toJs({ dict_converter: Object.fromEntries });
  const result = kind === "rerun" ? { cells: js } : js;
  made.destroy();
  postMessage({ kind: "done", id, ...result });
}

const began = load().catch((error) => postMessage({ kind: "failed", text: String(error?.message ?? error) }));
let queue = began;
onmessage = ({ data }) => {
  queue = queue.then(() => answer(data)).catch((error) =>
    postMessage({ kind: "broken", id: data.id, text: String(error?.message ?? error).slice(-1500) }));
};
