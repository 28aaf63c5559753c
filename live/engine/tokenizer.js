// Text to token ids and back: byte-level byte pair encoding. It is taught in the chapter language_model.

// The text is first cut into words, and pairs are joined inside of a word only. Each digit is a word of its own; so is
// each run of letters, of signs or of blanks, and a single blank belongs to the word that follows.
const DIGITS = /(\p{N})/u;
const SPACE = "\\p{White_Space}";
const WORDS = new RegExp(
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!${SPACE.replace("p", "P")})|${SPACE}+|\\p{N}`,
  "gu",
);

// Vocabularies are files of text, so GPT-2 gave each byte a character that can be seen. Those that already have one
// keep it; the others get the characters from 256 on.
const seen = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
const HIDDEN = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !seen(byte));
const CHARACTERS = Array.from({ length: 256 }, (_, byte) =>
  String.fromCharCode(seen(byte) ? byte : 256 + HIDDEN.indexOf(byte)));
const BYTES = new Map(CHARACTERS.map((character, byte) => [character, byte]));

export class Tokenizer {
  // first: the tokens that are not made of others; pairs: the ids of the two tokens that each later token joins
  constructor({ first, pairs }) {
    this.names = [...first];
    this.made = new Map(); // of a pair of ids, as one number: the token
    for (let i = 0; i < pairs.length; i += 2) {
      this.made.set(this.key(pairs[i], pairs[i + 1]), this.names.length);
      this.names.push(this.names[pairs[i]] + this.names[pairs[i + 1]]);
    }
    this.ids = new Map(first.map((name, id) => [name, id]));
  }

  key(a, b) {
    return a * 65536 + b;
  }

  encode(text) {
    return text.split(DIGITS).flatMap((part) => part.match(WORDS) ?? []).flatMap((word) => this.encodeWord(word));
  }

  // One token for each byte; then the pair whose token is the earliest in the vocabulary is joined, until none is left.
  encodeWord(word) {
    const ids = [...new TextEncoder().encode(word)].map((byte) => this.ids.get(CHARACTERS[byte]))
      .filter((id) => id !== undefined); // some bytes, which text rarely has, are not in the vocabulary
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < ids.length; i++) {
        const token = this.made.get(this.key(ids[i], ids[i + 1])) ?? Infinity;
        if (token < best) [best, at] = [token, i];
      }
      if (at < 0) return ids;
      ids.splice(at, 2, best);
    }
  }

  // The bytes that a token stands for. A character may need several tokens, so a token's bytes need not be text.
  bytes(id) {
    const name = this.names[id];
    return [...name].every((character) => BYTES.has(character))
      ? Uint8Array.from(name, (character) => BYTES.get(character)) : new TextEncoder().encode(name);
  }

  decode(ids) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(ids.flatMap((id) => [...this.bytes(id)])));
  }
}
