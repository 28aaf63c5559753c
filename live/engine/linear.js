// Where the numbers are, and the one product that all layers are made of.
//
// Weights stay packed as in the model's file, in blocks of 32 (see kernel.wat). Where the browser has WebAssembly with
// SIMD, `linear` runs in the kernel; elsewhere the same sums are done below, about ten times slower.

const PAGE = 65536; // bytes, of WebAssembly's memory
const BLOCK = 32; // numbers
export const BLOCK_BYTES = { q4_1: 20, q8_0: 34 };

// Half precision: one bit of sign, five of exponent, ten of fraction. All 65536 of them, looked up by their bits.
const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
});

// The 32 numbers d q + m of the block at `at`, written into `out` from `to` on.
function unpackBlock(kind, bytes, at, out, to) {
  const d = HALVES[bytes[at] | (bytes[at + 1] << 8)];
  if (kind === "q4_1") {
    const m = HALVES[bytes[at + 2] | (bytes[at + 3] << 8)];
    for (let i = 0; i < 16; i++) {
      out[to + i] = d * (bytes[at + 4 + i] & 15) + m;
      out[to + 16 + i] = d * (bytes[at + 4 + i] >> 4) + m;
    }
  } else {
    for (let i = 0; i < 32; i++) out[to + i] = d * ((bytes[at + 2 + i] << 24) >> 24);
  }
}

// One piece of memory for all weights and for what meets them. kernel: the bytes of kernel.wasm, or null; tokens: the
// most that one product is for.
export class Memory {
  constructor(bytes, kernel, tokens) {
    bytes += 16 * tokens;
    const pages = Math.ceil(bytes / PAGE);
    this.simd = Boolean(kernel) && typeof WebAssembly === "object" && WebAssembly.validate(kernel);
    if (this.simd) {
      const memory = new WebAssembly.Memory({ initial: pages });
      this.kernel = new WebAssembly.Instance(new WebAssembly.Module(kernel), { engine: { memory } }).exports;
      this.buffer = memory.buffer;
    } else {
      this.buffer = new ArrayBuffer(pages * PAGE);
    }
    this.bytes = new Uint8Array(this.buffer);
    this.used = 0;
    this.sums = this.take(16 * tokens);
  }

  take(size) {
    const at = this.used;
    this.used = Math.ceil((at + size) / 16) * 16;
    if (this.used > this.buffer.byteLength) throw new RangeError("the engine's memory is too small");
    return at;
  }

  floats(n) {
    return new Float32Array(this.buffer, this.take(4 * n), n);
  }

  // A matrix (rows, cols) whose bytes are still to come.
  matrix(kind, rows, cols) {
    const size = (rows * cols * BLOCK_BYTES[kind]) / BLOCK;
    return { kind, rows, cols, bytes: new Uint8Array(this.buffer, this.take(size), size) };
  }

  // One row of a matrix as numbers: the embedding of a token.
  row(W, r, out) {
    for (let c = 0; c < W.cols; c += BLOCK) {
      unpackBlock(W.kind, W.bytes, ((r * W.cols + c) / BLOCK) * BLOCK_BYTES[W.kind], out, c);
    }
  }

  // y (n, rows) = x (n, cols) W^T, for n tokens. x and y are in this memory.
  linear(y, W, x, n) {
    if (this.simd) {
      const four = W.kind === "q4_1" ? 1 : 0;
      this.kernel.linear(four, W.bytes.byteOffset, W.rows, W.cols, x.byteOffset, y.byteOffset, n, this.sums);
      return;
    }
    const w = new Float32Array(W.cols);
    for (let r = 0; r < W.rows; r++) {
      this.row(W, r, w);
      for (let t = 0; t < n; t++) {
        let sum = 0;
        for (let c = 0, at = t * W.cols; c < W.cols; c++, at++) sum += w[c] * x[at];
        y[t * W.rows + r] = sum;
      }
    }
  }
}
