// SmolLM2-135M, a Llama: token ids to logits. The chapters of the course build it from its smallest part up, and so does
// this file. A function that a chapter teaches has the name of its exercise.
//
// Tables are flat, row after row: a table (n, width) has the numbers of token t from t * width on. A head's part of a
// row is a stretch of d_head numbers in it, so `split_heads` and `merge_heads` need no code here.

import { Memory } from "./linear.js";
import { softmax } from "./sample.js";

export const CONTEXT = 256; // tokens that a text may have here; the model itself was trained with up to 8192
const ROOM = 32; // rows of logits at a time

// Each row divided by its root mean square, times a weight.
export function rms_norm(out, x, weight, eps) {
  const width = weight.length;
  for (let at = 0; at < x.length; at += width) {
    let squares = 0;
    for (let i = 0; i < width; i++) squares += x[at + i] ** 2;
    const scale = 1 / Math.sqrt(squares / width + eps);
    for (let i = 0; i < width; i++) out[at + i] = x[at + i] * scale * weight[i];
  }
}

// How far each pair of a head turns from one position to the next, in radians.
export function rope_frequencies(d_head, base) {
  return Float32Array.from({ length: d_head / 2 }, (_, i) => base ** (-2 * i / d_head));
}

// (n, d_head / 2), in single precision as everywhere in the course.
export function rope_angles(positions, d_head, base) {
  const frequencies = rope_frequencies(d_head, base);
  return Float32Array.from(positions.flatMap((p) => Array.from(frequencies, (speed) => Math.fround(p * speed))));
}

// Turns each pair (i, i + d_head / 2) of each head by its angle, in place. angles: those of the tokens' positions
export function apply_rope(x, angles, d_head) {
  const half = d_head / 2, n = angles.length / half, width = x.length / n;
  for (let t = 0; t < n; t++) {
    for (let i = 0; i < half; i++) {
      const cosine = Math.cos(angles[t * half + i]), sine = Math.sin(angles[t * half + i]);
      for (let at = t * width + i; at < (t + 1) * width; at += d_head) {
        const left = x[at], right = x[at + half];
        x[at] = left * cosine - right * sine;
        x[at + half] = left * sine + right * cosine;
      }
    }
  }
}

// The keys and values of the tokens that were read.
export class KVCache {
  constructor(context, width) {
    this.keys = new Float32Array(context * width);
    this.values = new Float32Array(context * width);
    this.width = width;
    this.length = 0;
  }

  append(k, v) {
    this.keys.set(k, this.length * this.width);
    this.values.set(v, this.length * this.width);
    this.length += k.length / this.width;
  }

  reset() {
    this.length = 0;
  }
}

// Mixes, for each head of each newest token, the values of all tokens up to it, into `out` (n, n_heads * d_head).
// returns: for each token its weights, (n_heads, tokens that it sees)
// kvHeadOf: the key/value head that a query head meets. Reading it in place stands for `repeat_kv`
export function scaled_dot_product_attention(out, q, cache, { n_heads, d_head }, kvHeadOf) {
  const { keys, values, width, length } = cache, own = n_heads * d_head, n = q.length / own;
  out.fill(0);
  return Array.from({ length: n }, (_, t) => {
    const sees = length - n + t + 1; // the causal mask: what is behind the token
    const weights = new Float32Array(n_heads * sees);
    for (let h = 0; h < n_heads; h++) {
      const row = weights.subarray(h * sees, (h + 1) * sees), mine = t * own + h * d_head, theirs = kvHeadOf(h) * d_head;
      for (let j = 0; j < sees; j++) {
        let score = 0;
        for (let i = 0, at = j * width + theirs; i < d_head; i++) score += q[mine + i] * keys[at + i];
        row[j] = score / Math.sqrt(d_head);
      }
      softmax(row);
      for (let j = 0; j < sees; j++) {
        for (let i = 0, at = j * width + theirs; i < d_head; i++) out[mine + i] += row[j] * values[at + i];
      }
    }
    return weights;
  });
}

const silu = (x) => x / (1 + Math.exp(-x));
const add = (x, y) => x.forEach((_, i) => { x[i] += y[i]; });

// Ways to take a head out: its output is set to zero, or to its average over other texts.
export const ON = 0, OFF = 1, MEAN = 2;

// The four errors of the chapter language_model, each of which keeps every shape. The names are those of the recording.
export const BREAKS = ["one position too far", "base 10,000", "pairs of neighbors", "heads dealt round"];

