// The model, away from the page, so that the page never waits. What the page asks for, and what it is told:
//
//   { read: text }  the text, instead of the last one. The first time the model is fetched, as it is needed.
//                   -> { tokens, ids }, then for each layer { layer, maps }, then { next, lens }
//   { head: [layer, head, how] }  ON, OFF or MEAN  -> { layer, maps } from this layer on, then { next, lens }
//   { broken: name }  one of BREAKS, or null  -> all layers again
//   { write: n, temperature, top_k, top_p, seed }
//                   -> { text, ids } of what is written so far, then { pieces }, all tokens, the maps, and { next, lens }
//   { cuts: { temperature, top_k, top_p } }  -> { drawn }, the probability of each of `next` when it is drawn so
//   { stop: true }  no more tokens
//
// While pieces come: { done, total } in bytes, and { notice } where something has to be said. Each answer to `read`,
// `head` and `broken` ends with { ready: true, kept, simd }, and a failure is { error }.
//
// `maps` are the weights of a layer: a Float32Array (n_heads, n, n) whose later keys are 0. `next` are the ten likeliest
// tokens after the text, and the ten likeliest for the whole model, as [text, probability, that of the whole model];
// `lens` has the likeliest token after each layer, the first before all of them.

import { CONTEXT, LanguageModel, ON, generate } from "./model.js";
import { Pieces } from "./pieces.js";
import { argmax, generator, likeliest, probabilities, sample, softmax } from "./sample.js";
import { Tokenizer } from "./tokenizer.js";

const AT_ONCE = 4; // pieces that are fetched side by side
let opened = null, writing = 0, queue = Promise.resolve();

const post = (what, moved = []) => postMessage(what, moved);
const yieldToEvents = () => new Promise((done) => { setTimeout(done); });

// The manifest, the tokenizer and an empty model; then each piece by its kind and number, fetched when first asked for.
async function open() {
  const pieces = new Pieces(new URL("pieces/", import.meta.url).href), manifest = await pieces.manifest();
  const all = [manifest.tokenizer, manifest.ends, ...manifest.layers, ...manifest.embeddings];
  const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const fetched = async (piece) => {
    const bytes = await pieces.get(piece, (notice) => post({ notice }));
    done += bytes.length;
    post({ done, total });
    return bytes;
  };
  const kernel = await fetch(new URL("kernel.wasm", import.meta.url))
    .then((answer) => answer.arrayBuffer()).catch(() => null);
  const tokenizer = new Tokenizer(JSON.parse(new TextDecoder().decode(await fetched(manifest.tokenizer))));
  const model = new LanguageModel(manifest, kernel), asked = new Map();
  const need = (kind, i) => {
    const name = `${kind} ${i}`;
    if (!asked.has(name)) {
      const piece = kind === "ends" ? manifest.ends : manifest[kind][i];
      asked.set(name, fetched(piece).then((bytes) => model.put(kind, i, bytes)).catch((error) => {
        asked.delete(name); // the next request tries again
        throw error;
      }));
    }
    return asked.get(name);
  };
  return { model, tokenizer, pieces, manifest, need };
}

