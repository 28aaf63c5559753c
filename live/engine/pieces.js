// The model's pieces: fetched when they are needed, checked, and kept by the browser.
//
// A piece is named by its content, so one that is kept is never asked for again: what a broken line cut off goes on with
// the first piece that is missing, and a second visit needs no network. Where the browser keeps nothing (a private
// window, a full disk), the pieces are only in memory, and `kept` says so.

const STORE = "smollm2";
const TRIES = 3;
const PAUSE = 500; // milliseconds before the second try; twice as long before the third

const wait = (time) => new Promise((done) => { setTimeout(done, time); });

// An error with one piece, in words for the reader.
export class PieceError extends Error {}

export class Pieces {
  // base: the address of the folder; pause: see PAUSE
  constructor(base, { pause = PAUSE } = {}) {
    this.base = base;
    this.pause = pause;
    this.kept = typeof caches === "object";
    this.stored = this.kept ? caches.open(STORE).catch(() => this.notKept()) : Promise.resolve(null);
  }

  notKept() {
    this.kept = false;
    return null;
  }

  // The list of pieces: the newest or, without a network, the one from the last visit. Pieces of older lists go.
  async manifest() {
    const address = new URL("manifest.json", this.base).href, store = await this.stored;
    const answer = await fetch(address, { cache: "no-cache" }).catch(() => null);
    if (!answer?.ok) {
      const last = await store?.match(address);
      if (last) return last.json();
      throw new PieceError(answer ? `The model is not on this site (${address}: ${answer.status}).`
        : "The model could not be reached. Is there a network, and was this page opened from a web address?");
    }
    const found = await answer.clone().json();
    await this.keep(address, answer);
    const wanted = new Set([found.tokenizer, found.ends, ...found.layers, ...found.embeddings].map(({ file }) => file));
    for (const { url } of await store?.keys() ?? []) {
      if (url !== address && !wanted.has(url.split("/").at(-1))) await store.delete(url);
    }
    return found;
  }

  async keep(address, answer) {
    try {
      await (await this.stored)?.put(address, answer);
    } catch {
      this.notKept(); // the disk is full, or may not be used
    }
  }

  // The bytes of one piece, as the manifest describes it. again: called with a sentence when it has to be fetched again
  async get(piece, again = () => {}) {
    const address = new URL(piece.file, this.base).href, store = await this.stored;
    const stored = await store?.match(address);
    if (stored) {
      const bytes = new Uint8Array(await stored.arrayBuffer());
      if (await whole(bytes, piece)) return bytes;
      await store.delete(address);
      again(`${piece.file} was broken in the browser's store: it is fetched again.`);
    }
    let fault;
    for (let left = TRIES, pause = this.pause; left > 0; left--, pause *= 2) {
      try {
        const answer = await fetch(address, { cache: fault ? "reload" : "default" });
        if (!answer.ok) throw new Error(`the site answered ${answer.status}`);
        const bytes = new Uint8Array(await answer.arrayBuffer());
        if (!(await whole(bytes, piece))) throw new Error("its content is not what it should be");
        await this.keep(address, new Response(bytes));
        return bytes;
      } catch (error) {
        fault = error.message;
        if (left > 1) again(`${piece.file} did not come (${fault}): it is fetched again.`);
        await wait(left > 1 ? pause : 0);
      }
    }
    throw new PieceError(`${piece.file} did not come: ${fault}.`);
  }
}

// Is this the piece? Where the browser has no digests, as on a page without https, its length has to do.
async function whole(bytes, { bytes: length, sha256 }) {
  if (bytes.length !== length) return false;
  if (!globalThis.crypto?.subtle) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === sha256;
}