// A head's numbers as the model's file has them, where a rotary pair is two neighbors.
function pairsOfNeighbors(x, d_head) {
  for (let at = 0; at < x.length; at += d_head) {
    const half = d_head / 2, head = x.slice(at, at + d_head);
    for (let i = 0; i < half; i++) {
      x[at + 2 * i] = head[i];
      x[at + 2 * i + 1] = head[half + i];
    }
  }
}

// The model, and the text that it reads. A text is read layer by layer, so that it may begin before all layers are here:
// `embed(ids)`, then `block(0)`, `block(1)`, ...; a block reads those tokens that its cache does not hold.
export class LanguageModel {
  // manifest: as shards.py writes it; kernel: the bytes of kernel.wasm, or null for plain JavaScript
  constructor(manifest, kernel) {
    const c = (this.config = { ...manifest.config, d_head: manifest.config.d_model / manifest.config.n_heads });
    const pieces = [...manifest.layers, ...manifest.embeddings].reduce((sum, { bytes }) => sum + bytes, 0);
    const computed = CONTEXT * (4 * c.d_model + 2 * c.n_kv_heads * c.d_head + 2 * c.d_ff) + ROOM * c.vocab_size;
    const memory = (this.memory = new Memory(pieces + 4 * computed + 2 ** 16, kernel, CONTEXT));
    const matrix = ({ kind, rows, cols }) => kind === "f32"
      ? { bytes: new Uint8Array(4 * rows * cols) } : memory.matrix(kind, rows, cols);
    const norm = ({ bytes }) => new Float32Array(bytes.buffer);

    this.layers = manifest.layers.map(() => {
      const parts = manifest.layer.map((part) => [part.name.replace(/^.*?([^.]+)\.weight$/, "$1"), matrix(part)]);
      const { norm_1, norm_2, ...matrices } = Object.fromEntries(parts);
      return { parts: parts.map(([, part]) => part.bytes), norm_1: norm(norm_1), norm_2: norm(norm_2), ...matrices };
    });
    this.embedding = matrix(manifest.embedding);
    this.rowsPerPiece = manifest.embedding.rows_per_piece;
    this.norm = new Float32Array(c.d_model);
    this.means = manifest.layers.map(() => new Float32Array(c.n_heads * c.d_head));

    // The inputs and outputs of matrices, for all tokens of a text.
    const [d, kv] = [c.d_model, c.n_kv_heads * c.d_head];
    const sizes = { normed: d, q: d, k: kv, v: kv, headOutputs: d, out: d, gate: c.d_ff, up: c.d_ff };
    this.room = Object.fromEntries(Object.entries(sizes).map(([name, width]) => [name, memory.floats(CONTEXT * width)]));
    this.scores = memory.floats(ROOM * c.vocab_size);

    this.streams = Array.from({ length: c.n_layers + 1 }, () => new Float32Array(CONTEXT * d)); // before each layer
    this.caches = manifest.layers.map(() => new KVCache(CONTEXT, kv));
    this.maps = manifest.layers.map(() => []); // of each layer, for each token: its weights, (n_heads, tokens it sees)
    this.heads = manifest.layers.map(() => new Uint8Array(c.n_heads)); // ON, OFF or MEAN
    this.broken = null; // or one of BREAKS
    this.ids = [];
  }

  // Bytes that have arrived, of a layer, of 256 rows of the embedding, or of the ends: the last norm and the means.
  put(kind, i, bytes) {
    if (kind === "layers") {
      let at = 0;
      for (const part of this.layers[i].parts) part.set(bytes.subarray(at, (at += part.length)));
    } else if (kind === "embeddings") {
      this.embedding.bytes.set(bytes, (i * this.rowsPerPiece * this.embedding.bytes.length) / this.embedding.rows);
    } else if (kind === "ends") {
      const rows = [this.norm, ...this.means], all = new Float32Array(Uint8Array.from(bytes).buffer);
      rows.forEach((row, r) => row.set(all.subarray(r * row.length, (r + 1) * row.length)));
    }
  }

  // Forgets the text.
  reset() {
    this.ids = [];
    this.restart(0);
  }

  // Forgets what the layers from this one on made of the text.
  restart(from) {
    this.caches.slice(from).forEach((cache) => cache.reset());
    this.maps.slice(from).forEach((rows) => { rows.length = 0; });
  }

  // The tokens' rows of the embedding are where the residual stream begins.
  embed(ids) {
    if (this.ids.length + ids.length > CONTEXT) throw new RangeError(`a text has at most ${CONTEXT} tokens here`);
    const width = this.config.d_model;
    ids.forEach((id, t) => {
      const at = (this.ids.length + t) * width;
      this.memory.row(this.embedding, id, this.streams[0].subarray(at, at + width));
    });
    this.ids.push(...ids);
  }