// Fetches all pieces in the order in which they are needed, a few at a time. Errors are reported by those that wait.
async function prefetchAll({ manifest, need }) {
  const wanted = [...manifest.layers.map((_, i) => ["layers", i]), ["ends", 0],
    ...manifest.embeddings.map((_, i) => ["embeddings", i])];
  const line = async () => {
    while (wanted.length) await need(...wanted.shift()).catch(() => {});
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
}

// (n_heads, n, n), the weights of layer l on the whole text.
function mapsOf(model, l) {
  const { n_heads } = model.config, n = model.ids.length, maps = new Float32Array(n_heads * n * n);
  model.maps[l].forEach((rows, t) => {
    for (let h = 0; h < n_heads; h++) maps.set(rows.subarray(h * (t + 1), (h + 1) * (t + 1)), (h * n + t) * n);
  });
  return maps;
}

async function layers({ model, need }, from) {
  for (let l = from; l < model.layers.length; l++) {
    await need("layers", l);
    model.block(l);
    const maps = mapsOf(model, l);
    post({ layer: l, maps }, [maps.buffer]);
  }
}

// Posts the next tokens, now and of the whole model, and those if the model ended after each layer.
async function predict(all) {
  const { model, tokenizer, manifest, need } = all;
  await Promise.all([need("ends", 0), ...manifest.embeddings.map((_, i) => need("embeddings", i))]);
  const { vocab_size } = model.config, last = model.ids.length - 1, depths = [...model.layers.keys(), model.layers.length];
  const text = (id) => tokenizer.decode([id]), logits = model.logits(depths.map((layer) => [layer, last]));
  const shares = depths.map((l) => softmax(logits.subarray(l * vocab_size, (l + 1) * vocab_size)));
  const now = shares.at(-1), ten = (row) => likeliest(row.map(Math.log)).map(([id]) => id);
  if (!model.broken && model.heads.every((row) => row.every((how) => how === ON))) all.whole = now.slice();
  const whole = all.whole ?? now, told = [...new Set([...ten(now), ...ten(whole)])];
  all.next = { logits: now.map(Math.log), told }; // logits, but for a constant
  post({
    next: told.map((id) => [text(id), now[id], whole[id]]),
    lens: shares.map((row) => [text(argmax(row)), row[argmax(row)]]),
  });
}

const ready = ({ model, pieces }) => post({ ready: true, kept: pieces.kept, simd: model.memory.simd });

const answers = {
  async read({ read: text }) {
    opened ??= open().catch((error) => {
      opened = null;
      throw error;
    });
    const all = await opened, { model, tokenizer, manifest, need } = all, ids = tokenizer.encode(text);
    if (ids.length === 0) throw new RangeError("There is nothing to read: type a word.");
    if (ids.length > CONTEXT) throw new RangeError(`A text has at most ${CONTEXT} tokens here; this one has ${ids.length}.`);
    post({ tokens: ids.map((id) => tokenizer.decode([id])), ids });
    const rows = manifest.embedding.rows_per_piece;
    // First fetch only the pieces that the first map needs.
    await Promise.all([need("layers", 0), ...ids.map((id) => need("embeddings", Math.floor(id / rows)))]);
    prefetchAll(all);
    all.whole = null;
    model.reset();
    model.embed(ids);
    await layers(all, 0);
    await predict(all);
    ready(all);
  },

  async head({ head: [layer, head, how] }) {
    const all = await opened;
    await all.need("ends", 0); // the means are in it
    all.model.heads[layer][head] = how;
    all.model.restart(layer);
    await layers(all, layer);
    await predict(all);
    ready(all);
  },

  async broken({ broken }) {
    const all = await opened;
    all.model.broken = broken;
    const ids = all.model.ids;
    all.model.reset();
    all.model.embed(ids);
    await layers(all, 0);
    await predict(all);
    ready(all);
  },

  async cuts({ cuts }) {
    const { next } = await opened;
    if (!next) return;
    const best = argmax(next.logits), drawn = cuts.temperature > 0 && probabilities(next.logits, cuts);
    post({ drawn: next.told.map((id) => (drawn ? drawn[id] : Number(id === best))) });
  },

  async write({ write: n, seed = 0, ...cuts }, turn) {
    const all = await opened, random = generator(seed), { model, tokenizer } = all;
    const ids = [];
    for (const id of generate(model, n, (logits) => sample(logits, { random, ...cuts }))) {
      ids.push(id);
      post({ text: tokenizer.decode(ids), ids });
      await yieldToEvents(); // a request to stop may have come
      if (turn !== writing) break;
    }
    all.whole = null;
    post({ pieces: model.ids.map((id) => tokenizer.decode([id])) });
    for (let l = 0; l < model.layers.length; l++) {
      const maps = mapsOf(model, l);
      post({ layer: l, maps }, [maps.buffer]);
    }
    await predict(all);
    ready(all);
  },
};

// Requests are answered one after the other, but each new request ends a writing that is going on.
onmessage = ({ data }) => {
  const turn = ++writing, name = Object.keys(answers).find((one) => one in data);
  if (!name) return;
  queue = queue.then(() => answers[name](data, turn)).catch((error) => post({ error: error.message }));
};