  // GroupedQueryAttention of one layer: what `normed` (n, d_model) becomes, in `out`.
  attention(l, n) {
    const { memory, room, config: c, broken } = this, { W_q, W_k, W_v, W_o } = this.layers[l], cache = this.caches[l];
    const [q, k, v, headOutputs] = ["q", "k", "v", "headOutputs"]
      .map((name) => room[name].subarray(0, n * room[name].length / CONTEXT));
    memory.linear(q, W_q, room.normed, n);
    memory.linear(k, W_k, room.normed, n);
    memory.linear(v, W_v, room.normed, n);

    if (broken === "pairs of neighbors") [q, k].forEach((x) => pairsOfNeighbors(x, c.d_head));
    const first = cache.length + (broken === "one position too far" && cache.length > 0);
    const positions = Array.from({ length: n }, (_, t) => first + t);
    const angles = rope_angles(positions, c.d_head, broken === "base 10,000" ? 10_000 : c.base);
    apply_rope(q, angles, c.d_head);
    apply_rope(k, angles, c.d_head);

    cache.append(k, v);
    const shared = c.n_heads / c.n_kv_heads;
    const kvHeadOf = broken === "heads dealt round" ? (h) => h % c.n_kv_heads : (h) => Math.floor(h / shared);
    this.maps[l].push(...scaled_dot_product_attention(headOutputs, q, cache, c, kvHeadOf));
    this.heads[l].forEach((how, h) => {
      if (how === ON) return;
      const mean = this.means[l].subarray(h * c.d_head, (h + 1) * c.d_head);
      for (let t = 0, at = h * c.d_head; t < n; t++, at += c.d_model) {
        if (how === MEAN) headOutputs.set(mean, at);
        else headOutputs.fill(0, at, at + c.d_head);
      }
    });
    memory.linear(room.out, W_o, headOutputs, n);
  }

  // SwiGLU of one layer: what `normed` (n, d_model) becomes, in `out`.
  feedForward(l, n) {
    const { memory, room: { normed, gate, up, out } } = this, { W_gate, W_up, W_down } = this.layers[l];
    memory.linear(gate, W_gate, normed, n);
    memory.linear(up, W_up, normed, n);
    for (let i = 0; i < n * W_gate.rows; i++) gate[i] = silu(gate[i]) * up[i];
    memory.linear(out, W_down, gate, n);
  }

  // LlamaBlock: two times a norm, a sub-layer, and its result added to the stream.
  block(l) {
    const { room: { normed, out }, config: { d_model, eps } } = this;
    const from = this.caches[l].length, n = this.ids.length - from, ends = [from * d_model, this.ids.length * d_model];
    if (n === 0) return;
    const x = this.streams[l + 1].subarray(...ends);
    x.set(this.streams[l].subarray(...ends));
    rms_norm(normed, x, this.layers[l].norm_1, eps);
    this.attention(l, n);
    add(x, out);
    rms_norm(normed, x, this.layers[l].norm_2, eps);
    this.feedForward(l, n);
    add(x, out);
  }

  // All layers over what is new. from: the first layer that something was changed in
  read(ids = [], from = null) {
    if (from !== null) this.restart(from);
    this.embed(ids);
    this.layers.forEach((_, l) => this.block(l));
  }

  // The logits if the model ended here: for each [layer, position] the scores of all tokens, (places, vocabulary).
  // After the last layer these are the logits; after an earlier one, what is called the logit lens.
  logits(places = [[this.layers.length, this.ids.length - 1]]) {
    const { config: { d_model, vocab_size, eps }, room: { normed } } = this;
    const all = new Float32Array(places.length * vocab_size);
    for (let done = 0; done < places.length; done += ROOM) {
      const some = places.slice(done, done + ROOM);
      some.forEach(([layer, position], i) => {
        const x = this.streams[layer].subarray(position * d_model, (position + 1) * d_model);
        rms_norm(normed.subarray(i * d_model), x, this.norm, eps);
      });
      this.memory.linear(this.scores, this.embedding, normed, some.length);
      all.set(this.scores.subarray(0, some.length * vocab_size), done * vocab_size);
    }
    return all;
  }
}

// Writes on: yields each token as soon as it is drawn and read. choose: a function from logits to an id, such as `sample`
export function* generate(model, max_new_tokens, choose) {
  for (let i = 0; i < max_new_tokens && model.ids.length < CONTEXT; i++) {
    const id = choose(model.logits());
    model.read([id]);
    yield id;
  }
}
